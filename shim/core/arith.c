// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * 64-bit arithmetic that neither overflows nor needs a 128-bit division.
 *
 * A product of two 64-bit numbers is kept as hi * 2^64 + lo.  With a = ah * 2^32 + al and
 * b = bh * 2^32 + bl,
 *
 *   a * b = ah*bh * 2^64 + (ah*bl + al*bh) * 2^32 + al*bl
 *
 * and every partial product is at most (2^32 - 1)^2 = 2^64 - 2^33 + 1, which leaves room for
 * two more 32-bit terms.  The division is schoolbook, one bit a step; it runs only when the
 * product does not fit 64 bits.  The kernel has no __udivti3 and 32-bit machines have no
 * 64-bit division, hence neither __int128 nor a bare '/'.
 *
 * The kernel's mul_u64_u64_div_u64() does not serve.  On x86-64 it is a mul and a div, which trap
 * when the quotient does not fit or c is 0; elsewhere, in Linux 6.1, it drops low bits of b and c
 * until the product fits 64 bits, so it is not exact, and divides by 0 where c is 0.
 */
#include "arith.h"

/* Doublings after which even a rate of 1 byte/s is beyond SHIM_RATE_MAX. */
#define DOUBLINGS_MAX 40

/* Writes the 128-bit product of a and b to *hi and *lo. */
static void arith_multiply(u64 a, u64 b, u64 *hi, u64 *lo)
{
	u64 ah = a >> 32, al = (u32)a;
	u64 bh = b >> 32, bl = (u32)b;
	u64 low = al * bl;
	u64 middle = ah * bl + (low >> 32);
	u64 cross = al * bh + (u32)middle;

	*lo = cross << 32 | (u32)low;
	*hi = ah * bh + (middle >> 32) + (cross >> 32);
}

/* Returns (hi * 2^64 + lo) / c; hi must be below c, so that the quotient fits. */
static u64 arith_divide(u64 hi, u64 lo, u64 c)
{
	int i;

	for (i = 0; i < 64; i++) {
		bool carry = hi >> 63;

		hi = hi << 1 | lo >> 63;
		lo <<= 1;
		if (carry || hi >= c) {
			hi -= c;
			lo |= 1;
		}
	}
	return lo;
}

u64 shim_mul_div(u64 a, u64 b, u64 c)
{
	u64 hi, lo;

	arith_multiply(a, b, &hi, &lo);
	if (hi >= c)
		return ~0ULL;
	return hi ? arith_divide(hi, lo, c) : shim_div(lo, c);
}

u64 shim_add_sat(u64 a, u64 b)
{
	u64 sum = a + b;

	return sum < a ? ~0ULL : sum;
}

u32 shim_add_sat32(u32 a, u64 b)
{
	return b < ~0U - a ? a + (u32)b : ~0U;
}

u64 shim_double_sat(u64 value, u64 times)
{
	return shim_mul_div(value, 1ULL << (times < DOUBLINGS_MAX ? times : DOUBLINGS_MAX), 1);
}
