// SPDX-License-Identifier: Apache-2.0
/*
 * What the ticks of an engine cost in CPU time, and a division of an uplink.
 *
 *   bench_tick law|work NAME VMS PEERS ACTIVE PACKETS SECONDS
 *   bench_tick divide LIMITERS ROUNDS
 *
 * PEERS, or under a law that wants none of these TCP connections, are divided evenly among the VMs
 * and have come to rest, but for ACTIVE of them, each of another VM as far as there are as many,
 * that have PACKETS a second in all, sent and received in turns.  Under a law that wants neither
 * ACTIVE VMs send so.  Time is simulated.  With `law` it goes by really while the engine ticks, so
 * that what it does by the clock, to postpone work and to divide less often, is as it would be;
 * with `work` it stands still, and each tick does all there is to be done.
 *
 * Prints one line of numbers by name.  Only the ticks count, by the thread's CPU time, less what
 * reading that takes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../core/engine/decide.h"
#include "../../core/engine/engine.h"

#define CAPACITY 12500000000ULL		/* of the uplink, bytes/s: 100 Gb/s */
#define BYTES 1514			/* of a packet */
#define REST_NS 50000000ULL		/* of a tick before the measurement */
#define REST_TICKS 200			/* of these */
#define MARKED 100			/* one of so many received packets carries CE */

static struct shim_engine engine;
static struct shim_uplink *uplink;
static struct shim_vm **vms;
static struct shim_reports reports;
static u64 reports_built;
static u32 n_vms, n_peers;
static bool runs;			/* time goes by in ticks */

/* Ends the program if a condition does not hold. */
static void expect(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "bench_tick: %s\n", what);
	exit(2);
}

/* Returns the CPU time of the thread, ns. */
static u64 cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (u64)now.tv_sec * SHIM_NSEC_PER_SEC + (u64)now.tv_nsec;
}

/* Returns what cpu_ns() adds to a span between two calls, ns. */
static u64 cpu_cost_ns(void)
{
	u64 begin_ns = cpu_ns();
	int i;

	for (i = 0; i < 10000; i++)
		cpu_ns();
	return (cpu_ns() - begin_ns) / 10001;
}

/* Makes an engine with an uplink, and n VMs under a law. */
static void prepare(const char *law, u32 n, u32 peers)
{
	struct shim_vm_config config = { .weight = 1, .law = SHIM_LAW_DEFAULT };
	struct shim_settings *settings = shim_alloc_wait(sizeof(*settings));
	u32 i;

	shim_host_clock_ns = SHIM_NSEC_PER_SEC;
	expect(settings && !shim_engine_init(&engine, 1, 1), "memory for an engine");
	shim_settings_default(settings);
	settings->law = 0;
	while (shim_law_at((u32)settings->law) &&
	       strcmp(shim_law_at((u32)settings->law)->name, law))
		settings->law++;
	expect(shim_law_at((u32)settings->law), "there is no such law");
	settings->peers_max = 1 << 20;
	settings->peer_idle_ns = 3600 * SHIM_NSEC_PER_SEC;
	settings->key_set = true;
	shim_engine_set(&engine, settings);
	n_vms = n;
	n_peers = peers;
	vms = calloc(n, sizeof(*vms));
	expect(vms, "memory for VMs");
	for (i = 0; i < n; i++) {
		vms[i] = shim_vm_create(&engine, NULL);
		expect(vms[i], "memory for a VM");
		shim_vm_configure(vms[i], &config);
	}
	uplink = shim_uplink_create(&engine, NULL);
	expect(uplink, "memory for an uplink");
	shim_uplink_configure(uplink, CAPACITY, 0);
}

/* Writes an IPv4 address of net and number. */
static void set_address(struct shim_address *address, u8 net, u32 number)
{
	memset(address, 0, sizeof(*address));
	address->bytes[10] = 0xff;
	address->bytes[11] = 0xff;
	address->bytes[12] = net;
	address->bytes[13] = (u8)(number >> 16);
	address->bytes[14] = (u8)(number >> 8);
	address->bytes[15] = (u8)number;
}

/* Passes packet number `turn` between a VM and its peer number `peer`; flags: SHIM_TCP_*. */
static void pass(u32 vm, u32 peer, u64 turn, bool sent, u16 flags)
{
	struct shim_packet packet = {
		.now_ns = shim_host_clock_ns,
		.bytes = BYTES,
		.packets = 1,
		.version = 4,
		.protocol = 6,
		.ecn = turn % MARKED || sent ? SHIM_ECT_ZERO : SHIM_CE,
		.plain = true,
		.id_free = true,
		.echo_free = true,
		.is_tcp = true,
		.port_source = sent ? (u16)peer : 80,
		.port_destination = sent ? 80 : (u16)peer,
		.segment = {
			.seq = (u32)(1000 + turn / 2 * 1448),
			.ack = (u32)(1000 + turn / 2 * 1448),
			.payload = flags & SHIM_TCP_SYN ? 0 : 1448,
			.size = 1448,
			.window = 65535,
			.flags = flags,
			.mss = 1448,
			.scale = 7,
		},
	};
	struct shim_action action;
	struct shim_passage passage;

	set_address(sent ? &packet.source : &packet.destination, 10, vm);
	set_address(sent ? &packet.destination : &packet.source, 11, vm * 16 + peer);
	if (sent)
		shim_decide_sent(vms[vm], uplink, &packet, NULL, &passage, &action);
	else
		shim_decide_received(vms[vm], uplink, &packet, NULL, &action);
}

/* Lets all clocks tick that are due, and frees what they built; returns how many did. */
static u32 tick(u64 *spent_ns, u64 cost_ns)
{
	struct shim_host_report *report;
	struct shim_clock *clock;
	u64 begin_ns, next_ns, now_ns = shim_host_clock_ns;
	u32 i, n = 0;

	for (i = 0; i < SHIM_LAW_SLOTS; i++) {
		clock = &engine.clocks[i];
		if (!clock->timer.started || clock->timer.due_ns > now_ns)
			continue;
		clock->timer.started = false;
		begin_ns = cpu_ns();
		shim_host_clock_runs_ns = runs ? shim_host_real_ns() : 0;
		next_ns = shim_clock_tick(clock, now_ns, &reports);
		shim_host_clock_runs_ns = 0;
		*spent_ns += cpu_ns() - begin_ns - cost_ns;
		if (next_ns && !clock->timer.started)
			shim_host_timer_start(clock, next_ns);
		n++;
	}
	while ((report = shim_host_report_take(&reports))) {
		shim_free(report);
		reports_built++;
	}
	shim_host_quiesce();
	return n;
}

/* Lets all peers, or connections, come into being and to rest. */
static void fill(u32 n)
{
	u64 spent_ns = 0;
	u32 i, each;

	each = n_peers / n_vms;
	for (i = 0; i < n; i++) {
		pass(i / each, i % each, 0, true, SHIM_TCP_SYN);
		pass(i / each, i % each, 1, false, SHIM_TCP_SYN | SHIM_TCP_ACK);
		pass(i / each, i % each, 2, true, SHIM_TCP_ACK);
		pass(i / each, i % each, 3, false, SHIM_TCP_ACK);
		shim_host_clock_ns += 1000;
	}
	/* Time does not go by in these: each does all there is to be done. */
	for (i = 0; i < REST_TICKS; i++) {
		shim_host_clock_ns += REST_NS;
		tick(&spent_ns, 0);
	}
}

/* Measures the ticks of a law. */
static void bench_law(bool bound, u32 active, u64 packets, u64 seconds)
{
	u64 cost_ns = cpu_cost_ns(), spent_ns = 0, turn = 4, passed = 0, due, i, end_ns, begin_ns;
	u64 ticks = 0, postponed = 0, longest_ns = 0, one_ns, built;
	u32 each = n_peers / n_vms, slot;
	const struct shim_clock *clock = NULL;

	fill(n_peers);
	for (slot = 0; slot < SHIM_LAW_SLOTS; slot++)
		postponed += engine.clocks[slot].postponed;
	built = reports_built;
	runs = bound;
	begin_ns = shim_host_clock_ns;
	end_ns = begin_ns + seconds * SHIM_NSEC_PER_SEC;
	/* One of ACTIVE after the other. */
	while (shim_host_clock_ns < end_ns) {
		for (slot = 0; slot < SHIM_LAW_SLOTS; slot++)
			if (engine.clocks[slot].timer.started)
				clock = &engine.clocks[slot];
		shim_host_clock_ns += 50000;
		due = (shim_host_clock_ns - begin_ns) * packets / SHIM_NSEC_PER_SEC;
		for (i = passed; i < due; i++) {
			u32 peer = (u32)(i / 2 % active);

			pass(peer % n_vms, peer / n_vms % each, turn + i / active, !(i % 2),
			     SHIM_TCP_ACK);
		}
		passed = due;
		one_ns = spent_ns;
		ticks += tick(&spent_ns, cost_ns);
		one_ns = spent_ns - one_ns;
		longest_ns = one_ns > longest_ns ? one_ns : longest_ns;
	}
	for (slot = 0; slot < SHIM_LAW_SLOTS; slot++)
		postponed -= engine.clocks[slot].postponed;
	printf("period_ns=%llu peers=%u connections=%u packets_s=%llu ",
	       clock ? shim_engine_settings(&engine)->laws[clock->index].period_ns : 0,
	       shim_table_count(&engine.peers), shim_table_count(&engine.connections),
	       passed / seconds);
	printf("ticks=%llu postponed=%llu reports=%llu ", ticks, 0 - postponed,
	       reports_built - built);
	printf("spent_ns=%llu longest_ns=%llu share=%.6f\n", spent_ns, longest_ns,
	       (double)spent_ns / (double)(end_ns - begin_ns));
}

/* Orders numbers. */
static int compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Measures divisions among all VMs. */
static void bench_divide(u32 rounds)
{
	u64 *spent = calloc(rounds, sizeof(*spent)), begin_ns, cost_ns = cpu_cost_ns();
	struct shim_limiter *limiter;
	u32 i, seed = 1;

	expect(spent, "memory for results");
	for (i = 0; i < n_vms; i++)
		pass(i, 0, 0, true, SHIM_TCP_ACK);
	for (i = 0; i < rounds; i++) {
		list_for_each_entry(limiter, &uplink->active, active_node) {
			seed = seed * 1103515245U + 12345U;
			limiter->state.demand = seed >> 8 & 1 ? 0 : (seed >> 9) + 1;
		}
		uplink->divide = true;
		uplink->divided_ns = 0;
		begin_ns = cpu_ns();
		shim_uplink_divide(uplink, shim_host_clock_ns);
		spent[i] = cpu_ns() - begin_ns - cost_ns;
	}
	qsort(spent, rounds, sizeof(*spent), compare);
	printf("limiters=%u least_ns=%llu median_ns=%llu most_ns=%llu\n", uplink->n_active,
	       spent[0], spent[rounds / 2], spent[rounds - 1]);
	free(spent);
}

int main(int argc, char **argv)
{
	expect(argc >= 2, "usage: see the top of the file");
	if ((!strcmp(argv[1], "law") || !strcmp(argv[1], "work")) && argc == 8) {
		prepare(argv[2], (u32)atoi(argv[3]), (u32)atoi(argv[4]));
		bench_law(argv[1][0] == 'l', (u32)atoi(argv[5]), (u64)atoll(argv[6]),
			  (u64)atoll(argv[7]));
	} else if (!strcmp(argv[1], "divide") && argc == 4) {
		prepare("static", (u32)atoi(argv[2]), 0);
		bench_divide((u32)atoi(argv[3]));
	} else {
		expect(false, "usage: see the top of the file");
	}
	expect(!shim_host_warnings, "WARN_ON_ONCE() came");
	return 0;
}
