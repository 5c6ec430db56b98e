/* SPDX-License-Identifier: Apache-2.0 */

/* Serves PORT_MARKS and VM_STATE, which include/openflow/shim-ext.h describes.
 *
 * One number counts the generations of everything we tell.  It goes up when a
 * reading finds something moved, or when a port joins a bridge.  An entry
 * remembers in which generation it last moved, so to answer a request is to
 * compare. */

#include <config.h>
#include "ofproto-shim.h"
#include "byte-order.h"
#include "connmgr.h"
#include "netdev.h"
#include "netdev-marks.h"
#include "ofproto-provider.h"
#include "openvswitch/ofp-shim.h"
#include "random.h"
#include "timeval.h"

/* Generation of the last change.  Never 0, which asks for everything. */
static uint64_t generation = 1;

/* Returns CLOCK_MONOTONIC in ns. */
static uint64_t
now_ns(void)
{
    struct timespec ts;

    time_timespec(&ts);
    return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

/* Returns the random number, not 0, that identifies this start of the
 * switch. */
static uint64_t
boot_id(void)
{
    static uint64_t boot;

    while (!boot) {
        boot = random_uint64();
    }
    return boot;
}

/* Begins a new generation and returns it, for something that moved. */
uint64_t
ofproto_shim_new_generation(void)
{
    return ++generation;
}

/* Returns the generation after which the client of 'request' wants to know
 * what moved, 0 for everything. */
static uint64_t
generation_since(const struct ofputil_shim_request *request)
{
    return (request->boot == boot_id() && request->generation <= generation
            ? request->generation : 0);
}

/* Appends an entry for 'port' to 'replies', with 'reply' as their header, if
 * it moved after generation 'since'. */
static void
append_port_marks(const struct ofport *port, uint64_t since,
                  const struct ofputil_shim_reply *reply,
                  struct ovs_list *replies)
{
    static const struct netdev_marks none;
    const struct netdev_marks *m;

    m = netdev_marks_get(netdev_get_ifindex(port->netdev));
    if (!m) {
        m = &none;
    }
    if (since && m->generation <= since && port->shim_generation <= since) {
        return;
    }

    struct shim_port_marks *spm;
    spm = ofputil_shim_reply_append(replies, sizeof *spm, reply);
    spm->port_no = ofputil_port_to_ofp11(port->ofp_port);
    spm->kinds = htonl(m->kinds);
    spm->marks = htonll(m->marks);
    spm->packets = htonll(m->packets);
    spm->bytes = htonll(m->bytes);
    spm->drops = htonll(m->drops);
    spm->backlog_bytes = htonl(m->backlog_bytes);
    spm->backlog_packets = htonl(m->backlog_packets);
}

/* Answers 'oh', a PORT_MARKS request that decodes to 'request', on
 * 'ofconn'. */
static void
handle_port_marks(struct ofconn *ofconn, const struct ofp_header *oh,
                  const struct ofputil_shim_request *request)
{
    const struct ofproto *ofproto = ofconn_get_ofproto(ofconn);
    uint64_t now = now_ns();

    if (netdev_marks_refresh(now, generation + 1)) {
        generation++;
    }

    uint64_t since = generation_since(request);
    uint64_t read = netdev_marks_time_ns();
    struct ofputil_shim_reply reply = {
        .generation = generation,
        .boot = boot_id(),
        .time_ns = read ? read : now,
    };
    struct ovs_list replies;
    const struct ofport *port;

    ofputil_shim_reply_start(&replies, oh, &reply);
    if (request->port_no == OFPP_ANY) {
        HMAP_FOR_EACH (port, hmap_node, &ofproto->ports) {
            append_port_marks(port, since, &reply, &replies);
        }
    } else {
        port = ofproto_get_port(ofproto, request->port_no);
        if (port) {
            append_port_marks(port, since, &reply, &replies);
        }
    }
    ofconn_send_replies(ofconn, &replies);
}

/* Answers 'oh', a PORT_MARKS or VM_STATE request, on 'ofconn'.  Returns 0 if
 * successful, otherwise an OFPERR_* value. */
enum ofperr
ofproto_shim_handle_request(struct ofconn *ofconn, const struct ofp_header *oh)
{
    struct ofputil_shim_request request;
    enum ofperr error = ofputil_decode_shim_request(oh, &request);

    if (error) {
        return error;
    }
    handle_port_marks(ofconn, oh, &request);
    return 0;
}
