// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The loops of law seawall, and the bounds of their rates; seawall.c has the algebra.
 */
#include "../arith.h"
#include "seawall.h"

/* A VM that was not cut for so long keeps its rate when its weight changes, ns. */
#define PAUSE_NS 1000000000ULL

/* Periods after which feedback is about packets sent since: one to send, one to report. */
#define ECHO 3

/* About 2^16 by the golden ratio, and odd: its multiples modulo 2^16 are spread evenly. */
#define NOISE 40503

/* Least value of 1 - (now - t) / Ts on the way back to the goal. */
#define CONCAVE_MIN (PPM / 10)

/* Returns the rate below which nothing cuts, bytes/s. */
static u64 lowest(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->share, input->knobs[FLOOR], PPM);

	if (rate < input->min)
		rate = input->min;
	return rate < input->share ? rate : input->share;
}

u64 seawall_start(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->share, input->knobs[START], PPM);
	u64 floor = lowest(input);

	rate = shim_mul_div(rate, input->weight, input->knobs[STEP_SHARERS]);
	if (rate > input->share)
		return input->share;
	return rate > floor ? rate : floor;
}

u64 seawall_ceiling(const struct shim_law_input *input, u64 used)
{
	u64 rate = shim_mul_div(used, input->knobs[CLAMP], 1);

	if (!input->knobs[CLAMP] || rate > input->share)
		return input->share;
	return rate > seawall_start(input) ? rate : seawall_start(input);
}

/* Returns step * C * w/W, bytes/s. */
static u64 step(const struct shim_law_input *input)
{
	return shim_mul_div(shim_mul_div(input->capacity, input->knobs[STEP], PPM), input->weight,
			    input->knobs[STEP_SHARERS]);
}

/* Returns a rate times a number from 0.5 to 1.5 that changes from T to T. */
static u64 dithered(u64 rate, const struct shim_law_input *input)
{
	u16 noise = (u16)shim_mul_div(input->now_ns, NOISE, input->period_ns);

	return shim_mul_div(rate, 0x8000 + noise, 0x10000);
}

/* Class 1's loop: one step, F in ppm. */
static void plain(u64 *loop, const struct shim_law_input *input, u64 congestion)
{
	u64 cut = shim_mul_div(loop[RATE], input->knobs[ALPHA] * congestion, PPM * PPM);

	if (congestion)
		loop[CUT_NS] = input->now_ns ? input->now_ns : 1;
	loop[RATE] = shim_add_sat(loop[RATE] - cut,
				  shim_mul_div(step(input), PPM - congestion, PPM));
}

/* Class 3's convex growth, for the proportion of traffic that met no congestion, ppm. */
static void grow(u64 *loop, const struct shim_law_input *input, u64 clear)
{
	u64 more = shim_mul_div(dithered(step(input), input), clear, PPM);

	loop[RATE] = shim_add_sat(loop[RATE], shim_mul_div(loop[INCREASE], clear, PPM));
	loop[INCREASE] = shim_add_sat(loop[INCREASE], more);
}

/* Class 3's loop: one step, F in ppm. */
static void shaped(u64 *loop, const struct shim_law_input *input, u64 congestion)
{
	u64 elapsed = input->now_ns > loop[CUT_NS] ? input->now_ns - loop[CUT_NS] : 0;
	u64 gamma = input->knobs[GAMMA];
	u64 mean = seawall_low(loop[CONGESTION]) * (PPM - gamma) + congestion * gamma;

	mean = shim_div(mean, PPM);
	loop[CONGESTION] = seawall_pack(seawall_high(loop[CONGESTION]), mean);
	if (congestion) {
		u64 part_cut = shim_div(input->knobs[ALPHA] * congestion, PPM) * mean;
		u64 cut = shim_mul_div(loop[RATE], part_cut, PPM * PPM);

		loop[GOAL] = loop[RATE] > loop[GOAL] ? loop[RATE] : loop[RATE] - cut / 2;
		loop[CUT_NS] = input->now_ns ? input->now_ns : 1;
		loop[INCREASE] = shim_mul_div(loop[INCREASE], PPM - congestion, PPM);
		loop[RATE] -= cut;
		grow(loop, input, PPM - congestion);
	} else if (loop[RATE] < loop[GOAL] && elapsed < input->knobs[GOAL_TIME]) {
		u64 left = PPM - shim_mul_div(elapsed, PPM, input->knobs[GOAL_TIME]);
		u64 most = shim_mul_div(loop[GOAL] - loop[RATE], input->knobs[DELTA], PPM);

		if (left < CONCAVE_MIN)
			left = CONCAVE_MIN;
		loop[RATE] += shim_mul_div(most, left * left * left, PPM * PPM * PPM);
	} else {
		grow(loop, input, PPM);
	}
}

void seawall_adapt(u64 *loop, const struct shim_law_input *input, u64 hurt, u64 told, u64 steps)
{
	u64 congestion = shim_mul_div(hurt < told ? hurt : told, PPM, told);

	do {
		if (input->knobs[CLASS] == 3)
			shaped(loop, input, congestion);
		else
			plain(loop, input, congestion);
	} while (steps-- > 1);
}

u64 seawall_settle(u64 *loop, const struct shim_law_input *input, u64 most, bool cleared)
{
	u64 since_cut = input->now_ns > loop[CUT_NS] ? input->now_ns - loop[CUT_NS] : 0;
	u64 floor = lowest(input);
	u64 before = seawall_high(loop[CONGESTION]);

	if (cleared && loop[RATE] >= most && since_cut >= ECHO * input->period_ns) {
		loop[RATE] = most;
		loop[INCREASE] = 0;
	}
	if (before && before != input->weight && loop[CUT_NS] && since_cut < PAUSE_NS) {
		loop[RATE] = shim_mul_div(loop[RATE], input->weight, before);
		loop[GOAL] = shim_mul_div(loop[GOAL], input->weight, before);
		loop[CUT_NS] = input->now_ns ? input->now_ns : 1;
	}
	loop[CONGESTION] = seawall_pack(input->weight, seawall_low(loop[CONGESTION]));
	if (loop[RATE] < floor)
		loop[RATE] = floor;
	return loop[RATE] < most ? loop[RATE] : most;
}
