// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Gates: a packet that has one leaves at the later of the two times that the gate and the VM's own
 * limiter give it.  The gate's lock is held over both, so that what it lets pass within t is at
 * most its depth and its rate times t, from whichever CPUs it comes.  A packet that the limiter has
 * leave later than the gate would is charged for that time: else those behind it could catch up.
 * That time is no debt in bytes, so a change of rate leaves it as it is.
 */
#include "../arith.h"
#include "engine.h"

void shim_gate_init(struct shim_gate *gate, enum shim_counter drop)
{
	spin_lock_init(&gate->lock);
	gate->drop = drop;
	gate->whole_bytes = U32_MAX;
}

void shim_gate_set(struct shim_gate *gate, u64 bytes_per_s, const struct shim_mode *mode,
		   u64 now_ns)
{
	struct shim_rate rate;
	u32 depth;

	bytes_per_s = clamp_t(u64, bytes_per_s, SHIM_RATE_MIN, SHIM_RATE_MAX);
	depth = shim_mode_depth(mode, bytes_per_s);
	WRITE_ONCE(gate->whole_bytes, shim_mode_whole(mode, bytes_per_s));
	if (gate->rate.bytes_per_s == bytes_per_s && gate->rate.burst_bytes == depth)
		return;
	shim_rate_init(&rate, bytes_per_s, depth);
	spin_lock(&gate->lock);
	/* No packet judged so far is later, and none that something else let wait leaves later. */
	now_ns = max(now_ns, shim_now_ns());
	now_ns = max(now_ns, gate->late_ns);
	if (gate->rate.bytes_per_s)
		gate->tat = shim_bucket_rerate_in_order(&gate->rate, &rate, &gate->order,
							gate->tat, now_ns,
							shim_room_of(mode->horizon_ns,
								     gate->frame));
	else
		gate->tat = shim_bucket_full(now_ns);
	gate->rate = rate;
	spin_unlock(&gate->lock);
}

bool shim_gate_full(struct shim_gate *gate, u32 bytes, u64 horizon_ns, u64 now_ns)
{
	struct shim_verdict verdict = { .kind = SHIM_SEND };

	spin_lock(&gate->lock);
	if (gate->rate.bytes_per_s)
		verdict = shim_bucket_ask_in_order(&gate->rate, &gate->order, gate->tat, now_ns,
						   gate->late_ns, bytes,
						   shim_room_of(horizon_ns, gate->frame));
	spin_unlock(&gate->lock);
	return verdict.kind == SHIM_DROP;
}

enum shim_counter shim_gate_judge(struct shim_gate *gate, struct shim_limiter *limiter,
				  const struct shim_packet *packet, bool made_ect,
				  const struct shim_borrower *borrower, u64 *departure_ns)
{
	u32 wire = shim_limiter_wire(limiter, packet);
	enum shim_counter drop;
	struct shim_verdict verdict;
	u64 now_ns;

	spin_lock(&gate->lock);
	drop = gate->drop;
	gate->frame = shim_limiter_frame(limiter);
	now_ns = packet->timed ? packet->now_ns : shim_now_ns();
	/* How long something else has packets wait is not the gate's to judge. */
	verdict = shim_bucket_ask_in_order(&gate->rate, &gate->order, gate->tat, now_ns,
					   gate->late_ns, wire,
					   shim_room_of(READ_ONCE(limiter->vm->mode.horizon_ns),
							gate->frame));
	if (verdict.kind == SHIM_DROP) {
		gate->held += packet->packets;
		goto out;
	}
	if (verdict.departure_ns > now_ns)
		*departure_ns = max(*departure_ns, verdict.departure_ns);
	drop = shim_limiter_admit(limiter, packet, made_ect, borrower, departure_ns);
	if (drop)
		goto out;
	gate->tat = verdict.tat;
	if (*departure_ns > verdict.departure_ns) {
		gate->late_ns = *departure_ns;
		gate->tat = shim_bucket_charge(&gate->rate, verdict.tat, *departure_ns,
					       wire);
	} else if (verdict.kind == SHIM_PACE) {
		gate->held += packet->packets;
	}
	gate->bytes += packet->bytes;
	gate->wire += wire;
	gate->packets += packet->packets;
out:
	spin_unlock(&gate->lock);
	return drop;
}
