/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_PORT_H
#define VSWITCHD_SHIM_PORT_H 1

#include <stdbool.h>

struct ds;
struct netdev;
struct ovsrec_interface;
struct ovsrec_open_vswitch;
struct ovsrec_port;
struct shim_nl_port;

/* What an Interface asks of the shim. */
bool shim_port_configure(const struct ovsrec_interface *,
                         const struct ovsrec_port *, const struct netdev *,
                         struct shim_nl_port *want, struct ds *complaints);
void shim_port_check_tunnel(const struct ovsrec_interface *,
                            const struct ovsrec_port *,
                            struct ds *complaints);
bool shim_port_keeps_qdisc(const struct ovsrec_open_vswitch *,
                           const struct ovsrec_interface *,
                           const struct ovsrec_port *,
                           const struct netdev *);
bool shim_port_differs(const struct shim_nl_port *,
                       const struct shim_nl_port *);

#endif /* vswitchd/shim-port.h */
