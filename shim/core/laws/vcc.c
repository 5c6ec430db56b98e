// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law vcc: virtual congestion control, after vCC (virtual ECN by receive-window throttling).
 *
 * A guest that does not use ECN is dropped where its neighbours are only marked.  The shim uses
 * ECN in its stead: it negotiates it, makes the data ECT(0), takes ECE out of the ACKs, answers
 * CWR, and holds the guest to what a TCP with ECN would send, by the one brake that every TCP
 * obeys: the receive window.
 *
 *   V: virtual window, s: segment size, n: bytes an ACK newly acknowledges, F: peak in flight
 *   start:              V = initial-window * s, threshold = infinite
 *   ACK of n:           V = min(V + n, threshold)             V < threshold and V < 2 F
 *                       V = V + s for each V acknowledged     V >= threshold and V < F + s
 *   ECE:                threshold = max(keep * min(V, F) in whole packets, min-window * s),
 *                       V shrinks to it
 *                       keep = 1/2                            target 0, as Reno (RFC 5681, 3168)
 *                       keep = 1 - alpha/2                    target 1, as DCTCP (RFC 8257)
 *                       and not again until what was in flight then is acknowledged
 *   while it shrinks:   V(t) = V0 - a + threshold * a / V0, in whole packets up, as PRR (RFC 6937)
 *                       does until no more than threshold is in flight; one packet out at once
 *                       a: acknowledged since, the ACK with ECE counted
 *   alpha = alpha + g * (part of bytes acknowledged with ECE - alpha), each round trip
 *
 *   window = min(the peer's, max(min(V, limit), flight) / 2^scale, up)   in every ACK to the guest
 *
 * Losses are the guest's own matter: its TCP answers them as it would without the shim, and V is a
 * bound beside its own window.  A V that fell with three duplicate ACKs, too, would take for losses
 * what the guest finds to be reordering and undoes.  That is why a cut begins at what is in flight,
 * not at a V that the guest's window keeps unused, and why V grows only while used (RFC 7661).
 *
 * The other half is a peer that uses ECN and sends to a guest that does not: the shim then answers
 * the handshake for the guest, keeps CE from it, and puts ECE into its ACKs, until CWR comes
 * (target 0), or for as many bytes as came marked (target 1).
 *
 * limit, the second use (vCC section 4): all flows of a VM that have data to send share
 * window-total by weight, port-weight for the ports of the preferred range, 1 for others.
 *
 * A guest that negotiated ECN itself, a peer that refused it, and a connection that was there
 * before the shim are left alone but for limit; own-ecn = 1 treats the first as one without ECN,
 * as AC/DC does: held to V, and neither CE nor ECE reaches it, or it would cut for each mark once
 * more; data with CE arrive as ECT(0), not as retransmissions do.  Not so where both ends agreed on
 * AccECN (RFC 9768): there ECE, CWR and AE are a counter, and ECE alone says nothing.  A SYN that
 * offers AccECN to a guest without ECN is answered as one that asks for ECN: its sender then falls
 * back to that (RFC 9768, section 3.1.2).  A connection without a handshake has the least window
 * scale that explains what was in flight: its windows come out too large rather than too small.
 *
 * R of the VM is E: flows are the brake, the share is the ceiling.
 *
 * The paper has no algebra of its own; what Linux does on ECE is the model.  Every segment of
 * data is ECT(0), retransmissions too: RFC 3168 section 6.1.5 forbids that for fear of a receiver
 * that cannot tell a forged mark, and it is what a retransmission needs to pass a full queue.
 */
#include "../arith.h"
#include "../flow.h"
#include "../law.h"

/* Denominator of alpha. */
#define ALPHA_ONE 1024U

/* Flags that speak of ECN. */
#define ECN_FLAGS (SHIM_TCP_ECE | SHIM_TCP_CWR | SHIM_TCP_AE)

/* SYNs that ask for ECN before one does not (RFC 3168, section 6.1.1.1). */
#define ECN_TRIES 2

/* Indices into the knobs. */
enum {
	TARGET,
	NEGOTIATE,
	OWN_ECN,
	INITIAL_WINDOW,
	MIN_WINDOW,
	ALPHA_SHIFT,
	WINDOW_TOTAL,
	PORT_FIRST,
	PORT_LAST,
	PORT_WEIGHT,
};

/* What the law keeps of a limiter; flows weigh at most 1000, so sums of 4 million of them fit. */
struct vcc_limiter {
	u32 weight_sum;		/* of the live flows seen since the last period */
	u32 weight_total;	/* of the live flows seen before it */
};

/* What the law keeps of a flow. */
struct vcc_flow {
	u32 cwnd;		/* virtual window, bytes; 0: not started */
	u32 ssthresh;		/* bytes; below it the window doubles each round trip */
	u32 credit;		/* bytes acknowledged towards the next increase */
	u32 cut_from;		/* window before the cut under way, bytes */
	u32 cut_una;		/* una when it began */
	u32 recover;		/* nxt when it began: once that is acknowledged, the cut is over */
	u32 limit;		/* the flow's part of a sum of windows, bytes; 0: none */
	u32 alpha;		/* DCTCP's estimate of the part marked, of ALPHA_ONE */
	u32 alpha_end;		/* nxt when its round began */
	u32 round_acked;	/* bytes acknowledged in that round */
	u32 round_marked;	/* bytes of these whose ACK had ECE */
	u32 echo_ack;		/* last byte the VM acknowledged */
	int echo_owed;		/* bytes that arrived marked less bytes echoed, up to 2^30 */
	bool cutting;		/* a cut is under way */
	bool echo;		/* ACKs of the VM carry ECE until a CWR arrives */
	bool echo_known;	/* echo_ack is valid */
	bool answer;		/* the VM's next new data carries CWR */
	bool counter_offered;	/* a SYN offered AccECN */
	bool counter;		/* AccECN: both ends agreed that flags count marks */
};

static const struct shim_knob vcc_knobs[] = {
	[TARGET] = {
		.name = "target",
		.unit = "algorithm",
		.help = "what the virtual window imitates; 0: Reno with ECN, 1: DCTCP",
		.source = "vCC section 3.2; DCTCP is ours",
		.value = 0,
		.min = 0,
		.max = 1,
	},
	[NEGOTIATE] = {
		.name = "negotiate",
		.unit = "switch",
		.help = "1: use ECN for guests that do not; 0: only window-total works",
		.source = "vCC section 3.2",
		.value = 1,
		.min = 0,
		.max = 1,
	},
	[OWN_ECN] = {
		.name = "own-ecn",
		.unit = "switch",
		.help = "1: use ECN for guests that do, too, and hold them to V; 0: leave them",
		.source = "ours",
		.value = 0,
		.min = 0,
		.max = 1,
	},
	[INITIAL_WINDOW] = {
		.name = "initial-window",
		.unit = "segments",
		.help = "virtual window of a new connection; 0 is refused",
		.source = "RFC 6928",
		.value = 10,
		.min = 1,
		.max = 1000,
	},
	[MIN_WINDOW] = {
		.name = "min-window",
		.unit = "segments",
		.help = "marks cut the virtual window no further; 0 is refused",
		.source = "RFC 5681, equation 4",
		.value = 2,
		.min = 1,
		.max = 1000,
	},
	[ALPHA_SHIFT] = {
		.name = "alpha-shift",
		.unit = "bits",
		.help = "target 1: g is 2^-alpha-shift; 0: alpha is the last round's part",
		.source = "RFC 8257, section 4.2",
		.value = 4,
		.min = 0,
		.max = 10,
	},
	[WINDOW_TOTAL] = {
		.name = "window-total",
		.unit = "bytes",
		.help = "sum of the windows of a VM's flows that send; 0: not limited",
		.source = "vCC section 4",
		.value = 0,
		.min = 0,
		.max = 1ULL << 40,
	},
	[PORT_FIRST] = {
		.name = "port-first",
		.unit = "TCP port",
		.help = "first server port of the preferred flows; 0: from the least",
		.source = "vCC section 4",
		.value = 0,
		.min = 0,
		.max = 65535,
	},
	[PORT_LAST] = {
		.name = "port-last",
		.unit = "TCP port",
		.help = "last server port of the preferred flows; 0: no flow is preferred",
		.source = "vCC section 4",
		.value = 0,
		.min = 0,
		.max = 65535,
	},
	[PORT_WEIGHT] = {
		.name = "port-weight",
		.unit = "windows",
		.help = "window of a preferred flow, of another flow's; 0 is refused",
		.source = "vCC section 4, Fig. 12",
		.value = 3,
		.min = 1,
		.max = 1000,
	},
};

/* Returns the lesser of two numbers. */
static u32 vcc_min(u32 a, u32 b)
{
	return a < b ? a : b;
}

/* Returns the greater of two numbers. */
static u32 vcc_max(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* Returns segments of a flow in bytes, at most the largest window. */
static u32 vcc_segments(const struct shim_flow *flow, u64 count)
{
	u64 bytes = count * shim_flow_segment(flow);

	return bytes < SHIM_WINDOW_MAX ? bytes : SHIM_WINDOW_MAX;
}

/* Tells whether the law uses ECN in the guest's stead and holds it to the virtual window. */
static bool vcc_holds(const struct shim_flow *flow, const u64 *values)
{
	const struct vcc_flow *own = shim_flow_own_const(flow);

	return flow->ecn == SHIM_FLOW_VIRTUAL ||
	       (flow->ecn == SHIM_FLOW_OWN && values[OWN_ECN] && !own->counter);
}

/*
 * Returns V: where it is on its way down while a cut is under way.  One packet goes out at once, as
 * Linux has it: the peer echoes, and ACKs with ECE may be lost, until CWR comes.
 */
static u32 vcc_window(const struct shim_flow *flow)
{
	const struct vcc_flow *own = shim_flow_own_const(flow);
	u32 gone = flow->una - own->cut_una, size = shim_flow_segment(flow);
	u32 flight = shim_flow_flight(flow), window = own->cwnd, out;

	if (!own->cutting)
		return window;
	if (flight > window && gone < own->cut_from) {
		out = shim_mul_div(gone, window, own->cut_from) + size - 1;
		out -= out % size;
		window = vcc_max(window, vcc_min(own->cut_from - gone + out, own->cut_from));
	}
	return own->answer ? vcc_max(window, flight + size) : window;
}

/* Returns what the guest may have in flight, bytes. */
static u32 vcc_allowed(const struct shim_flow *flow, const u64 *values)
{
	const struct vcc_flow *own = shim_flow_own_const(flow);
	u32 window = SHIM_WINDOW_MAX;

	if (vcc_holds(flow, values))
		window = vcc_window(flow);
	if (own->limit)
		window = vcc_min(window, own->limit);
	return window;
}

/* Returns how many bytes of a window marks cost. */
static u32 vcc_cost(const struct shim_flow *flow, const u64 *values, u32 window)
{
	const struct vcc_flow *own = shim_flow_own_const(flow);
	u32 bytes;

	if (!values[TARGET])
		return window / 2;
	bytes = shim_mul_div(window, own->alpha, 2 * ALPHA_ONE);
	return bytes - bytes % shim_flow_segment(flow);
}

/*
 * Cuts the window at an ACK that newly acknowledges bytes, once in the life of what is in flight,
 * to whole packets as TCPs count: a broken one takes part in no flight, yet slows growth.
 */
static void vcc_cut(struct shim_flow *flow, const u64 *values, u32 acked)
{
	struct vcc_flow *own = shim_flow_own(flow);
	u32 floor = vcc_segments(flow, values[MIN_WINDOW]);
	u32 window = vcc_min(own->cwnd, flow->peak);

	if (own->cutting)
		return;
	own->cut_from = window;
	window -= vcc_cost(flow, values, window);
	window -= window % shim_flow_segment(flow);
	own->ssthresh = vcc_max(window, floor);
	own->cwnd = vcc_min(own->cwnd, own->ssthresh);
	own->credit = 0;
	own->cut_una = flow->una - acked;
	own->recover = flow->nxt;
	own->cutting = true;
	own->answer = true;
}

/* Grows the window by what an ACK newly acknowledged. */
static void vcc_grow(struct shim_flow *flow, u32 acked)
{
	struct vcc_flow *own = shim_flow_own(flow);
	u32 size = shim_flow_segment(flow);

	if (own->cwnd < own->ssthresh) {
		if (own->cwnd / 2 < flow->peak)
			own->cwnd = vcc_min(own->cwnd + acked, own->ssthresh);
		return;
	}
	if (flow->peak <= own->cwnd && own->cwnd - flow->peak >= size)
		return;
	own->credit += acked;
	if (own->credit >= own->cwnd) {
		own->credit -= own->cwnd;
		own->cwnd = vcc_min(own->cwnd + size, SHIM_WINDOW_MAX);
	}
}

/* Updates alpha when a round trip's bytes have been acknowledged. */
static void vcc_estimate(struct shim_flow *flow, const u64 *values, u32 acked, bool marked)
{
	struct vcc_flow *own = shim_flow_own(flow);
	u32 part, less;

	own->round_acked += vcc_min(acked, SHIM_WINDOW_MAX - own->round_acked);
	if (marked)
		own->round_marked += vcc_min(acked, SHIM_WINDOW_MAX - own->round_marked);
	if (shim_seq_before(flow->una, own->alpha_end) || !own->round_acked)
		return;
	part = shim_mul_div(own->round_marked, ALPHA_ONE, own->round_acked);
	less = own->alpha >> values[ALPHA_SHIFT];
	own->alpha -= less ? less : own->alpha;
	own->alpha = vcc_min(own->alpha + (part >> values[ALPHA_SHIFT]), ALPHA_ONE);
	own->round_acked = 0;
	own->round_marked = 0;
	own->alpha_end = flow->nxt;
}

/* Lets an ACK that newly acknowledges bytes, marked or not, move the virtual window. */
static void vcc_hear(struct shim_flow *flow, const u64 *values, u32 acked, bool marked)
{
	struct vcc_flow *own = shim_flow_own(flow);

	if (!own->cwnd) {
		own->cwnd = vcc_segments(flow, values[INITIAL_WINDOW]);
		own->ssthresh = SHIM_WINDOW_MAX;
		own->alpha = ALPHA_ONE;
		own->alpha_end = flow->nxt;
	}
	vcc_estimate(flow, values, acked, marked);
	if (own->cutting && shim_seq_before(own->recover, flow->una))
		own->cutting = false;
	if (marked)
		vcc_cut(flow, values, acked);
	if (acked && !own->cutting)
		vcc_grow(flow, acked);
}

/*
 * Learns from a SYN or SYN-ACK, either way, whether the ends agree on AccECN: the answers are those
 * that tell which ECN field the SYN arrived with (RFC 9768, table 2).
 */
static void vcc_learn_counter(struct shim_flow *flow, const struct shim_segment *segment)
{
	u16 flags = segment->flags & ECN_FLAGS, classic = flags & ~SHIM_TCP_AE;
	struct vcc_flow *own = shim_flow_own(flow);

	if (!(segment->flags & SHIM_TCP_ACK))
		own->counter_offered |= flags == ECN_FLAGS;
	else
		own->counter = own->counter_offered && flags && flags != ECN_FLAGS &&
			       classic != SHIM_TCP_ECE;
}

/* Tells whether a SYN-ACK, either way, agrees to use ECN. */
static bool vcc_agreed(const struct shim_flow *flow, const struct shim_segment *segment)
{
	const struct vcc_flow *own = shim_flow_own_const(flow);

	return own->counter || (segment->flags & ECN_FLAGS & ~SHIM_TCP_AE) == SHIM_TCP_ECE;
}

/* Negotiates ECN by a SYN or SYN-ACK of the VM. */
static void vcc_handshake_out(struct shim_flow *flow, struct shim_segment *segment, bool first)
{
	bool wants = segment->flags & ECN_FLAGS;
	bool may = segment->knobs[NEGOTIATE];

	if (segment->flags & SHIM_TCP_ACK) {
		if (flow->ecn == SHIM_FLOW_OFFERED && wants)
			flow->ecn = vcc_agreed(flow, segment) ? SHIM_FLOW_OWN : SHIM_FLOW_PLAIN;
		else if (flow->ecn == SHIM_FLOW_OFFERED && may)
			flow->ecn = SHIM_FLOW_VIRTUAL;
		else if (flow->ecn == SHIM_FLOW_OFFERED || flow->ecn == SHIM_FLOW_ASKED)
			flow->ecn = SHIM_FLOW_PLAIN;
		if (flow->ecn == SHIM_FLOW_VIRTUAL)
			segment->flags |= SHIM_TCP_ECE;
		return;
	}
	if (first)
		flow->ecn = SHIM_FLOW_PLAIN;
	if (wants) {
		flow->ecn = SHIM_FLOW_OWN;
	} else if (!flow->syn_in && may && flow->tries <= ECN_TRIES) {
		flow->ecn = SHIM_FLOW_ASKED;
		segment->flags |= SHIM_TCP_ECE | SHIM_TCP_CWR;
	}
}

/* Tells whether an ACK of the VM that newly acknowledges bytes must carry ECE. */
static bool vcc_owes_echo(struct vcc_flow *own, const u64 *values, u32 acked)
{
	if (!values[TARGET])
		return own->echo;
	if (!acked || own->echo_owed < (int)(acked / 2 + 1))
		return false;
	own->echo_owed -= (int)acked;
	return true;
}

/* Puts what arrived marked, and the answer to the last cut, into a segment of the VM. */
static void vcc_echo(struct shim_flow *flow, struct shim_segment *segment, bool new_data)
{
	struct vcc_flow *own = shim_flow_own(flow);
	u32 acked = segment->ack - own->echo_ack;

	if (segment->flags & SHIM_TCP_ACK) {
		if (!own->echo_known || acked > SHIM_WINDOW_MAX)
			acked = 0;
		own->echo_known = true;
		own->echo_ack = segment->ack;
		if (vcc_owes_echo(own, segment->knobs, acked))
			segment->flags |= SHIM_TCP_ECE;
	}
	if (!segment->payload)
		return;
	segment->ecn = SHIM_ECT_ZERO;
	if (own->answer && new_data) {
		segment->flags |= SHIM_TCP_CWR;
		own->answer = false;
	}
}

/* Forgets what was kept of the connection before, if there was one. */
static void vcc_begin(struct shim_flow *flow, enum shim_flow_begin begin)
{
	static const struct vcc_flow fresh;
	struct vcc_flow *own = shim_flow_own(flow);

	if (begin == SHIM_FLOW_REPLACED)
		*own = fresh;
}

/* Handles a segment of the VM. */
static void vcc_out(struct shim_flow *flow, struct shim_segment *segment)
{
	bool new_data = !flow->numbered ||
			shim_seq_before(flow->nxt, segment->seq + segment->payload);
	enum shim_flow_begin begin = shim_flow_out(flow, segment);

	vcc_begin(flow, begin);
	if (segment->flags & SHIM_TCP_SYN) {
		vcc_learn_counter(flow, segment);
		vcc_handshake_out(flow, segment, begin != SHIM_FLOW_GOES_ON);
		return;
	}
	if (vcc_holds(flow, segment->knobs))
		vcc_echo(flow, segment, new_data);
}

/* Negotiates ECN by a SYN or SYN-ACK of the peer. */
static void vcc_handshake_in(struct shim_flow *flow, struct shim_segment *segment, bool first)
{
	u16 flags = segment->flags & ECN_FLAGS;
	u16 asks = SHIM_TCP_ECE | SHIM_TCP_CWR;

	if (!(segment->flags & SHIM_TCP_ACK)) {
		if (first && flow->server)
			flow->ecn = (flags & asks) == asks ? SHIM_FLOW_OFFERED : SHIM_FLOW_PLAIN;
		return;
	}
	if (flow->ecn == SHIM_FLOW_ASKED)
		flow->ecn = flags == SHIM_TCP_ECE ? SHIM_FLOW_VIRTUAL : SHIM_FLOW_PLAIN;
	else if (flow->ecn == SHIM_FLOW_OWN && !vcc_agreed(flow, segment))
		flow->ecn = SHIM_FLOW_PLAIN;
	if (flow->ecn == SHIM_FLOW_VIRTUAL)
		segment->flags &= ~asks;
}

/* Keeps what speaks of ECN from the guest, but CWR, where it may echo a mark of before own-ecn. */
static void vcc_hide(struct shim_flow *flow, struct shim_segment *segment)
{
	struct vcc_flow *own = shim_flow_own(flow);

	if (segment->payload && segment->flags & SHIM_TCP_CWR)
		own->echo = false;
	if (segment->payload && segment->ecn == SHIM_CE) {
		own->echo = true;
		if (segment->payload < SHIM_WINDOW_MAX - own->echo_owed)
			own->echo_owed += (int)segment->payload;
	}
	segment->flags &= ~SHIM_TCP_ECE;
	if (flow->ecn == SHIM_FLOW_VIRTUAL) {
		segment->ecn = SHIM_NOT_ECT;
		segment->flags &= ~SHIM_TCP_CWR;
	} else if (segment->ecn == SHIM_CE) {
		segment->ecn = SHIM_ECT_ZERO;
	}
}

/* Handles a segment for the VM. */
static void vcc_in(struct shim_flow *flow, struct shim_segment *segment)
{
	bool marked = segment->flags & SHIM_TCP_ECE;
	enum shim_flow_begin begin;
	u32 acked = shim_flow_in(flow, segment, &begin);

	if (begin == SHIM_FLOW_UNBELIEVED)
		return;
	vcc_begin(flow, begin);
	if (segment->flags & SHIM_TCP_SYN) {
		vcc_learn_counter(flow, segment);
		vcc_handshake_in(flow, segment, begin != SHIM_FLOW_GOES_ON);
		return;
	}
	if (segment->flags & SHIM_TCP_ACK && !(segment->flags & SHIM_TCP_RST)) {
		if (vcc_holds(flow, segment->knobs))
			vcc_hear(flow, segment->knobs, acked, marked);
		shim_flow_clamp(flow, segment, vcc_allowed(flow, segment->knobs));
	}
	if (vcc_holds(flow, segment->knobs))
		vcc_hide(flow, segment);
}

/* Returns the weight of a flow in the sum of windows. */
static u32 vcc_flow_weight(const struct shim_flow *flow, const u64 *values)
{
	u16 port = flow->server ? flow->port_vm : flow->port_peer;

	if (values[PORT_LAST] && port >= values[PORT_FIRST] && port <= values[PORT_LAST])
		return values[PORT_WEIGHT];
	return 1;
}

/* Gives a flow its part of the sum of windows: of the live ones, or as one more. */
static void vcc_flow_period(struct shim_flow *flow, struct shim_peer_state *peer,
			    struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct vcc_limiter *limiter = shim_limiter_own(state);
	struct vcc_flow *own = shim_flow_own(flow);
	u64 total = input->knobs[WINDOW_TOTAL], weights = limiter->weight_total, limit;
	u32 weight = vcc_flow_weight(flow, input->knobs), size = shim_flow_segment(flow);
	bool live = shim_flow_live(flow, input->now_ns);

	(void)peer;
	own->limit = 0;
	if (live)
		limiter->weight_sum = shim_add_sat32(limiter->weight_sum, weight);
	if (!total)
		return;
	if (!live || weights < weight)
		weights += weight;
	limit = shim_mul_div(total, weight, weights);
	if (limit < size)
		limit = size;
	own->limit = limit < SHIM_WINDOW_MAX ? limit : SHIM_WINDOW_MAX;
}

/* Starts a limiter at its share. */
static void vcc_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	state->rate = input->share;
}

/* Follows the share, and lets the flows' weights count. */
static void vcc_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct vcc_limiter *own = shim_limiter_own(state);

	state->rate = input->share;
	if (own->weight_sum)
		own->weight_total = own->weight_sum;
	own->weight_sum = 0;
}

const struct shim_law shim_law_vcc = {
	.name = "vcc",
	.knobs = vcc_knobs,
	.n_knobs = SHIM_COUNT(vcc_knobs),
	.wants = SHIM_LAW_FLOWS | SHIM_LAW_ECN,
	.period_ns = 50000000,
	.limiter_size = sizeof(struct vcc_limiter),
	.flow_size = sizeof(struct vcc_flow),
	.init = vcc_init,
	.on_period = vcc_period,
	.on_segment_out = vcc_out,
	.on_segment_in = vcc_in,
	.on_flow_period = vcc_flow_period,
};
