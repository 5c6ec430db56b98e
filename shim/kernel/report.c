// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the shim sends of its own: reports to the shims of peers, on a way that is learned, and
 * questions to VMs whose address another one announces.
 *
 * A report is a control message of type 3 from the VM's address to the peer's.  It is marked ECT
 * where data is, for a queue that marks drops what it cannot mark, and has the priority of control
 * traffic, so that sch_fq lets it go first.
 *
 * Its way is back to where the packets came from that it tells of.  The bridge may change headers
 * either way: it puts a tag on what a VM sends and takes it off what the VM gets, rewrites MAC
 * addresses where it routes, and knows the tunnel.  Only the VM's own packets show all that, and a
 * guest writes what it likes.  So they teach the way as far as the guest cannot bend it:
 *
 *   tags     the bridge adds as many to each packet of a port, so the packet with the fewest has
 *            the bridge's alone; one with more has the guest's, too, and teaches nothing
 *   MACs     once the VM sent to the MAC address that the peer's packets come from, by the one they
 *            come to, the bridge rewrites none, and a packet by others teaches nothing
 *            until then those count by which it sends in most ticks
 *   without  what the VM gets, turned round, with the port's tag if it has none
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/pkt_sched.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <net/addrconf.h>
#include <net/arp.h>
#include <net/dst_metadata.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip_tunnels.h>
#include <net/ipv6.h>
#include <net/ndisc.h>

#include "../core/engine/peer.h"
#include "compat.h"
#include "frame.h"
#include "hook.h"
#include "port.h"
#include "report.h"

/* Hops that a report may take, and the outer packet of one. */
#define REPORT_HOPS 64

/* Returns the VLAN tag of a frame as protocol and tag in one word, 0 for none; *tags: how many. */
static u32 report_vlan_of(const struct sk_buff *skb, u32 *tags)
{
	const struct vlan_ethhdr *header = (const struct vlan_ethhdr *)skb->data;
	bool inside = eth_type_vlan(header->h_vlan_proto);

	*tags = inside + skb_vlan_tag_present(skb);
	if (skb_vlan_tag_present(skb))
		return (__force u16)skb->vlan_proto << 16 | skb_vlan_tag_get(skb);
	if (inside)
		return (__force u16)header->h_vlan_proto << 16 | ntohs(header->h_vlan_TCI);
	return 0;
}

/* Writes the tag of report_vlan_of() to a way. */
static void report_set_vlan(struct shim_host_peer *way, u32 vlan)
{
	way->vlan_proto = (__force __be16)(u16)(vlan >> 16);
	way->vlan_tci = (u16)vlan;
}

/* Puts a tunnel, which the caller holds, in the place of that of a way.  peer->lock. */
static void report_set_tunnel(struct shim_host_peer *way, struct metadata_dst *tunnel)
{
	if (way->tunnel)
		dst_release(&way->tunnel->dst);
	way->tunnel = tunnel;
}

/* Tells whether two tunnels lead to the same place with the same options. */
static bool report_same_tunnel(struct metadata_dst *a, struct metadata_dst *b)
{
	struct ip_tunnel_info *x = &a->u.tun_info, *y = &b->u.tun_info;

	return !memcmp(&x->key, &y->key, sizeof(x->key)) && x->mode == y->mode &&
	       x->options_len == y->options_len &&
	       !memcmp(ip_tunnel_info_opts(x), ip_tunnel_info_opts(y), x->options_len);
}

/*
 * Learns the tunnel that a packet of the VM goes into.  Flows to one place have objects of their
 * own, which say the same: the first one stays.  peer->lock.
 */
static void report_learn_tunnel_sent(struct shim_host_peer *way, const struct sk_buff *skb)
{
	struct metadata_dst *tunnel = ovs_shim_frame_tunnel(skb);

	if (likely(tunnel == way->tunnel) ||
	    (tunnel && way->tunnel && report_same_tunnel(tunnel, way->tunnel)))
		return;
	if (tunnel)
		dst_hold(&tunnel->dst);
	report_set_tunnel(way, tunnel);
}

/* Fills the key of the tunnel that leads back to where one with the key `from` came from. */
static void report_turn_round(struct ip_tunnel_key *back, const struct ip_tunnel_key *from,
			      bool ipv6)
{
	memset(back, 0, sizeof(*back));
	back->tun_id = from->tun_id;
	back->ttl = REPORT_HOPS;
	ovs_shim_tunnel_flags_back(back, from, !ipv6);
	if (ipv6) {
		back->u.ipv6.src = from->u.ipv6.dst;
		back->u.ipv6.dst = from->u.ipv6.src;
	} else {
		back->u.ipv4.src = from->u.ipv4.dst;
		back->u.ipv4.dst = from->u.ipv4.src;
	}
}

/*
 * Learns the tunnel back to where a packet for the VM came from; false without memory for it.
 * Options are not turned round: they mean something to one end only.  peer->lock.
 */
static bool report_learn_tunnel_received(struct shim_host_peer *way, const struct sk_buff *skb)
{
	const struct metadata_dst *from = ovs_shim_frame_tunnel(skb);
	struct metadata_dst *back;
	struct ip_tunnel_key key;
	u8 ipv6;

	if (likely(!from && !way->tunnel))
		return true;
	if (!from) {
		report_set_tunnel(way, NULL);
		return true;
	}
	ipv6 = from->u.tun_info.mode & IP_TUNNEL_INFO_IPV6;
	report_turn_round(&key, &from->u.tun_info.key, ipv6);
	if (way->tunnel && !memcmp(&way->tunnel->u.tun_info.key, &key, sizeof(key)))
		return true;
	back = metadata_dst_alloc(0, METADATA_IP_TUNNEL, GFP_ATOMIC | __GFP_NOWARN);
	if (!back)
		return false;
	back->u.tun_info.key = key;
	back->u.tun_info.mode = IP_TUNNEL_INFO_TX | ipv6;
	report_set_tunnel(way, back);
	return true;
}

/*
 * Learns from a frame that a VM sends how packets leave for the peer; false, and nothing learned,
 * if the guest may have bent it.  peer->lock.
 */
static bool report_learn_sent(struct shim_peer *peer, const struct sk_buff *skb)
{
	struct ovs_shim_port *port = peer->key.vm->port;
	struct shim_host_peer *way = &peer->host;
	u32 tags, vlan = report_vlan_of(skb, &tags);
	bool answers = !memcmp(skb->data, way->back, sizeof(way->back));

	if (tags > 1 || tags > READ_ONCE(port->tags) || (way->straight && !answers))
		return false;
	if (!answers && way->votes && memcmp(way->macs, skb->data, sizeof(way->macs))) {
		way->votes--;
		return false;
	}
	way->straight |= answers;
	if (way->votes < U8_MAX)
		way->votes++;
	memcpy(way->macs, skb->data, sizeof(way->macs));
	report_set_vlan(way, vlan);
	report_learn_tunnel_sent(way, skb);
	way->bad = false;
	if (READ_ONCE(port->tags) != tags)
		WRITE_ONCE(port->tags, tags);
	if (READ_ONCE(port->vlan) != vlan)
		WRITE_ONCE(port->vlan, vlan);
	return true;
}

/*
 * Learns where a frame that the VM gets came from, and the way there while what the VM sends has
 * shown none.  peer->lock.
 */
static void report_learn_received(struct shim_peer *peer, const struct sk_buff *skb)
{
	const struct ovs_shim_port *port = peer->key.vm->port;
	struct shim_host_peer *way = &peer->host;
	u32 tags, vlan = report_vlan_of(skb, &tags), usual = READ_ONCE(port->vlan);

	memcpy(way->back, skb->data + ETH_ALEN, ETH_ALEN);
	memcpy(way->back + ETH_ALEN, skb->data, ETH_ALEN);
	if (peer->way_sent)
		return;
	memcpy(way->macs, way->back, sizeof(way->macs));
	report_set_vlan(way, vlan ?: usual);
	/* A report has room for one tag: the guest's or the bridge's. */
	way->bad = !report_learn_tunnel_received(way, skb) || tags > 1 ||
		   (vlan && usual && vlan != usual && READ_ONCE(port->tags) == 1);
}

/*
 * Learns how reports to a peer leave, from a packet that passed to (sent) or from it; false if it
 * teaches nothing.  peer->lock.
 */
bool shim_host_peer_learn(struct shim_peer *peer, const struct shim_packet *packet, bool sent)
{
	const struct ovs_shim_frame *frame = container_of(packet, struct ovs_shim_frame, packet);

	/*
	 * Without an Ethernet header no way back is known, nor below a tunnel, whose device is the
	 * way.
	 */
	if (frame->offset < ETH_HLEN || frame->tunnelled) {
		peer->host.bad = true;
		return true;
	}
	if (sent)
		return report_learn_sent(peer, packet->frame);
	report_learn_received(peer, packet->frame);
	return true;
}

/* Lets go of what a peer that is about to be freed holds. */
void shim_host_peer_exit(struct shim_peer *peer)
{
	report_set_tunnel(&peer->host, NULL);
}

/*
 * Tells whether a report can leave by an uplink's device: not by another one than its way was
 * learned on if there is a tunnel in it, whose other end the way knows.  peer->lock.
 */
static bool report_can_leave(const struct shim_peer *peer, const struct shim_uplink *uplink,
			     const struct net_device *dev)
{
	if (peer->host.bad || dev->type != ARPHRD_ETHER ||
	    (peer->host.tunnel && !ovs_shim_is_tunnel(dev)))
		return false;
	if (uplink == (peer->way_sent ? peer->out : peer->in))
		return true;
	return !peer->host.tunnel && !ovs_shim_is_tunnel(dev);
}

/* Puts the IPv4 header of a report. */
static void report_put_ipv4(struct sk_buff *skb, const struct in6_addr *source,
			    const struct in6_addr *destination, u8 protocol, u8 ecn)
{
	struct iphdr *ip = skb_push(skb, sizeof(*ip));

	*ip = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*ip) / 4,
		.tos = ecn,
		.tot_len = htons(skb->len),
		.frag_off = htons(IP_DF),
		.ttl = REPORT_HOPS,
		.protocol = protocol,
		.saddr = source->s6_addr32[3],
		.daddr = destination->s6_addr32[3],
	};
	ip_send_check(ip);
	skb->protocol = htons(ETH_P_IP);
}

/* Puts the IPv6 header of a report. */
static void report_put_ipv6(struct sk_buff *skb, const struct in6_addr *source,
			    const struct in6_addr *destination, u8 protocol, u8 ecn)
{
	struct ipv6hdr *ip = skb_push(skb, sizeof(*ip));

	*ip = (struct ipv6hdr){
		.payload_len = htons(SHIM_MESSAGE_V1_BYTES),
		.nexthdr = protocol,
		.hop_limit = REPORT_HOPS,
		.saddr = *source,
		.daddr = *destination,
	};
	ip6_flow_hdr(ip, ecn, 0);
	skb->protocol = htons(ETH_P_IPV6);
}

/* Puts the Ethernet header of a report, its tag and its tunnel.  peer->lock. */
static void report_put_way(struct sk_buff *skb, const struct shim_host_peer *way)
{
	struct ethhdr *eth = skb_push(skb, ETH_HLEN);

	memcpy(eth, way->macs, sizeof(way->macs));
	eth->h_proto = skb->protocol;
	skb_reset_mac_header(skb);
	skb->mac_len = ETH_HLEN;
	if (way->vlan_proto)
		__vlan_hwaccel_put_tag(skb, way->vlan_proto, way->vlan_tci);
	if (way->tunnel) {
		dst_hold(&way->tunnel->dst);
		skb_dst_set(skb, &way->tunnel->dst);
	}
}

/* Returns a packet with the message and all headers, NULL without memory.  peer->lock. */
static struct sk_buff *report_build(const struct shim_peer *peer,
				    const struct shim_message *report,
				    const struct shim_settings *settings,
				    const struct net_device *dev)
{
	const struct in6_addr *remote = (const struct in6_addr *)&peer->key.address;
	const struct in6_addr *local = (const struct in6_addr *)&peer->local;
	u32 head = LL_RESERVED_SPACE(dev) + VLAN_HLEN + sizeof(struct ipv6hdr);
	u8 ecn = settings->ecn ? settings->codepoint : INET_ECN_NOT_ECT;
	struct sk_buff *skb;

	skb = alloc_skb(head + SHIM_MESSAGE_V1_BYTES, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, head);
	shim_message_encode(skb_put(skb, SHIM_MESSAGE_V1_BYTES), report, settings->key);
	skb_reset_transport_header(skb);
	if (ipv6_addr_v4mapped(remote))
		report_put_ipv4(skb, local, remote, settings->protocol, ecn);
	else
		report_put_ipv6(skb, local, remote, settings->protocol, ecn);
	skb_reset_network_header(skb);
	report_put_way(skb, &peer->host);
	skb->priority = TC_PRIO_CONTROL;
	return skb;
}

/*
 * Builds a report to a peer and queues it for ovs_shim_reports_send(); returns its bytes, 0 if it
 * cannot be sent.  uplink leads to the peer; its port lives until the caller's RCU read section
 * ends.  peer->lock.
 */
u32 shim_host_report(struct shim_peer *peer, const struct shim_uplink *uplink,
		     const struct shim_message *report, const struct shim_settings *settings,
		     struct shim_reports *reports)
{
	const struct ovs_shim_port *port = uplink->port;
	struct net_device *dev = port->dev;
	struct sk_buff *skb;

	if (!report_can_leave(peer, uplink, dev))
		return 0;
	skb = report_build(peer, report, settings, dev);
	if (!skb)
		return 0;
	skb->dev = dev;
	__skb_queue_tail(&reports->queue, skb);
	return skb->len;
}

/* Returns a frame for a VM's device, with room behind its Ethernet header; NULL without memory. */
static struct sk_buff *ask_build(struct net_device *dev, const u8 to[ETH_ALEN],
				 const u8 from[ETH_ALEN], u16 type, u32 len)
{
	struct sk_buff *skb;
	struct ethhdr *eth;

	skb = alloc_skb(LL_RESERVED_SPACE(dev) + len, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	skb_put_zero(skb, len);
	skb_reset_network_header(skb);
	eth = skb_push(skb, ETH_HLEN);
	ether_addr_copy(eth->h_dest, to);
	ether_addr_copy(eth->h_source, from);
	eth->h_proto = htons(type);
	skb_reset_mac_header(skb);
	skb->mac_len = ETH_HLEN;
	skb->protocol = eth->h_proto;
	skb->dev = dev;
	return skb;
}

/* Returns an ARP probe (RFC 5227): a request that names no sender's address. */
static struct sk_buff *ask_build_arp(struct net_device *dev, const struct in6_addr *address,
				     const u8 mac[ETH_ALEN], const u8 asker[ETH_ALEN])
{
	struct sk_buff *skb = ask_build(dev, mac, asker, ETH_P_ARP, arp_hdr_len(dev));
	struct arphdr *arp;
	u8 *p;

	if (!skb)
		return NULL;
	arp = arp_hdr(skb);
	*arp = (struct arphdr){
		.ar_hrd = htons(ARPHRD_ETHER),
		.ar_pro = htons(ETH_P_IP),
		.ar_hln = ETH_ALEN,
		.ar_pln = sizeof(struct in_addr),
		.ar_op = htons(ARPOP_REQUEST),
	};
	p = (u8 *)(arp + 1);
	ether_addr_copy(p, asker);
	p += ETH_ALEN + sizeof(struct in_addr) + ETH_ALEN;
	memcpy(p, &address->s6_addr32[3], sizeof(struct in_addr));
	return skb;
}

/* Returns a neighbour solicitation from ::, as duplicate address detection sends it (RFC 4862). */
static struct sk_buff *ask_build_ndisc(struct net_device *dev, const struct in6_addr *address,
				       const u8 mac[ETH_ALEN], const u8 asker[ETH_ALEN])
{
	u32 len = sizeof(struct nd_msg);
	struct sk_buff *skb = ask_build(dev, mac, asker, ETH_P_IPV6,
					sizeof(struct ipv6hdr) + len);
	struct ipv6hdr *ip6;
	struct nd_msg *msg;

	if (!skb)
		return NULL;
	ip6 = ipv6_hdr(skb);
	*ip6 = (struct ipv6hdr){
		.version = 6,
		.payload_len = htons(len),
		.nexthdr = IPPROTO_ICMPV6,
		.hop_limit = 255,
	};
	addrconf_addr_solict_mult(address, &ip6->daddr);
	msg = (struct nd_msg *)(ip6 + 1);
	msg->icmph.icmp6_type = NDISC_NEIGHBOUR_SOLICITATION;
	msg->target = *address;
	msg->icmph.icmp6_cksum = csum_ipv6_magic(&ip6->saddr, &ip6->daddr, len, IPPROTO_ICMPV6,
						 csum_partial(msg, len, 0));
	return skb;
}

/*
 * Asks a VM, whose link-layer address is mac, whether it has an address, as if asker did; false: it
 * cannot be asked.  Softirqs off, RCU read lock.
 */
bool shim_host_ask(const struct shim_vm *vm, const struct shim_address *address,
		   const u8 mac[ETH_ALEN], const u8 asker[ETH_ALEN])
{
	struct net_device *dev = ((const struct ovs_shim_port *)vm->port)->dev;
	const struct in6_addr *in6 = (const struct in6_addr *)address;
	struct sk_buff *skb;

	if (dev->type != ARPHRD_ETHER || !is_valid_ether_addr(mac) || !is_valid_ether_addr(asker))
		return false;
	skb = ipv6_addr_v4mapped(in6) ? ask_build_arp(dev, in6, mac, asker) :
					 ask_build_ndisc(dev, in6, mac, asker);
	if (!skb)
		return false;
	ovs_shim_hook_send(skb);
	return true;
}

void ovs_shim_reports_send(struct shim_reports *reports)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(&reports->queue)))
		ovs_shim_hook_send(skb);
}
