// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limiters: one for each pair of a VM and an uplink that the VM has sent to.
 *
 * A limiter is made by the VM's first packet and lives until one of the two ports goes.  It is
 * active from a packet until T_o after the last one; only active ones have a share and the timer's
 * attention.  A VM that becomes active gets its part by weight of the uplink at once; the next tick
 * computes everyone's share exactly.
 */
#include <linux/err.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "../core/arith.h"
#include "internal.h"

/* The budget of a VM's limiter, bytes; lockdep's own state is not counted. */
#ifndef CONFIG_LOCKDEP
static_assert(sizeof(struct ovs_shim_pair) <= 512);
#endif

/* Returns C of an uplink, bytes/s; never 0. */
u64 ovs_shim_capacity(const struct ovs_shim_port *uplink)
{
	u64 capacity = uplink->capacity ?: uplink->link_rate;

	return clamp_t(u64, capacity, SHIM_RATE_MIN, SHIM_RATE_MAX);
}

/* Returns what a law is told of a limiter; now_ns is the time.  shim->lock. */
static struct shim_law_input law_input(const struct ovs_shim_pair *pair, u64 now_ns)
{
	const struct ovs_shim_settings *settings = &pair->vm->shim->settings;

	return (struct shim_law_input){
		.now_ns = now_ns,
		.period_ns = settings->period_ns,
		.capacity = ovs_shim_capacity(pair->uplink),
		.share = pair->share,
		.min = pair->vm->min,
		.sent_rate = pair->sent_rate,
		.weight = pair->vm->weight,
		.knobs = settings->knobs,
	};
}

/* Puts the law's rate and the settings' depth in force; credit and debt stay.  shim->lock. */
static void apply(struct ovs_shim_pair *pair, u64 now_ns)
{
	const struct ovs_shim_settings *settings = &pair->vm->shim->settings;
	u64 bytes_per_s = clamp_t(u64, pair->state.rate, SHIM_RATE_MIN, SHIM_RATE_MAX);
	u32 depth = settings->limiter == OVS_SHIM_LIMITER_PACE ? settings->quantum_bytes :
		    settings->burst_bytes;

	ovs_shim_bucket_set(&pair->bucket, bytes_per_s, depth, now_ns);
}

/* Returns how many packets the limiter has seen, modulo 2^32. */
static u32 events(const struct ovs_shim_pair *pair)
{
	return atomic64_read(&pair->tx.packets) + atomic64_read(&pair->tx.drop_police) +
	       atomic64_read(&pair->tx.drop_horizon);
}

/* Allocates the limiter of vm on uplink, not yet active; NULL without memory.  shim->lock. */
static struct ovs_shim_pair *create(struct ovs_shim_port *vm, struct ovs_shim_port *uplink)
{
	struct ovs_shim_pair *pair = kzalloc(sizeof(*pair), GFP_ATOMIC | __GFP_NOWARN);

	if (!pair)
		return NULL;
	pair->out = uplink->vport;
	pair->vm = vm;
	pair->uplink = uplink;
	ovs_shim_bucket_init(&pair->bucket, &vm->shim->lock);
	RCU_INIT_POINTER(pair->next, rcu_dereference_protected(vm->pairs, true));
	rcu_assign_pointer(vm->pairs, pair);
	vm->shim->generation++;
	return pair;
}

/*
 * Returns the active limiter of vm on uplink, made or woken if need be.  Errors: -ENOMEM, and
 * -ENOENT if the ports or the law have gone meanwhile.
 */
struct ovs_shim_pair *ovs_shim_limiter_start(struct ovs_shim_port *vm,
					     struct ovs_shim_port *uplink)
{
	struct ovs_shim_net *shim = vm->shim;
	struct ovs_shim_pair *pair;
	u64 now_ns, share;
	bool new;

	spin_lock_bh(&shim->lock);
	if (!shim->settings.law || list_empty(&vm->list) || list_empty(&uplink->list)) {
		pair = ERR_PTR(-ENOENT);
		goto out;
	}
	pair = rcu_dereference_protected(vm->pairs, lockdep_is_held(&shim->lock));
	while (pair && pair->uplink != uplink)
		pair = rcu_dereference_protected(pair->next, lockdep_is_held(&shim->lock));
	new = !pair;
	if (new)
		pair = create(vm, uplink);
	if (!pair) {
		pair = ERR_PTR(-ENOMEM);
		goto out;
	}
	if (pair->active)
		goto out;
	uplink->active_weight += vm->weight;
	share = shim_mul_div(ovs_shim_capacity(uplink), vm->weight, uplink->active_weight);
	if (vm->max)
		share = min(share, vm->max);
	pair->share = max(share, vm->min);
	list_add_tail(&pair->active_list, &uplink->active);
	now_ns = ktime_get_ns();
	pair->sent_rate = 0;
	pair->last_bytes = atomic64_read(&pair->tx.bytes);
	pair->last_events = events(pair);
	pair->idle_us = 0;
	ovs_shim_limiter_restart(pair, now_ns);
	if (new)
		ovs_shim_bucket_fill(&pair->bucket, now_ns);
	WRITE_ONCE(pair->active, true);
	shim->divide = true;
	if (!shim->n_active++)
		ovs_shim_timer_start(shim);
out:
	spin_unlock_bh(&shim->lock);
	return pair;
}

/* Makes an active limiter inactive.  shim->lock. */
void ovs_shim_limiter_stop(struct ovs_shim_pair *pair)
{
	struct ovs_shim_net *shim = pair->vm->shim;

	WRITE_ONCE(pair->active, false);
	list_del_init(&pair->active_list);
	pair->uplink->active_weight -= pair->vm->weight;
	pair->sent_rate = 0;
	shim->n_active--;
	shim->divide = true;
}

/* Removes the limiter that *link leads to; its counters stay with the VM.  shim->lock. */
void ovs_shim_limiter_free(struct ovs_shim_pair __rcu **link)
{
	struct ovs_shim_pair *pair = rcu_dereference_protected(*link, true);
	struct ovs_shim_tx *gone = &pair->vm->gone;

	if (pair->active)
		ovs_shim_limiter_stop(pair);
	atomic64_add(atomic64_read(&pair->tx.bytes), &gone->bytes);
	atomic64_add(atomic64_read(&pair->tx.packets), &gone->packets);
	atomic64_add(atomic64_read(&pair->tx.ect), &gone->ect);
	atomic64_add(atomic64_read(&pair->tx.paced), &gone->paced);
	atomic64_add(atomic64_read(&pair->tx.drop_police), &gone->drop_police);
	atomic64_add(atomic64_read(&pair->tx.drop_horizon), &gone->drop_horizon);
	rcu_assign_pointer(*link, rcu_dereference_protected(pair->next, true));
	kfree_rcu(pair, rcu);
}

/* Lets the law begin anew, as for a VM that has just become active.  shim->lock. */
void ovs_shim_limiter_restart(struct ovs_shim_pair *pair, u64 now_ns)
{
	struct shim_law_input input = law_input(pair, now_ns);

	pair->vm->shim->settings.law->init(&pair->state, &input);
	apply(pair, now_ns);
}

/* Tells the law of a message, if the limiter is active.  shim->lock. */
void ovs_shim_limiter_message(struct ovs_shim_pair *pair, const struct shim_message *message,
			      u64 now_ns)
{
	struct shim_law_input input;

	if (!pair->active)
		return;
	input = law_input(pair, now_ns);
	pair->vm->shim->settings.law->on_message(&pair->state, &input, message);
	apply(pair, now_ns);
}

/* Lets the law take a step.  shim->lock. */
void ovs_shim_limiter_period(struct ovs_shim_pair *pair, u64 now_ns)
{
	struct shim_law_input input = law_input(pair, now_ns);

	pair->vm->shim->settings.law->on_period(&pair->state, &input);
	apply(pair, now_ns);
}

/*
 * Measures what an active limiter let through in the elapsed_ns > 0 since the last tick; stops it
 * if no packet came for T_o.  shim->lock.
 */
void ovs_shim_limiter_measure(struct ovs_shim_pair *pair, u64 now_ns, u64 elapsed_ns)
{
	u64 bytes = atomic64_read(&pair->tx.bytes);
	u32 now_events = events(pair);

	ovs_shim_bucket_settle(&pair->bucket, now_ns);
	pair->sent_rate = shim_mul_div(bytes - pair->last_bytes, NSEC_PER_SEC, elapsed_ns);
	pair->last_bytes = bytes;
	if (now_events != pair->last_events) {
		pair->last_events = now_events;
		pair->idle_us = 0;
		return;
	}
	pair->idle_us = min_t(u64, pair->idle_us + div_u64(elapsed_ns, NSEC_PER_USEC), U32_MAX);
	if (pair->idle_us >= div_u64(pair->vm->shim->settings.inactive_ns, NSEC_PER_USEC))
		ovs_shim_limiter_stop(pair);
}

/* Computes the shares of an uplink's active VMs.  shim->lock. */
static void divide_uplink(struct ovs_shim_net *shim, struct ovs_shim_port *uplink)
{
	struct ovs_shim_pair *pair;
	u32 n = 0, i = 0;

	list_for_each_entry(pair, &uplink->active, active_list) {
		if (WARN_ON_ONCE(n == shim->n_claims))
			return;
		shim->claims[n++] = (struct shim_claim){
			.min = pair->vm->min,
			.max = pair->vm->max,
			.weight = pair->vm->weight,
		};
	}
	/* False only after a link slowed below the guarantees: they are then scaled to fit. */
	shim_share(shim->claims, n, ovs_shim_capacity(uplink));
	list_for_each_entry(pair, &uplink->active, active_list)
		pair->share = shim->claims[i++].share;
}

/* Computes all shares anew.  shim->lock. */
void ovs_shim_divide(struct ovs_shim_net *shim)
{
	struct ovs_shim_port *port;

	shim->divide = false;
	list_for_each_entry(port, &shim->uplinks, uplink_list)
		if (!list_empty(&port->active))
			divide_uplink(shim, port);
}
