// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads and writes headers.
 *
 * Nothing a guest wrote is believed before it is checked: a packet that is not what it claims to
 * be is "not IP" (version 0) here, so it keeps its bytes, and pays the bucket like any other.
 * The same test decides at both ends, so that what is no control message for the sender's shim
 * is none for the receiver's.
 *
 * A packet that is no whole TCP header in one unfragmented IP packet is no TCP segment and keeps
 * every byte behind the IP header.  Options are read of SYNs only; behind a malformed one none
 * counts.  A GSO packet is one segment of all its payload.
 *
 * Checksums are not verified, only kept as right or wrong as they were.
 */
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/ndisc.h>
#include <net/tcp.h>

#include "../core/host.h"
#include "frame.h"
#include "vlan.h"

/* In-band VLAN tags looked behind; a packet with more of them is not IP to the shim. */
#define VLAN_TAGS_MAX 2

/* Where the 16-bit words of data offset and flags, and of the window, are in a TCP header. */
#define TCP_FLAGS_OFFSET 12
#define TCP_WINDOW_OFFSET 14

/* Mask of SHIM_TCP_* in the word of data offset and flags. */
#define TCP_FLAGS_MASK 0x1ff

/* Returns the word at a byte offset of a TCP header. */
static __be16 *frame_tcp_word(void *tcp, int offset)
{
	return (__be16 *)((u8 *)tcp + offset);
}

/* Reads an IPv4 header at frame->offset. */
static void frame_parse_ipv4(struct sk_buff *skb, struct ovs_shim_frame *frame)
{
	const struct iphdr *ip;

	if (!pskb_may_pull(skb, frame->offset + sizeof(*ip)))
		return;
	ip = (const struct iphdr *)(skb->data + frame->offset);
	if (ip->version != 4 || ip->ihl < 5)
		return;
	frame->payload = frame->offset + ip->ihl * 4;
	ovs_shim_frame_read_ipv4(&frame->packet, ip,
				 skb_is_gso(skb) &&
				 skb_shinfo(skb)->gso_type & SKB_GSO_TCP_FIXEDID);
}

/* Reads an IPv6 header at frame->offset, and the type of what its extension headers precede. */
static void frame_parse_ipv6(struct sk_buff *skb, struct ovs_shim_frame *frame)
{
	struct shim_packet *packet = &frame->packet;
	const struct ipv6hdr *ip6;
	__be16 fragment = 0;
	int payload;
	u8 next;

	if (!pskb_may_pull(skb, frame->offset + sizeof(*ip6)))
		return;
	ip6 = (const struct ipv6hdr *)(skb->data + frame->offset);
	if (ip6->version != 6)
		return;
	next = ip6->nexthdr;
	frame->payload = frame->offset + sizeof(*ip6);
	packet->version = 6;
	packet->ecn = ipv6_get_dsfield(ip6) & INET_ECN_MASK;
	packet->plain = !ipv6_ext_hdr(next);
	memcpy(&packet->source, &ip6->saddr, sizeof(packet->source));
	memcpy(&packet->destination, &ip6->daddr, sizeof(packet->destination));
	if (!packet->plain) {
		payload = ipv6_skip_exthdr(skb, frame->payload, &next, &fragment);
		if (payload >= 0)
			frame->payload = payload;
	}
	packet->protocol = next;
}

/* Finds the link layer's end and what follows it; fills the network and the IP header's fields. */
static void frame_parse_headers(struct sk_buff *skb, struct ovs_shim_frame *frame)
{
	struct shim_network *network = &frame->packet.network;
	const struct vlan_hdr *tag;
	__be16 type = skb->protocol;
	int tags;

	network->tunnel_id = ovs_shim_frame_tunnel_id(skb);
	if (skb_vlan_tag_present(skb))
		network->vlan = ovs_shim_vlan(skb->vlan_proto, skb_vlan_tag_get(skb));
	if (skb->dev->type == ARPHRD_ETHER || type == htons(ETH_P_TEB)) {
		if (!pskb_may_pull(skb, ETH_HLEN))
			return;
		type = ((const struct ethhdr *)skb->data)->h_proto;
		frame->packet.link_destination = shim_mac(skb->data);
		frame->packet.link_source = shim_mac(skb->data + ETH_ALEN);
		frame->offset = ETH_HLEN;
	}
	for (tags = 0; eth_type_vlan(type); tags++) {
		if (tags == VLAN_TAGS_MAX || !pskb_may_pull(skb, frame->offset + VLAN_HLEN))
			return;
		tag = (const struct vlan_hdr *)(skb->data + frame->offset);
		if (!tags && !skb_vlan_tag_present(skb))
			network->vlan = ovs_shim_vlan(type, ntohs(tag->h_vlan_TCI));
		type = tag->h_vlan_encapsulated_proto;
		frame->offset += VLAN_HLEN;
	}
	if (type == htons(ETH_P_IP))
		frame_parse_ipv4(skb, frame);
	else if (type == htons(ETH_P_IPV6))
		frame_parse_ipv6(skb, frame);
}

/*
 * Returns where the header begins that each part of a GSO packet has before its payload, from
 * skb->data: that of the innermost transport, which a tunnel of the guest's own may be around; -1
 * if it is not known.
 */
static int frame_transport(const struct sk_buff *skb)
{
	int offset = -1;

	if (skb->encapsulation && skb->inner_transport_header)
		offset = skb_inner_transport_offset(skb);
	if (offset < 0 && skb_transport_header_was_set(skb)) {
		offset = skb_transport_offset(skb);
		/* The headers of a tunnel may be in front of skb->data. */
		if (offset < 0)
			offset = skb_inner_transport_offset(skb);
	}
	return offset;
}

/*
 * Fills what a frame weighs: the number of packets that a GSO packet will become, and their bytes
 * with a header each; sch_tbf and sch_htb see the same number (qdisc_pkt_len_init()) but of
 * fragments, whose payload begins with the UDP header, and which have one more header in IPv6.
 */
static void frame_weigh(const struct sk_buff *skb, struct ovs_shim_frame *frame)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);
	struct shim_packet *packet = &frame->packet;
	int transport = frame_transport(skb);
	unsigned int header, fragment = 0;
	u32 packets;

	packet->bytes = skb->len;
	packet->packets = 1;
	packet->gso = skb_is_gso(skb);
	if (!packet->gso)
		return;
	/* Datagrams of SCTP have lengths of their own, which this only stands for. */
	if (shared->gso_size != GSO_BY_FRAGS)
		frame->part = min_t(u32, shared->gso_size, skb->len);
	if (transport < 0)
		return;
	header = transport;
	packets = shared->gso_segs;
	if (shared->gso_type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6)) {
		const struct tcphdr *tcp;
		struct tcphdr copy;

		tcp = skb_header_pointer(skb, header, sizeof(copy), &copy);
		if (tcp)
			header += __tcp_hdrlen(tcp);
	} else if (!(shared->gso_type & SKB_GSO_UDP)) {
		header += sizeof(struct udphdr);
	} else if (packet->version != 4) {
		fragment = sizeof(struct frag_hdr);
	}
	if (shared->gso_type & SKB_GSO_DODGY && skb->len > header)
		packets = DIV_ROUND_UP(skb->len - header, shared->gso_size);
	if (!packets)
		packets = 1;
	packet->packets = packets;
	packet->bytes += (packets - 1) * header + packets * fragment;
	if (frame->part)
		frame->part = min_t(u32, header + shared->gso_size, skb->len) + fragment;
}

bool ovs_shim_frame_exceeds(const struct ovs_shim_frame *frame, unsigned int mtu)
{
	const struct sk_buff *skb = frame->packet.frame;
	/* In a tunnel the uplink's own network header is in front of the data. */
	int network = frame->tunnelled ? skb_network_offset(skb) : frame->offset;

	return frame->part && (int)frame->part - network > (int)mtu;
}

/* Returns where an IP packet ends by its header, from skb->data; -1 if it is not all there. */
static int frame_ip_end(const struct ovs_shim_frame *frame)
{
	const struct sk_buff *skb = frame->packet.frame;
	const void *ip = skb->data + frame->offset;
	int end = frame->offset;

	if (frame->packet.version == 4)
		end += ntohs(((const struct iphdr *)ip)->tot_len);
	else
		end += sizeof(struct ipv6hdr) + ntohs(((const struct ipv6hdr *)ip)->payload_len);
	return end <= skb->len ? end : -1;
}

/* Reads the options of a SYN, len bytes. */
static void frame_read_options(const u8 *option, int len, struct shim_segment *segment)
{
	u8 scale = SHIM_SCALE_NONE;
	u16 mss = 0;

	while (len > 0 && *option != TCPOPT_EOL) {
		int size = *option == TCPOPT_NOP ? 1 : len < 2 ? 0 : option[1];

		if (size > len || (*option != TCPOPT_NOP && size < 2))
			return;
		if (*option == TCPOPT_MSS && size == TCPOLEN_MSS)
			mss = option[2] << 8 | option[3];
		else if (*option == TCPOPT_WINDOW && size == TCPOLEN_WINDOW)
			scale = option[2];
		option += size;
		len -= size;
	}
	segment->mss = mss;
	segment->scale = scale;
}

void ovs_shim_frame_parse_segment(struct sk_buff *skb, struct ovs_shim_frame *frame)
{
	int end = skb_is_gso(skb) ? (int)skb->len : frame_ip_end(frame);
	struct shim_packet *packet = &frame->packet;
	struct shim_segment *segment = &packet->segment;
	struct tcphdr *tcp;
	int header;

	if (!packet->plain || end < frame->payload + (int)sizeof(*tcp) ||
	    !pskb_may_pull(skb, frame->payload + sizeof(*tcp)))
		return;
	header = ((const struct tcphdr *)(skb->data + frame->payload))->doff * 4;
	if (header < (int)sizeof(*tcp) || end < frame->payload + header ||
	    !pskb_may_pull(skb, frame->payload + header))
		return;
	tcp = (struct tcphdr *)(skb->data + frame->payload);
	packet->is_tcp = true;
	packet->port_source = ntohs(tcp->source);
	packet->port_destination = ntohs(tcp->dest);
	*segment = (struct shim_segment){
		.seq = ntohl(tcp->seq),
		.ack = ntohl(tcp->ack_seq),
		.payload = end - frame->payload - header,
		.window = ntohs(tcp->window),
		.flags = ntohs(*frame_tcp_word(tcp, TCP_FLAGS_OFFSET)) & TCP_FLAGS_MASK,
		.scale = SHIM_SCALE_NONE,
		.ecn = packet->ecn,
	};
	segment->size = min_t(u32, segment->payload, U16_MAX);
	if (skb_is_gso(skb))
		segment->size = min(segment->size, skb_shinfo(skb)->gso_size);
	if (segment->flags & SHIM_TCP_SYN)
		frame_read_options((const u8 *)(tcp + 1), header - (int)sizeof(*tcp), segment);
}

void ovs_shim_frame_parse_any(struct sk_buff *skb, u8 wants, struct ovs_shim_frame *frame)
{
	struct shim_packet *packet = &frame->packet;

	/* The segment is long, and most packets have none. */
	memset(frame, 0, offsetof(struct ovs_shim_frame, packet.segment));
	packet->frame = skb;
	frame_parse_headers(skb, frame);
	frame_weigh(skb, frame);
	if (wants & SHIM_LAW_FLOWS && packet->protocol == IPPROTO_TCP && packet->version)
		ovs_shim_frame_parse_segment(skb, frame);
}

/* An ARP packet of IPv4 over Ethernet. */
struct frame_arp {
	struct arphdr head;
	u8 sender[ETH_ALEN];
	__be32 sender_ip;
	u8 target[ETH_ALEN];
	__be32 target_ip;
} __packed;

/* As ovs_shim_frame_announces(), for ARP. */
static bool frame_announces_arp(struct sk_buff *skb, const struct ovs_shim_frame *frame,
				struct shim_address *address)
{
	const struct frame_arp *arp;
	__be16 type;

	if (frame->offset < ETH_HLEN || !pskb_may_pull(skb, frame->offset + sizeof(*arp)))
		return false;
	memcpy(&type, skb->data + frame->offset - sizeof(type), sizeof(type));
	arp = (const struct frame_arp *)(skb->data + frame->offset);
	if (type != htons(ETH_P_ARP) || arp->head.ar_hrd != htons(ARPHRD_ETHER) ||
	    arp->head.ar_pro != htons(ETH_P_IP) || arp->head.ar_hln != ETH_ALEN ||
	    arp->head.ar_pln != sizeof(arp->sender_ip) || !arp->sender_ip)
		return false;
	ipv6_addr_set_v4mapped(arp->sender_ip, (struct in6_addr *)address);
	return true;
}

bool ovs_shim_frame_announces(struct sk_buff *skb, const struct ovs_shim_frame *frame,
			      struct shim_address *address)
{
	const struct shim_packet *packet = &frame->packet;
	const struct nd_msg *advertisement;

	if (!packet->version)
		return frame_announces_arp(skb, frame, address);
	if (packet->version != 6 || packet->protocol != IPPROTO_ICMPV6 || !packet->plain ||
	    !pskb_may_pull(skb, frame->payload + sizeof(*advertisement)))
		return false;
	advertisement = (const struct nd_msg *)(skb->data + frame->payload);
	if (advertisement->icmph.icmp6_type != NDISC_NEIGHBOUR_ADVERTISEMENT)
		return false;
	memcpy(address, &advertisement->target, sizeof(*address));
	return true;
}

size_t ovs_shim_frame_payload(const struct ovs_shim_frame *frame, u8 *data, size_t room)
{
	const struct sk_buff *skb = frame->packet.frame;
	int len = frame_ip_end(frame) - frame->payload;

	if (len <= 0)
		return 0;
	len = min_t(size_t, len, room);
	return skb_copy_bits(skb, frame->payload, data, len) ? 0 : len;
}

/*
 * Writes the ECN field of an IPv4 header, identification and reserved bit.  An IPv4 header with its
 * checksum sums to the same before and after, so CHECKSUM_COMPLETE stays right.
 */
static void frame_write_ipv4(struct iphdr *ip, const struct shim_action *action)
{
	__be16 field;

	ipv4_change_dsfield(ip, (u8)~INET_ECN_MASK, action->ecn);
	field = htons(action->id);
	csum_replace2(&ip->check, ip->id, field);
	ip->id = field;
	field = (ip->frag_off & ~htons(IP_CE)) | (action->echo ? htons(IP_CE) : 0);
	csum_replace2(&ip->check, ip->frag_off, field);
	ip->frag_off = field;
}

void ovs_shim_frame_write_ipv6(struct sk_buff *skb, struct ipv6hdr *ip6, u8 ecn)
{
	const __be16 *start = (const __be16 *)ip6;
	__be16 old = *start, new;

	ipv6_change_dsfield(ip6, (u8)~INET_ECN_MASK, ecn);
	new = *start;
	if (skb->ip_summed == CHECKSUM_COMPLETE)
		skb->csum = csum_add(csum_sub(skb->csum, (__force __wsum)old),
				     (__force __wsum)new);
}

/* Replaces a word of the TCP header and keeps the checksum. */
static void frame_replace_word(struct sk_buff *skb, struct tcphdr *tcp, int offset, u16 value)
{
	__be16 *word = frame_tcp_word(tcp, offset);
	__be16 new = htons(value);

	if (*word == new)
		return;
	inet_proto_csum_replace2(&tcp->check, skb, *word, new, false);
	*word = new;
}

/* Writes flags and window of a TCP header. */
static void frame_write_tcp(struct sk_buff *skb, struct tcphdr *tcp,
			    const struct shim_action *action)
{
	u16 flags = ntohs(*frame_tcp_word(tcp, TCP_FLAGS_OFFSET));

	frame_replace_word(skb, tcp, TCP_FLAGS_OFFSET,
			   (flags & ~TCP_FLAGS_MASK) | action->tcp_flags);
	frame_replace_word(skb, tcp, TCP_WINDOW_OFFSET, action->tcp_window);
}

bool ovs_shim_frame_write(struct ovs_shim_frame *frame, const struct shim_action *action)
{
	const struct shim_packet *packet = &frame->packet;
	bool tcp = packet->is_tcp && (action->tcp_flags != packet->segment.flags ||
				      action->tcp_window != packet->segment.window);
	struct sk_buff *skb = packet->frame;
	int extent = frame->offset;
	bool cwr = tcp && action->tcp_flags & SHIM_TCP_CWR && packet->gso;

	if (tcp)
		extent = frame->payload + sizeof(struct tcphdr);
	else if (packet->version == 4)
		extent += sizeof(struct iphdr);
	else
		extent += sizeof(struct ipv6hdr);
	/* What is not IP has no field that could be written. */
	if (!packet->version)
		return true;
	/* The kind of GSO stands in memory that clones share. */
	if ((cwr && skb_unclone(skb, GFP_ATOMIC)) || skb_ensure_writable(skb, extent))
		return false;
	if (packet->version == 4)
		frame_write_ipv4((struct iphdr *)(skb->data + frame->offset), action);
	else if (action->ecn != packet->ecn)
		ovs_shim_frame_write_ipv6(skb, (struct ipv6hdr *)(skb->data + frame->offset),
					  action->ecn);
	if (tcp)
		frame_write_tcp(skb, (struct tcphdr *)(skb->data + frame->payload), action);
	/* CWR, once, is the first packet's. */
	if (cwr)
		skb_shinfo(skb)->gso_type |= SKB_GSO_TCP_ECN;
	return true;
}

/* Copies the link-layer source of a packet, all 0 without one. */
void shim_host_source(const struct shim_packet *packet, u8 mac[ETH_ALEN])
{
	const struct sk_buff *skb = packet->frame;

	if (skb->dev->type == ARPHRD_ETHER && skb_headlen(skb) >= ETH_HLEN)
		memcpy(mac, skb->data + ETH_ALEN, ETH_ALEN);
	else
		memset(mac, 0, ETH_ALEN);
}

/*
 * Tells whether a VM's packet goes into a tunnel; if so, stores that one's far end in *end, IPv4 as
 * ::ffff:a.b.c.d.
 */
bool shim_host_tunnel_end(const struct shim_packet *packet, struct shim_address *end)
{
	const struct ovs_shim_frame *frame = container_of(packet, struct ovs_shim_frame, packet);
	const struct sk_buff *skb = packet->frame;
	const struct metadata_dst *tunnel = ovs_shim_frame_tunnel(skb);
	const struct ip_tunnel_key *key;

	if (frame->tunnelled) {
		/* The outer header is in front of what was parsed. */
		if (ip_hdr(skb)->version == 4)
			ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, (struct in6_addr *)end);
		else
			memcpy(end, &ipv6_hdr(skb)->daddr, sizeof(*end));
		return true;
	}
	if (!tunnel)
		return false;
	key = &tunnel->u.tun_info.key;
	if (ip_tunnel_info_af(&tunnel->u.tun_info) == AF_INET6)
		memcpy(end, &key->u.ipv6.dst, sizeof(*end));
	else
		ipv6_addr_set_v4mapped(key->u.ipv4.dst, (struct in6_addr *)end);
	return true;
}

/* Returns a hash of the flow that a packet belongs to. */
u32 shim_host_flow_hash(const struct shim_packet *packet)
{
	return skb_get_hash(packet->frame);
}
