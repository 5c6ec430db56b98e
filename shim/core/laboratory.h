/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The laboratory build: with SHIM_LABORATORY defined there is, beside what the product has, what
 * only comparisons with papers need: law elasticswitch, the literal forms of laws, Seawall's
 * classes 1 and 2, and the paper's unauthenticated message.  Simulators, tests and the testbed's
 * machines are built so; packages, and modules that are built by hand, are the product.
 */
#ifndef SHIM_CORE_LABORATORY_H
#define SHIM_CORE_LABORATORY_H

#include "types.h"

#ifdef SHIM_LABORATORY
#define SHIM_ACCEPT_V0_MAX 1
#define SHIM_ACCEPT_V0_ALLOWED "0 and 1"
#else
#define SHIM_ACCEPT_V0_MAX 0
#define SHIM_ACCEPT_V0_ALLOWED "0; the laboratory build alone obeys unauthenticated messages"
#endif

/* Returns the value of a knob that the laboratory build has, and of the product `fixed`. */
static inline u64 shim_laboratory_knob(const u64 *knobs, u32 i, u64 fixed)
{
#ifdef SHIM_LABORATORY
	(void)fixed;
	return knobs[i];
#else
	(void)knobs;
	(void)i;
	return fixed;
#endif
}

/* Tells whether the laboratory build alone has a law of that name, or a law's knob. */
bool shim_laboratory_only(const char *law, const char *knob);

#endif
