// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": settings.  A change works on a copy of what is in force, which
 * then takes its place as a whole or is thrown away.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/user_namespace.h>
#include <net/genetlink.h>

#include "../../core/laboratory.h"
#include "../hook.h"
#include "netlink.h"

/* Bytes of a SETTINGS_GET reply: a law has at most SHIM_KNOBS_MAX knobs of less than 512 bytes. */
#define NL_SETTINGS_BYTES 12288

/* Shortest T outside the initial user namespace. */
#define NL_PERIOD_MIN_GUEST_NS ((u64)NSEC_PER_MSEC)

/*
 * What may be asked in a network namespace that the initial user namespace does not own: T decides
 * how often the timer of a law interrupts the host, peers-max how much of its memory a VM can take.
 */
static const struct ovs_shim_nl_rule nl_settings_rules_guest[] = {
	{
		.attr = OVS_SHIM_SETTINGS_PERIOD,
		.name = "period",
		.unit = " ns outside the initial user namespace",
		.zero = "the longer of 1000000 and the law's default",
		.min = NL_PERIOD_MIN_GUEST_NS,
		.max = 10 * (u64)NSEC_PER_SEC,
	},
	{
		.attr = OVS_SHIM_SETTINGS_PEERS_MAX,
		.name = "peers-max",
		.unit = " peers of a VM outside the initial user namespace",
		.min = 1,
		.max = 65536,
	},
	{}
};

/* Tells whether a network namespace is owned by another user namespace than the initial one. */
static bool nl_settings_of_guest(const struct net *net)
{
	return net->user_ns != &init_user_ns;
}

/*
 * Raises the periods of laws whose own one is too short for who owns the network namespace; for
 * settings that are not yet in force, or seen by nobody.
 */
void ovs_shim_nl_settings_confine(const struct net *net, struct shim_settings *settings)
{
	u32 i;

	for (i = 0; nl_settings_of_guest(net) && i < SHIM_LAW_SLOTS; i++)
		settings->laws[i].period_ns = max(settings->laws[i].period_ns,
						  NL_PERIOD_MIN_GUEST_NS);
}

/* Returns the name of a law by its index or SHIM_LAW_*. */
const char *ovs_shim_nl_law_name(int law)
{
	if (law == SHIM_LAW_DEFAULT)
		return "default";
	return law == SHIM_LAW_NONE ? "none" : shim_law_at(law)->name;
}

/*
 * Writes to *law the index of the law that attr names, SHIM_LAW_NONE for "none"; -ENOENT and the
 * reason in *extack if there is none.
 */
int ovs_shim_nl_law_read(const struct nlattr *attr, int *law, struct netlink_ext_ack *extack)
{
	const char *name = nla_data(attr);
	const struct shim_law *one;
	char names[128] = "none";
	size_t len = strlen(names);
	int i;

	*law = SHIM_LAW_NONE;
	if (!strcmp(name, "none"))
		return 0;
	for (i = 0; (one = shim_law_at(i)); i++) {
		if (!strcmp(name, one->name)) {
			*law = i;
			return 0;
		}
		len += scnprintf(names + len, sizeof(names) - len, ", %s", one->name);
	}
	if (shim_laboratory_only(name, NULL))
		ovs_shim_say(extack, "law: the laboratory build alone has %s, there are %s", name,
			     names);
	else
		ovs_shim_say(extack, "law: no law is called %s, there are %s", name, names);
	NL_SET_BAD_ATTR(extack, attr);
	return -ENOENT;
}

/* Puts a knob with its value. */
static int nl_settings_put_knob(struct sk_buff *skb, const struct shim_knob *knob, u64 value)
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
static int nl_settings_put_laws(struct sk_buff *skb, const struct shim_settings *settings, int of)
{
	const struct shim_law *law = of == SHIM_LAW_NONE ? NULL : shim_law_at(of);
	struct nlattr *nest;
	u32 i;

	if (nla_put_string(skb, OVS_SHIM_SETTINGS_OF, ovs_shim_nl_law_name(of)) ||
	    nla_put_u64_64bit(skb, OVS_SHIM_SETTINGS_PERIOD,
			      law ? settings->laws[of].period_ns : 0, OVS_SHIM_SETTINGS_PAD))
		return -EMSGSIZE;

	nest = nla_nest_start(skb, OVS_SHIM_SETTINGS_KNOBS);
	if (!nest)
		return -EMSGSIZE;
	for (i = 0; law && i < law->n_knobs; i++)
		if (nl_settings_put_knob(skb, &law->knobs[i], settings->laws[of].knobs[i]))
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

/* Puts the plain values of settings. */
static int nl_settings_put_plain(struct sk_buff *skb, const struct shim_settings *settings)
{
	const struct ovs_shim_nl_rule *rule;
	int err = 0;

	for (rule = ovs_shim_settings_rules; rule->name && !err; rule++) {
		const void *value = (const u8 *)settings + rule->offset;

		if (rule->bytes == sizeof(u8))
			err = nla_put_u8(skb, rule->attr, *(const u8 *)value);
		else if (rule->bytes == sizeof(u32))
			err = nla_put_u32(skb, rule->attr, *(const u32 *)value);
		else if (rule->bytes)
			err = nla_put_u64_64bit(skb, rule->attr, *(const u64 *)value,
						OVS_SHIM_SETTINGS_PAD);
	}
	return err;
}

/* Puts who was lately heard with the other key. */
static int nl_settings_put_senders(struct sk_buff *skb, struct shim_engine *engine)
{
	struct nlattr *nest = nla_nest_start(skb, OVS_SHIM_SETTINGS_OTHER_KEY_SENDERS);
	struct shim_other_sender others[SHIM_OTHER_KEY_SENDERS];
	u64 now_ns = shim_now_ns();
	struct nlattr *one;
	u32 i;

	if (!nest)
		return -EMSGSIZE;
	spin_lock_bh(&engine->other_lock);
	memcpy(others, engine->others, sizeof(others));
	spin_unlock_bh(&engine->other_lock);
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		u64 silent_ns = now_ns > others[i].seen_ns ? now_ns - others[i].seen_ns : 0;

		if (!others[i].seen_ns)
			continue;
		one = nla_nest_start(skb, OVS_SHIM_SENDERS_SENDER);
		if (!one || nla_put_u32(skb, OVS_SHIM_SENDER_ID, others[i].sender) ||
		    nla_put_u32(skb, OVS_SHIM_SENDER_SILENT, div_u64(silent_ns, NSEC_PER_SEC)))
			return -EMSGSIZE;
		nla_nest_end(skb, one);
	}
	nla_nest_end(skb, nest);
	return 0;
}

/* Puts settings, all but the keys themselves; of laws, the one whose index is `of`. */
static int nl_settings_put(struct sk_buff *skb, const struct shim_settings *settings, int of)
{
	if (nla_put_string(skb, OVS_SHIM_SETTINGS_LAW, ovs_shim_nl_law_name(settings->law)) ||
	    nl_settings_put_plain(skb, settings) ||
	    nla_put_u8(skb, OVS_SHIM_SETTINGS_CODEPOINT, settings->codepoint == SHIM_ECT_ONE) ||
	    (settings->key_set && nla_put_flag(skb, OVS_SHIM_SETTINGS_KEY_SET)) ||
	    (settings->key_other_set && nla_put_flag(skb, OVS_SHIM_SETTINGS_KEY_OTHER_SET)))
		return -EMSGSIZE;
	return nl_settings_put_laws(skb, settings, of);
}

/* OVS_SHIM_CMD_SETTINGS_GET. */
int ovs_shim_nl_settings_get(struct sk_buff *skb, struct genl_info *info)
{
	struct shim_engine *engine = &ovs_shim_net(genl_info_net(info))->engine;
	const struct nlattr *asked = info->attrs[OVS_SHIM_SETTINGS_OF];
	const struct shim_settings *settings;
	struct sk_buff *reply;
	int of = SHIM_LAW_NONE;
	int err = -EMSGSIZE;
	void *header;

	reply = genlmsg_new(NL_SETTINGS_BYTES, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	header = genlmsg_put_reply(reply, info, &ovs_shim_family, 0, OVS_SHIM_CMD_SETTINGS_GET);
	if (!header)
		goto error;
	err = asked ? ovs_shim_nl_law_read(asked, &of, info->extack) : 0;
	if (err)
		goto error;
	rcu_read_lock();
	settings = shim_engine_settings(engine);
	err = nl_settings_put(reply, settings, asked ? of : settings->law);
	rcu_read_unlock();
	if (!err)
		err = nl_settings_put_senders(reply, engine);
	if (err)
		goto error;
	genlmsg_end(reply, header);
	return genlmsg_reply(reply, info);
error:
	nlmsg_free(reply);
	return err;
}

/* Changes one knob of a law, of which there is none with index SHIM_LAW_NONE. */
static int nl_settings_change_knob(struct shim_settings *settings, int of,
				   const struct nlattr *nest, struct netlink_ext_ack *extack)
{
	const struct shim_law *law = of == SHIM_LAW_NONE ? NULL : shim_law_at(of);
	struct nlattr *attrs[OVS_SHIM_KNOB_MAX + 1];
	const struct shim_knob *knob;
	const char *name;
	u64 value;
	int err, i;

	err = nla_parse_nested(attrs, OVS_SHIM_KNOB_MAX, nest, ovs_shim_knob_policy, extack);
	if (err)
		return err;
	if (!attrs[OVS_SHIM_KNOB_NAME] || !attrs[OVS_SHIM_KNOB_VALUE]) {
		ovs_shim_say(extack, "knob: needs a name and a value");
		NL_SET_BAD_ATTR(extack, nest);
		return -EINVAL;
	}
	name = nla_data(attrs[OVS_SHIM_KNOB_NAME]);
	value = nla_get_u64(attrs[OVS_SHIM_KNOB_VALUE]);
	i = law ? shim_knob_find(law, name) : -1;
	if (i < 0) {
		if (law && shim_laboratory_only(law->name, name))
			ovs_shim_say(extack, "knob %s: the laboratory build alone has that of %s",
				     name, law->name);
		else
			ovs_shim_say(extack, "knob %s: law %s has no such knob", name,
				     ovs_shim_nl_law_name(of));
		NL_SET_BAD_ATTR(extack, attrs[OVS_SHIM_KNOB_NAME]);
		return -ENOENT;
	}
	knob = &law->knobs[i];
	if (value < knob->min || value > knob->max) {
		ovs_shim_say(extack, "knob %s: %llu is not allowed, %llu to %llu %s is", name,
			     value, knob->min, knob->max, knob->unit);
		NL_SET_BAD_ATTR(extack, attrs[OVS_SHIM_KNOB_VALUE]);
		return -ERANGE;
	}
	settings->laws[of].knobs[i] = value;
	return 0;
}

/* Changes period and knobs of the law that the request is about, the default law by default. */
static int nl_settings_change_law(struct shim_settings *settings, struct nlattr *const *attrs,
				  struct netlink_ext_ack *extack)
{
	int err, rest, of = settings->law;
	struct nlattr *knob;

	if (attrs[OVS_SHIM_SETTINGS_OF]) {
		err = ovs_shim_nl_law_read(attrs[OVS_SHIM_SETTINGS_OF], &of, extack);
		if (err)
			return err;
	}
	if (attrs[OVS_SHIM_SETTINGS_PERIOD] && of != SHIM_LAW_NONE)
		settings->laws[of].period_ns = nla_get_u64(attrs[OVS_SHIM_SETTINGS_PERIOD]) ?:
					       shim_law_at(of)->period_ns;
	if (!attrs[OVS_SHIM_SETTINGS_KNOBS])
		return 0;
	nla_for_each_nested(knob, attrs[OVS_SHIM_SETTINGS_KNOBS], rest) {
		err = nl_settings_change_knob(settings, of, knob, extack);
		if (err)
			return err;
	}
	return 0;
}

/* Changes the plain values that the attributes name. */
static void nl_settings_change_plain(struct shim_settings *settings, struct nlattr *const *attrs)
{
	const struct ovs_shim_nl_rule *rule;

	for (rule = ovs_shim_settings_rules; rule->name; rule++)
		if (rule->bytes && attrs[rule->attr])
			memcpy((u8 *)settings + rule->offset, nla_data(attrs[rule->attr]),
			       rule->bytes);
}

/* Changes a key if attr is there; returns whether there is one then: an all-zero key is none. */
static bool nl_settings_change_key(u8 key[SHIM_KEY_BYTES], bool set, const struct nlattr *attr)
{
	if (!attr)
		return set;
	memcpy(key, nla_data(attr), SHIM_KEY_BYTES);
	return memchr_inv(key, 0, SHIM_KEY_BYTES);
}

/*
 * Changes *settings, a copy of those in force, as the attributes ask; a negative error number, and
 * the reason in *extack, if one of them is refused.  attrs have passed policy and rules.
 */
static int nl_settings_change(struct shim_settings *settings, struct nlattr *const *attrs,
			      struct netlink_ext_ack *extack)
{
	const struct nlattr *codepoint = attrs[OVS_SHIM_SETTINGS_CODEPOINT];
	int err;

	if (attrs[OVS_SHIM_SETTINGS_LAW]) {
		err = ovs_shim_nl_law_read(attrs[OVS_SHIM_SETTINGS_LAW], &settings->law, extack);
		if (err)
			return err;
	}
	err = nl_settings_change_law(settings, attrs, extack);
	if (err)
		return err;
	nl_settings_change_plain(settings, attrs);
	if (codepoint)
		settings->codepoint = nla_get_u8(codepoint) ? SHIM_ECT_ONE : SHIM_ECT_ZERO;
	settings->key_set = nl_settings_change_key(settings->key, settings->key_set,
						   attrs[OVS_SHIM_SETTINGS_KEY]);
	settings->key_other_set = nl_settings_change_key(settings->key_other,
							 settings->key_other_set,
							 attrs[OVS_SHIM_SETTINGS_KEY_OTHER]);
	return 0;
}

/* OVS_SHIM_CMD_SETTINGS_SET: all that is asked, or nothing. */
int ovs_shim_nl_settings_set(struct sk_buff *skb, struct genl_info *info)
{
	struct ovs_shim_net *net = ovs_shim_net(genl_info_net(info));
	struct shim_settings *settings;
	int err;

	BUILD_BUG_ON((int)OVS_SHIM_LIMITER_POLICE != (int)SHIM_LIMITER_POLICE);
	BUILD_BUG_ON((int)OVS_SHIM_LIMITER_PACE != (int)SHIM_LIMITER_PACE);
	if (nl_settings_of_guest(genl_info_net(info))) {
		err = ovs_shim_nl_check(nl_settings_rules_guest, info->attrs, info->extack);
		if (err)
			return err;
	}
	settings = shim_alloc_wait(sizeof(*settings));
	if (!settings)
		return -ENOMEM;
	ovs_shim_lock();
	*settings = *shim_engine_settings(&net->engine);
	err = nl_settings_change(settings, info->attrs, info->extack);
	if (!err) {
		ovs_shim_nl_settings_confine(genl_info_net(info), settings);
		shim_engine_set(&net->engine, settings);
		ovs_shim_net_count(net);
		settings = NULL;
	}
	ovs_shim_unlock();
	kvfree_sensitive(settings, sizeof(*settings));
	return err;
}
