// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * An engine behind plain functions.
 */
#include "../core/engine/decide.h"
#include "../core/engine/engine.h"
#include "lab.h"

/* An engine and what it wants to send. */
struct shim_lab {
	struct shim_engine engine;	/* the engine */
	struct shim_reports reports;	/* built, not yet delivered */
};

/* A member of struct shim_settings. */
struct lab_setting {
	const char *name;		/* as in C */
	size_t offset;			/* in the struct, bytes */
	size_t size;			/* bytes */
};

#define SETTING(member) { \
	#member, offsetof(struct shim_settings, member), \
	sizeof(((struct shim_settings *)0)->member) \
}

/* What shim_lab_set() can set. */
static const struct lab_setting lab_settings[] = {
	SETTING(limiter),
	SETTING(horizon_ns),
	SETTING(ahead),
	SETTING(inactive_ns),
	SETTING(peer_idle_ns),
	SETTING(peers_max),
	SETTING(waiting_max),
	SETTING(burst_bytes),
	SETTING(burst_us),
	SETTING(protocol),
	SETTING(codepoint),
	SETTING(accept_v0),
	SETTING(conversations),
	SETTING(ecn),
};

/* Returns a copy of the settings in force, to be changed; NULL without memory. */
static struct shim_settings *lab_copy_settings(const struct shim_lab *lab)
{
	struct shim_settings *settings = shim_alloc_wait(sizeof(*settings));

	if (settings) {
		*settings = *shim_engine_settings(&lab->engine);
		memset(&settings->rcu, 0, sizeof(settings->rcu));
	}
	return settings;
}

/* Returns the place of a law among all, -ENOENT if there is none of that name. */
static int lab_find_law(const char *name)
{
	const struct shim_law *law = shim_law_find(name);
	int i;

	for (i = 0; law && shim_law_at((u32)i); i++)
		if (shim_law_at((u32)i) == law)
			return i;
	return -ENOENT;
}

struct shim_lab *shim_lab_create(u32 sender, u32 epoch)
{
	struct shim_lab *lab = shim_alloc_wait(sizeof(*lab));

	if (!lab)
		return NULL;
	if (shim_engine_init(&lab->engine, sender, epoch)) {
		shim_host_quiesce();
		shim_free(lab);
		return NULL;
	}
	return lab;
}

void shim_lab_remove(struct shim_lab *lab)
{
	struct shim_host_report *report;
	struct shim_uplink *uplink, *next_uplink;
	struct shim_vm *vm, *next_vm;

	list_for_each_entry_safe(vm, next_vm, &lab->engine.vms, node)
		shim_vm_remove(vm);
	list_for_each_entry_safe(uplink, next_uplink, &lab->engine.uplinks, node)
		shim_uplink_remove(uplink);
	shim_engine_exit(&lab->engine);
	while ((report = shim_host_report_take(&lab->reports)))
		shim_free(report);
	shim_host_quiesce();
	shim_free(lab);
}

int shim_lab_set(struct shim_lab *lab, const char *name, u64 value)
{
	struct shim_settings *settings;
	u32 i;

	for (i = 0; i < SHIM_COUNT(lab_settings); i++)
		if (!strcmp(lab_settings[i].name, name))
			break;
	if (i == SHIM_COUNT(lab_settings))
		return -ENOENT;
	settings = lab_copy_settings(lab);
	if (!settings)
		return -ENOMEM;
	/* A number's low bytes come first on all machines that this runs on. */
	memcpy((u8 *)settings + lab_settings[i].offset, &value, lab_settings[i].size);
	shim_engine_set(&lab->engine, settings);
	return 0;
}

int shim_lab_set_law(struct shim_lab *lab, const char *law)
{
	int index = law ? lab_find_law(law) : SHIM_LAW_NONE;
	struct shim_settings *settings;

	if (law && index < 0)
		return index;
	settings = lab_copy_settings(lab);
	if (!settings)
		return -ENOMEM;
	settings->law = index;
	shim_engine_set(&lab->engine, settings);
	return 0;
}

int shim_lab_set_knob(struct shim_lab *lab, const char *law, const char *knob, u64 value)
{
	bool period = !strcmp(knob, "period");
	int index = lab_find_law(law), k;
	struct shim_settings *settings;

	if (index < 0)
		return index;
	k = shim_knob_find(shim_law_at((u32)index), knob);
	if (!period && k < 0)
		return -ENOENT;
	settings = lab_copy_settings(lab);
	if (!settings)
		return -ENOMEM;
	if (period)
		settings->laws[index].period_ns = value;
	else
		settings->laws[index].knobs[k] = value;
	shim_engine_set(&lab->engine, settings);
	return 0;
}

int shim_lab_set_key(struct shim_lab *lab, const u8 *key, bool other)
{
	struct shim_settings *settings = lab_copy_settings(lab);
	u8 *to;

	if (!settings)
		return -ENOMEM;
	to = other ? settings->key_other : settings->key;
	memset(to, 0, SHIM_KEY_BYTES);
	if (key)
		memcpy(to, key, SHIM_KEY_BYTES);
	if (other)
		settings->key_other_set = key;
	else
		settings->key_set = key;
	shim_engine_set(&lab->engine, settings);
	return 0;
}

struct shim_vm *shim_lab_add_vm(struct shim_lab *lab)
{
	struct shim_vm *vm = shim_vm_create(&lab->engine, NULL);

	if (vm)
		shim_lab_configure_vm(vm, 1, 0, 0, NULL);
	return vm;
}

void shim_lab_remove_vm(struct shim_vm *vm)
{
	shim_vm_remove(vm);
}

int shim_lab_configure_vm(struct shim_vm *vm, u32 weight, u64 min, u64 max, const char *law)
{
	struct shim_vm_config config = {
		.weight = weight,
		.law = law ? lab_find_law(law) : SHIM_LAW_DEFAULT,
		.min = min,
		.max = max,
	};

	if (law && config.law < 0)
		return config.law;
	shim_vm_configure(vm, &config);
	return 0;
}

int shim_lab_set_prefixes(struct shim_vm *vm, const u8 *addresses, const u8 *lengths, u32 n)
{
	struct shim_prefixes *prefixes = NULL;
	u32 i;

	if (n) {
		prefixes = shim_alloc_wait(struct_size(prefixes, prefixes, n));
		if (!prefixes)
			return -ENOMEM;
		prefixes->n = n;
	}
	for (i = 0; i < n; i++) {
		memcpy(&prefixes->prefixes[i].address, addresses + 16 * i, 16);
		prefixes->prefixes[i].length = lengths[i];
	}
	if (shim_sources_set(vm, prefixes))
		return 0;
	shim_free(prefixes);
	return -ENOMEM;
}

int shim_lab_weigh_peer(struct shim_vm *vm, const u8 *address, u32 weight)
{
	struct shim_address remote;
	bool good;

	memcpy(&remote, address, sizeof(remote));
	rcu_read_lock();
	spin_lock_bh(&vm->lock);
	good = shim_peer_weigh(vm, &remote, weight);
	spin_unlock_bh(&vm->lock);
	rcu_read_unlock();
	return good ? 0 : -ENOENT;
}

struct shim_uplink *shim_lab_add_uplink(struct shim_lab *lab, u64 capacity)
{
	struct shim_uplink *uplink = shim_uplink_create(&lab->engine, NULL);

	if (uplink)
		shim_uplink_configure(uplink, capacity, 0);
	return uplink;
}

void shim_lab_remove_uplink(struct shim_uplink *uplink)
{
	shim_uplink_remove(uplink);
}

void shim_lab_configure_uplink(struct shim_uplink *uplink, u64 capacity)
{
	shim_uplink_configure(uplink, capacity, 0);
}

/* Fills the TCP part of a packet. */
static void lab_read_tcp(struct shim_packet *packet, const struct shim_lab_packet *from)
{
	packet->is_tcp = true;
	packet->port_source = from->port_source;
	packet->port_destination = from->port_destination;
	packet->segment = (struct shim_segment){
		.now_ns = packet->now_ns,
		.seq = from->seq,
		.ack = from->ack,
		.payload = from->payload,
		.size = from->size,
		.window = from->window,
		.flags = from->flags,
		.mss = from->mss,
		.scale = from->scale,
		.ecn = from->ecn,
	};
}

/* Fills what the engine is told of a packet. */
static void lab_read(const struct shim_vm *vm, struct shim_packet *packet,
		     const struct shim_lab_packet *from)
{
	bool ipv4 = from->version == 4;

	*packet = (struct shim_packet){
		.now_ns = shim_now_ns(),
		.timed = vm->mode.wants & SHIM_VM_TIMED,
		.network = { .tunnel_id = from->tunnel_id, .vlan = from->vlan },
		.link_source = from->link_source,
		.link_destination = from->link_destination,
		.bytes = from->bytes,
		.packets = from->packets,
		.id = from->id,
		.version = from->version,
		.protocol = from->protocol,
		.ecn = from->ecn,
		.plain = from->version && !from->fragment,
		.id_free = ipv4,
		.echo_free = ipv4,
		.echo = from->echo,
		.gso = from->packets > 1 && !from->whole,
	};
	memcpy(&packet->source, from->source, sizeof(packet->source));
	memcpy(&packet->destination, from->destination, sizeof(packet->destination));
	if (from->tunnelled)
		packet->frame = (void *)from->tunnel_end;
	if (from->is_tcp)
		lab_read_tcp(packet, from);
}

/* Fills what became of a packet. */
static void lab_write(struct shim_lab_result *result, const struct shim_action *action, u32 passed)
{
	*result = (struct shim_lab_result){
		.departure_ns = action->departure_ns,
		.drop = action->drop,
		.passed = passed,
		.id = action->id,
		.tcp_flags = action->tcp_flags,
		.tcp_window = action->tcp_window,
		.ecn = action->ecn,
		.echo = action->echo,
		.cut = action->cut_bytes,
	};
}

/* Counts a packet that the engine refused; limiters count their own refusals themselves. */
static void lab_count(struct shim_vm *vm, enum shim_counter drop, u32 packets)
{
	if (drop && !shim_counter_limiter(drop))
		shim_vm_count(vm, drop, packets);
}

/* Tells whether a packet is a control message, by a VM's settings. */
static bool lab_is_message(const struct shim_vm *vm, const struct shim_packet *packet)
{
	return packet->version && packet->protocol == READ_ONCE(vm->mode.protocol);
}

/*
 * Cuts a packet, whose single ones are of one size, as an action says, and lets each part pass or
 * not; *action becomes that of the last that passed, or else of the last.  Returns the bytes that
 * passed.
 */
static u32 lab_cut(struct shim_vm *vm, const struct shim_passage *passage,
		   const struct shim_packet *packet, struct shim_action *action)
{
	u32 size = packet->bytes / packet->packets, most = max(action->cut_bytes / size, 1U);
	struct shim_packet part = *packet;
	struct shim_action whole = *action, one;
	u32 i, passed = 0;

	for (i = 0; i < packet->packets; i += part.packets) {
		part.packets = min(most, packet->packets - i);
		part.bytes = part.packets * size;
		part.gso = part.packets > 1;
		one = whole;
		one.id = (u16)(whole.id + i);
		shim_admit(passage, &part, &one);
		lab_count(vm, one.drop, part.packets);
		if (!one.drop)
			passed += part.bytes;
		if (!one.drop || !passed)
			*action = one;
	}
	action->cut_bytes = whole.cut_bytes;
	return passed;
}

/* Lets the engine decide about a packet of a VM under a law; returns the bytes that passed. */
static u32 lab_decide(struct shim_vm *vm, struct shim_uplink *uplink,
		      const struct shim_packet *packet, struct shim_action *action)
{
	struct shim_passage passage;

	shim_decide_sent(vm, uplink, packet, NULL, &passage, action);
	if (!action->drop && action->cut_bytes)
		return lab_cut(vm, &passage, packet, action);
	lab_count(vm, action->drop, packet->packets);
	return action->drop ? 0 : packet->bytes;
}

void shim_lab_set_overhead(struct shim_uplink *uplink, u32 bytes)
{
	shim_uplink_set_overhead(uplink, bytes);
}

bool shim_lab_send(struct shim_vm *vm, struct shim_uplink *uplink,
		   const struct shim_lab_packet *from, struct shim_lab_result *result)
{
	struct shim_packet packet;
	struct shim_action action;
	u32 passed;

	lab_read(vm, &packet, from);
	shim_action_init(&action, &packet);
	passed = packet.bytes;
	rcu_read_lock();
	local_bh_disable();
	if (lab_is_message(vm, &packet)) {
		action.drop = SHIM_DROP_FORGED;
		lab_count(vm, action.drop, packet.packets);
		passed = 0;
	} else if (READ_ONCE(vm->mode.ruled)) {
		passed = lab_decide(vm, uplink, &packet, &action);
	}
	local_bh_enable();
	rcu_read_unlock();
	lab_write(result, &action, passed);
	return passed;
}

void shim_lab_announce(struct shim_vm *vm, struct shim_uplink *uplink,
		       const struct shim_lab_packet *from)
{
	struct shim_packet packet;

	lab_read(vm, &packet, from);
	rcu_read_lock();
	local_bh_disable();
	shim_sources_announce(vm, &packet.source, &packet, uplink);
	local_bh_enable();
	rcu_read_unlock();
}

bool shim_lab_receive(struct shim_vm *vm, struct shim_uplink *uplink,
		      const struct shim_lab_packet *from, struct shim_lab_result *result)
{
	struct shim_packet packet;
	struct shim_action action;

	lab_read(vm, &packet, from);
	shim_action_init(&action, &packet);
	rcu_read_lock();
	local_bh_disable();
	if (READ_ONCE(vm->mode.ruled))
		shim_decide_received(vm, uplink, &packet, NULL, &action);
	lab_count(vm, action.drop, packet.packets);
	local_bh_enable();
	rcu_read_unlock();
	lab_write(result, &action, action.drop ? 0 : packet.bytes);
	return !action.drop;
}

/*
 * Brings a control message to a VM; link_source and network (NULL: not known) as in struct
 * shim_packet.
 */
static u32 lab_message(struct shim_vm *vm, struct shim_uplink *uplink, u64 link_source,
		       const u8 *source, const u8 *destination,
		       const struct shim_network *network, const u8 *data, u32 len)
{
	struct shim_packet packet = {
		.now_ns = shim_now_ns(),
		.timed = true,
		.link_source = link_source,
		.bytes = SHIM_HOST_REPORT_HEADERS + len,
		.packets = 1,
		.version = 4,
		.protocol = vm->mode.protocol,
		.plain = true,
		.network_known = network,
	};
	struct shim_message message = { 0 };
	enum shim_counter counter;

	if (network)
		packet.network = *network;
	memcpy(&packet.source, source, sizeof(packet.source));
	memcpy(&packet.destination, destination, sizeof(packet.destination));
	rcu_read_lock();
	local_bh_disable();
	counter = shim_engine_message(vm, uplink, &packet, data, len, &message);
	local_bh_enable();
	rcu_read_unlock();
	return counter;
}

u32 shim_lab_message(struct shim_vm *vm, struct shim_uplink *uplink, const u8 *source,
		     const u8 *destination, const u8 *data, u32 len)
{
	return lab_message(vm, uplink, 0, source, destination, NULL, data, len);
}

u32 shim_lab_message_from(struct shim_vm *vm, struct shim_uplink *uplink, u64 link_source,
			  const u8 *source, const u8 *destination, const u8 *data, u32 len)
{
	return lab_message(vm, uplink, link_source, source, destination, NULL, data, len);
}

u32 shim_lab_message_within(struct shim_vm *vm, struct shim_uplink *uplink, const u8 *source,
			    const u8 *destination, u32 vlan, u64 tunnel_id, const u8 *data, u32 len)
{
	struct shim_network network = { .tunnel_id = tunnel_id, .vlan = vlan };

	return lab_message(vm, uplink, 0, source, destination, &network, data, len);
}

u64 shim_lab_due(const struct shim_lab *lab)
{
	const struct shim_host_timer *timer;
	u64 due_ns = 0;
	u32 i;

	for (i = 0; i < SHIM_LAW_SLOTS; i++) {
		timer = &lab->engine.clocks[i].timer;
		if (timer->started && (!due_ns || timer->due_ns < due_ns))
			due_ns = timer->due_ns;
	}
	return due_ns;
}

u32 shim_lab_tick(struct shim_lab *lab)
{
	u64 now_ns = shim_now_ns(), next_ns;
	struct shim_clock *clock;
	u32 i, n = 0;

	for (i = 0; i < SHIM_LAW_SLOTS; i++) {
		clock = &lab->engine.clocks[i];
		if (!clock->timer.started || clock->timer.due_ns > now_ns)
			continue;
		clock->timer.started = false;
		rcu_read_lock();
		local_bh_disable();
		next_ns = shim_clock_tick(clock, now_ns, &lab->reports);
		local_bh_enable();
		rcu_read_unlock();
		/* A clock that was started anew meanwhile has its time already. */
		if (next_ns && !clock->timer.started)
			shim_host_timer_start(clock, next_ns);
		n++;
	}
	return n;
}

bool shim_lab_report(struct shim_lab *lab, struct shim_lab_report *to)
{
	struct shim_host_report *report = shim_host_report_take(&lab->reports);

	if (!report)
		return false;
	memcpy(to->source, report->source, sizeof(to->source));
	memcpy(to->destination, report->destination, sizeof(to->destination));
	memcpy(to->data, report->data, sizeof(to->data));
	to->bytes = report->bytes;
	to->mac = report->mac;
	shim_free(report);
	return true;
}

u64 shim_lab_counter(const struct shim_vm *vm, u32 counter)
{
	return counter < SHIM_N_COUNTERS ? (u64)atomic64_read(&vm->counters[counter]) : 0;
}

bool shim_lab_read_limiter(struct shim_vm *vm, struct shim_uplink *uplink,
			   struct shim_lab_limiter *to)
{
	struct shim_limiter *limiter;
	struct shim_tx tx;

	spin_lock_bh(&vm->lock);
	limiter = shim_limiter_find(vm, uplink);
	if (limiter) {
		shim_limiter_counted(limiter, &tx);
		*to = (struct shim_lab_limiter){
			.rate = shim_limiter_rate(limiter),
			.share = limiter->share,
			.sent_rate = limiter->sent_rate,
			.depth = limiter->rate.burst_bytes,
			.bytes = tx.bytes,
			.packets = tx.packets,
			.paced = tx.paced,
			.drop_police = tx.drop_police,
			.drop_horizon = tx.drop_horizon,
			.drop_waiting = tx.drop_waiting,
			.ahead = tx.ahead,
			.active = limiter->active,
		};
	}
	spin_unlock_bh(&vm->lock);
	return limiter;
}

u32 shim_lab_longest_chain(struct shim_lab *lab)
{
	return shim_table_longest(&lab->engine.peers);
}

u32 shim_lab_connections(struct shim_vm *vm, u32 rank)
{
	struct shim_connection *connection;
	u32 n = 0;

	if (rank >= SHIM_CONNECTION_RANKS)
		return 0;
	spin_lock_bh(&vm->lock);
	list_for_each_entry(connection, &vm->connections[rank], rank_node)
		n++;
	spin_unlock_bh(&vm->lock);
	return n;
}

bool shim_lab_connected(struct shim_vm *vm, u16 port_vm, u16 port_peer)
{
	struct shim_connection *connection;
	bool found = false;
	u32 rank;

	spin_lock_bh(&vm->lock);
	for (rank = 0; rank < SHIM_CONNECTION_RANKS; rank++)
		list_for_each_entry(connection, &vm->connections[rank], rank_node)
			found |= connection->key.port_vm == port_vm &&
				 connection->key.port_peer == port_peer;
	spin_unlock_bh(&vm->lock);
	return found;
}
