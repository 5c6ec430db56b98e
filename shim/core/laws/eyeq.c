// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law eyeq: EyeQ, sections 3.2 to 3.4 and 4.  Receivers grant rates, senders obey them.
 *
 * T is the period, B a VM's weight or guarantee, y what it received over as many T as 64 packets
 * take at C, one at least.
 *
 *   receiver, each VM:
 *     C = part * (uplink divided by B among the VMs that receive, by what they could)
 *     part = 1 with knob ecn, else capacity-ppm: 90%
 *     R = R * C / (C before)             when C changes
 *     with y > 0, read from k T and the longest wait in a limiter after R changed:
 *       R = R * (1 - a * (y - C) / C)
 *       R = max(R / 4, C / n) at most  if y > C * 17 / 16, n: peers
 *       with knob ecn, the part f of these packets came with CE; m = m + (f - m) / 4
 *         R = R * (1 - a * min(f, m) / 2) at most
 *         f and m above 1/2 count as y > C * 17 / 16
 *       within [max(R / 4, rate-min), C]
 *       R as it is, and half of it told, while y > C * 17 / 16 without a break since R * n
 *       was more than C, but it no longer is, for drain-timeout at most
 *     told to a peer: once R < C, at once; then after sample-bytes from it, or what it may send in
 *     T if that is less, if R is not what it was told last, and each heartbeat while it sends
 *
 *   sender:
 *     R(VM) = E, the uplink divided by B, by what VMs could send: work-conserving WRR
 *     R(VM, peer) = the rate told; none before that, and none after idle-timeout without packets
 *     feedback-timeout after a packet to the peer that nobody answered:
 *       R(VM, peer) = max(R(VM, peer) / 2, floor),  unless it was lower
 *       floor = max(rate-min, guarantee / peers)
 *
 * Deviations from the paper, and why (docs/laws.md):
 * - With section 3.2's C = B / (sum of active B) * uplink nobody gets what an active VM leaves, as
 *   Fig. 1 has it.  So C is a weighted max-min share by demand, at the sender as at the receiver.
 *   Who has all he may could use twice that, others a little more than they have; demand fades.
 * - R is C over a number of senders, which does not change with C: R follows C at once.
 * - A correction takes effect a round trip, and what waits in the sender's limiter, after it was
 *   made.  RCP divides its gain by that delay; letting each correction be seen before the next does
 *   the same.  With a correction each T and 2 T of delay, gains above 0.6 never settle.
 * - A meter behind a line reads at most the line: (y - C) / C is 0.11 with 2 senders at line rate
 *   and with 32, which would take 60 corrections.  So R falls fast while the meter reads the line.
 *   It does so, too, while the switch empties its queue: what peers that obey cannot have sent is a
 *   queue.  Half of R empties it soon, and R is there when it is gone.  n is a guess, which is why
 *   that does not last: the paper's correction, which asks for no n, has the last word.
 * - A jump of C is waited for like a correction, once until the next: C follows what few packets
 *   say in each T, and a VM that is behind would else wait for ever, with the R that it had.
 * - 200 us of 1 Gb/s are 16 packets, and those of many senders meet or miss each other: y over one
 *   period is the line now and half of it then.  So it is read over 64 packets, and only what
 *   follows on an overload is taken for a queue.
 * - With ecn C is the line, and y never exceeds it: 2 senders at line rate and a drift of R by a
 *   thousandth read alike, and both are marked.  One reading full of marks is the drift, three in
 *   a row are the overload.  The paper names marks and has no formula: m is DCTCP's, a the paper's.
 * - R grows to C at most: a lone burst then begins at C and not at the line.
 * - 10 kB are 80 ms at 1 Mb/s; a peer so slow would not hear that it may go faster.
 * - A report is 150 bytes, not 64.  A token bucket holds reports to the paper's 64 Mb/s of 10 Gb/s;
 *   as it empties the sample grows, so that no peer is left out for long.
 * - Silence counts from a packet that should have been answered.
 *
 * All arithmetic saturates.  The worst a mad report does is to put one peer's rate at rate-min.
 */
#include "../arith.h"
#include "eyeq.h"

/* A report on the wire: Ethernet with FCS, IPv6, message; rounded up. */
#define REPORT_BYTES 160ULL

/* Feedback may save up what it earns in so many ns, and no less than so many reports. */
#define CREDIT_NS 10000000ULL
#define CREDIT_REPORTS_MIN 4ULL

/* Demand of a sender falls by this part each T, as a shift: by half in 1 ms. */
#define FADE_TX 3

/* Indices into struct shim_peer_state's memory. */
enum {
	GOT_BYTES,	/* from the peer since the last report to it */
	GOT_PACKETS,	/* the same in packets */
	GOT_MARKS,	/* of these, with CE */
	NEW_PACKETS,	/* from the peer in this period */
	NEW_MARKS,	/* of these, with CE */
	GOT_NS,		/* time of the last packet from the peer */
	TOLD,		/* R of the last report to it, bytes/s; 0: none */
	TOLD_NS,	/* time of that report */
	OWED_NS,	/* time of the first packet to the peer since its last report; 0: none */
	SENT_NS,	/* time of the last packet to the peer */
};

static const struct shim_knob knobs[] = {
	[GAIN] = {
		.name = "gain-ppm",
		.unit = "ppm",
		.help = "a: part of the error that a correction takes back; 0 is refused",
		.source = "EyeQ section 3.4, alpha; stable below 2000000",
		.value = 500000,
		.min = 1000,
		.max = 1999999,
	},
	[REACT] = {
		.name = "react-periods",
		.unit = "periods",
		.help = "k: periods from one correction to the next; 0 is refused",
		.source = "ours, after RCP; EyeQ section 3.4 has 1",
		.value = 3,
		.min = 1,
		.max = 1000,
	},
	[CAPACITY] = {
		.name = "capacity-ppm",
		.unit = "ppm of the uplink",
		.help = "what receivers may take of the line without ECN; 0 is refused",
		.source = "EyeQ sections 2.2 and 5.2, 10% headroom",
		.value = 900000,
		.min = 1000,
		.max = 1000000,
	},
	[DRAIN_TIMEOUT] = {
		.name = "drain-timeout",
		.unit = "ns",
		.help = "an excess no peer that obeys can cause is a queue for so long; 0: never",
		.source = "ours; switches buffer a few ms (EyeQ section 2.2), emptied at R / 2",
		.value = 20000000,
		.max = 10000000000ULL,
	},
	[ECN] = {
		.name = "ecn",
		.unit = "switch",
		.help = "1: marks cut R and the whole line is used; 0: capacity-ppm of it",
		.source = "EyeQ section 3.2",
		.max = 1,
	},
	[SAMPLE] = {
		.name = "sample-bytes",
		.unit = "bytes",
		.help = "received from a peer that may send more in T before it is told R; 0: none",
		.source = "EyeQ section 3.2",
		.value = 10000,
		.max = 1000000000,
	},
	[FEEDBACK] = {
		.name = "feedback-ppm",
		.unit = "ppm of the uplink",
		.help = "most that reports may take; 0 is refused",
		.source = "EyeQ section 3.2, 64 Mb/s on 10 Gb/s",
		.value = 6400,
		.min = 1,
		.max = 1000000,
	},
	[HEARTBEAT] = {
		.name = "heartbeat",
		.unit = "ns",
		.help = "time after which a sending peer is told R again; 0 is refused",
		.source = "ours; a fifth of the timeout, so that lost reports halve nothing",
		.value = 20000000,
		.min = 100000,
		.max = 10000000000ULL,
	},
	[FEEDBACK_TIMEOUT] = {
		.name = "feedback-timeout",
		.unit = "ns",
		.help = "time without answer after which the rate to a peer halves; 0 is refused",
		.source = "EyeQ section 3.3",
		.value = 100000000,
		.min = 1000000,
		.max = 100000000000ULL,
	},
	[RATE_MIN] = {
		.name = "rate-min",
		.unit = "bytes/s",
		.help = "no rate to a peer falls below it; 0 is refused",
		.source = "EyeQ section 3.3, 1 Mb/s",
		.value = 125000,
		.min = SHIM_RATE_MIN,
		.max = SHIM_RATE_MAX,
	},
	[IDLE_TIMEOUT] = {
		.name = "idle-timeout",
		.unit = "ns",
		.help = "time without packets after which the limiter of a peer goes; 0 is refused",
		.source = "EyeQ section 4, every few seconds",
		.value = 2000000000,
		.min = 1000000,
		.max = 1000000000000ULL,
	},
};

/* Returns how long a report takes to earn, ns. */
static u64 report_ns(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->rx_share, input->knobs[FEEDBACK], PPM);

	return shim_mul_div(REPORT_BYTES, SHIM_NSEC_PER_SEC, rate);
}

/* Returns the most that feedback may save up, as time to earn it, ns. */
static u64 credit_max(const struct shim_law_input *input)
{
	u64 least = shim_mul_div(report_ns(input), CREDIT_REPORTS_MIN, 1);

	return least > CREDIT_NS ? least : CREDIT_NS;
}

/* Returns what feedback has saved up, ns. */
static u64 credit(const struct shim_limiter_state *state, const struct shim_law_input *input)
{
	u64 saved = eyeq_over(input->now_ns, state->memory[PAID_NS]);
	u64 most = credit_max(input);

	return saved < most ? saved : most;
}

/* Sets the rate of the VM as a sender, then sees to the receiver. */
static void eyeq_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	u64 could = shim_add_sat(input->sent_rate, input->sent_rate);

	state->rate = input->share;
	state->demand = eyeq_fade(input, state->demand, could, FADE_TX);
	eyeq_receive(state, input);
}

/* Starts a limiter at its share, with all the feedback that can be saved up. */
static void eyeq_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	static const struct shim_limiter_state fresh;

	*state = fresh;
	state->rate = input->share;
	state->demand = input->capacity;
	state->rx_demand = input->capacity;
	state->memory[PAID_NS] = eyeq_over(input->now_ns, credit_max(input));
}

/* Starts a peer without a limiter. */
static void eyeq_peer_init(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	static const struct shim_peer_state fresh;

	*peer = fresh;
	peer->memory[SENT_NS] = input->now_ns;
}

/* Remembers that the peer's shim owes an answer. */
static void eyeq_tx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	peer->memory[SENT_NS] = packet->now_ns;
	if (peer->rate && !peer->memory[OWED_NS])
		peer->memory[OWED_NS] = packet->now_ns ? packet->now_ns : 1;
}

/* Counts what came; reports wait for the end of the period, when R is new. */
static void eyeq_rx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	u64 *memory = peer->memory;

	/* Its limiter may be gone meanwhile: what it was told no longer counts. */
	if (eyeq_over(packet->now_ns, memory[GOT_NS]) > shim_div(packet->knobs[IDLE_TIMEOUT], 2))
		memory[TOLD] = 0;
	memory[GOT_NS] = packet->now_ns;
	memory[GOT_BYTES] = shim_add_sat(memory[GOT_BYTES], packet->bytes);
	memory[GOT_PACKETS] = shim_add_sat(memory[GOT_PACKETS], packet->packets);
	memory[GOT_MARKS] = shim_add_sat(memory[GOT_MARKS], packet->marks);
	memory[NEW_PACKETS] = shim_add_sat(memory[NEW_PACKETS], packet->packets);
	memory[NEW_MARKS] = shim_add_sat(memory[NEW_MARKS], packet->marks);
}

/* Obeys the rate that a receiver grants. */
static void eyeq_report(struct shim_peer_state *peer, struct shim_limiter_state *state,
			const struct shim_law_input *input, const struct shim_message *report)
{
	u64 least = input->knobs[RATE_MIN];

	(void)state;
	if (report->type != SHIM_MESSAGE_REPORT || !report->rate)
		return;
	peer->rate = report->rate > least ? report->rate : least;
	peer->memory[OWED_NS] = 0;
}

/* Halves the rate to a peer that does not answer; forgets it when nobody sends to it. */
static void watch(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	u64 floor = input->peers ? shim_div(input->min, input->peers) : input->min;

	if (!peer->rate)
		return;
	if (eyeq_over(input->now_ns, peer->memory[SENT_NS]) >= input->knobs[IDLE_TIMEOUT]) {
		peer->rate = 0;
		peer->memory[OWED_NS] = 0;
		return;
	}
	if (!peer->memory[OWED_NS] ||
	    eyeq_over(input->now_ns, peer->memory[OWED_NS]) < input->knobs[FEEDBACK_TIMEOUT])
		return;
	peer->memory[OWED_NS] = 0;
	if (floor < input->knobs[RATE_MIN])
		floor = input->knobs[RATE_MIN];
	if (peer->rate > floor)
		peer->rate = peer->rate / 2 > floor ? peer->rate / 2 : floor;
}

/* Tells whether it is time to tell the peer R. */
static bool due(const struct shim_peer_state *peer, const struct shim_limiter_state *state,
		const struct shim_law_input *input)
{
	u64 rate = eyeq_advertised(state, input), told = peer->memory[TOLD];
	u64 saved = credit(state, input);
	u64 apart = rate > told ? rate - told : told - rate;
	u64 sample;

	if (!peer->memory[GOT_BYTES] || !rate || saved < report_ns(input))
		return false;
	if (!told && rate >= state->memory[LIMIT])
		return false;
	if (told && eyeq_over(input->now_ns, peer->memory[TOLD_NS]) >= input->knobs[HEARTBEAT])
		return true;
	sample = shim_mul_div(told, input->period_ns, SHIM_NSEC_PER_SEC);
	if (sample > input->knobs[SAMPLE])
		sample = input->knobs[SAMPLE];
	sample = shim_mul_div(sample, credit_max(input), saved);
	return peer->memory[GOT_BYTES] >= sample && apart > told >> SAME_SHIFT;
}

/* Fills a report to the peer and begins to count anew. */
static void tell(struct shim_peer_state *peer, struct shim_limiter_state *state,
		 const struct shim_law_input *input, struct shim_message *report)
{
	u64 *memory = peer->memory;

	report->rate = eyeq_advertised(state, input);
	report->bytes = memory[GOT_BYTES];
	report->packets = memory[GOT_PACKETS] < ~0U ? (u32)memory[GOT_PACKETS] : ~0U;
	report->marks = memory[GOT_MARKS] < ~0U ? (u32)memory[GOT_MARKS] : ~0U;
	report->interval_ns = memory[TOLD] ? eyeq_over(input->now_ns, memory[TOLD_NS]) : 0;
	memory[TOLD] = report->rate;
	memory[TOLD_NS] = input->now_ns;
	memory[GOT_BYTES] = 0;
	memory[GOT_PACKETS] = 0;
	memory[GOT_MARKS] = 0;
	state->memory[PAID_NS] = shim_add_sat(eyeq_over(input->now_ns, credit(state, input)),
					      report_ns(input));
}

/* Watches over the peer's limiter, adds its packets to the VM's, and tells it R if that is due. */
static bool eyeq_peer_period(struct shim_peer_state *peer, struct shim_limiter_state *state,
			     const struct shim_law_input *input, struct shim_message *report)
{
	watch(peer, input);
	if (!state)
		return false;
	state->memory[SEEN] = shim_add_sat(state->memory[SEEN], peer->memory[NEW_PACKETS]);
	state->memory[MARKED] = shim_add_sat(state->memory[MARKED], peer->memory[NEW_MARKS]);
	peer->memory[NEW_PACKETS] = 0;
	peer->memory[NEW_MARKS] = 0;
	if (!due(peer, state, input))
		return false;
	tell(peer, state, input, report);
	return true;
}

const struct shim_law shim_law_eyeq = {
	.name = "eyeq",
	.knobs = knobs,
	.n_knobs = SHIM_COUNT(knobs),
	.wants = SHIM_LAW_PEERS | SHIM_LAW_RECEIVER,
	.period_ns = 200000,
	.init = eyeq_init,
	.on_period = eyeq_period,
	.peer_init = eyeq_peer_init,
	.on_tx = eyeq_tx,
	.on_rx = eyeq_rx,
	.on_report = eyeq_report,
	.on_peer_period = eyeq_peer_period,
};
