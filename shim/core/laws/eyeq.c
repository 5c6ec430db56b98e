// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law eyeq: EyeQ, sections 3.2 to 3.4 and 4.  Receivers grant rates, senders obey them.
 *
 * T is the period, B a VM's weight or guarantee, y what it received over as many T as 64 packets
 * take at C, one at least.
 *
 *   receiver, each VM:
 *     C = part * max(uplink divided by B among the VMs that receive, by what they could; W)
 *     W = uplink divided by B among these, whatever they could: the VM's own, lent while unused
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
 *   receiver, literal = 1, each VM with y > 0 in this T:
 *     C = part * (uplink divided by B among the VMs with y > 0 in the T before), or what it was
 *         when the VM last was among them
 *     R = R * (1 - a * (y - C) / C) within [rate-min, uplink],   C at first
 *
 *   sender:
 *     R(VM) = E, max(uplink divided by B, by what VMs could send; the same whatever they could):
 *     work-conserving WRR
 *     R(VM, peer) = the rate told; none before that, and none after idle-timeout without packets
 *     feedback-timeout after a packet to the peer that nobody answered:
 *       R(VM, peer) = max(R(VM, peer) / 2, floor),  unless it was lower
 *       floor = max(rate-min, guarantee / peers)
 *
 * Deviations from the paper, and why (docs/laws.md):
 * - With section 3.2's C = B / (sum of active B) * uplink nobody gets what an active VM leaves, as
 *   Fig. 1 has it.  So C is a weighted max-min share by demand, at the sender as at the receiver.
 *   Who has all he may could use twice that, others what they have, and a little more unless their
 *   own part has room for that; demand fades.
 * - Requests come in bunches: over a T they are far more than in the mean, which is what demand
 *   follows.  So what a VM lends it keeps the right to, as guarantees are lent: it may exceed what
 *   is left of the line for some T, which the part not given out and the line's queue take, until
 *   demand has risen and borrowers have heard of it.
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
 * literal = 1 undoes those of what receivers compute.  What remains is what the paper leaves open:
 * y is that of one T, and a sender is told as above.
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

/* What the law keeps of a peer; counts of packets stop at U32_MAX, the most that a report tells. */
struct eyeq_peer {
	u64 got_ns;		/* time of the last packet from the peer */
	u64 got_bytes;		/* from the peer since the last report to it */
	u64 told;		/* R of the last report to it, bytes/s; 0: none */
	u64 told_ns;		/* time of that report */
	u64 owed_ns;		/* time of the first packet to it since its last report; 0: none */
	u64 sent_ns;		/* time of the last packet to the peer */
	u32 got_packets;	/* from the peer since the last report to it */
	u32 got_marks;		/* of these, with CE */
	u32 new_packets;	/* from the peer in this period */
	u32 new_marks;		/* of these, with CE */
};

static const struct shim_knob eyeq_knobs[] = {
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
#ifdef SHIM_LABORATORY
	[LITERAL] = {
		.name = "literal",
		.unit = "switch",
		.help = "1: C by weight alone, R corrected each T by y of that T alone; 0: mended",
		.source = "EyeQ sections 3.2 and 3.4",
		.value = 0,
		.min = 0,
		.max = 1,
	},
#endif
};

/* Returns how long a report takes to earn, ns. */
static u64 eyeq_report_ns(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->rx_share, input->knobs[FEEDBACK], SHIM_PPM);

	return shim_mul_div(REPORT_BYTES, SHIM_NSEC_PER_SEC, rate);
}

/* Returns the most that feedback may save up, as time to earn it, ns. */
static u64 eyeq_credit_max_ns(const struct shim_law_input *input)
{
	u64 least = shim_mul_div(eyeq_report_ns(input), CREDIT_REPORTS_MIN, 1);

	return least > CREDIT_NS ? least : CREDIT_NS;
}

/* Returns what feedback has saved up, ns. */
static u64 eyeq_credit_ns(const struct eyeq_limiter *own, const struct shim_law_input *input)
{
	u64 saved = shim_sub_sat(input->now_ns, own->paid_ns);
	u64 most = eyeq_credit_max_ns(input);

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
	struct eyeq_limiter *own = shim_limiter_own(state);

	state->rate = input->share;
	state->demand = input->capacity;
	state->rx_demand = input->capacity;
	own->paid_ns = shim_sub_sat(input->now_ns, eyeq_credit_max_ns(input));
}

/* Starts a peer without a limiter. */
static void eyeq_peer_init(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	struct eyeq_peer *own = shim_peer_own(peer);

	own->sent_ns = input->now_ns;
}

/* Remembers that the peer's shim owes an answer. */
static void eyeq_tx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct eyeq_peer *own = shim_peer_own(peer);

	own->sent_ns = packet->now_ns;
	if (peer->rate && !own->owed_ns)
		own->owed_ns = shim_stamp(packet->now_ns);
}

/* Counts what came; reports wait for the end of the period, when R is new. */
static void eyeq_rx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct eyeq_peer *own = shim_peer_own(peer);
	u64 pause = shim_sub_sat(packet->now_ns, own->got_ns);

	/* Its limiter may be gone meanwhile: what it was told no longer counts. */
	if (pause > shim_div(packet->knobs[IDLE_TIMEOUT], 2))
		own->told = 0;
	own->got_ns = packet->now_ns;
	own->got_bytes = shim_add_sat(own->got_bytes, packet->bytes);
	own->got_packets = shim_add_sat32(own->got_packets, packet->packets);
	own->got_marks = shim_add_sat32(own->got_marks, packet->marks);
	own->new_packets = shim_add_sat32(own->new_packets, packet->packets);
	own->new_marks = shim_add_sat32(own->new_marks, packet->marks);
}

/* Obeys the rate that a receiver grants. */
static void eyeq_report(struct shim_peer_state *peer, struct shim_limiter_state *state,
			const struct shim_law_input *input, const struct shim_message *report)
{
	struct eyeq_peer *own = shim_peer_own(peer);
	u64 least = input->knobs[RATE_MIN];

	(void)state;
	if (report->type != SHIM_MESSAGE_REPORT || !report->rate)
		return;
	peer->rate = report->rate > least ? report->rate : least;
	own->owed_ns = 0;
}

/* Halves the rate to a peer that does not answer; forgets it when nobody sends to it. */
static void eyeq_watch(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	u64 floor = input->peers ? shim_div(input->min, input->peers) : input->min;
	struct eyeq_peer *own = shim_peer_own(peer);

	if (!peer->rate)
		return;
	if (shim_sub_sat(input->now_ns, own->sent_ns) >= input->knobs[IDLE_TIMEOUT]) {
		peer->rate = 0;
		own->owed_ns = 0;
		return;
	}
	if (!own->owed_ns ||
	    shim_sub_sat(input->now_ns, own->owed_ns) < input->knobs[FEEDBACK_TIMEOUT])
		return;
	own->owed_ns = 0;
	if (floor < input->knobs[RATE_MIN])
		floor = input->knobs[RATE_MIN];
	if (peer->rate > floor)
		peer->rate = peer->rate / 2 > floor ? peer->rate / 2 : floor;
}

/* Tells whether it is time to tell the peer R. */
static bool eyeq_report_due(const struct eyeq_peer *own, const struct eyeq_limiter *limiter,
			    const struct shim_law_input *input)
{
	u64 rate = eyeq_advertised(limiter, input), told = own->told;
	u64 saved = eyeq_credit_ns(limiter, input);
	u64 apart = rate > told ? rate - told : told - rate;
	u64 sample;

	if (!own->got_bytes || !rate || !limiter->limit || saved < eyeq_report_ns(input))
		return false;
	if (!told && rate >= limiter->limit && !eyeq_literal(input->knobs))
		return false;
	if (told && shim_sub_sat(input->now_ns, own->told_ns) >= input->knobs[HEARTBEAT])
		return true;
	sample = shim_mul_div(told, input->period_ns, SHIM_NSEC_PER_SEC);
	if (sample > input->knobs[SAMPLE])
		sample = input->knobs[SAMPLE];
	sample = shim_mul_div(sample, eyeq_credit_max_ns(input), saved);
	return own->got_bytes >= sample && apart > told >> SAME_SHIFT;
}

/* Fills a report to the peer and begins to count anew. */
static void eyeq_tell(struct eyeq_peer *own, struct eyeq_limiter *limiter,
		      const struct shim_law_input *input, struct shim_message *report)
{
	u64 paid_ns = shim_sub_sat(input->now_ns, eyeq_credit_ns(limiter, input));

	report->rate = eyeq_advertised(limiter, input);
	report->bytes = own->got_bytes;
	report->packets = own->got_packets;
	report->marks = own->got_marks;
	report->interval_ns = own->told ? shim_sub_sat(input->now_ns, own->told_ns) : 0;
	own->told = report->rate;
	own->told_ns = input->now_ns;
	own->got_bytes = 0;
	own->got_packets = 0;
	own->got_marks = 0;
	limiter->paid_ns = shim_add_sat(paid_ns, eyeq_report_ns(input));
}

/* Watches over the peer's limiter, adds its packets to the VM's, and tells it R if that is due. */
static bool eyeq_peer_period(struct shim_peer_state *peer, struct shim_limiter_state *state,
			     const struct shim_law_input *input, struct shim_message *report)
{
	struct eyeq_peer *own = shim_peer_own(peer);
	struct eyeq_limiter *limiter;

	eyeq_watch(peer, input);
	if (!state)
		return false;
	limiter = shim_limiter_own(state);
	limiter->seen = shim_add_sat32(limiter->seen, own->new_packets);
	limiter->marked = shim_add_sat32(limiter->marked, own->new_marks);
	own->new_packets = 0;
	own->new_marks = 0;
	if (!eyeq_report_due(own, limiter, input))
		return false;
	if (!report)
		return true;
	eyeq_tell(own, limiter, input, report);
	return true;
}

/*
 * Tells whether the peer has been silent for so long that what it must be told can wait for its
 * next packet.  What silence does to the rate to it is a matter of time, and done with that packet
 * too.
 */
static bool eyeq_peer_rests(const struct shim_peer_state *peer, const struct shim_law_input *input)
{
	const struct eyeq_peer *own = shim_peer_own_const(peer);

	return !own->new_packets &&
	       (!own->got_bytes ||
		shim_sub_sat(input->now_ns, own->got_ns) >= 2 * input->knobs[HEARTBEAT]);
}

const struct shim_law shim_law_eyeq = {
	.name = "eyeq",
	.knobs = eyeq_knobs,
	.n_knobs = SHIM_COUNT(eyeq_knobs),
	.wants = SHIM_LAW_PEERS | SHIM_LAW_RECEIVER,
	.lends = SHIM_LENDS_SENT | SHIM_LENDS_RECEIVED,
	.period_ns = 200000,
	.limiter_size = sizeof(struct eyeq_limiter),
	.peer_size = sizeof(struct eyeq_peer),
	.init = eyeq_init,
	.on_period = eyeq_period,
	.peer_init = eyeq_peer_init,
	.on_tx = eyeq_tx,
	.on_rx = eyeq_rx,
	.on_report = eyeq_report,
	.on_peer_period = eyeq_peer_period,
	.peer_rests = eyeq_peer_rests,
};
