// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": ports.
 *
 * A port is a device that a datapath in the requester's namespace has, named by IFINDEX or NAME.
 * An internal port that was moved to another namespace can be named by NAME only, if at all.
 */
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/netdevice.h>
#include <linux/overflow.h>
#include <linux/string.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "../hook.h"
#include "netlink.h"
#include "walk.h"

/* Bytes of a PORT_GET reply without addresses: at most 70 attributes of at most 20 bytes. */
#define NL_PORT_BYTES 1400

/* Bytes of one address in it: two nests' headers, 16 bytes and a prefix. */
#define NL_PORT_ADDRESS_BYTES 32

/* Bytes of each piece of a dump: a port with all the addresses it can have fits. */
#define NL_PORT_DUMP_BYTES SKB_WITH_OVERHEAD(16384)

/* Netlink has a longer name for the marks that messages carried. */
#define OVS_SHIM_STAT_MARKS OVS_SHIM_STAT_MESSAGE_MARKS

/* Attributes by counter. */
static const u8 nl_port_stats[SHIM_N_COUNTERS] = {
#define NL_STAT(name, word) [SHIM_##name] = OVS_SHIM_STAT_##name,
	SHIM_COUNTERS(NL_STAT)
#undef NL_STAT
};

/* Puts a counter. */
static int nl_port_put_stat(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, OVS_SHIM_STAT_PAD);
}

/* Puts what a VM and its limiters counted. */
static int nl_port_put_vm_stats(struct sk_buff *skb, struct shim_vm *vm)
{
	struct shim_tx tx;
	int i;

	shim_vm_sent(vm, &tx);
	local_bh_disable();
	shim_receipts_look(vm);
	local_bh_enable();
	if (nl_port_put_stat(skb, OVS_SHIM_STAT_TX_PACKETS, tx.packets) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_TX_BYTES, tx.bytes) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_TX_ECT, tx.ect) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_TX_PACED, tx.paced) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_DROP_POLICE, tx.drop_police) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_DROP_HORIZON, tx.drop_horizon) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_DROP_WAITING, tx.drop_waiting) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_TX_AHEAD, tx.ahead))
		return -EMSGSIZE;
	for (i = SHIM_COUNTER_NONE + 1; i < SHIM_N_COUNTERS; i++)
		if (!shim_counter_limiter(i) &&
		    nl_port_put_stat(skb, nl_port_stats[i], atomic64_read(&vm->counters[i])))
			return -EMSGSIZE;
	return 0;
}

/* Puts what an uplink counted: packets from nobody knows where. */
static int nl_port_put_uplink_stats(struct sk_buff *skb, const struct ovs_shim_port *uplink)
{
	struct shim_tx tx = {};

	ovs_shim_hook_strays(uplink, &tx);
	if (nl_port_put_stat(skb, OVS_SHIM_STAT_STRAY_PACKETS, tx.packets) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_STRAY_BYTES, tx.bytes) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_STRAY_PACED, tx.paced) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_STRAY_DROP_POLICE, tx.drop_police) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_STRAY_DROP_HORIZON, tx.drop_horizon) ||
	    nl_port_put_stat(skb, OVS_SHIM_STAT_STRAY_DROP_WAITING, tx.drop_waiting))
		return -EMSGSIZE;
	return 0;
}

/* Puts what a port counted. */
static int nl_port_put_stats(struct sk_buff *skb, const struct ovs_shim_port *port)
{
	struct nlattr *nest = nla_nest_start(skb, OVS_SHIM_PORT_STATS);
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = port->role == OVS_SHIM_ROLE_VM ? nl_port_put_vm_stats(skb, port->vm) :
					       nl_port_put_uplink_stats(skb, port);
	if (!err)
		nla_nest_end(skb, nest);
	return err;
}

/* Puts the addresses set for a VM, if any are.  RCU. */
static int nl_port_put_addresses(struct sk_buff *skb, const struct shim_vm *vm)
{
	const struct shim_prefixes *set = rcu_dereference(vm->sources.set);
	struct nlattr *nest, *one;
	u32 i;

	if (!set)
		return 0;
	nest = nla_nest_start(skb, OVS_SHIM_PORT_ADDRESSES);
	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < set->n; i++) {
		one = nla_nest_start(skb, OVS_SHIM_ADDRESSES_ADDRESS);
		if (!one ||
		    nla_put(skb, OVS_SHIM_ADDRESS_VALUE, sizeof(set->prefixes[i].address),
			    &set->prefixes[i].address) ||
		    nla_put_u8(skb, OVS_SHIM_ADDRESS_PREFIX, set->prefixes[i].length))
			return -EMSGSIZE;
		nla_nest_end(skb, one);
	}
	nla_nest_end(skb, nest);
	return 0;
}

/* Puts what is configured of a VM.  RCU. */
static int nl_port_put_vm(struct sk_buff *skb, struct shim_vm *vm)
{
	struct shim_vm_config config;

	spin_lock_bh(&vm->lock);
	config = vm->config;
	spin_unlock_bh(&vm->lock);
	if (nla_put_string(skb, OVS_SHIM_PORT_LAW, ovs_shim_nl_law_name(config.law)) ||
	    nla_put_u32(skb, OVS_SHIM_PORT_WEIGHT, config.weight) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_PORT_MIN_RATE, config.min, OVS_SHIM_PORT_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_PORT_MAX_RATE, config.max, OVS_SHIM_PORT_PAD))
		return -EMSGSIZE;
	return nl_port_put_addresses(skb, vm);
}

/* Puts a port's configuration and counters.  RCU. */
static int nl_port_put(struct sk_buff *skb, const struct ovs_shim_port *port)
{
	struct shim_vm *vm = port->role == OVS_SHIM_ROLE_VM ? port->vm : NULL;

	if (nla_put_u32(skb, OVS_SHIM_PORT_IFINDEX, port->ifindex) ||
	    nla_put_string(skb, OVS_SHIM_PORT_NAME, port->dev->name) ||
	    nla_put_u32(skb, OVS_SHIM_PORT_ROLE, port->role))
		return -EMSGSIZE;
	if (!vm &&
	    (nla_put_u64_64bit(skb, OVS_SHIM_PORT_CAPACITY, READ_ONCE(port->uplink->configured),
			       OVS_SHIM_PORT_PAD) ||
	     nla_put_u32(skb, OVS_SHIM_PORT_OVERHEAD, READ_ONCE(port->uplink->overhead)) ||
	     nla_put_u32(skb, OVS_SHIM_PORT_QDISC, READ_ONCE(port->qdisc))))
		return -EMSGSIZE;
	if (vm && nl_port_put_vm(skb, vm))
		return -EMSGSIZE;
	return nl_port_put_stats(skb, port);
}

/*
 * Returns the device that a request names by index or by name, held, or an error pointer with the
 * reason.  Configuration.
 */
static struct net_device *nl_port_device(struct net *net, const struct nlattr *index,
					 const struct nlattr *name, struct netlink_ext_ack *extack)
{
	struct net_device *dev;

	if (!index == !name) {
		ovs_shim_say(extack, "port: either ifindex or name is needed");
		return ERR_PTR(-EINVAL);
	}
	dev = ovs_shim_hook_find(net, name ? nla_data(name) : NULL, index ? nla_get_u32(index) : 0);
	if (dev)
		return dev;
	if (name)
		ovs_shim_say(extack, "name: %s is no port of a datapath in this namespace",
			     (const char *)nla_data(name));
	else
		ovs_shim_say(extack, "ifindex: %u is no port of a datapath in this namespace",
			     nla_get_u32(index));
	NL_SET_BAD_ATTR(extack, name ?: index);
	return ERR_PTR(-ENODEV);
}

/*
 * Returns the port that a request names by index or by name, or an error pointer with the reason.
 * extack is as for ovs_shim_say().  Configuration.
 */
struct ovs_shim_port *ovs_shim_nl_port(struct net *net, const struct nlattr *index,
				       const struct nlattr *name, struct netlink_ext_ack *extack)
{
	struct net_device *dev = nl_port_device(net, index, name, extack);
	struct ovs_shim_port *port;

	if (IS_ERR(dev))
		return ERR_CAST(dev);
	port = ovs_shim_port_of(dev);
	if (!port || port->net != ovs_shim_net(net)) {
		ovs_shim_say(extack, "port: %s has no role", dev->name);
		port = ERR_PTR(-ENOENT);
	}
	dev_put(dev);
	return port;
}

/* Returns the bytes of a message about a port.  Configuration. */
static size_t nl_port_bytes(const struct ovs_shim_port *port)
{
	const struct shim_prefixes *set = NULL;

	if (port->role == OVS_SHIM_ROLE_VM)
		set = rcu_dereference_protected(port->vm->sources.set, ovs_shim_lock_is_held());
	return NL_PORT_BYTES + (set ? set->n * NL_PORT_ADDRESS_BYTES : 0);
}

/* Returns the answer to a request for a port, or an error pointer.  Configuration. */
static struct sk_buff *nl_port_reply(struct ovs_shim_port *port, struct genl_info *info)
{
	struct sk_buff *reply;
	int err = -EMSGSIZE;
	void *header;

	if (port->role == OVS_SHIM_ROLE_UPLINK)
		ovs_shim_port_look(port);
	reply = genlmsg_new(nl_port_bytes(port), GFP_KERNEL);
	if (!reply)
		return ERR_PTR(-ENOMEM);
	header = genlmsg_put_reply(reply, info, &ovs_shim_family, 0, OVS_SHIM_CMD_PORT_GET);
	if (header) {
		rcu_read_lock();
		err = nl_port_put(reply, port);
		rcu_read_unlock();
	}
	if (err) {
		nlmsg_free(reply);
		return ERR_PTR(err);
	}
	genlmsg_end(reply, header);
	return reply;
}

/* OVS_SHIM_CMD_PORT_GET for one port. */
int ovs_shim_nl_port_get(struct sk_buff *skb, struct genl_info *info)
{
	struct sk_buff *reply = NULL;
	struct ovs_shim_port *port;
	int err;

	ovs_shim_lock();
	port = ovs_shim_nl_port(genl_info_net(info), info->attrs[OVS_SHIM_PORT_IFINDEX],
				info->attrs[OVS_SHIM_PORT_NAME], info->extack);
	err = PTR_ERR_OR_ZERO(port);
	if (!err) {
		reply = nl_port_reply(port, info);
		err = PTR_ERR_OR_ZERO(reply);
	}
	ovs_shim_unlock();
	return err ?: genlmsg_reply(reply, info);
}

/* Begins OVS_SHIM_CMD_PORT_GET for all: looks at the uplinks, and asks for room. */
int ovs_shim_nl_port_start(struct netlink_callback *cb)
{
	struct ovs_shim_net *net = ovs_shim_net(sock_net(cb->skb->sk));
	struct shim_uplink *uplink;

	cb->min_dump_alloc = NL_PORT_DUMP_BYTES;
	ovs_shim_lock();
	list_for_each_entry(uplink, &net->engine.uplinks, node)
		ovs_shim_port_look(uplink->port);
	ovs_shim_unlock();
	return 0;
}

/* OVS_SHIM_CMD_PORT_GET for all; args[0] is the serial number of the last port told. */
int ovs_shim_nl_port_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct ovs_shim_net *net = ovs_shim_net(sock_net(skb->sk));
	struct ovs_shim_port *port;
	void *header;

	cb->seq = READ_ONCE(net->engine.generation);
	rcu_read_lock();
	while ((port = ovs_shim_walk_next(net, cb->args[0]))) {
		header = ovs_shim_nl_begin(skb, cb, OVS_SHIM_CMD_PORT_GET);
		if (!header)
			break;
		if (nl_port_put(skb, port)) {
			genlmsg_cancel(skb, header);
			break;
		}
		genlmsg_end(skb, header);
		cb->args[0] = port->serial;
	}
	rcu_read_unlock();
	return port && !skb->len ? -EMSGSIZE : skb->len;
}

/* Refuses attributes that a port of this role has not. */
static int nl_port_check_role(struct genl_info *info, enum ovs_shim_role role)
{
	static const u8 of_vm[] = {
		OVS_SHIM_PORT_WEIGHT, OVS_SHIM_PORT_MIN_RATE, OVS_SHIM_PORT_MAX_RATE,
		OVS_SHIM_PORT_LAW, OVS_SHIM_PORT_ADDRESSES,
	};
	static const u8 of_uplink[] = { OVS_SHIM_PORT_CAPACITY, OVS_SHIM_PORT_OVERHEAD };
	size_t i;

	for (i = 0; role == OVS_SHIM_ROLE_UPLINK && i < ARRAY_SIZE(of_vm); i++) {
		if (info->attrs[of_vm[i]]) {
			ovs_shim_say(info->extack,
				     "weight, min-rate, max-rate, law, addresses: only for a vm");
			NL_SET_BAD_ATTR(info->extack, info->attrs[of_vm[i]]);
			return -EINVAL;
		}
	}
	for (i = 0; role == OVS_SHIM_ROLE_VM && i < ARRAY_SIZE(of_uplink); i++) {
		if (info->attrs[of_uplink[i]]) {
			ovs_shim_say(info->extack, "capacity, overhead: only for an uplink");
			NL_SET_BAD_ATTR(info->extack, info->attrs[of_uplink[i]]);
			return -EINVAL;
		}
	}
	return 0;
}

/* Tells whether an address has bits beyond its first `length`, at most 128. */
static bool nl_port_is_longer(const struct shim_address *address, u32 length)
{
	u32 whole = length / BITS_PER_BYTE;

	if (whole == sizeof(address->bytes))
		return false;
	if (address->bytes[whole] & (0xff >> length % BITS_PER_BYTE))
		return true;
	return memchr_inv(&address->bytes[whole + 1], 0, sizeof(address->bytes) - whole - 1);
}

/* Fills *prefix from a nest; a negative error number with the reason. */
static int nl_port_read_prefix(struct shim_prefix *prefix, const struct nlattr *nest,
			       struct netlink_ext_ack *extack)
{
	struct nlattr *attrs[OVS_SHIM_ADDRESS_MAX + 1];
	int err;

	err = nla_parse_nested(attrs, OVS_SHIM_ADDRESS_MAX, nest, ovs_shim_address_policy, extack);
	if (!err)
		err = ovs_shim_nl_check(ovs_shim_address_rules, attrs, extack);
	if (err)
		return err;
	if (!attrs[OVS_SHIM_ADDRESS_VALUE] || !attrs[OVS_SHIM_ADDRESS_PREFIX]) {
		ovs_shim_say(extack, "addresses: each needs a value and a prefix");
		NL_SET_BAD_ATTR(extack, nest);
		return -EINVAL;
	}
	memcpy(&prefix->address, nla_data(attrs[OVS_SHIM_ADDRESS_VALUE]), sizeof(prefix->address));
	prefix->length = nla_get_u8(attrs[OVS_SHIM_ADDRESS_PREFIX]);
	/* An IPv4-mapped one has bits up to the 96th, so this allows none shorter than that. */
	if (nl_port_is_longer(&prefix->address, prefix->length)) {
		ovs_shim_say(extack, "addresses: %pI6c has bits beyond the first %u, allowed is 0",
			     &prefix->address, prefix->length);
		NL_SET_BAD_ATTR(extack, nest);
		return -EINVAL;
	}
	return 0;
}

/*
 * Writes to *set the addresses of a nest, to be freed by shim_free(), NULL if it is empty; a
 * negative error number with the reason.  May sleep.
 */
static int nl_port_read_addresses(struct shim_prefixes **set, const struct nlattr *nest,
				  struct netlink_ext_ack *extack)
{
	struct shim_prefixes *prefixes;
	const struct nlattr *one;
	u32 n = 0;
	int err, rest;

	nla_for_each_nested(one, nest, rest)
		n++;
	if (n > SHIM_PREFIXES_MAX) {
		ovs_shim_say(extack, "addresses: %u are too many, allowed are 0 to %u", n,
			     SHIM_PREFIXES_MAX);
		NL_SET_BAD_ATTR(extack, nest);
		return -ERANGE;
	}
	*set = NULL;
	if (!n)
		return 0;
	prefixes = shim_alloc_wait(struct_size(prefixes, prefixes, n));
	if (!prefixes)
		return -ENOMEM;
	nla_for_each_nested(one, nest, rest) {
		err = nl_port_read_prefix(&prefixes->prefixes[prefixes->n++], one, extack);
		if (err) {
			shim_free(prefixes);
			return err;
		}
	}
	*set = prefixes;
	return 0;
}

/* Changes *config as the attributes ask; a negative error number with the reason. */
static int nl_port_change(struct ovs_shim_port_config *config, struct nlattr *const *attrs,
			  struct netlink_ext_ack *extack)
{
	const struct nlattr *addresses = attrs[OVS_SHIM_PORT_ADDRESSES];
	const struct nlattr *law = attrs[OVS_SHIM_PORT_LAW];
	int err = 0;

	if (attrs[OVS_SHIM_PORT_WEIGHT])
		config->vm.weight = nla_get_u32(attrs[OVS_SHIM_PORT_WEIGHT]);
	if (attrs[OVS_SHIM_PORT_MIN_RATE])
		config->vm.min = nla_get_u64(attrs[OVS_SHIM_PORT_MIN_RATE]);
	if (attrs[OVS_SHIM_PORT_MAX_RATE])
		config->vm.max = nla_get_u64(attrs[OVS_SHIM_PORT_MAX_RATE]);
	if (attrs[OVS_SHIM_PORT_CAPACITY])
		config->capacity = nla_get_u64(attrs[OVS_SHIM_PORT_CAPACITY]);
	if (attrs[OVS_SHIM_PORT_OVERHEAD])
		config->overhead = nla_get_u32(attrs[OVS_SHIM_PORT_OVERHEAD]);
	if (law && !nla_strcmp(law, "default"))
		config->vm.law = SHIM_LAW_DEFAULT;
	else if (law)
		err = ovs_shim_nl_law_read(law, &config->vm.law, extack);
	if (!err && addresses) {
		config->set_addresses = true;
		err = nl_port_read_addresses(&config->addresses, addresses, extack);
	}
	return err;
}

/* Sets a device's port as the request asks.  Configuration. */
static int nl_port_configure(struct ovs_shim_net *net, struct net_device *dev,
			     struct genl_info *info)
{
	struct ovs_shim_port_config config = { .vm = { .weight = 1, .law = SHIM_LAW_DEFAULT } };
	const struct nlattr *role = info->attrs[OVS_SHIM_PORT_ROLE];
	struct ovs_shim_port *port = ovs_shim_port_of(dev);
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
	err = nl_port_check_role(info, config.role);
	if (err)
		return err;
	if (port && port->role == config.role) {
		if (port->role == OVS_SHIM_ROLE_VM)
			config.vm = port->vm->config;
		if (port->role == OVS_SHIM_ROLE_UPLINK) {
			config.capacity = port->uplink->configured;
			config.overhead = port->overhead;
		}
	}
	err = nl_port_change(&config, info->attrs, info->extack);
	if (!err)
		err = ovs_shim_port_set(net, dev, &config, info->extack);
	shim_free(config.addresses);
	return err;
}

/* OVS_SHIM_CMD_PORT_SET: all that is asked, or nothing. */
int ovs_shim_nl_port_set(struct sk_buff *skb, struct genl_info *info)
{
	struct net_device *dev;
	int err;

	ovs_shim_lock();
	dev = nl_port_device(genl_info_net(info), info->attrs[OVS_SHIM_PORT_IFINDEX],
			     info->attrs[OVS_SHIM_PORT_NAME], info->extack);
	err = PTR_ERR_OR_ZERO(dev);
	if (!err) {
		err = nl_port_configure(ovs_shim_net(genl_info_net(info)), dev, info);
		dev_put(dev);
	}
	ovs_shim_unlock();
	return err;
}

/* OVS_SHIM_CMD_PORT_DEL. */
int ovs_shim_nl_port_del(struct sk_buff *skb, struct genl_info *info)
{
	struct ovs_shim_port *port;
	int err;

	ovs_shim_lock();
	port = ovs_shim_nl_port(genl_info_net(info), info->attrs[OVS_SHIM_PORT_IFINDEX],
				info->attrs[OVS_SHIM_PORT_NAME], info->extack);
	err = PTR_ERR_OR_ZERO(port);
	if (!err)
		ovs_shim_port_del(port);
	ovs_shim_unlock();
	return err;
}
