/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the files of law eyeq share: eyeq.c has the algebra and the sources, the sender and the
 * reports; eyeq_receive.c what a receiver grants.
 */
#ifndef SHIM_CORE_LAWS_EYEQ_H
#define SHIM_CORE_LAWS_EYEQ_H

#include "../law.h"

/* Denominator of the knobs that are parts. */
#define PPM 1000000ULL

/* Rates that differ by less than this part, as a shift, are not worth a report. */
#define SAME_SHIFT 6

/* Indices into the knobs. */
enum eyeq_knob {
	GAIN,
	REACT,
	CAPACITY,
	DRAIN_TIMEOUT,
	ECN,
	SAMPLE,
	FEEDBACK,
	HEARTBEAT,
	FEEDBACK_TIMEOUT,
	RATE_MIN,
	IDLE_TIMEOUT,
};

/* Indices into struct shim_limiter_state's memory: the VM as a receiver. */
enum eyeq_memory {
	GRANT,		/* R, bytes/s; 0: nothing received yet */
	LIMIT,		/* C, bytes/s */
	NEXT_NS,	/* when what was last told is in effect, and R may be corrected */
	SEEN,		/* packets received since NEXT_NS or the last correction */
	MARKED,		/* of these, with CE */
	PAID_NS,	/* feedback is paid for up to that time; later is credit */
	OVER_NS,	/* when obedient peers could last exceed C, and did; 0: no longer */
	DRAINING,	/* 1: a queue is being emptied */
	MEAN,		/* of y, bytes/s */
	PEERS,		/* n: most peers seen in a period, fading with each correction */
	READING,	/* sum of y in the periods of this reading, bytes/s */
	PERIODS,	/* how many these are */
	JUMPED,		/* a jump of C was waited for since the last correction: 1 */
	MARKED_MEAN,	/* m: mean of the part of packets with CE over a few readings, ppm */
};

/* Returns a - b, 0 if b is more: a time since another whose clock may go back, or an excess. */
static inline u64 eyeq_over(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Returns what is left of a demand after a period in which `now` was seen, bytes/s. */
u64 eyeq_fade(const struct shim_law_input *input, u64 before, u64 now, u32 shift);

/* Returns what peers are told, bytes/s. */
u64 eyeq_advertised(const struct shim_limiter_state *state, const struct shim_law_input *input);

/* Follows the receiver's part and corrects R when it is time. */
void eyeq_receive(struct shim_limiter_state *state, const struct shim_law_input *input);

#endif
