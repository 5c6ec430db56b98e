// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Names of drops and refusals, for traces.
 */
#include "../types.h"
#include "counters.h"

/* By counter; those that traces do not speak of have none. */
static const char *const counter_names[SHIM_N_COUNTERS] = {
	[SHIM_DROP_SEGMENT] = "segment",
	[SHIM_DROP_MEMORY] = "memory",
	[SHIM_DROP_FORGED] = "forged",
	[SHIM_DROP_SOURCE] = "source",
	[SHIM_DROP_SPOOFED] = "spoofed",
	[SHIM_DROP_PEER] = "peer",
	[SHIM_DROP_SHARED] = "shared",
	[SHIM_DROP_UNANSWERED] = "unanswered",
	[SHIM_DROP_SIZE] = "size",
	[SHIM_DROP_PATH] = "path",
	[SHIM_DROP_POLICE] = "police",
	[SHIM_DROP_HORIZON] = "horizon",
	[SHIM_DROP_WAITING] = "waiting",
	[SHIM_MESSAGES] = "obeyed",
	[SHIM_REPORTS] = "obeyed",
	[SHIM_REFUSED_SHORT] = "short",
	[SHIM_REFUSED_FORM] = "form",
	[SHIM_REFUSED_TAG] = "tag",
	[SHIM_REFUSED_REPLAY] = "replay",
	[SHIM_REFUSED_ADDRESS] = "address",
	[SHIM_REFUSED_PEER] = "peer",
	[SHIM_REFUSED_LAW] = "law",
	[SHIM_REFUSED_PORT] = "port",
	[SHIM_REFUSED_ORIGIN] = "origin",
};

const char *shim_counter_name(enum shim_counter counter)
{
	return counter_names[counter] ? counter_names[counter] : "none";
}
