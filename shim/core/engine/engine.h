/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The engine: all VMs and uplinks of one host (one network namespace), and the laws' clocks.
 *
 * Contexts.  Functions that configure are called one at a time (the host's lock of configuration)
 * and may sleep.  All others run with softirqs off, packets' and the clocks' within an RCU read
 * section.
 *
 * Locks, outermost first:
 *
 *   the host's lock of configuration
 *   vm->lock            law states of its limiters, lists of its peers and connections
 *   connection->lock
 *   peer->lock          what packets write of a peer, and its law state
 *   gate->lock          bucket of a path, or of what has no peer
 *   limiter->lock       bucket and counters
 *   uplink->lock        who is active on it, shares
 *   clock->lock         who is to be visited
 *   engine->sources     addresses and their owners
 *   engine->numbers_lock  what senders said, and how far reports have counted
 *
 * Two VMs' locks are never held at once, and no two of any other kind.
 */
#ifndef SHIM_CORE_ENGINE_H
#define SHIM_CORE_ENGINE_H

#include "../host.h"
#include "address.h"
#include "clock.h"
#include "ecn.h"
#include "packet.h"
#include "settings.h"
#include "uplink.h"
#include "vm.h"

/* Senders that were lately heard with the other key. */
#define SHIM_OTHER_KEY_SENDERS 8

/* A sender of messages signed with the other key. */
struct shim_other_sender {
	u32 sender;			/* its id */
	u64 seen_ns;			/* when it was last heard; 0: never */
};

struct shim_engine {
	struct shim_settings __rcu *settings;	/* in force; configuration's lock, RCU */
	struct list_head vms;		/* struct shim_vm; configuration's lock, RCU */
	struct list_head uplinks;	/* struct shim_uplink; configuration's lock, RCU */
	u32 n_vms;			/* length of vms; configuration's lock */
	u32 n_ruled;			/* with a law; configuration's lock, read without */
	u64 guaranteed;		/* sum of all VMs' guarantees, bytes/s; configuration's lock */
	u32 metered;		/* VMs under laws that meter receivers; configuration's lock */
	u32 generation;			/* changes with the lists, for dumps */
	u32 sender;			/* id in reports, random */
	spinlock_t numbers_lock;	/* of what follows, up to reporters */
	u32 epoch;			/* of reports sent: when their count began, s since 1970 */
	u32 sequence;			/* of the last report sent in that epoch */
	u64 epoch_ns;			/* when the epoch began */
	struct shim_replay replay;	/* messages that VMs accepted, without peers' reports */
	struct shim_reporters *reporters;	/* who reports; NULL before the first VM */
	struct shim_clock clocks[SHIM_LAW_SLOTS];	/* by the law's index */
	struct shim_table peers;	/* struct shim_peer of all VMs */
	struct shim_table connections;	/* struct shim_connection of all VMs */
	struct shim_owners owners;	/* which VM owns which address */
	atomic64_t n_paths;		/* paths of all VMs, without their rests */
	u64 hash_factor;	/* odd, secret: mixes hashes of flows; never changes */
	spinlock_t other_lock;		/* of others */
	struct shim_other_sender others[SHIM_OTHER_KEY_SENDERS]; /* who has the other key */
};

/*
 * Prepares an engine whose id in reports is `sender` and whose start is `epoch`; 0 or a negative
 * error number.  May sleep.
 */
int shim_engine_init(struct shim_engine *engine, u32 sender, u32 epoch);

/* Ends an engine without VMs and uplinks.  May sleep. */
void shim_engine_exit(struct shim_engine *engine);

/* Returns the settings in force.  RCU or configuration's lock. */
static inline const struct shim_settings *shim_engine_settings(const struct shim_engine *engine)
{
	/* Configuration is the only writer, so that it need not be a reader. */
	return rcu_dereference_check(engine->settings, true);
}

/* Returns what a packet that a VM receives takes of the wire beyond its bytes.  vm->lock. */
static inline u32 shim_vm_rx_overhead(const struct shim_vm *vm)
{
	return vm->rx_uplink ? READ_ONCE(vm->rx_uplink->overhead) : 0;
}

/* Returns T of a clock.  RCU or configuration's lock. */
static inline u64 shim_clock_period(const struct shim_clock *clock)
{
	return shim_engine_settings(clock->engine)->laws[clock->index].period_ns;
}

/*
 * Puts settings in force, which the engine then owns, and all that follows from them: modes, laws,
 * shares and rates.  Configuration's lock.
 */
void shim_engine_set(struct shim_engine *engine, struct shim_settings *settings);

/*
 * Divides the uplinks anew and lets the laws of VMs that are active take a step, after a change of
 * what they divide.  Configuration's lock.
 */
void shim_engine_step(struct shim_engine *engine);

/*
 * Returns 0 if guarantees that sum to `guaranteed` bytes/s fit each uplink, and one of `capacity`
 * bytes/s; else the capacity they exceed, with that uplink in *least (NULL: the one of `capacity`).
 * except: an uplink that does not count.  Configuration's lock.
 */
u64 shim_engine_exceeds(const struct shim_engine *engine, u64 guaranteed, u64 capacity,
			const struct shim_uplink *except, const struct shim_uplink **least);

/*
 * Reads a control message of len bytes for a VM that came by uplink in, NULL: from the bridge
 * itself; obeys or refuses it.  packet is what carried it.  Returns what became of it, counted;
 * *message is what was read of it.
 */
enum shim_counter shim_engine_message(struct shim_vm *vm, const struct shim_uplink *in,
				      const struct shim_packet *packet, const u8 *data, size_t len,
				      struct shim_message *message);

#endif
