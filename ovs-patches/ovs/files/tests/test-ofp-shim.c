/* SPDX-License-Identifier: Apache-2.0 */

/* Checks that a reply too long for one OpenFlow message comes in parts, each
 * with a header that counts its own entries. */

#include <config.h>
#undef NDEBUG
#include "openvswitch/ofp-shim.h"
#include "byte-order.h"
#include "openvswitch/list.h"
#include "openvswitch/ofp-msgs.h"
#include "openvswitch/ofpbuf.h"
#include "ovstest.h"
#include "util.h"

/* Fails unless a reply of kind 'raw' with 'n' entries of 'len' bytes comes in
 * 'parts' parts. */
static void
check(enum ofpraw raw, size_t len, uint32_t n, int parts)
{
    struct ofputil_shim_request request = { 1, 2, OFPP_ANY };
    struct ofputil_shim_reply reply = { 7, 8, 9 };
    struct ofpbuf *b = ofputil_encode_shim_request(raw, OFP13_VERSION,
                                                   &request);
    struct ovs_list replies;
    uint32_t total = 0;
    struct ofpbuf *part;
    int left = parts;

    ofputil_shim_reply_start(&replies, b->data, &reply);
    for (uint32_t i = 0; i < n; i++) {
        ovs_be32 *port_no = ofputil_shim_reply_append(&replies, len, &reply);
        *port_no = htonl(i);
    }
    ofpbuf_delete(b);

    LIST_FOR_EACH_POP (part, list_node, &replies) {
        ofpmsg_update_length(part);
        ovs_assert(ofpmp_more(part->data) == (--left > 0));
        ofpraw_pull_assert(part);

        struct shim_multipart_reply *smr = ofpbuf_pull(part, sizeof *smr);
        ovs_assert(ntohll(smr->generation) == 7 && ntohll(smr->boot) == 8
                   && ntohll(smr->time_ns) == 9);
        ovs_assert(ntohl(smr->entry_len) == (part->size ? len : 0));
        ovs_assert(part->size == ntohl(smr->entry_count) * len);
        while (part->size) {
            ovs_be32 *port_no = ofpbuf_pull(part, len);
            ovs_assert(ntohl(*port_no) == total++);
        }
        ofpbuf_delete(part);
    }
    ovs_assert(!left && total == n);
}

/* Runs all checks.  A part holds (65535 - 56) bytes of entries at most. */
static void
test_ofp_shim_main(int argc OVS_UNUSED, char *argv[] OVS_UNUSED)
{
    enum ofpraw marks = OFPRAW_SHIMST_PORT_MARKS_REQUEST;
    enum ofpraw state = OFPRAW_SHIMST_VM_STATE_REQUEST;
    enum ofpraw peers = OFPRAW_SHIMST_HOST_PEERS_REQUEST;
    enum ofpraw paths = OFPRAW_SHIMST_HOST_PATHS_REQUEST;

    check(marks, sizeof(struct shim_port_marks), 0, 1);
    check(marks, sizeof(struct shim_port_marks), 1364, 1);
    check(marks, sizeof(struct shim_port_marks), 1365, 2);
    check(marks, sizeof(struct shim_port_marks), 5000, 4);
    check(state, sizeof(struct shim_vm_state), 682, 1);
    check(state, sizeof(struct shim_vm_state), 683, 2);
    check(peers, sizeof(struct shim_host_peer), 584, 1);
    check(peers, sizeof(struct shim_host_peer), 585, 2);
    check(paths, sizeof(struct shim_host_path), 909, 1);
    check(paths, sizeof(struct shim_host_path), 910, 2);
}

OVSTEST_REGISTER("test-ofp-shim", test_ofp_shim_main);
