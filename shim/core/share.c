// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Share E(i): weighted max-min division of an uplink with guarantees and ceilings.
 *
 * SDN-GCC section VI has equal shares of the NIC's capacity C among active VMs; weights,
 * guarantees and ceilings are ours.  VM k with weight w, guarantee a and ceiling b gets
 *
 *   e_k(x) = max(a_k, min(b_k, w_k * x)),      E_k = e_k(x*)
 *   f(x) = sum of e_k(x),                      x* = the largest x with f(x) <= C
 *
 * As water filled to level x: nobody can get more without somebody of no larger E/w getting
 * less.  A ceiling below the guarantee counts as the guarantee; none counts as C.
 *
 * f is piecewise linear and never falls, so x* lies in a bracket lo <= x* < hi that each pass
 * over the claims shrinks: Newton's step x + (C - f(x)) / (sum of w of those between their
 * bounds), which hits x* exactly once the right claims are at their bounds, and a halving in every
 * third pass, which bounds the passes at 3 * 64 whatever the claims.  Usually there are 3 to 8.
 *
 * x is an integer in units of 2^-fraction bytes/s per unit of weight: fraction is 16 and less only
 * if C << 16 does not fit 64 bits.  When lo and hi are neighbours, less than w / 2^fraction + 1
 * bytes/s a claim are left; they go to the first claims that e(hi) gives more than e(lo).  So
 * the shares add up to min(C, sum of ceilings) exactly.
 */
#include "arith.h"
#include "share.h"

/* The claims being divided and the scale of the water level. */
struct pool {
	struct shim_claim *claims;	/* whose shares are wanted */
	u32 n;				/* how many */
	u32 fraction;			/* bits of the level behind the point */
	u64 capacity;			/* C, bytes/s */
};

/* Returns e_k(level) in bytes/s. */
static u64 claim_at(const struct pool *pool, const struct shim_claim *claim, u64 level)
{
	u64 whole = level >> pool->fraction;
	u64 part = level & ((1ULL << pool->fraction) - 1);
	u64 ceiling = pool->capacity;
	u64 want;

	if (claim->max && claim->max < ceiling)
		ceiling = claim->max;
	/* whole * 65536 may pass 2^64 only when whole is 2^48 bytes/s or more. */
	want = whole >> 48 ? shim_mul_div(whole, claim->weight, 1) : whole * claim->weight;
	want = shim_add_sat(want, part * claim->weight >> pool->fraction);
	if (want > ceiling)
		want = ceiling;
	return want > claim->min ? want : claim->min;
}

/*
 * Returns f(level), at most U64_MAX, and in *slope the weight of the claims between their bounds.
 * Writes nothing to the claims.
 */
static u64 total_at(const struct pool *pool, u64 level, u64 *slope)
{
	u64 total = 0;
	u32 i;

	*slope = 0;
	for (i = 0; i < pool->n; i++) {
		const struct shim_claim *claim = &pool->claims[i];
		u64 share = claim_at(pool, claim, level);

		total = shim_add_sat(total, share);
		if (share > claim->min && share < pool->capacity &&
		    (!claim->max || share < claim->max))
			*slope += claim->weight;
	}
	return total;
}

/* Returns the level to try after f(level) = total, strictly between lo and hi. */
static u64 next_level(const struct pool *pool, u64 level, u64 total, u64 slope, u64 lo, u64 hi)
{
	u64 next, step;

	if (!slope)
		return lo + (hi - lo) / 2;
	if (total <= pool->capacity) {
		step = shim_mul_div(pool->capacity - total, 1ULL << pool->fraction, slope);
		next = shim_add_sat(level, step);
	} else {
		step = shim_mul_div(total - pool->capacity, 1ULL << pool->fraction, slope);
		next = level > step ? level - step : 0;
	}
	if (next <= lo)
		return lo + 1;
	return next < hi ? next : hi - 1;
}

/* Returns the largest level with f(level) <= capacity; *top is the one at which all have all. */
static u64 find_level(const struct pool *pool, u64 *top)
{
	u64 lo = 0, hi = pool->capacity << pool->fraction;
	u64 level = hi, total, slope;
	u32 pass;

	*top = hi;
	total = total_at(pool, hi, &slope);
	if (total <= pool->capacity)
		return hi;
	/* The sum of weights is the slope where no bound holds: a good first guess. */
	for (pass = 0, slope = 0; pass < pool->n; pass++)
		slope += pool->claims[pass].weight;
	level = shim_mul_div(pool->capacity, 1ULL << pool->fraction, slope ? slope : 1);
	for (pass = 1; hi - lo > 1; pass++) {
		if (level <= lo || level >= hi || pass % 3 == 0)
			level = lo + (hi - lo) / 2;
		total = total_at(pool, level, &slope);
		if (total <= pool->capacity)
			lo = level;
		else
			hi = level;
		if (hi - lo > 1)
			level = next_level(pool, level, total, slope, lo, hi);
	}
	return lo;
}

/* Writes the guarantees, reduced in proportion until they fit the capacity. */
static void scale_guarantees(struct shim_claim *claims, u32 n, u64 capacity)
{
	u64 total = 0;
	u32 shift = 0;
	u32 i;

	for (i = 0; i < n; i++)
		total = shim_add_sat(total, claims[i].min);
	/* 2^32 claims of 2^32 fit: past 64 bits the lower halves no longer matter. */
	if (total == ~0ULL) {
		shift = 32;
		for (i = 0, total = 0; i < n; i++)
			total += claims[i].min >> shift;
	}
	for (i = 0; i < n; i++)
		claims[i].share = shim_mul_div(claims[i].min >> shift, capacity, total);
}

bool shim_share(struct shim_claim *claims, u32 n, u64 capacity)
{
	struct pool pool = { .claims = claims, .n = n, .fraction = 16, .capacity = capacity };
	u64 guaranteed = 0;
	u64 level, top, left;
	u32 i;

	for (i = 0; i < n; i++)
		guaranteed = shim_add_sat(guaranteed, claims[i].min);
	if (guaranteed > capacity) {
		scale_guarantees(claims, n, capacity);
		return false;
	}
	while (pool.fraction && capacity >> (64 - pool.fraction))
		pool.fraction--;

	level = find_level(&pool, &top);
	left = capacity;
	for (i = 0; i < n; i++) {
		claims[i].share = claim_at(&pool, &claims[i], level);
		left -= claims[i].share;
	}
	if (level == top)
		return true;
	for (i = 0; i < n && left; i++) {
		u64 more = claim_at(&pool, &claims[i], level + 1) - claims[i].share;

		if (more > left)
			more = left;
		claims[i].share += more;
		left -= more;
	}
	return true;
}
