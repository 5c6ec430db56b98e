// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Names of drops and refusals, for traces.
 */
#include "../types.h"
#include "counters.h"

/* By counter; those that traces do not speak of have none. */
static const char *const counter_names[SHIM_N_COUNTERS] = {
#define SHIM_WORD(name, word) [SHIM_##name] = word,
	SHIM_COUNTERS(SHIM_WORD)
#undef SHIM_WORD
};

const char *shim_counter_name(enum shim_counter counter)
{
	return counter_names[counter] ? counter_names[counter] : "none";
}
