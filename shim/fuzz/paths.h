/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fuzzers know of paths: messages that make them, and what must hold for those that are there.
 *
 * Beside each path stands an exact account of its bucket, c bytes of credit, at most the depth B,
 * that grow by the path's rate R and shrink by what passes; where something else has a packet of L
 * bytes leave later than they would, at D, the account goes on from there:
 *
 *   c(D) = min(c + R * (D - now) - L, B - L)        no later packet leaves before D
 *
 * That is "no more than max(B, a packet) + R * t in any time t", by the times at which packets
 * leave.  Where the rate has risen and packets wait by the one before, the last until D as the gate
 * has it, none leaves before D, and with s bytes that have passed since the rise
 *
 *   c(D) = min(c + R * (D - now), B) - s
 *
 * where c is at most B + s until D, and what another change before D finds is c - s.
 * Under maxmin the account remembers each teller's rate: R is no more than the lowest that is in
 * force, or the guarantee, and no less than the lowest, or the ceiling.
 */
#ifndef SHIM_FUZZ_PATHS_H
#define SHIM_FUZZ_PATHS_H

#include "input.h"

struct fuzz_world;

/* Bytes of the longest message that fuzz_paths_build() writes. */
#define FUZZ_PATHS_BYTES SHIM_MESSAGE_MOST_BYTES

/* Forgets the accounts of a VM that is new. */
void fuzz_paths_begin(u32 vm);

/* Forgets what was told of all paths: a knob has changed how long it holds. */
void fuzz_paths_unlearn(void);

/* Lets the accounts of a VM have what the rates in force paid in some time. */
void fuzz_paths_pay(u32 vm, u64 ns);

/* Checks the paths of all VMs: their tables, and what they counted. */
void fuzz_paths_check(const struct fuzz_world *world);

/*
 * Returns the path of the longest prefix for what a VM sends, which the engine must find, too;
 * NULL: none.  version: 0, or that of IP; end: the far end of its tunnel, NULL: none.
 */
const struct shim_path *fuzz_paths_find(const struct fuzz_world *world, u32 vm, u8 version,
					const struct shim_address *destination,
					const struct shim_address *end);

/* Charges a packet, or a part of one, of `bytes` that passed, to leave at departure_ns. */
void fuzz_paths_passed(const struct fuzz_world *world, u32 vm, const struct shim_path *path,
		       u32 bytes, u64 departure_ns);

/*
 * Writes a message of version 2, of which *head says what stands before the entries, and checks
 * that it reads as it was written; returns how many bytes it has.
 */
u32 fuzz_paths_build(struct fuzz_input *input, u32 vm, const struct shim_message *head,
		     const u8 *key, u8 data[FUZZ_PATHS_BYTES]);

/* Takes note of a message of version 2 that a VM obeyed, and checks the rates that follow. */
void fuzz_paths_heard(const struct fuzz_world *world, u32 vm, const u8 *data, u32 len);

#endif
