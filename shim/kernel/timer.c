// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clocks: each law of a namespace has its own period T.  Every T, while one of its VMs sends,
 * receives or has peers, the clock measures what they did, retires the idle, divides the uplinks
 * and lets the law take its step.  In softirq context.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/rculist.h>
#include <linux/skbuff.h>

#include "internal.h"

/* Returns the next limiter behind link.  shim->lock. */
static struct ovs_shim_pair *follow(const struct ovs_shim_net *shim,
				    struct ovs_shim_pair __rcu *link)
{
	return rcu_dereference_protected(link, lockdep_is_held(&shim->lock));
}

/* Measures a VM; false if nothing of it is left to time.  shim->lock. */
static bool measure(struct ovs_shim_port *vm, u64 now_ns, u64 elapsed_ns)
{
	bool active = vm->receiving;
	struct ovs_shim_pair *pair;

	for (pair = follow(vm->shim, vm->pairs); pair; pair = follow(vm->shim, pair->next)) {
		if (pair->active)
			ovs_shim_limiter_measure(pair, now_ns, elapsed_ns);
		active |= pair->active;
	}
	return ovs_shim_peers_measure(vm, now_ns, elapsed_ns) || active;
}

/* Does the work of one tick at now_ns, with reports to be sent in *reports.  shim->lock. */
static void tick(struct ovs_shim_clock *clock, u64 now_ns, struct sk_buff_head *reports)
{
	u64 elapsed_ns = now_ns - clock->tick_ns;
	struct ovs_shim_net *shim = clock->shim;
	struct ovs_shim_port *vm, *next;
	struct ovs_shim_pair *pair;

	if (!elapsed_ns)
		return;
	clock->tick_ns = now_ns;
	if (clock->law->wants & SHIM_LAW_RECEIVER)
		ovs_shim_meter(clock, now_ns);
	list_for_each_entry_safe(vm, next, &clock->vms, tick_list)
		if (!measure(vm, now_ns, elapsed_ns))
			list_del_init(&vm->tick_list);
	if (shim->divide)
		ovs_shim_divide(shim);
	list_for_each_entry(vm, &clock->vms, tick_list) {
		for (pair = follow(shim, vm->pairs); pair; pair = follow(shim, pair->next))
			if (pair->active)
				ovs_shim_limiter_period(pair, now_ns);
		ovs_shim_peers_period(vm, now_ns, reports);
		ovs_shim_flows_period(vm, now_ns);
	}
}

/* The hrtimer's function. */
static enum hrtimer_restart expired(struct hrtimer *timer)
{
	struct ovs_shim_clock *clock = container_of(timer, struct ovs_shim_clock, timer);
	enum hrtimer_restart again = HRTIMER_NORESTART;
	struct sk_buff_head reports;
	struct sk_buff *skb;

	__skb_queue_head_init(&reports);
	/* Ports live until the end of this section, and with them the devices reports leave by. */
	rcu_read_lock();
	spin_lock(&clock->shim->lock);
	tick(clock, ktime_get_ns(), &reports);
	/* Queued already: started anew while this function waited for the lock. */
	if (!list_empty(&clock->vms) && !hrtimer_is_queued(timer)) {
		hrtimer_forward_now(timer, ns_to_ktime(clock->settings->period_ns));
		again = HRTIMER_RESTART;
	}
	spin_unlock(&clock->shim->lock);
	while ((skb = __skb_dequeue(&reports)))
		ovs_shim_report_send(skb);
	rcu_read_unlock();
	return again;
}

/* Prepares a namespace's clocks, one for each law there is. */
void ovs_shim_clocks_init(struct ovs_shim_net *shim)
{
	struct ovs_shim_clock *clock;
	u32 i;

	for (i = 0; i < OVS_SHIM_LAW_SLOTS; i++) {
		clock = &shim->clocks[i];
		clock->law = shim_law_at(i);
		clock->settings = &shim->settings.laws[i];
		clock->shim = shim;
		INIT_LIST_HEAD(&clock->vms);
		hrtimer_init(&clock->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
		clock->timer.function = expired;
	}
}

/* Stops a namespace's clocks for good; no VM is left. */
void ovs_shim_clocks_stop(struct ovs_shim_net *shim)
{
	u32 i;

	for (i = 0; i < OVS_SHIM_LAW_SLOTS; i++)
		hrtimer_cancel(&shim->clocks[i].timer);
}

/* Starts the periods anew, T from now.  shim->lock. */
void ovs_shim_clock_start(struct ovs_shim_clock *clock)
{
	clock->tick_ns = ktime_get_ns();
	hrtimer_start(&clock->timer, ns_to_ktime(clock->settings->period_ns),
		      HRTIMER_MODE_REL_SOFT);
}

/* Puts a VM that has a law under its clock.  shim->lock. */
void ovs_shim_clock_add(struct ovs_shim_port *vm)
{
	if (!list_empty(&vm->tick_list))
		return;
	if (list_empty(&vm->clock->vms))
		ovs_shim_clock_start(vm->clock);
	list_add_tail(&vm->tick_list, &vm->clock->vms);
}
