/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames: from a struct sk_buff to what the engine sees of it, and back.  A frame is parsed once
 * and written once.
 */
#ifndef OVS_SHIM_FRAME_H
#define OVS_SHIM_FRAME_H

#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/dst_metadata.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "../core/engine/packet.h"
#include "../core/law.h"

/* A parsed frame; lives on the stack of whoever handles it. */
struct ovs_shim_frame {
	int offset;			/* of the IP header from skb->data */
	int payload;			/* of what follows the IP header, from skb->data */
	u32 part;	/* bytes of each packet it is to be cut into, with headers; 0: unknown */
	bool tunnelled;			/* it stands behind the headers of a tunnel */
	struct shim_packet packet;	/* what the engine sees; packet.frame is the skb */
};

/* As ovs_shim_frame_parse(), for any frame. */
void ovs_shim_frame_parse_any(struct sk_buff *skb, u8 wants, struct ovs_shim_frame *frame);

/*
 * Fills the TCP segment of a frame, and its ports, if it is one whole plain packet of TCP; else
 * leaves packet.is_tcp false.  May move the header.
 */
void ovs_shim_frame_parse_segment(struct sk_buff *skb, struct ovs_shim_frame *frame);

/*
 * Writes the ECN field of an IPv6 header, which has no checksum: CHECKSUM_COMPLETE changes with it.
 */
void ovs_shim_frame_write_ipv6(struct sk_buff *skb, struct ipv6hdr *ip6, u8 ecn);

/* As ovs_shim_frame_act(), for an action that changes something. */
bool ovs_shim_frame_write(struct ovs_shim_frame *frame, const struct shim_action *action);

/*
 * Tells whether a frame says that its sender has an address, by ARP or a neighbour advertisement,
 * and stores that.  May move the header.
 */
bool ovs_shim_frame_announces(struct sk_buff *skb, const struct ovs_shim_frame *frame,
			      struct shim_address *address);

/*
 * Copies what follows the IP header of a frame that is IP, at most `room` bytes of it; returns how
 * many bytes were copied, 0 if the packet is not as long as its header says.
 */
size_t ovs_shim_frame_payload(const struct ovs_shim_frame *frame, u8 *data, size_t room);

/*
 * Tells whether a frame is to be cut into packets that exceed the MTU of the device it leaves by,
 * which would be dropped there or, worse, be sent.
 */
bool ovs_shim_frame_exceeds(const struct ovs_shim_frame *frame, unsigned int mtu);

/* Returns what a frame carries about the tunnel it came by or goes into, NULL if nothing. */
static inline struct metadata_dst *ovs_shim_frame_tunnel(const struct sk_buff *skb)
{
	/* It takes no const, but only reads. */
	struct metadata_dst *tunnel = skb_metadata_dst((struct sk_buff *)skb);

	return tunnel && tunnel->type == METADATA_IP_TUNNEL ? tunnel : NULL;
}

/* Returns the id of a frame's tunnel, 0 without one. */
static inline u64 ovs_shim_frame_tunnel_id(const struct sk_buff *skb)
{
	const struct metadata_dst *tunnel = ovs_shim_frame_tunnel(skb);

	return tunnel ? be64_to_cpu(tunnel->u.tun_info.key.tun_id) : 0;
}

/* Reads an IPv4 header whose version and length are right; fixed_id: of a GSO packet's parts. */
static inline void ovs_shim_frame_read_ipv4(struct shim_packet *packet, const struct iphdr *ip,
					    bool fixed_id)
{
	bool plain = !ip_is_fragment(ip);

	packet->version = 4;
	packet->protocol = ip->protocol;
	packet->ecn = ip->tos & INET_ECN_MASK;
	packet->plain = plain;
	packet->id = ntohs(ip->id);
	packet->echo = ip->frag_off & htons(IP_CE);
	packet->echo_free = plain;
	packet->id_free = plain && ip->frag_off & htons(IP_DF) && !fixed_id;
	ipv6_addr_set_v4mapped(ip->saddr, (struct in6_addr *)&packet->source);
	ipv6_addr_set_v4mapped(ip->daddr, (struct in6_addr *)&packet->destination);
}

/*
 * Tells whether a frame is the common case: one packet of untagged IPv4 without options in
 * Ethernet, with its header in front.  The data of skb starts at the link-layer header.
 */
static inline bool ovs_shim_frame_is_common(const struct sk_buff *skb)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)skb->data;

	return skb_headlen(skb) >= sizeof(*ethernet) + sizeof(struct iphdr) &&
	       skb->dev->type == ARPHRD_ETHER && ethernet->h_proto == htons(ETH_P_IP) &&
	       *(const u8 *)(ethernet + 1) == 0x45 && !skb_vlan_tag_present(skb) &&
	       !skb_is_gso(skb);
}

/*
 * Fills *frame from skb, whose data starts at the link-layer header and whose device is the one it
 * leaves by; wants: SHIM_LAW_* of the law that is going to see it.  May move the header.  The time
 * is the caller's to set, and packet.segment undefined without packet.is_tcp.
 */
static inline void ovs_shim_frame_parse(struct sk_buff *skb, u8 wants, struct ovs_shim_frame *frame)
{
	struct shim_packet *packet = &frame->packet;

	if (unlikely(!ovs_shim_frame_is_common(skb))) {
		ovs_shim_frame_parse_any(skb, wants, frame);
		return;
	}
	frame->offset = ETH_HLEN;
	frame->payload = ETH_HLEN + sizeof(struct iphdr);
	frame->tunnelled = false;
	packet->frame = skb;
	packet->network = (struct shim_network){ .tunnel_id = ovs_shim_frame_tunnel_id(skb) };
	packet->link_destination = shim_mac(skb->data);
	packet->link_source = shim_mac(skb->data + ETH_ALEN);
	packet->bytes = skb->len;
	packet->packets = 1;
	packet->gso = false;
	packet->is_tcp = false;
	ovs_shim_frame_read_ipv4(packet, (const struct iphdr *)(skb->data + ETH_HLEN), false);
	if (unlikely(wants & SHIM_LAW_FLOWS && packet->protocol == IPPROTO_TCP))
		ovs_shim_frame_parse_segment(skb, frame);
}

/*
 * Makes the header of a frame what an action says; false, and nothing changed, without memory for a
 * private copy of it.
 */
static inline bool ovs_shim_frame_act(struct ovs_shim_frame *frame,
				      const struct shim_action *action)
{
	const struct shim_packet *packet = &frame->packet;

	if (action->ecn == packet->ecn && action->id == packet->id &&
	    action->echo == packet->echo &&
	    (!packet->is_tcp || (action->tcp_flags == packet->segment.flags &&
				 action->tcp_window == packet->segment.window)))
		return true;
	return ovs_shim_frame_write(frame, action);
}

#endif
