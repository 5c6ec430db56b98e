/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel as the engine's host; core/host.h says what each name means.
 */
#ifndef OVS_SHIM_HOST_H
#define OVS_SHIM_HOST_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/hrtimer.h>
#include <linux/if_ether.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/rculist.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

struct metadata_dst;
struct shim_address;
struct shim_clock;
struct shim_limiter;
struct shim_message;
struct shim_packet;
struct shim_peer;
struct shim_settings;
struct shim_uplink;
struct shim_vm;

#define shim_rcu_t struct rcu_head
#define shim_free_rcu kfree_rcu
#define shim_call_rcu call_rcu

#define shim_table rhashtable
#define shim_table_node rhash_head
#define shim_table_params rhashtable_params
#define shim_table_init rhashtable_init
#define shim_table_exit rhashtable_destroy
#define shim_table_find rhashtable_lookup
#define shim_table_insert rhashtable_insert_fast
#define shim_table_remove rhashtable_remove_fast

/* Returns how many entries a table has. */
static inline u32 shim_table_count(const struct rhashtable *table)
{
	return atomic_read(&table->nelems);
}

/* Returns zeroed memory from any context, NULL if there is none. */
static inline void *shim_alloc_now(size_t bytes)
{
	return kzalloc(bytes, GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
}

/* Returns zeroed memory, NULL if there is none; may sleep. */
static inline void *shim_alloc_wait(size_t bytes)
{
	return kvzalloc(bytes, GFP_KERNEL_ACCOUNT);
}

/* Frees what one of these returned. */
static inline void shim_free(const void *object)
{
	kvfree(object);
}

/* The timer of a law's clock. */
struct shim_host_timer {
	struct hrtimer hrtimer;		/* expires every T */
	spinlock_t lock;		/* of starting it and moving it on; innermost */
};

void shim_host_timer_init(struct shim_clock *clock);
void shim_host_timer_start(struct shim_clock *clock, u64 ns);
void shim_host_timer_stop(struct shim_clock *clock);

/* Returns monotonic time in ns. */
static inline u64 shim_now_ns(void)
{
	return ktime_get_ns();
}

#define shim_host_random get_random_bytes

/* Begins to wait for packets that are under way; returns what shim_grace_over() asks for. */
static inline unsigned long shim_grace_begin(void)
{
	return start_poll_synchronize_rcu();
}

/* Tells whether packets that were under way then are over. */
static inline bool shim_grace_over(unsigned long since)
{
	return poll_state_synchronize_rcu(since);
}

/* Reports to be sent when a tick is over. */
struct shim_reports {
	struct sk_buff_head queue;	/* packets, by skb->dev */
};

/* How a report to a peer leaves: report.c. */
struct shim_host_peer {
	u8 macs[2 * ETH_ALEN];		/* destination and source */
	u8 back[2 * ETH_ALEN];		/* the same to where the peer's last packet came from */
	bool straight;		/* the VM sent by `back`: no bridge rewrites addresses */
	u8 votes;		/* ticks in which it sent by `macs`, less packets by others */
	__be16 vlan_proto;		/* 0: no tag */
	u16 vlan_tci;			/* the tag */
	struct metadata_dst *tunnel;	/* where the tunnel leads, held; NULL: there is none */
	bool bad;			/* more VLAN tags than a report can have, or no memory */
};

/* Tells whether the way of reports leads into a tunnel. */
static inline bool shim_host_peer_tunnel(const struct shim_host_peer *host)
{
	return host->tunnel;
}

void shim_host_peer_exit(struct shim_peer *peer);
bool shim_host_peer_learn(struct shim_peer *peer, const struct shim_packet *packet, bool sent);
u32 shim_host_report(struct shim_peer *peer, const struct shim_uplink *uplink,
		     const struct shim_message *report, const struct shim_settings *settings,
		     struct shim_reports *reports);
void shim_host_source(const struct shim_packet *packet, u8 mac[ETH_ALEN]);
bool shim_host_ask(const struct shim_vm *vm, const struct shim_address *address,
		   const u8 mac[ETH_ALEN], const u8 asker[ETH_ALEN]);
u32 shim_host_flow_hash(const struct shim_packet *packet);
bool shim_host_tunnel_end(const struct shim_packet *packet, struct shim_address *end);
void shim_host_rate_changed(const struct shim_limiter *limiter, u64 bytes_per_s);
void shim_host_message(const struct shim_vm *vm, const struct shim_message *message,
		       const char *verdict);

#endif
