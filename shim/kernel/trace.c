// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bodies of the tracepoints that trace.h declares, and those that the engine hits.
 */
#include <linux/module.h>

/* sparse stumbles over the macros. */
#ifndef __CHECKER__
#define CREATE_TRACE_POINTS
#endif
#include "trace.h"

void shim_host_rate_changed(const struct shim_limiter *limiter, u64 bytes_per_s)
{
	trace_ovs_shim_rate(limiter, bytes_per_s);
}

void shim_host_message(const struct shim_vm *vm, const struct shim_message *message,
		       const char *verdict)
{
	trace_ovs_shim_message(vm, message, verdict);
}
