/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Leases: bytes that a bucket lends to one CPU, for packets that are judged like the one before
 * them; lease.c has the algebra.
 */
#ifndef SHIM_CORE_ENGINE_LEASE_H
#define SHIM_CORE_ENGINE_LEASE_H

#include "../host.h"
#include "wire.h"

struct shim_limiter;
struct shim_peer;
struct shim_vm;

/* What a lender has lent.  The lender's lock. */
struct shim_loans {
	struct list_head ends;		/* struct shim_lease_end: of leases that are not yet back */
	u32 n;				/* length of ends */
	u32 lent;			/* bytes not known to be spent: sum of their left */
	u32 most;			/* L: lent is never more */
	bool closed;			/* the lender goes: nothing is lent any more */
};

/* What one lender knows of a lease.  The lender's lock. */
struct shim_lease_end {
	struct list_head node;		/* in the lender's list; not in use: lent by none */
	u32 left;			/* the lease's, when the lender last looked */
	u32 bytes;			/* the same of its bytes */
	u32 packets;			/* the same of its packets */
	u32 changed;			/* the same of its changed */
	bool recalled;			/* valid was made false; grace is since then */
	unsigned long grace;		/* after which no CPU spends of it */
};

/* What a CPU may spend without asking. */
struct shim_lease {
	/* Written for each packet by the CPU that has it, softirqs off; read by others. */
	u32 valid;			/* packets may pass; made false by lenders */
	u32 left;			/* bytes on the wire that may pass; falls */
	u32 packets;			/* that passed, modulo 2^32 */
	u32 bytes;			/* of these, modulo 2^32 */
	u32 changed;			/* of these, whose ECN field was written */
	u32 overhead;			/* of the uplink, bytes */

	/* The rest: who lent; an end is its lender's. */
	struct shim_limiter *limiter;	/* of what is sent; NULL: none.  Its lock */
	struct shim_vm *vm;		/* of what is received; NULL: none.  Its receipts' lock */
	struct shim_peer *peer;		/* the other end; NULL: none.  Its lock */
	bool received;			/* packets for the VM, not from it; fixed while any lends */
	struct shim_lease_end own;	/* the limiter's or the VM's */
	struct shim_lease_end far;	/* the peer's */
};

/* Who wants to borrow for packets like the one that is judged. */
struct shim_borrower {
	struct shim_lease *lease;	/* this CPU's; lent by nobody else than for the packet */
	u32 most;			/* bytes that it may be lent; 0: none, it only ends */
};

/* What passed since a lender last looked. */
struct shim_spent {
	u32 wire;			/* bytes on the wire, as they were lent */
	u32 bytes;			/* as counters have them */
	u32 packets;			/* how many */
	u32 changed;			/* of these, whose ECN field was written */
};

/* Lets a packet pass by a lease that takes so many bytes of the wire; the CPU that has it. */
static inline void shim_lease_spend(struct shim_lease *lease, u32 wire, u32 bytes)
{
	WRITE_ONCE(lease->left, lease->left - wire);
	WRITE_ONCE(lease->packets, lease->packets + 1);
	WRITE_ONCE(lease->bytes, lease->bytes + bytes);
}

/* Bytes that are lent for packets that are only counted. */
#define SHIM_LEASE_COUNTED 0x40000000U

/* Prepares what a lender has lent: nothing. */
static inline void shim_loans_init(struct shim_loans *loans, u32 most)
{
	INIT_LIST_HEAD(&loans->ends);
	loans->most = most;
}

/* Returns how much a lender may lend to one more lease, bytes.  Its lock. */
u32 shim_loans_room(const struct shim_loans *loans);

/* Notes that a lender lends bytes by an end that lends nothing.  Its lock. */
void shim_loans_add(struct shim_loans *loans, struct shim_lease *lease, struct shim_lease_end *end,
		    u32 bytes);

/* Returns what passed by a lease since the lender looked.  Its lock. */
struct shim_spent shim_loans_look(struct shim_loans *loans, const struct shim_lease *lease,
				  struct shim_lease_end *end);

/* Has a lease end: from the next packet on nothing passes by it.  The lender's lock. */
void shim_loans_recall(struct shim_lease *lease, struct shim_lease_end *end);

/* Tells whether an end was recalled, and no CPU can be spending of it any more.  Its lock. */
bool shim_loans_over(const struct shim_lease_end *end);

/*
 * Takes an end off its lender, who has just looked; returns what is left and goes back, bytes.
 * Either the lease's own CPU does, or the end is over.  The lender's lock.
 */
u32 shim_loans_take_back(struct shim_loans *loans, struct shim_lease_end *end);

#endif
