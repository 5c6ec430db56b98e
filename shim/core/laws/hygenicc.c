// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law hygenicc: HyGenICC, Algorithms 1 (sender) and 2 (receiver), section V.
 *
 * Hypervisors tell each other of CE marks, without a controller.  T is the period, C the uplink's
 * capacity, E the VM's share, w its weight, W the sum of weights expected to share a port, F the
 * bytes of the VM's full packets.
 *
 * Receiver, for each address the VM hears from:
 *
 *   packet with CE:      owed += 1
 *   packet to it:        echo bit = owed > 0;  owed -= 1 if set
 *   each T:              report owed marks once the first of them is Feedback_Timeout old
 *
 * Sender, where m is the marks echoed and reported by all addresses since the last T:
 *
 *   start:               R = E
 *   each T, m > 0:       R = max(floor, R - min(cut, cut-most * R))
 *                        cut = m * F / mark-rtt + step-slow * C * w/W * f
 *                        f = m * F / (R * T), the part of what R allows that was marked
 *   each T:              R = min(E, R + step)
 *                        step = slow        silence < T_c, or slow * silence / T < regain * R_m
 *                        step = min(step-fast * C * w/W * 2^k, step-max * C)             else
 *                        slow = step-slow * C * w/W,   k = silence / T_c - 1,
 *                        R_m = R after the last cut
 *   floor = min(E, max(guarantee, rmin * E))
 *
 * With literal = 1, as the paper has it but for what its slips would do to it:
 *
 *   receiver:            report owed marks once neither echo nor report left for Feedback_Timeout
 *   each T, m > 0:       R = max(floor, R - m * F / mark-rtt)
 *   each T, m = 0:       R = min(E, R + F / mark-rtt)     lines 20 and 25 have one step
 *
 * A mark costs one full packet per mark-rtt, which is the text's reading of scale(): a single
 * packet's transmission over a single RTT.  A VM all of whose packets are marked thus loses its
 * rate with time constant mark-rtt whatever C, T and R, and marks fall on VMs by what they send,
 * so the cut is multiplicative and the step additive: rates move towards the ratio of the weights.
 * On a simulated link with 4, 16 and 32 greedy senders the defaults use 0.94 to 0.97 of C, with
 * Jain 0.999 and 99% of the queue below 85 KB.  Half the mark-rtt uses 0.90 of C; with twice the
 * step 32 senders fill the queue and what they lose is not marked.
 *
 * Marks go on for d, the time that a cut takes to show: they wait for Feedback_Timeout, packets in
 * limiters for the horizon, and the port has a queue to send.  So the rates of a full port swing:
 * each burst of marks takes some d / mark-rtt of R, with d = 8 ms a fifth, and slow steps need
 * R / 4 * T / slow of silence to bring that back, 104 ms for one of four VMs, 208 for one of two.
 * That is no end of the congestion, however short T_c is: with fast steps by then the queue grows
 * by half as much again before cuts show, hence regain; but after 10 T_c silence is one, or small
 * weights would stay low for seconds.
 *
 * The echo bit is the reserved bit of the IPv4 header.  It belongs to the shims on the way: the
 * sender's shim overwrites what a VM put there, so a VM's own bit is no feedback and is not
 * delivered, and the receiver's shim clears it.  IPv6 has no such bit: all marks go by report, as
 * with echo = 0 where middleboxes drop packets that carry it.  Nothing authenticates the bit, so
 * echoes count only up to the number of packets lately sent to the one who echoes: the worst a
 * forger on the path does is what marking every packet would do.
 *
 * Deviations from the paper, and why:
 * - Algorithm 1, line 22 has feedback >= 0, which makes its else dead: feedback > 0.  Line 25
 *   clears the feedback only where there was none; it must be cleared once it is used.
 * - Line 26 has a floor of 0, from which a TCP cannot send what would tell it of better times.
 * - Algorithm 2 restarts Feedback_Timeout at each echo, so a steady trickle of echoes (a TCP
 *   acknowledges every second packet) holds the rest back for ever.  It runs from the first mark
 *   owed; and the scan of the text, not the next arrival, sends the report.
 * - Lines 20 and 25 take the same step; the text grows fast only after Congestion_Timeout.
 * - Lines 22 to 25 let a period with any mark have no step.  Echoes come in many periods and
 *   reports in few, so who is echoed would climb less often: a TCP got 14% less than UDP whose
 *   marks were reported.  f takes of the step what was marked, however marks are bundled.
 * - A late report may bring many marks at once: they cost at most cut-most of R.
 * literal = 1 keeps the first of these, without which no cut would end, and undoes those of
 * Algorithm 2, of steps and of f; the others have knobs.
 *
 * All arithmetic saturates: the worst a mad report does is to cut R once by cut-most.
 */
#include "../arith.h"
#include "../climb.h"
#include "../laboratory.h"
#include "../law.h"

/* Periods over which the number of packets that may be echoed fades: 32 ms with the default T. */
#define ECHO_PERIODS 64

/* Indices into the knobs. */
enum {
	ECHO,
	FEEDBACK_TIMEOUT,
	MARK_RTT,
	CUT_MOST,
	CONGESTION_TIMEOUT,
	STEP_SLOW,
	STEP_FAST,
	STEP_MAX,
	STEP_SHARERS,
	REGAIN,
	RMIN,
	LITERAL,		/* laboratory build */
};

/* What the law keeps of a limiter. */
struct hygenicc_limiter {
	struct shim_climb_state climb;	/* since the last step */
	u64 marks;		/* told of by peers since the last period */
	u64 cut_to;		/* R after the last cut, bytes/s */
};

/* What the law keeps of a peer; counts stop at U32_MAX, more than a report can tell. */
struct hygenicc_peer {
	u64 owed_ns;		/* when the first of those owed came; literal: when one was told */
	u64 report_ns;		/* time of the last report */
	u64 rx_bytes;		/* received since the last report */
	u32 rx_packets;		/* the same in packets */
	u32 owed;		/* CE marks received that the peer has not been told of */
	u32 echoable;		/* packets lately sent that no echo has answered */
	u32 echoed;		/* marks the peer echoed since the last period */
};

static const struct shim_knob hygenicc_knobs[] = {
	[ECHO] = {
		.name = "echo",
		.unit = "switch",
		.help = "1: marks return in the IPv4 reserved bit, the rest by report; 0: all so",
		.source = "HyGenICC section IV.B; 0 is ours, for middleboxes that drop the bit",
		.value = 1,
		.min = 0,
		.max = 1,
	},
	[FEEDBACK_TIMEOUT] = {
		.name = "feedback-timeout",
		.unit = "ns",
		.help = "age of an owed mark at which a report is due; 0: at the next period",
		.source = "HyGenICC Algorithm 2; section V.B, \"close to an RTT\"",
		.value = 1000000,
		.min = 0,
		.max = 1000000000,
	},
	[MARK_RTT] = {
		.name = "mark-rtt",
		.unit = "ns",
		.help = "a mark cuts by a full packet per this time; 0 is refused",
		.source = "HyGenICC section V.A.2, scale(); there 100 us to 10 ms",
		.value = 40000000,
		.min = 10000,
		.max = 10000000000ULL,
	},
	[CUT_MOST] = {
		.name = "cut-most-ppm",
		.unit = "ppm of rate",
		.help = "largest cut in one period; 0: no bound but the floor",
		.source = "ours; 0 is HyGenICC Algorithm 1, line 23",
		.value = 500000,
		.min = 0,
		.max = 1000000,
	},
	[CONGESTION_TIMEOUT] = {
		.name = "congestion-timeout",
		.unit = "ns",
		.help = "T_c: silence after which congestion is over; 0 is refused",
		.source = "HyGenICC Algorithm 1, line 17; the value is ours, it gives none",
		.value = 50000000,
		.min = 100000,
		.max = 10000000000ULL,
	},
	[STEP_SLOW] = {
		.name = "step-slow-ppm",
		.unit = "ppm of capacity",
		.help = "step up each period, over all sharers, until T_c; 0: none",
		.source = "HyGenICC Algorithm 1, line 25; section V.A.2, \"conservatively\"",
		.value = 1200,
		.min = 0,
		.max = 1000000,
	},
	[STEP_FAST] = {
		.name = "step-fast-ppm",
		.unit = "ppm of capacity",
		.help = "step up each period, over all sharers, after T_c; 0 is refused",
		.source = "HyGenICC Algorithm 1, line 20; section V.A.2, \"increased fast\"",
		.value = 4800,
		.min = 1,
		.max = 1000000,
	},
	[STEP_MAX] = {
		.name = "step-max-ppm",
		.unit = "ppm of capacity",
		.help = "bound of a VM's fast step, which doubles each T_c; 0: no doubling",
		.source = "ours",
		.value = 20000,
		.min = 0,
		.max = 1000000,
	},
	[STEP_SHARERS] = {
		.name = "step-sharers",
		.unit = "weight",
		.help = "W, the weights expected to share a port; 0 is refused",
		.source = "ours",
		.value = 4,
		.min = 1,
		.max = 1000000,
	},
	[REGAIN] = {
		.name = "regain-ppm",
		.unit = "ppm of rate",
		.help = "fast steps wait until slow ones have raised R so much; 0: for T_c alone",
		.source = "ours",
		.value = 300000,
		.min = 0,
		.max = 1000000,
	},
	[RMIN] = {
		.name = "rmin-ppm",
		.unit = "ppm of share",
		.help = "R_min: marks cut no further; 0: down to the VM's guarantee",
		.source = "ours; HyGenICC Algorithm 1, line 26 has 0",
		.value = 10000,
		.min = 0,
		.max = 1000000,
	},
#ifdef SHIM_LABORATORY
	[LITERAL] = {
		.name = "literal",
		.unit = "switch",
		.help = "1: no step in a period with marks, else what a mark takes; 0: mended",
		.source = "HyGenICC Algorithms 1 and 2",
		.value = 0,
		.min = 0,
		.max = 1,
	},
#endif
};

/* Tells whether steps and cuts are as published. */
static bool hygenicc_literal(const u64 *knobs)
{
	return shim_laboratory_knob(knobs, LITERAL, 0);
}

/* Returns what so many marks cut, in bytes/s: scale() of the paper for one. */
static u64 hygenicc_scale(const struct shim_law_input *input, u64 marks)
{
	return shim_mul_div(shim_mul_div(marks, input->frame, 1), SHIM_NSEC_PER_SEC,
			    input->knobs[MARK_RTT]);
}

/* Returns a step in bytes/s for one period: this VM's part of ppm of the capacity. */
static u64 hygenicc_step_rate(const struct shim_law_input *input, u64 ppm)
{
	if (hygenicc_literal(input->knobs))
		return hygenicc_scale(input, 1);
	return shim_mul_div(shim_mul_div(input->capacity, ppm, SHIM_PPM), input->weight,
			    input->knobs[STEP_SHARERS]);
}

/*
 * Returns the cut in bytes/s for marks told of in one period; slow is what of the step of a period
 * a VM loses all of whose packets were marked.
 */
static u64 hygenicc_cut_rate(const struct shim_limiter_state *state,
			     const struct shim_law_input *input, u64 marks, u64 slow)
{
	u64 bytes = shim_mul_div(marks, input->frame, 1);
	u64 allowed = shim_mul_div(state->rate, input->period_ns, SHIM_NSEC_PER_SEC);
	u64 most = shim_mul_div(state->rate, input->knobs[CUT_MOST], SHIM_PPM);
	u64 less = shim_add_sat(hygenicc_scale(input, marks), shim_mul_div(slow, bytes, allowed));

	return input->knobs[CUT_MOST] && less > most ? most : less;
}

/* Tells whether slow steps have yet to bring back what the last burst of marks may have taken. */
static bool hygenicc_regains(const struct shim_limiter_state *state,
			     const struct shim_law_input *input, u64 slow)
{
	const struct hygenicc_limiter *own = shim_limiter_own_const(state);
	struct shim_regain regain = {
		.timeout_ns = input->knobs[CONGESTION_TIMEOUT],
		.slow = slow,
		.cut_to = own->cut_to,
		.part_ppm = input->knobs[REGAIN],
	};

	return shim_climb_holds_back(&regain, shim_sub_sat(input->now_ns, state->message_ns),
				     input->period_ns);
}

/* Cuts the rate by the marks of the last period, and raises it by a step. */
static void hygenicc_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct hygenicc_limiter *own = shim_limiter_own(state);
	bool literal = hygenicc_literal(input->knobs);
	u64 most = shim_mul_div(input->capacity, input->knobs[STEP_MAX], SHIM_PPM);
	struct shim_climb climb = {
		.timeout_ns = input->knobs[CONGESTION_TIMEOUT],
		.floor = shim_climb_floor(input, input->knobs[RMIN]),
		.slow = hygenicc_step_rate(input, input->knobs[STEP_SLOW]),
		.fast = hygenicc_step_rate(input, input->knobs[STEP_FAST]),
		.most = literal ? 0 : most,
	};
	u64 marks = own->marks;

	own->marks = 0;
	if (marks) {
		shim_climb_cut(state, input, climb.floor,
			       hygenicc_cut_rate(state, input, marks, literal ? 0 : climb.slow));
		own->cut_to = state->rate;
	}
	if (!literal && hygenicc_regains(state, input, climb.slow)) {
		climb.fast = climb.slow;
		climb.most = climb.slow;
	}
	if (marks && literal)
		shim_climb_note(&own->climb, input);
	else
		shim_climb_step(state, &own->climb, input, &climb);
}

/* Starts a limiter at its share. */
static void hygenicc_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct hygenicc_limiter *own = shim_limiter_own(state);

	shim_climb_start(state, &own->climb, input);
}

/* Starts a peer: nothing is owed to it, nothing was sent to it. */
static void hygenicc_peer_init(struct shim_peer_state *peer, const struct shim_law_input *input)
{
	struct hygenicc_peer *own = shim_peer_own(peer);

	own->report_ns = input->now_ns;
}

/* Echoes one mark a packet, and takes out what the VM put into the bit. */
static void hygenicc_tx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct hygenicc_peer *own = shim_peer_own(peer);

	own->echoable = shim_add_sat32(own->echoable, packet->packets);
	if (!packet->echo_free)
		return;
	packet->echo = packet->knobs[ECHO] && packet->packets && own->owed >= packet->packets;
	if (!packet->echo)
		return;
	own->owed -= packet->packets;
	if (hygenicc_literal(packet->knobs))
		own->owed_ns = packet->now_ns;
}

/* Counts marks to be told to the peer, and those the peer tells of. */
static void hygenicc_rx(struct shim_peer_state *peer, struct shim_law_packet *packet)
{
	struct hygenicc_peer *own = shim_peer_own(peer);
	u32 echoed;

	if (packet->marks && !own->owed && !hygenicc_literal(packet->knobs))
		own->owed_ns = packet->now_ns;
	own->owed = shim_add_sat32(own->owed, packet->marks);
	own->rx_packets = shim_add_sat32(own->rx_packets, packet->packets);
	own->rx_bytes = shim_add_sat(own->rx_bytes, packet->bytes);
	if (!packet->echo_free || !packet->echo)
		return;
	packet->echo = false;
	if (!packet->knobs[ECHO])
		return;
	echoed = packet->packets < own->echoable ? packet->packets : own->echoable;
	own->echoable -= echoed;
	own->echoed = shim_add_sat32(own->echoed, echoed);
}

/* Takes the marks of a report. */
static void hygenicc_report(struct shim_peer_state *peer, struct shim_limiter_state *state,
			    const struct shim_law_input *input, const struct shim_message *report)
{
	struct hygenicc_limiter *limiter;

	(void)peer;
	(void)input;
	if (!state)
		return;
	limiter = shim_limiter_own(state);
	limiter->marks = shim_add_sat(limiter->marks, report->marks);
}

/* Hands echoed marks to the VM's limiter; true: *report has marks that have waited long enough. */
static bool hygenicc_peer_period(struct shim_peer_state *peer, struct shim_limiter_state *state,
				 const struct shim_law_input *input, struct shim_message *report)
{
	struct hygenicc_peer *own = shim_peer_own(peer);

	if (state) {
		struct hygenicc_limiter *limiter = shim_limiter_own(state);

		limiter->marks = shim_add_sat(limiter->marks, own->echoed);
	}
	own->echoed = 0;
	own->echoable -= own->echoable / ECHO_PERIODS;
	if (!own->owed ||
	    shim_sub_sat(input->now_ns, own->owed_ns) < input->knobs[FEEDBACK_TIMEOUT])
		return false;
	if (!report)
		return true;
	report->bytes = own->rx_bytes;
	report->packets = own->rx_packets;
	report->marks = own->owed;
	report->interval_ns = shim_sub_sat(input->now_ns, own->report_ns);
	own->owed = 0;
	own->owed_ns = input->now_ns;
	own->rx_packets = 0;
	own->rx_bytes = 0;
	own->report_ns = input->now_ns;
	return true;
}

/*
 * Tells whether nothing is owed or told, and what may be echoed has faded: less than ECHO_PERIODS
 * packets fade no further.
 */
static bool hygenicc_peer_rests(const struct shim_peer_state *peer,
				const struct shim_law_input *input)
{
	const struct hygenicc_peer *own = shim_peer_own_const(peer);

	(void)input;
	return !own->owed && !own->echoed && own->echoable < ECHO_PERIODS;
}

/* Tells whether no mark is owed that packets could carry back. */
static bool hygenicc_echoes_nothing(const struct shim_peer_state *peer, const u64 *knobs)
{
	const struct hygenicc_peer *own = shim_peer_own_const(peer);

	return !own->owed || !knobs[ECHO];
}

const struct shim_law shim_law_hygenicc = {
	.name = "hygenicc",
	.knobs = hygenicc_knobs,
	.n_knobs = SHIM_COUNT(hygenicc_knobs),
	.wants = SHIM_LAW_PEERS,
	.lends = SHIM_LENDS_SENT | SHIM_LENDS_RECEIVED,
	.period_ns = 500000,
	.limiter_size = sizeof(struct hygenicc_limiter),
	.peer_size = sizeof(struct hygenicc_peer),
	.init = hygenicc_init,
	.on_period = hygenicc_period,
	.peer_init = hygenicc_peer_init,
	.on_tx = hygenicc_tx,
	.on_rx = hygenicc_rx,
	.echoes_nothing = hygenicc_echoes_nothing,
	.on_report = hygenicc_report,
	.on_peer_period = hygenicc_peer_period,
	.peer_rests = hygenicc_peer_rests,
};
