// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law scc: Stacked Congestion Control, the underlay (SCC section III.B).
 *
 * A division is a set of VMs with one weight, which a tracker outside the shim divides among the
 * division's tunnels: it gives each peer its W, in 1/10000 of all divisions' weights together, so
 * that a division's peers sum to W_d whatever their number.  A tunnel is what a VM sends to an
 * address.
 * T is the period, C the uplink's capacity, E the VM's share, R the rate to the peer.
 *
 *   W          = peer_weight of the tracker; without one, weight * weight-one / peers
 *   receiver:  each T in which packets came, REPORT packets, marks, time since the last report
 *   report:    F = marks / packets
 *              alpha += gain * (F - alpha)
 *              if marks:  R = max(floor, min(R, due * L * W * C),
 *                                 R * (1 - min(alpha * cut * h, 1)))
 *              h = 1 + min(haste, (time since the last report heard - time it stands for) / T)
 *   each T:    R = min(E, R + min(step * C * W * 2^k, max(step * C * W, step-max * C)))
 *              k = t / quiet;  0 while step * C * W * t / T < regain * R_m
 *              t = time since the last marks,  R_m = R after their cut
 *   floor    = min(E, max(guarantee * W / sum of W of the VM's busy peers, rmin * E))
 *   L:         part of C that the link ahead is taken for, 1 at first
 *              each report:  S += (F - S) / 64
 *                            S > 9/10:  L = L * (1 - 1/50)
 *                            else:      L = min(1, L + (1 - S) / 500)
 *   the VM:    E; its peers are bounded one by one
 *
 * Additive steps by W and cuts by a common alpha move the rates to the ratio of the weights: in
 * equilibrium step * C * W = R * alpha * cut * (marked part of the periods).  h takes a report that
 * was lost for one like the next that arrives, so the ratio does not depend on who loses reports.
 * Steps are as large as cuts bear: all tunnels together climb by step * C * sum of W each T, while
 * a cut takes at most `cut` of what they send.  A tunnel alone is back at C within some T, or else
 * short flows would wait for a rate that nobody uses.  A tracker's W add up to 1; W that nobody
 * adds up, of VMs without one, are small, or the steps of many would outgrow their cuts.
 *
 * Marks go on until a cut shows, a horizon and the port's queue later, and a tunnel is cut in each
 * T until then: to half and less.  Single steps need R_m T / (step * C * W) to bring that back, 34
 * ms for one of four VMs without a tracker, and a silence that is part of such a swing is no end of
 * the congestion.  With doubled steps by then the queue grows by a quarter more, hence regain; but
 * after 10 quiet times silence is one, or tunnels of little weight would stay low for seconds.
 *
 * W * C is what a tunnel is due on a link as fast as its uplink, as W of all add up to 1 at most.
 * Marks take away what it has beyond that, but short overloads must not cut into it: a tunnel below
 * its due leaves a link unused that nobody else takes.  Where the link is narrower, or W add up to
 * more, marks do not end however often the tunnels come down to their due: then L shrinks, some
 * percent a T for all that cross it, until R is free to fall.
 *
 * The fabric's marks are for the tunnel alone; guests with ECN are told of its own queue: tunnel.h.
 *
 * Silence raises R to E within some quiet times, as nobody complains; a tunnel that was never
 * marked follows E at once.  A tracker that dies leaves weights, not rates: its agents take them
 * back, and then the operator's weights of VMs count.
 *
 * Deviations from the paper, and why:
 * - Equations (1) and (2) multiply both ways, by 1 + W and by 1 - alpha * W: all tunnels keep the
 *   ratio they start with for ever, and a larger weight is cut harder.  literal = 1 is that form.
 * - The paper's tunnel joins all VMs of a division on one host to one host.  Here it is their sum
 *   over peers: weights add up to the same, alpha is estimated by each peer from its own packets.
 * - After silence the step doubles, so that what other divisions leave is taken in tens of ms.
 *
 * All arithmetic saturates: the worst a mad report does is to put R on its floor, which is more
 * than 0, as a rate of 0 would be none.
 */
#include "../arith.h"
#include "../climb.h"
#include "../laboratory.h"
#include "../law.h"
#include "../tunnel.h"

/* What the tracker's weight of a peer counts in. */
#define WEIGHT_UNIT_PPM 100ULL

/*
 * Length of a tunnel's queue above which it marks, bytes: 66 full packets.  Flows begin with
 * DCTCP's alpha of 1 and halve at the first mark; the queue then keeps the tunnel busy.
 */
#define MARK_BYTES 100000

/* Reports that S remembers. */
#define LASTING_REPORTS 64

/* Marked part above which a link is narrow, and by how much L then falls a report: ppm. */
#define NARROW_PPM 900000ULL
#define LEVEL_DOWN_PPM 20000ULL

/* What part of its unmarked part a report adds to L. */
#define LEVEL_UP_DENOMINATOR 500

/* A peer is busy when it sent at least this part of what its rate allows. */
#define BUSY_DENOMINATOR 2

/* A peer whose last report is older has no tunnel to here, ns. */
#define REPORTING_NS 10000000000ULL

/* Indices into the knobs. */
enum {
	STEP,
	STEP_MAX,
	QUIET,
	CUT,
	GAIN,
	HASTE,
	WEIGHT_ONE,
	RMIN,
	MARK,
	DUE,
	REGAIN,
	LITERAL,		/* laboratory build */
};

/* What the law keeps of a limiter. */
struct scc_limiter {
	u64 busy_sum;		/* weights of busy peers so far in this pass over the peers, ppm */
	u64 busy_weight;	/* the same of the whole last pass, ppm */
	u64 marks_ns;		/* time of the last report with marks of any peer; 0: never */
};

/* What the law keeps of a peer.  Means of parts are no more than the largest part, 10^6 ppm. */
struct scc_peer {
	u64 step_ns;		/* time of the last step */
	u64 share;		/* E at the last step, bytes/s */
	u64 mark_ns;		/* time of the last report with marks; 0: never */
	u64 cut_to;		/* rate that it left, bytes/s */
	u64 heard_ns;		/* time of the last report; 0: never */
	u64 sent;		/* bytes sent since the last step */
	u64 rx_ns;		/* time of the last report sent */
	u32 rx_packets;		/* received since then; U32_MAX: or more */
	u32 rx_marks;		/* of these, with CE; U32_MAX: or more */
	u32 alpha;		/* ppm */
	u32 lasting;		/* S, ppm */
	u32 level;		/* L, ppm */
};

static const struct shim_knob scc_knobs[] = {
	[STEP] = {
		.name = "step-ppm",
		.unit = "ppm of capacity",
		.help = "step up each period of a tunnel with all the weight; 0: none",
		.source = "ours; SCC equation (1)",
		.value = 100000,
		.min = 0,
		.max = 1000000,
	},
	[STEP_MAX] = {
		.name = "step-max-ppm",
		.unit = "ppm of capacity",
		.help = "bound of a tunnel's step after silence; 0: steps never double",
		.source = "ours",
		.value = 200000,
		.min = 0,
		.max = 1000000,
	},
	[QUIET] = {
		.name = "quiet",
		.unit = "ns",
		.help = "steps double for each such time unmarked; 0 is refused",
		.source = "ours, after HyGenICC section V",
		.value = 20000000,
		.min = 100000,
		.max = 10000000000ULL,
	},
	[CUT] = {
		.name = "cut-ppm",
		.unit = "ppm of alpha",
		.help = "part of alpha that a report with marks cuts by; 0: marks cut nothing",
		.source = "SCC equation (2); half of DCTCP's",
		.value = 250000,
		.min = 0,
		.max = 1000000,
	},
	[GAIN] = {
		.name = "gain-ppm",
		.unit = "ppm",
		.help = "weight of the newest report in alpha; 0 is refused",
		.source = "DCTCP's 1/16",
		.value = 62500,
		.min = 1,
		.max = 1000000,
	},
	[HASTE] = {
		.name = "haste",
		.unit = "reports",
		.help = "reports lost in a row that the next stands for; 0: only for itself",
		.source = "ours",
		.value = 2,
		.min = 0,
		.max = 1000,
	},
	[WEIGHT_ONE] = {
		.name = "weight-one-ppm",
		.unit = "ppm of all weights",
		.help = "W of a VM of weight 1 that no tracker gave any; 0 is refused",
		.source = "ours",
		.value = 50000,
		.min = 1,
		.max = 1000000,
	},
	[RMIN] = {
		.name = "rmin-ppm",
		.unit = "ppm of share",
		.help = "marks cut no further; 0: down to the guarantee",
		.source = "ours; SDN-GCC Algorithm 3, line 19",
		.value = 2000,
		.min = 0,
		.max = 1000000,
	},
	[MARK] = {
		.name = "mark-bytes",
		.unit = "bytes",
		.help = "queue of a tunnel that marks to guests; 0: the fabric's marks reach them",
		.source = "SCC section III.C",
		.value = MARK_BYTES,
		.min = 0,
		.max = 1000000000,
	},
	[DUE] = {
		.name = "due-ppm",
		.unit = "ppm of W of capacity",
		.help = "short overloads cut no further; 0: down to rmin-ppm",
		.source = "ours; SCC section III.A (links of a fabric are alike)",
		.value = 950000,
		.min = 0,
		.max = 1000000,
	},
	[REGAIN] = {
		.name = "regain-ppm",
		.unit = "ppm of rate",
		.help = "steps double no sooner than single ones have raised R so much; 0: at once",
		.source = "ours",
		.value = 1000000,
		.min = 0,
		.max = 10000000,
	},
#ifdef SHIM_LABORATORY
	[LITERAL] = {
		.name = "literal",
		.unit = "switch",
		.help = "1: rates change by 1 + W and 1 - alpha * W; 0: by steps and cuts",
		.source = "SCC equations (1) and (2)",
		.value = 0,
		.min = 0,
		.max = 1,
	},
#endif
};

/* Tells whether rates change by 1 + W and 1 - alpha * W. */
static bool scc_literal(const u64 *knobs)
{
	return shim_laboratory_knob(knobs, LITERAL, 0);
}

/* Returns W of the peer in ppm, at least 1. */
static u64 scc_weight(const struct shim_law_input *input)
{
	u64 w = input->peer_weight * WEIGHT_UNIT_PPM;

	if (!w)
		w = shim_mul_div(input->weight, input->knobs[WEIGHT_ONE],
				 input->peers ? input->peers : 1);
	return w ? w : 1;
}

/*
 * Returns the rate in bytes/s below which nothing is cut unless the share is less; state is NULL
 * if the VM never sent.
 */
static u64 scc_floor(const struct shim_limiter_state *state, const struct shim_law_input *input)
{
	u64 least = shim_mul_div(input->share, input->knobs[RMIN], SHIM_PPM);
	u64 part = input->min;
	u64 weight = scc_weight(input);

	if (state) {
		const struct scc_limiter *own = shim_limiter_own_const(state);

		if (own->busy_weight > weight)
			part = shim_mul_div(part, weight, own->busy_weight);
	}
	if (part < least)
		part = least;
	return part > SHIM_RATE_MIN ? part : SHIM_RATE_MIN;
}

/* Keeps a rate between its floor and the share; state is as in scc_floor(). */
static u64 scc_bound(const struct shim_limiter_state *state, const struct shim_law_input *input,
		     u64 rate)
{
	u64 floor = scc_floor(state, input);

	if (rate < floor)
		rate = floor;
	return rate < input->share ? rate : input->share;
}

/* Returns the rate in bytes/s below which a report with marks does not cut. */
static u64 scc_due_rate(const struct shim_peer_state *peer, const struct shim_law_input *input)
{
	const struct scc_peer *own = shim_peer_own_const(peer);
	u64 rate = shim_mul_div(input->capacity, scc_weight(input), SHIM_PPM);

	rate = shim_mul_div(rate, own->level, SHIM_PPM);
	rate = shim_mul_div(rate, input->knobs[DUE], SHIM_PPM);
	if (scc_literal(input->knobs))
		return 0;
	return rate < peer->rate ? rate : peer->rate;
}

/* Follows how narrow the link ahead is by the marked part of a report, ppm. */
static void scc_follow_level(struct scc_peer *own, u64 part)
{
	u64 lasting = own->lasting;
	u64 level = own->level;

	/* Both terms are at most 64 * SHIM_PPM. */
	lasting = shim_div(lasting * (LASTING_REPORTS - 1) + part, LASTING_REPORTS);
	if (lasting > NARROW_PPM)
		level -= shim_mul_div(level, LEVEL_DOWN_PPM, SHIM_PPM);
	else
		level += shim_div(SHIM_PPM - lasting, LEVEL_UP_DENOMINATOR);
	own->lasting = lasting;
	own->level = level < SHIM_PPM ? level : SHIM_PPM;
}

/* Returns the step up in bytes/s for one period of a tunnel at that rate. */
static u64 scc_step_rate(const struct shim_peer_state *peer, const struct shim_law_input *input)
{
	const struct scc_peer *own = shim_peer_own_const(peer);
	u64 silence = shim_sub_sat(input->now_ns, own->mark_ns);
	u64 most = shim_mul_div(input->capacity, input->knobs[STEP_MAX], SHIM_PPM);
	u64 w = scc_weight(input);
	struct shim_regain regain = {
		.timeout_ns = input->knobs[QUIET],
		.cut_to = own->cut_to,
		.part_ppm = input->knobs[REGAIN],
	};
	u64 rate, fast;

	if (scc_literal(input->knobs))
		return own->mark_ns && silence <= input->period_ns ?
			0 : shim_mul_div(peer->rate, w, SHIM_PPM);
	rate = shim_mul_div(input->capacity, input->knobs[STEP], SHIM_PPM);
	rate = shim_mul_div(rate, w, SHIM_PPM);
	regain.slow = rate;
	if (own->mark_ns && shim_climb_holds_back(&regain, silence, input->period_ns))
		return rate;
	fast = shim_double_sat(rate, shim_div(silence, input->knobs[QUIET]));
	if (fast > most)
		fast = most;
	return fast > rate ? fast : rate;
}

/* Returns the factor h of a cut: 1 and the reports that were lost since the last one heard. */
static u64 scc_haste(const struct scc_peer *own, const struct shim_law_input *input,
		     u64 interval_ns)
{
	u64 elapsed = shim_sub_sat(input->now_ns, own->heard_ns);
	u64 lost;

	if (!own->heard_ns || elapsed <= interval_ns)
		return 1;
	lost = shim_mul_div(elapsed - interval_ns, 1, input->period_ns);
	return 1 + (lost < input->knobs[HASTE] ? lost : input->knobs[HASTE]);
}

/* Starts a VM at its share. */
static void scc_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	state->rate = input->share;
}

/* Lets the VM have its share, and ends the pass over its peers. */
static void scc_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct scc_limiter *own = shim_limiter_own(state);

	state->rate = input->share;
	if (!input->peers_left) {
		own->busy_weight = own->busy_sum;
		own->busy_sum = 0;
	}
	state->congested = own->marks_ns &&
		shim_sub_sat(input->now_ns, own->marks_ns) < input->knobs[QUIET];
}

/* Starts a tunnel at the VM's share, with DCTCP's first alpha. */
static void scc_peer_init(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	struct scc_peer *own = shim_peer_own(peer);

	peer->rate = input->share;
	own->alpha = SHIM_PPM;
	own->step_ns = input->now_ns;
	own->share = input->share;
	own->rx_ns = input->now_ns;
	own->level = SHIM_PPM;
}

/* Counts what is sent. */
static void scc_tx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct scc_peer *own = shim_peer_own(peer);

	own->sent = shim_add_sat(own->sent, packet->bytes);
	shim_tunnel_enter(packet, peer->rate, packet->knobs[MARK]);
}

/* Counts what is received, and takes the fabric's marks from the guest. */
static void scc_rx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct scc_peer *own = shim_peer_own(peer);
	u64 silence = shim_sub_sat(packet->now_ns, own->heard_ns);

	shim_tunnel_leave(packet, own->heard_ns && silence < REPORTING_NS, packet->knobs[MARK]);
	own->rx_packets = shim_add_sat32(own->rx_packets, packet->packets);
	own->rx_marks = shim_add_sat32(own->rx_marks, packet->marks);
}

/* Cuts the rate for a report with marks, by alpha as it is with this report. */
static void scc_cut(struct shim_peer_state *peer, struct shim_limiter_state *state,
		    const struct shim_law_input *input, u64 interval_ns)
{
	struct scc_peer *own = shim_peer_own(peer);
	u64 cut, kept, rate;

	cut = scc_literal(input->knobs) ? scc_weight(input) : input->knobs[CUT];
	cut = shim_mul_div(own->alpha, cut, SHIM_PPM);
	cut = shim_mul_div(cut, scc_haste(own, input, interval_ns), 1);
	if (cut > SHIM_PPM)
		cut = SHIM_PPM;
	kept = scc_due_rate(peer, input);
	rate = shim_mul_div(peer->rate, SHIM_PPM - cut, SHIM_PPM);
	peer->rate = scc_bound(state, input, rate > kept ? rate : kept);
	own->mark_ns = shim_stamp(input->now_ns);
	own->cut_to = peer->rate;
	if (state) {
		struct scc_limiter *limiter = shim_limiter_own(state);

		limiter->marks_ns = own->mark_ns;
	}
}

/* Follows the congestion that a report tells of. */
static void scc_report(struct shim_peer_state *peer, struct shim_limiter_state *state,
		       const struct shim_law_input *input, const struct shim_message *report)
{
	struct scc_peer *own = shim_peer_own(peer);
	u64 gain = input->knobs[GAIN];
	u64 part;

	if (!report->packets)
		return;
	part = shim_mul_div(report->marks, SHIM_PPM, report->packets);
	if (part > SHIM_PPM)
		part = SHIM_PPM;
	/* Both terms together are at most SHIM_PPM * SHIM_PPM. */
	own->alpha = shim_div(own->alpha * (SHIM_PPM - gain) + part * gain, SHIM_PPM);
	scc_follow_level(own, part);
	if (report->marks)
		scc_cut(peer, state, input, report->interval_ns);
	own->heard_ns = shim_stamp(input->now_ns);
}

/* Adds a peer that uses its rate to the VM's busy ones. */
static void scc_count_busy(struct shim_peer_state *peer, struct shim_limiter_state *state,
			   const struct shim_law_input *input, u64 elapsed)
{
	u64 allowed = shim_mul_div(peer->rate, elapsed, SHIM_NSEC_PER_SEC);
	struct scc_peer *own = shim_peer_own(peer);

	if (state && own->sent && own->sent >= shim_div(allowed, BUSY_DENOMINATOR)) {
		struct scc_limiter *limiter = shim_limiter_own(state);

		limiter->busy_sum = shim_add_sat(limiter->busy_sum, scc_weight(input));
	}
	own->sent = 0;
}

/* Raises the rate by a step; true when there is something to report. */
static bool scc_peer_period(struct shim_peer_state *peer, struct shim_limiter_state *state,
			    const struct shim_law_input *input, struct shim_message *report)
{
	struct scc_peer *own = shim_peer_own(peer);
	u64 elapsed = shim_sub_sat(input->now_ns, own->step_ns);

	scc_count_busy(peer, state, input, elapsed);
	if (elapsed > 2 * input->period_ns)
		elapsed = 2 * input->period_ns;
	if (!own->mark_ns && peer->rate >= own->share)
		peer->rate = input->share;
	else if (elapsed)
		peer->rate = shim_add_sat(peer->rate, shim_mul_div(scc_step_rate(peer, input),
								   elapsed, input->period_ns));
	peer->rate = scc_bound(state, input, peer->rate);
	own->step_ns = input->now_ns;
	own->share = input->share;

	if (!own->rx_packets)
		return false;
	if (!report)
		return true;
	report->packets = own->rx_packets;
	report->marks = own->rx_marks;
	report->interval_ns = shim_sub_sat(input->now_ns, own->rx_ns);
	own->rx_packets = 0;
	own->rx_marks = 0;
	own->rx_ns = input->now_ns;
	return true;
}

/*
 * Tells whether a tunnel has its share, and nothing to tell: what was marked long ago is then no
 * longer of account, as the rate has climbed back.
 */
static bool scc_peer_rests(const struct shim_peer_state *peer, const struct shim_law_input *input)
{
	const struct scc_peer *own = shim_peer_own_const(peer);

	return peer->rate >= input->share && !own->sent && !own->rx_packets;
}

const struct shim_law shim_law_scc = {
	.name = "scc",
	.knobs = scc_knobs,
	.n_knobs = SHIM_COUNT(scc_knobs),
	.wants = SHIM_LAW_PEERS,
	.lends = SHIM_LENDS_SENT | SHIM_LENDS_RECEIVED,
	.period_ns = 1000000,
	.limiter_size = sizeof(struct scc_limiter),
	.peer_size = sizeof(struct scc_peer),
	.init = scc_init,
	.on_period = scc_period,
	.peer_init = scc_peer_init,
	.on_tx = scc_tx,
	.on_rx = scc_rx,
	.on_report = scc_report,
	.on_peer_period = scc_peer_period,
	.peer_rests = scc_peer_rests,
};
