// SPDX-License-Identifier: Apache-2.0
/*
 * Water that rises in many basins, each among members of its own (rates/paths/filling.py has what
 * it is for).
 *
 * A member of a basin takes max(low, min(high, slope * y)) of it while water stands at level y.
 * A basin of capacity c whose highs do not all fit is full at the level y where these add up to
 * c.  The sum never falls with y and is made of straight pieces, so Newton's method finds the
 * piece on which it meets c in a few steps; a step that leaves the interval known to hold the
 * level halves that interval.  Slopes are above 0, highs finite and no less than lows.
 */
#include <math.h>

#include "filling.h"
#include "native.h"

#define STEPS 100	/* of Newton's method or of halving, at most */
#define EXACT 0.000000000001	/* of a capacity: what may be missing */

double basin_sum(const double *values, size_t count)
{
	double found = 0;
	size_t i;

	for (i = 0; i < count; i++)
		found += values[i];
	return found;
}

/* Returns what a member wants at a level, within its low and its high. */
static double taken(const struct basin *b, size_t i, double level)
{
	double wanted = b->slopes[i] * level;

	return wanted < b->lows[i] ? b->lows[i] : wanted > b->highs[i] ? b->highs[i] : wanted;
}

/* Returns what is missing at a level for a basin to be full; below 0: it is more than full. */
static double missing_at(const struct basin *b, double level)
{
	double found = 0;
	size_t i;

	for (i = 0; i < b->count; i++)
		found += taken(b, i, level);
	return b->capacity - found;
}

/*
 * Returns how much the sum rises for each unit of level; at a bend the piece on the side of the
 * answer counts.
 */
static double rise_at(const struct basin *b, double level, bool up)
{
	double found = 0;
	size_t i;

	for (i = 0; i < b->count; i++) {
		double wanted = b->slopes[i] * level;

		if ((up ? wanted >= b->lows[i] : wanted > b->lows[i]) &&
		    (up ? wanted < b->highs[i] : wanted <= b->highs[i]))
			found += b->slopes[i];
	}
	return found;
}

/*
 * Returns the level at which a basin is full whose capacity is above its lows and below its
 * highs.
 */
static double meet(const struct basin *b)
{
	double level = b->capacity / basin_sum(b->slopes, b->count);
	double below = 0, above = INFINITY;
	int step;

	for (step = 0; step < STEPS; step++) {
		double missing = missing_at(b, level);
		bool up = missing > 0;
		double rise, next;

		if (up)
			below = level;
		else
			above = level;
		rise = rise_at(b, level, up);
		next = rise > 0 ? level + missing / rise : 0;
		if (!(rise > 0 && next > below && next < above))
			next = isinf(above) ? 2 * level : (below + above) / 2;
		if (fabs(missing) <= EXACT * b->capacity || next == level)
			break;
		level = next;
	}
	return level;
}

double basin_level(const struct basin *b)
{
	double found = 0;
	size_t i;

	if (basin_sum(b->lows, b->count) >= b->capacity)
		return 0;
	if (basin_sum(b->highs, b->count) > b->capacity)
		return meet(b);
	for (i = 0; i < b->count; i++)
		if (b->highs[i] / b->slopes[i] > found)
			found = b->highs[i] / b->slopes[i];
	return found;
}

/* Returns basin number i of basins that stand one behind the other. */
static struct basin basin_at(const struct native_basins *all, size_t i)
{
	size_t first = all->starts[i];
	size_t end = i + 1 < all->count ? all->starts[i + 1] : all->members;
	struct basin found = {
		.slopes = all->slopes + first,
		.lows = all->lows + first,
		.highs = all->highs + first,
		.count = end - first,
		.capacity = all->capacities[i],
	};

	return found;
}

void native_levels(const struct native_basins *all, double *levels)
{
	size_t i;

	for (i = 0; i < all->count; i++) {
		struct basin b = basin_at(all, i);

		levels[i] = basin_level(&b);
	}
}

void basin_grants(const struct basin *b, double *grants)
{
	double level = basin_level(b);
	double spare = b->capacity - basin_sum(b->highs, b->count);
	size_t i;

	for (i = 0; i < b->count; i++) {
		grants[i] = fmax(b->lows[i], b->slopes[i] * level);
		if (spare > 0)
			grants[i] = fmax(grants[i], b->highs[i] + spare);
	}
}

void native_grants(const struct native_basins *all, double *grants)
{
	size_t i;

	for (i = 0; i < all->count; i++) {
		struct basin b = basin_at(all, i);

		basin_grants(&b, grants + all->starts[i]);
	}
}
