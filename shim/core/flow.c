// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Follows a TCP connection by its headers.
 *
 *   flight = nxt - una        nxt: end of the furthest segment out, una: furthest ACK in
 *   peak   = the largest flight since the bytes of the one before were acknowledged
 *
 * A segment that ends before una has been acknowledged already, one that jumps 2^30 or more bytes
 * ahead cannot be in any window: neither moves anything.  An ACK of bytes that were not seen
 * leaving (a packet took another way) is believed, but counts as no progress.
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

	if (syn && !(segment->flags & SHIM_TCP_ACK)) {
		if (!flow->syn_out || flow->open || flow->isn != segment->seq) {
			begin = flow->numbered ? SHIM_FLOW_REPLACED : SHIM_FLOW_BEGINS;
			if (flow->numbered)
				flow_restart(flow);
		}
		if (flow->tries < 255)
			flow->tries++;
	}
	if (syn)
		flow_learn_syn(flow, segment);
	if (segment->flags & (SHIM_TCP_FIN | SHIM_TCP_RST))
		flow->closed = true;
	if (segment->flags & SHIM_TCP_RST)
		return begin;
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
	if (acked >= JUMP)
		return 0;
	flow->una = segment->ack;
	if (shim_seq_before(flow->nxt, flow->una)) {
		flow->nxt = flow->una;
		return 0;
	}
	return acked;
}

u32 shim_flow_in(struct shim_flow *flow, const struct shim_segment *segment,
		 enum shim_flow_begin *begin)
{
	bool syn = segment->flags & SHIM_TCP_SYN;
	u32 acked = 0;

	*begin = SHIM_FLOW_GOES_ON;
	if (syn && !(segment->flags & SHIM_TCP_ACK)) {
		/* A SYN into an open connection is stale or forged; the VM will say so. */
		if (flow->open && !flow->closed)
			return 0;
		if (flow->open) {
			flow_restart(flow);
			*begin = SHIM_FLOW_REPLACED;
		} else if (!flow->syn_in) {
			*begin = SHIM_FLOW_BEGINS;
		}
		flow->server |= !flow->syn_out;
	}
	if (syn) {
		if (flow->open)
			return 0;
		flow->syn_in = true;
		flow->scale_peer = segment->scale;
		flow_take_mss(flow, segment->mss);
	}
	if (segment->flags & (SHIM_TCP_FIN | SHIM_TCP_RST))
		flow->closed = true;
	if (segment->flags & SHIM_TCP_RST || !(segment->flags & SHIM_TCP_ACK))
		return 0;
	acked = flow_acknowledge(flow, segment);
	flow_time_in(flow, segment->now_ns);
	if (!syn) {
		flow->open = true;
		flow->window = segment->window;
	}
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
