/* SPDX-License-Identifier: Apache-2.0 */

/* Encoding, decoding and printing of the shim's experimenter messages, which
 * include/openflow/shim-ext.h describes. */

#include <config.h>
#include "openvswitch/ofp-shim.h"
#include "byte-order.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/list.h"
#include "openvswitch/ofp-port.h"
#include "openvswitch/ofpbuf.h"
#include "packets.h"
#include "util.h"

/* Decodes 'oh', one of the shim's multipart requests, into '*request'.
 * Returns 0 if successful, otherwise an OFPERR_* value. */
enum ofperr
ofputil_decode_shim_request(const struct ofp_header *oh,
                            struct ofputil_shim_request *request)
{
    struct ofpbuf b = ofpbuf_const_initializer(oh, ntohs(oh->length));
    ofpraw_pull_assert(&b);

    const struct shim_multipart_request *smr = ofpbuf_pull(&b, sizeof *smr);
    request->generation = ntohll(smr->generation);
    request->boot = ntohll(smr->boot);
    return ofputil_port_from_ofp11(smr->port_no, &request->port_no);
}

/* Returns an OpenFlow message of type 'raw', which must be one of the shim's
 * requests, for OpenFlow 'version', 1.3 or later.  The caller owns it. */
struct ofpbuf *
ofputil_encode_shim_request(enum ofpraw raw, enum ofp_version version,
                            const struct ofputil_shim_request *request)
{
    struct ofpbuf *msg = ofpraw_alloc(raw, version, 0);
    struct shim_multipart_request *smr = ofpbuf_put_zeros(msg, sizeof *smr);

    smr->generation = htonll(request->generation);
    smr->boot = htonll(request->boot);
    smr->port_no = ofputil_port_to_ofp11(request->port_no);
    return msg;
}

/* Appends the header 'reply' to 'msg', which must not have a body yet. */
static void
put_reply_header(struct ofpbuf *msg, const struct ofputil_shim_reply *reply)
{
    struct shim_multipart_reply *smr = ofpbuf_put_zeros(msg, sizeof *smr);

    smr->generation = htonll(reply->generation);
    smr->boot = htonll(reply->boot);
    smr->time_ns = htonll(reply->time_ns);
}

/* Initializes 'replies' as the answer to 'request', one of the shim's
 * multipart requests, with 'reply' as its header and no entries. */
void
ofputil_shim_reply_start(struct ovs_list *replies,
                         const struct ofp_header *request,
                         const struct ofputil_shim_reply *reply)
{
    ofpmp_init(replies, request);
    put_reply_header(ofpbuf_from_list(ovs_list_back(replies)), reply);
}

/* Appends an entry of 'len' bytes to 'replies', which must have been
 * initialized with ofputil_shim_reply_start(), and counts it.  Begins a new
 * part with a header of its own when the last one is full.  Returns the entry
 * for the caller to fill in. */
void *
ofputil_shim_reply_append(struct ovs_list *replies, size_t len,
                          const struct ofputil_shim_reply *reply)
{
    struct ofpbuf *msg = ofpmp_reserve(replies, len);
    if (ofpbuf_tail(msg) == msg->msg) {
        put_reply_header(msg, reply);
    }

    void *entry = ofpbuf_put_zeros(msg, len);
    struct shim_multipart_reply *smr = msg->msg;
    smr->entry_count = htonl(ntohl(smr->entry_count) + 1);
    smr->entry_len = htonl(len);
    return entry;
}

/* Appends " <name>=<port>" to 's', with the port's name if 'port_map' has
 * it. */
static void
format_port(struct ds *s, const char *name, ovs_be32 port_no,
            const struct ofputil_port_map *port_map)
{
    ofp_port_t port;

    ds_put_format(s, " %s=", name);
    if (ofputil_port_from_ofp11(port_no, &port)) {
        ds_put_format(s, "%"PRIu32, ntohl(port_no));
    } else {
        ofputil_format_port(port, port_map, s);
    }
}

/* Appends the names of the SHIM_MARK_* bits in 'kinds' to 's'. */
static void
format_kinds(struct ds *s, uint32_t kinds)
{
    static const char *names[] = {
        "red", "fq_codel", "codel", "cake", "choke",
    };

    if (!kinds) {
        ds_put_cstr(s, "none");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (kinds & (1u << i)) {
            ds_put_format(s, "%s,", names[i]);
            kinds &= ~(1u << i);
        }
    }
    if (kinds) {
        ds_put_format(s, "%#"PRIx32",", kinds);
    }
    ds_chomp(s, ',');
}

/* Appends one line for 'spm' to 's'. */
static void
format_port_marks(struct ds *s, const struct shim_port_marks *spm,
                  const struct ofputil_port_map *port_map)
{
    format_port(s, "port", spm->port_no, port_map);
    ds_put_cstr(s, " kinds=");
    format_kinds(s, ntohl(spm->kinds));
    ds_put_format(s, " marks=%"PRIu64" packets=%"PRIu64" bytes=%"PRIu64
                  " drops=%"PRIu64" backlog_bytes=%"PRIu32
                  " backlog_packets=%"PRIu32"\n",
                  ntohll(spm->marks), ntohll(spm->packets), ntohll(spm->bytes),
                  ntohll(spm->drops), ntohl(spm->backlog_bytes),
                  ntohl(spm->backlog_packets));
}

/* Appends one line for 'svs' to 's', with the kernel's indexes of devices if
 * 'host', else with ports. */
static void
format_vm_state(struct ds *s, const struct shim_vm_state *svs, bool host,
                const struct ofputil_port_map *port_map)
{
    uint32_t flags = ntohl(svs->flags);

    if (host) {
        ds_put_format(s, " vm=%"PRIu32" uplink=%"PRIu32, ntohl(svs->port_no),
                      ntohl(svs->uplink_port));
    } else {
        format_port(s, "port", svs->port_no, port_map);
        format_port(s, "uplink", svs->uplink_port, port_map);
    }
    ds_put_format(s, " weight=%"PRIu32"%s%s", ntohl(svs->weight),
                  flags & SHIM_VM_ACTIVE ? " active" : "",
                  flags & SHIM_VM_CONGESTED ? " congested" : "");
    ds_put_format(s, " rate=%"PRIu64" share=%"PRIu64" min=%"PRIu64
                  " max=%"PRIu64" sent_rate=%"PRIu64,
                  ntohll(svs->rate), ntohll(svs->share),
                  ntohll(svs->min_rate), ntohll(svs->max_rate),
                  ntohll(svs->sent_rate));
    ds_put_format(s, " tx_bytes=%"PRIu64" tx_packets=%"PRIu64
                  " drops=%"PRIu64" messages=%"PRIu32" refused=%"PRIu32
                  " message_marks=%"PRIu64"\n",
                  ntohll(svs->tx_bytes), ntohll(svs->tx_packets),
                  ntohll(svs->drops), ntohl(svs->messages),
                  ntohl(svs->refused), ntohll(svs->message_marks));
}

/* Appends " <name>=<address>" to 's', with the 16 bytes of the address in
 * 'bytes'. */
static void
format_address(struct ds *s, const char *name, const uint8_t bytes[16])
{
    struct in6_addr address;

    memcpy(&address, bytes, sizeof address);
    ds_put_format(s, " %s=", name);
    ipv6_format_mapped(&address, s);
}

/* Appends one line for 'shp' to 's'. */
static void
format_host_peer(struct ds *s, const struct shim_host_peer *shp)
{
    ds_put_format(s, " vm=%"PRIu32" uplink=%"PRIu32" vlan=%"PRIu16,
                  ntohl(shp->vm), ntohl(shp->uplink), ntohs(shp->vlan));
    format_address(s, "local", shp->local);
    format_address(s, "remote", shp->remote);
    if (!is_all_zeros(shp->tunnel, sizeof shp->tunnel)) {
        format_address(s, "tunnel", shp->tunnel);
        ds_put_format(s, " tunnel_id=%"PRIu64, ntohll(shp->tunnel_id));
    }
    ds_put_format(s, " tx_bytes=%"PRIu64" tx_packets=%"PRIu64
                  " rx_bytes=%"PRIu64" rx_packets=%"PRIu64
                  " rx_marks=%"PRIu64"\n",
                  ntohll(shp->tx_bytes), ntohll(shp->tx_packets),
                  ntohll(shp->rx_bytes), ntohll(shp->rx_packets),
                  ntohll(shp->rx_marks));
}

/* Appends one line for 'shp' to 's'. */
static void
format_host_path(struct ds *s, const struct shim_host_path *shp,
                 const struct ofputil_port_map *port_map)
{
    ds_put_format(s, " vm=%"PRIu32, ntohl(shp->vm));
    if (shp->port_no) {
        format_port(s, "port", shp->port_no, port_map);
    }
    if (shp->bits) {
        format_address(s, shp->scope ? "tunnel" : "prefix", shp->prefix);
        ds_put_format(s, " bits=%"PRIu8, shp->bits);
    } else {
        ds_put_cstr(s, " rest");
    }
    ds_put_format(s, "%s rate=%"PRIu64" sent_rate=%"PRIu64
                  " tx_bytes=%"PRIu64" tx_packets=%"PRIu64" held=%"PRIu64"\n",
                  ntohl(shp->flags) & SHIM_PATH_LIMITED ? " limited" : "",
                  ntohll(shp->rate), ntohll(shp->sent_rate),
                  ntohll(shp->tx_bytes), ntohll(shp->tx_packets),
                  ntohll(shp->held));
}

/* Takes the next control message off 'b', a PATH_MESSAGES without header.
 * Returns what is in front of it, or NULL if the rest of 'b' is none. */
const struct shim_path_message *
ofputil_pull_path_message(struct ofpbuf *b)
{
    const struct shim_path_message *spm;

    spm = ofpbuf_try_pull(b, sizeof *spm);
    return (spm && ntohs(spm->length) % 8 == 0
            && ofpbuf_try_pull(b, ntohs(spm->length)) ? spm : NULL);
}

/* Appends a line for each control message in 'b', which may have any length,
 * to 's'.  Returns 0 if successful, otherwise an OFPERR_* value. */
static enum ofperr
format_path_messages(struct ds *s, struct ofpbuf *b)
{
    while (b->size) {
        const struct shim_path_message *spm = ofputil_pull_path_message(b);

        if (!spm) {
            return OFPERR_OFPBRC_BAD_LEN;
        }
        ds_put_format(s, " vm=%"PRIu32" length=%"PRIu16"\n", ntohl(spm->vm),
                      ntohs(spm->length));
    }
    return 0;
}

/* Appends a line for each control message in 'b' to 's'. */
static void
format_vm_messages(struct ds *s, struct ofpbuf *b)
{
    while (b->size) {
        const struct shim_vm_message *svm = ofpbuf_pull(b, sizeof *svm);

        ds_put_format(s, " vm=%"PRIu32"\n", ntohl(svm->vm));
    }
}

/* Appends the request 'req' to 's'. */
static void
format_request(struct ds *s, const struct shim_multipart_request *req,
               const struct ofputil_port_map *port_map)
{
    ds_put_format(s, " generation=%"PRIu64" boot=%#"PRIx64,
                  ntohll(req->generation), ntohll(req->boot));
    format_port(s, "port", req->port_no, port_map);
}

/* Appends the body of 'oh', one of the shim's messages, to 's'.  Returns 0 if
 * successful, otherwise an OFPERR_* value. */
enum ofperr
ofputil_format_shim(struct ds *s, const struct ofp_header *oh,
                    const struct ofputil_port_map *port_map)
{
    struct ofpbuf b = ofpbuf_const_initializer(oh, ntohs(oh->length));
    enum ofpraw raw = ofpraw_pull_assert(&b);
    size_t len = 0;

    switch ((int) raw) {
    case OFPRAW_SHIMST_PORT_MARKS_REQUEST:
    case OFPRAW_SHIMST_VM_STATE_REQUEST:
    case OFPRAW_SHIMST_HOST_VMS_REQUEST:
    case OFPRAW_SHIMST_HOST_PEERS_REQUEST:
    case OFPRAW_SHIMST_HOST_PATHS_REQUEST:
        format_request(s, ofpbuf_pull(&b, sizeof(
                           struct shim_multipart_request)), port_map);
        return 0;
    case OFPRAW_SHIMT_VM_MESSAGES:
        format_vm_messages(s, &b);
        return 0;
    case OFPRAW_SHIMT_PATH_MESSAGES:
        return format_path_messages(s, &b);
    case OFPRAW_SHIMST_PORT_MARKS_REPLY:
        len = sizeof(struct shim_port_marks);
        break;
    case OFPRAW_SHIMST_VM_STATE_REPLY:
    case OFPRAW_SHIMST_HOST_VMS_REPLY:
        len = sizeof(struct shim_vm_state);
        break;
    case OFPRAW_SHIMST_HOST_PEERS_REPLY:
        len = sizeof(struct shim_host_peer);
        break;
    case OFPRAW_SHIMST_HOST_PATHS_REPLY:
        len = sizeof(struct shim_host_path);
        break;
    }

    const struct shim_multipart_reply *rep = ofpbuf_pull(&b, sizeof *rep);
    ds_put_format(s, " generation=%"PRIu64" boot=%#"PRIx64" time_ns=%"PRIu64
                  " entries=%"PRIu32"\n", ntohll(rep->generation),
                  ntohll(rep->boot), ntohll(rep->time_ns),
                  ntohl(rep->entry_count));
    if (b.size / len != ntohl(rep->entry_count)) {
        return OFPERR_OFPBRC_BAD_LEN;
    }
    while (b.size) {
        const void *entry = ofpbuf_pull(&b, len);

        switch ((int) raw) {
        case OFPRAW_SHIMST_PORT_MARKS_REPLY:
            format_port_marks(s, entry, port_map);
            break;
        case OFPRAW_SHIMST_VM_STATE_REPLY:
            format_vm_state(s, entry, false, port_map);
            break;
        case OFPRAW_SHIMST_HOST_VMS_REPLY:
            format_vm_state(s, entry, true, port_map);
            break;
        case OFPRAW_SHIMST_HOST_PEERS_REPLY:
            format_host_peer(s, entry);
            break;
        case OFPRAW_SHIMST_HOST_PATHS_REPLY:
            format_host_path(s, entry, port_map);
            break;
        }
    }
    return 0;
}
