/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of D2TCP and L2DCT, the same in the kernel and in its tests.
 */
#ifndef CONGESTION_ALGEBRA_H
#define CONGESTION_ALGEBRA_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
#endif

/* 1 as a fraction (alpha, p), in 2^-30, and as an exponent (d, weight), in 2^-10. */
#define CC_ONE 0x40000000U
#define CC_EXPONENT_ONE 1024U

/* Bounds of D2TCP's exponent: 0.5 and 2.0. */
#define CC_URGENCY_MIN (CC_EXPONENT_ONE / 2)
#define CC_URGENCY_MAX (CC_EXPONENT_ONE * 2)

/* Bounds of L2DCT's weight: 0.125 and 2.5. */
#define CC_WEIGHT_MIN (CC_EXPONENT_ONE / 8)
#define CC_WEIGHT_MAX (CC_EXPONENT_ONE * 5 / 2)

/* Bytes sent up to which a flow has L2DCT's largest weight, from which on it has the smallest. */
#define CC_YOUNG_BYTES 200000U
#define CC_OLD_BYTES 1000000U

/* Smallest window after a cut, segments. */
#define CC_WINDOW_MIN 2U

/* Returns alpha after a window of which marked segments of delivered ones were marked. */
u32 cc_estimate(u32 alpha, u32 marked, u32 delivered);

/* Returns alpha^exponent, rounded down; alpha at most CC_ONE, exponent at most CC_WEIGHT_MAX. */
u32 cc_power(u32 alpha, u32 exponent);

/* Returns window * (1 - p / 2) segments, at least CC_WINDOW_MIN; p at most CC_ONE. */
u32 cc_cut(u32 window, u32 p);

/*
 * Returns D2TCP's d for a flow with left bytes to send, a smoothed round trip of rtt_8us (1/8 us),
 * a window of segments of mss bytes (below 2^16) and until_us to its deadline, below 0 when that
 * has passed.
 */
u32 cc_urgency(u32 left, u32 rtt_8us, u32 window, u32 mss, s32 until_us);

/* Returns L2DCT's weight of a flow that has sent so many bytes. */
u32 cc_weight(u64 sent);

/* Returns how many segments must be acknowledged for L2DCT's window of that many to grow by one. */
u32 cc_patience(u32 window, u32 weight);

#endif
