// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": limiters, one for each pair of a VM and an uplink that
 * was ever active.
 */
#include <linux/kernel.h>
#include <linux/rcupdate_wait.h>
#include <linux/sched.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "netlink.h"
#include "walk.h"

/* Puts a number of 64 bits. */
static int nl_limiter_put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OVS_SHIM_LIMITER_PAD);
}

/* Puts a limiter.  vm->lock, RCU. */
static int nl_limiter_put(struct sk_buff *skb, struct shim_limiter *limiter)
{
	const struct ovs_shim_port *uplink = limiter->uplink->port;
	const struct ovs_shim_port *vm = limiter->vm->port;
	struct shim_tx tx;

	shim_limiter_counted(limiter, &tx);
	if (nla_put_u32(skb, OVS_SHIM_LIMITER_VM, vm->ifindex) ||
	    nla_put_u32(skb, OVS_SHIM_LIMITER_UPLINK, uplink->ifindex) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_RATE, shim_limiter_rate(limiter)) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_SHARE, READ_ONCE(limiter->share)) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_SENT_RATE, limiter->sent_rate) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_TX_BYTES, tx.bytes) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_TX_PACKETS, tx.packets) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_DROPS,
			       tx.drop_police + tx.drop_horizon + tx.drop_waiting) ||
	    nla_put_u8(skb, OVS_SHIM_LIMITER_ACTIVE, limiter->active) ||
	    nla_put_u8(skb, OVS_SHIM_LIMITER_CONGESTED,
		       limiter->active && limiter->state.congested) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_TIME, shim_now_ns()))
		return -EMSGSIZE;
	return 0;
}

/* Puts what a limiter's VM is granted, and the messages it got.  vm->lock. */
static int nl_limiter_put_vm(struct sk_buff *skb, const struct shim_vm *vm)
{
	u64 refused = 0;
	u32 i;

	for (i = SHIM_REFUSED_SHORT; i <= SHIM_REFUSED_ORIGIN; i++)
		refused += atomic64_read(&vm->counters[i]);
	if (nla_put_u32(skb, OVS_SHIM_LIMITER_WEIGHT, vm->config.weight) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_MIN_RATE, vm->config.min) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_MAX_RATE, vm->config.max) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_MESSAGES,
			       atomic64_read(&vm->counters[SHIM_MESSAGES])) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_MESSAGE_MARKS,
			       atomic64_read(&vm->counters[SHIM_MARKS])) ||
	    nl_limiter_put_u64(skb, OVS_SHIM_LIMITER_REFUSED, refused))
		return -EMSGSIZE;
	return 0;
}

/*
 * Puts messages about a VM's limiters but for the first *told, which it raises for each; -EMSGSIZE
 * if there is no room for all.  RCU.
 */
static int nl_limiter_put_all(struct sk_buff *skb, struct shim_vm *vm, long *told,
			      struct netlink_callback *cb)
{
	struct shim_limiter *limiter;
	long skip = *told;
	long i = 0;
	void *header;
	int err = 0;

	spin_lock_bh(&vm->lock);
	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	while (limiter) {
		if (i++ >= skip) {
			header = ovs_shim_nl_begin(skb, cb, OVS_SHIM_CMD_LIMITER_GET);
			if (!header || nl_limiter_put(skb, limiter) || nl_limiter_put_vm(skb, vm)) {
				if (header)
					genlmsg_cancel(skb, header);
				err = -EMSGSIZE;
				break;
			}
			genlmsg_end(skb, header);
			*told = i;
		}
		limiter = rcu_dereference_protected(limiter->next, lockdep_is_held(&vm->lock));
	}
	spin_unlock_bh(&vm->lock);
	return err;
}

/*
 * OVS_SHIM_CMD_LIMITER_GET for all; args[0] is the serial number of the last VM told wholly,
 * args[1] of how many uplinks the next one was told.
 */
int ovs_shim_nl_limiter_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct ovs_shim_net *net = ovs_shim_net(sock_net(skb->sk));
	struct ovs_shim_port *port;

	cb->seq = READ_ONCE(net->engine.generation);
	rcu_read_lock();
	while ((port = ovs_shim_walk_next(net, cb->args[0]))) {
		if (port->role == OVS_SHIM_ROLE_VM &&
		    nl_limiter_put_all(skb, port->vm, &cb->args[1], cb))
			break;
		cb->args[0] = port->serial;
		cb->args[1] = 0;
		cond_resched_rcu();
	}
	rcu_read_unlock();
	return port && !skb->len ? -EMSGSIZE : skb->len;
}
