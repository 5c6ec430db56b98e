// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices with hooks: which there are, and what becomes of them when devices come, go and move.
 *
 * While a port of a namespace has a role, all ports of its bridges have hooks, so that what comes
 * by one without a role is known to be free.  Who comes and goes is told by notifiers under RTNL;
 * what follows takes the lock of configuration, which is outside RTNL, and therefore is done by a
 * work item: it looks at all devices and puts right what has changed.  Whoever asks for the lock of
 * configuration waits for it, and so sees devices as they are.
 *
 * An uplink whose role is taken back keeps what it counted of strays, for its next one.
 *
 * Nothing tells which datapath an internal port is of.  It is taken for one of the namespace it is
 * in, if that has a datapath; if not, it was moved there, and every namespace that knows that one
 * by an id may have been its own.
 */
#include <linux/hashtable.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>

#include "../compat.h"
#include "../hook.h"
#include "../netlink/netlink.h"
#include "../netlink/walk.h"
#include "netdev.h"

/* All devices with hooks, by their address; changed under configuration and RTNL. */
static DEFINE_HASHTABLE(devices, 8);

/* Devices by their id; changed under configuration. */
static struct ovs_shim_device __rcu **by_id;

/* Where the search for a free id begins: one that was just given back is taken last. */
static u32 next_id = OVS_SHIM_ORIGIN_PORTS;

/* The lock of configuration. */
static DEFINE_MUTEX(configuration);

/* The module goes, and nothing needs to be put right any more; configuration. */
static bool stopping;

static void device_work(struct work_struct *unused);

/* Puts right what has changed. */
static DECLARE_WORK(work, device_work);

/* Lets it do so soon.  Configuration or RTNL. */
static void device_look(void)
{
	if (!READ_ONCE(stopping))
		schedule_work(&work);
}

void ovs_shim_lock(void)
{
	flush_work(&work);
	mutex_lock(&configuration);
}

void ovs_shim_unlock(void)
{
	mutex_unlock(&configuration);
}

bool ovs_shim_lock_is_held(void)
{
#ifdef CONFIG_LOCKDEP
	return lockdep_is_held(&configuration);
#else
	return true;
#endif
}

const struct ovs_shim_device *ovs_shim_device_by_id(u32 id)
{
	return id >= OVS_SHIM_ORIGIN_PORTS ? rcu_dereference(by_id[id]) : NULL;
}

struct ovs_shim_device *ovs_shim_device_of(const struct net_device *dev)
{
	struct ovs_shim_device *device;

	hash_for_each_possible_rcu(devices, device, node, (unsigned long)dev,
				   ovs_shim_lock_is_held() || lockdep_rtnl_is_held())
		if (device->dev == dev)
			return device;
	return NULL;
}

/* Tells whether a VM of a namespace has a law: else there is nothing to hook.  Configuration. */
static bool net_has_law(const struct net *net)
{
	return READ_ONCE(ovs_shim_net(net)->engine.n_ruled);
}

/* Tells whether a namespace has a datapath: its local port cannot be moved.  RCU or RTNL. */
static bool net_has_datapath(struct net *net)
{
	struct net_device *dev;

	for_each_netdev_rcu(net, dev)
		if (netif_is_ovs_master(dev) && ovs_shim_netns_local(dev))
			return true;
	return false;
}

/* Tells whether an internal port in namespace `in` may be one of a datapath in `of`.  RCU. */
static bool net_may_own(struct net *of, struct net *in)
{
	if (net_eq(of, in))
		return net_has_datapath(in);
	return peernet2id(of, in) >= 0 && !net_has_datapath(in);
}

/* Tells whether a device has an address that tunnels could leave from.  RCU. */
static bool device_has_address(const struct net_device *dev)
{
	const struct in_device *in = __in_dev_get_rcu(dev);
	bool found = in && rcu_access_pointer(in->ifa_list);
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *in6 = __in6_dev_get(dev);
	const struct inet6_ifaddr *address;

	if (found || !in6)
		return found;
	read_lock_bh(&in6->lock);
	list_for_each_entry(address, &in6->addr_list, if_list)
		found |= !(ipv6_addr_type(&address->addr) & IPV6_ADDR_LINKLOCAL);
	read_unlock_bh(&in6->lock);
#endif
	return found;
}

/* Tells whether a device that is no port can be an uplink that tunnels leave by.  RCU. */
static bool device_is_underlay(struct net_device *dev)
{
	return dev->type == ARPHRD_ETHER && !(dev->flags & IFF_LOOPBACK) &&
	       !netif_is_ovs_master(dev) && !netdev_master_upper_dev_get_rcu(dev) &&
	       !ovs_shim_is_tunnel(dev) && device_has_address(dev);
}

/* Tells whether a device without a role is to have hooks.  Configuration, RCU. */
static bool device_is_wanted(const struct net_device *dev)
{
	struct net *net = dev_net(dev), *other;

	if (netif_is_ovs_port(dev))
		return net_has_law(net);
	if (!netif_is_ovs_master(dev))
		return false;
	for_each_net_rcu(other)
		if (net_has_law(other) && net_may_own(other, net))
			return true;
	return false;
}

/* Returns a device's kind. */
static enum ovs_shim_device_kind device_kind(const struct net_device *dev)
{
	if (netif_is_ovs_master(dev))
		return OVS_SHIM_DEVICE_INTERNAL;
	if (!netif_is_ovs_port(dev))
		return OVS_SHIM_DEVICE_UNDERLAY;
	return ovs_shim_is_tunnel(dev) ? OVS_SHIM_DEVICE_TUNNEL : OVS_SHIM_DEVICE_PORT;
}

/* Puts the hooks on a device; 0 or a negative error number.  Configuration, RTNL. */
static int device_hook(struct ovs_shim_device *device)
{
	struct net *net = dev_net(device->dev);
	int err;

	err = nf_register_net_hook(net, &device->in);
	if (err)
		return err;
	err = nf_register_net_hook(net, &device->out);
	if (err)
		nf_unregister_net_hook(net, &device->in);
	device->hooked = !err;
	return err;
}

/* Takes the hooks off a device, which has no id, if it has them.  Configuration, RTNL. */
static void device_unhook(struct ovs_shim_device *device)
{
	struct net *net = dev_net(device->dev);

	if (!device->hooked)
		return;
	nf_unregister_net_hook(net, &device->in);
	nf_unregister_net_hook(net, &device->out);
	device->hooked = false;
}

/* Frees a device that no packet sees any more. */
static void device_free_rcu(struct rcu_head *head)
{
	struct ovs_shim_device *device = container_of(head, struct ovs_shim_device, rcu);

	netdev_put(device->dev, &device->tracker);
	kfree(device);
}

/* Returns what is known of a device, with hooks; an error pointer.  Configuration, RTNL. */
static struct ovs_shim_device *device_with_hooks(struct net_device *dev)
{
	struct ovs_shim_device *device = ovs_shim_device_of(dev);
	int err;

	if (device) {
		err = device->hooked ? 0 : device_hook(device);
		return err ? ERR_PTR(err) : device;
	}
	device = kzalloc(sizeof(*device), GFP_KERNEL_ACCOUNT);
	if (!device)
		return ERR_PTR(-ENOMEM);
	device->dev = dev;
	device->kind = device_kind(dev);
	device->id = OVS_SHIM_ORIGIN_FREE;
	spin_lock_init(&device->stray.lock);
	netdev_hold(dev, &device->tracker, GFP_KERNEL);
	ovs_shim_device_hooks(device);
	err = device_hook(device);
	if (err) {
		/* A packet may have seen the first hook. */
		call_rcu(&device->rcu, device_free_rcu);
		return ERR_PTR(err);
	}
	hash_add_rcu(devices, &device->node, (unsigned long)dev);
	return device;
}

/* Takes the hooks off a device and forgets all of it.  Configuration, RTNL. */
static void device_forget(struct ovs_shim_device *device)
{
	hash_del_rcu(&device->node);
	device_unhook(device);
	call_rcu(&device->rcu, device_free_rcu);
}

/* Gives a device an id of its own, unless it has one; 0 or -ENOSPC.  Configuration. */
static int device_take_id(struct ovs_shim_device *device)
{
	const u32 n = ovs_shim_mark.n_ids - OVS_SHIM_ORIGIN_PORTS;
	u32 i, id;

	if (device->id >= OVS_SHIM_ORIGIN_PORTS)
		return 0;
	for (i = 0; i < n; i++) {
		id = OVS_SHIM_ORIGIN_PORTS + (next_id - OVS_SHIM_ORIGIN_PORTS + i) % n;
		if (rcu_access_pointer(by_id[id]))
			continue;
		next_id = id + 1;
		rcu_assign_pointer(by_id[id], device);
		WRITE_ONCE(device->id, id);
		return 0;
	}
	return -ENOSPC;
}

/* Takes a device's role and id back; what it counted stays.  Configuration. */
static void device_drop_id(struct ovs_shim_device *device)
{
	RCU_INIT_POINTER(device->port, NULL);
	if (device->id < OVS_SHIM_ORIGIN_PORTS)
		return;
	RCU_INIT_POINTER(by_id[device->id], NULL);
	WRITE_ONCE(device->id, OVS_SHIM_ORIGIN_FREE);
}

/* Forgets the roles of devices that are no more what they were.  Configuration. */
static void device_forget_roles(void)
{
	struct ovs_shim_device *device;
	struct ovs_shim_port *port;
	struct hlist_node *next;
	int bucket;

	hash_for_each_safe(devices, bucket, next, device, node) {
		port = READ_ONCE(device->gone) ? ovs_shim_port_of(device->dev) : NULL;
		if (port)
			ovs_shim_port_del(port);
	}
}

/* Tells whether a device with a role is in a namespace where a VM has a law.  Configuration. */
static bool device_has_law(const struct ovs_shim_device *device)
{
	const struct ovs_shim_port *port = rcu_dereference_protected(device->port,
								     ovs_shim_lock_is_held());

	return port && READ_ONCE(port->net->engine.n_ruled);
}

/*
 * Takes the hooks off devices that need none any more, and forgets those of them that counted
 * nothing or are no more what they were.  Configuration, RTNL, RCU not held.
 */
static void device_unhook_unwanted(void)
{
	struct ovs_shim_device *device;
	struct hlist_node *next;
	bool wanted;
	int bucket;

	hash_for_each_safe(devices, bucket, next, device, node) {
		if (device->id >= OVS_SHIM_ORIGIN_PORTS) {
			if (!device_has_law(device))
				device_unhook(device);
			continue;
		}
		rcu_read_lock();
		wanted = !device->gone && device_is_wanted(device->dev);
		rcu_read_unlock();
		if (wanted)
			continue;
		if (device->gone || !ovs_shim_stray_any(&device->stray))
			device_forget(device);
		else
			device_unhook(device);
	}
}

/* Gives hooks to all devices of a namespace that need them.  Configuration, RTNL. */
static void device_hook_wanted(struct net *net)
{
	struct net_device *dev;
	bool wanted;

	for_each_netdev(net, dev) {
		rcu_read_lock();
		wanted = device_is_wanted(dev);
		rcu_read_unlock();
		/* Without them it counts as unknown, which is safe. */
		if (wanted && dev->reg_state == NETREG_REGISTERED && IS_ERR(device_with_hooks(dev)))
			net_warn_ratelimited("sdngcc: no hooks for %s\n", dev->name);
	}
}

/* Gives hooks to all devices with a role that need them.  Configuration, RTNL. */
static void device_hook_roles(void)
{
	struct ovs_shim_device *device;
	int bucket;

	hash_for_each(devices, bucket, device, node)
		if (device->id >= OVS_SHIM_ORIGIN_PORTS && !device->gone && !device->hooked &&
		    device_has_law(device) && device_hook(device))
			net_warn_ratelimited("sdngcc: no hooks for %s\n", device->dev->name);
}

/* Turns a key on or off.  Configuration. */
static void device_set_key(struct static_key_false *key, bool on)
{
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
}

/*
 * Tells the hooks whether there are tunnels without a role, and VMs behind internal ports.
 * Configuration.
 */
static void device_count_kinds(void)
{
	const struct ovs_shim_device *device;
	bool overlay = false, inner = false;
	int bucket;

	hash_for_each(devices, bucket, device, node) {
		overlay |= device->kind == OVS_SHIM_DEVICE_TUNNEL &&
			   device->id < OVS_SHIM_ORIGIN_PORTS;
		inner |= device->kind == OVS_SHIM_DEVICE_INTERNAL &&
			 device->id >= OVS_SHIM_ORIGIN_PORTS;
	}
	device_set_key(&ovs_shim_overlay, overlay);
	device_set_key(&ovs_shim_inner, inner);
}

void ovs_shim_hook_follow(void)
{
	struct net *net;

	rtnl_lock();
	device_unhook_unwanted();
	device_hook_roles();
	down_read(&net_rwsem);
	for_each_net(net)
		device_hook_wanted(net);
	up_read(&net_rwsem);
	rtnl_unlock();
	device_count_kinds();
}

/* The work item. */
static void device_work(struct work_struct *unused)
{
	mutex_lock(&configuration);
	device_forget_roles();
	ovs_shim_hook_follow();
	mutex_unlock(&configuration);
}

/*
 * Returns the internal port of that name that was moved to another namespace after it had got its
 * role, NULL if there is none.  RCU.
 */
static struct net_device *device_find_role(struct net *net, const char *name)
{
	const struct ovs_shim_port *port;
	unsigned long serial = 0;

	while ((port = ovs_shim_walk_next(ovs_shim_net(net), serial))) {
		if (!net_eq(dev_net(port->dev), net) && !strcmp(port->dev->name, name))
			return port->dev;
		serial = port->serial;
	}
	return NULL;
}

/*
 * Returns the internal port of that name, held, that was moved to another namespace; NULL if there
 * is none, or more than one.
 */
static struct net_device *device_find_moved(struct net *net, const char *name)
{
	struct net_device *dev, *found;
	bool many = false;
	struct net *other;

	rcu_read_lock();
	found = device_find_role(net, name);
	if (found)
		goto out;
	for_each_net_rcu(other) {
		if (net_eq(other, net) || !net_may_own(net, other))
			continue;
		dev = dev_get_by_name_rcu(other, name);
		if (!dev || !netif_is_ovs_master(dev))
			continue;
		many |= !!found;
		found = dev;
	}
	if (many)
		found = NULL;
out:
	dev_hold(found);
	rcu_read_unlock();
	return found;
}

struct net_device *ovs_shim_hook_find(struct net *net, const char *name, u32 ifindex)
{
	struct net_device *dev;
	bool fits;

	dev = name ? dev_get_by_name(net, name) : dev_get_by_index(net, ifindex);
	if (!dev)
		return name ? device_find_moved(net, name) : NULL;
	rcu_read_lock();
	fits = netif_is_ovs_port(dev) || device_is_underlay(dev) ||
	       (netif_is_ovs_master(dev) && net_may_own(net, net));
	rcu_read_unlock();
	if (fits)
		return dev;
	dev_put(dev);
	return NULL;
}

int ovs_shim_hook_attach(const struct ovs_shim_port *port, struct netlink_ext_ack *extack)
{
	struct net_device *dev = port->dev;
	struct ovs_shim_device *device;
	int err = -ENODEV;

	rtnl_lock();
	device = ovs_shim_device_of(dev);
	if (dev->reg_state != NETREG_REGISTERED || (device && device->gone))
		goto out;
	device = device_with_hooks(dev);
	err = PTR_ERR_OR_ZERO(device);
out:
	rtnl_unlock();
	if (err) {
		ovs_shim_say(extack, "port: %s cannot have netfilter's hooks", dev->name);
		return err;
	}
	if (device->kind == OVS_SHIM_DEVICE_UNDERLAY && port->role != OVS_SHIM_ROLE_UPLINK) {
		ovs_shim_say(extack, "role: %s is no port of a bridge, so it can be an uplink only",
			     dev->name);
		err = -EINVAL;
	} else if (device_take_id(device)) {
		ovs_shim_say(extack, "port: mark_mask 0x%x of the module has no id left for %s",
			     ovs_shim_mark.mask, dev->name);
		err = -ENOSPC;
	} else {
		rcu_assign_pointer(device->port, port);
	}
	device_look();
	return err;
}

void ovs_shim_hook_detach(const struct ovs_shim_port *port)
{
	struct ovs_shim_device *device = ovs_shim_device_of(port->dev);

	if (WARN_ON_ONCE(!device))
		return;
	device_drop_id(device);
	device_look();
}

/* Notes that a device leaves the system or its bridge, or joins one.  RTNL. */
static void device_changes(const struct net_device *dev)
{
	struct ovs_shim_device *device = ovs_shim_device_of(dev);

	if (!device)
		return;
	WRITE_ONCE(device->gone, true);
	device_look();
}

/* Hears of devices that come, go and move.  RTNL. */
static int device_event(struct notifier_block *unused, unsigned long event, void *info)
{
	const struct netdev_notifier_changeupper_info *upper = info;
	struct net_device *dev = netdev_notifier_info_to_dev(info);

	/* Nobody has a role. */
	if (hash_empty(devices))
		return NOTIFY_DONE;
	if (event == NETDEV_UNREGISTER) {
		/* An internal port that moves to another namespace remains a port. */
		if (!netif_is_ovs_master(dev) || dev->reg_state != NETREG_REGISTERED)
			device_changes(dev);
	} else if (event == NETDEV_REGISTER) {
		if (netif_is_ovs_master(dev))
			device_look();
	} else if (event == NETDEV_CHANGEUPPER && netif_is_ovs_master(upper->upper_dev)) {
		device_changes(dev);
		if (upper->linking)
			device_look();
	}
	return NOTIFY_DONE;
}

/* Who hears of devices. */
static struct notifier_block device_notifier = {
	.notifier_call = device_event,
};

int ovs_shim_devices_init(void)
{
	int err;

	by_id = kvcalloc(ovs_shim_mark.n_ids, sizeof(*by_id), GFP_KERNEL);
	if (!by_id)
		return -ENOMEM;
	err = register_netdevice_notifier(&device_notifier);
	if (err)
		kvfree(by_id);
	return err;
}

void ovs_shim_devices_stop(void)
{
	unregister_netdevice_notifier(&device_notifier);
	mutex_lock(&configuration);
	WRITE_ONCE(stopping, true);
	mutex_unlock(&configuration);
	cancel_work_sync(&work);
}

void ovs_shim_devices_exit(void)
{
	struct ovs_shim_device *device;
	struct hlist_node *next;
	int bucket;

	mutex_lock(&configuration);
	rtnl_lock();
	hash_for_each_safe(devices, bucket, next, device, node)
		device_forget(device);
	rtnl_unlock();
	mutex_unlock(&configuration);
	/* Packets leave the hooks, and functions of this module free what they saw. */
	synchronize_net();
	rcu_barrier();
	kvfree(by_id);
}
