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
 * Units.  Times are ticks of 1/256 ns modulo 2^64 (2.28 years).  cost is len * mult >> shift,
 * rounded up, where mult / 2^shift is the ticks of a byte, 256e9 / R, rounded up too.  mult is in
 * (2^31, 2^32], so its relative error is below 2^-31 = 4.7e-10; rounding a cost up takes less
 * than a tick (0.004 ns) a packet.  B/R is rounded down.  All three err to less than R.  Departures
 * are whole nanoseconds, rounded up, so a window between departures can be short by one.
 *
 * Ranges.  SHIM_RATE_MIN gives mult / 2^shift = 2.048e9 < 2^31 with shift = 1, the smallest.
 *   len * mult + 2^shift - 1 <= (2^32 - 1) * 2^32 + 2^31 - 1 < 2^64, for any u32 length
 *   cost <= 2^63, used <= SHIM_DEBT_MAX = 2^61, so fill < 2^64
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

struct shim_verdict shim_bucket_ask(const struct shim_rate *rate, u64 tat, u64 now_ns, u32 len,
				    u64 horizon_ns)
{
	struct shim_verdict verdict = shim_bucket_pace(rate, tat, now_ns, len, horizon_ns);
	u64 wait_ns;

	if (verdict.kind == SHIM_DROP && horizon_ns) {
		wait_ns = shim_rate_ns(rate, len > SHIM_WAIT_BYTES_MIN ? len :
				       SHIM_WAIT_BYTES_MIN);
		if (wait_ns > horizon_ns)
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
