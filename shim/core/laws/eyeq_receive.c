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

/*
 * Full packets that may wait in a sender's limiter, whatever the horizon; their times are not
 * changed any more.
 */
#define WAITING_FRAMES 11

/* Full packets that a reading of y covers at least at rate C: fewer say too little. */
#define READING_FRAMES 64

/* An excess of more than this part of C, as a shift, is all that a meter behind a line can read. */
#define SATURATED_SHIFT 4

/* m takes in this part of each f, as a shift: three readings full of marks are an overload. */
#define MARKED_SHIFT 2

/* Where both f and m exceed this, ppm, a queue stands above the switch's threshold. */
#define STANDING_PPM (SHIM_PPM / 2)

/* Nobody's demand falls below this part of the uplink, as a divisor. */
#define DEMAND_MIN 100

/* Demand of a VM that receives nothing, literal = 1: bytes/s, the least that is not 0. */
#define DEMAND_NONE 1

/* Returns the bytes of so many full packets, as received or as Ethernet has them. */
static u64 eyeq_frames_bytes(const struct shim_law_input *input, u32 frames)
{
	u32 frame = input->rx_frame > SHIM_FRAME_DEFAULT ? input->rx_frame : SHIM_FRAME_DEFAULT;

	return (u64)frames * frame;
}

/* Returns what receivers may take of an uplink, ppm. */
static u64 eyeq_usable_ppm(const struct shim_law_input *input)
{
	return input->knobs[ECN] ? SHIM_PPM : input->knobs[CAPACITY];
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
static void eyeq_follow_demand(struct shim_limiter_state *state,
			       const struct shim_law_input *input, u64 limit)
{
	struct eyeq_limiter *own = shim_limiter_own(state);
	u64 least = shim_mul_div(input->rx_least, eyeq_usable_ppm(input), SHIM_PPM);
	u64 mean = own->mean;
	u64 could;

	mean = mean - (mean >> MEAN_SHIFT) + (input->rx_rate >> MEAN_SHIFT);
	own->mean = mean;
	if (mean >= limit - (limit >> HUNGRY_SHIFT))
		could = shim_add_sat(mean, mean);
	else
		could = shim_add_sat(mean, mean >> ROOM_SHIFT);
	/* Its own part is there for it when it comes to want more. */
	if (could <= least)
		could = mean;
	could = shim_mul_div(could, SHIM_PPM, eyeq_usable_ppm(input));
	state->rx_demand = eyeq_fade(input, state->rx_demand, could, FADE_RX);
}

/* Tells whether the meter reads no more than that it is too much. */
static bool eyeq_saturated(u64 received, u64 limit)
{
	return shim_sub_sat(received, limit) > limit >> SATURATED_SHIFT;
}

/* Returns f, the part of the packets of this reading that came with CE, ppm; 0 without ecn. */
static u64 eyeq_marked_ppm(const struct eyeq_limiter *own, const struct shim_law_input *input)
{
	u64 seen = own->seen, marked = own->marked;

	if (!input->knobs[ECN] || !seen)
		return 0;
	return marked < seen ? shim_mul_div(marked, SHIM_PPM, seen) : SHIM_PPM;
}

/* Tells whether there is too much, and how much only the number of peers can say. */
static bool eyeq_overloaded(const struct eyeq_limiter *own, const struct shim_law_input *input,
			    u64 received, u64 limit)
{
	return eyeq_saturated(received, limit) ||
	       (eyeq_marked_ppm(own, input) > STANDING_PPM &&
		own->marked_mean > STANDING_PPM);
}

/*
 * Tells whether what is received must be a queue: peers that obey cannot send that much, but could
 * before, and the meter has read the line ever since.
 */
static bool eyeq_drains(struct eyeq_limiter *own, const struct shim_law_input *input,
			u64 received, u64 limit)
{
	u64 most = shim_mul_div(own->grant, own->peers, 1);

	if (!eyeq_overloaded(own, input, received, limit)) {
		own->over_ns = 0;
		return false;
	}
	/* More by a rounding is not more. */
	if (shim_sub_sat(most, limit) > limit >> SAME_SHIFT) {
		own->over_ns = input->now_ns;
		return false;
	}
	return own->over_ns &&
	       shim_sub_sat(input->now_ns, own->over_ns) < input->knobs[DRAIN_TIMEOUT];
}

/* Returns the part of R, ppm, that takes it down to what n peers may have, limit together. */
static u64 eyeq_plunge_ppm(u64 rate, u64 n, u64 limit)
{
	return shim_mul_div(shim_sub_sat(rate, shim_div(limit, n ? n : 1)), SHIM_PPM, rate);
}

/* Returns the part of R to take back, ppm, when y exceeds limit or marks came. */
static u64 eyeq_cut_ppm(const struct eyeq_limiter *own, const struct shim_law_input *input,
			u64 received, u64 limit)
{
	u64 rate = own->grant;
	u64 excess = shim_sub_sat(received, limit);
	u64 cut = shim_mul_div(input->knobs[GAIN], excess, limit);
	u64 other;

	if (eyeq_overloaded(own, input, received, limit)) {
		other = eyeq_plunge_ppm(rate, own->peers, limit);
		if (cut < other)
			cut = other;
	}
	other = eyeq_marked_ppm(own, input);
	if (other > own->marked_mean)
		other = own->marked_mean;
	other = shim_mul_div(input->knobs[GAIN], other, 2 * SHIM_PPM);
	if (cut < other)
		cut = other;
	return cut < SHIM_PPM - SHIM_PPM / CUT_MAX ? cut : SHIM_PPM - SHIM_PPM / CUT_MAX;
}

/* Returns the rate within [rate-min, limit]; limit if that is less than rate-min. */
static u64 eyeq_bound(const struct shim_law_input *input, u64 rate, u64 limit)
{
	if (rate < input->knobs[RATE_MIN])
		rate = input->knobs[RATE_MIN];
	return rate < limit ? rate : limit;
}

u64 eyeq_advertised(const struct eyeq_limiter *own, const struct shim_law_input *input)
{
	u64 rate = own->grant;

	return own->draining ? eyeq_bound(input, rate / 2, rate) : rate;
}

/* Lets what is told now, after `told`, take effect before R is corrected again. */
static void eyeq_wait(struct eyeq_limiter *own, const struct shim_law_input *input, u64 told)
{
	u64 periods_ns = shim_mul_div(input->knobs[REACT], input->period_ns, 1);
	u64 rate = eyeq_advertised(own, input);
	u64 waiting_ns;

	if (rate == told)
		return;
	if (rate > told)
		rate = told;
	waiting_ns = shim_mul_div(eyeq_frames_bytes(input, WAITING_FRAMES), SHIM_NSEC_PER_SEC,
				  rate);
	if (waiting_ns < input->horizon_ns)
		waiting_ns = input->horizon_ns;
	/* Half a period: the timer need not be exact. */
	periods_ns -= shim_div(input->period_ns, 2);
	own->next_ns = shim_add_sat(shim_add_sat(input->now_ns, periods_ns), waiting_ns);
}

/* Corrects R by what was received, bytes/s. */
static void eyeq_correct(struct eyeq_limiter *own, const struct shim_law_input *input,
			 u64 received, u64 limit)
{
	u64 rate = own->grant;
	u64 told = eyeq_advertised(own, input);
	bool was_draining = own->draining;
	u64 mean = own->marked_mean;
	u64 cut, raise;

	own->marked_mean = mean - (mean >> MARKED_SHIFT) +
			   (eyeq_marked_ppm(own, input) >> MARKED_SHIFT);
	own->peers -= own->peers >> PEERS_SHIFT;
	if (own->peers < input->peers)
		own->peers = input->peers;
	cut = eyeq_cut_ppm(own, input, received, limit);
	own->draining = eyeq_drains(own, input, received, limit);
	if (own->draining || (was_draining && received <= limit)) {
		/* R is right already, and y the answer to half of it. */
	} else if (cut) {
		rate -= shim_mul_div(rate, cut, SHIM_PPM);
	} else {
		raise = shim_mul_div(input->knobs[GAIN], shim_sub_sat(limit, received), limit);
		rate = shim_add_sat(rate, shim_mul_div(rate, raise, SHIM_PPM));
	}
	own->grant = eyeq_bound(input, rate, limit);
	own->periods = 0;
	own->jumped = false;
	eyeq_wait(own, input, told);
}

/*
 * Takes in what was received in a period that counts; returns the mean of enough of them, bytes/s,
 * 0: there are not enough yet.  A VM that rests is not read.
 */
static u64 eyeq_read(struct eyeq_limiter *own, const struct shim_law_input *input, u64 limit)
{
	u64 most = shim_mul_div(limit, input->period_ns, SHIM_NSEC_PER_SEC);
	u64 enough = 1 + shim_div(eyeq_frames_bytes(input, READING_FRAMES) - 1, most ? most : 1);

	if (input->now_ns < own->next_ns || own->periods / 2 >= enough)
		own->periods = 0;
	if (input->now_ns < own->next_ns || (!own->periods && !input->rx_rate))
		return 0;
	if (!own->periods)
		own->reading = 0;
	own->reading = shim_add_sat(own->reading, input->rx_rate);
	own->periods++;
	if (!input->rx_rate || own->periods < enough)
		return 0;
	return shim_div(own->reading, own->periods);
}

/* Returns R after section 3.4's correction by what was received, bytes/s; limit > 0. */
static u64 eyeq_corrected(const struct eyeq_limiter *own, const struct shim_law_input *input,
			  u64 received, u64 limit)
{
	u64 excess = shim_sub_sat(received, limit), room = shim_sub_sat(limit, received);
	u64 cut = shim_mul_div(input->knobs[GAIN], excess, limit);
	u64 raise = shim_mul_div(input->knobs[GAIN], room, limit);
	u64 rate = own->grant;

	rate -= shim_mul_div(rate, cut < SHIM_PPM ? cut : SHIM_PPM, SHIM_PPM);
	return shim_add_sat(rate, shim_mul_div(rate, raise, SHIM_PPM));
}

/*
 * Corrects R as section 3.4 has it; limit is the part by weight, bytes/s, of a VM that counted as
 * one that receives when the uplink was divided, and of no meaning for others.
 */
static void eyeq_receive_literal(struct shim_limiter_state *state,
				 const struct shim_law_input *input, u64 limit)
{
	struct eyeq_limiter *own = shim_limiter_own(state);

	if (state->rx_demand != DEMAND_NONE || !own->limit)
		own->limit = limit;
	state->rx_demand = input->rx_rate ? input->capacity : DEMAND_NONE;
	limit = own->limit;
	if (!limit || !input->rx_rate)
		return;
	if (!own->grant)
		own->grant = limit;
	own->grant = eyeq_bound(input, eyeq_corrected(own, input, input->rx_rate, limit),
				input->capacity);
	state->congested = own->grant < limit;
}

void eyeq_receive(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct eyeq_limiter *own = shim_limiter_own(state);
	u64 limit = shim_mul_div(input->rx_share, eyeq_usable_ppm(input), SHIM_PPM);
	u64 rate = own->grant, before = own->limit;
	u64 told = before ? eyeq_advertised(own, input) : 0;
	u64 received;

	if (eyeq_literal(input->knobs)) {
		eyeq_receive_literal(state, input, limit);
		return;
	}
	own->limit = limit;
	if (!limit)
		return;
	rate = before ? shim_mul_div(rate, limit, before) : limit;
	own->grant = eyeq_bound(input, rate, limit);
	if (before)
		own->reading = shim_mul_div(own->reading, limit, before);
	/* What comes now was sent under the old limit; that is no excuse for never reading it. */
	if (before && !own->jumped &&
	    shim_sub_sat(limit, before) + shim_sub_sat(before, limit) > before >> JUMP_SHIFT) {
		own->jumped = true;
		eyeq_wait(own, input, told);
	}
	eyeq_follow_demand(state, input, limit);
	received = eyeq_read(own, input, limit);
	/* The end of a queue is not waited for. */
	if (own->draining && !received && !eyeq_overloaded(own, input, input->rx_rate, limit))
		received = input->rx_rate;
	if (received)
		eyeq_correct(own, input, received, limit);
	/* Marks, too, are read when what was told last is in effect. */
	if (received || input->now_ns < own->next_ns) {
		own->seen = 0;
		own->marked = 0;
	}
	state->congested = own->grant < limit;
}
