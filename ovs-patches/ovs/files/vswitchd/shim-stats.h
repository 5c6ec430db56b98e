/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_STATS_H
#define VSWITCHD_SHIM_STATS_H 1

#include <stdbool.h>
#include <stdint.h>
#include "linux/ovs_shim.h"

/* What a counter is. */
enum shim_stat_kind {
    SHIM_STAT_UNUSED,           /* No counter. */
    SHIM_STAT_VM,               /* Of a VM. */
    SHIM_STAT_DROP,             /* Of a VM: packets that were dropped. */
    SHIM_STAT_REFUSED,          /* Of a VM: messages that were refused. */
    SHIM_STAT_STRAY,            /* Of an uplink: strays. */
    SHIM_STAT_STRAY_DROP,       /* Of these, packets that were dropped. */
};

/* A counter. */
struct shim_stat {
    const char *name;           /* In Interface:statistics. */
    enum shim_stat_kind kind;
};

/* The counters, by OVS_SHIM_STAT_*. */
extern const struct shim_stat shim_stats[OVS_SHIM_STAT_MAX + 1];

bool shim_stat_is_of(uint32_t stat, uint32_t role);

#endif /* vswitchd/shim-stats.h */
