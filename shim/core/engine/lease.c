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

void shim_lease_end(struct shim_lease *lease, u64 now_ns)
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
