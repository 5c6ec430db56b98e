// SPDX-License-Identifier: Apache-2.0
/*
 * Packets a second that one VM's limiter judges when so many threads send.  To be compiled with
 * SHIM_THREADS.
 *
 *   bench_threads THREADS SECONDS
 *
 * The rate is the highest there is, so that all packets pass, which is the dearer way.  Prints them
 * and the CPU time that the threads had, so that other work on the machine distorts little.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../core/engine/decide.h"
#include "../../core/engine/engine.h"

#define THREADS_MAX 16
#define CAPACITY SHIM_RATE_MAX		/* of the uplink, bytes/s */
#define BYTES 64			/* of a packet */
#define BATCH 64			/* packets between two looks at the end */

/* A thread that sends. */
struct sender {
	pthread_t thread;		/* it */
	u64 packets;			/* that it sent */
	u64 passed;			/* of these */
	u64 cpu_ns;			/* CPU time it had */
} ____cacheline_aligned;

static struct shim_engine engine;
static struct shim_vm *vm;
static struct shim_uplink *uplink;
static bool begin, end;

/* Ends the program if a condition does not hold. */
static void expect(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "bench_threads: %s\n", what);
	exit(2);
}

/* Returns the CPU time of the thread, ns. */
static u64 cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (u64)now.tv_sec * SHIM_NSEC_PER_SEC + (u64)now.tv_nsec;
}

/* Sends as fast as it can. */
static void *send_packets(void *argument)
{
	struct sender *sender = argument;
	struct shim_packet packet = {
		.bytes = BYTES,
		.packets = 1,
		.version = 4,
		.protocol = 17,
		.plain = true,
		.ecn = SHIM_ECT_ZERO,
	};
	struct shim_action action;
	struct shim_passage passage;
	u64 passed = 0;
	int i;

	memcpy(packet.source.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
	memcpy(packet.destination.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\2", 16);
	while (!READ_ONCE(begin))
		;
	sender->cpu_ns = cpu_ns();
	while (!READ_ONCE(end)) {
		for (i = 0; i < BATCH; i++) {
			packet.now_ns = shim_now_ns();
			shim_decide_sent(vm, uplink, &packet, NULL, &passage, &action);
			passed += !action.drop;
		}
		sender->packets += BATCH;
	}
	sender->cpu_ns = cpu_ns() - sender->cpu_ns;
	sender->passed = passed;
	return NULL;
}

int main(int argc, char **argv)
{
	struct shim_vm_config config = { .weight = 1, .law = SHIM_LAW_DEFAULT };
	struct sender senders[THREADS_MAX] = { 0 }, sum = { 0 };
	struct shim_settings *settings;
	u64 begin_ns, spent_ns, wait_ns;
	int i, n;

	expect(argc == 3, "usage: bench_threads THREADS SECONDS");
	n = atoi(argv[1]);
	wait_ns = (u64)(atof(argv[2]) * 1e9);
	expect(n > 0 && n <= THREADS_MAX, "threads: 1 to 16");
	expect(!shim_engine_init(&engine, 1, 1), "memory for an engine");
	settings = shim_alloc_wait(sizeof(*settings));
	expect(settings, "memory for settings");
	shim_settings_default(settings);
	settings->law = 0;
	settings->waiting_max = 0;
	shim_engine_set(&engine, settings);
	uplink = shim_uplink_create(&engine, NULL);
	vm = shim_vm_create(&engine, NULL);
	expect(uplink && vm, "memory for an uplink and a VM");
	shim_uplink_configure(uplink, CAPACITY, 0);
	shim_vm_configure(vm, &config);
	for (i = 0; i < n; i++)
		pthread_create(&senders[i].thread, NULL, send_packets, &senders[i]);
	begin_ns = shim_now_ns();
	WRITE_ONCE(begin, true);
	do {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		spent_ns = shim_now_ns() - begin_ns;
	} while (spent_ns < wait_ns);
	WRITE_ONCE(end, true);
	for (i = 0; i < n; i++) {
		pthread_join(senders[i].thread, NULL);
		sum.packets += senders[i].packets;
		sum.passed += senders[i].passed;
		sum.cpu_ns += senders[i].cpu_ns;
	}
	printf("threads=%d packets=%llu passed=%llu spent_ns=%llu cpu_ns=%llu\n", n, sum.packets,
	       sum.passed, spent_ns, sum.cpu_ns);
	return 0;
}
