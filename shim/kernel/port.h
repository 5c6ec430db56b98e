/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ports: what the operator says a device is to the shim.  They stand in a table of the shim's own,
 * so that structs of others stay what they were.
 *
 * "Configuration" is the lock that ovs_shim_lock() takes.
 */
#ifndef OVS_SHIM_PORT_H
#define OVS_SHIM_PORT_H

#include <linux/notifier.h>
#include <linux/rhashtable-types.h>
#include <linux/xarray.h>

#include "../core/engine/engine.h"
#include "uapi/ovs_shim.h"

struct net_device;
struct netlink_ext_ack;

/* A namespace's part of the shim. */
struct ovs_shim_net {
	struct shim_engine engine;	/* all there is to it */
	struct xarray ports;		/* struct ovs_shim_port by serial; configuration, RCU */
	u32 next_serial;		/* where the search for one begins; configuration */
	bool running;			/* it is counted in ovs_shim_key; configuration */
};

/* A device with a role; found under RCU or configuration, fixed but for qdisc, vlan and tags. */
struct ovs_shim_port {
	struct rhash_head node;		/* in the table of ports */
	struct net_device *dev;		/* by which it is found; stays as long as it is */
	struct ovs_shim_net *net;	/* its namespace */
	enum ovs_shim_role role;	/* VM or uplink */
	union {
		struct shim_vm *vm;	/* of a VM */
		struct shim_uplink *uplink;	/* of an uplink */
	};
	u32 serial;			/* where it stands in net->ports; never 0 */
	int ifindex;			/* of its device */
	enum ovs_shim_qdisc qdisc;	/* of an uplink, as last looked at; configuration */
	u32 overhead;			/* of an uplink, as configured; 0: by the device */
	u32 outer;	/* of a tunnel's device with that: overhead of its shortest headers */
	u32 vlan;			/* of a VM: protocol and tag that its packets leave with */
	u8 tags;			/* of a VM: the fewest that a packet to a peer left with */
	struct rcu_head rcu;		/* deferred free */
};

/* Returns the index of a VM's device. */
static inline int ovs_shim_vm_ifindex(const struct shim_vm *vm)
{
	return ((const struct ovs_shim_port *)vm->port)->ifindex;
}

/* Returns the index of an uplink's device. */
static inline int ovs_shim_uplink_ifindex(const struct shim_uplink *uplink)
{
	return ((const struct ovs_shim_port *)uplink->port)->ifindex;
}

/* What an operator asks of a port. */
struct ovs_shim_port_config {
	enum ovs_shim_role role;	/* VM or uplink */
	struct shim_vm_config vm;	/* of a VM */
	u64 capacity;			/* of an uplink: bytes/s; 0: the device's link speed */
	u32 overhead;			/* of an uplink: bytes a packet; 0: by the device */
	bool set_addresses;		/* of a VM: addresses are to be changed */
	struct shim_prefixes *addresses;	/* to these; NULL: none set; owned by who asks */
};

/* Returns a namespace's part of the shim. */
struct ovs_shim_net *ovs_shim_net(const struct net *net);

/* Returns the port configured for a device, NULL if there is none.  RCU or configuration. */
struct ovs_shim_port *ovs_shim_port_of(const struct net_device *dev);

/*
 * Takes in the headers of the tunnel that a packet to an uplink with `outer` goes into: IPv6 ones
 * are longer, and there may be options.  RCU.
 */
void ovs_shim_port_see_outer(const struct ovs_shim_port *port, const struct sk_buff *skb);

/* Changes whenever what ovs_shim_port_of() finds for a device may be another, or is none. */
extern u32 ovs_shim_port_generation;

/* Tells whether a device leads into tunnels. */
bool ovs_shim_is_tunnel(const struct net_device *dev);

/*
 * Creates or changes the port of a device; 0, or a negative error number and the reason in *extack
 * with everything as it was.  On success it takes config->addresses over and sets them to NULL.
 * Configuration.
 */
int ovs_shim_port_set(struct ovs_shim_net *net, struct net_device *dev,
		      struct ovs_shim_port_config *config, struct netlink_ext_ack *extack);

/* Forgets a port; packets may hold it until a grace period is over.  Configuration. */
void ovs_shim_port_del(struct ovs_shim_port *port);

/*
 * Forgets all ports of a namespace, and waits until no packet holds one.  Takes configuration; may
 * sleep.
 */
void ovs_shim_ports_flush(struct ovs_shim_net *net);

/* Counts the namespace in ovs_shim_key while a VM of it has a law.  Configuration; may sleep. */
void ovs_shim_net_count(struct ovs_shim_net *net);

/* Looks whether an uplink's qdisc obeys departure times.  Configuration, takes RTNL. */
void ovs_shim_port_look(struct ovs_shim_port *port);

/* Prepares the table of ports; 0 or a negative error number. */
int ovs_shim_ports_init(void);

/* Ends the table of ports, which is empty by now. */
void ovs_shim_ports_exit(void);

extern struct notifier_block ovs_shim_device_notifier;

#endif
