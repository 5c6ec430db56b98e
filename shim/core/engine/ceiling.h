/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The ceiling of a VM over all its uplinks; ceiling.c has the algebra.
 */
#ifndef SHIM_CORE_ENGINE_CEILING_H
#define SHIM_CORE_ENGINE_CEILING_H

#include "../types.h"

struct shim_limiter;
struct shim_vm;

/* A limiter's part of its VM's ceiling; under vm->lock. */
struct shim_ceiling {
	u64 part;		/* bytes/s; 0: the VM has no ceiling.  Read without a lock */
	u64 next;		/* the same as a division under way has it; 0: not yet known */
	u64 demand;		/* what the limiter could use of it, bytes/s */
	u64 bytes;		/* that it had sent when the window began */
	u64 packets;		/* the same in packets */
	u32 held;		/* packets that it had held back by then, modulo 2^32 */
};

/*
 * Divides the ceiling of a VM among its active limiters, and `newcomer`, which is about to become
 * active; NULL: none is.  Does nothing while what they sent is to be measured for longer, unless
 * there is another ceiling or set of limiters.  vm->lock.
 */
void shim_ceiling_divide(struct shim_vm *vm, struct shim_limiter *newcomer, u64 now_ns);

#endif
