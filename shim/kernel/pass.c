// SPDX-License-Identifier: GPL-2.0-only
/*
 * The short way of a packet.
 *
 * A packet is judged once for all of its kind: packets of one way from port to port, one source,
 * one VLAN and, where the VM's law has peers, one other end.  What the engine says of the first
 * (output.c), and the bytes that its buckets lend (core/engine/lease.c), stay with the CPU that it
 * came by.  A packet of the kind that fits what is left then costs some comparisons and a
 * subtraction: one cache line, no clock, no lock.
 *
 * Everything that could be judged otherwise takes the whole way: other addresses, control messages,
 * marks, IP options and extension headers, ICMPv6, what says whose an address is, tunnels, GSO
 * packets, and what does not fit.  Settings, rates and what a law says are those of the lease: its
 * lenders recall it when one of these changes, and at each visit of the VM.  Ports are told apart
 * by words that the hook gives.  When a port goes, so does its VM or its uplink, and with them all
 * leases: a word that is used again finds none.
 *
 * Two packets of a kind in a row make it known; so packets whose kinds take turns, many addresses
 * for instance, do not push out each other.
 *
 * Packets run with softirqs off, which keeps a CPU's kinds its own.  Where a kernel with PREEMPT_RT
 * lets another task of the CPU in between, there is no short way.
 */
#include <linux/err.h>
#include <linux/etherdevice.h>
#include <net/dsfield.h>

#include "../core/engine/decide.h"
#include "../core/engine/engine.h"
#include "compat.h"
#include "frame.h"
#include "pass.h"

/* Kinds of each CPU, by hash. */
struct ovs_shim_pass __percpu *ovs_shim_passes;

/* All ones if kinds are told apart by addresses, 0 if not; changed by any packet. */
u32 ovs_shim_pass_by_address;

int ovs_shim_pass_init(void)
{
	BUILD_BUG_ON(offsetofend(struct ovs_shim_pass, lease.bytes) > SMP_CACHE_BYTES &&
		     SMP_CACHE_BYTES >= 64);
	ovs_shim_passes = __alloc_percpu(sizeof(*ovs_shim_passes) << OVS_SHIM_PASS_SHIFT,
					 SMP_CACHE_BYTES);
	return ovs_shim_passes ? 0 : -ENOMEM;
}

void ovs_shim_pass_exit(void)
{
	free_percpu(ovs_shim_passes);
}

void ovs_shim_pass_reset(void)
{
	WRITE_ONCE(ovs_shim_pass_by_address, 0);
}

bool ovs_shim_pass_write(struct ovs_shim_pass *pass, struct sk_buff *skb)
{
	bool six = pass->type == htons(ETH_P_IPV6);

	if (skb_ensure_writable(skb, ETH_HLEN + (six ? sizeof(struct ipv6hdr) :
						       sizeof(struct iphdr))))
		return false;
	if (six)
		ovs_shim_frame_write_ipv6(skb, (struct ipv6hdr *)(skb->data + ETH_HLEN),
					  pass->field);
	else
		ipv4_change_dsfield((struct iphdr *)(skb->data + ETH_HLEN),
				    (u8)~INET_ECN_MASK, pass->field);
	WRITE_ONCE(pass->lease.changed, pass->lease.changed + 1);
	return true;
}

/* Returns 32 bits that differ where the addresses of a packet do, most often. */
static u32 pass_fold_ipv6(const struct ipv6hdr *ip6)
{
	return (__force u32)(ip6->saddr.s6_addr32[3] ^ ip6->daddr.s6_addr32[3] ^
			     ip6->saddr.s6_addr32[2] ^ ip6->daddr.s6_addr32[2]);
}

struct ovs_shim_pass *ovs_shim_pass_ipv6(unsigned long from, unsigned long to, struct sk_buff *skb)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)skb->data;
	const struct ipv6hdr *ip6 = (const struct ipv6hdr *)(ethernet + 1);
	struct ovs_shim_pass *pass;
	u32 wire;

	if (ethernet->h_proto != htons(ETH_P_IPV6) ||
	    skb_headlen(skb) < sizeof(*ethernet) + sizeof(*ip6))
		return NULL;
	pass = ovs_shim_pass_at(from, to, pass_fold_ipv6(ip6));
	wire = ovs_shim_pass_wire(pass, skb);
	if (!ovs_shim_pass_fits(pass, from, to, wire, skb) || ip6->version != 6 ||
	    ip6->nexthdr == pass->protocol || ip6->nexthdr == IPPROTO_ICMPV6 ||
	    ipv6_ext_hdr(ip6->nexthdr))
		return NULL;
	if (pass->compares & OVS_SHIM_PASS_SOURCE && !ipv6_addr_equal(&ip6->saddr, &pass->source6))
		return NULL;
	if (pass->compares & OVS_SHIM_PASS_DESTINATION &&
	    !ipv6_addr_equal(&ip6->daddr, &pass->destination6))
		return NULL;
	return ovs_shim_pass_spend(pass, skb, wire, ipv6_get_dsfield(ip6));
}

/* Returns what packets must have like one that is judged; sent: by a VM. */
static u8 pass_compares(const struct shim_vm *vm, bool sent)
{
	if (READ_ONCE(vm->mode.wants) & SHIM_VM_PEERS)
		return OVS_SHIM_PASS_SOURCE | OVS_SHIM_PASS_DESTINATION;
	return sent ? OVS_SHIM_PASS_SOURCE : 0;
}

/* Tells whether a place has packets of the kind of one that has been parsed. */
static bool pass_is(const struct ovs_shim_pass *pass, const struct ovs_shim_way *way,
		    const struct sk_buff *skb, const struct shim_packet *packet, u8 compares)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)skb->data;

	if (pass->way.from != way->from || pass->way.to != way->to || pass->compares != compares ||
	    pass->type != ethernet->h_proto ||
	    pass->vlan != (packet->network.vlan & VLAN_VID_MASK))
		return false;
	if (compares & OVS_SHIM_PASS_SOURCE && memcmp(&pass->source6, &packet->source,
						      sizeof(pass->source6)))
		return false;
	return !(compares & OVS_SHIM_PASS_DESTINATION) ||
	       (!memcmp(&pass->destination6, &packet->destination, sizeof(pass->destination6)) &&
		ether_addr_equal(pass->link, ethernet->h_dest));
}

/* Makes a place, whose lease has ended, one of packets of the kind of one that has been parsed. */
static void pass_take(struct ovs_shim_pass *pass, const struct ovs_shim_way *way,
		      const struct sk_buff *skb, const struct shim_packet *packet, u8 compares)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)skb->data;

	pass->way = *way;
	pass->type = ethernet->h_proto;
	pass->vlan = packet->network.vlan & VLAN_VID_MASK;
	pass->compares = compares;
	ether_addr_copy(pass->link, ethernet->h_dest);
	memcpy(&pass->source6, &packet->source, sizeof(pass->source6));
	memcpy(&pass->destination6, &packet->destination, sizeof(pass->destination6));
	pass->source = pass->source6.s6_addr32[3];
	pass->destination = pass->destination6.s6_addr32[3];
}

/* Returns a hash of the kind of a packet, never 0. */
static u32 pass_hash(const struct ovs_shim_way *way, u32 addresses, u8 compares)
{
	u32 hash = (u32)way->from + 3 * (u32)way->to;

	if (compares)
		hash += 5 * addresses;
	return hash | 1;
}

/* Tells whether packets like one that has been parsed may have a short way. */
static bool pass_may(const struct ovs_shim_way *way, const struct sk_buff *skb,
		     const struct ovs_shim_frame *frame)
{
	const struct shim_packet *packet = &frame->packet;

	return OVS_SHIM_CPU_ALONE && way->from && packet->version && frame->offset == ETH_HLEN &&
	       !frame->tunnelled && !packet->network.tunnel_id &&
	       skb->dev->type == ARPHRD_ETHER &&
	       (!skb_vlan_tag_present(skb) || skb->vlan_proto == htons(ETH_P_8021Q));
}

struct ovs_shim_pass *ovs_shim_pass_find(const struct ovs_shim_way *way, struct sk_buff *skb,
					 const struct ovs_shim_frame *frame,
					 const struct shim_vm *vm, bool sent)
{
	const struct shim_packet *packet = &frame->packet;
	u8 compares = pass_compares(vm, sent);
	struct ovs_shim_pass *pass;
	u32 addresses, hash;

	if (!pass_may(way, skb, frame))
		return NULL;
	if (compares && !READ_ONCE(ovs_shim_pass_by_address) &&
	    READ_ONCE(vm->mode.wants) & SHIM_VM_PEERS)
		WRITE_ONCE(ovs_shim_pass_by_address, ~0U);
	if (packet->version == 4) {
		const struct iphdr *ip = (const struct iphdr *)(skb->data + ETH_HLEN);

		addresses = (__force u32)(ip->saddr ^ ip->daddr);
	} else {
		addresses = pass_fold_ipv6((const struct ipv6hdr *)(skb->data + ETH_HLEN));
	}
	pass = ovs_shim_pass_at(way->from, way->to, addresses);
	if (pass_is(pass, way, skb, packet, compares))
		return pass;
	hash = pass_hash(way, addresses, compares);
	if (pass->missed != hash) {
		pass->missed = hash;
		return NULL;
	}
	shim_lease_finish(&pass->lease, packet->now_ns);
	pass_take(pass, way, skb, packet, compares);
	return pass;
}

void ovs_shim_pass_note(struct ovs_shim_pass *pass, const struct shim_vm *vm, bool sent)
{
	u8 stays = BIT(INET_ECN_ECT_0) | BIT(INET_ECN_ECT_1), writes = BIT(INET_ECN_NOT_ECT);

	if (!READ_ONCE(pass->lease.valid))
		return;
	/* The VM may have got another law meanwhile. */
	if (pass->compares != pass_compares(vm, sent))
		WRITE_ONCE(pass->lease.valid, false);
	pass->missed = 0;
	pass->overhead = pass->lease.overhead;
	pass->protocol = READ_ONCE(vm->mode.protocol);
	pass->field = READ_ONCE(vm->mode.codepoint);
	if (!sent) {
		stays = BIT(INET_ECN_NOT_ECT);
		writes = BIT(INET_ECN_ECT_1);
		pass->field = INET_ECN_NOT_ECT;
	}
	if (!READ_ONCE(vm->mode.ecn)) {
		stays |= writes;
		writes = 0;
		if (!sent)
			stays |= BIT(INET_ECN_ECT_0);
	}
	pass->ecn = stays | writes << OVS_SHIM_PASS_WRITES;
}
