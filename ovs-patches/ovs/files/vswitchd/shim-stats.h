/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_STATS_H
#define VSWITCHD_SHIM_STATS_H 1

#include <stdbool.h>
#include <stdint.h>
#include "linux/ovs_shim.h"

/* Names of the counters in Interface:statistics, by OVS_SHIM_STAT_*, NULL for
 * what is none. */
extern const char *const shim_stat_names[OVS_SHIM_STAT_MAX + 1];

bool shim_stat_is_of(uint32_t stat, uint32_t role);

#endif /* vswitchd/shim-stats.h */
