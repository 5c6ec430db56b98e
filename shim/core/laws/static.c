// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law static: R = E(i), or a configured rate if that is less.
 *
 *   R = min(E(i), max(rate, guarantee))     with knob rate > 0
 *   R = E(i)                                with knob rate = 0
 *
 * The baseline without work conservation in SDN-GCC section VIII: messages change nothing.
 */
#include "../law.h"

/* Indices into the knobs. */
enum { RATE };

static const struct shim_knob static_knobs[] = {
	[RATE] = {
		.name = "rate",
		.unit = "bytes/s",
		.help = "rate of every VM unless its share is less; 0: the share",
		.source = "SDN-GCC section VIII",
		.value = 0,
		.min = 0,
		.max = SHIM_RATE_MAX,
	},
};

/* Sets the rate from the share. */
static void static_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	u64 rate = input->knobs[RATE];

	if (rate < input->min)
		rate = input->min;
	state->rate = input->knobs[RATE] && rate < input->share ? rate : input->share;
}

/* Starts a limiter at its rate. */
static void static_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	static_period(state, input);
}

/* Counts a message's time, for those who look; the rate stays. */
static void static_message(struct shim_limiter_state *state, const struct shim_law_input *input,
			   const struct shim_message *message)
{
	if (!message->marks)
		return;
	state->message_ns = input->now_ns;
	state->weight_total = message->weight_total;
}

const struct shim_law shim_law_static = {
	.name = "static",
	.knobs = static_knobs,
	.n_knobs = SHIM_COUNT(static_knobs),
	.period_ns = 5000000,
	.init = static_init,
	.on_message = static_message,
	.on_period = static_period,
};
