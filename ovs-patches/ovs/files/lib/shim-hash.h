/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_HASH_H
#define SHIM_HASH_H 1

/* Hashes of what others choose, such as addresses: under a secret key, so that
 * nobody can make many of them collide. */

#include <stddef.h>
#include <stdint.h>

void shim_secret(void *, size_t);
uint32_t shim_hash(const void *, size_t, uint64_t basis);

#endif /* shim-hash.h */
