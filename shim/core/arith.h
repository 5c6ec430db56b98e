/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * 64-bit arithmetic that neither overflows nor needs a 128-bit division.
 */
#ifndef SHIM_CORE_ARITH_H
#define SHIM_CORE_ARITH_H

#include "types.h"

/* Returns a * b / c rounded down, U64_MAX when that does not fit or c is 0. */
u64 shim_mul_div(u64 a, u64 b, u64 c);

/* Returns a + b, or U64_MAX when that does not fit. */
u64 shim_add_sat(u64 a, u64 b);

#endif
