// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law elasticswitch: ElasticSwitch, guarantee partitioning (GP) and rate allocation (RA).
 *
 * A VM's guarantee B is a hose, for what it sends and as much for what it receives.  A pair is what
 * a VM sends to one address.  T is the period, C the uplink's capacity, E the VM's share.
 *
 * GP, at the sender for the pairs to its peers and at the receiver for the pairs from them, each T:
 *   u           = max(2 * bytes of the pair in T / T, u * 7/8); B with its first packet after none
 *   need        = min(u, what the other end gives the pair, where that is known)
 *   g           = min(need, L)
 *   L           = (B - sum of need < L) / number of other pairs, over all that were active in a T;
 *                 none are others: B where needs fit into it; never less than B / number of pairs
 *   receivers report g and a sender's pair has the guarantee  G = g of the sender, which is at most
 *   the g that it was told
 *
 * RA, at the sender:
 *   report:     F = marks / packets since the last report heard
 *               F > 0:  R = R * (1 - cut * F) unless cut within `hold`, and R holds for `hold`
 *   each T:     later, u >= R:    R = R + step * W * min(1, W / R) * 2^k,  at most step * C more
 *               W = G, or best-effort * C where an end has no B;  k = time since marks / quiet
 *   no report for `silence` of what was sent:  R = L of the sender, best-effort * C if its B is 0
 *   rate of the pair = max(G, R), at most E;  the VM's own is E
 *
 * As the paper has it, as far as its authors' words were at hand: the minimum of both ends' parts,
 * parts that go by demand, a rate above the guarantee that grows by the guarantee, holds after
 * congestion (Hold-Increase) and grows the less the farther it is above the guarantee
 * (Rate-Caution).  Headroom is for who grants guarantees: up to nine tenths of a link.  All
 * constants are ours, marks stand for Seawall's losses, and additive steps for its CUBIC.
 *
 * Both ends of a pair bound each other, so needs fall together and rise together: a receiver takes
 * its bound from what arrives, a sender from what it is told, and neither tells the other need.
 *
 * All arithmetic saturates: the worst a mad report does is to put a pair on its guarantee, and that
 * on its least rate.
 */
#include "../arith.h"
#include "../law.h"

#ifdef SHIM_LABORATORY

/* Demand falls by this part each T, as a shift. */
#define FADE 3

/* Receivers begin to count anew at so many packets. */
#define PACKETS_MAX 0x80000000U

/* Indices into the knobs. */
enum {
	STEP,
	CUT,
	HOLD,
	QUIET,
	BEST_EFFORT,
	SILENCE,
};

/* How a guarantee is divided in one direction. */
struct elastic_hose {
	u64 level;		/* L, bytes/s */
	u64 bounded;		/* sum of needs below L so far in this pass, bytes/s */
	u32 open;		/* pairs with a need of L or more so far in this pass */
	u32 pairs;		/* all pairs so far in this pass */
};

/* What the law keeps of a limiter. */
struct elasticswitch_limiter {
	struct elastic_hose out;	/* to peers */
	struct elastic_hose in;		/* from peers */
	u64 marks_ns;			/* of the last report with marks of any pair; 0: never */
};

/* A pair's demand in one direction. */
struct elastic_demand {
	u64 used;		/* u, bytes/s; 0: it rests */
	u64 bytes;		/* in this T */
};

/* What the law keeps of a peer. */
struct elasticswitch_peer {
	struct elastic_demand out;	/* to the peer */
	struct elastic_demand in;	/* from it */
	u64 told;		/* what its receiver's end gives the pair, bytes/s; 0: unknown */
	u64 guarantee;		/* G, bytes/s */
	u64 rate;		/* R, bytes/s */
	u64 mark_ns;		/* time of the last report with marks; 0: never */
	u64 cut_ns;		/* time of the last cut; 0: never */
	u64 owed_ns;		/* time of the first packet that no report followed; 0: none */
	u32 heard_packets;	/* as the last report had them */
	u32 heard_marks;	/* as the last report had them */
	u32 rx_packets;		/* received; begins anew with PACKETS_MAX told */
	u32 rx_marks;		/* of these, with CE */
	bool answered;		/* a report came */
	bool due;		/* packets came that no report has told of */
};

/* The knobs, by the indices above. */
static const struct shim_knob elastic_knobs[] = {
	[STEP] = {
		.name = "step-ppm",
		.unit = "ppm of guarantee",
		.help = "growth each T of a pair at its guarantee; 0: none",
		.source = "ours",
		.value = 100000,
		.min = 0,
		.max = 1000000,
	},
	[CUT] = {
		.name = "cut-ppm",
		.unit = "ppm of rate",
		.help = "cut at full congestion; 0: marks cut nothing",
		.source = "ours, after Seawall",
		.value = 250000,
		.min = 0,
		.max = 1000000,
	},
	[HOLD] = {
		.name = "hold",
		.unit = "ns",
		.help = "time after marks without growth, and after a cut without another; 0: none",
		.source = "ElasticSwitch, Hold-Increase; the length is ours",
		.value = 5000000,
		.min = 0,
		.max = 10000000000ULL,
	},
	[QUIET] = {
		.name = "quiet",
		.unit = "ns",
		.help = "growth doubles for each such time without marks; 0 is refused",
		.source = "ours, after law scc",
		.value = 20000000,
		.min = 100000,
		.max = 10000000000ULL,
	},
	[BEST_EFFORT] = {
		.name = "best-effort-ppm",
		.unit = "ppm of capacity",
		.help = "a pair with an end without guarantee grows as if by that; 0 is refused",
		.source = "ours",
		.value = 50000,
		.min = 1,
		.max = 1000000,
	},
	[SILENCE] = {
		.name = "silence",
		.unit = "ns",
		.help = "a pair without an answer falls to its part of a guarantee; 0 is refused",
		.source = "ours",
		.value = 100000000,
		.min = 1000000,
		.max = 100000000000ULL,
	},
};

/* Ends a pass over the pairs of a VM with that guarantee: sets L for the next one. */
static void elastic_turn(struct elastic_hose *hose, u64 guarantee)
{
	u64 equal = hose->pairs ? shim_div(guarantee, hose->pairs) : guarantee;
	u64 left = shim_sub_sat(guarantee, hose->bounded);

	if (hose->open)
		hose->level = shim_div(left, hose->open);
	else
		hose->level = hose->bounded > guarantee ? 0 : guarantee;
	if (hose->level < equal)
		hose->level = equal;
	hose->bounded = 0;
	hose->open = 0;
	hose->pairs = 0;
}

/*
 * Returns what a pair gets of a hose, bytes/s, and counts it in; most: the other end's part.  After
 * a rest its demand is whatever the VM is guaranteed.
 */
static u64 elastic_part(struct elastic_hose *hose, struct elastic_demand *demand, u64 most,
			const struct shim_law_input *input)
{
	u64 could = shim_mul_div(demand->bytes, 2 * SHIM_NSEC_PER_SEC, input->period_ns);
	u64 need = shim_sub_sat(demand->used, (demand->used >> FADE) + 1);

	if (demand->bytes && !demand->used)
		could = could > input->min ? could : input->min;
	demand->bytes = 0;
	demand->used = could > need ? could : need;
	need = demand->used < most ? demand->used : most;
	if (!need)
		return 0;
	hose->pairs = shim_add_sat32(hose->pairs, 1);
	if (need < hose->level)
		hose->bounded = shim_add_sat(hose->bounded, need);
	else
		hose->open = shim_add_sat32(hose->open, 1);
	return need < hose->level ? need : hose->level;
}

/* Starts a VM at its share, with all of its guarantee for its first pair. */
static void elastic_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct elasticswitch_limiter *own = shim_limiter_own(state);

	state->rate = input->share;
	own->out.level = input->min;
	own->in.level = input->min;
}

/* Lets the VM have its share, and ends the pass over its pairs. */
static void elastic_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct elasticswitch_limiter *own = shim_limiter_own(state);

	state->rate = input->share;
	if (!input->peers_left) {
		elastic_turn(&own->out, input->min);
		elastic_turn(&own->in, input->min);
	}
	state->congested = own->marks_ns &&
		shim_sub_sat(input->now_ns, own->marks_ns) < input->knobs[QUIET];
}

/* Keeps a pair's rate between its guarantee and the share. */
static void elastic_bound(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	struct elasticswitch_peer *own = shim_peer_own(peer);

	if (own->rate < own->guarantee)
		own->rate = own->guarantee;
	if (own->rate < SHIM_RATE_MIN)
		own->rate = SHIM_RATE_MIN;
	if (own->rate > input->share)
		own->rate = input->share;
	peer->rate = own->rate;
}

/* Starts a pair at the VM's guarantee, of which it soon has its part. */
static void elastic_peer_init(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	struct elasticswitch_peer *own = shim_peer_own(peer);

	own->guarantee = input->min;
	own->rate = shim_mul_div(input->capacity, input->knobs[BEST_EFFORT], SHIM_PPM);
	own->mark_ns = shim_stamp(input->now_ns);
	elastic_bound(peer, input);
}

/* Counts what is sent, and remembers that the peer's shim owes an answer. */
static void elastic_tx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct elasticswitch_peer *own = shim_peer_own(peer);

	own->out.bytes = shim_add_sat(own->out.bytes, packet->bytes);
	if (own->answered && !own->owed_ns)
		own->owed_ns = shim_stamp(packet->now_ns);
}

/* Counts what is received. */
static void elastic_rx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct elasticswitch_peer *own = shim_peer_own(peer);

	own->in.bytes = shim_add_sat(own->in.bytes, packet->bytes);
	own->rx_packets = shim_add_sat32(own->rx_packets, packet->packets);
	own->rx_marks = shim_add_sat32(own->rx_marks, packet->marks < packet->packets ?
				       packet->marks : packet->packets);
}

/* Takes the receiver's part, and cuts the rate by the marks since the last report. */
static void elastic_report(struct shim_peer_state *peer, struct shim_limiter_state *state,
			   const struct shim_law_input *input, const struct shim_message *report)
{
	struct elasticswitch_peer *own = shim_peer_own(peer);
	bool anew = report->packets < own->heard_packets;
	u32 packets = report->packets - (anew ? 0 : own->heard_packets);
	u32 marks = report->marks - (anew ? 0 : own->heard_marks);
	u64 part;

	/* One without packets and rate says that there is somebody, and no more. */
	if (report->type != SHIM_MESSAGE_REPORT || (!report->packets && !report->rate))
		return;
	own->heard_packets = report->packets;
	own->heard_marks = report->marks;
	own->told = report->rate > SHIM_RATE_MIN ? report->rate : SHIM_RATE_MIN;
	own->owed_ns = 0;
	if (!own->answered || !marks || marks > packets) {
		own->answered = true;
		return;
	}
	own->mark_ns = shim_stamp(input->now_ns);
	if (shim_sub_sat(input->now_ns, own->cut_ns) >= input->knobs[HOLD]) {
		part = shim_mul_div(marks, input->knobs[CUT], packets);
		own->rate = shim_sub_sat(own->rate, shim_mul_div(own->rate, part, SHIM_PPM));
		own->cut_ns = own->mark_ns;
		elastic_bound(peer, input);
	}
	if (state) {
		struct elasticswitch_limiter *limiter = shim_limiter_own(state);

		limiter->marks_ns = own->mark_ns;
	}
}

/* Lets a pair's rate grow that uses half of it, unless marks were told of lately. */
static void elastic_grow(struct elasticswitch_peer *own, const struct shim_law_input *input)
{
	bool granted = input->min && own->told != SHIM_RATE_MIN;
	u64 least = granted ? 0 :
		shim_mul_div(input->capacity, input->knobs[BEST_EFFORT], SHIM_PPM);
	u64 weight = own->guarantee > least ? own->guarantee : least;
	u64 most = shim_mul_div(input->capacity, input->knobs[STEP], SHIM_PPM);
	u64 calm = shim_sub_sat(input->now_ns, own->mark_ns), more;

	if (calm < input->knobs[HOLD] || own->rate > own->out.used)
		return;
	more = shim_mul_div(weight, input->knobs[STEP], SHIM_PPM);
	if (own->rate > weight)
		more = shim_mul_div(more, weight, own->rate);
	more = shim_double_sat(more, shim_div(calm, input->knobs[QUIET]));
	own->rate = shim_add_sat(own->rate, more < most ? more : most);
}

/*
 * Returns what a pair may send in silence, bytes/s: what any of the VM's pairs gets that wants
 * more.  It goes by no demand, which ebbs when TCP stalls: packets sent at what that leaves would
 * wait for seconds, and those behind them too, however high the rate is by then.  A VM without
 * guarantee sends ACKs at least, without which its peers would not have theirs.
 */
static u64 elastic_silent(const struct elastic_hose *hose, const struct shim_law_input *input)
{
	if (input->min)
		return hose->level;
	return shim_mul_div(input->capacity, input->knobs[BEST_EFFORT], SHIM_PPM);
}

/* Divides the guarantees, moves the pair's rate, and tells the peer what it may count on. */
static bool elastic_peer_period(struct shim_peer_state *peer, struct shim_limiter_state *state,
				const struct shim_law_input *input, struct shim_message *report)
{
	struct elasticswitch_peer *own = shim_peer_own(peer);
	struct elasticswitch_limiter *limiter;
	bool silent;
	u64 granted;

	if (!state)
		return false;
	if (own->in.bytes)
		own->due = true;
	limiter = shim_limiter_own(state);
	silent = own->owed_ns &&
		shim_sub_sat(input->now_ns, own->owed_ns) >= input->knobs[SILENCE];
	if (silent)
		own->told = 0;
	own->guarantee = elastic_part(&limiter->out, &own->out, own->told ? own->told : input->min,
				      input);
	granted = elastic_part(&limiter->in, &own->in, input->min, input);
	if (silent)
		own->rate = elastic_silent(&limiter->out, input);
	else
		elastic_grow(own, input);
	elastic_bound(peer, input);
	if (!own->due)
		return false;
	if (!report)
		return true;
	own->due = false;
	report->rate = granted;
	report->packets = own->rx_packets;
	report->marks = own->rx_marks;
	report->interval_ns = input->period_ns;
	if (own->rx_packets >= PACKETS_MAX) {
		own->rx_packets = 0;
		own->rx_marks = 0;
	}
	return true;
}

const struct shim_law shim_law_elasticswitch = {
	.name = "elasticswitch",
	.knobs = elastic_knobs,
	.n_knobs = SHIM_COUNT(elastic_knobs),
	.wants = SHIM_LAW_PEERS | SHIM_LAW_RECEIVER,
	.lends = SHIM_LENDS_SENT | SHIM_LENDS_RECEIVED,
	.period_ns = 1000000,
	.limiter_size = sizeof(struct elasticswitch_limiter),
	.peer_size = sizeof(struct elasticswitch_peer),
	.init = elastic_init,
	.on_period = elastic_period,
	.peer_init = elastic_peer_init,
	.on_tx = elastic_tx,
	.on_rx = elastic_rx,
	.on_report = elastic_report,
	.on_peer_period = elastic_peer_period,
};

#endif
