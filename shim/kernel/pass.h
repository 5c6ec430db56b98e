/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The short way of a packet: what was judged of the one before it holds for it, too; pass.c.
 */
#ifndef OVS_SHIM_PASS_H
#define OVS_SHIM_PASS_H

#include <linux/if_ether.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>
#include <net/dst_metadata.h>
#include <net/inet_ecn.h>
#include <net/ip.h>

#include "../core/engine/lease.h"
#include "../core/engine/packet.h"

struct ovs_shim_frame;
struct shim_vm;

/* Where a packet comes from and goes to, as the hook tells ports apart; 0: it has no short way. */
struct ovs_shim_way {
	unsigned long from;		/* it came by */
	unsigned long to;		/* it leaves by */
	int iif;			/* the hook's, of packets that pass; not compared */
};

/* Bits of ovs_shim_pass.compares: what a packet must have like the one that was judged. */
#define OVS_SHIM_PASS_SOURCE BIT(0)	/* IP address it is from */
#define OVS_SHIM_PASS_DESTINATION BIT(1)	/* IP and MAC address it goes to */

/* Shift of the bits of ECN fields to be written in ovs_shim_pass.ecn. */
#define OVS_SHIM_PASS_WRITES 4

/* What a CPU knows of packets of one kind; up to lease.bytes a cache line. */
struct ovs_shim_pass {
	struct ovs_shim_way way;	/* theirs */
	__be32 source;			/* of IPv4, if compared */
	__be32 destination;		/* of IPv4, if compared */
	u8 link[ETH_ALEN];		/* MAC address they go to, if compared */
	__be16 type;			/* ETH_P_IP or ETH_P_IPV6 */
	u16 vlan;			/* id of the 802.1Q tag; 0: none */
	u8 protocol;			/* of control messages */
	u8 compares;			/* OVS_SHIM_PASS_* */
	u8 ecn;		/* 1 << field of fields that stay, and shifted that are written */
	u8 field;			/* to be written there */
	u16 overhead;			/* of the uplink, bytes */
	struct shim_lease lease;	/* what they may spend */
	u32 missed;			/* hash of the kind that last found another here */
	struct in6_addr source6;	/* of IPv6, if compared */
	struct in6_addr destination6;	/* of IPv6, if compared */
} ____cacheline_aligned;

/* Kinds that a CPU knows, as a shift. */
#define OVS_SHIM_PASS_SHIFT 6

extern struct ovs_shim_pass __percpu *ovs_shim_passes;
extern u32 ovs_shim_pass_by_address;

/* Returns where a CPU knows packets of a way whose addresses' exclusive or is that. */
static __always_inline struct ovs_shim_pass *ovs_shim_pass_at(unsigned long from, unsigned long to,
							      u32 addresses)
{
	u32 mixed = (u32)((from + 5 * to) >> 6) +
		    (addresses & READ_ONCE(ovs_shim_pass_by_address));

	mixed *= 0x9e3779b1;
	return this_cpu_ptr(ovs_shim_passes) + (mixed >> (32 - OVS_SHIM_PASS_SHIFT));
}

/* Writes the ECN field of a packet that passes; false, and nothing changed, without memory. */
bool ovs_shim_pass_write(struct ovs_shim_pass *pass, struct sk_buff *skb);

/* As ovs_shim_pass() for IPv6. */
struct ovs_shim_pass *ovs_shim_pass_ipv6(unsigned long from, unsigned long to, struct sk_buff *skb);

/* Returns what a packet of a kind takes of the wire, bytes. */
static __always_inline u32 ovs_shim_pass_wire(const struct ovs_shim_pass *pass,
					      const struct sk_buff *skb)
{
	return (u32)shim_wire_bytes(pass->overhead, skb->len, 1);
}

/* Tells whether a packet that takes `wire` bytes has the link layer and the lease of a kind. */
static __always_inline bool ovs_shim_pass_fits(const struct ovs_shim_pass *pass, unsigned long from,
					       unsigned long to, u32 wire,
					       const struct sk_buff *skb)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)skb->data;
	u16 vlan = 0;

	if (unlikely(pass->way.from != from || pass->way.to != to ||
		     !READ_ONCE(pass->lease.valid) ||
		     wire > pass->lease.left || skb_is_gso(skb)))
		return false;
	if (unlikely(skb_vlan_tag_present(skb))) {
		if (skb->vlan_proto != htons(ETH_P_8021Q))
			return false;
		vlan = skb_vlan_tag_get_id(skb);
	}
	/* What has a route may be on its way into a tunnel, or out of one. */
	if (unlikely(vlan != pass->vlan || ethernet->h_proto != pass->type || skb->_skb_refdst))
		return false;
	return !(pass->compares & OVS_SHIM_PASS_DESTINATION) ||
	       ether_addr_equal(ethernet->h_dest, pass->link);
}

/* Lets a packet whose kind has that ECN field pass, if it may. */
static __always_inline struct ovs_shim_pass *ovs_shim_pass_spend(struct ovs_shim_pass *pass,
								 struct sk_buff *skb, u32 wire,
								 u8 ecn)
{
	u32 bit = 1U << (ecn & INET_ECN_MASK);

	if (unlikely(!(pass->ecn & bit)) &&
	    (!(pass->ecn & bit << OVS_SHIM_PASS_WRITES) || !ovs_shim_pass_write(pass, skb)))
		return NULL;
	shim_lease_spend(&pass->lease, wire, skb->len);
	return pass;
}

/*
 * Lets a packet pass whose data starts at the link-layer header, and whose device is the one it
 * leaves by, by what was judged of one before it, which is returned; NULL: it is to be judged.
 * Softirqs off.
 */
static __always_inline struct ovs_shim_pass *ovs_shim_pass(unsigned long from, unsigned long to,
							   struct sk_buff *skb)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)skb->data;
	const struct iphdr *ip = (const struct iphdr *)(ethernet + 1);
	struct ovs_shim_pass *pass;
	u32 wire;

	if (unlikely(skb_headlen(skb) < sizeof(*ethernet) + sizeof(*ip)))
		return NULL;
	if (unlikely(ethernet->h_proto != htons(ETH_P_IP)))
		return ovs_shim_pass_ipv6(from, to, skb);
	pass = ovs_shim_pass_at(from, to, (__force u32)(ip->saddr ^ ip->daddr));
	wire = ovs_shim_pass_wire(pass, skb);
	if (unlikely(!ovs_shim_pass_fits(pass, from, to, wire, skb) || *(const u8 *)ip != 0x45 ||
		     ip->protocol == pass->protocol || ip->frag_off & htons(IP_CE)))
		return NULL;
	if (unlikely(pass->compares & OVS_SHIM_PASS_SOURCE && ip->saddr != pass->source))
		return NULL;
	if (unlikely(pass->compares & OVS_SHIM_PASS_DESTINATION && ip->daddr != pass->destination))
		return NULL;
	return ovs_shim_pass_spend(pass, skb, wire, ip->tos);
}

/*
 * Returns where this CPU may know packets like one that is to be judged, NULL if they have no short
 * way; sent: by the VM, else for it.  Softirqs off, RCU read lock.
 */
struct ovs_shim_pass *ovs_shim_pass_find(const struct ovs_shim_way *way, struct sk_buff *skb,
					 const struct ovs_shim_frame *frame,
					 const struct shim_vm *vm, bool sent);

/* Notes what becomes of packets like one that was judged, if any may pass by the lease. */
void ovs_shim_pass_note(struct ovs_shim_pass *pass, const struct shim_vm *vm, bool sent);

/* Lets ways be told apart by addresses only if a VM's law wants it, from now on. */
void ovs_shim_pass_reset(void);

/* Makes what CPUs know: nothing; 0 or a negative error number. */
int ovs_shim_pass_init(void);

/* Frees it; no packet is under way. */
void ovs_shim_pass_exit(void);

#endif
