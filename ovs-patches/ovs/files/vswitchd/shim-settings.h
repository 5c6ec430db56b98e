/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_SETTINGS_H
#define VSWITCHD_SHIM_SETTINGS_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "openvswitch/compiler.h"

struct ds;
struct smap;

/* What Open_vSwitch:other_config:shim-* asks for, and what the kernel's shim
 * has of it.  Main thread only.
 *
 * Complaints about values that cannot be used are sentences appended to a
 * "struct ds".  The value in force before stays so. */

/* Range of a number in other_config. */
struct shim_range {
    uint64_t min;               /* Smallest value allowed. */
    uint64_t max;               /* Largest value allowed. */
    const char *unit;           /* After a number, e.g. " us". */
    const char *zero;           /* What 0 means, NULL if 0 is as any other. */
};

void shim_complain(struct ds *complaints, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);
bool shim_parse_u64(const char *s, uint64_t *);
void shim_parse_number(const struct smap *, const char *key,
                       const struct shim_range *, uint64_t def,
                       uint64_t scale, uint64_t *value,
                       struct ds *complaints);

bool shim_settings_configure(const struct smap *other_config,
                             struct ds *complaints);
void shim_settings_push(struct ds *complaints);
bool shim_settings_lost(void);
void shim_settings_forget(void);

#endif /* vswitchd/shim-settings.h */
