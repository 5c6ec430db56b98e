// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": peers of VMs.
 *
 * A peer that is given a weight is made if it does not exist, and kept until the weight is taken
 * back or the peer is deleted; all others come and go with packets.
 *
 * A dump walks the table of all peers under RCU, bucket by bucket: no VM is kept waiting, and each
 * piece goes on where the last one ended.  A peer that comes or goes meanwhile is told or not;
 * while the table grows or shrinks one may be told twice.
 */
#include <linux/err.h>
#include <linux/rhashtable.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "../../../datapath.h"
#include "../compat.h"
#include "netlink.h"

/* Peers of other VMs that a dump passes in one go before it lets others run. */
#define NL_PEER_GO 256

/* A dump of peers under way, at cb->args[0]. */
struct nl_peer_dump {
	struct rhashtable_iter iter;	/* where it is */
	u32 serial;			/* of the VM whose peers are told; 0: of all */
	bool begun;			/* serial is valid */
};

/* Puts a number of 64 bits. */
static int nl_peer_put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OVS_SHIM_PEER_PAD);
}

/* Puts a peer.  RCU. */
static int nl_peer_put(struct sk_buff *skb, struct shim_peer *peer)
{
	const struct ovs_shim_port *vm = peer->key.vm->port;
	int err;

	spin_lock_bh(&peer->lock);
	err = nla_put_u32(skb, OVS_SHIM_PEER_VM, vm->ifindex) ||
	      nla_put(skb, OVS_SHIM_PEER_ADDRESS, sizeof(peer->key.address), &peer->key.address) ||
	      /* A plain number that vm->lock guards: any value it had is good. */
	      nla_put_u32(skb, OVS_SHIM_PEER_WEIGHT, data_race(peer->weight)) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_RATE, peer->rate.bytes_per_s) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_TX_BYTES, peer->tx_bytes) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_TX_PACKETS, peer->tx_packets) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_DROPS, peer->drops) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_RX_BYTES, peer->rx_bytes) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_RX_PACKETS, peer->rx_packets) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_RX_MARKS, peer->rx_marks) ||
	      nl_peer_put_u64(skb, OVS_SHIM_PEER_TIME, shim_now_ns());
	spin_unlock_bh(&peer->lock);
	return err ? -EMSGSIZE : 0;
}

/* Puts a message about a peer.  RCU. */
static int nl_peer_put_message(struct sk_buff *skb, struct shim_peer *peer,
			       struct netlink_callback *cb)
{
	void *header = ovs_shim_nl_begin(skb, cb, OVS_SHIM_CMD_PEER_GET);

	if (!header)
		return -EMSGSIZE;
	if (nl_peer_put(skb, peer)) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, header);
	return 0;
}

/* Begins OVS_SHIM_CMD_PEER_GET. */
int ovs_shim_nl_peer_start(struct netlink_callback *cb)
{
	struct ovs_shim_net *net = ovs_shim_net(sock_net(cb->skb->sk));
	struct nl_peer_dump *dump = kzalloc(sizeof(*dump), GFP_KERNEL_ACCOUNT);

	if (!dump)
		return -ENOMEM;
	rhashtable_walk_enter(&net->engine.peers, &dump->iter);
	cb->args[0] = (long)dump;
	return 0;
}

/* Ends it, also if it was not read to the end. */
int ovs_shim_nl_peer_done(struct netlink_callback *cb)
{
	struct nl_peer_dump *dump = (struct nl_peer_dump *)cb->args[0];

	rhashtable_walk_exit(&dump->iter);
	kfree(dump);
	return 0;
}

/* Finds the VM that a request for a dump names, if it names one; a negative error number. */
static int nl_peer_choose(struct nl_peer_dump *dump, struct net *net, struct netlink_callback *cb)
{
	struct nlattr **attrs = ovs_shim_dump_attrs(cb);
	struct ovs_shim_nl_answer unsent = {};
	struct ovs_shim_port *port;
	int err = 0;

	if (!attrs || (!attrs[OVS_SHIM_PEER_VM] && !attrs[OVS_SHIM_PEER_VM_NAME]))
		return 0;
	ovs_lock();
	port = ovs_shim_nl_port(net, attrs[OVS_SHIM_PEER_VM], attrs[OVS_SHIM_PEER_VM_NAME],
				&unsent.extack);
	if (IS_ERR(port))
		err = PTR_ERR(port);
	else if (port->role != OVS_SHIM_ROLE_VM)
		err = -EINVAL;
	else
		dump->serial = port->serial;
	ovs_unlock();
	if (err)
		NL_SET_ERR_MSG(cb->extack, "vm: none of that name or ifindex" OVS_SHIM_NL_STAYS);
	return err;
}

/*
 * Puts peers until there is no more or no room; returns true if it is to be called again after
 * others have run.
 */
static bool nl_peer_dump_go(struct nl_peer_dump *dump, struct sk_buff *skb,
			    struct netlink_callback *cb)
{
	const struct ovs_shim_port *vm;
	struct shim_peer *peer;
	u32 passed = 0;

	rhashtable_walk_start(&dump->iter);
	peer = rhashtable_walk_peek(&dump->iter);
	while (peer && passed < NL_PEER_GO) {
		/* The table was replaced by one of another size, which the walk begins. */
		if (!IS_ERR(peer)) {
			vm = peer->key.vm->port;
			if (dump->serial && vm->serial != dump->serial)
				passed++;
			else if (nl_peer_put_message(skb, peer, cb))
				break;
		} else if (PTR_ERR(peer) != -EAGAIN) {
			break;
		}
		peer = rhashtable_walk_next(&dump->iter);
	}
	rhashtable_walk_stop(&dump->iter);
	return passed == NL_PEER_GO;
}

/* OVS_SHIM_CMD_PEER_GET for all, or for those of the VM that is named. */
int ovs_shim_nl_peer_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nl_peer_dump *dump = (struct nl_peer_dump *)cb->args[0];
	struct net *net = sock_net(skb->sk);
	int err;

	if (!dump->begun) {
		err = nl_peer_choose(dump, net, cb);
		if (err)
			return err;
		dump->begun = true;
	}
	cb->seq = READ_ONCE(ovs_shim_net(net)->engine.generation);
	while (nl_peer_dump_go(dump, skb, cb))
		cond_resched();
	return skb->len;
}

/* Returns the VM that a request names, or an error pointer with the reason.  ovs_mutex. */
static struct shim_vm *nl_peer_vm(struct genl_info *info)
{
	struct ovs_shim_port *port;

	port = ovs_shim_nl_port(genl_info_net(info), info->attrs[OVS_SHIM_PEER_VM],
				info->attrs[OVS_SHIM_PEER_VM_NAME], info->extack);
	if (IS_ERR(port))
		return ERR_CAST(port);
	if (port->role != OVS_SHIM_ROLE_VM) {
		ovs_shim_say(info->extack, "vm: an uplink has no peers");
		return ERR_PTR(-EINVAL);
	}
	if (!info->attrs[OVS_SHIM_PEER_ADDRESS]) {
		ovs_shim_say(info->extack, "address: needed");
		return ERR_PTR(-EINVAL);
	}
	return port->vm;
}

/* Gives a peer of a VM a weight; false: there can be no such peer.  ovs_mutex. */
static bool nl_peer_weigh(struct shim_vm *vm, const struct shim_address *address, u32 weight)
{
	bool done;

	rcu_read_lock();
	spin_lock_bh(&vm->lock);
	done = shim_peer_weigh(vm, address, weight);
	spin_unlock_bh(&vm->lock);
	rcu_read_unlock();
	return done;
}

/* OVS_SHIM_CMD_PEER_SET. */
int ovs_shim_nl_peer_set(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *weight = info->attrs[OVS_SHIM_PEER_WEIGHT];
	struct shim_address address;
	struct shim_vm *vm;
	int err;

	ovs_lock();
	vm = nl_peer_vm(info);
	err = PTR_ERR_OR_ZERO(vm);
	if (err)
		goto out;
	if (!weight) {
		ovs_shim_say(info->extack, "weight: needed");
		err = -EINVAL;
		goto out;
	}
	nla_memcpy(&address, info->attrs[OVS_SHIM_PEER_ADDRESS], sizeof(address));
	if (!nl_peer_weigh(vm, &address, nla_get_u32(weight))) {
		ovs_shim_say(info->extack, "peer: the vm has its %u peers, or no memory is left",
			     shim_engine_settings(vm->engine)->peers_max);
		err = -ENOSPC;
	}
out:
	ovs_unlock();
	return err;
}

/* OVS_SHIM_CMD_PEER_DEL. */
int ovs_shim_nl_peer_del(struct sk_buff *skb, struct genl_info *info)
{
	struct shim_peer *peer = NULL;
	struct shim_peer_key key;
	int err;

	ovs_lock();
	key.vm = nl_peer_vm(info);
	err = PTR_ERR_OR_ZERO(key.vm);
	if (err)
		goto out;
	nla_memcpy(&key.address, info->attrs[OVS_SHIM_PEER_ADDRESS], sizeof(key.address));
	rcu_read_lock();
	spin_lock_bh(&key.vm->lock);
	peer = shim_peer_find(key.vm->engine, &key);
	if (peer)
		shim_peer_remove(peer);
	spin_unlock_bh(&key.vm->lock);
	rcu_read_unlock();
	if (!peer) {
		ovs_shim_say(info->extack, "peer: the vm has none of that address");
		err = -ENOENT;
	}
out:
	ovs_unlock();
	return err;
}
