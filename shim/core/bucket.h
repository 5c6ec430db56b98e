/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Token bucket T(i,j) of uplink i and VM j as one 64-bit word; bucket.c has the algebra.
 */
#ifndef SHIM_CORE_BUCKET_H
#define SHIM_CORE_BUCKET_H

#include "types.h"

/*
 * Clock ticks in a nanosecond.  A packet's time is rounded up to a tick: less than 1% of a 64-byte
 * packet at 800 Gb/s, less than 4e-7 of a 1500-byte one at 1 Gb/s.
 */
#define SHIM_TICKS_PER_NS 256ULL

/*
 * Full packets that may wait whatever the horizon.  At a low rate a horizon in time is less than
 * one packet, and a TCP that may not have a few packets in flight gets a tenth of its limit.  No
 * more than that: a 64 KiB packet at 31 Mb/s takes four control periods, and TCP itself makes
 * smaller ones when it is slow.
 */
#define SHIM_WAIT_FRAMES 11U

/* The furthest ahead of now that a state may be, in ticks: 2^61. */
#define SHIM_DEBT_MAX 0x2000000000000000ULL

/* What a bucket says of one packet. */
enum shim_verdict_kind {
	SHIM_SEND,		/* conforming: may leave now */
	SHIM_PACE,		/* may leave at departure_ns */
	SHIM_DROP,		/* over the rate (police) or beyond the horizon (pace) */
};

/* A rate and a depth in the form the packet path wants; read-mostly. */
struct shim_rate {
	u64 bytes_per_s;	/* as configured, SHIM_RATE_MIN..SHIM_RATE_MAX */
	u64 mult;		/* ticks for a length are len * mult >> shift */
	u64 burst_ticks;	/* burst_bytes as time at this rate */
	u32 burst_bytes;	/* bucket depth */
	u32 shift;		/* see mult */
};

/* How much may wait in a bucket: what either allows. */
struct shim_room {
	u64 horizon_ns;		/* the longest wait; 0: nothing waits */
	u32 bytes;		/* that may wait whatever the horizon, at most 2^20 */
};

/* What keeps packets in order behind those that wait when a rate rises; all 0: nothing. */
struct shim_order {
	u64 until_ns;		/* when the last of those leaves; none waits if that has passed */
	u64 spare_ticks;	/* of tat until then: earned beyond the depth, no debt */
};

/* The answer for one packet and the state to publish if it is taken. */
struct shim_verdict {
	u64 tat;		/* new state, in ticks modulo 2^64 */
	u64 departure_ns;	/* earliest departure time; now for SHIM_SEND */
	enum shim_verdict_kind kind;
};

/*
 * Fills *rate.  The caller has refused rates outside [SHIM_RATE_MIN, SHIM_RATE_MAX]; they would
 * become the nearer end.  A burst that takes more than 2^53 ns (104 days) at the rate counts as
 * that long.
 */
void shim_rate_init(struct shim_rate *rate, u64 bytes_per_s, u32 burst_bytes);

/* Returns how long len bytes take at the rate, ns rounded up. */
u64 shim_rate_ns(const struct shim_rate *rate, u32 len);

/* Returns the room of a bucket for packets of up to `frame` bytes. */
static inline struct shim_room shim_room_of(u64 horizon_ns, u32 frame)
{
	frame = frame > SHIM_FRAME_DEFAULT ? frame : SHIM_FRAME_DEFAULT;
	return (struct shim_room){ .horizon_ns = horizon_ns, .bytes = SHIM_WAIT_FRAMES * frame };
}

/* Returns W: the longest that a packet of len bytes may wait where any may, ns. */
u64 shim_room_ns(const struct shim_rate *rate, struct shim_room room, u32 len);

/* Returns the state of a bucket that is full at now_ns. */
u64 shim_bucket_full(u64 now_ns);

/* Returns the ticks that len bytes take, rounded up; at most 2^63. */
static inline u64 shim_bucket_cost(const struct shim_rate *rate, u32 len)
{
	return (len * rate->mult + (1ULL << rate->shift) - 1) >> rate->shift;
}

/* Returns how far tat is ahead of now, in ticks: 0 for a full bucket, at most SHIM_DEBT_MAX. */
static inline u64 shim_bucket_used(u64 tat, u64 now)
{
	u64 ahead = tat - now;

	return ahead <= SHIM_DEBT_MAX ? ahead : 0;
}

/*
 * Takes len bytes out of a bucket if no more than within_ticks are missing then; false and *tat as
 * it was if not.  With burst_ticks that is the whole judgement of a packet that may leave at once.
 */
static inline bool shim_bucket_take(const struct shim_rate *rate, u64 *tat, u64 now_ns, u32 len,
				    u64 within_ticks)
{
	u64 now = now_ns * SHIM_TICKS_PER_NS;
	u64 fill = shim_bucket_used(*tat, now) + shim_bucket_cost(rate, len);

	if (fill > within_ticks)
		return false;
	*tat = now + fill;
	return true;
}

/*
 * Returns the state after len bytes that were judged to make it tat, where something else has them
 * leave later than the bucket would: as if they had been judged so much later.  To change the rate
 * then, that departure is the time to hand to shim_bucket_rerate(), as long as it is ahead.
 */
static inline u64 shim_bucket_charge(const struct shim_rate *rate, u64 tat, u64 departure_ns,
				     u32 len)
{
	u64 cost = shim_bucket_cost(rate, len);
	u64 then = departure_ns * SHIM_TICKS_PER_NS +
		   (cost < rate->burst_ticks ? cost : rate->burst_ticks);

	return then + shim_bucket_used(tat, then);
}

/*
 * The same for a bucket with *spare_ticks of shim_bucket_rerate_behind(), judged as of a time that
 * is no later than the departure; what they are of the state then.
 */
static inline u64 shim_bucket_charge_behind(const struct shim_rate *rate, u64 *spare_ticks, u64 tat,
					    u64 departure_ns, u32 len)
{
	u64 owed = shim_bucket_charge(rate, tat - *spare_ticks, departure_ns, len);

	tat = shim_bucket_charge(rate, tat, departure_ns, len);
	*spare_ticks = tat - owed;
	return tat;
}

/*
 * Judges len bytes: SHIM_SEND, SHIM_PACE, or SHIM_DROP if the wait would exceed horizon_ns.  A
 * packet larger than the bucket waits until the rate has paid for the difference.
 */
struct shim_verdict shim_bucket_pace(const struct shim_rate *rate, u64 tat,
				     u64 now_ns, u32 len, u64 horizon_ns);

/* The same for a bucket of packets that may wait as long as there is room. */
struct shim_verdict shim_bucket_ask(const struct shim_rate *rate, u64 tat, u64 now_ns, u32 len,
				    struct shim_room room);

/*
 * The same where something else had the last packet leave at late_ns: as of then, if that is ahead,
 * and what is left of the horizon.
 */
static inline struct shim_verdict shim_bucket_ask_behind(const struct shim_rate *rate, u64 tat,
							 u64 now_ns, u64 late_ns, u32 len,
							 struct shim_room room)
{
	u64 ahead_ns = late_ns > now_ns ? late_ns - now_ns : 0;

	if (room.horizon_ns)
		room.horizon_ns = room.horizon_ns > ahead_ns ? room.horizon_ns - ahead_ns : 1;
	return shim_bucket_ask(rate, tat, now_ns + ahead_ns, len, room);
}

/* Returns how long the next packet waits for those that a lower rate has wait, ns. */
static inline u64 shim_order_ns(const struct shim_order *order, u64 now_ns)
{
	return order->until_ns > now_ns ? order->until_ns - now_ns : 0;
}

/* Returns how long the next byte would be paced, ns rounded down. */
u64 shim_bucket_wait(const struct shim_rate *rate, u64 tat, u64 now_ns);

/* The same where a rate rose. */
static inline u64 shim_bucket_wait_in_order(const struct shim_rate *rate,
					    const struct shim_order *order, u64 tat, u64 now_ns)
{
	u64 wait_ns = shim_bucket_wait(rate, tat, now_ns), order_ns = shim_order_ns(order, now_ns);

	return wait_ns > order_ns ? wait_ns : order_ns;
}

/* Returns the state with the same bytes of credit or debt under another rate. */
u64 shim_bucket_rerate(const struct shim_rate *from, const struct shim_rate *to,
		       u64 tat, u64 now_ns);

/*
 * The same where what comes next leaves behind what waits, paid for at the new rate, however long
 * that takes.  *spare_ticks of the state are no debt in bytes, then and before: what rises earned
 * meanwhile.  Who judges packets by it keeps it up to date by shim_bucket_spare().
 */
u64 shim_bucket_rerate_behind(const struct shim_rate *from, const struct shim_rate *to,
			      u64 *spare_ticks, u64 tat, u64 now_ns);

/* Returns what is spare of a state as of a packet's time: a bucket holds no more than its depth. */
static inline u64 shim_bucket_spare(u64 spare_ticks, u64 tat, u64 now_ns)
{
	u64 used = shim_bucket_used(tat, now_ns * SHIM_TICKS_PER_NS);

	return spare_ticks < used ? spare_ticks : used;
}

/*
 * The same for a bucket with room for packets that wait.  None leaves until the time in *order
 * then: they are judged by shim_bucket_ask_in_order().
 */
u64 shim_bucket_rerate_in_order(const struct shim_rate *from, const struct shim_rate *to,
				struct shim_order *order, u64 tat, u64 now_ns,
				struct shim_room room);

/*
 * What shim_bucket_ask_behind() says of a packet, but that it leaves in order.  *order is kept up
 * to date with the time, whatever becomes of the packet.
 */
struct shim_verdict shim_bucket_ask_in_order(const struct shim_rate *rate,
					     struct shim_order *order, u64 tat, u64 now_ns,
					     u64 late_ns, u32 len, struct shim_room room);

#endif
