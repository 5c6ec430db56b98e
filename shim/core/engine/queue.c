// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Puts VMs under their clocks and takes them away: what all that has something to be timed calls,
 * and calls nobody.
 */
#include "engine.h"

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
	vm->class = 0;
	vm->steps = 0;
	list_move_tail(&vm->tick_node, resting ? &clock->resting : &clock->done[0]);
	WRITE_ONCE(vm->ticking, !resting);
	if (!clock->running) {
		clock->running = true;
		shim_host_timer_start(clock, shim_clock_period(clock));
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

void shim_vm_wake(struct shim_vm *vm)
{
	if (READ_ONCE(vm->ticking))
		return;
	spin_lock(&vm->lock);
	if (!vm->gone && vm->clock)
		shim_clock_add(vm, false);
	spin_unlock(&vm->lock);
}
