// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzzes the packet's way: frames of VMs and frames for VMs are parsed, judged by the engine and
 * written as Open vSwitch's own datapath does it, between whatever an operator and time do.
 *
 * A frame stays as long as it is.  One that is dropped, or not IP, or of a VM without a law, stays
 * as it is.  Of others only the fields change that a law or the engine may write: the ECN field,
 * the IPv4 identification with DF and no fragment, the reserved bit without a fragment, flags of
 * ECN and the window of TCP.  A window never grows.  Checksums that were right are right.  No VM
 * sends CE.  A VM whose addresses are set sends from these alone.  What VMs are told of paths holds
 * as paths.h has it.  The kernel's parser and Open vSwitch's read the same.
 */
#include "../core/engine/decide.h"
#include "frames.h"
#include "kernel.h"
#include "ovs/dp-packet.h"
#include "world.h"

#include "ovs-patches/ovs/files/lib/shim-frame.h"
#include "ovs-patches/ovs/files/lib/shim-gso.h"

/* Packets that one GSO packet stands for. */
#define PARTS_MOST 44

/* A frame on its way. */
struct journey {
	struct fuzz_world *world;	/* the host */
	u32 v;				/* the VM, as the world counts */
	u32 u;				/* the uplink, the same */
	u8 before[FUZZ_FRAME_MOST];	/* its bytes as they came */
	struct dp_packet packet;	/* its bytes now */
	struct shim_frame frame;	/* what was read of it */
	struct shim_action action;	/* what is to be done */
	const struct shim_path *path;	/* of what the VM sends; NULL: none */
	struct fuzz_sums sums;		/* whether its checksums were right */
};

/* Returns the length of the segments that a frame is to be cut into, 0: it is not. */
size_t shim_gso_size(const struct dp_packet *packet)
{
	(void)packet;
	return 0;
}

/* Tells whether a frame's checksum is left to whom sends it: no. */
bool shim_gso_is_partial(const struct dp_packet *packet, bool tunnelled)
{
	(void)packet;
	(void)tunnelled;
	return false;
}

/* Returns where the headers of a frame are. */
static struct fuzz_places places_of(const struct shim_frame *frame)
{
	return (struct fuzz_places){
		.ip = frame->offset,
		.payload = frame->payload,
		.version = frame->packet.version,
		.is_tcp = frame->packet.is_tcp,
	};
}

/* Checks that nothing of a frame has changed. */
static void check_untouched(const struct journey *journey)
{
	fuzz_expect(!memcmp(journey->before, journey->packet.data, journey->packet.size),
		    "the frame has changed");
}

/* Returns which bits of a byte of a frame may change. */
static u8 writable(const struct shim_frame *frame, size_t at)
{
	const struct shim_packet *packet = &frame->packet;
	size_t ip = at - frame->offset, tcp = at - frame->payload;

	if (packet->version == 4 && ip == 1)
		return 3;
	if (packet->version == 4 && (ip == 4 || ip == 5))
		return packet->id_free ? 0xff : 0;
	if (packet->version == 4 && ip == 6)
		return packet->echo_free ? 0x80 : 0;
	if (packet->version == 4 && (ip == 10 || ip == 11))
		return 0xff;
	if (packet->version == 6 && ip == 1)
		return 0x30;
	if (!packet->is_tcp)
		return 0;
	if (tcp == 12)
		return SHIM_TCP_AE >> 8;
	if (tcp == 13)
		return SHIM_TCP_ECE | SHIM_TCP_CWR;
	return tcp >= 14 && tcp < 18 ? 0xff : 0;
}

/* Writes what is to be written, and checks it. */
static void act(struct journey *journey)
{
	const struct shim_action *action = &journey->action;
	const struct shim_packet *packet = &journey->frame.packet;
	struct fuzz_places places = places_of(&journey->frame);
	struct fuzz_sums sums;
	size_t i;

	check_untouched(journey);
	shim_frame_act(&journey->frame, action);
	for (i = 0; i < journey->packet.size; i++)
		fuzz_expect(!((journey->before[i] ^ journey->packet.data[i]) &
			      ~writable(&journey->frame, i)),
			    "byte %zu was %02x and is %02x", i, journey->before[i],
			    journey->packet.data[i]);
	sums = fuzz_frame_sums(journey->packet.data, journey->packet.size, &places);
	fuzz_expect(sums.ip || !journey->sums.ip, "the checksum of IPv4 was right");
	fuzz_expect(sums.tcp || !journey->sums.tcp, "the checksum of TCP was right");
	fuzz_expect(!packet->is_tcp || action->tcp_window <= packet->segment.window,
		    "a window has grown from %u to %u", packet->segment.window,
		    action->tcp_window);
	kernel_check_write(journey->before, journey->packet.size, &journey->frame.packet, action,
			   journey->packet.data);
}

/* Makes a TCP or UDP packet one that stands for several. */
static void make_gso(struct journey *journey, u8 parts)
{
	struct shim_packet *packet = &journey->frame.packet;

	parts %= PARTS_MOST;
	if (parts < 2)
		return;
	packet->gso = true;
	packet->packets = parts;
	packet->bytes += (parts - 1) * 54;
	if (packet->is_tcp)
		packet->segment.size /= parts;
}

/* Lets a packet that is to be cut ask for each part. */
static u32 cut(struct journey *journey, const struct shim_passage *passage)
{
	/* A host finds the frame by the packet in it, for its flow's hash. */
	struct shim_frame frame = journey->frame;
	struct shim_packet *part = &frame.packet;
	u32 n = part->packets, i, passed = 0;

	part->packets = 1;
	part->bytes /= n;
	part->gso = false;
	for (i = 0; i < n; i++) {
		struct shim_action one = journey->action;

		one.id = (u16)(one.id + i);
		shim_admit(passage, part, &one);
		fuzz_world_dropped(journey->world, journey->v, journey->u, one.drop, 1);
		if (one.drop)
			continue;
		passed++;
		fuzz_paths_passed(journey->world, journey->v, journey->path, part->bytes,
				  one.departure_ns);
		if (passage->limiter)
			fuzz_world_passed(journey->world, journey->v, journey->u, part->bytes,
					  one.departure_ns);
	}
	return passed;
}

/* Checks that a VM may send from the address that it did. */
static void check_source(const struct shim_vm *vm, const struct shim_packet *packet)
{
	const struct shim_prefixes *set = rcu_dereference_protected(vm->sources.set, true);
	u32 i, bit;

	if (!set || !packet->version)
		return;
	for (i = 0; i < set->n; i++) {
		const struct shim_prefix *prefix = &set->prefixes[i];

		for (bit = 0; bit < prefix->length; bit++)
			if ((prefix->address.bytes[bit / 8] ^ packet->source.bytes[bit / 8]) &
			    (0x80 >> bit % 8))
				break;
		if (bit == prefix->length)
			return;
	}
	fuzz_expect(shim_address_unspecified(&packet->source),
		    "sent from an address that is not the VM's");
}

/* Lets a VM send a frame. */
static void send_frame(struct journey *journey, u8 how)
{
	struct shim_vm *vm = journey->world->vms[journey->v];
	struct shim_uplink *uplink = journey->world->uplinks[journey->u];
	struct shim_packet *packet = &journey->frame.packet;
	struct shim_action *action = &journey->action;
	struct shim_passage passage;

	if (packet->version && packet->protocol == vm->mode.protocol) {
		shim_vm_count(vm, SHIM_DROP_FORGED, 1);
		return;
	}
	if (!vm->mode.ruled) {
		check_untouched(journey);
		return;
	}
	if (how & 0x10)
		make_gso(journey, how >> 5 | (how & 0x0f) << 3);
	journey->path = fuzz_paths_find(journey->world, journey->v, packet->version,
					&packet->destination, NULL);
	shim_decide_sent(vm, uplink, packet, NULL, &passage, action);
	fuzz_expect(action->drop < SHIM_N_COUNTERS, "counter %u", action->drop);
	fuzz_expect(action->drop != SHIM_DROP_PATH || journey->path, "dropped by no path");
	if (!action->drop)
		check_source(vm, packet);
	fuzz_expect(action->drop || action->ecn != SHIM_CE || !packet->version, "a VM's CE leaves");
	if (!action->drop && action->cut_bytes) {
		if (cut(journey, &passage))
			act(journey);
		return;
	}
	fuzz_world_dropped(journey->world, journey->v, journey->u, action->drop, packet->packets);
	if (action->drop) {
		check_untouched(journey);
		return;
	}
	if (passage.limiter)
		fuzz_world_passed(journey->world, journey->v, journey->u, packet->bytes,
				  action->departure_ns);
	fuzz_paths_passed(journey->world, journey->v, journey->path, packet->bytes,
			  action->departure_ns);
	act(journey);
}

/* Brings a frame to a VM. */
static void receive_frame(struct journey *journey, u8 how)
{
	struct shim_vm *vm = journey->world->vms[journey->v];
	struct shim_uplink *uplink = journey->world->uplinks[journey->u];
	struct shim_packet *packet = &journey->frame.packet;
	u8 data[SHIM_MESSAGE_MOST_BYTES + 1];
	struct shim_message message;
	size_t len;

	if (packet->version && packet->protocol == vm->mode.protocol) {
		if (!vm->mode.ruled)
			return;
		len = shim_frame_payload(&journey->frame, data, sizeof(data));
		kernel_check_payload(journey->packet.data, journey->packet.size, data, len);
		packet->timed = true;
		shim_engine_message(vm, how & 1 ? uplink : NULL, packet, data, len, &message);
		check_untouched(journey);
		return;
	}
	if (!vm->mode.ruled)
		return;
	if (how & 0x10)
		make_gso(journey, how >> 5);
	shim_decide_received(vm, uplink, packet, NULL, &journey->action);
	fuzz_expect(!journey->action.drop, "what is received is never dropped");
	act(journey);
}

/* Checks that both datapaths read a frame alike; wants: SHIM_LAW_*. */
static void parse(struct journey *journey, u8 wants)
{
	struct shim_address announced;
	bool announces;

	shim_frame_parse(&journey->packet, wants, &journey->frame);
	kernel_check_parse(journey->packet.data, journey->packet.size, wants,
			   &journey->frame.packet);
	announces = shim_frame_announces(&journey->frame, &announced);
	kernel_check_announcement(journey->packet.data, journey->packet.size,
				  announces ? &announced : NULL);
}

/* Lets a frame pass, one way or the other. */
static void pass(struct fuzz_world *world, struct fuzz_input *input, bool sent)
{
	u8 where = fuzz_u8(input), how = fuzz_u8(input), wants;
	struct shim_address source, destination;
	struct fuzz_places places;
	struct journey journey = {
		.world = world, .v = where % FUZZ_VMS, .u = (where >> 6) % FUZZ_UPLINKS,
	};
	struct shim_vm *vm = world->vms[journey.v];
	u8 *room;

	fuzz_address(input, journey.v + !sent, &source);
	fuzz_address(input, journey.v + sent, &destination);
	journey.packet.size = fuzz_frame_build(input, &source, &destination, journey.before);
	if (!vm || !world->uplinks[journey.u])
		return;
	/* What is read beyond its end is seen, and IP headers begin anywhere. */
	room = malloc(journey.packet.size + (how & 3) + 1);
	fuzz_expect(room, "no memory");
	journey.packet.data = room + (how & 3) + 1;
	memcpy(journey.packet.data, journey.before, journey.packet.size);
	wants = vm->mode.wants;
	if (!sent && vm->mode.codepoint == SHIM_ECT_ZERO)
		wants |= SHIM_LAW_FLOWS;
	parse(&journey, wants);
	places = places_of(&journey.frame);
	journey.sums = fuzz_frame_sums(journey.before, journey.packet.size, &places);
	journey.frame.packet.timed = vm->mode.wants & SHIM_VM_TIMED;
	journey.frame.packet.now_ns = shim_host_clock_ns;
	journey.frame.packet.segment.now_ns = shim_host_clock_ns;
	fuzz_world_pass(world, 0);
	if (sent)
		send_frame(&journey, how);
	else
		receive_frame(&journey, how);
	free(room);
}

/* Tells a VM of paths, or a level, with a key in force. */
static void tell(struct fuzz_world *world, struct fuzz_input *input)
{
	u8 how = fuzz_u8(input), data[FUZZ_PATHS_BYTES];
	const u8 *key = world->keys[how >> 5 & 1];
	u32 v = how % FUZZ_VMS, len = SHIM_MESSAGE_V1_BYTES;
	bool level = how & 0x10;
	struct shim_message head = {
		.type = how & 0x80 ? SHIM_MESSAGE_MARKS : SHIM_MESSAGE_RATE, .sender = 1,
		.epoch = 1 + (how >> 6 & 1),
	};
	struct shim_address source, own;

	head.sequence = 1 + fuzz_u8(input);
	fuzz_address(input, v + 1, &source);
	fuzz_address(input, v, &own);
	memcpy(head.vm, &own, sizeof(head.vm));
	if (level) {
		head.type = SHIM_MESSAGE_LEVEL;
		head.rate = fuzz_within(input, SHIM_RATE_MIN, SHIM_RATE_MAX);
		shim_message_encode(data, &head, key);
	} else {
		len = fuzz_paths_build(input, v, &head, key, data);
	}
	if (!world->vms[v])
		return;
	fuzz_world_pass(world, 0);
	if (shim_lab_message(world->vms[v], NULL, source.bytes, own.bytes, data, len) ==
	    SHIM_MESSAGES && !level)
		fuzz_paths_heard(world, v, data, len);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { .data = data, .left = size };
	struct fuzz_world world;

	if (fuzz_world_begin(&world, &input)) {
		while (input.left) {
			u8 operation = fuzz_u8(&input) & 31;

			if (operation < FUZZ_WORLD_OPERATIONS)
				fuzz_world_operate(&world, operation, &input);
			else if (operation == 31)
				tell(&world, &input);
			else
				pass(&world, &input, operation & 1);
			fuzz_world_check(&world);
		}
	}
	fuzz_world_end(&world);
	return 0;
}
