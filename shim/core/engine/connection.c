// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * TCP connections of VMs, for laws with SHIM_LAW_FLOWS.
 *
 * A connection is made by a SYN either way, or by the first data that a VM sends on one which was
 * there before the shim.  A VM has at most CONNECTIONS_MAX.  When it has, the oldest one whose
 * handshake is not over makes room, else the oldest that is closed; those that are open stay, and
 * segments of further ones pass untouched and are counted.  So a flood of SYNs, from wherever,
 * costs no connection that is in use.  One is forgotten after a silence: a short one while its
 * handshake is not over, and after a FIN or RST; an hour otherwise.  One that speaks again after
 * that is a connection which was there before.
 *
 * Packets find connections under RCU and work on them under connection->lock; vm->lock makes, frees
 * and lists them.  A connection names the clock, and so the law, whose state it holds.
 *
 * Connections are visited while they are live: those that packets touched since the last visit, and
 * those seen in the last SHIM_FLOW_LIVE_NS.  The lists by rank are in the order of the last look at
 * each: a look at the first finds it silent, and then it goes, or else puts it last.
 */
#include "../arith.h"
#include "engine.h"

/* Most connections of a VM. */
#define CONNECTIONS_MAX 16384U

/* A VM's connections take their steps no more often than this, times their number: 5% of a CPU. */
#define STEP_NS 3000ULL

/* Connections of a rank looked at in one visit, to be forgotten if they have been silent. */
#define COLLECT_MOST 32

/* A VM's connections are looked at so no more often than this, ns: 2^26. */
#define COLLECT_NS 0x4000000ULL

/* Connections of a rank looked at to find one that makes room. */
#define EVICT_LOOKS 16

/* Silence after which a connection is forgotten, by its rank. */
static const u64 silence_ns[SHIM_CONNECTION_RANKS] = {
	[SHIM_CONNECTION_OPENING] = 10 * SHIM_NSEC_PER_SEC,
	[SHIM_CONNECTION_CLOSED] = 5 * SHIM_NSEC_PER_SEC,
	[SHIM_CONNECTION_OPEN] = 3600 * SHIM_NSEC_PER_SEC,
};

/* The table of an engine. */
static const struct shim_table_params connection_table = {
	.head_offset = offsetof(struct shim_connection, node),
	.key_offset = offsetof(struct shim_connection, key),
	.key_len = sizeof(struct shim_connection_key),
	.automatic_shrinking = true,
};

size_t shim_connection_bytes(void)
{
	return sizeof(struct shim_connection) + shim_law_flow_size();
}

int shim_connections_init(struct shim_engine *engine)
{
	return shim_table_init(&engine->connections, &connection_table);
}

void shim_connections_exit(struct shim_engine *engine)
{
	WARN_ON_ONCE(shim_table_count(&engine->connections));
	shim_table_exit(&engine->connections);
}

/* Returns the rank that a connection has by what was seen of it.  connection->lock. */
static enum shim_connection_rank connection_rank(const struct shim_connection *connection)
{
	if (connection->state.closed)
		return SHIM_CONNECTION_CLOSED;
	return connection->state.open ? SHIM_CONNECTION_OPEN : SHIM_CONNECTION_OPENING;
}

void shim_connections_take(struct shim_vm *vm)
{
	if (!vm->taken_connections)
		vm->taken_connections = llist_del_all(&vm->touched_connections);
}

u32 shim_connections_drain(struct shim_vm *vm, u32 most)
{
	u32 n;

	for (n = 0; n < most && vm->taken_connections; n++) {
		struct shim_connection *connection =
			llist_entry(vm->taken_connections, struct shim_connection, touch);

		vm->taken_connections = vm->taken_connections->next;
		spin_lock(&connection->lock);
		connection->touched = false;
		spin_unlock(&connection->lock);
		if (connection->gone)
			shim_free_rcu(connection, rcu);
		else
			list_move_tail(&connection->node_busy, &vm->busy_connections);
	}
	return n;
}

/* Notes that a connection has had a segment; true: its VM must be woken.  connection->lock. */
static bool connection_touch(struct shim_connection *connection)
{
	if (connection->touched || connection->gone)
		return false;
	connection->touched = true;
	return llist_add(&connection->touch, &connection->key.vm->touched_connections);
}

/* Forgets a connection.  vm->lock. */
static void connection_remove(struct shim_connection *connection)
{
	struct shim_vm *vm = connection->key.vm;
	bool touched;

	shim_table_remove(&vm->engine->connections, &connection->node, connection_table);
	spin_lock(&connection->lock);
	connection->gone = true;
	touched = connection->touched;
	spin_unlock(&connection->lock);
	list_del(&connection->node_busy);
	list_del(&connection->rank_node);
	WRITE_ONCE(vm->n_connections, vm->n_connections - 1);
	/* No segment touches it from here on.  One listed as touched is freed from there. */
	if (!touched)
		shim_free_rcu(connection, rcu);
}

void shim_connections_remove(struct shim_vm *vm)
{
	struct shim_connection *connection, *next;
	int rank;

	for (rank = 0; rank < SHIM_CONNECTION_RANKS; rank++)
		list_for_each_entry_safe(connection, next, &vm->connections[rank], rank_node)
			connection_remove(connection);
	shim_connections_drain(vm, U32_MAX);
	shim_connections_take(vm);
	shim_connections_drain(vm, U32_MAX);
}

/* Puts a connection where it belongs by what was seen of it since.  vm->lock. */
static void connection_set_rank(struct shim_connection *connection)
{
	spin_lock(&connection->lock);
	connection->rank = connection_rank(connection);
	spin_unlock(&connection->lock);
	list_move_tail(&connection->rank_node,
		       &connection->key.vm->connections[connection->rank]);
}

/* Forgets one of the first connections of a rank to make room; false if none may go.  vm->lock. */
static bool connection_evict(struct shim_vm *vm, enum shim_connection_rank rank)
{
	struct shim_connection *connection, *next;
	u32 n = 0;

	list_for_each_entry_safe(connection, next, &vm->connections[rank], rank_node) {
		if (n++ == EVICT_LOOKS)
			break;
		if (connection_rank(connection) != rank) {
			connection_set_rank(connection);
			continue;
		}
		connection_remove(connection);
		shim_vm_count(vm, SHIM_FLOWS_EVICTED, 1);
		return true;
	}
	return false;
}

/* Returns a new connection; NULL if there can be none, and counted.  vm->lock. */
static struct shim_connection *connection_create(const struct shim_connection_key *key, u64 now_ns)
{
	struct shim_connection *connection;
	struct shim_vm *vm = key->vm;

	if (vm->n_connections >= CONNECTIONS_MAX &&
	    !connection_evict(vm, SHIM_CONNECTION_OPENING) &&
	    !connection_evict(vm, SHIM_CONNECTION_CLOSED)) {
		shim_vm_count(vm, SHIM_FLOWS_FULL, 1);
		return NULL;
	}
	connection = shim_alloc_now(shim_connection_bytes());
	if (!connection)
		goto no_memory;
	connection->key = *key;
	connection->clock = vm->clock;
	connection->seen_ns = now_ns;
	spin_lock_init(&connection->lock);
	shim_flow_init(&connection->state, key->port_vm, key->port_peer);
	if (shim_table_insert(&vm->engine->connections, &connection->node, connection_table)) {
		shim_free(connection);
		goto no_memory;
	}
	list_add_tail(&connection->node_busy, &vm->busy_connections);
	list_add_tail(&connection->rank_node, &vm->connections[SHIM_CONNECTION_OPENING]);
	WRITE_ONCE(vm->n_connections, vm->n_connections + 1);
	shim_clock_add(vm, false);
	return connection;
no_memory:
	shim_vm_count(vm, SHIM_FLOWS_NO_MEMORY, 1);
	return NULL;
}

/* Returns the connection of that key, NULL if there is none.  RCU read lock. */
static struct shim_connection *connection_find(const struct shim_connection_key *key)
{
	return shim_table_find(&key->vm->engine->connections, key, connection_table);
}

/*
 * Returns the connection of that key, made if need be; NULL if there can be none, or if the VM's
 * bucket on uplink `out` would drop a packet of so many bytes; NULL: it was received.
 */
static struct shim_connection *connection_make(const struct shim_connection_key *key,
					       const struct shim_uplink *out, u32 bytes, u64 now_ns)
{
	struct shim_connection *connection = NULL;
	struct shim_vm *vm = key->vm;

	spin_lock(&vm->lock);
	/* The VM may have gone, or got another law, since the packet looked. */
	if (!vm->gone && vm->clock && vm->mode.wants & SHIM_LAW_FLOWS) {
		connection = connection_find(key);
		if (!connection && !(out && shim_limiter_full(vm, out, bytes, now_ns)))
			connection = connection_create(key, now_ns);
	}
	spin_unlock(&vm->lock);
	return connection;
}

/* Puts what the law wrote to a segment into the action. */
static void connection_act(const struct shim_segment *segment, struct shim_action *action)
{
	action->ecn = segment->ecn;
	action->tcp_flags = segment->flags;
	action->tcp_window = segment->window;
}

void shim_connection_sent(struct shim_limiter *limiter, struct shim_peer *peer,
			  const struct shim_settings *settings, const struct shim_packet *packet,
			  struct shim_action *action)
{
	struct shim_vm *vm = limiter->vm;
	struct shim_connection_key key = {
		.vm = vm,
		.local = packet->source,
		.remote = packet->destination,
		.port_vm = packet->port_source,
		.port_peer = packet->port_destination,
	};
	struct shim_segment segment = packet->segment;
	struct shim_connection *connection = connection_find(&key);
	bool wake;

	if (!connection && !(segment.flags & SHIM_TCP_RST) &&
	    (segment.payload || segment.flags & SHIM_TCP_SYN))
		connection = connection_make(&key, limiter->out, packet->bytes, packet->now_ns);
	if (!connection)
		return;
	segment.now_ns = packet->now_ns;
	segment.ecn = action->ecn;
	segment.knobs = settings->laws[connection->clock->index].knobs;
	spin_lock(&connection->lock);
	wake = connection_touch(connection);
	WRITE_ONCE(connection->seen_ns, packet->now_ns);
	connection->out = limiter->out;
	/* Needed once a round trip: of the packet that will be timed. */
	if (segment.payload && !connection->state.timed_ns && READ_ONCE(vm->mode.horizon_ns)) {
		segment.wait_ns = shim_limiter_wait(limiter, packet->now_ns);
		if (peer)
			segment.wait_ns = max(segment.wait_ns,
					      shim_peer_wait(peer, packet->now_ns));
	}
	connection->clock->law->on_segment_out(&connection->state, &segment);
	spin_unlock(&connection->lock);
	connection_act(&segment, action);
	if (unlikely(wake))
		shim_vm_wake(vm);
}

enum shim_flow_ecn shim_connection_received(struct shim_vm *vm,
					    const struct shim_settings *settings,
					    const struct shim_packet *packet,
					    struct shim_action *action)
{
	struct shim_connection_key key = {
		.vm = vm,
		.local = packet->destination,
		.remote = packet->source,
		.port_vm = packet->port_destination,
		.port_peer = packet->port_source,
	};
	struct shim_segment segment = packet->segment;
	struct shim_connection *connection = connection_find(&key);
	u16 opens = SHIM_TCP_SYN | SHIM_TCP_ACK | SHIM_TCP_RST | SHIM_TCP_FIN;
	enum shim_flow_ecn ecn;
	bool wake;

	if (!connection && (segment.flags & opens) == SHIM_TCP_SYN)
		connection = connection_make(&key, NULL, 0, packet->now_ns);
	if (!connection)
		return SHIM_FLOW_UNKNOWN;
	segment.now_ns = packet->now_ns;
	segment.ecn = action->ecn;
	segment.knobs = settings->laws[connection->clock->index].knobs;
	spin_lock(&connection->lock);
	wake = connection_touch(connection);
	WRITE_ONCE(connection->seen_ns, packet->now_ns);
	connection->clock->law->on_segment_in(&connection->state, &segment);
	ecn = connection->state.ecn;
	spin_unlock(&connection->lock);
	connection_act(&segment, action);
	if (unlikely(wake))
		shim_vm_wake(vm);
	return ecn;
}

/* Lets the law take a connection's step, with its peer's state if it has one.  connection->lock. */
static void connection_step(struct shim_connection *connection, u64 now_ns)
{
	struct shim_peer_key key = {
		.vm = connection->key.vm,
		.address = connection->key.remote,
	};
	const struct shim_law *law = connection->clock->law;
	struct shim_limiter *limiter = NULL;
	struct shim_peer *peer = NULL;
	struct shim_law_input input;

	if (connection->out)
		limiter = shim_limiter_active(key.vm, connection->out);
	if (!limiter)
		return;
	input = shim_limiter_input(key.vm, limiter, limiter->uplink, now_ns);
	if (law->wants & SHIM_LAW_PEERS)
		peer = shim_peer_find(key.vm->engine, &key);
	if (!peer || peer->clock != connection->clock) {
		law->on_flow_period(&connection->state, NULL, &limiter->state, &input);
		return;
	}
	spin_lock(&peer->lock);
	law->on_flow_period(&connection->state, &peer->state, &limiter->state, &input);
	spin_unlock(&peer->lock);
}

/* Visits a connection that was touched or is live.  vm->lock, RCU read lock. */
static void connection_visit(struct shim_connection *connection, u64 now_ns)
{
	bool live, moved;

	spin_lock(&connection->lock);
	connection_step(connection, now_ns);
	live = shim_sub_sat(now_ns, connection->seen_ns) < SHIM_FLOW_LIVE_NS;
	moved = connection_rank(connection) != connection->rank;
	spin_unlock(&connection->lock);
	if (moved)
		connection_set_rank(connection);
	if (!live)
		list_del_init(&connection->node_busy);
}

/*
 * Looks at the first few connections of a rank, `most` at most, and forgets those silent for long;
 * returns how many it was.  vm->lock.
 */
static u32 connections_collect(struct shim_vm *vm, enum shim_connection_rank rank, u64 now_ns,
			       u32 most)
{
	struct shim_connection *connection, *next;
	u32 n = 0;

	list_for_each_entry_safe(connection, next, &vm->connections[rank], rank_node) {
		if (n == most)
			break;
		n++;
		if (shim_sub_sat(now_ns, READ_ONCE(connection->seen_ns)) > silence_ns[rank]) {
			shim_vm_count(vm, SHIM_FLOWS_COLLECTED, 1);
			connection_remove(connection);
			continue;
		}
		connection_set_rank(connection);
	}
	return n;
}

u32 shim_connections_collect(struct shim_vm *vm, u64 now_ns, u32 most)
{
	u32 n = 0, looks, found;

	if (!vm->n_connections) {
		vm->collect_left = 0;
		return 0;
	}
	if (!vm->collect_left) {
		if (shim_sub_sat(now_ns, vm->collected_ns) < COLLECT_NS)
			return 0;
		vm->collected_ns = now_ns;
		vm->collect_left = SHIM_CONNECTION_RANKS * COLLECT_MOST;
	}
	while (vm->collect_left && n < most) {
		looks = (vm->collect_left - 1) % COLLECT_MOST + 1;
		found = connections_collect(vm, (vm->collect_left - 1) / COLLECT_MOST, now_ns,
					    min(looks, most - n));
		n += found;
		/* A rank that has no more of them is done with. */
		vm->collect_left -= found && n == most ? found : looks;
	}
	return n;
}

void shim_connections_begin(struct shim_vm *vm, u64 now_ns)
{
	u64 period_ns = shim_engine_settings(vm->engine)->laws[vm->clock->index].period_ns;

	if (!vm->n_connections || now_ns + period_ns / 2 < vm->connections_ns)
		return;
	vm->connections_ns = now_ns;
	list_splice_tail_init(&vm->busy_connections, &vm->pending_connections);
}

u32 shim_connections_visit(struct shim_vm *vm, u64 now_ns, u32 most)
{
	struct shim_connection *connection;
	u32 n;

	for (n = 0; n < most && !list_empty(&vm->pending_connections); n++) {
		connection = list_first_entry(&vm->pending_connections, struct shim_connection,
					      node_busy);
		list_move_tail(&connection->node_busy, &vm->busy_connections);
		connection_visit(connection, now_ns);
	}
	vm->connections_ns += n * STEP_NS;
	return n;
}
