/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the netlink family share, and the one function that others call to refuse.
 */
#ifndef OVS_SHIM_NETLINK_H
#define OVS_SHIM_NETLINK_H

#include <linux/netlink.h>
#include <net/genetlink.h>
#include <net/netlink.h>

#include "../port.h"

/* Bytes of a refusal's text. */
#define OVS_SHIM_NL_TEXT_BYTES 240

/* How every refusal ends. */
#define OVS_SHIM_NL_STAYS "; what is in force stays"

/* A request being answered, on the stack of ovs_shim_nl_do(). */
struct ovs_shim_nl_answer {
	struct netlink_ext_ack extack;	/* what the handler is given */
	char text[OVS_SHIM_NL_TEXT_BYTES];	/* its message */
};

/* Which values of an attribute are allowed, and where a setting stands. */
struct ovs_shim_nl_rule {
	const char *name;	/* what an operator calls it; NULL ends a table */
	const char *allowed;	/* in words; NULL: the range tells it */
	const char *unit;	/* behind the range, with a space before it; NULL: none */
	const char *zero;	/* what 0 means, allowed beside the range; NULL: nothing */
	u64 min;		/* smallest value, of binary attributes the shortest length */
	u64 max;		/* largest value, of binary attributes the greatest length */
	u16 attr;		/* attribute */
	u16 offset;		/* in struct shim_settings, of a plain value */
	u8 bytes;		/* of that value; 0: it is not a plain one */
	bool is_length;		/* the attribute is binary */
};

extern struct genl_family ovs_shim_family;

/* What requests may hold: policy.c. */
extern const struct nla_policy ovs_shim_settings_policy[OVS_SHIM_SETTINGS_MAX + 1];
extern const struct nla_policy ovs_shim_knob_policy[OVS_SHIM_KNOB_MAX + 1];
extern const struct nla_policy ovs_shim_port_policy[OVS_SHIM_PORT_MAX + 1];
extern const struct nla_policy ovs_shim_address_policy[OVS_SHIM_ADDRESS_MAX + 1];
extern const struct nla_policy ovs_shim_peer_policy[OVS_SHIM_PEER_MAX + 1];
extern const struct ovs_shim_nl_rule ovs_shim_settings_rules[];
extern const struct ovs_shim_nl_rule ovs_shim_port_rules[];
extern const struct ovs_shim_nl_rule ovs_shim_address_rules[];
extern const struct ovs_shim_nl_rule ovs_shim_peer_rules[];

/*
 * Sets the text of a refusal, and adds that what is in force stays.  extack is that of a struct
 * ovs_shim_nl_answer, as handlers are given it, or NULL.
 */
void __printf(2, 3) ovs_shim_say(struct netlink_ext_ack *extack, const char *format, ...);

/* Returns the value of an attribute of 1, 4 or 8 bytes. */
u64 ovs_shim_nl_value(const struct nlattr *attr);

/* Checks a request's attributes by a table; -ERANGE with a text that says what is allowed. */
int ovs_shim_nl_check(const struct ovs_shim_nl_rule *rules, struct nlattr *const *attrs,
		      struct netlink_ext_ack *extack);

/* Begins one message of a dump; NULL: no room is left. */
void *ovs_shim_nl_begin(struct sk_buff *skb, struct netlink_callback *cb, u8 command);

/* Settings and laws: settings.c. */
void ovs_shim_nl_settings_confine(const struct net *net, struct shim_settings *settings);
const char *ovs_shim_nl_law_name(int law);
int ovs_shim_nl_law_read(const struct nlattr *attr, int *law, struct netlink_ext_ack *extack);

/* Ports: port.c. */
struct ovs_shim_port *ovs_shim_nl_port(struct net *net, const struct nlattr *index,
				       const struct nlattr *name, struct netlink_ext_ack *extack);

/* Commands. */
int ovs_shim_nl_settings_get(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_nl_settings_set(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_nl_port_get(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_nl_port_set(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_nl_port_del(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_nl_port_start(struct netlink_callback *cb);
int ovs_shim_nl_port_dump(struct sk_buff *skb, struct netlink_callback *cb);
int ovs_shim_nl_limiter_dump(struct sk_buff *skb, struct netlink_callback *cb);
int ovs_shim_nl_peer_set(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_nl_peer_del(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_nl_peer_start(struct netlink_callback *cb);
int ovs_shim_nl_peer_dump(struct sk_buff *skb, struct netlink_callback *cb);
int ovs_shim_nl_peer_done(struct netlink_callback *cb);
int ovs_shim_nl_path_dump(struct sk_buff *skb, struct netlink_callback *cb);
int ovs_shim_nl_message(struct sk_buff *skb, struct genl_info *info);

#endif
