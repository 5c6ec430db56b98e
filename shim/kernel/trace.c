// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bodies of the tracepoints that trace.h declares.
 */
#include <linux/module.h>

/* sparse stumbles over the macros. */
#ifndef __CHECKER__
#define CREATE_TRACE_POINTS
#include "trace.h"
#endif
