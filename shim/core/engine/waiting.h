/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packets that wait for their departure, bounded in number, for a queuing discipline has room for
 * so many packets, not for so much time.
 *
 * At most m may wait: with s = m/16 rounded up, every s-th packet that is given a departure leaves
 * its time in a ring of n = (m - s + 1)/s <= 16, rounded down; one that finds the time left a round
 * ago, s * n packets before it, still to come is dropped.  Up to s - 1 more follow before the next
 * one looks, and s * n + s - 1 <= m.
 */
#ifndef SHIM_CORE_ENGINE_WAITING_H
#define SHIM_CORE_ENGINE_WAITING_H

#include "../types.h"

/* Departure times remembered, to tell how many packets wait. */
#define SHIM_WAITING_SLOTS 16

/* What is remembered of packets that wait; 0 is none. */
struct shim_waiting {
	u64 departures[SHIM_WAITING_SLOTS];	/* some of them, ns */
	u32 next;				/* packets given a departure, modulo 2^32 */
};

/*
 * Tells whether as many packets wait as may, 0: any number; notes when one more will leave if not.
 * Calls for one ring must not overlap.
 */
static inline bool shim_waiting_full(struct shim_waiting *waiting, u32 most, u64 now_ns,
				     u64 departure_ns)
{
	u32 stride = (most + SHIM_WAITING_SLOTS - 1) / SHIM_WAITING_SLOTS;
	u32 place = waiting->next;
	u64 *slot;

	if (most && !(place % stride)) {
		slot = &waiting->departures[place / stride % ((most - stride + 1) / stride)];
		if (*slot > now_ns)
			return true;
		*slot = departure_ns;
	}
	waiting->next = place + 1;
	return false;
}

#endif
