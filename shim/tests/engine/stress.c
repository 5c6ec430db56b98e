// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads send through one limiter while a third changes its rate and ticks; whatever passed is
 * then held against B + R * t over every span of time.  To be compiled with SHIM_THREADS.
 *
 *   stress MODE SECONDS        MODE: police or pace
 *
 * R is the higher of the two rates.  Paced packets that wait when the rate rises keep their times,
 * and what comes later may leave among them: as many bytes as may wait at the lower rate count on
 * top there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/engine/decide.h"
#include "../../core/engine/engine.h"

#define THREADS 2
#define PACKET_BYTES 1514
#define CAPACITY 1250000000ULL		/* of the uplink, bytes/s */
#define RATE_LOW 25000000ULL		/* bytes/s */
#define RATE_HIGH 125000000ULL		/* bytes/s */
#define BURST 151400			/* of a bucket that polices, bytes */
#define BURST_US 24			/* of a bucket that paces: 3,000 bytes at the higher rate */
#define DEPTH (3028 + 3028 / 8)		/* of that, with what needs no look at the clock, bytes */
#define HORIZON_NS 500000ULL		/* longest wait, but for WAITING bytes */
#define WAITING (11 * 1514)		/* what may wait at the lower rate, bytes */
#define PASSED_MAX 20000		/* packets of one thread; all pairs are looked at */
#define ITERATIONS_MAX 200000000UL	/* of one thread */

/* A packet that passed: it left at some time within a span. */
struct passed {
	u64 first_ns;			/* not before: it asked then, or is to leave then */
	u64 last_ns;			/* not after: it had its answer then, or is to leave then */
};

/* A thread that sends. */
struct sender {
	pthread_t thread;		/* it */
	struct passed *passed;		/* what passed, PASSED_MAX at most */
	u32 n;				/* length of passed */
	u64 sent;			/* packets that asked */
	u64 by_lease;			/* packets of these that passed by the lease */
	struct shim_lease lease;	/* of its packets */
};

static struct shim_engine engine;
static struct shim_vm *vm;
static struct shim_uplink *uplink;
static bool end;

/* Ends the program if a condition does not hold. */
static void expect(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "stress: %s\n", what);
	exit(2);
}

/* Sends as fast as it can. */
static void *send_packets(void *argument)
{
	struct sender *sender = argument;
	struct shim_packet packet = {
		.bytes = PACKET_BYTES,
		.packets = 1,
		.version = 4,
		.protocol = 17,
		.plain = true,
		.ecn = SHIM_ECT_ZERO,
	};
	struct shim_action action;
	struct shim_passage passage;
	u64 now_ns;

	memcpy(packet.source.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
	memcpy(packet.destination.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\2", 16);
	while (!READ_ONCE(end) && sender->sent < ITERATIONS_MAX && sender->n < PASSED_MAX) {
		now_ns = shim_now_ns();
		packet.now_ns = now_ns;
		action.drop = SHIM_COUNTER_NONE;
		action.departure_ns = 0;
		if (READ_ONCE(sender->lease.valid) && PACKET_BYTES <= sender->lease.left) {
			shim_lease_spend(&sender->lease, PACKET_BYTES, PACKET_BYTES);
			sender->by_lease++;
		} else {
			shim_decide_sent(vm, uplink, &packet, &sender->lease, &passage, &action);
		}
		WRITE_ONCE(sender->sent, sender->sent + 1);
		if (action.drop)
			continue;
		sender->passed[sender->n++] = (struct passed){
			.first_ns = action.departure_ns ? action.departure_ns : now_ns,
			.last_ns = action.departure_ns ? action.departure_ns : shim_now_ns(),
		};
	}
	return NULL;
}

/* Ends a grace period if each thread has ended a packet since the last one. */
static void end_grace(const struct sender senders[THREADS])
{
	static u64 before[THREADS];
	u32 i;

	for (i = 0; i < THREADS; i++)
		if (READ_ONCE(senders[i].sent) == before[i])
			return;
	for (i = 0; i < THREADS; i++)
		before[i] = READ_ONCE(senders[i].sent);
	WRITE_ONCE(shim_host_graces, shim_host_graces + 1);
}

/* Changes the VM's ceiling and ticks, for so long. */
static void change_rates(u64 ns, const struct sender senders[THREADS])
{
	struct shim_vm_config config = { .weight = 1, .law = SHIM_LAW_DEFAULT };
	struct shim_clock *clock = &engine.clocks[0];
	u64 begin_ns = shim_now_ns(), now_ns = begin_ns, tick_ns = 0;
	struct shim_reports reports = { 0 };
	u32 seed = 1;

	while (now_ns - begin_ns < ns) {
		seed = seed * 1103515245U + 12345U;
		config.max = seed >> 16 & 1 ? RATE_LOW : RATE_HIGH;
		shim_vm_configure(vm, &config);
		if (now_ns > tick_ns) {
			shim_clock_tick(clock, now_ns, &reports);
			tick_ns = now_ns + 1000000;
		}
		end_grace(senders);
		do {
			now_ns = shim_now_ns();
		} while (now_ns % 64);
	}
	expect(!reports.n, "law static reports nothing");
}

/* Orders packets by when they had left. */
static int compare(const void *a, const void *b)
{
	const struct passed *x = a, *y = b;

	return x->last_ns < y->last_ns ? -1 : x->last_ns > y->last_ns;
}

/*
 * Returns the most bytes by which packets that left within any span of time for certain exceed what
 * RATE_HIGH lets pass in it.
 */
static u64 worst(struct passed *all, u32 n)
{
	double excess, most = 0;
	u64 bytes;
	u32 i, j;

	qsort(all, n, sizeof(*all), compare);
	for (i = 0; i < n; i++) {
		for (bytes = 0, j = 0; j < n; j++) {
			if (all[j].first_ns < all[i].first_ns)
				continue;
			bytes += PACKET_BYTES;
			excess = (double)bytes -
				 (double)(all[j].last_ns - all[i].first_ns) * RATE_HIGH / 1e9;
			most = excess > most ? excess : most;
		}
	}
	return (u64)most;
}

/* Prepares engine, VM and uplink. */
static void prepare(bool pace)
{
	struct shim_vm_config config = {
		.weight = 1,
		.law = SHIM_LAW_DEFAULT,
		.max = RATE_LOW,
	};
	struct shim_settings *settings;

	expect(!shim_engine_init(&engine, 1, 1), "an engine");
	settings = shim_alloc_wait(sizeof(*settings));
	shim_settings_default(settings);
	settings->law = 0;
	settings->limiter = pace ? SHIM_LIMITER_PACE : SHIM_LIMITER_POLICE;
	settings->horizon_ns = HORIZON_NS;
	settings->burst_bytes = BURST;
	settings->burst_us = BURST_US;
	settings->waiting_max = 0;
	shim_engine_set(&engine, settings);
	uplink = shim_uplink_create(&engine, NULL);
	vm = shim_vm_create(&engine, NULL);
	expect(uplink && vm, "an uplink and a VM");
	shim_uplink_configure(uplink, CAPACITY, 0);
	shim_vm_configure(vm, &config);
}

int main(int argc, char **argv)
{
	struct sender senders[THREADS] = { 0 };
	u64 bound, most, counted;
	struct passed *all;
	struct shim_tx tx;
	u32 i, n = 0;
	bool pace;

	expect(argc == 3, "usage: stress police|pace SECONDS");
	pace = !strcmp(argv[1], "pace");
	prepare(pace);
	all = malloc(THREADS * PASSED_MAX * sizeof(*all));
	expect(all, "memory");
	for (i = 0; i < THREADS; i++) {
		senders[i].passed = malloc(PASSED_MAX * sizeof(*all));
		expect(senders[i].passed, "memory");
		pthread_create(&senders[i].thread, NULL, send_packets, &senders[i]);
	}
	change_rates((u64)(atof(argv[2]) * 1e9), senders);
	WRITE_ONCE(end, true);
	for (i = 0; i < THREADS; i++) {
		pthread_join(senders[i].thread, NULL);
		memcpy(all + n, senders[i].passed, senders[i].n * sizeof(*all));
		n += senders[i].n;
		free(senders[i].passed);
	}
	shim_vm_sent(vm, &tx);
	counted = (u64)n * PACKET_BYTES;
	bound = BURST;
	if (pace)
		bound = shim_mode_depth(&vm->mode, RATE_HIGH) * 5 / 4 + PACKET_BYTES + WAITING;
	most = worst(all, n);
	free(all);
	printf("%s: %llu asked, %u passed, %llu by leases, worst %llu of %llu bytes over the rate\n",
	       argv[1], senders[0].sent + senders[1].sent, n,
	       senders[0].by_lease + senders[1].by_lease, most, bound);
	expect(senders[0].sent && senders[1].sent && n > 1000, "too little happened");
	expect(tx.bytes == counted && tx.packets == n, "the counters tell something else");
	expect(most <= bound, "more passed than may");
	shim_vm_remove(vm);
	shim_uplink_remove(uplink);
	shim_engine_exit(&engine);
	shim_host_quiesce();
	expect(!shim_host_allocated && !shim_host_warnings, "something leaked");
	return 0;
}
