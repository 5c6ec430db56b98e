// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Cuts and steps of laws that follow marks; climb.h has the algebra.
 */
#include "arith.h"
#include "climb.h"

/* So many T_c of silence are an end of congestion, whatever slow steps have brought back. */
#define REGAIN_TIMEOUTS 10

u64 shim_climb_floor(const struct shim_law_input *input, u64 rmin_ppm)
{
	u64 rate = shim_mul_div(input->share, rmin_ppm, SHIM_PPM);

	return rate > input->min ? rate : input->min;
}

void shim_climb_note(struct shim_climb_state *last, const struct shim_law_input *input)
{
	last->step_ns = input->now_ns;
	last->share = input->share;
}

void shim_climb_start(struct shim_limiter_state *state, struct shim_climb_state *last,
		      const struct shim_law_input *input)
{
	state->rate = input->share;
	shim_climb_note(last, input);
}

void shim_climb_cut(struct shim_limiter_state *state, const struct shim_law_input *input, u64 floor,
		    u64 less)
{
	if (state->rate < floor || state->rate - floor < less)
		state->rate = floor;
	else
		state->rate -= less;
	if (state->rate > input->share)
		state->rate = input->share;
	state->message_ns = shim_stamp(input->now_ns);
	state->congested = true;
}

/* Returns the step up in bytes/s for one period, silence_ns after the last marks. */
static u64 climb_step_rate(const struct shim_climb *climb, u64 silence_ns)
{
	u64 rate;

	if (silence_ns < climb->timeout_ns)
		return climb->slow;
	if (!climb->most)
		return climb->fast;
	rate = shim_double_sat(climb->fast, shim_div(silence_ns, climb->timeout_ns) - 1);
	return rate < climb->most ? rate : climb->most;
}

bool shim_climb_holds_back(const struct shim_regain *regain, u64 silence_ns, u64 period_ns)
{
	return regain->slow && silence_ns < REGAIN_TIMEOUTS * regain->timeout_ns &&
	       shim_mul_div(regain->slow, silence_ns, period_ns) <
	       shim_mul_div(regain->cut_to, regain->part_ppm, SHIM_PPM);
}

void shim_climb_step(struct shim_limiter_state *state, struct shim_climb_state *last,
		     const struct shim_law_input *input, const struct shim_climb *climb)
{
	u64 elapsed = shim_sub_sat(input->now_ns, last->step_ns);
	u64 silence = shim_sub_sat(input->now_ns, state->message_ns);
	u64 rate = state->rate;

	state->congested = state->message_ns && silence < climb->timeout_ns;
	if (elapsed > 2 * input->period_ns)
		elapsed = 2 * input->period_ns;
	if (!state->congested && rate >= last->share)
		rate = input->share;
	else if (elapsed)
		rate = shim_add_sat(rate, shim_mul_div(climb_step_rate(climb, silence), elapsed,
						       input->period_ns));
	if (rate < climb->floor)
		rate = climb->floor;
	state->rate = rate < input->share ? rate : input->share;
	shim_climb_note(last, input);
}
