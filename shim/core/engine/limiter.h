/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * T(i,j) and R(i,j): the limiter of one VM on one uplink.
 */
#ifndef SHIM_CORE_ENGINE_LIMITER_H
#define SHIM_CORE_ENGINE_LIMITER_H

#include "../bucket.h"
#include "../host.h"
#include "../law.h"
#include "ahead.h"
#include "ceiling.h"
#include "frame_size.h"
#include "lease.h"
#include "packet.h"
#include "waiting.h"
#include "wire.h"

struct shim_uplink;
struct shim_vm;

/* Counters of one limiter, or of all that a VM has lost; packets unless said otherwise. */
struct shim_tx {
	u64 bytes;			/* bytes sent, headers as on the wire */
	u64 packets;			/* sent */
	u64 ect;			/* made ECT by the shim */
	u64 paced;			/* given a departure time later than now */
	u64 drop_police;		/* dropped: over the rate */
	u64 drop_horizon;		/* dropped: would wait longer than the horizon */
	u64 drop_waiting;		/* dropped: too many wait already */
	u64 ahead;			/* left at once, ahead of those that wait */
};

/* Returns how many packets were held back, modulo 2^32. */
static inline u32 shim_tx_held(const struct shim_tx *tx)
{
	return (u32)(tx->paced + tx->drop_police + tx->drop_horizon + tx->drop_waiting);
}

struct shim_limiter {
	/* First cache line: read for each packet. */
	const struct shim_uplink *out;	/* as uplink; compared, never followed by packets */
	struct shim_limiter __rcu *next;	/* of the same VM */
	bool active;			/* in use in the last T_o */
	u32 whole_bytes;	/* GSO packets of no more are not cut; shim_mode_whole() */
	u32 overhead;		/* of the uplink, as of the last shim_limiter_apply() */
	struct shim_frame_size frame;	/* of the VM's packets */

	/* Second cache line: written for each packet, under lock. */
	spinlock_t lock ____cacheline_aligned;	/* of bucket and tx */
	u64 tat;			/* bucket word */
	u64 read_ns;			/* when the clock was last read for a packet */
	u64 lease_ticks;		/* L as time at the rate */
	struct shim_rate rate;		/* R(i,j) and B - L; changes with vm->lock held, too */
	struct shim_order order;	/* behind those that wait by a lower rate */
	struct shim_tx tx;		/* what became of the packets */
	u64 ahead_tat;			/* word of what goes ahead: ahead.c */
	struct shim_ahead *ahead;	/* flows that wait; NULL: nothing goes ahead.  RCU */
	struct shim_waiting waiting;	/* packets paced, some of their departures */
	struct shim_loans loans;	/* what CPUs may spend of the bucket; lease.c */

	/* The rest: under vm->lock, unless said otherwise. */
	union {
		struct list_head active_node;	/* in uplink->active while active; uplink->lock */
		shim_rcu_t rcu;		/* deferred free */
	};
	struct shim_vm *vm;		/* VM it limits */
	struct shim_uplink *uplink;	/* uplink it limits the VM on */
	u64 share;			/* E(i) of this VM, bytes/s; written under uplink->lock */
	struct shim_ceiling ceiling;	/* its part of the VM's ceiling */
	u64 sent_rate;			/* over the last period, bytes/s */
	u64 last_bytes;			/* tx.bytes at the last visit */
	u64 last_packets;		/* the same of tx.packets */
	u64 used_bytes;			/* tx.bytes when it was last seen in use */
	u64 quiet_ns;			/* inactive: when counting of bytes began; 0: not yet */
	u64 idle_ns;			/* time since the last visit that saw it in use */
	u32 used_held;			/* packets paced and dropped by then, modulo 2^32 */
	bool outdated;			/* inactive, with the rate of other settings than now */
	struct shim_limiter_state state;	/* of the law; its own part follows */
};

/* More bytes than a VM may send without becoming active. */
#define SHIM_LIMITER_WAKE U32_MAX

/*
 * Returns the limiter of vm on uplink, made if there is none; *starts: it is to become active, for
 * `bytes` that are to be sent, or SHIM_LIMITER_WAKE, are a use of it.  NULL: *drop says why, or is
 * SHIM_COUNTER_NONE if the VM, the uplink or the law has gone.  vm->lock.
 */
struct shim_limiter *shim_limiter_get(struct shim_vm *vm, struct shim_uplink *uplink, u32 bytes,
				      u64 now_ns, bool *starts, enum shim_counter *drop);

/* Makes a limiter active that is not; false if its uplink has gone.  vm->lock. */
bool shim_limiter_start(struct shim_limiter *limiter, u64 now_ns);

/* Returns the limiter of vm on uplink, active or not, NULL if none.  RCU or vm->lock. */
struct shim_limiter *shim_limiter_find(const struct shim_vm *vm, const struct shim_uplink *uplink);

/* Returns the same if it is active, else NULL.  vm->lock. */
struct shim_limiter *shim_limiter_active(const struct shim_vm *vm,
					 const struct shim_uplink *uplink);

/* Returns what a packet takes of the wire behind a limiter's uplink, bytes. */
static inline u32 shim_limiter_wire(const struct shim_limiter *limiter,
				    const struct shim_packet *packet)
{
	return (u32)shim_wire_bytes(READ_ONCE(limiter->overhead), packet->bytes, packet->packets);
}

/* Returns the bytes that a full packet of a limiter takes of the wire. */
static inline u32 shim_limiter_frame(const struct shim_limiter *limiter)
{
	return (u32)shim_wire_bytes(READ_ONCE(limiter->overhead),
				    shim_frame_size_bytes(&limiter->frame), 1);
}

/*
 * Judges a packet: returns SHIM_COUNTER_NONE and in *departure_ns when it may leave (0: at once),
 * or why it must not.  Charges and counts it.  made_ect: by the shim.  borrower, unless NULL: what
 * is left of its lease is taken back first, and bytes are lent anew if the packet leaves at once.
 * Softirqs off.
 */
enum shim_counter shim_limiter_admit(struct shim_limiter *limiter, const struct shim_packet *packet,
				     bool made_ect, const struct shim_borrower *borrower,
				     u64 *departure_ns);

/* Takes back what a limiter lent to a lease of this CPU, if it did.  Softirqs off. */
void shim_limiter_end_lease(struct shim_limiter *limiter, struct shim_lease *lease);

/* Ends all leases of a limiter, and takes back what nobody can be spending.  Softirqs off. */
void shim_limiter_recall(struct shim_limiter *limiter);

/* Charges a limiter for bytes that the host sends for its VM and that no bucket holds back. */
void shim_limiter_charge(struct shim_limiter *limiter, u32 bytes, u64 now_ns);

/* Returns what a law is told of a VM on an uplink; limiter may be NULL.  vm->lock. */
struct shim_law_input shim_limiter_input(const struct shim_vm *vm,
					 const struct shim_limiter *limiter,
					 const struct shim_uplink *uplink, u64 now_ns);

/*
 * Puts the law's rate in force, and the settings' depth with what the law adds; credit and debt
 * stay.  vm->lock.
 */
void shim_limiter_apply(struct shim_limiter *limiter, u64 now_ns);

/* Returns how long a packet would wait in the limiter, ns, but for its own length. */
u64 shim_limiter_wait(struct shim_limiter *limiter, u64 now_ns);

/*
 * Tells whether the active limiter of vm on uplink, if there is one, would drop a packet of so many
 * bytes, or the first of those that it is to be cut to.  vm->lock.
 */
bool shim_limiter_full(const struct shim_vm *vm, const struct shim_uplink *uplink, u32 bytes,
		       u64 now_ns);

/* Lets the law begin anew.  vm->lock. */
void shim_limiter_restart(struct shim_limiter *limiter, u64 now_ns);

/* Tells the law of a controller's message, if the limiter is active.  vm->lock. */
void shim_limiter_message(struct shim_limiter *limiter, const struct shim_message *message,
			  u64 now_ns);

/*
 * Measures what an active limiter let through in the elapsed_ns > 0 since the last visit; stops it
 * if it was not in use for T_o.  vm->lock.
 */
void shim_limiter_measure(struct shim_limiter *limiter, u64 now_ns, u64 elapsed_ns,
			  u64 inactive_ns);

/* Lets the law take the step of a period.  vm->lock. */
void shim_limiter_period(struct shim_limiter *limiter, u64 now_ns);

/* Makes an active limiter inactive.  vm->lock. */
void shim_limiter_stop(struct shim_limiter *limiter);

/* Removes the limiter that *link leads to; its counters stay with the VM.  vm->lock. */
void shim_limiter_remove(struct shim_limiter __rcu **link);

/* Copies a limiter's counters.  Softirqs off. */
void shim_limiter_counted(struct shim_limiter *limiter, struct shim_tx *tx);

/* Adds a limiter's counters to *sum.  Softirqs off. */
void shim_limiter_add_counted(struct shim_limiter *limiter, struct shim_tx *sum);

/* Returns the rate in force, bytes/s.  Softirqs off. */
u64 shim_limiter_rate(struct shim_limiter *limiter);

/* Returns the bytes of a limiter with the state of any law. */
size_t shim_limiter_bytes(void);

#endif
