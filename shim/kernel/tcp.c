// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP segments for laws with SHIM_LAW_FLOWS: reads the header, lets the law follow the connection
 * and write into it, and puts what it wrote back.
 *
 * A packet that is no whole TCP header in one unfragmented IP packet is none of the law's business
 * and keeps every byte.  Options are read of SYNs only; behind a malformed one none counts.  The
 * checksum is not verified, only kept as right or wrong as it was.
 *
 * A GSO packet is one segment of all its payload.  CWR, once, is the first packet's
 * (SKB_GSO_TCP_ECN).
 *
 * Under a law with SHIM_LAW_ECN only TCP that answers to marks is made ECT, by the law; other
 * packets stay Not-ECT, or nobody would slow down for the marks.  Segments without payload are the
 * exception: as all packets under the other laws they leave as ECT(1), so that no SYN dies in a
 * queue that marks, and the receiver's shim gives them back.
 */
#include <linux/errno.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/checksum.h>
#include <net/inet_ecn.h>
#include <net/tcp.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"

/* Where the 16-bit words of data offset and flags, and of the window, are in a TCP header. */
#define FLAGS_OFFSET 12
#define WINDOW_OFFSET 14

/* Mask of SHIM_TCP_* in the word of data offset and flags. */
#define FLAGS_MASK 0x1ff

/* Returns the word at a byte offset of a TCP header. */
static __be16 *word_at(void *tcp, int offset)
{
	return (__be16 *)((u8 *)tcp + offset);
}

/* Returns where the IP packet ends, from skb->data; -1 if it is not all there. */
static int packet_end(const struct sk_buff *skb, struct ovs_shim_packet packet)
{
	const void *ip = skb->data + packet.offset;
	int end = packet.offset;

	if (skb_is_gso(skb))
		return skb->len;
	if (packet.version == 4)
		end += ntohs(((const struct iphdr *)ip)->tot_len);
	else
		end += sizeof(struct ipv6hdr) + ntohs(((const struct ipv6hdr *)ip)->payload_len);
	return end <= skb->len ? end : -1;
}

/* Reads the options of a SYN, len bytes. */
static void read_options(const u8 *option, int len, struct shim_segment *segment)
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

/* Fills *segment, and the ports of source and destination; false if it is no TCP segment. */
static bool read_segment(struct sk_buff *skb, struct ovs_shim_packet packet,
			 struct shim_segment *segment, __be16 *source, __be16 *destination)
{
	struct tcphdr *tcp;
	int end, header;

	if (packet.protocol != IPPROTO_TCP || !packet.plain)
		return false;
	end = packet_end(skb, packet);
	if (end < packet.payload + (int)sizeof(*tcp) ||
	    !pskb_may_pull(skb, packet.payload + sizeof(*tcp)))
		return false;
	header = ((const struct tcphdr *)(skb->data + packet.payload))->doff * 4;
	if (header < (int)sizeof(*tcp) || end < packet.payload + header ||
	    !pskb_may_pull(skb, packet.payload + header))
		return false;
	tcp = (struct tcphdr *)(skb->data + packet.payload);
	*source = tcp->source;
	*destination = tcp->dest;
	*segment = (struct shim_segment){
		.now_ns = ktime_get_ns(),
		.seq = ntohl(tcp->seq),
		.ack = ntohl(tcp->ack_seq),
		.payload = end - packet.payload - header,
		.window = ntohs(tcp->window),
		.flags = ntohs(*word_at(tcp, FLAGS_OFFSET)) & FLAGS_MASK,
		.scale = SHIM_SCALE_NONE,
		.ecn = packet.ecn,
	};
	segment->size = min_t(u32, segment->payload, U16_MAX);
	if (skb_is_gso(skb))
		segment->size = min(segment->size, skb_shinfo(skb)->gso_size);
	if (segment->flags & SHIM_TCP_SYN)
		read_options((const u8 *)(tcp + 1), header - (int)sizeof(*tcp), segment);
	return true;
}

/* Replaces a word of the TCP header and keeps the checksum. */
static void replace(struct sk_buff *skb, struct tcphdr *tcp, int offset, u16 value)
{
	__be16 *word = word_at(tcp, offset);
	__be16 new = htons(value);

	if (*word == new)
		return;
	inet_proto_csum_replace2(&tcp->check, skb, *word, new, false);
	*word = new;
}

/* Writes flags and window; false, and nothing changed, without memory for a private header. */
static bool write_header(struct sk_buff *skb, struct ovs_shim_packet packet,
			 const struct shim_segment *segment)
{
	bool cwr = segment->flags & SHIM_TCP_CWR && skb_is_gso(skb);
	struct tcphdr *tcp;
	u16 flags;

	/* The kind of GSO stands in memory that clones share. */
	if (skb_ensure_writable(skb, packet.payload + sizeof(*tcp)) ||
	    (cwr && skb_unclone(skb, GFP_ATOMIC)))
		return false;
	if (cwr)
		skb_shinfo(skb)->gso_type |= SKB_GSO_TCP_ECN;
	tcp = (struct tcphdr *)(skb->data + packet.payload);
	flags = ntohs(*word_at(tcp, FLAGS_OFFSET));
	replace(skb, tcp, FLAGS_OFFSET, (flags & ~FLAGS_MASK) | segment->flags);
	replace(skb, tcp, WINDOW_OFFSET, segment->window);
	return true;
}

/* Puts what the law wrote into the packet; false without memory for it. */
static bool write_segment(struct sk_buff *skb, struct ovs_shim_packet packet,
			  const struct shim_segment *old, const struct shim_segment *new)
{
	if ((new->flags != old->flags || new->window != old->window) &&
	    !write_header(skb, packet, new))
		return false;
	return new->ecn == old->ecn || ovs_shim_set_ecn(skb, packet, new->ecn);
}

/* Returns how long a packet would stay in a limiter, and in a peer's if any, ns.  flow->lock. */
static u64 wait_in(const struct ovs_shim_pair *pair, struct ovs_shim_peer *peer, u64 now_ns)
{
	u64 wait_ns, own_ns = 0;

	if (!READ_ONCE(pair->vm->mode.horizon_ns))
		return 0;
	wait_ns = ovs_shim_bucket_wait(&pair->bucket, now_ns);
	if (!peer)
		return wait_ns;
	spin_lock_bh(&peer->lock);
	if (peer->rate.bytes_per_s)
		own_ns = shim_bucket_wait(&peer->rate, peer->tat, now_ns);
	spin_unlock_bh(&peer->lock);
	return max(wait_ns, own_ns);
}

/* Lets the law handle a segment of the VM, which leaves through pair, to a peer if any. */
static void law_out(struct ovs_shim_flow *flow, const struct ovs_shim_pair *pair,
		    struct ovs_shim_peer *peer, struct shim_segment *segment)
{
	spin_lock_bh(&flow->lock);
	flow->seen_ns = segment->now_ns;
	flow->out = pair->out;
	/* Needed once a round trip: of the packet that will be timed. */
	if (segment->payload && !flow->state.timed_ns)
		segment->wait_ns = wait_in(pair, peer, segment->now_ns);
	segment->knobs = flow->clock->settings->knobs;
	flow->clock->law->on_segment_out(&flow->state, segment);
	spin_unlock_bh(&flow->lock);
}

/*
 * Handles a packet that a VM whose law wants flows sends through a limiter, to a peer if the law
 * wants them.  *made_ect: it was Not-ECT.  False without memory for a change.
 */
bool ovs_shim_tcp_out(struct ovs_shim_pair *pair, struct ovs_shim_peer *peer, struct sk_buff *skb,
		      struct ovs_shim_packet packet, bool *made_ect)
{
	struct ovs_shim_port *vm = pair->vm;
	bool stays = READ_ONCE(vm->mode.wants) & SHIM_LAW_ECN || !packet.version;
	struct ovs_shim_flow_key key = { .vm = vm };
	struct shim_segment segment, old;
	struct ovs_shim_flow *flow;

	if (!read_segment(skb, packet, &segment, &key.port_vm, &key.port_peer)) {
		segment = (struct shim_segment){ .ecn = packet.ecn };
		old = segment;
		goto ecn;
	}
	old = segment;
	stays &= !!segment.payload;
	ovs_shim_addresses(skb, &packet, &key.local, &key.remote);
	flow = ovs_shim_flow_find(&key);
	if (!flow && !(segment.flags & SHIM_TCP_RST) &&
	    (segment.payload || segment.flags & SHIM_TCP_SYN))
		flow = ovs_shim_flow_make(&key);
	if (flow)
		law_out(flow, pair, peer, &segment);
ecn:
	if (segment.ecn == INET_ECN_NOT_ECT && !stays && READ_ONCE(vm->mode.ecn))
		segment.ecn = INET_ECN_ECT_1;
	*made_ect = old.ecn == INET_ECN_NOT_ECT && segment.ecn != INET_ECN_NOT_ECT;
	return write_segment(skb, packet, &old, &segment);
}

/* Lets the law handle a segment for the VM; returns who answers for ECN. */
static enum shim_flow_ecn law_in(struct ovs_shim_flow *flow, struct shim_segment *segment)
{
	enum shim_flow_ecn ecn;

	spin_lock_bh(&flow->lock);
	flow->seen_ns = segment->now_ns;
	segment->knobs = flow->clock->settings->knobs;
	flow->clock->law->on_segment_in(&flow->state, segment);
	ecn = flow->state.ecn;
	spin_unlock_bh(&flow->lock);
	return ecn;
}

/*
 * Handles a packet from an uplink for a VM whose law wants flows; told: of marks, where no flow
 * answers for them.  *restored: its ECN field was changed.  False without memory for a change.
 */
bool ovs_shim_tcp_in(struct ovs_shim_port *vm, struct sk_buff *skb, struct ovs_shim_packet packet,
		     enum shim_told told, bool *restored)
{
	enum shim_flow_ecn ecn = SHIM_FLOW_UNKNOWN;
	struct ovs_shim_flow_key key = { .vm = vm };
	struct shim_segment segment, old;
	struct ovs_shim_flow *flow;
	u16 opens;

	if (!read_segment(skb, packet, &segment, &key.port_peer, &key.port_vm)) {
		segment = (struct shim_segment){ .ecn = packet.ecn };
		old = segment;
		goto restore;
	}
	old = segment;
	ovs_shim_addresses(skb, &packet, &key.remote, &key.local);
	flow = ovs_shim_flow_find(&key);
	opens = segment.flags & (SHIM_TCP_SYN | SHIM_TCP_ACK | SHIM_TCP_RST | SHIM_TCP_FIN);
	if (!flow && opens == SHIM_TCP_SYN)
		flow = ovs_shim_flow_make(&key);
	if (flow)
		ecn = law_in(flow, &segment);
	if (segment.window != old.window)
		atomic64_inc(&vm->counters[OVS_SHIM_RX_WINDOWS]);
restore:
	if (READ_ONCE(vm->mode.ecn) && (ecn != SHIM_FLOW_OWN || segment.ecn != INET_ECN_CE))
		segment.ecn = ovs_shim_ecn_restore(skb, segment.ecn, told);
	*restored = segment.ecn != old.ecn;
	return write_segment(skb, packet, &old, &segment);
}
