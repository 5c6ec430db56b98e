/* SPDX-License-Identifier: Apache-2.0 */

/* Turns texts of other_config into values. */

#include <config.h>
#include "shim-values.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "openvswitch/dynamic-string.h"
#include "packets.h"
#include "shim-netlink.h"
#include "smap.h"
#include "util.h"

/* Appends a sentence in printf() style to 'complaints'. */
void
shim_complain(struct ds *complaints, const char *format, ...)
{
    va_list args;

    if (complaints->length) {
        ds_put_char(complaints, ' ');
    }
    va_start(args, format);
    ds_put_format_valist(complaints, format, args);
    va_end(args);
    ds_put_char(complaints, '.');
}

/* Stores the number in 's', decimal digits only, in '*value'.  Returns true if
 * successful, false if 's' is something else or too large. */
bool
shim_parse_u64(const char *s, uint64_t *value)
{
    size_t digits = strspn(s, "0123456789");

    if (!digits || s[digits]) {
        return false;
    }
    errno = 0;
    *value = strtoull(s, NULL, 10);
    return !errno;
}

/* Stores the number that 'key' of 'map' holds, times 'scale', in '*value'.
 * Without the key it is 'def'.  If the number is not in 'range', complains and
 * leaves '*value' as it is. */
void
shim_parse_number(const struct smap *map, const char *key,
                  const struct shim_range *range, uint64_t def,
                  uint64_t scale, uint64_t *value, struct ds *complaints)
{
    const char *s = smap_get(map, key);
    uint64_t number = def;

    if (!s || (shim_parse_u64(s, &number)
               && ((number >= range->min && number <= range->max)
                   || (!number && range->zero)))) {
        *value = number * scale;
        return;
    }
    shim_complain(complaints, "%s: '%s' is not allowed, %"PRIu64" to %"PRIu64
                  "%s is%s%s; %"PRIu64"%s stays in force",
                  key, s, range->min, range->max, range->unit,
                  range->zero ? ", or 0 for " : "",
                  range->zero ? range->zero : "",
                  *value / scale, range->unit);
}

/* Stores the key in the file named 'path', 32 hexadecimal digits, in 'key'.
 * Returns NULL if successful, otherwise what is wrong with the file. */
static const char *
read_key(const char *path, uint8_t key[SHIM_KEY_LEN])
{
    char text[2 * SHIM_KEY_LEN + 1];
    uint8_t new[SHIM_KEY_LEN];
    bool ok;

    FILE *file = fopen(path, "r");
    if (!file) {
        return ovs_strerror(errno);
    }
    size_t n = fread(text, 1, 2 * SHIM_KEY_LEN, file);
    int c;
    while ((c = getc(file)) != EOF && strchr(" \t\r\n", c)) {
        continue;
    }
    fclose(file);

    ok = n == 2 * SHIM_KEY_LEN && c == EOF;
    for (int i = 0; ok && i < SHIM_KEY_LEN; i++) {
        uintmax_t byte = hexits_value(&text[2 * i], 2, &ok);
        new[i] = byte;
    }
    if (!ok) {
        return "it must hold 32 hexadecimal digits";
    }
    if (is_all_zeros(new, sizeof new)) {
        return "a key of zeros is none";
    }
    memcpy(key, new, sizeof new);
    return NULL;
}

/* Takes the key in the file that 'key' of 'map' names into 'value', all zero
 * without the key.  Reads the file each time, so that a new key in it takes
 * effect.  If the file cannot be used, complains and leaves 'value' as it
 * is. */
void
shim_parse_key_file(const struct smap *map, const char *key,
                    uint8_t value[SHIM_KEY_LEN], struct ds *complaints)
{
    const char *path = smap_get(map, key);

    if (!path) {
        memset(value, 0, SHIM_KEY_LEN);
        return;
    }

    const char *why = read_key(path, value);
    if (why) {
        shim_complain(complaints, "%s: %s cannot be used (%s); %s",
                      key, path, why, is_all_zeros(value, SHIM_KEY_LEN)
                      ? "there still is no key" : "the last key stays in "
                      "force");
    }
}

/* Stores the address or network in 's', such as 10.0.0.5 or 2001:db8::/64, in
 * '*address'.  Returns NULL if successful, otherwise what is wrong with it.
 * Unlike ip_parse_cidr(), this takes no number above 255, nor an octal one. */
static const char *
parse_address(const char *s, struct shim_nl_address *address)
{
    const char *slash = strchr(s, '/');
    char *host = slash ? xmemdup0(s, slash - s) : xstrdup(s);
    bool ipv6 = strchr(host, ':') != NULL;
    uint64_t whole = ipv6 ? 128 : 32, plen = whole;
    struct in6_addr mask, masked;
    struct in_addr ip;
    bool ok;

    if (ipv6) {
        ok = inet_pton(AF_INET6, host, &address->value) == 1;
    } else {
        ok = inet_pton(AF_INET, host, &ip) == 1;
        if (ok) {
            in6_addr_set_mapped_ipv4(&address->value, ip.s_addr);
        }
    }
    free(host);
    if (!ok || (slash && (!shim_parse_u64(slash + 1, &plen)
                          || plen > whole))) {
        return "is no address or network";
    }

    plen += 128 - whole;
    mask = ipv6_create_mask(plen);
    masked = ipv6_addr_bitand(&address->value, &mask);
    if (!ipv6_addr_equals(&masked, &address->value)) {
        return "has bits beyond its prefix";
    }
    address->prefix = plen;
    return NULL;
}

/* Takes the addresses that 'key' of 'map' holds, with spaces between them,
 * into 'port'.  Without the key there are none.  If one of them cannot be used
 * or there are too many, complains and leaves those of 'port' as they are. */
void
shim_parse_addresses(const struct smap *map, const char *key,
                     struct shim_nl_port *port, struct ds *complaints)
{
    struct shim_nl_address *addresses = NULL;
    size_t n = 0, allocated = 0;
    const char *why = NULL;
    char *copy, *token, *save = NULL;

    copy = xstrdup(smap_get_def(map, key, ""));
    for (token = strtok_r(copy, " ", &save); token;
         token = strtok_r(NULL, " ", &save)) {
        if (n >= allocated) {
            addresses = x2nrealloc(addresses, &allocated, sizeof *addresses);
        }
        memset(&addresses[n], 0, sizeof addresses[n]);
        why = parse_address(token, &addresses[n]);
        if (why) {
            break;
        }
        n++;
    }
    if (why) {
        shim_complain(complaints, "%s: '%s' %s; the %"PRIu32" set before stay "
                      "in force", key, token, why, port->n_addresses);
    } else if (n > SHIM_ADDRESSES_MAX) {
        shim_complain(complaints, "%s: %"PRIuSIZE" are too many, at most %d "
                      "are allowed; the %"PRIu32" set before stay in force",
                      key, n, SHIM_ADDRESSES_MAX, port->n_addresses);
    } else {
        if (n) {
            memcpy(port->addresses, addresses, n * sizeof *addresses);
        }
        port->n_addresses = n;
    }
    free(addresses);
    free(copy);
}
