// SPDX-License-Identifier: GPL-2.0-only
/*
 * The settings of a namespace: defaults, changes asked for by netlink, and how they take effect.
 */
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/string.h>
#include <net/netlink.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"

/* Depth below which an uncut 64 KiB GSO packet, with a header for each part, might never pass. */
#define UNCUT_BURST_MIN 80000U

/* Fills *settings with what is in force before anybody sets anything. */
void ovs_shim_settings_default(struct ovs_shim_settings *settings)
{
	*settings = (struct ovs_shim_settings){
		/* Well below T of the laws: what waits already leaves at the rate of yesterday. */
		.horizon_ns = 2 * NSEC_PER_MSEC,
		.inactive_ns = NSEC_PER_SEC,
		.burst_bytes = 2097152,
		.quantum_bytes = 3028,
		.limiter = OVS_SHIM_LIMITER_PACE,
		.protocol = SHIM_MESSAGE_PROTOCOL,
		.segment = true,
		.ecn = true,
	};
}

/* Changes the law to the one attr names, with that law's period and knobs. */
static int change_law(struct ovs_shim_settings *settings, const struct nlattr *attr,
		      struct netlink_ext_ack *extack)
{
	const char *name = nla_data(attr);
	const struct shim_law *law = NULL;
	char names[64] = "none";
	size_t len = strlen(names);
	u32 i;

	if (strcmp(name, "none")) {
		law = shim_law_find(name);
		if (!law) {
			for (i = 0; (law = shim_law_at(i)); i++)
				len += scnprintf(names + len, sizeof(names) - len, ", %s",
						 law->name);
			ovs_shim_say(extack, "law: no law is called %s, there are %s",
				     name, names);
			NL_SET_BAD_ATTR(extack, attr);
			return -ENOENT;
		}
	}
	if (law == settings->law)
		return 0;
	settings->law = law;
	settings->period_ns = law ? law->period_ns : 0;
	for (i = 0; i < SHIM_KNOBS_MAX; i++)
		settings->knobs[i] = law && i < law->n_knobs ? law->knobs[i].value : 0;
	return 0;
}

/* Changes one knob of the law in *settings. */
static int change_knob(struct ovs_shim_settings *settings, const struct nlattr *nest,
		       struct netlink_ext_ack *extack)
{
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
	i = settings->law ? shim_knob_find(settings->law, name) : -1;
	if (i < 0) {
		ovs_shim_say(extack, "knob %s: law %s has no such knob",
			     name, settings->law ? settings->law->name : "none");
		NL_SET_BAD_ATTR(extack, attrs[OVS_SHIM_KNOB_NAME]);
		return -ENOENT;
	}
	knob = &settings->law->knobs[i];
	if (value < knob->min || value > knob->max) {
		ovs_shim_say(extack,
			     "knob %s: %llu is not allowed, %llu to %llu %s is",
			     name, value, knob->min, knob->max, knob->unit);
		NL_SET_BAD_ATTR(extack, attrs[OVS_SHIM_KNOB_VALUE]);
		return -ERANGE;
	}
	settings->knobs[i] = value;
	return 0;
}

/* Changes the key; an all-zero key is none. */
static void change_key(struct ovs_shim_settings *settings, const struct nlattr *attr)
{
	memcpy(settings->key, nla_data(attr), SHIM_KEY_BYTES);
	settings->key_set = memchr_inv(settings->key, 0, SHIM_KEY_BYTES);
}

/*
 * Changes *settings, a copy of those in force, as the attributes ask; a negative error number, and
 * the reason in *extack, if one of them is refused.  attrs have passed the policy.
 */
int ovs_shim_settings_change(struct ovs_shim_settings *settings, struct nlattr *const *attrs,
			     struct netlink_ext_ack *extack)
{
	struct nlattr *knob;
	int err, rest;

	if (attrs[OVS_SHIM_SETTINGS_LAW]) {
		err = change_law(settings, attrs[OVS_SHIM_SETTINGS_LAW], extack);
		if (err)
			return err;
	}
	if (attrs[OVS_SHIM_SETTINGS_PERIOD]) {
		settings->period_ns = nla_get_u64(attrs[OVS_SHIM_SETTINGS_PERIOD]);
		if (!settings->period_ns && settings->law)
			settings->period_ns = settings->law->period_ns;
	}
	if (attrs[OVS_SHIM_SETTINGS_LIMITER])
		settings->limiter = nla_get_u32(attrs[OVS_SHIM_SETTINGS_LIMITER]);
	if (attrs[OVS_SHIM_SETTINGS_BURST])
		settings->burst_bytes = nla_get_u32(attrs[OVS_SHIM_SETTINGS_BURST]);
	if (attrs[OVS_SHIM_SETTINGS_QUANTUM])
		settings->quantum_bytes = nla_get_u32(attrs[OVS_SHIM_SETTINGS_QUANTUM]);
	if (attrs[OVS_SHIM_SETTINGS_HORIZON])
		settings->horizon_ns = nla_get_u64(attrs[OVS_SHIM_SETTINGS_HORIZON]);
	if (attrs[OVS_SHIM_SETTINGS_SEGMENT])
		settings->segment = nla_get_u8(attrs[OVS_SHIM_SETTINGS_SEGMENT]);
	if (attrs[OVS_SHIM_SETTINGS_ECN])
		settings->ecn = nla_get_u8(attrs[OVS_SHIM_SETTINGS_ECN]);
	if (attrs[OVS_SHIM_SETTINGS_INACTIVE])
		settings->inactive_ns = nla_get_u64(attrs[OVS_SHIM_SETTINGS_INACTIVE]);
	if (attrs[OVS_SHIM_SETTINGS_PROTOCOL])
		settings->protocol = nla_get_u8(attrs[OVS_SHIM_SETTINGS_PROTOCOL]);
	if (attrs[OVS_SHIM_SETTINGS_ACCEPT_V0])
		settings->accept_v0 = nla_get_u8(attrs[OVS_SHIM_SETTINGS_ACCEPT_V0]);
	if (attrs[OVS_SHIM_SETTINGS_KEY])
		change_key(settings, attrs[OVS_SHIM_SETTINGS_KEY]);
	if (attrs[OVS_SHIM_SETTINGS_KNOBS]) {
		nla_for_each_nested(knob, attrs[OVS_SHIM_SETTINGS_KNOBS], rest) {
			err = change_knob(settings, knob, extack);
			if (err)
				return err;
		}
	}
	if (settings->limiter == OVS_SHIM_LIMITER_POLICE && !settings->segment &&
	    settings->burst_bytes < UNCUT_BURST_MIN) {
		ovs_shim_say(extack,
			     "burst: %u bytes hold no GSO packet, police without segment needs %u",
			     settings->burst_bytes, UNCUT_BURST_MIN);
		return -EINVAL;
	}
	return 0;
}

/* Copies what packets need of the settings beside a port.  shim->lock. */
static void set_mode(struct ovs_shim_port *port, const struct ovs_shim_settings *settings)
{
	bool pace = settings->limiter == OVS_SHIM_LIMITER_PACE;

	WRITE_ONCE(port->mode.horizon_ns, pace ? settings->horizon_ns : 0);
	WRITE_ONCE(port->mode.protocol, settings->protocol);
	WRITE_ONCE(port->mode.segment, settings->segment);
	WRITE_ONCE(port->mode.ecn, settings->ecn);
	WRITE_ONCE(port->mode.role, settings->law ? port->role : OVS_SHIM_ROLE_NONE);
}

/* Stops all limiters of an uplink.  shim->lock. */
static void stop_all(struct ovs_shim_port *uplink)
{
	struct ovs_shim_pair *pair, *next;

	list_for_each_entry_safe(pair, next, &uplink->active, active_list)
		ovs_shim_limiter_stop(pair);
}

/*
 * Puts settings in force, and whatever changed in the ports: modes, shares and rates at once.
 * ovs_mutex.
 */
void ovs_shim_settings_apply(struct ovs_shim_net *shim, const struct ovs_shim_settings *settings)
{
	u64 now_ns = ktime_get_ns();
	struct ovs_shim_port *port;
	struct ovs_shim_pair *pair;
	bool new_period, new_law;

	spin_lock_bh(&shim->lock);
	new_law = shim->settings.law != settings->law;
	new_period = shim->settings.period_ns != settings->period_ns;
	shim->settings = *settings;
	list_for_each_entry(port, &shim->ports, list)
		set_mode(port, settings);
	list_for_each_entry(port, &shim->uplinks, uplink_list) {
		if (!settings->law)
			stop_all(port);
		port->active_weight = 0;
		list_for_each_entry(pair, &port->active, active_list)
			port->active_weight += pair->vm->weight;
	}
	ovs_shim_divide(shim);
	list_for_each_entry(port, &shim->uplinks, uplink_list) {
		list_for_each_entry(pair, &port->active, active_list) {
			if (new_law)
				ovs_shim_limiter_restart(pair, now_ns);
			else
				ovs_shim_limiter_period(pair, now_ns);
		}
	}
	if (new_period && shim->n_active)
		ovs_shim_timer_start(shim);
	spin_unlock_bh(&shim->lock);
	ovs_shim_port_count(shim);
}
