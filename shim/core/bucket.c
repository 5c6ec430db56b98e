// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Token bucket T(i,j) as a generic cell rate algorithm (GCRA, ITU-T I.371): one 64-bit word.
 *
 * A bucket of depth B bytes and rate R bytes/s lets pass at most B + R*t bytes in any time t.
 * SDN-GCC (Algorithm 3, lines 3 to 10) keeps tokens T and sent_time, two words to be changed
 * together under a lock.  The theoretical arrival time
 *
 *   TAT = the time at which the bucket will be full again
 *
 * says the same in one word:
 *
 *   used = max(0, TAT - now)            time to refill what is missing
 *   T    = B - used * R                 tokens; negative while paced packets are in debt
 *   cost = L / R                        for a packet of L bytes
 *   fill = used + cost
 *
 *   police:  fill <= B/R  -> send, TAT = now + fill;   else drop
 *   pace:    departure = max(now, now + fill - B/R);
 *            departure - now <= horizon -> TAT = now + fill;   else drop
 *
 * Paced packet n departs at D_n >= TAT_n - B/R, and TAT grows by at least the cost of each packet,
 * so packets k..n carry at most R*(D_n - D_k) + max(B, L_k) bytes: a packet larger than the
 * bucket waits until the rate has paid for the difference.  D never decreases.
 *
 * A change of rate to R' at time c leaves credit and debt as they are, in bytes:
 *
 *   TAT' = c + (TAT - c) * R/R'
 *
 * With R' > R that alone would have the next packet leave before those that wait by R, of which
 * the last leaves at D = TAT - B/R.  They have their times; so until D what comes is judged as of
 * D, when it may leave, and
 *
 *   TAT'' = max(TAT', D)
 *
 * is the state then: what R' earns meanwhile, up to B, is there at D.  S = TAT'' - TAT' is what it
 * earns beyond B.  That is lost if the rate stays, and no debt in bytes: a change before D counts
 * from TAT - S.  A bucket that would be full at R' by the time t of a packet, before D, has no more
 * than B for it, so then S becomes TAT - t if it is more.  Packets that leave in [a, b] with
 * a < D < b are those by R of up to D and B + R' * (b - D) behind, so B + max(R, R') * (b - a), and
 * the largest packet, bound them.  Of k rises that come before the first D, each adds what it
 * earns until then: k B at most, and no more than the rate rose by, times D - c.
 *
 * Peers have a simpler order, with no credit at D: what comes after a change of rate leaves at D
 * and its cost at R', so
 *
 *   TAT'' = max(TAT', D + B/R'),   S = TAT'' - TAT'
 *
 * after a cut as well: TAT - S may be so far behind TAT that D + B/R' is the later one then.  S is
 * at most TAT - t at the time t of a packet, and stays else: TAT - S is a bucket of its own, which
 * is charged for all that passes and knows of no order, and TAT is never before it.  As D never
 * decreases while it is ahead, neither do departures.
 *
 * Let W be the longest that a packet may wait at a rate: the horizon, or the time of the bytes that
 * may wait whatever that is.  None waits longer than W at R' for those by R either: the queue is
 * full until some of them have left.  With R far below R' that could be long (132 s at
 * SHIM_RATE_MIN), so D is at most 2 W from c, and what leaves later is overtaken.
 *
 * Units.  Times are ticks of 1/256 ns modulo 2^64 (2.28 years).  cost is len * mult >> shift,
 * rounded up, where mult / 2^shift is the ticks of a byte, 256e9 / R, rounded up too.  mult is in
 * (2^31, 2^32], so its relative error is below 2^-31 = 4.7e-10; rounding a cost up takes less
 * than a tick (0.004 ns) a packet.  B/R is rounded down.  All three err to less than R.  Departures
 * are whole nanoseconds, rounded up, so a window between departures can be short by one.
 *
 * Ranges.  SHIM_RATE_MIN gives mult / 2^shift = 2.048e9 < 2^31 with shift = 1, the smallest.
 *   len * mult + 2^shift - 1 <= (2^32 - 1) * 2^32 + 2^31 - 1 < 2^64, for any u32 length
 *   cost <= 2^63, used <= SHIM_DEBT_MAX = 2^61, so fill < 2^64
 *   2 W <= 2 * 2^20 bytes at SHIM_RATE_MIN = 16,778 s, so D - c < 2^52 ticks
 * No state further ahead of now than SHIM_DEBT_MAX (104 days) is ever published: 10 ms of debt at
 * SHIM_RATE_MAX stays below it even when the rate is cut to SHIM_RATE_MIN.  What seems further
 * ahead is therefore in the past (a bucket idle until the clock wrapped) and counts as full.
 * So a bucket idle for less than 2 years is never mistaken; owners drop idle ones in seconds.
 *
 * Deviations from the paper: headers are counted as the caller counts them; time is in
 * nanoseconds, not jiffies; a packet may be paced instead of queued or dropped.
 */
#include "arith.h"
#include "bucket.h"

/* Ticks that a rate of 1 byte/s takes for a byte: 2.56e11 < 2^38. */
#define TICKS_PER_SEC (SHIM_TICKS_PER_NS * SHIM_NSEC_PER_SEC)

/* Left shift under which TICKS_PER_SEC still fits 64 bits. */
#define SAFE_SHIFT 26U

/* Returns the time in ticks, modulo 2^64. */
static u64 ticks(u64 now_ns)
{
	return now_ns * SHIM_TICKS_PER_NS;
}

/*
 * Tells whether a bucket, filled by len bytes, still holds them.  A packet as large as the
 * bucket fits a full one although its cost is rounded up and burst_ticks down.
 */
static bool fits(const struct shim_rate *rate, u64 used_ticks, u64 fill_ticks, u32 len)
{
	return fill_ticks <= rate->burst_ticks ||
	       (!used_ticks && len <= rate->burst_bytes && fill_ticks <= SHIM_DEBT_MAX);
}

/*
 * The reciprocal TICKS_PER_SEC * 2^shift / bytes_per_s is found by two 64-bit divisions: the
 * quotient and the remainder under SAFE_SHIFT, then the bits that are left.  The remainder is
 * below 2^37 and at most 4 bits are left (shift is 30 for SHIM_RATE_MAX).
 */
void shim_rate_init(struct shim_rate *rate, u64 bytes_per_s, u32 burst_bytes)
{
	u64 quotient, rest, burst;
	u32 shift = 31, first;

	/* The caller's duty; done here too, because the alternative is to divide by 0. */
	if (bytes_per_s < SHIM_RATE_MIN)
		bytes_per_s = SHIM_RATE_MIN;
	if (bytes_per_s > SHIM_RATE_MAX)
		bytes_per_s = SHIM_RATE_MAX;

	/* The largest shift with TICKS_PER_SEC * 2^shift / bytes_per_s < 2^32. */
	while (TICKS_PER_SEC >> (32 - shift) >= bytes_per_s)
		shift--;
	first = shift < SAFE_SHIFT ? shift : SAFE_SHIFT;
	quotient = shim_div(TICKS_PER_SEC << first, bytes_per_s);
	rest = (TICKS_PER_SEC << first) - quotient * bytes_per_s;
	rest = shim_div((rest << (shift - first)) + bytes_per_s - 1, bytes_per_s);

	rate->bytes_per_s = bytes_per_s;
	rate->mult = (quotient << (shift - first)) + rest;
	rate->shift = shift;
	rate->burst_bytes = burst_bytes;
	burst = burst_bytes * rate->mult >> shift;
	rate->burst_ticks = burst < SHIM_DEBT_MAX ? burst : SHIM_DEBT_MAX;
}

u64 shim_rate_ns(const struct shim_rate *rate, u32 len)
{
	return (shim_bucket_cost(rate, len) + SHIM_TICKS_PER_NS - 1) / SHIM_TICKS_PER_NS;
}

u64 shim_bucket_full(u64 now_ns)
{
	return ticks(now_ns);
}

struct shim_verdict shim_bucket_pace(const struct shim_rate *rate, u64 tat,
				     u64 now_ns, u32 len, u64 horizon_ns)
{
	struct shim_verdict verdict = { .tat = tat, .departure_ns = now_ns, .kind = SHIM_DROP };
	u64 now = ticks(now_ns);
	u64 missing = shim_bucket_used(tat, now);
	u64 fill = missing + shim_bucket_cost(rate, len);
	u64 wait_ns;

	if (fits(rate, missing, fill, len)) {
		verdict.kind = SHIM_SEND;
		verdict.tat = now + fill;
		return verdict;
	}
	if (fill > SHIM_DEBT_MAX)
		return verdict;
	wait_ns = (fill - rate->burst_ticks + SHIM_TICKS_PER_NS - 1) / SHIM_TICKS_PER_NS;
	if (wait_ns > horizon_ns)
		return verdict;
	verdict.kind = SHIM_PACE;
	verdict.tat = now + fill;
	verdict.departure_ns = shim_add_sat(now_ns, wait_ns);
	return verdict;
}

u64 shim_bucket_wait(const struct shim_rate *rate, u64 tat, u64 now_ns)
{
	u64 missing = shim_bucket_used(tat, ticks(now_ns));

	return missing > rate->burst_ticks ?
	       (missing - rate->burst_ticks) / SHIM_TICKS_PER_NS : 0;
}

u64 shim_room_ns(const struct shim_rate *rate, struct shim_room room, u32 len)
{
	u64 least_ns = shim_rate_ns(rate, len > room.bytes ? len : room.bytes);

	return least_ns > room.horizon_ns ? least_ns : room.horizon_ns;
}

struct shim_verdict shim_bucket_ask(const struct shim_rate *rate, u64 tat, u64 now_ns, u32 len,
				    struct shim_room room)
{
	struct shim_verdict verdict = shim_bucket_pace(rate, tat, now_ns, len, room.horizon_ns);
	u64 wait_ns;

	if (verdict.kind == SHIM_DROP && room.horizon_ns) {
		wait_ns = shim_room_ns(rate, room, len);
		if (wait_ns > room.horizon_ns)
			verdict = shim_bucket_pace(rate, tat, now_ns, len, wait_ns);
	}
	return verdict;
}

/*
 * Credit is B - used * R bytes, so with depths B and B' the missing bytes become
 * used * R + (B' - B), at least 0; at the same depth the ticks just scale by R / R'.
 */
u64 shim_bucket_rerate(const struct shim_rate *from, const struct shim_rate *to,
		       u64 tat, u64 now_ns)
{
	u64 now = ticks(now_ns);
	u64 missing = shim_bucket_used(tat, now);

	/* Rounded up: changing the rate over and over earns no credit. */
	if (missing && from->bytes_per_s != to->bytes_per_s)
		missing = shim_add_sat(1, shim_mul_div(missing, from->bytes_per_s,
						       to->bytes_per_s));
	if (to->burst_bytes > from->burst_bytes) {
		u64 more = shim_bucket_cost(to, to->burst_bytes - from->burst_bytes);

		missing = shim_add_sat(missing, more);
	} else if (to->burst_bytes < from->burst_bytes) {
		u64 less = (from->burst_bytes - to->burst_bytes) * to->mult >> to->shift;

		missing = missing > less ? missing - less : 0;
	}
	return now + (missing < SHIM_DEBT_MAX ? missing : SHIM_DEBT_MAX);
}

u64 shim_bucket_rerate_behind(const struct shim_rate *from, const struct shim_rate *to,
			      u64 *spare_ticks, u64 tat, u64 now_ns)
{
	u64 used = shim_bucket_used(tat, ticks(now_ns)), least = 0, missing;

	/* Both terms are at most SHIM_DEBT_MAX, and so is what is published. */
	if (used > from->burst_ticks)
		least = used - from->burst_ticks + to->burst_ticks;
	if (least > SHIM_DEBT_MAX)
		least = SHIM_DEBT_MAX;
	tat -= shim_bucket_spare(*spare_ticks, tat, now_ns);
	missing = shim_bucket_used(shim_bucket_rerate(from, to, tat, now_ns), ticks(now_ns));
	*spare_ticks = missing < least ? least - missing : 0;
	return ticks(now_ns) + missing + *spare_ticks;
}

/* Returns how long after now_ns the last packet that waits leaves, ns. */
static u64 last_after(const struct shim_rate *rate, const struct shim_order *order, u64 tat,
		      u64 now_ns)
{
	u64 missing = shim_bucket_used(tat, ticks(now_ns)), last_ns = 0;

	if (missing > rate->burst_ticks)
		last_ns = (missing - rate->burst_ticks + SHIM_TICKS_PER_NS - 1) / SHIM_TICKS_PER_NS;
	if (last_ns < shim_order_ns(order, now_ns))
		last_ns = shim_order_ns(order, now_ns);
	return last_ns;
}

u64 shim_bucket_rerate_in_order(const struct shim_rate *from, const struct shim_rate *to,
				struct shim_order *order, u64 tat, u64 now_ns,
				struct shim_room room)
{
	u64 last_ns = last_after(from, order, tat, now_ns), last, missing, most_ns = 0;

	if (shim_order_ns(order, now_ns))
		tat -= order->spare_ticks;
	tat = shim_bucket_rerate(from, to, tat, now_ns);
	*order = (struct shim_order){};
	if (room.horizon_ns)
		most_ns = 2 * shim_room_ns(to, room, 0);
	last_ns = last_ns < most_ns ? last_ns : most_ns;
	last = last_ns * SHIM_TICKS_PER_NS;
	missing = shim_bucket_used(tat, ticks(now_ns));
	if (last && missing < last + to->burst_ticks) {
		order->until_ns = now_ns + last_ns;
		order->spare_ticks = missing < last ? last - missing : 0;
	}
	return tat + order->spare_ticks;
}

struct shim_verdict shim_bucket_ask_in_order(const struct shim_rate *rate,
					     struct shim_order *order, u64 tat, u64 now_ns,
					     u64 late_ns, u32 len, struct shim_room room)
{
	struct shim_verdict verdict = { .tat = tat, .departure_ns = now_ns, .kind = SHIM_DROP };
	u64 from_ns = late_ns > now_ns ? late_ns : now_ns, ahead_ns, most_ns, spare;

	if (order->until_ns <= from_ns)
		return shim_bucket_ask_behind(rate, tat, now_ns, late_ns, len, room);
	spare = tat - ticks(from_ns);
	order->spare_ticks = order->spare_ticks < spare ? order->spare_ticks : spare;
	if (!room.horizon_ns)
		return shim_bucket_ask_behind(rate, tat, now_ns, late_ns, len, room);
	ahead_ns = order->until_ns - now_ns;
	most_ns = shim_room_ns(rate, room, len);
	if (ahead_ns > most_ns)
		return verdict;
	return shim_bucket_pace(rate, tat, order->until_ns, len, most_ns - ahead_ns);
}
