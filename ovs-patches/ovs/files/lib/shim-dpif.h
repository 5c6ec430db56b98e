/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_DPIF_H
#define SHIM_DPIF_H 1

#include "openvswitch/hmap.h"
#include "shim-netlink.h"

/* The shims of the datapaths that there are bridges of: the kernel's
 * (shim-netlink.h) and the userspace datapath's (shim-netdev.h).  A port
 * belongs to the datapath that has its device, settings are set in both.
 *
 * Main thread only.  Functions that return an int return 0 if successful,
 * otherwise a positive errno value, ENOENT if there is no shim. */

bool shim_dpif_use(bool system, bool netdev);
bool shim_dpif_is_available(void);

char *shim_dpif_name(uint32_t ifindex);
int shim_dpif_port_set(const struct shim_nl_port *, char **reason);
int shim_dpif_port_del(uint32_t ifindex, char **reason);
int shim_dpif_dump_ports(struct shim_nl_port **, size_t *n);
int shim_dpif_dump_limiters(struct shim_nl_limiter **, size_t *n);
int shim_dpif_dump_peers(uint64_t since_ns, struct shim_nl_peer **,
                         size_t *n);
int shim_dpif_dump_paths(struct shim_nl_path **, size_t *n);

/* What one VM sends by one path. */
struct shim_dpif_path {
    struct hmap_node hmap_node; /* In shim_dpif_paths(), by VM and prefix. */
    struct shim_nl_path path;   /* As last read. */
    uint64_t generation;        /* When it last moved. */
    uint64_t seen_ns;           /* When it was last read. */
};

uint64_t shim_dpif_refresh_paths(uint64_t now, uint64_t *generation);
const struct hmap *shim_dpif_paths(void);

int shim_dpif_message(uint32_t ifindex, const void *, size_t len);

int shim_dpif_settings_set(const struct ofpbuf *attrs, char **reason);
int shim_dpif_settings_get(const char *of, struct ofpbuf *attrs);

const char *shim_dpif_knob_of_law(const char *name, char law[SHIM_LAW_SIZE]);
char *shim_dpif_knob_default(const char *of, const char *name);
void shim_dpif_put_knob(const char *name, uint64_t value,
                        struct ofpbuf *knobs);

#endif /* shim-dpif.h */
