/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * User space as the engine's host, for tests, simulators and benchmarks; core/host.h says what each
 * name means.
 *
 * One thread calls the engine, unless all is compiled with SHIM_THREADS.  Time is what a test
 * says; with threads it is CLOCK_MONOTONIC.  A timer does nothing but remember when it is due: the
 * caller drives shim_clock_tick().  What is to be freed after a grace period is kept until the
 * caller says, by shim_host_quiesce(), that no packet and no tick is under way.
 */
#ifndef SHIM_USER_HOST_H
#define SHIM_USER_HOST_H

#include <errno.h>

#include "../core/message.h"
#include "account.h"
#include "list.h"
#include "memory.h"
#include "table.h"

struct shim_address;
struct shim_clock;
struct shim_limiter;
struct shim_packet;
struct shim_peer;
struct shim_settings;
struct shim_uplink;
struct shim_vm;

/* Bytes in front of a report's message: Ethernet and IPv4. */
#define SHIM_HOST_REPORT_HEADERS 34

/* What an object freed after a grace period holds. */
struct rcu_head {
	struct rcu_head *next;		/* to be freed as well */
	void (*function)(struct rcu_head *rcu);	/* frees it; NULL: shim_free(object) */
	void *object;			/* the object */
};

#define shim_rcu_t struct rcu_head

/* Has function(rcu) called after a grace period. */
void shim_call_rcu(struct rcu_head *rcu, void (*function)(struct rcu_head *rcu));

/* Has an object freed after a grace period. */
void shim_host_free_later(struct rcu_head *rcu, void *object);

#define shim_free_rcu(object, member) \
	do { \
		__typeof__(object) object_ = (object); \
		shim_host_free_later(&object_->member, object_); \
	} while (0)

/* Returns zeroed memory, NULL if there is none or this one is to fail. */
void *shim_host_alloc(size_t bytes);

#define shim_alloc_now shim_host_alloc
#define shim_alloc_wait shim_host_alloc

/* Frees what shim_host_alloc() returned, or NULL. */
void shim_free(const void *object);

/* Counts and tells of a condition that must not hold. */
void shim_host_warn(const char *condition, const char *file, int line);

#define WARN_ON_ONCE(condition) \
	(unlikely(condition) ? (shim_host_warn(#condition, __FILE__, __LINE__), true) : false)

/* Returns CLOCK_MONOTONIC in ns. */
u64 shim_host_real_ns(void);

/* Returns monotonic time in ns. */
u64 shim_now_ns(void);

/* Grace periods so far: shim_host_quiesce() ends one; with threads, who knows their packets. */
extern unsigned long shim_host_graces;

/* Begins to wait for packets that are under way; returns what shim_grace_over() asks for. */
static inline unsigned long shim_grace_begin(void)
{
	return READ_ONCE(shim_host_graces);
}

/* Tells whether packets that were under way then are over. */
static inline bool shim_grace_over(unsigned long since)
{
	/* Threads may have been counted for the first one before it began. */
#ifdef SHIM_THREADS
	return READ_ONCE(shim_host_graces) - since > 1;
#else
	return READ_ONCE(shim_host_graces) != since;
#endif
}

/* Fills memory by shim_host_seed, otherwise each time. */
void shim_host_random(void *to, size_t bytes);

/* The timer of a law's clock. */
struct shim_host_timer {
	u64 due_ns;			/* when the clock is to tick */
	bool started;			/* it is to tick at all */
};

/* Prepares a timer. */
void shim_host_timer_init(struct shim_clock *clock);

/* Has the clock tick in ns. */
void shim_host_timer_start(struct shim_clock *clock, u64 ns);

/* Has the clock tick no more. */
void shim_host_timer_stop(struct shim_clock *clock);

/* A report that was built. */
struct shim_host_report {
	struct shim_host_report *next;	/* built after this one */
	struct shim_vm *vm;		/* whose peer it is for; compared, never followed */
	struct shim_message message;	/* what it says */
	u8 source[16];			/* address it is sent from */
	u8 destination[16];		/* address it is sent to */
	u8 data[SHIM_MESSAGE_V1_BYTES];	/* the message as it is on the wire */
	u32 bytes;			/* of the frame */
	u64 mac;			/* MAC address that it is sent to; 0: unknown */
};

/* Reports to be sent when a tick is over, the first built in front. */
struct shim_reports {
	struct shim_host_report *first;	/* NULL: none */
	struct shim_host_report *last;	/* NULL: none */
	u32 n;				/* how many */
};

/* Takes the first report; NULL: there is none.  To be freed by shim_free(). */
struct shim_host_report *shim_host_report_take(struct shim_reports *reports);

/* How a report to a peer leaves: it always does, once a packet has shown the VM's address. */
struct shim_host_peer {
	u32 learned;			/* packets seen, modulo 2^32 */
	u64 mac;			/* where the last one leads, as in struct shim_packet */
};

/* Tells whether the way of reports leads into a tunnel. */
static inline bool shim_host_peer_tunnel(const struct shim_host_peer *host)
{
	(void)host;
	return false;
}

void shim_host_peer_exit(struct shim_peer *peer);
bool shim_host_peer_learn(struct shim_peer *peer, const struct shim_packet *packet, bool sent);
u32 shim_host_report(struct shim_peer *peer, const struct shim_uplink *uplink,
		     const struct shim_message *report, const struct shim_settings *settings,
		     struct shim_reports *reports);
void shim_host_source(const struct shim_packet *packet, u8 mac[6]);
bool shim_host_ask(const struct shim_vm *vm, const struct shim_address *address, const u8 mac[6],
		   const u8 asker[6]);
u32 shim_host_flow_hash(const struct shim_packet *packet);
bool shim_host_tunnel_end(const struct shim_packet *packet, struct shim_address *end);
void shim_host_rate_changed(const struct shim_limiter *limiter, u64 bytes_per_s);
void shim_host_message(const struct shim_vm *vm, const struct shim_message *message,
		       const char *verdict);

#endif
