// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * A VM's ceiling M holds over all its uplinks: each active limiter has a part of it, parts add up
 * to M, and a limiter's rate is at most its part.  So there is no bucket of the VM that packets
 * would pass beside the limiter's own, and where one limiter is active nothing is to be done.
 *
 * Parts follow use.  Over a window of the period, or of WINDOW_FRAMES full packets at M if that is
 * longer, limiter i sent u_i bytes/s of its part m_i:
 *
 *   demand   d_i = any, if it held packets back and u_i >= 15/16 m_i;  of a newcomer M / 8;
 *            else 9/8 u_i + M / 128
 *   part     max-min of M by d_i; what nobody demands is divided equally
 *
 * A limiter that uses its part so has an equal one after a window, and one that sends little leaves
 * all but that to others.  Laws follow other parts with their next step, so a window begins then;
 * the guarantee, or the part if that is less, holds at once.
 * Parts that would move by less than M / 128 stay, for shares of uplinks are divided anew when one
 * moves.  A limiter that is not active sends a full packet in T_o at most, and is not counted.
 *
 * The bound.  With depths B_i, what leaves within t is at most the sum of B_i + M t: each bucket
 * keeps B_i + (integral of m_i), parts that fall are put in force before those that rise, and a
 * change of rate leaves credit and debt of a bucket as they are.
 */
#include "../arith.h"
#include "engine.h"

/* Full packets that a window has room for at least. */
#define WINDOW_FRAMES 64U

/* Demand of a newcomer, as a divisor of M. */
#define NEWCOMER_DENOMINATOR 8

/* What a limiter may begin with that sends nothing, and the least move, as a divisor of M. */
#define SMALL_DENOMINATOR 128

/* Returns the next limiter of a VM that has a part, from `limiter` on; NULL: there is none. */
static struct shim_limiter *ceiling_at(struct shim_limiter *limiter,
				       const struct shim_limiter *newcomer)
{
	while (limiter && !limiter->active && limiter != newcomer)
		limiter = rcu_dereference_protected(limiter->next,
						    lockdep_is_held(&limiter->vm->lock));
	return limiter;
}

/* Returns the first limiter of a VM that has a part, NULL: none has. */
static struct shim_limiter *ceiling_first(const struct shim_vm *vm,
					  const struct shim_limiter *newcomer)
{
	return ceiling_at(rcu_dereference_protected(vm->limiters, lockdep_is_held(&vm->lock)),
			  newcomer);
}

/* Returns the one after a limiter. */
static struct shim_limiter *ceiling_after(struct shim_limiter *limiter,
					  const struct shim_limiter *newcomer)
{
	return ceiling_at(rcu_dereference_protected(limiter->next,
						    lockdep_is_held(&limiter->vm->lock)),
			  newcomer);
}

/* Returns how many limiters have a part, and in *frame the bytes of their largest packets. */
static u32 ceiling_count(const struct shim_vm *vm, const struct shim_limiter *newcomer, u32 *frame)
{
	struct shim_limiter *limiter;
	u32 n = 0;

	*frame = SHIM_FRAME_DEFAULT;
	for (limiter = ceiling_first(vm, newcomer); limiter;
	     limiter = ceiling_after(limiter, newcomer)) {
		*frame = max(*frame, shim_frame_size_bytes(&limiter->frame));
		n++;
	}
	return n;
}

/* Begins a window of a VM. */
static void ceiling_begin(struct shim_vm *vm, struct shim_limiter *newcomer, u64 now_ns)
{
	struct shim_limiter *limiter;
	struct shim_tx tx;

	vm->ceiling_ns = now_ns;
	vm->ceiling_moved = false;
	for (limiter = ceiling_first(vm, newcomer); limiter;
	     limiter = ceiling_after(limiter, newcomer)) {
		shim_limiter_counted(limiter, &tx);
		limiter->ceiling.bytes = tx.bytes;
		limiter->ceiling.packets = tx.packets;
		limiter->ceiling.held = shim_tx_held(&tx);
	}
}

/*
 * Measures what a limiter demands, over elapsed_ns, 0: as before; what it sent as the only one says
 * nothing.
 */
static void ceiling_measure(struct shim_limiter *limiter, bool is_new, u64 most, u64 elapsed_ns)
{
	bool alone = limiter->vm->ceiling_parts < 2;
	struct shim_ceiling *own = &limiter->ceiling;
	struct shim_tx tx;
	bool held;
	u64 used;

	own->next = 0;
	if (!is_new && !alone && !elapsed_ns)
		return;
	shim_limiter_counted(limiter, &tx);
	used = shim_wire_bytes(limiter->overhead, tx.bytes - own->bytes,
			       tx.packets - own->packets);
	used = shim_mul_div(used, SHIM_NSEC_PER_SEC, elapsed_ns);
	held = shim_tx_held(&tx) != own->held;
	if (is_new)
		own->demand = max_t(u64, most / NEWCOMER_DENOMINATOR, 1);
	else if (alone || (held && used >= own->part - own->part / 16))
		own->demand = U64_MAX;
	else
		own->demand = used + used / 8 + most / SMALL_DENOMINATOR;
}

/* Writes the next parts of n limiters. */
static void ceiling_fill(struct shim_vm *vm, struct shim_limiter *newcomer, u64 most, u32 n)
{
	struct shim_limiter *limiter;
	u64 left = most, level = 0;
	u32 open = n, before = 0;

	/* Each round but the last gives a part to those that demand less than an equal one. */
	while (open && open != before) {
		before = open;
		level = shim_div(left, open);
		for (limiter = ceiling_first(vm, newcomer); limiter;
		     limiter = ceiling_after(limiter, newcomer)) {
			struct shim_ceiling *own = &limiter->ceiling;

			if (own->next || own->demand > level)
				continue;
			own->next = max_t(u64, own->demand, 1);
			left -= min(own->next, left);
			open--;
		}
	}
	level = shim_div(left, open ? open : n);
	for (limiter = ceiling_first(vm, newcomer); limiter;
	     limiter = ceiling_after(limiter, newcomer))
		if (!open)
			limiter->ceiling.next += level;
		else if (!limiter->ceiling.next)
			limiter->ceiling.next = max_t(u64, level, 1);
}

/* Tells whether the next parts are other ones. */
static bool ceiling_moves(const struct shim_vm *vm, const struct shim_limiter *newcomer, u64 most)
{
	struct shim_limiter *limiter;

	for (limiter = ceiling_first(vm, newcomer); limiter;
	     limiter = ceiling_after(limiter, newcomer)) {
		u64 part = limiter->ceiling.part, next = limiter->ceiling.next;

		if (max(part, next) - min(part, next) > most / SMALL_DENOMINATOR)
			return true;
	}
	return false;
}

/*
 * Lets a limiter whose part rises have its guarantee at once, before its law's next step: share and
 * R are of the part before, and a law keeps R within the share.
 */
static void ceiling_guarantee(struct shim_limiter *limiter)
{
	struct shim_uplink *uplink = limiter->uplink;
	u64 least = limiter->vm->config.min;

	if (limiter->ceiling.part)
		least = min(least, limiter->ceiling.part);
	least = min(least, shim_uplink_capacity(uplink));
	spin_lock(&uplink->lock);
	if (limiter->share < least)
		WRITE_ONCE(limiter->share, least);
	spin_unlock(&uplink->lock);
	limiter->state.rate = max(limiter->state.rate, least);
}

/* Puts the next parts in force that are less than those before, or else all others. */
static void ceiling_apply(struct shim_vm *vm, struct shim_limiter *newcomer, bool less, u64 now_ns)
{
	struct shim_limiter *limiter;

	for (limiter = ceiling_first(vm, newcomer); limiter;
	     limiter = ceiling_after(limiter, newcomer)) {
		struct shim_ceiling *own = &limiter->ceiling;

		if (less ? own->next >= own->part : own->next < own->part)
			continue;
		WRITE_ONCE(own->part, own->next);
		vm->ceiling_moved = true;
		WRITE_ONCE(limiter->uplink->divide, true);
		if (!limiter->active)
			continue;
		if (!less)
			ceiling_guarantee(limiter);
		shim_limiter_apply(limiter, now_ns);
	}
}

/* Returns the length of a window, ns. */
static u64 ceiling_window_ns(const struct shim_vm *vm, u64 most, u32 frame)
{
	const struct shim_settings *settings = shim_engine_settings(vm->engine);
	u64 packets_ns = shim_mul_div(WINDOW_FRAMES * frame, SHIM_NSEC_PER_SEC, most);

	return vm->clock ? max(packets_ns, settings->laws[vm->clock->index].period_ns) : packets_ns;
}

void shim_ceiling_divide(struct shim_vm *vm, struct shim_limiter *newcomer, u64 now_ns)
{
	u64 most = vm->config.max, elapsed_ns = shim_sub_sat(now_ns, vm->ceiling_ns);
	struct shim_limiter *limiter;
	u32 n, frame;
	bool same;

	n = ceiling_count(vm, newcomer, &frame);
	same = n == vm->ceiling_parts && most == vm->ceiling_max && !newcomer;
	if (same && (n < 2 || !most))
		return;
	if (same && vm->ceiling_moved) {
		ceiling_begin(vm, newcomer, now_ns);
		return;
	}
	if (most && elapsed_ns < ceiling_window_ns(vm, most, frame)) {
		if (same)
			return;
		elapsed_ns = 0;
	}
	for (limiter = ceiling_first(vm, newcomer); limiter;
	     limiter = ceiling_after(limiter, newcomer))
		ceiling_measure(limiter, limiter == newcomer, most, elapsed_ns);
	vm->ceiling_parts = n;
	vm->ceiling_max = most;
	ceiling_begin(vm, newcomer, now_ns);
	if (most && n)
		ceiling_fill(vm, newcomer, most, n);
	if (same && !ceiling_moves(vm, newcomer, most))
		return;
	ceiling_apply(vm, newcomer, true, now_ns);
	ceiling_apply(vm, newcomer, false, now_ns);
}
