/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The periods of one law, and the VMs under it that have something to be timed.
 */
#ifndef SHIM_CORE_ENGINE_CLOCK_H
#define SHIM_CORE_ENGINE_CLOCK_H

#include "../host.h"
#include "../law.h"

struct shim_engine;
struct shim_vm;

/* Classes of VMs by work: a visit of class k takes more than 2^(k-1) and at most 2^k steps. */
#define SHIM_CLOCK_CLASSES 17

struct shim_clock {
	const struct shim_law *law;	/* the law; never changes */
	struct shim_engine *engine;	/* its engine; never changes */
	u32 index;			/* of the law; never changes */
	struct shim_host_timer timer;	/* the host's: calls shim_clock_tick() every T */
	spinlock_t lock;		/* of what follows; inside vm->lock */
	struct list_head due[SHIM_CLOCK_CLASSES]; /* struct shim_vm: to be visited in this tick */
	struct list_head done[SHIM_CLOCK_CLASSES]; /* the same in the next tick, by class */
	struct list_head resting;	/* struct shim_vm: with something to be forgotten one day */
	bool running;			/* the timer is started */
	u32 next;			/* class that is next where each has a turn */
	u64 ticks;			/* ticks there were */
	u64 postponed;			/* of these, that left work to the next */
};

/* Prepares a clock. */
void shim_clock_init(struct shim_clock *clock, struct shim_engine *engine, u32 index);

/* Puts a VM under its clock, to be visited every T or to rest, and starts that.  vm->lock. */
void shim_clock_add(struct shim_vm *vm, bool resting);

/* Takes a VM from its clock.  vm->lock. */
void shim_clock_remove(struct shim_vm *vm);

/* Starts the periods of a running clock anew: T has changed. */
void shim_clock_restart(struct shim_clock *clock);

/*
 * Does the work of one tick, reports to be sent put into *reports.  Returns the time until the next
 * in ns; 0: the clock has stopped.  Softirqs off, RCU read lock.
 */
u64 shim_clock_tick(struct shim_clock *clock, u64 now_ns, struct shim_reports *reports);

#endif
