/* SPDX-License-Identifier: Apache-2.0 */

/* Settings of the shim in the userspace datapath, in the attributes that the
 * kernel's shim has.  A change works on a copy of what is in force, which then
 * takes its place as a whole or is thrown away. */

#include <config.h>
#include "shim-netdev.h"
#include <errno.h>
#include <linux/ovs_shim.h>
#include <stdarg.h>
#include "netlink.h"
#include "openvswitch/ofpbuf.h"
#include "shim-host.h"
#include "shim-netdev-private.h"
#include "shim/core/laboratory.h"
#include "util.h"

/* A setting that is a number. */
struct rule {
    uint16_t attr;              /* OVS_SHIM_SETTINGS_*. */
    uint8_t size;               /* Of the attribute and the member. */
    const char *name;           /* The setting's. */
    const char *zero;           /* What 0 means, NULL if it is not allowed. */
    const char *allowed;        /* What is allowed, NULL: 'min' to 'max'. */
    uint64_t min, max;          /* What is allowed. */
    size_t offset;              /* Of the member in struct shim_settings. */
};

#define RULE(ATTR, MEMBER, NAME, ZERO, MIN_, MAX_) \
    { OVS_SHIM_SETTINGS_##ATTR, MEMBER_SIZEOF(struct shim_settings, MEMBER), \
      NAME, ZERO, NULL, MIN_, MAX_, offsetof(struct shim_settings, MEMBER) }

/* The settings.  The kernel has the same ranges. */
static const struct rule rules[] = {
    RULE(LIMITER, limiter, "limiter", NULL, 0, 1),
    RULE(BURST, burst_bytes, "burst", NULL, 1514, 1 << 30),
    RULE(BURST_US, burst_us, "burst-us", NULL, 0, SHIM_BURST_US_MAX),
    RULE(HORIZON, horizon_ns, "horizon", NULL, 1000, UINT64_C(10000000000)),
    RULE(ECN, ecn, "ecn", NULL, 0, 1),
    RULE(INACTIVE, inactive_ns, "inactive", NULL, 1000000,
         UINT64_C(3600000000000)),
    RULE(PROTOCOL, protocol, "protocol", NULL, 143, 254),
    { OVS_SHIM_SETTINGS_ACCEPT_V0,
      MEMBER_SIZEOF(struct shim_settings, accept_v0), "accept-v0", NULL,
      SHIM_ACCEPT_V0_ALLOWED, 0, SHIM_ACCEPT_V0_MAX,
      offsetof(struct shim_settings, accept_v0) },
    RULE(PEERS_MAX, peers_max, "peers-max", NULL, 1, 1 << 20),
    RULE(PEER_IDLE, peer_idle_ns, "peer-idle", NULL, 1000000,
         UINT64_C(3600000000000)),
    RULE(WAITING_MAX, waiting_max, "waiting-max", "any number",
         SHIM_WAITING_SLOTS, 1 << 20),
    RULE(CONVERSATIONS, conversations, "conversations", NULL, 0, 1),
};

/* Periods that are allowed, in ns; 0 is the law's own. */
#define PERIOD_MIN 50000
#define PERIOD_MAX UINT64_C(10000000000)

/* Stores the text that 'format' makes in '*reason' and returns 'error'. */
int
shim_refuse(int error, char **reason, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = xvasprintf(format, args);
    va_end(args);
    *reason = xasprintf("%s; what is in force stays", text);
    free(text);
    return error;
}

/* Returns the name of a law by its index or SHIM_LAW_*. */
const char *
shim_law_name(int law)
{
    return (law == SHIM_LAW_DEFAULT ? "default"
            : law == SHIM_LAW_NONE ? "none" : shim_law_at(law)->name);
}

/* Stores the index of the law called 'name' in '*law', SHIM_LAW_NONE for
 * "none".  Returns 0, or ENOENT with the reason if there is none. */
int
shim_law_by_name(const char *name, int *law, char **reason)
{
    const struct shim_law *one;

    *law = SHIM_LAW_NONE;
    if (!strcmp(name, "none")) {
        return 0;
    }
    for (int i = 0; (one = shim_law_at(i)); i++) {
        if (!strcmp(name, one->name)) {
            *law = i;
            return 0;
        }
    }
    return shim_refuse(ENOENT, reason, shim_laboratory_only(name, NULL)
                       ? "law: the laboratory build alone has %s"
                       : "law: no law is called %s", name);
}

/* Stores the number in 'a' in '*value'.  Returns false if it is not of 'size'
 * bytes. */
static bool
get_number(const struct nlattr *a, size_t size, uint64_t *value)
{
    if (nl_attr_get_size(a) != size) {
        return false;
    }
    *value = (size == 1 ? nl_attr_get_u8(a)
              : size == 4 ? nl_attr_get_u32(a) : nl_attr_get_u64(a));
    return true;
}

/* Changes the member of '*settings' that 'rule' is about as 'a' asks. */
static int
change_number(struct shim_settings *settings, const struct rule *rule,
              const struct nlattr *a, char **reason)
{
    void *member = (u8 *) settings + rule->offset;
    uint64_t value;

    if (!get_number(a, rule->size, &value)
        || ((value < rule->min || value > rule->max)
            && !(rule->zero && !value))) {
        if (rule->allowed) {
            return shim_refuse(ERANGE, reason, "%s: allowed are %s",
                               rule->name, rule->allowed);
        }
        return shim_refuse(ERANGE, reason, "%s: allowed are %"PRIu64" to %"
                           PRIu64"%s%s", rule->name, rule->min, rule->max,
                           rule->zero ? ", or 0 for " : "",
                           rule->zero ? rule->zero : "");
    }
    switch (rule->size) {
    case 1:
        *(u8 *) member = value;
        break;
    case 4:
        *ALIGNED_CAST(u32 *, member) = value;
        break;
    default:
        *ALIGNED_CAST(u64 *, member) = value;
        break;
    }
    return 0;
}

/* Changes the key that 'a' has; all zeros are none. */
static int
change_key(u8 key[SHIM_KEY_BYTES], bool *set, const struct nlattr *a,
           char **reason)
{
    if (nl_attr_get_size(a) != SHIM_KEY_BYTES) {
        return shim_refuse(ERANGE, reason, "key: allowed are exactly %d "
                           "bytes, all zero for no key", SHIM_KEY_BYTES);
    }
    memcpy(key, nl_attr_get(a), SHIM_KEY_BYTES);
    *set = !is_all_zeros(key, SHIM_KEY_BYTES);
    return 0;
}

/* Changes the knob in the nest 'a' of the law with index 'of'. */
static int
change_knob(struct shim_settings *settings, int of, const struct nlattr *a,
            char **reason)
{
    const struct shim_law *law = of == SHIM_LAW_NONE ? NULL : shim_law_at(of);
    const struct nlattr *name_a = nl_attr_find_nested(a, OVS_SHIM_KNOB_NAME);
    const struct nlattr *value_a = nl_attr_find_nested(a,
                                                       OVS_SHIM_KNOB_VALUE);
    uint64_t value;

    if (!name_a || !value_a || !get_number(value_a, 8, &value)) {
        return shim_refuse(EINVAL, reason, "knob: needs a name and a value");
    }
    const char *name = nl_attr_get_string(name_a);
    int i = law ? shim_knob_find(law, name) : -1;
    if (i < 0) {
        return shim_refuse(ENOENT, reason,
                           law && shim_laboratory_only(law->name, name)
                           ? "knob %s: the laboratory build alone has that of "
                             "%s" : "knob %s: law %s has no such knob",
                           name, shim_law_name(of));
    }
    const struct shim_knob *knob = &law->knobs[i];
    if (value < knob->min || value > knob->max) {
        return shim_refuse(ERANGE, reason, "knob %s: %"PRIu64" is not "
                           "allowed, %llu to %llu %s is", name, value,
                           knob->min, knob->max, knob->unit);
    }
    settings->laws[of].knobs[i] = value;
    return 0;
}

/* Changes period and knobs in 'attrs' of the law that these are about. */
static int
change_law(struct shim_settings *settings, const struct ofpbuf *attrs,
           char **reason)
{
    const struct nlattr *a = nl_attr_find(attrs, 0, OVS_SHIM_SETTINGS_OF);
    int of = settings->law;
    uint64_t period;
    size_t left;
    int error;

    if (a) {
        error = shim_law_by_name(nl_attr_get_string(a), &of, reason);
        if (error) {
            return error;
        }
    }
    a = nl_attr_find(attrs, 0, OVS_SHIM_SETTINGS_PERIOD);
    if (a) {
        if (!get_number(a, 8, &period)
            || (period && (period < PERIOD_MIN || period > PERIOD_MAX))) {
            return shim_refuse(ERANGE, reason, "period: allowed are %d to %"
                               PRIu64" ns, or 0 for the law's default",
                               PERIOD_MIN, PERIOD_MAX);
        }
        if (of != SHIM_LAW_NONE) {
            settings->laws[of].period_ns
                = period ? period : shim_law_at(of)->period_ns;
        }
    }
    a = nl_attr_find(attrs, 0, OVS_SHIM_SETTINGS_KNOBS);
    if (a) {
        const struct nlattr *knob;

        NL_NESTED_FOR_EACH (knob, left, a) {
            error = change_knob(settings, of, knob, reason);
            if (error) {
                return error;
            }
        }
    }
    return 0;
}

/* Changes '*settings', a copy of those in force, as 'attrs' ask. */
static int
change(struct shim_settings *settings, const struct ofpbuf *attrs,
       char **reason)
{
    const struct nlattr *a = nl_attr_find(attrs, 0, OVS_SHIM_SETTINGS_LAW);
    uint64_t value;
    int error = 0;

    if (a) {
        error = shim_law_by_name(nl_attr_get_string(a), &settings->law,
                                 reason);
    }
    if (!error) {
        error = change_law(settings, attrs, reason);
    }
    for (size_t i = 0; !error && i < ARRAY_SIZE(rules); i++) {
        a = nl_attr_find(attrs, 0, rules[i].attr);
        if (a) {
            error = change_number(settings, &rules[i], a, reason);
        }
    }
    a = nl_attr_find(attrs, 0, OVS_SHIM_SETTINGS_CODEPOINT);
    if (!error && a) {
        if (!get_number(a, 1, &value) || value > 1) {
            return shim_refuse(ERANGE, reason, "codepoint: allowed are 0 and "
                               "1, for ECT(0) and ECT(1)");
        }
        settings->codepoint = value ? SHIM_ECT_ONE : SHIM_ECT_ZERO;
    }
    a = nl_attr_find(attrs, 0, OVS_SHIM_SETTINGS_KEY);
    if (!error && a) {
        error = change_key(settings->key, &settings->key_set, a, reason);
    }
    a = nl_attr_find(attrs, 0, OVS_SHIM_SETTINGS_KEY_OTHER);
    if (!error && a) {
        error = change_key(settings->key_other, &settings->key_other_set, a,
                           reason);
    }
    return error;
}

/* Changes the settings named in 'attrs', all or none.  Stores in '*reason' why
 * they were refused, if they were. */
int
shim_netdev_settings_set(const struct ofpbuf *attrs, char **reason)
{
    *reason = NULL;
    if (!shim_engine_start()) {
        return ENOMEM;
    }
    struct shim_settings *settings = shim_alloc_wait(sizeof *settings);

    ovs_mutex_lock(&shim_mutex);
    *settings = *shim_engine_settings(&shim_engine);
    int error = change(settings, attrs, reason);
    if (!error) {
        shim_engine_set(&shim_engine, settings);
        shim_count_active();
    } else {
        memzero_explicit(settings, sizeof *settings);
        shim_free(settings);
    }
    ovs_mutex_unlock(&shim_mutex);
    return error;
}

/* Appends 'knob' with its 'value' to 'attrs'. */
static void
put_knob(const struct shim_knob *knob, uint64_t value, struct ofpbuf *attrs)
{
    size_t ofs = nl_msg_start_nested(attrs,
                                     OVS_SHIM_KNOBS_KNOB | NLA_F_NESTED);

    nl_msg_put_string(attrs, OVS_SHIM_KNOB_NAME, knob->name);
    nl_msg_put_u64(attrs, OVS_SHIM_KNOB_VALUE, value);
    nl_msg_put_u64(attrs, OVS_SHIM_KNOB_DEFAULT, knob->value);
    nl_msg_put_string(attrs, OVS_SHIM_KNOB_UNIT, knob->unit);
    nl_msg_end_nested(attrs, ofs);
}

/* Appends period and knobs of the law with index 'of', and the names of all
 * laws. */
static void
put_laws(const struct shim_settings *settings, int of, struct ofpbuf *attrs)
{
    const struct shim_law *law = of == SHIM_LAW_NONE ? NULL : shim_law_at(of);
    size_t ofs;

    nl_msg_put_string(attrs, OVS_SHIM_SETTINGS_OF, shim_law_name(of));
    nl_msg_put_u64(attrs, OVS_SHIM_SETTINGS_PERIOD,
                   law ? settings->laws[of].period_ns : 0);
    ofs = nl_msg_start_nested(attrs, OVS_SHIM_SETTINGS_KNOBS | NLA_F_NESTED);
    for (size_t i = 0; law && i < law->n_knobs; i++) {
        put_knob(&law->knobs[i], settings->laws[of].knobs[i], attrs);
    }
    nl_msg_end_nested(attrs, ofs);

    ofs = nl_msg_start_nested(attrs, OVS_SHIM_SETTINGS_LAWS | NLA_F_NESTED);
    nl_msg_put_string(attrs, OVS_SHIM_LAWS_NAME, "none");
    for (size_t i = 0; (law = shim_law_at(i)); i++) {
        nl_msg_put_string(attrs, OVS_SHIM_LAWS_NAME, law->name);
    }
    nl_msg_end_nested(attrs, ofs);
}

/* Appends those who were lately heard with the other key. */
static void
put_senders(struct ofpbuf *attrs)
{
    size_t all = nl_msg_start_nested(
        attrs, OVS_SHIM_SETTINGS_OTHER_KEY_SENDERS | NLA_F_NESTED);
    struct shim_other_sender others[SHIM_OTHER_KEY_SENDERS];
    u64 now_ns = shim_now_ns();

    spin_lock(&shim_engine.other_lock);
    memcpy(others, shim_engine.others, sizeof others);
    spin_unlock(&shim_engine.other_lock);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        if (others[i].seen_ns) {
            size_t one = nl_msg_start_nested(
                attrs, OVS_SHIM_SENDERS_SENDER | NLA_F_NESTED);

            nl_msg_put_u32(attrs, OVS_SHIM_SENDER_ID, others[i].sender);
            nl_msg_put_u32(attrs, OVS_SHIM_SENDER_SILENT,
                           (MAX(now_ns, others[i].seen_ns)
                            - others[i].seen_ns) / SHIM_NSEC_PER_SEC);
            nl_msg_end_nested(attrs, one);
        }
    }
    nl_msg_end_nested(attrs, all);
}

/* Appends the number that 'rule' is about to 'attrs'. */
static void
put_number(const struct shim_settings *settings, const struct rule *rule,
           struct ofpbuf *attrs)
{
    nl_msg_put_unspec(attrs, rule->attr,
                      (const u8 *) settings + rule->offset, rule->size);
}

/* Appends the settings in force to 'attrs', all but the keys themselves.
 * Period and knobs are those of the law 'of', or if that is NULL of the law in
 * force. */
int
shim_netdev_settings_get(const char *of, struct ofpbuf *attrs)
{
    char *reason = NULL;
    int error = 0;

    if (!shim_engine_start()) {
        return ENOMEM;
    }
    ovs_mutex_lock(&shim_mutex);
    const struct shim_settings *settings = shim_engine_settings(&shim_engine);
    int law = settings->law;
    if (of) {
        error = shim_law_by_name(of, &law, &reason);
        free(reason);
    }
    if (!error) {
        nl_msg_put_string(attrs, OVS_SHIM_SETTINGS_LAW,
                          shim_law_name(settings->law));
        for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
            put_number(settings, &rules[i], attrs);
        }
        nl_msg_put_u8(attrs, OVS_SHIM_SETTINGS_CODEPOINT,
                      settings->codepoint == SHIM_ECT_ONE);
        if (settings->key_set) {
            nl_msg_put_flag(attrs, OVS_SHIM_SETTINGS_KEY_SET);
        }
        if (settings->key_other_set) {
            nl_msg_put_flag(attrs, OVS_SHIM_SETTINGS_KEY_OTHER_SET);
        }
        put_laws(settings, law, attrs);
        put_senders(attrs);
    }
    ovs_mutex_unlock(&shim_mutex);
    return error;
}
