// SPDX-License-Identifier: Apache-2.0
/*
 * What is proved of core/replay.c by Frama-C's WP: whatever a mark and a window of n words hold, no
 * index of replay_accept() is out of the window, no shift too far, and what it accepts is no older
 * than the window, nor newer than the mark then is.
 */
#include "../core/message.h"

/*@ requires 1 <= n <= SHIM_REPLAY_WORDS && \valid(window + (0 .. n - 1));
  @ assigns window[0 .. n - 1] \from window[0 .. n - 1], n, step;
  @*/
static void replay_shift(u64 *window, u32 n, u32 step);

/*@ requires 1 <= n <= SHIM_REPLAY_WORDS && \valid(window + (0 .. n - 1)) && \valid(mark);
  @ requires \separated(mark, window + (0 .. n - 1));
  @ assigns window[0 .. n - 1], mark->top, \result
  @   \from window[0 .. n - 1], mark->top, n, sequence;
  @ ensures mark->top == (sequence > \old(mark->top) ? sequence : \old(mark->top));
  @ ensures \result == 0 || \result == 1;
  @ ensures \result ==> mark->top - sequence < 64 * n;
  @*/
static bool replay_accept(struct shim_replay_mark *mark, u64 *window, u32 n, u32 sequence);

#include "../core/replay.c"
