// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law maxmin: the controller knows sources, ports and capacities, computes weighted max-min rates
 * and sends them (controller/rates/maxmin.py); the shim obeys, and is on its own when it hears
 * nothing.
 *
 * G is the rate told last and t when it came, E the VM's share, a its guarantee, b its maximum
 * (none: C, the uplink's capacity).  T is the period, H the knob rate-timeout.
 *
 *   start:           G = start * E, t = now
 *   rate message:    G = its rate, t = now
 *   until t + H:     R = max(a, min(b, G))          at once, and again each T
 *   from t + H on:   law sdngcc, whose last message counts as come at t
 *
 * An explicit rate may exceed E: the controller sees the uplink as one more port, and knows who
 * leaves his part of it unused, which E does not.  When messages stop, R returns to at most E
 * with the next period, so nobody is left unlimited; who is below E climbs there by sdngcc's
 * steps, so nobody is left low.
 *
 * Marks are the controller's matter while a rate is in force: a message of marks changes nothing
 * then, or the same congestion would count twice.  After that it cuts as under sdngcc.
 *
 * A VM that begins has been in nobody's sum.  At its share, often line rate, it would overrun a
 * full link until the controller has seen it, in a period or two, and the loss would hit those who
 * keep to their rates.  Hence the start below the share.
 *
 * Messages may overtake each other: of one sender's rates the one sent last stays in force.
 *
 * Rates outside [SHIM_RATE_MIN, SHIM_RATE_MAX] never get here: the message is malformed.
 *
 * Source: ours; the fallback is SDN-GCC's Algorithm 3.
 */
#include "../arith.h"
#include "../climb.h"
#include "../law.h"
#include "sdngcc.h"

/* Indices into the knobs, behind those of law sdngcc. */
enum {
	RATE_TIMEOUT = SDNGCC_KNOBS,
	START,
};

/* What the law keeps of a limiter. */
struct maxmin_limiter {
	struct sdngcc_limiter sdngcc;	/* of the law it falls back to */
	u64 told;		/* G, bytes/s */
	u64 told_ns;		/* t, the time it came */
	u32 told_sender;	/* who told it; 0, with the epoch 0: nobody yet */
	u32 told_epoch;		/* the sender's epoch */
	u32 told_sequence;	/* of its message */
};

static const struct shim_knob maxmin_knobs[] = {
#include "sdngcc_knobs.h"
	[RATE_TIMEOUT] = {
		.name = "rate-timeout",
		.unit = "ns",
		.help = "H: an explicit rate holds so long, then law sdngcc goes on; 0 is refused",
		.source = "ours; five of the controller's refreshes",
		.value = 200000000,
		.min = 1000000,
		.max = 10000000000ULL,
	},
	[START] = {
		.name = "start-ppm",
		.unit = "ppm of share",
		.help = "a VM begins with so much until it is told a rate; 0: with its guarantee",
		.source = "ours",
		.value = 100000,
		.min = 0,
		.max = 1000000,
	},
};

/* Tells whether the rate told last is in force. */
static bool maxmin_holds(const struct maxmin_limiter *own, const struct shim_law_input *input)
{
	return shim_sub_sat(input->now_ns, own->told_ns) < input->knobs[RATE_TIMEOUT];
}

/* Puts the rate told last in force, within guarantee and maximum. */
static void maxmin_obey(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct maxmin_limiter *own = shim_limiter_own(state);
	u64 most = input->max && input->max < input->capacity ? input->max : input->capacity;
	u64 rate = own->told;

	if (rate > most)
		rate = most;
	if (rate < input->min)
		rate = input->min;
	state->rate = rate;
	state->congested = rate < input->share;
	shim_climb_note(&own->sdngcc.climb, input);
}

/* Notes a rate as told now and puts it in force. */
static void maxmin_tell(struct shim_limiter_state *state, const struct shim_law_input *input,
			u64 rate)
{
	struct maxmin_limiter *own = shim_limiter_own(state);

	own->told = rate;
	own->told_ns = input->now_ns;
	maxmin_obey(state, input);
}

/* Starts a limiter below its share. */
static void maxmin_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	maxmin_tell(state, input, shim_mul_div(input->share, input->knobs[START], SHIM_PPM));
}

/*
 * Tells whether a rate message overtook the one told last; notes it as the last if not.  Replays
 * and older epochs never get here.
 */
static bool maxmin_overtaken(struct maxmin_limiter *own, const struct shim_message *message)
{
	if (own->told_sender == message->sender && own->told_epoch == message->epoch &&
	    own->told_sequence > message->sequence)
		return true;
	own->told_sender = message->sender;
	own->told_epoch = message->epoch;
	own->told_sequence = message->sequence;
	return false;
}

/* Obeys a rate; leaves marks to law sdngcc when no rate is in force. */
static void maxmin_message(struct shim_limiter_state *state, const struct shim_law_input *input,
			   const struct shim_message *message)
{
	struct maxmin_limiter *own = shim_limiter_own(state);

	if (message->type == SHIM_MESSAGE_RATE) {
		if (maxmin_overtaken(own, message))
			return;
		maxmin_tell(state, input, message->rate);
		state->message_ns = shim_stamp(input->now_ns);
		state->weight_total = message->weight_total;
	} else if (!maxmin_holds(own, input)) {
		shim_sdngcc_message(state, &own->sdngcc, input, message);
	}
}

/* Keeps to the rate told, or goes on as law sdngcc. */
static void maxmin_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct maxmin_limiter *own = shim_limiter_own(state);

	if (maxmin_holds(own, input))
		maxmin_obey(state, input);
	else
		shim_sdngcc_period(state, &own->sdngcc, input);
}

const struct shim_law shim_law_maxmin = {
	.name = "maxmin",
	.knobs = maxmin_knobs,
	.n_knobs = SHIM_COUNT(maxmin_knobs),
	.obeys_rates = true,
	.period_ns = 5000000,
	.limiter_size = sizeof(struct maxmin_limiter),
	.init = maxmin_init,
	.on_message = maxmin_message,
	.on_period = maxmin_period,
};
