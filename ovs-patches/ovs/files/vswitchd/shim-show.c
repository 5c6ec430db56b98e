/* SPDX-License-Identifier: Apache-2.0 */

/* Prints what the shim has now: its settings, ports, limiters and paths.
 * Rates are in bit/s, as in the database. */

#include <config.h>
#include "shim-show.h"
#include "netlink.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofpbuf.h"
#include "packets.h"
#include "shim-dpif.h"
#include "shim-stats.h"
#include "smap.h"
#include "table.h"
#include "util.h"

/* A setting as the kernel has it and as we print it. */
struct shown_setting {
    uint16_t attr;              /* OVS_SHIM_SETTINGS_*. */
    const char *name;           /* With the unit that the kernel uses. */
};

/* Settings that are integers, in the order of printing. */
static const struct shown_setting shown_settings[] = {
    { OVS_SHIM_SETTINGS_PERIOD, "period (ns)" },
    { OVS_SHIM_SETTINGS_LIMITER, "limiter" },
    { OVS_SHIM_SETTINGS_BURST, "burst (bytes)" },
    { OVS_SHIM_SETTINGS_BURST_US, "burst-us (us)" },
    { OVS_SHIM_SETTINGS_HORIZON, "horizon (ns)" },
    { OVS_SHIM_SETTINGS_ECN, "ecn" },
    { OVS_SHIM_SETTINGS_INACTIVE, "inactive (ns)" },
    { OVS_SHIM_SETTINGS_PROTOCOL, "protocol" },
    { OVS_SHIM_SETTINGS_ACCEPT_V0, "accept-v0" },
    { OVS_SHIM_SETTINGS_CODEPOINT, "codepoint" },
    { OVS_SHIM_SETTINGS_WAITING_MAX, "waiting-max (packets)" },
    { OVS_SHIM_SETTINGS_CONVERSATIONS, "conversations" },
    { OVS_SHIM_SETTINGS_AHEAD, "ahead" },
};

/* Adds a cell with 'text', which it takes over, to the last row of 't'. */
static void
put_text(struct table *t, char *text)
{
    table_add_cell(t)->text = text;
}

/* Adds a cell with 'number' to the last row of 't'. */
static void
put_number(struct table *t, uint64_t number)
{
    put_text(t, xasprintf("%"PRIu64, number));
}

/* Adds a cell with the rate of 'bytes' per second, in bit/s, to the last row
 * of 't'. */
static void
put_rate(struct table *t, uint64_t bytes)
{
    put_number(t, bytes * 8);
}

/* Adds a cell with the name of the device with 'ifindex', or with that number
 * if there is no such device, to the last row of 't'. */
static void
put_device(struct table *t, uint32_t ifindex)
{
    put_text(t, shim_dpif_name(ifindex));
}

/* Adds a row with 'name' and 'value', which it takes over, to 't'. */
static void
put_pair(struct table *t, const char *name, char *value)
{
    table_add_row(t);
    put_text(t, xstrdup(name));
    put_text(t, value);
}

/* Initializes 't' with 'caption' and a column for each of the 'n' strings in
 * 'columns'. */
static void
start_table(struct table *t, const char *caption, const char *const columns[],
            size_t n)
{
    table_init(t);
    table_set_caption(t, xstrdup(caption));
    for (size_t i = 0; i < n; i++) {
        table_add_column(t, "%s", columns[i]);
    }
}

/* Prints 't' in 'style' to 's' and destroys it. */
static void
end_table(struct table *t, const struct table_style *style, struct ds *s)
{
    table_format(t, style, s);
    table_destroy(t);
}

/* Adds a row for each knob in 'knobs' to 't'. */
static void
show_knobs(struct table *t, const struct nlattr *knobs)
{
    const struct nlattr *knob;
    size_t left;

    NL_NESTED_FOR_EACH (knob, left, knobs) {
        const struct nlattr *name = nl_attr_find_nested(knob,
                                                        OVS_SHIM_KNOB_NAME);
        const struct nlattr *value = nl_attr_find_nested(knob,
                                                         OVS_SHIM_KNOB_VALUE);
        const struct nlattr *unit = nl_attr_find_nested(knob,
                                                        OVS_SHIM_KNOB_UNIT);
        if (name && value) {
            char *label = xasprintf("knob-%s (%s)", nl_attr_get_string(name),
                                    unit ? nl_attr_get_string(unit) : "?");
            put_pair(t, label,
                     xasprintf("%"PRIu64, nl_attr_get_u64(value)));
            free(label);
        }
    }
}

/* Adds a row for each sender in 'senders', whose messages bore the other key,
 * to 't'. */
static void
show_other_senders(struct table *t, const struct nlattr *senders)
{
    const struct nlattr *sender;
    size_t left;

    NL_NESTED_FOR_EACH (sender, left, senders) {
        const struct nlattr *id = nl_attr_find_nested(sender,
                                                      OVS_SHIM_SENDER_ID);
        const struct nlattr *silent = nl_attr_find_nested(
            sender, OVS_SHIM_SENDER_SILENT);

        if (id && silent) {
            char *label = xasprintf("other key used by sender %"PRIu32
                                    " (s ago)", nl_attr_get_u32(id));
            put_pair(t, label,
                     xasprintf("%"PRIu32, nl_attr_get_u32(silent)));
            free(label);
        }
    }
}

/* Returns the integer in 'a', of 1, 4 or 8 bytes. */
static uint64_t
get_uint(const struct nlattr *a)
{
    return (nl_attr_get_size(a) == 1 ? nl_attr_get_u8(a)
            : nl_attr_get_size(a) == 4 ? nl_attr_get_u32(a)
            : nl_attr_get_u64(a));
}

/* Prints the settings in force to 's'. */
static void
show_settings(struct ds *s, const struct table_style *style)
{
    static const char *const columns[] = { "setting", "value" };
    const struct nlattr *a;
    struct ofpbuf attrs;
    struct table t;

    ofpbuf_init(&attrs, 4096);
    shim_dpif_settings_get(NULL, &attrs);
    start_table(&t, "Settings in force", columns, ARRAY_SIZE(columns));
    a = nl_attr_find(&attrs, 0, OVS_SHIM_SETTINGS_LAW);
    put_pair(&t, "law", xstrdup(a ? nl_attr_get_string(a) : "?"));
    for (size_t i = 0; i < ARRAY_SIZE(shown_settings); i++) {
        const struct shown_setting *ss = &shown_settings[i];

        a = nl_attr_find(&attrs, 0, ss->attr);
        if (a && ss->attr == OVS_SHIM_SETTINGS_LIMITER) {
            put_pair(&t, ss->name,
                     xstrdup(get_uint(a) == OVS_SHIM_LIMITER_PACE
                             ? "pace" : "police"));
        } else if (a) {
            put_pair(&t, ss->name, xasprintf("%"PRIu64, get_uint(a)));
        }
    }
    a = nl_attr_find(&attrs, 0, OVS_SHIM_SETTINGS_KEY_SET);
    put_pair(&t, "key", xstrdup(a ? "set" : "none"));
    a = nl_attr_find(&attrs, 0, OVS_SHIM_SETTINGS_KEY_OTHER_SET);
    put_pair(&t, "key-other", xstrdup(a ? "set" : "none"));
    a = nl_attr_find(&attrs, 0, OVS_SHIM_SETTINGS_OTHER_KEY_SENDERS);
    if (a) {
        show_other_senders(&t, a);
    }
    a = nl_attr_find(&attrs, 0, OVS_SHIM_SETTINGS_KNOBS);
    if (a) {
        show_knobs(&t, a);
    }
    end_table(&t, style, s);
    ofpbuf_uninit(&attrs);
}

/* Returns the sum of the counters of 'kind' of 'port'. */
static uint64_t
sum_stats(const struct shim_nl_port *port, enum shim_stat_kind kind)
{
    uint64_t sum = 0;

    for (size_t i = 0; i <= OVS_SHIM_STAT_MAX; i++) {
        sum += shim_stats[i].kind == kind ? port->stats[i] : 0;
    }
    return sum;
}

/* Adds a cell with the addresses that 'port' may send from, "-" if none are
 * set, to the last row of 't'. */
static void
put_addresses(struct table *t, const struct shim_nl_port *port)
{
    struct ds s = DS_EMPTY_INITIALIZER;

    for (size_t i = 0; i < port->n_addresses; i++) {
        const struct shim_nl_address *address = &port->addresses[i];
        bool ipv4 = (address->prefix >= 96
                     && IN6_IS_ADDR_V4MAPPED(&address->value));

        ds_put_cstr(&s, i ? " " : "");
        ipv6_format_mapped(&address->value, &s);
        if (address->prefix < 128) {
            ds_put_format(&s, "/%d", address->prefix - (ipv4 ? 96 : 0));
        }
    }
    put_text(t, s.length ? ds_steal_cstr(&s) : xstrdup("-"));
    ds_destroy(&s);
}

/* Prints the ports to 's'. */
static void
show_ports(struct ds *s, const struct table_style *style)
{
    static const char *const columns[] = {
        "port", "role", "weight", "min", "max", "capacity", "tx_bytes",
        "rx_ce", "drops", "messages", "refused", "stray_bytes", "stray_drops",
        "qdisc", "addresses",
    };
    static const char *const roles[] = { "none", "vm", "uplink" };
    static const char *const qdiscs[] = { "unknown", "fit", "unfit" };
    struct shim_nl_port *ports;
    struct table t;
    size_t n;

    shim_dpif_dump_ports(&ports, &n);
    start_table(&t, "Ports (rates in bit/s)", columns, ARRAY_SIZE(columns));
    for (size_t i = 0; i < n; i++) {
        const struct shim_nl_port *p = &ports[i];
        table_add_row(&t);
        put_device(&t, p->ifindex);
        put_text(&t, xstrdup(p->role < ARRAY_SIZE(roles)
                             ? roles[p->role] : "?"));
        put_number(&t, p->weight);
        put_rate(&t, p->min_rate);
        put_rate(&t, p->max_rate);
        put_rate(&t, p->capacity);
        put_number(&t, p->stats[OVS_SHIM_STAT_TX_BYTES]);
        put_number(&t, p->stats[OVS_SHIM_STAT_RX_CE]);
        put_number(&t, sum_stats(p, SHIM_STAT_DROP));
        put_number(&t, p->stats[OVS_SHIM_STAT_MESSAGES]);
        put_number(&t, sum_stats(p, SHIM_STAT_REFUSED));
        put_number(&t, p->stats[OVS_SHIM_STAT_STRAY_BYTES]);
        put_number(&t, sum_stats(p, SHIM_STAT_STRAY_DROP));
        put_text(&t, xstrdup(p->role == OVS_SHIM_ROLE_UPLINK
                             && p->qdisc < ARRAY_SIZE(qdiscs)
                             ? qdiscs[p->qdisc] : "-"));
        put_addresses(&t, p);
    }
    end_table(&t, style, s);
    free(ports);
}

/* Prints each counter of each port to 's'. */
static void
show_counters(struct ds *s, const struct table_style *style)
{
    static const char *const columns[] = { "port", "counter", "value" };
    struct shim_nl_port *ports;
    struct table t;
    size_t n;

    shim_dpif_dump_ports(&ports, &n);
    start_table(&t, "Counters", columns, ARRAY_SIZE(columns));
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= OVS_SHIM_STAT_MAX; j++) {
            if (shim_stats[j].kind != SHIM_STAT_UNUSED) {
                table_add_row(&t);
                put_device(&t, ports[i].ifindex);
                put_text(&t, xstrdup(shim_stats[j].name));
                put_number(&t, ports[i].stats[j]);
            }
        }
    }
    end_table(&t, style, s);
    free(ports);
}

/* Prints the limiters to 's'. */
static void
show_limiters(struct ds *s, const struct table_style *style)
{
    static const char *const columns[] = {
        "vm", "uplink", "rate", "share", "sent", "state", "tx_bytes",
        "tx_packets", "drops",
    };
    struct shim_nl_limiter *limiters;
    struct table t;
    size_t n;

    shim_dpif_dump_limiters(&limiters, &n);
    start_table(&t, "Limiters (rates in bit/s)", columns,
                ARRAY_SIZE(columns));
    for (size_t i = 0; i < n; i++) {
        const struct shim_nl_limiter *l = &limiters[i];

        table_add_row(&t);
        put_device(&t, l->vm);
        put_device(&t, l->uplink);
        put_rate(&t, l->rate);
        put_rate(&t, l->share);
        put_rate(&t, l->sent_rate);
        put_text(&t, xstrdup(!l->active ? "inactive"
                             : l->congested ? "congested" : "active"));
        put_number(&t, l->tx_bytes);
        put_number(&t, l->tx_packets);
        put_number(&t, l->drops);
    }
    end_table(&t, style, s);
    free(limiters);
}

/* Adds a cell with where 'path' leads to the last row of 't'. */
static void
put_prefix(struct table *t, const struct shim_nl_path *path)
{
    bool ipv4 = path->bits >= 96 && IN6_IS_ADDR_V4MAPPED(&path->prefix);
    struct ds s = DS_EMPTY_INITIALIZER;

    if (path->bits) {
        ds_put_cstr(&s, path->scope ? "tunnels to " : "");
        ipv6_format_mapped(&path->prefix, &s);
        ds_put_format(&s, "/%d", path->bits - (ipv4 ? 96 : 0));
    } else {
        ds_put_cstr(&s, "the rest");
    }
    put_text(t, ds_steal_cstr(&s));
}

/* Prints the paths, if there are any, to 's'. */
static void
show_paths(struct ds *s, const struct table_style *style)
{
    static const char *const columns[] = {
        "vm", "to", "rate", "sent", "state", "tx_bytes", "tx_packets", "held",
    };
    struct shim_nl_path *paths;
    struct table t;
    size_t n;

    shim_dpif_dump_paths(&paths, &n);
    if (n) {
        start_table(&t, "Paths (rates in bit/s)", columns,
                    ARRAY_SIZE(columns));
        for (size_t i = 0; i < n; i++) {
            const struct shim_nl_path *p = &paths[i];

            table_add_row(&t);
            put_device(&t, p->vm);
            put_prefix(&t, p);
            put_rate(&t, p->rate);
            put_rate(&t, p->sent_rate);
            put_text(&t, xstrdup(p->limited ? "limited"
                                 : p->sent_rate ? "active" : "idle"));
            put_number(&t, p->tx_bytes);
            put_number(&t, p->tx_packets);
            put_number(&t, p->held);
        }
        end_table(&t, style, s);
    }
    free(paths);
}

/* Prints 'complaints' by name to 's', if there are any. */
static void
show_complaints(struct ds *s, const struct table_style *style,
                const struct smap *complaints)
{
    static const char *const columns[] = { "name", "complaints" };
    struct table t;

    if (smap_is_empty(complaints)) {
        return;
    }

    const struct smap_node **sorted = smap_sort(complaints);
    start_table(&t, "Not in force", columns, ARRAY_SIZE(columns));
    for (size_t i = 0; i < smap_count(complaints); i++) {
        put_pair(&t, sorted[i]->key, xstrdup(sorted[i]->value));
    }
    end_table(&t, style, s);
    free(sorted);
}

/* Prints what the shim has, and 'complaints', to 's': tables for a reader, or
 * with 'json' a JSON object in a line for each, and one with all counters. */
void
shim_show(struct ds *s, bool json, const struct smap *complaints)
{
    struct table_style style = TABLE_STYLE_DEFAULT;

    style.format = json ? TF_JSON : TF_TABLE;
    style.cell_format = CF_STRING;
    style.json_flags = JSSF_SORT;
    table_format_reset();
    if (shim_dpif_is_available()) {
        show_settings(s, &style);
        show_ports(s, &style);
        show_limiters(s, &style);
        show_paths(s, &style);
        if (json) {
            show_counters(s, &style);
        }
    } else if (!json) {
        ds_put_cstr(s, "the kernel has no "OVS_SHIM_FAMILY" family\n");
    }
    show_complaints(s, &style, complaints);
}
