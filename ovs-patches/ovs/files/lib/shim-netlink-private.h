/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_NETLINK_PRIVATE_H
#define SHIM_NETLINK_PRIVATE_H 1

#include <stdint.h>

struct ofpbuf;

/* What the files of the client share.  shim_nl_is_available() must have
 * returned true. */

void shim_nl_forget_family(void);
void shim_nl_start_request(struct ofpbuf *, uint8_t cmd, uint32_t flags);
int shim_nl_transact(struct ofpbuf *request, struct ofpbuf *attrs,
                     char **reason);

#endif /* shim-netlink-private.h */
