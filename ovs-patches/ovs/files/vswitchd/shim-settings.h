/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_SETTINGS_H
#define VSWITCHD_SHIM_SETTINGS_H 1

#include <stdbool.h>

struct ds;
struct smap;

/* What Open_vSwitch:other_config:shim-* asks for, and what the kernel's shim
 * has of it.  Main thread only.
 *
 * Complaints about values that cannot be used are sentences appended to a
 * "struct ds".  The value in force before stays so. */

bool shim_settings_configure(const struct smap *other_config,
                             struct ds *complaints);
const char *shim_settings_law(void);
void shim_settings_push(struct ds *complaints);
bool shim_settings_lost(void);
void shim_settings_forget(void);

#endif /* vswitchd/shim-settings.h */
