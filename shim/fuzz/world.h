/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that fuzzers work on: an engine with a few VMs and uplinks, what an operator may do to
 * it, and what must hold whatever he does.
 *
 * Beside each limiter stands a meter, an exact account of it: c bytes of credit, at most the depth
 * B, that grow by R a second and shrink by what passes.
 *
 *   police:  c >= 0 after each packet that passed
 *   pace:    -c <= max(R * horizon, the packet, 11 full packets), and the packet departs no
 *            earlier than R has paid for -c; where packets may go ahead, earlier if an eighth of R
 *            pays for all that did, but for max(R * horizon, 11 full packets) / 8, of that for 7/8
 *            if it is no small one, and then -c may be an eighth more
 *
 * That is "no more than B + R * t in any time t", for rates that change.
 */
#ifndef SHIM_FUZZ_WORLD_H
#define SHIM_FUZZ_WORLD_H

#include "../user/lab.h"
#include "input.h"
#include "paths.h"

/* VMs and uplinks of the host. */
#define FUZZ_VMS 3
#define FUZZ_UPLINKS 2

/* Operations of fuzz_world_operate(). */
#define FUZZ_WORLD_OPERATIONS 13

/* The account of a limiter. */
struct fuzz_meter {
	fuzz_wide credit;		/* c * 10^9 */
	fuzz_wide ahead;		/* bytes that went ahead and are not paid, * 8 * 10^9 */
	u64 bytes;			/* that passed */
	u64 drops;			/* packets that the limiter refused */
	bool begun;			/* the limiter was seen */
};

/* The host. */
struct fuzz_world {
	struct shim_lab *lab;		/* its engine */
	struct shim_vm *vms[FUZZ_VMS];	/* NULL: could not be had */
	struct shim_uplink *uplinks[FUZZ_UPLINKS];	/* NULL: could not be had */
	struct fuzz_meter meters[FUZZ_VMS][FUZZ_UPLINKS];	/* of the limiters */
	u8 keys[2][SHIM_KEY_BYTES];	/* keys in force */
	bool keys_set[2];		/* which of them are */
	bool fits;			/* guarantees fit all uplinks */
};

/* Makes a host, some of whose allocations may fail; false: there is no memory for one. */
bool fuzz_world_begin(struct fuzz_world *world, struct fuzz_input *input);

/* Removes it, and checks that nothing is left. */
void fuzz_world_end(struct fuzz_world *world);

/* Does one of FUZZ_WORLD_OPERATIONS things that an operator, or time, can do. */
void fuzz_world_operate(struct fuzz_world *world, u32 operation, struct fuzz_input *input);

/* Lets time go by, and the clocks tick that are due. */
void fuzz_world_pass(struct fuzz_world *world, u64 ns);

/* Checks what must hold between operations. */
void fuzz_world_check(struct fuzz_world *world);

/* Charges a packet, or a part of one, of `bytes` that passed, to leave at departure_ns. */
void fuzz_world_passed(struct fuzz_world *world, u32 vm, u32 uplink, u32 bytes, u64 departure_ns);

/* Notes why a packet was refused, if it was; limiters' refusals are in their accounts. */
void fuzz_world_dropped(struct fuzz_world *world, u32 vm, u32 uplink, enum shim_counter drop,
			u32 packets);

/* Takes one of a few addresses, of which a VM's own are the first. */
void fuzz_address(struct fuzz_input *input, u32 vm, struct shim_address *address);

#endif
