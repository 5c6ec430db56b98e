/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_BRIDGE_SHIM_H
#define VSWITCHD_BRIDGE_SHIM_H 1

#include <stdbool.h>
#include <stdint.h>
#include "linux/ovs_shim.h"

struct netdev;
struct ovsrec_interface;
struct ovsrec_open_vswitch;
struct ovsrec_port;
struct smap;

/* Carries the keys shim-* of Open_vSwitch, Interface and Port to the kernel's
 * shim, and its counters back.  Main thread only. */

/* Most counters that bridge_shim_get_stats() yields. */
enum { BRIDGE_SHIM_MAX_STATS = OVS_SHIM_STAT_MAX };

void bridge_shim_init(void);

/* To be called within a database transaction: the first three in this order
 * when bridges were reconfigured, the last with each update of statistics. */
void bridge_shim_begin(void);
void bridge_shim_add_iface(const struct ovsrec_interface *,
                           const struct ovsrec_port *, const struct netdev *,
                           const char *bridge, const char *datapath_type);
void bridge_shim_commit(const struct ovsrec_open_vswitch *);
bool bridge_shim_refresh(const struct ovsrec_open_vswitch *);

/* To be called from the main loop; the first needs no transaction. */
bool bridge_shim_run(void);
void bridge_shim_wait(void);

bool bridge_shim_get_status(const char *iface, struct smap *);
int bridge_shim_get_stats(const char *iface, const char **keys,
                          int64_t *values);
void bridge_shim_get_system_stats(struct smap *);

#endif /* vswitchd/bridge-shim.h */
