// SPDX-License-Identifier: Apache-2.0
/*
 * What is proved of core/bucket.c by Frama-C's WP: conservation, in ticks.
 *
 * Times are below 2^62 ticks, 571 years' worth of 2^53 s, so that nothing wraps; a state is at most
 * SHIM_DEBT_MAX ahead.  cost(rate, len) is whatever shim_bucket_cost() returns, at most 2^63.
 *
 *   shim_bucket_take()   passes if and only if used + cost <= within, and then TAT = now + that
 *   shim_bucket_pace()   passes at D with 256 * D >= TAT - burst, or in whole ns at once; waits no
 *                        longer than the horizon; a drop changes nothing
 *   window()             whatever packets come whenever: the costs of those that passed after any
 *                        packet are at most the ticks from its departure to the last one's, a
 *                        nanosecond for their rounding, and the burst, or the last packet if that
 *                        is more
 */
#include "../core/bucket.h"
#include "../core/arith.h"

/*@ axiomatic Cost {
  @   logic integer cost{L}(struct shim_rate *rate, integer len) reads *rate;
  @   axiom cost_is_a_time{L}: \forall struct shim_rate *rate, integer len;
  @     0 <= cost(rate, len);
  @ }
  @ logic integer used(integer tat, integer now) =
  @   tat >= now && tat - now <= SHIM_DEBT_MAX ? tat - now : 0;
  @ predicate time(integer ns) = 0 <= ns < 0x40000000000000;
  @ predicate state(integer tat) = 0 <= tat < 0x6000000000000000;
  @ predicate rate_good(struct shim_rate *rate) =
  @   \valid_read(rate) && rate->burst_ticks <= SHIM_DEBT_MAX && rate->shift <= 31 &&
  @   0 < rate->mult <= 0x100000000;
  @*/

/*@ requires rate_good(rate);
  @ assigns \nothing;
  @ ensures \result == cost(rate, len) && 0 <= \result <= 0x8000000000000000;
  @*/
static inline u64 shim_bucket_cost(const struct shim_rate *rate, u32 len);

/*@ requires state(tat) && 0 <= now < 0x4000000000000000;
  @ assigns \nothing;
  @ ensures \result == used(tat, now);
  @*/
static inline u64 shim_bucket_used(u64 tat, u64 now);

/*@ requires time(now_ns);
  @ assigns \nothing;
  @ ensures \result == 256 * now_ns;
  @*/
static u64 ticks(u64 now_ns);

/*@ assigns \nothing;
  @ ensures \result == (a + b > 0xffffffffffffffff ? 0xffffffffffffffff : a + b);
  @*/
u64 shim_add_sat(u64 a, u64 b);

/*@ requires rate_good(rate) && \valid(tat) && \separated(rate, tat);
  @ requires state(*tat) && time(now_ns) && within_ticks <= SHIM_DEBT_MAX;
  @ assigns *tat;
  @ ensures \result <==>
  @   \old(used(*tat, 256 * now_ns) + cost(rate, len)) <= within_ticks;
  @ ensures \result ==>
  @   *tat == \old(256 * now_ns + used(*tat, 256 * now_ns) + cost(rate, len));
  @ ensures !\result ==> *tat == \old(*tat);
  @*/
static inline bool shim_bucket_take(const struct shim_rate *rate, u64 *tat, u64 now_ns, u32 len,
				    u64 within_ticks);

/*@ requires rate_good(rate);
  @ assigns \nothing;
  @ ensures \result <==> fill_ticks <= rate->burst_ticks ||
  @   (used_ticks == 0 && len <= rate->burst_bytes && fill_ticks <= SHIM_DEBT_MAX);
  @*/
static bool fits(const struct shim_rate *rate, u64 used_ticks, u64 fill_ticks, u32 len);

/*@ requires rate_good(rate) && state(tat) && time(now_ns) && time(horizon_ns);
  @ assigns \nothing;
  @ ensures \result.kind == SHIM_SEND || \result.kind == SHIM_PACE || \result.kind == SHIM_DROP;
  @ ensures \result.kind == SHIM_DROP ==> \result.tat == tat;
  @ ensures \result.kind != SHIM_DROP ==>
  @   \result.tat == 256 * now_ns + used(tat, 256 * now_ns) + cost(rate, len);
  @ ensures \result.kind != SHIM_DROP ==>
  @   used(tat, 256 * now_ns) + cost(rate, len) <= SHIM_DEBT_MAX;
  @ ensures \result.kind == SHIM_SEND ==> \result.departure_ns == now_ns;
  @ ensures \result.kind == SHIM_SEND ==> used(tat, 256 * now_ns) == 0 ||
  @   \result.tat - 256 * now_ns <= rate->burst_ticks;
  @ ensures \result.kind == SHIM_PACE ==>
  @   now_ns < \result.departure_ns <= now_ns + horizon_ns &&
  @   0 <= 256 * \result.departure_ns - (\result.tat - rate->burst_ticks) < 256;
  @*/
struct shim_verdict shim_bucket_pace(const struct shim_rate *rate, u64 tat,
				     u64 now_ns, u32 len, u64 horizon_ns);

#include "../core/bucket.c"

/*@ assigns \nothing; ensures least <= \result < 0x40000000000000; */
u64 any_time(u64 least);

/*@ assigns \nothing; */
u32 any_length(void);

/*@ assigns \nothing; */
bool any_more(void);

/*
 * Lets packets pass, any number of any length at any times that do not go back, and adds up the
 * costs of those after the first.
 */
/*@ requires rate_good(rate) && state(tat);
  @ assigns \nothing;
  @*/
void window(const struct shim_rate *rate, u64 tat)
{
	u64 now_ns = any_time(0), horizon_ns = any_time(0), first_ns, begin, sum = 0;
	struct shim_verdict verdict;
	u32 len = any_length();

	verdict = shim_bucket_pace(rate, tat, now_ns, len, horizon_ns);
	if (verdict.kind == SHIM_DROP)
		return;
	first_ns = verdict.departure_ns;
	begin = verdict.tat;
	tat = verdict.tat;
	/*@ loop invariant 0 <= now_ns < 0x40000000000000;
	  @ loop invariant begin <= tat <= 256 * now_ns + SHIM_DEBT_MAX;
	  @ loop invariant begin >= 256 * first_ns ||
	  @   begin > 256 * first_ns + rate->burst_ticks - 256;
	  @ loop invariant sum <= tat - begin;
	  @ loop assigns now_ns, horizon_ns, tat, verdict, sum, len;
	  @*/
	while (any_more()) {
		len = any_length();
		now_ns = any_time(now_ns);
		horizon_ns = any_time(0);
		verdict = shim_bucket_pace(rate, tat, now_ns, len, horizon_ns);
		if (verdict.kind == SHIM_DROP)
			continue;
		sum += shim_bucket_cost(rate, len);
		/*@ assert sum <=
		  @   256 * (verdict.departure_ns - first_ns) + rate->burst_ticks + 256 ||
		  @   sum <= 256 * (verdict.departure_ns - first_ns) + cost(rate, len) + 256; */
		tat = verdict.tat;
	}
}
