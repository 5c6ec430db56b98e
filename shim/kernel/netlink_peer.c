// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": peers of VMs.
 *
 * A peer that is given a weight is made if it does not exist, and kept until the weight is taken
 * back or the peer is deleted; all others come and go with packets.
 */
#include <linux/err.h>
#include <linux/ktime.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "../../datapath.h"
#include "internal.h"

/* Puts a number of 64 bits. */
static int put(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OVS_SHIM_PEER_PAD);
}

/* Puts a peer.  shim->lock. */
static int put_peer(struct sk_buff *skb, struct ovs_shim_peer *peer)
{
	int err;

	spin_lock(&peer->lock);
	err = nla_put_u32(skb, OVS_SHIM_PEER_VM, peer->key.vm->ifindex) ||
	      nla_put_in6_addr(skb, OVS_SHIM_PEER_ADDRESS, &peer->key.address) ||
	      nla_put_u32(skb, OVS_SHIM_PEER_WEIGHT, peer->weight) ||
	      put(skb, OVS_SHIM_PEER_RATE, peer->rate.bytes_per_s) ||
	      put(skb, OVS_SHIM_PEER_TX_BYTES, peer->tx_bytes) ||
	      put(skb, OVS_SHIM_PEER_TX_PACKETS, peer->tx_packets) ||
	      put(skb, OVS_SHIM_PEER_DROPS, peer->drops) ||
	      put(skb, OVS_SHIM_PEER_RX_BYTES, peer->rx_bytes) ||
	      put(skb, OVS_SHIM_PEER_RX_PACKETS, peer->rx_packets) ||
	      put(skb, OVS_SHIM_PEER_RX_MARKS, peer->rx_marks) ||
	      put(skb, OVS_SHIM_PEER_TIME, ktime_get_ns());
	spin_unlock(&peer->lock);
	return err ? -EMSGSIZE : 0;
}

/* Puts a message about a peer.  shim->lock. */
static int put_message(struct sk_buff *skb, struct ovs_shim_peer *peer,
		       struct netlink_callback *cb)
{
	void *header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &ovs_shim_family, NLM_F_MULTI, OVS_SHIM_CMD_PEER_GET);

	if (!header)
		return -EMSGSIZE;
	genl_dump_check_consistent(cb, header);
	if (put_peer(skb, peer)) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, header);
	return 0;
}

/*
 * OVS_SHIM_CMD_PEER_GET for all; args[0] is the number of ports told, args[1] of peers of the next
 * port.  A peer that comes or goes while the dump pauses may move another across that point, which
 * is then told twice or not at all.
 */
int ovs_shim_cmd_peer_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct ovs_shim_net *shim = ovs_shim_net(sock_net(skb->sk));
	struct ovs_shim_peer *peer;
	struct ovs_shim_port *port;
	long i = 0, k;

	spin_lock_bh(&shim->lock);
	cb->seq = shim->generation;
	list_for_each_entry(port, &shim->ports, list) {
		if (i++ < cb->args[0])
			continue;
		k = 0;
		list_for_each_entry(peer, &port->peers, list) {
			if (k++ < cb->args[1])
				continue;
			if (put_message(skb, peer, cb))
				goto out;
			cb->args[1]++;
		}
		cb->args[0]++;
		cb->args[1] = 0;
	}
out:
	spin_unlock_bh(&shim->lock);
	return skb->len;
}

/* Fills *key from a request; a negative error number with the reason.  ovs_mutex. */
static int read_key(struct ovs_shim_peer_key *key, struct genl_info *info)
{
	const struct nlattr *address = info->attrs[OVS_SHIM_PEER_ADDRESS];

	key->vm = ovs_shim_requested_port(info, info->attrs[OVS_SHIM_PEER_VM],
					  info->attrs[OVS_SHIM_PEER_VM_NAME]);
	if (IS_ERR(key->vm))
		return PTR_ERR(key->vm);
	if (key->vm->role != OVS_SHIM_ROLE_VM) {
		ovs_shim_say(info->extack, "vm: an uplink has no peers");
		return -EINVAL;
	}
	if (!address) {
		ovs_shim_say(info->extack, "address: needed");
		return -EINVAL;
	}
	key->address = nla_get_in6_addr(address);
	return 0;
}

/* OVS_SHIM_CMD_PEER_SET. */
int ovs_shim_cmd_peer_set(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *weight = info->attrs[OVS_SHIM_PEER_WEIGHT];
	struct ovs_shim_net *shim = ovs_shim_net(genl_info_net(info));
	struct ovs_shim_peer_key key;
	struct ovs_shim_peer *peer;
	int err;

	ovs_lock();
	err = read_key(&key, info);
	if (err)
		goto out;
	if (!weight) {
		ovs_shim_say(info->extack, "weight: needed");
		err = -EINVAL;
		goto out;
	}
	rcu_read_lock();
	spin_lock_bh(&shim->lock);
	peer = ovs_shim_peer_create(&key, NULL);
	if (peer)
		peer->weight = nla_get_u32(weight);
	if (peer && !peer->weight && !peer->clock)
		ovs_shim_peer_free(peer);
	spin_unlock_bh(&shim->lock);
	rcu_read_unlock();
	if (!peer) {
		ovs_shim_say(info->extack, "peer: the vm has its %u peers, or no memory is left",
			     shim->settings.peers_max);
		err = -ENOSPC;
	}
out:
	ovs_unlock();
	return err;
}

/* OVS_SHIM_CMD_PEER_DEL. */
int ovs_shim_cmd_peer_del(struct sk_buff *skb, struct genl_info *info)
{
	struct ovs_shim_net *shim = ovs_shim_net(genl_info_net(info));
	struct ovs_shim_peer_key key;
	struct ovs_shim_peer *peer;
	int err;

	ovs_lock();
	err = read_key(&key, info);
	if (err)
		goto out;
	rcu_read_lock();
	spin_lock_bh(&shim->lock);
	peer = ovs_shim_peer_find(shim, &key);
	if (peer)
		ovs_shim_peer_free(peer);
	spin_unlock_bh(&shim->lock);
	rcu_read_unlock();
	if (!peer) {
		ovs_shim_say(info->extack, "peer: the vm has none of that address");
		err = -ENOENT;
	}
out:
	ovs_unlock();
	return err;
}
