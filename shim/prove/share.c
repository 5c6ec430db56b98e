// SPDX-License-Identifier: Apache-2.0
/*
 * What is proved of core/share.c by Frama-C's WP: the level that a division fills water to is the
 * right one, for any claims and any capacity below 2^48 bytes/s, 2000 times SHIM_RATE_MAX.  Levels
 * have 16 bits behind the point then.
 *
 *   claim_at()     is e of the claim: no less than its guarantee, no more than its ceiling else
 *   total_at()     is f, at most 2^64 - 1
 *   find_level()   ends; f(level) <= C, and f(level + 1) > C unless the level is C, where no claim
 *                  wants more: a division gives out no more than there is, and all that it may but
 *                  for what rounding leaves
 *
 * want(level, weight) is level * weight, at most 2^64 - 1.  f is a sum over the first n claims;
 * what is said of it without a proof are its definition and that it grows with n.
 */
#include "../core/share.h"
#include "../core/arith.h"

/*@ axiomatic Want {
  @   logic integer want(integer level, integer weight);
  @   axiom want_is_a_number: \forall integer level, weight; 0 <= level && 0 <= weight ==>
  @     0 <= want(level, weight) <= 0xffffffffffffffff;
  @   axiom want_grows: \forall integer one, other, weight;
  @     0 <= one <= other && 0 <= weight ==> want(one, weight) <= want(other, weight);
  @   axiom want_of_nothing: \forall integer weight; 0 <= weight ==> want(0, weight) == 0;
  @   axiom want_is_no_less: \forall integer level, weight;
  @     0 <= level <= 0xffffffffffffffff && 1 <= weight ==> level <= want(level, weight);
  @ }
  @ logic integer least(integer a, integer b) = a <= b ? a : b;
  @ logic integer most(integer a, integer b) = a >= b ? a : b;
  @ logic integer high{L}(struct shim_claim *claim, integer capacity) =
  @   claim->max == 0 || 65536 * claim->max > capacity ? capacity : 65536 * claim->max;
  @ logic integer e{L}(struct shim_claim *claim, integer capacity, integer level) =
  @   most(65536 * claim->min, least(high(claim, capacity), want(level, claim->weight)));
  @ axiomatic Sums {
  @   logic integer f{L}(struct shim_claim *claims, integer n, integer capacity, integer level)
  @     reads claims[0 .. n - 1].min, claims[0 .. n - 1].max, claims[0 .. n - 1].weight;
  @   axiom f_of_none{L}: \forall struct shim_claim *claims, integer capacity, level;
  @     f(claims, 0, capacity, level) == 0;
  @   axiom f_of_more{L}: \forall struct shim_claim *claims, integer n, capacity, level; 0 <= n ==>
  @     f(claims, n + 1, capacity, level) ==
  @     f(claims, n, capacity, level) + e(claims + n, capacity, level);
  @   axiom f_grows{L}: \forall struct shim_claim *claims, integer i, n, capacity, level;
  @     0 <= i <= n ==> 0 <= f(claims, i, capacity, level) <= f(claims, n, capacity, level);
  @ }
  @ axiomatic Bits {
  @   axiom shift_up: \forall integer x, bits; 0 <= x && bits == 16 ==> (x << bits) == 65536 * x;
  @   axiom shift_down: \forall integer x, bits; 0 <= x && bits == 16 ==>
  @     (x >> bits) == x / 65536;
  @ }
  @ predicate claims_good{L}(struct shim_claim *claims, integer n) =
  @   \valid(claims + (0 .. n - 1)) &&
  @   (\forall integer k; 0 <= k < n ==> 1 <= claims[k].weight <= SHIM_WEIGHT_MAX);
  @*/

/*@ assigns \nothing;
  @ ensures c == 1 ==> \result == want(a, b);
  @*/
u64 shim_mul_div(u64 a, u64 b, u64 c);

/*@ assigns \nothing;
  @ ensures \result == least(a + b, 0xffffffffffffffff);
  @*/
u64 shim_add_sat(u64 a, u64 b);

/*@ requires b > 0;
  @ assigns \nothing;
  @*/
static inline u64 shim_div(u64 a, u64 b);

#include "../core/share.c"

/*@ predicate capacity_good(integer capacity) =
  @   0 <= capacity <= 0xffffffffffff0000 && capacity == 65536 * (capacity / 65536);
  @ predicate pool_good{L}(struct pool *pool) =
  @   \valid_read(pool) && pool->fraction == 16 && capacity_good(pool->capacity) &&
  @   claims_good(pool->claims, pool->n) &&
  @   \separated(pool, pool->claims + (0 .. pool->n - 1)) &&
  @   (\forall integer k; 0 <= k < pool->n ==>
  @     65536 * pool->claims[k].min <= pool->capacity);
  @*/

/*@ requires \valid_read(pool) && \valid_read(claim);
  @ requires pool->fraction == 16 && capacity_good(pool->capacity);
  @ assigns \nothing;
  @ ensures \result == high(claim, pool->capacity);
  @*/
static u64 ceiling(const struct pool *pool, const struct shim_claim *claim);

/*@ requires \valid_read(pool) && \valid_read(claim);
  @ requires pool->fraction == 16 && capacity_good(pool->capacity);
  @ requires 65536 * claim->min <= pool->capacity;
  @ assigns \nothing;
  @ ensures \result == e(claim, pool->capacity, level);
  @*/
static u64 claim_at(const struct pool *pool, const struct shim_claim *claim, u64 level);

/*@ requires pool_good(pool) && \valid(slope);
  @ requires \separated(slope, pool, pool->claims + (0 .. pool->n - 1));
  @ assigns *slope;
  @ ensures \result ==
  @   least(f{Pre}(pool->claims, pool->n, pool->capacity, level), 0xffffffffffffffff);
  @*/
static u64 total_at(const struct pool *pool, u64 level, u64 *slope);

/*@ requires \valid_read(pool);
  @ assigns \nothing;
  @*/
static u64 next_level(const struct pool *pool, u64 level, u64 total, u64 slope, u64 lo, u64 hi);

/*@ requires pool_good(pool) && f(pool->claims, pool->n, pool->capacity, 0) <= pool->capacity;
  @ assigns \nothing;
  @ ensures \result <= pool->capacity;
  @ ensures f(pool->claims, pool->n, pool->capacity, \result) <= pool->capacity;
  @ ensures \result == pool->capacity ||
  @   f(pool->claims, pool->n, pool->capacity, \result + 1) > pool->capacity;
  @*/
static u64 find_level(const struct pool *pool);
