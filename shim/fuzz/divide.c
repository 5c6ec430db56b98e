// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzzes divisions, buckets and the arithmetic under them, with any numbers.
 *
 *   share     guarantee <= E, E <= ceiling unless the guarantee is more; the sum is exactly
 *             min(C, sum of ceilings); guarantees that do not fit are scaled to fit
 *   bucket    one packet after the other, under rates and depths that change: as world.h has it
 *   mul_div   a * b / c in 128 bits, or the largest number
 */
#include "../core/arith.h"
#include "input.h"

#include "../core/share.h"

/* Claims of a division. */
#define CLAIMS_MOST 12

/* Bytes that an account may be short by: what roundings of rates and depths add up to. */
#define SLACK_BYTES 64

/* Multiplies and divides. */
static void multiply(struct fuzz_input *input)
{
	u64 a = fuzz_u64(input), b = fuzz_u64(input), c = fuzz_u64(input);
	fuzz_uwide quotient = c ? (fuzz_uwide)a * b / c : (fuzz_uwide)0 - 1;
	u64 expected = quotient > ~0ULL ? ~0ULL : (u64)quotient;
	fuzz_uwide sum;

	fuzz_expect(shim_mul_div(a, b, c) == expected, "%llu * %llu / %llu", a, b, c);
	sum = (fuzz_uwide)a + b;
	fuzz_expect(shim_add_sat(a, b) == (sum > ~0ULL ? ~0ULL : (u64)sum), "%llu + %llu", a, b);
	sum = (fuzz_uwide)(u32)a + b;
	fuzz_expect(shim_add_sat32((u32)a, b) == (sum > ~0U ? ~0U : (u32)sum), "%u + %llu",
		    (u32)a, b);
	fuzz_expect(shim_double_sat(a, b) >= a, "%llu doubled %llu times", a, b);
}

/* Returns the most that a claim can get, but for its guarantee. */
static u64 ceiling(const struct shim_claim *claim, u64 capacity)
{
	return claim->max && claim->max < capacity ? claim->max : capacity;
}

/* Checks a division of claims by guarantee and ceiling. */
static void check_share(const struct shim_claim *claims, u32 n, u64 capacity, bool fits)
{
	fuzz_uwide sum = 0, most = 0, guaranteed = 0;
	u32 i;

	for (i = 0; i < n; i++) {
		const struct shim_claim *claim = &claims[i];
		u64 high = ceiling(claim, capacity);

		if (high < claim->min)
			high = claim->min;
		sum += claim->share;
		most += high;
		guaranteed += claim->min;
		fuzz_expect(!fits || claim->share >= claim->min, "%llu of %llu guaranteed",
			    claim->share, claim->min);
		fuzz_expect(claim->share <= high, "%llu, at most %llu", claim->share, high);
	}
	fuzz_expect(fits == (guaranteed <= capacity), "guarantees fit, or not");
	if (fits)
		fuzz_expect(sum == (most < capacity ? most : capacity), "%llu of %llu are divided",
			    (u64)sum, capacity);
	else
		fuzz_expect(sum <= capacity, "%llu of %llu are promised", (u64)sum, capacity);
}

/* Divides a capacity. */
static void divide(struct fuzz_input *input)
{
	struct shim_claim claims[CLAIMS_MOST] = { 0 };
	u32 n = fuzz_u8(input) % (CLAIMS_MOST + 1), i;
	u64 capacity = fuzz_u64(input), limit = capacity == ~0ULL ? capacity - 1 : capacity;
	bool fits;

	for (i = 0; i < n; i++)
		claims[i] = (struct shim_claim){
			.min = fuzz_u64(input), .max = fuzz_u64(input), .demand = fuzz_u64(input),
			.weight = (u32)fuzz_within(input, 1, SHIM_WEIGHT_MAX),
		};
	fits = shim_share(claims, n, capacity);
	check_share(claims, n, limit, fits);
	/* By demand guarantees are lent, so that only the bounds of each one hold. */
	fits = shim_share_by_demand(claims, n, capacity);
	for (i = 0; i < n && fits; i++) {
		u64 high = ceiling(&claims[i], limit);

		if (high < claims[i].min)
			high = claims[i].min;
		fuzz_expect(claims[i].share >= claims[i].min && claims[i].share <= high,
			    "%llu, %llu to %llu", claims[i].share, claims[i].min, high);
	}
	fits = shim_share_lending(claims, n, capacity);
	for (i = 0; i < n && fits; i++)
		fuzz_expect(claims[i].share >= claims[i].min, "%llu, at least %llu",
			    claims[i].share, claims[i].min);
}

/* Lets packets pass a bucket, whose rate, depth and time change. */
static void pour(struct fuzz_input *input)
{
	u64 now_ns = fuzz_within(input, 0, 1ULL << 54), tat, horizon_ns = 0;
	struct shim_rate rate, next;
	fuzz_wide second = 1000000000, credit, debt, most, paid;
	u32 steps = fuzz_u8(input);

	shim_rate_init(&rate, fuzz_u64(input), (u32)fuzz_within(input, 0, 1 << 30));
	tat = shim_bucket_full(now_ns);
	credit = rate.burst_bytes * second;
	while (steps-- && input->left) {
		struct shim_verdict verdict;
		u8 what = fuzz_u8(input);
		u64 ns = fuzz_within(input, 0, 1ULL << (what & 63));
		u32 bytes = (u32)fuzz_within(input, 0, 1 << 20);

		/* A year at most, and no debt is older. */
		ns = ns < 1ULL << 54 ? ns : 1ULL << 54;
		now_ns += ns;
		credit += (fuzz_wide)rate.bytes_per_s * (fuzz_wide)ns;
		if (credit > rate.burst_bytes * second)
			credit = rate.burst_bytes * second;
		if (what & 64) {
			shim_rate_init(&next, fuzz_u64(input), (u32)fuzz_within(input, 0, 1 << 30));
			tat = shim_bucket_rerate(&rate, &next, tat, now_ns);
			rate = next;
			if (credit > rate.burst_bytes * second)
				credit = rate.burst_bytes * second;
			horizon_ns = fuzz_within(input, 0, 10 * SHIM_NSEC_PER_SEC);
		}
		verdict = shim_bucket_pace(&rate, tat, now_ns, bytes, horizon_ns);
		if (verdict.kind == SHIM_DROP) {
			fuzz_expect(verdict.tat == tat, "a drop costs");
			continue;
		}
		tat = verdict.tat;
		credit -= bytes * second;
		debt = -credit - SLACK_BYTES * second;
		most = (fuzz_wide)rate.bytes_per_s * (fuzz_wide)horizon_ns;
		fuzz_expect(debt <= most, "%u bytes beyond the horizon of %llu ns", bytes,
			    horizon_ns);
		paid = (fuzz_wide)(verdict.departure_ns - now_ns) * (fuzz_wide)rate.bytes_per_s;
		fuzz_expect(debt <= 0 || paid >= debt, "%u bytes depart too early", bytes);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { .data = data, .left = size };

	while (input.left) {
		switch (fuzz_u8(&input) % 3) {
		case 0:
			multiply(&input);
			break;
		case 1:
			divide(&input);
			break;
		default:
			pour(&input);
		}
	}
	return 0;
}
