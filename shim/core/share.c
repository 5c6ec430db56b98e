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
 * third pass, which bounds the passes at 3 * 64 whatever the claims.  Usually there are few.
 *
 * Levels and claims are integers in units of 2^-fraction bytes/s; fraction is 16 and less only if
 * C << 16 does not fit 64 bits.  When lo and hi are neighbours, rounding has left less than
 * w / 2^fraction + 1 bytes/s a claim, which go to the first claims that are below e(hi).  So the
 * shares add up to min(C, sum of ceilings) exactly.
 *
 * By demand, water is filled twice: first with a and b no more than the demand, then with what
 * that gave as a.  That is weighted round robin in the long run: those with a backlog divide by
 * weight what the others leave, and what nobody wants waits for whoever begins.  Guarantees that
 * nobody uses are lent so, and are given back at once: until the borrowers have heard of it, the
 * shares add up to more than C.
 *
 * Lending, a VM's share whatever it demands is what it is guaranteed: so each has the larger one of
 * its shares whatever VMs demand and by demand.
 */
#include "arith.h"
#include "share.h"

/* The claims being divided and the unit of the division.  What follows @ is for the proof. */
struct pool {
	struct shim_claim *claims;	/* whose shares are wanted */
	u32 n;				/* how many */
	u32 fraction;			/* bits behind the point of what follows and of levels */
	u64 capacity;			/* C, in 2^-fraction bytes/s */
};

/* Returns the most that a claim may get, unless its guarantee is more, in 2^-fraction bytes/s. */
static u64 ceiling(const struct pool *pool, const struct shim_claim *claim)
{
	if (!claim->max || claim->max > pool->capacity >> pool->fraction)
		return pool->capacity;
	return claim->max << pool->fraction;
}

/* Returns e_k(level) in 2^-fraction bytes/s; the guarantee must be within the capacity. */
static u64 claim_at(const struct pool *pool, const struct shim_claim *claim, u64 level)
{
	u64 low = claim->min << pool->fraction;
	u64 high = ceiling(pool, claim);
	u64 want = shim_mul_div(level, claim->weight, 1);

	if (want > high)
		want = high;
	return want > low ? want : low;
}

/* Returns f(level), at most U64_MAX, and in *slope the weight of claims between their bounds. */
static u64 total_at(const struct pool *pool, u64 level, u64 *slope)
{
	u64 total = 0;
	u32 i;

	*slope = 0;
	/*@ loop invariant i <= pool->n;
	  @ loop invariant total ==
	  @   least(f{Pre}(pool->claims, i, pool->capacity, level), 0xffffffffffffffff);
	  @ loop assigns i, total, *slope;
	  @ loop variant pool->n - i;
	  @*/
	for (i = 0; i < pool->n; i++) {
		const struct shim_claim *claim = &pool->claims[i];
		u64 part = claim_at(pool, claim, level);

		/*@ assert part == e{Pre}(pool->claims + i, pool->capacity, level); */
		/*@ assert f{Pre}(pool->claims, i + 1, pool->capacity, level) ==
		  @   f{Pre}(pool->claims, i, pool->capacity, level) + part; */
		total = shim_add_sat(total, part);
		if (part > claim->min << pool->fraction && part < ceiling(pool, claim))
			*slope += claim->weight;
	}
	return total;
}

/*
 * Returns the level to try after f(level) = total: Newton's, or the middle where f is flat,
 * strictly between lo and hi.
 */
static u64 next_level(const struct pool *pool, u64 level, u64 total, u64 slope, u64 lo, u64 hi)
{
	u64 next, step;

	if (!slope)
		return lo + (hi - lo) / 2;
	if (total <= pool->capacity) {
		next = shim_add_sat(level, shim_div(pool->capacity - total, slope));
	} else {
		step = shim_div(total - pool->capacity, slope);
		next = level > step ? level - step : 0;
	}
	if (next <= lo)
		return lo + 1;
	return next < hi ? next : hi - 1;
}

/* Returns the largest level with f(level) <= C, at most C, where no claim wants more. */
static u64 find_level(const struct pool *pool)
{
	u64 lo = 0, hi = pool->capacity;
	u64 level, total, slope;
	u32 i, pass;

	if (total_at(pool, hi, &slope) <= pool->capacity)
		return hi;
	/* The first guess: nobody is at a bound. */
	/*@ loop invariant i <= pool->n && 1 <= slope <= 1 + i * SHIM_WEIGHT_MAX;
	  @ loop assigns i, slope;
	  @ loop variant pool->n - i;
	  @*/
	for (i = 0, slope = 1; i < pool->n; i++)
		slope += pool->claims[i].weight;
	level = shim_div(pool->capacity, slope);
	/*@ loop invariant lo < hi <= pool->capacity;
	  @ loop invariant f(pool->claims, pool->n, pool->capacity, lo) <= pool->capacity;
	  @ loop invariant f(pool->claims, pool->n, pool->capacity, hi) > pool->capacity;
	  @ loop assigns pass, level, total, slope, lo, hi;
	  @ loop variant hi - lo;
	  @*/
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

/* Writes the shares at a level, rounded down, and hands what that leaves to the first in line. */
static void settle(const struct pool *pool, u64 level)
{
	u64 left = pool->capacity >> pool->fraction;
	u64 round_up = (1ULL << pool->fraction) - 1;
	u32 i;

	for (i = 0; i < pool->n; i++) {
		struct shim_claim *claim = &pool->claims[i];

		claim->share = claim_at(pool, claim, level) >> pool->fraction;
		left -= claim->share;
	}
	if (level < pool->capacity)
		level++;
	for (i = 0; i < pool->n && left; i++) {
		struct shim_claim *claim = &pool->claims[i];
		u64 part = claim_at(pool, claim, level);
		u64 more = (part >> pool->fraction) + !!(part & round_up) - claim->share;

		if (more > left)
			more = left;
		claim->share += more;
		left -= more;
	}
}

/* Writes the guarantees, reduced in proportion until they fit the capacity in bytes/s. */
static void scale_guarantees(struct shim_claim *claims, u32 n, u64 capacity)
{
	u64 total = 0;
	u32 shift = 0;
	u32 i;

	for (i = 0; i < n; i++)
		total = shim_add_sat(total, claims[i].min);
	/* Past 64 bits the lowest ones no longer matter: n claims of 2^64 / n fit. */
	if (total == ~0ULL) {
		while (n >> shift)
			shift++;
		for (i = 0, total = 0; i < n; i++)
			total += claims[i].min >> shift;
	}
	for (i = 0; i < n; i++) {
		claims[i].share = shim_mul_div(claims[i].min >> shift, capacity, total);
		if (claims[i].share > claims[i].min)	/* the bits cut off rounded it up */
			claims[i].share = claims[i].min;
	}
}

bool shim_share(struct shim_claim *claims, u32 n, u64 capacity)
{
	struct pool pool = { .claims = claims, .n = n, .fraction = 16 };
	u64 guaranteed = 0;
	u32 i;

	/* Sums saturate at 2^64 - 1: that must be more than fits. */
	if (capacity == ~0ULL)
		capacity--;
	for (i = 0; i < n; i++)
		guaranteed = shim_add_sat(guaranteed, claims[i].min);
	if (guaranteed > capacity) {
		scale_guarantees(claims, n, capacity);
		return false;
	}
	while (pool.fraction && capacity >> (64 - pool.fraction))
		pool.fraction--;
	pool.capacity = capacity << pool.fraction;
	settle(&pool, find_level(&pool));
	return true;
}

bool shim_share_by_demand(struct shim_claim *claims, u32 n, u64 capacity)
{
	struct shim_claim *claim, *end = claims + n;
	bool fits;

	for (claim = claims; claim < end; claim++) {
		u64 most = claim->demand ? claim->demand : ~0ULL;

		claim->given_min = claim->min;
		claim->given_max = claim->max;
		if (claim->min > most)
			claim->min = most;
		if (!claim->max || claim->max > most)
			claim->max = most;
	}
	fits = shim_share(claims, n, capacity);
	for (claim = claims; claim < end; claim++) {
		claim->min = claim->share;
		claim->max = claim->given_max;
	}
	if (fits)
		shim_share(claims, n, capacity);
	for (claim = claims; claim < end; claim++) {
		claim->min = claim->given_min;
		if (claim->share < claim->min && fits)
			claim->share = claim->min;
	}
	return fits;
}

bool shim_share_lending(struct shim_claim *claims, u32 n, u64 capacity)
{
	struct shim_claim *claim, *end = claims + n;
	bool demanded = false;

	if (!shim_share(claims, n, capacity))
		return false;
	for (claim = claims; claim < end; claim++) {
		claim->min = claim->share;
		demanded |= claim->demand;
	}
	/* Where nobody says what he could use, nothing is left to lend. */
	return !demanded || shim_share_by_demand(claims, n, capacity);
}
