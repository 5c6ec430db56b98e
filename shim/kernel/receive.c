// SPDX-License-Identifier: GPL-2.0-only
/*
 * What arrives for a VM: control messages are obeyed or refused, and never delivered; other packets
 * from an uplink are counted and get their ECN field back.
 *
 * A message that an uplink brought concerns the VM's limiter on that uplink; one that the
 * controller handed to this very switch concerns all of them.
 */
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/minmax.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <net/inet_ecn.h>
#include <net/ipv6.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "internal.h"
#include "trace.h"

/* Counters of refusals by reason. */
static const enum ovs_shim_counter refusals[] = {
	[SHIM_MESSAGE_OK] = OVS_SHIM_MESSAGES,
	[SHIM_MESSAGE_SHORT] = OVS_SHIM_REFUSED_SHORT,
	[SHIM_MESSAGE_FORM] = OVS_SHIM_REFUSED_FORM,
	[SHIM_MESSAGE_TAG] = OVS_SHIM_REFUSED_TAG,
	[SHIM_MESSAGE_REPLAY] = OVS_SHIM_REFUSED_REPLAY,
};

/* What a trace says of a message, by its counter. */
static const char *const verdicts[] = {
	[OVS_SHIM_MESSAGES] = "obeyed",
	[OVS_SHIM_REPORTS] = "obeyed",
	[OVS_SHIM_REFUSED_SHORT] = "short",
	[OVS_SHIM_REFUSED_FORM] = "form",
	[OVS_SHIM_REFUSED_TAG] = "tag",
	[OVS_SHIM_REFUSED_REPLAY] = "replay",
	[OVS_SHIM_REFUSED_ADDRESS] = "address",
	[OVS_SHIM_REFUSED_PEER] = "peer",
	[OVS_SHIM_REFUSED_LAW] = "law",
};

/* Returns the length of the message that the IP header tells of; negative if it lies. */
static int message_length(const struct sk_buff *skb, const struct ovs_shim_packet *packet)
{
	const void *ip = skb->data + packet->offset;
	int end = packet->offset;

	if (packet->version == 4)
		end += ntohs(((const struct iphdr *)ip)->tot_len);
	else
		end += sizeof(struct ipv6hdr) + ntohs(((const struct ipv6hdr *)ip)->payload_len);
	return end <= skb->len ? end - packet->payload : -1;
}

/* Reads and checks a message but for address and replay; the shim's lock is held. */
static enum shim_message_error read_message(const struct ovs_shim_settings *settings,
					    const struct sk_buff *skb,
					    const struct ovs_shim_packet *packet,
					    struct shim_message *message)
{
	u8 data[SHIM_MESSAGE_V1_BYTES];
	int len;

	if (!packet->plain)
		return SHIM_MESSAGE_FORM;
	len = message_length(skb, packet);
	if (len < 0 || skb_copy_bits(skb, packet->payload, data, min_t(int, len, sizeof(data))))
		return SHIM_MESSAGE_SHORT;
	if (len == SHIM_MESSAGE_V0_BYTES && packet->version == 4) {
		if (!settings->accept_v0)
			return SHIM_MESSAGE_FORM;
		return shim_message_decode_v0(message, data, len);
	}
	/* Without a key the zero key is in settings->key: never accept by it. */
	if (len == sizeof(data) && !settings->key_set)
		return SHIM_MESSAGE_TAG;
	return shim_message_decode(message, data, len, settings->key);
}

/*
 * Checks address and replay of a v1 message, and hands a report to its peer; returns the counter
 * that says what became of it.  shim->lock.
 */
static enum ovs_shim_counter check_message(struct ovs_shim_port *vm, const struct sk_buff *skb,
					   const struct ovs_shim_packet *packet,
					   const struct shim_message *message, u64 now_ns)
{
	struct in6_addr source, destination;

	ovs_shim_addresses(skb, packet, &source, &destination);
	if (memcmp(message->vm, &destination, sizeof(destination)))
		return OVS_SHIM_REFUSED_ADDRESS;
	if (message->type == SHIM_MESSAGE_RATE && !(vm->clock && vm->clock->law->obeys_rates))
		return OVS_SHIM_REFUSED_LAW;
	if (message->type != SHIM_MESSAGE_REPORT)
		return refusals[shim_replay_check(&vm->replay, message)];
	if (memcmp(message->peer, &source, sizeof(source)))
		return OVS_SHIM_REFUSED_ADDRESS;
	return ovs_shim_peer_report(vm, message, now_ns);
}

/* Obeys or refuses a message; in is the port it came by, NULL if it has no role. */
static void obey(struct ovs_shim_port *vm, const struct ovs_shim_port *in,
		 const struct sk_buff *skb, struct ovs_shim_packet packet)
{
	struct ovs_shim_net *shim = vm->shim;
	enum ovs_shim_counter counter;
	enum shim_message_error error;
	struct shim_message message = {};
	struct ovs_shim_pair *pair;
	u64 now_ns = ktime_get_ns();

	spin_lock_bh(&shim->lock);
	error = read_message(&shim->settings, skb, &packet, &message);
	counter = refusals[error];
	if (!error && message.version)
		counter = check_message(vm, skb, &packet, &message, now_ns);
	atomic64_inc(&vm->counters[counter]);
	trace_ovs_shim_message(vm, &message, verdicts[counter]);
	if (counter == OVS_SHIM_REPORTS)
		atomic64_add(skb->len, &vm->counters[OVS_SHIM_REPORT_BYTES]);
	if (counter == OVS_SHIM_MESSAGES) {
		atomic64_add(message.marks, &vm->counters[OVS_SHIM_MESSAGE_MARKS]);
		pair = rcu_dereference_protected(vm->pairs, lockdep_is_held(&shim->lock));
		while (pair) {
			if (pair->uplink == in || !in || in->role != OVS_SHIM_ROLE_UPLINK)
				ovs_shim_limiter_message(pair, &message, now_ns);
			pair = rcu_dereference_protected(pair->next, lockdep_is_held(&shim->lock));
		}
	}
	spin_unlock_bh(&shim->lock);
}

/*
 * Does what the VM's law wants beyond counting, for a packet from the uplink in; false if there was
 * no memory for it.  *told: what the guest is told.
 */
static bool measure(struct ovs_shim_port *vm, struct ovs_shim_port *in, struct sk_buff *skb,
		    const struct ovs_shim_packet *packet, u8 wants, enum shim_told *told)
{
	if (wants & SHIM_LAW_RECEIVER) {
		if (READ_ONCE(vm->rx_in) != in->vport || !READ_ONCE(vm->receiving)) {
			WRITE_ONCE(vm->rx_in, in->vport);
			ovs_shim_limiter_wake(vm, in);
		}
	}
	return !(wants & SHIM_LAW_PEERS) || ovs_shim_peer_received(vm, in->vport, skb, packet,
								   told);
}

/*
 * Makes a packet from an uplink what the VM should see, told of marks as its law wants; *restored:
 * its ECN field was changed.  False without memory for that.
 */
static inline bool restore(struct ovs_shim_port *vm, struct sk_buff *skb,
			   struct ovs_shim_packet packet, enum shim_told told,
			   bool *restored)
{
	u8 ecn = packet.ecn;

	if (unlikely(READ_ONCE(vm->mode.wants) & SHIM_LAW_FLOWS))
		return ovs_shim_tcp_in(vm, skb, packet, told, restored);
	if (READ_ONCE(vm->mode.ecn))
		ecn = ovs_shim_ecn_restore(skb, ecn, told);
	*restored = ecn != packet.ecn;
	return !*restored || ovs_shim_set_ecn(skb, packet, ecn);
}

/* Drops a packet for which there was no memory. */
static void drop(struct ovs_shim_port *vm, struct sk_buff *skb)
{
	atomic64_inc(&vm->counters[OVS_SHIM_DROP_MEMORY]);
	trace_ovs_shim_drop(vm, skb, "memory");
	kfree_skb(skb);
}

/* Handles a packet for a VM; in is the port it came by, NULL if it has no role. */
void ovs_shim_receive(struct ovs_shim_port *vm, struct ovs_shim_port *in,
		      struct vport *vport, struct sk_buff *skb)
{
	struct ovs_shim_packet packet = ovs_shim_look(skb);
	enum shim_told told = SHIM_TOLD_FABRIC;
	u32 packets = 1;
	bool restored;
	u8 wants;

	if (unlikely(packet.version && packet.protocol == READ_ONCE(vm->mode.protocol))) {
		obey(vm, in, skb, packet);
		consume_skb(skb);
		return;
	}
	if (!in || READ_ONCE(in->mode.role) != OVS_SHIM_ROLE_UPLINK)
		goto send;
	if (skb_is_gso(skb) && skb_shinfo(skb)->gso_segs)
		packets = skb_shinfo(skb)->gso_segs;
	atomic64_add(packets, &vm->counters[OVS_SHIM_RX_PACKETS]);
	atomic64_add(skb->len, &vm->counters[OVS_SHIM_RX_BYTES]);
	if (!packet.version)
		goto send;
	if (packet.ecn == INET_ECN_CE)
		atomic64_add(packets, &vm->counters[OVS_SHIM_RX_CE]);
	wants = READ_ONCE(vm->mode.wants);
	if (unlikely(wants) && !measure(vm, in, skb, &packet, wants, &told)) {
		drop(vm, skb);
		return;
	}
	if (!restore(vm, skb, packet, told, &restored)) {
		drop(vm, skb);
		return;
	}
	if (restored)
		atomic64_add(packets, &vm->counters[OVS_SHIM_RX_RESTORED]);
send:
	vport->ops->send(skb);
}
