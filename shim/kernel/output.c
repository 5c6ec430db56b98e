// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pipeline: what happens to a packet between the datapath's decision where it goes and the
 * device.
 *
 *   from a VM, anywhere:    control messages are dropped, VMs may not send them
 *   from a VM to an uplink: GSO packets are cut; Not-ECT becomes ECT(1); the VM's bucket on that
 *                           uplink says send, pace or drop, and so does that of the peer if
 *                           the law wants peers
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
#include <net/inet_ecn.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"
#include "trace.h"

DEFINE_STATIC_KEY_FALSE(ovs_shim_key);

/* Drops a packet and counts it at the VM's port; the trace has the reason as the counter does. */
static void drop(struct ovs_shim_port *vm, struct sk_buff *skb, enum ovs_shim_counter counter,
		 const char *reason)
{
	atomic64_inc(&vm->counters[counter]);
	trace_ovs_shim_drop(vm, skb, reason);
	kfree_skb(skb);
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

/* Drops what the limiter's bucket refused, and counts it. */
static void refuse(struct ovs_shim_pair *pair, struct sk_buff *skb, u32 packets, u64 horizon_ns)
{
	atomic64_add(packets, horizon_ns ? &pair->tx.drop_horizon : &pair->tx.drop_police);
	trace_ovs_shim_drop(pair->vm, skb, horizon_ns ? "horizon" : "police");
	kfree_skb(skb);
}

/* Sends what was judged, now or when it may leave. */
static void depart(struct vport *vport, struct sk_buff *skb, struct ovs_shim_pair *pair,
		   const struct shim_verdict *verdict, u32 bytes, u32 packets, bool made_ect)
{
	if (verdict->kind == SHIM_PACE) {
		atomic64_add(packets, &pair->tx.paced);
		skb_set_delivery_time(skb, verdict->departure_ns, true);
	}
	send(vport, skb, pair, bytes, packets, made_ect);
}

/* Sends, paces or drops what is one packet to the uplink and may not pass unasked. */
static noinline void judge(struct vport *vport, struct sk_buff *skb, struct ovs_shim_pair *pair,
			   u32 bytes, u32 packets, bool made_ect)
{
	u64 horizon_ns = READ_ONCE(pair->vm->mode.horizon_ns);
	struct shim_verdict verdict;

	verdict = ovs_shim_bucket_judge(&pair->bucket, ktime_get_ns(), bytes, horizon_ns);
	if (verdict.kind == SHIM_DROP)
		refuse(pair, skb, packets, horizon_ns);
	else
		depart(vport, skb, pair, &verdict, bytes, packets, made_ect);
}

/*
 * The same for a packet to a peer, whose bucket it must pass too: it leaves at the later of the two
 * times, and a bucket is not charged for what the other drops.
 */
static void judge_peer(struct vport *vport, struct sk_buff *skb, struct ovs_shim_pair *pair,
		       struct ovs_shim_peer *peer, const struct ovs_shim_packet *headers,
		       bool made_ect)
{
	u64 horizon_ns = READ_ONCE(pair->vm->mode.horizon_ns);
	struct shim_law_packet packet = { .bytes = skb->len, .packets = 1, .room_ns = horizon_ns };
	struct shim_verdict own = { .kind = SHIM_SEND }, verdict;
	bool changed = false;

	packet.now_ns = ktime_get_ns();
	if (skb_is_gso(skb))
		packet.packets = ovs_shim_weight(skb, &packet.bytes);
	spin_lock_bh(&peer->lock);
	if (peer->rate.bytes_per_s)
		own = ovs_shim_bucket_ask(&peer->rate, peer->tat, packet.now_ns, packet.bytes,
					  horizon_ns);
	if (own.kind == SHIM_DROP) {
		WRITE_ONCE(peer->drops, peer->drops + packet.packets);
		spin_unlock_bh(&peer->lock);
		atomic64_add(packet.packets, &pair->vm->counters[OVS_SHIM_DROP_PEER]);
		trace_ovs_shim_drop(pair->vm, skb, "peer");
		kfree_skb(skb);
		return;
	}
	verdict = ovs_shim_bucket_judge(&pair->bucket, packet.now_ns, packet.bytes, horizon_ns);
	if (verdict.kind != SHIM_DROP) {
		peer->tat = own.tat;
		if (own.kind == SHIM_PACE && own.departure_ns > verdict.departure_ns)
			verdict = own;
		if (verdict.kind == SHIM_PACE)
			packet.wait_ns = verdict.departure_ns - packet.now_ns;
		changed = ovs_shim_peer_sent(peer, vport, skb, headers, &packet);
	}
	spin_unlock_bh(&peer->lock);
	if (verdict.kind == SHIM_DROP) {
		refuse(pair, skb, packet.packets, horizon_ns);
		return;
	}
	if (changed && !ovs_shim_set_id(skb, headers, packet.id, packet.echo)) {
		drop(pair->vm, skb, OVS_SHIM_DROP_MEMORY, "memory");
		return;
	}
	depart(vport, skb, pair, &verdict, packet.bytes, packet.packets, made_ect);
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

/*
 * Handles a GSO packet: cuts it as the device would, if so set, or judges it as a whole.  peer is
 * NULL if there is none.
 */
static noinline void limit_gso(struct vport *vport, struct sk_buff *skb,
			       struct ovs_shim_pair *pair, struct ovs_shim_peer *peer,
			       const struct ovs_shim_packet *headers, bool made_ect)
{
	struct sk_buff *parts, *part, *next;
	netdev_features_t features;
	u32 packets, bytes;

	if (!READ_ONCE(pair->vm->mode.segment)) {
		if (peer) {
			judge_peer(vport, skb, pair, peer, headers, made_ect);
			return;
		}
		packets = ovs_shim_weight(skb, &bytes);
		judge(vport, skb, pair, bytes, packets, made_ect);
		return;
	}
	features = netif_skb_features(skb) & ~NETIF_F_GSO_MASK;
	parts = skb_gso_segment(skb, features);
	if (IS_ERR(parts)) {
		drop(pair->vm, skb, OVS_SHIM_DROP_SEGMENT, "segment");
		return;
	}
	if (!parts) {
		/* A guest's GSO packet that turned out to be a single one. */
		if (peer)
			judge_peer(vport, skb, pair, peer, headers, made_ect);
		else
			limit(vport, skb, pair, made_ect);
		return;
	}
	consume_skb(skb);
	skb_list_walk_safe(parts, part, next) {
		skb_mark_not_on_list(part);
		if (peer)
			judge_peer(vport, part, pair, peer, headers, made_ect);
		else
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
		drop(vm, skb, OVS_SHIM_DROP_MEMORY, "memory");
	else
		vport->ops->send(skb);
	return NULL;
}

/*
 * Makes a packet to an uplink what the fabric should see; *made_ect: it was Not-ECT.  False without
 * memory for that.
 */
static inline bool prepare(struct ovs_shim_port *vm, struct ovs_shim_pair *pair,
			   struct ovs_shim_peer *peer, struct sk_buff *skb,
			   struct ovs_shim_packet packet, bool *made_ect)
{
	if (unlikely(READ_ONCE(vm->mode.wants) & SHIM_LAW_FLOWS))
		return ovs_shim_tcp_out(pair, peer, skb, packet, made_ect);
	*made_ect = packet.ecn == INET_ECN_NOT_ECT && packet.version && READ_ONCE(vm->mode.ecn);
	return !*made_ect || ovs_shim_set_ecn(skb, packet, INET_ECN_ECT_1);
}

/* Handles a packet from a VM. */
static noinline void transmit(struct ovs_shim_port *vm, struct vport *vport, struct sk_buff *skb)
{
	struct ovs_shim_packet packet = ovs_shim_look(skb);
	struct ovs_shim_pair *pair = find(vm, vport);
	struct ovs_shim_peer *peer = NULL;
	bool made_ect = false;

	if (unlikely(packet.version && packet.protocol == READ_ONCE(vm->mode.protocol))) {
		drop(vm, skb, OVS_SHIM_DROP_FORGED, "forged");
		return;
	}
	if (unlikely(!pair || !READ_ONCE(pair->active))) {
		pair = start(vm, rcu_dereference(vport->shim), vport, skb);
		if (!pair)
			return;
	}
	if (unlikely(READ_ONCE(vm->mode.wants) & SHIM_LAW_PEERS))
		peer = ovs_shim_peer_sending(vm, vport, skb, &packet);
	if (!prepare(vm, pair, peer, skb, packet, &made_ect)) {
		drop(vm, skb, OVS_SHIM_DROP_MEMORY, "memory");
		return;
	}
	if (skb_is_gso(skb))
		limit_gso(vport, skb, pair, peer, &packet, made_ect);
	else if (unlikely(peer))
		judge_peer(vport, skb, pair, peer, &packet, made_ect);
	else
		limit(vport, skb, pair, made_ect);
}

/*
 * Sends the packet that most are, and tells so: a VM's, to an uplink on which it has a limiter,
 * with an ECN field that stays, cut already, under a law that looks at no single packet, and free
 * to pass unasked.  What transmit() would do with it, without a call or a register to save:
 * cache lines of instructions are most of what a limiter costs here.
 */
static __always_inline bool transmit_common(struct ovs_shim_port *vm, struct vport *vport,
					    struct sk_buff *skb)
{
	struct ovs_shim_pair *pair = rcu_dereference(vm->pairs);
	const struct iphdr *ip = ovs_shim_common_ip(skb);

	if (unlikely(!ip || !pair || pair->out != vport || !READ_ONCE(pair->active) ||
		     READ_ONCE(vm->mode.wants) || ip->protocol == READ_ONCE(vm->mode.protocol) ||
		     skb_is_gso(skb)))
		return false;
	if (!(ip->tos & INET_ECN_MASK) && READ_ONCE(vm->mode.ecn))
		return false;
	if (!ovs_shim_bucket_pass(&pair->bucket, skb->len))
		return false;
	send(vport, skb, pair, skb->len, 1, false);
	return true;
}

void ovs_shim_output(struct vport *vport, struct sk_buff *skb)
{
	const struct vport *in_vport = OVS_CB(skb)->input_vport;
	struct ovs_shim_port *in = in_vport ? rcu_dereference(in_vport->shim) : NULL;
	struct ovs_shim_port *out;

	if (in && READ_ONCE(in->mode.role) == OVS_SHIM_ROLE_VM) {
		if (!transmit_common(in, vport, skb))
			transmit(in, vport, skb);
		return;
	}
	out = rcu_dereference(vport->shim);
	if (out && READ_ONCE(out->mode.role) == OVS_SHIM_ROLE_VM)
		ovs_shim_receive(out, in, vport, skb);
	else
		vport->ops->send(skb);
}
