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

/* Returns a + b, or U32_MAX when that does not fit. */
u32 shim_add_sat32(u32 a, u64 b);

/* Returns value * 2^times; 2^40 times the value, which is beyond any rate, if that is less. */
u64 shim_double_sat(u64 value, u64 times);

/* Returns a - b, 0 if b is more: a time since another whose clock may go back, or an excess. */
static inline u64 shim_sub_sat(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Returns a time that is not 0, which says "never" where it is kept. */
static inline u64 shim_stamp(u64 now_ns)
{
	return now_ns ? now_ns : 1;
}

#endif
