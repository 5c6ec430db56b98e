// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Cuts and steps of laws that follow marks; climb.h has the algebra.
 */
#include "arith.h"
#include "climb.h"

/* Doublings after which a step is larger than any capacity. */
#define DOUBLINGS_MAX 40

u64 shim_since(u64 now_ns, u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

u64 shim_climb_floor(const struct shim_law_input *input, u64 rmin_ppm)
{
	u64 rate = shim_mul_div(input->share, rmin_ppm, SHIM_PPM);

	return rate > input->min ? rate : input->min;
}

void shim_climb_start(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	static const struct shim_limiter_state fresh;

	*state = fresh;
	state->rate = input->share;
	state->memory[SHIM_CLIMB_STEP_NS] = input->now_ns;
	state->memory[SHIM_CLIMB_SHARE] = input->share;
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
	state->message_ns = input->now_ns ? input->now_ns : 1;
	state->congested = true;
}

/* Returns the step up in bytes/s for one period, silence_ns after the last marks. */
static u64 step(const struct shim_climb *climb, u64 silence_ns)
{
	u64 doublings, rate;

	if (silence_ns < climb->timeout_ns)
		return climb->slow;
	if (!climb->most)
		return climb->fast;
	doublings = shim_div(silence_ns, climb->timeout_ns) - 1;
	if (doublings > DOUBLINGS_MAX)
		doublings = DOUBLINGS_MAX;
	rate = shim_mul_div(climb->fast, 1ULL << doublings, 1);
	return rate < climb->most ? rate : climb->most;
}

void shim_climb_step(struct shim_limiter_state *state, const struct shim_law_input *input,
		     const struct shim_climb *climb)
{
	u64 elapsed = shim_since(input->now_ns, state->memory[SHIM_CLIMB_STEP_NS]);
	u64 silence = shim_since(input->now_ns, state->message_ns);

	state->congested = state->message_ns && silence < climb->timeout_ns;
	if (elapsed > 2 * input->period_ns)
		elapsed = 2 * input->period_ns;
	if (!state->congested && state->rate >= state->memory[SHIM_CLIMB_SHARE])
		state->rate = input->share;
	else if (elapsed)
		state->rate = shim_add_sat(state->rate,
					   shim_mul_div(step(climb, silence), elapsed,
							input->period_ns));
	if (state->rate < climb->floor)
		state->rate = climb->floor;
	if (state->rate > input->share)
		state->rate = input->share;
	state->memory[SHIM_CLIMB_STEP_NS] = input->now_ns;
	state->memory[SHIM_CLIMB_SHARE] = input->share;
}
