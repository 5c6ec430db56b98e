// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": settings.  ovs_shim.yaml is the specification.
 *
 * Everything is per network namespace: that of the requesting socket.  Setting needs
 * CAP_NET_ADMIN in the user namespace that owns it.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "../../datapath.h"
#include "internal.h"

/* Bytes of a SETTINGS_GET reply: a law has at most SHIM_KNOBS_MAX knobs of less than 512 bytes. */
#define SETTINGS_BYTES 12288

/* Puts a knob with its value. */
static int put_knob(struct sk_buff *skb, const struct shim_knob *knob, u64 value)
{
	struct nlattr *nest = nla_nest_start(skb, OVS_SHIM_KNOBS_KNOB);

	if (!nest ||
	    nla_put_string(skb, OVS_SHIM_KNOB_NAME, knob->name) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_KNOB_VALUE, value, OVS_SHIM_KNOB_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_KNOB_DEFAULT, knob->value, OVS_SHIM_KNOB_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_KNOB_MIN, knob->min, OVS_SHIM_KNOB_PAD) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_KNOB_MAX_VALUE, knob->max, OVS_SHIM_KNOB_PAD) ||
	    nla_put_string(skb, OVS_SHIM_KNOB_UNIT, knob->unit) ||
	    nla_put_string(skb, OVS_SHIM_KNOB_HELP, knob->help) ||
	    nla_put_string(skb, OVS_SHIM_KNOB_SOURCE, knob->source))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/* Puts period and knobs of a law, whose index is `of`, and the names of all laws. */
static int put_laws(struct sk_buff *skb, const struct ovs_shim_settings *settings, int of)
{
	const struct shim_law *law = of == OVS_SHIM_LAW_NONE ? NULL : shim_law_at(of);
	struct nlattr *nest;
	u32 i;

	if (nla_put_string(skb, OVS_SHIM_SETTINGS_OF, ovs_shim_law_name(of)) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_SETTINGS_PERIOD,
			      law ? settings->laws[of].period_ns : 0, OVS_SHIM_SETTINGS_PAD))
		return -EMSGSIZE;

	nest = nla_nest_start(skb, OVS_SHIM_SETTINGS_KNOBS);
	if (!nest)
		return -EMSGSIZE;
	for (i = 0; law && i < law->n_knobs; i++)
		if (put_knob(skb, &law->knobs[i], settings->laws[of].knobs[i]))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);

	nest = nla_nest_start(skb, OVS_SHIM_SETTINGS_LAWS);
	if (!nest || nla_put_string(skb, OVS_SHIM_LAWS_NAME, "none"))
		return -EMSGSIZE;
	for (i = 0; (law = shim_law_at(i)); i++)
		if (nla_put_string(skb, OVS_SHIM_LAWS_NAME, law->name))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/* Puts settings, all but the key itself; of laws, the one whose index is `of`. */
static int put_settings(struct sk_buff *skb, const struct ovs_shim_settings *settings, int of)
{
	if (nla_put_string(skb, OVS_SHIM_SETTINGS_LAW, ovs_shim_law_name(settings->law)) ||
	    nla_put_u32(skb, OVS_SHIM_SETTINGS_LIMITER, settings->limiter) ||
	    nla_put_u32(skb, OVS_SHIM_SETTINGS_BURST, settings->burst_bytes) ||
	    nla_put_u32(skb, OVS_SHIM_SETTINGS_QUANTUM, settings->quantum_bytes) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_SETTINGS_HORIZON, settings->horizon_ns,
			      OVS_SHIM_SETTINGS_PAD) ||
	    nla_put_u8(skb, OVS_SHIM_SETTINGS_SEGMENT, settings->segment) ||
	    nla_put_u8(skb, OVS_SHIM_SETTINGS_ECN, settings->ecn) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_SETTINGS_INACTIVE, settings->inactive_ns,
			      OVS_SHIM_SETTINGS_PAD) ||
	    nla_put_u8(skb, OVS_SHIM_SETTINGS_PROTOCOL, settings->protocol) ||
	    nla_put_u8(skb, OVS_SHIM_SETTINGS_ACCEPT_V0, settings->accept_v0) ||
	    nla_put_u32(skb, OVS_SHIM_SETTINGS_PEERS_MAX, settings->peers_max) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_SETTINGS_PEER_IDLE, settings->peer_idle_ns,
			      OVS_SHIM_SETTINGS_PAD) ||
	    (settings->key_set && nla_put_flag(skb, OVS_SHIM_SETTINGS_KEY_SET)))
		return -EMSGSIZE;
	return put_laws(skb, settings, of);
}

/* OVS_SHIM_CMD_SETTINGS_GET. */
static int settings_get(struct sk_buff *skb, struct genl_info *info)
{
	struct ovs_shim_net *shim = ovs_shim_net(genl_info_net(info));
	struct sk_buff *reply;
	int err = -EMSGSIZE;
	void *header;
	int of;

	reply = genlmsg_new(SETTINGS_BYTES, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	header = genlmsg_put_reply(reply, info, &ovs_shim_family, 0, OVS_SHIM_CMD_SETTINGS_GET);
	if (!header)
		goto error;
	ovs_lock();
	of = shim->settings.law;
	err = 0;
	if (info->attrs[OVS_SHIM_SETTINGS_OF])
		err = ovs_shim_law_read(info->attrs[OVS_SHIM_SETTINGS_OF], &of, info->extack);
	if (!err)
		err = put_settings(reply, &shim->settings, of);
	ovs_unlock();
	if (err)
		goto error;
	genlmsg_end(reply, header);
	return genlmsg_reply(reply, info);
error:
	nlmsg_free(reply);
	return err;
}

/* OVS_SHIM_CMD_SETTINGS_SET: all that is asked, or nothing. */
static int settings_set(struct sk_buff *skb, struct genl_info *info)
{
	struct ovs_shim_net *shim = ovs_shim_net(genl_info_net(info));
	struct ovs_shim_settings *settings;
	int err;

	ovs_lock();
	settings = kmemdup(&shim->settings, sizeof(*settings), GFP_KERNEL);
	err = -ENOMEM;
	if (settings)
		err = ovs_shim_settings_change(settings, info->attrs, info->extack);
	if (!err)
		ovs_shim_settings_apply(shim, settings);
	ovs_unlock();
	kfree_sensitive(settings);
	return err;
}

/* What the family can do. */
static const struct genl_ops ops[] = {
	{
		.cmd = OVS_SHIM_CMD_SETTINGS_GET,
		.policy = ovs_shim_settings_policy,
		.maxattr = OVS_SHIM_SETTINGS_MAX,
		.doit = settings_get,
	},
	{
		.cmd = OVS_SHIM_CMD_SETTINGS_SET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_settings_policy,
		.maxattr = OVS_SHIM_SETTINGS_MAX,
		.doit = settings_set,
	},
	{
		.cmd = OVS_SHIM_CMD_PORT_GET,
		.policy = ovs_shim_port_policy,
		.maxattr = OVS_SHIM_PORT_MAX,
		.doit = ovs_shim_cmd_port_get,
		.dumpit = ovs_shim_cmd_port_dump,
	},
	{
		.cmd = OVS_SHIM_CMD_PORT_SET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_port_policy,
		.maxattr = OVS_SHIM_PORT_MAX,
		.doit = ovs_shim_cmd_port_set,
	},
	{
		.cmd = OVS_SHIM_CMD_PORT_DEL,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_port_policy,
		.maxattr = OVS_SHIM_PORT_MAX,
		.doit = ovs_shim_cmd_port_del,
	},
	{
		.cmd = OVS_SHIM_CMD_LIMITER_GET,
		.dumpit = ovs_shim_cmd_limiter_dump,
	},
	{
		.cmd = OVS_SHIM_CMD_PEER_GET,
		.dumpit = ovs_shim_cmd_peer_dump,
	},
	{
		.cmd = OVS_SHIM_CMD_PEER_SET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_peer_policy,
		.maxattr = OVS_SHIM_PEER_MAX,
		.doit = ovs_shim_cmd_peer_set,
	},
	{
		.cmd = OVS_SHIM_CMD_PEER_DEL,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_peer_policy,
		.maxattr = OVS_SHIM_PEER_MAX,
		.doit = ovs_shim_cmd_peer_del,
	},
};

struct genl_family ovs_shim_family __ro_after_init = {
	.name = OVS_SHIM_FAMILY,
	.version = OVS_SHIM_VERSION,
	.netnsok = true,
	.parallel_ops = true,
	.ops = ops,
	.n_ops = ARRAY_SIZE(ops),
	.resv_start_op = __OVS_SHIM_CMD_MAX,
	.module = THIS_MODULE,
};

MODULE_ALIAS_GENL_FAMILY(OVS_SHIM_FAMILY);
