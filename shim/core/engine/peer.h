/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a VM exchanges with one remote address, under a law that wants peers.
 */
#ifndef SHIM_CORE_ENGINE_PEER_H
#define SHIM_CORE_ENGINE_PEER_H

#include "../bucket.h"
#include "../host.h"
#include "../law.h"
#include "lease.h"
#include "packet.h"

struct shim_clock;
struct shim_engine;
struct shim_limiter;
struct shim_passage;
struct shim_settings;
struct shim_uplink;
struct shim_vm;

/* How a peer stands; who stands lower makes room first. */
enum shim_peer_rank {
	SHIM_PEER_HEARD,		/* the VM never sent to it */
	SHIM_PEER_ONCE,	/* the VM sent it one packet, or answered it a few times */
	SHIM_PEER_ANSWERED,		/* it began, and the VM answered it many times */
	SHIM_PEER_TALKING,	/* the VM began and sent more, or its shim sent a report */
	SHIM_PEER_KEPT,			/* an operator gave it a weight */

	SHIM_PEER_RANKS
};

/* Answers from which on a VM has answered a peer often: what a few exchanges of TCP take. */
#define SHIM_PEER_ANSWERS_OFTEN 4

/* Whose packets with whom. */
struct shim_peer_key {
	struct shim_vm *vm;		/* the VM */
	struct shim_address address;	/* of the other end */
};

/* Found under RCU, changed under its lock. */
struct shim_peer {
	/* First cache line: how it is found, and the bucket's state. */
	struct shim_table_node node;	/* in engine->peers */
	struct shim_peer_key key;	/* by which it is found */
	spinlock_t lock;	/* of what follows, unless said otherwise; inside vm->lock */
	u32 asked;	/* first packet sent since the last report, 2^20 ns; 0: none was */
	bool touched;			/* in vm->touched_peers, or about to be */
	bool seen;			/* had a packet since its last visit */
	bool gone;			/* no longer in the table */
	bool way_sent;			/* host knows the way of reports by what the VM sent */
	bool learned;	/* of the first one since the last visit; nobody asks between two visits */
	bool used;	/* had another packet than its first since somebody looked for room */
	bool waits;			/* had a packet from it since the last one sent */
	u8 answers;			/* packets sent after such ones, at most often */
	bool heard;			/* a packet came since the last visit */
	bool direct;		/* the VM sends from where the peer sends to: nobody translates */
	u32 whole_bytes;	/* as shim_limiter.whole_bytes; U32_MAX without a rate */
	const struct shim_clock *clock;	/* of its law; NULL: no law has it */
	u64 tat;			/* bucket word */

	/* Second cache line, and 8 bytes of a third: read or written for each packet sent. */
	struct shim_rate rate;		/* bytes_per_s 0: only the VM's bucket counts */
	u64 late_ns;	/* departure of the last packet that the VM's bucket had wait longer */
	u64 tx_bytes;			/* sent, headers as on the wire */
	u64 tx_packets;			/* sent */
	const struct shim_uplink *out;	/* of the last packet sent; compared only */
	u64 spare_ticks;	/* of tat: earned by rises while packets wait, no debt in bytes */
	u64 heard_ns;	/* of the last packet or report from it; 0: none.  Read without a lock */
	u64 mac;		/* that a packet from it came with; 0: unknown.  No lock to read */
	u64 report_mac;		/* the same of its shim's last report */
	u16 answered[2];	/* bits of the VM's addresses that it answered, lately and before */

	/* Once between two visits, for packets received, or dropped. */
	struct llist_node touch;	/* in vm->touched_peers while touched */
	u64 drops;			/* packets dropped by this bucket */
	u64 rx_bytes;			/* received, link-layer header included */
	u64 rx_packets;			/* received */
	u64 rx_marks;			/* received with CE */
	const struct shim_uplink *in;	/* of the last packet received; compared only */
	u64 answered_ns;		/* since when that is lately */
	struct shim_address heard_at;	/* address of the VM that the last packet from it was for */
	struct shim_address local;	/* the VM's address, as the uplink has it */
	struct shim_network network;	/* that the VM's packets to the peer leave in */
	u64 way_mac;		/* with !way_sent: MAC address that this way leads to */
	u64 told_mac;		/* the same of the last report */
	struct shim_host_peer host;	/* how reports leave; the host's */
	struct shim_loans loans;	/* what CPUs may spend of the bucket, or count */

	/* Under vm->lock. */
	struct shim_replay_slot replay;	/* reports seen */
	u64 reported_ns;		/* time of the last report sent; 0: none was */
	u64 spoken_ns;		/* when it last got a report, or a packet; 0: not yet looked at */
	u32 spoken_packets;		/* packets sent to it by then, modulo 2^32 */
	u32 weight;			/* set by the operator; 0: not set */
	u8 rank;			/* enum shim_peer_rank: list that rank_node is in */
	bool began;			/* the other end sent the first packet */
	bool proven;			/* a report of its shim was obeyed */
	u64 seen_ns;			/* time of the last visit that saw a packet */
	struct list_head rank_node;	/* in vm->ranks[rank], the oldest first */
	union {
		struct list_head node_busy;	/* in vm->busy, vm->pending or vm->parked */
		shim_rcu_t rcu;		/* deferred free */
	};
	struct shim_peer_state state;	/* of the law, under lock; its own part follows */
};

/* Returns a time as peer->asked has it, never 0. */
static inline u32 shim_peer_time(u64 now_ns)
{
	return (u32)(now_ns >> 20) | 1;
}

/*
 * Tells whether a peer answers from where a packet to it goes: decide.c.  Softirqs off, RCU read
 * lock.
 */
bool shim_peer_answers(const struct shim_peer *peer, const struct shim_packet *packet);

/*
 * Notes that a peer answers addresses of the VM, by their bits (address.h).  peer->lock.
 */
void shim_peer_answered(struct shim_peer *peer, u16 bits, u64 now_ns);

/* Makes an engine's table of peers; 0 or a negative error number. */
int shim_peers_init(struct shim_engine *engine);

/* Ends an engine's table, which is empty by now. */
void shim_peers_exit(struct shim_engine *engine);

/* Returns the peer of that key, NULL if there is none.  RCU read lock. */
struct shim_peer *shim_peer_find(struct shim_engine *engine, const struct shim_peer_key *key);

/*
 * Returns the peer that a packet of the VM goes to or, with bytes 0, comes from, made if need be;
 * NULL if there can be none, and counted, or if the VM's own bucket would drop a first packet of so
 * many bytes.  Softirqs off, RCU read lock.
 */
struct shim_peer *shim_peer_get(struct shim_vm *vm, struct shim_uplink *uplink,
				const struct shim_address *remote, u32 bytes, u64 now_ns);

/*
 * Gives the peer of that address a weight, made if need be, or takes it back with weight 0; false
 * if there can be no such peer.  vm->lock, RCU read lock.
 */
bool shim_peer_weigh(struct shim_vm *vm, const struct shim_address *address, u32 weight);

/* Forgets a peer.  vm->lock. */
void shim_peer_remove(struct shim_peer *peer);

/* Forgets all peers of a VM.  vm->lock. */
void shim_peers_remove(struct shim_vm *vm);

/* Begins anew after a change of the VM's law; peers with a weight stay.  vm->lock. */
void shim_peers_restart(struct shim_vm *vm, u64 now_ns);

/*
 * Judges a packet that a VM sends to a peer as shim_limiter_admit() does, by all buckets of its
 * passage; tells the law, which may write to *action.  Softirqs off.
 */
enum shim_counter shim_peer_admit(const struct shim_passage *passage,
				  const struct shim_packet *packet, struct shim_action *action);

/*
 * Notes a packet that a VM receives from a peer and tells the law, which may write to *action.
 * lease: for packets like it, NULL: none; lent anew if `lends` and the law allows it.  Returns what
 * a guest that uses ECN is told.  Softirqs off.
 */
enum shim_told shim_peer_receive(struct shim_peer *peer, struct shim_uplink *uplink,
				 const struct shim_settings *settings,
				 const struct shim_packet *packet, struct shim_lease *lease,
				 bool lends, struct shim_action *action);

/* Takes back a lease of this CPU, if the peer lent it.  peer->lock. */
void shim_peer_take_lease(struct shim_peer *peer, struct shim_lease *lease, u64 now_ns);

/* Takes back what a peer lent to a lease of this CPU, if it did.  RCU read lock, softirqs off. */
void shim_peer_end_lease(struct shim_peer *peer, struct shim_lease *lease, u64 now_ns);

/* Counts what passed by the leases of a peer, and tells the law.  peer->lock, RCU read lock. */
void shim_peer_look(struct shim_peer *peer, u64 now_ns);

/* The same, and ends them: nothing passes by them from the next packet on. */
void shim_peer_recall(struct shim_peer *peer, u64 now_ns);

/* The same for good: packets that are under way are not waited for. */
void shim_peer_close(struct shim_peer *peer, u64 now_ns);

/* Takes the list of the peers that packets touched, to be drained.  vm->lock. */
void shim_peers_take(struct shim_vm *vm);

/* Takes over at most `most` of the peers that were taken; returns how many it was.  vm->lock. */
u32 shim_peers_drain(struct shim_vm *vm, u32 most);

/* Begins a pass over the peers of a VM that had packets, or have not come to rest.  vm->lock. */
void shim_peers_begin(struct shim_vm *vm);

/*
 * Lets the law take the step of at most `most` peers of a pass; returns how many it was.  The pass
 * is over when vm->pending is empty.  vm->lock, RCU read lock.
 */
u32 shim_peers_visit(struct shim_vm *vm, u64 now_ns, u32 most, struct shim_reports *reports);

/*
 * Forgets those among the `most` longest silent peers that have been silent for long; returns how
 * many were looked at.  vm->lock.
 */
u32 shim_peers_collect(struct shim_vm *vm, u64 now_ns, u32 most);

/*
 * Tells a VM's law of a report whose form, tag and destination are right, and that a packet
 * carried; the counter says what became of it.  vm->lock.
 */
enum shim_counter shim_peer_report(struct shim_vm *vm, const struct shim_message *report,
				   const struct shim_packet *packet);

/* Returns what a law is told of a peer; limiter may be NULL.  vm->lock. */
struct shim_law_input shim_peer_input(const struct shim_peer *peer,
				      const struct shim_limiter *limiter,
				      const struct shim_uplink *uplink, u64 now_ns);

/*
 * Tells whether a report to a peer may leave now, as far as reports have a part of the link; input
 * is the law's.  peer->lock, vm->lock.
 */
bool shim_peer_may_report(const struct shim_peer *peer, const struct shim_uplink *uplink,
			  const struct shim_law_input *input);

/*
 * Sends the report that a law filled its part of, and charges it; limiter NULL: the VM sends
 * nothing itself.  peer->lock, vm->lock, RCU read lock.
 */
void shim_peer_send_report(struct shim_peer *peer, struct shim_limiter *limiter,
			   const struct shim_law_input *input, struct shim_message *report,
			   struct shim_reports *reports);

/*
 * Counts a peer with a rate of its own that was sent packets for a second and never answered: its
 * reports, or the VM's, are lost on their way.  Counted again each second that it goes on.  Under a
 * law without such rates silence says nothing, as reports tell of marks alone.  peer->lock.
 */
void shim_peer_await(struct shim_peer *peer, u64 now_ns);

/* Puts the law's rate in force; credit and debt stay.  peer->lock. */
void shim_peer_apply(struct shim_peer *peer, u64 now_ns);

/* Notes that a peer has had a packet; true: its VM must be woken.  peer->lock. */
bool shim_peer_touch(struct shim_peer *peer);

/*
 * Calls a function for each peer of a VM that had a packet at or after since_ns, and for some that
 * had none, until it returns false.  Costs in proportion to those.  vm->lock.
 */
void shim_peers_moved(struct shim_vm *vm, u64 since_ns,
		      bool (*tell)(struct shim_peer *peer, void *context), void *context);

/* Returns how long a packet would wait for the peer's rate, ns.  Softirqs off. */
u64 shim_peer_wait(struct shim_peer *peer, u64 now_ns);

/* Returns the bytes of a peer with the state of any law. */
size_t shim_peer_bytes(void);

#endif
