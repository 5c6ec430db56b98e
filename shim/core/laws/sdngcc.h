/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Law sdngcc for laws that fall back to it; sdngcc.c has the algebra.
 *
 * Such a law begins its table of knobs by including sdngcc_knobs.h, and has a struct sdngcc_limiter
 * in its own state.
 */
#ifndef SHIM_CORE_LAWS_SDNGCC_H
#define SHIM_CORE_LAWS_SDNGCC_H

#include "../climb.h"
#include "../law.h"

/* Indices into the knobs. */
enum sdngcc_knob {
	SDNGCC_CUT_FULL,
	SDNGCC_CUT_PATIENCE,
	SDNGCC_CUT_HASTE,
	SDNGCC_CUT_MARK,
	SDNGCC_CONGESTION_TIMEOUT,
	SDNGCC_STEP_SLOW,
	SDNGCC_STEP_FAST,
	SDNGCC_STEP_MAX,
	SDNGCC_STEP_SHARERS,
	SDNGCC_STEP_SCALED,
	SDNGCC_RMIN,
	SDNGCC_LEVEL_PERIODS,
	SDNGCC_RECOVER,
	SDNGCC_PACED,

	SDNGCC_KNOBS
};

/* What law sdngcc keeps of a limiter. */
struct sdngcc_limiter {
	struct shim_climb_state climb;	/* since the last step */
	u64 level;		/* what the VM has by weight, bytes/s; 0: never told */
	u64 level_ns;		/* when that was told */
	u32 interval_ns;	/* I of the last message, up to 2 s; 0: it did not say */
	u32 full_run;	/* full messages in a row, the last one included; U32_MAX: or more */
};

/* Cuts the rate by the marks of a message. */
void shim_sdngcc_message(struct shim_limiter_state *state, struct sdngcc_limiter *own,
			 const struct shim_law_input *input, const struct shim_message *message);

/* Tells whether a path may have the whole share. */
bool shim_sdngcc_path_rests(const struct shim_limiter_state *state,
			    const struct shim_law_input *input);

/* Raises the rate by a step. */
void shim_sdngcc_period(struct shim_limiter_state *state, struct sdngcc_limiter *own,
			const struct shim_law_input *input);

#endif
