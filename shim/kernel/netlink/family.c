// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": who may ask what, and how a refusal reaches who asked.
 * ../ovs_shim.yaml is the specification.
 *
 * Everything is per network namespace: that of the requesting socket.  Every request, also one that
 * only reads, needs CAP_NET_ADMIN in the user namespace that owns it: counters and peers tell what
 * tenants do.
 *
 * A refusal's text.  netlink_ack() reads it by a pointer after the handler has returned.  A text
 * with numbers in it would have to outlive the handler, and nothing says when it may be freed;
 * later kernels keep 80 bytes beside the pointer, which is too little.  Therefore ovs_shim_nl_do()
 * calls netlink_ack() itself while the text is on its stack, and returns -EINTR, upon which
 * netlink_rcv_skb() does not call it again.  So a text belongs to one request alone, however many
 * are refused at once.  What the kernel itself refuses, and dumps, have constant texts only.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "netlink.h"

/* What is done for one request. */
struct nl_command {
	int (*run)(struct sk_buff *skb, struct genl_info *info);	/* the handler */
	const struct ovs_shim_nl_rule *rules;	/* values of its attributes; NULL: any */
};

/* By command. */
static const struct nl_command nl_commands[__OVS_SHIM_CMD_MAX] = {
	[OVS_SHIM_CMD_SETTINGS_GET] = { ovs_shim_nl_settings_get, NULL },
	[OVS_SHIM_CMD_SETTINGS_SET] = { ovs_shim_nl_settings_set, ovs_shim_settings_rules },
	[OVS_SHIM_CMD_PORT_GET] = { ovs_shim_nl_port_get, NULL },
	[OVS_SHIM_CMD_PORT_SET] = { ovs_shim_nl_port_set, ovs_shim_port_rules },
	[OVS_SHIM_CMD_PORT_DEL] = { ovs_shim_nl_port_del, NULL },
	[OVS_SHIM_CMD_PEER_SET] = { ovs_shim_nl_peer_set, ovs_shim_peer_rules },
	[OVS_SHIM_CMD_PEER_DEL] = { ovs_shim_nl_peer_del, ovs_shim_peer_rules },
	[OVS_SHIM_CMD_MESSAGE] = { ovs_shim_nl_message, ovs_shim_port_rules },
};

/*
 * Runs a request; a refusal is acknowledged before this returns.  The attributes have passed the
 * policy.
 */
static int ovs_shim_nl_do(struct sk_buff *skb, struct genl_info *info)
{
	const struct nl_command *command = &nl_commands[info->genlhdr->cmd];
	struct netlink_ext_ack *extack = info->extack;
	struct ovs_shim_nl_answer answer = {};
	int err = 0;

	info->extack = &answer.extack;
	if (command->rules)
		err = ovs_shim_nl_check(command->rules, info->attrs, info->extack);
	if (!err)
		err = command->run(skb, info);
	info->extack = extack;
	if (!err)
		return 0;
	netlink_ack(skb, nlmsg_hdr(skb), err, &answer.extack);
	return -EINTR;
}

void *ovs_shim_nl_begin(struct sk_buff *skb, struct netlink_callback *cb, u8 command)
{
	void *header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &ovs_shim_family, NLM_F_MULTI, command);

	if (header)
		genl_dump_check_consistent(cb, header);
	return header;
}

/* What the family can do. */
static const struct genl_ops nl_ops[] = {
	{
		.cmd = OVS_SHIM_CMD_SETTINGS_GET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_settings_policy,
		.maxattr = OVS_SHIM_SETTINGS_MAX,
		.doit = ovs_shim_nl_do,
	},
	{
		.cmd = OVS_SHIM_CMD_SETTINGS_SET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_settings_policy,
		.maxattr = OVS_SHIM_SETTINGS_MAX,
		.doit = ovs_shim_nl_do,
	},
	{
		.cmd = OVS_SHIM_CMD_PORT_GET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_port_policy,
		.maxattr = OVS_SHIM_PORT_MAX,
		.doit = ovs_shim_nl_do,
		.start = ovs_shim_nl_port_start,
		.dumpit = ovs_shim_nl_port_dump,
	},
	{
		.cmd = OVS_SHIM_CMD_PORT_SET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_port_policy,
		.maxattr = OVS_SHIM_PORT_MAX,
		.doit = ovs_shim_nl_do,
	},
	{
		.cmd = OVS_SHIM_CMD_PORT_DEL,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_port_policy,
		.maxattr = OVS_SHIM_PORT_MAX,
		.doit = ovs_shim_nl_do,
	},
	{
		.cmd = OVS_SHIM_CMD_LIMITER_GET,
		.flags = GENL_UNS_ADMIN_PERM,
		.dumpit = ovs_shim_nl_limiter_dump,
	},
	{
		.cmd = OVS_SHIM_CMD_PEER_GET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_peer_policy,
		.maxattr = OVS_SHIM_PEER_MAX,
		.start = ovs_shim_nl_peer_start,
		.dumpit = ovs_shim_nl_peer_dump,
		.done = ovs_shim_nl_peer_done,
	},
	{
		.cmd = OVS_SHIM_CMD_PEER_SET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_peer_policy,
		.maxattr = OVS_SHIM_PEER_MAX,
		.doit = ovs_shim_nl_do,
	},
	{
		.cmd = OVS_SHIM_CMD_PEER_DEL,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_peer_policy,
		.maxattr = OVS_SHIM_PEER_MAX,
		.doit = ovs_shim_nl_do,
	},
	{
		.cmd = OVS_SHIM_CMD_MESSAGE,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ovs_shim_port_policy,
		.maxattr = OVS_SHIM_PORT_MAX,
		.doit = ovs_shim_nl_do,
	},
	{
		.cmd = OVS_SHIM_CMD_PATH_GET,
		.flags = GENL_UNS_ADMIN_PERM,
		.dumpit = ovs_shim_nl_path_dump,
	},
};

struct genl_family ovs_shim_family __ro_after_init = {
	.name = OVS_SHIM_FAMILY,
	.version = OVS_SHIM_VERSION,
	.netnsok = true,
	.parallel_ops = true,
	.ops = nl_ops,
	.n_ops = ARRAY_SIZE(nl_ops),
	.resv_start_op = __OVS_SHIM_CMD_MAX,
	.module = THIS_MODULE,
};

MODULE_ALIAS_GENL_FAMILY(OVS_SHIM_FAMILY);
