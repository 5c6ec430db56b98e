/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_HOST_H
#define SHIM_HOST_H 1

/* ovs-vswitchd as the host of the shim's engine; lib/shim/core/host.h, which
 * includes this by way of lib/shim/user/host.h, says what each name means.
 *
 * Any thread that is not quiescent may call the engine.  What is freed after a
 * grace period is postponed by ovs-rcu.  Time is CLOCK_MONOTONIC.  The clocks
 * of the laws tick in a thread of their own, see shim-clock.c. */

#include <errno.h>
#include "cmap.h"
#include "openvswitch/list.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "shim-hash.h"
#include "shim/core/siphash.h"
#include "util.h"

#define SHIM_THREADS 1
#define SHIM_SLEEP 1
#include "shim/user/list.h"

struct dp_packet;
struct shim_address;
struct shim_clock;
struct shim_limiter;
struct shim_message;
struct shim_packet;
struct shim_peer;
struct shim_settings;
struct shim_uplink;
struct shim_vm;

/* Memory and grace periods. */

/* What an object has whose last rites are more than free(). */
struct shim_host_rcu {
    void (*function)(struct shim_host_rcu *);
};

#define shim_rcu_t struct shim_host_rcu

#define shim_alloc_now xzalloc_cacheline
#define shim_alloc_wait xzalloc_cacheline

/* Frees 'object', which one of the above returned, or NULL. */
static inline void
shim_free(const void *object)
{
    free_cacheline(CONST_CAST(void *, object));
}

/* Has 'object' freed after a grace period. */
#define shim_free_rcu(OBJECT, MEMBER) \
    ((void) sizeof (OBJECT)->MEMBER, ovsrcu_postpone(free_cacheline, OBJECT))

void shim_call_rcu(struct shim_host_rcu *,
                   void (*function)(struct shim_host_rcu *));

/* Tells of a condition that must not hold. */
void shim_host_warn(const char *condition, const char *where);

#define WARN_ON_ONCE(CONDITION) \
    (OVS_UNLIKELY(CONDITION) \
     ? (shim_host_warn(#CONDITION, OVS_SOURCE_LOCATOR), true) : false)

/* Tables: lookups take no lock. */

struct shim_table {
    struct cmap cmap;           /* Of struct shim_table_node. */
    u8 key[SHIM_KEY_BYTES];     /* Of the hash. */
    struct ovs_mutex mutex;     /* Of changes. */
};

/* What an object has for its table. */
struct shim_table_node {
    struct cmap_node cmap_node; /* In 'cmap'. */
    uint32_t hash;              /* Of the key. */
};

/* Where an object has its node and its key. */
struct shim_table_params {
    size_t head_offset;         /* Of struct shim_table_node. */
    size_t key_offset;          /* Of the key. */
    size_t key_len;             /* Bytes of the key. */
    bool automatic_shrinking;   /* Of no meaning here. */
};

int shim_table_init(struct shim_table *, const struct shim_table_params *);
void shim_table_exit(struct shim_table *);
void *shim_table_find(struct shim_table *, const void *key,
                      struct shim_table_params);
int shim_table_insert(struct shim_table *, struct shim_table_node *,
                      struct shim_table_params);
int shim_table_remove(struct shim_table *, struct shim_table_node *,
                      struct shim_table_params);

/* Returns how many objects 'table' has. */
static inline u32
shim_table_count(const struct shim_table *table)
{
    return cmap_count(&table->cmap);
}

/* Fills 'bytes' bytes at 'to' with what nobody can guess. */
#define shim_host_random shim_secret

/* Time. */

/* The timer of a law's clock. */
struct shim_host_timer {
    u64 due_ns;                 /* When the clock is to tick. */
    bool started;               /* Whether it is to tick at all. */
};

u64 shim_now_ns(void);

/* Grace periods of leases, of which this host has none. */
static inline unsigned long
shim_grace_begin(void)
{
    return 0;
}

/* Returns true: no packet is spending of a lease. */
static inline bool
shim_grace_over(unsigned long since OVS_UNUSED)
{
    return true;
}

void shim_host_timer_init(struct shim_clock *);
void shim_host_timer_start(struct shim_clock *, u64 ns);
void shim_host_timer_stop(struct shim_clock *);

/* Reports. */

/* Reports to be sent when a tick is over. */
struct shim_reports {
    struct ovs_list list;       /* Of struct shim_report, see shim-report.h. */
};

/* How a report to a peer leaves; shim-report.c. */
struct shim_host_peer {
    u8 macs[12];                /* Destination and source. */
    u8 back[12];                /* The same to where its last packet came
                                 * from. */
    bool straight;              /* The VM sent by 'back'. */
    u8 votes;                   /* Ticks in which it sent by 'macs', less
                                 * packets by others. */
    u16 vlan_tci;               /* Tag and VLAN_CFI; 0 if there is none. */
    bool known;                 /* Whether a packet showed it. */
    bool bad;                   /* No report can leave like that. */
};

/* Returns true if the way of reports leads into a tunnel. */
static inline bool
shim_host_peer_tunnel(const struct shim_host_peer *peer OVS_UNUSED)
{
    return false;
}

void shim_host_peer_exit(struct shim_peer *);
bool shim_host_peer_learn(struct shim_peer *, const struct shim_packet *,
                          bool sent);
u32 shim_host_report(struct shim_peer *, const struct shim_uplink *,
                     const struct shim_message *report,
                     const struct shim_settings *, struct shim_reports *);
void shim_host_source(const struct shim_packet *, u8 mac[6]);
bool shim_host_ask(const struct shim_vm *, const struct shim_address *,
                   const u8 mac[6], const u8 asker[6]);
u32 shim_host_flow_hash(const struct shim_packet *);
bool shim_host_tunnel_end(const struct shim_packet *, struct shim_address *);
void shim_host_rate_changed(const struct shim_limiter *, u64 bytes_per_s);
void shim_host_message(const struct shim_vm *, const struct shim_message *,
                       const char *verdict);

#endif /* shim-host.h */
