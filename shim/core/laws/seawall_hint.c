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
 *   q = min(hint, horizon / 2), hint alone where nothing is paced
 *   N = sum(n) over the live flows of a tunnel, n = min(1, 2 F / w)
 *   w = r_d / (N - n + 1) * (q + rtt), at least 4 s
 *
 *   F: most that the flow had in flight lately, s: its packet, rtt: its round trip behind the
 *   limiters (core/flow.c), r_d: the tunnel's rate; n = 1 while w is not known yet
 *
 * Flows that use their windows share r_d and keep a queue of r_d * q.  Each flow is told what it
 * could have if it alone began to use more.  So one that has no use for its window, at least half
 * of theirs, leaves it to them, but for two to four times what it needs.
 *
 * What a window cannot do is to make a TCP send more than its own congestion window allows: the
 * paper's stacks leave congestion control to the shim, these keep theirs.  Flows that all begin
 * within a step are not yet in each other's N.  Where r_d / N is less than 4 packets in q + rtt,
 * their sum is more than the queue holds: fewer would leave no duplicate ACKs to find a loss by
 * (RFC 5681, section 3.2).
 *
 * N is counted in parts of 1 / ONE.  With r_d <= 2^37, time <= 2^34 and N < 2^32 all is far from
 * overflow, and shim_mul_div() saturates.
 */
#include "../arith.h"
#include "seawall.h"

/* Denominator of N, and n of a flow that uses its window. */
#define ONE 256U

/* Least window, packets. */
#define LEAST_PACKETS 4

/* Returns n of a flow by the window it was told last. */
static u32 part(const struct shim_flow *flow, const struct shim_law_input *input)
{
	u64 used = 2 * (u64)flow->peak * ONE;

	if (!shim_flow_live(flow, input->now_ns))
		return 0;
	if (!flow->limit || used >= (u64)flow->limit * ONE)
		return ONE;
	used = shim_div(used, flow->limit);
	return used ? (u32)used : 1;
}

void seawall_count_flows(struct shim_peer_state *peer)
{
	u64 counted = seawall_high(peer->memory[FLOWS]);

	if (counted)
		peer->memory[FLOWS] = counted;
}

void seawall_flow_period(struct shim_flow *flow, struct shim_peer_state *peer,
			 struct shim_law_state *state, const struct shim_law_input *input)
{
	u64 queue_ns = input->knobs[HINT], least, window, others;
	u32 own = part(flow, input);

	(void)state;
	flow->limit = 0;
	if (!peer)
		return;
	others = seawall_low(peer->memory[FLOWS]);
	others = others > own ? others - own : 0;
	peer->memory[FLOWS] = seawall_pack(seawall_high(peer->memory[FLOWS]) + own,
					   seawall_low(peer->memory[FLOWS]));
	if (!queue_ns || !peer->rate || !flow->rtt_ns)
		return;
	if (input->horizon_ns && queue_ns > input->horizon_ns / 2)
		queue_ns = input->horizon_ns / 2;
	window = shim_mul_div(peer->rate, shim_add_sat(queue_ns, flow->rtt_ns), SHIM_NSEC_PER_SEC);
	window = shim_mul_div(window, ONE, others + ONE);
	least = LEAST_PACKETS * (u64)shim_flow_segment(flow);
	if (window < least)
		window = least;
	flow->limit = window < SHIM_WINDOW_MAX ? (u32)window : SHIM_WINDOW_MAX;
}

void seawall_segment_out(struct shim_flow *flow, struct shim_segment *segment)
{
	shim_flow_out(flow, segment);
}

void seawall_segment_in(struct shim_flow *flow, struct shim_segment *segment)
{
	bool first;

	shim_flow_in(flow, segment, &first);
	if (flow->limit && segment->flags & SHIM_TCP_ACK &&
	    !(segment->flags & (SHIM_TCP_SYN | SHIM_TCP_RST)))
		shim_flow_clamp(flow, segment, flow->limit);
}
