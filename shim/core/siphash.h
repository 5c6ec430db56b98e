/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * SipHash-2-4 (Aumasson and Bernstein, 2012), the tag of control messages.
 */
#ifndef SHIM_CORE_SIPHASH_H
#define SHIM_CORE_SIPHASH_H

#include "types.h"

#define SHIM_KEY_BYTES 16

/* Returns SipHash-2-4 of len bytes under a 16-byte key. */
u64 shim_siphash(const u8 key[SHIM_KEY_BYTES], const u8 *data, size_t len);

#endif
