/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Early drops: a queue of packets that wait for their departure is kept short by dropping some of
 * them before it is full.
 *
 * With w the time that a packet would wait for those before it, and e the setting,
 *
 *   h = max(e, time of SHIM_WAIT_BYTES_MIN at R / 2)
 *   p = 0 up to w = h, then (w - h) / h, 1 from w = 2 h on
 *
 * is the part of full packets that is dropped; of packets of L < Q bytes it is L/Q of that, and of
 * those below Q/4 none, for they are not what makes a queue, and a request that is lost waits for a
 * timeout.  A VM's own pings and small requests so pass a queue that its bulk keeps below 2 h, and
 * a VM that sends nothing but small packets meets the horizon.  h is no less than half of what may
 * wait whatever the horizon, so that a slow TCP keeps its few packets.
 *
 * Nothing is drawn by chance.  Each such packet adds p min(L, Q) to a credit; the one that makes it
 * Q is dropped and takes Q away.  So the credit is below Q after each packet, and a run of packets
 * at one h loses as many as its p min(L, Q) / Q add up to, one more or less.  In units of bytes
 * times ns no division is needed, the credit being c h:
 *
 *   c h  +=  min(w - h, h) min(L, Q);       dropped if that is Q h or more, which it then loses
 *
 * Overflow: h <= max(10 s, 11 full packets at SHIM_RATE_MIN) < 2^38 ns, and Q < 2^11, so c h < Q h
 * before and at most Q h more: below 2^50.  Where R changes and h shrinks, the credit is cut to
 * just below Q h first, so that no packet is dropped for the queue of another rate.
 *
 * There are drops and no marks.  A mark made here would be seen by the fabric's queues, of which
 * RED and others count what was marked before as their own, and by the receiver's shim, which takes
 * CE for the fabric's congestion: laws would cut the rate for the queue that the rate itself makes.
 */
#ifndef SHIM_CORE_ENGINE_EARLY_H
#define SHIM_CORE_ENGINE_EARLY_H

#include "../bucket.h"
#include "../host.h"

/* Q, bytes with headers as on the wire: a full packet. */
#define SHIM_EARLY_BYTES 1514U

/* Q/4, bytes: smaller packets are not dropped. */
#define SHIM_EARLY_LEAST (SHIM_EARLY_BYTES / 4)

/* Returns h at a rate, ns; early_ns is not 0. */
static inline u64 shim_early_start(const struct shim_rate *rate, u64 early_ns)
{
	return max(early_ns, shim_rate_ns(rate, SHIM_WAIT_BYTES_MIN) / 2);
}

/*
 * Tells whether a packet of len bytes that would wait wait_ns for those before it is to be dropped,
 * by h and the credit, which it changes.
 */
static inline bool shim_early_drops(u64 *credit, u64 start_ns, u64 wait_ns, u32 len)
{
	u64 full = start_ns * SHIM_EARLY_BYTES;

	if (wait_ns <= start_ns || len < SHIM_EARLY_LEAST)
		return false;
	*credit = min(*credit, full - 1) +
		  min(wait_ns - start_ns, start_ns) * min_t(u32, len, SHIM_EARLY_BYTES);
	if (*credit < full)
		return false;
	*credit -= full;
	return true;
}

#endif
