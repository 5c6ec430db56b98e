/* SPDX-License-Identifier: Apache-2.0 */

/* Versions are told by their headers: 3.1 does not know how long the segments
 * of a packet are to be, and cuts none; later ones do, into batches that are
 * of a fixed size, or, the latest, of any. */

#include <config.h>
#include "shim-gso.h"
#include "dp-packet.h"
#include "util.h"

#if __has_include("dpif-offload.h")
#define HAVE_GSO_BATCH 1
#endif
#if __has_include("dp-packet-gso.h")
#define HAVE_GSO 1
#include "dp-packet-gso.h"
#endif

/* Returns how many bytes of payload each packet has that 'packet' stands for,
 * 0 if it stands for itself, or for more than is known. */
size_t
shim_gso_size(const struct dp_packet *packet OVS_UNUSED)
{
#if HAVE_GSO_BATCH
    return dp_packet_get_tso_segsz(packet);
#elif HAVE_GSO
    return dp_packet_hwol_is_tso(packet) ? dp_packet_get_tso_segsz(packet) : 0;
#else
    return 0;
#endif
}

#if HAVE_GSO_BATCH
/* Cuts 'packet', of which shim_gso_size() knows, into 'parts', and takes it
 * over. */
static void
cut(struct dp_packet *packet, struct shim_parts *parts)
{
    struct dp_packet_batch batch;

    dp_packet_batch_init_packet(&batch, packet);
    dp_packet_gso_batch(&batch);
    parts->n = dp_packet_batch_size(&batch);
    parts->packets = xmemdup(batch.packets,
                             parts->n * sizeof *parts->packets);
    dp_packet_batch_destroy(&batch);
}
#elif HAVE_GSO
/* The same, into none if it cannot be cut. */
static void
cut(struct dp_packet *packet, struct shim_parts *parts)
{
    size_t n_batches = DIV_ROUND_UP(dp_packet_gso_nr_segs(packet),
                                    NETDEV_MAX_BURST);
    struct dp_packet_batch *batches = xmalloc(n_batches * sizeof *batches);
    struct dp_packet_batch *last = batches;
    struct dp_packet *part;

    for (size_t i = 0; i < n_batches; i++) {
        dp_packet_batch_init(&batches[i]);
    }
    parts->n = 0;
    parts->packets = xmalloc(n_batches * NETDEV_MAX_BURST
                             * sizeof *parts->packets);
    if (dp_packet_gso(packet, &last)) {
        for (size_t i = 0; i < n_batches; i++) {
            DP_PACKET_BATCH_FOR_EACH (j, part, &batches[i]) {
                parts->packets[parts->n++] = part;
            }
        }
    }
    free(batches);
    dp_packet_delete(packet);
}
#else
/* No packet is known to be one that could be cut. */
static void
cut(struct dp_packet *packet, struct shim_parts *parts)
{
    dp_packet_delete(packet);
    *parts = (struct shim_parts) { .n = 0 };
}
#endif

/* Cuts 'packet', of which shim_gso_size() knows, into 'parts', which know
 * where it is from as it does, and takes it over.  There are none if it cannot
 * be cut. */
void
shim_gso_cut(struct dp_packet *packet, struct shim_parts *parts)
{
    odp_port_t in_port = packet->md.in_port.odp_port;
    odp_port_t tnl_push_port = packet->md.tnl_push_port;
    uint16_t tnl_push_len = packet->md.tnl_push_len;

    cut(packet, parts);
    for (size_t i = 0; i < parts->n; i++) {
        struct pkt_metadata *md = &parts->packets[i]->md;

        pkt_metadata_init(md, in_port);
        md->tnl_push_len = tnl_push_len;
        md->tnl_push_port = tnl_push_port;
    }
}

/* Returns true if the checksum of the TCP segment or UDP datagram in 'packet',
 * behind the headers of a tunnel if it is 'tunnelled', is left to whom sends
 * it, and so covers nothing yet. */
bool
shim_gso_is_partial(const struct dp_packet *packet, bool tunnelled OVS_UNUSED)
{
#if HAVE_GSO_BATCH
    return (tunnelled ? dp_packet_inner_l4_checksum_partial(packet)
            : dp_packet_l4_checksum_partial(packet));
#elif HAVE_GSO
    return dp_packet_ol_l4_csum_partial(packet);
#else
    return dp_packet_hwol_tx_l4_checksum(packet);
#endif
}

/* Frees what 'batch', whose packets were sent, got on the way. */
void
shim_gso_batch_done(struct dp_packet_batch *batch OVS_UNUSED)
{
#if HAVE_GSO_BATCH
    dp_packet_batch_destroy(batch);
#endif
}
