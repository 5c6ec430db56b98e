/* SPDX-License-Identifier: Apache-2.0 */

/* Hashes under the process's secret key. */

#include <config.h>
#include "shim-hash.h"
#include "entropy.h"
#include "ovs-thread.h"
#include "random.h"
#include "shim/core/siphash.h"
#include "util.h"

/* Fills 'bytes' bytes at 'to' with what nobody can guess. */
void
shim_secret(void *to, size_t bytes)
{
    if (get_entropy(to, bytes)) {
        /* It has been logged. */
        random_bytes(to, bytes);
    }
}

/* Returns a hash of 'bytes' bytes at 'data' and of 'basis'. */
uint32_t
shim_hash(const void *data, size_t bytes, uint64_t basis)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;
    static uint8_t key[SHIM_KEY_BYTES];
    uint64_t hash;

    if (ovsthread_once_start(&once)) {
        shim_secret(key, sizeof key);
        ovsthread_once_done(&once);
    }
    hash = shim_siphash(key, data, bytes) ^ basis;
    return shim_siphash(key, (const uint8_t *) &hash, sizeof hash);
}
