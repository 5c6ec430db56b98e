// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Clocks: each law has its own period T.  Every T its clock visits the VMs that have something to
 * be timed, the longest waiting first.
 *
 * Work is in proportion to what moved: a VM is visited while it sends, receives, or has peers or
 * connections that have not come to rest; peers at rest are not looked at.  A VM that has only such
 * as are to be forgotten one day rests, and each tick looks at one of those.
 *
 * A tick may take T / 48, by the clock.  VMs that are left are the first of the next tick, and a
 * law goes by time that has passed, not by ticks: under such a load T is longer, no more.
 */
#include "engine.h"

/* A tick may take this part of T. */
#define BUDGET_DENOMINATOR 48

/* Peers visited between two looks at the clock. */
#define PEERS_A_LOOK 64

void shim_clock_init(struct shim_clock *clock, struct shim_engine *engine, u32 index)
{
	clock->law = shim_law_at(index);
	clock->engine = engine;
	clock->index = index;
	spin_lock_init(&clock->lock);
	INIT_LIST_HEAD(&clock->vms);
	INIT_LIST_HEAD(&clock->resting);
	shim_host_timer_init(clock);
}

/* Returns T of a clock.  RCU or configuration's lock. */
static u64 clock_period(const struct shim_clock *clock)
{
	return shim_engine_settings(clock->engine)->laws[clock->index].period_ns;
}

void shim_clock_add(struct shim_vm *vm, bool resting)
{
	struct shim_clock *clock = vm->clock;
	u64 now_ns;

	if (vm->ticking)
		return;
	now_ns = shim_now_ns();
	spin_lock(&clock->lock);
	/* What was measured until now is what came before. */
	if (list_empty(&vm->tick_node))
		vm->tick_ns = now_ns;
	list_move_tail(&vm->tick_node, resting ? &clock->resting : &clock->vms);
	vm->round = clock->round - 1;
	WRITE_ONCE(vm->ticking, !resting);
	if (!clock->running) {
		clock->running = true;
		shim_host_timer_start(clock, clock_period(clock));
	}
	spin_unlock(&clock->lock);
}

void shim_clock_remove(struct shim_vm *vm)
{
	struct shim_clock *clock = vm->clock;

	spin_lock(&clock->lock);
	list_del_init(&vm->tick_node);
	WRITE_ONCE(vm->ticking, false);
	spin_unlock(&clock->lock);
}

void shim_clock_restart(struct shim_clock *clock)
{
	spin_lock_bh(&clock->lock);
	if (clock->running)
		shim_host_timer_start(clock, clock_period(clock));
	spin_unlock_bh(&clock->lock);
}

/*
 * Returns the next VM to be visited in this tick, put behind all others; NULL when each has been.
 */
static struct shim_vm *clock_next(struct shim_clock *clock)
{
	struct shim_vm *vm;

	spin_lock(&clock->lock);
	vm = list_first_entry_or_null(&clock->vms, struct shim_vm, tick_node);
	if (vm && vm->round == clock->round)
		vm = NULL;
	if (vm) {
		vm->round = clock->round;
		list_move_tail(&vm->tick_node, &clock->vms);
	}
	spin_unlock(&clock->lock);
	return vm;
}

/* Puts a VM whose visit is not over in front, to be visited first in the next tick. */
static void clock_postpone(struct shim_clock *clock, struct shim_vm *vm)
{
	spin_lock(&clock->lock);
	if (vm->ticking && vm->clock == clock) {
		vm->round = clock->round - 1;
		list_move(&vm->tick_node, &clock->vms);
	}
	spin_unlock(&clock->lock);
}

/* Lets a VM rest or go that has nothing to be visited for.  vm->lock. */
static void clock_retire(struct shim_vm *vm)
{
	enum shim_vm_timed timed = shim_vm_timed(vm);

	if (timed == SHIM_VM_ACTIVE)
		return;
	shim_clock_remove(vm);
	if (timed == SHIM_VM_RESTING)
		shim_clock_add(vm, true);
	/* Whoever touched a peer before saw that the VM was visited still. */
	smp_mb();
	if (shim_vm_touched(vm))
		shim_clock_add(vm, false);
}

/* Visits a VM until end_ns; false if it is not over. */
static bool clock_visit(struct shim_clock *clock, struct shim_vm *vm, u64 now_ns, u64 end_ns,
			struct shim_reports *reports)
{
	bool over = true;

	spin_lock(&vm->lock);
	if (vm->gone || vm->clock != clock)
		goto out;
	do {
		over = shim_vm_visit(vm, now_ns, PEERS_A_LOOK, reports);
	} while (!over && shim_now_ns() < end_ns);
	if (over)
		clock_retire(vm);
out:
	spin_unlock(&vm->lock);
	return over;
}

/* Sees to one of the VMs that rest. */
static void clock_tidy(struct shim_clock *clock, u64 now_ns)
{
	struct shim_vm *vm;

	spin_lock(&clock->lock);
	vm = list_first_entry_or_null(&clock->resting, struct shim_vm, tick_node);
	if (vm)
		list_move_tail(&vm->tick_node, &clock->resting);
	spin_unlock(&clock->lock);
	if (!vm)
		return;
	spin_lock(&vm->lock);
	if (!vm->gone && vm->clock == clock && !vm->ticking) {
		shim_peers_collect(vm, now_ns);
		shim_connections_visit(vm, now_ns);
		clock_retire(vm);
	}
	spin_unlock(&vm->lock);
}

u64 shim_clock_tick(struct shim_clock *clock, u64 now_ns, struct shim_reports *reports)
{
	u64 period_ns = clock_period(clock);
	u64 end_ns = now_ns + shim_div(period_ns, BUDGET_DENOMINATOR);
	struct shim_uplink *uplink;
	struct shim_vm *vm;
	u64 next_ns;

	list_for_each_entry_rcu(uplink, &clock->engine->uplinks, node)
		shim_uplink_divide(uplink, now_ns);
	spin_lock(&clock->lock);
	clock->round++;
	spin_unlock(&clock->lock);
	while ((vm = clock_next(clock))) {
		if (!clock_visit(clock, vm, now_ns, end_ns, reports)) {
			clock_postpone(clock, vm);
			clock->postponed++;
			break;
		}
		if (shim_now_ns() >= end_ns) {
			clock->postponed++;
			break;
		}
	}
	clock_tidy(clock, now_ns);
	clock->ticks++;
	spin_lock(&clock->lock);
	clock->running = !list_empty(&clock->vms) || !list_empty(&clock->resting);
	next_ns = clock->running ? period_ns : 0;
	spin_unlock(&clock->lock);
	return next_ns;
}
