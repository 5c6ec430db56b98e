// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": ports and limiters.
 *
 * A port is a vport of some datapath in the requester's namespace, named by IFINDEX or NAME.  An
 * internal port that was moved to another namespace can be named by NAME only.
 */
#include <linux/netdevice.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "../../vport-internal_dev.h"
#include "../../vport-netdev.h"
#include "internal.h"

/* Bytes of a PORT_GET reply: at most 60 attributes of at most 20 bytes. */
#define PORT_BYTES 1200

/* Attributes by counter. */
static const u8 counter_attrs[OVS_SHIM_N_COUNTERS] = {
	[OVS_SHIM_RX_PACKETS] = OVS_SHIM_STAT_RX_PACKETS,
	[OVS_SHIM_RX_BYTES] = OVS_SHIM_STAT_RX_BYTES,
	[OVS_SHIM_RX_CE] = OVS_SHIM_STAT_RX_CE,
	[OVS_SHIM_RX_RESTORED] = OVS_SHIM_STAT_RX_RESTORED,
	[OVS_SHIM_DROP_SEGMENT] = OVS_SHIM_STAT_DROP_SEGMENT,
	[OVS_SHIM_DROP_MEMORY] = OVS_SHIM_STAT_DROP_MEMORY,
	[OVS_SHIM_DROP_FORGED] = OVS_SHIM_STAT_DROP_FORGED,
	[OVS_SHIM_MESSAGES] = OVS_SHIM_STAT_MESSAGES,
	[OVS_SHIM_MESSAGE_MARKS] = OVS_SHIM_STAT_MESSAGE_MARKS,
	[OVS_SHIM_REFUSED_SHORT] = OVS_SHIM_STAT_REFUSED_SHORT,
	[OVS_SHIM_REFUSED_FORM] = OVS_SHIM_STAT_REFUSED_FORM,
	[OVS_SHIM_REFUSED_TAG] = OVS_SHIM_STAT_REFUSED_TAG,
	[OVS_SHIM_REFUSED_REPLAY] = OVS_SHIM_STAT_REFUSED_REPLAY,
	[OVS_SHIM_REFUSED_ADDRESS] = OVS_SHIM_STAT_REFUSED_ADDRESS,
	[OVS_SHIM_REFUSED_PEER] = OVS_SHIM_STAT_REFUSED_PEER,
	[OVS_SHIM_REFUSED_LAW] = OVS_SHIM_STAT_REFUSED_LAW,
	[OVS_SHIM_REPORTS] = OVS_SHIM_STAT_REPORTS,
	[OVS_SHIM_REPORT_BYTES] = OVS_SHIM_STAT_REPORT_BYTES,
	[OVS_SHIM_REPORTS_SENT] = OVS_SHIM_STAT_REPORTS_SENT,
	[OVS_SHIM_REPORT_BYTES_SENT] = OVS_SHIM_STAT_REPORT_BYTES_SENT,
	[OVS_SHIM_REPORTS_UNSENT] = OVS_SHIM_STAT_REPORTS_UNSENT,
	[OVS_SHIM_REPORTS_NO_KEY] = OVS_SHIM_STAT_REPORTS_NO_KEY,
	[OVS_SHIM_DROP_PEER] = OVS_SHIM_STAT_DROP_PEER,
	[OVS_SHIM_PEERS_FULL] = OVS_SHIM_STAT_PEERS_FULL,
	[OVS_SHIM_PEERS_NO_MEMORY] = OVS_SHIM_STAT_PEERS_NO_MEMORY,
	[OVS_SHIM_PEERS_COLLECTED] = OVS_SHIM_STAT_PEERS_COLLECTED,
	[OVS_SHIM_RX_WINDOWS] = OVS_SHIM_STAT_RX_WINDOWS,
	[OVS_SHIM_FLOWS_FULL] = OVS_SHIM_STAT_FLOWS_FULL,
	[OVS_SHIM_FLOWS_NO_MEMORY] = OVS_SHIM_STAT_FLOWS_NO_MEMORY,
	[OVS_SHIM_FLOWS_COLLECTED] = OVS_SHIM_STAT_FLOWS_COLLECTED,
};

/* Puts a counter. */
static int put_stat(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OVS_SHIM_STAT_PAD);
}

/* Puts what a VM's limiters counted, those that are no more included.  shim->lock. */
static int put_tx(struct sk_buff *skb, const struct ovs_shim_port *port)
{
	const struct ovs_shim_tx *tx = &port->gone;
	u64 bytes = 0, packets = 0, ect = 0, paced = 0, police = 0, horizon = 0;
	const struct ovs_shim_pair *pair;

	pair = rcu_dereference_protected(port->pairs, lockdep_is_held(&port->shim->lock));
	while (tx) {
		bytes += atomic64_read(&tx->bytes);
		packets += atomic64_read(&tx->packets);
		ect += atomic64_read(&tx->ect);
		paced += atomic64_read(&tx->paced);
		police += atomic64_read(&tx->drop_police);
		horizon += atomic64_read(&tx->drop_horizon);
		tx = NULL;
		if (pair) {
			tx = &pair->tx;
			pair = rcu_dereference_protected(pair->next,
							 lockdep_is_held(&port->shim->lock));
		}
	}
	if (put_stat(skb, OVS_SHIM_STAT_TX_PACKETS, packets) ||
	    put_stat(skb, OVS_SHIM_STAT_TX_BYTES, bytes) ||
	    put_stat(skb, OVS_SHIM_STAT_TX_ECT, ect) ||
	    put_stat(skb, OVS_SHIM_STAT_TX_PACED, paced) ||
	    put_stat(skb, OVS_SHIM_STAT_DROP_POLICE, police) ||
	    put_stat(skb, OVS_SHIM_STAT_DROP_HORIZON, horizon))
		return -EMSGSIZE;
	return 0;
}

/* Puts a port's counters.  shim->lock. */
static int put_stats(struct sk_buff *skb, const struct ovs_shim_port *port)
{
	struct nlattr *nest = nla_nest_start(skb, OVS_SHIM_PORT_STATS);
	int i;

	if (!nest || put_tx(skb, port))
		return -EMSGSIZE;
	for (i = 0; i < OVS_SHIM_N_COUNTERS; i++)
		if (put_stat(skb, counter_attrs[i], atomic64_read(&port->counters[i])))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/* Puts a port's configuration and counters.  shim->lock. */
static int put_port(struct sk_buff *skb, const struct ovs_shim_port *port)
{
	if (nla_put_u32(skb, OVS_SHIM_PORT_IFINDEX, port->ifindex) ||
	    nla_put_string(skb, OVS_SHIM_PORT_NAME, ovs_vport_name(port->vport)) ||
	    nla_put_u32(skb, OVS_SHIM_PORT_ROLE, port->role))
		return -EMSGSIZE;
	if (port->role == OVS_SHIM_ROLE_UPLINK) {
		if (nla_put_u64_64bit(skb, OVS_SHIM_PORT_CAPACITY, port->capacity,
				      OVS_SHIM_PORT_PAD))
			return -EMSGSIZE;
	} else if (nla_put_string(skb, OVS_SHIM_PORT_LAW, ovs_shim_law_name(port->own_law)) ||
		   nla_put_u32(skb, OVS_SHIM_PORT_WEIGHT, port->weight) ||
		   nla_put_u64_64bit(skb, OVS_SHIM_PORT_MIN_RATE, port->min, OVS_SHIM_PORT_PAD) ||
		   nla_put_u64_64bit(skb, OVS_SHIM_PORT_MAX_RATE, port->max, OVS_SHIM_PORT_PAD)) {
		return -EMSGSIZE;
	}
	return put_stats(skb, port);
}

/*
 * Returns the vport that a request names by index or by name, or an error pointer with the reason.
 * ovs_mutex.
 */
static struct vport *requested(struct genl_info *info, const struct nlattr *index,
			       const struct nlattr *name)
{
	struct net *net = genl_info_net(info);
	struct vport *vport = NULL;
	struct net_device *dev;

	if (!index == !name) {
		ovs_shim_say(info->extack, "port: either ifindex or name is needed");
		return ERR_PTR(-EINVAL);
	}
	if (name) {
		vport = ovs_vport_locate(net, nla_data(name));
	} else {
		rcu_read_lock();
		dev = dev_get_by_index_rcu(net, nla_get_u32(index));
		if (dev)
			vport = ovs_internal_dev_get_vport(dev) ?: ovs_netdev_get_vport(dev);
		rcu_read_unlock();
	}
	if (vport && net_eq(ovs_dp_get_net(vport->dp), net))
		return vport;
	if (name)
		ovs_shim_say(info->extack, "name: %s is no port of a datapath in this namespace",
			     (const char *)nla_data(name));
	else
		ovs_shim_say(info->extack, "ifindex: %u is no port of a datapath in this namespace",
			     nla_get_u32(index));
	NL_SET_BAD_ATTR(info->extack, name ?: index);
	return ERR_PTR(-ENODEV);
}

/* Returns the port of requested(), or an error pointer with the reason.  ovs_mutex. */
struct ovs_shim_port *ovs_shim_requested_port(struct genl_info *info, const struct nlattr *index,
					      const struct nlattr *name)
{
	struct vport *vport = requested(info, index, name);
	struct ovs_shim_port *port;

	if (IS_ERR(vport))
		return ERR_CAST(vport);
	port = ovs_shim_port_find(vport);
	if (port)
		return port;
	ovs_shim_say(info->extack, "port: %s has no role", ovs_vport_name(vport));
	return ERR_PTR(-ENOENT);
}

/* Puts a message about a port.  ovs_mutex. */
static int put_port_message(struct sk_buff *skb, struct ovs_shim_port *port, u32 portid, u32 seq,
			    struct netlink_callback *cb)
{
	void *header;
	int err;

	header = genlmsg_put(skb, portid, seq, &ovs_shim_family, cb ? NLM_F_MULTI : 0,
			     OVS_SHIM_CMD_PORT_GET);
	if (!header)
		return -EMSGSIZE;
	if (cb)
		genl_dump_check_consistent(cb, header);
	spin_lock_bh(&port->shim->lock);
	err = put_port(skb, port);
	spin_unlock_bh(&port->shim->lock);
	if (err) {
		genlmsg_cancel(skb, header);
		return err;
	}
	genlmsg_end(skb, header);
	return 0;
}

/* OVS_SHIM_CMD_PORT_GET for one port. */
int ovs_shim_cmd_port_get(struct sk_buff *skb, struct genl_info *info)
{
	struct ovs_shim_port *port;
	struct sk_buff *reply;
	int err;

	reply = genlmsg_new(PORT_BYTES, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	ovs_lock();
	port = ovs_shim_requested_port(info, info->attrs[OVS_SHIM_PORT_IFINDEX],
				       info->attrs[OVS_SHIM_PORT_NAME]);
	err = PTR_ERR_OR_ZERO(port);
	if (!err)
		err = put_port_message(reply, port, info->snd_portid, info->snd_seq, NULL);
	ovs_unlock();
	if (!err)
		return genlmsg_reply(reply, info);
	nlmsg_free(reply);
	return err;
}

/* OVS_SHIM_CMD_PORT_GET for all; args[0] is the number of ports told. */
int ovs_shim_cmd_port_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct ovs_shim_net *shim = ovs_shim_net(sock_net(skb->sk));
	struct ovs_shim_port *port;
	long i = 0;

	ovs_lock();
	cb->seq = shim->generation;
	list_for_each_entry(port, &shim->ports, list) {
		if (i++ < cb->args[0])
			continue;
		if (put_port_message(skb, port, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, cb))
			break;
		cb->args[0]++;
	}
	ovs_unlock();
	return skb->len;
}

/* Refuses attributes that a port of this role has not. */
static int check_role(struct genl_info *info, enum ovs_shim_role role)
{
	static const u8 of_vm[] = {
		OVS_SHIM_PORT_WEIGHT, OVS_SHIM_PORT_MIN_RATE, OVS_SHIM_PORT_MAX_RATE,
		OVS_SHIM_PORT_LAW,
	};
	size_t i;

	for (i = 0; role == OVS_SHIM_ROLE_UPLINK && i < ARRAY_SIZE(of_vm); i++) {
		if (info->attrs[of_vm[i]]) {
			ovs_shim_say(info->extack,
				     "weight, min-rate, max-rate, law: only for a vm");
			NL_SET_BAD_ATTR(info->extack, info->attrs[of_vm[i]]);
			return -EINVAL;
		}
	}
	if (role == OVS_SHIM_ROLE_VM && info->attrs[OVS_SHIM_PORT_CAPACITY]) {
		ovs_shim_say(info->extack, "capacity: only for an uplink");
		NL_SET_BAD_ATTR(info->extack, info->attrs[OVS_SHIM_PORT_CAPACITY]);
		return -EINVAL;
	}
	return 0;
}

/* Changes *config as the attributes ask; -ENOENT for a law there is not. */
static int change(struct ovs_shim_port_config *config, struct nlattr *const *attrs,
		  struct netlink_ext_ack *extack)
{
	const struct nlattr *law = attrs[OVS_SHIM_PORT_LAW];

	if (attrs[OVS_SHIM_PORT_WEIGHT])
		config->weight = nla_get_u32(attrs[OVS_SHIM_PORT_WEIGHT]);
	if (attrs[OVS_SHIM_PORT_MIN_RATE])
		config->min = nla_get_u64(attrs[OVS_SHIM_PORT_MIN_RATE]);
	if (attrs[OVS_SHIM_PORT_MAX_RATE])
		config->max = nla_get_u64(attrs[OVS_SHIM_PORT_MAX_RATE]);
	if (attrs[OVS_SHIM_PORT_CAPACITY])
		config->capacity = nla_get_u64(attrs[OVS_SHIM_PORT_CAPACITY]);
	if (law && nla_strcmp(law, "default"))
		return ovs_shim_law_read(law, &config->law, extack);
	if (law)
		config->law = OVS_SHIM_LAW_DEFAULT;
	return 0;
}

/* Sets a vport's port as the request asks.  ovs_mutex. */
static int set_port(struct ovs_shim_net *shim, struct vport *vport, struct genl_info *info)
{
	struct ovs_shim_port *port = ovs_shim_port_find(vport);
	const struct nlattr *role = info->attrs[OVS_SHIM_PORT_ROLE];
	struct ovs_shim_port_config config = { .weight = 1, .law = OVS_SHIM_LAW_DEFAULT };
	int err;

	config.role = role ? nla_get_u32(role) : port ? port->role : OVS_SHIM_ROLE_NONE;
	if (config.role == OVS_SHIM_ROLE_NONE) {
		if (role && port)
			ovs_shim_port_del(port);
		if (role)
			return 0;
		ovs_shim_say(info->extack, "role: a port without one needs one");
		return -EINVAL;
	}
	err = check_role(info, config.role);
	if (err)
		return err;
	if (port && port->role == config.role) {
		config.weight = port->weight;
		config.min = port->min;
		config.max = port->max;
		config.capacity = port->capacity;
		config.law = port->own_law;
	}
	err = change(&config, info->attrs, info->extack);
	return err ?: ovs_shim_port_set(shim, vport, &config, info->extack);
}

/* OVS_SHIM_CMD_PORT_SET: all that is asked, or nothing. */
int ovs_shim_cmd_port_set(struct sk_buff *skb, struct genl_info *info)
{
	struct vport *vport;
	int err;

	ovs_lock();
	vport = requested(info, info->attrs[OVS_SHIM_PORT_IFINDEX],
			  info->attrs[OVS_SHIM_PORT_NAME]);
	err = PTR_ERR_OR_ZERO(vport);
	if (!err)
		err = set_port(ovs_shim_net(genl_info_net(info)), vport, info);
	ovs_unlock();
	return err;
}

/* OVS_SHIM_CMD_PORT_DEL. */
int ovs_shim_cmd_port_del(struct sk_buff *skb, struct genl_info *info)
{
	struct ovs_shim_port *port;
	int err;

	ovs_lock();
	port = ovs_shim_requested_port(info, info->attrs[OVS_SHIM_PORT_IFINDEX],
				       info->attrs[OVS_SHIM_PORT_NAME]);
	err = PTR_ERR_OR_ZERO(port);
	if (!err)
		ovs_shim_port_del(port);
	ovs_unlock();
	return err;
}

/* Puts a limiter.  shim->lock. */
static int put_limiter(struct sk_buff *skb, const struct ovs_shim_pair *pair)
{
	const struct ovs_shim_tx *tx = &pair->tx;
	u64 drops = atomic64_read(&tx->drop_police) + atomic64_read(&tx->drop_horizon);

	if (nla_put_u32(skb, OVS_SHIM_LIMITER_VM, pair->vm->ifindex) ||
	    nla_put_u32(skb, OVS_SHIM_LIMITER_UPLINK, pair->uplink->ifindex) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_RATE, pair->bucket.rate.bytes_per_s,
			      OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_SHARE, pair->share, OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_SENT_RATE, pair->sent_rate,
			      OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_TX_BYTES, atomic64_read(&tx->bytes),
			      OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_TX_PACKETS, atomic64_read(&tx->packets),
			      OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_DROPS, drops, OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u8(skb, OVS_SHIM_LIMITER_ACTIVE, pair->active) ||
	    nla_put_u8(skb, OVS_SHIM_LIMITER_CONGESTED, pair->active && pair->state.congested) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_TIME, ktime_get_ns(), OVS_SHIM_LIMITER_PAD))
		return -EMSGSIZE;
	return 0;
}

/* Puts what a limiter's VM is granted, and the messages it got.  shim->lock. */
static int put_limiter_vm(struct sk_buff *skb, const struct ovs_shim_port *vm)
{
	u64 refused = 0;
	u32 i;

	for (i = OVS_SHIM_REFUSED_SHORT; i <= OVS_SHIM_REFUSED_LAW; i++)
		refused += atomic64_read(&vm->counters[i]);
	if (nla_put_u32(skb, OVS_SHIM_LIMITER_WEIGHT, vm->weight) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_MIN_RATE, vm->min, OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_MAX_RATE, vm->max, OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_MESSAGES,
			      atomic64_read(&vm->counters[OVS_SHIM_MESSAGES]),
			      OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_MESSAGE_MARKS,
			      atomic64_read(&vm->counters[OVS_SHIM_MESSAGE_MARKS]),
			      OVS_SHIM_LIMITER_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_LIMITER_REFUSED, refused, OVS_SHIM_LIMITER_PAD))
		return -EMSGSIZE;
	return 0;
}

/* Puts a message about a limiter.  shim->lock. */
static int put_limiter_message(struct sk_buff *skb, const struct ovs_shim_pair *pair,
			       struct netlink_callback *cb)
{
	void *header;
	int err;

	header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &ovs_shim_family,
			     NLM_F_MULTI, OVS_SHIM_CMD_LIMITER_GET);
	if (!header)
		return -EMSGSIZE;
	genl_dump_check_consistent(cb, header);
	err = put_limiter(skb, pair);
	if (!err)
		err = put_limiter_vm(skb, pair->vm);
	if (err) {
		genlmsg_cancel(skb, header);
		return err;
	}
	genlmsg_end(skb, header);
	return 0;
}

/*
 * OVS_SHIM_CMD_LIMITER_GET for all; args[0] is the number of ports told, args[1] of limiters
 * of the next port.
 */
int ovs_shim_cmd_limiter_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct ovs_shim_net *shim = ovs_shim_net(sock_net(skb->sk));
	const struct ovs_shim_pair *pair;
	struct ovs_shim_port *port;
	long i = 0, k;

	spin_lock_bh(&shim->lock);
	cb->seq = shim->generation;
	list_for_each_entry(port, &shim->ports, list) {
		if (i++ < cb->args[0])
			continue;
		k = 0;
		pair = rcu_dereference_protected(port->pairs, lockdep_is_held(&shim->lock));
		while (pair) {
			if (k++ >= cb->args[1]) {
				if (put_limiter_message(skb, pair, cb))
					goto out;
				cb->args[1]++;
			}
			pair = rcu_dereference_protected(pair->next, lockdep_is_held(&shim->lock));
		}
		cb->args[0]++;
		cb->args[1] = 0;
	}
out:
	spin_unlock_bh(&shim->lock);
	return skb->len;
}
