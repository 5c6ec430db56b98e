// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flows: the TCP connections of VMs, for laws with SHIM_LAW_FLOWS.
 *
 * A flow is made by a SYN either way, or by the first data that a VM sends on a connection which
 * was there before the shim.  A VM has at most FLOWS_MAX of them; segments of further connections
 * pass untouched and are counted.  A flow is forgotten after a silence: a short one while its
 * handshake is not over, so that a flood of SYNs passes, and after a FIN or RST; an hour otherwise.
 * One that speaks again after that is a connection which was there before.
 *
 * Packets find flows under RCU and work on them under their lock.  shim->lock makes, frees and
 * lists them.  A flow names the clock, and so the law, whose state it holds: a packet that looked
 * at its VM before a change of law still calls the law that the flow belongs to.
 */
#include <linux/build_bug.h>
#include <linux/jhash.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"

/* Most flows of a VM. */
#define FLOWS_MAX 16384

/* Most bytes of a flow; debugging locks are larger. */
#define FLOW_BYTES_MAX 256

/* A VM's flows take their steps no more often than this, times their number: 5% of a CPU. */
#define FLOW_STEP_NS 3000ULL

/* Silence after which a flow is forgotten, by its state. */
#define OPENING_NS (10 * (u64)NSEC_PER_SEC)
#define CLOSED_NS (5 * (u64)NSEC_PER_SEC)
#define OPEN_NS (3600 * (u64)NSEC_PER_SEC)

/* The table of a namespace. */
static const struct rhashtable_params table_params = {
	.head_offset = offsetof(struct ovs_shim_flow, node),
	.key_offset = offsetof(struct ovs_shim_flow, key),
	.key_len = sizeof(struct ovs_shim_flow_key),
	.automatic_shrinking = true,
};

/* Makes a namespace's table; 0 or a negative error number. */
int ovs_shim_flows_start(struct ovs_shim_net *shim)
{
	/* The key is hashed as it stands in memory. */
	BUILD_BUG_ON(sizeof(struct ovs_shim_flow_key) != sizeof(void *) + 40);
	WARN_ON_ONCE(!IS_ENABLED(CONFIG_DEBUG_SPINLOCK) &&
		     sizeof(struct ovs_shim_flow) +
		     ovs_shim_law_room(offsetof(struct shim_law, flow_size)) > FLOW_BYTES_MAX);
	return rhashtable_init(&shim->flows, &table_params);
}

/* Ends a namespace's table, which is empty by now. */
void ovs_shim_flows_stop(struct ovs_shim_net *shim)
{
	WARN_ON_ONCE(atomic_read(&shim->flows.nelems));
	rhashtable_destroy(&shim->flows);
}

/* Returns the flow of that key, NULL if there is none.  RCU read lock. */
struct ovs_shim_flow *ovs_shim_flow_find(const struct ovs_shim_flow_key *key)
{
	return rhashtable_lookup(&key->vm->shim->flows, key, table_params);
}

/* Allocates and lists a flow; NULL if the VM has its most, or without memory.  shim->lock. */
static struct ovs_shim_flow *create(const struct ovs_shim_flow_key *key)
{
	struct ovs_shim_port *vm = key->vm;
	struct ovs_shim_flow *flow;

	if (vm->n_flows >= FLOWS_MAX) {
		atomic64_inc(&vm->counters[OVS_SHIM_FLOWS_FULL]);
		return NULL;
	}
	flow = kzalloc(sizeof(*flow) + vm->clock->law->flow_size, GFP_ATOMIC | __GFP_NOWARN);
	if (!flow)
		goto no_memory;
	flow->key = *key;
	flow->clock = vm->clock;
	flow->seen_ns = ktime_get_ns();
	spin_lock_init(&flow->lock);
	shim_flow_init(&flow->state, ntohs(key->port_vm), ntohs(key->port_peer));
	if (rhashtable_insert_fast(&vm->shim->flows, &flow->node, table_params)) {
		kfree(flow);
		goto no_memory;
	}
	list_add_tail(&flow->list, &vm->flows);
	WRITE_ONCE(vm->n_flows, vm->n_flows + 1);
	return flow;
no_memory:
	atomic64_inc(&vm->counters[OVS_SHIM_FLOWS_NO_MEMORY]);
	return NULL;
}

/* Returns the flow of that key, made if need be; NULL if there can be none.  RCU read lock. */
struct ovs_shim_flow *ovs_shim_flow_make(const struct ovs_shim_flow_key *key)
{
	struct ovs_shim_port *vm = key->vm;
	struct ovs_shim_flow *flow = NULL;

	/* Whoever floods with SYNs must not make everybody wait for the lock. */
	if (READ_ONCE(vm->n_flows) >= FLOWS_MAX) {
		atomic64_inc(&vm->counters[OVS_SHIM_FLOWS_FULL]);
		return NULL;
	}
	spin_lock_bh(&vm->shim->lock);
	/* The VM may have gone, or got another law, since the packet looked. */
	if (!list_empty(&vm->list) && vm->clock && vm->mode.wants & SHIM_LAW_FLOWS)
		flow = ovs_shim_flow_find(key) ?: create(key);
	spin_unlock_bh(&vm->shim->lock);
	return flow;
}

/* Forgets a flow.  shim->lock. */
static void forget(struct ovs_shim_flow *flow)
{
	struct ovs_shim_port *vm = flow->key.vm;

	rhashtable_remove_fast(&vm->shim->flows, &flow->node, table_params);
	list_del(&flow->list);
	WRITE_ONCE(vm->n_flows, vm->n_flows - 1);
	kfree_rcu(flow, rcu);
}

/* Forgets all flows of a VM.  shim->lock. */
void ovs_shim_flows_free(struct ovs_shim_port *vm)
{
	struct ovs_shim_flow *flow, *next;

	list_for_each_entry_safe(flow, next, &vm->flows, list)
		forget(flow);
}

/* Tells whether a flow has been silent for so long that it may be forgotten.  flow->lock. */
static bool silent(const struct ovs_shim_flow *flow, u64 now_ns)
{
	u64 limit_ns = OPEN_NS;

	if (flow->state.closed)
		limit_ns = CLOSED_NS;
	else if (!flow->state.open)
		limit_ns = OPENING_NS;
	return now_ns > flow->seen_ns && now_ns - flow->seen_ns > limit_ns;
}

/* Returns the peer that a flow leads to; NULL without one.  shim->lock, RCU read lock. */
static struct ovs_shim_peer *find_peer(const struct ovs_shim_flow *flow)
{
	struct ovs_shim_peer_key key = { .vm = flow->key.vm, .address = flow->key.remote };
	struct ovs_shim_peer *peer;

	if (!(flow->clock->law->wants & SHIM_LAW_PEERS))
		return NULL;
	peer = ovs_shim_peer_find(key.vm->shim, &key);
	return peer && peer->clock == flow->clock ? peer : NULL;
}

/* Lets the law take a flow's step.  shim->lock, flow->lock. */
static void step(struct ovs_shim_flow *flow, u64 now_ns)
{
	struct ovs_shim_port *vm = flow->key.vm;
	struct ovs_shim_pair *pair = flow->out ? ovs_shim_limiter_find(vm, flow->out) : NULL;
	const struct shim_law *law = flow->clock->law;
	struct shim_law_input input;
	struct ovs_shim_peer *peer;

	if (!pair)
		return;
	input = ovs_shim_law_input(vm, pair, pair->uplink, now_ns);
	peer = find_peer(flow);
	if (!peer) {
		law->on_flow_period(&flow->state, NULL, &pair->state, &input);
		return;
	}
	spin_lock(&peer->lock);
	law->on_flow_period(&flow->state, &peer->state, &pair->state, &input);
	spin_unlock(&peer->lock);
}

/*
 * Takes the step of the law for each flow of a VM, if it is time for that; forgets the silent ones.
 * shim->lock, RCU read lock.
 */
void ovs_shim_flows_period(struct ovs_shim_port *vm, u64 now_ns)
{
	struct ovs_shim_flow *flow, *next;
	bool end;

	if (now_ns + vm->clock->settings->period_ns / 2 < vm->flows_ns)
		return;
	vm->flows_ns = now_ns + vm->n_flows * FLOW_STEP_NS;
	list_for_each_entry_safe(flow, next, &vm->flows, list) {
		spin_lock(&flow->lock);
		step(flow, now_ns);
		end = silent(flow, now_ns);
		spin_unlock(&flow->lock);
		if (end) {
			atomic64_inc(&vm->counters[OVS_SHIM_FLOWS_COLLECTED]);
			forget(flow);
		}
	}
}
