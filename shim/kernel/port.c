// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ports: what the operator says a vport is to the shim, and what becomes of that when the vport,
 * its datapath or its namespace goes.  Configuration under ovs_mutex.
 */
#include <linux/ethtool.h>
#include <linux/limits.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "../../vport-internal_dev.h"
#include "../../vport-netdev.h"
#include "../core/arith.h"
#include "internal.h"

/* Bytes/s in a Mb/s, the unit of link speeds. */
#define BYTES_PER_MBIT 125000ULL

/* Returns the port configured for vport, NULL if there is none.  ovs_mutex. */
struct ovs_shim_port *ovs_shim_port_find(const struct vport *vport)
{
	return ovsl_dereference(vport->shim);
}

/* Returns a device's link speed in bytes/s, 0 if it tells none.  RTNL. */
static u64 link_rate(struct net_device *dev)
{
	struct ethtool_link_ksettings link;

	if (__ethtool_get_link_ksettings(dev, &link) || !link.base.speed ||
	    link.base.speed == (u32)SPEED_UNKNOWN)
		return 0;
	return link.base.speed * BYTES_PER_MBIT;
}

/*
 * Counts this namespace in ovs_shim_key if it has a VM with a law, so that packets look at ports
 * at all.  ovs_mutex; may sleep.
 */
void ovs_shim_port_count(struct ovs_shim_net *shim)
{
	struct ovs_shim_port *port;
	bool run = false;

	list_for_each_entry(port, &shim->ports, list)
		run |= !!port->clock;
	if (run && !shim->running)
		static_branch_inc(&ovs_shim_key);
	else if (!run && shim->running)
		static_branch_dec(&ovs_shim_key);
	shim->running = run;
}

/* Makes room for one more VM in the scratch of ovs_shim_divide(); 0 or -ENOMEM. */
static int grow_claims(struct ovs_shim_net *shim)
{
	u32 n = max_t(u32, 2 * shim->n_claims, 16);
	struct shim_claim *claims, *old;

	if (shim->n_vms < shim->n_claims)
		return 0;
	claims = kvcalloc(n, sizeof(*claims), GFP_KERNEL);
	if (!claims)
		return -ENOMEM;
	spin_lock_bh(&shim->lock);
	old = shim->claims;
	shim->claims = claims;
	shim->n_claims = n;
	spin_unlock_bh(&shim->lock);
	kvfree(old);
	return 0;
}

/*
 * Refuses a configuration of vport under which the guarantees of all VMs, any of which may use any
 * uplink, would exceed an uplink's capacity; rate is the vport's link speed, bytes/s.
 */
static int check_guarantees(const struct ovs_shim_net *shim, const struct vport *vport,
			    const struct ovs_shim_port_config *config, u64 rate,
			    struct netlink_ext_ack *extack)
{
	const struct ovs_shim_port *port, *least = NULL;
	const char *uplink = NULL;
	u64 guaranteed = 0, capacity = U64_MAX;

	if (config->role == OVS_SHIM_ROLE_VM) {
		guaranteed = config->min;
	} else {
		capacity = config->capacity ?: rate;
		uplink = vport->dev->name;
	}
	list_for_each_entry(port, &shim->ports, list) {
		if (port->vport == vport)
			continue;
		if (port->role == OVS_SHIM_ROLE_VM) {
			guaranteed = shim_add_sat(guaranteed, port->min);
		} else if (ovs_shim_capacity(port) < capacity) {
			capacity = ovs_shim_capacity(port);
			least = port;
		}
	}
	if (guaranteed <= capacity)
		return 0;
	if (least)
		uplink = least->vport->dev->name;
	ovs_shim_say(extack,
		     "min-rate: guarantees sum to %llu bytes/s, uplink %s has only %llu",
		     guaranteed, uplink, capacity);
	return -EDQUOT;
}

/* Returns a new port for vport, listed, with no role for packets yet; NULL without memory. */
static struct ovs_shim_port *create(struct ovs_shim_net *shim, struct vport *vport,
				    enum ovs_shim_role role)
{
	struct ovs_shim_port *port;

	if (role == OVS_SHIM_ROLE_VM && grow_claims(shim))
		return NULL;
	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return NULL;
	port->role = role;
	port->shim = shim;
	port->vport = vport;
	port->ifindex = vport->dev->ifindex;
	port->own_law = OVS_SHIM_LAW_DEFAULT;
	INIT_LIST_HEAD(&port->active);
	INIT_LIST_HEAD(&port->tick_list);
	INIT_LIST_HEAD(&port->peers);
	INIT_LIST_HEAD(&port->flows);
	spin_lock_bh(&shim->lock);
	list_add_tail(&port->list, &shim->ports);
	if (role == OVS_SHIM_ROLE_UPLINK)
		list_add_tail(&port->uplink_list, &shim->uplinks);
	shim->n_vms += role == OVS_SHIM_ROLE_VM;
	shim->generation++;
	spin_unlock_bh(&shim->lock);
	return port;
}

/*
 * Creates or changes the port of vport; 0, or a negative error number and the reason in *extack
 * with everything as it was.  config->role is VM or uplink.  ovs_mutex.
 */
int ovs_shim_port_set(struct ovs_shim_net *shim, struct vport *vport,
		      const struct ovs_shim_port_config *config, struct netlink_ext_ack *extack)
{
	struct ovs_shim_port *port = ovs_shim_port_find(vport);
	struct ovs_shim_port *old = port;
	u64 rate = 0;
	int err;

	if (config->max && config->max < config->min) {
		ovs_shim_say(extack,
			     "max-rate: %llu bytes/s is below min-rate, %llu bytes/s",
			     config->max, config->min);
		return -EINVAL;
	}
	if (config->role == OVS_SHIM_ROLE_UPLINK) {
		rtnl_lock();
		rate = link_rate(vport->dev);
		rtnl_unlock();
		if (!config->capacity && !rate) {
			ovs_shim_say(extack,
				     "capacity: %s tells no link speed, so a value above 0 is needed",
				     vport->dev->name);
			return -EINVAL;
		}
	}
	err = check_guarantees(shim, vport, config, rate, extack);
	if (err)
		return err;
	if (!port || port->role != config->role) {
		port = create(shim, vport, config->role);
		if (!port)
			return -ENOMEM;
		if (old)
			ovs_shim_port_del(old);
		rcu_assign_pointer(vport->shim, port);
	}
	spin_lock_bh(&shim->lock);
	port->weight = config->weight;
	port->min = config->min;
	port->max = config->max;
	port->capacity = config->capacity;
	port->own_law = config->law;
	port->link_rate = rate;
	spin_unlock_bh(&shim->lock);
	ovs_shim_settings_apply(shim, &shim->settings);
	return 0;
}

/* Frees the limiters on an uplink, whichever VM they are of.  shim->lock. */
static void free_on_uplink(struct ovs_shim_net *shim, const struct ovs_shim_port *uplink)
{
	struct ovs_shim_pair __rcu **link;
	struct ovs_shim_pair *pair;
	struct ovs_shim_port *vm;

	list_for_each_entry(vm, &shim->ports, list) {
		link = &vm->pairs;
		while ((pair = rcu_dereference_protected(*link, lockdep_is_held(&shim->lock)))) {
			if (pair->uplink == uplink)
				ovs_shim_limiter_free(link);
			else
				link = &pair->next;
		}
	}
}

/*
 * Forgets a port with all its limiters; packets may hold them until a grace period is over.
 * ovs_mutex.
 */
void ovs_shim_port_del(struct ovs_shim_port *port)
{
	struct ovs_shim_net *shim = port->shim;

	RCU_INIT_POINTER(port->vport->shim, NULL);
	spin_lock_bh(&shim->lock);
	free_on_uplink(shim, port);
	while (rcu_access_pointer(port->pairs))
		ovs_shim_limiter_free(&port->pairs);
	ovs_shim_peers_free(port);
	ovs_shim_flows_free(port);
	list_del_init(&port->tick_list);
	list_del_init(&port->list);
	if (port->role == OVS_SHIM_ROLE_UPLINK)
		list_del(&port->uplink_list);
	shim->n_vms -= port->role == OVS_SHIM_ROLE_VM;
	shim->divide_rx = true;
	shim->generation++;
	spin_unlock_bh(&shim->lock);
	ovs_shim_port_count(shim);
	kfree_rcu(port, rcu);
}

void ovs_shim_vport_gone(struct vport *vport)
{
	struct ovs_shim_port *port = ovs_shim_port_find(vport);

	if (port)
		ovs_shim_port_del(port);
}

/* Follows the link speed of uplinks.  RTNL. */
static int device_event(struct notifier_block *unused, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct ovs_shim_port *port = NULL;
	struct vport *vport;
	u64 rate;

	if (event != NETDEV_CHANGE && event != NETDEV_UP)
		return NOTIFY_DONE;
	vport = ovs_netdev_get_vport(dev);
	if (!vport)
		return NOTIFY_DONE;
	rate = link_rate(dev);
	rcu_read_lock();
	port = rcu_dereference(vport->shim);
	/* A link that is down tells no speed: the last one stays. */
	if (port && port->role == OVS_SHIM_ROLE_UPLINK && rate) {
		spin_lock_bh(&port->shim->lock);
		port->shim->divide |= port->link_rate != rate;
		port->shim->divide_rx |= port->link_rate != rate;
		port->link_rate = rate;
		spin_unlock_bh(&port->shim->lock);
	}
	rcu_read_unlock();
	return NOTIFY_DONE;
}

struct notifier_block ovs_shim_device_notifier = {
	.notifier_call = device_event,
};
