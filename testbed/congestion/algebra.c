// SPDX-License-Identifier: GPL-2.0-only
/*
 * The algebra of D2TCP and L2DCT in fixed point.
 *
 * Both estimate as DCTCP does (RFC 8257, section 3.3), once a window, which part of their segments
 * is marked:
 *
 *   alpha = alpha * (1 - 1/16) + F / 16        F: marked segments of those delivered in the window
 *
 * and cut the window W once a round trip with marks by p / 2:
 *
 *   W = W * (1 - p / 2)
 *
 * D2TCP (Vamanan, Hasan, Vijaykumar: Deadline-Aware Datacenter TCP, SIGCOMM 2012):
 *
 *   p  = alpha^d,  d = Tc / D, within 0.5 and 2.0
 *   Tc = B / (3/4 W) round trips: what sending the B bytes left takes, as W saws between W/2 and W
 *   D  = time to the deadline
 *
 * A flow without a deadline has d = 1, which is DCTCP.  One whose deadline has passed has d = 0.5:
 * it gives way, as it has nothing to win.  That is ours; the paper's words on it were not at hand.
 *
 * L2DCT (Munir et al.: Minimizing Flow Completion Times in Data Centers, INFOCOM 2013), with s the
 * bytes sent:
 *
 *   weight = 2.5 up to s = 200 KB, 0.125 from 1 MB on, between them on the line through both
 *   p      = alpha^weight
 *   W      = W + weight / 2.5 each round trip without marks
 *
 * Powers.  With a in [0, 1], a^(n + b1/2 + b2/4 + ...) is a^n times those of the repeated square
 * roots of a whose bit is set.
 *
 * Ranges.  alpha, p <= 2^30 = CC_ONE; segments, bytes and rtt_8us < 2^32; mss < 2^16:
 *   F:      marked * 2^30 < 2^62, marked <= delivered, so F <= CC_ONE;
 *           alpha - ceil(alpha / 16) + floor(F / 16) <= 2^30 - 2^26 + 2^26 = CC_ONE,
 *           as x - ceil(x / 16) does not fall
 *   power:  a product of two fractions <= 2^60; a fraction * 2^30 <= 2^60, and its root <= 2^30
 *   cut:    window * p < 2^62
 *   Tc:     in us, left * rtt_8us / 8 / (3/4 * window * mss) = left * rtt_8us / (6 * window * mss);
 *           left * rtt_8us < 2^64, 6 * window * mss < 2^51;
 *           compared with 2 * D < 2^32 before it is multiplied by 2^10
 *   weight: (2560 - 128) * 800000 < 2^31
 *   growth: window * 2560 < 2^44
 */
#include "algebra.h"

/* log2 of the weight of a new F in alpha, RFC 8257's g = 1/16. */
#define GAIN_SHIFT 4

/* Returns the square root of x, rounded down; x is at most 2^60. */
static u32 square_root(u64 x)
{
	u64 root = 0, bit;

	for (bit = 1ULL << 60; bit; bit >>= 2) {
		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

u32 cc_estimate(u32 alpha, u32 marked, u32 delivered)
{
	u32 fraction = marked < delivered ? ((u64)marked << 30) / delivered : marked ? CC_ONE : 0;

	return alpha - ((alpha + (1U << GAIN_SHIFT) - 1) >> GAIN_SHIFT) + (fraction >> GAIN_SHIFT);
}

u32 cc_power(u32 alpha, u32 exponent)
{
	u32 result = CC_ONE, root = alpha, bit;

	for (bit = exponent / CC_EXPONENT_ONE; bit; bit--)
		result = (u64)result * alpha >> 30;
	for (bit = CC_EXPONENT_ONE / 2; bit; bit >>= 1) {
		root = square_root((u64)root << 30);
		if (exponent & bit)
			result = (u64)result * root >> 30;
	}
	return result;
}

u32 cc_cut(u32 window, u32 p)
{
	u32 left = window - (u32)((u64)window * p >> 31);

	return left > CC_WINDOW_MIN ? left : CC_WINDOW_MIN;
}

u32 cc_urgency(u32 left, u32 rtt_8us, u32 window, u32 mss, s32 until_us)
{
	u64 pace = 6ULL * window * mss, needed;

	if (until_us <= 0 || !pace)
		return CC_URGENCY_MIN;
	needed = (u64)left * rtt_8us / pace;
	if (needed >= 2ULL * (u32)until_us)
		return CC_URGENCY_MAX;
	if (2 * needed <= (u32)until_us)
		return CC_URGENCY_MIN;
	return needed * CC_EXPONENT_ONE / (u32)until_us;
}

u32 cc_weight(u64 sent)
{
	if (sent <= CC_YOUNG_BYTES)
		return CC_WEIGHT_MAX;
	if (sent >= CC_OLD_BYTES)
		return CC_WEIGHT_MIN;
	return CC_WEIGHT_MAX - (CC_WEIGHT_MAX - CC_WEIGHT_MIN) * (u32)(sent - CC_YOUNG_BYTES) /
			       (CC_OLD_BYTES - CC_YOUNG_BYTES);
}

u32 cc_patience(u32 window, u32 weight)
{
	u64 segments = (u64)window * CC_WEIGHT_MAX / weight;

	return segments < ~0U ? segments : ~0U;
}
