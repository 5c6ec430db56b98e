/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * An uplink: a port towards the fabric, whose capacity its active VMs divide.
 */
#ifndef SHIM_CORE_ENGINE_UPLINK_H
#define SHIM_CORE_ENGINE_UPLINK_H

#include "../host.h"
#include "../share.h"

struct shim_engine;

/* So small a part of a link's speed is left free, that a queue of the device drains. */
#define SHIM_LINK_SPARE_DENOMINATOR 256

struct shim_uplink {
	struct shim_engine *engine;	/* its engine; never changes */
	void *port;			/* the host's own port; never changes */
	struct list_head node;		/* in engine->uplinks; configuration's lock, RCU */
	shim_rcu_t rcu;			/* deferred free */
	u64 configured;			/* capacity as configured, bytes/s; 0: link speed */
	u64 link_rate;			/* link speed, bytes/s; 0: unknown */
	u32 overhead;			/* on the wire, bytes a packet; 0: none, and no least */
	bool gone;			/* about to be freed; lock */

	spinlock_t lock;		/* of what follows; inside vm->lock */
	struct list_head active;	/* struct shim_limiter: active */
	struct list_head receivers;	/* struct shim_vm: receiving by it, where that is metered */
	u64 active_weight;		/* sum of the weights of the VMs of active */
	u32 n_active;			/* length of active */
	u32 n_receivers;		/* length of receivers */
	struct shim_claim *claims;	/* scratch of the division */
	u32 n_claims;			/* length of claims */
	u64 divided_ns;			/* no division before that time */
	u64 reports_ns;			/* reports are paid for up to that time; later is credit */
	bool divide;			/* shares must be computed again */
	bool divide_rx;			/* so must what VMs may receive */
};

/* Returns a new uplink for the host's port, listed; NULL without memory.  Configuration's lock. */
struct shim_uplink *shim_uplink_create(struct shim_engine *engine, void *port);

/* Makes room for dividing among n VMs; false without memory.  Configuration's lock. */
bool shim_uplink_reserve(struct shim_uplink *uplink, u32 n);

/* Removes an uplink with all limiters on it; freed after a grace period.  Configuration's lock. */
void shim_uplink_remove(struct shim_uplink *uplink);

/* Changes capacity and link speed, bytes/s.  Shares follow at once. */
void shim_uplink_configure(struct shim_uplink *uplink, u64 configured, u64 link_rate);

/* Changes what a packet takes of the wire beyond its bytes. */
void shim_uplink_set_overhead(struct shim_uplink *uplink, u32 overhead);

/* Notes another link speed, bytes/s, of a link that is up. */
void shim_uplink_link_rate(struct shim_uplink *uplink, u64 link_rate);

/*
 * Returns what an uplink can carry, bytes/s, of what was configured, or of its link's speed: a part
 * less than that, for clocks differ, and what the host sends of its own needs room.
 */
static inline u64 shim_capacity_of(u64 configured, u64 link_rate)
{
	return configured ? configured : link_rate - link_rate / SHIM_LINK_SPARE_DENOMINATOR;
}

/* Returns C of an uplink, bytes/s; never 0. */
static inline u64 shim_uplink_capacity(const struct shim_uplink *uplink)
{
	u64 capacity = shim_capacity_of(READ_ONCE(uplink->configured),
					READ_ONCE(uplink->link_rate));

	return clamp_t(u64, capacity, SHIM_RATE_MIN, SHIM_RATE_MAX);
}

/* Returns an uplink that was found before, NULL if it is no more.  RCU read lock. */
struct shim_uplink *shim_uplink_find(const struct shim_engine *engine,
				     const struct shim_uplink *found);

/* Notes that a VM does not receive by its uplink any more.  vm->lock. */
void shim_uplink_leave_rx(struct shim_vm *vm);

/* Computes shares, of senders and receivers, if they must be and may be computed at now_ns. */
void shim_uplink_divide(struct shim_uplink *uplink, u64 now_ns);

#endif
