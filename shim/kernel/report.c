// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports to the shims of peers: built under the peer's lock, sent without any.
 *
 * A report is a control message of type 3 from the VM's address to the peer's, on the way that
 * the VM's own packets take.  It is marked ECT where data is, for a queue that marks drops what
 * it cannot mark, and has the priority of control traffic, so that sch_fq lets it go first.
 */
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/pkt_sched.h>
#include <linux/skbuff.h>
#include <net/dst_metadata.h>
#include <net/geneve.h>
#include <net/gre.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/vxlan.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"

/* Hops that a report may take. */
#define HOPS 64

/* Completes a report with addresses and the sender's next sequence.  peer->lock. */
static void address(struct ovs_shim_peer *peer, struct shim_message *report)
{
	struct ovs_shim_net *shim = peer->key.vm->shim;

	report->type = SHIM_MESSAGE_REPORT;
	memcpy(report->vm, &peer->key.address, sizeof(report->vm));
	memcpy(report->peer, &peer->local, sizeof(report->peer));
	report->sender = shim->sender;
	report->flags = 0;
	if (peer->sequence == U32_MAX) {
		/* All sequences are used up: begin a new epoch. */
		WRITE_ONCE(shim->epoch, shim->epoch + 1);
		peer->sequence = 0;
	}
	report->epoch = READ_ONCE(shim->epoch);
	WRITE_ONCE(peer->sequence, peer->sequence + 1);
	report->sequence = peer->sequence;
}

/*
 * Tells whether a report can leave by a device: not by another one than its way was learned on if
 * there is a tunnel in it, whose other end the way knows.  peer->lock.
 */
static bool can_leave(const struct ovs_shim_peer *peer, const struct vport *vport)
{
	const struct net_device *dev = vport->dev;

	if (peer->way_bad || dev->type != ARPHRD_ETHER)
		return false;
	if (vport == (peer->way_sent ? peer->out : peer->in))
		return true;
	return !peer->way.tunnel && !netif_is_vxlan(dev) && !netif_is_geneve(dev) &&
	       !netif_is_gretap(dev) && !netif_is_ip6gretap(dev);
}

/* Puts the IPv4 header of a report. */
static void put_ipv4(struct sk_buff *skb, const struct ovs_shim_peer *peer, u8 protocol, u8 ecn)
{
	struct iphdr *ip = skb_push(skb, sizeof(*ip));

	*ip = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*ip) / 4,
		.tos = ecn,
		.tot_len = htons(skb->len),
		.frag_off = htons(IP_DF),
		.ttl = HOPS,
		.protocol = protocol,
		.saddr = peer->local.s6_addr32[3],
		.daddr = peer->key.address.s6_addr32[3],
	};
	ip_send_check(ip);
	skb->protocol = htons(ETH_P_IP);
}

/* Puts the IPv6 header of a report. */
static void put_ipv6(struct sk_buff *skb, const struct ovs_shim_peer *peer, u8 protocol, u8 ecn)
{
	struct ipv6hdr *ip = skb_push(skb, sizeof(*ip));

	*ip = (struct ipv6hdr){
		.payload_len = htons(SHIM_MESSAGE_V1_BYTES),
		.nexthdr = protocol,
		.hop_limit = HOPS,
		.saddr = peer->local,
		.daddr = peer->key.address,
	};
	ip6_flow_hdr(ip, ecn, 0);
	skb->protocol = htons(ETH_P_IPV6);
}

/* Returns a packet with the message and all headers, NULL without memory.  peer->lock. */
static struct sk_buff *build(struct ovs_shim_peer *peer, const struct shim_message *report,
			     const struct net_device *dev)
{
	const struct ovs_shim_settings *settings = &peer->key.vm->shim->settings;
	u32 head = LL_RESERVED_SPACE(dev) + VLAN_HLEN + sizeof(struct ipv6hdr);
	u8 ecn = settings->ecn ? INET_ECN_ECT_1 : INET_ECN_NOT_ECT;
	struct ethhdr *eth;
	struct sk_buff *skb;

	skb = alloc_skb(head + SHIM_MESSAGE_V1_BYTES, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, head);
	shim_message_encode(skb_put(skb, SHIM_MESSAGE_V1_BYTES), report, settings->key);
	skb_reset_transport_header(skb);
	if (ipv6_addr_v4mapped(&peer->key.address))
		put_ipv4(skb, peer, settings->protocol, ecn);
	else
		put_ipv6(skb, peer, settings->protocol, ecn);
	skb_reset_network_header(skb);
	eth = skb_push(skb, ETH_HLEN);
	memcpy(eth, peer->way.macs, sizeof(peer->way.macs));
	eth->h_proto = skb->protocol;
	skb_reset_mac_header(skb);
	skb->mac_len = ETH_HLEN;
	if (peer->way.vlan_proto)
		__vlan_hwaccel_put_tag(skb, peer->way.vlan_proto, peer->way.vlan_tci);
	if (peer->way.tunnel) {
		dst_hold(&peer->way.tunnel->dst);
		skb_dst_set(skb, &peer->way.tunnel->dst);
	}
	skb->priority = TC_PRIO_CONTROL;
	return skb;
}

/*
 * Returns a packet with the report, of which the law filled its part, to be sent by
 * ovs_shim_report_send(); NULL, and counted, if it cannot be sent.  vport leads to the peer, NULL
 * if that uplink has gone; it is used until the caller's RCU read section ends.  peer->lock.
 */
struct sk_buff *ovs_shim_report_build(struct ovs_shim_peer *peer, struct shim_message *report,
				      struct vport *vport)
{
	struct ovs_shim_port *vm = peer->key.vm;
	struct sk_buff *skb;

	if (!READ_ONCE(vm->shim->settings.key_set)) {
		atomic64_inc(&vm->counters[OVS_SHIM_REPORTS_NO_KEY]);
		return NULL;
	}
	if (!vport || !can_leave(peer, vport))
		goto unsent;
	address(peer, report);
	skb = build(peer, report, vport->dev);
	if (!skb)
		goto unsent;
	skb->dev = vport->dev;
	*(struct ovs_shim_report_cb *)skb->cb = (struct ovs_shim_report_cb){
		.vport = vport,
	};
	atomic64_inc(&vm->counters[OVS_SHIM_REPORTS_SENT]);
	atomic64_add(skb->len, &vm->counters[OVS_SHIM_REPORT_BYTES_SENT]);
	return skb;
unsent:
	atomic64_inc(&vm->counters[OVS_SHIM_REPORTS_UNSENT]);
	return NULL;
}

/* Sends what ovs_shim_report_build() returned, in the same RCU read section, without a lock. */
void ovs_shim_report_send(struct sk_buff *skb)
{
	struct vport *vport = ((struct ovs_shim_report_cb *)skb->cb)->vport;

	memset(skb->cb, 0, sizeof(struct ovs_shim_report_cb));
	vport->ops->send(skb);
}
