/* SPDX-License-Identifier: Apache-2.0 */

/* What the shim sends of its own: reports to the shims of peers, and questions
 * to VMs whose address another one announces.
 *
 * A report leaves by the uplink that leads to its peer, back to where the
 * packets came from that it tells of.  As the kernel's shim does, this learns
 * the way from what the VM sends as far as the guest cannot bend it: from
 * packets that leave with as few VLAN tags as any of the port, and, once one
 * went to the Ethernet address that the peer's come from, by those alone. */

#include <config.h>
#include "shim-report.h"
#include <netinet/icmp6.h>
#include "csum.h"
#include "dp-packet.h"
#include "packets.h"
#include "shim-frame.h"
#include "shim-pace.h"
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

/* Stores the first VLAN tag of 'frame' in '*tci', with VLAN_CFI, 0 if it has
 * none.  Returns how many it has, 2 if a report cannot have the like. */
static int
get_tags(const struct shim_frame *frame, u16 *tci)
{
    const u8 *data = dp_packet_data(frame->packet.frame);

    *tci = 0;
    if (frame->offset <= ETH_HEADER_LEN) {
        return 0;
    }
    if (frame->offset == VLAN_ETH_HEADER_LEN) {
        const struct vlan_eth_header *veh = ALIGNED_CAST(
            const struct vlan_eth_header *, data);

        *tci = ntohs(veh->veth_tci) | VLAN_CFI;
        return veh->veth_type == htons(ETH_TYPE_VLAN_8021Q) ? 1 : 2;
    }
    return 2;
}

/* Learns from 'frame' that the VM of 'peer' sends how packets leave for the
 * peer.  Returns false, and learns nothing, if the guest may have bent it.
 * 'peer->lock'. */
static bool
learn_sent(struct shim_peer *peer, const struct shim_frame *frame)
{
    struct shim_dp_port *port = peer->key.vm->port;
    struct shim_host_peer *way = &peer->host;
    const u8 *data = dp_packet_data(frame->packet.frame);
    bool answers = !memcmp(data, way->back, sizeof way->back);
    u16 tci;
    int tags = get_tags(frame, &tci);

    if (tags > 1 || tags > READ_ONCE(port->tags)
        || (way->straight && !answers)) {
        return false;
    }
    if (!answers && way->votes && memcmp(way->macs, data, sizeof way->macs)) {
        way->votes--;
        return false;
    }
    way->straight |= answers;
    way->votes += way->votes < UINT8_MAX;
    way->known = true;
    way->bad = false;
    way->vlan_tci = tci;
    memcpy(way->macs, data, sizeof way->macs);
    WRITE_ONCE(port->tags, tags);
    WRITE_ONCE(port->vlan_tci, tci);
    return true;
}

/* Learns where 'frame' that the VM of 'peer' gets came from, and the way there
 * while what the VM sends has shown none.  'peer->lock'. */
static void
learn_received(struct shim_peer *peer, const struct shim_frame *frame)
{
    const struct shim_dp_port *port = peer->key.vm->port;
    struct shim_host_peer *way = &peer->host;
    const u8 *data = dp_packet_data(frame->packet.frame);
    u16 tci, usual = READ_ONCE(port->vlan_tci);
    int tags = get_tags(frame, &tci);

    memcpy(way->back, data + 6, 6);
    memcpy(way->back + 6, data, 6);
    if (peer->way_sent) {
        return;
    }
    way->known = true;
    memcpy(way->macs, way->back, sizeof way->macs);
    way->vlan_tci = tci ? tci : usual;
    /* A report has room for one tag: the guest's or the bridge's. */
    way->bad = (tags > 1 || (tci && usual && tci != usual
                             && READ_ONCE(port->tags) == 1));
}

/* Learns how reports to 'peer' leave from a packet that the VM 'sent' there or
 * got from there.  Returns false if it teaches nothing.  'peer->lock'. */
bool
shim_host_peer_learn(struct shim_peer *peer, const struct shim_packet *packet,
                     bool sent)
{
    const struct shim_frame *frame = CONTAINER_OF(packet, struct shim_frame,
                                                  packet);
    const struct dp_packet *b = frame->packet.frame;

    if (frame->tunnelled || flow_tnl_dst_is_set(&b->md.tunnel)) {
        /* The way back is the tunnel's, not the uplink's below. */
        peer->host.bad = true;
        return true;
    }
    if (sent) {
        return learn_sent(peer, frame);
    }
    learn_received(peer, frame);
    return true;
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

/* Returns a frame from 'from' to 'to' of 'type', behind whose header 'len'
 * zeros follow. */
static struct dp_packet *
build_question(const struct eth_addr to, const struct eth_addr from,
               uint16_t type, size_t len)
{
    struct dp_packet *b = dp_packet_new(ETH_HEADER_LEN + len);
    struct eth_header *eth = dp_packet_put_uninit(b, sizeof *eth);

    eth->eth_dst = to;
    eth->eth_src = from;
    eth->eth_type = htons(type);
    dp_packet_put_zeros(b, len);
    b->packet_type = htonl(PT_ETH);
    return b;
}

/* Returns an ARP probe (RFC 5227) for 'address' to 'mac': a request that names
 * no address of its sender. */
static struct dp_packet *
build_arp_probe(const struct shim_address *address, const struct eth_addr mac,
                const struct eth_addr asker)
{
    struct dp_packet *b = build_question(mac, asker, ETH_TYPE_ARP,
                                         ARP_ETH_HEADER_LEN);
    struct arp_eth_header *arp = dp_packet_at_assert(b, ETH_HEADER_LEN,
                                                     sizeof *arp);

    arp->ar_hrd = htons(ARP_HRD_ETHERNET);
    arp->ar_pro = htons(ARP_PRO_IP);
    arp->ar_hln = sizeof arp->ar_sha;
    arp->ar_pln = sizeof arp->ar_spa;
    arp->ar_op = htons(ARP_OP_REQUEST);
    arp->ar_sha = asker;
    memcpy(&arp->ar_tpa, address->bytes + 12, sizeof arp->ar_tpa);
    return b;
}

/* Returns a neighbour solicitation for 'address' to 'mac' from ::, as
 * duplicate address detection sends it (RFC 4862). */
static struct dp_packet *
build_solicitation(const struct shim_address *address,
                   const struct eth_addr mac, const struct eth_addr asker)
{
    struct dp_packet *b = build_question(mac, asker, ETH_TYPE_IPV6,
                                         IPV6_HEADER_LEN + ND_MSG_LEN);
    struct ovs_16aligned_ip6_hdr *ip6 = dp_packet_at_assert(
        b, ETH_HEADER_LEN, IPV6_HEADER_LEN + ND_MSG_LEN);
    struct ovs_nd_msg *ns = ALIGNED_CAST(struct ovs_nd_msg *, ip6 + 1);
    struct in6_addr target, group;

    memcpy(&target, address->bytes, sizeof target);
    in6_addr_solicited_node(&group, &target);
    put_16aligned_be32(&ip6->ip6_ctlun.ip6_un1.ip6_un1_flow, htonl(6u << 28));
    ip6->ip6_ctlun.ip6_un1.ip6_un1_plen = htons(ND_MSG_LEN);
    ip6->ip6_ctlun.ip6_un1.ip6_un1_nxt = IPPROTO_ICMPV6;
    ip6->ip6_ctlun.ip6_un1.ip6_un1_hlim = 255;
    memcpy(&ip6->ip6_dst, &group, sizeof group);
    ns->icmph.icmp6_type = ND_NEIGHBOR_SOLICIT;
    memcpy(&ns->target, &target, sizeof target);
    ns->icmph.icmp6_cksum = packet_csum_upperlayer6(ip6, ns, IPPROTO_ICMPV6,
                                                    ND_MSG_LEN);
    return b;
}

/* Asks 'vm', whose Ethernet address is 'mac_', whether it has 'address', as if
 * 'asker_' did.  The thread of the shim sends that, for the caller's may send
 * something else.  Returns false if it cannot be asked. */
bool
shim_host_ask(const struct shim_vm *vm, const struct shim_address *address,
              const u8 mac_[6], const u8 asker_[6])
{
    const struct shim_dp_port *port = vm->port;
    struct eth_addr mac, asker;

    memcpy(&mac, mac_, sizeof mac);
    memcpy(&asker, asker_, sizeof asker);
    if (eth_addr_is_zero(mac) || eth_addr_is_multicast(mac)
        || eth_addr_is_zero(asker) || eth_addr_is_multicast(asker)) {
        return false;
    }
    shim_pace(NULL, port->dp, port->port_no, NULL,
              (shim_address_ipv4(address)
               ? build_arp_probe(address, mac, asker)
               : build_solicitation(address, mac, asker)), 0);
    return true;
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
