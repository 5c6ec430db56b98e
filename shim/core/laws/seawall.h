/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the files of law seawall share; seawall.c has the algebra.
 */
#ifndef SHIM_CORE_LAWS_SEAWALL_H
#define SHIM_CORE_LAWS_SEAWALL_H

#include "../law.h"

/* Denominator of the knobs that are parts. */
#define PPM 1000000ULL

/* The largest number of 32 bits. */
#define MAX32 0xffffffffULL

/* Indices into the knobs. */
enum seawall_knob {
	CLASS,
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
};

/* Indices into the memory of limiters and peers: one loop. */
enum seawall_loop {
	RATE,		/* r, bytes/s: over the ceiling only after w grew */
	GOAL,		/* rate before the last cut, or less, bytes/s */
	CUT_NS,		/* time of the last cut; 0: never */
	CONGESTION,	/* c in ppm; upper half: w at the last step */
	INCREASE,	/* inc, bytes/s a period */
	LOOP_WORDS,
};

/* Indices into struct shim_peer_state's memory, behind the loop. */
enum seawall_peer {
	SENT = LOOP_WORDS,	/* bytes since the last T; first packet no report followed, us */
	REPORTED,		/* packets that reports of this T are about, and hurt ones */
	HEARD,			/* packets, and with CE, as the last report had them */
	RX_BYTES,		/* received; bytes as the last report from the peer had them */
	RX_PACKETS,		/* received, and with CE */
	RX_LOST,		/* missing, and time of the last packet, us */
	NEXT,			/* see NEXT_* in seawall.c */
	FLOWS,			/* N: as counted so far, and in force; see seawall_hint.c */
};

/* Returns two numbers in one word, each cut off at 32 bits. */
static inline u64 seawall_pack(u64 high, u64 low)
{
	return (high < MAX32 ? high : MAX32) << 32 | (low < MAX32 ? low : MAX32);
}

/* Returns the first number of a word. */
static inline u64 seawall_high(u64 word)
{
	return word >> 32;
}

/* Returns the second number of a word. */
static inline u64 seawall_low(u64 word)
{
	return word & MAX32;
}

/* Returns the rate a VM or a tunnel begins with, bytes/s. */
u64 seawall_start(const struct shim_law_input *input);

/* Returns the ceiling, bytes/s, where `used` is the largest rate used. */
u64 seawall_ceiling(const struct shim_law_input *input, u64 used);

/* Lets a loop take the step that F = hurt / told asks for, at least once; told > 0. */
void seawall_adapt(u64 *loop, const struct shim_law_input *input, u64 hurt, u64 told, u64 steps);

/*
 * Returns the rate of a loop that is allowed `most`, and follows a change of w: rates that were in
 * the ratio of the weights stay so.  r may then pass the ceiling until a step without congestion
 * (cleared) has shown that there is room for the others.
 */
u64 seawall_settle(u64 *loop, const struct shim_law_input *input, u64 most, bool cleared);

/* Lets the flows of a tunnel be counted anew, once they have been. */
void seawall_count_flows(struct shim_peer_state *peer);

/* Sets the largest window that a flow of a tunnel is to read. */
void seawall_flow_period(struct shim_flow *flow, struct shim_peer_state *peer,
			 struct shim_limiter_state *state, const struct shim_law_input *input);

/* Follow a segment of the VM, and one for it, in which the window is written. */
void seawall_segment_out(struct shim_flow *flow, struct shim_segment *segment);
void seawall_segment_in(struct shim_flow *flow, struct shim_segment *segment);

#endif
