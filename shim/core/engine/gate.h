/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Gates: a bucket that some packets of a VM pass beside the VM's own.
 */
#ifndef SHIM_CORE_ENGINE_GATE_H
#define SHIM_CORE_ENGINE_GATE_H

#include "../bucket.h"
#include "../host.h"
#include "limiter.h"
#include "packet.h"

struct shim_mode;

struct shim_gate {
	spinlock_t lock;		/* of what follows; inside peer->lock */
	enum shim_counter drop;		/* what a packet over its rate is; never changes */
	u64 tat;			/* bucket word */
	u64 late_ns;	/* departure of the last packet that something else had wait longer */
	struct shim_order order;	/* behind those that wait by a lower rate */
	struct shim_rate rate;		/* bytes_per_s 0: not yet set */
	u32 whole_bytes;	/* as shim_limiter.whole_bytes; U32_MAX: not yet set */
	u32 frame;		/* on the wire, of the limiter asked last: a full packet, bytes */
	u64 bytes;			/* that passed, headers as on the wire */
	u64 wire;			/* the same as they take of the wire */
	u64 packets;			/* that passed */
	u64 held;	/* packets that nothing else had wait as long, or dropped here */
};

/* Prepares a gate, all 0 so far; drop: what a packet over its rate is. */
void shim_gate_init(struct shim_gate *gate, enum shim_counter drop);

/* Puts a rate and the VM's depth in force; credit, debt and order stay.  vm->lock. */
void shim_gate_set(struct shim_gate *gate, u64 bytes_per_s, const struct shim_mode *mode,
		   u64 now_ns);

/*
 * Judges a packet as shim_limiter_admit() does, by a gate and by the limiter; neither is charged
 * for what the other drops.  Softirqs off.
 */
enum shim_counter shim_gate_judge(struct shim_gate *gate, struct shim_limiter *limiter,
				  const struct shim_packet *packet, bool made_ect,
				  const struct shim_borrower *borrower, u64 *departure_ns);

/*
 * Returns true if a gate would drop a packet of so many bytes that came at now_ns; horizon_ns: the
 * VM's.  Softirqs off.
 */
bool shim_gate_full(struct shim_gate *gate, u32 bytes, u64 horizon_ns, u64 now_ns);

/* As shim_gate_judge() for a packet that may have no gate: NULL. */
static inline enum shim_counter shim_gate_admit(struct shim_gate *gate,
						struct shim_limiter *limiter,
						const struct shim_packet *packet, bool made_ect,
						const struct shim_borrower *borrower,
						u64 *departure_ns)
{
	if (unlikely(gate))
		return shim_gate_judge(gate, limiter, packet, made_ect, borrower, departure_ns);
	return shim_limiter_admit(limiter, packet, made_ect, borrower, departure_ns);
}

#endif
