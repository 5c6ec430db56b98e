/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A VM: one port of a bridge, with all that is known of what it sends and receives.
 */
#ifndef SHIM_CORE_ENGINE_VM_H
#define SHIM_CORE_ENGINE_VM_H

#include "../host.h"
#include "../message.h"
#include "address.h"
#include "connection.h"
#include "gate.h"
#include "limiter.h"
#include "path.h"
#include "peer.h"

struct shim_clock;
struct shim_ecn;
struct shim_engine;
struct shim_settings;
struct shim_uplink;

/*
 * Beside SHIM_LAW_* in shim_mode.wants: peers are kept for whoever reads them.  Where the law wants
 * none they count and never judge: what has no peer passes as without them.
 */
#define SHIM_VM_CONVERSATIONS 0x80

/* Either reason to keep peers. */
#define SHIM_VM_PEERS (SHIM_LAW_PEERS | SHIM_VM_CONVERSATIONS)

/* In shim_mode.wants: the VM has paths. */
#define SHIM_VM_PATHS 0x40

/* Reasons to read the clock for each packet. */
#define SHIM_VM_TIMED (SHIM_LAW_PEERS | SHIM_LAW_FLOWS | SHIM_VM_PATHS)

/* What a packet needs to know of its VM and of the settings; read without a lock. */
struct shim_mode {
	u64 horizon_ns;			/* 0: police */
	u32 depth;			/* of policing buckets, bytes */
	u32 burst_us;			/* as in settings */
	u32 waiting_max;		/* packets that may wait on an uplink; 0: any */
	u8 wants;			/* SHIM_LAW_* of the VM's law, SHIM_VM_* */
	u8 protocol;			/* IP protocol of control messages */
	u8 codepoint;			/* of what is made ECT */
	bool ruled;			/* the VM has a law: else its packets pass untouched */
	bool ecn;			/* as in settings */
	bool ahead;			/* as in settings; false: police */
};

/*
 * Returns what may leave in one go at a rate, bytes: what it sends in burst_us, at least two full
 * packets.
 *
 * Overflow: the rate is at most SHIM_RATE_MAX < 2^37 and the time SHIM_BURST_US_MAX < 2^14, so the
 * product is below 2^51, and bytes are at most 10^9 < 2^30.
 */
static inline u32 shim_mode_burst(u64 bytes_per_s, u32 burst_us)
{
	u32 bytes = shim_div(bytes_per_s * burst_us, SHIM_USEC_PER_SEC);

	return max(bytes, SHIM_BURST_BYTES_MIN);
}

/* Returns the depth of a bucket of a rate, bytes: that, if packets can wait for it; else as set. */
static inline u32 shim_mode_depth(const struct shim_mode *mode, u64 bytes_per_s)
{
	if (!READ_ONCE(mode->horizon_ns))
		return READ_ONCE(mode->depth);
	return shim_mode_burst(bytes_per_s, READ_ONCE(mode->burst_us));
}

/*
 * Returns how many bytes a GSO packet may have to pass a bucket of a rate whole; 0: each segment
 * passes by itself.  There is room for it in the bucket.
 */
static inline u32 shim_mode_whole(const struct shim_mode *mode, u64 bytes_per_s)
{
	u32 burst_us = READ_ONCE(mode->burst_us);

	if (!burst_us)
		return 0;
	return min(shim_mode_burst(bytes_per_s, burst_us), shim_mode_depth(mode, bytes_per_s));
}

/* The least depth of a bucket that polices of which a part may be lent, bytes. */
#define SHIM_LEND_DEPTH_MIN (64 * 1514U)

/*
 * Returns L, what a bucket of a depth may have lent at a time, bytes: where packets can wait, a
 * quarter of the depth beside it; where they cannot, an eighth of it, of what is beyond the largest
 * GSO packet and what may leave in one go.
 */
static inline u32 shim_mode_most(const struct shim_mode *mode, u32 depth, u32 whole)
{
	if (READ_ONCE(mode->horizon_ns))
		return depth / 4;
	return depth >= SHIM_LEND_DEPTH_MIN && depth > whole ? min(depth / 8, depth - whole) : 0;
}

/* How far the visit of a VM has come. */
enum shim_vm_stage {
	SHIM_VM_BEGIN,			/* there is none under way */
	SHIM_VM_TOUCHED,		/* what packets touched is taken over */
	SHIM_VM_PEERS_STEP,		/* peers take their steps */
	SHIM_VM_CONNECTIONS_STEP,	/* connections take their steps */
};

/* What of a VM is to be timed. */
enum shim_vm_timed {
	SHIM_VM_STILL,			/* nothing */
	SHIM_VM_RESTING,		/* peers or connections that are to be forgotten one day */
	SHIM_VM_ACTIVE,			/* its law */
};

/* An answer counts for so long, ns: less than what keeps an address its VM's own. */
#define SHIM_ANSWER_NS (5 * SHIM_NSEC_PER_SEC)

/* Hosts whose shims answer a VM that are remembered. */
#define SHIM_ANSWERS_MAX 16

/* A host whose shim answers a VM. */
struct shim_answer {
	u64 mac;			/* that its reports come with; read without a lock */
	u64 seen_ns;			/* time of the last one; 0: none came */
	struct shim_peer *peer;		/* the tightest one there; NULL: it has gone */
	u64 peer_ns;			/* time of that one's last report */
};

/* Packets for a VM that pass by leases, and are counted later. */
struct shim_receipts {
	spinlock_t lock;		/* of what follows; inside peer->lock */
	struct shim_loans loans;	/* leases; nothing is charged */
};

/* What an operator asks of a VM. */
struct shim_vm_config {
	u32 weight;			/* 1..SHIM_WEIGHT_MAX */
	int law;			/* index of its law or SHIM_LAW_* */
	u64 min;			/* guarantee, bytes/s; 0: none */
	u64 max;			/* ceiling, bytes/s; 0: none */
};

/*
 * Packets without a peer of their own share a gate.  Its rate is an equal part of the VM's share
 * among its peers, or among SHIM_SHARED_MIN if there are fewer, or the VM's guarantee where that is
 * more, and no more than its tightest grant.
 */
#define SHIM_SHARED_MIN 64

struct shim_vm {
	/* First cache lines: read for each packet. */
	struct shim_mode mode;		/* what packets need to know */
	struct shim_limiter __rcu *limiters;	/* its limiters */
	struct shim_engine *engine;	/* its engine; never changes */
	struct shim_sources sources;	/* addresses it sends from */
	struct shim_peer __rcu *last_peer;	/* of its packets that repeat; NULL: none does */
	const struct shim_peer *found_peer;	/* of the packet before; compared only */
	struct shim_path_index __rcu *path_index;	/* of paths; NULL: none.  vm->lock, RCU */

	spinlock_t lock;		/* of what follows; outermost of the engine's locks */
	void *port;			/* the host's own port; never changes */
	struct list_head node;		/* in engine->vms; configuration's lock, RCU */
	shim_rcu_t rcu;			/* deferred free */
	bool gone;			/* about to be freed */
	struct shim_vm_config config;	/* in force */
	struct shim_clock *clock;	/* of the law in force, NULL for none */

	/* Where it is timed. */
	struct list_head tick_node;	/* of a list of the clock; clock->lock */
	bool ticking;			/* in clock->due or clock->done; written under both locks */
	u32 class;			/* of its visits, by steps; written under both locks */
	enum shim_vm_stage stage;	/* of its visit */
	u32 steps;			/* that the visit under way has taken */
	u64 began_ns;			/* time of the tick in which that began */
	bool passed;			/* all peers had a step since the VM's own was taken */
	u32 ceiling_parts;		/* limiters that the ceiling was divided among last */
	u64 ceiling_max;		/* what was divided, bytes/s */
	u64 ceiling_ns;			/* when the window began in which use is measured */
	bool ceiling_moved;		/* parts did, and laws have not followed yet */
	u64 tick_ns;			/* time of the last step of its own */

	/* What it receives, where that is metered. */
	struct list_head rx_node;	/* in rx_uplink->receivers; its lock */
	struct shim_uplink *rx_uplink;	/* uplink it receives by; vm->lock */
	const struct shim_uplink *rx_in;	/* the same, read by packets; compared only */
	bool receiving;			/* a packet came in the last T_o */
	u64 rx_moved_ns;		/* when rx_in became what it is */
	u64 rx_ns;			/* when it was last measured what it receives */
	u64 rx_idle_ns;			/* time in which nothing came */
	u64 rx_bytes;			/* what had come by then */
	u64 rx_packets;			/* the same in packets */
	u64 rx_rate;			/* received over the last period, bytes/s */
	struct shim_frame_size rx_frame;	/* of these packets, by their mean between visits */
	u64 rx_share;			/* its part of what the uplink can bring, bytes/s */
	u64 rx_least;			/* of that its own, whatever VMs demand; 0: unknown */
	u64 rx_demand;			/* what it could receive, bytes/s; 0: whatever it may */

	/* Peers. */
	struct llist_head touched_peers;	/* had a packet since the last visit; no lock */
	struct llist_node *taken_peers;	/* of touched ones: still to be looked at in this visit */
	struct list_head busy;		/* struct shim_peer: to be visited each T */
	struct list_head pending;	/* struct shim_peer: still to be visited */
	struct list_head parked;	/* struct shim_peer: at rest, the longest first */
	struct list_head ranks[SHIM_PEER_RANKS];	/* struct shim_peer: all, oldest first */
	u32 n_ranks[SHIM_PEER_RANKS];	/* lengths of ranks */
	u32 n_peers;			/* sum of these; read without a lock */
	u32 busy_peers;			/* those with packets before the last visit */
	u32 busy_next;			/* those taken over since */
	struct shim_gate shared;	/* of packets without a peer */
	struct shim_gate unanswered;	/* of packets to where nobody answers */
	struct shim_answer answers[SHIM_ANSWERS_MAX];	/* who answers */
	u64 reports_ns;			/* reports are paid for up to that time; later is credit */
	u32 reports_due[2];	/* in the last pass: peers it never sent to (0), others (1) */
	u32 reports_next[2];		/* the same so far in this one */

	/* Paths. */
	struct list_head paths;		/* struct shim_path: sorted */
	u32 n_paths;			/* length of paths; read without a lock */
	u64 usual_rate;			/* with paths: what it sends, a mean over some periods */

	/* TCP connections. */
	struct llist_head touched_connections;	/* had a segment since the last visit; no lock */
	struct llist_node *taken_connections;	/* still to be looked at in this visit */
	struct list_head busy_connections;	/* struct shim_connection: live */
	struct list_head pending_connections;	/* those that are still to be visited */
	struct list_head connections[SHIM_CONNECTION_RANKS];	/* all, the longest silent first */
	u32 n_connections;		/* how many; read without a lock */
	u64 connections_ns;		/* when they take their next step */
	u64 collected_ns;		/* when silent ones were last looked for */
	u32 collect_left;		/* how many are still to be looked at for that */

	struct shim_receipts receipts;	/* of leases for what it receives */

	/* ECN. */
	struct shim_ecn __rcu *ecn;	/* what flows to it showed; NULL: nothing.  vm->lock, RCU */
	u32 ecn_failed;		/* unit of time when there was no memory for it; ecn.c */

	struct shim_replay_mark before[SHIM_REPLAY_SENDERS];	/* of senders, when it came */
	atomic64_t counters[SHIM_N_COUNTERS];	/* enum shim_counter */
	struct shim_tx lost;		/* counters of limiters that are no more */
};

/* Counts n at a VM. */
static inline void shim_vm_count(struct shim_vm *vm, enum shim_counter counter, u64 n)
{
	atomic64_add(n, &vm->counters[counter]);
}

/* Returns a new VM for the host's port, listed, without a law; NULL without memory. */
struct shim_vm *shim_vm_create(struct shim_engine *engine, void *port);

/* Removes a VM with all that is known of it; freed after a grace period.  Configuration's lock. */
void shim_vm_remove(struct shim_vm *vm);

/* Puts a configuration in force.  Configuration's lock. */
void shim_vm_configure(struct shim_vm *vm, const struct shim_vm_config *config);

/* Puts what a VM needs of the engine's settings in force.  Configuration's lock. */
void shim_vm_settle(struct shim_vm *vm, const struct shim_settings *settings, u64 now_ns);

/*
 * Goes on with what is to be done for a VM in a tick, or begins: measures, and lets the law take
 * its steps.  Takes at most *steps of peers and connections, and some more to forget peers; tells
 * there how many it were.  False: some are left.  vm->lock, RCU read lock.
 */
bool shim_vm_visit(struct shim_vm *vm, u64 now_ns, u32 *steps, struct shim_reports *reports);

/*
 * Forgets peers and connections of a VM at rest that have been silent for long, looking at `most`
 * of them.  vm->lock, RCU read lock.
 */
void shim_vm_tidy(struct shim_vm *vm, u64 now_ns, u32 most);

/* Tells whether a peer or a connection of a VM had a packet since the last visit. */
bool shim_vm_touched(const struct shim_vm *vm);

/* Tells what of a VM there is to be timed.  vm->lock. */
enum shim_vm_timed shim_vm_timed(const struct shim_vm *vm);

/*
 * As shim_limiter_get(), and makes the limiter active if it is to become so: the VM's ceiling is
 * divided, and what peers share is bounded.  Takes vm->lock.  Softirqs off.
 */
struct shim_limiter *shim_vm_start_limiter(struct shim_vm *vm, struct shim_uplink *uplink,
					   u32 bytes, u64 now_ns, enum shim_counter *drop);

/* Notes a report of a peer's shim that came with a MAC address, 0: unknown.  vm->lock. */
void shim_vm_answered(struct shim_vm *vm, struct shim_peer *peer, u64 mac, u64 now_ns);

/* Forgets a peer that goes.  vm->lock. */
void shim_vm_unanswered(struct shim_vm *vm, const struct shim_peer *peer);

/* Returns the least rate that a peer of a VM grants, bytes/s; U64_MAX: none does.  vm->lock. */
u64 shim_vm_tightest(const struct shim_vm *vm, u64 now_ns);

/* Tells whether reports come from a MAC address.  No lock. */
static inline bool shim_vm_answers_at(const struct shim_vm *vm, u64 mac)
{
	int i;

	for (i = 0; i < SHIM_ANSWERS_MAX; i++)
		if (READ_ONCE(vm->answers[i].mac) == mac)
			return true;
	return false;
}

/* Notes that a VM receives again, or by another uplink than before.  Softirqs off. */
void shim_vm_receives(struct shim_vm *vm, struct shim_uplink *uplink, u64 now_ns);

/* Sees to it that a VM is timed, one of whose peers or connections has just been touched. */
void shim_vm_wake(struct shim_vm *vm);

/* Takes back a lease of this CPU, if it is for what the VM receives.  Softirqs off. */
void shim_receipts_end_lease(struct shim_vm *vm, struct shim_lease *lease);

/*
 * Lets packets like one that a VM received pass by a lease that no one lends; overhead: of the
 * uplink that it came by.  Softirqs off.
 */
void shim_receipts_lend(struct shim_vm *vm, struct shim_lease *lease, u32 overhead);

/* Ends the leases for what a VM receives: with its next packets, or for good.  vm->lock. */
void shim_receipts_recall(struct shim_vm *vm, bool close);

/* Counts what passed by the leases for what a VM receives.  Softirqs off. */
void shim_receipts_look(struct shim_vm *vm);

/* Fills *tx with what the limiters of a VM counted, those that are no more included. */
void shim_vm_sent(struct shim_vm *vm, struct shim_tx *tx);

#endif
