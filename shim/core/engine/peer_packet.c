// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Packets to and from peers: two buckets judge what is sent, and the law is told.
 *
 * A packet to a peer passes the peer's bucket and the VM's.  It leaves at the later of the two
 * times, and a bucket is not charged for what the other drops: the peer's lock is held over both.
 */
#include "../arith.h"
#include "engine.h"

bool shim_peer_touch(struct shim_peer *peer)
{
	peer->seen = true;
	if (peer->touched || peer->gone)
		return false;
	peer->touched = true;
	return llist_add(&peer->touch, &peer->key.vm->touched_peers);
}

u64 shim_peer_wait(struct shim_peer *peer, u64 now_ns)
{
	u64 wait_ns = 0;

	spin_lock(&peer->lock);
	if (peer->rate.bytes_per_s)
		wait_ns = shim_bucket_wait(&peer->rate, peer->tat, now_ns);
	spin_unlock(&peer->lock);
	return wait_ns;
}

/* Hands the packet to the law before it leaves.  peer->lock. */
static void peer_tell_sent(struct shim_peer *peer, const struct shim_settings *settings,
			   const struct shim_packet *packet, u64 departure_ns,
			   struct shim_action *action)
{
	struct shim_law_packet seen = {
		.now_ns = packet->now_ns,
		.wait_ns = departure_ns ? shim_sub_sat(departure_ns, packet->now_ns) : 0,
		.room_ns = READ_ONCE(peer->key.vm->mode.horizon_ns),
		.bytes = packet->bytes,
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
	shim_peer_apply(peer, packet->now_ns);
	action->id = seen.id;
	action->echo = seen.echo;
}

enum shim_counter shim_peer_admit(struct shim_peer *peer, struct shim_limiter *limiter,
				  const struct shim_settings *settings,
				  const struct shim_packet *packet, bool made_ect,
				  struct shim_action *action)
{
	struct shim_verdict own = { .kind = SHIM_SEND };
	enum shim_counter drop;
	u64 departure_ns = 0;
	bool wake;

	spin_lock(&peer->lock);
	wake = shim_peer_touch(peer);
	if (peer->rate.bytes_per_s)
		own = shim_bucket_ask(&peer->rate, peer->tat, packet->now_ns, packet->bytes,
				      READ_ONCE(limiter->vm->mode.horizon_ns));
	if (own.kind == SHIM_DROP) {
		WRITE_ONCE(peer->drops, peer->drops + packet->packets);
		drop = SHIM_DROP_PEER;
		goto out;
	}
	if (own.kind == SHIM_PACE)
		departure_ns = own.departure_ns;
	drop = shim_limiter_admit(limiter, packet, made_ect, &departure_ns);
	if (drop)
		goto out;
	if (peer->rate.bytes_per_s)
		peer->tat = own.tat;
	peer->tx_bytes += packet->bytes;
	WRITE_ONCE(peer->tx_packets, peer->tx_packets + packet->packets);
	WRITE_ONCE(peer->out, limiter->out);
	peer->local = packet->source;
	shim_host_peer_learn(peer, packet, true);
	peer->way_sent = true;
	peer_tell_sent(peer, settings, packet, departure_ns, action);
	action->departure_ns = departure_ns;
out:
	spin_unlock(&peer->lock);
	if (unlikely(wake))
		shim_vm_wake(limiter->vm);
	return drop;
}

enum shim_told shim_peer_receive(struct shim_peer *peer, struct shim_uplink *uplink,
				 const struct shim_settings *settings,
				 const struct shim_packet *packet, struct shim_action *action)
{
	struct shim_law_packet seen = {
		.now_ns = packet->now_ns,
		.bytes = packet->bytes,
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
	peer->local = packet->destination;
	peer->rx_bytes += packet->bytes;
	peer->rx_marks += seen.marks;
	WRITE_ONCE(peer->rx_packets, peer->rx_packets + packet->packets);
	WRITE_ONCE(peer->in, uplink);
	if (!peer->way_sent)
		shim_host_peer_learn(peer, packet, false);
	clock = peer->clock;
	if (clock && clock->law->on_rx) {
		seen.knobs = settings->laws[clock->index].knobs;
		clock->law->on_rx(&peer->state, &seen);
		shim_peer_apply(peer, packet->now_ns);
		action->id = seen.id;
		action->echo = seen.echo;
	}
	spin_unlock(&peer->lock);
	if (unlikely(wake))
		shim_vm_wake(peer->key.vm);
	return seen.told;
}
