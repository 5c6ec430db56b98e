/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the two files of law seawall share; seawall.c has the algebra.
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

#endif
