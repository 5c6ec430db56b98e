// SPDX-License-Identifier: Apache-2.0
/*
 * Unit tests of the shim core in C alone: what a simulator or a port to another kernel runs first.
 *
 * Compiled with every file of shim/core and run by test_c_program.py; prints one line per failed
 * check and exits 1 if there was any.
 */
#include <stdio.h>
#include <string.h>

#include "../../core/arith.h"
#include "../../core/bucket.h"
#include "../../core/law.h"
#include "../../core/message.h"
#include "../../core/share.h"

/* Checks that failed so far. */
static int failures;

/* Checks made so far. */
static int checks;

/* Counts a check and says where it failed. */
#define CHECK(condition) check(condition, #condition, __LINE__)

/* Counts a check; prints its text and line if it does not hold. */
static void check(bool holds, const char *text, int line)
{
	checks++;
	if (holds)
		return;
	failures++;
	printf("test_core.c:%d: %s\n", line, text);
}

/* Products beyond 64 bits, exact quotients and saturation. */
static void test_arith(void)
{
	const u64 max = ~0ULL;

	CHECK(shim_mul_div(max, max, max) == max);
	CHECK(shim_mul_div(max, max - 1, max) == max - 1);
	CHECK(shim_mul_div(max, 2, 1) == max);
	CHECK(shim_mul_div(1ULL << 63, 6, 3) == max);
	CHECK(shim_mul_div(1ULL << 62, 6, 3) == 1ULL << 63);
	CHECK(shim_mul_div(7, 3, 2) == 10);
	CHECK(shim_mul_div(0, 0, 0) == max);
	CHECK(shim_add_sat(max, 1) == max);
	CHECK(shim_add_sat(max - 1, 1) == max);
}

/* A second of greedy 1500-byte packets at every tenth power of the rate, from several clocks. */
static void test_bucket_rates(void)
{
	static const u64 starts[] = { 0, 1ULL << 55, (1ULL << 56) - 5, 1ULL << 63 };
	u64 bytes_per_s;
	u32 i;

	for (bytes_per_s = SHIM_RATE_MIN; bytes_per_s <= SHIM_RATE_MAX; bytes_per_s *= 10) {
		for (i = 0; i < SHIM_COUNT(starts); i++) {
			u64 now = starts[i], end = now, sent = 0;
			struct shim_verdict verdict;
			struct shim_rate rate;
			u64 tat, last = 0;
			int packets;

			shim_rate_init(&rate, bytes_per_s, 3028);
			tat = shim_bucket_full(now);
			for (packets = 0; packets < 1000; packets++) {
				verdict = shim_bucket_pace(&rate, tat, now, 1500, 1ULL << 44);
				if (verdict.kind == SHIM_DROP)
					break;
				CHECK(verdict.departure_ns >= last || !packets);
				last = verdict.departure_ns;
				tat = verdict.tat;
				end = verdict.departure_ns;
				sent += 1500;
			}
			CHECK(packets == 1000);
			CHECK(sent <= 3028 + shim_mul_div(end - now, bytes_per_s,
							  SHIM_NSEC_PER_SEC) + 1);
			CHECK(sent + 1 >= 3028 + shim_mul_div(end - now - 1, bytes_per_s,
							      SHIM_NSEC_PER_SEC) -
					  shim_mul_div(4, bytes_per_s, SHIM_NSEC_PER_SEC));
		}
	}
}

/* Police drops the excess, and only it; a rate change keeps the missing bytes. */
static void test_bucket_police(void)
{
	struct shim_rate slow, fast;
	struct shim_verdict verdict;
	u64 now = 1000000000, tat = shim_bucket_full(now);

	shim_rate_init(&slow, 1000000, 3000);
	shim_rate_init(&fast, 100000000, 3000);
	verdict = shim_bucket_pace(&slow, tat, now, 3000, 0);
	CHECK(verdict.kind == SHIM_SEND && verdict.departure_ns == now);
	tat = verdict.tat;
	verdict = shim_bucket_pace(&slow, tat, now + 999999, 1000, 0);
	CHECK(verdict.kind == SHIM_DROP && verdict.tat == tat);
	CHECK(shim_bucket_pace(&slow, tat, now + 1000000, 1000, 0).kind == SHIM_SEND);
	CHECK(shim_bucket_pace(&slow, tat, now, 1000, 999999).kind == SHIM_DROP);
	verdict = shim_bucket_pace(&slow, tat, now, 1000, 1000000);
	CHECK(verdict.kind == SHIM_PACE && verdict.departure_ns == now + 1000000);
	tat = shim_bucket_rerate(&slow, &fast, tat, now);
	CHECK(shim_bucket_pace(&fast, tat, now + 9999, 1000, 0).kind == SHIM_DROP);
	CHECK(shim_bucket_pace(&fast, tat, now + 10001, 1000, 0).kind == SHIM_SEND);
	tat = shim_bucket_rerate(&fast, &slow, shim_bucket_full(now), now);
	CHECK(tat == shim_bucket_full(now));
}

/* Weights, a guarantee, a ceiling, and guarantees that do not fit. */
static void test_share(void)
{
	struct shim_claim claims[3] = {
		{ .weight = 1, .min = 400 },
		{ .weight = 2, .max = 100 },
		{ .weight = 3 },
	};

	CHECK(shim_share(claims, 3, 1000));
	CHECK(claims[0].share == 400 && claims[1].share == 100 && claims[2].share == 500);
	CHECK(!shim_share(claims, 3, 200));
	CHECK(claims[0].share == 200 && claims[1].share == 0 && claims[2].share == 0);
	CHECK(shim_share(claims, 0, 0));
}

/* Encode, decode, refuse a changed byte, accept once. */
static void test_message(void)
{
	static const u8 key[SHIM_KEY_BYTES] = { 1, 2, 3 };
	struct shim_message in = { .type = SHIM_MESSAGE_MARKS, .epoch = 5, .sequence = 6,
				   .marks = 7 };
	struct shim_replay replay = { .clock = 0 };
	struct shim_message out;
	u8 data[SHIM_MESSAGE_V1_BYTES];
	size_t i;

	shim_message_encode(data, &in, key);
	CHECK(shim_message_decode(&out, data, sizeof(data), key) == SHIM_MESSAGE_OK);
	CHECK(out.marks == 7 && out.version == 1);
	CHECK(shim_replay_check(&replay, &out) == SHIM_MESSAGE_OK);
	CHECK(shim_replay_check(&replay, &out) == SHIM_MESSAGE_REPLAY);
	for (i = 0; i < sizeof(data); i++) {
		CHECK(shim_message_decode(&out, data, i, key) == SHIM_MESSAGE_SHORT);
		data[i] ^= 1;
		CHECK(shim_message_decode(&out, data, sizeof(data), key) != SHIM_MESSAGE_OK);
		data[i] ^= 1;
	}
	CHECK(shim_message_decode_v0(&out, data, 2) == SHIM_MESSAGE_OK);
	CHECK(out.marks == SHIM_MESSAGE_MAGIC && out.version == 0);
	/* Nothing is left of the v1 message read before. */
	CHECK(!out.epoch && !out.sequence && out.type == SHIM_MESSAGE_MARKS);
}

/* A law starts at the share, is cut by marks, and returns to the share in silence. */
static void test_laws(void)
{
	const struct shim_law *law = shim_law_find("sdngcc");
	struct shim_message message = { .type = SHIM_MESSAGE_MARKS, .marks = 1000000,
					.interval_ns = 5000000, .weight_total = 4 };
	struct shim_law_input input = { .now_ns = 1, .period_ns = 5000000, .capacity = 125000000,
					.share = 62500000, .weight = 1, .frame = 1514 };
	struct {
		struct shim_limiter_state common;
		u64 own[16];
	} room = { 0 };
	struct shim_limiter_state *state = &room.common;
	u64 knobs[SHIM_KNOBS_MAX];
	u32 i;

	CHECK(law == &shim_law_sdngcc && !shim_law_find("nothing"));
	for (i = 0; i < law->n_knobs; i++)
		knobs[i] = law->knobs[i].value;
	input.knobs = knobs;
	CHECK(law->limiter_size <= sizeof(room.own));
	law->init(state, &input);
	CHECK(state->rate == input.share);
	law->on_message(state, &input, &message);
	CHECK(state->rate == input.share / 100 && state->congested);
	for (i = 0; i < 400; i++) {
		input.now_ns += input.period_ns;
		law->on_period(state, &input);
	}
	CHECK(state->rate == input.share && !state->congested);
}

int main(void)
{
	test_arith();
	test_bucket_rates();
	test_bucket_police();
	test_share();
	test_message();
	test_laws();
	printf("%d checks, %d failed\n", checks, failures);
	return failures != 0;
}
