// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Replay protection of control messages, one table a VM.
 *
 * A sender numbers its messages to a VM from 1 and shows the second it started as its epoch.  Of
 * each sender the table keeps the epoch, the highest sequence `top` and a bit for each of the 64
 * sequences top, top - 1, ..., top - 63, as IPsec's anti-replay window does (RFC 4303):
 *
 *   epoch older than the slot's           refuse
 *   epoch newer                           the sender restarted: forget its sequences, accept
 *   sequence > top                        shift the window, accept
 *   top - 64 < sequence <= top            accept once
 *   older                                 refuse
 *
 * When a fifth sender speaks, the one silent longest gives way.  What it said before could then be
 * played again, so `floor` rises to its epoch: unknown senders must have started later.  The price
 * is that it must itself restart to be heard again.  A sender that has used up its 2^32 - 1
 * sequences must take a new epoch.
 */
#include "message.h"

/* Sequences that a window remembers. */
#define WINDOW_BITS 64

/* Returns the slot of a sender, or else a free one, or else the one silent longest. */
static struct shim_replay_slot *find_slot(struct shim_replay *replay, u32 sender)
{
	struct shim_replay_slot *best = &replay->slots[0];
	u32 i;

	for (i = 0; i < SHIM_REPLAY_SENDERS; i++) {
		struct shim_replay_slot *slot = &replay->slots[i];

		if (slot->epoch && slot->sender == sender)
			return slot;
		if (!best->epoch)
			continue;
		/* Differences survive the wrap of the clock. */
		if (!slot->epoch || replay->clock - slot->used > replay->clock - best->used)
			best = slot;
	}
	return best;
}

/* Takes a sequence into the window; false if it was seen before or is too old to tell. */
static bool accept_sequence(struct shim_replay_slot *slot, u32 sequence)
{
	u32 step;

	if (sequence > slot->top) {
		step = sequence - slot->top;
		slot->window = step < WINDOW_BITS ? slot->window << step : 0;
		slot->window |= 1;
		slot->top = sequence;
		return true;
	}
	step = slot->top - sequence;
	if (step >= WINDOW_BITS || slot->window >> step & 1)
		return false;
	slot->window |= 1ULL << step;
	return true;
}

/* Gives a slot to the start of a sender that a message shows. */
static void take_slot(struct shim_replay_slot *slot, const struct shim_message *message)
{
	slot->sender = message->sender;
	slot->epoch = message->epoch;
	slot->window = 0;
	slot->top = 0;
}

enum shim_message_error shim_replay_check(struct shim_replay *replay,
					  const struct shim_message *message)
{
	struct shim_replay_slot *slot = find_slot(replay, message->sender);

	if (!message->epoch || !message->sequence)
		return SHIM_MESSAGE_REPLAY;
	if (!slot->epoch || slot->sender != message->sender) {
		if (message->epoch <= replay->floor)
			return SHIM_MESSAGE_REPLAY;
		if (slot->epoch > replay->floor)
			replay->floor = slot->epoch;
		take_slot(slot, message);
	} else if (message->epoch < slot->epoch) {
		return SHIM_MESSAGE_REPLAY;
	} else if (message->epoch > slot->epoch) {
		take_slot(slot, message);
	}
	if (!accept_sequence(slot, message->sequence))
		return SHIM_MESSAGE_REPLAY;
	slot->used = ++replay->clock;
	return SHIM_MESSAGE_OK;
}

enum shim_message_error shim_replay_check_slot(struct shim_replay_slot *slot,
					       const struct shim_message *message)
{
	bool same = slot->epoch == message->epoch && slot->sender == message->sender;

	if (!message->epoch || !message->sequence)
		return SHIM_MESSAGE_REPLAY;
	if (!same) {
		if (message->epoch <= slot->epoch)
			return SHIM_MESSAGE_REPLAY;
		take_slot(slot, message);
	}
	return accept_sequence(slot, message->sequence) ? SHIM_MESSAGE_OK : SHIM_MESSAGE_REPLAY;
}
