// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law seawall: Seawall, sections 4 and 5, Classes 1 to 3; seawall_hint.c has its window hint.
 *
 * What a VM sends to one address is a tunnel d.  Packets carry the tunnel's packet count modulo
 * 2^16 in the IPv4 ID; a GSO packet's parts count up by themselves.  Every T in which packets
 * came, the receiver reports bytes b, packets n, gaps in the count l and CE marks m since it began
 * to count; the sender takes what they grew by since the last report that came, so one that is
 * lost costs nothing but time.
 *
 *   F = (l + m) / (n + l)              of a tunnel
 *   F = sum(b * (l + m) / n) / sum(b * (n + l) / n)    of a VM, over what was reported in a T
 *   F = 1                              of a tunnel that sends and that `silence` T have not
 *                                      answered, for what it sent; 0 if it never was answered
 *
 * A loop turns F into a rate r every T in which there is an F; w is the VM's weight.  An F that
 * comes k T after packets that it tells of left, reports having been lost, is k equal steps:
 *
 *   class 3:   c += gamma * (F - c)
 *              F > 0:                  new = r * (1 - alpha * F * c), t = now
 *                                      goal = r > goal ? r : (r + new) / 2, r = new
 *                                      inc *= 1 - F, then as in the last line, times 1 - F
 *              r < goal, now - t < Ts: r += delta * (goal - r) * (1 - min((now - t) / Ts, 0.9))^3
 *              else:                   r += inc, inc += step * C * w/W * d
 *              d changes from T to T between 0.5 and 1.5: VMs whose periods are out of step
 *              would else fall into a cycle in which some always grow a T less than others
 *   class 1, 2:                        r += -alpha * F * r + (1 - F) * step * C * w/W,
 *                                      F of a tunnel being 0 or 1
 *
 *   classes 2, 3, links = 0:  one loop a VM, as if one bottleneck were behind all its tunnels;
 *                      r_d = r * (beta * p_d + (1 - beta) / n) + (r - sent)
 *                      p_d is the tunnel's part of what the VM sent, n its active tunnels
 *   classes 2, 3, links = 1:  one loop a tunnel, as if each had a bottleneck of its own; r_d = r
 *   class 1:                  the same, whatever `links`
 *
 *   floor = min(E, max(guarantee, floor * E))
 *   ceiling = min(E, max(I, clamp * u)),   I = min(E, max(floor, start * E * w/W)) to begin with
 *   u = max(u * (1 - T/recent), sent) each T: the largest rate used recently
 *
 * With literal = 1 a step of class 3 is the paper's TakeFeedback (seawall_loop.c), once for F and
 * once for 1 - F, and
 *
 *   F > 0:                  c += gamma * F * (1 - c),  new = r * (1 - alpha * F * c), t = now
 *                           goal = r > goal ? r : (r + new) / 2,  r = new,  inc = 0
 *   F < 1, p = 1 - F:       c -= gamma * p * c
 *              r < goal:    r += w * p * delta * (goal - r) * (1 - min((now - t) / Ts, 0.9))^3
 *              else:        r += p * inc, inc += p * step * C * w/W
 *   r_d = r * (beta * p_d + (1 - beta) / n);   r and goal stay as they are when w changes
 *
 * The VM's own bucket has rate r, or E where each tunnel has its own loop.  When w changes, r and
 * goal of a loop that was cut within a second are multiplied by the change: rates that were in the
 * ratio of the weights stay so.  r may then be over the ceiling until feedback about what was sent
 * since shows no congestion.
 *
 * Deviations from the paper, and why:
 * - Class 3, line 8 computes r_new and nothing assigns it: r = r_new.
 * - Line 16 multiplies the way back to the goal by w.  VMs then win back different parts of their
 *   cuts, and their rates at equilibrium are not in the ratio of the weights; here only the convex
 *   part has w.
 * - Lines 14-16 never reach the goal: after 0.9 Ts a step is a thousandth of delta of the distance.
 *   The convex part begins after Ts at the latest.
 * - Section 4.3 calls the loop with the proportions of the traffic that was hurt and that was not,
 *   p = F and p = 1 - F, one after the other; so does this, with F by bytes over all tunnels.  The
 *   loop then sees what one tunnel with the same packets would have reported, and the number of
 *   tunnels changes nothing.
 * - Class 3, line 9 sets inc to 0 whatever p; here inc *= 1 - p, as all else goes by p.  Where a
 *   queue stays at its threshold and a few packets are marked in every T, nobody would grow any
 *   more, and rates would stay as unequal as they were.
 * - Line 16 of Class 2 keeps an idle tunnel at (1 - beta) / n even when the VM leaves most of its
 *   rate unused; the unused part, r - sent, goes to whoever comes.  The VM's bucket holds the sum.
 * - No feedback within T is loss, says section 4.2.  Two hosts' periods are not in step and
 *   reports get lost: `silence` periods.  Until then the tunnel keeps its rate, and the next report
 *   makes up for the steps.  A peer that never answered has no shim with this law;
 *   that tunnel is not held down, E and the VM's other tunnels bound it.
 * - IPv6, and IPv4 that may be fragmented, have no ID to use: there only marks tell.
 *
 * All arithmetic saturates: the worst a mad report does is to put r on its floor.
 */
#include "../arith.h"
#include "../tunnel.h"
#include "seawall.h"

/* A longer pause between packets of a tunnel, or a larger gap in its count, is no loss. */
#define PAUSE_US 1000000U
#define GAP_MAX 0x4000U

/* A report stands for no more periods. */
#define SPAN_MAX 8

/* Receivers begin to count anew at so many bytes, or packets lost. */
#define BYTES_MAX 0x80000000U
#define LOST_MAX 0x1000000U

static const struct shim_knob seawall_knobs[] = {
	[LINKS] = {
		.name = "links",
		.unit = "map",
		.help = "0: one bottleneck behind all tunnels of a VM; 1: each tunnel its own",
		.source = "Seawall section 4.6",
		.value = 0,
		.min = 0,
		.max = 1,
	},
	[BETA] = {
		.name = "beta-ppm",
		.unit = "ppm of rate",
		.help = "divided among tunnels by use, the rest equally; 0: all equally",
		.source = "Seawall section 4.3",
		.value = 900000,
		.min = 0,
		.max = 1000000,
	},
	[ALPHA] = {
		.name = "alpha-ppm",
		.unit = "ppm of rate",
		.help = "cut at full congestion; 0: never cut",
		.source = "Seawall Class 3; ours",
		.value = 100000,
		.min = 0,
		.max = 1000000,
	},
	[GAMMA] = {
		.name = "gamma-ppm",
		.unit = "ppm of change",
		.help = "weight of a new F in the mean c; 0: c stays",
		.source = "Seawall Class 3, after DCTCP; ours",
		.value = 62500,
		.min = 0,
		.max = 1000000,
	},
	[DELTA] = {
		.name = "delta-ppm",
		.unit = "ppm of distance",
		.help = "first step back to the rate before a cut; 0: none",
		.source = "Seawall Class 3; ours",
		.value = 500000,
		.min = 0,
		.max = 1000000,
	},
	[GOAL_TIME] = {
		.name = "goal-time",
		.unit = "ns",
		.help = "Ts: time after a cut until probing begins; 0: at once",
		.source = "Seawall Class 3; ours",
		.value = 20000000,
		.min = 0,
		.max = 10000000000ULL,
	},
	[STEP] = {
		.name = "step-ppm",
		.unit = "ppm of capacity",
		.help = "step up each T, in class 3 its growth, over all sharers; 0 is refused",
		.source = "Seawall Classes 1, 3; ours",
		.value = 3000,
		.min = 1,
		.max = 1000000,
	},
	[STEP_SHARERS] = {
		.name = "step-sharers",
		.unit = "weight",
		.help = "W, the weights that share a bottleneck; 0 is refused",
		.source = "ours",
		.value = 4,
		.min = 1,
		.max = 1000000,
	},
	[START] = {
		.name = "start-ppm",
		.unit = "ppm of share",
		.help = "times w/W: rate of a VM that begins, least ceiling; 0: the floor",
		.source = "Seawall Class 3, line 2",
		.value = 1000000,
		.min = 0,
		.max = 1000000,
	},
	[FLOOR] = {
		.name = "floor-ppm",
		.unit = "ppm of share",
		.help = "cuts go no lower; 0: down to the VM's guarantee",
		.source = "ours, after SDN-GCC's R_min",
		.value = 10000,
		.min = 0,
		.max = 1000000,
	},
	[CLAMP] = {
		.name = "clamp",
		.unit = "factor",
		.help = "rate allowed, over the largest one used recently; 0: no bound",
		.source = "Seawall section 4.5",
		.value = 2,
		.min = 0,
		.max = 1000,
	},
	[RECENT] = {
		.name = "recent",
		.unit = "ns",
		.help = "time in which the largest rate used is forgotten; 0 is refused",
		.source = "Seawall section 4.5",
		.value = 1000000000,
		.min = 1000000,
		.max = 100000000000ULL,
	},
	[SILENCE] = {
		.name = "silence",
		.unit = "periods",
		.help = "without a report that count as loss; 0: silence is no loss",
		.source = "Seawall section 4.2, where it is 1",
		.value = 8,
		.min = 0,
		.max = 1000,
	},
	[FORGET] = {
		.name = "forget",
		.unit = "ns",
		.help = "silence after which a peer counts as one without shim; 0: never",
		.source = "ours",
		.value = 10000000000ULL,
		.min = 0,
		.max = 1000000000000ULL,
	},
	[MARK] = {
		.name = "mark-bytes",
		.unit = "bytes",
		.help = "queue of a tunnel that marks to guests; 0: the fabric's marks reach them",
		.source = "ours, after SCC section III.C",
		.value = SHIM_TUNNEL_MARK_BYTES,
		.min = 0,
		.max = 1000000000,
	},
	[HINT] = {
		.name = "hint",
		.unit = "ns",
		.help = "queue of a tunnel that windows of TCPs allow; 0: windows stay",
		.source = "Seawall section 4.5; ours",
		.value = 1000000,
		.min = 0,
		.max = 10000000000ULL,
	},
#ifdef SHIM_LABORATORY
	[CLASS] = {
		.name = "class",
		.unit = "number",
		.help = "1: plain loop a tunnel; 2: plain loop a VM; 3: CUBIC's; 0 is refused",
		.source = "Seawall Classes 1, 2, 3",
		.value = 3,
		.min = 1,
		.max = 3,
	},
	[LITERAL] = {
		.name = "literal",
		.unit = "switch",
		.help = "1: class 3 by its lines 5 to 20, tunnels by class 2, line 16; 0: mended",
		.source = "Seawall Classes 2 and 3",
		.value = 0,
		.min = 0,
		.max = 1,
	},
#endif
};

/* Tells whether each tunnel has a loop of its own. */
static bool seawall_loop_a_tunnel(const u64 *values)
{
	return seawall_class(values) == 1 || values[LINKS];
}

/* Starts a VM. */
static void seawall_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct seawall_limiter *own = shim_limiter_own(state);

	own->loop.rate = seawall_start(input);
	state->rate = seawall_loop_a_tunnel(input->knobs) ? input->share : own->loop.rate;
}

/* Returns a time in T, rounded. */
static u64 seawall_periods(u64 passed_ns, const struct shim_law_input *input)
{
	return shim_div(shim_add_sat(passed_ns, input->period_ns / 2), input->period_ns);
}

/* Follows u, the largest rate that the VM used recently. */
static void seawall_follow_use(struct seawall_limiter *own, const struct shim_law_input *input)
{
	u64 decay = shim_mul_div(own->used, input->period_ns, input->knobs[RECENT]);

	own->used = shim_sub_sat(own->used, decay);
	if (input->sent_rate > own->used)
		own->used = input->sent_rate;
}

/* Gives the VM's loop what its tunnels heard since the last T. */
static void seawall_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct seawall_limiter *own = shim_limiter_own(state);
	u64 told = own->told, hurt = own->hurt;
	u64 span = own->span, pause, most;

	own->told = 0;
	own->hurt = 0;
	own->span = 0;
	seawall_follow_use(own, input);
	if (told)
		state->congested = hurt;
	if (hurt)
		state->message_ns = input->now_ns;
	if (seawall_loop_a_tunnel(input->knobs)) {
		state->rate = input->share;
		return;
	}
	if (told) {
		pause = seawall_periods(shim_sub_sat(input->now_ns, own->step_ns), input);
		seawall_adapt(&own->loop, input, hurt, told, span < pause ? span : pause);
		own->step_ns = input->now_ns;
	}
	most = seawall_ceiling(input, own->used);
	state->rate = seawall_settle(&own->loop, input, most, told && !hurt);
}

/* Starts a tunnel; without a loop of its own only the VM's rate bounds it until its first T. */
static void seawall_peer_init(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	if (seawall_loop_a_tunnel(input->knobs))
		peer->rate = seawall_start(input);
}

/* Returns a time in us modulo 2^32, never 0. */
static u32 seawall_time_us(u64 now_ns)
{
	return (u32)shim_div(now_ns, 1000) | 1;
}

/* Returns how long ago a packet left that no report followed, ns; 0: none did. */
static u64 seawall_waited_ns(const struct seawall_peer *own, const struct shim_law_input *input)
{
	u32 waited_us = seawall_time_us(input->now_ns) - own->unanswered_us;

	return own->unanswered_us ? (u64)waited_us * 1000 : 0;
}

/* Counts a packet sent and writes its number, and the tunnel's mark. */
static void seawall_tx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct seawall_peer *own = shim_peer_own(peer);

	if (!own->unanswered_us)
		own->unanswered_us = seawall_time_us(packet->now_ns);
	own->sent = shim_add_sat32(own->sent, packet->bytes);
	shim_tunnel_enter(packet, peer->rate, packet->knobs[MARK]);
	if (packet->id_free) {
		packet->id = own->tx_id;
		own->tx_id = (u16)(own->tx_id + packet->packets);
	}
}

/* Counts the packets missing before one received, or a late one as no longer missing. */
static void seawall_count_gap(struct seawall_peer *own, const struct shim_law_packet *packet)
{
	u32 now_us = (u32)shim_div(packet->now_ns, 1000);
	bool counting = own->counting && now_us - own->rx_us < PAUSE_US;
	u16 gap = (u16)(packet->id - own->rx_id);

	if (counting && gap >= 0x10000 - GAP_MAX) {
		own->rx_lost = shim_sub_sat(own->rx_lost, packet->packets);
	} else {
		if (counting && gap <= GAP_MAX)
			own->rx_lost = shim_add_sat32(own->rx_lost, gap);
		own->rx_id = (u16)(packet->id + packet->packets);
	}
	own->rx_us = now_us;
	own->counting = true;
}

/*
 * Counts a packet received, and takes the fabric's marks from the guest; reports leave in
 * seawall_peer_period().
 */
static void seawall_rx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct seawall_peer *own = shim_peer_own(peer);

	shim_tunnel_leave(packet, own->answered, packet->knobs[MARK]);
	own->rx_bytes = shim_add_sat32(own->rx_bytes, packet->bytes);
	own->rx_packets = shim_add_sat32(own->rx_packets, packet->packets);
	own->rx_marks = shim_add_sat32(own->rx_marks, packet->marks);
	own->fresh = true;
	if (packet->id_free)
		seawall_count_gap(own, packet);
}

/* Notes that `told` bytes of a VM have been heard of, `hurt` of them lost or marked. */
static void seawall_tell(struct seawall_limiter *limiter, const struct shim_law_input *input,
			 u64 told, u64 hurt)
{
	if (seawall_class(input->knobs) != 3 && hurt)
		hurt = told;
	limiter->told = shim_add_sat(limiter->told, told);
	limiter->hurt = shim_add_sat(limiter->hurt, hurt);
}

/*
 * Returns for how many T a report stands: those in which packets left and no report came, unless
 * they counted as loss by then.
 */
static u32 seawall_span(const struct seawall_peer *own, const struct shim_law_input *input)
{
	u64 span = seawall_periods(seawall_waited_ns(own, input), input);
	u64 silence = input->knobs[SILENCE];

	if (span < 1 || (silence && span >= silence))
		return 1;
	return span < SPAN_MAX ? span : SPAN_MAX;
}

/* Remembers what a report said, how many T it stands for, and that there was one. */
static void seawall_note_report(struct seawall_peer *own, const struct shim_message *report,
				u32 span)
{
	own->heard_bytes = report->bytes < ~0U ? report->bytes : ~0U;
	own->heard_packets = report->packets;
	own->heard_marks = report->marks;
	own->heard_lost = report->lost;
	if (span > own->span)
		own->span = span;
	own->answered = true;
	own->unanswered_us = 0;
}

/*
 * Takes a peer's report: what its counts grew by since the last that came.  The first one tells
 * nothing but where they stand; smaller ones than before began anew.
 */
static void seawall_report(struct shim_peer_state *peer, struct shim_limiter_state *state,
			   const struct shim_law_input *input, const struct shim_message *report)
{
	struct seawall_peer *own = shim_peer_own(peer);
	u64 bytes = report->bytes < ~0U ? report->bytes : ~0U;
	u64 packets = report->packets, marks = report->marks, lost = report->lost;
	bool known = own->answered;
	struct seawall_limiter *limiter;
	u64 hurt, all;
	u32 span;

	if (report->type != SHIM_MESSAGE_REPORT || !report->packets)
		return;
	if (bytes >= own->heard_bytes && packets >= own->heard_packets &&
	    marks >= own->heard_marks) {
		bytes -= own->heard_bytes;
		packets -= own->heard_packets;
		marks -= own->heard_marks;
		lost = shim_sub_sat(lost, own->heard_lost);
	}
	span = seawall_span(own, input);
	seawall_note_report(own, report, span);
	if (!known || !packets || !state)
		return;
	all = lost + packets;
	hurt = lost + marks < all ? lost + marks : all;
	own->reported = shim_add_sat32(own->reported, all);
	own->reported_hurt = shim_add_sat32(own->reported_hurt, hurt);
	limiter = shim_limiter_own(state);
	if (span > limiter->span)
		limiter->span = span;
	seawall_tell(limiter, input, shim_mul_div(bytes, all, packets),
		     shim_mul_div(bytes, hurt, packets));
}

/* Treats a tunnel that sent `sent` bytes since the last T and has not been answered since. */
static void seawall_await(struct seawall_peer *own, struct seawall_limiter *limiter,
			  const struct shim_law_input *input, u64 sent)
{
	u64 waited = seawall_waited_ns(own, input);
	u64 patience = shim_mul_div(input->knobs[SILENCE], input->period_ns, 1);
	bool silent = patience && waited >= patience;

	if (input->knobs[FORGET] && waited >= input->knobs[FORGET])
		own->answered = false;
	if (!own->answered)
		silent = false;
	else if (!silent)
		return;
	seawall_tell(limiter, input, sent, silent ? sent : 0);
	own->reported = 1;
	own->reported_hurt = silent;
}

/* Returns r_d of a tunnel that sent `sent` bytes since the last T, bytes/s. */
static u64 seawall_part(const struct shim_limiter_state *state, const struct shim_law_input *input,
			u64 sent)
{
	u64 used = input->sent_rate < state->rate ? input->sent_rate : state->rate;
	u64 by_use = shim_mul_div(state->rate, input->knobs[BETA], SHIM_PPM);
	u64 equally = shim_div(state->rate - by_use, input->peers ? input->peers : 1);
	u64 tunnel = shim_mul_div(sent, SHIM_NSEC_PER_SEC, input->period_ns);
	u64 rate = seawall_literal(input->knobs) ? 0 : state->rate - used;

	if (tunnel > input->sent_rate)
		tunnel = input->sent_rate;
	if (tunnel)
		rate = shim_add_sat(rate, shim_mul_div(by_use, tunnel, input->sent_rate));
	rate = shim_add_sat(rate, equally);
	return rate < state->rate ? rate : state->rate;
}

/* Returns the rate of a tunnel with its own loop, and gives the loop what reports said. */
static u64 seawall_follow(struct seawall_peer *own, const struct seawall_limiter *limiter,
			  const struct shim_law_input *input)
{
	u64 told = own->reported, hurt = own->reported_hurt;
	u64 most = seawall_ceiling(input, limiter->used);

	if (!own->loop.rate)
		own->loop.rate = seawall_start(input);
	if (seawall_class(input->knobs) != 3 && hurt)
		hurt = told;
	if (told)
		seawall_adapt(&own->loop, input, hurt, told, own->span);
	own->span = 0;
	return seawall_settle(&own->loop, input, most, told && !hurt);
}

/* Sets a tunnel's rate by what was heard of `sent` bytes since the last T, or was not. */
static void seawall_set_rate(struct shim_peer_state *peer, struct shim_limiter_state *state,
			     const struct shim_law_input *input, u64 sent)
{
	struct seawall_limiter *limiter = shim_limiter_own(state);
	struct seawall_peer *own = shim_peer_own(peer);

	if (own->unanswered_us)
		seawall_await(own, limiter, input, sent);
	if (seawall_loop_a_tunnel(input->knobs))
		peer->rate = seawall_follow(own, limiter, input);
	else
		peer->rate = seawall_part(state, input, sent);
}

/* Sets a tunnel's rate, and reports what came through it. */
static bool seawall_peer_period(struct shim_peer_state *peer, struct shim_limiter_state *state,
				const struct shim_law_input *input, struct shim_message *report)
{
	struct seawall_peer *own = shim_peer_own(peer);
	u32 sent = own->sent;

	own->sent = 0;
	if (!sent)
		own->unanswered_us = 0;
	if (state)
		seawall_set_rate(peer, state, input, sent);
	own->reported = 0;
	own->reported_hurt = 0;
	seawall_count_flows(own);
	if (!own->fresh)
		return false;
	if (!report)
		return true;
	own->fresh = false;
	report->type = SHIM_MESSAGE_REPORT;
	report->bytes = own->rx_bytes;
	report->packets = own->rx_packets;
	report->marks = own->rx_marks;
	report->lost = own->rx_lost;
	report->interval_ns = input->period_ns;
	if (own->rx_bytes >= BYTES_MAX || own->rx_lost >= LOST_MAX) {
		own->rx_bytes = 0;
		own->rx_packets = 0;
		own->rx_marks = 0;
		own->rx_lost = 0;
	}
	return true;
}

const struct shim_law shim_law_seawall = {
	.name = "seawall",
	.knobs = seawall_knobs,
	.n_knobs = SHIM_COUNT(seawall_knobs),
	.wants = SHIM_LAW_PEERS | SHIM_LAW_FLOWS,
	.flows_knob = &seawall_knobs[HINT],
	.period_ns = 10000000,
	.limiter_size = sizeof(struct seawall_limiter),
	.peer_size = sizeof(struct seawall_peer),
	.flow_size = sizeof(struct seawall_flow),
	.init = seawall_init,
	.on_period = seawall_period,
	.peer_init = seawall_peer_init,
	.on_tx = seawall_tx,
	.on_rx = seawall_rx,
	.on_report = seawall_report,
	.on_peer_period = seawall_peer_period,
	.on_segment_out = seawall_segment_out,
	.on_segment_in = seawall_segment_in,
	.on_flow_period = seawall_flow_period,
};
