// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Clocks: each law has its own period T.  Every T its clock visits the VMs that have something to
 * be timed.
 *
 * Work is in proportion to what moved: a VM is visited while it sends, receives, or has peers or
 * connections that have not come to rest; peers at rest are not looked at.  A VM that has only such
 * as are to be forgotten one day rests, and each tick looks at one of those.
 *
 * A tick may take T / 48, by the clock, which is read after each turn of a VM: STEPS_A_TURN peers
 * or connections.  A visit that is not over goes on behind those of other VMs, in this tick or the
 * next, and a law goes by time that has passed, not by ticks: under such a load T is longer, no
 * more.
 *
 * Anybody can give a VM many peers, so the VMs with little work must not wait for those with much.
 * VMs have classes by the steps that their last visit took.  A visit that takes more steps than
 * its class has goes on in the next class.  The first half of a tick visits the lightest VMs first,
 * and the second half goes from class to class, so that none starves where the lightest one alone
 * has more work than there is time for.  So, whatever work others have, VMs of the lightest classes
 * get at least half of the time that they would get without these: their period is at most twice as
 * long.
 */
#include "engine.h"

/* A tick may take this part of T. */
#define BUDGET_DENOMINATOR 48

/* Steps of a VM's visit in one turn, with its lock held. */
#define STEPS_A_TURN 8

/* Steps that a VM that rests is looked at for in a tick. */
#define STEPS_AT_REST 32

void shim_clock_init(struct shim_clock *clock, struct shim_engine *engine, u32 index)
{
	u32 class;

	clock->law = shim_law_at(index);
	clock->engine = engine;
	clock->index = index;
	spin_lock_init(&clock->lock);
	for (class = 0; class < SHIM_CLOCK_CLASSES; class++) {
		INIT_LIST_HEAD(&clock->due[class]);
		INIT_LIST_HEAD(&clock->done[class]);
	}
	INIT_LIST_HEAD(&clock->resting);
	shim_host_timer_init(clock);
}

void shim_clock_restart(struct shim_clock *clock)
{
	spin_lock_bh(&clock->lock);
	if (clock->running)
		shim_host_timer_start(clock, shim_clock_period(clock));
	spin_unlock_bh(&clock->lock);
}

/* Returns the first VM of a class whose visit in this tick is not over, NULL if there is none. */
static struct shim_vm *clock_first(struct shim_clock *clock, u32 class)
{
	struct shim_vm *vm;

	if (list_empty(&clock->due[class]))
		return NULL;
	spin_lock(&clock->lock);
	vm = list_first_entry_or_null(&clock->due[class], struct shim_vm, tick_node);
	spin_unlock(&clock->lock);
	return vm;
}

/* Puts a VM behind others after some more steps of its visit.  vm->lock. */
static void clock_place(struct shim_clock *clock, struct shim_vm *vm, u32 steps, bool over)
{
	u32 class = over ? 0 : vm->class, least = over ? 1 : 0;

	vm->steps += steps;
	while (class < SHIM_CLOCK_CLASSES - 1 && vm->steps >= (1U << class) + least)
		class++;
	if (over)
		vm->steps = 0;
	spin_lock(&clock->lock);
	vm->class = class;
	list_move_tail(&vm->tick_node, over ? &clock->done[class] : &clock->due[class]);
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

/* Gives a VM a turn: a few steps of its visit. */
static void clock_turn(struct shim_clock *clock, struct shim_vm *vm, u64 now_ns,
		       struct shim_reports *reports)
{
	u32 steps = STEPS_A_TURN;
	bool over;

	spin_lock(&vm->lock);
	if (vm->gone || vm->clock != clock || !vm->ticking)
		goto out;
	if (vm->class < SHIM_CLOCK_CLASSES - 1)
		steps = min_t(u32, steps, (1U << vm->class) - vm->steps);
	over = shim_vm_visit(vm, now_ns, &steps, reports);
	clock_place(clock, vm, steps, over);
	if (over)
		clock_retire(vm);
out:
	spin_unlock(&vm->lock);
}

/* Begins a tick: all VMs are to be visited, those first whose last visit is not over. */
static void clock_begin(struct shim_clock *clock)
{
	u32 class;

	spin_lock(&clock->lock);
	for (class = 0; class < SHIM_CLOCK_CLASSES; class++)
		list_splice_tail_init(&clock->done[class], &clock->due[class]);
	spin_unlock(&clock->lock);
}

/* Visits the lightest VMs first, until end_ns. */
static void clock_visit_lightest(struct shim_clock *clock, u64 now_ns, u64 end_ns,
				 struct shim_reports *reports)
{
	struct shim_vm *vm;
	u32 class;

	for (class = 0; class < SHIM_CLOCK_CLASSES; class++) {
		while ((vm = clock_first(clock, class))) {
			clock_turn(clock, vm, now_ns, reports);
			if (shim_now_ns() >= end_ns)
				return;
		}
	}
}

/* Returns the first VM of the class that is next, NULL if all visits are over. */
static struct shim_vm *clock_next(struct shim_clock *clock)
{
	struct shim_vm *vm;
	u32 i, class;

	for (i = 0; i < SHIM_CLOCK_CLASSES; i++) {
		class = (clock->next + i) % SHIM_CLOCK_CLASSES;
		vm = clock_first(clock, class);
		if (!vm)
			continue;
		clock->next = (class + 1) % SHIM_CLOCK_CLASSES;
		return vm;
	}
	return NULL;
}

/* Gives a VM of each class a turn, and again, until end_ns. */
static void clock_visit_in_turn(struct shim_clock *clock, u64 now_ns, u64 end_ns,
				struct shim_reports *reports)
{
	struct shim_vm *vm;

	while ((vm = clock_next(clock))) {
		clock_turn(clock, vm, now_ns, reports);
		if (shim_now_ns() >= end_ns)
			return;
	}
}

/* Tells whether visits of this tick are left. */
static bool clock_left(const struct shim_clock *clock)
{
	u32 class;

	for (class = 0; class < SHIM_CLOCK_CLASSES; class++)
		if (!list_empty(&clock->due[class]))
			return true;
	return false;
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
		shim_vm_tidy(vm, now_ns, STEPS_AT_REST);
		clock_retire(vm);
	}
	spin_unlock(&vm->lock);
}

/* Tells whether a clock has VMs.  clock->lock. */
static bool clock_in_use(const struct shim_clock *clock)
{
	u32 class;

	for (class = 0; class < SHIM_CLOCK_CLASSES; class++)
		if (!list_empty(&clock->done[class]))
			return true;
	return clock_left(clock) || !list_empty(&clock->resting);
}

u64 shim_clock_tick(struct shim_clock *clock, u64 now_ns, struct shim_reports *reports)
{
	u64 period_ns = shim_clock_period(clock);
	u64 budget_ns = shim_div(period_ns, BUDGET_DENOMINATOR);
	struct shim_uplink *uplink;
	u64 next_ns;

	list_for_each_entry_rcu(uplink, &clock->engine->uplinks, node)
		shim_uplink_divide(uplink, now_ns);
	clock_begin(clock);
	clock_visit_lightest(clock, now_ns, now_ns + budget_ns / 2, reports);
	clock_visit_in_turn(clock, now_ns, now_ns + budget_ns, reports);
	clock->postponed += clock_left(clock);
	clock_tidy(clock, now_ns);
	clock->ticks++;
	spin_lock(&clock->lock);
	clock->running = clock_in_use(clock);
	next_ns = clock->running ? period_ns : 0;
	spin_unlock(&clock->lock);
	return next_ns;
}
