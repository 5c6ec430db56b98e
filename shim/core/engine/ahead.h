/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Small packets and young flows that leave ahead of a VM's bulk; ahead.c has the algebra.
 */
#ifndef SHIM_CORE_ENGINE_AHEAD_H
#define SHIM_CORE_ENGINE_AHEAD_H

#include "../bucket.h"
#include "../host.h"
#include "packet.h"

/* S, bytes with headers as on the wire: as large a packet is small. */
#define SHIM_AHEAD_BYTES 378U

/* Y, bytes with headers, a power of two: who has sent less is young. */
#define SHIM_AHEAD_YOUNG_BYTES 16384U

/* F/W: a flow that rests for so many times the longest wait is young again. */
#define SHIM_AHEAD_REST 4U

/* n: what goes ahead is at most an n-th of the rate, in the long run. */
#define SHIM_AHEAD_PART 8U

/* W/X: what goes ahead has a part more of the horizon. */
#define SHIM_AHEAD_ROOM 8U

/* Flows of a set that are told apart. */
#define SHIM_AHEAD_WAYS 10

/* Sets of flows: with them a table just fits a page. */
#define SHIM_AHEAD_SETS 31

/* Flows that had packets waiting or going ahead: two cache lines. */
struct shim_ahead_set {
	u64 last_ns[SHIM_AHEAD_WAYS];	/* when the last one leaves; 0: none yet */
	u64 rest_ns;			/* when the last one of all other flows leaves */
	u16 tags[SHIM_AHEAD_WAYS];	/* low bits of the flow's hash, of no two in use the same */
	u16 sent[SHIM_AHEAD_WAYS];	/* bytes of those since it rested, at most Y */
};

/* Which flows of a VM have, or lately had, packets waiting on an uplink. */
struct shim_ahead {
	struct shim_ahead_set sets[SHIM_AHEAD_SETS];	/* by hash */
	u64 hash_factor;		/* odd, secret: mixes hashes; never changes */
	shim_rcu_t rcu;			/* deferred free */
};

/*
 * Returns a table for a limiter, all of whose packets have left at late_ns, that mixes hashes by a
 * secret factor; NULL without memory.
 */
struct shim_ahead *shim_ahead_create(u64 late_ns, u64 hash_factor);

/*
 * Tells whether a packet that the bucket would have wait or drop may leave at once; charges *tat,
 * the bucket's word, and *ahead_tat, that of what goes ahead, if so.  Packets may wait in `room`,
 * and this one takes `wire` bytes of the wire.  The limiter's lock.
 */
bool shim_ahead_passes(struct shim_ahead *ahead, u64 *ahead_tat, u64 *tat,
		       const struct shim_rate *rate, const struct shim_packet *packet, u32 wire,
		       u64 now_ns, struct shim_room room);

/* Remembers that a packet waits until departure_ns, under a rate.  The limiter's lock. */
void shim_ahead_waits(struct shim_ahead *ahead, const struct shim_rate *rate,
		      const struct shim_packet *packet, u64 now_ns, u64 departure_ns,
		      struct shim_room room);

#endif
