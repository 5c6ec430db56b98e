// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Follows a TCP connection by its headers.
 *
 *   flight = nxt - una        nxt: end of the furthest segment out, una: furthest ACK in
 *   peak   = the largest flight since the bytes of the one before were acknowledged
 *
 * A segment out that ends before una has been acknowledged already, one that jumps 2^30 or more
 * bytes ahead cannot be in any window: neither moves anything.
 *
 * Anybody can send a segment in the peer's name.  It is believed if a TCP would obey it (RFC 9293,
 * section 3.10.7, and RFC 5961), by what the VM was seen to tell its peer, which is no more than
 * what the VM knows, so that no segment is doubted here that the VM obeys:
 *
 *   told  = last ACK out           heard = max(told, end of what came in without a gap)
 *   edge  = furthest ACK + window out
 *   most  = largest window in
 *
 *   RST in                  seq = told or seq = heard; where the VM's SYN has no answer yet: ack
 *                           covers that SYN
 *   SYN in                  nothing is known; or the one before has no answer yet; or a FIN or RST
 *                           was seen, and seq is not before heard
 *   SYN-ACK in              ack covers the VM's SYN, which has no answer yet
 *   any other in            it has an ACK, end >= told, seq <= edge, una - most <= ack <= nxt; the
 *                           first one of a connection that the peer opened covers the VM's SYN-ACK
 *
 * A number of 32 bits must be guessed for any of these, for most two; but for a SYN after a FIN,
 * where one side may still send: whoever knows the ports makes the law begin anew there.
 *
 * A SYN into an open connection is stale or forged, or the peer has forgotten the connection; the
 * VM answers it with an ACK, and the RST that follows is exact.  A VM that has forgotten it, too,
 * answers with a SYN-ACK of its own: it is believed, and the connection is a new one whose peer's
 * SYN was not seen.  So is one whose SYN-ACK out answers another SYN than the one that was seen.
 *
 * A connection whose handshake was not seen has an unknown window scale.  What the VM has in
 * flight never exceeds what its peer granted, so the least shift s with window << s >= flight is
 * at most the true one, and a window written with it is at least as large as meant.
 *
 * One byte at a time is timed, the first of a packet that was not sent before (Karn's rule):
 *
 *   rtt = time of the ACK that covers it - (time it came + wait in the limiters)
 *
 *   RTT += (rtt - RTT) / 8           (RFC 6298, section 2), the first one as it is
 *
 * so it holds what is behind the limiters: the fabric with its queues, and the peer's patience with
 * its ACK.
 *
 * What the VM has used of a window is never taken back (RFC 9293, section 3.8.6): a smaller one
 * waits until that is acknowledged.  A window is rounded up to the scale's grain, at most 16 KiB:
 * rounding down would cost a small window a whole packet.
 */
#include "arith.h"
#include "flow.h"

/* Bytes that no window holds. */
#define JUMP 0x40000000U

/* Largest window, and most data, of a SYN or SYN-ACK, bytes. */
#define UNSCALED_MOST 65535

/* Payload assumed of a connection that told no MSS (RFC 9293, section 3.7.1). */
#define MSS_DEFAULT 536

bool shim_seq_before(u32 a, u32 b)
{
	return a - b > 0x7fffffffU;
}

void shim_flow_init(struct shim_flow *flow, u16 port_vm, u16 port_peer)
{
	static const struct shim_flow fresh = {
		.scale_vm = SHIM_SCALE_NONE,
		.scale_peer = SHIM_SCALE_NONE,
	};

	*flow = fresh;
	flow->port_vm = port_vm;
	flow->port_peer = port_peer;
}

bool shim_flow_live(const struct shim_flow *flow, u64 now_ns)
{
	return flow->sent_ns && now_ns - flow->sent_ns < SHIM_FLOW_LIVE_NS;
}

u32 shim_flow_flight(const struct shim_flow *flow)
{
	return flow->nxt - flow->una;
}

u8 shim_flow_scale(const struct shim_flow *flow)
{
	if (!flow->syn_out || !flow->syn_in)
		return flow->scale_least;
	if (flow->scale_vm == SHIM_SCALE_NONE || flow->scale_peer == SHIM_SCALE_NONE)
		return 0;
	return flow->scale_peer < SHIM_SCALE_MAX ? flow->scale_peer : SHIM_SCALE_MAX;
}

u32 shim_flow_segment(const struct shim_flow *flow)
{
	if (flow->size)
		return flow->size;
	return flow->mss ? flow->mss : MSS_DEFAULT;
}

/* Takes the lesser MSS of two SYNs; those that told none tell the default. */
static void flow_take_mss(struct shim_flow *flow, u16 mss)
{
	if (!mss)
		mss = MSS_DEFAULT;
	if (!flow->mss || mss < flow->mss)
		flow->mss = mss;
}

/* Forgets all but the ports. */
static void flow_restart(struct shim_flow *flow)
{
	shim_flow_init(flow, flow->port_vm, flow->port_peer);
}

/* Remembers what a SYN of the VM says. */
static void flow_learn_syn(struct shim_flow *flow, const struct shim_segment *segment)
{
	flow->syn_out = true;
	flow->isn = segment->seq;
	flow->scale_vm = segment->scale;
	flow_take_mss(flow, segment->mss);
}

/* Raises scale_least until the last window explains the flight. */
static void flow_learn_scale(struct shim_flow *flow)
{
	while (flow->scale_least < SHIM_SCALE_MAX && flow->window &&
	       (u32)flow->window << flow->scale_least < shim_flow_flight(flow))
		flow->scale_least++;
}

/* Begins to time a packet of the VM, or gives up if it repeats what is being timed. */
static void flow_time_out(struct shim_flow *flow, const struct shim_segment *segment)
{
	if (shim_seq_before(segment->seq, flow->nxt)) {
		if (!shim_seq_before(flow->timed, segment->seq))
			flow->timed_ns = 0;
	} else if (flow->numbered && !flow->timed_ns) {
		flow->timed = segment->seq;
		flow->timed_ns = shim_add_sat(segment->now_ns, segment->wait_ns);
	}
}

/* Ends timing if what was timed has been acknowledged. */
static void flow_time_in(struct shim_flow *flow, u64 now_ns)
{
	u64 rtt_ns = shim_stamp(shim_sub_sat(now_ns, flow->timed_ns));

	if (!flow->timed_ns || !shim_seq_before(flow->timed, flow->una))
		return;
	flow->timed_ns = 0;
	if (flow->rtt_ns)
		rtt_ns = flow->rtt_ns - flow->rtt_ns / 8 + rtt_ns / 8;
	flow->rtt_ns = rtt_ns;
}

/* Returns the shift of the VM's windows: as negotiated, or the most that can be. */
static u8 flow_scale_vm(const struct shim_flow *flow)
{
	if (!flow->syn_out || !flow->syn_in)
		return SHIM_SCALE_MAX;
	if (flow->scale_vm == SHIM_SCALE_NONE || flow->scale_peer == SHIM_SCALE_NONE)
		return 0;
	return flow->scale_vm < SHIM_SCALE_MAX ? flow->scale_vm : SHIM_SCALE_MAX;
}

/* Returns the largest window that the peer can have offered, bytes. */
static u32 flow_window_most(const struct shim_flow *flow)
{
	bool known = flow->syn_out && flow->syn_in;

	if (!flow->window_most)
		return SHIM_WINDOW_MAX;
	return (u32)flow->window_most << (known ? shim_flow_scale(flow) : SHIM_SCALE_MAX);
}

/* Learns which bytes of the peer's come next, and which the VM has a window for. */
static void flow_expect(struct shim_flow *flow, u32 next, u32 edge)
{
	if (!flow->acquainted) {
		flow->acquainted = true;
		flow->told = next;
		flow->heard = next;
		flow->edge = edge;
		return;
	}
	if (shim_seq_before(flow->told, next))
		flow->told = next;
	if (shim_seq_before(flow->heard, next))
		flow->heard = next;
	if (shim_seq_before(flow->edge, edge))
		flow->edge = edge;
}

/* Learns what a segment of the VM tells the peer. */
static void flow_tell(struct shim_flow *flow, const struct shim_segment *segment)
{
	bool syn = segment->flags & SHIM_TCP_SYN;

	if (!(segment->flags & SHIM_TCP_ACK))
		return;
	flow_expect(flow, segment->ack,
		    segment->ack + ((u32)segment->window << (syn ? 0 : flow_scale_vm(flow))));
	/* The VM acknowledges the SYN that answered its own. */
	if (!syn && flow->syn_out && flow->syn_in && !flow->server)
		flow->open = true;
}

/* Returns what a SYN or SYN-ACK of the VM means; forgets what was kept of another connection. */
static enum shim_flow_begin flow_begin_out(struct shim_flow *flow,
					   const struct shim_segment *segment)
{
	bool same = flow->syn_out && flow->isn == segment->seq;

	if (segment->flags & SHIM_TCP_ACK) {
		if (same)
			return SHIM_FLOW_GOES_ON;
		if (flow->open || flow->closed ||
		    (flow->syn_in && segment->ack - flow->heard > UNSCALED_MOST)) {
			flow_restart(flow);
			flow->server = true;
			return SHIM_FLOW_REPLACED;
		}
		flow->server |= !flow->syn_out;
		flow->numbered = false;
		return SHIM_FLOW_GOES_ON;
	}
	if (same && !flow->open)
		return SHIM_FLOW_GOES_ON;
	if (!flow->numbered && !flow->syn_in)
		return SHIM_FLOW_BEGINS;
	flow_restart(flow);
	return SHIM_FLOW_REPLACED;
}

/* Follows the sequence numbers of a segment of the VM. */
static void flow_advance(struct shim_flow *flow, const struct shim_segment *segment)
{
	u32 end = segment->seq + segment->payload;

	end += !!(segment->flags & SHIM_TCP_SYN) + !!(segment->flags & SHIM_TCP_FIN);
	if (!flow->numbered) {
		flow->numbered = true;
		flow->una = segment->seq;
		flow->nxt = segment->seq;
		flow->peak_end = segment->seq;
	}
	if (shim_seq_before(flow->nxt, end) && end - flow->nxt < JUMP)
		flow->nxt = end;
	if (shim_flow_flight(flow) >= JUMP)
		flow->una = flow->nxt - JUMP;
	if (!shim_seq_before(flow->una, flow->peak_end) || shim_flow_flight(flow) > flow->peak) {
		flow->peak = shim_flow_flight(flow);
		flow->peak_end = flow->nxt;
	}
}

enum shim_flow_begin shim_flow_out(struct shim_flow *flow, const struct shim_segment *segment)
{
	enum shim_flow_begin begin = SHIM_FLOW_GOES_ON;
	bool syn = segment->flags & SHIM_TCP_SYN;

	if (syn) {
		begin = flow_begin_out(flow, segment);
		if (!(segment->flags & SHIM_TCP_ACK) && flow->tries < 255)
			flow->tries++;
		flow_learn_syn(flow, segment);
	}
	if (segment->flags & (SHIM_TCP_FIN | SHIM_TCP_RST))
		flow->closed = true;
	if (segment->flags & SHIM_TCP_RST)
		return begin;
	flow_tell(flow, segment);
	if (segment->payload) {
		u16 most = flow->mss ? flow->mss : 65535;

		flow->sent_ns = shim_stamp(segment->now_ns);
		if (segment->size > flow->size)
			flow->size = segment->size < most ? segment->size : most;
		flow_time_out(flow, segment);
	}
	flow_advance(flow, segment);
	if (!flow->syn_out || !flow->syn_in)
		flow_learn_scale(flow);
	return begin;
}

/* Tells whether a segment acknowledges the VM's SYN, and nothing that the VM has not sent. */
static bool flow_covers_syn(const struct shim_flow *flow, const struct shim_segment *segment)
{
	return segment->flags & SHIM_TCP_ACK && flow->syn_out &&
	       segment->ack - flow->isn - 1 < flow->nxt - flow->isn;
}

/* Tells whether an RST ends the connection. */
static bool flow_believes_rst(const struct shim_flow *flow, const struct shim_segment *segment)
{
	if (!flow->acquainted)
		return flow_covers_syn(flow, segment);
	return segment->seq == flow->told || segment->seq == flow->heard;
}

/* Tells whether a segment that is neither SYN nor RST can be of the connection. */
static bool flow_believes(const struct shim_flow *flow, const struct shim_segment *segment)
{
	u32 end = segment->seq + segment->payload + !!(segment->flags & SHIM_TCP_FIN);

	if (!(segment->flags & SHIM_TCP_ACK))
		return false;
	/* The first segment at all is believed, but a SYN must have an answer first. */
	if (!flow->numbered)
		return !flow->syn_in;
	if (!flow->acquainted || shim_seq_before(end, flow->told) ||
	    shim_seq_before(flow->edge, segment->seq))
		return false;
	if (flow->syn_out && !flow->open && !flow_covers_syn(flow, segment))
		return false;
	return flow->nxt - segment->ack <= shim_flow_flight(flow) + flow_window_most(flow);
}

/* Remembers what a SYN or SYN-ACK of the peer says. */
static void flow_hear_syn(struct shim_flow *flow, const struct shim_segment *segment)
{
	flow->syn_in = true;
	flow->scale_peer = segment->scale;
	flow_take_mss(flow, segment->mss);
	flow_expect(flow, segment->seq + 1, segment->seq + 1 + UNSCALED_MOST);
}

/* Returns what a SYN of the peer means, and forgets what was kept of another connection. */
static enum shim_flow_begin flow_begin_in(struct shim_flow *flow,
					  const struct shim_segment *segment)
{
	enum shim_flow_begin begin = SHIM_FLOW_REPLACED;

	if (flow->closed) {
		if (flow->acquainted && shim_seq_before(segment->seq, flow->heard))
			return SHIM_FLOW_UNBELIEVED;
	} else if (flow->syn_in && segment->seq + 1 == flow->heard && !flow->open) {
		return SHIM_FLOW_GOES_ON;
	} else if (flow->numbered) {
		return SHIM_FLOW_UNBELIEVED;
	} else if (!flow->syn_in) {
		begin = SHIM_FLOW_BEGINS;
	}
	if (begin == SHIM_FLOW_REPLACED)
		flow_restart(flow);
	flow->server = true;
	flow_hear_syn(flow, segment);
	return begin;
}

/* Returns what a SYN-ACK of the peer means. */
static enum shim_flow_begin flow_answer_in(struct shim_flow *flow,
					   const struct shim_segment *segment)
{
	if (flow->open || flow->server || !flow_covers_syn(flow, segment))
		return SHIM_FLOW_UNBELIEVED;
	if (!flow->syn_in)
		flow_hear_syn(flow, segment);
	return SHIM_FLOW_GOES_ON;
}

/* Follows an ACK; returns bytes newly acknowledged. */
static u32 flow_acknowledge(struct shim_flow *flow, const struct shim_segment *segment)
{
	u32 acked = segment->ack - flow->una;

	if (!flow->numbered) {
		flow->numbered = true;
		flow->una = segment->ack;
		flow->nxt = segment->ack;
		flow->peak_end = segment->ack;
		return 0;
	}
	if (acked > shim_flow_flight(flow))
		return 0;
	flow->una = segment->ack;
	return acked;
}

/* Follows a segment of the peer that is neither SYN nor RST and is believed. */
static void flow_hear(struct shim_flow *flow, const struct shim_segment *segment)
{
	bool fin = segment->flags & SHIM_TCP_FIN;
	u32 end = segment->seq + segment->payload + fin;

	flow->open = true;
	flow->closed |= fin;
	flow->window = segment->window;
	if (segment->window > flow->window_most)
		flow->window_most = segment->window;
	if (flow->acquainted && !shim_seq_before(flow->heard, segment->seq) &&
	    shim_seq_before(flow->heard, end))
		flow->heard = end;
}

u32 shim_flow_in(struct shim_flow *flow, const struct shim_segment *segment,
		 enum shim_flow_begin *begin)
{
	bool syn = segment->flags & SHIM_TCP_SYN;
	u32 acked;

	*begin = SHIM_FLOW_GOES_ON;
	if (segment->flags & SHIM_TCP_RST) {
		if (flow_believes_rst(flow, segment))
			flow->closed = true;
		else
			*begin = SHIM_FLOW_UNBELIEVED;
		return 0;
	}
	if (syn && !(segment->flags & SHIM_TCP_ACK)) {
		*begin = flow_begin_in(flow, segment);
		return 0;
	}
	if (syn)
		*begin = flow_answer_in(flow, segment);
	else if (!flow_believes(flow, segment))
		*begin = SHIM_FLOW_UNBELIEVED;
	if (*begin == SHIM_FLOW_UNBELIEVED)
		return 0;
	if (!syn)
		flow_hear(flow, segment);
	acked = flow_acknowledge(flow, segment);
	flow_time_in(flow, segment->now_ns);
	return acked;
}

void shim_flow_clamp(const struct shim_flow *flow, struct shim_segment *segment, u32 window)
{
	u32 flight = shim_flow_flight(flow);
	u32 late = flow->una - segment->ack;
	u8 scale = shim_flow_scale(flow);
	u32 field;

	if (late > SHIM_WINDOW_MAX || window >= SHIM_WINDOW_MAX)
		return;
	if (window < flight)
		window = flight;
	field = (window + late + (1U << scale) - 1) >> scale;
	if (field < segment->window)
		segment->window = field;
}
