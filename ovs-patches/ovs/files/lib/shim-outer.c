/* SPDX-License-Identifier: Apache-2.0 */

/* The datapath encapsulates before the shim sees a packet.  It notes where the
 * packet came by, and how many bytes of headers it got since (packets.h); tags
 * that an outer Ethernet header got after that are counted here.  Then all
 * that is done with a VM's frame is done with the one behind the headers:
 * packets are entered and left.
 *
 * The outer ECN field is a copy of the inner one (RFC 6040), so it is changed
 * with that.  An outer checksum covers the inner IP header.  One of IPv4 sums
 * up as before, with its own checksum; the field of an IPv6 one counts. */

#include <config.h>
#include "shim-outer.h"
#include "csum.h"
#include "dp-packet.h"
#include "packets.h"
#include "shim-frame.h"
#include "unaligned.h"

/* Where the id of the network begins in the header of VXLAN, Geneve or GTP-U,
 * in the UDP payload; it has 24 bits. */
#define UDP_TUNNEL_ID 4

/* Returns the byte at 'offset' of 'packet', NULL unless 'n' bytes from there
 * on are in front of the frame. */
static const uint8_t *
outer_at(const struct dp_packet *packet, const struct shim_outer *outer,
         size_t offset, size_t n)
{
    return (offset + n <= outer->bytes
            ? (const uint8_t *) dp_packet_data(packet) + offset : NULL);
}

/* Returns the 16 bits in host byte order at 'data'. */
static uint16_t
get_u16(const uint8_t *data)
{
    return data[0] << 8 | data[1];
}

/* Returns the 32 bits in host byte order at 'data'. */
static uint32_t
get_u32(const uint8_t *data)
{
    return (uint32_t) get_u16(data) << 16 | get_u16(data + 2);
}

/* Finds the outer IP header of 'packet', behind an Ethernet header and tags,
 * which it counts in 'outer->bytes'.  Returns the protocol behind it, 0 if
 * there is none, and in '*offset' where that begins. */
static uint8_t
read_ip(const struct dp_packet *packet, struct shim_outer *outer,
        size_t *offset)
{
    const uint8_t *ip, *type = outer_at(packet, outer, 12, 2);

    outer->ip = ETH_HEADER_LEN;
    while (type && eth_type_vlan(htons(get_u16(type)))) {
        outer->ip += VLAN_HEADER_LEN;
        outer->bytes += VLAN_HEADER_LEN;
        if (outer->bytes > dp_packet_size(packet)) {
            return 0;
        }
        type = outer_at(packet, outer, outer->ip - 2, 2);
    }
    ip = outer_at(packet, outer, outer->ip, IP_HEADER_LEN);
    if (ip && IP_VER(*ip) == 4) {
        *offset = outer->ip + IP_IHL(*ip) * 4;
        return ip[9];
    }
    ip = outer_at(packet, outer, outer->ip, IPV6_HEADER_LEN);
    if (ip && IP_VER(*ip) == 6) {
        *offset = outer->ip + IPV6_HEADER_LEN;
        return ip[6];
    }
    return 0;
}

/* Reads the header of a tunnel in UDP at 'offset'. */
static void
read_udp(const struct dp_packet *packet, size_t offset,
         struct shim_outer *outer)
{
    const uint8_t *udp = outer_at(packet, outer, offset,
                                  UDP_HEADER_LEN + UDP_TUNNEL_ID + 4);

    if (udp) {
        outer->tunnel_id = get_u32(udp + UDP_HEADER_LEN + UDP_TUNNEL_ID) >> 8;
        if (get_u16(udp + 6)) {
            outer->csum = offset + 6;
        }
    }
}

/* Reads the header of GRE at 'offset'. */
static void
read_gre(const struct dp_packet *packet, size_t offset,
         struct shim_outer *outer)
{
    const uint8_t *gre = outer_at(packet, outer, offset, 4);
    uint16_t flags = gre ? get_u16(gre) : 0;

    offset += 4;
    if (flags & GRE_CSUM) {
        outer->csum = offset;
        offset += 4;
    }
    if (flags & GRE_KEY) {
        const uint8_t *key = outer_at(packet, outer, offset, 4);

        outer->tunnel_id = key ? get_u32(key) : 0;
    }
}

/* Reads what is in front of the frame that 'packet', which went into a tunnel,
 * was before. */
void
shim_outer_read(const struct dp_packet *packet, struct shim_outer *outer)
{
    uint8_t protocol;
    size_t offset;

    *outer = (struct shim_outer) { .bytes = packet->md.tnl_push_len };
    if (packet->packet_type != htonl(PT_ETH)
        || outer->bytes > dp_packet_size(packet)) {
        outer->opaque = true;
        return;
    }
    protocol = read_ip(packet, outer, &offset);
    outer->opaque = !protocol;
    if (protocol == IPPROTO_UDP) {
        read_udp(packet, offset, outer);
    } else if (protocol == IPPROTO_GRE) {
        read_gre(packet, offset, outer);
    }
}

/* Lets the data of 'packet' start at the VM's frame. */
void
shim_outer_enter(struct dp_packet *packet, const struct shim_outer *outer)
{
    if (!outer->opaque) {
        dp_packet_pull(packet, outer->bytes);
    }
}

/* Undoes that. */
void
shim_outer_leave(struct dp_packet *packet, const struct shim_outer *outer)
{
    if (!outer->opaque) {
        dp_packet_push_uninit(packet, outer->bytes);
    }
}

/* As shim_frame_parse(), for 'packet' that was entered: its network is that of
 * the tunnel, its bytes are what the uplink has.  What is not found is not
 * IP. */
void
shim_outer_parse(struct dp_packet *packet, const struct shim_outer *outer,
                 uint8_t wants, struct shim_frame *frame)
{
    if (outer->opaque) {
        shim_frame_parse_opaque(packet, frame);
        return;
    }
    shim_frame_parse(packet, wants, frame);
    frame->tunnelled = true;
    frame->packet.network.tunnel_id = outer->tunnel_id;
    frame->packet.bytes += frame->packet.packets * outer->bytes;
}

/* Gives the outer header of 'frame', which has been entered, the ECN field
 * that the frame has been given by 'action'. */
void
shim_outer_act(const struct shim_outer *outer, const struct shim_frame *frame,
               const struct shim_action *action)
{
    const struct shim_packet *packet = &frame->packet;
    uint8_t *inner = dp_packet_data(packet->frame);
    uint8_t *data, *ip;

    if (!packet->version || action->ecn == packet->ecn) {
        return;
    }
    data = inner - outer->bytes;
    ip = data + outer->ip;
    if (IP_VER(*ip) == 4) {
        ovs_be16 *sum = ALIGNED_CAST(ovs_be16 *, ip + 10);
        ovs_be16 old = htons(get_u16(ip));

        ip[1] = (ip[1] & ~IP_ECN_MASK) | action->ecn;
        put_unaligned_be16(sum, recalc_csum16(get_unaligned_be16(sum), old,
                                              htons(get_u16(ip))));
    } else {
        ip[1] = (ip[1] & ~(IP_ECN_MASK << 4)) | action->ecn << 4;
    }
    if (packet->version == 6 && outer->csum) {
        ovs_be16 *sum = ALIGNED_CAST(ovs_be16 *, data + outer->csum);
        uint16_t new = get_u16(inner + frame->offset);
        uint16_t old = (new & ~(IP_ECN_MASK << 4)) | packet->ecn << 4;
        ovs_be16 csum = recalc_csum16(get_unaligned_be16(sum), htons(old),
                                      htons(new));

        /* In UDP 0 would mean that there is none. */
        put_unaligned_be16(sum, csum ? csum : htons(0xffff));
    }
}
