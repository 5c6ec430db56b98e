// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pipeline: what happens to a packet between the datapath's decision where it goes and the
 * device.
 *
 *   from a VM, anywhere:    control messages are dropped, VMs may not send them
 *   from a VM to an uplink: GSO packets are cut; Not-ECT becomes ECT(1); the VM's bucket on that
 *                           uplink says send, pace or drop
 *   from elsewhere to a VM: receive.c
 *   everything else:        untouched
 *
 * Departure times are CLOCK_MONOTONIC and obeyed by sch_fq on the uplink.  ovs_vport_send() clears
 * skb->tstamp before it calls us.
 */
#include <linux/err.h>
#include <linux/ip.h>
#include <linux/minmax.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/inet_ecn.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"

DEFINE_STATIC_KEY_FALSE(ovs_shim_key);

/* Drops a packet and counts it at the VM's port. */
static void drop(struct ovs_shim_port *vm, struct sk_buff *skb, enum ovs_shim_counter counter)
{
	atomic64_inc(&vm->counters[counter]);
	kfree_skb(skb);
}

/*
 * Returns the number of packets that a GSO packet will become, and in *bytes what they weigh with
 * a header each; sch_tbf and sch_htb see the same number (qdisc_pkt_len_init()).
 */
static u32 gso_weight(const struct sk_buff *skb, u32 *bytes)
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

/* Sends what may go; made_ect: by the shim. */
static void send(struct vport *vport, struct sk_buff *skb, struct ovs_shim_pair *pair,
		 u32 bytes, u32 packets, bool made_ect)
{
	atomic64_add(bytes, &pair->tx.bytes);
	atomic64_add(packets, &pair->tx.packets);
	if (made_ect)
		atomic64_add(packets, &pair->tx.ect);
	vport->ops->send(skb);
}

/* Sends, paces or drops what is one packet to the uplink and may not pass unasked. */
static noinline void judge(struct vport *vport, struct sk_buff *skb, struct ovs_shim_pair *pair,
			   u32 bytes, u32 packets, bool made_ect)
{
	u64 horizon_ns = READ_ONCE(pair->vm->mode.horizon_ns);
	struct shim_verdict verdict;

	verdict = ovs_shim_bucket_judge(&pair->bucket, ktime_get_ns(), bytes, horizon_ns);
	if (verdict.kind == SHIM_DROP) {
		atomic64_add(packets, horizon_ns ? &pair->tx.drop_horizon : &pair->tx.drop_police);
		kfree_skb(skb);
		return;
	}
	if (verdict.kind == SHIM_PACE) {
		atomic64_add(packets, &pair->tx.paced);
		skb_set_delivery_time(skb, verdict.departure_ns, true);
	}
	send(vport, skb, pair, bytes, packets, made_ect);
}

/* Handles what is one packet. */
static inline void limit(struct vport *vport, struct sk_buff *skb, struct ovs_shim_pair *pair,
			 bool made_ect)
{
	if (ovs_shim_bucket_pass(&pair->bucket, skb->len))
		send(vport, skb, pair, skb->len, 1, made_ect);
	else
		judge(vport, skb, pair, skb->len, 1, made_ect);
}

/* Handles a GSO packet: cuts it as the device would, if so set, or judges it as a whole. */
static noinline void limit_gso(struct vport *vport, struct sk_buff *skb,
			       struct ovs_shim_pair *pair, bool made_ect)
{
	struct sk_buff *parts, *part, *next;
	netdev_features_t features;
	u32 packets, bytes;

	if (!READ_ONCE(pair->vm->mode.segment)) {
		packets = gso_weight(skb, &bytes);
		judge(vport, skb, pair, bytes, packets, made_ect);
		return;
	}
	features = netif_skb_features(skb) & ~NETIF_F_GSO_MASK;
	parts = skb_gso_segment(skb, features);
	if (IS_ERR(parts)) {
		drop(pair->vm, skb, OVS_SHIM_DROP_SEGMENT);
		return;
	}
	if (!parts) {
		/* A guest's GSO packet that turned out to be a single one. */
		limit(vport, skb, pair, made_ect);
		return;
	}
	consume_skb(skb);
	skb_list_walk_safe(parts, part, next) {
		skb_mark_not_on_list(part);
		limit(vport, part, pair, made_ect);
	}
}

/* Returns the limiter of vm on the uplink behind vport, NULL if there is none.  RCU read lock. */
static struct ovs_shim_pair *find(const struct ovs_shim_port *vm, const struct vport *vport)
{
	struct ovs_shim_pair *pair = rcu_dereference(vm->pairs);

	while (pair && pair->out != vport)
		pair = rcu_dereference(pair->next);
	return pair;
}

/*
 * Returns the limiter of a packet for which find() has no active one.  NULL: the packet has been
 * seen to, without a limiter; out is the port behind vport, NULL if it has no role.
 */
static noinline struct ovs_shim_pair *start(struct ovs_shim_port *vm, struct ovs_shim_port *out,
					    struct vport *vport, struct sk_buff *skb)
{
	struct ovs_shim_pair *pair;

	if (!out || READ_ONCE(out->mode.role) != OVS_SHIM_ROLE_UPLINK) {
		vport->ops->send(skb);
		return NULL;
	}
	pair = ovs_shim_limiter_start(vm, out);
	if (!IS_ERR(pair))
		return pair;
	if (PTR_ERR(pair) == -ENOMEM)
		drop(vm, skb, OVS_SHIM_DROP_MEMORY);
	else
		vport->ops->send(skb);
	return NULL;
}

/* Handles a packet from a VM; out is the port behind vport, NULL if it has no role. */
static void transmit(struct ovs_shim_port *vm, struct ovs_shim_port *out, struct vport *vport,
		     struct sk_buff *skb)
{
	struct ovs_shim_packet packet = ovs_shim_look(skb);
	struct ovs_shim_pair *pair = find(vm, vport);
	bool made_ect = false;

	if (unlikely(packet.version && packet.protocol == READ_ONCE(vm->mode.protocol))) {
		drop(vm, skb, OVS_SHIM_DROP_FORGED);
		return;
	}
	if (unlikely(!pair || !READ_ONCE(pair->active))) {
		pair = start(vm, out, vport, skb);
		if (!pair)
			return;
	}
	if (packet.ecn == INET_ECN_NOT_ECT && packet.version && READ_ONCE(vm->mode.ecn)) {
		if (!ovs_shim_set_ecn(skb, packet, INET_ECN_ECT_1)) {
			drop(vm, skb, OVS_SHIM_DROP_MEMORY);
			return;
		}
		made_ect = true;
	}
	if (skb_is_gso(skb))
		limit_gso(vport, skb, pair, made_ect);
	else
		limit(vport, skb, pair, made_ect);
}

void ovs_shim_output(struct vport *vport, struct sk_buff *skb)
{
	const struct vport *in_vport = OVS_CB(skb)->input_vport;
	struct ovs_shim_port *out = rcu_dereference(vport->shim);
	struct ovs_shim_port *in = in_vport ? rcu_dereference(in_vport->shim) : NULL;

	if (in && READ_ONCE(in->mode.role) == OVS_SHIM_ROLE_VM)
		transmit(in, out, vport, skb);
	else if (out && READ_ONCE(out->mode.role) == OVS_SHIM_ROLE_VM)
		ovs_shim_receive(out, in, vport, skb);
	else
		vport->ops->send(skb);
}
