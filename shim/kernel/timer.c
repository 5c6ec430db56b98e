// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timers of the laws' clocks: each calls the engine every T, in softirq context.
 *
 * An hrtimer may be started anew while its function runs, and then is queued already when the
 * function wants to move it on.  Starting and moving on therefore exclude each other.
 */
#include <linux/container_of.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>

#include "../core/engine/clock.h"
#include "compat.h"
#include "report.h"

/* The hrtimer's function: does the work of a tick, then sends its reports without a lock. */
static enum hrtimer_restart timer_expired(struct hrtimer *hrtimer)
{
	struct shim_clock *clock = container_of(hrtimer, struct shim_clock, timer.hrtimer);
	enum hrtimer_restart again = HRTIMER_NORESTART;
	struct shim_reports reports;
	u64 next_ns;

	__skb_queue_head_init(&reports.queue);
	/* Ports live until the end of this section, and with them the devices reports leave by. */
	rcu_read_lock();
	next_ns = shim_clock_tick(clock, ktime_get_ns(), &reports);
	ovs_shim_reports_send(&reports);
	rcu_read_unlock();
	if (!next_ns)
		return HRTIMER_NORESTART;
	spin_lock(&clock->timer.lock);
	if (!hrtimer_is_queued(hrtimer)) {
		hrtimer_forward_now(hrtimer, ns_to_ktime(next_ns));
		again = HRTIMER_RESTART;
	}
	spin_unlock(&clock->timer.lock);
	return again;
}

/* Prepares the timer of a clock. */
void shim_host_timer_init(struct shim_clock *clock)
{
	spin_lock_init(&clock->timer.lock);
	ovs_shim_hrtimer_setup(&clock->timer.hrtimer, timer_expired);
}

/* Starts the timer of a clock, running or not: the next tick comes in ns. */
void shim_host_timer_start(struct shim_clock *clock, u64 ns)
{
	spin_lock_bh(&clock->timer.lock);
	hrtimer_start(&clock->timer.hrtimer, ns_to_ktime(ns), HRTIMER_MODE_REL_SOFT);
	spin_unlock_bh(&clock->timer.lock);
}

/* Stops the timer of a clock and waits for its tick to end; may sleep. */
void shim_host_timer_stop(struct shim_clock *clock)
{
	hrtimer_cancel(&clock->timer.hrtimer);
}
