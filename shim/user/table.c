// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Hash tables of user space.
 */
#include <errno.h>

#include "host.h"

/* Chains of a new table. */
#define CHAINS_MIN 64

/* Returns the link to the chain of a hash.  table->lock. */
static struct shim_table_node **table_chain(const struct shim_table *table, u64 hash)
{
	return &table->chains[hash & (table->n_chains - 1)];
}

/* Gives a table twice as many chains, if there is memory.  table->lock. */
static void table_grow(struct shim_table *table)
{
	struct shim_table_node **old = table->chains, **link, *node, *next;
	u32 i, n = table->n_chains;

	link = shim_host_alloc(2 * (size_t)n * sizeof(*link));
	if (!link)
		return;
	table->chains = link;
	table->n_chains = 2 * n;
	for (i = 0; i < n; i++) {
		for (node = old[i]; node; node = next) {
			next = node->next;
			link = table_chain(table, node->hash);
			node->next = *link;
			*link = node;
		}
	}
	shim_free(old);
}

int shim_table_init(struct shim_table *table, const struct shim_table_params *params)
{
	(void)params;
	spin_lock_init(&table->lock);
	table->chains = shim_host_alloc(CHAINS_MIN * sizeof(*table->chains));
	table->n_chains = CHAINS_MIN;
	table->n_nodes = 0;
	shim_host_random(table->key, sizeof(table->key));
	return table->chains ? 0 : -ENOMEM;
}

void shim_table_exit(struct shim_table *table)
{
	shim_free(table->chains);
	table->chains = NULL;
}

void *shim_table_find(struct shim_table *table, const void *key, struct shim_table_params params)
{
	u64 hash = shim_siphash(table->key, key, params.key_len);
	struct shim_table_node *node;
	u8 *object = NULL;

	spin_lock(&table->lock);
	for (node = *table_chain(table, hash); node; node = node->next) {
		object = (u8 *)node - params.head_offset;
		if (node->hash == hash && !memcmp(object + params.key_offset, key, params.key_len))
			break;
	}
	spin_unlock(&table->lock);
	return node ? object : NULL;
}

int shim_table_insert(struct shim_table *table, struct shim_table_node *node,
		      struct shim_table_params params)
{
	const u8 *object = (u8 *)node - params.head_offset;
	struct shim_table_node **link;

	node->hash = shim_siphash(table->key, object + params.key_offset, params.key_len);
	spin_lock(&table->lock);
	if (table->n_nodes >= table->n_chains && table->n_chains <= U32_MAX / 4)
		table_grow(table);
	link = table_chain(table, node->hash);
	node->next = *link;
	*link = node;
	WRITE_ONCE(table->n_nodes, table->n_nodes + 1);
	spin_unlock(&table->lock);
	return 0;
}

int shim_table_remove(struct shim_table *table, struct shim_table_node *node,
		      struct shim_table_params params)
{
	struct shim_table_node **link;
	int error = -ENOENT;

	(void)params;
	spin_lock(&table->lock);
	for (link = table_chain(table, node->hash); *link; link = &(*link)->next) {
		if (*link != node)
			continue;
		*link = node->next;
		WRITE_ONCE(table->n_nodes, table->n_nodes - 1);
		error = 0;
		break;
	}
	spin_unlock(&table->lock);
	return error;
}

u32 shim_table_longest(struct shim_table *table)
{
	struct shim_table_node *node;
	u32 i, n, longest = 0;

	spin_lock(&table->lock);
	for (i = 0; i < table->n_chains; i++) {
		n = 0;
		for (node = table->chains[i]; node; node = node->next)
			n++;
		longest = max(longest, n);
	}
	spin_unlock(&table->lock);
	return longest;
}
