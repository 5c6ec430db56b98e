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
#include "trace.h"

/* The budget of a VM's limiter but for the law's own, bytes; lockdep's state is not counted. */
#ifndef CONFIG_LOCKDEP
static_assert(sizeof(struct ovs_shim_pair) <= 512);
#endif

/* Returns C of an uplink, bytes/s; never 0. */
u64 ovs_shim_capacity(const struct ovs_shim_port *uplink)
{
	u64 capacity = uplink->capacity ?: uplink->link_rate;

	return clamp_t(u64, capacity, SHIM_RATE_MIN, SHIM_RATE_MAX);
}

/* Returns a VM's part by weight of an uplink whose active VMs weigh `weight`, itself included. */
static u64 first_share(const struct ovs_shim_port *vm, const struct ovs_shim_port *uplink,
		       u64 weight)
{
	u64 share = shim_mul_div(ovs_shim_capacity(uplink), vm->weight, weight);

	if (vm->max)
		share = min(share, vm->max);
	return max(share, vm->min);
}

/*
 * Returns what a law is told of a VM on an uplink at now_ns; pair is its active limiter there,
 * NULL if it has none.  The VM has a law.  shim->lock.
 */
struct shim_law_input ovs_shim_law_input(const struct ovs_shim_port *vm,
					 const struct ovs_shim_pair *pair,
					 const struct ovs_shim_port *uplink, u64 now_ns)
{
	return (struct shim_law_input){
		.now_ns = now_ns,
		.period_ns = vm->clock->settings->period_ns,
		.capacity = ovs_shim_capacity(uplink),
		.share = pair ? pair->share :
			 first_share(vm, uplink, uplink->active_weight + vm->weight),
		.min = vm->min,
		.sent_rate = pair ? pair->sent_rate : 0,
		.max = vm->max,
		.rx_rate = vm->rx_rate,
		.horizon_ns = vm->mode.horizon_ns,
		.rx_share = vm->rx_share ?: ovs_shim_capacity(uplink),
		.peers = vm->busy_peers,
		.weight = vm->weight,
		.knobs = vm->clock->settings->knobs,
	};
}

/* Returns the active limiter of vm on the uplink behind vport, NULL if it has none.  shim->lock. */
struct ovs_shim_pair *ovs_shim_limiter_find(const struct ovs_shim_port *vm,
					    const struct vport *vport)
{
	struct ovs_shim_pair *pair;

	pair = rcu_dereference_protected(vm->pairs, lockdep_is_held(&vm->shim->lock));
	while (pair && pair->out != vport)
		pair = rcu_dereference_protected(pair->next, lockdep_is_held(&vm->shim->lock));
	return pair && pair->active ? pair : NULL;
}

/* Puts the law's rate and the settings' depth in force; credit and debt stay.  shim->lock. */
void ovs_shim_limiter_apply(struct ovs_shim_pair *pair, u64 now_ns)
{
	u64 bytes_per_s = clamp_t(u64, pair->state.rate, SHIM_RATE_MIN, SHIM_RATE_MAX);
	u32 depth = pair->vm->mode.depth;

	if (trace_ovs_shim_rate_enabled() && pair->bucket.rate.bytes_per_s != bytes_per_s)
		trace_ovs_shim_rate(pair, bytes_per_s);
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
	size_t size = sizeof(struct ovs_shim_pair) +
		      ovs_shim_law_room(offsetof(struct shim_law, limiter_size));
	struct ovs_shim_pair *pair = kzalloc(size, GFP_ATOMIC | __GFP_NOWARN);

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
	u64 now_ns;
	bool new;

	spin_lock_bh(&shim->lock);
	if (!vm->clock || list_empty(&vm->list) || list_empty(&uplink->list)) {
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
	pair->share = first_share(vm, uplink, uplink->active_weight);
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
	ovs_shim_clock_add(vm);
out:
	spin_unlock_bh(&shim->lock);
	return pair;
}

/* Notes that a VM whose law meters receivers receives again, or by another uplink than before. */
void ovs_shim_limiter_wake(struct ovs_shim_port *vm, struct ovs_shim_port *uplink)
{
	if (IS_ERR(ovs_shim_limiter_start(vm, uplink)))
		return;
	spin_lock_bh(&vm->shim->lock);
	WRITE_ONCE(vm->receiving, true);
	vm->rx_idle_ns = 0;
	vm->shim->divide_rx = true;
	spin_unlock_bh(&vm->shim->lock);
}

/* Makes an active limiter inactive.  shim->lock. */
void ovs_shim_limiter_stop(struct ovs_shim_pair *pair)
{
	WRITE_ONCE(pair->active, false);
	list_del_init(&pair->active_list);
	pair->uplink->active_weight -= pair->vm->weight;
	pair->sent_rate = 0;
	pair->vm->shim->divide = true;
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
	struct shim_law_input input = ovs_shim_law_input(pair->vm, pair, pair->uplink, now_ns);
	const struct shim_law *law = pair->vm->clock->law;

	memset(&pair->state, 0, sizeof(pair->state) + law->limiter_size);
	law->init(&pair->state, &input);
	ovs_shim_limiter_apply(pair, now_ns);
}

/* Tells the law of a message, if the limiter is active.  shim->lock. */
void ovs_shim_limiter_message(struct ovs_shim_pair *pair, const struct shim_message *message,
			      u64 now_ns)
{
	struct shim_law_input input;

	if (!pair->active || !pair->vm->clock->law->on_message)
		return;
	input = ovs_shim_law_input(pair->vm, pair, pair->uplink, now_ns);
	pair->vm->clock->law->on_message(&pair->state, &input, message);
	ovs_shim_limiter_apply(pair, now_ns);
}

/* Lets the law take a step.  shim->lock. */
void ovs_shim_limiter_period(struct ovs_shim_pair *pair, u64 now_ns)
{
	struct shim_law_input input = ovs_shim_law_input(pair->vm, pair, pair->uplink, now_ns);
	u64 demand = pair->state.demand, rx_demand = pair->state.rx_demand;

	pair->vm->clock->law->on_period(&pair->state, &input);
	pair->vm->shim->divide |= pair->state.demand != demand;
	pair->vm->shim->divide_rx |= pair->state.rx_demand != rx_demand;
	ovs_shim_limiter_apply(pair, now_ns);
}

/*
 * Measures what an active limiter let through in the elapsed_ns > 0 since the last tick; stops it
 * if no packet came for T_o, to the VM neither where the law meters that.  shim->lock.
 */
void ovs_shim_limiter_measure(struct ovs_shim_pair *pair, u64 now_ns, u64 elapsed_ns)
{
	u64 bytes = atomic64_read(&pair->tx.bytes);
	u32 now_events = events(pair);

	ovs_shim_bucket_settle(&pair->bucket, now_ns);
	pair->sent_rate = shim_mul_div(bytes - pair->last_bytes, NSEC_PER_SEC, elapsed_ns);
	pair->last_bytes = bytes;
	if (now_events != pair->last_events || pair->vm->receiving) {
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
			.demand = pair->state.demand,
			.weight = pair->vm->weight,
		};
	}
	/* False only after a link slowed below the guarantees: they are then scaled to fit. */
	shim_share_by_demand(shim->claims, n, ovs_shim_capacity(uplink));
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
