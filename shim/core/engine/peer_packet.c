// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Packets to and from peers: two buckets judge what is sent, and the law is told.
 *
 * A packet to a peer passes the peer's bucket and the VM's.  It leaves at the later of the two
 * times, and a bucket is not charged for what the other drops: the peer's lock is held over both.
 * The peer's bucket is charged for the time at which the packet leaves: else those behind one that
 * the VM's bucket held back could catch up.  That time is no debt in bytes, so a change of rate
 * leaves it as it is.  Nor is what a rise earns while packets wait (bucket.h).
 *
 * Packets that the VM's bucket held back arrive in bunches: those of one peer come one after
 * another, of whole GSO packets, however even they are over a few milliseconds.  With H the
 * horizon, S a peer's bytes in a bunch and r its rate, the last one waits S / r behind the VM's
 * bucket; a peer whose rate is just what it sends (eyeq: a sixteenth more) would drop where S / r
 * is beyond H, and other peers of the VM, whose rates are higher, would take what it leaves.  So
 * a peer that the VM's bucket held back lately may have packets wait HELD_BACK_HORIZONS * H behind
 * that bucket, and one that its own rate alone holds back H, as any other bucket.
 *
 * A report leaves from the address that the peer knows the VM by: where the packets went that it
 * tells of.  The shim sees packets behind the bridge's flows, both ways.  Where these translate
 * addresses (NAT), what is sent bears the address that the fabric knows, and what is received the
 * guest's own.  So an address that packets come for counts if it was set for the VM, or the VM was
 * seen to send from it in the network in which it sends to the peer: then nobody translates it, and
 * what else the guest sends from counts no more.  Until then it is the source of what the VM sends,
 * and without any the destination of what it gets.
 *
 * A peer answers addresses of the VM, not the VM: what leaves in the name of somebody elsewhere is
 * answered there, and the VM would hear nothing of its marks.  So a packet from an address that the
 * peer has not answered here is sent to where nobody answers.  An address is known by its place
 * among those that are remembered of the VM (address.h).  A peer whose shim reports answers by
 * these reports as well, which bear the address that it knows; where addresses are translated they
 * alone tell.  One without a shim answers all of the VM's addresses by packets for one that the VM
 * does not send from.  An answer counts for SHIM_ANSWER_NS at most, and for half of it at least.
 */
#include "../arith.h"
#include "decide.h"
#include "engine.h"

/* Horizons that packets of a peer may wait behind the VM's bucket, if that held it back lately. */
#define HELD_BACK_HORIZONS 2U

/* Horizons after such a packet's departure in which that counts as lately. */
#define LATELY_HORIZONS 16U

u64 shim_peer_wait(struct shim_peer *peer, u64 now_ns)
{
	u64 wait_ns = 0;

	spin_lock(&peer->lock);
	if (peer->rate.bytes_per_s)
		wait_ns = shim_bucket_wait(&peer->rate, peer->tat, now_ns);
	spin_unlock(&peer->lock);
	return wait_ns;
}

void shim_peer_answered(struct shim_peer *peer, u16 bits, u64 now_ns)
{
	u64 elapsed_ns = shim_sub_sat(now_ns, peer->answered_ns);

	if (elapsed_ns >= SHIM_ANSWER_NS / 2) {
		WRITE_ONCE(peer->answered[1],
			   elapsed_ns < SHIM_ANSWER_NS ? peer->answered[0] : 0);
		WRITE_ONCE(peer->answered[0], 0);
		peer->answered_ns = now_ns;
	}
	WRITE_ONCE(peer->answered[0], peer->answered[0] | bits);
}

/* Notes for which address of the VM a packet of a peer came.  peer->lock, RCU read lock. */
static void peer_hear_at(struct shim_peer *peer, const struct shim_address *here, u64 now_ns)
{
	const struct shim_vm *vm = peer->key.vm;
	u16 bits = shim_sources_bits(vm, here, peer->tx_packets ? &peer->network : NULL);

	/* Not one that the VM sends from: something translates them, or nobody said a word yet. */
	if (!bits && !peer->direct && !READ_ONCE(peer->proven) &&
	    READ_ONCE(vm->sources.n_owned) < SHIM_OWNED_MAX)
		bits = (u16)~0U;
	peer->heard_at = *here;
	shim_peer_answered(peer, bits, now_ns);
}

/* Tells whether a peer answers the address that a packet to it is from.  RCU read lock. */
static bool peer_answers_source(const struct shim_peer *peer, const struct shim_packet *packet)
{
	u16 bits = READ_ONCE(peer->answered[0]) | READ_ONCE(peer->answered[1]);
	const struct shim_vm *vm = peer->key.vm;

	/* Whose addresses are set sends in nobody else's name; an operator may speak for a sink. */
	return bits & shim_sources_bit(vm, packet) || rcu_access_pointer(vm->sources.set) ||
	       (!bits && READ_ONCE(peer->weight));
}

bool shim_peer_answers(const struct shim_peer *peer, const struct shim_packet *packet)
{
	u64 heard_ns = READ_ONCE(peer->heard_ns), to = packet->link_destination;

	if (!READ_ONCE(peer->weight) &&
	    (!heard_ns || shim_sub_sat(packet->now_ns, heard_ns) >= SHIM_ANSWER_NS))
		return false;
	if (!peer_answers_source(peer, packet))
		return false;
	if (!to || to == READ_ONCE(peer->mac) || to == READ_ONCE(peer->report_mac))
		return true;
	return !shim_mac_group(to) && !shim_vm_answers_at(peer->key.vm, to);
}

/* Hands the packet to the law before it leaves.  peer->lock. */
static void peer_tell_sent(struct shim_peer *peer, const struct shim_settings *settings,
			   const struct shim_packet *packet, u32 wire, u64 departure_ns,
			   struct shim_action *action)
{
	struct shim_law_packet seen = {
		.now_ns = packet->now_ns,
		.wait_ns = departure_ns ? shim_sub_sat(departure_ns, packet->now_ns) : 0,
		.room_ns = READ_ONCE(peer->key.vm->mode.horizon_ns),
		.bytes = wire,
		.packets = packet->packets,
		.id = packet->id,
		.id_free = packet->id_free,
		.echo_free = packet->echo_free,
		.echo = packet->echo,
	};
	const struct shim_clock *clock = peer->clock;

	if (!clock || !clock->law->on_tx)
		return;
	seen.knobs = settings->laws[clock->index].knobs;
	clock->law->on_tx(&peer->state, &seen);
	action->id = seen.id;
	action->echo = seen.echo;
}

/* Returns how long a packet of the peer may wait, ns; 0: not at all.  peer->lock. */
static u64 peer_horizon_ns(const struct shim_peer *peer, u64 now_ns)
{
	u64 horizon_ns = READ_ONCE(peer->key.vm->mode.horizon_ns);

	if (!horizon_ns || !peer->late_ns ||
	    shim_sub_sat(now_ns, peer->late_ns) >= LATELY_HORIZONS * horizon_ns)
		return horizon_ns;
	return shim_add_sat(shim_sub_sat(peer->late_ns, now_ns), HELD_BACK_HORIZONS * horizon_ns);
}

/*
 * Judges a packet by its peer's bucket, whose state is *tat then; returns SHIM_COUNTER_NONE, or why
 * it must not leave.  peer->lock.
 */
static enum shim_counter peer_judge(struct shim_peer *peer, const struct shim_limiter *limiter,
				    const struct shim_packet *packet, u32 wire, u64 *tat,
				    u64 *departure_ns)
{
	struct shim_room room;
	struct shim_verdict verdict;

	if (unlikely(peer->spare_ticks))
		peer->spare_ticks = shim_bucket_spare(peer->spare_ticks, *tat,
						      max(packet->now_ns, peer->late_ns));
	if (!peer->rate.bytes_per_s || shim_bucket_take(&peer->rate, tat, packet->now_ns,
							wire, peer->rate.burst_ticks))
		return SHIM_COUNTER_NONE;
	room = shim_room_of(peer_horizon_ns(peer, packet->now_ns),
			    shim_limiter_frame(limiter));
	verdict = shim_bucket_ask_behind(&peer->rate, *tat, packet->now_ns, peer->late_ns,
					 wire, room);
	if (verdict.kind == SHIM_DROP) {
		WRITE_ONCE(peer->drops, peer->drops + packet->packets);
		return SHIM_DROP_PEER;
	}
	if (verdict.departure_ns > packet->now_ns)
		*departure_ns = verdict.departure_ns;
	*tat = verdict.tat;
	return SHIM_COUNTER_NONE;
}

/* Learns from a packet that a VM sends how reports to its peer leave.  peer->lock. */
static void peer_learn_sent(struct shim_peer *peer, const struct shim_packet *packet)
{
	if (!peer->direct)
		peer->local = packet->source;
	if (peer->learned)
		return;
	peer->learned = shim_host_peer_learn(peer, packet, true);
	if (!peer->learned)
		return;
	peer->way_sent = true;
	peer->network = packet->network;
}

/*
 * Learns the same from a packet that a VM gets.  Where somebody elsewhere sends in the peer's name,
 * both are told in turn while the VM has not said which of them it means.  peer->lock.
 */
static void peer_learn_received(struct shim_peer *peer, const struct shim_packet *packet)
{
	const struct shim_address *here = &packet->destination;

	if (peer->tx_packets && (!peer->direct || !shim_address_equal(&peer->local, here)) &&
	    shim_sources_used(peer->key.vm, here, &peer->network))
		peer->direct = true;
	else if (peer->tx_packets)
		here = &peer->local;
	peer->local = *here;
	if (!peer->way_sent) {
		/* Once another place's packet taught the way, it is that one's turn to be told. */
		if (packet->link_source == peer->told_mac && peer->way_mac != peer->told_mac)
			return;
		peer->way_mac = packet->link_source;
	}
	shim_host_peer_learn(peer, packet, false);
}

/* Tells whether a law may be told later of what passes by leases.  peer->lock. */
static bool peer_law_lends(const struct shim_peer *peer, const struct shim_settings *settings,
			   bool received)
{
	const struct shim_clock *clock = peer->clock;
	const struct shim_law *law;

	if (!clock)
		return false;
	law = clock->law;
	if (received)
		return !law->on_rx || law->lends & SHIM_LENDS_RECEIVED;
	if (!law->on_tx)
		return true;
	return law->lends & SHIM_LENDS_SENT &&
	       (!law->echoes_nothing ||
		law->echoes_nothing(&peer->state, settings->laws[clock->index].knobs));
}

/*
 * Returns what a peer may lend for packets like one that leaves at once and made the bucket's state
 * tat, bytes.  peer->lock.
 */
static u32 peer_room(const struct shim_peer *peer, const struct shim_settings *settings,
		     u64 tat, u64 now_ns)
{
	u32 room = shim_loans_room(&peer->loans);

	if (!peer_law_lends(peer, settings, false))
		return 0;
	if (!peer->rate.bytes_per_s)
		return room;
	if (peer->spare_ticks || peer->late_ns > now_ns ||
	    !shim_bucket_take(&peer->rate, &tat, now_ns, room, peer->rate.burst_ticks))
		return 0;
	return room;
}

/* Charges a peer for what the VM's limiter has just lent, which the peer may.  peer->lock. */
static void peer_lend(struct shim_peer *peer, struct shim_lease *lease, bool received, u64 now_ns)
{
	lease->peer = peer;
	lease->received = received;
	if (!received && peer->rate.bytes_per_s)
		shim_bucket_take(&peer->rate, &peer->tat, now_ns, lease->left,
				 peer->rate.burst_ticks);
	shim_loans_add(&peer->loans, lease, &lease->far, lease->left);
}

enum shim_counter shim_peer_admit(const struct shim_passage *passage,
				  const struct shim_packet *packet, struct shim_action *action)
{
	struct shim_borrower borrower = { .lease = passage->lease };
	struct shim_limiter *limiter = passage->limiter;
	u32 wire = shim_limiter_wire(limiter, packet);
	struct shim_peer *peer = passage->peer;
	u64 departure_ns = 0, own_ns, tat;
	enum shim_counter drop;
	bool wake;

	spin_lock(&peer->lock);
	wake = shim_peer_touch(peer);
	if (borrower.lease)
		shim_peer_take_lease(peer, borrower.lease, packet->now_ns);
	tat = peer->tat;
	drop = peer_judge(peer, limiter, packet, wire, &tat, &departure_ns);
	own_ns = departure_ns;
	if (passage->lends && !peer->loans.closed && !drop && !departure_ns)
		borrower.most = peer_room(peer, passage->settings, tat, packet->now_ns);
	if (!drop)
		drop = shim_gate_admit(passage->gate, limiter, packet, passage->made_ect,
				       borrower.lease ? &borrower : NULL, &departure_ns);
	if (drop)
		goto out;
	if (departure_ns > own_ns) {
		peer->late_ns = departure_ns;
		tat = shim_bucket_charge_behind(&peer->rate, &peer->spare_ticks, tat, departure_ns,
						wire);
	}
	peer->tat = tat;
	if (borrower.lease && READ_ONCE(borrower.lease->valid))
		peer_lend(peer, borrower.lease, false, packet->now_ns);
	if (peer->tx_packets)
		WRITE_ONCE(peer->used, true);
	peer->tx_bytes += packet->bytes;
	WRITE_ONCE(peer->tx_packets, peer->tx_packets + packet->packets);
	WRITE_ONCE(peer->out, limiter->out);
	if (peer->waits) {
		peer->waits = false;
		if (peer->answers < SHIM_PEER_ANSWERS_OFTEN)
			WRITE_ONCE(peer->answers, peer->answers + 1);
	}
	if (!peer->asked)
		peer->asked = shim_peer_time(packet->now_ns);
	if (!peer->direct || !peer->learned)
		peer_learn_sent(peer, packet);
	peer_tell_sent(peer, passage->settings, packet, wire, departure_ns, action);
	action->departure_ns = departure_ns;
out:
	spin_unlock(&peer->lock);
	if (unlikely(wake))
		shim_vm_wake(limiter->vm);
	return drop;
}

enum shim_told shim_peer_receive(struct shim_peer *peer, struct shim_uplink *uplink,
				 const struct shim_settings *settings,
				 const struct shim_packet *packet, struct shim_lease *lease,
				 bool lends, struct shim_action *action)
{
	struct shim_law_packet seen = {
		.now_ns = packet->now_ns,
		.bytes = (u32)shim_wire_bytes(READ_ONCE(uplink->overhead), packet->bytes,
					      packet->packets),
		.packets = packet->packets,
		.marks = packet->ecn == SHIM_CE ? packet->packets : 0,
		.id = packet->id,
		.id_free = packet->id_free,
		.echo_free = packet->echo_free,
		.echo = packet->echo,
	};
	const struct shim_clock *clock;
	bool wake;

	spin_lock(&peer->lock);
	wake = shim_peer_touch(peer);
	if (peer->rx_packets)
		WRITE_ONCE(peer->used, true);
	peer->rx_bytes += packet->bytes;
	peer->rx_marks += seen.marks;
	WRITE_ONCE(peer->rx_packets, peer->rx_packets + packet->packets);
	WRITE_ONCE(peer->in, uplink);
	peer->waits = true;
	WRITE_ONCE(peer->heard_ns, shim_stamp(packet->now_ns));
	WRITE_ONCE(peer->mac, packet->link_source);
	if (!peer->heard || !peer->way_sent)
		peer_learn_received(peer, packet);
	if (!peer->heard || !shim_address_equal(&peer->heard_at, &packet->destination))
		peer_hear_at(peer, &packet->destination, packet->now_ns);
	peer->heard = true;
	clock = peer->clock;
	if (clock && clock->law->on_rx) {
		seen.knobs = settings->laws[clock->index].knobs;
		clock->law->on_rx(&peer->state, &seen);
		action->id = seen.id;
		action->echo = seen.echo;
	}
	/* What the mark says may be to be sent back. */
	if (unlikely(seen.marks))
		shim_peer_recall(peer, packet->now_ns);
	if (lends && !peer->loans.closed && peer_law_lends(peer, settings, true)) {
		shim_receipts_lend(peer->key.vm, lease, READ_ONCE(uplink->overhead));
		if (READ_ONCE(lease->valid))
			peer_lend(peer, lease, true, packet->now_ns);
	}
	spin_unlock(&peer->lock);
	if (unlikely(wake))
		shim_vm_wake(peer->key.vm);
	return seen.told;
}
