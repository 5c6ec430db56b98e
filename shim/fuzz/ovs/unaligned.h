/* SPDX-License-Identifier: Apache-2.0 */
/* Words at any address. */
#ifndef FUZZ_UNALIGNED_H
#define FUZZ_UNALIGNED_H

#include "util.h"

/* Returns a word. */
static inline ovs_be16 get_unaligned_be16(const void *at)
{
	ovs_be16 word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Writes a word. */
static inline void put_unaligned_be16(void *at, ovs_be16 word)
{
	memcpy(at, &word, sizeof(word));
}

#endif
