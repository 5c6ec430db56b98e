/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPENVSWITCH_OFP_SHIM_H
#define OPENVSWITCH_OFP_SHIM_H 1

#include "openflow/shim-ext.h"
#include "openvswitch/ofp-errors.h"
#include "openvswitch/ofp-msgs.h"
#include "openvswitch/ofp-protocol.h"

struct ds;
struct ofp_header;
struct ofpbuf;
struct ofputil_port_map;
struct ovs_list;

#ifdef __cplusplus
extern "C" {
#endif

/* Abstract request of one of the shim's multipart messages. */
struct ofputil_shim_request {
    uint64_t generation;        /* Last one seen, or 0. */
    uint64_t boot;              /* Boot that 'generation' belongs to, or 0. */
    ofp_port_t port_no;         /* One port, or OFPP_ANY. */
};

/* Abstract header of one of the shim's multipart replies. */
struct ofputil_shim_reply {
    uint64_t generation;        /* Generation of the reading. */
    uint64_t boot;              /* Identifies this start of the switch. */
    uint64_t time_ns;           /* CLOCK_MONOTONIC of the reading, in ns. */
};

enum ofperr ofputil_decode_shim_request(const struct ofp_header *,
                                        struct ofputil_shim_request *);
struct ofpbuf *ofputil_encode_shim_request(
    enum ofpraw, enum ofp_version, const struct ofputil_shim_request *);

void ofputil_shim_reply_start(struct ovs_list *replies,
                              const struct ofp_header *request,
                              const struct ofputil_shim_reply *);
void *ofputil_shim_reply_append(struct ovs_list *replies, size_t len,
                                const struct ofputil_shim_reply *);

const struct shim_path_message *ofputil_pull_path_message(struct ofpbuf *);

enum ofperr ofputil_format_shim(struct ds *, const struct ofp_header *,
                                const struct ofputil_port_map *);

#ifdef __cplusplus
}
#endif

#endif /* openvswitch/ofp-shim.h */
