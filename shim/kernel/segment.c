// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cuts a GSO packet into parts of k segments that are GSO packets again.
 *
 * The kernel cuts to gso_size bytes of payload.  With gso_size = k s, s being the packet's own, its
 * skb_gso_segment() makes packets of k s bytes, whose lengths, sequence numbers and checksums are
 * right for such packets; iwlwifi cuts for its A-MSDUs like this (iwl_tx_tso_segment()).  What is
 * left to do so that they become what the uncut packet would have become:
 *
 *   gso_size, gso_segs   s, and the segments of the part: k, less of the last one
 *   gso_type             that of the packet; a header that the kernel has cut is DODGY no more, and
 *                        a CWR that is the first segment's alone (TCP_ECN) the first part's
 *   IPv4 identification  of part n the kernel counts as first + n, at each level of headers that
 *                        has it counted; its first segment is number n k, so n (k - 1) are added
 *   outer UDP checksum   the kernel has made it that of the part; a GSO packet has the
 *                        pseudo-header's there (udp_set_csum())
 *
 * FIN and PSH the kernel leaves to the last part, ooo_okay to the first, and time stamps to the one
 * with the byte that is to be stamped: of that whoever cuts it to segments does the same again.
 *
 * A part must have its checksum left to be filled in (CHECKSUM_PARTIAL), as GSO packets have, and
 * may be in as many fragments as the packet: what the device cannot do the kernel does behind the
 * queue.  A tunnel's checksums inside are left only if the device has them in hw_enc_features.
 *
 * Bounds.  Header and payload of a part are less than 2^16 bytes, for its IP header must have room
 * for the length, and gso_size is not GSO_BY_FRAGS = 2^16 - 1 then.  This holds whatever the packet
 * has: of BIG TCP, whose hop-by-hop header the kernel takes away, too.
 *
 * Single segments are made of what the kernel treats by other rules: lists of packets (FRAGLIST,
 * frag_list), fragments (UDP), SCTP, ESP, IP in IP, GRE with checksums, remote checksums, and kinds
 * that are not known here.  The same is done where the kernel cannot make the parts.
 */
#include <linux/err.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/udp.h>

#include "compat.h"
#include "segment.h"

/* Kinds of GSO whose parts can be GSO packets. */
#define SEGMENT_TYPES (SKB_GSO_TCPV4 | SKB_GSO_TCPV6 | SKB_GSO_UDP_L4 | SKB_GSO_DODGY | \
		       SKB_GSO_TCP_ECN | SKB_GSO_TCP_FIXEDID | OVS_SHIM_GSO_ACCECN | \
		       OVS_SHIM_GSO_FIXEDID_INNER | SKB_GSO_GRE | SKB_GSO_UDP_TUNNEL | \
		       SKB_GSO_UDP_TUNNEL_CSUM)

/* What a part needs so that its checksum is left, and its payload not copied. */
#define SEGMENT_FEATURES (NETIF_F_SG | NETIF_F_HW_CSUM)

/* Returns where the header of a packet's innermost transport is, from skb->data. */
static int segment_transport(const struct sk_buff *skb)
{
	return skb->encapsulation ? skb_inner_transport_offset(skb) : skb_transport_offset(skb);
}

/* Returns the bytes in front of a packet's payload, whose transport header is in its head. */
static u32 segment_header(const struct sk_buff *skb, u32 type)
{
	u32 transport = segment_transport(skb);

	if (type & SKB_GSO_UDP_L4)
		return transport + sizeof(struct udphdr);
	return transport + __tcp_hdrlen((const struct tcphdr *)(skb->data + transport));
}

/*
 * Returns how many of its segments a part of a packet has, of which there are to be so many; 1:
 * these cannot be GSO packets.
 */
static u32 segment_most(const struct sk_buff *skb, u32 segments, netdev_features_t features)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);
	netdev_features_t inside = skb->dev->hw_enc_features & (features | SEGMENT_FEATURES);
	int transport = segment_transport(skb);
	struct tcphdr *tcp, copy;
	u32 header = transport;

	if (shared->gso_type & ~SEGMENT_TYPES || skb_has_frag_list(skb) || transport < 0 ||
	    !shared->gso_size || !skb_transport_header_was_set(skb))
		return 1;
	if (skb->encapsulation && !(inside & NETIF_F_HW_CSUM) &&
	    (inside & NETIF_F_CSUM_MASK) != (NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM))
		return 1;
	if (shared->gso_type & SKB_GSO_UDP_L4) {
		header += sizeof(struct udphdr);
	} else {
		tcp = skb_header_pointer(skb, transport, sizeof(copy), &copy);
		if (!tcp)
			return 1;
		header += __tcp_hdrlen(tcp);
	}
	/* What has no more payload than a part is not for the kernel to cut. */
	if (skb->len <= header || header >= U16_MAX)
		return 1;
	segments = min(segments, (skb->len - header - 1) / shared->gso_size);
	return clamp_t(u32, segments, 1, (U16_MAX - header) / shared->gso_size);
}

/* Returns the IPv4 header of a part: of the tunnel or the innermost one; NULL if it is no such. */
static struct iphdr *segment_ipv4(const struct sk_buff *part, bool inner)
{
	struct iphdr *ip = (struct iphdr *)(inner ? skb_inner_network_header(part) :
						    skb_network_header(part));

	return ip->version == 4 ? ip : NULL;
}

/* Counts the identification of parts of k segments by segments, where the kernel counted parts. */
static void segment_number(struct sk_buff *parts, u32 k, bool inner)
{
	struct iphdr *ip = segment_ipv4(parts, inner);
	struct sk_buff *part;
	u16 first, more = 0;
	__be16 id;

	if (!ip || !parts->next)
		return;
	first = ntohs(ip->id);
	ip = segment_ipv4(parts->next, inner);
	/* It may be the same in all. */
	if (!ip || ntohs(ip->id) == first)
		return;
	for (part = parts; part; part = part->next) {
		ip = segment_ipv4(part, inner);
		id = htons(ntohs(ip->id) + more);
		csum_replace2(&ip->check, ip->id, id);
		ip->id = id;
		more += k - 1;
	}
}

/* Leaves the outer UDP checksum of a GSO packet to whoever cuts it. */
static void segment_leave_outer(struct sk_buff *part)
{
	u32 bytes = part->len - skb_transport_offset(part);
	struct udphdr *udp = udp_hdr(part);

	if (ip_hdr(part)->version == 4)
		udp->check = ~udp_v4_check(bytes, ip_hdr(part)->saddr, ip_hdr(part)->daddr, 0);
	else
		udp->check = ~udp_v6_check(bytes, &ipv6_hdr(part)->saddr, &ipv6_hdr(part)->daddr,
					   0);
}

/* Makes GSO packets of those parts that have more than one segment of so many bytes. */
static void segment_restore(struct sk_buff *parts, u16 size, u32 type)
{
	u32 header = segment_header(parts, type);
	struct sk_buff *part;

	type &= ~SKB_GSO_DODGY;
	for (part = parts; part; part = part->next) {
		struct skb_shared_info *shared = skb_shinfo(part);
		u32 payload = part->len - header;

		if (payload > size) {
			shared->gso_size = size;
			shared->gso_segs = DIV_ROUND_UP(payload, size);
			shared->gso_type = type;
			if (type & SKB_GSO_UDP_TUNNEL_CSUM)
				segment_leave_outer(part);
		}
		type &= ~SKB_GSO_TCP_ECN;
	}
}

/* Cuts a packet into parts of k > 1 of its segments; NULL or an error if the kernel cannot. */
static struct sk_buff *segment_cut(struct sk_buff *skb, u32 k, netdev_features_t features)
{
	u16 size = skb_shinfo(skb)->gso_size;
	u32 type = skb_shinfo(skb)->gso_type;
	struct sk_buff *parts;

	/* The kind of GSO stands in memory that clones share. */
	if (skb_unclone(skb, GFP_ATOMIC))
		return ERR_PTR(-ENOMEM);
	skb_shinfo(skb)->gso_size = size * k;
	parts = skb_gso_segment(skb, features | SEGMENT_FEATURES);
	skb_shinfo(skb)->gso_size = size;
	if (IS_ERR_OR_NULL(parts))
		return parts;
	if (parts->ip_summed != CHECKSUM_PARTIAL) {
		kfree_skb_list(parts);
		return ERR_PTR(-EOPNOTSUPP);
	}
	segment_number(parts, k, false);
	if (parts->encapsulation)
		segment_number(parts, k, true);
	segment_restore(parts, size, type);
	return parts;
}

struct sk_buff *ovs_shim_segment(struct sk_buff *skb, u32 segments)
{
	netdev_features_t features = netif_skb_features(skb) & ~NETIF_F_GSO_MASK;
	u32 k = segment_most(skb, segments, features);
	struct sk_buff *parts;

	if (k > 1) {
		parts = segment_cut(skb, k, features);
		if (!IS_ERR_OR_NULL(parts))
			return parts;
	}
	return skb_gso_segment(skb, features);
}
