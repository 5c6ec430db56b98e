/* SPDX-License-Identifier: Apache-2.0 */

/* Turns Open_vSwitch:other_config:shim-* into settings of the kernel's shim.
 *
 * Each setting is an item with a value wanted and the value that the kernel
 * has, as far as we know.  To push is to send the items in which these differ:
 * all in one message, and if the kernel refuses that, one by one, so that one
 * bad value keeps no other from taking effect.  The kernel keeps period and
 * knobs for each law; ours are for the law in force, so a change of law takes
 * the knobs of the old one back and resends them.  A knob whose name begins
 * with that of a law belongs to this one, whichever is in force, and goes in a
 * message of its own. */

#include <config.h>
#include "shim-settings.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "netlink.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofpbuf.h"
#include "shim-dpif.h"
#include "shim-values.h"
#include "smap.h"
#include "util.h"

/* What a setting's text looks like. */
enum setting_type {
    SETTING_NUMBER,             /* Decimal digits. */
    SETTING_BOOL,               /* "true" or "false". */
    SETTING_LIMITER,            /* "pace" or "police". */
};

/* A setting that the kernel knows as an integer. */
struct setting {
    const char *key;            /* In other_config. */
    uint16_t attr;              /* OVS_SHIM_SETTINGS_*. */
    uint8_t size;               /* Of the attribute, in bytes. */
    enum setting_type type;
    uint64_t scale;             /* The kernel's units in one of ours. */
    uint64_t def;               /* In force without the key, our units. */
    struct shim_range range;    /* For SETTING_NUMBER. */
};

/* The settings.  The kernel has the same ranges and defaults. */
static const struct setting settings[] = {
    { "shim-period-us", OVS_SHIM_SETTINGS_PERIOD, 8, SETTING_NUMBER, 1000, 0,
      { 50, 10 * 1000 * 1000, " us", "the law's own period" } },
    { "shim-limiter", OVS_SHIM_SETTINGS_LIMITER, 4, SETTING_LIMITER, 1,
      OVS_SHIM_LIMITER_PACE, { 0, 0, NULL, NULL } },
    { "shim-burst", OVS_SHIM_SETTINGS_BURST, 4, SETTING_NUMBER, 1, 2097152,
      { 1514, 1 << 30, " bytes", NULL } },
    { "shim-burst-us", OVS_SHIM_SETTINGS_BURST_US, 4, SETTING_NUMBER, 1, 100,
      { 1, 10 * 1000, " us", "single segments" } },
    { "shim-horizon-us", OVS_SHIM_SETTINGS_HORIZON, 8, SETTING_NUMBER, 1000,
      2 * 1000, { 1, 10 * 1000 * 1000, " us", NULL } },
    { "shim-ecn", OVS_SHIM_SETTINGS_ECN, 1, SETTING_BOOL, 1, 1,
      { 0, 0, NULL, NULL } },
    { "shim-inactive-ms", OVS_SHIM_SETTINGS_INACTIVE, 8, SETTING_NUMBER,
      1000 * 1000, 1000, { 1, 3600 * 1000, " ms", NULL } },
    { "shim-protocol", OVS_SHIM_SETTINGS_PROTOCOL, 1, SETTING_NUMBER, 1, 253,
      { 143, 254, "", NULL } },
    { "shim-accept-v0", OVS_SHIM_SETTINGS_ACCEPT_V0, 1, SETTING_BOOL, 1, 0,
      { 0, 0, NULL, NULL } },
    { "shim-peers-max", OVS_SHIM_SETTINGS_PEERS_MAX, 4, SETTING_NUMBER, 1,
      4096, { 1, 1 << 20, "", NULL } },
    { "shim-peer-idle-ms", OVS_SHIM_SETTINGS_PEER_IDLE, 8, SETTING_NUMBER,
      1000 * 1000, 10 * 1000, { 1, 3600 * 1000, " ms", NULL } },
    { "shim-codepoint", OVS_SHIM_SETTINGS_CODEPOINT, 1, SETTING_NUMBER, 1, 1,
      { 0, 1, "", NULL } },
    { "shim-waiting-max", OVS_SHIM_SETTINGS_WAITING_MAX, 4, SETTING_NUMBER, 1,
      1024, { 16, 1 << 20, " packets", "any number" } },
    { "shim-conversations", OVS_SHIM_SETTINGS_CONVERSATIONS, 1, SETTING_BOOL,
      1, 0, { 0, 0, NULL, NULL } },
    { "shim-ahead", OVS_SHIM_SETTINGS_AHEAD, 1, SETTING_BOOL, 1, 0,
      { 0, 0, NULL, NULL } },
};
enum { N_SETTINGS = ARRAY_SIZE(settings) };
BUILD_ASSERT_DECL(ARRAY_SIZE(settings) == 15);

/* A key of earlier versions, which is refused. */
struct replaced_key {
    const char *key;            /* In other_config. */
    const char *successor;      /* The key that does its work. */
};

/* The keys of earlier versions. */
static const struct replaced_key replaced_keys[] = {
    { "shim-early-us", "shim-ahead" },
    { "shim-quantum", "shim-burst-us" },
    { "shim-segment", "shim-burst-us" },
};

/* A key of control messages, which the database names a file of. */
struct key_file {
    const char *key;            /* In other_config. */
    uint16_t attr;              /* OVS_SHIM_SETTINGS_*. */
};

/* The keys. */
static const struct key_file key_files[] = {
    { "shim-key-file", OVS_SHIM_SETTINGS_KEY },
    { "shim-key-other-file", OVS_SHIM_SETTINGS_KEY_OTHER },
};
enum { N_KEYS = ARRAY_SIZE(key_files) };

/* Prefix of the keys that are knobs of a law. */
#define KNOB_PREFIX "shim-knob-"

/* A set of values. */
struct values {
    char law[SHIM_LAW_SIZE];         /* "" if not known. */
    uint64_t numbers[N_SETTINGS]; /* In the kernel's units. */
    bool known[N_SETTINGS];     /* Whether 'numbers' holds something. */
    uint8_t keys[N_KEYS][SHIM_KEY_LEN]; /* All zero for none. */
    bool key_known[N_KEYS];     /* Whether 'keys' holds something. */
    struct smap knobs;          /* Decimal numbers by name without prefix. */
};

/* The last usable values that the database asked for. */
static struct values want = {
    .law = "none",
    .knobs = SMAP_INITIALIZER(&want.knobs),
};

/* What the kernel took from us. */
static struct values have = { .knobs = SMAP_INITIALIZER(&have.knobs) };

/* Knobs no longer asked for, on their way back to their defaults. */
static struct smap dropped = SMAP_INITIALIZER(&dropped);

/* Whether the database asks for anything, or did. */
static bool in_use;

/* Items: the law, then 'settings', then 'key_files', then the knobs in
 * 'want'. */
enum {
    ITEM_LAW,
    ITEM_FIRST_SETTING,
    ITEM_FIRST_KEY = ITEM_FIRST_SETTING + N_SETTINGS,
    ITEM_KNOBS = ITEM_FIRST_KEY + N_KEYS
};

/* Stores in '*value' which of the 'n' words in 'words' 'key' of 'map' holds.
 * Without the key it is 'def'.  Complains about any other word and leaves
 * '*value' as it is. */
static void
parse_word(const struct smap *map, const char *key, const char *const words[],
           size_t n, uint64_t def, uint64_t *value, struct ds *complaints)
{
    const char *s = smap_get(map, key);
    size_t old = *value;

    if (!s) {
        *value = def;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(s, words[i])) {
            *value = i;
            return;
        }
    }
    shim_complain(complaints, "%s: '%s' is not allowed, %s and %s are; "
                  "%s stays in force", key, s, words[0], words[1],
                  words[old]);
}

/* Takes "shim-law" from 'oc' into 'want'. */
static void
configure_law(const struct smap *oc, struct ds *complaints)
{
    const char *law = smap_get_def(oc, "shim-law", "none");

    if (!*law || strlen(law) >= SHIM_LAW_SIZE) {
        shim_complain(complaints, "shim-law: '%s' is no law; %s stays in "
                      "force", law, want.law);
        return;
    }
    ovs_strlcpy(want.law, law, sizeof want.law);
}

/* Takes "shim-knob-*" from 'oc' into 'want'.  A knob that we set and that is
 * no longer asked for goes back to its default. */
static void
configure_knobs(const struct smap *oc, struct ds *complaints)
{
    const struct smap_node *node;
    struct smap knobs = SMAP_INITIALIZER(&knobs);

    SMAP_FOR_EACH (node, oc) {
        if (!strncmp(node->key, KNOB_PREFIX, strlen(KNOB_PREFIX))) {
            const char *name = node->key + strlen(KNOB_PREFIX);
            const char *old = smap_get(&want.knobs, name);
            uint64_t value;

            if (shim_parse_u64(node->value, &value)) {
                smap_add_nocopy(&knobs, xstrdup(name),
                                xasprintf("%"PRIu64, value));
                continue;
            }
            shim_complain(complaints, "%s: '%s' is no decimal number of 64 "
                          "bits; %s stays in force", node->key, node->value,
                          old ? old : "its default");
            if (old) {
                smap_add(&knobs, name, old);
            }
        }
    }
    SMAP_FOR_EACH (node, &have.knobs) {
        char law[SHIM_LAW_SIZE];
        const char *rest = shim_dpif_knob_of_law(node->key, law);
        bool gone = (!smap_get(&knobs, node->key)
                     && (rest || !strcmp(want.law, have.law)));
        char *def = gone ? shim_dpif_knob_default(rest ? law : NULL,
                                                rest ? rest : node->key)
                    : NULL;

        if (def) {
            smap_replace(&dropped, node->key, def);
            smap_add_nocopy(&knobs, xstrdup(node->key), def);
        }
    }
    hmap_swap(&want.knobs.map, &knobs.map);
    smap_destroy(&knobs);
}

/* Returns true if 'key' of Open_vSwitch:other_config is one that we know. */
static bool
is_known_key(const char *key)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (!strcmp(key, settings[i].key)) {
            return true;
        }
    }
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!strcmp(key, key_files[i].key)) {
            return true;
        }
    }
    return (!strcmp(key, "shim-law")
            || !strncmp(key, KNOB_PREFIX, strlen(KNOB_PREFIX)));
}

/* Adds to 'complaints' that there is no setting 'old', what does its work, and
 * which value of that stays in force. */
static void
complain_replaced(const struct replaced_key *old, struct ds *complaints)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const struct setting *s = &settings[i];
        uint64_t value = want.numbers[i] / s->scale;

        if (strcmp(old->successor, s->key)) {
            continue;
        }
        if (s->type == SETTING_BOOL) {
            shim_complain(complaints, "%s: there is no such setting, %s does "
                          "its work; %s stays in force", old->key, s->key,
                          value ? "true" : "false");
        } else {
            shim_complain(complaints, "%s: there is no such setting, %s does "
                          "its work; %"PRIu64"%s stays in force", old->key,
                          s->key, value, s->range.unit);
        }
        return;
    }
}

/* Adds to 'complaints' which keys of 'other_config' are no settings. */
static void
complain_unknown(const struct smap *other_config, struct ds *complaints)
{
    const struct smap_node *node;

    SMAP_FOR_EACH (node, other_config) {
        size_t i = 0;

        if (strncmp(node->key, "shim-", 5) || is_known_key(node->key)) {
            continue;
        }
        while (i < ARRAY_SIZE(replaced_keys)
               && strcmp(node->key, replaced_keys[i].key)) {
            i++;
        }
        if (i < ARRAY_SIZE(replaced_keys)) {
            complain_replaced(&replaced_keys[i], complaints);
        } else {
            shim_complain(complaints, "%s: there is no such setting",
                          node->key);
        }
    }
}

/* Takes what Open_vSwitch:'other_config' asks for, with complaints about what
 * cannot be used.  Returns true if it asks for anything. */
bool
shim_settings_configure(const struct smap *other_config,
                        struct ds *complaints)
{
    static const char *const bools[] = { "false", "true" };
    static const char *const limiters[] = {
        [OVS_SHIM_LIMITER_POLICE] = "police",
        [OVS_SHIM_LIMITER_PACE] = "pace",
    };
    const struct smap_node *node;
    bool asked = false;

    SMAP_FOR_EACH (node, other_config) {
        if (!strncmp(node->key, "shim-", 5)) {
            asked = in_use = true;
        }
    }
    if (!in_use) {
        return false;
    }

    for (size_t i = 0; i < N_SETTINGS; i++) {
        const struct setting *s = &settings[i];
        uint64_t *value = &want.numbers[i];

        if (!want.known[i]) {
            *value = s->def * s->scale;
            want.known[i] = true;
        }
        switch (s->type) {
        case SETTING_NUMBER:
            shim_parse_number(other_config, s->key, &s->range, s->def,
                              s->scale, value, complaints);
            break;
        case SETTING_BOOL:
            parse_word(other_config, s->key, bools, ARRAY_SIZE(bools),
                       s->def, value, complaints);
            break;
        case SETTING_LIMITER:
            parse_word(other_config, s->key, limiters, ARRAY_SIZE(limiters),
                       s->def, value, complaints);
            break;
        }
    }
    complain_unknown(other_config, complaints);
    configure_law(other_config, complaints);
    for (size_t i = 0; i < N_KEYS; i++) {
        shim_parse_key_file(other_config, key_files[i].key, want.keys[i],
                            complaints);
    }
    configure_knobs(other_config, complaints);
    return asked;
}

/* Returns the law that the database asks for, "none" by default. */
const char *
shim_settings_law(void)
{
    return want.law;
}

/* Appends setting number 'i' to 'attrs' if the kernel may not have it.
 * Returns true if so. */
static bool
put_setting(size_t i, bool new_law, struct ofpbuf *attrs)
{
    const struct setting *s = &settings[i];
    bool fresh = have.known[i] && have.numbers[i] == want.numbers[i];

    if (fresh && !(new_law && s->attr == OVS_SHIM_SETTINGS_PERIOD)) {
        return false;
    }
    switch (s->size) {
    case 1:
        nl_msg_put_u8(attrs, s->attr, want.numbers[i]);
        break;
    case 4:
        nl_msg_put_u32(attrs, s->attr, want.numbers[i]);
        break;
    default:
        nl_msg_put_u64(attrs, s->attr, want.numbers[i]);
        break;
    }
    return true;
}

/* Appends the knob 'node' to 'knobs', and to 'attrs' the law it belongs to, if
 * the kernel may not have it.  Returns true if so.  A knob of a named law is
 * only appended if it goes 'alone'. */
static bool
put_knob(const struct smap_node *node, bool new_law, bool alone,
         struct ofpbuf *attrs, struct ofpbuf *knobs)
{
    const char *old = smap_get(&have.knobs, node->key);
    char law[SHIM_LAW_SIZE];
    const char *rest = shim_dpif_knob_of_law(node->key, law);
    uint64_t value;

    if (((!new_law || rest) && old && !strcmp(old, node->value))
        || (rest && !alone) || !shim_parse_u64(node->value, &value)) {
        return false;
    }
    if (rest) {
        nl_msg_put_string(attrs, OVS_SHIM_SETTINGS_OF, law);
    }
    shim_dpif_put_knob(rest ? rest : node->key, value, knobs);
    return true;
}

/* Takes the knobs of the law that the kernel has back to their defaults,
 * before another law takes its place. */
static void
reset_old_law(void)
{
    const struct smap_node *node;
    struct smap others = SMAP_INITIALIZER(&others);
    struct ofpbuf attrs, knobs;
    char law[SHIM_LAW_SIZE];
    char *reason = NULL;

    ofpbuf_init(&attrs, 512);
    ofpbuf_init(&knobs, 512);
    SMAP_FOR_EACH (node, &have.knobs) {
        if (shim_dpif_knob_of_law(node->key, law)) {
            smap_add(&others, node->key, node->value);
            continue;
        }

        char *def = shim_dpif_knob_default(have.law, node->key);
        uint64_t value;
        if (def && shim_parse_u64(def, &value)) {
            shim_dpif_put_knob(node->key, value, &knobs);
        }
        free(def);
    }
    if (knobs.size) {
        nl_msg_put_string(&attrs, OVS_SHIM_SETTINGS_OF, have.law);
        nl_msg_put_nested(&attrs, OVS_SHIM_SETTINGS_KNOBS | NLA_F_NESTED,
                          knobs.data, knobs.size);
        shim_dpif_settings_set(&attrs, &reason);
        free(reason);
    }
    ofpbuf_uninit(&attrs);
    ofpbuf_uninit(&knobs);
    hmap_swap(&have.knobs.map, &others.map);
    smap_destroy(&others);
}

/* Appends item 'i' to 'attrs', or to 'knobs' if it is a knob of 'sorted', if
 * the kernel may not have it.  Returns true if so.  'alone' as for
 * put_knob(). */
static bool
put_item(size_t i, bool alone, const struct smap_node **sorted,
         struct ofpbuf *attrs, struct ofpbuf *knobs)
{
    bool new_law = strcmp(want.law, have.law);

    if (i == ITEM_LAW) {
        if (new_law) {
            nl_msg_put_string(attrs, OVS_SHIM_SETTINGS_LAW, want.law);
        }
        return new_law;
    } else if (i < ITEM_FIRST_KEY) {
        return put_setting(i - ITEM_FIRST_SETTING, new_law, attrs);
    } else if (i < ITEM_KNOBS) {
        size_t key = i - ITEM_FIRST_KEY;

        if (have.key_known[key]
            && !memcmp(have.keys[key], want.keys[key], SHIM_KEY_LEN)) {
            return false;
        }
        nl_msg_put_unspec(attrs, key_files[key].attr, want.keys[key],
                          SHIM_KEY_LEN);
        return true;
    } else {
        return put_knob(sorted[i - ITEM_KNOBS], new_law, alone, attrs, knobs);
    }
}

/* Notes that the kernel took item 'i'.  'alone' as for put_knob(). */
static void
took_item(size_t i, bool alone, const struct smap_node **sorted)
{
    char law[SHIM_LAW_SIZE];

    if (i == ITEM_LAW) {
        ovs_strlcpy(have.law, want.law, sizeof have.law);
    } else if (i < ITEM_FIRST_KEY) {
        have.numbers[i - ITEM_FIRST_SETTING]
            = want.numbers[i - ITEM_FIRST_SETTING];
        have.known[i - ITEM_FIRST_SETTING] = true;
    } else if (i < ITEM_KNOBS) {
        size_t key = i - ITEM_FIRST_KEY;

        memcpy(have.keys[key], want.keys[key], SHIM_KEY_LEN);
        have.key_known[key] = true;
    } else {
        const struct smap_node *node = sorted[i - ITEM_KNOBS];

        if (alone || !shim_dpif_knob_of_law(node->key, law)) {
            smap_replace(&have.knobs, node->key, node->value);
        }
    }
}

/* Returns the name of item 'i', after KNOB_PREFIX if it is a knob. */
static const char *
item_name(size_t i, const struct smap_node **sorted)
{
    return (i == ITEM_LAW ? "shim-law"
            : i < ITEM_FIRST_KEY ? settings[i - ITEM_FIRST_SETTING].key
            : i < ITEM_KNOBS ? key_files[i - ITEM_FIRST_KEY].key
            : sorted[i - ITEM_KNOBS]->key);
}

/* Sends items 'first' to 'last' - 1 to the kernel as far as it may not have
 * them.  Returns 0 if successful, otherwise a positive errno value.  Stores in
 * '*reason' what the kernel says about a refusal, or NULL. */
static int
push_items(size_t first, size_t last, const struct smap_node **sorted,
           char **reason)
{
    bool alone = last - first == 1;
    struct ofpbuf attrs, knobs;
    bool any = false;
    int error = 0;

    *reason = NULL;
    ofpbuf_init(&attrs, 512);
    ofpbuf_init(&knobs, 512);
    for (size_t i = first; i < last; i++) {
        any |= put_item(i, alone, sorted, &attrs, &knobs);
    }
    if (any) {
        if (knobs.size) {
            nl_msg_put_nested(&attrs, OVS_SHIM_SETTINGS_KNOBS | NLA_F_NESTED,
                              knobs.data, knobs.size);
        }
        error = shim_dpif_settings_set(&attrs, reason);
    }
    if (!error) {
        for (size_t i = first; i < last; i++) {
            took_item(i, alone, sorted);
        }
    }
    ofpbuf_uninit(&attrs);
    ofpbuf_uninit(&knobs);
    return error;
}

/* Makes the kernel's settings those wanted, with complaints about what it
 * refuses.  Does nothing if nobody ever asked for a setting. */
void
shim_settings_push(struct ds *complaints)
{
    if (!in_use) {
        return;
    }

    const struct smap_node **sorted = smap_sort(&want.knobs);
    size_t n = ITEM_KNOBS + smap_count(&want.knobs);
    char *reason;

    if (have.law[0] && strcmp(want.law, have.law)) {
        reset_old_law();
    }

    int error = push_items(0, n, sorted, &reason);
    bool refused = error && (error != ENOENT || reason);
    bool unreachable = error && !refused;
    free(reason);
    /* Without a refusal, what is left is knobs of named laws. */
    for (size_t i = refused ? 0 : ITEM_KNOBS;
         !unreachable && i < n; i++) {
        error = push_items(i, i + 1, sorted, &reason);
        if (error) {
            shim_complain(complaints, "%s%s: the datapath refuses it (%s)",
                          i >= ITEM_KNOBS ? KNOB_PREFIX : "",
                          item_name(i, sorted),
                          reason ? reason : ovs_strerror(error));
        }
        free(reason);
    }
    free(sorted);

    const struct smap_node *node;
    SMAP_FOR_EACH (node, &dropped) {
        smap_remove(&want.knobs, node->key);
        smap_remove(&have.knobs, node->key);
    }
    smap_clear(&dropped);
}

/* Returns true if the kernel has another law than we gave it, as after its
 * module was loaded anew, or if it does not answer. */
bool
shim_settings_lost(void)
{
    if (!in_use || !have.law[0]) {
        return false;
    }

    struct ofpbuf b;
    ofpbuf_init(&b, 4096);
    const struct nlattr *law = (shim_dpif_settings_get(NULL, &b) ? NULL
                                : nl_attr_find(&b, 0, OVS_SHIM_SETTINGS_LAW));
    bool lost = !law || strcmp(nl_attr_get_string(law), have.law);
    ofpbuf_uninit(&b);
    return lost;
}

/* Forgets what the kernel has, so that shim_settings_push() sends all. */
void
shim_settings_forget(void)
{
    smap_clear(&have.knobs);
    memset(have.known, 0, sizeof have.known);
    memset(have.key_known, 0, sizeof have.key_known);
    have.law[0] = '\0';
}
