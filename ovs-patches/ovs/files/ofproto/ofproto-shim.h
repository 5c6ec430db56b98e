/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROTO_SHIM_H
#define OFPROTO_SHIM_H 1

#include <stdint.h>
#include "openvswitch/ofp-errors.h"

struct ofconn;
struct ofp_header;

/* The switch's side of the shim's experimenter messages. */

uint64_t ofproto_shim_new_generation(void);
enum ofperr ofproto_shim_handle_request(struct ofconn *,
                                        const struct ofp_header *);
enum ofperr ofproto_shim_handle_messages(const struct ofp_header *);

#endif /* ofproto-shim.h */
