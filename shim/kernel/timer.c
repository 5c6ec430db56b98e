// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timer of a namespace: every T, while some limiter is active, it measures what each VM sent,
 * retires the idle, divides the uplinks and lets the law take its step.  In softirq context.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/list.h>

#include "internal.h"

/* Does the work of one tick at now_ns.  shim->lock. */
static void tick(struct ovs_shim_net *shim, u64 now_ns)
{
	u64 elapsed_ns = now_ns - shim->tick_ns;
	struct ovs_shim_pair *pair, *next;
	struct ovs_shim_port *port;

	if (!elapsed_ns)
		return;
	shim->tick_ns = now_ns;
	list_for_each_entry(port, &shim->uplinks, uplink_list)
		list_for_each_entry_safe(pair, next, &port->active, active_list)
			ovs_shim_limiter_measure(pair, now_ns, elapsed_ns);
	if (shim->divide)
		ovs_shim_divide(shim);
	list_for_each_entry(port, &shim->uplinks, uplink_list)
		list_for_each_entry(pair, &port->active, active_list)
			ovs_shim_limiter_period(pair, now_ns);
}

/* The hrtimer's function. */
static enum hrtimer_restart expired(struct hrtimer *timer)
{
	struct ovs_shim_net *shim = container_of(timer, struct ovs_shim_net, timer);
	enum hrtimer_restart again = HRTIMER_NORESTART;

	spin_lock(&shim->lock);
	if (shim->settings.law)
		tick(shim, ktime_get_ns());
	/* Queued already: started anew while this function waited for the lock. */
	if (shim->n_active && !hrtimer_is_queued(timer)) {
		hrtimer_forward_now(timer, ns_to_ktime(shim->settings.period_ns));
		again = HRTIMER_RESTART;
	}
	spin_unlock(&shim->lock);
	return again;
}

/* Prepares the timer. */
void ovs_shim_timer_init(struct ovs_shim_net *shim)
{
	hrtimer_init(&shim->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	shim->timer.function = expired;
}

/* Starts the periods anew, T from now.  shim->lock. */
void ovs_shim_timer_start(struct ovs_shim_net *shim)
{
	shim->tick_ns = ktime_get_ns();
	hrtimer_start(&shim->timer, ns_to_ktime(shim->settings.period_ns), HRTIMER_MODE_REL_SOFT);
}
