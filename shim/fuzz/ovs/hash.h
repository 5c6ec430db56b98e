/* SPDX-License-Identifier: Apache-2.0 */
/* A hash. */
#ifndef FUZZ_HASH_H
#define FUZZ_HASH_H

#include "util.h"

/* Returns a hash of n bytes: FNV-1a. */
static inline uint32_t hash_bytes(const void *bytes, size_t n, uint32_t basis)
{
	const u8 *byte = bytes;

	basis ^= 2166136261U;
	while (n--)
		basis = (basis ^ *byte++) * 16777619U;
	return basis;
}

#endif
