// SPDX-License-Identifier: GPL-2.0-only
/*
 * What netlink requests may contain.  Every refusal names the attribute, what is allowed and
 * what stays in force.
 */
#include <linux/atomic.h>
#include <linux/if.h>
#include <linux/kernel.h>
#include <net/netlink.h>

#include "internal.h"

/* Refusals being sent at the same time that keep their own text. */
#define TEXTS 16

/* Bytes of a refusal. */
#define TEXT_BYTES 200

/*
 * Sets a formatted extack message, and adds what becomes of the state.  The kernel reads it after
 * the handler has returned, so it stands in one of TEXTS buffers used in turn; more refusals than
 * that at the same instant could read each other's text, never anything else.
 */
void ovs_shim_say(struct netlink_ext_ack *extack, const char *format, ...)
{
	static char texts[TEXTS][TEXT_BYTES];
	static atomic_t turn;
	char *text = texts[(u32)atomic_inc_return(&turn) % TEXTS];
	va_list args;
	int len;

	if (!extack)
		return;
	va_start(args, format);
	len = vscnprintf(text, TEXT_BYTES, format, args);
	va_end(args);
	scnprintf(text + len, TEXT_BYTES - len, "; what is in force stays");
	extack->_msg = text;
}

/* Returns 0 if the value of attr is good, else -ERANGE with a text that says what is allowed. */
static int check(const struct nlattr *attr, struct netlink_ext_ack *extack, bool good,
		 const char *text)
{
	if (good)
		return 0;
	ovs_shim_say(extack, "%s", text);
	NL_SET_BAD_ATTR(extack, attr);
	return -ERANGE;
}

/* Checks OVS_SHIM_SETTINGS_PERIOD. */
static int period_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u64 value = nla_get_u64(attr);

	return check(attr, extack, !value || (value >= 50000 && value <= 10000000000ULL),
		     "period: allowed are 50000 to 10000000000 ns, or 0 for the law's default");
}

/* Checks OVS_SHIM_SETTINGS_LIMITER. */
static int limiter_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_get_u32(attr) <= OVS_SHIM_LIMITER_PACE,
		     "limiter: allowed are 0 (police) and 1 (pace)");
}

/* Checks OVS_SHIM_SETTINGS_BURST. */
static int burst_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u32 value = nla_get_u32(attr);

	return check(attr, extack, value >= 1514 && value <= 1U << 30,
		     "burst: allowed are 1514 to 1073741824 bytes");
}

/* Checks OVS_SHIM_SETTINGS_QUANTUM. */
static int quantum_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u32 value = nla_get_u32(attr);

	return check(attr, extack, value >= 1514 && value <= 1U << 30,
		     "quantum: allowed are 1514 to 1073741824 bytes");
}

/* Checks OVS_SHIM_SETTINGS_HORIZON. */
static int horizon_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u64 value = nla_get_u64(attr);

	return check(attr, extack, value >= 1000 && value <= 10000000000ULL,
		     "horizon: allowed are 1000 to 10000000000 ns");
}

/* Checks OVS_SHIM_SETTINGS_SEGMENT. */
static int segment_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_get_u8(attr) <= 1, "segment: allowed are 0 and 1");
}

/* Checks OVS_SHIM_SETTINGS_ECN. */
static int ecn_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_get_u8(attr) <= 1, "ecn: allowed are 0 and 1");
}

/* Checks OVS_SHIM_SETTINGS_INACTIVE. */
static int inactive_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u64 value = nla_get_u64(attr);

	return check(attr, extack, value >= 1000000 && value <= 3600000000000ULL,
		     "inactive: allowed are 1000000 to 3600000000000 ns");
}

/* Checks OVS_SHIM_SETTINGS_PROTOCOL: nothing that carries guests' traffic. */
static int protocol_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u8 value = nla_get_u8(attr);

	return check(attr, extack, value >= 143 && value <= 254,
		     "protocol: allowed are 143 to 254");
}

/* Checks OVS_SHIM_SETTINGS_ACCEPT_V0. */
static int accept_v0_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_get_u8(attr) <= 1, "accept-v0: allowed are 0 and 1");
}

/* Checks OVS_SHIM_SETTINGS_KEY. */
static int key_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_len(attr) == SHIM_KEY_BYTES,
		     "key: allowed are exactly 16 bytes, all zero for no key");
}

/* Checks OVS_SHIM_SETTINGS_PEERS_MAX. */
static int peers_max_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u32 value = nla_get_u32(attr);

	return check(attr, extack, value && value <= 1U << 20,
		     "peers-max: allowed are 1 to 1048576 peers of a VM");
}

/* Checks OVS_SHIM_SETTINGS_PEER_IDLE. */
static int peer_idle_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u64 value = nla_get_u64(attr);

	return check(attr, extack, value >= 1000000 && value <= 3600000000000ULL,
		     "peer-idle: allowed are 1000000 to 3600000000000 ns");
}

/* Checks OVS_SHIM_PORT_ROLE. */
static int role_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_get_u32(attr) <= OVS_SHIM_ROLE_UPLINK,
		     "role: allowed are 0 (none), 1 (vm) and 2 (uplink)");
}

/* Checks OVS_SHIM_PORT_WEIGHT. */
static int weight_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	u32 value = nla_get_u32(attr);

	return check(attr, extack, value && value <= SHIM_WEIGHT_MAX,
		     "weight: allowed are 1 to 65535");
}

/* Checks OVS_SHIM_PEER_ADDRESS. */
static int address_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_len(attr) == sizeof(struct in6_addr),
		     "address: allowed are exactly 16 bytes, IPv4 as ::ffff:a.b.c.d");
}

/* Checks OVS_SHIM_PEER_WEIGHT. */
static int peer_weight_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, nla_get_u32(attr) <= SHIM_WEIGHT_MAX,
		     "weight of a peer: allowed are 1 to 65535, or 0 for none");
}

/* Tells whether a rate in bytes/s is 0 or one that a limiter can have. */
static bool rate_ok(const struct nlattr *attr)
{
	u64 value = nla_get_u64(attr);

	return !value || (value >= SHIM_RATE_MIN && value <= SHIM_RATE_MAX);
}

/* Checks OVS_SHIM_PORT_MIN_RATE. */
static int min_rate_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, rate_ok(attr),
		     "min-rate: allowed are 125 to 100000000000 bytes/s, or 0 for no guarantee");
}

/* Checks OVS_SHIM_PORT_MAX_RATE. */
static int max_rate_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, rate_ok(attr),
		     "max-rate: allowed are 125 to 100000000000 bytes/s, or 0 for no ceiling");
}

/* Checks OVS_SHIM_PORT_CAPACITY. */
static int capacity_valid(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	return check(attr, extack, rate_ok(attr),
		     "capacity: allowed are 125 to 100000000000 bytes/s, or 0 for the link speed");
}

/* Of SETTINGS_GET and SETTINGS_SET; the first heeds OF alone. */
const struct nla_policy ovs_shim_settings_policy[OVS_SHIM_SETTINGS_MAX + 1] = {
	[OVS_SHIM_SETTINGS_LAW] = { .type = NLA_NUL_STRING, .len = 31 },
	[OVS_SHIM_SETTINGS_PERIOD] = NLA_POLICY_VALIDATE_FN(NLA_U64, period_valid),
	[OVS_SHIM_SETTINGS_LIMITER] = NLA_POLICY_VALIDATE_FN(NLA_U32, limiter_valid),
	[OVS_SHIM_SETTINGS_BURST] = NLA_POLICY_VALIDATE_FN(NLA_U32, burst_valid),
	[OVS_SHIM_SETTINGS_QUANTUM] = NLA_POLICY_VALIDATE_FN(NLA_U32, quantum_valid),
	[OVS_SHIM_SETTINGS_HORIZON] = NLA_POLICY_VALIDATE_FN(NLA_U64, horizon_valid),
	[OVS_SHIM_SETTINGS_SEGMENT] = NLA_POLICY_VALIDATE_FN(NLA_U8, segment_valid),
	[OVS_SHIM_SETTINGS_ECN] = NLA_POLICY_VALIDATE_FN(NLA_U8, ecn_valid),
	[OVS_SHIM_SETTINGS_INACTIVE] = NLA_POLICY_VALIDATE_FN(NLA_U64, inactive_valid),
	[OVS_SHIM_SETTINGS_PROTOCOL] = NLA_POLICY_VALIDATE_FN(NLA_U8, protocol_valid),
	[OVS_SHIM_SETTINGS_ACCEPT_V0] = NLA_POLICY_VALIDATE_FN(NLA_U8, accept_v0_valid),
	[OVS_SHIM_SETTINGS_KEY] = NLA_POLICY_VALIDATE_FN(NLA_BINARY, key_valid),
	[OVS_SHIM_SETTINGS_KNOBS] = NLA_POLICY_NESTED(ovs_shim_knobs_policy),
	[OVS_SHIM_SETTINGS_OF] = { .type = NLA_NUL_STRING, .len = 31 },
	[OVS_SHIM_SETTINGS_PEERS_MAX] = NLA_POLICY_VALIDATE_FN(NLA_U32, peers_max_valid),
	[OVS_SHIM_SETTINGS_PEER_IDLE] = NLA_POLICY_VALIDATE_FN(NLA_U64, peer_idle_valid),
};

/* Of the nest OVS_SHIM_SETTINGS_KNOBS. */
const struct nla_policy ovs_shim_knobs_policy[OVS_SHIM_KNOBS_MAX + 1] = {
	[OVS_SHIM_KNOBS_KNOB] = NLA_POLICY_NESTED(ovs_shim_knob_policy),
};

/* Of the nest OVS_SHIM_KNOBS_KNOB; the law has the ranges. */
const struct nla_policy ovs_shim_knob_policy[OVS_SHIM_KNOB_MAX + 1] = {
	[OVS_SHIM_KNOB_NAME] = { .type = NLA_NUL_STRING, .len = 31 },
	[OVS_SHIM_KNOB_VALUE] = { .type = NLA_U64 },
};

/* Of PORT_GET, PORT_SET and PORT_DEL. */
const struct nla_policy ovs_shim_port_policy[OVS_SHIM_PORT_MAX + 1] = {
	[OVS_SHIM_PORT_IFINDEX] = { .type = NLA_U32 },
	[OVS_SHIM_PORT_NAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[OVS_SHIM_PORT_ROLE] = NLA_POLICY_VALIDATE_FN(NLA_U32, role_valid),
	[OVS_SHIM_PORT_WEIGHT] = NLA_POLICY_VALIDATE_FN(NLA_U32, weight_valid),
	[OVS_SHIM_PORT_MIN_RATE] = NLA_POLICY_VALIDATE_FN(NLA_U64, min_rate_valid),
	[OVS_SHIM_PORT_MAX_RATE] = NLA_POLICY_VALIDATE_FN(NLA_U64, max_rate_valid),
	[OVS_SHIM_PORT_CAPACITY] = NLA_POLICY_VALIDATE_FN(NLA_U64, capacity_valid),
	[OVS_SHIM_PORT_LAW] = { .type = NLA_NUL_STRING, .len = 31 },
};

/* Of PEER_GET, PEER_SET and PEER_DEL. */
const struct nla_policy ovs_shim_peer_policy[OVS_SHIM_PEER_MAX + 1] = {
	[OVS_SHIM_PEER_VM] = { .type = NLA_U32 },
	[OVS_SHIM_PEER_VM_NAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[OVS_SHIM_PEER_ADDRESS] = NLA_POLICY_VALIDATE_FN(NLA_BINARY, address_valid),
	[OVS_SHIM_PEER_WEIGHT] = NLA_POLICY_VALIDATE_FN(NLA_U32, peer_weight_valid),
};
