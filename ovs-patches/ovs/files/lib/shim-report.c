/* SPDX-License-Identifier: Apache-2.0 */

/* A report leaves as the VM's own packets to the peer do: with their Ethernet
 * addresses and VLAN tag, by the uplink that leads there. */

#include <config.h>
#include "shim-report.h"
#include "csum.h"
#include "dp-packet.h"
#include "packets.h"
#include "shim-frame.h"
#include "shim-host.h"
#include "shim-netdev-private.h"
#include "shim/core/engine/engine.h"

/* Bytes in front of a report: Ethernet, a VLAN tag and IPv6. */
#define HEADERS_MAX (VLAN_ETH_HEADER_LEN + IPV6_HEADER_LEN)

/* Hops that a report may take. */
#define REPORT_HOPS 64

/* A report that was built. */
struct shim_report {
    struct ovs_list node;       /* In struct shim_reports. */
    struct dp_packet *packet;   /* The frame. */
    struct shim_dp *dp;         /* Datapath of the uplink. */
    odp_port_t port_no;         /* The uplink. */
};

/* Forgets how reports to 'peer' leave. */
void
shim_host_peer_exit(struct shim_peer *peer OVS_UNUSED)
{
}

/* Learns how reports to 'peer' leave from a packet that the VM 'sent' there,
 * or got from there while it sends none itself.  'peer->lock'. */
void
shim_host_peer_learn(struct shim_peer *peer, const struct shim_packet *packet,
                     bool sent)
{
    struct shim_frame *frame = CONTAINER_OF(packet, struct shim_frame,
                                            packet);
    struct shim_host_peer *way = &peer->host;
    const struct dp_packet *b = frame->packet.frame;
    const u8 *data = dp_packet_data(b);

    if (frame->tunnelled || flow_tnl_dst_is_set(&b->md.tunnel)) {
        /* The way back is the tunnel's, not the uplink's below. */
        way->bad = true;
        return;
    }
    if (!sent && peer->way_sent) {
        return;
    }
    way->known = true;
    if (sent) {
        memcpy(way->macs, data, 12);
        peer->way_sent = true;
    } else {
        memcpy(way->macs, data + 6, 6);
        memcpy(way->macs + 6, data, 6);
    }
    way->bad = frame->offset > ETH_HEADER_LEN;
    way->vlan_tci = 0;
    if (frame->offset == VLAN_ETH_HEADER_LEN) {
        const struct vlan_eth_header *veh = ALIGNED_CAST(
            const struct vlan_eth_header *, data);

        way->bad = veh->veth_type != htons(ETH_TYPE_VLAN_8021Q);
        way->vlan_tci = ntohs(veh->veth_tci) | VLAN_CFI;
    }
}

/* Puts the IPv4 header of a report in front of 'b'. */
static void
push_ipv4(struct dp_packet *b, const struct shim_peer *peer,
          const struct shim_settings *settings, u8 ecn)
{
    u16 len = dp_packet_size(b) + IP_HEADER_LEN;
    struct ip_header *ip = dp_packet_push_zeros(b, sizeof *ip);

    ip->ip_ihl_ver = IP_IHL_VER(5, 4);
    ip->ip_tos = ecn;
    ip->ip_tot_len = htons(len);
    ip->ip_frag_off = htons(IP_DONT_FRAGMENT);
    ip->ip_ttl = REPORT_HOPS;
    ip->ip_proto = settings->protocol;
    memcpy(&ip->ip_src, peer->local.bytes + 12, sizeof ip->ip_src);
    memcpy(&ip->ip_dst, peer->key.address.bytes + 12, sizeof ip->ip_dst);
    ip->ip_csum = csum(ip, sizeof *ip);
}

/* Puts the IPv6 header of a report in front of 'b'. */
static void
push_ipv6(struct dp_packet *b, const struct shim_peer *peer,
          const struct shim_settings *settings, u8 ecn)
{
    u16 len = dp_packet_size(b);
    struct ovs_16aligned_ip6_hdr *ip6 = dp_packet_push_zeros(b, sizeof *ip6);

    struct ovs_16aligned_ip6_hdrctl *control = &ip6->ip6_ctlun.ip6_un1;

    put_16aligned_be32(&control->ip6_un1_flow,
                       htonl(6u << 28 | (u32) ecn << 20));
    control->ip6_un1_plen = htons(len);
    control->ip6_un1_nxt = settings->protocol;
    control->ip6_un1_hlim = REPORT_HOPS;
    memcpy(&ip6->ip6_src, peer->local.bytes, sizeof ip6->ip6_src);
    memcpy(&ip6->ip6_dst, peer->key.address.bytes, sizeof ip6->ip6_dst);
}

/* Returns the frame of a report to 'peer'.  'peer->lock'. */
static struct dp_packet *
build(const struct shim_peer *peer, const struct shim_message *report,
      const struct shim_settings *settings)
{
    bool ipv4 = shim_address_ipv4(&peer->key.address);
    u8 ecn = settings->ecn ? settings->codepoint : 0;
    struct dp_packet *b = dp_packet_new_with_headroom(SHIM_MESSAGE_V1_BYTES,
                                                      HEADERS_MAX);

    shim_message_encode(dp_packet_put_uninit(b, SHIM_MESSAGE_V1_BYTES),
                        report, settings->key);
    if (ipv4) {
        push_ipv4(b, peer, settings, ecn);
    } else {
        push_ipv6(b, peer, settings, ecn);
    }

    struct eth_header *eth = dp_packet_push_uninit(b, sizeof *eth);
    memcpy(eth, peer->host.macs, sizeof peer->host.macs);
    eth->eth_type = htons(ipv4 ? ETH_TYPE_IP : ETH_TYPE_IPV6);
    b->packet_type = htonl(PT_ETH);
    if (peer->host.vlan_tci) {
        eth_push_vlan(b, htons(ETH_TYPE_VLAN_8021Q),
                      htons(peer->host.vlan_tci & ~VLAN_CFI));
    }
    return b;
}

/* Builds a report to 'peer', which 'uplink' leads to, and queues it in
 * 'reports'.  Returns its bytes, 0 if it cannot be sent.  'peer->lock'. */
u32
shim_host_report(struct shim_peer *peer, const struct shim_uplink *uplink,
                 const struct shim_message *report,
                 const struct shim_settings *settings,
                 struct shim_reports *reports)
{
    if (!uplink || !peer->host.known || peer->host.bad) {
        return 0;
    }

    const struct shim_dp_port *port = uplink->port;
    struct shim_report *r = xmalloc(sizeof *r);

    r->packet = build(peer, report, settings);
    r->dp = port->dp;
    r->port_no = port->port_no;
    ovs_list_push_back(&reports->list, &r->node);
    return dp_packet_size(r->packet);
}

/* Sends 'reports'.  Their uplinks may be gone by now, their datapaths not: the
 * calling thread has not quiesced since they were built. */
void
shim_reports_send(struct shim_reports *reports)
{
    struct shim_report *r;

    LIST_FOR_EACH_POP (r, node, &reports->list) {
        struct dp_packet_batch batch;

        dp_packet_batch_init_packet(&batch, r->packet);
        shim_dp_send(r->dp, NULL, r->port_no, &batch);
        free(r);
    }
}
