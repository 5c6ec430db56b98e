/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The packet's way: what happens to a packet between the bridge's decision where it goes and the
 * device.  decide.c has the order.
 */
#ifndef SHIM_CORE_ENGINE_DECIDE_H
#define SHIM_CORE_ENGINE_DECIDE_H

#include "packet.h"

struct shim_gate;
struct shim_lease;
struct shim_limiter;
struct shim_peer;
struct shim_settings;
struct shim_uplink;
struct shim_vm;

/* What a packet of a VM passes through; valid within the RCU read section. */
struct shim_passage {
	struct shim_limiter *limiter;	/* NULL: nothing, it passes untouched */
	struct shim_peer *peer;		/* NULL: it has none of its own */
	const struct shim_settings *settings;	/* in force; NULL: no peer, no connection */
	struct shim_gate *gate;	/* of its path, or of what has no peer; NULL: none */
	bool made_ect;			/* the shim made it ECT */
	bool lends;			/* what is like it may pass by a lease */
	struct shim_lease *lease;	/* of this CPU, for packets like it; NULL: none */
};

/*
 * Decides what a packet from a VM to an uplink becomes: fills *action, and *passage for its parts
 * if it is to be cut.  lease: this CPU's for packets of its kind, which the host compares, NULL: it
 * has none; once the packet may leave at once, lease->valid tells whether the next ones may pass by
 * it.  Softirqs off, RCU read lock.
 */
void shim_decide_sent(struct shim_vm *vm, struct shim_uplink *uplink,
		      const struct shim_packet *packet, struct shim_lease *lease,
		      struct shim_passage *passage, struct shim_action *action);

/*
 * Decides about a packet that needs no further look, or a part of one that was cut: charges the
 * buckets of its passage, and fills in *action what they say.  Softirqs off, RCU read lock.
 */
void shim_admit(const struct shim_passage *passage, const struct shim_packet *packet,
		struct shim_action *action);

/*
 * Decides what a packet from an uplink to a VM becomes, that is no control message; lease as in
 * shim_decide_sent().  Softirqs off, RCU read lock.
 */
void shim_decide_received(struct shim_vm *vm, struct shim_uplink *uplink,
			  const struct shim_packet *packet, struct shim_lease *lease,
			  struct shim_action *action);

/* Ends a lease, whoever lent: all is told and given back.  The lease's CPU; RCU read lock. */
void shim_lease_finish(struct shim_lease *lease, u64 now_ns);

#endif
