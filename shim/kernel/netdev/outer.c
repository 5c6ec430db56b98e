// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is in front of a VM's frame within a tunnel: outer.h.  Only a hook that sees the uplinks
 * below tunnels asks.
 *
 * The tunnel's device has left in the packet where its own header and the frame inside begin.  The
 * outer ECN field is a copy of the inner one (RFC 6040), so it is changed with that; an outer
 * checksum that is complete already, because the checksum inside is left to the device, covers the
 * inner IP header.
 */
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/dsfield.h>
#include <net/gre.h>
#include <net/inet_ecn.h>

#include "../frame.h"
#include "../outer.h"

/* Where the ECN field is in the first 16 bits of an IPv6 header. */
#define IPV6_ECN_SHIFT 4

/* Bytes of the header of VXLAN, and of Geneve without options; where in it the network's id is. */
#define UDP_TUNNEL_BYTES 8
#define UDP_TUNNEL_ID_OFFSET 4

/* Bits of that id. */
#define UDP_TUNNEL_ID_BITS 24

/* Returns the protocol behind the outer IP header, 0 if that is none. */
static u8 outer_protocol(const struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);

	if (ip->version == 4)
		return ip->protocol;
	return ip->version == 6 ? ipv6_hdr(skb)->nexthdr : 0;
}

/* Reads the id of the network from the header of VXLAN or Geneve. */
static bool outer_read_udp(const struct sk_buff *skb, unsigned int offset, u64 *id)
{
	__be32 word;

	offset += sizeof(struct udphdr) + UDP_TUNNEL_ID_OFFSET;
	if (skb_copy_bits(skb, offset, &word, sizeof(word)))
		return false;
	*id = be32_to_cpu(word) >> (32 - UDP_TUNNEL_ID_BITS);
	return true;
}

/* Reads the key from the header of GRE, 0 if it has none. */
static bool outer_read_gre(const struct sk_buff *skb, unsigned int offset, u64 *id)
{
	struct gre_base_hdr base;
	__be32 key = 0;

	if (skb_copy_bits(skb, offset, &base, sizeof(base)))
		return false;
	offset += sizeof(base) + (base.flags & GRE_CSUM ? sizeof(__be32) : 0);
	if (base.flags & GRE_KEY && skb_copy_bits(skb, offset, &key, sizeof(key)))
		return false;
	*id = be32_to_cpu(key);
	return true;
}

bool ovs_shim_outer_read(struct sk_buff *skb, struct ovs_shim_outer *outer)
{
	int network = skb_network_offset(skb), transport = skb_transport_offset(skb);
	int inner = skb_inner_mac_header(skb) - skb->data;
	u8 protocol;

	if (network < 0 || transport < network + (int)sizeof(struct iphdr) || inner <= transport ||
	    !pskb_may_pull(skb, inner + ETH_HLEN))
		return false;
	*outer = (struct ovs_shim_outer){
		.bytes = inner,
		.vlan = skb_vlan_tag_present(skb),
		.vlan_proto = skb->vlan_proto,
		.vlan_tci = skb->vlan_tci,
	};
	protocol = outer_protocol(skb);
	if (protocol == IPPROTO_UDP)
		return inner >= transport + (int)sizeof(struct udphdr) + UDP_TUNNEL_BYTES &&
		       outer_read_udp(skb, transport, &outer->tunnel_id);
	return protocol == IPPROTO_GRE && outer_read_gre(skb, transport, &outer->tunnel_id);
}

void ovs_shim_outer_enter(struct sk_buff *skb, const struct ovs_shim_outer *outer)
{
	__skb_pull(skb, outer->bytes);
	__vlan_hwaccel_clear_tag(skb);
}

void ovs_shim_outer_leave(struct sk_buff *skb, const struct ovs_shim_outer *outer)
{
	__skb_push(skb, outer->bytes);
	if (outer->vlan)
		__vlan_hwaccel_put_tag(skb, outer->vlan_proto, outer->vlan_tci);
}

void ovs_shim_outer_complete(const struct ovs_shim_outer *outer, struct ovs_shim_frame *frame)
{
	struct shim_packet *packet = &frame->packet;

	frame->tunnelled = true;
	packet->network.tunnel_id = outer->tunnel_id;
	packet->bytes += packet->packets * outer->bytes;
}

/* Tells whether the outer UDP checksum is complete and covers the inner IP header. */
static bool outer_checksum_covers(const struct sk_buff *skb)
{
	return outer_protocol(skb) == IPPROTO_UDP && udp_hdr(skb)->check && !skb_is_gso(skb) &&
	       skb->ip_summed == CHECKSUM_PARTIAL && skb_checksum_start_offset(skb) > 0;
}

bool ovs_shim_outer_act(const struct ovs_shim_outer *outer, const struct ovs_shim_frame *frame,
			const struct shim_action *action)
{
	const struct shim_packet *packet = &frame->packet;
	struct sk_buff *skb = packet->frame;
	__be16 old, new;

	if (!packet->version || action->ecn == packet->ecn)
		return true;
	/* All that is in front goes along with what is written behind. */
	if (skb_ensure_writable(skb, frame->offset + sizeof(struct iphdr)))
		return false;
	if (ip_hdr(skb)->version == 4)
		ipv4_change_dsfield(ip_hdr(skb), (u8)~INET_ECN_MASK, action->ecn);
	else
		ipv6_change_dsfield(ipv6_hdr(skb), (u8)~INET_ECN_MASK, action->ecn);
	/* An inner IPv4 header sums up as before, with its own checksum. */
	if (packet->version == 6 && outer_checksum_covers(skb)) {
		new = *(const __be16 *)(skb->data + frame->offset);
		old = (new & ~htons(INET_ECN_MASK << IPV6_ECN_SHIFT)) |
		      htons(packet->ecn << IPV6_ECN_SHIFT);
		csum_replace2(&udp_hdr(skb)->check, old, new);
		if (!udp_hdr(skb)->check)
			udp_hdr(skb)->check = CSUM_MANGLED_0;
	}
	return true;
}
