// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Small packets that leave ahead of a VM's bulk: the bucket is charged for them as for any packet,
 * but they need not wait for what it is in debt.
 *
 * With R the rate, H the horizon and L a packet's bytes, one that the bucket would have wait, or
 * drop for want of room, leaves at once if
 *
 *   L <= S                     it is small
 *   no packet of its flow waits
 *   its turn comes within W + X, with W = max(H, time of SHIM_WAIT_BYTES_MIN at R), X = W / 8
 *   fill <= W - X
 *     fill = used + n L / R,   used = max(0, A - now), and then A = now + fill
 *
 * where A, a word like a bucket's, is that of what went ahead: a bucket of rate R / n and depth
 * R (W - X) / n bytes.  Else it waits as if there were none of this, or is dropped.
 *
 * X is there for bulk that is more than the rate, as UDP's may be: it keeps the queue so full that
 * one in some sixteen pings would find no room.  All that goes ahead behind a queue of W
 * takes it to W + (W - X) / n at most, for what is paid meanwhile is more than what comes.
 *
 * The bound.  Let packet k have been judged at t_k and V_k = TAT_k - B/R be its turn, when an
 * ordinary packet leaves.  TAT is the same whether a packet goes ahead or not, so in any time t
 * packets of B + R t bytes have their turns (bucket.c; B is to be the largest packet, if that is
 * more).  One that goes ahead leaves at t_k, and t_k <= V_k <= t_k + W + X.  So what leaves within
 * [a, b] but has its turn later was judged within [b - W - X, b]; of that there are at most
 * ((W - X) + (W + X)) R / n bytes, as A is at least b - W - X before the first of these and at
 * most b + W - X behind the last.  All others that leave within [a, b] have their turn there:
 *
 *   bytes within t  <=  B + R t + 2 R W / n,   with n = 16: an eighth of R W more than without
 *
 * and the sum over a long time is R t, whoever sends: a guest that splits its bulk among ten
 * thousand flows gets R in all, an n-th of it earlier.  A change of rate leaves A's debt in bytes
 * as it is, as that of the bucket; R W is then the largest of the last W.
 *
 * No packet overtakes one of its own flow.  For each flow with packets that wait the table has when
 * the last one leaves, D; while that is ahead the flow waits for its turn, and turns do not get
 * earlier.  A flow is told by a hash: of its addresses, protocol and ports.  48 bits of the time,
 * rounded up to 2^16 ns, stand beside 16 of the hash in one word; a flow that is taken for another
 * waits needlessly.  When a set has no room, all other flows of the set wait until rest_ns.  So
 * errors cost a wait, never the order.  What D forgets is the order with fragments and with IPv6
 * extension headers: these have no ports, are not remembered and never go ahead, but the packets of
 * a datagram's flow that come whole may leave before it, as they may on links with several ways.
 *
 * Bulk of many flows has each flow send a packet once in many W, so that bytes of the last W do
 * not tell bulk from a ping: at 250 Mb/s 41 full packets wait, of 41 of 128 flows.  Size does.  A
 * flow's ACKs and its requests are small, and wait for its own data only.
 *
 * With the policer nothing waits, and there is no table.
 *
 * Overflow: n L / R is at most 16 * 378 bytes at SHIM_RATE_MIN, below 2^44 ticks, and W below 2^46,
 * so fill < 2^47 wherever used was not cut short.
 */
#include "../arith.h"
#include "ahead.h"

/* Low bits of a word of a set that are the flow's. */
#define AHEAD_TAG 0xffffULL

struct shim_ahead *shim_ahead_create(u64 late_ns)
{
	struct shim_ahead *ahead = shim_alloc_now(sizeof(*ahead));
	u32 i;

	for (i = 0; ahead && i < SHIM_AHEAD_SETS; i++)
		ahead->sets[i].rest_ns = late_ns;
	return ahead;
}

/* Tells whether a packet is of a flow that the table can know. */
static bool ahead_known(const struct shim_packet *packet)
{
	return packet->version && packet->plain;
}

/* Returns the number of a flow's set. */
static u32 ahead_place(u32 hash)
{
	return (u32)((u64)hash * SHIM_AHEAD_SETS >> 32);
}

/* Tells whether a word of a set is that of a flow and of packets that have not left. */
static bool ahead_is(u64 word, u32 hash, u64 now_ns)
{
	return word > now_ns && !((word ^ hash) & AHEAD_TAG);
}

/* Tells whether packets of a flow wait, or may. */
static bool ahead_flow_waits(const struct shim_ahead *ahead, u32 hash, u64 now_ns)
{
	const struct shim_ahead_set *set = &ahead->sets[ahead_place(hash)];
	int i;

	for (i = 0; i < SHIM_AHEAD_WAYS; i++)
		if (ahead_is(set->flows[i], hash, now_ns))
			return true;
	return set->rest_ns > now_ns;
}

bool shim_ahead_passes(const struct shim_ahead *ahead, u64 *ahead_tat, u64 *tat,
		       const struct shim_rate *rate, const struct shim_packet *packet, u64 now_ns,
		       u64 horizon_ns)
{
	u64 most_ns = max(horizon_ns, shim_rate_ns(rate, SHIM_WAIT_BYTES_MIN));
	u64 room_ns = most_ns / SHIM_AHEAD_ROOM, fill;
	struct shim_verdict verdict;

	if (packet->bytes > SHIM_AHEAD_BYTES || !ahead_known(packet))
		return false;
	verdict = shim_bucket_pace(rate, *tat, now_ns, packet->bytes, most_ns + room_ns);
	fill = shim_bucket_used(*ahead_tat, now_ns * SHIM_TICKS_PER_NS) +
	       SHIM_AHEAD_PART * shim_bucket_cost(rate, packet->bytes);
	if (verdict.kind == SHIM_DROP || fill > (most_ns - room_ns) * SHIM_TICKS_PER_NS ||
	    ahead_flow_waits(ahead, shim_host_flow_hash(packet), now_ns))
		return false;
	*ahead_tat = now_ns * SHIM_TICKS_PER_NS + fill;
	*tat = verdict.tat;
	return true;
}

void shim_ahead_waits(struct shim_ahead *ahead, const struct shim_packet *packet, u64 now_ns,
		      u64 departure_ns)
{
	struct shim_ahead_set *set;
	u64 *place = NULL, word;
	u32 hash;
	int i;

	if (!ahead_known(packet))
		return;
	hash = shim_host_flow_hash(packet);
	set = &ahead->sets[ahead_place(hash)];
	for (i = 0; i < SHIM_AHEAD_WAYS; i++) {
		if (ahead_is(set->flows[i], hash, now_ns)) {
			place = &set->flows[i];
			break;
		}
		if (set->flows[i] <= now_ns)
			place = &set->flows[i];
	}
	word = ((departure_ns + AHEAD_TAG) & ~AHEAD_TAG) | (hash & AHEAD_TAG);
	if (!place)
		set->rest_ns = max(set->rest_ns, departure_ns);
	else
		*place = *place > now_ns ? max(*place, word) : word;
}
