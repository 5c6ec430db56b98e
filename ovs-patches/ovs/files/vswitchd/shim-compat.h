/* SPDX-License-Identifier: Apache-2.0 */

#ifndef VSWITCHD_SHIM_COMPAT_H
#define VSWITCHD_SHIM_COMPAT_H 1

/* What versions of Open vSwitch call differently, told by their headers. */

#include <stdbool.h>

#if __has_include("dpif-offload.h")
#include "dpif-offload.h"
#else
#include "netdev-offload.h"
#endif

/* Returns whether flows are offloaded to devices. */
static inline bool
shim_offload_enabled(void)
{
#if __has_include("dpif-offload.h")
    return dpif_offload_enabled();
#else
    return netdev_is_flow_api_enabled();
#endif
}

#endif /* vswitchd/shim-compat.h */
