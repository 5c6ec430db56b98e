// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The window hint of law seawall: Seawall, section 4.5.
 *
 * A TCP that nothing else bounds fills the queue before its limiter until that drops, halves its
 * window, and gets less of the link than a UDP that never backs off.  The paper's shim tells each
 * guest a largest window: large enough that packets come, small enough that the queue holds them.
 * Guests here are as they are, so it is said where every TCP listens, in the window of the ACKs
 * that a guest gets:
 *
 *   q = min(hint, h), h = horizon / 2; hint alone where nothing is paced
 *   Q = max(r_d * q, 6 s)
 *   N = sum(n) over the live flows of a tunnel, n = min(1, 2 F / w)
 *   w = (Q + r_d * rtt * max(1, rtt / h)) / (N - n + 1)
 *   each step:  w is at most 1/16 more than it was, at least 4 s
 *   each ACK:   what is granted grows by the bytes acknowledged, or shrinks by half of them, to w
 *
 *   F: most that the flow had in flight lately, s: its packet, rtt: its mean round trip behind the
 *   limiters (core/flow.c), r_d: the tunnel's rate; n = 1 while w is not known yet
 *
 * Flows that use their windows share r_d and keep a queue of Q.  Each flow is told what it could
 * have if it alone began to use more.  So one that has no use for its window, at least half of
 * theirs, leaves it to them, but for two to four times what it needs.
 *
 * r_d changes every T.  A window that followed it up would find the queue full when it falls again,
 * with as much on the way as the rise let go; so w rises slowly and falls at once, and no ACK lets
 * a burst go.  Where a round trip is long beside what a queue may hold, no window can keep the
 * queue from both running empty and dropping; there w grows beyond what binds (rtt > h), and TCP's
 * own congestion control does what it would without the hint.
 *
 * What a window cannot do is to make a TCP send more than its own congestion window allows: the
 * paper's stacks leave congestion control to the shim, these keep theirs.  Flows that all begin
 * within a step are not yet in each other's N.  Where r_d / N is less than 4 packets in q + rtt,
 * their sum is more than the queue holds: fewer would leave no duplicate ACKs to find a loss by
 * (RFC 5681, section 3.2).
 *
 * N is counted in parts of 1 / ONE, and is below 2^32.  shim_mul_div() and shim_add_sat() saturate.
 */
#include "../arith.h"
#include "seawall.h"

/* Denominator of N, and n of a flow that uses its window. */
#define ONE 256U

/* Least window, packets. */
#define LEAST_PACKETS 4

/* Least queue, packets: at low rates limiters hold 11 whatever the horizon. */
#define QUEUE_PACKETS 6

/* A window grows by this part of itself in a step at most. */
#define RISE 16

/* A flow that was not bound before may send so many packets more than it had in flight. */
#define FIRST_PACKETS 10

/* Returns n of a flow by the window it was told last. */
static u32 seawall_flow_part(const struct shim_flow *flow, const struct shim_law_input *input)
{
	const struct seawall_flow *own = shim_flow_own_const(flow);
	u64 used = 2 * (u64)flow->peak * ONE;

	if (!shim_flow_live(flow, input->now_ns))
		return 0;
	if (!own->limit || used >= (u64)own->limit * ONE)
		return ONE;
	used = shim_div(used, own->limit);
	return used ? (u32)used : 1;
}

void seawall_count_flows(struct seawall_peer *own)
{
	if (own->flows_counted)
		own->flows = own->flows_counted;
	own->flows_counted = 0;
}

/*
 * Returns the largest window of a flow of a tunnel of `rate` bytes/s beside `others`, N without its
 * own part, bytes.
 */
static u64 seawall_window(const struct shim_flow *flow, u64 rate,
			  const struct shim_law_input *input, u64 others)
{
	const struct seawall_flow *own = shim_flow_own_const(flow);
	u64 least = shim_flow_segment(flow), half_ns = input->horizon_ns / 2;
	u64 queue_ns = input->knobs[HINT], rtt_ns = flow->rtt_ns;
	u64 most = (u64)own->limit + own->limit / RISE;
	u64 queue, window;

	if (half_ns && queue_ns > half_ns)
		queue_ns = half_ns;
	if (half_ns && rtt_ns > half_ns)
		rtt_ns = shim_mul_div(rtt_ns, rtt_ns, half_ns);
	queue = shim_mul_div(rate, queue_ns, SHIM_NSEC_PER_SEC);
	if (queue < QUEUE_PACKETS * least)
		queue = QUEUE_PACKETS * least;
	window = shim_add_sat(queue, shim_mul_div(rate, rtt_ns, SHIM_NSEC_PER_SEC));
	window = shim_mul_div(window, ONE, others + ONE);
	if (most && window > most)
		window = most;
	return window > LEAST_PACKETS * least ? window : LEAST_PACKETS * least;
}

void seawall_flow_period(struct shim_flow *flow, struct shim_peer_state *peer,
			 struct shim_limiter_state *state, const struct shim_law_input *input)
{
	bool known = peer && input->knobs[HINT] && peer->rate && flow->rtt_ns;
	struct seawall_flow *own = shim_flow_own(flow);
	u32 part = seawall_flow_part(flow, input);
	struct seawall_peer *tunnel;
	u64 window;

	(void)state;
	if (!known) {
		own->limit = 0;
		own->granted = 0;
	}
	if (!peer)
		return;
	tunnel = shim_peer_own(peer);
	tunnel->flows_counted = shim_add_sat32(tunnel->flows_counted, part);
	if (!known)
		return;
	window = seawall_window(flow, peer->rate, input, shim_sub_sat(tunnel->flows, part));
	own->limit = window < SHIM_WINDOW_MAX ? (u32)window : SHIM_WINDOW_MAX;
}

/* Lets the window that is granted follow the one that is allowed. */
static void seawall_follow_limit(struct shim_flow *flow, u32 acked)
{
	u32 first = shim_flow_flight(flow) + FIRST_PACKETS * shim_flow_segment(flow);
	struct seawall_flow *own = shim_flow_own(flow);
	u32 apart;

	if (!own->granted)
		own->granted = first < own->limit ? first : own->limit;
	if (own->granted < own->limit) {
		apart = own->limit - own->granted;
		own->granted += acked < apart ? acked : apart;
	} else {
		apart = own->granted - own->limit;
		own->granted -= acked / 2 < apart ? acked / 2 : apart;
	}
}

/* Forgets what was kept of the connection before, if there was one. */
static void seawall_begin(struct seawall_flow *own, enum shim_flow_begin begin)
{
	static const struct seawall_flow fresh;

	if (begin == SHIM_FLOW_REPLACED)
		*own = fresh;
}

void seawall_segment_out(struct shim_flow *flow, struct shim_segment *segment)
{
	seawall_begin(shim_flow_own(flow), shim_flow_out(flow, segment));
}

void seawall_segment_in(struct shim_flow *flow, struct shim_segment *segment)
{
	struct seawall_flow *own = shim_flow_own(flow);
	enum shim_flow_begin begin;
	u32 acked = shim_flow_in(flow, segment, &begin);

	if (begin == SHIM_FLOW_UNBELIEVED)
		return;
	seawall_begin(own, begin);
	if (!own->limit || !(segment->flags & SHIM_TCP_ACK) ||
	    segment->flags & (SHIM_TCP_SYN | SHIM_TCP_RST))
		return;
	seawall_follow_limit(flow, acked);
	shim_flow_clamp(flow, segment, own->granted);
}
