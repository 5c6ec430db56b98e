// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ports: what the operator says a device is to the shim, and what becomes of that when the device,
 * its datapath or its namespace goes.  The hook's lock is the engine's lock of configuration; RTNL
 * is taken inside it.
 *
 * The table of ports is one for all namespaces, for a device's address is unique among them.
 */
#include <linux/ethtool.h>
#include <linux/hash.h>
#include <linux/limits.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/rhashtable.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <net/geneve.h>
#include <net/gre.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>
#include <net/vxlan.h>

#include "compat.h"
#include "frame.h"
#include "hook.h"
#include "netlink/netlink.h"
#include "netlink/walk.h"
#include "ovs_shim.h"
#include "pass.h"
#include "port.h"

/* Devices that may stand on one another: the kernel allows as many (MAX_NEST_DEV). */
#define STACK_MAX 8

/* Bytes/s in a Mb/s, the unit of link speeds. */
#define BYTES_PER_MBIT 125000ULL

/* Headers of UDP and of VXLAN or Geneve, and that of GRE with a key, bytes. */
#define UDP_TUNNEL_BYTES 16
#define GRE_KEY_BYTES 8

/* Returns the hash of a pointer to a device, by which packets find ports: no loop, no call. */
static inline u32 port_hash(const void *key, u32 len, u32 seed)
{
	return hash_ptr(*(const struct net_device *const *)key, 32) ^ seed;
}

/* Tells whether a port is another device's. */
static inline int port_differs(struct rhashtable_compare_arg *arg, const void *object)
{
	return ((const struct ovs_shim_port *)object)->dev !=
	       *(const struct net_device *const *)arg->key;
}

/* How ports are found by their device. */
static const struct rhashtable_params port_table_params = {
	.head_offset = offsetof(struct ovs_shim_port, node),
	.key_offset = offsetof(struct ovs_shim_port, dev),
	.key_len = sizeof(const struct net_device *),
	.hashfn = port_hash,
	.obj_cmpfn = port_differs,
	.automatic_shrinking = true,
};

/* All ports; changed under configuration. */
static struct rhashtable port_table;

/* Changes with the table, after it where a port goes; never 0. */
u32 ovs_shim_port_generation = 1;

/* Has packets look at the table again: it has changed.  Configuration. */
static void port_table_changed(void)
{
	u32 next = ovs_shim_port_generation + 1;

	/* Whoever sees the new generation finds the table as it is now. */
	smp_wmb();
	WRITE_ONCE(ovs_shim_port_generation, next ?: 1);
}

int ovs_shim_ports_init(void)
{
	return rhashtable_init(&port_table, &port_table_params);
}

struct ovs_shim_port *ovs_shim_port_of(const struct net_device *dev)
{
	return rhashtable_lookup_fast(&port_table, &dev, port_table_params);
}

void ovs_shim_net_count(struct ovs_shim_net *net)
{
	bool run = net->engine.n_ruled;

	ovs_shim_pass_reset();
	if (run && !net->running)
		static_branch_inc(&ovs_shim_key);
	else if (!run && net->running)
		static_branch_dec(&ovs_shim_key);
	if (run == net->running)
		return;
	net->running = run;
	ovs_shim_hook_follow();
}

/* Returns a device's link speed in bytes/s, 0 if it tells none.  RTNL. */
static u64 port_link_rate(struct net_device *dev)
{
	struct ethtool_link_ksettings link;

	if (__ethtool_get_link_ksettings(dev, &link) || !link.base.speed ||
	    link.base.speed == (u32)SPEED_UNKNOWN)
		return 0;
	return link.base.speed * BYTES_PER_MBIT;
}

bool ovs_shim_is_tunnel(const struct net_device *dev)
{
	return netif_is_vxlan(dev) || netif_is_geneve(dev) || netif_is_gretap(dev) ||
	       netif_is_ip6gretap(dev);
}

/*
 * Returns what a packet takes of the wire behind a device beyond its bytes, where nothing is set:
 * Ethernet's, and before it the headers of a tunnel, over IPv4 if it may be over either.
 */
static u32 port_overhead(const struct net_device *dev)
{
	if (netif_is_vxlan(dev) || netif_is_geneve(dev))
		return SHIM_OVERHEAD_ETHERNET + ETH_HLEN + sizeof(struct iphdr) + UDP_TUNNEL_BYTES;
	if (netif_is_gretap(dev))
		return SHIM_OVERHEAD_ETHERNET + ETH_HLEN + sizeof(struct iphdr) + GRE_KEY_BYTES;
	if (netif_is_ip6gretap(dev))
		return SHIM_OVERHEAD_ETHERNET + ETH_HLEN + sizeof(struct ipv6hdr) + GRE_KEY_BYTES;
	return SHIM_OVERHEAD_ETHERNET;
}

void ovs_shim_port_see_outer(const struct ovs_shim_port *port, const struct sk_buff *skb)
{
	const struct metadata_dst *tunnel = ovs_shim_frame_tunnel(skb);
	u32 overhead = port->outer;

	if (!tunnel)
		return;
	overhead += tunnel->u.tun_info.options_len;
	if (ip_tunnel_info_af(&tunnel->u.tun_info) == AF_INET6 && !netif_is_ip6gretap(port->dev))
		overhead += sizeof(struct ipv6hdr) - sizeof(struct iphdr);
	if (overhead > READ_ONCE(port->uplink->overhead))
		shim_uplink_set_overhead(port->uplink, overhead);
}

/* Tells whether a queuing discipline is of that kind. */
static bool port_qdisc_is(const struct Qdisc *qdisc, const char *id)
{
	return qdisc && !strcmp(qdisc->ops->id, id);
}

/* Tells whether each queue that a device sends from has an fq of its own.  RTNL. */
static bool port_every_queue_has_fq(struct net_device *dev)
{
	unsigned int i;

	for (i = 0; i < dev->real_num_tx_queues; i++)
		if (!port_qdisc_is(rtnl_dereference(netdev_get_tx_queue(dev, i)->qdisc_sleeping),
				   "fq"))
			return false;
	return true;
}

/*
 * Tells whether a device's own queuing discipline obeys departure times.  A tunnel has none, and
 * leaves them to the device below; one that is not yet attached cannot be known.  RTNL.
 */
static enum ovs_shim_qdisc port_own_qdisc_fits(struct net_device *dev)
{
	const struct Qdisc *root = rtnl_dereference(dev->qdisc);

	if (!root || port_qdisc_is(root, "noop"))
		return OVS_SHIM_QDISC_UNKNOWN;
	if (port_qdisc_is(root, "noqueue") && ovs_shim_is_tunnel(dev))
		return OVS_SHIM_QDISC_UNKNOWN;
	if (port_qdisc_is(root, "fq"))
		return OVS_SHIM_QDISC_FIT;
	if ((port_qdisc_is(root, "mq") || port_qdisc_is(root, "mqprio")) &&
	    port_every_queue_has_fq(dev))
		return OVS_SHIM_QDISC_FIT;
	return OVS_SHIM_QDISC_UNFIT;
}

/*
 * Tells whether a device's packets wait for their departure times.  One without a queuing
 * discipline that stands on others (VLAN, bond, team, macvlan and so on) leaves them to these, all
 * of which must obey.  depth: how many more may stand on one another.  RTNL.
 */
static enum ovs_shim_qdisc port_qdisc_fits(struct net_device *dev, int depth)
{
	enum ovs_shim_qdisc all = OVS_SHIM_QDISC_UNKNOWN, one;
	struct net_device *lower;
	struct list_head *iter;

	if (!depth || list_empty(&dev->adj_list.lower) ||
	    !port_qdisc_is(rtnl_dereference(dev->qdisc), "noqueue"))
		return port_own_qdisc_fits(dev);
	netdev_for_each_lower_dev(dev, lower, iter) {
		one = port_qdisc_fits(lower, depth - 1);
		if (one == OVS_SHIM_QDISC_UNFIT)
			return one;
		if (one == OVS_SHIM_QDISC_FIT)
			all = one;
	}
	return all;
}

void ovs_shim_port_look(struct ovs_shim_port *port)
{
	const struct shim_settings *settings = shim_engine_settings(&port->net->engine);

	if (port->role != OVS_SHIM_ROLE_UPLINK)
		return;
	/* Packets that are dropped or sent at once need no discipline. */
	if (settings->limiter == SHIM_LIMITER_POLICE) {
		port->qdisc = OVS_SHIM_QDISC_FIT;
		return;
	}
	rtnl_lock();
	port->qdisc = port_qdisc_fits(port->dev, STACK_MAX);
	rtnl_unlock();
}

/*
 * Refuses a configuration of a device under which the guarantees of all VMs, any of which may use
 * any uplink, would exceed an uplink's capacity.  port: the device's port as it is, NULL if it has
 * none; link_rate: its link speed, bytes/s.
 */
static int port_check_guarantees(const struct ovs_shim_net *net, const struct net_device *dev,
				 const struct ovs_shim_port *port,
				 const struct ovs_shim_port_config *config, u64 link_rate,
				 struct netlink_ext_ack *extack)
{
	const struct shim_uplink *least = NULL, *except = NULL;
	u64 guaranteed = net->engine.guaranteed;
	u64 capacity = U64_MAX, exceeded;
	const char *name = dev->name;

	if (port && port->role == OVS_SHIM_ROLE_VM)
		guaranteed -= port->vm->config.min;
	if (port && port->role == OVS_SHIM_ROLE_UPLINK)
		except = port->uplink;
	if (config->role == OVS_SHIM_ROLE_VM)
		guaranteed += config->vm.min;
	else
		capacity = shim_capacity_of(config->capacity, link_rate);
	exceeded = shim_engine_exceeds(&net->engine, guaranteed, capacity, except, &least);
	if (!exceeded)
		return 0;
	if (least)
		name = ((const struct ovs_shim_port *)least->port)->dev->name;
	ovs_shim_say(extack,
		     "min-rate: guarantees sum to %llu bytes/s, uplink %s has only %llu",
		     guaranteed, name, exceeded);
	return -EDQUOT;
}

/*
 * Tells whether a device is a port of a network card's own switch, as representors are: the card
 * may forward what comes by it, past the shim.
 */
static bool port_is_switched(struct net_device *dev)
{
	bool is;

	rtnl_lock();
	is = ovs_shim_switched(dev);
	rtnl_unlock();
	return is;
}

/*
 * Checks what an operator asks of a device whose port is `port`, NULL for none; 0 and its link
 * speed in *link_rate if it is an uplink, or a negative error number and the reason in *extack.
 */
static int port_check(const struct ovs_shim_net *net, struct net_device *dev,
		      const struct ovs_shim_port *port, const struct ovs_shim_port_config *config,
		      u64 *link_rate, struct netlink_ext_ack *extack)
{
	*link_rate = 0;
	if (config->vm.max && config->vm.max < config->vm.min) {
		ovs_shim_say(extack,
			     "max-rate: %llu bytes/s is below min-rate, %llu bytes/s",
			     config->vm.max, config->vm.min);
		return -EINVAL;
	}
	if (config->role == OVS_SHIM_ROLE_VM && port_is_switched(dev)) {
		ovs_shim_say(extack,
			     "role: %s is a port of a NIC's switch (SR-IOV), which forwards past the shim",
			     dev->name);
		return -EOPNOTSUPP;
	}
	if (config->role == OVS_SHIM_ROLE_UPLINK) {
		rtnl_lock();
		*link_rate = port_link_rate(dev);
		rtnl_unlock();
		if (!config->capacity && !*link_rate) {
			ovs_shim_say(extack,
				     "capacity: %s tells no link speed, so a value above 0 is needed",
				     dev->name);
			return -EINVAL;
		}
	}
	return port_check_guarantees(net, dev, port, config, *link_rate, extack);
}

/* Ends what a port is to the engine, and frees it; no packet finds it any more. */
static void port_free(struct ovs_shim_port *port)
{
	if (port->serial)
		ovs_shim_walk_remove(port->net, port);
	if (port->role == OVS_SHIM_ROLE_VM)
		shim_vm_remove(port->vm);
	else
		shim_uplink_remove(port->uplink);
	kfree_rcu(port, rcu);
}

/* Returns a new port for a device that no packet finds yet; NULL without memory. */
static struct ovs_shim_port *port_create(struct ovs_shim_net *net, struct net_device *dev,
					 enum ovs_shim_role role)
{
	struct ovs_shim_port *port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);

	if (!port)
		return NULL;
	port->dev = dev;
	port->net = net;
	port->role = role;
	port->ifindex = dev->ifindex;
	port->tags = U8_MAX;
	if (role == OVS_SHIM_ROLE_VM)
		port->vm = shim_vm_create(&net->engine, port);
	else
		port->uplink = shim_uplink_create(&net->engine, port);
	if (role == OVS_SHIM_ROLE_VM ? !port->vm : !port->uplink) {
		kfree(port);
		return NULL;
	}
	if (ovs_shim_walk_add(net, port)) {
		port_free(port);
		return NULL;
	}
	return port;
}

/* Puts what an operator asks of a port in force, but for a VM's addresses. */
static void port_configure(struct ovs_shim_port *port, const struct ovs_shim_port_config *config,
			   u64 link_rate)
{
	if (port->role == OVS_SHIM_ROLE_VM) {
		shim_vm_configure(port->vm, &config->vm);
	} else {
		port->overhead = config->overhead;
		WRITE_ONCE(port->outer, !config->overhead && ovs_shim_is_tunnel(port->dev) ?
			   port_overhead(port->dev) : 0);
		shim_uplink_set_overhead(port->uplink,
					 config->overhead ?: port_overhead(port->dev));
		shim_uplink_configure(port->uplink, config->capacity, link_rate);
		ovs_shim_port_look(port);
	}
}

/*
 * Gives packets a new, configured port in the place of the old one, NULL for none; frees whichever
 * is not in the table then.  0, or a negative error number and perhaps a reason in *extack.
 */
static int port_publish(struct ovs_shim_port *port, struct ovs_shim_port *old,
			struct netlink_ext_ack *extack)
{
	int err;

	err = ovs_shim_hook_attach(port, extack);
	if (err)
		goto error;
	if (old)
		err = rhashtable_replace_fast(&port_table, &old->node, &port->node,
					      port_table_params);
	else
		err = rhashtable_insert_fast(&port_table, &port->node, port_table_params);
	if (err && old)
		ovs_shim_hook_attach(old, NULL);
	else if (err)
		ovs_shim_hook_detach(port);
	if (err)
		goto error;
	port_table_changed();
	if (old)
		port_free(old);
	return 0;

error:
	port_free(port);
	return err;
}

/* Sets the addresses that a VM may send from, if asked to; false without memory.  Configuration. */
static bool port_set_addresses(struct ovs_shim_port *port, struct ovs_shim_port_config *config)
{
	if (port->role != OVS_SHIM_ROLE_VM || !config->set_addresses)
		return true;
	if (!shim_sources_set(port->vm, config->addresses))
		return false;
	config->addresses = NULL;
	return true;
}

int ovs_shim_port_set(struct ovs_shim_net *net, struct net_device *dev,
		      struct ovs_shim_port_config *config, struct netlink_ext_ack *extack)
{
	struct ovs_shim_port *old = ovs_shim_port_of(dev);
	struct ovs_shim_port *port = old;
	u64 link_rate;
	int err;

	if (old && old->net != net) {
		ovs_shim_say(extack, "port: %s has a role in another namespace", dev->name);
		return -EBUSY;
	}
	err = port_check(net, dev, old, config, &link_rate, extack);
	if (err)
		return err;
	if (!old || old->role != config->role) {
		port = port_create(net, dev, config->role);
		if (!port)
			return -ENOMEM;
		if (!port_set_addresses(port, config)) {
			port_free(port);
			return -ENOMEM;
		}
		port_configure(port, config, link_rate);
		err = port_publish(port, old, extack);
		if (err)
			return err;
	} else {
		if (!port_set_addresses(port, config))
			return -ENOMEM;
		port_configure(port, config, link_rate);
	}
	ovs_shim_net_count(net);
	return 0;
}

void ovs_shim_port_del(struct ovs_shim_port *port)
{
	struct ovs_shim_net *net = port->net;

	rhashtable_remove_fast(&port_table, &port->node, port_table_params);
	port_table_changed();
	ovs_shim_hook_detach(port);
	port_free(port);
	ovs_shim_net_count(net);
}

void ovs_shim_ports_flush(struct ovs_shim_net *net)
{
	struct ovs_shim_port *port;
	bool any = false;

	ovs_shim_lock();
	while ((port = ovs_shim_walk_next(net, 0))) {
		ovs_shim_port_del(port);
		any = true;
	}
	ovs_shim_unlock();
	if (any)
		synchronize_net();
}

/* Returns the port of a device that is an uplink, NULL if it is none.  RCU. */
static const struct ovs_shim_port *port_uplink_of(const struct net_device *dev)
{
	const struct ovs_shim_port *port = ovs_shim_port_of(dev);

	return port && port->role == OVS_SHIM_ROLE_UPLINK ? port : NULL;
}

/* Takes the link speed of a device as it is now, if it is an uplink.  RTNL. */
static void port_follow_speed(struct net_device *dev)
{
	const struct ovs_shim_port *port;
	bool is_uplink;
	u64 link_rate;

	rcu_read_lock();
	is_uplink = port_uplink_of(dev);
	rcu_read_unlock();
	if (!is_uplink)
		return;
	link_rate = port_link_rate(dev);
	rcu_read_lock();
	port = port_uplink_of(dev);
	/* A link that is down tells no speed: the last one stays. */
	if (port && link_rate)
		shim_uplink_link_rate(port->uplink, link_rate);
	rcu_read_unlock();
}

/* The work item: takes the link speeds of all uplinks as they are now. */
static void port_speed_work(struct work_struct *unused)
{
	struct net_device *dev;
	struct net *net;

	rtnl_lock();
	down_read(&net_rwsem);
	for_each_net(net)
		for_each_netdev(net, dev)
			port_follow_speed(dev);
	up_read(&net_rwsem);
	rtnl_unlock();
}

/* Runs it. */
static DECLARE_WORK(port_speed, port_speed_work);

void ovs_shim_ports_exit(void)
{
	cancel_work_sync(&port_speed);
	WARN_ON_ONCE(atomic_read(&port_table.nelems));
	rhashtable_destroy(&port_table);
}

/* Lets the work item look at a device's link speed, if it is an uplink. */
static void port_speed_changed(const struct net_device *dev)
{
	rcu_read_lock();
	if (port_uplink_of(dev))
		schedule_work(&port_speed);
	rcu_read_unlock();
}

/*
 * Follows the link speed of uplinks.  A bond's is that of its members that carry packets, which it
 * decides itself, and tells then.  Whoever asks a device takes its own lock, where the kernel has
 * that, and a notifier may be called with it held; so a work item asks.  RTNL.
 */
static int port_device_event(struct notifier_block *unused, unsigned long event, void *info)
{
	const struct netdev_notifier_changeupper_info *change = info;
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct net_device *bond = NULL;

	switch (event) {
	case NETDEV_CHANGE:
	case NETDEV_UP:
	case NETDEV_DOWN:
		port_speed_changed(dev);
		fallthrough;
	case NETDEV_CHANGELOWERSTATE:
		bond = netdev_master_upper_dev_get(dev);
		break;
	case NETDEV_CHANGEUPPER:
		bond = change->upper_dev;
		break;
	}
	if (bond && netif_is_lag_master(bond))
		port_speed_changed(bond);
	return NOTIFY_DONE;
}

struct notifier_block ovs_shim_device_notifier = {
	.notifier_call = port_device_event,
};
