// SPDX-License-Identifier: Apache-2.0
/*
 * Runs the kernel's frame.c on frames of the fuzzers.
 */
#include <linux/skbuff.h>

#include "input.h"
#include "kernel.h"

/* Open vSwitch's file has these names. */
#define shim_host_source kernel_host_source
#define shim_host_flow_hash kernel_host_flow_hash
#define shim_host_tunnel_end kernel_host_tunnel_end

#include "shim/kernel/frame.c"

/* A packet with the bytes of a frame. */
struct held {
	struct sk_buff skb;		/* the packet */
	struct net_device device;	/* its device */
	struct ovs_shim_frame frame;	/* what was read of it */
};

/* Finds what follows the extension headers of an IPv6 packet, as the kernel's function does. */
int ipv6_skip_exthdr(const struct sk_buff *skb, int start, u8 *type, __be16 *fragment)
{
	u8 next = *type, header[2];
	__be16 offset;

	while (ipv6_ext_hdr(next)) {
		u32 len;

		if (next == 59 || skb_copy_bits(skb, start, header, sizeof(header)))
			return -1;
		len = (header[1] + 1U) * 8;
		if (next == 44) {
			if (skb_copy_bits(skb, start + 2, &offset, sizeof(offset)))
				return -1;
			*fragment = offset;
			if (ntohs(offset) & ~7)
				break;
			len = 8;
		} else if (next == 51) {
			len = (header[1] + 2U) * 4;
		}
		next = header[0];
		start += (int)len;
	}
	*type = next;
	return start;
}

/* Makes a packet of a frame, of which not all is its head, and reads it. */
static void hold(struct held *held, const u8 *data, size_t size, u8 wants)
{
	u8 *room = malloc(size + 2);
	u32 head = (u32)(size * 7 % 61);
	struct shim_address announced;

	fuzz_expect(room, "no memory");
	memset(held, 0, sizeof(*held));
	if (head > size)
		head = (u32)size;
	/* As drivers have it, so that an IP header is aligned. */
	memcpy(room + 2, data, size);
	held->device.type = ARPHRD_ETHER;
	held->skb = (struct sk_buff){
		.data = room + 2, .bytes = data, .len = (u32)size, .head = head,
		.dev = &held->device, .ip_summed = CHECKSUM_NONE,
	};
	ASAN_POISON_MEMORY_REGION(room + 2 + head, size - head);
	ovs_shim_frame_parse(&held->skb, wants, &held->frame);
	/* Whatever it is, no byte behind its end is read. */
	if (ovs_shim_frame_announces(&held->skb, &held->frame, &announced))
		fuzz_expect(!held->frame.packet.version || held->frame.packet.version == 6,
			    "IPv4 announces");
}

/* Gives a packet back. */
static void let_go(struct held *held)
{
	ASAN_UNPOISON_MEMORY_REGION(held->skb.data, held->skb.len);
	free(held->skb.data - 2);
}

/* Tells whether two segments are the same. */
static bool same_segment(const struct shim_segment *a, const struct shim_segment *b)
{
	return a->seq == b->seq && a->ack == b->ack && a->payload == b->payload &&
	       a->size == b->size && a->window == b->window && a->flags == b->flags &&
	       a->mss == b->mss && a->scale == b->scale && a->ecn == b->ecn;
}

void kernel_check_parse(const u8 *data, size_t size, u8 wants, const struct shim_packet *packet)
{
	const struct shim_packet *own;
	struct held held;

	hold(&held, data, size, wants);
	own = &held.frame.packet;
	fuzz_expect(own->version == packet->version && own->protocol == packet->protocol &&
		    own->network.vlan == packet->network.vlan && own->bytes == packet->bytes,
		    "the kernel reads version %u, protocol %u, VLAN %x; Open vSwitch %u, %u, %x",
		    own->version, own->protocol, own->network.vlan, packet->version,
		    packet->protocol, packet->network.vlan);
	fuzz_expect(own->ecn == packet->ecn && own->plain == packet->plain &&
		    own->id == packet->id && own->id_free == packet->id_free &&
		    own->echo == packet->echo && own->echo_free == packet->echo_free,
		    "the kernel reads another IP header");
	fuzz_expect(!packet->version || (shim_address_equal(&own->source, &packet->source) &&
					 shim_address_equal(&own->destination,
							    &packet->destination)),
		    "the kernel reads other addresses");
	fuzz_expect(own->is_tcp == packet->is_tcp &&
		    (!own->is_tcp || (own->port_source == packet->port_source &&
				      own->port_destination == packet->port_destination &&
				      same_segment(&own->segment, &packet->segment))),
		    "the kernel reads another segment");
	let_go(&held);
}

void kernel_check_write(const u8 *data, size_t size, const struct shim_packet *packet,
			const struct shim_action *action, const u8 *written)
{
	struct held held;
	size_t i, ip, tcp;

	hold(&held, data, size, packet->is_tcp ? SHIM_LAW_FLOWS : 0);
	fuzz_expect(ovs_shim_frame_act(&held.frame, action), "the kernel writes nothing");
	ASAN_UNPOISON_MEMORY_REGION(held.skb.data, size);
	ip = (size_t)held.frame.offset;
	tcp = (size_t)held.frame.payload;
	for (i = 0; i < size; i++) {
		bool sum = (packet->version == 4 && (i - ip == 10 || i - ip == 11)) ||
			   (packet->is_tcp && (i - tcp == 16 || i - tcp == 17));

		fuzz_expect(sum || held.skb.data[i] == written[i],
			    "the kernel writes %02x as byte %zu, Open vSwitch %02x",
			    held.skb.data[i], i, written[i]);
		fuzz_expect(i < held.skb.writable || held.skb.data[i] == data[i],
			    "byte %zu is shared and was written", i);
	}
	let_go(&held);
}

void kernel_check_payload(const u8 *data, size_t size, const u8 *message, size_t len)
{
	u8 own[SHIM_MESSAGE_MOST_BYTES + 1];
	struct held held;
	size_t found;

	hold(&held, data, size, 0);
	found = ovs_shim_frame_payload(&held.frame, own, sizeof(own));
	fuzz_expect(found == len && !memcmp(own, message, len),
		    "the kernel finds %zu bytes of a message, Open vSwitch %zu", found, len);
	let_go(&held);
}

void kernel_check_announcement(const u8 *data, size_t size, const struct shim_address *announced)
{
	struct shim_address own;
	struct held held;
	bool found;

	hold(&held, data, size, 0);
	found = ovs_shim_frame_announces(&held.skb, &held.frame, &own);
	fuzz_expect(found == !!announced, "the kernel finds %s announcement",
		    found ? "an" : "no");
	fuzz_expect(!found || shim_address_equal(&own, announced),
		    "the kernel finds another address announced");
	let_go(&held);
}
