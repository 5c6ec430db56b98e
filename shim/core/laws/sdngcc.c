// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law sdngcc: SDN-GCC, Algorithm 3 (section VII.A).
 *
 * T is the period, C the uplink's capacity, E the VM's share, w its weight, W the sum of weights
 * that share the congested port, F the bytes of the VM's full packets.  A message brings m marks
 * counted over an interval I.
 *
 *   start:     R = E
 *   message:   R = max(floor, R - cut),   m > 0
 *              cut = h * cut-full * m * F / max(I, T)
 *              or, with cut-full = 0,  m * cut-mark * C * T / I
 *              h = min(2^max(0, k - cut-patience), cut-haste) for the k-th message in a row that is
 *              full (m * F / I at least 3/4 of the rate sent), else 1
 *              with a level L,  cut <= h * cut-full * R, and cut * (R/L)^2 where R < L
 *   level L:   R = max(floor, min(R, L))
 *   each T:    R = min(E, R + step * T/P)
 *              step = step-slow * C * w/W                          silence < S
 *              step = min((step-fast * C * w/W + recover * (E - R)) * 2^k, step-max * C)
 *              k = silence / S - 1; with step-max = 0 neither doubled nor bounded
 *              step-scaled = 0: C, 2: E in place of C * w/W
 *              P = max(T, I/5), S = max(T_c, 3 I)      I of the last message, up to 2 s
 *              P = T, S = T_c                          with paced = 0
 *              with a level L, for S after it was told: L in place of C * w/W, and
 *              step >= (L - R) / level-periods         silence >= 2 P
 *   floor = min(E, max(guarantee, rmin * E))
 *
 * m * F / I is the rate at which the VM's full packets were marked.  A port of capacity C
 * that marked all it sent cuts its VMs by cut-full * C in total, whatever C, T and I, as a fully
 * marked window costs DCTCP a fixed fraction.  An I shorter than T costs its part of that. I is
 * what a v1 message says, else the time since the last message within [T, T_c].
 *
 * A queue that stays over its threshold for more than cut-patience periods in a row has an overload
 * that small cuts would take long to end: a start or a newcomer at line rate.  The haste h ends it
 * in tens of ms.
 *
 * A level is what the VM has by weight at a congested port where all that want more are equal: a
 * controller that knows what the port carries, who sends by it and how much tells it beside the
 * marks.  Marks go on to say when to send less, and by how much.  The level says whose excess it
 * is: a newcomer at line rate, that by marks loses 5% of what is marked of it as all others do, is
 * at its part with the first level; marks set on its excess cut it no further.  Where marks have
 * cut a VM below it, they cut it less the further below it is, and it regains what it lacks as soon
 * as they cease: a burst of others leaves nobody low.  Steps are parts of the level: a VM that
 * sends little takes no part in them away from others, as it does in W, and a port that is faster
 * than the uplink is climbed in the same time.  level-periods = 0 ignores levels: the paper has
 * none.
 *
 * Marks that are counted seldom arrive seldom: a switch that tells once in I cuts its VMs once in
 * I.  Steps taken each T all the same would outrun the cuts from some 8 T on, and T_c would pass
 * between two messages.  So the law goes by the pace P of its marks: five steps in each I, more
 * than half of what a full message cuts, and silence begins after three I.  Rates then move by the
 * same parts of C in each I, whatever I is: differences fall to a third in 33 I.  Fewer steps take
 * longer; more leave more of C unused.  Up to I = 5 T, and T_c / 3, nothing changes, nor by a
 * message that does not say its I.  With P > T a message is also full if it stands for 3/4 of the
 * VM's part w/W of C: a port that carries a fraction of what is sent to it cannot mark more, and
 * the six full messages that haste waits for are seconds of a slow source.
 *
 * A path, a part of what the VM sends, has an R of its own: marks that a message tells of it cut
 * that alone, of what goes through the port that marked.  It starts at E, its guarantee is its part
 * of the VM's, and it is forgotten when it is at E again and has heard nothing for S.
 *
 * A VM at its share that has heard nothing for S follows the share at once; others climb to it.
 * Silence therefore leaves nobody low: the doubled step reaches E from any floor in some S.
 *
 * Deviations from the paper, and why (docs/decisions.md has the measurements):
 * - Line 14 has marks >= 0; a message without marks says nothing: m > 0.
 * - Line 31 increases a VM that is congested; it must be the one that is not, and small steps
 *   while marks are recent keep the link full between cuts.
 * - Lines 27-30: inactivity has nothing to do with congestion and is the caller's matter.
 * - Line 18 takes marks / elapsed * scale(C), in which scale has no fixed unit; with the authors'
 *   C/200 a mark, one fully marked period at 1 Gb/s costs twice the link and every VM lands on
 *   its floor.  cut-full = 0 with cut-mark = 5000 is that form.
 * - Equal steps for all keep differences for ever (Chiu and Jain); with steps by w/W, and marks
 *   divided by bytes sent, rates move towards the ratio of the weights.  step-scaled = 0 is the
 *   literal form.
 * - R_min is a part of the share, and never below the guarantee.
 * - Line 32 has R + scale(C).  The authors' prototype goes, after 2 ms without marks, to the middle
 *   between R and E and a tenth of E beyond: recover = 1/2, step-fast = 1/10, step-scaled = 2 with
 *   T = T_c = 2 ms.
 *
 * Time counts by the clock, not by calls: a step is in proportion to the time since the last
 * one, at most 2 T, so extra calls (a share changed) and a late timer change nothing on average.
 *
 * All arithmetic saturates: the worst a mad message does is to put R on its floor.
 */
#include "../arith.h"
#include "../climb.h"
#include "../law.h"
#include "sdngcc.h"

/* A message is full when its marks stand for at least this part of the bytes sent. */
#define FULL_NUMERATOR 3
#define FULL_DENOMINATOR 4

/* Longest I that the law goes by, ns: silence shall not last for minutes. */
#define INTERVAL_MOST 2000000000ULL
/* P in I, and I in S. */
#define INTERVAL_PACES 5
#define SILENCE_INTERVALS 3ULL

/* Values of step-scaled. */
#define STEPS_BY_WEIGHT 1
#define STEPS_BY_SHARE 2

static const struct shim_knob sdngcc_knobs[] = {
#include "sdngcc_knobs.h"
};

/* Returns the interval, in ns and at least 1, over which a message's marks were counted. */
static u64 sdngcc_interval_ns(const struct shim_limiter_state *state,
			      const struct shim_law_input *input,
			      const struct shim_message *message)
{
	u64 timeout_ns = input->knobs[SDNGCC_CONGESTION_TIMEOUT];
	u64 elapsed;

	if (message->interval_ns)
		return message->interval_ns;
	elapsed = shim_sub_sat(input->now_ns, state->message_ns);
	if (!state->message_ns || elapsed > timeout_ns)
		elapsed = timeout_ns;
	if (elapsed < input->period_ns)
		elapsed = input->period_ns;
	return elapsed ? elapsed : 1;
}

/* Returns the interval in ns that P and S follow; 0: none. */
static u64 sdngcc_followed_ns(const struct sdngcc_limiter *own, const struct shim_law_input *input)
{
	return input->knobs[SDNGCC_PACED] ? own->interval_ns : 0;
}

/* Returns P: the time in ns, at least T, in which the law takes the step of one period. */
static u64 sdngcc_pace_ns(const struct sdngcc_limiter *own, const struct shim_law_input *input)
{
	u64 pace_ns = shim_div(sdngcc_followed_ns(own, input), INTERVAL_PACES);

	return pace_ns > input->period_ns ? pace_ns : input->period_ns;
}

/* Returns S: silence in ns after which congestion is over. */
static u64 sdngcc_silence_ns(const struct sdngcc_limiter *own, const struct shim_law_input *input)
{
	u64 timeout_ns = input->knobs[SDNGCC_CONGESTION_TIMEOUT];
	u64 slow_ns = SILENCE_INTERVALS * sdngcc_followed_ns(own, input);

	return slow_ns > timeout_ns ? slow_ns : timeout_ns;
}

/* Returns the rate in bytes/s that a message must stand for to be full. */
static u64 sdngcc_full_rate(const struct shim_limiter_state *state,
			    const struct sdngcc_limiter *own,
			    const struct shim_law_input *input)
{
	u64 rate = input->sent_rate;
	u64 part;

	if (sdngcc_pace_ns(own, input) > input->period_ns && state->weight_total) {
		part = shim_mul_div(input->capacity, input->weight, state->weight_total);
		rate = part < rate ? part : rate;
	}
	return shim_mul_div(rate, FULL_NUMERATOR, FULL_DENOMINATOR);
}

/*
 * Returns the factor h of a cut, and keeps count of full messages in a row.  More of them than the
 * largest patience and the doublings up to the largest haste make no difference.
 */
static u64 sdngcc_haste(const struct shim_limiter_state *state, struct sdngcc_limiter *own,
			const struct shim_law_input *input, u32 marks, u64 interval_ns)
{
	u64 marked = shim_mul_div((u64)marks * input->frame, SHIM_NSEC_PER_SEC, interval_ns);
	u64 enough = sdngcc_full_rate(state, own, input);
	u64 patience = input->knobs[SDNGCC_CUT_PATIENCE];
	u64 most = input->knobs[SDNGCC_CUT_HASTE];
	u64 pause = shim_sub_sat(input->now_ns, state->message_ns);
	u64 haste;

	if (!input->sent_rate || marked < enough) {
		own->full_run = 0;
		return 1;
	}
	if (shim_div(pause, 2) > interval_ns)
		own->full_run = 0;
	own->full_run = shim_add_sat32(own->full_run, 1);
	if (own->full_run <= patience)
		return 1;
	haste = shim_double_sat(1, own->full_run - patience);
	return haste < most ? haste : most;
}

/* Returns L in bytes/s, at most C; 0 if none was told within S, or levels are ignored. */
static u64 sdngcc_level(const struct sdngcc_limiter *own, const struct shim_law_input *input)
{
	if (!input->knobs[SDNGCC_LEVEL_PERIODS] ||
	    shim_sub_sat(input->now_ns, own->level_ns) > sdngcc_silence_ns(own, input))
		return 0;
	return own->level < input->capacity ? own->level : input->capacity;
}

/* Takes a level, and falls to it. */
static void sdngcc_take_level(struct shim_limiter_state *state, struct sdngcc_limiter *own,
			      const struct shim_law_input *input, u64 level)
{
	if (!input->knobs[SDNGCC_LEVEL_PERIODS])
		return;
	own->level = level;
	own->level_ns = input->now_ns;
	if (state->rate > level)
		shim_climb_cut(state, input, shim_climb_floor(input, input->knobs[SDNGCC_RMIN]),
			       state->rate - level);
}

/* Returns the part of a cut, in bytes/s, that a VM takes at its level, or as far below it. */
static u64 sdngcc_below(const struct shim_limiter_state *state, const struct sdngcc_limiter *own,
			const struct shim_law_input *input, u64 less)
{
	u64 level = sdngcc_level(own, input);

	if (state->rate >= level)
		return less;
	return shim_mul_div(shim_mul_div(less, state->rate, level), state->rate, level);
}

/* Returns the cut in bytes/s for marks counted over interval_ns. */
static u64 sdngcc_cut_rate(const struct shim_limiter_state *state, struct sdngcc_limiter *own,
			   const struct shim_law_input *input, u32 marks, u64 interval_ns)
{
	u64 full = input->knobs[SDNGCC_CUT_FULL];
	u64 mark, most;

	if (full) {
		u64 least = interval_ns < input->period_ns ? input->period_ns : interval_ns;

		mark = shim_mul_div((u64)marks * input->frame,
				    full * (SHIM_NSEC_PER_SEC / SHIM_PPM), least);
		most = shim_mul_div(state->rate, full, SHIM_PPM);
		if (sdngcc_level(own, input) && mark > most)
			mark = most;
		return shim_mul_div(mark, sdngcc_haste(state, own, input, marks, interval_ns), 1);
	}
	mark = shim_mul_div(input->capacity, input->knobs[SDNGCC_CUT_MARK], SHIM_PPM);
	return shim_mul_div(shim_mul_div(mark, marks, 1), input->period_ns, interval_ns);
}

/* Returns what of a rate in bytes/s belongs to one period where P is longer. */
static u64 sdngcc_paced_rate(const struct sdngcc_limiter *own, const struct shim_law_input *input,
			     u64 rate)
{
	u64 pace_ns = sdngcc_pace_ns(own, input);

	return pace_ns > input->period_ns ? shim_mul_div(rate, input->period_ns, pace_ns) : rate;
}

/* Returns a step in bytes/s for one P: ppm of the level, or of what step-scaled says. */
static u64 sdngcc_step_rate(const struct shim_limiter_state *state,
			    const struct sdngcc_limiter *own, const struct shim_law_input *input,
			    u64 ppm)
{
	u64 total = state->weight_total ? state->weight_total : input->knobs[SDNGCC_STEP_SHARERS];
	u64 level = sdngcc_level(own, input);
	u64 scaled = input->knobs[SDNGCC_STEP_SCALED];
	u64 rate;

	if (level)
		return shim_mul_div(level, ppm, SHIM_PPM);
	if (scaled == STEPS_BY_SHARE)
		return shim_mul_div(input->share, ppm, SHIM_PPM);
	rate = shim_mul_div(input->capacity, ppm, SHIM_PPM);
	if (scaled == STEPS_BY_WEIGHT && input->weight < total)
		return shim_mul_div(rate, input->weight, total);
	return rate;
}

void shim_sdngcc_message(struct shim_limiter_state *state, struct sdngcc_limiter *own,
			 const struct shim_law_input *input, const struct shim_message *message)
{
	u64 interval_ns, less;

	if (message->type == SHIM_MESSAGE_LEVEL)
		sdngcc_take_level(state, own, input, message->rate);
	if (message->type != SHIM_MESSAGE_MARKS || !message->marks)
		return;
	interval_ns = sdngcc_interval_ns(state, input, message);
	state->weight_total = message->weight_total;
	own->interval_ns = message->interval_ns < INTERVAL_MOST ?
			   (u32)message->interval_ns : (u32)INTERVAL_MOST;
	less = sdngcc_cut_rate(state, own, input, message->marks, interval_ns);
	less = sdngcc_below(state, own, input, less);
	shim_climb_cut(state, input, shim_climb_floor(input, input->knobs[SDNGCC_RMIN]), less);
}

/* Returns the least step in bytes/s for one P: what a VM below its level regains without marks. */
static u64 sdngcc_regain_rate(const struct shim_limiter_state *state,
			      const struct sdngcc_limiter *own, const struct shim_law_input *input)
{
	u64 silence = shim_sub_sat(input->now_ns, state->message_ns);
	u64 level = sdngcc_level(own, input);

	if (!level || shim_div(silence, 2) < sdngcc_pace_ns(own, input))
		return 0;
	return shim_div(shim_sub_sat(level, state->rate), input->knobs[SDNGCC_LEVEL_PERIODS]);
}

/* Returns what is to be added in each period for ppm of what the VM has by weight, bytes/s. */
static u64 sdngcc_climb_rate(const struct shim_limiter_state *state,
			     const struct sdngcc_limiter *own, const struct shim_law_input *input,
			     u64 ppm)
{
	u64 step = sdngcc_step_rate(state, own, input, ppm);
	u64 least = sdngcc_regain_rate(state, own, input);

	return sdngcc_paced_rate(own, input, step > least ? step : least);
}

/* Returns what is to be added in each period after T_c, bytes/s. */
static u64 sdngcc_fast_rate(const struct shim_limiter_state *state,
			    const struct sdngcc_limiter *own, const struct shim_law_input *input)
{
	u64 less = shim_sub_sat(input->share, state->rate);
	u64 more = shim_mul_div(less, input->knobs[SDNGCC_RECOVER], SHIM_PPM);

	return shim_add_sat(sdngcc_climb_rate(state, own, input, input->knobs[SDNGCC_STEP_FAST]),
			    sdngcc_paced_rate(own, input, more));
}

void shim_sdngcc_period(struct shim_limiter_state *state, struct sdngcc_limiter *own,
			const struct shim_law_input *input)
{
	u64 most = shim_mul_div(input->capacity, input->knobs[SDNGCC_STEP_MAX], SHIM_PPM);
	const struct shim_climb climb = {
		.timeout_ns = sdngcc_silence_ns(own, input),
		.floor = shim_climb_floor(input, input->knobs[SDNGCC_RMIN]),
		.slow = sdngcc_climb_rate(state, own, input, input->knobs[SDNGCC_STEP_SLOW]),
		.fast = sdngcc_fast_rate(state, own, input),
		.most = sdngcc_paced_rate(own, input, most),
	};

	shim_climb_step(state, &own->climb, input, &climb);
}

bool shim_sdngcc_path_rests(const struct shim_limiter_state *state,
			    const struct shim_law_input *input)
{
	return !state->congested && state->rate >= input->share;
}

/* Starts a limiter at its share. */
static void sdngcc_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct sdngcc_limiter *own = shim_limiter_own(state);

	shim_climb_start(state, &own->climb, input);
}

/* Cuts the rate by the marks of a message. */
static void sdngcc_message(struct shim_limiter_state *state, const struct shim_law_input *input,
			   const struct shim_message *message)
{
	shim_sdngcc_message(state, shim_limiter_own(state), input, message);
}

/* Raises the rate by a step. */
static void sdngcc_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	shim_sdngcc_period(state, shim_limiter_own(state), input);
}

const struct shim_law shim_law_sdngcc = {
	.name = "sdngcc",
	.knobs = sdngcc_knobs,
	.n_knobs = SHIM_COUNT(sdngcc_knobs),
	.obeys_levels = true,
	.period_ns = 5000000,
	.limiter_size = sizeof(struct sdngcc_limiter),
	.init = sdngcc_init,
	.on_message = sdngcc_message,
	.on_period = sdngcc_period,
	.path_init = sdngcc_init,
	.path_rests = shim_sdngcc_path_rests,
};
