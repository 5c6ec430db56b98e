// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Leases.
 *
 * What is equal for all packets of a VM to an uplink, and to one peer, is decided for one of them.
 * The buckets that let it pass lend bytes to the CPU that it came by; packets of that kind pass
 * there as long as bytes are left, without a clock, a lock, a barrier or an atomic operation: they
 * compare and subtract.
 *
 * Bytes that are lent are those on the wire (wire.h), which buckets count.  Two sides lend: the
 * VM's limiter and, under a law with peers, the peer.  Each is charged, under its lock, for what it
 * lends when it lends it, and knows by its own `left` how much of that was spent when it last
 * looked.  What is received is counted in the same way and charged to nobody.
 *
 * The bound.  Let D be the depth of a bucket, R its rate, L the most that it has lent at a time:
 *
 *   O(x) = bytes lent by time x, neither spent nor taken back, of leases that end or do not  <=  L
 *
 * for shim_loans_room() never lends more than L less the sum of what each end had left when it was
 * last looked at, and a lease's left only falls from there.  Every byte that is sent within
 * (x, y] was charged within it, or before it and then was part of O(x).  With c charged and b taken
 * back within (x, y]
 *
 *   sent  =  c - b + O(x) - O(y)  <=  (c - b) + L
 *
 * Charges less what was taken back obey the bucket's own bound: each moves TAT by its cost, up or
 * down, and TAT is at most D / R ahead of the clock after a packet that leaves at once; so
 * c - b <= D + R * (y - x) by the argument of limiter.c, in which a charge of max(TAT, now) + cost
 * only grows if TAT was lowered below now.  Hence
 *
 *   sent within t  <=  D + L + R * t                                                            (1)
 *
 * whichever CPUs the packets come by, and B = D + L is the bucket's depth to whoever reads it.
 *
 * Nothing is lost.  What is left goes back in bytes when the lease's CPU asks anew; when the visit
 * of the VM, each period, finds the lease recalled and its CPU past a grace period; and when its
 * place is wanted for others.  So what idle CPUs, or ones that were taken away, hold is at most L,
 * and goes back within two periods and a grace period.
 *
 * Ends.  A lender recalls a lease by making `valid` false: where a rate changes, settings, what a
 * law says of packets, at each visit, and where the lender goes.  A packet that saw `valid` before
 * passes as if it had come before.  Its CPU may still be subtracting; so others than that CPU take
 * `left` for final only when a grace period has passed since, in which every packet that was under
 * way is over.  Lenders are freed after a grace period, too, and keep no lease by then.
 *
 * Counters are exact when they are read: a reader adds, under the lender's lock, what passed since
 * it was last looked.
 *
 * A packet that does not fit has its lease taken back first, then is judged; where it is to wait,
 * nothing is lent.  So no packet overtakes another of its kind on the same CPU.  What is taken back
 * while packets wait does not let later ones leave before these: shim_limiter has the order.
 *
 * Owner.  valid becomes true, and left grows, on the lease's own CPU only, under the limiter's (or
 * the receipts') lock and, with a peer, under its lock around that.
 */
#include "engine.h"
#include "lease.h"

u32 shim_loans_room(const struct shim_loans *loans)
{
	if (loans->closed || loans->lent >= loans->most)
		return 0;
	/* Equal parts for all that ask, this one included. */
	return min(loans->most / (loans->n + 1), loans->most - loans->lent);
}

void shim_loans_add(struct shim_loans *loans, struct shim_lease *lease, struct shim_lease_end *end,
		    u32 bytes)
{
	end->left = bytes;
	end->bytes = lease->bytes;
	end->packets = lease->packets;
	end->changed = lease->changed;
	end->recalled = false;
	loans->lent += bytes;
	loans->n++;
	list_add(&end->node, &loans->ends);
}

struct shim_spent shim_loans_look(struct shim_loans *loans, const struct shim_lease *lease,
				  struct shim_lease_end *end)
{
	u32 left = READ_ONCE(lease->left), packets = READ_ONCE(lease->packets);
	u32 changed = READ_ONCE(lease->changed), bytes = READ_ONCE(lease->bytes);
	struct shim_spent spent = {
		.wire = end->left - left,
		.bytes = bytes - end->bytes,
		.packets = packets - end->packets,
		.changed = changed - end->changed,
	};

	end->left = left;
	end->bytes = bytes;
	end->packets = packets;
	end->changed = changed;
	loans->lent -= spent.wire;
	return spent;
}

void shim_loans_recall(struct shim_lease *lease, struct shim_lease_end *end)
{
	if (end->recalled)
		return;
	WRITE_ONCE(lease->valid, false);
	end->recalled = true;
	end->grace = shim_grace_begin();
}

bool shim_loans_over(const struct shim_lease_end *end)
{
	return end->recalled && (!end->left || shim_grace_over(end->grace));
}

u32 shim_loans_take_back(struct shim_loans *loans, struct shim_lease_end *end)
{
	u32 left = end->left;

	loans->lent -= left;
	loans->n--;
	list_del(&end->node);
	end->left = 0;
	return left;
}

/* Counts what passed by a lease since it was looked at.  receipts->lock. */
static void receipts_look(struct shim_vm *vm, struct shim_lease *lease)
{
	struct shim_spent spent = shim_loans_look(&vm->receipts.loans, lease, &lease->own);

	if (!spent.packets)
		return;
	shim_vm_count(vm, SHIM_RX_PACKETS, spent.packets);
	shim_vm_count(vm, SHIM_RX_BYTES, spent.bytes);
	if (spent.changed)
		shim_vm_count(vm, SHIM_RX_RESTORED, spent.changed);
}

/* Takes back a lease after a look at it.  receipts->lock. */
static void receipts_take_back(struct shim_vm *vm, struct shim_lease *lease)
{
	shim_loans_take_back(&vm->receipts.loans, &lease->own);
	WRITE_ONCE(lease->vm, NULL);
}

void shim_receipts_look(struct shim_vm *vm)
{
	struct shim_lease *lease;

	spin_lock(&vm->receipts.lock);
	list_for_each_entry(lease, &vm->receipts.loans.ends, own.node)
		receipts_look(vm, lease);
	spin_unlock(&vm->receipts.lock);
}

void shim_receipts_end_lease(struct shim_vm *vm, struct shim_lease *lease)
{
	spin_lock(&vm->receipts.lock);
	if (lease->vm == vm) {
		receipts_look(vm, lease);
		receipts_take_back(vm, lease);
	}
	spin_unlock(&vm->receipts.lock);
}

void shim_receipts_lend(struct shim_vm *vm, struct shim_lease *lease, u32 overhead)
{
	spin_lock(&vm->receipts.lock);
	/* Whoever takes a VM from its law recalls its leases after that. */
	if (!vm->receipts.loans.closed && READ_ONCE(vm->mode.ruled)) {
		WRITE_ONCE(lease->left, SHIM_LEASE_COUNTED);
		WRITE_ONCE(lease->valid, true);
		lease->vm = vm;
		lease->received = true;
		lease->overhead = overhead;
		shim_loans_add(&vm->receipts.loans, lease, &lease->own, SHIM_LEASE_COUNTED);
	}
	spin_unlock(&vm->receipts.lock);
}

void shim_receipts_recall(struct shim_vm *vm, bool close)
{
	struct shim_lease *lease, *next;

	spin_lock(&vm->receipts.lock);
	vm->receipts.loans.closed |= close;
	list_for_each_entry_safe(lease, next, &vm->receipts.loans.ends, own.node) {
		receipts_look(vm, lease);
		if (close || shim_loans_over(&lease->own)) {
			WRITE_ONCE(lease->valid, false);
			receipts_take_back(vm, lease);
		} else {
			shim_loans_recall(lease, &lease->own);
		}
	}
	spin_unlock(&vm->receipts.lock);
}

/* Counts what passed by a lease since the peer looked, and tells the law.  peer->lock. */
static void peer_look(struct shim_peer *peer, struct shim_lease *lease, u64 now_ns)
{
	struct shim_spent spent = shim_loans_look(&peer->loans, lease, &lease->far);
	struct shim_law_packet seen = {
		.now_ns = now_ns,
		.bytes = spent.wire,
		.packets = spent.packets,
		.echo_free = true,
	};
	const struct shim_clock *clock = peer->clock;
	void (*tell)(struct shim_peer_state *state, struct shim_law_packet *packet) = NULL;

	if (!spent.packets)
		return;
	if (lease->received) {
		peer->rx_bytes += spent.bytes;
		WRITE_ONCE(peer->rx_packets, peer->rx_packets + spent.packets);
	} else {
		peer->tx_bytes += spent.bytes;
		WRITE_ONCE(peer->tx_packets, peer->tx_packets + spent.packets);
	}
	if (clock)
		tell = lease->received ? clock->law->on_rx : clock->law->on_tx;
	if (!tell)
		return;
	seen.knobs = shim_engine_settings(peer->key.vm->engine)->laws[clock->index].knobs;
	tell(&peer->state, &seen);
}

/*
 * Takes back what is left of a lease that the peer has looked at.  What comes next leaves behind
 * those that wait, all the same.  peer->lock.
 */
static void peer_take_back(struct shim_peer *peer, struct shim_lease *lease, u64 now_ns)
{
	u64 left = shim_loans_take_back(&peer->loans, &lease->far);
	u64 now = now_ns * SHIM_TICKS_PER_NS, used;

	WRITE_ONCE(lease->peer, NULL);
	if (lease->received || !left || !peer->rate.bytes_per_s)
		return;
	used = shim_bucket_used(peer->tat, now);
	if (unlikely(used > peer->rate.burst_ticks))
		peer->late_ns = max(peer->late_ns, now_ns + 1 + (used - peer->rate.burst_ticks) /
						   SHIM_TICKS_PER_NS);
	if (used)
		peer->tat = now + used - min(used, shim_bucket_cost(&peer->rate, left));
}

void shim_peer_take_lease(struct shim_peer *peer, struct shim_lease *lease, u64 now_ns)
{
	if (lease->peer != peer)
		return;
	WRITE_ONCE(lease->valid, false);
	peer_look(peer, lease, now_ns);
	peer_take_back(peer, lease, now_ns);
}

void shim_peer_end_lease(struct shim_peer *peer, struct shim_lease *lease, u64 now_ns)
{
	spin_lock(&peer->lock);
	shim_peer_take_lease(peer, lease, now_ns);
	spin_unlock(&peer->lock);
}

void shim_peer_look(struct shim_peer *peer, u64 now_ns)
{
	struct shim_lease *lease;

	list_for_each_entry(lease, &peer->loans.ends, far.node)
		peer_look(peer, lease, now_ns);
}

void shim_peer_recall(struct shim_peer *peer, u64 now_ns)
{
	struct shim_lease *lease, *next;

	list_for_each_entry_safe(lease, next, &peer->loans.ends, far.node) {
		peer_look(peer, lease, now_ns);
		if (shim_loans_over(&lease->far))
			peer_take_back(peer, lease, now_ns);
		else
			shim_loans_recall(lease, &lease->far);
	}
}

void shim_peer_close(struct shim_peer *peer, u64 now_ns)
{
	struct shim_lease *lease, *next;

	peer->loans.closed = true;
	list_for_each_entry_safe(lease, next, &peer->loans.ends, far.node)
		shim_peer_take_lease(peer, lease, now_ns);
}
