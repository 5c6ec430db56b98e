// SPDX-License-Identifier: Apache-2.0
/*
 * Some CPUs send by leases of one limiter, in an order that a seed draws; what passed is then held
 * against B + R * t over every span of time, against the counters, and against what R allows.  Under
 * a law with peers R is the peer's, and the VM's is twice that.
 *
 *   leases MODE LAW CPUS SEED      MODE: police or pace; LAW: its name
 *
 * A CPU may see that its lease is good, and spend of it only after others have recalled it, looked
 * at it and asked for it back: as it would in the middle of a packet.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/engine/decide.h"
#include "../../core/engine/engine.h"

#define CPUS_MAX 4
#define CAPACITY 1250000000ULL		/* of the uplink, bytes/s */
#define RATE 125000000ULL		/* of the VM, bytes/s */
#define BURST 151400			/* of a bucket that polices, bytes */
#define PACKET_MAX 1514			/* bytes */
#define STEPS 300000			/* that are drawn */
#define PERIOD_NS 1000000ULL		/* of the law's clock */
#define SOURCE "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1"
#define DESTINATION "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\2"

/* A CPU. */
struct cpu {
	struct shim_lease lease;	/* of its packets */
	u32 flying;			/* bytes of a packet that saw the lease and has yet to spend */
};

/* A packet that passed. */
struct passed {
	u64 at_ns;			/* when it leaves */
	u32 bytes;			/* how long it is */
};

static struct shim_engine engine;
static struct shim_vm *vm;
static struct shim_uplink *uplink;
static struct cpu cpus[CPUS_MAX];
static struct passed passed[STEPS];
static u32 n_passed, n_cpus, n_short;
static u64 sent_bytes, tick_ns;
static u64 state;			/* of the draw */

/* Ends the program if a condition does not hold. */
static void expect(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "leases: %s\n", what);
	exit(2);
}

/* Returns a number less than n. */
static u32 draw(u32 n)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)((state >> 33) % n);
}

/* Notes a packet that passed. */
static void pass(u64 at_ns, u32 bytes)
{
	passed[n_passed++] = (struct passed){ .at_ns = at_ns, .bytes = bytes };
	sent_bytes += bytes;
}

/* Lets a CPU end the packet that it is in the middle of. */
static void land(struct cpu *cpu)
{
	if (cpu->flying)
		shim_lease_spend(&cpu->lease, cpu->flying, cpu->flying);
	cpu->flying = 0;
}

/* Has a CPU send a packet. */
static void send(struct cpu *cpu, u32 bytes)
{
	struct shim_packet packet = {
		.now_ns = shim_now_ns(), .timed = true, .bytes = bytes, .packets = 1,
		.version = 4, .protocol = 17, .plain = true, .ecn = SHIM_ECT_ZERO,
	};
	struct shim_passage passage;
	struct shim_action action;

	land(cpu);
	if (cpu->lease.valid && bytes <= cpu->lease.left) {
		cpu->flying = bytes;
		n_short++;
		pass(shim_now_ns(), bytes);
		if (draw(4))
			land(cpu);
		return;
	}
	memcpy(packet.source.bytes, SOURCE, 16);
	memcpy(packet.destination.bytes, DESTINATION, 16);
	shim_decide_sent(vm, uplink, &packet, &cpu->lease, &passage, &action);
	if (!action.drop)
		pass(action.departure_ns ? action.departure_ns : shim_now_ns(), bytes);
}

/* Lets time pass, and ticks come; a grace period ends if no CPU is in the middle of a packet. */
static void wait(u64 ns)
{
	struct shim_reports reports = { 0 };
	bool quiet = true;
	u32 i;

	shim_host_clock_ns += ns;
	for (i = 0; i < n_cpus; i++)
		quiet &= !cpus[i].flying;
	if (quiet && !draw(8))
		shim_host_quiesce();
	if (shim_host_clock_ns < tick_ns)
		return;
	shim_clock_tick(vm->clock, shim_host_clock_ns, &reports);
	tick_ns = shim_host_clock_ns + PERIOD_NS;
}

/* Orders packets by when they leave. */
static int compare(const void *a, const void *b)
{
	const struct passed *x = a, *y = b;

	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* Returns the most bytes by which what left within a span of time exceeds what R lets pass. */
static double worst(void)
{
	double level = 0, most = 0;
	u32 i;

	qsort(passed, n_passed, sizeof(*passed), compare);
	for (i = 0; i < n_passed; i++) {
		if (i)
			level -= (double)(passed[i].at_ns - passed[i - 1].at_ns) * RATE / 1e9;
		level = (level > 0 ? level : 0) + passed[i].bytes;
		most = level > most ? level : most;
	}
	return most;
}

/* Prepares engine, VM and uplink. */
static void prepare(bool pace, const char *law)
{
	struct shim_vm_config config = { .weight = 1, .law = SHIM_LAW_DEFAULT, .max = RATE };
	struct shim_settings *settings;
	int knob;
	u32 i;

	expect(!shim_engine_init(&engine, 1, 1), "an engine");
	settings = shim_alloc_wait(sizeof(*settings));
	shim_settings_default(settings);
	for (i = 0; shim_law_at(i) && strcmp(shim_law_at(i)->name, law); i++)
		;
	expect(shim_law_at(i), "no such law");
	settings->law = i;
	/* Nobody answers here. */
	knob = shim_knob_find(shim_law_at(i), "feedback-timeout");
	if (knob >= 0)
		settings->laws[i].knobs[knob] = shim_law_at(i)->knobs[knob].max;
	settings->limiter = pace ? SHIM_LIMITER_PACE : SHIM_LIMITER_POLICE;
	settings->burst_bytes = BURST;
	settings->waiting_max = 0;
	shim_engine_set(&engine, settings);
	uplink = shim_uplink_create(&engine, NULL);
	vm = shim_vm_create(&engine, NULL);
	expect(uplink && vm, "an uplink and a VM");
	shim_uplink_configure(uplink, CAPACITY, 0);
	if (shim_law_at(i)->wants & SHIM_LAW_PEERS)
		config.max = 2 * RATE;
	shim_vm_configure(vm, &config);
}

/* Gives the only peer, if there is one, the rate R for good. */
static struct shim_peer *rate_peer(void)
{
	struct shim_peer_key key = { .vm = vm };
	struct shim_peer *peer;

	if (!(vm->mode.wants & SHIM_LAW_PEERS))
		return NULL;
	memcpy(key.address.bytes, DESTINATION, sizeof(key.address.bytes));
	expect(shim_peer_weigh(vm, &key.address, 1), "a peer with a weight");
	send(&cpus[0], PACKET_MAX);
	peer = shim_peer_find(&engine, &key);
	expect(peer && peer->clock, "a peer with a law");
	peer->state.rate = RATE;
	spin_lock(&peer->lock);
	shim_peer_apply(peer, shim_host_clock_ns);
	spin_unlock(&peer->lock);
	return peer;
}

/* Sends with pauses, on whatever CPU, more than R allows at times. */
static void send_at_random(void)
{
	u32 cpu = 0;

	while (n_passed < STEPS / 2) {
		if (!draw(16))
			cpu = draw(n_cpus);
		send(&cpus[cpu], draw(3) ? PACKET_MAX : 60 + draw(PACKET_MAX - 60));
		wait(draw(64) ? draw(12000) : draw(3000000));
	}
}

/* Sends twice what R allows for half a second, on one CPU after another; returns what passed. */
static u64 send_too_much(void)
{
	u64 end_ns = shim_host_clock_ns + SHIM_NSEC_PER_SEC / 2, before = sent_bytes;
	u32 i = 0;

	while (shim_host_clock_ns < end_ns && n_passed < STEPS) {
		send(&cpus[i++ / 40 % n_cpus], PACKET_MAX);
		wait(PACKET_MAX * SHIM_NSEC_PER_SEC / RATE / 2);
	}
	return sent_bytes - before;
}

/* Lets all packets end, and all that is lent come back. */
static void rest(void)
{
	u32 i;

	for (i = 0; i < n_cpus; i++)
		land(&cpus[i]);
	for (i = 0; i < 64; i++)
		wait(PERIOD_NS + 1);
}

int main(int argc, char **argv)
{
	struct shim_limiter *limiter;
	struct shim_peer *peer;
	double most, bound;
	struct shim_tx tx;
	u64 passing;
	bool pace;
	u32 i;

	expect(argc == 5, "usage: leases police|pace LAW CPUS SEED");
	pace = !strcmp(argv[1], "pace");
	n_cpus = atoi(argv[3]);
	state = atoi(argv[4]);
	expect(n_cpus && n_cpus <= CPUS_MAX, "so many CPUs");
	shim_host_clock_ns = 1000 * SHIM_NSEC_PER_SEC;
	prepare(pace, argv[2]);
	/* The rate is in force once the VM is active. */
	send(&cpus[0], PACKET_MAX);
	wait(PERIOD_NS);
	peer = rate_peer();
	send_at_random();
	rest();
	passing = send_too_much();
	rest();
	limiter = shim_limiter_find(vm, uplink);
	shim_vm_sent(vm, &tx);
	/* D + L; a bucket that polices has both within its depth. */
	bound = pace ? 1.25 * shim_mode_depth(&vm->mode, RATE) + 1 : BURST;
	most = worst();
	printf("%s, %s, %u CPUs: %u of %u by leases, worst %.0f of %.0f bytes over the rate, %.4f of it\n",
	       argv[1], argv[2], n_cpus, n_short, n_passed, most, bound,
	       (double)passing / (RATE / 2.));
	expect(n_short > n_passed / 32, "leases are hardly used");
	expect(most <= bound, "more passed than may");
	expect(tx.bytes == sent_bytes && tx.packets == n_passed, "the counters tell something else");
	expect(!peer || (peer->tx_bytes == sent_bytes && peer->tx_packets == n_passed),
	       "the peer's counters tell something else");
	expect(!peer || (!peer->loans.lent && !peer->loans.n), "a peer still lends");
	expect(passing >= RATE / 2 * 0.995, "rate was lost");
	expect(!limiter->loans.lent && !limiter->loans.n, "something is still lent");
	for (i = 0; i < n_cpus; i++)
		shim_lease_finish(&cpus[i].lease, shim_host_clock_ns);
	send(&cpus[0], PACKET_MAX);
	shim_vm_remove(vm);
	expect(!cpus[0].lease.valid && !cpus[0].lease.limiter && !cpus[0].lease.peer,
	       "a lease outlives its VM");
	shim_uplink_remove(uplink);
	shim_engine_exit(&engine);
	shim_host_quiesce();
	expect(!shim_host_allocated && !shim_host_warnings, "something leaked");
	return 0;
}
