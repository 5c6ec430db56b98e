// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Who answers a VM: the MAC addresses that reports come from, and of each the peer that grants
 * least.
 */
#include "../arith.h"
#include "engine.h"

/* Returns the rate that binds what a VM sends to a peer, bytes/s; 0: none.  vm->lock. */
static u64 answer_grant(const struct shim_peer *peer)
{
	return READ_ONCE(peer->rate.bytes_per_s);
}

void shim_vm_answered(struct shim_vm *vm, struct shim_peer *peer, u64 mac, u64 now_ns)
{
	struct shim_answer *one, *answer = vm->answers;
	u64 rate = answer_grant(peer);

	for (one = vm->answers; one < vm->answers + SHIM_ANSWERS_MAX; one++) {
		if (one->seen_ns && one->mac == mac) {
			answer = one;
			break;
		}
		if (one->seen_ns < answer->seen_ns)
			answer = one;
	}
	if (!answer->seen_ns || answer->mac != mac) {
		WRITE_ONCE(answer->mac, mac);
		answer->peer = NULL;
	}
	answer->seen_ns = shim_stamp(now_ns);
	/* The tightest stays as long as it reports. */
	if (!answer->peer || answer->peer == peer || (rate && rate <= answer_grant(answer->peer)) ||
	    !answer_grant(answer->peer) ||
	    shim_sub_sat(now_ns, answer->peer_ns) >= SHIM_ANSWER_NS) {
		answer->peer = peer;
		answer->peer_ns = now_ns;
	}
}

void shim_vm_unanswered(struct shim_vm *vm, const struct shim_peer *peer)
{
	struct shim_answer *one;

	for (one = vm->answers; one < vm->answers + SHIM_ANSWERS_MAX; one++)
		if (one->peer == peer)
			one->peer = NULL;
}

u64 shim_vm_tightest(const struct shim_vm *vm, u64 now_ns)
{
	const struct shim_answer *one;
	u64 least = U64_MAX, rate;

	for (one = vm->answers; one < vm->answers + SHIM_ANSWERS_MAX && one->seen_ns; one++) {
		if (!one->peer || shim_sub_sat(now_ns, one->peer_ns) >= SHIM_ANSWER_NS)
			continue;
		rate = answer_grant(one->peer);
		if (rate)
			least = min(least, rate);
	}
	return least;
}
