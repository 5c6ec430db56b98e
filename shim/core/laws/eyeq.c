// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law eyeq: EyeQ, sections 3.2 to 3.4 and 4.  Receivers grant rates, senders obey them.
 *
 * T is the period, B a VM's weight or guarantee, y what it received over the last T.
 *
 *   receiver, each VM:
 *     C = B / (sum of B of the VMs that receive) * uplink * part
 *     part = 1 with knob ecn, else capacity-ppm: 90%
 *     each k T with y > 0:
 *       R = R * (1 - a * (y - C) / C)
 *       R = R / 2 at most              if y >= C * (1 + saturated-ppm)
 *       R = R * (1 - f / 2) at most    with knob ecn, if the part f of the packets came with CE
 *       within [max(R / 4, rate-min), C]
 *     told to a peer: after sample-bytes from it, if R is not what it was told last, and each
 *     heartbeat while it sends; never before R < C once
 *
 *   sender:
 *     R(VM) = E, the uplink divided by B and by what each VM sends: work-conserving WRR
 *     R(VM, peer) = the rate told; none before that, and none after idle-timeout without packets
 *     feedback-timeout after a packet to the peer that nobody answered:
 *       R(VM, peer) = max(R(VM, peer) / 2, floor),  unless it was lower
 *       floor = max(rate-min, guarantee / peers)
 *
 * Deviations from the paper, and why (docs/laws.md):
 * - A correction takes effect a round trip, and what waits in the sender's limiter, after it was
 *   made.  RCP divides its gain by that delay; correcting every k-th period does the same and lets
 *   a correction be seen before the next.  With a correction each T and 2 T of delay, gains above
 *   0.6 never settle.
 * - A meter behind a line reads at most the line: (y - C) / C is 0.11 with 2 senders at line rate
 *   and with 32, and 32 would take 60 corrections.  A reading near the line says only "too much":
 *   hence the halving.
 * - R grows to C at most: nobody could use more, and a lone burst then begins at C and not at the
 *   line.
 * - Feedback is 150 bytes, not 64.  A token bucket, feedback-ppm of the VM's part of the uplink
 *   over 10 ms, holds it to the paper's 64 Mb/s of 10 Gb/s; as it empties the sample grows, so that
 *   no peer is left out for long.
 * - Silence counts from a packet that should have been answered: a VM that says nothing is owed
 *   nothing.
 *
 * All arithmetic saturates.  The worst a mad report does is to put one peer's rate at rate-min.
 */
#include "../arith.h"
#include "../law.h"

/* Denominator of the knobs that are parts. */
#define PPM 1000000ULL

/* A report on the wire: Ethernet with FCS, IPv6, message; rounded up. */
#define REPORT_BYTES 160ULL

/* The feedback bucket holds what it earns in this time, ns, and no less than some reports. */
#define CREDIT_NS 10000000ULL
#define CREDIT_REPORTS_MIN 4ULL

/* Least that a correction leaves of R, as a divisor. */
#define CUT_MAX 4

/* Rates that differ by less than this part, as a shift, are not worth a report. */
#define SAME_SHIFT 6

/* Indices into the knobs. */
enum {
	GAIN,
	REACT,
	CAPACITY,
	SATURATED,
	ECN,
	SAMPLE,
	FEEDBACK,
	HEARTBEAT,
	FEEDBACK_TIMEOUT,
	RATE_MIN,
	IDLE_TIMEOUT,
};

/* Indices into struct shim_law_state's memory: the VM as a receiver. */
enum {
	GRANT,		/* R, bytes/s; 0: nothing received yet */
	LIMIT,		/* C, bytes/s */
	STEP_NS,	/* time of the last correction */
	SEEN,		/* packets received since then */
	MARKED,		/* of these, with CE */
	CREDIT,		/* feedback that may be sent, bytes */
	CREDITED_NS,	/* time of the last earning */
};

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
	[SATURATED] = {
		.name = "saturated-ppm",
		.unit = "ppm of C",
		.help = "excess of a meter that reads no more than the line: R halves; 0: never",
		.source = "ours",
		.value = 60000,
		.min = 0,
		.max = 10000000,
	},
	[ECN] = {
		.name = "ecn",
		.unit = "switch",
		.help = "1: marks cut R and the whole line is used; 0: capacity-ppm of it",
		.source = "EyeQ section 3.2",
		.value = 0,
		.min = 0,
		.max = 1,
	},
	[SAMPLE] = {
		.name = "sample-bytes",
		.unit = "bytes",
		.help = "received from a peer before it is told a new R; 0: none",
		.source = "EyeQ section 3.2",
		.value = 10000,
		.min = 0,
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

/* Returns a - b, 0 if b is more: a time since another whose clock may go back, or an excess. */
static u64 over(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Returns C: what the VM may receive, bytes/s. */
static u64 receive_limit(const struct shim_law_input *input)
{
	if (input->knobs[ECN])
		return input->rx_share;
	return shim_mul_div(input->rx_share, input->knobs[CAPACITY], PPM);
}

/* Returns what the feedback bucket holds when full, bytes. */
static u64 credit_max(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->rx_share, input->knobs[FEEDBACK], PPM);
	u64 bytes = shim_mul_div(rate, CREDIT_NS, SHIM_NSEC_PER_SEC);

	return bytes > CREDIT_REPORTS_MIN * REPORT_BYTES ? bytes : CREDIT_REPORTS_MIN * REPORT_BYTES;
}

/* Lets the feedback bucket earn for the time since it last did. */
static void earn(struct shim_law_state *state, const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->rx_share, input->knobs[FEEDBACK], PPM);
	u64 more = shim_mul_div(rate, over(input->now_ns, state->memory[CREDITED_NS]),
				SHIM_NSEC_PER_SEC);
	u64 most = credit_max(input);

	/* Less than a byte: let the time add up. */
	if (more || input->now_ns < state->memory[CREDITED_NS])
		state->memory[CREDITED_NS] = input->now_ns;
	state->memory[CREDIT] = shim_add_sat(state->memory[CREDIT], more);
	if (state->memory[CREDIT] > most)
		state->memory[CREDIT] = most;
}

/* Returns the part of R to take back, ppm, when y exceeds limit or marks came. */
static u64 cut_ppm(const struct shim_law_state *state, const struct shim_law_input *input,
		   u64 limit)
{
	u64 excess = over(input->rx_rate, limit);
	u64 cut = shim_mul_div(input->knobs[GAIN], excess, limit);
	u64 saturated = shim_mul_div(limit, input->knobs[SATURATED], PPM);
	u64 marked;

	if (input->knobs[SATURATED] && excess && excess >= saturated && cut < PPM / 2)
		cut = PPM / 2;
	if (input->knobs[ECN] && state->memory[SEEN]) {
		marked = shim_mul_div(PPM / 2, state->memory[MARKED], state->memory[SEEN]);
		if (cut < marked)
			cut = marked;
	}
	return cut < PPM - PPM / CUT_MAX ? cut : PPM - PPM / CUT_MAX;
}

/* Returns the rate within [rate-min, limit]; limit if that is less than rate-min. */
static u64 grant(const struct shim_law_input *input, u64 rate, u64 limit)
{
	if (rate < input->knobs[RATE_MIN])
		rate = input->knobs[RATE_MIN];
	return rate < limit ? rate : limit;
}

/* Corrects R by what was received. */
static void correct(struct shim_law_state *state, const struct shim_law_input *input, u64 limit)
{
	u64 rate = state->memory[GRANT];
	u64 cut = cut_ppm(state, input, limit);
	u64 raise;

	if (cut) {
		rate -= shim_mul_div(rate, cut, PPM);
	} else {
		raise = shim_mul_div(input->knobs[GAIN], over(limit, input->rx_rate), limit);
		rate = shim_add_sat(rate, shim_mul_div(rate, raise, PPM));
	}
	state->memory[GRANT] = grant(input, rate, limit);
	state->memory[SEEN] = 0;
	state->memory[MARKED] = 0;
	state->memory[STEP_NS] = input->now_ns;
}

/* Follows the receiver's part and corrects R when it is time. */
static void receive(struct shim_law_state *state, const struct shim_law_input *input)
{
	u64 limit = receive_limit(input);
	u64 wait_ns = shim_mul_div(input->knobs[REACT], input->period_ns, 1) -
		      shim_div(input->period_ns, 2);

	state->memory[LIMIT] = limit;
	if (!limit)
		return;
	earn(state, input);
	state->memory[GRANT] = grant(input, state->memory[GRANT] ? state->memory[GRANT] : limit,
				     limit);
	if (input->rx_rate && (!state->memory[STEP_NS] ||
			       over(input->now_ns, state->memory[STEP_NS]) >= wait_ns))
		correct(state, input, limit);
	state->congested = state->memory[GRANT] < limit;
}

/* Sets the rate of the VM as a sender, then sees to the receiver. */
static void eyeq_period(struct shim_law_state *state, const struct shim_law_input *input)
{
	state->rate = input->share;
	receive(state, input);
}

/* Starts a limiter at its share, with a full feedback bucket. */
static void eyeq_init(struct shim_law_state *state, const struct shim_law_input *input)
{
	static const struct shim_law_state fresh;

	*state = fresh;
	state->rate = input->share;
	state->memory[CREDIT] = credit_max(input);
	state->memory[CREDITED_NS] = input->now_ns;
}

/* Obeys no controller: rates come from the receivers. */
static void eyeq_message(struct shim_law_state *state, const struct shim_law_input *input,
			 const struct shim_message *message)
{
	(void)state;
	(void)input;
	(void)message;
}

/* Starts a peer without a limiter. */
static void eyeq_peer_init(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	static const struct shim_peer_state fresh;

	*peer = fresh;
	peer->memory[SENT_NS] = input->now_ns;
}

/* Remembers that the peer's shim owes an answer. */
static void eyeq_tx(struct shim_peer_state *peer, struct shim_packet *packet)
{
	peer->memory[SENT_NS] = packet->now_ns;
	if (peer->rate && !peer->memory[OWED_NS])
		peer->memory[OWED_NS] = packet->now_ns ? packet->now_ns : 1;
}

/* Counts what came; reports wait for the end of the period, when R is new. */
static bool eyeq_rx(struct shim_peer_state *peer, struct shim_packet *packet,
		    struct shim_message *report)
{
	u64 *memory = peer->memory;

	(void)report;
	/* Its limiter may be gone meanwhile: what it was told no longer counts. */
	if (over(packet->now_ns, memory[GOT_NS]) > shim_div(packet->knobs[IDLE_TIMEOUT], 2))
		memory[TOLD] = 0;
	memory[GOT_NS] = packet->now_ns;
	memory[GOT_BYTES] = shim_add_sat(memory[GOT_BYTES], packet->bytes);
	memory[GOT_PACKETS] = shim_add_sat(memory[GOT_PACKETS], packet->packets);
	memory[GOT_MARKS] = shim_add_sat(memory[GOT_MARKS], packet->marks);
	memory[NEW_PACKETS] = shim_add_sat(memory[NEW_PACKETS], packet->packets);
	memory[NEW_MARKS] = shim_add_sat(memory[NEW_MARKS], packet->marks);
	return false;
}

/* Obeys the rate that a receiver grants. */
static void eyeq_report(struct shim_peer_state *peer, struct shim_law_state *state,
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
	if (over(input->now_ns, peer->memory[SENT_NS]) >= input->knobs[IDLE_TIMEOUT]) {
		peer->rate = 0;
		peer->memory[OWED_NS] = 0;
		return;
	}
	if (!peer->memory[OWED_NS] ||
	    over(input->now_ns, peer->memory[OWED_NS]) < input->knobs[FEEDBACK_TIMEOUT])
		return;
	peer->memory[OWED_NS] = 0;
	if (floor < input->knobs[RATE_MIN])
		floor = input->knobs[RATE_MIN];
	if (peer->rate > floor)
		peer->rate = peer->rate / 2 > floor ? peer->rate / 2 : floor;
}

/* Tells whether it is time to tell the peer R. */
static bool due(const struct shim_peer_state *peer, const struct shim_law_state *state,
		const struct shim_law_input *input)
{
	u64 rate = state->memory[GRANT], told = peer->memory[TOLD];
	u64 apart = rate > told ? rate - told : told - rate;
	u64 sample;

	if (!peer->memory[GOT_BYTES] || state->memory[CREDIT] < REPORT_BYTES)
		return false;
	if (!told && rate >= state->memory[LIMIT])
		return false;
	if (told && over(input->now_ns, peer->memory[TOLD_NS]) >= input->knobs[HEARTBEAT])
		return true;
	sample = shim_mul_div(input->knobs[SAMPLE], credit_max(input), state->memory[CREDIT]);
	return peer->memory[GOT_BYTES] >= sample && apart > told >> SAME_SHIFT;
}

/* Fills a report to the peer and begins to count anew. */
static void tell(struct shim_peer_state *peer, struct shim_law_state *state,
		 const struct shim_law_input *input, struct shim_message *report)
{
	u64 *memory = peer->memory;

	report->rate = state->memory[GRANT];
	report->bytes = memory[GOT_BYTES];
	report->packets = memory[GOT_PACKETS] < ~0U ? (u32)memory[GOT_PACKETS] : ~0U;
	report->marks = memory[GOT_MARKS] < ~0U ? (u32)memory[GOT_MARKS] : ~0U;
	report->interval_ns = memory[TOLD] ? over(input->now_ns, memory[TOLD_NS]) : 0;
	memory[TOLD] = state->memory[GRANT];
	memory[TOLD_NS] = input->now_ns;
	memory[GOT_BYTES] = 0;
	memory[GOT_PACKETS] = 0;
	memory[GOT_MARKS] = 0;
	state->memory[CREDIT] -= REPORT_BYTES;
}

/* Watches over the peer's limiter, adds its packets to the VM's, and tells it R if that is due. */
static bool eyeq_peer_period(struct shim_peer_state *peer, struct shim_law_state *state,
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
	.wants = SHIM_LAW_PEERS | SHIM_LAW_RECEIVER | SHIM_LAW_DEMAND,
	.period_ns = 200000,
	.init = eyeq_init,
	.on_message = eyeq_message,
	.on_period = eyeq_period,
	.peer_init = eyeq_peer_init,
	.on_tx = eyeq_tx,
	.on_rx = eyeq_rx,
	.on_report = eyeq_report,
	.on_peer_period = eyeq_peer_period,
};
