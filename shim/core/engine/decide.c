// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The packet's way, in this order:
 *
 *   from a VM to an uplink   an address that is not the VM's own: dropped
 *                            CE that the VM wrote becomes ECT(0): marks are the fabric's to make
 *                            the VM's limiter there is found or started, and under a law that
 *                            wants them the peer and the TCP connection
 *                            Not-ECT becomes ECT, unless the law says otherwise
 *                            the path that controllers named is found, if they did
 *                            a GSO packet is cut if it is more than may leave in one go; each part
 *                            asks the buckets by itself
 *                            the peer's bucket, the path's and the VM's say send, wait or drop
 *   from an uplink to a VM   counted, the law is told, the ECN field is given back
 *
 * The host refuses control messages of VMs before it comes here, and hands those for VMs to
 * shim_engine_message().
 *
 * Under a law that wants peers a packet to one host has one by its destination, whatever its
 * source.  What has none (no IP, no room, no memory) passes the gate "shared" that all such packets
 * share, and the VM's bucket; the reserved bit, which speaks to the other end's shim, does not
 * leave with it.  No peer is made for a packet that the VM's bucket or the gate "unanswered" is to
 * drop; such a packet meets what drops it.
 *
 * A law binds what a VM sends to a name whose host it hears of.  The same host can be reached by
 * other names: an address that is nobody's, with the host's MAC address or one that switches flood,
 * a group's, one of the other family.  So what nobody answers passes the gate "unanswered" of the
 * VM, beside the buckets that it has anyway.  With E the VM's share, R the rate of its limiter, B
 * its guarantee and g the least rate of a peer whose report came within SHIM_ANSWER_NS:
 *
 *   a packet is answered if it goes to one host, not to a group's MAC address, whose shim's report
 *     or whose own packet came within SHIM_ANSWER_NS, for the address that the packet is from, or
 *     to which an operator gave a weight, by the MAC address that one of these came with, or by
 *     one that no report came with
 *   unanswered:  U = max(B, min(E, R) / 8)    without a g
 *                U = min(E, R, g) / 8         with one
 *   shared:      S = max(B, E / max(peers, 64)), at most g
 *   none of both less than UNANSWERED_MIN
 *
 * So what a VM can add to its grants by other names is an eighth of the tightest one in all, and an
 * eighth of its own rate where nobody tells it of any.  A gate of its own has ARP, DHCP and the
 * first packets to others not wait behind what fills a grant.  Who is new answers soon, by a packet
 * of its own or by its shim's report (HELLO_FIRST_NS, HELLO_NS).  A host
 * without a shim that answers at all is bound by E; a router's MAC address is that of all behind
 * it, and binds none.
 *
 * Under a law with SHIM_LAW_ECN only TCP that answers to marks is made ECT, by the law; other
 * packets stay Not-ECT, or nobody would slow down for the marks.  Segments without payload are the
 * exception: as all packets under the other laws they are made ECT, so that no SYN dies in a queue
 * that marks, and the receiver's shim gives them back.
 */
#include "../arith.h"
#include "engine.h"
#include "decide.h"

/*
 * Finds the peer that a packet of a VM goes to, and under a law that wants peers the gate of what
 * has none or is not answered.
 */
static void decide_peer(struct shim_vm *vm, struct shim_uplink *uplink,
			const struct shim_packet *packet, struct shim_passage *passage,
			struct shim_action *action, u8 wants)
{
	bool group = packet->version && shim_address_group(&packet->destination);
	bool dropped;

	if (packet->version && !group)
		passage->peer = shim_peer_get(vm, uplink, &packet->destination, packet->bytes,
					      packet->now_ns);
	if (!(wants & SHIM_LAW_PEERS))
		return;
	if (passage->peer) {
		if (unlikely(!shim_peer_answers(passage->peer, packet)))
			passage->gate = &vm->unanswered;
		return;
	}
	/* With room in the table no peer is made for what this gate is to drop. */
	dropped = packet->version && READ_ONCE(vm->n_peers) < passage->settings->peers_max &&
		  shim_gate_full(&vm->unanswered, shim_limiter_wire(passage->limiter, packet),
				 READ_ONCE(vm->mode.horizon_ns), packet->now_ns);
	passage->gate = group || dropped ? &vm->unanswered : &vm->shared;
	if (packet->echo_free)
		action->echo = false;
}

/* Decides the ECN field of a packet that leaves, and lets the law follow its connection. */
static void decide_ecn(struct shim_vm *vm, struct shim_passage *passage,
		       const struct shim_packet *packet, struct shim_action *action, u8 wants)
{
	bool stays = !packet->version;

	if (unlikely(wants & SHIM_LAW_FLOWS)) {
		stays |= wants & SHIM_LAW_ECN && (!packet->is_tcp || packet->segment.payload);
		if (packet->is_tcp)
			shim_connection_sent(passage->limiter, passage->peer, passage->settings,
					     packet, action);
	}
	if (action->ecn == SHIM_NOT_ECT && !stays && READ_ONCE(vm->mode.ecn))
		action->ecn = READ_ONCE(vm->mode.codepoint);
	passage->made_ect = packet->ecn == SHIM_NOT_ECT && action->ecn != SHIM_NOT_ECT;
}

/* Has a GSO packet cut that is more than may leave in one go by each of its buckets. */
static void decide_cut(const struct shim_passage *passage, const struct shim_packet *packet,
		       struct shim_action *action)
{
	u32 whole = READ_ONCE(passage->limiter->whole_bytes);

	if (passage->peer)
		whole = min(whole, READ_ONCE(passage->peer->whole_bytes));
	if (passage->gate)
		whole = min(whole, READ_ONCE(passage->gate->whole_bytes));
	if (packet->bytes > whole)
		action->cut_bytes = max(whole, 1U);
}

void shim_lease_finish(struct shim_lease *lease, u64 now_ns)
{
	struct shim_limiter *limiter = READ_ONCE(lease->limiter);
	struct shim_peer *peer = READ_ONCE(lease->peer);
	struct shim_vm *vm = READ_ONCE(lease->vm);

	if (!limiter && !peer && !vm)
		return;
	WRITE_ONCE(lease->valid, false);
	if (peer)
		shim_peer_end_lease(peer, lease, now_ns);
	if (limiter)
		shim_limiter_end_lease(limiter, lease);
	if (vm)
		shim_receipts_end_lease(vm, lease);
}

/*
 * Decides whether bytes may be lent for packets that are as one that is sent; those lent for others
 * go back.
 */
static void decide_lease(struct shim_passage *passage, const struct shim_packet *packet,
			 struct shim_lease *lease, u8 wants)
{
	const struct shim_limiter *limiter = READ_ONCE(lease->limiter);
	const struct shim_peer *peer = READ_ONCE(lease->peer);

	if (unlikely((limiter && limiter != passage->limiter) || (peer && peer != passage->peer) ||
		     lease->vm))
		shim_lease_finish(lease, packet->now_ns);
	passage->lease = lease;
	passage->lends = !passage->gate && !(wants & (SHIM_LAW_FLOWS | SHIM_VM_PATHS)) &&
			 packet->version && packet->ecn != SHIM_CE;
}

void shim_decide_sent(struct shim_vm *vm, struct shim_uplink *uplink,
		      const struct shim_packet *packet, struct shim_lease *lease,
		      struct shim_passage *passage, struct shim_action *action)
{
	u8 wants = READ_ONCE(vm->mode.wants);

	shim_action_init(action, packet);
	*passage = (struct shim_passage){};
	if (unlikely(wants & (SHIM_VM_PEERS | SHIM_LAW_FLOWS)))
		passage->settings = shim_engine_settings(vm->engine);
	action->drop = shim_sources_check(vm, packet);
	if (unlikely(action->drop))
		return;
	passage->limiter = shim_limiter_find(vm, uplink);
	if (unlikely(!passage->limiter || !READ_ONCE(passage->limiter->active))) {
		passage->limiter = shim_vm_start_limiter(vm, uplink, packet->bytes,
							 shim_now_ns(), &action->drop);
		if (!passage->limiter)
			return;
	}
	if (unlikely(packet->ecn == SHIM_CE)) {
		action->ecn = SHIM_ECT_ZERO;
		shim_vm_count(vm, SHIM_TX_CE_CLEARED, packet->packets);
	}
	if (unlikely(wants & SHIM_VM_PEERS))
		decide_peer(vm, uplink, packet, passage, action, wants);
	if (unlikely(wants & SHIM_VM_PATHS)) {
		struct shim_path *path = shim_path_find(vm, packet);

		passage->gate = path ? &path->gate : NULL;
	}
	decide_ecn(vm, passage, packet, action, wants);
	if (lease)
		decide_lease(passage, packet, lease, wants);
	if (unlikely(packet->gso))
		decide_cut(passage, packet, action);
	if (likely(!action->cut_bytes)) {
		shim_admit(passage, packet, action);
	} else if (passage->lease) {
		/* Parts follow what was before them. */
		shim_lease_finish(passage->lease, packet->now_ns);
		passage->lease = NULL;
	}
}

void shim_admit(const struct shim_passage *passage, const struct shim_packet *packet,
		struct shim_action *action)
{
	struct shim_borrower borrower = { .lease = passage->lease };
	bool borrows = borrower.lease;

	shim_frame_size_note(&passage->limiter->frame, packet->bytes, packet->packets);
	if (passage->lends)
		borrower.most = U32_MAX;
	if (unlikely(passage->peer))
		action->drop = shim_peer_admit(passage, packet, action);
	else
		action->drop = shim_gate_admit(passage->gate, passage->limiter, packet,
					       passage->made_ect, borrows ? &borrower : NULL,
					       &action->departure_ns);
}

/* Tells whether an address can be a peer's: one host's. */
static bool decide_unicast(const struct shim_address *address)
{
	return !shim_address_group(address) && !shim_address_unspecified(address);
}

/* Notes that a VM receives by an uplink, where that is metered. */
static void decide_meter(struct shim_vm *vm, struct shim_uplink *uplink,
			 const struct shim_packet *packet, u64 inactive_ns)
{
	if (likely(READ_ONCE(vm->receiving) &&
		   (READ_ONCE(vm->rx_in) == uplink ||
		    shim_sub_sat(packet->now_ns, READ_ONCE(vm->rx_moved_ns)) < inactive_ns)))
		return;
	shim_vm_receives(vm, uplink, packet->now_ns);
}

/*
 * Tells whether packets like one that a VM receives may pass by a lease, but those with CE, ECT(0)
 * or the reserved bit.  Where shims write ECT(0), what a guest is told depends on more.
 */
static bool decide_lends_received(const struct shim_vm *vm, const struct shim_packet *packet,
				  u8 wants)
{
	return packet->version && !(wants & SHIM_LAW_FLOWS) &&
	       !(READ_ONCE(vm->mode.ecn) && READ_ONCE(vm->mode.codepoint) == SHIM_ECT_ZERO);
}

void shim_decide_received(struct shim_vm *vm, struct shim_uplink *uplink,
			  const struct shim_packet *packet, struct shim_lease *lease,
			  struct shim_action *action)
{
	const struct shim_settings *settings = shim_engine_settings(vm->engine);
	enum shim_flow_ecn answers = SHIM_FLOW_UNKNOWN;
	enum shim_told told = SHIM_TOLD_FABRIC;
	u8 wants = READ_ONCE(vm->mode.wants);
	struct shim_peer *peer = NULL;
	bool lends;

	if (lease)
		shim_lease_finish(lease, packet->now_ns);
	lends = lease && decide_lends_received(vm, packet, wants);
	shim_action_init(action, packet);
	shim_vm_count(vm, SHIM_RX_PACKETS, packet->packets);
	shim_vm_count(vm, SHIM_RX_BYTES, packet->bytes);
	if (READ_ONCE(vm->engine->metered))
		decide_meter(vm, uplink, packet, settings->inactive_ns);
	if (!packet->version)
		return;
	if (packet->ecn == SHIM_CE)
		shim_vm_count(vm, SHIM_RX_CE, packet->packets);
	if (unlikely(wants & SHIM_VM_PEERS)) {
		if (decide_unicast(&packet->source) && decide_unicast(&packet->destination))
			peer = shim_peer_get(vm, uplink, &packet->source, 0, packet->now_ns);
		/* The reserved bit speaks to the shim, if to anybody. */
		if (peer)
			told = shim_peer_receive(peer, uplink, settings, packet, lease, lends,
						 action);
		else if (wants & SHIM_LAW_PEERS && packet->echo_free)
			action->echo = false;
	} else if (lends) {
		shim_receipts_lend(vm, lease, READ_ONCE(uplink->overhead));
	}
	if (unlikely(wants & SHIM_LAW_FLOWS) && packet->is_tcp) {
		answers = shim_connection_received(vm, settings, packet, action);
		if (action->tcp_window != packet->segment.window)
			shim_vm_count(vm, SHIM_RX_WINDOWS, 1);
	}
	if (READ_ONCE(vm->mode.ecn) && (answers != SHIM_FLOW_OWN || action->ecn != SHIM_CE))
		action->ecn = shim_ecn_restore(vm, packet, action->ecn, told);
	if (action->ecn != packet->ecn)
		shim_vm_count(vm, SHIM_RX_RESTORED, packet->packets);
}
