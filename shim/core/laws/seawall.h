/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the files of law seawall share; seawall.c has the algebra.
 */
#ifndef SHIM_CORE_LAWS_SEAWALL_H
#define SHIM_CORE_LAWS_SEAWALL_H

#include "../laboratory.h"
#include "../law.h"

/* Indices into the knobs. */
enum seawall_knob {
	LINKS,
	BETA,
	ALPHA,
	GAMMA,
	DELTA,
	GOAL_TIME,
	STEP,
	STEP_SHARERS,
	START,
	FLOOR,
	CLAMP,
	RECENT,
	SILENCE,
	FORGET,
	MARK,
	HINT,
	CLASS,			/* laboratory build, as the next */
	LITERAL,
};

/* One loop. */
struct seawall_loop {
	u64 rate;		/* r, bytes/s: over the ceiling only after w grew */
	u64 goal;		/* rate before the last cut, or less, bytes/s */
	u64 cut_ns;		/* time of the last cut; 0: never */
	u64 increase;		/* inc, bytes/s a period */
	u32 congestion;		/* c, ppm: a mean of what is at most 10^6 */
	u32 weight;		/* w at the last step; 0: there was none */
};

/* What the law keeps of a limiter. */
struct seawall_limiter {
	struct seawall_loop loop;	/* of the VM */
	u64 used;		/* u, bytes/s */
	u64 told;		/* bytes that feedback of this T is about */
	u64 hurt;		/* of these: lost or marked */
	u64 step_ns;		/* time of the loop's last step */
	u8 span;		/* most periods a report of this T stands for, at most SPAN_MAX */
};

/*
 * What the law keeps of a peer.  Counts stop at U32_MAX; those that reports carry begin anew long
 * before that.
 */
struct seawall_peer {
	struct seawall_loop loop;	/* of the tunnel, where it has one */
	u32 sent;		/* bytes since the last T */
	u32 unanswered_us;	/* first packet no report followed, modulo 2^32; 0: there is none */
	u32 reported;		/* packets that reports of this T are about */
	u32 reported_hurt;	/* of these: lost or marked */
	u32 heard_bytes;	/* as the last report had them */
	u32 heard_packets;	/* as the last report had them */
	u32 heard_marks;	/* packets with CE, as the last report had them */
	u32 rx_bytes;		/* received */
	u32 rx_packets;		/* received */
	u32 rx_marks;		/* of these, with CE */
	u32 rx_lost;		/* missing */
	u32 rx_us;		/* time of the last packet with an ID, modulo 2^32 */
	u16 tx_id;		/* count of the next packet sent */
	u16 rx_id;		/* count of the next packet expected */
	u32 heard_lost:25;	/* as the last report had them: LOST_MAX and one T's losses fit */
	u32 span:4;		/* periods that reports of this T stand for, at most SPAN_MAX */
	u32 counting:1;	/* rx_id is known */
	u32 answered:1;	/* a report came, not longer ago than `forget` */
	u32 fresh:1;		/* packets came since the last report to the peer */
	u32 flows_counted;	/* N as counted so far, see seawall_hint.c */
	u32 flows;		/* N in force */
};

/* What the law keeps of a flow, bytes; see seawall_hint.c. */
struct seawall_flow {
	u32 granted;		/* window granted by now; 0: none */
	u32 limit;		/* window allowed; 0: any */
};

/* Returns the class of the loops, 1 to 3. */
static inline u64 seawall_class(const u64 *knobs)
{
	return shim_laboratory_knob(knobs, CLASS, 3);
}

/* Tells whether class 3 is as published. */
static inline bool seawall_literal(const u64 *knobs)
{
	return shim_laboratory_knob(knobs, LITERAL, 0);
}

/* Returns the rate a VM or a tunnel begins with, bytes/s. */
u64 seawall_start(const struct shim_law_input *input);

/* Returns the ceiling, bytes/s, where `used` is the largest rate used. */
u64 seawall_ceiling(const struct shim_law_input *input, u64 used);

/* Lets a loop take the step that F = hurt / told asks for, at least once; told > 0. */
void seawall_adapt(struct seawall_loop *loop, const struct shim_law_input *input, u64 hurt,
		   u64 told, u64 steps);

/*
 * Returns the rate of a loop that is allowed `most`, and follows a change of w: rates that were in
 * the ratio of the weights stay so.  r may then pass the ceiling until a step without congestion
 * (cleared) has shown that there is room for the others.
 */
u64 seawall_settle(struct seawall_loop *loop, const struct shim_law_input *input, u64 most,
		   bool cleared);

/* Lets the flows of a tunnel be counted anew, once they have been. */
void seawall_count_flows(struct seawall_peer *own);

/* Sets the largest window that a flow of a tunnel is to read. */
void seawall_flow_period(struct shim_flow *flow, struct shim_peer_state *peer,
			 struct shim_limiter_state *state, const struct shim_law_input *input);

/* Follow a segment of the VM, and one for it, in which the window is written. */
void seawall_segment_out(struct shim_flow *flow, struct shim_segment *segment);
void seawall_segment_in(struct shim_flow *flow, struct shim_segment *segment);

#endif
