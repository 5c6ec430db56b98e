/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's shim/kernel/frame.c reads and writes the frames of the fuzzers, too.  This header
 * has, under the kernel's names, the few things that it takes from there and that user space does
 * not have.
 *
 * Only the head of a packet may be touched before pskb_may_pull(): the rest is poisoned.
 */
#ifndef FUZZ_SKBUFF_H
#define FUZZ_SKBUFF_H

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <linux/udp.h>
#include <sanitizer/asan_interface.h>

#include "shim/core/host.h"

#define IP_CE 0x8000
#define IP_DF 0x4000
#define IP_MF 0x2000
#define IP_OFFSET 0x1fff
#define VLAN_HLEN 4
#define VLAN_VID_MASK 0x0fff
#define INET_ECN_MASK 3
#define ARPHRD_ETHER 1
#define TCPOPT_EOL 0
#define TCPOPT_NOP 1
#define TCPOPT_MSS 2
#define TCPOPT_WINDOW 3
#define TCPOLEN_MSS 4
#define TCPOLEN_WINDOW 3
#define U16_MAX 0xffff
#define GSO_BY_FRAGS 0xffff
#define GFP_ATOMIC 0
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))

enum { CHECKSUM_NONE, CHECKSUM_COMPLETE };
enum { METADATA_IP_TUNNEL };
enum {
	SKB_GSO_TCPV4 = 1, SKB_GSO_DODGY = 2, SKB_GSO_TCP_ECN = 4, SKB_GSO_TCP_FIXEDID = 8,
	SKB_GSO_TCPV6 = 16, SKB_GSO_UDP = 32,
};

/* A device. */
struct net_device {
	unsigned short type;		/* ARPHRD_ETHER */
};

/* What is known of the parts of a packet: it is one. */
struct skb_shared_info {
	unsigned int gso_type;		/* 0 */
	unsigned short gso_size;	/* 0 */
	unsigned short gso_segs;	/* 0 */
};

/* By what a tunnel is known. */
struct ip_tunnel_key {
	__be64 tun_id;			/* its id */
	union {
		struct {
			__be32 dst;	/* far end */
		} ipv4;			/* over IPv4 */
		struct {
			struct in6_addr dst;	/* far end */
		} ipv6;			/* over IPv6 */
	} u;				/* by what carries it */
};

/* What a packet carries about its tunnel. */
struct metadata_dst {
	int type;			/* METADATA_IP_TUNNEL */
	struct {
		struct {
			struct ip_tunnel_key key;	/* by which the tunnel is known */
		} tun_info;		/* of the tunnel */
	} u;				/* by type */
};

/* A packet. */
struct sk_buff {
	u8 *data;			/* its bytes, of which only the head may be touched */
	const u8 *bytes;		/* all of them, as they were */
	unsigned int len;		/* how many */
	unsigned int head;		/* how many of them are the head */
	unsigned int writable;		/* how many may be written */
	__be16 protocol;		/* of the link layer's payload */
	__be16 vlan_proto;		/* unused: tags are in the frame */
	struct net_device *dev;		/* device */
	struct skb_shared_info shared;	/* its parts */
	bool encapsulation;		/* false */
	unsigned short inner_transport_header;	/* 0 */
	int ip_summed;			/* CHECKSUM_NONE */
	__wsum csum;			/* unused */
};

/* A VLAN tag. */
struct vlan_hdr {
	__be16 h_vlan_TCI;		/* tag */
	__be16 h_vlan_encapsulated_proto;	/* type of what follows */
};

#define skb_shinfo(skb) (&(skb)->shared)
#define skb_is_gso(skb) ((skb)->shared.gso_size)
#define skb_headlen(skb) ((skb)->head)
#define skb_vlan_tag_present(skb) false
#define skb_vlan_tag_get(skb) 0
#define skb_transport_header_was_set(skb) false
#define skb_transport_offset(skb) 0
#define skb_inner_transport_offset(skb) 0
#define skb_network_offset(skb) ((void)(skb), 0)
#define skb_unclone(skb, flags) 0
#define ip_hdr(skb) ((const struct iphdr *)(skb)->data)
#define ipv6_hdr(skb) ((const struct ipv6hdr *)(skb)->data)
#define ip_tunnel_info_af(info) AF_INET
#define skb_get_hash(skb) 0
#define csum_add(a, b) ((a) + (b))
#define csum_sub(a, b) ((a) - (b))
#define be64_to_cpu(value) (value)
#define ip_is_fragment(ip) (((ip)->frag_off & htons(IP_MF | IP_OFFSET)) != 0)
#define eth_type_vlan(type) ((type) == htons(0x8100) || (type) == htons(0x88a8))
#define __tcp_hdrlen(tcp) ((tcp)->doff * 4U)

/* Returns the metadata of a packet's tunnel: it has none. */
static inline struct metadata_dst *skb_metadata_dst(struct sk_buff *skb)
{
	(void)skb;
	return NULL;
}

/* Makes the first n bytes of a packet its head; false if it has not as many. */
static inline bool pskb_may_pull(struct sk_buff *skb, unsigned int n)
{
	if (n > skb->len)
		return false;
	if (n > skb->head) {
		ASAN_UNPOISON_MEMORY_REGION(skb->data, n);
		skb->head = n;
	}
	return true;
}

/* Copies n bytes of a packet, wherever they are; an error number if there are not as many. */
static inline int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int n)
{
	if (offset < 0 || n < 0 || (u64)offset + n > skb->len)
		return -EFAULT;
	memcpy(to, skb->bytes + offset, n);
	return 0;
}

/* Returns n bytes of a packet, wherever they are; NULL if there are not as many. */
static inline const void *skb_header_pointer(const struct sk_buff *skb, int offset, int n,
					     void *buffer)
{
	return skb_copy_bits(skb, offset, buffer, n) ? NULL : buffer;
}

/* Makes the first n bytes of a packet its own, to be written. */
static inline int skb_ensure_writable(struct sk_buff *skb, unsigned int n)
{
	if (!pskb_may_pull(skb, n))
		return -ENOMEM;
	skb->writable = n;
	return 0;
}

/* Replaces a word that a checksum covers: RFC 1624, equation 3. */
static inline void csum_replace2(__sum16 *sum, __be16 old, __be16 new)
{
	u32 total = (u32)(u16)~*sum + (u16)~old + new;

	total = (total & 0xffff) + (total >> 16);
	total = (total & 0xffff) + (total >> 16);
	*sum = (__sum16)~total;
}

/* The same for a protocol's checksum of a packet. */
static inline void inet_proto_csum_replace2(__sum16 *sum, struct sk_buff *skb, __be16 old,
					    __be16 new, bool pseudo)
{
	(void)skb;
	(void)pseudo;
	csum_replace2(sum, old, new);
}

/* Replaces bits of the second byte of an IPv4 header. */
static inline void ipv4_change_dsfield(struct iphdr *ip, u8 mask, u8 value)
{
	__be16 *word = (__be16 *)ip, old = *word;

	ip->tos = (ip->tos & mask) | value;
	csum_replace2(&ip->check, old, *word);
}

/* Returns the traffic class of an IPv6 header. */
static inline u8 ipv6_get_dsfield(const struct ipv6hdr *ip6)
{
	return (u8)(ntohs(*(const __be16 *)ip6) >> 4);
}

/* Replaces bits of the traffic class of an IPv6 header. */
static inline void ipv6_change_dsfield(struct ipv6hdr *ip6, u8 mask, u8 value)
{
	__be16 *word = (__be16 *)ip6;

	*word = htons((u16)((ntohs(*word) & (mask << 4 | 0xf00f)) | value << 4));
}

/* Maps an IPv4 address. */
static inline void ipv6_addr_set_v4mapped(__be32 from, struct in6_addr *to)
{
	memset(to, 0, 10);
	memset((u8 *)to + 10, 0xff, 2);
	memcpy((u8 *)to + 12, &from, sizeof(from));
}

/* Tells whether a type is that of an IPv6 extension header, or of none to follow. */
static inline bool ipv6_ext_hdr(u8 type)
{
	return type == 0 || type == 43 || type == 44 || type == 51 || type == 60 || type == 59;
}

int ipv6_skip_exthdr(const struct sk_buff *skb, int start, u8 *type, __be16 *fragment);

#endif
