/* SPDX-License-Identifier: Apache-2.0 */

/* Turns what the database says of an Interface into a port of the kernel's
 * shim.
 *
 * Keys shim-* stand in Interface:other_config, Interface:external_ids and
 * Port:other_config; where several have the same key, the one named first here
 * counts.  The second and third are for keys that a cloud's agent writes: it
 * may clear Interface:other_config whenever it binds a port. */

#include <config.h>
#include "shim-port.h"
#include <unistd.h>
#include "netdev-provider.h"
#include "netdev-vport.h"
#include "openvswitch/dynamic-string.h"
#include "packets.h"
#include "shim-netlink.h"
#include "shim-values.h"
#include "smap.h"
#include "util.h"
#include "vswitch-idl.h"

/* Link to the device behind a network device, which only those on a bus
 * have. */
#define DEVICE_LINK "/sys/class/net/%s/device"

/* Names of roles, by OVS_SHIM_ROLE_*. */
static const char *const role_names[] = { "none", "vm", "uplink" };

/* Longest name of a tenant. */
#define TENANT_LEN_MAX 64

/* Copies the keys of 'from' that are the shim's into 'settings', in place of
 * those that are there, and notes 'column' as their origin. */
static void
take_settings(const struct smap *from, const char *column,
              struct smap *settings, struct smap *origins)
{
    const struct smap_node *node;

    SMAP_FOR_EACH (node, from) {
        if (!strncmp(node->key, "shim-", 5)) {
            smap_replace(settings, node->key, node->value);
            smap_replace(origins, node->key, column);
        }
    }
}

/* Stores in 'settings' the keys shim-* that count for the Interface with row
 * 'cfg' of the Port with row 'port', and in 'origins' the column that each is
 * from.  Both must be empty. */
static void
collect_settings(const struct ovsrec_interface *cfg,
                 const struct ovsrec_port *port, struct smap *settings,
                 struct smap *origins)
{
    take_settings(&port->other_config, "Port:other_config", settings,
                  origins);
    take_settings(&cfg->external_ids, "Interface:external_ids", settings,
                  origins);
    take_settings(&cfg->other_config, "Interface:other_config", settings,
                  origins);
}

/* Returns the role of an Interface whose row 'cfg' does not say, with device
 * 'netdev'. */
static uint32_t
default_role(const struct ovsrec_interface *cfg, const struct netdev *netdev)
{
    if (smap_get(&cfg->external_ids, "iface-id")) {
        return OVS_SHIM_ROLE_VM;
    }
    if (netdev_vport_is_vport_class(netdev_get_class(netdev))) {
        return (netdev_vport_is_patch(netdev)
                ? OVS_SHIM_ROLE_NONE : OVS_SHIM_ROLE_UPLINK);
    }
    if (!strcmp(netdev_get_type(netdev), "system")) {
        char *path = xasprintf(DEVICE_LINK, netdev_get_name(netdev));
        bool physical = !access(path, F_OK);

        free(path);
        return physical ? OVS_SHIM_ROLE_UPLINK : OVS_SHIM_ROLE_NONE;
    }
    return OVS_SHIM_ROLE_NONE;
}

/* Takes the role of an Interface from its 'settings', or else from its row
 * 'cfg' and device 'netdev'. */
static void
parse_role(const struct smap *settings, const struct ovsrec_interface *cfg,
           const struct netdev *netdev, uint32_t *role, struct ds *complaints)
{
    const char *s = smap_get(settings, "shim-role");

    if (!s) {
        *role = default_role(cfg, netdev);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(role_names); i++) {
        if (!strcmp(s, role_names[i])) {
            *role = i;
            return;
        }
    }
    shim_complain(complaints, "shim-role: '%s' is not allowed, vm, uplink and "
                  "none are; %s stays in force", s, role_names[*role]);
}

/* Takes the rate in bit/s that 'key' of 'settings' holds into '*rate', in
 * bytes/s.  'zero' is what 0, the default, means. */
static void
parse_rate(const struct smap *settings, const char *key, const char *zero,
           uint64_t *rate, struct ds *complaints)
{
    struct shim_range range = { 1000, UINT64_C(800000000000), " bit/s", zero };
    uint64_t bits = *rate * 8;

    shim_parse_number(settings, key, &range, 0, 1, &bits, complaints);
    *rate = bits / 8;
}

/* Takes the law of the VM from 'settings' into 'law', which has SHIM_LAW_SIZE
 * bytes. */
static void
parse_law(const struct smap *settings, char *law, struct ds *complaints)
{
    const char *s = smap_get_def(settings, "shim-law", "default");

    if (!*s || strlen(s) >= SHIM_LAW_SIZE) {
        shim_complain(complaints, "shim-law: '%s' is no law; %s stays in "
                      "force", s, law);
        return;
    }
    ovs_strlcpy(law, s, SHIM_LAW_SIZE);
}

/* Takes the key shim-tenant out of 'settings', for it is the controller's
 * alone, and complains if the controller refuses its value. */
static void
drop_tenant(struct smap *settings, struct ds *complaints)
{
    const char *name = smap_get(settings, "shim-tenant");
    size_t n = 0;

    if (!name) {
        return;
    }
    while (name[n] > ' ' && name[n] < 0x7f && name[n] != '%') {
        n++;
    }
    if (!n || n > TENANT_LEN_MAX || name[n]) {
        shim_complain(complaints, "shim-tenant: '%s' names no tenant, 1 to %d "
                      "visible ASCII characters without spaces and %% do; the "
                      "VM belongs to none", name, TENANT_LEN_MAX);
    }
    smap_remove(settings, "shim-tenant");
}

/* Returns true if 'key' is one that we know of an Interface. */
static bool
is_known_key(const char *key)
{
    return (!strcmp(key, "shim-role") || !strcmp(key, "shim-weight")
            || !strcmp(key, "shim-min-rate") || !strcmp(key, "shim-max-rate")
            || !strcmp(key, "shim-capacity") || !strcmp(key, "shim-overhead")
            || !strcmp(key, "shim-law") || !strcmp(key, "shim-addresses"));
}

/* Completes complaints about the keys in 'origins', if there are any, by where
 * keys are from that stand in another column than Interface:other_config. */
static void
tell_origins(const struct smap *origins, struct ds *complaints)
{
    const struct smap_node *node;

    if (!complaints->length) {
        return;
    }
    SMAP_FOR_EACH (node, origins) {
        if (strcmp(node->value, "Interface:other_config")
            && strstr(ds_cstr(complaints), node->key)) {
            shim_complain(complaints, "%s is set in %s", node->key,
                          node->value);
        }
    }
}

/* Takes what the row 'cfg' of an Interface with device 'netdev' and the row
 * 'port' of its Port ask for into 'want', which holds the last usable values,
 * with complaints about what cannot be used.  Returns true if they ask for
 * anything. */
bool
shim_port_configure(const struct ovsrec_interface *cfg,
                    const struct ovsrec_port *port,
                    const struct netdev *netdev, struct shim_nl_port *want,
                    struct ds *complaints)
{
    static const struct shim_range weights = { 1, 65535, "", NULL };
    static const struct shim_range overheads = {
        1, 1000, " bytes", "that of the device"
    };
    struct smap settings = SMAP_INITIALIZER(&settings);
    struct smap origins = SMAP_INITIALIZER(&origins);
    struct shim_nl_port new = *want;
    const struct smap_node *node;
    uint64_t weight = want->weight;
    uint64_t overhead = want->overhead;

    collect_settings(cfg, port, &settings, &origins);
    drop_tenant(&settings, complaints);
    SMAP_FOR_EACH (node, &settings) {
        if (!is_known_key(node->key)) {
            shim_complain(complaints, "%s: there is no such setting",
                          node->key);
        }
    }

    parse_role(&settings, cfg, netdev, &new.role, complaints);
    parse_law(&settings, new.law, complaints);
    shim_parse_addresses(&settings, "shim-addresses", &new, complaints);
    shim_parse_number(&settings, "shim-weight", &weights, 1, 1, &weight,
                      complaints);
    new.weight = weight;
    parse_rate(&settings, "shim-min-rate", "no guarantee", &new.min_rate,
               complaints);
    parse_rate(&settings, "shim-max-rate", "no ceiling", &new.max_rate,
               complaints);
    parse_rate(&settings, "shim-capacity", "the link speed", &new.capacity,
               complaints);
    shim_parse_number(&settings, "shim-overhead", &overheads, 0, 1, &overhead,
                      complaints);
    new.overhead = overhead;
    if (new.max_rate && new.min_rate > new.max_rate) {
        shim_complain(complaints, "shim-min-rate: %"PRIu64" bit/s is above "
                      "shim-max-rate, %"PRIu64" bit/s; %"PRIu64" and "
                      "%"PRIu64" stay in force",
                      new.min_rate * 8, new.max_rate * 8,
                      want->min_rate * 8, want->max_rate * 8);
        new.min_rate = want->min_rate;
        new.max_rate = want->max_rate;
    }
    *want = new;
    tell_origins(&origins, complaints);

    bool asked = !smap_is_empty(&settings);
    smap_destroy(&settings);
    smap_destroy(&origins);
    return asked;
}

/* Complains if the row 'cfg' of an Interface, a tunnel of a userspace
 * datapath, or the row 'port' of its Port names a role: such a tunnel has no
 * device of its own. */
void
shim_port_check_tunnel(const struct ovsrec_interface *cfg,
                       const struct ovsrec_port *port, struct ds *complaints)
{
    struct smap settings = SMAP_INITIALIZER(&settings);
    struct smap origins = SMAP_INITIALIZER(&origins);
    const char *role;

    collect_settings(cfg, port, &settings, &origins);
    role = smap_get_def(&settings, "shim-role", "none");
    if (strcmp(role, "none")) {
        shim_complain(complaints, "shim-role: a tunnel of a userspace "
                      "datapath has none, '%s' is of no effect; the port "
                      "below it can be an uplink", role);
    }
    smap_destroy(&settings);
    smap_destroy(&origins);
}

/* Returns true if the Interface with row 'cfg' and device 'netdev' of the Port
 * with row 'port' is an uplink. */
static bool
is_uplink(const struct ovsrec_interface *cfg, const struct ovsrec_port *port,
          const struct netdev *netdev)
{
    struct smap settings = SMAP_INITIALIZER(&settings);
    struct smap origins = SMAP_INITIALIZER(&origins);
    struct ds complaints = DS_EMPTY_INITIALIZER;
    uint32_t role = OVS_SHIM_ROLE_NONE;

    collect_settings(cfg, port, &settings, &origins);
    parse_role(&settings, cfg, netdev, &role, &complaints);
    ds_destroy(&complaints);
    smap_destroy(&settings);
    smap_destroy(&origins);
    return role == OVS_SHIM_ROLE_UPLINK;
}

/* Returns true if VMs 'a' and 'b' may send from the same addresses, which are
 * set in the same order. */
static bool
addresses_equal(const struct shim_nl_port *a, const struct shim_nl_port *b)
{
    if (a->n_addresses != b->n_addresses) {
        return false;
    }
    for (size_t i = 0; i < a->n_addresses; i++) {
        if (a->addresses[i].prefix != b->addresses[i].prefix
            || !ipv6_addr_equals(&a->addresses[i].value,
                                 &b->addresses[i].value)) {
            return false;
        }
    }
    return true;
}

/* Returns true if ports 'a' and 'b' differ in what the kernel would do. */
bool
shim_port_differs(const struct shim_nl_port *a,
                  const struct shim_nl_port *b)
{
    if (a->role != b->role) {
        return true;
    }
    switch (a->role) {
    case OVS_SHIM_ROLE_VM:
        return (a->ifindex != b->ifindex || a->weight != b->weight
                || a->min_rate != b->min_rate || a->max_rate != b->max_rate
                || strcmp(a->law, b->law) || !addresses_equal(a, b));
    case OVS_SHIM_ROLE_UPLINK:
        return (a->ifindex != b->ifindex || a->capacity != b->capacity
                || a->overhead != b->overhead);
    default:
        return false;
    }
}

/* Returns true if Open vSwitch must let the queuing discipline alone that the
 * operator set up at the Interface with row 'cfg' and device 'netdev' of the
 * Port with row 'port', which has no QoS: one that Open vSwitch does not know
 * (fq, mq) at an uplink, where 'root' asks anything of the shim.  It would
 * otherwise delete it when it starts. */
bool
shim_port_keeps_qdisc(const struct ovsrec_open_vswitch *root,
                      const struct ovsrec_interface *cfg,
                      const struct ovsrec_port *port,
                      const struct netdev *netdev)
{
    struct smap details = SMAP_INITIALIZER(&details);
    const struct smap_node *node;
    const char *type = NULL;
    bool asked = false;

    SMAP_FOR_EACH (node, &root->other_config) {
        asked |= !strncmp(node->key, "shim-", 5);
    }
    bool keeps = (asked && is_uplink(cfg, port, netdev)
                  && !netdev_get_qos(netdev, &type, &details)
                  && !strcmp(type, "linux-other"));
    smap_destroy(&details);
    return keeps;
}
