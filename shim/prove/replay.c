// SPDX-License-Identifier: Apache-2.0
/*
 * What is proved of core/replay.c by Frama-C's Eva: whatever a table holds and a message says, no
 * operation is undefined: no index is out of its array, no shift too far.  Of replay_accept() its
 * contract is taken, which WP proves (accept.c).
 */
#include "any.h"

#include "accept.c"

/* Checks any message by any table, and moves any window by any step. */
int main(void)
{
	struct shim_message message = { 0 };
	struct shim_replay_slot slot;
	static struct shim_reporters reporters;
	struct shim_replay replay;
	u32 i, k;

	for (i = 0; i < SHIM_REPLAY_SENDERS; i++) {
		replay.marks[i].sender = any_u32();
		replay.marks[i].epoch = any_u32();
		replay.marks[i].top = any_u32();
		replay.marks[i].used = any_u32();
		for (k = 0; k < SHIM_REPLAY_WORDS; k++)
			replay.windows[i][k] = any_u64();
	}
	replay.floor = any_u32();
	replay.clock = any_u32();
	for (i = 0; i < SHIM_REPORTER_SETS; i++) {
		for (k = 0; k < SHIM_REPORTERS_A_SET; k++) {
			reporters.marks[i][k].sender = any_u32();
			reporters.marks[i][k].epoch = any_u32();
			reporters.marks[i][k].top = any_u32();
			reporters.marks[i][k].used = any_u32();
		}
		reporters.floors[i] = any_u32();
	}
	reporters.clock = any_u32();
	slot.mark.sender = any_u32();
	slot.mark.epoch = any_u32();
	slot.mark.top = any_u32();
	slot.mark.used = any_u32();
	slot.window = any_u64();
	message.sender = any_u32();
	message.epoch = any_u32();
	message.sequence = any_u32();
	replay_shift(replay.windows[0], SHIM_REPLAY_WORDS, any_u32());
	replay_shift(&slot.window, 1, any_u32());
	shim_replay_check(&replay, &message);
	shim_replay_beyond(replay.marks, &message);
	shim_replay_check_report(&reporters, &slot, &message);
	return 0;
}
