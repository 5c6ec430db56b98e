/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the files of law eyeq share: eyeq.c has the algebra and the sources, the sender and the
 * reports; eyeq_receive.c what a receiver grants.
 */
#ifndef SHIM_CORE_LAWS_EYEQ_H
#define SHIM_CORE_LAWS_EYEQ_H

#include "../laboratory.h"
#include "../law.h"

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
	LITERAL,		/* laboratory build */
};

/*
 * What the law keeps of a limiter: the VM as a receiver.  `periods` is at most twice the periods of
 * a reading and 1, and these are no more than READING_FRAMES full packets' bytes.
 */
struct eyeq_limiter {
	u64 grant;		/* R, bytes/s; 0: nothing received yet */
	u64 limit;		/* C, bytes/s */
	u64 next_ns;		/* when what was told is in effect, and R may be corrected */
	u64 paid_ns;		/* feedback is paid for up to that time; later is credit */
	u64 over_ns;		/* when obedient peers could last exceed C, and did; 0: no longer */
	u64 mean;		/* of y, bytes/s */
	u64 reading;		/* sum of y in the periods of this reading, bytes/s */
	u32 periods;		/* how many these are */
	u32 seen;		/* packets received since next_ns or the last correction */
	u32 marked;		/* of these, with CE */
	u32 marked_mean;	/* m: mean over a few readings of the part marked, ppm */
	u32 peers;		/* n: most peers seen in a period, fading with each correction */
	bool draining;		/* a queue is being emptied */
	bool jumped;		/* a jump of C was waited for since the last correction */
};

/* Tells whether receivers compute as published. */
static inline bool eyeq_literal(const u64 *knobs)
{
	return shim_laboratory_knob(knobs, LITERAL, 0);
}

/* Returns what is left of a demand after a period in which `now` was seen, bytes/s. */
u64 eyeq_fade(const struct shim_law_input *input, u64 before, u64 now, u32 shift);

/* Returns what peers are told, bytes/s. */
u64 eyeq_advertised(const struct eyeq_limiter *own, const struct shim_law_input *input);

/* Follows the receiver's part and corrects R when it is time. */
void eyeq_receive(struct shim_limiter_state *state, const struct shim_law_input *input);

#endif
