// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Uplinks: whose capacity is divided among the VMs that are active on them.
 *
 * A division costs time in proportion to the VMs it is among.  It is done when somebody came, went
 * or wants more or less, but never again before sixty-four times what the last one took is over: so
 * divisions take at most a sixty-fourth of a CPU, however many VMs come and go.  Until then
 * newcomers have their part by weight.
 */
#include "../arith.h"
#include "engine.h"

/* A division may take this part of the time. */
#define DIVISION_DENOMINATOR 64

struct shim_uplink *shim_uplink_create(struct shim_engine *engine, void *port)
{
	struct shim_uplink *uplink = shim_alloc_wait(sizeof(*uplink));

	if (!uplink)
		return NULL;
	uplink->engine = engine;
	uplink->port = port;
	spin_lock_init(&uplink->lock);
	INIT_LIST_HEAD(&uplink->active);
	INIT_LIST_HEAD(&uplink->receivers);
	if (!shim_uplink_reserve(uplink, engine->n_vms)) {
		shim_free(uplink);
		return NULL;
	}
	list_add_tail_rcu(&uplink->node, &engine->uplinks);
	WRITE_ONCE(engine->generation, engine->generation + 1);
	return uplink;
}

struct shim_uplink *shim_uplink_find(const struct shim_engine *engine,
				     const struct shim_uplink *found)
{
	struct shim_uplink *uplink;

	list_for_each_entry_rcu(uplink, &engine->uplinks, node)
		if (uplink == found && !READ_ONCE(uplink->gone))
			return uplink;
	return NULL;
}

bool shim_uplink_reserve(struct shim_uplink *uplink, u32 n)
{
	u32 more = max_t(u32, 2 * n, 16);
	struct shim_claim *claims, *old;

	if (uplink->claims && n <= uplink->n_claims)
		return true;
	claims = shim_alloc_wait(more * sizeof(*claims));
	if (!claims)
		return false;
	spin_lock_bh(&uplink->lock);
	old = uplink->claims;
	uplink->claims = claims;
	uplink->n_claims = more;
	spin_unlock_bh(&uplink->lock);
	shim_free(old);
	return true;
}

/* Frees an uplink that nobody can hold any more. */
static void uplink_free(shim_rcu_t *head)
{
	struct shim_uplink *uplink = container_of(head, struct shim_uplink, rcu);

	shim_free(uplink->claims);
	shim_free(uplink);
}

void shim_uplink_leave_rx(struct shim_vm *vm)
{
	struct shim_uplink *uplink = vm->rx_uplink;

	WRITE_ONCE(vm->receiving, false);
	WRITE_ONCE(vm->rx_in, NULL);
	WRITE_ONCE(vm->rx_share, 0);
	WRITE_ONCE(vm->rx_least, 0);
	vm->rx_rate = 0;
	vm->rx_uplink = NULL;
	if (!uplink)
		return;
	spin_lock(&uplink->lock);
	list_del_init(&vm->rx_node);
	uplink->n_receivers--;
	WRITE_ONCE(uplink->divide_rx, true);
	spin_unlock(&uplink->lock);
}

/* Removes what a VM has on an uplink.  Configuration's lock. */
static void uplink_leave(struct shim_vm *vm, const struct shim_uplink *uplink)
{
	struct shim_limiter __rcu **link = &vm->limiters;
	struct shim_limiter *limiter;

	spin_lock_bh(&vm->lock);
	while ((limiter = rcu_dereference_protected(*link, lockdep_is_held(&vm->lock)))) {
		if (limiter->uplink == uplink)
			shim_limiter_remove(link);
		else
			link = &limiter->next;
	}
	if (vm->rx_uplink == uplink)
		shim_uplink_leave_rx(vm);
	spin_unlock_bh(&vm->lock);
}

void shim_uplink_remove(struct shim_uplink *uplink)
{
	struct shim_engine *engine = uplink->engine;
	struct shim_vm *vm;

	list_del_rcu(&uplink->node);
	spin_lock_bh(&uplink->lock);
	uplink->gone = true;
	spin_unlock_bh(&uplink->lock);
	list_for_each_entry(vm, &engine->vms, node)
		uplink_leave(vm, uplink);
	WRITE_ONCE(engine->generation, engine->generation + 1);
	shim_call_rcu(&uplink->rcu, uplink_free);
}

/* Writes the shares of those who send.  uplink->lock. */
static void uplink_divide_tx(struct shim_uplink *uplink)
{
	struct shim_limiter *limiter;
	u32 n = 0, i = 0;

	WRITE_ONCE(uplink->divide, false);
	list_for_each_entry(limiter, &uplink->active, active_node) {
		const struct shim_vm_config *config = &limiter->vm->config;
		u64 max = READ_ONCE(limiter->ceiling.part), min = READ_ONCE(config->min);

		if (WARN_ON_ONCE(n == uplink->n_claims))
			return;
		uplink->claims[n++] = (struct shim_claim){
			.min = max ? min(min, max) : min,
			.max = max,
			.demand = READ_ONCE(limiter->state.demand),
			.weight = READ_ONCE(config->weight),
		};
	}
	/* False only after a link slowed below the guarantees: they are then scaled to fit. */
	shim_share_lending(uplink->claims, n, shim_uplink_capacity(uplink));
	list_for_each_entry(limiter, &uplink->active, active_node)
		WRITE_ONCE(limiter->share, uplink->claims[i++].share);
}

/* Writes what those who receive may take.  uplink->lock. */
static void uplink_divide_rx(struct shim_uplink *uplink)
{
	struct shim_vm *vm;
	u32 n = 0, i = 0;

	WRITE_ONCE(uplink->divide_rx, false);
	list_for_each_entry(vm, &uplink->receivers, rx_node) {
		if (WARN_ON_ONCE(n == uplink->n_claims))
			return;
		uplink->claims[n++] = (struct shim_claim){
			.min = READ_ONCE(vm->config.min),
			.max = READ_ONCE(vm->config.max),
			.demand = READ_ONCE(vm->rx_demand),
			.weight = READ_ONCE(vm->config.weight),
		};
	}
	shim_share_lending(uplink->claims, n, shim_uplink_capacity(uplink));
	list_for_each_entry(vm, &uplink->receivers, rx_node) {
		WRITE_ONCE(vm->rx_least, uplink->claims[i].min);
		WRITE_ONCE(vm->rx_share, uplink->claims[i++].share);
	}
}

void shim_uplink_divide(struct shim_uplink *uplink, u64 now_ns)
{
	u64 start_ns;

	if (!READ_ONCE(uplink->divide) && !READ_ONCE(uplink->divide_rx))
		return;
	spin_lock(&uplink->lock);
	if (now_ns < uplink->divided_ns)
		goto out;
	start_ns = shim_now_ns();
	if (uplink->divide)
		uplink_divide_tx(uplink);
	if (uplink->divide_rx)
		uplink_divide_rx(uplink);
	uplink->divided_ns = now_ns + shim_sub_sat(shim_now_ns(), start_ns) * DIVISION_DENOMINATOR;
out:
	spin_unlock(&uplink->lock);
}

void shim_uplink_set_overhead(struct shim_uplink *uplink, u32 overhead)
{
	WRITE_ONCE(uplink->overhead, overhead);
}

void shim_uplink_link_rate(struct shim_uplink *uplink, u64 link_rate)
{
	spin_lock_bh(&uplink->lock);
	if (uplink->link_rate != link_rate) {
		WRITE_ONCE(uplink->link_rate, link_rate);
		WRITE_ONCE(uplink->divide, true);
		WRITE_ONCE(uplink->divide_rx, true);
	}
	spin_unlock_bh(&uplink->lock);
}
