/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "shim-dpif.h"
#include <errno.h>
#include <net/if.h>
#include "netdev-marks.h"
#include "netlink.h"
#include "openvswitch/ofpbuf.h"
#include "packets.h"
#include "shim-hash.h"
#include "shim-netdev.h"
#include "util.h"

/* Which datapaths have bridges.  Without any, the kernel's is asked. */
static bool uses_system = true;
static bool uses_netdev;

/* Says of which datapaths there are bridges.  Returns true if one is new, and
 * may thus lack settings that another has. */
bool
shim_dpif_use(bool system, bool netdev)
{
    bool new;

    system |= !netdev;
    new = (system && !uses_system) || (netdev && !uses_netdev);
    uses_system = system;
    uses_netdev = netdev;
    return new;
}

/* Returns true if any datapath in use has a shim. */
bool
shim_dpif_is_available(void)
{
    return uses_netdev || shim_nl_is_available();
}

/* Returns the name of the device with 'ifindex', or that number if there is no
 * such device; the caller must free it. */
char *
shim_dpif_name(uint32_t ifindex)
{
    char *name = shim_netdev_name(ifindex);
    char kernel[IF_NAMESIZE];

    return (name ? name
            : if_indextoname(ifindex, kernel) ? xstrdup(kernel)
            : xasprintf("%"PRIu32, ifindex));
}

/* Creates or changes a port.  If it is refused, stores in '*reason' why, which
 * the caller must free, or NULL. */
int
shim_dpif_port_set(const struct shim_nl_port *port, char **reason)
{
    return (shim_netdev_has(port->ifindex)
            ? shim_netdev_port_set(port, reason)
            : shim_nl_port_set(port, reason));
}

/* Takes the port with 'ifindex' out of the shim.  'reason' as for
 * shim_dpif_port_set(). */
int
shim_dpif_port_del(uint32_t ifindex, char **reason)
{
    return (shim_netdev_has(ifindex)
            ? shim_netdev_port_del(ifindex, reason)
            : shim_nl_port_del(ifindex, reason));
}

/* Hands the control message of 'len' bytes in 'data' to the VM whose device
 * has 'ifindex', which checks and counts it; EACCES means that it refused. */
int
shim_dpif_message(uint32_t ifindex, const void *data, size_t len)
{
    return (shim_netdev_has(ifindex)
            ? shim_netdev_message(ifindex, data, len)
            : shim_nl_message(ifindex, data, len));
}

/* Appends the '*n' elements of 'size' bytes in '*array' to the '*n_all' in
 * '*all', and frees the former. */
static void
join(void **all, size_t *n_all, void *array, size_t n, size_t size)
{
    if (n) {
        *all = xrealloc(*all, (*n_all + n) * size);
        memcpy((char *) *all + *n_all * size, array, n * size);
        *n_all += n;
    }
    free(array);
}

/* Defines a function that stores all of a kind in a new array, which the
 * caller must free even after an error: what both datapaths have, as far as
 * they are in use. */
#define DEFINE_DUMP(KIND, STRUCT, PROTO, ...)                               \
int                                                                         \
shim_dpif_dump_##KIND PROTO                                                 \
{                                                                           \
    struct STRUCT *array = NULL;                                            \
    void *all = NULL;                                                       \
    int error = 0;                                                          \
    size_t n;                                                               \
                                                                            \
    *n_all = 0;                                                             \
    if (uses_netdev) {                                                      \
        error = shim_netdev_dump_##KIND(__VA_ARGS__);                       \
        join(&all, n_all, array, n, sizeof *array);                         \
    }                                                                       \
    if (!error && uses_system) {                                            \
        error = shim_nl_dump_##KIND(__VA_ARGS__);                           \
        join(&all, n_all, array, n, sizeof *array);                         \
        if (error == ENOENT && uses_netdev) {                               \
            error = 0;                                                      \
        }                                                                   \
    }                                                                       \
    *allp = all;                                                            \
    return error;                                                           \
}
DEFINE_DUMP(ports, shim_nl_port,
            (struct shim_nl_port **allp, size_t *n_all), &array, &n)
DEFINE_DUMP(limiters, shim_nl_limiter,
            (struct shim_nl_limiter **allp, size_t *n_all), &array, &n)
DEFINE_DUMP(peers, shim_nl_peer,
            (uint64_t since_ns, struct shim_nl_peer **allp, size_t *n_all),
            since_ns, &array, &n)
DEFINE_DUMP(paths, shim_nl_path,
            (struct shim_nl_path **allp, size_t *n_all), &array, &n)

/* All paths that the last reading showed. */
static struct hmap paths = HMAP_INITIALIZER(&paths);

/* CLOCK_MONOTONIC of the last reading of 'paths' in ns; 0 before the first. */
static uint64_t paths_ns;

/* Returns the entry of 'paths' that 'read' is about, which it creates if there
 * is none. */
static struct shim_dpif_path *
path_get(const struct shim_nl_path *read)
{
    uint32_t hash = shim_hash(&read->prefix, sizeof read->prefix,
                              read->vm ^ (uint64_t) read->bits << 32);
    struct shim_dpif_path *path;

    HMAP_FOR_EACH_WITH_HASH (path, hmap_node, hash, &paths) {
        if (path->path.vm == read->vm && path->path.bits == read->bits
            && path->path.scope == read->scope
            && ipv6_addr_equals(&path->path.prefix, &read->prefix)) {
            return path;
        }
    }
    path = xzalloc(sizeof *path);
    hmap_insert(&paths, &path->hmap_node, hash);
    return path;
}

/* Reads the datapaths' paths, as of 'now', unless the last reading is fresh
 * enough.  If any moved, begins a new generation: counts up '*generation'.
 * Returns CLOCK_MONOTONIC of the last reading in ns. */
uint64_t
shim_dpif_refresh_paths(uint64_t now, uint64_t *generation)
{
    struct shim_nl_path *read;
    struct shim_dpif_path *path;
    bool moved = false;
    size_t n;

    if (paths_ns && now - paths_ns <= NETDEV_MARKS_FRESH_NS) {
        return paths_ns;
    }
    if (shim_dpif_dump_paths(&read, &n)) {
        n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        path = path_get(&read[i]);
        path->seen_ns = now;
        if (memcmp(&path->path, &read[i], sizeof path->path)) {
            path->path = read[i];
            path->generation = *generation + 1;
            moved = true;
        }
    }
    free(read);
    *generation += moved;
    paths_ns = now;

    HMAP_FOR_EACH_SAFE (path, hmap_node, &paths) {
        if (path->seen_ns != now) {
            hmap_remove(&paths, &path->hmap_node);
            free(path);
        }
    }
    return paths_ns;
}

/* Returns all paths that the last reading showed, each a struct
 * shim_dpif_path. */
const struct hmap *
shim_dpif_paths(void)
{
    return &paths;
}

/* Changes the settings named in 'attrs', OVS_SHIM_SETTINGS_* attributes, all
 * or none.  'reason' as for shim_dpif_port_set(). */
int
shim_dpif_settings_set(const struct ofpbuf *attrs, char **reason)
{
    int error = uses_netdev ? shim_netdev_settings_set(attrs, reason) : 0;

    if (!error && uses_system) {
        error = shim_nl_settings_set(attrs, reason);
        if (error == ENOENT && !*reason && uses_netdev) {
            error = 0;
        }
    }
    return error;
}

/* Appends the settings in force, OVS_SHIM_SETTINGS_* attributes, to 'attrs'.
 * Period and knobs are those of the law 'of', or if that is NULL of the law in
 * force.  Both datapaths have the same, but only the kernel may lose them. */
int
shim_dpif_settings_get(const char *of, struct ofpbuf *attrs)
{
    int error = uses_system ? shim_nl_settings_get(of, attrs) : ENOENT;

    return (error == ENOENT && uses_netdev
            ? shim_netdev_settings_get(of, attrs) : error);
}

/* If the knob 'name' begins with that of a law that the datapaths have, stores
 * the law in 'law' and returns what follows the '-' behind it.  Otherwise
 * returns NULL. */
const char *
shim_dpif_knob_of_law(const char *name, char law[SHIM_LAW_SIZE])
{
    const struct nlattr *laws, *one;
    const char *rest = NULL;
    struct ofpbuf b;
    size_t left;

    ofpbuf_init(&b, 4096);
    if (!shim_dpif_settings_get(NULL, &b)
        && (laws = nl_attr_find(&b, 0, OVS_SHIM_SETTINGS_LAWS))) {
        NL_NESTED_FOR_EACH (one, left, laws) {
            const char *s = nl_attr_get_string(one);
            size_t n = strlen(s);

            if (n < SHIM_LAW_SIZE && !strncmp(name, s, n) && name[n] == '-') {
                ovs_strlcpy(law, s, SHIM_LAW_SIZE);
                rest = name + n + 1;
                break;
            }
        }
    }
    ofpbuf_uninit(&b);
    return rest;
}

/* Returns the default of the knob 'name' of the law 'of', by default the one
 * in force, as a string that the caller must free, or NULL if they do not
 * tell. */
char *
shim_dpif_knob_default(const char *of, const char *name)
{
    const struct nlattr *knobs, *knob;
    char *value = NULL;
    struct ofpbuf b;
    size_t left;

    ofpbuf_init(&b, 4096);
    if (!shim_dpif_settings_get(of, &b)
        && (knobs = nl_attr_find(&b, 0, OVS_SHIM_SETTINGS_KNOBS))) {
        NL_NESTED_FOR_EACH (knob, left, knobs) {
            const struct nlattr *n = nl_attr_find_nested(knob,
                                                         OVS_SHIM_KNOB_NAME);
            const struct nlattr *d = nl_attr_find_nested(
                knob, OVS_SHIM_KNOB_DEFAULT);
            if (n && d && !strcmp(nl_attr_get_string(n), name)) {
                value = xasprintf("%"PRIu64, nl_attr_get_u64(d));
                break;
            }
        }
    }
    ofpbuf_uninit(&b);
    return value;
}

/* Appends a knob to 'knobs'. */
void
shim_dpif_put_knob(const char *name, uint64_t value, struct ofpbuf *knobs)
{
    size_t ofs = nl_msg_start_nested(knobs,
                                     OVS_SHIM_KNOBS_KNOB | NLA_F_NESTED);
    nl_msg_put_string(knobs, OVS_SHIM_KNOB_NAME, name);
    nl_msg_put_u64(knobs, OVS_SHIM_KNOB_VALUE, value);
    nl_msg_end_nested(knobs, ofs);
}
