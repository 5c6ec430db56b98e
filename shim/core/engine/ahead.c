// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Packets that leave ahead of a VM's bulk: the bucket is charged for them as for any packet, but
 * they need not wait for what it is in debt.
 *
 * With R the rate, H the horizon and L a packet's bytes, one that the bucket would have wait, or
 * drop for want of room, leaves at once if
 *
 *   no packet of its flow waits
 *   its turn comes within W + X, with W = max(H, time of the room's bytes at R), X = W / 8
 *   fill <= W                          if L <= S: it is small
 *   fill <= (W - X) (1 - (s / Y)^2)    else, if s < Y: its flow is young
 *     s    = bytes, this packet's included, that its flow had wait or go ahead since it rested
 *     fill = used + n L / R,   used = max(0, A - now), and then A = now + fill
 *
 * where A, a word like a bucket's, is that of what went ahead: a bucket of rate R / n and depth
 * R W / n bytes.  Else it waits as if there were none of this, or is dropped.  A flow rests when
 * for F = 4 W none of its packets waits or goes ahead.
 *
 * So short answers of a server need not wait for its long ones, and the more a flow has sent the
 * more of A it leaves to others: small packets have all of it, a flow that begins 7/8, one that has
 * sent 3/4 of Y less than half of that, one that has sent Y nothing.  A packet that leaves without
 * any of this is not counted: where nobody waits nothing is to be gained.  The bulk of many flows,
 * each of which sends once in many F, is young all the time; then small packets have R W / (8 n)
 * bytes at once, and all of R / n, for young flows take nothing while A is that full.
 *
 * X is there for bulk that is more than the rate, as UDP's may be: it keeps the queue so full that
 * one in some sixteen pings would find no room.  All that goes ahead behind a queue of W
 * takes it to W + W / n at most, for what is paid meanwhile is more than what comes; n = 8.
 *
 * The bound.  Let packet k have been judged at t_k and V_k = TAT_k - B/R be its turn, when an
 * ordinary packet leaves.  TAT is the same whether a packet goes ahead or not, so in any time t
 * packets of B + R t bytes have their turns (bucket.c; B is to be the largest packet, if that is
 * more).  One that goes ahead leaves at t_k, and t_k <= V_k <= t_k + W + X.  So what leaves within
 * [a, b] but has its turn later was judged within [b - W - X, b]; of that there are at most
 * (W + (W + X)) R / n bytes, as A is at least b - W - X before the first of these and at most
 * b + W behind the last.  All others that leave within [a, b] have their turn there:
 *
 *   bytes within t  <=  B + R t + (2 W + X) R / n,   with n = 8: 17/64 of R W more than without
 *
 * and the sum over a long time is R t, whoever sends: a guest that splits its bulk among ten
 * thousand flows, or has them rest in turns, gets R in all, an n-th of it earlier.  None of this
 * depends on what the table holds.  VMs that share a port of capacity C >= sum of R bring 17/64 of
 * C W beyond their buckets: 66 kB at 1 Gb/s and 2 ms.  A change of rate leaves A's debt in bytes
 * as it is, as that of the bucket; R W is then the largest of the last W.
 *
 * No packet overtakes one of its own flow.  For each flow with packets that wait the table has when
 * the last one leaves, D; while that is ahead the flow waits for its turn, and turns do not get
 * earlier.  A flow is told by a hash: of its addresses, protocol and ports; a flow that is taken
 * for another waits needlessly, or is young no more.  A flow that is new to its set takes the place
 * of the one whose D is the longest past; when none is past, all other flows of the set wait until
 * rest_ns.  So errors cost a wait, never the order; a flow that lost its place is young again.
 * What D forgets is the order with fragments and with IPv6 extension headers: these have no ports,
 * are not remembered and never go ahead, but the packets of a datagram's flow that come whole may
 * leave before it, as they may on links with several ways.
 *
 * Bulk of many flows has each flow send a packet once in many W, so that bytes of the last W do
 * not tell bulk from a ping: at 250 Mb/s 41 full packets wait, of 41 of 128 flows.  Size does.  A
 * flow's ACKs and its requests are small, and wait for its own data only.
 *
 * With the policer nothing waits, and there is no table.
 *
 * Overflow: a packet that may go ahead has at most Y = 2^14 bytes, so n L / R < 2^48 ticks at
 * SHIM_RATE_MIN; used <= SHIM_DEBT_MAX = 2^61, and W < 2^52 ticks, of which a Y-th times Y is no
 * more.
 */
#include "../arith.h"
#include "ahead.h"

struct shim_ahead *shim_ahead_create(u64 late_ns, u64 hash_factor)
{
	struct shim_ahead *ahead = shim_alloc_now(sizeof(*ahead));
	u32 i;

	if (!ahead)
		return NULL;
	ahead->hash_factor = hash_factor;
	for (i = 0; i < SHIM_AHEAD_SETS; i++)
		ahead->sets[i].rest_ns = late_ns;
	return ahead;
}

/* Tells whether a packet is of a flow that the table can know. */
static bool ahead_known(const struct shim_packet *packet)
{
	return packet->version && packet->plain;
}

/* Returns the hash of a packet's flow, mixed so that nobody knows which flows share a set. */
static u32 ahead_hash(const struct shim_ahead *ahead, const struct shim_packet *packet)
{
	return (u32)(shim_host_flow_hash(packet) * ahead->hash_factor >> 32);
}

/* Returns a flow's set. */
static struct shim_ahead_set *ahead_set(struct shim_ahead *ahead, u32 hash)
{
	return &ahead->sets[(u64)hash * SHIM_AHEAD_SETS >> 32];
}

/* Returns a flow's place in its set, however long ago it was there; SHIM_AHEAD_WAYS: none. */
static u32 ahead_find(const struct shim_ahead_set *set, u32 hash)
{
	u32 way = 0;

	while (way < SHIM_AHEAD_WAYS && set->tags[way] != (u16)hash)
		way++;
	return way;
}

/* Returns the bytes that a flow in the table sent since it rested. */
static u32 ahead_sent(const struct shim_ahead_set *set, u32 way, u64 now_ns, u64 most_ns)
{
	return set->last_ns[way] + SHIM_AHEAD_REST * most_ns > now_ns ? set->sent[way] : 0;
}

/* Remembers that a packet of a flow that is or is not at `way` leaves at departure_ns. */
static void ahead_note(struct shim_ahead_set *set, u32 way, u32 hash, u32 bytes, u64 now_ns,
		       u64 departure_ns, u64 most_ns)
{
	u32 i;

	if (way == SHIM_AHEAD_WAYS) {
		way = 0;
		for (i = 1; i < SHIM_AHEAD_WAYS; i++)
			if (set->last_ns[i] < set->last_ns[way])
				way = i;
		if (set->last_ns[way] > now_ns) {
			set->rest_ns = max(set->rest_ns, departure_ns);
			return;
		}
		set->tags[way] = (u16)hash;
		set->last_ns[way] = 0;
		set->sent[way] = 0;
	}
	bytes = min_t(u32, bytes, SHIM_AHEAD_YOUNG_BYTES);
	bytes += ahead_sent(set, way, now_ns, most_ns);
	set->sent[way] = min_t(u32, bytes, SHIM_AHEAD_YOUNG_BYTES);
	set->last_ns[way] = max(set->last_ns[way], departure_ns);
}

/* Returns what is left of some ns for a flow that has sent so many bytes, less than Y; ticks. */
static u64 ahead_young(u64 ns, u32 sent)
{
	u32 left = SHIM_AHEAD_YOUNG_BYTES - (sent * sent / SHIM_AHEAD_YOUNG_BYTES);

	return ns * SHIM_TICKS_PER_NS / SHIM_AHEAD_YOUNG_BYTES * left;
}

bool shim_ahead_passes(struct shim_ahead *ahead, u64 *ahead_tat, u64 *tat,
		       const struct shim_rate *rate, const struct shim_packet *packet, u32 wire,
		       u64 now_ns, struct shim_room room)
{
	u64 most_ns = shim_room_ns(rate, room, 0), room_ns = most_ns / SHIM_AHEAD_ROOM;
	u64 most = most_ns * SHIM_TICKS_PER_NS, fill, last_ns = 0;
	bool small = packet->bytes <= SHIM_AHEAD_BYTES;
	struct shim_ahead_set *set;
	struct shim_verdict verdict;
	u32 hash, way, sent = 0;

	if (packet->bytes > SHIM_AHEAD_YOUNG_BYTES || !ahead_known(packet))
		return false;
	fill = shim_bucket_used(*ahead_tat, now_ns * SHIM_TICKS_PER_NS) +
	       SHIM_AHEAD_PART * shim_bucket_cost(rate, wire);
	verdict = shim_bucket_pace(rate, *tat, now_ns, wire, most_ns + room_ns);
	if (fill > most || verdict.kind == SHIM_DROP)
		return false;
	hash = ahead_hash(ahead, packet);
	set = ahead_set(ahead, hash);
	way = ahead_find(set, hash);
	if (way < SHIM_AHEAD_WAYS) {
		last_ns = set->last_ns[way];
		sent = ahead_sent(set, way, now_ns, most_ns);
	}
	if (max(last_ns, set->rest_ns) > now_ns)
		return false;
	if (!small) {
		sent += packet->bytes;
		if (sent >= SHIM_AHEAD_YOUNG_BYTES ||
		    fill > ahead_young(most_ns - room_ns, sent))
			return false;
		ahead_note(set, way, hash, packet->bytes, now_ns, now_ns, most_ns);
	}
	*ahead_tat = now_ns * SHIM_TICKS_PER_NS + fill;
	*tat = verdict.tat;
	return true;
}

void shim_ahead_waits(struct shim_ahead *ahead, const struct shim_rate *rate,
		      const struct shim_packet *packet, u64 now_ns, u64 departure_ns,
		      struct shim_room room)
{
	struct shim_ahead_set *set;
	u32 hash;

	if (!ahead_known(packet))
		return;
	hash = ahead_hash(ahead, packet);
	set = ahead_set(ahead, hash);
	ahead_note(set, ahead_find(set, hash), hash, packet->bytes, now_ns, departure_ns,
		   shim_room_ns(rate, room, 0));
}
