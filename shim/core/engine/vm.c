// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * VMs: their life, what is put in force for them, and what a tick does for one.
 *
 * A visit, in this order: take over the peers and connections that packets touched, measure what
 * the VM sent and received since the last one, stop what is idle, let the law take the step of each
 * limiter and path, then of each peer that had packets or has not come to rest, put the limiters'
 * rates in force, and last let it take the step of connections.
 *
 * A visit may be left after the step of any peer or connection, and goes on from there in a later
 * tick.  The VM's own step, from measuring to paths, is then taken first, in each tick that goes
 * on: what other VMs get depends on what this one uses and wants, and must not wait for its peers.
 *
 * Where a law meters what VMs receive, all VMs of the engine take part of what an uplink brings,
 * whatever law they are under; each is measured in its own visits.  A VM counts at one uplink at a
 * time, the one it receives by, and changes to another no more than once a T_o, so that a bond of
 * two costs packets nothing.
 */
#include "../arith.h"
#include "engine.h"

/* Peers looked at in a visit, to be forgotten if they have been silent. */
#define COLLECT_MOST 8

/* What nobody answers may have this part of what the VM may send, or of its tightest grant. */
#define UNANSWERED_DENOMINATOR 8

/* And no less than that, bytes/s: eight full packets a second, or a hundred SYNs. */
#define UNANSWERED_MIN 12500

/* Rates of gates that differ by less than this part, as a shift, are not worth a change. */
#define SAME_SHIFT 4

/* Makes the table of an engine's senders of reports, if it has none; false without memory. */
static bool vm_start_reporters(struct shim_engine *engine)
{
	if (!engine->reporters)
		engine->reporters = shim_alloc_wait(sizeof(*engine->reporters));
	return engine->reporters;
}

struct shim_vm *shim_vm_create(struct shim_engine *engine, void *port)
{
	struct shim_uplink *uplink;
	struct shim_vm *vm;
	int i;

	list_for_each_entry(uplink, &engine->uplinks, node)
		if (!shim_uplink_reserve(uplink, engine->n_vms + 1))
			return NULL;
	if (!vm_start_reporters(engine))
		return NULL;
	vm = shim_alloc_wait(sizeof(*vm));
	if (!vm)
		return NULL;
	vm->engine = engine;
	vm->port = port;
	vm->config = (struct shim_vm_config){ .weight = 1, .law = SHIM_LAW_NONE };
	spin_lock_init(&vm->lock);
	shim_frame_size_init(&vm->rx_frame);
	shim_gate_init(&vm->shared, SHIM_DROP_SHARED);
	shim_gate_init(&vm->unanswered, SHIM_DROP_UNANSWERED);
	INIT_LIST_HEAD(&vm->paths);
	shim_sources_init(&vm->sources);
	INIT_LIST_HEAD(&vm->tick_node);
	INIT_LIST_HEAD(&vm->rx_node);
	spin_lock_init(&vm->receipts.lock);
	shim_loans_init(&vm->receipts.loans, U32_MAX);
	init_llist_head(&vm->touched_peers);
	INIT_LIST_HEAD(&vm->busy);
	INIT_LIST_HEAD(&vm->pending);
	INIT_LIST_HEAD(&vm->parked);
	for (i = 0; i < SHIM_PEER_RANKS; i++)
		INIT_LIST_HEAD(&vm->ranks[i]);
	init_llist_head(&vm->touched_connections);
	INIT_LIST_HEAD(&vm->busy_connections);
	INIT_LIST_HEAD(&vm->pending_connections);
	for (i = 0; i < SHIM_CONNECTION_RANKS; i++)
		INIT_LIST_HEAD(&vm->connections[i]);
	spin_lock_bh(&engine->numbers_lock);
	memcpy(vm->before, engine->replay.marks, sizeof(vm->before));
	spin_unlock_bh(&engine->numbers_lock);
	list_add_tail_rcu(&vm->node, &engine->vms);
	engine->n_vms++;
	WRITE_ONCE(engine->generation, engine->generation + 1);
	return vm;
}

/* Ends all leases of a VM, for what it sends and receives.  vm->lock. */
static void vm_recall(struct shim_vm *vm)
{
	struct shim_limiter *limiter;

	shim_receipts_recall(vm, false);
	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		shim_limiter_recall(limiter);
}

/* Takes a VM from its law, and all that the law has of it.  vm->lock. */
static void vm_unrule(struct shim_vm *vm)
{
	shim_clock_remove(vm);
	vm->stage = SHIM_VM_BEGIN;
	vm->passed = false;
	shim_uplink_leave_rx(vm);
	shim_paths_remove(vm);
	shim_connections_remove(vm);
	shim_ecn_exit(vm);
}

void shim_vm_remove(struct shim_vm *vm)
{
	struct shim_engine *engine = vm->engine;
	struct shim_vm_config none = { .weight = vm->config.weight, .law = SHIM_LAW_NONE };

	/* Without a law, and so not counted among those that have one. */
	shim_vm_configure(vm, &none);
	list_del_rcu(&vm->node);
	engine->n_vms--;
	WRITE_ONCE(engine->generation, engine->generation + 1);
	spin_lock_bh(&vm->lock);
	vm->gone = true;
	shim_receipts_recall(vm, true);
	while (rcu_access_pointer(vm->limiters))
		shim_limiter_remove(&vm->limiters);
	shim_peers_remove(vm);
	shim_connections_remove(vm);
	spin_unlock_bh(&vm->lock);
	shim_sources_exit(vm);
	shim_free_rcu(vm, rcu);
}

/* Changes a VM's weight where it is active.  vm->lock. */
static void vm_reweigh(struct shim_vm *vm, u32 weight)
{
	struct shim_limiter *limiter;

	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock))) {
		struct shim_uplink *uplink = limiter->uplink;

		if (!limiter->active)
			continue;
		spin_lock(&uplink->lock);
		WRITE_ONCE(uplink->active_weight,
			   uplink->active_weight - vm->config.weight + weight);
		WRITE_ONCE(uplink->divide, true);
		spin_unlock(&uplink->lock);
	}
	if (vm->rx_uplink)
		WRITE_ONCE(vm->rx_uplink->divide_rx, true);
	WRITE_ONCE(vm->config.weight, weight);
}

void shim_vm_configure(struct shim_vm *vm, const struct shim_vm_config *config)
{
	struct shim_engine *engine = vm->engine;
	struct shim_uplink *uplink;
	u64 now_ns = shim_now_ns();

	engine->guaranteed = engine->guaranteed - vm->config.min + config->min;
	spin_lock_bh(&vm->lock);
	vm_reweigh(vm, config->weight);
	WRITE_ONCE(vm->config.min, config->min);
	WRITE_ONCE(vm->config.max, config->max);
	shim_ceiling_divide(vm, NULL, now_ns);
	vm->config.law = config->law;
	spin_unlock_bh(&vm->lock);
	/* What others get follows with the next tick; this VM's own follows at once. */
	list_for_each_entry(uplink, &engine->uplinks, node) {
		local_bh_disable();
		shim_uplink_divide(uplink, now_ns);
		local_bh_enable();
	}
	shim_vm_settle(vm, shim_engine_settings(engine), now_ns);
}

/* Returns what packets of a VM are read for: as shim_mode.wants.  vm->lock. */
static u8 vm_wants(const struct shim_vm *vm, const struct shim_settings *settings)
{
	const struct shim_clock *clock = vm->clock;

	if (!clock)
		return 0;
	return shim_law_wants(clock->law, settings->laws[clock->index].knobs) |
	       (settings->conversations ? SHIM_VM_CONVERSATIONS : 0) |
	       (rcu_access_pointer(vm->path_index) ? SHIM_VM_PATHS : 0);
}

/* Copies what packets need of the settings.  vm->lock. */
static void vm_set_mode(struct shim_vm *vm, const struct shim_settings *settings)
{
	bool pace = settings->limiter == SHIM_LIMITER_PACE;

	WRITE_ONCE(vm->mode.horizon_ns, pace ? settings->horizon_ns : 0);
	WRITE_ONCE(vm->mode.burst_us, settings->burst_us);
	WRITE_ONCE(vm->mode.depth, settings->burst_bytes);
	WRITE_ONCE(vm->mode.waiting_max, settings->waiting_max);
	WRITE_ONCE(vm->mode.protocol, settings->protocol);
	WRITE_ONCE(vm->mode.codepoint, settings->codepoint);
	WRITE_ONCE(vm->mode.ecn, settings->ecn);
	WRITE_ONCE(vm->mode.ahead, pace && settings->ahead);
	WRITE_ONCE(vm->mode.wants, vm_wants(vm, settings));
	WRITE_ONCE(vm->mode.ruled, !!vm->clock);
}

/* Puts a VM under the law it should have; true if that is another one.  vm->lock. */
static bool vm_set_law(struct shim_vm *vm, const struct shim_settings *settings)
{
	int law = vm->config.law == SHIM_LAW_DEFAULT ? settings->law : vm->config.law;
	struct shim_engine *engine = vm->engine;
	struct shim_clock *clock = law == SHIM_LAW_NONE ? NULL : &engine->clocks[law];

	if (vm->clock == clock)
		return false;
	if (vm->clock) {
		vm_unrule(vm);
		WRITE_ONCE(engine->metered, engine->metered -
			   !!(vm->clock->law->wants & SHIM_LAW_RECEIVER));
	}
	/* At once: between two laws nobody is without one. */
	WRITE_ONCE(engine->n_ruled, engine->n_ruled - !!vm->clock + !!clock);
	vm->clock = clock;
	if (clock)
		WRITE_ONCE(engine->metered, engine->metered +
			   !!(clock->law->wants & SHIM_LAW_RECEIVER));
	return true;
}

/* Lets the law of a VM take a step, or begin, at each of its active limiters.  vm->lock. */
static void vm_step_limiters(struct shim_vm *vm, bool new_law, u64 now_ns)
{
	struct shim_limiter *limiter;

	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock))) {
		if (!limiter->active)
			continue;
		if (!vm->clock)
			shim_limiter_stop(limiter);
		else if (new_law)
			shim_limiter_restart(limiter, now_ns);
		else
			shim_limiter_period(limiter, now_ns);
		if (vm->clock)
			shim_clock_add(vm, false);
	}
	vm->passed = false;
}

/* Lets inactive limiters begin anew with the next packet: their rates are of before.  vm->lock. */
static void vm_outdate_limiters(struct shim_vm *vm)
{
	struct shim_limiter *limiter;

	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		if (!limiter->active)
			limiter->outdated = true;
}

/* Sets the rate of a gate, bytes/s, unless it is about the same.  vm->lock. */
static void vm_set_gate(struct shim_vm *vm, struct shim_gate *gate, u64 rate, u64 now_ns)
{
	u64 before = gate->rate.bytes_per_s;
	u64 change = max(rate, before) - min(rate, before);

	if (change > before >> SAME_SHIFT ||
	    gate->rate.burst_bytes != shim_mode_depth(&vm->mode, before) ||
	    gate->whole_bytes != shim_mode_whole(&vm->mode, before))
		shim_gate_set(gate, rate, &vm->mode, now_ns);
}

/* Sets the rates of the gates of a VM, by what it may send and by its grants.  vm->lock. */
static void vm_bound(struct shim_vm *vm, u64 now_ns)
{
	u64 share = 0, rate = 0, least = shim_vm_tightest(vm, now_ns);
	struct shim_limiter *limiter;

	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock))) {
		if (!limiter->active)
			continue;
		share = max(share, READ_ONCE(limiter->share));
		rate = max(rate, min(limiter->share, limiter->rate.bytes_per_s));
	}
	share = shim_div(share, max_t(u32, vm->n_peers, SHIM_SHARED_MIN));
	share = max(share, vm->config.min);
	rate = shim_div(min(rate, least), UNANSWERED_DENOMINATOR);
	if (least == U64_MAX)
		rate = max(rate, vm->config.min);
	else
		share = min(share, least);
	vm_set_gate(vm, &vm->shared, max_t(u64, share, UNANSWERED_MIN), now_ns);
	vm_set_gate(vm, &vm->unanswered, max_t(u64, rate, UNANSWERED_MIN), now_ns);
}

void shim_vm_settle(struct shim_vm *vm, const struct shim_settings *settings, u64 now_ns)
{
	bool new_law;

	rcu_read_lock();
	spin_lock_bh(&vm->lock);
	new_law = vm_set_law(vm, settings);
	vm_set_mode(vm, settings);
	vm_recall(vm);
	vm_step_limiters(vm, new_law, now_ns);
	shim_paths_step(vm, now_ns, 0);
	vm_outdate_limiters(vm);
	/* Peers that nothing wants any more would be found with old numbers later. */
	if (new_law || !(vm->mode.wants & SHIM_VM_PEERS))
		shim_peers_restart(vm, now_ns);
	/* A connection that is not followed any more would be found with old numbers later. */
	if (!(vm->mode.wants & SHIM_LAW_FLOWS))
		shim_connections_remove(vm);
	if (vm->clock)
		vm_bound(vm, now_ns);
	spin_unlock_bh(&vm->lock);
	rcu_read_unlock();
}

struct shim_limiter *shim_vm_start_limiter(struct shim_vm *vm, struct shim_uplink *uplink,
					   u32 bytes, u64 now_ns, enum shim_counter *drop)
{
	struct shim_limiter *limiter;
	bool starts;

	spin_lock(&vm->lock);
	limiter = shim_limiter_get(vm, uplink, bytes, now_ns, &starts, drop);
	if (starts) {
		shim_ceiling_divide(vm, limiter, now_ns);
		if (!shim_limiter_start(limiter, now_ns))
			limiter = NULL;
		else if (vm->mode.wants & SHIM_LAW_PEERS)
			vm_bound(vm, now_ns);
	}
	spin_unlock(&vm->lock);
	return limiter;
}

void shim_vm_receives(struct shim_vm *vm, struct shim_uplink *uplink, u64 now_ns)
{
	enum shim_counter drop;

	/* A law that meters has a limiter for a VM that only receives, too. */
	if (READ_ONCE(vm->mode.wants) & SHIM_LAW_RECEIVER &&
	    !shim_vm_start_limiter(vm, uplink, SHIM_LIMITER_WAKE, now_ns, &drop))
		return;
	spin_lock(&vm->lock);
	if (vm->gone || !vm->clock || vm->rx_uplink == uplink)
		goto out;
	if (vm->rx_uplink)
		shim_uplink_leave_rx(vm);
	spin_lock(&uplink->lock);
	if (!uplink->gone) {
		vm->rx_uplink = uplink;
		WRITE_ONCE(vm->rx_in, uplink);
		list_add_tail(&vm->rx_node, &uplink->receivers);
		uplink->n_receivers++;
		WRITE_ONCE(uplink->divide_rx, true);
		vm->rx_ns = now_ns;
		vm->rx_bytes = atomic64_read(&vm->counters[SHIM_RX_BYTES]);
		vm->rx_packets = atomic64_read(&vm->counters[SHIM_RX_PACKETS]);
		vm->rx_idle_ns = 0;
		WRITE_ONCE(vm->rx_moved_ns, now_ns);
		WRITE_ONCE(vm->receiving, true);
	}
	spin_unlock(&uplink->lock);
	shim_clock_add(vm, false);
out:
	spin_unlock(&vm->lock);
}

/* Measures what a VM received since it was last measured.  vm->lock. */
static void vm_measure_rx(struct shim_vm *vm, u64 now_ns, u64 inactive_ns)
{
	u64 elapsed_ns = shim_sub_sat(now_ns, vm->rx_ns), packets, bytes, more, wire;

	if (!elapsed_ns)
		return;
	/* What passes by leases does so for a period. */
	shim_receipts_recall(vm, false);
	packets = atomic64_read(&vm->counters[SHIM_RX_PACKETS]);
	bytes = atomic64_read(&vm->counters[SHIM_RX_BYTES]);
	more = bytes - vm->rx_bytes;
	wire = shim_wire_bytes(shim_vm_rx_overhead(vm), more, packets - vm->rx_packets);
	if (packets != vm->rx_packets)
		shim_frame_size_note(&vm->rx_frame, more, packets - vm->rx_packets);
	shim_frame_size_follow(&vm->rx_frame, now_ns);
	vm->rx_ns = now_ns;
	vm->rx_bytes = bytes;
	vm->rx_packets = packets;
	vm->rx_rate = shim_mul_div(wire, SHIM_NSEC_PER_SEC, elapsed_ns);
	vm->rx_idle_ns = more ? 0 : shim_add_sat(vm->rx_idle_ns, elapsed_ns);
	if (vm->rx_idle_ns >= inactive_ns)
		shim_uplink_leave_rx(vm);
}

/* Measures what a VM sent and received since the last visit, and stops what is idle.  vm->lock. */
static void vm_measure(struct shim_vm *vm, u64 now_ns, u64 elapsed_ns)
{
	u64 inactive_ns = shim_engine_settings(vm->engine)->inactive_ns;
	struct shim_limiter *limiter;

	if (vm->receiving)
		vm_measure_rx(vm, now_ns, inactive_ns);
	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		if (limiter->active)
			shim_limiter_measure(limiter, now_ns, elapsed_ns, inactive_ns);
	shim_ceiling_divide(vm, NULL, now_ns);
}

/* Puts in force what the laws of limiters say, after their peers had their say.  vm->lock. */
static void vm_apply(struct shim_vm *vm, u64 now_ns)
{
	struct shim_limiter *limiter;

	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		if (limiter->active)
			shim_limiter_apply(limiter, now_ns);
}

/* Measures, and lets the law take the steps of limiters and paths.  vm->lock. */
static void vm_step(struct shim_vm *vm, u64 now_ns)
{
	u64 elapsed_ns = shim_sub_sat(now_ns, vm->tick_ns);

	vm->tick_ns = now_ns;
	vm_measure(vm, now_ns, elapsed_ns);
	vm_step_limiters(vm, false, now_ns);
	shim_paths_step(vm, now_ns, elapsed_ns);
	if (vm->mode.wants & SHIM_LAW_PEERS)
		vm_bound(vm, now_ns);
}

bool shim_vm_visit(struct shim_vm *vm, u64 now_ns, u32 *steps, struct shim_reports *reports)
{
	u32 most = *steps, n = 0, collected = 0;

	*steps = 0;
	if (vm->stage == SHIM_VM_BEGIN && now_ns <= vm->tick_ns)
		return true;
	/* Begun in another tick. */
	if (vm->stage != SHIM_VM_BEGIN && now_ns > vm->began_ns && now_ns > vm->tick_ns)
		vm_step(vm, now_ns);
	switch (vm->stage) {
	case SHIM_VM_BEGIN:
		vm->began_ns = now_ns;
		shim_peers_take(vm);
		shim_connections_take(vm);
		vm->stage = SHIM_VM_TOUCHED;
		fallthrough;
	case SHIM_VM_TOUCHED:
		n += shim_peers_drain(vm, most);
		n += shim_connections_drain(vm, most - n);
		if (vm->taken_peers || vm->taken_connections)
			break;
		shim_peers_begin(vm);
		if (now_ns > vm->tick_ns)
			vm_step(vm, now_ns);
		vm->stage = SHIM_VM_PEERS_STEP;
		fallthrough;
	case SHIM_VM_PEERS_STEP:
		n += shim_peers_visit(vm, now_ns, most - n, reports);
		if (!list_empty(&vm->pending))
			break;
		vm->passed = true;
		if (vm->clock->law->wants & SHIM_LAW_PEERS)
			vm_apply(vm, now_ns);
		collected = shim_peers_collect(vm, now_ns, COLLECT_MOST);
		shim_connections_begin(vm, now_ns);
		vm->stage = SHIM_VM_CONNECTIONS_STEP;
		fallthrough;
	case SHIM_VM_CONNECTIONS_STEP:
		n += shim_connections_visit(vm, now_ns, most - n);
		if (!list_empty(&vm->pending_connections))
			break;
		n += shim_connections_collect(vm, now_ns, most - n);
		if (vm->collect_left)
			break;
		vm->stage = SHIM_VM_BEGIN;
	}
	*steps = n + collected;
	return vm->stage == SHIM_VM_BEGIN;
}

void shim_vm_tidy(struct shim_vm *vm, u64 now_ns, u32 most)
{
	most -= shim_peers_collect(vm, now_ns, most);
	shim_connections_collect(vm, now_ns, most);
}

bool shim_vm_touched(const struct shim_vm *vm)
{
	return !llist_empty(&vm->touched_peers) || !llist_empty(&vm->touched_connections);
}

enum shim_vm_timed shim_vm_timed(const struct shim_vm *vm)
{
	const struct shim_limiter *limiter;

	if (vm->receiving || !list_empty(&vm->busy) || !list_empty(&vm->busy_connections))
		return SHIM_VM_ACTIVE;
	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		if (limiter->active)
			return SHIM_VM_ACTIVE;
	return list_empty(&vm->parked) && !vm->n_connections ? SHIM_VM_STILL : SHIM_VM_RESTING;
}

void shim_vm_sent(struct shim_vm *vm, struct shim_tx *sum)
{
	struct shim_limiter *limiter;

	spin_lock_bh(&vm->lock);
	*sum = vm->lost;
	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		shim_limiter_add_counted(limiter, sum);
	spin_unlock_bh(&vm->lock);
}
