// SPDX-License-Identifier: Apache-2.0
/*
 * What one packet costs in the bucket: the verdict, and its new state kept.
 *
 *   cd shim/tests && gcc -std=gnu11 -O2 -o bench *.c ../core/bucket.c ../core/arith.c
 *   ./bench [budget_ns]
 *
 * Prints ns a packet for three kinds of verdict (best of 5 rounds) and for a change of rate, and
 * exits 1 if a verdict costs more than the budget (20 ns unless told).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../core/bucket.h"

/* Packets judged in a round. */
#define PACKETS 20000000ULL

/* Rounds, of which the best counts: the others were disturbed. */
#define ROUNDS 5

/* The word of the bucket. */
static u64 state;

/* Sum of what was computed; printed, so that the compiler cannot drop the work. */
static u64 sink;

/* Returns the monotonic time in ns. */
static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Returns ns a packet of packets that come every gap_ns at a rate, with a horizon (0: police). */
static double measure(u64 bytes_per_s, u64 gap_ns, u64 horizon_ns)
{
	struct shim_rate rate;
	double best = 1e9;
	int round;

	shim_rate_init(&rate, bytes_per_s, 65536);
	for (round = 0; round < ROUNDS; round++) {
		u64 time_ns = 1000000000, sum = 0, i;
		double start = now();

		state = shim_bucket_full(time_ns);
		for (i = 0; i < PACKETS; i++) {
			struct shim_verdict verdict;

			verdict = shim_bucket_pace(&rate, state, time_ns, 1500, horizon_ns);
			if (verdict.kind != SHIM_DROP)
				state = verdict.tat;
			sum += verdict.departure_ns;
			time_ns += gap_ns;
		}
		sink += sum;
		start = (now() - start) / PACKETS;
		if (start < best)
			best = start;
	}
	return best;
}

/* Returns ns of a change of rate: the reciprocal and the conversion of the state. */
static double measure_rerate(void)
{
	struct shim_rate from, to;
	double start = now();
	u64 tat = 1 << 20;
	int i;

	shim_rate_init(&from, 125000000, 65536);
	for (i = 0; i < 1000000; i++) {
		shim_rate_init(&to, 125000000 - i, 65536);
		tat = shim_bucket_rerate(&from, &to, tat, 1);
		from = to;
	}
	sink += tat;
	return (now() - start) / 1000000;
}

int main(int argc, char **argv)
{
	double budget = argc > 1 ? atof(argv[1]) : 20;
	double send = measure(1250000000, 1300, 0);
	double pace = measure(125000000, 11000, 10000000);
	double drop = measure(125000000, 100, 0);

	printf("send %.1f ns, pace %.1f ns, drop %.1f ns a packet (budget %.0f); rerate %.0f ns\n",
	       send, pace, drop, budget, measure_rerate());
	printf("check sum %llu\n", sink);
	return send > budget || pace > budget || drop > budget;
}
