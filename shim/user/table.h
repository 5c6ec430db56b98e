/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A hash table of objects that hold their key and a node, as the engine wants it of its host.
 *
 * Chains of nodes, twice as many chains whenever there are more nodes than chains.  The hash has a
 * key, one for each table, so that nobody outside knows what shares a chain.  A lock guards the
 * whole table where there are threads.
 */
#ifndef SHIM_USER_TABLE_H
#define SHIM_USER_TABLE_H

#include "../core/siphash.h"
#include "memory.h"

/* Where an object has its node and its key. */
struct shim_table_params {
	size_t head_offset;		/* of struct shim_table_node, bytes */
	size_t key_offset;		/* of the key, bytes */
	size_t key_len;			/* bytes */
	bool automatic_shrinking;	/* of no meaning here: chains are never given back */
};

/* What an object has for its table. */
struct shim_table_node {
	struct shim_table_node *next;	/* of the same chain, NULL: the last */
	u64 hash;			/* of the key */
};

/* A table. */
struct shim_table {
	spinlock_t lock;		/* of what follows; innermost of all locks */
	struct shim_table_node **chains;	/* the first node of each */
	u32 n_chains;			/* a power of two */
	u32 n_nodes;			/* of all chains; read without a lock */
	u8 key[SHIM_KEY_BYTES];		/* of the hash; never changes */
};

/* Prepares a table; 0 or -ENOMEM. */
int shim_table_init(struct shim_table *table, const struct shim_table_params *params);

/* Ends a table, whatever is in it. */
void shim_table_exit(struct shim_table *table);

/* Returns the object of a key, NULL if there is none. */
void *shim_table_find(struct shim_table *table, const void *key, struct shim_table_params params);

/* Puts in an object whose key no other has; 0, the only answer there is. */
int shim_table_insert(struct shim_table *table, struct shim_table_node *node,
		      struct shim_table_params params);

/* Takes an object out; 0, or -ENOENT if it is not in. */
int shim_table_remove(struct shim_table *table, struct shim_table_node *node,
		      struct shim_table_params params);

/* Returns the length of the longest chain. */
u32 shim_table_longest(struct shim_table *table);

/* Returns how many objects a table has. */
static inline u32 shim_table_count(const struct shim_table *table)
{
	return READ_ONCE(table->n_nodes);
}

#endif
