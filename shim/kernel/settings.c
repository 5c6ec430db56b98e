// SPDX-License-Identifier: GPL-2.0-only
/*
 * The settings of a namespace: defaults, changes asked for by netlink, and how they take effect.
 */
#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/rculist.h>
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
	const struct shim_law *law;
	u32 i, k;

	*settings = (struct ovs_shim_settings){
		.law = OVS_SHIM_LAW_NONE,
		/* Well below T of the laws: what waits already leaves at the rate of yesterday. */
		.horizon_ns = 2 * NSEC_PER_MSEC,
		.inactive_ns = NSEC_PER_SEC,
		.peer_idle_ns = 10 * NSEC_PER_SEC,
		.peers_max = 4096,
		.burst_bytes = 2097152,
		.quantum_bytes = 3028,
		.limiter = OVS_SHIM_LIMITER_PACE,
		.protocol = SHIM_MESSAGE_PROTOCOL,
		.segment = true,
		.ecn = true,
	};
	for (i = 0; i < OVS_SHIM_LAW_SLOTS && (law = shim_law_at(i)); i++) {
		settings->laws[i].period_ns = law->period_ns;
		for (k = 0; k < law->n_knobs; k++)
			settings->laws[i].knobs[k] = law->knobs[k].value;
	}
}

/* Returns the name of a law by its index or OVS_SHIM_LAW_*. */
const char *ovs_shim_law_name(int law)
{
	if (law == OVS_SHIM_LAW_DEFAULT)
		return "default";
	return law == OVS_SHIM_LAW_NONE ? "none" : shim_law_at(law)->name;
}

/*
 * Returns the largest of what laws keep of their own, bytes; offset is that of limiter_size,
 * peer_size or flow_size in struct shim_law.
 */
u32 ovs_shim_law_room(size_t offset)
{
	const struct shim_law *law;
	u32 most = 0;
	u32 i;

	for (i = 0; (law = shim_law_at(i)); i++)
		most = max(most, *(const u32 *)((const char *)law + offset));
	return most;
}

/*
 * Writes to *law the index of the law that attr names, OVS_SHIM_LAW_NONE for "none"; -ENOENT and
 * the reason in *extack if there is none.
 */
int ovs_shim_law_read(const struct nlattr *attr, int *law, struct netlink_ext_ack *extack)
{
	const char *name = nla_data(attr);
	const struct shim_law *one;
	char names[128] = "none";
	size_t len = strlen(names);
	int i;

	*law = OVS_SHIM_LAW_NONE;
	if (!strcmp(name, "none"))
		return 0;
	for (i = 0; (one = shim_law_at(i)); i++) {
		if (!strcmp(name, one->name)) {
			*law = i;
			return 0;
		}
		len += scnprintf(names + len, sizeof(names) - len, ", %s", one->name);
	}
	ovs_shim_say(extack, "law: no law is called %s, there are %s", name, names);
	NL_SET_BAD_ATTR(extack, attr);
	return -ENOENT;
}

/* Changes one knob of a law, of which there is none with index OVS_SHIM_LAW_NONE. */
static int change_knob(struct ovs_shim_settings *settings, int of, const struct nlattr *nest,
		       struct netlink_ext_ack *extack)
{
	const struct shim_law *law = of == OVS_SHIM_LAW_NONE ? NULL : shim_law_at(of);
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
		ovs_shim_say(extack, "knob %s: law %s has no such knob",
			     name, ovs_shim_law_name(of));
		NL_SET_BAD_ATTR(extack, attrs[OVS_SHIM_KNOB_NAME]);
		return -ENOENT;
	}
	knob = &law->knobs[i];
	if (value < knob->min || value > knob->max) {
		ovs_shim_say(extack,
			     "knob %s: %llu is not allowed, %llu to %llu %s is",
			     name, value, knob->min, knob->max, knob->unit);
		NL_SET_BAD_ATTR(extack, attrs[OVS_SHIM_KNOB_VALUE]);
		return -ERANGE;
	}
	settings->laws[of].knobs[i] = value;
	return 0;
}

/* Changes the key; an all-zero key is none. */
static void change_key(struct ovs_shim_settings *settings, const struct nlattr *attr)
{
	memcpy(settings->key, nla_data(attr), SHIM_KEY_BYTES);
	settings->key_set = memchr_inv(settings->key, 0, SHIM_KEY_BYTES);
}

/* Changes period and knobs of the law that the request is about, the default law by default. */
static int change_law(struct ovs_shim_settings *settings, struct nlattr *const *attrs,
		      struct netlink_ext_ack *extack)
{
	int err, rest, of = settings->law;
	struct nlattr *knob;

	if (attrs[OVS_SHIM_SETTINGS_OF]) {
		err = ovs_shim_law_read(attrs[OVS_SHIM_SETTINGS_OF], &of, extack);
		if (err)
			return err;
	}
	if (attrs[OVS_SHIM_SETTINGS_PERIOD] && of != OVS_SHIM_LAW_NONE)
		settings->laws[of].period_ns = nla_get_u64(attrs[OVS_SHIM_SETTINGS_PERIOD]) ?:
					       shim_law_at(of)->period_ns;
	if (!attrs[OVS_SHIM_SETTINGS_KNOBS])
		return 0;
	nla_for_each_nested(knob, attrs[OVS_SHIM_SETTINGS_KNOBS], rest) {
		err = change_knob(settings, of, knob, extack);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Changes *settings, a copy of those in force, as the attributes ask; a negative error number, and
 * the reason in *extack, if one of them is refused.  attrs have passed the policy.
 */
int ovs_shim_settings_change(struct ovs_shim_settings *settings, struct nlattr *const *attrs,
			     struct netlink_ext_ack *extack)
{
	int err;

	if (attrs[OVS_SHIM_SETTINGS_LAW]) {
		err = ovs_shim_law_read(attrs[OVS_SHIM_SETTINGS_LAW], &settings->law, extack);
		if (err)
			return err;
	}
	err = change_law(settings, attrs, extack);
	if (err)
		return err;
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
	if (attrs[OVS_SHIM_SETTINGS_PEERS_MAX])
		settings->peers_max = nla_get_u32(attrs[OVS_SHIM_SETTINGS_PEERS_MAX]);
	if (attrs[OVS_SHIM_SETTINGS_PEER_IDLE])
		settings->peer_idle_ns = nla_get_u64(attrs[OVS_SHIM_SETTINGS_PEER_IDLE]);
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
	bool on = port->clock || port->role == OVS_SHIM_ROLE_UPLINK;

	WRITE_ONCE(port->mode.horizon_ns, pace ? settings->horizon_ns : 0);
	WRITE_ONCE(port->mode.depth, pace ? settings->quantum_bytes : settings->burst_bytes);
	WRITE_ONCE(port->mode.protocol, settings->protocol);
	WRITE_ONCE(port->mode.segment, settings->segment);
	WRITE_ONCE(port->mode.ecn, settings->ecn);
	WRITE_ONCE(port->mode.wants, port->clock ?
		   shim_law_wants(port->clock->law, port->clock->settings->knobs) : 0);
	WRITE_ONCE(port->mode.role, on ? port->role : OVS_SHIM_ROLE_NONE);
}

/* Puts a VM under the law it should have; true if that is another one than before.  shim->lock. */
static bool set_law(struct ovs_shim_port *vm, const struct ovs_shim_settings *settings)
{
	int law = vm->own_law == OVS_SHIM_LAW_DEFAULT ? settings->law : vm->own_law;
	struct ovs_shim_clock *clock = law == OVS_SHIM_LAW_NONE ? NULL : &vm->shim->clocks[law];
	struct ovs_shim_pair *pair;

	if (vm->role != OVS_SHIM_ROLE_VM || vm->clock == clock)
		return false;
	list_del_init(&vm->tick_list);
	vm->clock = clock;
	vm->receiving = false;
	vm->rx_rate = 0;
	vm->rx_share = 0;
	vm->shim->divide_rx = true;
	pair = rcu_dereference_protected(vm->pairs, lockdep_is_held(&vm->shim->lock));
	while (!clock && pair) {
		if (pair->active)
			ovs_shim_limiter_stop(pair);
		pair = rcu_dereference_protected(pair->next, lockdep_is_held(&vm->shim->lock));
	}
	return true;
}

/* Takes the step of a VM's law, or lets a new law begin, after a change.  shim->lock. */
static void step(struct ovs_shim_port *vm, bool new_law, u64 now_ns)
{
	struct ovs_shim_pair *pair;

	pair = rcu_dereference_protected(vm->pairs, lockdep_is_held(&vm->shim->lock));
	while (pair) {
		if (pair->active && new_law)
			ovs_shim_limiter_restart(pair, now_ns);
		else if (pair->active)
			ovs_shim_limiter_period(pair, now_ns);
		if (pair->active && new_law)
			ovs_shim_clock_add(vm);
		pair = rcu_dereference_protected(pair->next, lockdep_is_held(&vm->shim->lock));
	}
	if (new_law)
		ovs_shim_peers_restart(vm, now_ns);
	/* A flow that is not followed any more would be found with old numbers later. */
	if (new_law || !(vm->mode.wants & SHIM_LAW_FLOWS))
		ovs_shim_flows_free(vm);
}

/* Sums the weights of an uplink's active VMs.  shim->lock. */
static void weigh(struct ovs_shim_port *uplink)
{
	struct ovs_shim_pair *pair;

	uplink->active_weight = 0;
	list_for_each_entry(pair, &uplink->active, active_list)
		uplink->active_weight += pair->vm->weight;
}

/*
 * Puts settings in force, and whatever changed in the ports: modes, shares and rates at once.
 * settings may be those in force.  ovs_mutex.
 */
void ovs_shim_settings_apply(struct ovs_shim_net *shim, const struct ovs_shim_settings *settings)
{
	unsigned long new_periods = 0;
	struct ovs_shim_port *port;
	u64 now_ns;
	u32 i;

	spin_lock_bh(&shim->lock);
	now_ns = ktime_get_ns();
	for (i = 0; i < OVS_SHIM_LAW_SLOTS; i++)
		if (shim->settings.laws[i].period_ns != settings->laws[i].period_ns)
			new_periods |= BIT(i);
	if (settings != &shim->settings)
		shim->settings = *settings;
	list_for_each_entry(port, &shim->ports, list) {
		port->new_law = set_law(port, settings);
		set_mode(port, settings);
	}
	list_for_each_entry(port, &shim->uplinks, uplink_list)
		weigh(port);
	ovs_shim_divide(shim);
	shim->divide_rx = true;
	list_for_each_entry(port, &shim->ports, list)
		step(port, port->new_law, now_ns);
	for (i = 0; i < OVS_SHIM_LAW_SLOTS; i++)
		if (new_periods & BIT(i) && !list_empty(&shim->clocks[i].vms))
			ovs_shim_clock_start(&shim->clocks[i]);
	spin_unlock_bh(&shim->lock);
	ovs_shim_port_count(shim);
}
