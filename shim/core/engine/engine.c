// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The engine: its life, its settings, and the control messages that reach its VMs.
 */
#include "../arith.h"
#include "engine.h"

int shim_engine_init(struct shim_engine *engine, u32 sender, u32 epoch)
{
	struct shim_settings *settings;
	int err;
	u32 i;

	settings = shim_alloc_wait(sizeof(*settings));
	if (!settings)
		return -ENOMEM;
	shim_settings_default(settings);
	RCU_INIT_POINTER(engine->settings, settings);
	INIT_LIST_HEAD(&engine->vms);
	INIT_LIST_HEAD(&engine->uplinks);
	spin_lock_init(&engine->other_lock);
	spin_lock_init(&engine->numbers_lock);
	shim_host_random(&engine->hash_factor, sizeof(engine->hash_factor));
	engine->hash_factor |= 1;
	engine->sender = sender;
	engine->epoch = max_t(u32, epoch, 1);
	engine->epoch_ns = shim_now_ns();
	for (i = 0; i < SHIM_LAW_SLOTS; i++)
		shim_clock_init(&engine->clocks[i], engine, i);
	err = shim_peers_init(engine);
	if (err)
		goto no_peers;
	err = shim_connections_init(engine);
	if (err)
		goto no_connections;
	err = shim_owners_init(engine);
	if (err)
		goto no_owners;
	return 0;

no_owners:
	shim_connections_exit(engine);
no_connections:
	shim_peers_exit(engine);
no_peers:
	shim_free(settings);
	return err;
}

/* Frees settings, of whose keys nothing may stay. */
static void settings_free(struct shim_settings *settings)
{
	memzero_explicit(settings->key, sizeof(settings->key));
	memzero_explicit(settings->key_other, sizeof(settings->key_other));
	shim_free(settings);
}

/* Frees settings that nobody reads any more. */
static void settings_free_rcu(shim_rcu_t *head)
{
	settings_free(container_of(head, struct shim_settings, rcu));
}

void shim_engine_exit(struct shim_engine *engine)
{
	u32 i;

	WARN_ON_ONCE(!list_empty(&engine->vms) || !list_empty(&engine->uplinks));
	for (i = 0; i < SHIM_LAW_SLOTS; i++)
		shim_host_timer_stop(&engine->clocks[i]);
	shim_owners_exit(engine);
	shim_connections_exit(engine);
	shim_peers_exit(engine);
	shim_free(engine->reporters);
	settings_free(rcu_dereference_protected(engine->settings, true));
}

/* Tells whether a key of some settings is one of others. */
static bool settings_share_key(const struct shim_settings *a, const struct shim_settings *b)
{
	const u8 *ours[] = { a->key_set ? a->key : NULL, a->key_other_set ? a->key_other : NULL };
	const u8 *theirs[] = { b->key_set ? b->key : NULL, b->key_other_set ? b->key_other : NULL };
	u32 i, k;

	for (i = 0; i < SHIM_COUNT(ours); i++)
		for (k = 0; k < SHIM_COUNT(theirs); k++)
			if (ours[i] && theirs[k] && !memcmp(ours[i], theirs[k], SHIM_KEY_BYTES))
				return true;
	return false;
}

/* Forgets what was heard of peers' shims under keys that are no more. */
static void engine_forget_reporters(struct shim_engine *engine)
{
	if (!engine->reporters)
		return;
	spin_lock_bh(&engine->numbers_lock);
	memset(engine->reporters, 0, sizeof(*engine->reporters));
	spin_unlock_bh(&engine->numbers_lock);
}

void shim_engine_set(struct shim_engine *engine, struct shim_settings *settings)
{
	struct shim_settings *old = rcu_dereference_protected(engine->settings, true);
	u64 now_ns = shim_now_ns();
	struct shim_vm *vm;
	u32 i;

	rcu_assign_pointer(engine->settings, settings);
	if (!settings_share_key(old, settings))
		engine_forget_reporters(engine);
	list_for_each_entry(vm, &engine->vms, node)
		shim_vm_settle(vm, settings, now_ns);
	for (i = 0; i < SHIM_LAW_SLOTS; i++)
		if (old->laws[i].period_ns != settings->laws[i].period_ns)
			shim_clock_restart(&engine->clocks[i]);
	shim_call_rcu(&old->rcu, settings_free_rcu);
}

void shim_engine_step(struct shim_engine *engine)
{
	const struct shim_settings *settings = shim_engine_settings(engine);
	u64 now_ns = shim_now_ns();
	struct shim_uplink *uplink;
	struct shim_vm *vm;

	list_for_each_entry(uplink, &engine->uplinks, node) {
		local_bh_disable();
		shim_uplink_divide(uplink, now_ns);
		local_bh_enable();
	}
	list_for_each_entry(vm, &engine->vms, node)
		shim_vm_settle(vm, settings, now_ns);
}

void shim_uplink_configure(struct shim_uplink *uplink, u64 configured, u64 link_rate)
{
	spin_lock_bh(&uplink->lock);
	WRITE_ONCE(uplink->configured, configured);
	WRITE_ONCE(uplink->link_rate, link_rate);
	WRITE_ONCE(uplink->divide, true);
	WRITE_ONCE(uplink->divide_rx, true);
	spin_unlock_bh(&uplink->lock);
	shim_engine_step(uplink->engine);
}

u64 shim_engine_exceeds(const struct shim_engine *engine, u64 guaranteed, u64 capacity,
			const struct shim_uplink *except, const struct shim_uplink **least)
{
	const struct shim_uplink *uplink;

	*least = NULL;
	list_for_each_entry(uplink, &engine->uplinks, node) {
		if (uplink == except || shim_uplink_capacity(uplink) >= capacity)
			continue;
		capacity = shim_uplink_capacity(uplink);
		*least = uplink;
	}
	return guaranteed > capacity ? capacity : 0;
}

/* Counters of refusals by reason. */
static const enum shim_counter refusals[] = {
	[SHIM_MESSAGE_OK] = SHIM_MESSAGES,
	[SHIM_MESSAGE_SHORT] = SHIM_REFUSED_SHORT,
	[SHIM_MESSAGE_FORM] = SHIM_REFUSED_FORM,
	[SHIM_MESSAGE_TAG] = SHIM_REFUSED_TAG,
	[SHIM_MESSAGE_REPLAY] = SHIM_REFUSED_REPLAY,
};

/* Notes who still signs with the other key: the longest silent makes room. */
static void engine_note_other(struct shim_engine *engine, u32 sender, u64 now_ns)
{
	struct shim_other_sender *one, *best = engine->others;

	spin_lock(&engine->other_lock);
	for (one = engine->others; one < engine->others + SHIM_OTHER_KEY_SENDERS; one++) {
		if (one->seen_ns && one->sender == sender) {
			best = one;
			break;
		}
		if (one->seen_ns < best->seen_ns)
			best = one;
	}
	best->sender = sender;
	best->seen_ns = max_t(u64, now_ns, 1);
	spin_unlock(&engine->other_lock);
}

/* Reads a message and checks its form and tag; *other: it is signed with the other key. */
static enum shim_message_error engine_read(const struct shim_settings *settings,
					   const struct shim_packet *packet, const u8 *data,
					   size_t len, struct shim_message *message, bool *other)
{
	enum shim_message_error error;

	*other = false;
	if (!packet->plain)
		return SHIM_MESSAGE_FORM;
#ifdef SHIM_LABORATORY
	if (len == SHIM_MESSAGE_V0_BYTES && packet->version == 4 && settings->accept_v0)
		return shim_message_decode_v0(message, data, len);
#endif
	if (len == SHIM_MESSAGE_V0_BYTES && packet->version == 4)
		return SHIM_MESSAGE_FORM;
	/* Without a key the zero key is in its place: never accept by it. */
	if (len >= SHIM_MESSAGE_V1_BYTES && !settings->key_set && !settings->key_other_set)
		return SHIM_MESSAGE_TAG;
	error = shim_message_decode(message, data, len, settings->key);
	if (!error && !settings->key_set)
		error = SHIM_MESSAGE_TAG;
	if (error == SHIM_MESSAGE_TAG && settings->key_other_set) {
		error = shim_message_decode(message, data, len, settings->key_other);
		*other = !error;
	}
	return error;
}

/* Tells whether a message to a VM is no replay, and if so remembers it.  Softirqs off. */
static enum shim_message_error engine_check_replay(struct shim_vm *vm,
						   const struct shim_message *message)
{
	struct shim_engine *engine = vm->engine;
	enum shim_message_error error;

	if (!shim_replay_beyond(vm->before, message))
		return SHIM_MESSAGE_REPLAY;
	spin_lock(&engine->numbers_lock);
	error = shim_replay_check(&engine->replay, message);
	spin_unlock(&engine->numbers_lock);
	return error;
}

/* Tells whether the VM's law obeys messages of that kind; SHIM_COUNTER_NONE: it does.  vm->lock. */
static enum shim_counter engine_check_law(const struct shim_vm *vm,
					  const struct shim_message *message)
{
	const struct shim_law *law = vm->clock->law;

	if ((message->entries && !law->path_init) ||
	    (message->type == SHIM_MESSAGE_RATE && !law->obeys_rates) ||
	    (message->type == SHIM_MESSAGE_LEVEL && !law->obeys_levels))
		return SHIM_REFUSED_LAW;
	return SHIM_COUNTER_NONE;
}

/*
 * Tells whether a message is for whichever VM is behind the port that it was put out at: it names
 * the address :: and came from the bridge itself, whose controller knows ports better than any
 * address that a VM claims.
 */
static bool engine_names_port(const struct shim_uplink *in, const struct shim_message *message)
{
	static const u8 none[sizeof(message->vm)];

	return !in && message->version && message->type != SHIM_MESSAGE_REPORT &&
	       !memcmp(message->vm, none, sizeof(none));
}

/*
 * Checks what a message says against what carried it and whom it reached, and lets those whom it
 * concerns obey; returns what became of it.  vm->lock, RCU read lock.
 */
static enum shim_counter engine_obey(struct shim_vm *vm, const struct shim_uplink *in,
				     const struct shim_packet *packet, const u8 *data,
				     const struct shim_message *message)
{
	struct shim_address told = packet->destination;
	struct shim_limiter *limiter;
	enum shim_counter counter;

	if (vm->gone || !vm->clock)
		return SHIM_REFUSED_LAW;
	if (message->version) {
		/* A bridge that translates addresses (NAT) may have made it the guest's own. */
		memcpy(told.bytes, message->vm, sizeof(message->vm));
		counter = engine_check_law(vm, message);
		if (counter)
			return counter;
		if (message->type == SHIM_MESSAGE_REPORT &&
		    memcmp(message->peer, packet->source.bytes, sizeof(message->peer)))
			return SHIM_REFUSED_ADDRESS;
	}
	/* A bridge that floods hands it to many; only whose address it is may obey. */
	if (!engine_names_port(in, message) && !shim_sources_told(vm, &told, packet))
		return shim_address_equal(&told, &packet->destination) ? SHIM_REFUSED_PORT :
									  SHIM_REFUSED_ADDRESS;
	if (message->version) {
		if (message->type == SHIM_MESSAGE_REPORT)
			return shim_peer_report(vm, message, packet);
		counter = refusals[engine_check_replay(vm, message)];
		if (counter != SHIM_MESSAGES)
			return counter;
	}
	/* A message of paths need not say anything of all that the VM sends. */
	limiter = message->entries && !message->rate ? NULL :
		  rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock));
	for (; limiter; limiter = rcu_dereference_protected(limiter->next,
							    lockdep_is_held(&vm->lock)))
		if (!in || limiter->uplink == in)
			shim_limiter_message(limiter, message, packet->now_ns);
	if (message->entries)
		shim_paths_message(vm, message, data, packet->now_ns);
	return SHIM_MESSAGES;
}

enum shim_counter shim_engine_message(struct shim_vm *vm, const struct shim_uplink *in,
				      const struct shim_packet *packet, const u8 *data, size_t len,
				      struct shim_message *message)
{
	struct shim_engine *engine = vm->engine;
	enum shim_message_error error;
	enum shim_counter counter;
	bool other;

	memset(message, 0, sizeof(*message));
	error = engine_read(shim_engine_settings(engine), packet, data, len, message, &other);
	counter = refusals[error];
	if (!error) {
		spin_lock(&vm->lock);
		counter = engine_obey(vm, in, packet, data, message);
		spin_unlock(&vm->lock);
	}
	shim_vm_count(vm, counter, 1);
	if (counter == SHIM_MESSAGES)
		shim_vm_count(vm, SHIM_MARKS, message->marks);
	else if (counter == SHIM_REPORTS)
		shim_vm_count(vm, SHIM_REPORT_BYTES, packet->bytes);
	if (other && (counter == SHIM_MESSAGES || counter == SHIM_REPORTS)) {
		shim_vm_count(vm, SHIM_MESSAGES_OTHER_KEY, 1);
		engine_note_other(engine, message->sender, packet->now_ns);
	}
	shim_host_message(vm, message, shim_counter_name(counter));
	return counter;
}
