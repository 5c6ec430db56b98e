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
 *
 * A dump of what moved since a time looks at nothing else.  It copies what moved of one VM after
 * the other under vm->lock, and tells the copies.
 */
#include <linux/err.h>
#include <linux/if_vlan.h>
#include <linux/mm.h>
#include <linux/rhashtable.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/dst_metadata.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "../hook.h"
#include "../compat.h"
#include "netlink.h"
#include "walk.h"

/* Peers of other VMs that a dump passes in one go before it lets others run. */
#define NL_PEER_GO 256

/* Copies of peers that a dump of what moved makes room for at first. */
#define NL_MOVED_ROOM 64

/* What is told of a peer. */
struct nl_peer {
	struct shim_address address;	/* of the other end */
	struct shim_address local;	/* of the VM */
	struct shim_address tunnel;	/* other end of the tunnel, with has_tunnel */
	u64 tunnel_id;			/* its key, with has_tunnel */
	u64 rate;			/* bytes/s; 0: the VM's */
	u64 tx_bytes;			/* sent */
	u64 tx_packets;			/* sent */
	u64 drops;			/* packets over the rate */
	u64 rx_bytes;			/* received */
	u64 rx_packets;			/* received */
	u64 rx_marks;			/* packets received with CE */
	u64 time_ns;			/* of the reading */
	u32 vm;				/* ifindex */
	u32 uplink;			/* ifindex; 0: unknown */
	u32 weight;			/* 0: none */
	u16 vlan;			/* 0: untagged */
	bool has_tunnel;		/* tunnel and tunnel_id are valid */
};

/* A dump of peers under way, at cb->args[0]. */
struct nl_peer_dump {
	struct rhashtable_iter iter;	/* where it is, of one that tells all */
	u32 serial;			/* of the VM whose peers are told; 0: of all */
	bool begun;			/* serial, moved and since_ns are valid */
	bool moved;			/* only what moved is told */
	bool full;			/* copies had no room for all of a VM's */
	u64 since_ns;			/* what had a packet then, or later, moved */
	u32 copied;			/* serial number of the last VM in copies; 0: none was */
	u32 n;				/* peers in copies */
	u32 told;			/* of them */
	u32 room;			/* peers that copies can hold */
	struct nl_peer *copies;		/* what moved of one VM; NULL while room is 0 */
};

/* Puts a number of 64 bits. */
static int nl_peer_put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OVS_SHIM_PEER_PAD);
}

/* Copies the way that packets to a peer take.  peer->lock. */
static void nl_peer_read_way(const struct shim_host_peer *way, struct nl_peer *copy)
{
	const struct ip_tunnel_info *info;

	copy->vlan = way->vlan_proto ? way->vlan_tci & VLAN_VID_MASK : 0;
	copy->has_tunnel = way->tunnel;
	if (!way->tunnel)
		return;
	info = &way->tunnel->u.tun_info;
	copy->tunnel_id = be64_to_cpu(info->key.tun_id);
	if (ip_tunnel_info_af(info) == AF_INET6)
		memcpy(&copy->tunnel, &info->key.u.ipv6.dst, sizeof(copy->tunnel));
	else
		ipv6_addr_set_v4mapped(info->key.u.ipv4.dst, (struct in6_addr *)&copy->tunnel);
}

/* Copies what is told of a peer.  RCU. */
static void nl_peer_read(struct shim_peer *peer, struct nl_peer *copy)
{
	const struct ovs_shim_port *vm = peer->key.vm->port;
	const struct shim_uplink *found, *uplink;

	memset(copy, 0, sizeof(*copy));
	copy->vm = vm->ifindex;
	copy->address = peer->key.address;
	/* A plain number that vm->lock guards: any value it had is good. */
	copy->weight = data_race(peer->weight);
	spin_lock_bh(&peer->lock);
	shim_peer_look(peer, shim_now_ns());
	copy->local = peer->local;
	copy->rate = peer->rate.bytes_per_s;
	copy->tx_bytes = peer->tx_bytes;
	copy->tx_packets = peer->tx_packets;
	copy->drops = peer->drops;
	copy->rx_bytes = peer->rx_bytes;
	copy->rx_packets = peer->rx_packets;
	copy->rx_marks = peer->rx_marks;
	found = peer->out ?: peer->in;
	nl_peer_read_way(&peer->host, copy);
	copy->time_ns = shim_now_ns();
	spin_unlock_bh(&peer->lock);
	uplink = shim_uplink_find(peer->key.vm->engine, found);
	if (uplink)
		copy->uplink = ((const struct ovs_shim_port *)uplink->port)->ifindex;
}

/* Puts an address. */
static int nl_peer_put_address(struct sk_buff *skb, int attr, const struct shim_address *address)
{
	return nla_put(skb, attr, sizeof(*address), address);
}

/* Puts a peer. */
static int nl_peer_put(struct sk_buff *skb, const struct nl_peer *peer)
{
	if (nla_put_u32(skb, OVS_SHIM_PEER_VM, peer->vm) ||
	    nl_peer_put_address(skb, OVS_SHIM_PEER_ADDRESS, &peer->address) ||
	    nla_put_u32(skb, OVS_SHIM_PEER_WEIGHT, peer->weight) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_RATE, peer->rate) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_TX_BYTES, peer->tx_bytes) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_TX_PACKETS, peer->tx_packets) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_DROPS, peer->drops) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_RX_BYTES, peer->rx_bytes) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_RX_PACKETS, peer->rx_packets) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_RX_MARKS, peer->rx_marks) ||
	    nl_peer_put_u64(skb, OVS_SHIM_PEER_TIME, peer->time_ns) ||
	    nl_peer_put_address(skb, OVS_SHIM_PEER_LOCAL, &peer->local) ||
	    nla_put_u32(skb, OVS_SHIM_PEER_UPLINK, peer->uplink) ||
	    nla_put_u16(skb, OVS_SHIM_PEER_VLAN, peer->vlan))
		return -EMSGSIZE;
	if (peer->has_tunnel &&
	    (nl_peer_put_address(skb, OVS_SHIM_PEER_TUNNEL, &peer->tunnel) ||
	     nl_peer_put_u64(skb, OVS_SHIM_PEER_TUNNEL_ID, peer->tunnel_id)))
		return -EMSGSIZE;
	return 0;
}

/* Puts a message about a peer. */
static int nl_peer_put_message(struct sk_buff *skb, const struct nl_peer *peer,
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
	kvfree(dump->copies);
	kfree(dump);
	return 0;
}

/* Reads a request for a dump, and finds the VM if it names one; a negative error number. */
static int nl_peer_choose(struct nl_peer_dump *dump, struct net *net, struct netlink_callback *cb)
{
	struct nlattr **attrs = ovs_shim_dump_attrs(cb);
	struct ovs_shim_nl_answer unsent = {};
	struct ovs_shim_port *port;
	int err = 0;

	if (attrs && attrs[OVS_SHIM_PEER_SINCE]) {
		dump->moved = true;
		dump->since_ns = nla_get_u64(attrs[OVS_SHIM_PEER_SINCE]);
	}
	if (!attrs || (!attrs[OVS_SHIM_PEER_VM] && !attrs[OVS_SHIM_PEER_VM_NAME]))
		return 0;
	ovs_shim_lock();
	port = ovs_shim_nl_port(net, attrs[OVS_SHIM_PEER_VM], attrs[OVS_SHIM_PEER_VM_NAME],
				&unsent.extack);
	if (IS_ERR(port))
		err = PTR_ERR(port);
	else if (port->role != OVS_SHIM_ROLE_VM)
		err = -EINVAL;
	else
		dump->serial = port->serial;
	ovs_shim_unlock();
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
	struct nl_peer copy;
	u32 passed = 0;

	rhashtable_walk_start(&dump->iter);
	peer = rhashtable_walk_peek(&dump->iter);
	while (peer && passed < NL_PEER_GO) {
		/* The table was replaced by one of another size, which the walk begins. */
		if (!IS_ERR(peer)) {
			vm = peer->key.vm->port;
			if (dump->serial && vm->serial != dump->serial) {
				passed++;
			} else {
				nl_peer_read(peer, &copy);
				if (nl_peer_put_message(skb, &copy, cb))
					break;
			}
		} else if (PTR_ERR(peer) != -EAGAIN) {
			break;
		}
		peer = rhashtable_walk_next(&dump->iter);
	}
	rhashtable_walk_stop(&dump->iter);
	return passed == NL_PEER_GO;
}

/* Copies a peer that moved; false: there is no room.  vm->lock, RCU. */
static bool nl_moved_take(struct shim_peer *peer, void *context)
{
	struct nl_peer_dump *dump = context;

	if (dump->n == dump->room) {
		dump->full = true;
		return false;
	}
	nl_peer_read(peer, &dump->copies[dump->n++]);
	return true;
}

/* Makes room for twice as many copies; 0 or a negative error number. */
static int nl_moved_grow(struct nl_peer_dump *dump)
{
	u32 room = dump->room ? 2 * dump->room : NL_MOVED_ROOM;

	kvfree(dump->copies);
	dump->room = 0;
	dump->copies = kvmalloc_array(room, sizeof(*dump->copies), GFP_KERNEL_ACCOUNT);
	if (!dump->copies)
		return -ENOMEM;
	dump->room = room;
	return 0;
}

/*
 * Copies what moved of the next VM of which anything did; 1, 0 if there is no such VM, or a
 * negative error number.
 */
static int nl_moved_next(struct ovs_shim_net *net, struct nl_peer_dump *dump)
{
	struct ovs_shim_port *port;
	int err;

	dump->told = 0;
	for (;;) {
		dump->n = 0;
		dump->full = false;
		rcu_read_lock();
		port = ovs_shim_walk_next(net, dump->copied);
		if (port && port->role == OVS_SHIM_ROLE_VM &&
		    (!dump->serial || port->serial == dump->serial)) {
			spin_lock_bh(&port->vm->lock);
			shim_peers_moved(port->vm, dump->since_ns, nl_moved_take, dump);
			spin_unlock_bh(&port->vm->lock);
		}
		if (port && !dump->full)
			dump->copied = port->serial;
		rcu_read_unlock();
		if (!port)
			return 0;
		if (dump->full) {
			err = nl_moved_grow(dump);
			if (err)
				return err;
		} else if (dump->n) {
			return 1;
		}
		cond_resched();
	}
}

/* Puts copies until there is no more or no room; a negative error number. */
static int nl_moved_dump(struct ovs_shim_net *net, struct nl_peer_dump *dump, struct sk_buff *skb,
			 struct netlink_callback *cb)
{
	int more;

	for (;;) {
		while (dump->told < dump->n) {
			if (nl_peer_put_message(skb, &dump->copies[dump->told], cb))
				return 0;
			dump->told++;
		}
		more = nl_moved_next(net, dump);
		if (more <= 0)
			return more;
	}
}

/* OVS_SHIM_CMD_PEER_GET for all, for those of the VM that is named, or for what moved of either. */
int ovs_shim_nl_peer_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nl_peer_dump *dump = (struct nl_peer_dump *)cb->args[0];
	struct net *net = sock_net(skb->sk);
	struct ovs_shim_net *shim = ovs_shim_net(net);
	int err;

	if (!dump->begun) {
		err = nl_peer_choose(dump, net, cb);
		if (err)
			return err;
		dump->begun = true;
	}
	cb->seq = READ_ONCE(shim->engine.generation);
	if (dump->moved) {
		err = nl_moved_dump(shim, dump, skb, cb);
		return err ?: skb->len;
	}
	while (nl_peer_dump_go(dump, skb, cb))
		cond_resched();
	return skb->len;
}

/* Returns the VM that a request names, or an error pointer with the reason.  Configuration. */
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

/* Gives a peer of a VM a weight; false: there can be no such peer.  Configuration. */
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

	ovs_shim_lock();
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
	ovs_shim_unlock();
	return err;
}

/* OVS_SHIM_CMD_PEER_DEL. */
int ovs_shim_nl_peer_del(struct sk_buff *skb, struct genl_info *info)
{
	struct shim_peer *peer = NULL;
	struct shim_peer_key key;
	int err;

	ovs_shim_lock();
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
	ovs_shim_unlock();
	return err;
}
