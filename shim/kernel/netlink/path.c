// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": paths, the parts of what VMs send that controllers told of.
 */
#include <linux/kernel.h>
#include <linux/rcupdate_wait.h>
#include <linux/sched.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "netlink.h"
#include "walk.h"

/* Puts a number of 64 bits. */
static int nl_path_put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OVS_SHIM_PATH_PAD);
}

/* Puts a path of a VM.  vm->lock. */
static int nl_path_put(struct sk_buff *skb, const struct shim_vm *vm, struct shim_path *path)
{
	const struct ovs_shim_port *port = vm->port;
	struct shim_path_reading now;

	shim_path_read(path, &now);
	if (nla_put_u32(skb, OVS_SHIM_PATH_VM, port->ifindex) ||
	    nla_put(skb, OVS_SHIM_PATH_PREFIX, sizeof(now.prefix), &now.prefix) ||
	    nla_put_u8(skb, OVS_SHIM_PATH_BITS, now.bits) ||
	    nla_put_u8(skb, OVS_SHIM_PATH_SCOPE, now.scope) ||
	    nl_path_put_u64(skb, OVS_SHIM_PATH_RATE, now.rate) ||
	    nl_path_put_u64(skb, OVS_SHIM_PATH_SENT_RATE, now.sent_rate) ||
	    nl_path_put_u64(skb, OVS_SHIM_PATH_TX_BYTES, now.bytes) ||
	    nl_path_put_u64(skb, OVS_SHIM_PATH_TX_PACKETS, now.packets) ||
	    nl_path_put_u64(skb, OVS_SHIM_PATH_HELD, now.held) ||
	    nla_put_u8(skb, OVS_SHIM_PATH_LIMITED, now.limited) ||
	    nl_path_put_u64(skb, OVS_SHIM_PATH_TIME, shim_now_ns()))
		return -EMSGSIZE;
	return 0;
}

/*
 * Puts messages about a VM's paths but for the first *told, which it raises for each; -EMSGSIZE if
 * there is no room for all.  RCU.
 */
static int nl_path_put_all(struct sk_buff *skb, struct shim_vm *vm, long *told,
			   struct netlink_callback *cb)
{
	struct shim_path *path;
	long skip = *told;
	long i = 0;
	void *header;
	int err = 0;

	/* Whoever gets or loses its first one meanwhile is told next time. */
	if (!READ_ONCE(vm->n_paths))
		return 0;
	spin_lock_bh(&vm->lock);
	list_for_each_entry(path, &vm->paths, node) {
		if (i++ < skip)
			continue;
		header = ovs_shim_nl_begin(skb, cb, OVS_SHIM_CMD_PATH_GET);
		if (!header || nl_path_put(skb, vm, path)) {
			if (header)
				genlmsg_cancel(skb, header);
			err = -EMSGSIZE;
			break;
		}
		genlmsg_end(skb, header);
		*told = i;
	}
	spin_unlock_bh(&vm->lock);
	return err;
}

/*
 * OVS_SHIM_CMD_PATH_GET for all; args[0] is the serial number of the last VM told wholly, args[1]
 * how many paths of the next one were told.  A path that comes or goes meanwhile may be missing, or
 * let another be missing or told twice.
 */
int ovs_shim_nl_path_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct ovs_shim_net *net = ovs_shim_net(sock_net(skb->sk));
	struct ovs_shim_port *port;

	rcu_read_lock();
	while ((port = ovs_shim_walk_next(net, cb->args[0]))) {
		if (port->role == OVS_SHIM_ROLE_VM &&
		    nl_path_put_all(skb, port->vm, &cb->args[1], cb))
			break;
		cb->args[0] = port->serial;
		cb->args[1] = 0;
		cond_resched_rcu();
	}
	rcu_read_unlock();
	return port && !skb->len ? -EMSGSIZE : skb->len;
}
