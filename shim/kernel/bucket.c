// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buckets that packets on all CPUs and the timer share, without a lock for packets.
 *
 * The word `tat` is all there is to a bucket (core/bucket.c).  To judge a packet by it takes a look
 * at the clock, which waits for all that the CPU has in flight and costs as much as the rest of the
 * shim.  So a bucket that was full lets packets behind the one it judged pass unasked, as far as
 * it would have held them, and charges them at the next look.  The word `slack` says how far: its
 * upper half is bytes that may still pass, its lower half bytes that did.  A busy limiter, whose
 * bucket is never full, judges each packet.
 *
 * The rate changes under shim->lock.  Packets read it under a sequence count and publish the bucket
 * word by compare-and-exchange: a packet that used the old rate either comes before the word is
 * converted to the new one, or finds the word changed and asks again.
 *
 * Two CPUs that judge packets of one bucket at the same time may grant as slack what the other has
 * just taken, a packet a CPU at most; it is charged like all slack.
 */
#include <linux/atomic.h>
#include <linux/minmax.h>
#include <linux/seqlock.h>

#include "internal.h"

/*
 * Bytes that may wait whatever the horizon: eleven full packets.  At a low rate a horizon in time
 * is less than one packet, and a TCP that may not have a few packets in flight gets a tenth of its
 * limit.  No more than that: a 64 KiB packet at 31 Mb/s takes four control periods, and TCP itself
 * makes smaller ones when it is slow.
 */
#define WAIT_BYTES_MIN (11 * 1514U)

/* Prepares a bucket whose rate changes under lock: empty, at the lowest rate there is. */
void ovs_shim_bucket_init(struct ovs_shim_bucket *bucket, spinlock_t *lock)
{
	seqcount_spinlock_init(&bucket->seq, lock);
	shim_rate_init(&bucket->rate, SHIM_RATE_MIN, 0);
	atomic64_set(&bucket->tat, 0);
	atomic64_set(&bucket->slack, 0);
}

/* Makes the bucket full at now_ns, whatever it was. */
void ovs_shim_bucket_fill(struct ovs_shim_bucket *bucket, u64 now_ns)
{
	atomic64_set(&bucket->tat, shim_bucket_full(now_ns));
}

/* Ends the slack there is and charges what passed by it. */
void ovs_shim_bucket_settle(struct ovs_shim_bucket *bucket, u64 now_ns)
{
	u32 passed = (u32)atomic64_xchg(&bucket->slack, 0);
	unsigned int seq;
	u64 new;
	s64 tat;

	if (!passed)
		return;
	tat = atomic64_read(&bucket->tat);
	do {
		do {
			seq = read_seqcount_begin(&bucket->seq);
			new = shim_bucket_charge(&bucket->rate, tat, now_ns, passed);
		} while (read_seqcount_retry(&bucket->seq, seq));
	} while (!atomic64_try_cmpxchg(&bucket->tat, &tat, new));
}

/* Puts a rate and a depth in force; credit and debt stay.  The lock of ovs_shim_bucket_init(). */
void ovs_shim_bucket_set(struct ovs_shim_bucket *bucket, u64 bytes_per_s, u32 depth, u64 now_ns)
{
	struct shim_rate old = bucket->rate;
	s64 tat;

	if (old.bytes_per_s == bytes_per_s && old.burst_bytes == depth)
		return;
	ovs_shim_bucket_settle(bucket, now_ns);
	write_seqcount_begin(&bucket->seq);
	shim_rate_init(&bucket->rate, bytes_per_s, depth);
	tat = atomic64_read(&bucket->tat);
	do {
		/* Nothing: a packet on another CPU took from the bucket meanwhile. */
	} while (!atomic64_try_cmpxchg(&bucket->tat, &tat,
				       shim_bucket_rerate(&old, &bucket->rate, tat, now_ns)));
	write_seqcount_end(&bucket->seq);
}

/* Asks a bucket whose word is tat about bytes at now_ns. */
struct shim_verdict ovs_shim_bucket_ask(const struct shim_rate *rate, u64 tat, u64 now_ns,
					u32 bytes, u64 horizon_ns)
{
	struct shim_verdict verdict = shim_bucket_pace(rate, tat, now_ns, bytes, horizon_ns);
	u64 wait_ns;

	if (unlikely(verdict.kind == SHIM_DROP && horizon_ns)) {
		wait_ns = shim_rate_ns(rate, max(bytes, WAIT_BYTES_MIN));
		verdict = shim_bucket_pace(rate, tat, now_ns, bytes, max(horizon_ns, wait_ns));
	}
	return verdict;
}

/* Judges bytes at now_ns and takes them from the bucket unless the verdict is a drop. */
struct shim_verdict ovs_shim_bucket_judge(struct ovs_shim_bucket *bucket, u64 now_ns, u32 bytes,
					  u64 horizon_ns)
{
	struct shim_verdict verdict;
	unsigned int seq;
	s64 tat;

	ovs_shim_bucket_settle(bucket, now_ns);
	tat = atomic64_read(&bucket->tat);
	do {
		do {
			seq = read_seqcount_begin(&bucket->seq);
			verdict = ovs_shim_bucket_ask(&bucket->rate, tat, now_ns, bytes,
						      horizon_ns);
		} while (read_seqcount_retry(&bucket->seq, seq));
	} while (verdict.kind != SHIM_DROP &&
		 !atomic64_try_cmpxchg(&bucket->tat, &tat, verdict.tat));
	if (verdict.slack)
		atomic64_cmpxchg(&bucket->slack, 0, (u64)verdict.slack << 32);
	return verdict;
}

/* Returns how long a bucket that paces would let a packet wait, ns, but for its own length. */
u64 ovs_shim_bucket_wait(const struct ovs_shim_bucket *bucket, u64 now_ns)
{
	unsigned int seq;
	u64 wait_ns;

	do {
		seq = read_seqcount_begin(&bucket->seq);
		wait_ns = shim_bucket_wait(&bucket->rate, atomic64_read(&bucket->tat), now_ns);
	} while (read_seqcount_retry(&bucket->seq, seq));
	return wait_ns;
}
