// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzzes control messages: bytes as they come and messages that are nearly right, of v1 and v2,
 * signed by a key in force or by another, again and again, to VMs that send, under any law and
 * settings.
 *
 * A message that is obeyed is signed by a key in force (or is v0, which is allowed), is for an
 * address that is the VM's own, and bears an epoch and sequence that its sender's messages to this
 * host did not bear before.  What is written reads as it was.  Paths that v2 makes keep to paths.h.
 */
#include "world.h"

/* Messages obeyed that are remembered in a run. */
#define OBEYED_MOST 512

/* What a message that was obeyed bore. */
struct obeyed {
	u32 sender;			/* its sender */
	u32 epoch;			/* the sender's start */
	u32 sequence;			/* its number */
};

/* Messages obeyed in this run, and how many. */
static struct obeyed obeyed[OBEYED_MOST];
static u32 n_obeyed;

/* Checks that a message was not obeyed before, and remembers it. */
static void note_obeyed(const struct shim_message *message)
{
	u32 i;

	for (i = 0; i < n_obeyed; i++)
		fuzz_expect(obeyed[i].sender != message->sender ||
			    obeyed[i].epoch != message->epoch ||
			    obeyed[i].sequence != message->sequence,
			    "sender %u, epoch %u, sequence %u obeyed twice", message->sender,
			    message->epoch, message->sequence);
	if (n_obeyed < OBEYED_MOST)
		obeyed[n_obeyed++] = (struct obeyed){
			message->sender, message->epoch, message->sequence
		};
}

/* Fills a message whose numbers are within, or anything. */
static void fill(struct fuzz_input *input, u32 vm, struct shim_message *message)
{
	struct shim_address address;
	u8 kind = fuzz_u8(input);

	*message = (struct shim_message){ .type = 1 + kind % 4, .version = 1 };
	if (kind & 0x80)
		message->type = fuzz_u8(input);
	if (kind & 0x40)
		message->flags = fuzz_u8(input);
	fuzz_address(input, vm, &address);
	memcpy(message->vm, address.bytes, sizeof(message->vm));
	fuzz_address(input, vm, &address);
	memcpy(message->peer, address.bytes, sizeof(message->peer));
	message->sender = fuzz_u8(input);
	message->epoch = fuzz_u8(input) + (kind & 0x20 ? ~0U - 255 : 1);
	message->sequence = (u32)fuzz_u64(input);
	message->marks = (u32)fuzz_u64(input);
	message->interval_ns = fuzz_u64(input);
	message->rate = fuzz_u64(input);
	message->weight_total = (u32)fuzz_u64(input);
	message->point_datapath = fuzz_u64(input);
	message->point_port = (u32)fuzz_u64(input);
}

/* Checks that a message reads as it was written, unless a field is out of range. */
static void check_reading(const struct shim_message *written, const u8 *data, const u8 *key)
{
	struct shim_message read;
	enum shim_message_error error;

	error = shim_message_decode(&read, data, SHIM_MESSAGE_V1_BYTES, key);
	fuzz_expect(error == SHIM_MESSAGE_OK || error == SHIM_MESSAGE_FORM, "error %d", error);
	if (error)
		return;
	fuzz_expect(!memcmp(read.vm, written->vm, 16) && !memcmp(read.peer, written->peer, 16) &&
		    read.bytes == written->bytes && read.interval_ns == written->interval_ns &&
		    read.rate == written->rate && read.lost == written->lost &&
		    read.marks == written->marks && read.packets == written->packets &&
		    read.sender == written->sender && read.epoch == written->epoch &&
		    read.sequence == written->sequence && read.flags == written->flags &&
		    read.type == written->type && read.version == 1, "read otherwise");
}

/* Tells whether a message bears the tag of a key. */
static bool tagged(const u8 *data, u32 len, const u8 *key)
{
	u64 tag = shim_siphash(key, data, len - 8);
	u32 i;

	for (i = 0; i < 8; i++)
		if (data[len - 8 + i] != (u8)(tag >> (8 * (7 - i))))
			return false;
	return true;
}

/* Checks that what was obeyed was signed, and for this VM. */
static void check_obeyed(const struct fuzz_world *world, struct shim_vm *vm, bool local,
			 const u8 *data, u32 len, const struct shim_address *destination)
{
	struct shim_packet packet = { .now_ns = shim_now_ns() };
	struct shim_address told = *destination;
	static const u8 none[16];
	enum shim_message_error error;
	struct shim_message message;
	bool good = false;
	u32 i;

	if (len == SHIM_MESSAGE_V0_BYTES) {
		fuzz_expect(shim_engine_settings(vm->engine)->accept_v0, "v0 is not allowed");
		fuzz_expect(shim_sources_told(vm, &told, &packet), "for another VM");
		return;
	}
	fuzz_expect(len == SHIM_MESSAGE_V1_BYTES ||
		    (len > SHIM_MESSAGE_V1_BYTES && len <= SHIM_MESSAGE_MOST_BYTES &&
		     (len - SHIM_MESSAGE_V2_BYTES) % SHIM_MESSAGE_ENTRY_BYTES == 0),
		    "%u bytes obeyed", len);
	for (i = 0; i < 2 && !good; i++) {
		error = shim_message_decode(&message, data, len, world->keys[i]);
		good = world->keys_set[i] && error == SHIM_MESSAGE_OK &&
		       tagged(data, len, world->keys[i]);
	}
	fuzz_expect(good, "obeyed without a key's tag");
	memcpy(told.bytes, message.vm, sizeof(told.bytes));
	if (memcmp(told.bytes, none, sizeof(none)))
		fuzz_expect(shim_sources_told(vm, &told, &packet), "for another VM");
	else
		fuzz_expect(local && message.type != SHIM_MESSAGE_REPORT, "for any VM");
	if (message.type != SHIM_MESSAGE_REPORT)
		note_obeyed(&message);
}

/* Builds a message that is nearly right, of v1 or v2; returns how many bytes it has. */
static u32 build(const struct fuzz_world *world, struct fuzz_input *input, u32 v, u8 how,
		 u8 data[FUZZ_PATHS_BYTES + 4])
{
	u32 len = SHIM_MESSAGE_V1_BYTES;
	struct shim_message message;
	u8 key[SHIM_KEY_BYTES];

	memcpy(key, world->keys[how >> 2 & 1], sizeof(key));
	fill(input, v, &message);
	if (how & 0x10) {
		/* Mostly one that says nothing of all that the VM sends. */
		if (!(how & 8))
			message.rate = 0;
		len = fuzz_paths_build(input, v, &message, key, data);
	} else {
		shim_message_encode(data, &message, key);
		check_reading(&message, data, key);
	}
	memset(data + len, 0, 4);
	/* One byte is not what it was; a sequence of them may undo it. */
	if (how & 0x40)
		data[fuzz_u8(input) * 8 % len] ^= fuzz_u8(input);
	return how & 0x20 ? fuzz_u8(input) * 8 % (len + 5) : len;
}

/* Delivers a message: bytes as they come, or one that is built. */
static void deliver(struct fuzz_world *world, struct fuzz_input *input)
{
	u8 how = fuzz_u8(input), data[FUZZ_PATHS_BYTES + 4];
	struct shim_address source, destination;
	struct shim_uplink *uplink = NULL;
	u32 v = fuzz_u8(input) % FUZZ_VMS, len;
	enum shim_counter counter;

	if (how & 1)
		uplink = world->uplinks[how >> 1 & 1];
	fuzz_address(input, v, &source);
	fuzz_address(input, v, &destination);
	if (how & 0x80) {
		len = fuzz_u8(input) % (SHIM_MESSAGE_V1_BYTES + 5);
		fuzz_bytes(input, data, len);
	} else {
		len = build(world, input, v, how, data);
	}
	if (!world->vms[v])
		return;
	counter = shim_lab_message(world->vms[v], uplink, source.bytes, destination.bytes, data,
				   len);
	fuzz_expect(counter && counter < SHIM_N_COUNTERS, "counter %u", counter);
	if (counter != SHIM_MESSAGES && counter != SHIM_REPORTS)
		return;
	check_obeyed(world, world->vms[v], !uplink, data, len, &destination);
	if (len > SHIM_MESSAGE_V0_BYTES && data[2] == 2)
		fuzz_paths_heard(world, v, data, len);
}

/* Lets a VM send or receive a packet, so that there is somebody to obey. */
static void exchange(struct fuzz_world *world, struct fuzz_input *input, bool sent)
{
	u32 v = fuzz_u8(input) % FUZZ_VMS, u = fuzz_u8(input) % FUZZ_UPLINKS;
	u8 shape = fuzz_u8(input);
	struct shim_lab_packet packet = {
		.version = 4, .protocol = 17, .packets = 1, .ecn = shape & 3,
		.scale = SHIM_SCALE_NONE, .bytes = (u32)fuzz_within(input, 60, 65550),
		.tunnelled = shape & 0x80,
	};
	struct shim_address own, other, end;
	const struct shim_path *path;
	struct shim_lab_result result;

	if (packet.tunnelled) {
		fuzz_address(input, v + 1, &end);
		memcpy(packet.tunnel_end, &end, sizeof(packet.tunnel_end));
	}
	fuzz_address(input, v, &own);
	fuzz_address(input, v + 1, &other);
	memcpy(packet.source, sent ? &own : &other, sizeof(packet.source));
	memcpy(packet.destination, sent ? &other : &own, sizeof(packet.destination));
	if (!shim_address_ipv4(sent ? &own : &other))
		packet.version = 6;
	if (!world->vms[v] || !world->uplinks[u])
		return;
	if (!sent) {
		shim_lab_receive(world->vms[v], world->uplinks[u], &packet, &result);
		return;
	}
	fuzz_world_pass(world, 0);
	path = fuzz_paths_find(world, v, packet.version, &other, packet.tunnelled ? &end : NULL);
	if (shim_lab_send(world->vms[v], world->uplinks[u], &packet, &result)) {
		if (world->vms[v]->mode.ruled)
			fuzz_world_passed(world, v, u, packet.bytes, result.departure_ns);
		fuzz_paths_passed(world, v, path, packet.bytes, result.departure_ns);
	} else {
		fuzz_expect(result.drop != SHIM_DROP_PATH || path, "dropped by no path");
		fuzz_world_dropped(world, v, u, result.drop, 1);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { .data = data, .left = size };
	struct fuzz_world world;

	n_obeyed = 0;
	if (fuzz_world_begin(&world, &input)) {
		while (input.left) {
			u8 operation = fuzz_u8(&input) % (FUZZ_WORLD_OPERATIONS + 6);

			if (operation < FUZZ_WORLD_OPERATIONS)
				fuzz_world_operate(&world, operation, &input);
			else if (operation < FUZZ_WORLD_OPERATIONS + 4)
				deliver(&world, &input);
			else
				exchange(&world, &input, operation & 1);
			fuzz_world_check(&world);
		}
	}
	fuzz_world_end(&world);
	return 0;
}
