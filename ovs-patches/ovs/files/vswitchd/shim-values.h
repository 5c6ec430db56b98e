/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_VALUES_H
#define VSWITCHD_SHIM_VALUES_H 1

#include <stdbool.h>
#include <stdint.h>
#include "openvswitch/compiler.h"

struct ds;
struct shim_nl_port;
struct smap;

/* Values in other_config, of an Interface and of Open_vSwitch alike.
 *
 * Complaints about values that cannot be used are sentences appended to a
 * "struct ds".  The value in force before stays so. */

/* Bytes of a key of control messages. */
#define SHIM_KEY_LEN 16

/* Range of a number in other_config. */
struct shim_range {
    uint64_t min;               /* Smallest value allowed. */
    uint64_t max;               /* Largest value allowed. */
    const char *unit;           /* After a number, e.g. " us". */
    const char *zero;           /* What 0 means, NULL if 0 is as any other. */
};

void shim_complain(struct ds *complaints, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);
bool shim_parse_u64(const char *s, uint64_t *);
void shim_parse_number(const struct smap *, const char *key,
                       const struct shim_range *, uint64_t def,
                       uint64_t scale, uint64_t *value,
                       struct ds *complaints);
void shim_parse_key_file(const struct smap *, const char *key,
                         uint8_t value[SHIM_KEY_LEN], struct ds *complaints);
void shim_parse_addresses(const struct smap *, const char *key,
                          struct shim_nl_port *, struct ds *complaints);

#endif /* vswitchd/shim-values.h */
