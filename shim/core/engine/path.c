// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Paths: what a VM sends to destinations that controllers name has a bucket of its own, under that
 * of the VM, and the law steers it as it steers a VM's limiter.
 *
 * Who makes one is a message, never a packet: a guest that talks to many makes none.  A VM has at
 * most SHIM_PATHS_MAX, and an engine SHIM_PATHS_MAX_HOST, beside the rest that each VM may have.  A
 * path goes when the law says that it binds no more, and all of a VM's when the VM is inactive.
 *
 * What a message says that finds no room for its prefix binds the rest, as if it had been said of
 * that, the lowest rate of all such; without memory even for the rest, it binds the whole VM.  So
 * a table that is full binds, and never frees.
 *
 * Of nested prefixes a packet takes the longest.  What is said of a prefix is said of those within,
 * too: the law is told for each, and a new path begins with the state of the one around it.  The
 * rest is around nothing.
 *
 * A VM's guarantee is one of the sum: each path has as much of it as its part of what the VM sends,
 * by means over about USUAL_NS.  A path that waits for packets of a lower rate to leave sends
 * nothing for some periods, and must not lose its part by that.
 *
 * E and C of paths are the sums of those of the VM's active limiters, for paths lead over all of
 * the VM's uplinks.
 */
#include "../arith.h"
#include "engine.h"

/* Time over which a rate becomes usual, ns: ten times what a rise lets a path wait. */
#define USUAL_NS 50000000ULL

/* What is said, while a message is obeyed. */
struct path_told {
	struct shim_vm *vm;		/* to whom */
	u64 now_ns;			/* when */
	struct shim_law_input input;	/* what the law knows of the VM */
	struct shim_number first;	/* of the entry's prefix */
	struct shim_message_entry entry;	/* of which */
	struct shim_message message;	/* what it says, as laws are told */
	struct shim_path_index *index;	/* to be published; NULL: no path came */
	u32 room;			/* paths that an index would have to have room for */
};

/*
 * Fills in what laws know of all that a VM sends; false if it is inactive.  Guarantee and ceiling
 * are the VM's: a limiter's part of the ceiling binds one uplink.  vm->lock.
 */
static bool paths_input(struct shim_vm *vm, u64 now_ns, struct shim_law_input *input)
{
	struct shim_limiter *limiter;
	bool active = false;

	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock))) {
		struct shim_law_input one;

		if (!limiter->active)
			continue;
		one = shim_limiter_input(vm, limiter, limiter->uplink, now_ns);
		if (active) {
			one.capacity = shim_add_sat(one.capacity, input->capacity);
			one.share = shim_add_sat(one.share, input->share);
			one.sent_rate = shim_add_sat(one.sent_rate, input->sent_rate);
		}
		*input = one;
		active = true;
	}
	input->min = vm->config.min;
	input->max = vm->config.max;
	if (input->max)
		input->min = min(input->min, input->max);
	return active;
}

/* Returns what the law knows of one path.  vm->lock. */
static struct shim_law_input path_input(const struct shim_vm *vm, const struct shim_path *path,
					const struct shim_law_input *whole)
{
	u64 sent = max(vm->usual_rate, path->usual_rate);
	struct shim_law_input input = *whole;

	input.sent_rate = path->sent_rate;
	input.min = sent ? shim_mul_div(whole->min, path->usual_rate, sent) : 0;
	return input;
}

/* Moves a rate that is usual towards one that was measured over elapsed_ns, bytes/s. */
static u64 path_usual(u64 usual, u64 measured, u64 elapsed_ns)
{
	elapsed_ns = min(elapsed_ns, USUAL_NS);
	return shim_mul_div(usual, USUAL_NS - elapsed_ns, USUAL_NS) +
	       shim_mul_div(measured, elapsed_ns, USUAL_NS);
}

/* Puts the law's rate of a path in force; K is the VM's own.  vm->lock. */
static void path_apply(struct shim_vm *vm, struct shim_path *path, u64 now_ns)
{
	shim_gate_set(&path->gate, path->state.rate, &vm->mode, now_ns);
}

/* Tells whether a prefix is in front of a path, or the path's own, in the list of a VM. */
static bool path_behind(const struct shim_path *path, u8 scope, struct shim_number first, u8 bits)
{
	if (path->scope != scope)
		return path->scope > scope;
	if (path->first.high != first.high)
		return path->first.high > first.high;
	if (path->first.low != first.low)
		return path->first.low > first.low;
	return path->bits >= bits;
}

/* Tells whether what is said of the entry's prefix is said of a path, too. */
static bool path_concerned(const struct shim_path *path, const struct path_told *told)
{
	const struct shim_message_entry *entry = &told->entry;

	if (!entry->bits || !path->bits)
		return entry->bits == path->bits;
	return path->scope == entry->scope && path->bits >= entry->bits &&
	       shim_path_covers(told->first, entry->bits, path->first);
}

/*
 * Finds the path of the entry's prefix; if there is none, *before is the node that a new one goes
 * in front of, and *around the longest path around it, NULL: there is none.
 */
static struct shim_path *paths_lookup(const struct path_told *told, struct list_head **before,
				      struct shim_path **around)
{
	const struct shim_message_entry *entry = &told->entry;
	struct shim_path *path;

	*before = &told->vm->paths;
	*around = NULL;
	list_for_each_entry(path, &told->vm->paths, node) {
		if (path_behind(path, entry->scope, told->first, entry->bits)) {
			*before = &path->node;
			return path_concerned(path, told) && path->bits == entry->bits ? path :
											  NULL;
		}
		if (path->bits && path->scope == entry->scope &&
		    shim_path_covers(path->first, path->bits, told->first))
			*around = path;
	}
	return NULL;
}

/* Frees a path that no packet can hold any more. */
static void path_free(shim_rcu_t *head)
{
	shim_free(container_of(head, struct shim_path, rcu));
}

/* Takes a path off the list of its VM, which packets do not find it by.  vm->lock. */
static void path_remove(struct shim_vm *vm, struct shim_path *path)
{
	list_del(&path->node);
	WRITE_ONCE(vm->n_paths, vm->n_paths - 1);
	if (path->bits)
		atomic64_add(-1, &vm->engine->n_paths);
	shim_call_rcu(&path->rcu, path_free);
}

/* Tells whether a VM may have one more path for a prefix; counted then.  vm->lock. */
static bool paths_enter(struct shim_vm *vm)
{
	const struct shim_path *first = list_first_entry_or_null(&vm->paths, struct shim_path,
								 node);

	/* The rest, which is the first if there is one, has a place of its own. */
	if (vm->n_paths - (first && !first->bits) >= SHIM_PATHS_MAX)
		return false;
	/* Two VMs that come at once may go beyond by one each. */
	if (atomic64_read(&vm->engine->n_paths) >= SHIM_PATHS_MAX_HOST)
		return false;
	atomic64_add(1, &vm->engine->n_paths);
	return true;
}

/* Returns a new path for the entry's prefix, NULL without memory.  vm->lock. */
static struct shim_path *path_create(struct path_told *told, struct list_head *before,
				     const struct shim_path *around)
{
	const struct shim_law *law = told->vm->clock->law;
	struct shim_vm *vm = told->vm;
	struct shim_law_input input;
	struct shim_path *path;

	if (!told->index)
		told->index = shim_path_index_alloc(told->room);
	path = told->index ? shim_alloc_now(sizeof(*path) + law->limiter_size) : NULL;
	if (!path)
		return NULL;
	shim_gate_init(&path->gate, SHIM_DROP_PATH);
	path->first = told->first;
	path->bits = told->entry.bits;
	path->scope = told->entry.scope;
	input = path_input(vm, path, &told->input);
	if (around)
		memcpy(&path->state, &around->state, sizeof(path->state) + law->limiter_size);
	else
		law->path_init(&path->state, &input);
	path_apply(vm, path, told->now_ns);
	list_add_tail(&path->node, before);
	WRITE_ONCE(vm->n_paths, vm->n_paths + 1);
	return path;
}

/* Sees to it that the entry's prefix has a path; false if there can be none.  vm->lock. */
static bool path_provide(struct path_told *told)
{
	struct shim_path *path, *around;
	struct shim_vm *vm = told->vm;
	struct list_head *before;

	path = paths_lookup(told, &before, &around);
	if (path)
		return true;
	if (told->entry.bits && !paths_enter(vm)) {
		shim_vm_count(vm, SHIM_PATHS_FULL, 1);
		return false;
	}
	if (path_create(told, before, around))
		return true;
	if (told->entry.bits)
		atomic64_add(-1, &vm->engine->n_paths);
	shim_vm_count(vm, SHIM_PATHS_NO_MEMORY, 1);
	return false;
}

/* Lets the law heed what is said of each path that the entry concerns.  vm->lock. */
static void paths_tell(struct path_told *told)
{
	const struct shim_law *law = told->vm->clock->law;
	struct shim_law_input input;
	struct shim_path *path;

	list_for_each_entry(path, &told->vm->paths, node) {
		if (!path_concerned(path, told))
			continue;
		input = path_input(told->vm, path, &told->input);
		law->on_message(&path->state, &input, &told->message);
		path_apply(told->vm, path, told->now_ns);
	}
}

/* Lets what is said of a prefix without room bind the rest, or else the whole VM.  vm->lock. */
static void paths_bind_rest(struct path_told *told)
{
	struct shim_limiter *limiter;
	struct shim_vm *vm = told->vm;

	told->entry.bits = 0;
	told->entry.scope = SHIM_SCOPE_DESTINATION;
	told->first = (struct shim_number){};
	told->message.bits = 0;
	told->message.lowest = true;
	if (path_provide(told)) {
		paths_tell(told);
		return;
	}
	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		shim_limiter_message(limiter, &told->message, told->now_ns);
}

/* Makes what an entry says the message that laws are told. */
static void path_read(struct path_told *told, const struct shim_message *message, const u8 *data,
		      u32 i)
{
	struct shim_message_entry *entry = &told->entry;

	shim_message_entry(entry, data, i);
	told->first = shim_address_number(entry->prefix);
	told->message = *message;
	told->message.teller = entry->teller;
	told->message.bits = entry->bits;
	told->message.rate = entry->rate;
	told->message.marks = entry->marks;
	told->message.interval_ns = entry->interval_ns;
	told->message.weight_total = entry->weight_total;
}

/* Ends the start of a VM that is told of its paths.  vm->lock. */
static void paths_known(struct shim_vm *vm, u64 now_ns)
{
	const struct shim_law *law = vm->clock->law;
	struct shim_limiter *limiter;
	struct shim_law_input input;

	limiter = rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock))) {
		if (!limiter->active)
			continue;
		input = shim_limiter_input(vm, limiter, limiter->uplink, now_ns);
		law->on_paths(&limiter->state, &input);
		shim_limiter_apply(limiter, now_ns);
	}
}

void shim_paths_message(struct shim_vm *vm, const struct shim_message *message, const u8 *data,
			u64 now_ns)
{
	struct path_told told = { .vm = vm, .now_ns = now_ns };
	u32 i;

	if (!paths_input(vm, now_ns, &told.input))
		return;
	told.room = min_t(u32, vm->n_paths + message->entries, SHIM_PATHS_MAX);
	for (i = 0; i < message->entries; i++) {
		path_read(&told, message, data, i);
		if (path_provide(&told))
			paths_tell(&told);
		else
			paths_bind_rest(&told);
	}
	/* There was memory for an index, but maybe for none of its paths. */
	if (told.index && vm->n_paths)
		shim_path_index_publish(vm, told.index);
	else
		shim_free(told.index);
	if (message->type == SHIM_MESSAGE_RATE && vm->clock->law->on_paths)
		paths_known(vm, now_ns);
}

/* Forgets the paths that are done; none, if there is no memory for what stays.  vm->lock. */
static void paths_prune(struct shim_vm *vm, u32 n_done)
{
	struct shim_path_index *index;
	struct shim_path *path, *next;

	if (n_done == vm->n_paths) {
		shim_paths_remove(vm);
		return;
	}
	index = shim_path_index_alloc(vm->n_paths - n_done);
	if (!index)
		return;
	shim_path_index_publish(vm, index);
	list_for_each_entry_safe(path, next, &vm->paths, node)
		if (path->done)
			path_remove(vm, path);
}

void shim_path_read(struct shim_path *path, struct shim_path_reading *reading)
{
	struct shim_gate *gate = &path->gate;

	shim_number_address(path->first, reading->prefix.bytes);
	reading->bits = path->bits;
	reading->scope = path->scope;
	reading->limited = path->limited;
	reading->sent_rate = path->sent_rate;
	spin_lock(&gate->lock);
	reading->rate = gate->rate.bytes_per_s;
	reading->bytes = gate->bytes;
	reading->wire = gate->wire;
	reading->packets = gate->packets;
	reading->held = gate->held;
	spin_unlock(&gate->lock);
}

/* Measures what a path let through in the elapsed_ns > 0 since the last visit.  vm->lock. */
static void path_measure(struct shim_path *path, u64 elapsed_ns)
{
	struct shim_path_reading now;

	shim_path_read(path, &now);
	path->sent_rate = shim_mul_div(now.wire - path->last_wire, SHIM_NSEC_PER_SEC,
				       elapsed_ns);
	path->usual_rate = path_usual(path->usual_rate, path->sent_rate, elapsed_ns);
	path->limited = now.held != path->last_held;
	path->last_wire = now.wire;
	path->last_held = now.held;
}

void shim_paths_step(struct shim_vm *vm, u64 now_ns, u64 elapsed_ns)
{
	struct shim_law_input whole, input;
	const struct shim_law *law;
	struct shim_path *path;
	u32 n_done = 0;

	if (!vm->n_paths)
		return;
	if (!paths_input(vm, now_ns, &whole)) {
		shim_paths_remove(vm);
		return;
	}
	law = vm->clock->law;
	if (elapsed_ns)
		vm->usual_rate = path_usual(vm->usual_rate, whole.sent_rate, elapsed_ns);
	list_for_each_entry(path, &vm->paths, node) {
		if (elapsed_ns)
			path_measure(path, elapsed_ns);
		input = path_input(vm, path, &whole);
		law->on_period(&path->state, &input);
		path_apply(vm, path, now_ns);
		path->done = law->path_rests(&path->state, &input);
		n_done += path->done;
	}
	if (n_done)
		paths_prune(vm, n_done);
}

void shim_paths_remove(struct shim_vm *vm)
{
	struct shim_path_index *index;
	struct shim_path *path, *next;

	index = rcu_dereference_protected(vm->path_index, lockdep_is_held(&vm->lock));
	RCU_INIT_POINTER(vm->path_index, NULL);
	vm->usual_rate = 0;
	WRITE_ONCE(vm->mode.wants, vm->mode.wants & ~SHIM_VM_PATHS);
	if (index)
		shim_free_rcu(index, rcu);
	list_for_each_entry_safe(path, next, &vm->paths, node)
		path_remove(vm, path);
}
