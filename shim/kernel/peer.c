// SPDX-License-Identifier: GPL-2.0-only
/*
 * Peers: what a VM exchanges with one remote address, for laws with SHIM_LAW_PEERS.
 *
 * A peer is made by the first packet either way, or by an operator who gives it a weight.  A VM
 * has at most peers_max of them; packets to further addresses pass the VM's own bucket alone and
 * are counted.  A peer without packets for peer_idle_ns is forgotten unless it has a weight.
 *
 * Packets find peers under RCU and work on them under their lock.  shim->lock makes, frees and
 * lists them.  A peer names the clock, and so the law, whose state it holds: a packet that
 * looked at its VM before a change of law still calls the law that the peer belongs to.
 */
#include <linux/build_bug.h>
#include <linux/jhash.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/dst_metadata.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"

/* Most bytes of a peer with the law's own; debugging locks are larger. */
#define PEER_BYTES_MAX 368

/* Where peers come from. */
static struct kmem_cache *cache;

/* The table of a namespace. */
static const struct rhashtable_params table_params = {
	.head_offset = offsetof(struct ovs_shim_peer, node),
	.key_offset = offsetof(struct ovs_shim_peer, key),
	.key_len = sizeof(struct ovs_shim_peer_key),
	.automatic_shrinking = true,
};

/* Makes the cache; 0 or -ENOMEM. */
int ovs_shim_peer_init(void)
{
	u32 size = sizeof(struct ovs_shim_peer) +
		   ovs_shim_law_room(offsetof(struct shim_law, peer_size));

	BUILD_BUG_ON(sizeof(struct ovs_shim_peer_key) != sizeof(void *) + 16);
	WARN_ON(!IS_ENABLED(CONFIG_DEBUG_SPINLOCK) && size > PEER_BYTES_MAX);
	cache = kmem_cache_create("ovs_shim_peer", size, __alignof__(struct ovs_shim_peer), 0,
				  NULL);
	return cache ? 0 : -ENOMEM;
}

/* Ends the cache once all peers are freed. */
void ovs_shim_peer_exit(void)
{
	rcu_barrier();
	kmem_cache_destroy(cache);
}

/* Makes a namespace's table; 0 or a negative error number. */
int ovs_shim_peers_start(struct ovs_shim_net *shim)
{
	return rhashtable_init(&shim->peers, &table_params);
}

/* Ends a namespace's table, which is empty by now. */
void ovs_shim_peers_stop(struct ovs_shim_net *shim)
{
	WARN_ON_ONCE(atomic_read(&shim->peers.nelems));
	rhashtable_destroy(&shim->peers);
}

/* Returns the peer of that key, NULL if there is none.  RCU read lock. */
struct ovs_shim_peer *ovs_shim_peer_find(struct ovs_shim_net *shim,
					 const struct ovs_shim_peer_key *key)
{
	return rhashtable_lookup(&shim->peers, key, table_params);
}

/* Returns the uplink behind vport, NULL if there is none any more.  shim->lock. */
static struct ovs_shim_port *find_uplink(struct ovs_shim_net *shim, const struct vport *vport)
{
	struct ovs_shim_port *uplink;

	list_for_each_entry(uplink, &shim->uplinks, uplink_list)
		if (uplink->vport == vport)
			return uplink;
	return NULL;
}

/* Puts the law's rate in force; credit and debt stay.  peer->lock. */
void ovs_shim_peer_apply(struct ovs_shim_peer *peer, u64 now_ns)
{
	u32 depth = READ_ONCE(peer->key.vm->mode.depth);
	struct shim_rate old = peer->rate;
	u64 bytes_per_s = 0, tat;

	if (peer->state.rate)
		bytes_per_s = clamp_t(u64, peer->state.rate, SHIM_RATE_MIN, SHIM_RATE_MAX);
	if (old.bytes_per_s == bytes_per_s && old.burst_bytes == depth)
		return;
	if (!bytes_per_s) {
		peer->rate = (struct shim_rate){ .burst_bytes = depth };
		return;
	}
	shim_rate_init(&peer->rate, bytes_per_s, depth);
	if (!old.bytes_per_s) {
		peer->tat = shim_bucket_full(now_ns);
		return;
	}
	tat = shim_bucket_rerate(&old, &peer->rate, peer->tat, now_ns);
	/* What waits keeps its times; what follows at a higher rate must not leave among it. */
	if (bytes_per_s < old.bytes_per_s || (s64)(tat - peer->tat) > 0)
		peer->tat = tat;
}

/* Returns what a law is told of a peer; pair is as in ovs_shim_law_input().  shim->lock. */
static struct shim_law_input peer_input(const struct ovs_shim_peer *peer,
					const struct ovs_shim_pair *pair,
					const struct ovs_shim_port *uplink, u64 now_ns)
{
	struct shim_law_input input = ovs_shim_law_input(peer->key.vm, pair, uplink, now_ns);

	input.peer_weight = peer->weight;
	return input;
}

/* Lets the law of the VM begin with a peer.  shim->lock. */
static void start(struct ovs_shim_peer *peer, const struct ovs_shim_port *uplink, u64 now_ns)
{
	struct ovs_shim_port *vm = peer->key.vm;
	struct shim_law_input input;

	if (!vm->clock || !(vm->clock->law->wants & SHIM_LAW_PEERS) || !uplink)
		return;
	input = peer_input(peer, ovs_shim_limiter_find(vm, uplink->vport), uplink, now_ns);
	spin_lock(&peer->lock);
	peer->idle_us = 0;
	WRITE_ONCE(peer->clock, vm->clock);
	memset(&peer->state, 0, sizeof(peer->state) + vm->clock->law->peer_size);
	if (vm->clock->law->peer_init)
		vm->clock->law->peer_init(&peer->state, &input);
	ovs_shim_peer_apply(peer, now_ns);
	spin_unlock(&peer->lock);
	ovs_shim_clock_add(vm);
}

/*
 * Returns the peer of that key, made if need be, and started if it has no law yet; via is the
 * uplink that leads there, NULL if not known.  NULL if the VM has its most or has gone, or without
 * memory.  shim->lock.
 */
struct ovs_shim_peer *ovs_shim_peer_create(const struct ovs_shim_peer_key *key,
					   const struct vport *via)
{
	struct ovs_shim_port *vm = key->vm;
	struct ovs_shim_net *shim = vm->shim;
	struct ovs_shim_peer *peer;

	if (list_empty(&vm->list))
		return NULL;
	peer = ovs_shim_peer_find(shim, key);
	if (peer)
		goto start;
	if (vm->n_peers >= shim->settings.peers_max) {
		atomic64_inc(&vm->counters[OVS_SHIM_PEERS_FULL]);
		return NULL;
	}
	peer = kmem_cache_zalloc(cache, GFP_ATOMIC | __GFP_NOWARN);
	if (!peer)
		goto no_memory;
	peer->key = *key;
	peer->sequence = shim->first_sequence;
	spin_lock_init(&peer->lock);
	if (rhashtable_insert_fast(&shim->peers, &peer->node, table_params)) {
		kmem_cache_free(cache, peer);
		goto no_memory;
	}
	list_add_tail(&peer->list, &vm->peers);
	WRITE_ONCE(vm->n_peers, vm->n_peers + 1);
start:
	if (!peer->clock)
		start(peer, find_uplink(shim, via), ktime_get_ns());
	return peer;
no_memory:
	atomic64_inc(&vm->counters[OVS_SHIM_PEERS_NO_MEMORY]);
	return NULL;
}

/* Frees a peer that no packet can hold any more. */
static void free_rcu_peer(struct rcu_head *head)
{
	struct ovs_shim_peer *peer = container_of(head, struct ovs_shim_peer, rcu);

	if (peer->way.tunnel)
		dst_release(&peer->way.tunnel->dst);
	kmem_cache_free(cache, peer);
}

/* Forgets a peer.  shim->lock. */
void ovs_shim_peer_free(struct ovs_shim_peer *peer)
{
	struct ovs_shim_port *vm = peer->key.vm;
	struct ovs_shim_net *shim = vm->shim;

	/* A peer made later for the same address must not repeat what this one said. */
	shim->first_sequence = max(shim->first_sequence, READ_ONCE(peer->sequence));
	rhashtable_remove_fast(&shim->peers, &peer->node, table_params);
	list_del(&peer->list);
	WRITE_ONCE(vm->n_peers, vm->n_peers - 1);
	call_rcu(&peer->rcu, free_rcu_peer);
}

/* Forgets all peers of a VM.  shim->lock. */
void ovs_shim_peers_free(struct ovs_shim_port *vm)
{
	struct ovs_shim_peer *peer, *next;

	list_for_each_entry_safe(peer, next, &vm->peers, list)
		ovs_shim_peer_free(peer);
}

/* Takes a peer that has a weight from its law; the next packet starts it anew.  shim->lock. */
static void reset(struct ovs_shim_peer *peer, u64 now_ns)
{
	spin_lock(&peer->lock);
	WRITE_ONCE(peer->clock, NULL);
	memset(&peer->state, 0, sizeof(peer->state));
	ovs_shim_peer_apply(peer, now_ns);
	spin_unlock(&peer->lock);
}

/*
 * Begins anew after a change of the VM's law: peers are forgotten, those with a weight start from
 * nothing.  shim->lock.
 */
void ovs_shim_peers_restart(struct ovs_shim_port *vm, u64 now_ns)
{
	struct ovs_shim_peer *peer, *next;

	list_for_each_entry_safe(peer, next, &vm->peers, list) {
		if (peer->weight)
			reset(peer, now_ns);
		else
			ovs_shim_peer_free(peer);
	}
}

/*
 * Counts the peers that a VM's packets came from or went to, and forgets the idle; true while there
 * are any with a law.  shim->lock.
 */
bool ovs_shim_peers_measure(struct ovs_shim_port *vm, u64 now_ns, u64 elapsed_ns)
{
	u64 idle_us = div_u64(vm->shim->settings.peer_idle_ns, NSEC_PER_USEC);
	u32 elapsed_us = min_t(u64, div_u64(elapsed_ns, NSEC_PER_USEC), U32_MAX);
	struct ovs_shim_peer *peer, *next;
	bool any = false;
	u32 busy = 0;
	u32 events;

	list_for_each_entry_safe(peer, next, &vm->peers, list) {
		if (!peer->clock)
			continue;
		any = true;
		events = READ_ONCE(peer->tx_packets) + READ_ONCE(peer->rx_packets) +
			 READ_ONCE(peer->drops);
		if (events != peer->last_events) {
			peer->last_events = events;
			peer->idle_us = 0;
			busy++;
			continue;
		}
		peer->idle_us = min_t(u64, (u64)peer->idle_us + elapsed_us, U32_MAX);
		if (peer->idle_us < idle_us)
			continue;
		atomic64_inc(&vm->counters[OVS_SHIM_PEERS_COLLECTED]);
		if (peer->weight)
			reset(peer, now_ns);
		else
			ovs_shim_peer_free(peer);
	}
	vm->busy_peers = busy;
	return any;
}

/* Lets the law take a peer's step; a report it wants to send goes to *reports.  shim->lock. */
static void period(struct ovs_shim_peer *peer, u64 now_ns, struct sk_buff_head *reports)
{
	const struct vport *via = READ_ONCE(peer->out) ?: READ_ONCE(peer->in);
	struct ovs_shim_port *vm = peer->key.vm;
	struct ovs_shim_net *shim = vm->shim;
	struct ovs_shim_port *uplink = find_uplink(shim, via), *back;
	struct shim_message report = {};
	struct shim_law_input input;
	struct ovs_shim_pair *pair;
	struct sk_buff *skb = NULL;

	if (!uplink || peer->clock != vm->clock || !vm->clock->law->on_peer_period)
		return;
	pair = ovs_shim_limiter_find(vm, via);
	input = peer_input(peer, pair, uplink, now_ns);
	spin_lock(&peer->lock);
	if (vm->clock->law->on_peer_period(&peer->state, pair ? &pair->state : NULL, &input,
					   &report)) {
		/* A tunnel's other end is known of the uplink that it was learned on only. */
		back = find_uplink(shim, peer->way_sent && peer->way.tunnel ? peer->out : peer->in);
		skb = ovs_shim_report_build(peer, &report, back ? back->vport : NULL);
	}
	ovs_shim_peer_apply(peer, now_ns);
	spin_unlock(&peer->lock);
	if (skb)
		__skb_queue_tail(reports, skb);
}

/* Lets the law of a VM take the step of each peer.  shim->lock. */
void ovs_shim_peers_period(struct ovs_shim_port *vm, u64 now_ns, struct sk_buff_head *reports)
{
	struct ovs_shim_peer *peer;
	struct ovs_shim_pair *pair;

	if (list_empty(&vm->peers) || !(vm->clock->law->wants & SHIM_LAW_PEERS))
		return;
	list_for_each_entry(peer, &vm->peers, list)
		period(peer, now_ns, reports);
	pair = rcu_dereference_protected(vm->pairs, lockdep_is_held(&vm->shim->lock));
	while (pair) {
		if (pair->active)
			ovs_shim_limiter_apply(pair, now_ns);
		pair = rcu_dereference_protected(pair->next, lockdep_is_held(&vm->shim->lock));
	}
}

/*
 * Tells a VM's law of a report whose form, tag and destination are right; the counter to be
 * counted says what became of it.  shim->lock.
 */
enum ovs_shim_counter ovs_shim_peer_report(struct ovs_shim_port *vm,
					   const struct shim_message *report, u64 now_ns)
{
	struct ovs_shim_peer_key key = { .vm = vm };
	const struct ovs_shim_port *uplink;
	enum shim_message_error error;
	struct shim_law_input input;
	struct ovs_shim_peer *peer;
	struct ovs_shim_pair *pair;
	const struct vport *via;

	if (!vm->clock || !(vm->clock->law->wants & SHIM_LAW_PEERS) || !vm->clock->law->on_report)
		return OVS_SHIM_REFUSED_LAW;
	memcpy(&key.address, report->peer, sizeof(key.address));
	peer = ovs_shim_peer_find(vm->shim, &key);
	if (!peer || peer->clock != vm->clock)
		return OVS_SHIM_REFUSED_PEER;
	via = READ_ONCE(peer->out) ?: READ_ONCE(peer->in);
	uplink = find_uplink(vm->shim, via);
	if (!uplink)
		return OVS_SHIM_REFUSED_PEER;
	pair = ovs_shim_limiter_find(vm, via);
	input = peer_input(peer, pair, uplink, now_ns);
	spin_lock(&peer->lock);
	error = shim_replay_check_slot(&peer->replay, report);
	if (!error) {
		vm->clock->law->on_report(&peer->state, pair ? &pair->state : NULL, &input,
					  report);
		ovs_shim_peer_apply(peer, now_ns);
	}
	spin_unlock(&peer->lock);
	if (error)
		return OVS_SHIM_REFUSED_REPLAY;
	if (pair)
		ovs_shim_limiter_apply(pair, now_ns);
	return OVS_SHIM_REPORTS;
}
