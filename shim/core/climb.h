/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What laws have in common that cut a rate by marks and climb back to the share by steps.
 *
 *   start:   R = E
 *   cut:     R = max(floor, R - cut)
 *   each T:  R = min(E, R + slow)                        silence < T_c
 *            R = min(E, R + min(fast * 2^k, most))       k = silence / T_c - 1
 *
 * A VM at its share that has heard nothing for T_c follows the share at once; others climb to it.
 * Silence therefore leaves nobody low: the doubled step reaches E from any floor in some T_c.
 *
 * A burst of marks may go on longer than T_c and within it pause for longer: fast steps would then
 * bring each burst back as hard as the last.  A law may hold them back until slow steps alone have
 * raised R by a part g of what the last cut left, R_m, for 10 T_c at most:
 *
 *   held back:  slow * silence / T < g * R_m     and silence < 10 T_c
 *
 * Time counts by the clock, not by calls: a step is in proportion to the time since the last
 * one, at most 2 T, so extra calls (a share changed) and a late timer change nothing on average.
 * All arithmetic saturates.
 */
#ifndef SHIM_CORE_CLIMB_H
#define SHIM_CORE_CLIMB_H

#include "law.h"

/* What is remembered of a limiter from step to step; a member of the law's own state. */
struct shim_climb_state {
	u64 step_ns;		/* time of the last step */
	u64 share;		/* E(i) at the last step, bytes/s */
};

/* How a limiter climbs; steps in bytes/s for each period. */
struct shim_climb {
	u64 timeout_ns;		/* T_c, not 0 */
	u64 floor;		/* bytes/s; no more than the share counts */
	u64 slow;		/* step while marks are recent */
	u64 fast;		/* step after T_c */
	u64 most;		/* bound of the doubled fast step; 0: it does not double */
};

/* What holds fast steps back; rates in bytes/s. */
struct shim_regain {
	u64 timeout_ns;		/* T_c */
	u64 slow;		/* step for each period; 0: nothing is held back */
	u64 cut_to;		/* R_m */
	u64 part_ppm;		/* g; 0: nothing is held back */
};

/* Returns the rate, bytes/s, below which marks do not cut: rmin_ppm of E, or the guarantee. */
u64 shim_climb_floor(const struct shim_law_input *input, u64 rmin_ppm);

/* Notes that the limiter's rate has just been set for the share that there is now. */
void shim_climb_note(struct shim_climb_state *last, const struct shim_law_input *input);

/* Starts a limiter at its share. */
void shim_climb_start(struct shim_limiter_state *state, struct shim_climb_state *last,
		      const struct shim_law_input *input);

/* Cuts the rate by less bytes/s, but not below floor, and remembers when marks came. */
void shim_climb_cut(struct shim_limiter_state *state, const struct shim_law_input *input, u64 floor,
		    u64 less);

/* Tells whether fast steps are held back, silence_ns after the last marks, with periods of T. */
bool shim_climb_holds_back(const struct shim_regain *regain, u64 silence_ns, u64 period_ns);

/* Raises the rate by a step and keeps it between floor and share. */
void shim_climb_step(struct shim_limiter_state *state, struct shim_climb_state *last,
		     const struct shim_law_input *input, const struct shim_climb *climb);

#endif
