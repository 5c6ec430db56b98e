// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What the engine is given in user space.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../core/engine/engine.h"

/* Objects begin where a cache line does. */
#define ALIGNMENT 64

u64 shim_host_allocated;
u64 shim_host_allocations;
u64 shim_host_fail_at;
u64 shim_host_fail_count;
u64 shim_host_asked;
bool shim_host_mute;
u64 shim_host_warnings;
u64 shim_host_clock_ns;
u64 shim_host_clock_runs_ns;
u64 shim_host_lock_ns;
u64 shim_host_seed;

/* What waits for a grace period, the last in front. */
static struct rcu_head *later;

/* Counts at one of the host's words; returns what it then is. */
static u64 host_count(u64 *word, s64 n)
{
#ifdef SHIM_THREADS
	return __atomic_add_fetch(word, (u64)n, __ATOMIC_RELAXED);
#else
	return *word += (u64)n;
#endif
}

void shim_host_warn(const char *condition, const char *file, int line)
{
	host_count(&shim_host_warnings, 1);
	fprintf(stderr, "shim: %s:%d: %s\n", file, line, condition);
}

#ifndef SHIM_THREADS
void shim_host_lock_wrong(const char *what)
{
	fprintf(stderr, "shim: lock %s\n", what);
	abort();
}
#endif

void *shim_host_alloc(size_t bytes)
{
	u64 number = host_count(&shim_host_allocations, 1);
	u64 fail = READ_ONCE(shim_host_fail_at);
	void *object;

	if (fail && number >= fail && number < fail + max_t(u64, shim_host_fail_count, 1))
		return NULL;
	if (posix_memalign(&object, ALIGNMENT, bytes))
		return NULL;
	memset(object, 0, bytes);
	host_count(&shim_host_allocated, 1);
	return object;
}

void shim_free(const void *object)
{
	if (!object)
		return;
	host_count(&shim_host_allocated, -1);
	free((void *)object);
}

/* Has an object wait for the next grace period. */
static void host_wait(struct rcu_head *rcu)
{
	struct rcu_head *first = READ_ONCE(later);

	do {
		rcu->next = first;
	} while (!try_cmpxchg(&later, &first, rcu));
}

void shim_call_rcu(struct rcu_head *rcu, void (*function)(struct rcu_head *rcu))
{
	rcu->function = function;
	rcu->object = NULL;
	host_wait(rcu);
}

void shim_host_free_later(struct rcu_head *rcu, void *object)
{
	rcu->function = NULL;
	rcu->object = object;
	host_wait(rcu);
}

unsigned long shim_host_graces;

u32 shim_host_quiesce(void)
{
	struct rcu_head *rcu = xchg(&later, NULL), *next;
	u32 n = 0;

	WRITE_ONCE(shim_host_graces, shim_host_graces + 1);

	for (; rcu; rcu = next) {
		next = rcu->next;
		if (rcu->function)
			rcu->function(rcu);
		else
			shim_free(rcu->object);
		n++;
	}
	return n;
}

u64 shim_host_real_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * SHIM_NSEC_PER_SEC + (u64)now.tv_nsec;
}

u64 shim_now_ns(void)
{
#ifdef SHIM_THREADS
	return shim_host_real_ns();
#else
	if (unlikely(shim_host_clock_runs_ns))
		return shim_host_clock_ns + shim_host_real_ns() - shim_host_clock_runs_ns;
	return shim_host_clock_ns;
#endif
}

void shim_host_random(void *to, size_t bytes)
{
	u8 *out = to;
	u64 word;

	/* SplitMix64 (Steele, Lea and Flood, 2014). */
	for (; bytes; bytes--) {
		word = host_count(&shim_host_seed, (s64)0x9e3779b97f4a7c15ULL);
		word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ULL;
		word = (word ^ word >> 27) * 0x94d049bb133111ebULL;
		*out++ = (u8)(word >> 56);
	}
}

void shim_host_timer_init(struct shim_clock *clock)
{
	clock->timer = (struct shim_host_timer){ 0 };
}

void shim_host_timer_start(struct shim_clock *clock, u64 ns)
{
	WRITE_ONCE(clock->timer.due_ns, shim_now_ns() + ns);
	WRITE_ONCE(clock->timer.started, true);
}

void shim_host_timer_stop(struct shim_clock *clock)
{
	WRITE_ONCE(clock->timer.started, false);
}

struct shim_host_report *shim_host_report_take(struct shim_reports *reports)
{
	struct shim_host_report *report = reports->first;

	if (!report)
		return NULL;
	reports->first = report->next;
	if (!report->next)
		reports->last = NULL;
	reports->n--;
	report->next = NULL;
	return report;
}

void shim_host_peer_exit(struct shim_peer *peer)
{
	(void)peer;
}

bool shim_host_peer_learn(struct shim_peer *peer, const struct shim_packet *packet, bool sent)
{
	if (sent || !peer->way_sent)
		peer->host.mac = sent ? packet->link_destination : packet->link_source;
	peer->host.learned++;
	return true;
}

u32 shim_host_report(struct shim_peer *peer, const struct shim_uplink *uplink,
		     const struct shim_message *report, const struct shim_settings *settings,
		     struct shim_reports *reports)
{
	struct shim_host_report *built;

	if (!uplink || !peer->host.learned)
		return 0;
	built = shim_host_alloc(sizeof(*built));
	if (!built)
		return 0;
	built->vm = peer->key.vm;
	built->message = *report;
	memcpy(built->source, &peer->local, sizeof(built->source));
	memcpy(built->destination, &peer->key.address, sizeof(built->destination));
	shim_message_encode(built->data, report, settings->key);
	built->mac = peer->host.mac;
	built->bytes = SHIM_HOST_REPORT_HEADERS + SHIM_MESSAGE_V1_BYTES;
	if (reports->last)
		reports->last->next = built;
	else
		reports->first = built;
	reports->last = built;
	reports->n++;
	return built->bytes;
}

void shim_host_source(const struct shim_packet *packet, u8 mac[6])
{
	(void)packet;
	memset(mac, 0, 6);
}

bool shim_host_ask(const struct shim_vm *vm, const struct shim_address *address, const u8 mac[6],
		   const u8 asker[6])
{
	(void)vm;
	(void)address;
	(void)mac;
	(void)asker;
	if (shim_host_mute)
		return false;
	shim_host_asked++;
	return true;
}

/* A packet's frame is the address of the far end of its tunnel, NULL without one. */
bool shim_host_tunnel_end(const struct shim_packet *packet, struct shim_address *end)
{
	if (!packet->frame)
		return false;
	memcpy(end, packet->frame, sizeof(*end));
	return true;
}

u32 shim_host_flow_hash(const struct shim_packet *packet)
{
	u64 hash = (u64)packet->port_source << 16 | packet->port_destination, word;
	u32 i;

	for (i = 0; i < sizeof(packet->source.bytes); i += sizeof(word)) {
		memcpy(&word, packet->source.bytes + i, sizeof(word));
		hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
		memcpy(&word, packet->destination.bytes + i, sizeof(word));
		hash = (hash ^ hash >> 32 ^ word) * 0xc4ceb9fe1a85ec53ULL;
	}
	/* The last bytes of addresses stand highest, and a product carries upwards only. */
	hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccdULL;
	return (u32)(hash >> 32);
}

void shim_host_rate_changed(const struct shim_limiter *limiter, u64 bytes_per_s)
{
	(void)limiter;
	(void)bytes_per_s;
}

void shim_host_message(const struct shim_vm *vm, const struct shim_message *message,
		       const char *verdict)
{
	(void)vm;
	(void)message;
	(void)verdict;
}
