// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Limiters: one for each pair of a VM and an uplink that the VM has sent to.
 *
 * A limiter is made by the VM's first packet and lives until one of the two goes.  It is active
 * from then on, while the VM sends more than a full packet, Q bytes, within T_o or has packets that
 * wait or are dropped, and again from the packet that makes it more than Q within T_o.  Only active
 * limiters have a share and the clock's attention: an idle VM's ARP and keep-alives would else take
 * a share from its neighbours.  They pass by the rate that the limiter had last, Q in T_o at most;
 * where law or settings have changed since, the first packet makes it active.
 * A VM that becomes active gets its part by weight of the uplink at once; the next division
 * computes everyone's share exactly.
 *
 * A packet takes the limiter's lock once, for bucket and counters, which stand beside each other.
 * With B the depth and R the rate, packets that leave within t ns are at most B + R * t bytes,
 * whichever CPUs they come from: bucket.c has the argument, and the lock leaves no order of events
 * in which it does not hold.
 *
 * Reading the clock costs as much as all the rest of it.  A small part L of B is therefore kept for
 * packets that are judged by the time read last: they pass while TAT is no more than L/R ahead of
 * it, for the bucket can only have become fuller since.  By the clock the bucket has B - L.  Let
 * c_k <= now_k be the time by which packet k was judged, TAT_k = max(TAT_(k-1), c_k) + cost_k, and
 * i..j the packets of a window t = now_j - now_i.  Those judged by the same reading as packet i,
 * which may be long ago, cost no more than L/R together, as TAT <= c_i + L/R after each.  The next
 * one, m, has c_m = now_m, and what comes from there on costs
 * TAT_j - TAT_(m-1) <= c_j + (B - L)/R - c_m <= t + (B - L)/R.  So no more than B + R * t pass.
 *
 * Whatever moves TAT by the clock is a reading, too: a packet that brings its own time, a change of
 * rate or depth.  TAT would else be further ahead of the time read last than a bucket's state can
 * be, after 104 days without one, and count as full.
 */
#include "../arith.h"
#include "engine.h"

/* The most of a bucket that is kept for packets without a look at the clock, bytes: a packet. */
#define LEASE_MOST 1514U

size_t shim_limiter_bytes(void)
{
	return sizeof(struct shim_limiter) + shim_law_limiter_size();
}

/* Returns the ceiling of a limiter, bytes/s, of one that has none yet the VM's; 0: none. */
static u64 limiter_max(const struct shim_vm *vm, const struct shim_limiter *limiter)
{
	return limiter && limiter->ceiling.part ? limiter->ceiling.part : vm->config.max;
}

/* Returns the guarantee, bytes/s: on each uplink the VM's, and no more than the ceiling there. */
static u64 limiter_min(const struct shim_vm *vm, const struct shim_limiter *limiter)
{
	u64 max = limiter_max(vm, limiter);

	return max ? min(vm->config.min, max) : vm->config.min;
}

/* Returns a VM's part by weight of an uplink whose active VMs weigh `weight`, itself included. */
static u64 limiter_first_share(const struct shim_vm *vm, const struct shim_limiter *limiter,
			       const struct shim_uplink *uplink, u64 weight)
{
	u64 share = shim_mul_div(shim_uplink_capacity(uplink), vm->config.weight, weight);
	u64 max = limiter_max(vm, limiter);

	if (max)
		share = min(share, max);
	return max(share, limiter_min(vm, limiter));
}

struct shim_law_input shim_limiter_input(const struct shim_vm *vm,
					 const struct shim_limiter *limiter,
					 const struct shim_uplink *uplink, u64 now_ns)
{
	const struct shim_law_settings *settings =
		&shim_engine_settings(vm->engine)->laws[vm->clock->index];
	u64 rx_share = READ_ONCE(vm->rx_share);

	return (struct shim_law_input){
		.now_ns = now_ns,
		.period_ns = settings->period_ns,
		.capacity = shim_uplink_capacity(uplink),
		.share = limiter ? READ_ONCE(limiter->share) :
			 limiter_first_share(vm, NULL, uplink, READ_ONCE(uplink->active_weight) +
					     vm->config.weight),
		.min = limiter_min(vm, limiter),
		.sent_rate = limiter ? limiter->sent_rate : 0,
		.max = limiter_max(vm, limiter),
		.rx_rate = vm->rx_rate,
		.horizon_ns = READ_ONCE(vm->mode.horizon_ns),
		.rx_share = rx_share ? rx_share : shim_uplink_capacity(uplink),
		.rx_least = READ_ONCE(vm->rx_least),
		.peers = vm->busy_peers,
		.frame = limiter ? shim_limiter_frame(limiter) : SHIM_FRAME_DEFAULT,
		.rx_frame = (u32)shim_wire_bytes(shim_vm_rx_overhead(vm),
						 shim_frame_size_bytes(&vm->rx_frame), 1),
		.peers_left = !vm->passed,
		.weight = vm->config.weight,
		.knobs = settings->knobs,
	};
}

struct shim_limiter *shim_limiter_find(const struct shim_vm *vm, const struct shim_uplink *uplink)
{
	struct shim_limiter *limiter;

	limiter = rcu_dereference_check(vm->limiters, lockdep_is_held(&vm->lock));
	while (limiter && limiter->out != uplink)
		limiter = rcu_dereference_check(limiter->next, lockdep_is_held(&vm->lock));
	return limiter;
}

struct shim_limiter *shim_limiter_active(const struct shim_vm *vm,
					 const struct shim_uplink *uplink)
{
	struct shim_limiter *limiter = shim_limiter_find(vm, uplink);

	return limiter && limiter->active ? limiter : NULL;
}

/*
 * Returns L of a bucket: an eighth where packets can wait, and where they cannot, no more than what
 * leaves room for the largest GSO packet.
 */
static u32 limiter_lease(const struct shim_mode *mode, u32 depth)
{
	if (mode->horizon_ns)
		return min_t(u32, depth / 8, LEASE_MOST);
	return depth >= LEASE_MOST * 64 ? LEASE_MOST : 0;
}

/* Returns Q, bytes: at least an Ethernet packet, as a limiter may have seen small ones only. */
static u32 limiter_quiet_bytes(const struct shim_limiter *limiter)
{
	return max(shim_frame_size_bytes(&limiter->frame), SHIM_FRAME_DEFAULT);
}

/* Returns how much may wait, with a horizon. */
static struct shim_room limiter_room(const struct shim_limiter *limiter, u64 horizon_ns)
{
	return shim_room_of(horizon_ns, shim_limiter_frame(limiter));
}

/* Returns how long a packet would wait, ns, but for its own length.  limiter->lock. */
static u64 limiter_wait(const struct shim_limiter *limiter, u64 now_ns)
{
	return shim_bucket_wait_in_order(&limiter->rate, &limiter->order, limiter->tat, now_ns);
}

/* Counts what passed by a lease since the limiter looked.  limiter->lock. */
static void limiter_look(struct shim_limiter *limiter, struct shim_lease *lease)
{
	struct shim_spent spent = shim_loans_look(&limiter->loans, lease, &lease->own);

	limiter->tx.bytes += spent.bytes;
	limiter->tx.packets += spent.packets;
	limiter->tx.ect += spent.changed;
	if (spent.packets)
		shim_frame_size_note(&limiter->frame, spent.bytes, spent.packets);
}

/*
 * Takes back what is left of a lease that the limiter has looked at.  What comes next leaves behind
 * those that wait, all the same.  limiter->lock.
 */
static void limiter_take_back(struct shim_limiter *limiter, struct shim_lease *lease)
{
	u64 left = shim_loans_take_back(&limiter->loans, &lease->own);
	u64 now = limiter->read_ns * SHIM_TICKS_PER_NS, used, last_ns;

	WRITE_ONCE(lease->limiter, NULL);
	used = shim_bucket_used(limiter->tat, now);
	if (!left || !used)
		return;
	if (unlikely(used > limiter->rate.burst_ticks)) {
		last_ns = limiter->read_ns + 1 +
			  (used - limiter->rate.burst_ticks) / SHIM_TICKS_PER_NS;
		if (limiter->order.until_ns <= limiter->read_ns)
			limiter->order.spare_ticks = 0;
		limiter->order.until_ns = max(limiter->order.until_ns, last_ns);
	}
	limiter->tat = now + used - min(used, shim_bucket_cost(&limiter->rate, left));
}

/* Takes back a lease of this CPU, if the limiter lent it.  limiter->lock. */
static void limiter_end(struct shim_limiter *limiter, struct shim_lease *lease)
{
	if (lease->limiter != limiter)
		return;
	WRITE_ONCE(lease->valid, false);
	limiter_look(limiter, lease);
	limiter_take_back(limiter, lease);
}

/* Lends to a CPU whose packet has just left at once.  limiter->lock. */
static void limiter_lend(struct shim_limiter *limiter, const struct shim_borrower *borrower,
			 const struct shim_packet *packet)
{
	u32 bytes = min(borrower->most, shim_loans_room(&limiter->loans));
	struct shim_lease *lease = borrower->lease;
	u64 now_ns;

	/* Whoever stops a limiter recalls its leases after that. */
	if (limiter->loans.closed || !READ_ONCE(limiter->active))
		return;
	now_ns = max(limiter->read_ns, packet->timed ? packet->now_ns : shim_now_ns());
	limiter->read_ns = now_ns;
	if (bytes < shim_limiter_wire(limiter, packet) || limiter->order.until_ns > now_ns ||
	    !shim_bucket_take(&limiter->rate, &limiter->tat, now_ns, bytes,
			      limiter->rate.burst_ticks))
		bytes = 0;
	WRITE_ONCE(lease->left, bytes);
	WRITE_ONCE(lease->valid, bytes != 0);
	lease->limiter = limiter;
	lease->overhead = READ_ONCE(limiter->overhead);
	lease->received = false;
	shim_loans_add(&limiter->loans, lease, &lease->own, bytes);
}

/* Counts what passed by all leases.  limiter->lock. */
static void limiter_look_at_all(struct shim_limiter *limiter)
{
	struct shim_lease *lease;

	list_for_each_entry(lease, &limiter->loans.ends, own.node)
		limiter_look(limiter, lease);
}

/* As shim_limiter_recall().  limiter->lock. */
static void limiter_recall(struct shim_limiter *limiter)
{
	struct shim_lease *lease, *next;

	list_for_each_entry_safe(lease, next, &limiter->loans.ends, own.node) {
		limiter_look(limiter, lease);
		if (shim_loans_over(&lease->own))
			limiter_take_back(limiter, lease);
		else
			shim_loans_recall(lease, &lease->own);
	}
}

void shim_limiter_recall(struct shim_limiter *limiter)
{
	spin_lock(&limiter->lock);
	limiter_recall(limiter);
	spin_unlock(&limiter->lock);
}

void shim_limiter_end_lease(struct shim_limiter *limiter, struct shim_lease *lease)
{
	spin_lock(&limiter->lock);
	limiter_end(limiter, lease);
	spin_unlock(&limiter->lock);
}

/* Begins or ends to let packets go ahead, as the settings say.  vm->lock. */
static void limiter_set_ahead(struct shim_limiter *limiter, u64 now_ns)
{
	const struct shim_engine *engine = limiter->vm->engine;
	struct shim_ahead *old = limiter->ahead;

	if (limiter->vm->mode.ahead == !!old)
		return;
	spin_lock(&limiter->lock);
	now_ns = max(now_ns, shim_now_ns());
	/* Whose packets wait now is not known.  Without memory nothing goes ahead. */
	now_ns += limiter_wait(limiter, now_ns);
	limiter->ahead = old ? NULL : shim_ahead_create(now_ns, engine->hash_factor);
	spin_unlock(&limiter->lock);
	if (old)
		shim_free_rcu(old, rcu);
}

void shim_limiter_apply(struct shim_limiter *limiter, u64 now_ns)
{
	u64 most = limiter->ceiling.part ? limiter->ceiling.part : SHIM_RATE_MAX;
	u64 bytes_per_s = max_t(u64, min(limiter->state.rate, most), SHIM_RATE_MIN);
	const struct shim_mode *mode = &limiter->vm->mode;
	u32 depth = shim_mode_depth(mode, bytes_per_s), lease = limiter_lease(mode, depth);
	u32 whole = shim_mode_whole(mode, bytes_per_s);
	u32 lent = shim_mode_most(mode, depth - lease, whole);
	struct shim_rate rate, was;

	if (!mode->horizon_ns)
		depth -= lease + lent;
	/* What may leave in one go has room beside the lease and what is lent. */
	WRITE_ONCE(limiter->whole_bytes, min(whole, depth));
	depth += limiter->state.burst;
	if (limiter->overhead != READ_ONCE(limiter->uplink->overhead)) {
		WRITE_ONCE(limiter->overhead, READ_ONCE(limiter->uplink->overhead));
		shim_limiter_recall(limiter);
	}
	limiter_set_ahead(limiter, now_ns);
	if (limiter->rate.bytes_per_s == bytes_per_s && limiter->rate.burst_bytes == depth &&
	    limiter->lease_ticks == shim_bucket_cost(&limiter->rate, lease))
		return;
	if (limiter->rate.bytes_per_s != bytes_per_s)
		shim_host_rate_changed(limiter, bytes_per_s);
	shim_rate_init(&rate, bytes_per_s, depth);
	spin_lock(&limiter->lock);
	limiter_recall(limiter);
	limiter->loans.most = lent;
	/* No packet judged so far is later: time must not be credited twice. */
	now_ns = max(now_ns, shim_now_ns());
	limiter->tat = shim_bucket_rerate_in_order(&limiter->rate, &rate, &limiter->order,
						   limiter->tat, now_ns,
						   limiter_room(limiter, mode->horizon_ns));
	/* What went ahead is in debt by bytes, too, whatever the depth. */
	was = limiter->rate;
	was.burst_bytes = depth;
	limiter->ahead_tat = shim_bucket_rerate(&was, &rate, limiter->ahead_tat, now_ns);
	limiter->read_ns = max(limiter->read_ns, now_ns);
	limiter->rate = rate;
	limiter->lease_ticks = shim_bucket_cost(&rate, lease);
	spin_unlock(&limiter->lock);
}

/*
 * Lets a packet pass that may leave at once, by a time that is known already; false if there is a
 * closer look to be taken.  limiter->lock.
 */
static inline bool limiter_take(struct shim_limiter *limiter, const struct shim_packet *packet)
{
	u64 now_ns = limiter->read_ns, within = limiter->lease_ticks;

	if (packet->timed) {
		limiter->read_ns = max(limiter->read_ns, packet->now_ns);
		now_ns = packet->now_ns;
		within = limiter->rate.burst_ticks;
	}
	if (unlikely(limiter->order.until_ns > now_ns))
		return false;
	return shim_bucket_take(&limiter->rate, &limiter->tat, now_ns,
				shim_limiter_wire(limiter, packet), within);
}

/* Says why a packet is dropped that the bucket refused, and counts it.  limiter->lock. */
static enum shim_counter limiter_refuse(struct shim_limiter *limiter, u64 horizon_ns, u32 packets)
{
	if (!horizon_ns) {
		limiter->tx.drop_police += packets;
		return SHIM_DROP_POLICE;
	}
	limiter->tx.drop_horizon += packets;
	return SHIM_DROP_HORIZON;
}

/*
 * Tells whether a packet that would wait, or find no room, leaves ahead of those that wait; charges
 * and counts it if so.  limiter->lock.
 */
static bool limiter_ahead(struct shim_limiter *limiter, const struct shim_packet *packet,
			  u64 now_ns, struct shim_room room)
{
	/* The settings may have become police since the table was made. */
	if (!room.horizon_ns ||
	    !shim_ahead_passes(limiter->ahead, &limiter->ahead_tat, &limiter->tat, &limiter->rate,
			       packet, shim_limiter_wire(limiter, packet), now_ns, room))
		return false;
	limiter->tx.ahead += packet->packets;
	return true;
}

/*
 * Judges a packet by the clock: returns SHIM_COUNTER_NONE, or why it must not leave.
 * limiter->lock.
 */
static enum shim_counter limiter_judge(struct shim_limiter *limiter,
				       const struct shim_packet *packet, u64 *departure_ns)
{
	const struct shim_mode *mode = &limiter->vm->mode;
	struct shim_room room = limiter_room(limiter, READ_ONCE(mode->horizon_ns));
	struct shim_verdict verdict;
	bool waits;
	u64 now_ns;

	/* What another CPU read before it let this one in has passed, too. */
	now_ns = max(limiter->read_ns, packet->timed ? packet->now_ns : shim_now_ns());
	limiter->read_ns = now_ns;
	verdict = shim_bucket_ask_in_order(&limiter->rate, &limiter->order, limiter->tat, now_ns, 0,
					   shim_limiter_wire(limiter, packet), room);
	waits = verdict.departure_ns > now_ns;
	if (unlikely(limiter->ahead && (waits || verdict.kind == SHIM_DROP) &&
		     limiter_ahead(limiter, packet, now_ns, room)))
		return SHIM_COUNTER_NONE;
	if (unlikely(verdict.kind == SHIM_DROP))
		return limiter_refuse(limiter, room.horizon_ns, packet->packets);
	if (waits) {
		if (unlikely(shim_waiting_full(&limiter->waiting, READ_ONCE(mode->waiting_max),
					       now_ns, verdict.departure_ns))) {
			limiter->tx.drop_waiting += packet->packets;
			return SHIM_DROP_WAITING;
		}
		*departure_ns = max(*departure_ns, verdict.departure_ns);
		if (unlikely(limiter->ahead))
			shim_ahead_waits(limiter->ahead, &limiter->rate, packet, now_ns,
					 *departure_ns, room);
		limiter->tx.paced += packet->packets;
	}
	limiter->tat = verdict.tat;
	return SHIM_COUNTER_NONE;
}

enum shim_counter shim_limiter_admit(struct shim_limiter *limiter, const struct shim_packet *packet,
				     bool made_ect, const struct shim_borrower *borrower,
				     u64 *departure_ns)
{
	enum shim_counter drop = SHIM_COUNTER_NONE;

	spin_lock(&limiter->lock);
	if (borrower)
		limiter_end(limiter, borrower->lease);
	if (!limiter_take(limiter, packet))
		drop = limiter_judge(limiter, packet, departure_ns);
	if (likely(!drop)) {
		limiter->tx.bytes += packet->bytes;
		limiter->tx.packets += packet->packets;
		if (made_ect)
			limiter->tx.ect += packet->packets;
		if (borrower && borrower->most && !*departure_ns)
			limiter_lend(limiter, borrower, packet);
	}
	spin_unlock(&limiter->lock);
	return drop;
}

void shim_limiter_charge(struct shim_limiter *limiter, u32 bytes, u64 now_ns)
{
	u64 owed, now;

	spin_lock(&limiter->lock);
	now_ns = max(now_ns, limiter->read_ns);
	limiter->read_ns = now_ns;
	now = now_ns * SHIM_TICKS_PER_NS;
	bytes = (u32)shim_wire_bytes(limiter->overhead, bytes, 1);
	owed = shim_bucket_used(limiter->tat, now) + shim_bucket_cost(&limiter->rate, bytes);
	limiter->tat = now + min(owed, SHIM_DEBT_MAX);
	spin_unlock(&limiter->lock);
}

u64 shim_limiter_wait(struct shim_limiter *limiter, u64 now_ns)
{
	u64 wait_ns;

	spin_lock(&limiter->lock);
	wait_ns = limiter_wait(limiter, now_ns);
	spin_unlock(&limiter->lock);
	return wait_ns;
}

bool shim_limiter_full(const struct shim_vm *vm, const struct shim_uplink *uplink, u32 bytes,
		       u64 now_ns)
{
	struct shim_limiter *limiter = shim_limiter_active(vm, uplink);
	struct shim_verdict verdict;
	u32 first;

	/* What goes ahead of those that wait asks for no room among these. */
	if (!limiter || limiter->ahead)
		return false;
	first = min(bytes, limiter_quiet_bytes(limiter));
	spin_lock(&limiter->lock);
	verdict = shim_bucket_ask_in_order(&limiter->rate, &limiter->order, limiter->tat,
					   max(limiter->read_ns, now_ns), 0,
					   (u32)shim_wire_bytes(limiter->overhead, first, 1),
					   limiter_room(limiter, vm->mode.horizon_ns));
	spin_unlock(&limiter->lock);
	return verdict.kind == SHIM_DROP;
}

void shim_limiter_add_counted(struct shim_limiter *limiter, struct shim_tx *sum)
{
	struct shim_tx tx;

	shim_limiter_counted(limiter, &tx);
	sum->bytes += tx.bytes;
	sum->packets += tx.packets;
	sum->ect += tx.ect;
	sum->paced += tx.paced;
	sum->drop_police += tx.drop_police;
	sum->drop_horizon += tx.drop_horizon;
	sum->drop_waiting += tx.drop_waiting;
	sum->ahead += tx.ahead;
}

void shim_limiter_counted(struct shim_limiter *limiter, struct shim_tx *tx)
{
	spin_lock(&limiter->lock);
	limiter_look_at_all(limiter);
	*tx = limiter->tx;
	spin_unlock(&limiter->lock);
}

u64 shim_limiter_rate(struct shim_limiter *limiter)
{
	u64 bytes_per_s;

	spin_lock(&limiter->lock);
	bytes_per_s = limiter->rate.bytes_per_s;
	spin_unlock(&limiter->lock);
	return bytes_per_s;
}

/* Begins to look for use of a limiter anew.  vm->lock. */
static void limiter_unused(struct shim_limiter *limiter, const struct shim_tx *tx)
{
	limiter->used_bytes = tx->bytes;
	limiter->used_held = shim_tx_held(tx);
}

/*
 * Tells whether the VM made use of a limiter since it was last seen to, with `bytes` that are to
 * follow; if so, what it does next is looked at by itself.  vm->lock.
 */
static bool limiter_used(struct shim_limiter *limiter, const struct shim_tx *tx, u32 bytes)
{
	if (shim_tx_held(tx) == limiter->used_held &&
	    tx->bytes - limiter->used_bytes + bytes <= limiter_quiet_bytes(limiter))
		return false;
	limiter_unused(limiter, tx);
	return true;
}

/* Tells whether a packet of `bytes` makes a limiter active that was so before.  vm->lock. */
static bool limiter_wakes(struct shim_limiter *limiter, u32 bytes, u64 now_ns)
{
	u64 inactive_ns = shim_engine_settings(limiter->vm->engine)->inactive_ns;
	struct shim_tx tx;

	if (limiter->outdated)
		return true;
	shim_limiter_counted(limiter, &tx);
	if (shim_sub_sat(now_ns, limiter->quiet_ns) >= inactive_ns) {
		limiter->quiet_ns = now_ns;
		limiter_unused(limiter, &tx);
	}
	return limiter_used(limiter, &tx, bytes);
}

/* Allocates the limiter of vm on uplink, not yet active; NULL without memory.  vm->lock. */
static struct shim_limiter *limiter_create(struct shim_vm *vm, struct shim_uplink *uplink,
					   u64 now_ns)
{
	struct shim_limiter *limiter = shim_alloc_now(shim_limiter_bytes());

	if (!limiter)
		return NULL;
	limiter->out = uplink;
	limiter->vm = vm;
	limiter->uplink = uplink;
	limiter->overhead = READ_ONCE(uplink->overhead);
	shim_frame_size_init(&limiter->frame);
	spin_lock_init(&limiter->lock);
	shim_loans_init(&limiter->loans, 0);
	INIT_LIST_HEAD(&limiter->active_node);
	shim_rate_init(&limiter->rate, SHIM_RATE_MIN, shim_mode_depth(&vm->mode, SHIM_RATE_MIN));
	limiter->tat = shim_bucket_full(now_ns);
	RCU_INIT_POINTER(limiter->next, rcu_dereference_protected(vm->limiters, true));
	rcu_assign_pointer(vm->limiters, limiter);
	WRITE_ONCE(vm->engine->generation, READ_ONCE(vm->engine->generation) + 1);
	return limiter;
}

/* Lists a limiter as active; false if the uplink has gone.  vm->lock. */
static bool limiter_enter(struct shim_limiter *limiter)
{
	struct shim_uplink *uplink = limiter->uplink;
	struct shim_vm *vm = limiter->vm;
	bool good;

	spin_lock(&uplink->lock);
	good = !uplink->gone;
	if (good) {
		WRITE_ONCE(uplink->active_weight, uplink->active_weight + vm->config.weight);
		uplink->n_active++;
		list_add_tail(&limiter->active_node, &uplink->active);
		limiter->share = limiter_first_share(vm, limiter, uplink,
						     uplink->active_weight);
		WRITE_ONCE(uplink->divide, true);
	}
	spin_unlock(&uplink->lock);
	return good;
}

struct shim_limiter *shim_limiter_get(struct shim_vm *vm, struct shim_uplink *uplink, u32 bytes,
				      u64 now_ns, bool *starts, enum shim_counter *drop)
{
	struct shim_limiter *limiter;

	*drop = SHIM_COUNTER_NONE;
	*starts = false;
	if (vm->gone || !vm->clock || READ_ONCE(uplink->gone))
		return NULL;
	limiter = shim_limiter_find(vm, uplink);
	if (limiter && (limiter->active || !limiter_wakes(limiter, bytes, now_ns)))
		return limiter;
	if (!limiter)
		limiter = limiter_create(vm, uplink, now_ns);
	if (!limiter) {
		*drop = SHIM_DROP_MEMORY;
		return NULL;
	}
	*starts = true;
	return limiter;
}

bool shim_limiter_start(struct shim_limiter *limiter, u64 now_ns)
{
	struct shim_tx tx;

	if (!limiter_enter(limiter))
		return false;
	shim_limiter_counted(limiter, &tx);
	limiter_unused(limiter, &tx);
	limiter->sent_rate = 0;
	limiter->last_bytes = tx.bytes;
	limiter->last_packets = tx.packets;
	limiter->idle_ns = 0;
	limiter->quiet_ns = 0;
	limiter->outdated = false;
	shim_limiter_restart(limiter, now_ns);
	WRITE_ONCE(limiter->active, true);
	shim_clock_add(limiter->vm, false);
	return true;
}

void shim_limiter_stop(struct shim_limiter *limiter)
{
	struct shim_uplink *uplink = limiter->uplink;

	WRITE_ONCE(limiter->active, false);
	shim_limiter_recall(limiter);
	limiter->sent_rate = 0;
	spin_lock(&uplink->lock);
	list_del_init(&limiter->active_node);
	uplink->n_active--;
	WRITE_ONCE(uplink->active_weight, uplink->active_weight - limiter->vm->config.weight);
	WRITE_ONCE(uplink->divide, true);
	spin_unlock(&uplink->lock);
}

/* Ends all leases, for good: packets that are under way are not waited for. */
static void limiter_close(struct shim_limiter *limiter)
{
	struct shim_lease *lease, *next;

	spin_lock(&limiter->lock);
	limiter->loans.closed = true;
	list_for_each_entry_safe(lease, next, &limiter->loans.ends, own.node)
		limiter_end(limiter, lease);
	spin_unlock(&limiter->lock);
}

void shim_limiter_remove(struct shim_limiter __rcu **link)
{
	struct shim_limiter *limiter = rcu_dereference_protected(*link, true);

	if (limiter->active)
		shim_limiter_stop(limiter);
	limiter_close(limiter);
	shim_limiter_add_counted(limiter, &limiter->vm->lost);
	if (limiter->ahead)
		shim_free_rcu(limiter->ahead, rcu);
	rcu_assign_pointer(*link, rcu_dereference_protected(limiter->next, true));
	shim_free_rcu(limiter, rcu);
}

void shim_limiter_restart(struct shim_limiter *limiter, u64 now_ns)
{
	struct shim_law_input input =
		shim_limiter_input(limiter->vm, limiter, limiter->uplink, now_ns);

	memset(&limiter->state, 0, sizeof(limiter->state) + shim_law_limiter_size());
	limiter->vm->clock->law->init(&limiter->state, &input);
	shim_limiter_apply(limiter, now_ns);
}

void shim_limiter_message(struct shim_limiter *limiter, const struct shim_message *message,
			  u64 now_ns)
{
	const struct shim_law *law = limiter->vm->clock->law;
	struct shim_law_input input;

	if (!limiter->active || !law->on_message)
		return;
	input = shim_limiter_input(limiter->vm, limiter, limiter->uplink, now_ns);
	law->on_message(&limiter->state, &input, message);
	shim_limiter_apply(limiter, now_ns);
}

void shim_limiter_period(struct shim_limiter *limiter, u64 now_ns)
{
	struct shim_vm *vm = limiter->vm;
	struct shim_law_input input = shim_limiter_input(vm, limiter, limiter->uplink, now_ns);
	u64 demand = limiter->state.demand;

	vm->clock->law->on_period(&limiter->state, &input);
	if (limiter->state.demand != demand)
		WRITE_ONCE(limiter->uplink->divide, true);
	if (vm->rx_uplink == limiter->uplink && vm->rx_demand != limiter->state.rx_demand) {
		WRITE_ONCE(vm->rx_demand, limiter->state.rx_demand);
		WRITE_ONCE(limiter->uplink->divide_rx, true);
	}
	shim_limiter_apply(limiter, now_ns);
}

void shim_limiter_measure(struct shim_limiter *limiter, u64 now_ns, u64 elapsed_ns,
			  u64 inactive_ns)
{
	struct shim_tx tx;

	shim_frame_size_follow(&limiter->frame, now_ns);
	/* What is lent is lent for a period. */
	shim_limiter_recall(limiter);
	shim_limiter_counted(limiter, &tx);
	limiter->sent_rate = shim_mul_div(shim_wire_bytes(limiter->overhead,
							  tx.bytes - limiter->last_bytes,
							  tx.packets - limiter->last_packets),
					  SHIM_NSEC_PER_SEC, elapsed_ns);
	limiter->last_bytes = tx.bytes;
	limiter->last_packets = tx.packets;
	if (limiter_used(limiter, &tx, 0) || limiter->vm->receiving) {
		limiter->idle_ns = 0;
		return;
	}
	limiter->idle_ns = shim_add_sat(limiter->idle_ns, elapsed_ns);
	if (limiter->idle_ns >= inactive_ns)
		shim_limiter_stop(limiter);
}
