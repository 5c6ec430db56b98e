/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Law sdngcc for laws that fall back to it; sdngcc.c has the algebra.
 *
 * Such a law begins its table of knobs by including sdngcc_knobs.h, and keeps what it remembers
 * behind SDNGCC_WORDS.
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

	SDNGCC_KNOBS
};

/* Indices into struct shim_limiter_state's memory. */
enum sdngcc_memory {
	SDNGCC_FULL_RUN = SHIM_CLIMB_WORDS,	/* full messages in a row, the last one included */

	SDNGCC_WORDS
};

/* Cuts the rate by the marks of a message. */
void shim_sdngcc_message(struct shim_limiter_state *state, const struct shim_law_input *input,
			 const struct shim_message *message);

/* Raises the rate by a step. */
void shim_sdngcc_period(struct shim_limiter_state *state, const struct shim_law_input *input);

#endif
