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
#define CONCAVE_MIN (SHIM_PPM / 10)

/* Returns the rate below which nothing cuts, bytes/s. */
static u64 seawall_floor(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->share, input->knobs[FLOOR], SHIM_PPM);

	if (rate < input->min)
		rate = input->min;
	/* A rate of 0 would leave a tunnel unbounded. */
	if (rate < SHIM_RATE_MIN)
		rate = SHIM_RATE_MIN;
	return rate < input->share ? rate : input->share;
}

u64 seawall_start(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->share, input->knobs[START], SHIM_PPM);
	u64 floor = seawall_floor(input);

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
static u64 seawall_step_rate(const struct shim_law_input *input)
{
	u64 rate = shim_mul_div(input->capacity, input->knobs[STEP], SHIM_PPM);

	return shim_mul_div(rate, input->weight, input->knobs[STEP_SHARERS]);
}

/* Returns a rate times a number from 0.5 to 1.5 that changes from T to T. */
static u64 seawall_dithered(u64 rate, const struct shim_law_input *input)
{
	u16 noise = (u16)shim_mul_div(input->now_ns, NOISE, input->period_ns);

	return shim_mul_div(rate, 0x8000 + noise, 0x10000);
}

/* Class 1's loop: one step, F in ppm. */
static void seawall_step_plain(struct seawall_loop *loop, const struct shim_law_input *input,
			       u64 congestion)
{
	u64 more = shim_mul_div(seawall_step_rate(input), SHIM_PPM - congestion, SHIM_PPM);
	u64 part_cut = input->knobs[ALPHA] * congestion;
	u64 cut = shim_mul_div(loop->rate, part_cut, SHIM_PPM * SHIM_PPM);

	if (congestion)
		loop->cut_ns = shim_stamp(input->now_ns);
	loop->rate = shim_add_sat(loop->rate - cut, more);
}

/* Class 3's convex growth, for the proportion of traffic that met no congestion, ppm. */
static void seawall_grow(struct seawall_loop *loop, const struct shim_law_input *input, u64 clear)
{
	u64 more = shim_mul_div(seawall_dithered(seawall_step_rate(input), input), clear, SHIM_PPM);

	loop->rate = shim_add_sat(loop->rate, shim_mul_div(loop->increase, clear, SHIM_PPM));
	loop->increase = shim_add_sat(loop->increase, more);
}

/* Returns Class 3's way back to the goal for one step, bytes/s. */
static u64 seawall_concave(const struct seawall_loop *loop, const struct shim_law_input *input)
{
	u64 elapsed = shim_sub_sat(input->now_ns, loop->cut_ns);
	u64 passed = shim_mul_div(elapsed, SHIM_PPM, input->knobs[GOAL_TIME]);
	u64 most = shim_mul_div(loop->goal - loop->rate, input->knobs[DELTA], SHIM_PPM);
	u64 left = shim_sub_sat(SHIM_PPM, passed);

	if (left < CONCAVE_MIN)
		left = CONCAVE_MIN;
	return shim_mul_div(most, left * left * left, SHIM_PPM * SHIM_PPM * SHIM_PPM);
}

/* Class 3's TakeFeedback, lines 5 to 11: the proportion in ppm that was lost or marked. */
static void seawall_take_congestion(struct seawall_loop *loop, const struct shim_law_input *input,
				    u64 proportion)
{
	u64 gained = shim_div(input->knobs[GAMMA] * proportion, SHIM_PPM);
	u64 mean = loop->congestion + shim_div((SHIM_PPM - loop->congestion) * gained, SHIM_PPM);
	u64 part_cut = shim_div(input->knobs[ALPHA] * proportion, SHIM_PPM) * mean;
	u64 cut = shim_mul_div(loop->rate, part_cut, SHIM_PPM * SHIM_PPM);

	loop->congestion = mean;
	loop->increase = 0;
	loop->cut_ns = shim_stamp(input->now_ns);
	loop->goal = loop->rate > loop->goal ? loop->rate : loop->rate - cut / 2;
	loop->rate -= cut;
}

/* The same, lines 5 and 12 to 20: the proportion in ppm that met no congestion. */
static void seawall_take_clear(struct seawall_loop *loop, const struct shim_law_input *input,
			       u64 proportion)
{
	u64 gained = shim_div(input->knobs[GAMMA] * proportion, SHIM_PPM);
	u64 mean = loop->congestion, more;

	loop->congestion -= shim_div(mean * gained, SHIM_PPM);
	if (loop->rate < loop->goal) {
		more = shim_mul_div(seawall_concave(loop, input), input->weight, 1);
		loop->rate = shim_add_sat(loop->rate, shim_mul_div(more, proportion, SHIM_PPM));
		return;
	}
	more = shim_mul_div(loop->increase, proportion, SHIM_PPM);
	loop->rate = shim_add_sat(loop->rate, more);
	more = shim_mul_div(seawall_step_rate(input), proportion, SHIM_PPM);
	loop->increase = shim_add_sat(loop->increase, more);
}

/* Class 3's loop as the paper has it: one call for each proportion of what was told. */
static void seawall_step_literal(struct seawall_loop *loop, const struct shim_law_input *input,
				 u64 congestion)
{
	if (congestion)
		seawall_take_congestion(loop, input, congestion);
	if (congestion < SHIM_PPM)
		seawall_take_clear(loop, input, SHIM_PPM - congestion);
}

/* Class 3's loop: one step, F in ppm. */
static void seawall_step_shaped(struct seawall_loop *loop, const struct shim_law_input *input,
				u64 congestion)
{
	u64 elapsed = shim_sub_sat(input->now_ns, loop->cut_ns);
	u64 gamma = input->knobs[GAMMA];
	u64 mean = loop->congestion * (SHIM_PPM - gamma) + congestion * gamma;

	mean = shim_div(mean, SHIM_PPM);
	loop->congestion = mean;
	if (congestion) {
		u64 part_cut = shim_div(input->knobs[ALPHA] * congestion, SHIM_PPM) * mean;
		u64 cut = shim_mul_div(loop->rate, part_cut, SHIM_PPM * SHIM_PPM);

		loop->goal = loop->rate > loop->goal ? loop->rate : loop->rate - cut / 2;
		loop->cut_ns = shim_stamp(input->now_ns);
		loop->increase = shim_mul_div(loop->increase, SHIM_PPM - congestion, SHIM_PPM);
		loop->rate -= cut;
		seawall_grow(loop, input, SHIM_PPM - congestion);
	} else if (loop->rate < loop->goal && elapsed < input->knobs[GOAL_TIME]) {
		loop->rate += seawall_concave(loop, input);
	} else {
		seawall_grow(loop, input, SHIM_PPM);
	}
}

void seawall_adapt(struct seawall_loop *loop, const struct shim_law_input *input, u64 hurt,
		   u64 told, u64 steps)
{
	u64 congestion = shim_mul_div(hurt < told ? hurt : told, SHIM_PPM, told);

	do {
		if (seawall_class(input->knobs) == 3 && seawall_literal(input->knobs))
			seawall_step_literal(loop, input, congestion);
		else if (seawall_class(input->knobs) == 3)
			seawall_step_shaped(loop, input, congestion);
		else
			seawall_step_plain(loop, input, congestion);
	} while (steps-- > 1);
}

u64 seawall_settle(struct seawall_loop *loop, const struct shim_law_input *input, u64 most,
		   bool cleared)
{
	u64 since_cut = shim_sub_sat(input->now_ns, loop->cut_ns);
	u64 floor = seawall_floor(input);
	u32 before = loop->weight;

	if (cleared && loop->rate >= most && since_cut >= ECHO * input->period_ns) {
		loop->rate = most;
		loop->increase = 0;
	}
	if (before && before != input->weight && loop->cut_ns && since_cut < PAUSE_NS &&
	    !seawall_literal(input->knobs)) {
		loop->rate = shim_mul_div(loop->rate, input->weight, before);
		loop->goal = shim_mul_div(loop->goal, input->weight, before);
		loop->cut_ns = shim_stamp(input->now_ns);
	}
	loop->weight = input->weight;
	if (loop->rate < floor)
		loop->rate = floor;
	return loop->rate < most ? loop->rate : most;
}
