/* SPDX-License-Identifier: Apache-2.0 */

/* Each Interface has a port wanted, made from the last usable values of its
 * shim-* keys, and a port that the kernel has, as far as we know.  To
 * synchronize is to send the ports in which these differ.  What the kernel has
 * is read when we begin, so that a restart of ovs-vswitchd disturbs no
 * limiter, when the kernel says that its shim is a new one, and again with
 * each update of statistics, so that a kernel that lost its state gets it
 * back. */

#include <config.h>
#include "bridge-shim.h"
#include <errno.h>
#include "dpif.h"
#include "netdev-provider.h"
#include "netdev-vport.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/shash.h"
#include "openvswitch/vlog.h"
#include "shim-compat.h"
#include "shim-dpif.h"
#include "shim-netlink.h"
#include "shim-port.h"
#include "shim-settings.h"
#include "shim-show.h"
#include "shim-stats.h"
#include "shim-values.h"
#include "smap.h"
#include "unixctl.h"
#include "util.h"
#include "vswitch-idl.h"

VLOG_DEFINE_THIS_MODULE(bridge_shim);

/* An Interface. */
struct shim_iface {
    char *name;                 /* Its name, also the key in 'ifaces'. */
    char *bridge;               /* Name of its bridge. */
    bool seen;                  /* Present in the database just now. */
    bool system;                /* Its datapath is the kernel's. */
    bool netdev;                /* Its datapath is in userspace. */
    bool tunnel;                /* It may share its device with others. */
    int ifindex;                /* The kernel's index, negative if none. */
    struct shim_nl_port want;   /* Last usable values. */
    struct shim_nl_port have;   /* What the kernel has; role none if not. */
    bool reported;              /* Whether 'have.stats' was read. */
    char *qos;                  /* Type of its Port's QoS, NULL if none. */
    char *complaints;           /* About its keys, NULL if none. */
    char *refusal;              /* By the kernel, NULL if none. */
    char *alarm;                /* About its device, NULL if none. */
};

/* All "struct shim_iface"s by name. */
static struct shash ifaces = SHASH_INITIALIZER(&ifaces);

/* Complaints about Open_vSwitch:other_config, and what a datapath refuses of
 * it.  Both NULL if there are none. */
static char *settings_complaints;
static char *settings_refusal;

/* Whether the database asks for anything of the shim, and whether it did
 * before, so that the kernel may hold something of ours. */
static bool enabled;
static bool was_enabled;

/* Whether there is a bridge of the kernel's datapath, and of userspace's. */
static bool any_system, any_netdev;

/* Whether 'have' of each Interface was read from the kernel. */
static bool synchronized;

/* Limits the log of complaints. */
static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(20, 20);

/* Appends all complaints about the settings, of which there may be none, to
 * 's'. */
static void
get_settings_complaints(struct ds *s)
{
    ds_put_cstr(s, settings_complaints ? settings_complaints : "");
    if (settings_refusal) {
        ds_put_format(s, "%s%s", s->length ? " " : "", settings_refusal);
    }
}

/* Appends all complaints about 'iface', of which there may be none, to
 * 's'. */
static void
get_iface_complaints(const struct shim_iface *iface, struct ds *s)
{
    const char *texts[] = { iface->complaints, iface->refusal, iface->alarm };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (texts[i]) {
            ds_put_format(s, "%s%s", s->length ? " " : "", texts[i]);
        }
    }
}

/* Answers "ovs-appctl shim/show". */
static void
bridge_shim_unixctl_show(struct unixctl_conn *conn, int argc,
                         const char *argv[], void *aux OVS_UNUSED)
{
    struct smap complaints = SMAP_INITIALIZER(&complaints);
    struct ds s = DS_EMPTY_INITIALIZER;
    struct shash_node *node;

    if (argc > 1 && strcmp(argv[1], "--json")) {
        unixctl_command_reply_error(conn, "the only option is --json");
        return;
    }
    get_settings_complaints(&s);
    if (s.length) {
        smap_add(&complaints, "Open_vSwitch", ds_cstr(&s));
    }
    SHASH_FOR_EACH (node, &ifaces) {
        const struct shim_iface *iface = node->data;

        ds_clear(&s);
        get_iface_complaints(iface, &s);
        if (s.length) {
            smap_add(&complaints, iface->name, ds_cstr(&s));
        }
    }
    ds_clear(&s);
    shim_show(&s, argc > 1, &complaints);
    unixctl_command_reply(conn, ds_cstr(&s));
    ds_destroy(&s);
    smap_destroy(&complaints);
}

/* Registers the commands of this module. */
void
bridge_shim_init(void)
{
    unixctl_command_register("shim/show", "[--json]", 0, 1,
                             bridge_shim_unixctl_show, NULL);
}

/* Makes '*textp' the text in 'new', or NULL if that is empty, and logs it for
 * 'what' if it is another one.  Destroys 'new'.  Returns true if the text
 * changed. */
static bool
set_text(char **textp, struct ds *new, const char *what)
{
    bool changed = strcmp(*textp ? *textp : "", ds_cstr(new));

    if (changed) {
        free(*textp);
        *textp = new->length ? xstrdup(ds_cstr(new)) : NULL;
        if (*textp) {
            VLOG_WARN_RL(&rl, "%s: %s", what, *textp);
        }
    }
    ds_destroy(new);
    return changed;
}

/* Returns true if the datapath of 'iface' is one of those that may have a
 * shim. */
static bool
has_shim(const struct shim_iface *iface)
{
    return iface->system || iface->netdev;
}

/* Returns true if the database asks for a law, of all VMs or of one. */
static bool
is_any_law(void)
{
    struct shash_node *node;

    if (strcmp(shim_settings_law(), "none")) {
        return true;
    }
    SHASH_FOR_EACH (node, &ifaces) {
        const struct shim_iface *iface = node->data;

        if (has_shim(iface) && iface->want.role == OVS_SHIM_ROLE_VM
            && strcmp(iface->want.law, "default")
            && strcmp(iface->want.law, "none")) {
            return true;
        }
    }
    return false;
}

/* Complains if what OVS offloads, to tc-flower or to DPDK's devices, passes a
 * law by. */
static void
check_offload(struct ds *complaints)
{
    if ((any_system || any_netdev) && shim_offload_enabled()
        && is_any_law()) {
        shim_complain(complaints, "hw-offload: flows that are offloaded pass "
                      "the shim by and are not limited; set it to false and "
                      "restart ovs-vswitchd");
    }
}

/* Says so if the queuing discipline of 'iface' does not obey departure times
 * or, after that, does again.  Returns true if that changed. */
static bool
check_qdisc(struct shim_iface *iface)
{
    bool unfit = (iface->have.role == OVS_SHIM_ROLE_UPLINK
                  && iface->have.qdisc == OVS_SHIM_QDISC_UNFIT
                  && is_any_law());
    struct ds alarm = DS_EMPTY_INITIALIZER;

    if (unfit) {
        shim_complain(&alarm, "the queuing discipline of its device does not "
                      "obey departure times, so no packet is delayed here; "
                      "set up fq, below mq if there are several queues, or "
                      "shim-limiter=police");
        if (iface->qos) {
            shim_complain(&alarm, "its Port has a QoS of type %s, which "
                          "replaces others; clear Port:qos first",
                          iface->qos);
        }
    } else if (iface->alarm) {
        VLOG_INFO("%s: no queuing discipline that ignores departure times any "
                  "more", iface->name);
    }
    return set_text(&iface->alarm, &alarm, iface->name);
}

/* Synchronization with the kernel. */

/* Reads from the kernel what it has of each Interface, with counters. */
static void
read_kernel(void)
{
    struct shim_nl_port *ports;
    struct shash_node *node;
    size_t n;

    if (!shim_dpif_dump_ports(&ports, &n)) {
        SHASH_FOR_EACH (node, &ifaces) {
            struct shim_iface *iface = node->data;

            memset(&iface->have, 0, sizeof iface->have);
            iface->reported = false;
            for (size_t i = 0; i < n; i++) {
                if (has_shim(iface) && ports[i].ifindex == iface->ifindex) {
                    iface->have = ports[i];
                    iface->reported = true;
                }
            }
        }
        synchronized = true;
    }
    free(ports);
}

/* Takes the port that the kernel has of 'iface' out of the shim. */
static void
delete_port(struct shim_iface *iface)
{
    if (iface->have.role != OVS_SHIM_ROLE_NONE) {
        char *reason;

        /* It may be gone with its device. */
        shim_dpif_port_del(iface->have.ifindex, &reason);
        free(reason);
        memset(&iface->have, 0, sizeof iface->have);
        iface->reported = false;
    }
}

/* Returns the Interface before position 'n' of 'sorted' that wants a port for
 * the same device as 'iface', or NULL.  Tunnels of one kind share a device. */
static const struct shim_iface *
find_owner(const struct shash_node **sorted, size_t n,
           const struct shim_iface *iface)
{
    for (size_t i = 0; i < n; i++) {
        const struct shim_iface *other = sorted[i]->data;

        if (has_shim(other) && other->ifindex == iface->ifindex
            && other->want.role != OVS_SHIM_ROLE_NONE) {
            return other;
        }
    }
    return NULL;
}

/* Makes the kernel's port of 'iface' the one wanted, with complaints if it
 * refuses. */
static void
push_port(struct shim_iface *iface, struct ds *complaints)
{
    struct shim_nl_port want = iface->want;

    want.ifindex = iface->ifindex;
    if (!enabled || want.role == OVS_SHIM_ROLE_NONE) {
        delete_port(iface);
        return;
    }
    if (iface->have.role != OVS_SHIM_ROLE_NONE
        && iface->have.ifindex != want.ifindex) {
        memset(&iface->have, 0, sizeof iface->have);
    }
    if (!shim_port_differs(&want, &iface->have)) {
        return;
    }

    char *reason;
    int error = shim_dpif_port_set(&want, &reason);
    if (!error) {
        memcpy(want.stats, iface->have.stats, sizeof want.stats);
        want.qdisc = iface->have.qdisc;
        iface->have = want;
    } else if (error != ENOENT || reason) {
        shim_complain(complaints, "the datapath refuses the port (%s)",
                      reason ? reason : ovs_strerror(error));
    }
    free(reason);
}

/* Returns true if a law is asked for on the kernel's datapath, and the kernel
 * that runs has no shim. */
static bool
is_shim_absent(void)
{
    return any_system && is_any_law() && !shim_nl_is_available();
}

/* Makes the port of the Interface at position 'i' of 'sorted' the one wanted,
 * with complaints if that cannot be. */
static void
synchronize_port(const struct shash_node **sorted, size_t i,
                 struct ds *complaints)
{
    struct shim_iface *iface = sorted[i]->data;
    const struct shim_iface *owner;

    if (iface->system && is_shim_absent()) {
        if (iface->want.role != OVS_SHIM_ROLE_NONE) {
            shim_complain(complaints, "nothing is limited here: the kernel "
                          "has no "OVS_SHIM_FAMILY" family");
        }
        return;
    }
    owner = iface->tunnel ? find_owner(sorted, i, iface) : NULL;
    if (!owner) {
        push_port(iface, complaints);
    } else if (iface->want.role != OVS_SHIM_ROLE_NONE
               && shim_port_differs(&iface->want, &owner->want)) {
        shim_complain(complaints, "it shares a device with %s, whose "
                      "settings are in force", owner->name);
    }
}

/* Brings the kernel's settings in line with those wanted, with complaints if
 * that cannot be. */
static void
synchronize_settings(struct ds *complaints)
{
    if (is_shim_absent()) {
        shim_complain(complaints, "shim-law: nothing is limited, for the "
                      "kernel has no "OVS_SHIM_FAMILY" family; its module is "
                      "not loaded, or there is none for this kernel");
    }
    if (shim_dpif_is_available()) {
        if (!synchronized) {
            read_kernel();
        }
        shim_settings_push(complaints);
    } else {
        synchronized = false;
        shim_settings_forget();
    }
}

/* Brings the kernel in line with what is wanted.  Returns true if there is
 * something else to complain about than before. */
static bool
synchronize(void)
{
    struct ds refusal = DS_EMPTY_INITIALIZER;
    synchronize_settings(&refusal);
    bool changed = set_text(&settings_refusal, &refusal, "Open_vSwitch");

    const struct shash_node **sorted = shash_sort(&ifaces);
    size_t n = shash_count(&ifaces);
    for (size_t i = 0; i < n; i++) {
        struct shim_iface *iface = sorted[i]->data;

        ds_init(&refusal);
        if (has_shim(iface) && iface->ifindex > 0) {
            synchronize_port(sorted, i, &refusal);
        }
        changed |= set_text(&iface->refusal, &refusal, iface->name);
        changed |= check_qdisc(iface);
    }
    free(sorted);
    return changed;
}

/* Returns true if there is, or may be, something of ours in the kernel. */
static bool
is_in_use(void)
{
    return (any_system || any_netdev) && (enabled || was_enabled);
}

/* Begins to take in a new configuration of bridges. */
void
bridge_shim_begin(void)
{
    struct shash_node *node;

    was_enabled |= enabled;
    enabled = any_system = any_netdev = false;
    SHASH_FOR_EACH (node, &ifaces) {
        struct shim_iface *iface = node->data;
        iface->seen = false;
    }
}

/* Takes in the Interface with row 'cfg' and device 'netdev' of the Port with
 * row 'port' on the bridge named 'bridge' of 'datapath_type'. */
void
bridge_shim_add_iface(const struct ovsrec_interface *cfg,
                      const struct ovsrec_port *port,
                      const struct netdev *netdev, const char *bridge,
                      const char *datapath_type)
{
    struct shim_iface *iface = shash_find_data(&ifaces, cfg->name);
    struct ds complaints = DS_EMPTY_INITIALIZER;

    if (!iface) {
        iface = xzalloc(sizeof *iface);
        iface->name = xstrdup(cfg->name);
        iface->want.weight = 1;
        ovs_strlcpy(iface->want.law, "default", sizeof iface->want.law);
        shash_add(&ifaces, cfg->name, iface);
    }
    if (!nullable_string_is_equal(iface->bridge, bridge)) {
        /* The kernel forgets a port that leaves a bridge. */
        free(iface->bridge);
        iface->bridge = xstrdup(bridge);
        memset(&iface->have, 0, sizeof iface->have);
        iface->reported = false;
    }
    iface->seen = true;
    iface->tunnel = netdev_vport_is_vport_class(netdev_get_class(netdev));
    iface->system = !strcmp(dpif_normalize_type(datapath_type), "system");
    iface->netdev = (!strcmp(datapath_type, "netdev")
                     || !strcmp(datapath_type, "dummy"));
    iface->ifindex = (has_shim(iface) && !(iface->netdev && iface->tunnel)
                      ? netdev_get_ifindex(netdev) : -1);
    any_system |= iface->system;
    any_netdev |= iface->netdev;
    free(iface->qos);
    iface->qos = nullable_xstrdup(port->qos && *port->qos->type
                                  ? port->qos->type : NULL);
    enabled |= shim_port_configure(cfg, port, netdev, &iface->want,
                                   &complaints);
    if (iface->netdev && iface->tunnel) {
        shim_port_check_tunnel(cfg, port, &complaints);
    }
    set_text(&iface->complaints, &complaints, iface->name);
}

/* Forgets the Interfaces that are no longer in the database, in the kernel
 * too. */
static void
forget_unseen(void)
{
    struct shash_node *node;

    SHASH_FOR_EACH_SAFE (node, &ifaces) {
        struct shim_iface *iface = node->data;

        if (!iface->seen) {
            delete_port(iface);
            shash_delete(&ifaces, node);
            free(iface->name);
            free(iface->bridge);
            free(iface->qos);
            free(iface->complaints);
            free(iface->refusal);
            free(iface->alarm);
            free(iface);
        }
    }
}

/* Tells the complaints about the settings in 'cfg':statistics, unless they
 * stand there. */
static void
report_settings(const struct ovsrec_open_vswitch *cfg)
{
    const char *old = smap_get(&cfg->statistics, "shim-error");
    struct ds s = DS_EMPTY_INITIALIZER;

    if (!cfg->header_.table) {
        return;                 /* The database has no root row. */
    }
    get_settings_complaints(&s);
    if (s.length && (!old || strcmp(old, ds_cstr(&s)))) {
        ovsrec_open_vswitch_update_statistics_setkey(cfg, "shim-error",
                                                     ds_cstr(&s));
    } else if (!s.length && old) {
        ovsrec_open_vswitch_update_statistics_delkey(cfg, "shim-error");
    }
    ds_destroy(&s);
}

/* Ends taking in a new configuration, of which 'cfg' is the root, and brings
 * the kernel in line with it. */
void
bridge_shim_commit(const struct ovsrec_open_vswitch *cfg)
{
    struct ds complaints = DS_EMPTY_INITIALIZER;

    forget_unseen();
    enabled |= shim_settings_configure(&cfg->other_config, &complaints);
    check_offload(&complaints);
    if (shim_dpif_use(any_system, any_netdev)) {
        shim_settings_forget();
    }
    set_text(&settings_complaints, &complaints, "Open_vSwitch");
    if (is_in_use()) {
        synchronize();
    }
    report_settings(cfg);
}

/* Reads the counters, and brings a kernel that lost its state back in line
 * with the configuration whose root is 'cfg'.  Returns true if the status of
 * some Interface changed. */
bool
bridge_shim_refresh(const struct ovsrec_open_vswitch *cfg)
{
    bool changed = false;

    if (is_in_use()) {
        if (shim_dpif_is_available()) {
            if (shim_settings_lost()) {
                VLOG_INFO("the kernel's shim lost its settings, setting them "
                          "anew");
                shim_settings_forget();
            }
            read_kernel();
        }
        changed = synchronize();
    }
    report_settings(cfg);
    return changed;
}

/* Sets everything anew in a shim that the kernel did not have before, at once.
 * Returns true if the status of some Interface changed. */
bool
bridge_shim_run(void)
{
    if (!shim_nl_run() || !is_in_use()) {
        return false;
    }
    VLOG_INFO("the kernel has a new shim, setting it up");
    synchronized = false;
    shim_settings_forget();
    return synchronize();
}

/* Wakes the poll loop when bridge_shim_run() has something to do. */
void
bridge_shim_wait(void)
{
    shim_nl_wait();
}

/* Adds to 'smap' what Interface:status says about the Interface named 'name'.
 * Returns true if there is anything. */
bool
bridge_shim_get_status(const char *name, struct smap *smap)
{
    const struct shim_iface *iface = shash_find_data(&ifaces, name);

    if (!iface || !(iface->complaints || iface->refusal || iface->alarm)) {
        return false;
    }

    struct ds s = DS_EMPTY_INITIALIZER;
    get_iface_complaints(iface, &s);
    smap_add_nocopy(smap, xstrdup("shim-error"), ds_steal_cstr(&s));
    if (iface->alarm) {
        smap_add(smap, "shim_qdisc", "unfit");
    }
    return true;
}

/* Stores names and values of the counters of the Interface named 'name' in
 * 'keys' and 'values', which must have room for BRIDGE_SHIM_MAX_STATS each.
 * Returns how many there are. */
int
bridge_shim_get_stats(const char *name, const char **keys, int64_t *values)
{
    const struct shim_iface *iface = shash_find_data(&ifaces, name);
    int n = 0;

    if (iface && iface->reported) {
        for (size_t i = 0; i <= OVS_SHIM_STAT_MAX; i++) {
            if (shim_stat_is_of(i, iface->have.role)) {
                keys[n] = shim_stats[i].name;
                values[n++] = iface->have.stats[i];
            }
        }
    }
    return n;
}

/* Adds to 'smap' what Open_vSwitch:statistics says about the settings. */
void
bridge_shim_get_system_stats(struct smap *smap)
{
    struct ds s = DS_EMPTY_INITIALIZER;

    get_settings_complaints(&s);
    if (s.length) {
        smap_replace(smap, "shim-error", ds_cstr(&s));
    }
    ds_destroy(&s);
}
