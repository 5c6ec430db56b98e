// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law eyeq, the receiver: its part C of the line, the reading of y, and R; eyeq.c has the algebra
 * and the sources (EyeQ, sections 3.2 and 3.4).
 */
#include "../arith.h"
#include "eyeq.h"

/* Least that a correction leaves of R, as a divisor. */
#define CUT_MAX 4

/* Demand of a receiver falls by this part each T, as a shift: by half in 2 ms. */
#define FADE_RX 4

/* The mean of y takes in this part of each reading, as a shift. */
#define MEAN_SHIFT 3

/* A VM whose mean of y is within this part of C, as a shift, has what it may. */
#define HUNGRY_SHIFT 5

/* Others could use more than they have by this part, as a shift; more than those are short of. */
#define ROOM_SHIFT 4

/* A change of C by more than this part, as a shift, is a correction. */
#define JUMP_SHIFT 3

/* n falls by this part with each correction, as a shift: a full queue lets few peers through. */
#define PEERS_SHIFT 5

/* What may wait in a sender's limiter, whatever the horizon; its times are not changed any more. */
#define WAITING_BYTES (11 * 1514ULL)

/* What a reading of y covers at least at rate C: fewer packets say too little. */
#define READING_BYTES (64 * 1514ULL)

/* An excess of more than this part of C, as a shift, is all that a meter behind a line can read. */
#define SATURATED_SHIFT 4

/* m takes in this part of each f, as a shift: three readings full of marks are an overload. */
#define MARKED_SHIFT 2

/* Where both f and m exceed this, ppm, a queue stands above the switch's threshold. */
#define STANDING_PPM (PPM / 2)

/* Nobody's demand falls below this part of the uplink, as a divisor. */
#define DEMAND_MIN 100

/* Returns what receivers may take of an uplink, ppm. */
static u64 usable_ppm(const struct shim_law_input *input)
{
	return input->knobs[ECN] ? PPM : input->knobs[CAPACITY];
}

u64 eyeq_fade(const struct shim_law_input *input, u64 before, u64 now, u32 shift)
{
	u64 demand = before - (before >> shift);
	u64 least = shim_div(input->capacity, DEMAND_MIN);

	if (demand < now)
		demand = now;
	if (demand < least)
		demand = least;
	return demand ? demand : 1;
}

/* Follows what the VM could receive. */
static void demand_rx(struct shim_limiter_state *state, const struct shim_law_input *input, u64 limit)
{
	u64 mean = state->memory[MEAN];
	u64 could;

	mean = mean - (mean >> MEAN_SHIFT) + (input->rx_rate >> MEAN_SHIFT);
	state->memory[MEAN] = mean;
	if (mean >= limit - (limit >> HUNGRY_SHIFT))
		could = shim_add_sat(mean, mean);
	else
		could = shim_add_sat(mean, mean >> ROOM_SHIFT);
	could = shim_mul_div(could, PPM, usable_ppm(input));
	state->rx_demand = eyeq_fade(input, state->rx_demand, could, FADE_RX);
}

/* Tells whether the meter reads no more than that it is too much. */
static bool saturated(u64 received, u64 limit)
{
	return eyeq_over(received, limit) > limit >> SATURATED_SHIFT;
}

/* Returns f, the part of the packets of this reading that came with CE, ppm; 0 without ecn. */
static u64 marked_ppm(const struct shim_limiter_state *state, const struct shim_law_input *input)
{
	u64 seen = state->memory[SEEN], marked = state->memory[MARKED];

	if (!input->knobs[ECN] || !seen)
		return 0;
	return marked < seen ? shim_mul_div(marked, PPM, seen) : PPM;
}

/* Tells whether there is too much, and how much only the number of peers can say. */
static bool overloaded(const struct shim_limiter_state *state, const struct shim_law_input *input,
		       u64 received, u64 limit)
{
	return saturated(received, limit) ||
	       (marked_ppm(state, input) > STANDING_PPM &&
		state->memory[MARKED_MEAN] > STANDING_PPM);
}

/*
 * Tells whether what is received must be a queue: peers that obey cannot send that much, but could
 * before, and the meter has read the line ever since.
 */
static bool draining(struct shim_limiter_state *state, const struct shim_law_input *input,
		     u64 received, u64 limit)
{
	u64 most = shim_mul_div(state->memory[GRANT], state->memory[PEERS], 1);

	if (!overloaded(state, input, received, limit)) {
		state->memory[OVER_NS] = 0;
		return false;
	}
	/* More by a rounding is not more. */
	if (eyeq_over(most, limit) > limit >> SAME_SHIFT) {
		state->memory[OVER_NS] = input->now_ns;
		return false;
	}
	return state->memory[OVER_NS] &&
	       eyeq_over(input->now_ns, state->memory[OVER_NS]) < input->knobs[DRAIN_TIMEOUT];
}

/* Returns the part of R, ppm, that takes it down to what n peers may have, limit together. */
static u64 plunge(u64 rate, u64 n, u64 limit)
{
	return shim_mul_div(eyeq_over(rate, shim_div(limit, n ? n : 1)), PPM, rate);
}

/* Returns the part of R to take back, ppm, when y exceeds limit or marks came. */
static u64 cut_ppm(const struct shim_limiter_state *state, const struct shim_law_input *input,
		   u64 received, u64 limit)
{
	u64 rate = state->memory[GRANT];
	u64 excess = eyeq_over(received, limit);
	u64 cut = shim_mul_div(input->knobs[GAIN], excess, limit);
	u64 other;

	if (overloaded(state, input, received, limit)) {
		other = plunge(rate, state->memory[PEERS], limit);
		if (cut < other)
			cut = other;
	}
	other = marked_ppm(state, input);
	if (other > state->memory[MARKED_MEAN])
		other = state->memory[MARKED_MEAN];
	other = shim_mul_div(input->knobs[GAIN], other, 2 * PPM);
	if (cut < other)
		cut = other;
	return cut < PPM - PPM / CUT_MAX ? cut : PPM - PPM / CUT_MAX;
}

/* Returns the rate within [rate-min, limit]; limit if that is less than rate-min. */
static u64 grant(const struct shim_law_input *input, u64 rate, u64 limit)
{
	if (rate < input->knobs[RATE_MIN])
		rate = input->knobs[RATE_MIN];
	return rate < limit ? rate : limit;
}

u64 eyeq_advertised(const struct shim_limiter_state *state, const struct shim_law_input *input)
{
	u64 rate = state->memory[GRANT];

	return state->memory[DRAINING] ? grant(input, rate / 2, rate) : rate;
}

/* Lets what is told now, after `told`, take effect before R is corrected again. */
static void wait(struct shim_limiter_state *state, const struct shim_law_input *input, u64 told)
{
	u64 periods_ns = shim_mul_div(input->knobs[REACT], input->period_ns, 1);
	u64 rate = eyeq_advertised(state, input);
	u64 waiting_ns;

	if (rate == told)
		return;
	if (rate > told)
		rate = told;
	waiting_ns = shim_mul_div(WAITING_BYTES, SHIM_NSEC_PER_SEC, rate);
	if (waiting_ns < input->horizon_ns)
		waiting_ns = input->horizon_ns;
	/* Half a period: the timer need not be exact. */
	state->memory[NEXT_NS] =
		shim_add_sat(shim_add_sat(input->now_ns,
					  periods_ns - shim_div(input->period_ns, 2)),
			     waiting_ns);
}

/* Corrects R by what was received, bytes/s. */
static void correct(struct shim_limiter_state *state, const struct shim_law_input *input,
		    u64 received, u64 limit)
{
	u64 rate = state->memory[GRANT];
	u64 told = eyeq_advertised(state, input);
	bool was_draining = state->memory[DRAINING];
	u64 mean = state->memory[MARKED_MEAN];
	u64 cut, raise;

	state->memory[MARKED_MEAN] = mean - (mean >> MARKED_SHIFT) +
				     (marked_ppm(state, input) >> MARKED_SHIFT);
	state->memory[PEERS] -= state->memory[PEERS] >> PEERS_SHIFT;
	if (state->memory[PEERS] < input->peers)
		state->memory[PEERS] = input->peers;
	cut = cut_ppm(state, input, received, limit);
	state->memory[DRAINING] = draining(state, input, received, limit);
	if (state->memory[DRAINING] || (was_draining && received <= limit)) {
		/* R is right already, and y the answer to half of it. */
	} else if (cut) {
		rate -= shim_mul_div(rate, cut, PPM);
	} else {
		raise = shim_mul_div(input->knobs[GAIN], eyeq_over(limit, received), limit);
		rate = shim_add_sat(rate, shim_mul_div(rate, raise, PPM));
	}
	state->memory[GRANT] = grant(input, rate, limit);
	state->memory[PERIODS] = 0;
	state->memory[JUMPED] = 0;
	wait(state, input, told);
}

/*
 * Takes in what was received in a period that counts; returns the mean of enough of them, bytes/s,
 * 0: there are not enough yet.  A VM that rests is not read.
 */
static u64 read(struct shim_limiter_state *state, const struct shim_law_input *input, u64 limit)
{
	u64 *memory = state->memory;
	u64 most = shim_mul_div(limit, input->period_ns, SHIM_NSEC_PER_SEC);
	u64 enough = 1 + shim_div(READING_BYTES - 1, most ? most : 1);

	if (input->now_ns < memory[NEXT_NS] || memory[PERIODS] / 2 >= enough)
		memory[PERIODS] = 0;
	if (input->now_ns < memory[NEXT_NS] || (!memory[PERIODS] && !input->rx_rate))
		return 0;
	if (!memory[PERIODS])
		memory[READING] = 0;
	memory[READING] = shim_add_sat(memory[READING], input->rx_rate);
	memory[PERIODS]++;
	if (!input->rx_rate || memory[PERIODS] < enough)
		return 0;
	return shim_div(memory[READING], memory[PERIODS]);
}

void eyeq_receive(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	u64 limit = shim_mul_div(input->rx_share, usable_ppm(input), PPM);
	u64 rate = state->memory[GRANT], before = state->memory[LIMIT];
	u64 told = before ? eyeq_advertised(state, input) : 0;
	u64 received;

	state->memory[LIMIT] = limit;
	if (!limit)
		return;
	rate = before ? shim_mul_div(rate, limit, before) : limit;
	state->memory[GRANT] = grant(input, rate, limit);
	if (before)
		state->memory[READING] = shim_mul_div(state->memory[READING], limit, before);
	/* What comes now was sent under the old limit; that is no excuse for never reading it. */
	if (before && !state->memory[JUMPED] &&
	    eyeq_over(limit, before) + eyeq_over(before, limit) > before >> JUMP_SHIFT) {
		state->memory[JUMPED] = 1;
		wait(state, input, told);
	}
	demand_rx(state, input, limit);
	received = read(state, input, limit);
	/* The end of a queue is not waited for. */
	if (state->memory[DRAINING] && !received &&
	    !overloaded(state, input, input->rx_rate, limit))
		received = input->rx_rate;
	if (received)
		correct(state, input, received, limit);
	/* Marks, too, are read when what was told last is in effect. */
	if (received || input->now_ns < state->memory[NEXT_NS]) {
		state->memory[SEEN] = 0;
		state->memory[MARKED] = 0;
	}
	state->congested = state->memory[GRANT] < limit;
}
