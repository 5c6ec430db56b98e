// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds the network header of a packet, reads its addresses and weight, and writes its ECN field,
 * identification and reserved bit.
 *
 * Nothing a guest wrote is believed before it is checked: a packet that is not what it claims to
 * be is "not IP" (version 0) here, so it keeps its bytes, and pays the bucket like any other.
 * The same test decides at both ends, so that what is no control message for the sender's shim
 * is none for the receiver's.
 */
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/kernel.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "internal.h"

/* In-band VLAN tags looked behind; a packet with more of them is not IP to the shim. */
#define VLAN_TAGS_MAX 2

/* Reads an IPv4 header at packet->offset. */
static void parse_ipv4(struct sk_buff *skb, struct ovs_shim_packet *packet)
{
	const struct iphdr *ip;

	if (!pskb_may_pull(skb, packet->offset + sizeof(*ip)))
		return;
	ip = (const struct iphdr *)(skb->data + packet->offset);
	if (ip->version != 4 || ip->ihl < 5)
		return;
	packet->version = 4;
	packet->payload = packet->offset + ip->ihl * 4;
	packet->protocol = ip->protocol;
	packet->ecn = ip->tos & INET_ECN_MASK;
	packet->plain = !ip_is_fragment(ip);
}

/* Reads an IPv6 header at packet->offset, and the type of what its extension headers precede. */
static void parse_ipv6(struct sk_buff *skb, struct ovs_shim_packet *packet)
{
	const struct ipv6hdr *ip6;
	__be16 fragment = 0;
	u8 next;
	int payload;

	if (!pskb_may_pull(skb, packet->offset + sizeof(*ip6)))
		return;
	ip6 = (const struct ipv6hdr *)(skb->data + packet->offset);
	if (ip6->version != 6)
		return;
	next = ip6->nexthdr;
	packet->version = 6;
	packet->payload = packet->offset + sizeof(*ip6);
	packet->ecn = ipv6_get_dsfield(ip6) & INET_ECN_MASK;
	packet->plain = !ipv6_ext_hdr(next);
	if (!packet->plain) {
		payload = ipv6_skip_exthdr(skb, packet->payload, &next, &fragment);
		if (payload >= 0)
			packet->payload = payload;
	}
	packet->protocol = next;
}

/* As ovs_shim_look(), for any packet. */
struct ovs_shim_packet ovs_shim_parse(struct sk_buff *skb)
{
	struct ovs_shim_packet packet = {};
	const struct vlan_hdr *tag;
	__be16 type = skb->protocol;
	int tags;

	if (skb->dev->type == ARPHRD_ETHER || type == htons(ETH_P_TEB)) {
		if (!pskb_may_pull(skb, ETH_HLEN))
			return packet;
		type = ((const struct ethhdr *)skb->data)->h_proto;
		packet.offset = ETH_HLEN;
	}
	for (tags = 0; eth_type_vlan(type); tags++) {
		if (tags == VLAN_TAGS_MAX || !pskb_may_pull(skb, packet.offset + VLAN_HLEN))
			return packet;
		tag = (const struct vlan_hdr *)(skb->data + packet.offset);
		type = tag->h_vlan_encapsulated_proto;
		packet.offset += VLAN_HLEN;
	}
	if (type == htons(ETH_P_IP))
		parse_ipv4(skb, &packet);
	else if (type == htons(ETH_P_IPV6))
		parse_ipv6(skb, &packet);
	return packet;
}

/*
 * Writes the ECN field; false, and nothing changed, when there is no memory for a private copy of
 * the header.  An IPv4 header with its checksum sums to the same before and after, so
 * CHECKSUM_COMPLETE stays right; an IPv6 header has none and changes the sum.
 */
bool ovs_shim_set_ecn(struct sk_buff *skb, struct ovs_shim_packet packet, u8 ecn)
{
	struct ipv6hdr *ip6;
	__be16 *start;
	__be16 old, new;

	if (packet.version == 4) {
		if (skb_ensure_writable(skb, packet.offset + sizeof(struct iphdr)))
			return false;
		ipv4_change_dsfield((struct iphdr *)(skb->data + packet.offset),
				    (u8)~INET_ECN_MASK, ecn);
	} else {
		if (skb_ensure_writable(skb, packet.offset + sizeof(*ip6)))
			return false;
		ip6 = (struct ipv6hdr *)(skb->data + packet.offset);
		start = (__be16 *)ip6;
		old = *start;
		ipv6_change_dsfield(ip6, (u8)~INET_ECN_MASK, ecn);
		new = *start;
		if (skb->ip_summed == CHECKSUM_COMPLETE)
			skb->csum = csum_add(csum_sub(skb->csum, (__force __wsum)old),
					     (__force __wsum)new);
	}
	return true;
}

/*
 * Writes identification and reserved bit of an IPv4 header; false, and nothing changed, when there
 * is no memory for a private copy of the header.  CHECKSUM_COMPLETE stays right as above.
 */
bool ovs_shim_set_id(struct sk_buff *skb, const struct ovs_shim_packet *packet, u16 id,
		     bool echo)
{
	struct iphdr *ip;
	__be16 field;

	if (skb_ensure_writable(skb, packet->offset + sizeof(*ip)))
		return false;
	ip = (struct iphdr *)(skb->data + packet->offset);
	field = htons(id);
	csum_replace2(&ip->check, ip->id, field);
	ip->id = field;
	field = (ip->frag_off & ~htons(IP_CE)) | (echo ? htons(IP_CE) : 0);
	csum_replace2(&ip->check, ip->frag_off, field);
	ip->frag_off = field;
	return true;
}

/* Copies the addresses of an IP packet, IPv4-mapped if need be. */
void ovs_shim_addresses(const struct sk_buff *skb, const struct ovs_shim_packet *packet,
			struct in6_addr *source, struct in6_addr *destination)
{
	const void *ip = skb->data + packet->offset;

	if (packet->version == 4) {
		ipv6_addr_set_v4mapped(((const struct iphdr *)ip)->saddr, source);
		ipv6_addr_set_v4mapped(((const struct iphdr *)ip)->daddr, destination);
	} else {
		*source = ((const struct ipv6hdr *)ip)->saddr;
		*destination = ((const struct ipv6hdr *)ip)->daddr;
	}
}

/*
 * Returns the number of packets that a GSO packet will become, and in *bytes what they weigh with
 * a header each; sch_tbf and sch_htb see the same number (qdisc_pkt_len_init()).
 */
u32 ovs_shim_weight(const struct sk_buff *skb, u32 *bytes)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);
	unsigned int header = skb_transport_offset(skb);
	u32 packets = shared->gso_segs;

	if (!skb_transport_header_was_set(skb)) {
		*bytes = skb->len;
		return 1;
	}
	if (shared->gso_type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6)) {
		const struct tcphdr *tcp;
		struct tcphdr copy;

		tcp = skb_header_pointer(skb, header, sizeof(copy), &copy);
		if (tcp)
			header += __tcp_hdrlen(tcp);
	} else {
		header += sizeof(struct udphdr);
	}
	if (shared->gso_type & SKB_GSO_DODGY && skb->len > header)
		packets = DIV_ROUND_UP(skb->len - header, shared->gso_size);
	if (!packets)
		packets = 1;
	*bytes = skb->len + (packets - 1) * header;
	return packets;
}
