// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Replay protection of control messages: one table for all VMs of a host.
 *
 * A sender numbers its messages from 1, whichever VM they are for, and shows the second it started
 * as its epoch.  A host hears some of the numbers only.  Of each sender it keeps the epoch, the
 * highest sequence `top` and a bit for each of the W sequences top, top - 1, ..., top - W + 1, as
 * IPsec's anti-replay window does (RFC 4303):
 *
 *   epoch older than the sender's         refuse
 *   epoch newer                           the sender restarted: forget its sequences, accept
 *   sequence > top                        shift the window, accept
 *   top - W < sequence <= top             accept once
 *   older                                 refuse
 *
 * The table is the host's and not a VM's, so that it outlives the VM's port: what was said before a
 * guest booted anew, or before another port took over its address, stays said.  W is 1024, because
 * messages to several VMs overtake each other where they are sent bridge by bridge; it bounds the
 * messages that a sender may have under way to one host.
 *
 * A VM that migrates was told things that its new host never heard.  It therefore accepts nothing
 * that is not beyond the marks as they stood when its port came, though it may be new to the host.
 *
 * When a 17th sender speaks, the one silent longest gives way.  What it said before could then be
 * played again, so `floor` rises to its epoch: unknown senders must have started later.  The price
 * is that it must take a new epoch to be heard again, as a sender must that has used up its
 * 2^32 - 1 sequences.
 *
 * Reports of shims are numbered likewise: one count over all that a shim reports to whomever.
 * A pair of a VM and a peer remembers W = 64 sequences of the sender that it listens to.  What it
 * remembers goes with the peer, so the host keeps of each sender the newest number that any of its
 * VMs accepted.  A pair that begins to listen to a sender accepts nothing that is not beyond that:
 * neither what was said to a peer that has been forgotten, nor what another VM of the host heard.
 * When a set of these marks is full, the sender silent longest gives way, and the set's floor rises
 * to its epoch.  A shim takes a later epoch from time to time, so one that gave way is heard again.
 */
#include "message.h"

/* Sequences that a word of a window stands for. */
#define WORD_BITS 64

/* Returns the mark of a sender, or else a free one, or else that of the one silent longest. */
static struct shim_replay_mark *replay_find(struct shim_replay *replay, u32 sender)
{
	struct shim_replay_mark *best = &replay->marks[0];
	u32 i;

	for (i = 0; i < SHIM_REPLAY_SENDERS; i++) {
		struct shim_replay_mark *mark = &replay->marks[i];

		if (mark->epoch && mark->sender == sender)
			return mark;
		if (!best->epoch)
			continue;
		/* Differences survive the wrap of the clock. */
		if (!mark->epoch || replay->clock - mark->used > replay->clock - best->used)
			best = mark;
	}
	return best;
}

/* Moves a window of n words up by `step` sequences. */
static void replay_shift(u64 *window, u32 n, u32 step)
{
	u32 words = step / WORD_BITS, bits = step % WORD_BITS, i;

	for (i = n; i--;) {
		u64 low = i > words ? window[i - words - 1] : 0;
		u64 high = i >= words ? window[i - words] : 0;

		window[i] = bits ? high << bits | low >> (WORD_BITS - bits) : high;
	}
}

/* Takes a sequence into a window of n words; false if it was seen or is too old to tell. */
static bool replay_accept(struct shim_replay_mark *mark, u64 *window, u32 n, u32 sequence)
{
	u32 step;

	if (sequence > mark->top) {
		replay_shift(window, n, sequence - mark->top);
		window[0] |= 1;
		mark->top = sequence;
		return true;
	}
	step = mark->top - sequence;
	if (step / WORD_BITS >= n || window[step / WORD_BITS] >> step % WORD_BITS & 1)
		return false;
	window[step / WORD_BITS] |= 1ULL << step % WORD_BITS;
	return true;
}

/* Begins with the epoch of a sender that a message shows, of which nothing was seen. */
static void replay_start(struct shim_replay_mark *mark, u64 *window, u32 n,
			 const struct shim_message *message)
{
	u32 i;

	mark->sender = message->sender;
	mark->epoch = message->epoch;
	mark->top = 0;
	for (i = 0; i < n; i++)
		window[i] = 0;
}

enum shim_message_error shim_replay_check(struct shim_replay *replay,
					  const struct shim_message *message)
{
	struct shim_replay_mark *mark = replay_find(replay, message->sender);
	u64 *window = replay->windows[mark - replay->marks];

	if (!message->epoch || !message->sequence)
		return SHIM_MESSAGE_REPLAY;
	if (!mark->epoch || mark->sender != message->sender) {
		if (message->epoch <= replay->floor)
			return SHIM_MESSAGE_REPLAY;
		if (mark->epoch > replay->floor)
			replay->floor = mark->epoch;
		replay_start(mark, window, SHIM_REPLAY_WORDS, message);
	} else if (message->epoch < mark->epoch) {
		return SHIM_MESSAGE_REPLAY;
	} else if (message->epoch > mark->epoch) {
		replay_start(mark, window, SHIM_REPLAY_WORDS, message);
	}
	if (!replay_accept(mark, window, SHIM_REPLAY_WORDS, message->sequence))
		return SHIM_MESSAGE_REPLAY;
	mark->used = ++replay->clock;
	return SHIM_MESSAGE_OK;
}

bool shim_replay_beyond(const struct shim_replay_mark *marks, const struct shim_message *message)
{
	u32 i;

	for (i = 0; i < SHIM_REPLAY_SENDERS; i++) {
		const struct shim_replay_mark *mark = &marks[i];

		if (!mark->epoch || mark->sender != message->sender)
			continue;
		return message->epoch > mark->epoch ||
		       (message->epoch == mark->epoch && message->sequence > mark->top);
	}
	return true;
}

/* Returns the mark of a sender of reports in its set, or else the one that is to give way. */
static struct shim_replay_mark *reporter_find(struct shim_reporters *reporters, u32 set,
					      u32 sender)
{
	struct shim_replay_mark *marks = reporters->marks[set], *best = &marks[0];
	u32 i;

	for (i = 0; i < SHIM_REPORTERS_A_SET; i++) {
		if (marks[i].epoch && marks[i].sender == sender)
			return &marks[i];
		if (!best->epoch)
			continue;
		if (!marks[i].epoch ||
		    reporters->clock - marks[i].used > reporters->clock - best->used)
			best = &marks[i];
	}
	return best;
}

/* Tells whether a report was sent after all that a host heard of its sender. */
static bool reporter_beyond(const struct shim_replay_mark *mark, u32 floor,
			    const struct shim_message *report)
{
	if (!mark->epoch || mark->sender != report->sender)
		return report->epoch > floor;
	return report->epoch > mark->epoch ||
	       (report->epoch == mark->epoch && report->sequence > mark->top);
}

/* Notes that a host heard a report; mark: its sender's, or the one that gives way to it. */
static void reporter_note(struct shim_reporters *reporters, struct shim_replay_mark *mark,
			  u32 *floor, const struct shim_message *report)
{
	if (!mark->epoch || mark->sender != report->sender) {
		if (mark->epoch > *floor)
			*floor = mark->epoch;
		mark->sender = report->sender;
		mark->epoch = 0;
	}
	if (report->epoch > mark->epoch) {
		mark->epoch = report->epoch;
		mark->top = report->sequence;
	} else if (report->epoch == mark->epoch && report->sequence > mark->top) {
		mark->top = report->sequence;
	}
	mark->used = ++reporters->clock;
}

enum shim_message_error shim_replay_check_report(struct shim_reporters *reporters,
						 struct shim_replay_slot *slot,
						 const struct shim_message *report)
{
	u32 set = report->sender % SHIM_REPORTER_SETS;
	struct shim_replay_mark *mark = reporter_find(reporters, set, report->sender);
	u32 *floor = &reporters->floors[set];

	if (!report->epoch || !report->sequence)
		return SHIM_MESSAGE_REPLAY;
	if (slot->mark.epoch != report->epoch || slot->mark.sender != report->sender) {
		if (!reporter_beyond(mark, *floor, report))
			return SHIM_MESSAGE_REPLAY;
		replay_start(&slot->mark, &slot->window, 1, report);
		/* What the host heard of that epoch is before this one, and is not told apart. */
		if (mark->epoch == report->epoch && mark->sender == report->sender) {
			slot->mark.top = report->sequence - 1;
			slot->window = ~0ULL;
		}
	}
	if (!replay_accept(&slot->mark, &slot->window, 1, report->sequence))
		return SHIM_MESSAGE_REPLAY;
	reporter_note(reporters, mark, floor, report);
	return SHIM_MESSAGE_OK;
}
