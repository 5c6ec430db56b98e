/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Paths: parts of what a VM sends that controllers tell of, by where they go.
 */
#ifndef SHIM_CORE_ENGINE_PATH_H
#define SHIM_CORE_ENGINE_PATH_H

#include "../host.h"
#include "../law.h"
#include "gate.h"

struct shim_uplink;
struct shim_vm;

/* Paths of one VM, and of all VMs of an engine, but for the rest that each may have. */
#define SHIM_PATHS_MAX 127
#define SHIM_PATHS_MAX_HOST 65536

/* An address, or a prefix's, as a number. */
struct shim_number {
	u64 high;			/* its first 64 bits */
	u64 low;			/* the others */
};

/* Found under RCU. */
struct shim_path {
	struct shim_gate gate;		/* its bucket */

	/* Under vm->lock. */
	struct list_head node;		/* in vm->paths, by scope, first address and length */
	struct shim_number first;	/* the first address of its prefix */
	u8 bits;			/* of the prefix, 0..128; 0: the rest */
	u8 scope;			/* enum shim_message_scope */
	bool done;			/* to be removed */
	struct shim_path *around;	/* the longest of the shorter prefixes; while building */
	bool limited;			/* its bucket held packets back in the last period */
	u64 last_wire;			/* gate.wire at the last visit */
	u64 last_held;			/* gate.held at the last visit */
	u64 sent_rate;			/* over the last period, bytes/s */
	u64 usual_rate;			/* the same as a mean over some periods */
	shim_rcu_t rcu;			/* deferred free */
	struct shim_limiter_state state;	/* of the law; its own part follows */
};

/* What there is to tell of a path. */
struct shim_path_reading {
	struct shim_address prefix;	/* its first address */
	u64 rate;			/* in force, bytes/s */
	u64 sent_rate;			/* over the last period, bytes/s; 0: idle */
	u64 bytes;			/* sent, headers as on the wire */
	u64 wire;			/* the same as they take of the wire */
	u64 packets;			/* sent */
	u64 held;			/* packets that its bucket let wait, or dropped */
	u8 bits;			/* of the prefix that count; 0: the rest */
	u8 scope;			/* enum shim_message_scope */
	bool limited;			/* some were, in the last period */
};

/* Addresses from one on, up to the next range. */
struct shim_path_range {
	struct shim_number first;	/* the first of them */
	struct shim_path *path;		/* theirs; NULL: none */
};

/* How the paths of a VM are found: never changed in place. */
struct shim_path_index {
	shim_rcu_t rcu;			/* deferred free */
	struct shim_path *rest;		/* of what has no other; NULL: there is none */
	u32 n[2];			/* ranges of each scope; all addresses are in one */
	struct shim_path_range ranges[];	/* those of SHIM_SCOPE_DESTINATION come first */
};

/* Returns 8 bytes in network order as a number; spelt out, compilers make it one instruction. */
static inline u64 shim_bytes_number(const u8 bytes[8])
{
	return (u64)bytes[0] << 56 | (u64)bytes[1] << 48 | (u64)bytes[2] << 40 |
	       (u64)bytes[3] << 32 | (u64)bytes[4] << 24 | (u64)bytes[5] << 16 |
	       (u64)bytes[6] << 8 | bytes[7];
}

/* Returns an address as a number. */
static inline struct shim_number shim_address_number(const u8 bytes[16])
{
	return (struct shim_number){
		.high = shim_bytes_number(bytes),
		.low = shim_bytes_number(bytes + 8),
	};
}

/* Writes a number as an address. */
static inline void shim_number_address(struct shim_number number, u8 bytes[16])
{
	int i;

	for (i = 0; i < 8; i++) {
		bytes[i] = (u8)(number.high >> (56 - 8 * i));
		bytes[8 + i] = (u8)(number.low >> (56 - 8 * i));
	}
}

/* Returns room for the index of n paths beside the rest, NULL without memory. */
struct shim_path_index *shim_path_index_alloc(u32 n);

/* Fills an index with the paths of a VM that are not done, puts it in force.  vm->lock. */
void shim_path_index_publish(struct shim_vm *vm, struct shim_path_index *index);

/* Tells whether a prefix has all addresses of another one. */
bool shim_path_covers(struct shim_number first, u32 bits, struct shim_number of);

/*
 * Returns the path that a packet of a VM takes, NULL if it has none.  Softirqs off, RCU read lock.
 */
struct shim_path *shim_path_find(const struct shim_vm *vm, const struct shim_packet *packet);

/*
 * Obeys a message of version 2, whose bytes are data, and of which all but the rate of the whole VM
 * is to be heeded.  vm->lock, RCU read lock.
 */
void shim_paths_message(struct shim_vm *vm, const struct shim_message *message, const u8 *data,
			u64 now_ns);

/*
 * Measures what was sent in elapsed_ns, 0: measures nothing, lets the law take the step of a
 * period, and forgets paths that bind no more.  vm->lock.
 */
void shim_paths_step(struct shim_vm *vm, u64 now_ns, u64 elapsed_ns);

/* Reads a path.  vm->lock. */
void shim_path_read(struct shim_path *path, struct shim_path_reading *reading);

/* Forgets all paths of a VM.  vm->lock. */
void shim_paths_remove(struct shim_vm *vm);

#endif
