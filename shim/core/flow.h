/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A TCP connection of a VM as both directions of its segments show it, for laws with
 * SHIM_LAW_FLOWS.
 *
 * "Out" is what the VM sends, "in" what its peer sends, or anybody in the peer's name.  Sequence
 * numbers are compared modulo 2^32.  What the VM says of its own connection is followed unless it
 * cannot be; what comes in moves something only if the VM itself would obey it.
 *
 * The caller serialises calls on one struct shim_flow.
 */
#ifndef SHIM_CORE_FLOW_H
#define SHIM_CORE_FLOW_H

#include "types.h"

/* Bits of shim_segment.flags, as the TCP header has them. */
#define SHIM_TCP_FIN 0x001
#define SHIM_TCP_SYN 0x002
#define SHIM_TCP_RST 0x004
#define SHIM_TCP_ACK 0x010
#define SHIM_TCP_ECE 0x040
#define SHIM_TCP_CWR 0x080
#define SHIM_TCP_AE 0x100

/* The ECN field of an IP header. */
#define SHIM_NOT_ECT 0
#define SHIM_ECT_ONE 1
#define SHIM_ECT_ZERO 2
#define SHIM_CE 3

/* shim_segment.scale without the option. */
#define SHIM_SCALE_NONE 255

/* A flow is live that sent data so recently. */
#define SHIM_FLOW_LIVE_NS 200000000ULL

/* Largest shift and window of RFC 7323. */
#define SHIM_SCALE_MAX 14
#define SHIM_WINDOW_MAX 0x3fffc000U	/* bytes: 65535 << 14 */

/* A TCP segment; a GSO or GRO packet is one segment of all its payload. */
struct shim_segment {
	u64 now_ns;		/* monotonic */
	u64 wait_ns;		/* sent: time it is going to stay in the limiters */
	const u64 *knobs;	/* values, in the order of law->knobs */
	u32 seq;		/* of the first byte */
	u32 ack;		/* valid with SHIM_TCP_ACK */
	u32 payload;		/* bytes */
	u16 size;		/* bytes of payload in the largest packet it stands for */
	u16 window;		/* field as it stands in the header; a law may write it */
	u16 flags;		/* SHIM_TCP_*; a law may write ECE and CWR */
	u16 mss;		/* option of a SYN; 0: none */
	u8 scale;		/* option of a SYN; SHIM_SCALE_NONE: none */
	u8 ecn;			/* SHIM_NOT_ECT and so on; a law may write it */
};

/* Who answers for ECN on the VM's side. */
enum shim_flow_ecn {
	SHIM_FLOW_UNKNOWN,	/* the handshake was not seen */
	SHIM_FLOW_PLAIN,	/* nobody: refused */
	SHIM_FLOW_ASKED,	/* the law asked the peer and waits for the SYN-ACK */
	SHIM_FLOW_OFFERED,	/* the peer asked; the VM's SYN-ACK has not come */
	SHIM_FLOW_OWN,		/* the VM itself */
	SHIM_FLOW_VIRTUAL,	/* the law */
};

/* What a segment means for the connection that was followed so far. */
enum shim_flow_begin {
	SHIM_FLOW_GOES_ON,	/* nothing new */
	SHIM_FLOW_BEGINS,	/* it is the first SYN of the connection */
	SHIM_FLOW_REPLACED,	/* the same, and what was kept was of a connection before it */
	SHIM_FLOW_UNBELIEVED,	/* its numbers cannot be: nothing of it counts */
};

/*
 * A connection, as shim_flow_out() and shim_flow_in() follow it; ecn is the law's matter.  What
 * else the law keeps is behind it, and void with SHIM_FLOW_REPLACED.
 */
struct shim_flow {
	u64 sent_ns;		/* last time that the VM sent payload; 0: never */
	u64 timed_ns;		/* when the byte being timed left the limiters; 0: none is */
	u64 rtt_ns;		/* mean time lately from there to its ACK; 0: unknown */
	u32 timed;		/* sequence number of the byte being timed */
	u32 una;		/* first byte of the VM's that the peer has not acknowledged */
	u32 nxt;		/* first byte the VM has not sent */
	u32 isn;		/* sequence of the VM's SYN */
	u32 told;		/* first byte of the peer's that the VM has not acknowledged */
	u32 heard;		/* first byte of the peer's that has not come in order */
	u32 edge;		/* first byte of the peer's for which it has no window */
	u32 peak;		/* most bytes in flight lately */
	u32 peak_end;		/* nxt when peak was measured: acknowledged, it is old */
	u16 port_vm;		/* TCP port of the VM */
	u16 port_peer;		/* TCP port of the peer */
	u16 mss;		/* lesser of both SYNs' options; 0: unknown */
	u16 size;		/* largest payload the VM sent in a packet, at most mss */
	u16 window;		/* field of the last ACK as it arrived */
	u16 window_most;	/* largest of these */
	u8 scale_vm;		/* option of the VM's SYN */
	u8 scale_peer;		/* option of the peer's SYN */
	u8 scale_least;		/* no SYN seen: the least shift that explains what the VM sent */
	u8 tries;		/* SYNs of the VM without an answer, at most 255 */
	bool numbered;		/* una and nxt are known */
	bool acquainted;	/* told, heard and edge are known */
	bool syn_out;		/* the VM's SYN was seen: isn, scale_vm */
	bool syn_in;		/* the peer's SYN was seen: scale_peer */
	bool open;		/* the handshake is over */
	bool closed;		/* a FIN or RST was seen */
	bool server;		/* the peer's SYN came first */
	enum shim_flow_ecn ecn;	/* who answers for ECN */
};

/* Tells whether sequence number a comes before b. */
bool shim_seq_before(u32 a, u32 b);

/* Begins a flow of which nothing was seen; what the law keeps behind it is not touched. */
void shim_flow_init(struct shim_flow *flow, u16 port_vm, u16 port_peer);

/* Follows a segment of the VM and returns what it means for the connection. */
enum shim_flow_begin shim_flow_out(struct shim_flow *flow, const struct shim_segment *segment);

/*
 * Follows a segment of the peer and returns how many bytes it newly acknowledges; *begin says what
 * it means for the connection.  With SHIM_FLOW_UNBELIEVED nothing of *flow has changed.
 */
u32 shim_flow_in(struct shim_flow *flow, const struct shim_segment *segment,
		 enum shim_flow_begin *begin);

/* Tells whether the VM has data to send, by what it sent lately. */
bool shim_flow_live(const struct shim_flow *flow, u64 now_ns);

/* Returns bytes in flight. */
u32 shim_flow_flight(const struct shim_flow *flow);

/* Returns the shift of the peer's windows: as negotiated, or the least that can be. */
u8 shim_flow_scale(const struct shim_flow *flow);

/* Returns the payload of the VM's full packet, bytes; at least 1. */
u32 shim_flow_segment(const struct shim_flow *flow);

/*
 * Lets the VM read no larger window than `window` bytes in an ACK that shim_flow_in() has followed;
 * what is in flight is never taken back.  SHIM_WINDOW_MAX: it stays, as in an ACK whose numbers
 * cannot be.
 */
void shim_flow_clamp(const struct shim_flow *flow, struct shim_segment *segment, u32 window);

#endif
