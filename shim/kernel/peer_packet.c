// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets to and from peers: how they find their peer, what the peer learns of them, and what its
 * law is told.
 */
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <net/dst_metadata.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ip_tunnels.h>
#include <net/ipv6.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"

/* Hops that the outer packet of a report may take. */
#define HOPS 64

/* Tells whether an address can be a peer's: one host's. */
static bool unicast(const struct in6_addr *address)
{
	__be32 v4 = address->s6_addr32[3];

	if (ipv6_addr_v4mapped(address))
		return !ipv4_is_multicast(v4) && !ipv4_is_lbcast(v4) && !ipv4_is_zeronet(v4);
	return !ipv6_addr_is_multicast(address) && !ipv6_addr_any(address);
}

/*
 * Returns the peer that a VM's packet goes to or comes from, made if need be; NULL if it has none.
 * vport is that of the uplink.  RCU read lock.
 */
static struct ovs_shim_peer *get_peer(struct ovs_shim_port *vm, const struct vport *vport,
				      const struct in6_addr *remote)
{
	struct ovs_shim_peer_key key = { .vm = vm, .address = *remote };
	struct ovs_shim_net *shim = vm->shim;
	struct ovs_shim_peer *peer = ovs_shim_peer_find(shim, &key);

	if (likely(peer && READ_ONCE(peer->clock)))
		return peer;
	/* Whoever scans a network must not make everybody wait for the lock. */
	if (!peer && READ_ONCE(vm->n_peers) >= READ_ONCE(shim->settings.peers_max)) {
		atomic64_inc(&vm->counters[OVS_SHIM_PEERS_FULL]);
		return NULL;
	}
	spin_lock_bh(&shim->lock);
	peer = ovs_shim_peer_create(&key, vport);
	spin_unlock_bh(&shim->lock);
	return peer;
}

/* Returns the VLAN tag of a packet as protocol and tag in one word, 0 for none; *tags: how many. */
static u32 vlan_of(const struct sk_buff *skb, u32 *tags)
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

/* Writes the tag of vlan_of() to a way. */
static void set_vlan(struct ovs_shim_way *way, u32 vlan)
{
	way->vlan_proto = (__force __be16)(u16)(vlan >> 16);
	way->vlan_tci = (u16)vlan;
}

/* Returns what a packet carries about the tunnel it came by or goes into, NULL if nothing. */
static struct metadata_dst *tunnel_of(const struct sk_buff *skb)
{
	struct metadata_dst *tunnel = skb_metadata_dst(skb);

	return tunnel && tunnel->type == METADATA_IP_TUNNEL ? tunnel : NULL;
}

/* Puts a tunnel, which the caller holds, in the place of that of a way.  peer->lock. */
static void set_tunnel(struct ovs_shim_way *way, struct metadata_dst *tunnel)
{
	if (way->tunnel)
		dst_release(&way->tunnel->dst);
	way->tunnel = tunnel;
}

/* Learns the tunnel that a packet of the VM goes into.  peer->lock. */
static void learn_tunnel_sent(struct ovs_shim_way *way, const struct sk_buff *skb)
{
	struct metadata_dst *tunnel = tunnel_of(skb);

	/* Flows to one place have objects of their own; their options may differ, too. */
	if (tunnel == way->tunnel ||
	    (tunnel && way->tunnel && !tunnel->u.tun_info.options_len &&
	     !way->tunnel->u.tun_info.options_len &&
	     !memcmp(&tunnel->u.tun_info.key, &way->tunnel->u.tun_info.key,
		     sizeof(tunnel->u.tun_info.key))))
		return;
	if (tunnel)
		dst_hold(&tunnel->dst);
	set_tunnel(way, tunnel);
}

/* Fills the key of the tunnel that leads back to where one with the key `from` came from. */
static void turn_round(struct ip_tunnel_key *back, const struct ip_tunnel_key *from, bool ipv6)
{
	memset(back, 0, sizeof(*back));
	back->tun_id = from->tun_id;
	back->tun_flags = from->tun_flags & (TUNNEL_KEY | TUNNEL_CSUM);
	back->ttl = HOPS;
	if (ipv6) {
		back->u.ipv6.src = from->u.ipv6.dst;
		back->u.ipv6.dst = from->u.ipv6.src;
	} else {
		back->u.ipv4.src = from->u.ipv4.dst;
		back->u.ipv4.dst = from->u.ipv4.src;
		back->tun_flags |= TUNNEL_DONT_FRAGMENT;
	}
}

/*
 * Learns the tunnel back to where a packet for the VM came from; false without memory for it.
 * Options are not turned round: they mean something to one end only.  peer->lock.
 */
static bool learn_tunnel_received(struct ovs_shim_way *way, const struct sk_buff *skb)
{
	const struct metadata_dst *from = tunnel_of(skb);
	struct metadata_dst *back;
	struct ip_tunnel_key key;
	u8 ipv6;

	if (likely(!from && !way->tunnel))
		return true;
	if (!from) {
		set_tunnel(way, NULL);
		return true;
	}
	ipv6 = from->u.tun_info.mode & IP_TUNNEL_INFO_IPV6;
	turn_round(&key, &from->u.tun_info.key, ipv6);
	if (way->tunnel && !memcmp(&way->tunnel->u.tun_info.key, &key, sizeof(key)))
		return true;
	back = metadata_dst_alloc(0, METADATA_IP_TUNNEL, GFP_ATOMIC | __GFP_NOWARN);
	if (!back)
		return false;
	back->u.tun_info.key = key;
	back->u.tun_info.mode = IP_TUNNEL_INFO_TX | ipv6;
	set_tunnel(way, back);
	return true;
}

/* Learns from a packet that the VM sends how packets leave for the peer.  peer->lock. */
static void learn_sent(struct ovs_shim_peer *peer, const struct sk_buff *skb)
{
	struct ovs_shim_port *vm = peer->key.vm;
	u32 tags, vlan = vlan_of(skb, &tags);

	memcpy(peer->way.macs, skb->data, sizeof(peer->way.macs));
	set_vlan(&peer->way, vlan);
	learn_tunnel_sent(&peer->way, skb);
	peer->way_sent = true;
	peer->way_bad = tags > 1;
	if (READ_ONCE(vm->vlan) != vlan)
		WRITE_ONCE(vm->vlan, vlan);
}

/*
 * Learns the same from a packet that the VM gets, while it sends none itself: the addresses turned
 * round, and the tag that the VM's other packets leave with where a switch took this one's off.
 * peer->lock.
 */
static void learn_received(struct ovs_shim_peer *peer, const struct sk_buff *skb)
{
	u32 tags, vlan = vlan_of(skb, &tags);

	memcpy(peer->way.macs, skb->data + ETH_ALEN, ETH_ALEN);
	memcpy(peer->way.macs + ETH_ALEN, skb->data, ETH_ALEN);
	set_vlan(&peer->way, vlan ?: READ_ONCE(peer->key.vm->vlan));
	peer->way_bad = !learn_tunnel_received(&peer->way, skb) || tags > 1;
}

/* Fills what a law may see of a packet's IPv4 header. */
static void read_ipv4(const struct sk_buff *skb, const struct ovs_shim_packet *headers,
		      struct shim_law_packet *packet)
{
	const struct iphdr *ip;

	if (headers->version != 4 || !headers->plain)
		return;
	ip = (const struct iphdr *)(skb->data + headers->offset);
	packet->id = ntohs(ip->id);
	packet->echo = ip->frag_off & htons(IP_CE);
	packet->echo_free = true;
	packet->id_free = ip->frag_off & htons(IP_DF) &&
			  !(skb_is_gso(skb) &&
			    skb_shinfo(skb)->gso_type & SKB_GSO_TCP_FIXEDID);
}

/* Tells whether a packet has an Ethernet header, without which no way back is known. */
static bool has_ethernet(const struct ovs_shim_packet *headers)
{
	return headers->offset >= ETH_HLEN;
}

/* Returns the peer to which a VM sends a packet to an uplink, NULL if none.  RCU read lock. */
struct ovs_shim_peer *ovs_shim_peer_sending(struct ovs_shim_port *vm, const struct vport *vport,
					    const struct sk_buff *skb,
					    const struct ovs_shim_packet *headers)
{
	struct in6_addr local, remote;

	if (!headers->version || !has_ethernet(headers))
		return NULL;
	ovs_shim_addresses(skb, headers, &local, &remote);
	if (!unicast(&local) || !unicast(&remote))
		return NULL;
	return get_peer(vm, vport, &remote);
}

/*
 * Notes a packet that passed the buckets and tells the law; *packet has its times, bytes and
 * packets and gets the rest.  Returns whether the law changed what stands in the header.
 * peer->lock.
 */
bool ovs_shim_peer_sent(struct ovs_shim_peer *peer, const struct vport *vport,
			const struct sk_buff *skb, const struct ovs_shim_packet *headers,
			struct shim_law_packet *packet)
{
	const struct ovs_shim_clock *clock = peer->clock;
	struct in6_addr remote;
	struct shim_law_packet old;

	peer->tx_bytes += packet->bytes;
	WRITE_ONCE(peer->tx_packets, peer->tx_packets + packet->packets);
	WRITE_ONCE(peer->out, vport);
	ovs_shim_addresses(skb, headers, &peer->local, &remote);
	learn_sent(peer, skb);
	if (!clock || !clock->law->on_tx)
		return false;
	packet->knobs = clock->settings->knobs;
	packet->marks = 0;
	read_ipv4(skb, headers, packet);
	old = *packet;
	clock->law->on_tx(&peer->state, packet);
	ovs_shim_peer_apply(peer, packet->now_ns);
	return packet->id != old.id || packet->echo != old.echo;
}

/* Notes a received packet and tells the law.  peer->lock. */
static void note_received(struct ovs_shim_peer *peer, const struct vport *vport,
			  const struct sk_buff *skb, struct shim_law_packet *packet)
{
	const struct ovs_shim_clock *clock = peer->clock;

	peer->rx_bytes += packet->bytes;
	peer->rx_marks += packet->marks;
	WRITE_ONCE(peer->rx_packets, peer->rx_packets + packet->packets);
	WRITE_ONCE(peer->in, vport);
	if (!peer->way_sent)
		learn_received(peer, skb);
	if (!clock || !clock->law->on_rx)
		return;
	packet->knobs = clock->settings->knobs;
	clock->law->on_rx(&peer->state, packet);
	ovs_shim_peer_apply(peer, packet->now_ns);
}

/*
 * Handles a packet for a VM whose law wants peers, from the uplink behind vport; *told: what the
 * law wants the guest to be told, untouched without a peer.  False if there was no memory to write
 * to the packet's header.  RCU read lock.
 */
bool ovs_shim_peer_received(struct ovs_shim_port *vm, struct vport *vport, struct sk_buff *skb,
			    const struct ovs_shim_packet *headers, enum shim_told *told)
{
	struct shim_law_packet packet = { .bytes = skb->len, .packets = 1 };
	struct in6_addr local, remote;
	struct shim_law_packet old;
	struct ovs_shim_peer *peer;

	if (!headers->version || !has_ethernet(headers))
		return true;
	ovs_shim_addresses(skb, headers, &remote, &local);
	if (!unicast(&local) || !unicast(&remote))
		return true;
	peer = get_peer(vm, vport, &remote);
	if (!peer)
		return true;
	packet.now_ns = ktime_get_ns();
	if (skb_is_gso(skb))
		packet.packets = ovs_shim_weight(skb, &packet.bytes);
	packet.marks = headers->ecn == INET_ECN_CE ? packet.packets : 0;
	read_ipv4(skb, headers, &packet);
	old = packet;
	spin_lock_bh(&peer->lock);
	peer->local = local;
	note_received(peer, vport, skb, &packet);
	spin_unlock_bh(&peer->lock);
	*told = packet.told;
	if (packet.id != old.id || packet.echo != old.echo)
		return ovs_shim_set_id(skb, headers, packet.id, packet.echo);
	return true;
}
