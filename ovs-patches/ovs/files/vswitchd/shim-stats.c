/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "shim-stats.h"

/* A counter as the header lists it. */
#define STAT(NAME, LOWER, KIND) \
    [OVS_SHIM_STAT_##NAME] = { "shim_" #LOWER, SHIM_STAT_##KIND },

const struct shim_stat shim_stats[OVS_SHIM_STAT_MAX + 1] = {
    OVS_SHIM_STATS(STAT)
};

/* Returns true if ports of 'role', OVS_SHIM_ROLE_*, have the counter 'stat',
 * OVS_SHIM_STAT_*. */
bool
shim_stat_is_of(uint32_t stat, uint32_t role)
{
    enum shim_stat_kind kind = shim_stats[stat].kind;

    if (kind == SHIM_STAT_UNUSED) {
        return false;
    }
    return ((role == OVS_SHIM_ROLE_UPLINK)
            == (kind == SHIM_STAT_STRAY || kind == SHIM_STAT_STRAY_DROP));
}
