/* SPDX-License-Identifier: Apache-2.0 */
/* A hash under a key that is always the same: what a fuzzer found is found again. */
#include "ovs-patches/ovs/files/lib/shim-hash.h"
#include "shim/core/siphash.h"

uint32_t shim_hash(const void *data, size_t bytes, uint64_t basis)
{
	static const u8 key[SHIM_KEY_BYTES];

	return (uint32_t)(shim_siphash(key, data, bytes) ^ basis);
}
