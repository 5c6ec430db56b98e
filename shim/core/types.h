/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Integer types for the shim core.
 *
 * The core is freestanding: the same files compile in the kernel, in user
 * space and in simulators.  This is the only file that knows the difference.
 */
#ifndef SHIM_CORE_TYPES_H
#define SHIM_CORE_TYPES_H

#ifdef __KERNEL__
#include <linux/math64.h>

/* Returns a / b; b is not 0. */
static inline u64 shim_div(u64 a, u64 b)
{
	return div64_u64(a, b);
}
#else
#include <stdbool.h>
#include <stddef.h>
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

/* Returns a / b; b is not 0. */
static inline u64 shim_div(u64 a, u64 b)
{
	return a / b;
}
#endif

/* Elements of an array. */
#define SHIM_COUNT(array) (sizeof(array) / sizeof(*(array)))

#define SHIM_NSEC_PER_SEC 1000000000ULL
#define SHIM_USEC_PER_SEC 1000000ULL

/* Denominator of numbers that are parts in a million. */
#define SHIM_PPM 1000000ULL

/* Slowest and fastest rate a limiter accepts: 1 kb/s and 800 Gb/s. */
#define SHIM_RATE_MIN 125ULL		/* bytes/s */
#define SHIM_RATE_MAX 100000000000ULL	/* bytes/s */

/* Bytes of a full packet where none was seen: Ethernet's, with its header, without FCS. */
#define SHIM_FRAME_DEFAULT 1514U

/* The largest that counts, bytes: a full IP packet with an Ethernet header. */
#define SHIM_FRAME_MAX 65549U

#endif
