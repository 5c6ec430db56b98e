/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_PORT_H
#define VSWITCHD_SHIM_PORT_H 1

#include <stdbool.h>
#include <stdint.h>
#include "openvswitch/compiler.h"

struct ds;
struct netdev;
struct ovsrec_interface;
struct shim_nl_port;
struct smap;

/* Values in other_config, of an Interface and of Open_vSwitch alike. */

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

/* What an Interface asks of the shim. */
bool shim_port_configure(const struct ovsrec_interface *,
                         const struct netdev *, struct shim_nl_port *want,
                         struct ds *complaints);
bool shim_port_differs(const struct shim_nl_port *,
                       const struct shim_nl_port *);

#endif /* vswitchd/shim-port.h */
