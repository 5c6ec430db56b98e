// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Peers: what a VM exchanges with one remote address, for laws with SHIM_LAW_PEERS, and for whoever
 * reads them where conversations are asked for.
 *
 * A peer is made by the first packet either way, or by an operator who gives it a weight, and is
 * forgotten after peer_idle of silence unless it has one.  A VM has at most peers_max.  When it
 * has, those make room that nothing speaks for, first those that only sent to the VM, then those
 * that it answered a few times, then those that it answered often.  Anybody can have a VM answer
 * any number of addresses as often as he likes, so an answer proves nothing, and of a rank the
 * longest unused goes.  A peer stays that the VM began to talk to and sent more than a packet, or
 * whose shim sent a report with the right tag, unless it has been silent for SILENT_NS.  Of each of
 * the two lower ranks a sixteenth of peers_max is safe from higher ones, so that newcomers find
 * time to rise.  A peer that only sends pushes out none that stays while there are as many of its
 * like, and such are at most half of all.  What finds no room passes the bucket that all such
 * packets share (vm->shared).
 *
 * No peer is made for a packet that the VM's own bucket drops.
 *
 * A packet finds its peer under RCU and works on it under peer->lock; vm->lock makes, frees and
 * lists peers.  A peer names the clock, and so the law, whose state it holds: a packet that looked
 * at its VM before a change of law still calls the law that the peer belongs to.
 *
 * Who is visited in a tick: a packet puts its peer on the VM's list of touched ones, once between
 * two visits and without a lock.  A visit takes over that list, and keeps visiting a peer every T
 * until the law says that it rests; it is then parked behind those parked before, where idle ones
 * are found without looking at others.
 */
#include "../arith.h"
#include "engine.h"

/* Peers that only sent to the VM may be this part of all. */
#define HEARD_DENOMINATOR 2

/* So large a part of all may be of a low rank and be safe from peers of others. */
#define SAFE_DENOMINATOR 16

/* Silence after which any peer without a weight may make room, ns: 2^30. */
#define SILENT_NS 0x40000000ULL

/* Peers of a rank looked at to find one that makes room. */
#define EVICT_LOOKS 16

/*
 * Under a law with reports a peer that sends, and to which the VM sends nothing, is told something
 * each such time, ns, if only that there is somebody: its shim holds back what nobody answers.
 */
#define HELLO_NS SHIM_NSEC_PER_SEC

/* The first such report waits so long for the VM to answer itself, ns. */
#define HELLO_FIRST_NS 5000000ULL

/* The table of an engine. */
static const struct shim_table_params peer_table = {
	.head_offset = offsetof(struct shim_peer, node),
	.key_offset = offsetof(struct shim_peer, key),
	.key_len = sizeof(struct shim_peer_key),
	.automatic_shrinking = true,
};

size_t shim_peer_bytes(void)
{
	return sizeof(struct shim_peer) + shim_law_peer_size();
}

int shim_peers_init(struct shim_engine *engine)
{
	return shim_table_init(&engine->peers, &peer_table);
}

void shim_peers_exit(struct shim_engine *engine)
{
	WARN_ON_ONCE(shim_table_count(&engine->peers));
	shim_table_exit(&engine->peers);
}

struct shim_peer *shim_peer_find(struct shim_engine *engine, const struct shim_peer_key *key)
{
	return shim_table_find(&engine->peers, key, peer_table);
}

bool shim_peer_touch(struct shim_peer *peer)
{
	peer->seen = true;
	if (peer->touched || peer->gone)
		return false;
	peer->touched = true;
	return llist_add(&peer->touch, &peer->key.vm->touched_peers);
}

void shim_peer_apply(struct shim_peer *peer, u64 now_ns)
{
	const struct shim_mode *mode = &peer->key.vm->mode;
	struct shim_rate old = peer->rate;
	u64 bytes_per_s = 0;
	u32 depth, most, whole;

	if (peer->state.rate)
		bytes_per_s = clamp_t(u64, peer->state.rate, SHIM_RATE_MIN, SHIM_RATE_MAX);
	depth = shim_mode_depth(mode, bytes_per_s);
	whole = shim_mode_whole(mode, bytes_per_s);
	most = shim_mode_most(mode, depth, whole);
	if (!READ_ONCE(mode->horizon_ns))
		depth -= most;
	WRITE_ONCE(peer->whole_bytes, bytes_per_s ? min(whole, depth) : U32_MAX);
	if (old.bytes_per_s == bytes_per_s && old.burst_bytes == depth)
		return;
	shim_peer_recall(peer, now_ns);
	peer->loans.most = bytes_per_s ? most : U32_MAX;
	if (!bytes_per_s) {
		peer->rate = (struct shim_rate){ .burst_bytes = depth };
		return;
	}
	shim_rate_init(&peer->rate, bytes_per_s, depth);
	/* No packet judged so far is later, and none that the VM's bucket let wait leaves later. */
	now_ns = max(now_ns, shim_now_ns());
	now_ns = max(now_ns, peer->late_ns);
	if (!old.bytes_per_s) {
		peer->tat = shim_bucket_full(now_ns);
		peer->spare_ticks = 0;
		return;
	}
	/* The order of other buckets has eyeq settle later: docs/laws.md, "Order". */
	peer->tat = shim_bucket_rerate_behind(&old, &peer->rate, &peer->spare_ticks, peer->tat,
					      now_ns);
}

struct shim_law_input shim_peer_input(const struct shim_peer *peer,
				      const struct shim_limiter *limiter,
				      const struct shim_uplink *uplink, u64 now_ns)
{
	struct shim_law_input input = shim_limiter_input(peer->key.vm, limiter, uplink, now_ns);

	input.peer_weight = peer->weight;
	return input;
}

/* Moves a peer to another rank, behind those that are there.  vm->lock. */
static void peer_set_rank(struct shim_peer *peer, enum shim_peer_rank rank)
{
	struct shim_vm *vm = peer->key.vm;

	if (peer->rank == rank)
		return;
	vm->n_ranks[peer->rank]--;
	peer->rank = rank;
	vm->n_ranks[rank]++;
	list_move_tail(&peer->rank_node, &vm->ranks[rank]);
}

/* Returns the rank that a peer has by what was seen of it.  vm->lock. */
static enum shim_peer_rank peer_rank(const struct shim_peer *peer)
{
	u64 sent = READ_ONCE(peer->tx_packets) + READ_ONCE(peer->drops);

	if (peer->weight)
		return SHIM_PEER_KEPT;
	if (peer->proven)
		return SHIM_PEER_TALKING;
	if (!sent)
		return SHIM_PEER_HEARD;
	if (!peer->began)
		return sent == 1 ? SHIM_PEER_ONCE : SHIM_PEER_TALKING;
	if (READ_ONCE(peer->answers) < SHIM_PEER_ANSWERS_OFTEN)
		return SHIM_PEER_ONCE;
	return SHIM_PEER_ANSWERED;
}

/* Frees a peer that no packet can hold any more. */
static void peer_free(shim_rcu_t *head)
{
	struct shim_peer *peer = container_of(head, struct shim_peer, rcu);

	shim_host_peer_exit(peer);
	shim_free(peer);
}

void shim_peers_take(struct shim_vm *vm)
{
	if (!vm->taken_peers)
		vm->taken_peers = llist_del_all(&vm->touched_peers);
}

u32 shim_peers_drain(struct shim_vm *vm, u32 most)
{
	u32 n;

	for (n = 0; n < most && vm->taken_peers; n++) {
		struct shim_peer *peer = llist_entry(vm->taken_peers, struct shim_peer, touch);

		vm->taken_peers = vm->taken_peers->next;
		spin_lock(&peer->lock);
		peer->touched = false;
		spin_unlock(&peer->lock);
		if (peer->gone) {
			shim_call_rcu(&peer->rcu, peer_free);
			continue;
		}
		list_move_tail(&peer->node_busy, &vm->busy);
		vm->busy_next++;
	}
	return n;
}

/* Takes over all peers that packets touched until now, however many they are.  vm->lock. */
static void peers_drain_all(struct shim_vm *vm)
{
	shim_peers_drain(vm, U32_MAX);
	shim_peers_take(vm);
	shim_peers_drain(vm, U32_MAX);
}

void shim_peer_remove(struct shim_peer *peer)
{
	struct shim_vm *vm = peer->key.vm;
	struct shim_engine *engine = vm->engine;
	bool touched;

	shim_table_remove(&engine->peers, &peer->node, peer_table);
	spin_lock(&peer->lock);
	WRITE_ONCE(peer->gone, true);
	shim_peer_close(peer, shim_now_ns());
	touched = peer->touched;
	spin_unlock(&peer->lock);
	/* Whoever makes it the last one after this sees that it has gone. */
	smp_mb();
	if (rcu_access_pointer(vm->last_peer) == peer)
		RCU_INIT_POINTER(vm->last_peer, NULL);
	list_del(&peer->node_busy);
	list_del(&peer->rank_node);
	shim_vm_unanswered(vm, peer);
	vm->n_ranks[peer->rank]--;
	WRITE_ONCE(vm->n_peers, vm->n_peers - 1);
	/* No packet touches it from here on.  One that is listed as touched is freed from there. */
	if (!touched)
		shim_call_rcu(&peer->rcu, peer_free);
}

void shim_peers_remove(struct shim_vm *vm)
{
	struct shim_peer *peer, *next;
	int rank;

	for (rank = 0; rank < SHIM_PEER_RANKS; rank++)
		list_for_each_entry_safe(peer, next, &vm->ranks[rank], rank_node)
			shim_peer_remove(peer);
	peers_drain_all(vm);
}

/* Takes a peer that has a weight from its law; the next packet starts it anew.  vm->lock. */
static void peer_reset(struct shim_peer *peer, u64 now_ns)
{
	spin_lock(&peer->lock);
	shim_peer_recall(peer, now_ns);
	WRITE_ONCE(peer->clock, NULL);
	memset(&peer->state, 0, sizeof(peer->state) + shim_law_peer_size());
	shim_peer_apply(peer, now_ns);
	spin_unlock(&peer->lock);
}

void shim_peers_restart(struct shim_vm *vm, u64 now_ns)
{
	struct shim_peer *peer, *next;
	int rank;

	for (rank = 0; rank < SHIM_PEER_RANKS; rank++) {
		list_for_each_entry_safe(peer, next, &vm->ranks[rank], rank_node) {
			if (peer->weight)
				peer_reset(peer, now_ns);
			else
				shim_peer_remove(peer);
		}
	}
	peers_drain_all(vm);
}

/* Lets the law of the VM begin with a peer.  vm->lock. */
static void peer_start(struct shim_peer *peer, const struct shim_uplink *uplink, u64 now_ns)
{
	struct shim_vm *vm = peer->key.vm;
	struct shim_law_input input;
	const struct shim_law *law;

	if (!vm->clock || !(vm->mode.wants & SHIM_VM_PEERS) || !uplink)
		return;
	law = vm->clock->law;
	input = shim_peer_input(peer, shim_limiter_active(vm, uplink), uplink, now_ns);
	spin_lock(&peer->lock);
	peer->seen_ns = now_ns;
	WRITE_ONCE(peer->clock, vm->clock);
	memset(&peer->state, 0, sizeof(peer->state) + shim_law_peer_size());
	if (law->peer_init)
		law->peer_init(&peer->state, &input);
	shim_peer_apply(peer, now_ns);
	spin_unlock(&peer->lock);
	shim_clock_add(vm, false);
}

/* Tells whether a peer may make room.  vm->lock. */
static bool peer_gives_way(struct shim_peer *peer, u64 now_ns)
{
	if (peer->rank == SHIM_PEER_TALKING)
		return !READ_ONCE(peer->touched) && !READ_ONCE(peer->seen) &&
		       shim_sub_sat(now_ns, peer->seen_ns) >= SILENT_NS;
	if (!READ_ONCE(peer->used))
		return true;
	/* Not this time. */
	WRITE_ONCE(peer->used, false);
	return false;
}

/* Forgets a peer of a rank to make room; false if there is none that may go.  vm->lock. */
static bool peer_evict(struct shim_vm *vm, enum shim_peer_rank rank, u64 now_ns)
{
	struct shim_peer *peer = NULL;
	u32 n;

	for (n = 0; n < EVICT_LOOKS && !list_empty(&vm->ranks[rank]); n++) {
		peer = list_first_entry(&vm->ranks[rank], struct shim_peer, rank_node);
		/* It may have earned a better rank since its last visit. */
		if (peer_rank(peer) > rank)
			peer_set_rank(peer, peer_rank(peer));
		else if (peer_gives_way(peer, now_ns))
			goto found;
		else
			list_move_tail(&peer->rank_node, &vm->ranks[rank]);
	}
	if (rank == SHIM_PEER_TALKING || list_empty(&vm->ranks[rank]))
		return false;
	/* All were used: the first one goes. */
	peer = list_first_entry(&vm->ranks[rank], struct shim_peer, rank_node);
found:
	shim_peer_remove(peer);
	shim_vm_count(vm, SHIM_PEERS_EVICTED, 1);
	return true;
}

/* Makes room for a peer of a rank, if there is none; false if there is nobody to go.  vm->lock. */
static bool peer_make_room(struct shim_vm *vm, enum shim_peer_rank rank, u64 now_ns)
{
	u32 most = shim_engine_settings(vm->engine)->peers_max;
	u32 heard = max_t(u32, most / HEARD_DENOMINATOR, 1);
	u32 safe = most / SAFE_DENOMINATOR;
	int low;

	if (rank == SHIM_PEER_HEARD && vm->n_ranks[SHIM_PEER_HEARD] >= heard)
		return peer_evict(vm, SHIM_PEER_HEARD, now_ns);
	if (vm->n_peers < most)
		return true;
	for (low = SHIM_PEER_HEARD; low < SHIM_PEER_TALKING; low++)
		if (vm->n_ranks[low] > (low < SHIM_PEER_ANSWERED ? safe : 0) &&
		    peer_evict(vm, low, now_ns))
			return true;
	if (vm->n_ranks[rank] < safe && peer_evict(vm, SHIM_PEER_TALKING, now_ns))
		return true;
	return peer_evict(vm, SHIM_PEER_HEARD, now_ns) ||
	       (rank != SHIM_PEER_HEARD && peer_evict(vm, SHIM_PEER_ONCE, now_ns));
}

/* Returns a new peer without a law, NULL if there can be none.  vm->lock. */
static struct shim_peer *peer_create(const struct shim_peer_key *key, enum shim_peer_rank rank,
				     u64 now_ns)
{
	struct shim_vm *vm = key->vm;
	struct shim_peer *peer;

	if (!peer_make_room(vm, rank, now_ns)) {
		shim_vm_count(vm, SHIM_PEERS_FULL, 1);
		return NULL;
	}
	peer = shim_alloc_now(shim_peer_bytes());
	if (!peer)
		goto no_memory;
	peer->key = *key;
	peer->rank = rank;
	peer->began = rank == SHIM_PEER_HEARD;
	spin_lock_init(&peer->lock);
	shim_loans_init(&peer->loans, U32_MAX);
	if (shim_table_insert(&vm->engine->peers, &peer->node, peer_table)) {
		shim_free(peer);
		goto no_memory;
	}
	list_add_tail(&peer->node_busy, &vm->busy);
	list_add_tail(&peer->rank_node, &vm->ranks[rank]);
	vm->n_ranks[rank]++;
	WRITE_ONCE(vm->n_peers, vm->n_peers + 1);
	return peer;
no_memory:
	shim_vm_count(vm, SHIM_PEERS_NO_MEMORY, 1);
	return NULL;
}

/*
 * Returns true if a packet that a VM sends to a new peer would be dropped: by what nobody answers
 * shares, which a new peer begins with, or by the VM's own bucket.  vm->lock.
 */
static bool peer_drops_first(struct shim_vm *vm, struct shim_uplink *uplink, u32 bytes, u64 now_ns)
{
	if (vm->mode.wants & SHIM_LAW_PEERS &&
	    shim_gate_full(&vm->unanswered, bytes, vm->mode.horizon_ns, now_ns))
		return true;
	return shim_limiter_full(vm, uplink, bytes, now_ns);
}

/* As shim_peer_get() for a packet whose peer is not there, or has no law yet. */
static struct shim_peer *peer_get_slow(const struct shim_peer_key *key, struct shim_uplink *uplink,
				       u32 bytes, u64 now_ns)
{
	struct shim_vm *vm = key->vm;
	struct shim_peer *peer = NULL;

	spin_lock(&vm->lock);
	if (vm->gone || !(vm->mode.wants & SHIM_VM_PEERS))
		goto out;
	peer = shim_peer_find(vm->engine, key);
	if (!peer && bytes && peer_drops_first(vm, uplink, bytes, now_ns))
		goto out;
	if (!peer)
		peer = peer_create(key, bytes ? SHIM_PEER_ONCE : SHIM_PEER_HEARD, now_ns);
	if (peer && !peer->clock)
		peer_start(peer, uplink, now_ns);
out:
	spin_unlock(&vm->lock);
	return peer;
}

/*
 * Lets the next packet of a VM find a peer at once, if it is one that packets come to in a row; one
 * that they come to in turn is not worth a barrier.  RCU read lock.
 */
static void peer_remember(struct shim_vm *vm, struct shim_peer *peer)
{
	if (READ_ONCE(vm->found_peer) != peer) {
		WRITE_ONCE(vm->found_peer, peer);
		return;
	}
	rcu_assign_pointer(vm->last_peer, peer);
	/* Whoever lets it go after this sees that it is the last one. */
	smp_mb();
	if (READ_ONCE(peer->gone))
		RCU_INIT_POINTER(vm->last_peer, NULL);
}

struct shim_peer *shim_peer_get(struct shim_vm *vm, struct shim_uplink *uplink,
				const struct shim_address *remote, u32 bytes, u64 now_ns)
{
	struct shim_peer *peer = rcu_dereference(vm->last_peer);
	struct shim_peer_key key;

	if (peer && shim_address_equal(&peer->key.address, remote) && READ_ONCE(peer->clock))
		return peer;
	key = (struct shim_peer_key){ .vm = vm, .address = *remote };
	peer = shim_peer_find(vm->engine, &key);
	if (unlikely(!peer || !READ_ONCE(peer->clock)))
		return peer_get_slow(&key, uplink, bytes, now_ns);
	peer_remember(vm, peer);
	return peer;
}

bool shim_peer_weigh(struct shim_vm *vm, const struct shim_address *address, u32 weight)
{
	struct shim_peer_key key = { .vm = vm, .address = *address };
	struct shim_peer *peer = shim_peer_find(vm->engine, &key);

	if (!peer && !weight)
		return true;
	if (!peer)
		peer = peer_create(&key, SHIM_PEER_ONCE, shim_now_ns());
	if (!peer)
		return false;
	peer->weight = weight;
	peer_set_rank(peer, peer_rank(peer));
	if (!weight && !peer->clock)
		shim_peer_remove(peer);
	return true;
}

/* Tells whether a law has nothing to do for a peer until the next packet.  peer->lock, vm->lock. */
static bool peer_rests(const struct shim_peer *peer, const struct shim_law *law,
		       const struct shim_law_input *input)
{
	if (law->peer_rests)
		return law->peer_rests(&peer->state, input);
	return shim_sub_sat(input->now_ns, peer->seen_ns) >=
	       shim_engine_settings(peer->key.vm->engine)->inactive_ns;
}

/*
 * Tells whether a peer whose packets came is owed an empty report, having got neither one nor a
 * packet for HELLO_NS; of a new one that is soon.  peer->lock, vm->lock.
 */
static bool peer_owes_hello(struct shim_peer *peer, u64 now_ns)
{
	u32 packets = (u32)peer->tx_packets;

	if (!peer->spoken_ns)
		peer->spoken_ns = shim_stamp(shim_sub_sat(now_ns, HELLO_NS - HELLO_FIRST_NS));
	if (packets != peer->spoken_packets) {
		peer->spoken_packets = packets;
		peer->spoken_ns = shim_stamp(now_ns);
	}
	return peer->heard && peer->clock->law->on_report &&
	       shim_sub_sat(now_ns, peer->spoken_ns) >= HELLO_NS;
}

/*
 * Lets the law take a peer's step, and the report leave that is due then, or an empty one.
 * peer->lock, vm->lock, RCU read lock.
 */
static void peer_step(struct shim_peer *peer, struct shim_limiter *limiter,
		      const struct shim_uplink *uplink, const struct shim_law_input *input,
		      struct shim_reports *reports)
{
	const struct shim_law *law = peer->clock->law;
	struct shim_message report = {};
	struct shim_vm *vm = peer->key.vm;
	bool may, due;

	may = shim_peer_may_report(peer, uplink, input);
	due = law->on_peer_period(&peer->state, limiter ? &limiter->state : NULL, input,
				  may ? &report : NULL);
	vm->reports_next[peer->rank != SHIM_PEER_HEARD] += due;
	if (due && !may)
		shim_vm_count(vm, SHIM_REPORTS_DEFERRED, 1);
	if (may && (due || peer_owes_hello(peer, input->now_ns))) {
		shim_peer_send_report(peer, limiter, input, &report, reports);
		peer->spoken_ns = shim_stamp(input->now_ns);
	}
	peer->heard = false;
	shim_peer_apply(peer, input->now_ns);
	shim_peer_await(peer, input->now_ns);
}

/* Lets the law take a peer's step; true if the peer rests now.  vm->lock, RCU read lock. */
static bool peer_visit(struct shim_peer *peer, u64 now_ns, struct shim_reports *reports)
{
	const struct shim_uplink *found = READ_ONCE(peer->out);
	struct shim_vm *vm = peer->key.vm;
	const struct shim_law *law = vm->clock->law;
	struct shim_limiter *limiter;
	struct shim_law_input input;
	struct shim_uplink *uplink;
	bool rests = true;

	uplink = shim_uplink_find(vm->engine, found ? found : READ_ONCE(peer->in));
	spin_lock(&peer->lock);
	/* What is lent is lent for a period. */
	shim_peer_recall(peer, now_ns);
	if (peer->seen)
		peer->seen_ns = now_ns;
	peer->seen = false;
	peer->learned = false;
	if (!uplink || peer->clock != vm->clock || !law->on_peer_period)
		goto out;
	limiter = shim_limiter_active(vm, uplink);
	input = shim_peer_input(peer, limiter, uplink, now_ns);
	peer_step(peer, limiter, uplink, &input, reports);
	rests = peer_rests(peer, law, &input);
out:
	spin_unlock(&peer->lock);
	peer_set_rank(peer, peer_rank(peer));
	return rests;
}

void shim_peers_begin(struct shim_vm *vm)
{
	vm->busy_peers = vm->busy_next;
	vm->busy_next = 0;
	memcpy(vm->reports_due, vm->reports_next, sizeof(vm->reports_due));
	memset(vm->reports_next, 0, sizeof(vm->reports_next));
	list_splice_tail_init(&vm->busy, &vm->pending);
}

u32 shim_peers_visit(struct shim_vm *vm, u64 now_ns, u32 most, struct shim_reports *reports)
{
	struct shim_peer *peer;
	u32 n = 0;

	while (n < most && !list_empty(&vm->pending)) {
		peer = list_first_entry(&vm->pending, struct shim_peer, node_busy);
		if (peer_visit(peer, now_ns, reports))
			list_move_tail(&peer->node_busy, &vm->parked);
		else
			list_move_tail(&peer->node_busy, &vm->busy);
		n++;
	}
	return n;
}

u32 shim_peers_collect(struct shim_vm *vm, u64 now_ns, u32 most)
{
	u64 idle_ns = shim_engine_settings(vm->engine)->peer_idle_ns;
	struct shim_peer *peer;
	u32 n;

	for (n = 0; n < most && !list_empty(&vm->parked); n++) {
		peer = list_first_entry(&vm->parked, struct shim_peer, node_busy);
		/* One that packets touched since is to be visited, not forgotten. */
		if (READ_ONCE(peer->touched)) {
			list_move_tail(&peer->node_busy, &vm->busy);
			continue;
		}
		if (shim_sub_sat(now_ns, peer->seen_ns) < idle_ns)
			break;
		if (!peer->weight) {
			shim_vm_count(vm, SHIM_PEERS_COLLECTED, 1);
			shim_peer_remove(peer);
			continue;
		}
		if (peer->clock) {
			shim_vm_count(vm, SHIM_PEERS_COLLECTED, 1);
			peer_reset(peer, now_ns);
		}
		list_move_tail(&peer->node_busy, &vm->parked);
	}
	return n;
}

void shim_peers_moved(struct shim_vm *vm, u64 since_ns,
		      bool (*tell)(struct shim_peer *peer, void *context), void *context)
{
	struct shim_peer *peer;

	peers_drain_all(vm);
	list_for_each_entry(peer, &vm->busy, node_busy)
		if (!tell(peer, context))
			return;
	list_for_each_entry(peer, &vm->pending, node_busy)
		if (!tell(peer, context))
			return;
	list_for_each_entry_reverse(peer, &vm->parked, node_busy) {
		/* Those with a weight are parked anew without having had a packet. */
		if (peer->seen_ns < since_ns && !peer->weight)
			return;
		if (peer->seen_ns >= since_ns && !tell(peer, context))
			return;
	}
}
