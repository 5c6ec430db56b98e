// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strays: packets that leave by an uplink, and nobody knows whose they are.  They share a bucket on
 * each uplink, whose rate is what a VM of weight 1 would get that came now: C / (1 + the weights of
 * those who send).  So a VM whose packets lose their origin gains nothing by it, and what user
 * space sends of its own (LACP, BFD, packets of a controller) passes.  No more of them wait than of
 * a VM's packets may.
 *
 * Nothing else is done to a stray: it has no law, no peers, and its header stays as it is.
 */
#include <linux/skbuff.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "../../core/arith.h"
#include "../compat.h"
#include "../frame.h"
#include "../hook.h"
#include "netdev.h"

/* Sets the rate of the bucket to what it is to be now.  stray->lock. */
static void stray_rerate(struct ovs_shim_stray *stray, const struct shim_uplink *uplink,
			 const struct shim_settings *settings, struct shim_room room, u64 now_ns)
{
	u64 bytes_per_s = shim_div(shim_uplink_capacity(uplink),
				   READ_ONCE(uplink->active_weight) + 1);
	u32 depth = settings->burst_bytes;
	struct shim_rate rate;

	bytes_per_s = clamp_t(u64, bytes_per_s, SHIM_RATE_MIN, SHIM_RATE_MAX);
	if (room.horizon_ns)
		depth = shim_mode_burst(bytes_per_s, settings->burst_us);
	if (stray->rate.bytes_per_s == bytes_per_s && stray->rate.burst_bytes == depth)
		return;
	shim_rate_init(&rate, bytes_per_s, depth);
	if (stray->rate.bytes_per_s)
		stray->tat = shim_bucket_rerate_in_order(&stray->rate, &rate, &stray->order,
							 stray->tat, now_ns, room);
	else
		stray->tat = shim_bucket_full(now_ns);
	stray->rate = rate;
}

/* Charges and counts a packet; returns when it may leave in *departure_ns, false: never. */
static bool stray_admit(struct ovs_shim_stray *stray, const struct shim_uplink *uplink,
			const struct shim_settings *settings, const struct shim_packet *packet,
			u64 *departure_ns)
{
	struct shim_verdict verdict;
	struct shim_room room;
	bool admitted = false;
	u64 now_ns;
	u32 wire;

	*departure_ns = 0;
	spin_lock(&stray->lock);
	now_ns = ktime_get_ns();
	wire = (u32)shim_wire_bytes(READ_ONCE(uplink->overhead), packet->bytes, packet->packets);
	shim_frame_size_note(&stray->frame, wire, packet->packets);
	shim_frame_size_follow(&stray->frame, now_ns);
	room = shim_room_of(settings->limiter == SHIM_LIMITER_PACE ? settings->horizon_ns : 0,
			    shim_frame_size_bytes(&stray->frame));
	stray_rerate(stray, uplink, settings, room, now_ns);
	verdict = shim_bucket_ask_in_order(&stray->rate, &stray->order, stray->tat, now_ns, 0,
					   wire, room);
	if (verdict.kind == SHIM_DROP) {
		if (room.horizon_ns)
			stray->tx.drop_horizon += packet->packets;
		else
			stray->tx.drop_police += packet->packets;
		goto out;
	}
	if (verdict.departure_ns > now_ns) {
		if (shim_waiting_full(&stray->waiting, settings->waiting_max, now_ns,
				      verdict.departure_ns)) {
			stray->tx.drop_waiting += packet->packets;
			goto out;
		}
		*departure_ns = verdict.departure_ns;
		stray->tx.paced += packet->packets;
	}
	stray->tat = verdict.tat;
	stray->tx.bytes += packet->bytes;
	stray->tx.packets += packet->packets;
	admitted = true;
out:
	spin_unlock(&stray->lock);
	return admitted;
}

bool ovs_shim_stray_any(struct ovs_shim_stray *stray)
{
	bool any;

	spin_lock_bh(&stray->lock);
	any = memchr_inv(&stray->tx, 0, sizeof(stray->tx));
	spin_unlock_bh(&stray->lock);
	return any;
}

void ovs_shim_hook_strays(const struct ovs_shim_port *uplink, struct shim_tx *tx)
{
	struct ovs_shim_device *device = ovs_shim_device_of(uplink->dev);
	struct ovs_shim_stray *stray;

	if (!device)
		return;
	stray = &device->stray;
	spin_lock_bh(&stray->lock);
	*tx = stray->tx;
	spin_unlock_bh(&stray->lock);
}

bool ovs_shim_stray_judge(struct ovs_shim_device *device, const struct ovs_shim_port *to,
			  struct sk_buff *skb)
{
	struct ovs_shim_frame frame __uninitialized;
	u64 departure_ns;

	/* Nobody has a law here. */
	if (!READ_ONCE(to->net->engine.n_ruled))
		return true;
	ovs_shim_frame_parse(skb, 0, &frame);
	if (!stray_admit(&device->stray, to->uplink, shim_engine_settings(&to->net->engine),
			 &frame.packet, &departure_ns)) {
		ovs_shim_free_dropped(skb, SHIM_DROP_HORIZON);
		return false;
	}
	if (departure_ns)
		skb_set_delivery_time(skb, departure_ns, true);
	return true;
}
