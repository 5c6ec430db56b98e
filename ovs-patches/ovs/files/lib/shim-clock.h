/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_CLOCK_H
#define SHIM_CLOCK_H 1

#include <stdint.h>

/* The thread in which the clocks of the laws tick, and packets leave that wait
 * for a thread which does not poll. */

struct shim_engine;

void shim_clock_start(struct shim_engine *);
void shim_clock_wake(uint64_t due_ns);

#endif /* shim-clock.h */
