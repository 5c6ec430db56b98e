// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * How a packet finds its path: one binary search.
 *
 * Prefixes nest or have nothing in common, so n of them cut the addresses into at most 2 n + 1
 * ranges with one longest prefix each.  An index has the ranges' first addresses in order; it is
 * made anew when a path comes or goes, which takes a message or a tick, never a packet.
 */
#include "engine.h"

/* Ranges that n prefixes can make, and one of each scope that has none. */
#define RANGES(n) (2 * (n) + 2)

struct shim_path_index *shim_path_index_alloc(u32 n)
{
	struct shim_path_index *index = NULL;

	return shim_alloc_now(struct_size(index, ranges, RANGES(n)));
}

/* Returns a number of which the first `bits` are set. */
static struct shim_number path_mask(u32 bits)
{
	return (struct shim_number){
		.high = !bits ? 0 : bits >= 64 ? ~0ULL : ~0ULL << (64 - bits),
		.low = bits <= 64 ? 0 : ~0ULL << (128 - bits),
	};
}

bool shim_path_covers(struct shim_number first, u32 bits, struct shim_number of)
{
	struct shim_number mask = path_mask(bits);

	return !((first.high ^ of.high) & mask.high) && !((first.low ^ of.low) & mask.low);
}

/* Lets a range of a scope begin at an address, no lower than the one before. */
static void index_put(struct shim_path_index *index, u8 scope, struct shim_number first,
		      struct shim_path *path)
{
	struct shim_path_range *range = &index->ranges[index->n[0] + index->n[1]];
	struct shim_path_range *last = range - 1;

	if (index->n[scope] && last->first.high == first.high && last->first.low == first.low)
		range = last;
	else
		index->n[scope]++;
	range->first = first;
	range->path = path;
}

/* Lets the range around a path go on behind it; returns the path that is around it. */
static struct shim_path *index_leave(struct shim_path_index *index, struct shim_path *path)
{
	struct shim_number mask = path_mask(path->bits);
	struct shim_number next = {
		.high = path->first.high | ~mask.high,
		.low = path->first.low | ~mask.low,
	};

	next.low++;
	if (!next.low)
		next.high++;
	/* Nothing is behind the last address. */
	if (next.high | next.low)
		index_put(index, path->scope, next, path->around);
	return path->around;
}

/* Fills in the ranges of a scope.  vm->lock. */
static void index_fill(struct shim_path_index *index, const struct shim_vm *vm, u8 scope)
{
	struct shim_path *path, *top = NULL;

	index_put(index, scope, (struct shim_number){}, NULL);
	list_for_each_entry(path, &vm->paths, node) {
		if (path->done || path->scope != scope)
			continue;
		if (!path->bits) {
			index->rest = path;
			continue;
		}
		while (top && !shim_path_covers(top->first, top->bits, path->first))
			top = index_leave(index, top);
		path->around = top;
		index_put(index, scope, path->first, path);
		top = path;
	}
	while (top)
		top = index_leave(index, top);
}

void shim_path_index_publish(struct shim_vm *vm, struct shim_path_index *index)
{
	struct shim_path_index *old;

	old = rcu_dereference_protected(vm->path_index, lockdep_is_held(&vm->lock));
	index_fill(index, vm, SHIM_SCOPE_DESTINATION);
	index_fill(index, vm, SHIM_SCOPE_TUNNEL);
	rcu_assign_pointer(vm->path_index, index);
	WRITE_ONCE(vm->mode.wants, vm->mode.wants | SHIM_VM_PATHS);
	if (old)
		shim_free_rcu(old, rcu);
}

/* Returns the path of the range that an address is in, NULL if it has none; n is not 0. */
static struct shim_path *index_find(const struct shim_path_range *ranges, u32 n,
				    const struct shim_address *address)
{
	struct shim_number number = shim_address_number(address->bytes);
	u32 half;

	for (; n > 1; n -= half) {
		half = n / 2;
		if (ranges[half].first.high < number.high ||
		    (ranges[half].first.high == number.high &&
		     ranges[half].first.low <= number.low))
			ranges += half;
	}
	return ranges->path;
}

struct shim_path *shim_path_find(const struct shim_vm *vm, const struct shim_packet *packet)
{
	const struct shim_path_index *index = rcu_dereference(vm->path_index);
	struct shim_path *path = NULL;
	struct shim_address end;

	if (!index)
		return NULL;
	if (packet->version && index->n[SHIM_SCOPE_DESTINATION] > 1)
		path = index_find(index->ranges, index->n[SHIM_SCOPE_DESTINATION],
				  &packet->destination);
	if (!path && index->n[SHIM_SCOPE_TUNNEL] > 1 && shim_host_tunnel_end(packet, &end))
		path = index_find(index->ranges + index->n[SHIM_SCOPE_DESTINATION],
				  index->n[SHIM_SCOPE_TUNNEL], &end);
	return path ? path : index->rest;
}
