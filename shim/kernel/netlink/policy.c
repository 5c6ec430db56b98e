// SPDX-License-Identifier: GPL-2.0-only
/*
 * What netlink requests may hold.  The policies tell the kernel each attribute's type and thus its
 * length; the tables of rules have the values that are allowed.  The kernel's own ranges would do,
 * but for their text, "integer out of range": a refusal must name the attribute, what is allowed
 * and what becomes of the state.
 */
#include <linux/if.h>
#include <linux/in6.h>
#include <linux/kernel.h>
#include <linux/stddef.h>
#include <linux/time64.h>
#include <net/netlink.h>

#include "../../core/laboratory.h"
#include "netlink.h"

/* An attribute that is 0 or 1, and its place in the settings. */
#define NL_SWITCH(attribute, words, member) {			\
	.attr = attribute,					\
	.name = words,						\
	.allowed = "0 and 1",					\
	.max = 1,						\
	.offset = offsetof(struct shim_settings, member),	\
	.bytes = sizeof(bool),					\
}

/* Longest time that can be set for silence. */
#define NL_SILENCE_MAX_NS (3600 * (u64)NSEC_PER_SEC)

/* Of SETTINGS_SET. */
const struct ovs_shim_nl_rule ovs_shim_settings_rules[] = {
	{
		.attr = OVS_SHIM_SETTINGS_PERIOD,
		.name = "period",
		.unit = " ns",
		.zero = "the law's default",
		.min = 50 * NSEC_PER_USEC,
		.max = 10 * (u64)NSEC_PER_SEC,
	},
	{
		.attr = OVS_SHIM_SETTINGS_LIMITER,
		.name = "limiter",
		.allowed = "0 (police) and 1 (pace)",
		.max = OVS_SHIM_LIMITER_PACE,
		.offset = offsetof(struct shim_settings, limiter),
		.bytes = sizeof_field(struct shim_settings, limiter),
	},
	{
		.attr = OVS_SHIM_SETTINGS_BURST,
		.name = "burst",
		.unit = " bytes",
		.min = 1514,
		.max = 1U << 30,
		.offset = offsetof(struct shim_settings, burst_bytes),
		.bytes = sizeof_field(struct shim_settings, burst_bytes),
	},
	{
		.attr = OVS_SHIM_SETTINGS_BURST_US,
		.name = "burst-us",
		.unit = " us",
		.max = SHIM_BURST_US_MAX,
		.offset = offsetof(struct shim_settings, burst_us),
		.bytes = sizeof_field(struct shim_settings, burst_us),
	},
	{
		.attr = OVS_SHIM_SETTINGS_HORIZON,
		.name = "horizon",
		.unit = " ns",
		.min = NSEC_PER_USEC,
		.max = 10 * (u64)NSEC_PER_SEC,
		.offset = offsetof(struct shim_settings, horizon_ns),
		.bytes = sizeof_field(struct shim_settings, horizon_ns),
	},
	NL_SWITCH(OVS_SHIM_SETTINGS_ECN, "ecn", ecn),
	{
		.attr = OVS_SHIM_SETTINGS_INACTIVE,
		.name = "inactive",
		.unit = " ns",
		.min = NSEC_PER_MSEC,
		.max = NL_SILENCE_MAX_NS,
		.offset = offsetof(struct shim_settings, inactive_ns),
		.bytes = sizeof_field(struct shim_settings, inactive_ns),
	},
	{
		/* Nothing that carries guests' traffic. */
		.attr = OVS_SHIM_SETTINGS_PROTOCOL,
		.name = "protocol",
		.min = 143,
		.max = 254,
		.offset = offsetof(struct shim_settings, protocol),
		.bytes = sizeof_field(struct shim_settings, protocol),
	},
	{
		.attr = OVS_SHIM_SETTINGS_ACCEPT_V0,
		.name = "accept-v0",
		.allowed = SHIM_ACCEPT_V0_ALLOWED,
		.max = SHIM_ACCEPT_V0_MAX,
		.offset = offsetof(struct shim_settings, accept_v0),
		.bytes = sizeof(bool),
	},
	{
		.attr = OVS_SHIM_SETTINGS_KEY,
		.name = "key",
		.allowed = "exactly 16 bytes, all zero for no key",
		.is_length = true,
		.min = SHIM_KEY_BYTES,
		.max = SHIM_KEY_BYTES,
	},
	{
		.attr = OVS_SHIM_SETTINGS_KEY_OTHER,
		.name = "key-other",
		.allowed = "exactly 16 bytes, all zero for no key",
		.is_length = true,
		.min = SHIM_KEY_BYTES,
		.max = SHIM_KEY_BYTES,
	},
	{
		.attr = OVS_SHIM_SETTINGS_PEERS_MAX,
		.name = "peers-max",
		.unit = " peers of a VM",
		.min = 1,
		.max = 1U << 20,
		.offset = offsetof(struct shim_settings, peers_max),
		.bytes = sizeof_field(struct shim_settings, peers_max),
	},
	{
		.attr = OVS_SHIM_SETTINGS_PEER_IDLE,
		.name = "peer-idle",
		.unit = " ns",
		.min = NSEC_PER_MSEC,
		.max = NL_SILENCE_MAX_NS,
		.offset = offsetof(struct shim_settings, peer_idle_ns),
		.bytes = sizeof_field(struct shim_settings, peer_idle_ns),
	},
	{
		.attr = OVS_SHIM_SETTINGS_CODEPOINT,
		.name = "codepoint",
		.allowed = "0 and 1, for ECT(0) and ECT(1)",
		.max = 1,
	},
	{
		.attr = OVS_SHIM_SETTINGS_WAITING_MAX,
		.name = "waiting-max",
		.unit = " packets",
		.zero = "any number",
		.min = SHIM_WAITING_SLOTS,
		.max = 1U << 20,
		.offset = offsetof(struct shim_settings, waiting_max),
		.bytes = sizeof_field(struct shim_settings, waiting_max),
	},
	NL_SWITCH(OVS_SHIM_SETTINGS_CONVERSATIONS, "conversations", conversations),
	NL_SWITCH(OVS_SHIM_SETTINGS_AHEAD, "ahead", ahead),
	{}
};

/* Of PORT_SET and MESSAGE. */
const struct ovs_shim_nl_rule ovs_shim_port_rules[] = {
	{
		.attr = OVS_SHIM_PORT_ROLE,
		.name = "role",
		.allowed = "0 (none), 1 (vm) and 2 (uplink)",
		.max = OVS_SHIM_ROLE_UPLINK,
	},
	{
		.attr = OVS_SHIM_PORT_WEIGHT,
		.name = "weight",
		.min = 1,
		.max = SHIM_WEIGHT_MAX,
	},
	{
		.attr = OVS_SHIM_PORT_MIN_RATE,
		.name = "min-rate",
		.unit = " bytes/s",
		.zero = "no guarantee",
		.min = SHIM_RATE_MIN,
		.max = SHIM_RATE_MAX,
	},
	{
		.attr = OVS_SHIM_PORT_MAX_RATE,
		.name = "max-rate",
		.unit = " bytes/s",
		.zero = "no ceiling",
		.min = SHIM_RATE_MIN,
		.max = SHIM_RATE_MAX,
	},
	{
		.attr = OVS_SHIM_PORT_CAPACITY,
		.name = "capacity",
		.unit = " bytes/s",
		.zero = "the link speed",
		.min = SHIM_RATE_MIN,
		.max = SHIM_RATE_MAX,
	},
	{
		.attr = OVS_SHIM_PORT_OVERHEAD,
		.name = "overhead",
		.unit = " bytes",
		.zero = "that of the device",
		.min = 1,
		.max = SHIM_OVERHEAD_MAX,
	},
	{
		.attr = OVS_SHIM_PORT_MESSAGE,
		.name = "message",
		.allowed = "1 to 1336 bytes",
		.is_length = true,
		.min = 1,
		.max = SHIM_MESSAGE_MOST_BYTES,
	},
	{}
};

/* Of the nest OVS_SHIM_ADDRESSES_ADDRESS. */
const struct ovs_shim_nl_rule ovs_shim_address_rules[] = {
	{
		.attr = OVS_SHIM_ADDRESS_VALUE,
		.name = "addresses",
		.allowed = "exactly 16 bytes, IPv4 as ::ffff:a.b.c.d",
		.is_length = true,
		.min = sizeof(struct shim_address),
		.max = sizeof(struct shim_address),
	},
	{
		.attr = OVS_SHIM_ADDRESS_PREFIX,
		.name = "addresses",
		.unit = " bits as a prefix, those of IPv4 from the 97th",
		.max = 128,
	},
	{}
};

/* Of PEER_SET and PEER_DEL. */
const struct ovs_shim_nl_rule ovs_shim_peer_rules[] = {
	{
		.attr = OVS_SHIM_PEER_ADDRESS,
		.name = "address",
		.allowed = "exactly 16 bytes, IPv4 as ::ffff:a.b.c.d",
		.is_length = true,
		.min = sizeof(struct shim_address),
		.max = sizeof(struct shim_address),
	},
	{
		.attr = OVS_SHIM_PEER_WEIGHT,
		.name = "weight of a peer",
		.zero = "none",
		.min = 1,
		.max = SHIM_WEIGHT_MAX,
	},
	{}
};

/* Of the nest OVS_SHIM_KNOBS_KNOB; the law has the ranges. */
const struct nla_policy ovs_shim_knob_policy[OVS_SHIM_KNOB_MAX + 1] = {
	[OVS_SHIM_KNOB_NAME] = { .type = NLA_NUL_STRING, .len = 31 },
	[OVS_SHIM_KNOB_VALUE] = { .type = NLA_U64 },
};

/* Of the nest OVS_SHIM_SETTINGS_KNOBS. */
static const struct nla_policy nl_knobs_policy[OVS_SHIM_KNOBS_MAX + 1] = {
	[OVS_SHIM_KNOBS_KNOB] = NLA_POLICY_NESTED(ovs_shim_knob_policy),
};

/* Of SETTINGS_GET and SETTINGS_SET; the first heeds OF alone. */
const struct nla_policy ovs_shim_settings_policy[OVS_SHIM_SETTINGS_MAX + 1] = {
	[OVS_SHIM_SETTINGS_LAW] = { .type = NLA_NUL_STRING, .len = 31 },
	[OVS_SHIM_SETTINGS_PERIOD] = { .type = NLA_U64 },
	[OVS_SHIM_SETTINGS_LIMITER] = { .type = NLA_U32 },
	[OVS_SHIM_SETTINGS_BURST] = { .type = NLA_U32 },
	[OVS_SHIM_SETTINGS_QUANTUM] = {
		.type = NLA_REJECT,
		.reject_message = "quantum: there is no such setting, burst-us does its work"
			OVS_SHIM_NL_STAYS,
	},
	[OVS_SHIM_SETTINGS_HORIZON] = { .type = NLA_U64 },
	[OVS_SHIM_SETTINGS_SEGMENT] = {
		.type = NLA_REJECT,
		.reject_message = "segment: there is no such setting, burst-us does its work"
			OVS_SHIM_NL_STAYS,
	},
	[OVS_SHIM_SETTINGS_ECN] = { .type = NLA_U8 },
	[OVS_SHIM_SETTINGS_INACTIVE] = { .type = NLA_U64 },
	[OVS_SHIM_SETTINGS_PROTOCOL] = { .type = NLA_U8 },
	[OVS_SHIM_SETTINGS_ACCEPT_V0] = { .type = NLA_U8 },
	[OVS_SHIM_SETTINGS_KEY] = { .type = NLA_BINARY },
	[OVS_SHIM_SETTINGS_KNOBS] = NLA_POLICY_NESTED(nl_knobs_policy),
	[OVS_SHIM_SETTINGS_OF] = { .type = NLA_NUL_STRING, .len = 31 },
	[OVS_SHIM_SETTINGS_PEERS_MAX] = { .type = NLA_U32 },
	[OVS_SHIM_SETTINGS_PEER_IDLE] = { .type = NLA_U64 },
	[OVS_SHIM_SETTINGS_KEY_OTHER] = { .type = NLA_BINARY },
	[OVS_SHIM_SETTINGS_CODEPOINT] = { .type = NLA_U8 },
	[OVS_SHIM_SETTINGS_WAITING_MAX] = { .type = NLA_U32 },
	[OVS_SHIM_SETTINGS_CONVERSATIONS] = { .type = NLA_U8 },
	[OVS_SHIM_SETTINGS_EARLY] = {
		.type = NLA_REJECT,
		.reject_message =
			"early: there is no such setting, ahead does its work" OVS_SHIM_NL_STAYS,
	},
	[OVS_SHIM_SETTINGS_AHEAD] = { .type = NLA_U8 },
	[OVS_SHIM_SETTINGS_BURST_US] = { .type = NLA_U32 },
};

/* Of the nest OVS_SHIM_ADDRESSES_ADDRESS. */
const struct nla_policy ovs_shim_address_policy[OVS_SHIM_ADDRESS_MAX + 1] = {
	[OVS_SHIM_ADDRESS_VALUE] = { .type = NLA_BINARY },
	[OVS_SHIM_ADDRESS_PREFIX] = { .type = NLA_U8 },
};

/* Of the nest OVS_SHIM_PORT_ADDRESSES. */
static const struct nla_policy nl_addresses_policy[OVS_SHIM_ADDRESSES_MAX + 1] = {
	[OVS_SHIM_ADDRESSES_ADDRESS] = NLA_POLICY_NESTED(ovs_shim_address_policy),
};

/* Of PORT_GET, PORT_SET, PORT_DEL and MESSAGE. */
const struct nla_policy ovs_shim_port_policy[OVS_SHIM_PORT_MAX + 1] = {
	[OVS_SHIM_PORT_IFINDEX] = { .type = NLA_U32 },
	[OVS_SHIM_PORT_NAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[OVS_SHIM_PORT_ROLE] = { .type = NLA_U32 },
	[OVS_SHIM_PORT_WEIGHT] = { .type = NLA_U32 },
	[OVS_SHIM_PORT_MIN_RATE] = { .type = NLA_U64 },
	[OVS_SHIM_PORT_MAX_RATE] = { .type = NLA_U64 },
	[OVS_SHIM_PORT_CAPACITY] = { .type = NLA_U64 },
	[OVS_SHIM_PORT_OVERHEAD] = { .type = NLA_U32 },
	[OVS_SHIM_PORT_LAW] = { .type = NLA_NUL_STRING, .len = 31 },
	[OVS_SHIM_PORT_ADDRESSES] = NLA_POLICY_NESTED(nl_addresses_policy),
	[OVS_SHIM_PORT_MESSAGE] = { .type = NLA_BINARY },
};

/* Of PEER_GET, PEER_SET and PEER_DEL. */
const struct nla_policy ovs_shim_peer_policy[OVS_SHIM_PEER_MAX + 1] = {
	[OVS_SHIM_PEER_VM] = { .type = NLA_U32 },
	[OVS_SHIM_PEER_VM_NAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[OVS_SHIM_PEER_ADDRESS] = { .type = NLA_BINARY },
	[OVS_SHIM_PEER_WEIGHT] = { .type = NLA_U32 },
	[OVS_SHIM_PEER_SINCE] = { .type = NLA_U64 },
};

void ovs_shim_say(struct netlink_ext_ack *extack, const char *format, ...)
{
	struct ovs_shim_nl_answer *answer;
	va_list args;
	int len;

	if (!extack)
		return;
	answer = container_of(extack, struct ovs_shim_nl_answer, extack);
	va_start(args, format);
	len = vscnprintf(answer->text, sizeof(answer->text) - sizeof(OVS_SHIM_NL_STAYS) + 1, format,
			 args);
	va_end(args);
	strscpy(answer->text + len, OVS_SHIM_NL_STAYS, sizeof(answer->text) - len);
	extack->_msg = answer->text;
}

u64 ovs_shim_nl_value(const struct nlattr *attr)
{
	switch (nla_len(attr)) {
	case sizeof(u8):
		return nla_get_u8(attr);
	case sizeof(u32):
		return nla_get_u32(attr);
	default:
		return nla_get_u64(attr);
	}
}

/* Says what a rule allows. */
static void nl_say_allowed(const struct ovs_shim_nl_rule *rule, struct netlink_ext_ack *extack)
{
	if (rule->allowed)
		ovs_shim_say(extack, "%s: allowed are %s", rule->name, rule->allowed);
	else
		ovs_shim_say(extack, "%s: allowed are %llu to %llu%s%s%s", rule->name, rule->min,
			     rule->max, rule->unit ?: "", rule->zero ? ", or 0 for " : "",
			     rule->zero ?: "");
}

int ovs_shim_nl_check(const struct ovs_shim_nl_rule *rules, struct nlattr *const *attrs,
		      struct netlink_ext_ack *extack)
{
	const struct ovs_shim_nl_rule *rule;
	u64 value;

	for (rule = rules; rule->name; rule++) {
		const struct nlattr *attr = attrs[rule->attr];

		if (!attr)
			continue;
		value = rule->is_length ? nla_len(attr) : ovs_shim_nl_value(attr);
		if ((value >= rule->min && value <= rule->max) || (rule->zero && !value))
			continue;
		nl_say_allowed(rule, extack);
		NL_SET_BAD_ATTR(extack, attr);
		return -ERANGE;
	}
	return 0;
}
