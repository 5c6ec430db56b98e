/* SPDX-License-Identifier: Apache-2.0 */
/* One basin of water that rises among its members (filling.c has the algebra). */
#ifndef SDNGCC_CONTROLLER_NATIVE_FILLING_H
#define SDNGCC_CONTROLLER_NATIVE_FILLING_H

#include <stddef.h>

/* Members of a basin, and what they can have. */
struct basin {
	const double *slopes;
	const double *lows;
	const double *highs;
	size_t count;		/* of members */
	double capacity;
};

/* Returns the sum of some numbers. */
double basin_sum(const double *values, size_t count);

/*
 * Returns the level of a basin: 0 where lows fill it; where all highs fit, the one at which all
 * members have them.
 */
double basin_level(const struct basin *b);

/* Writes what a basin would let each member take if it alone wanted more. */
void basin_grants(const struct basin *b, double *grants);

#endif
