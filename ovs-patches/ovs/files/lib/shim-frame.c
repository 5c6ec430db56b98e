/* SPDX-License-Identifier: Apache-2.0 */

/* Nothing that a guest wrote is believed before it is checked: a packet that
 * is not what it claims to be is "not IP" (version 0), so it keeps its bytes,
 * and pays the bucket like any other.  The kernel's shim does the same by the
 * same tests, for what is no control message for the sender's shim must be
 * none for the receiver's.
 *
 * A packet that is no whole TCP header in one unfragmented IP packet is no TCP
 * segment.  Checksums are not verified, only kept as right or wrong as they
 * were. */

#include <config.h>
#include "shim-frame.h"
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include "csum.h"
#include "dp-packet.h"
#include "packets.h"
#include "shim-gso.h"
#include "shim-hash.h"
#include "shim/core/law.h"
#include "unaligned.h"

/* VLAN tags looked behind; a packet with more of them is not IP here. */
#define VLAN_TAGS_MAX 2

/* The reserved bit beside DF and MF in the IPv4 header. */
#define IP_RESERVED 0x8000

/* Mask of SHIM_TCP_* in the word of data offset and flags. */
#define TCP_WORD_MASK 0x1ff

/* Options of a SYN. */
enum { OPTION_END = 0, OPTION_NOP = 1, OPTION_MSS = 2, OPTION_SCALE = 3 };

/* Returns the byte at offset 'at' of the frame. */
static u8 *
at(const struct shim_frame *frame, size_t offset)
{
    return (u8 *) dp_packet_data(frame->packet.frame) + offset;
}

/* Returns the 16 bits in host byte order at 'offset' of the frame. */
static u16
get_u16(const struct shim_frame *frame, size_t offset)
{
    const u8 *bytes = at(frame, offset);

    return bytes[0] << 8 | bytes[1];
}

/* Returns the 32 bits in host byte order at 'offset' of the frame. */
static u32
get_u32(const struct shim_frame *frame, size_t offset)
{
    return (u32) get_u16(frame, offset) << 16 | get_u16(frame, offset + 2);
}

/* Returns the bytes of the frame. */
static size_t
get_size(const struct shim_frame *frame)
{
    return dp_packet_size(frame->packet.frame);
}

/* Stores the IPv4 address at 'offset' as an IPv6 one in '*address'. */
static void
get_ipv4(const struct shim_frame *frame, size_t offset,
         struct shim_address *address)
{
    memset(address->bytes, 0, 10);
    memset(address->bytes + 10, 0xff, 2);
    memcpy(address->bytes + 12, at(frame, offset), 4);
}

/* Reads an IPv4 header at 'frame->offset'. */
static void
parse_ipv4(struct shim_frame *frame)
{
    struct shim_packet *packet = &frame->packet;
    size_t ip = frame->offset;

    if (get_size(frame) < ip + IP_HEADER_LEN) {
        return;
    }
    u8 ver_ihl = *at(frame, ip);
    if (IP_VER(ver_ihl) != 4 || IP_IHL(ver_ihl) < 5) {
        return;
    }
    u16 frag_off = get_u16(frame, ip + 6);
    bool plain = !(frag_off & (IP_MORE_FRAGMENTS | IP_FRAG_OFF_MASK));

    frame->payload = ip + IP_IHL(ver_ihl) * 4;
    packet->version = 4;
    packet->protocol = *at(frame, ip + 9);
    packet->ecn = *at(frame, ip + 1) & IP_ECN_MASK;
    packet->plain = plain;
    packet->id = get_u16(frame, ip + 4);
    packet->echo = frag_off & IP_RESERVED;
    packet->echo_free = plain;
    packet->id_free = plain && frag_off & IP_DONT_FRAGMENT;
    get_ipv4(frame, ip + 12, &packet->source);
    get_ipv4(frame, ip + 16, &packet->destination);
}

/* Returns true if 'type' is that of a header of IPv6 before the payload. */
static bool
is_extension(u8 type)
{
    return (type == IPPROTO_HOPOPTS || type == IPPROTO_ROUTING
            || type == IPPROTO_FRAGMENT || type == IPPROTO_AH
            || type == IPPROTO_DSTOPTS || type == IPPROTO_NONE);
}

/* Skips the extension headers of an IPv6 packet, of which the first has the
 * type '*next', as far as they are there.  Leaves in '*next' the type of what
 * follows, and in 'frame->payload' where that is. */
static void
skip_extensions(struct shim_frame *frame, u8 *next)
{
    size_t offset = frame->payload;
    u8 type = *next;

    while (is_extension(type)) {
        size_t least = type == IPPROTO_FRAGMENT ? 4 : 2;

        if (type == IPPROTO_NONE || get_size(frame) < offset + least) {
            return;
        }
        size_t len = *at(frame, offset + 1);
        if (type == IPPROTO_FRAGMENT) {
            if (get_u16(frame, offset + 2) & ~7) {
                /* Not the first one: the rest is payload of unknown kind. */
                break;
            }
            len = 8;
        } else if (type == IPPROTO_AH) {
            len = (len + 2) * 4;
        } else {
            len = (len + 1) * 8;
        }
        type = *at(frame, offset);
        offset += len;
    }
    *next = type;
    frame->payload = offset;
}

/* Reads an IPv6 header at 'frame->offset'. */
static void
parse_ipv6(struct shim_frame *frame)
{
    struct shim_packet *packet = &frame->packet;
    size_t ip6 = frame->offset;

    if (get_size(frame) < ip6 + IPV6_HEADER_LEN
        || *at(frame, ip6) >> 4 != 6) {
        return;
    }
    u8 next = *at(frame, ip6 + 6);
    frame->payload = ip6 + IPV6_HEADER_LEN;
    packet->version = 6;
    packet->ecn = *at(frame, ip6 + 1) >> 4 & IP_ECN_MASK;
    packet->plain = !is_extension(next);
    memcpy(&packet->source, at(frame, ip6 + 8), 16);
    memcpy(&packet->destination, at(frame, ip6 + 24), 16);
    if (!packet->plain) {
        skip_extensions(frame, &next);
    }
    packet->protocol = next;
}

/* Returns where an IP packet ends by its header, or 0 if it is not all
 * there. */
static size_t
ip_end(const struct shim_frame *frame)
{
    size_t end = frame->offset;

    if (frame->packet.version == 4) {
        end += get_u16(frame, frame->offset + 2);
    } else {
        end += IPV6_HEADER_LEN + get_u16(frame, frame->offset + 4);
    }
    return end <= get_size(frame) ? end : 0;
}

/* Reads the 'len' bytes of options of a SYN; behind a malformed one none
 * counts. */
static void
parse_options(const u8 *option, size_t len, struct shim_segment *segment)
{
    u8 scale = SHIM_SCALE_NONE;
    u16 mss = 0;

    while (len && *option != OPTION_END) {
        size_t size = *option == OPTION_NOP ? 1 : len < 2 ? 0 : option[1];

        if (size > len || (*option != OPTION_NOP && size < 2)) {
            return;
        }
        if (*option == OPTION_MSS && size == 4) {
            mss = option[2] << 8 | option[3];
        } else if (*option == OPTION_SCALE && size == 3) {
            scale = option[2];
        }
        option += size;
        len -= size;
    }
    segment->mss = mss;
    segment->scale = scale;
}

/* Reads the TCP segment of a plain packet, if it has one. */
static void
parse_segment(struct shim_frame *frame)
{
    struct shim_packet *packet = &frame->packet;
    size_t tcp = frame->payload;
    size_t end = ip_end(frame);

    if (!packet->plain || end < tcp + TCP_HEADER_LEN) {
        return;
    }
    size_t header = (*at(frame, tcp + 12) >> 4) * 4;
    if (header < TCP_HEADER_LEN || end < tcp + header) {
        return;
    }
    packet->is_tcp = true;
    packet->port_source = get_u16(frame, tcp);
    packet->port_destination = get_u16(frame, tcp + 2);
    packet->segment = (struct shim_segment) {
        .seq = get_u32(frame, tcp + 4),
        .ack = get_u32(frame, tcp + 8),
        .payload = end - tcp - header,
        .size = end - tcp - header,
        .window = get_u16(frame, tcp + 14),
        .flags = get_u16(frame, tcp + 12) & TCP_WORD_MASK,
        .scale = SHIM_SCALE_NONE,
        .ecn = packet->ecn,
    };
    if (packet->segment.flags & SHIM_TCP_SYN) {
        parse_options(at(frame, tcp + TCP_HEADER_LEN),
                      header - TCP_HEADER_LEN, &packet->segment);
    }
}

/* Returns the network that a VLAN tag names; a tag of priority alone names
 * none. */
static u32
get_network(u16 type, u16 tci)
{
    tci &= VLAN_VID_MASK;
    return tci ? (u32) type << 16 | tci : 0;
}

/* Fills what a packet of TCP weighs that stands for several, with 'size' bytes
 * of payload each and a header of their own. */
static void
weigh(struct shim_frame *frame, size_t size)
{
    struct shim_packet *packet = &frame->packet;
    size_t header = frame->payload + TCP_HEADER_LEN;

    if (!packet->version || packet->protocol != IPPROTO_TCP
        || get_size(frame) < header) {
        return;
    }
    header = frame->payload + (*at(frame, frame->payload + 12) >> 4) * 4;
    if (get_size(frame) <= header + size) {
        return;
    }
    packet->gso = true;
    frame->part = header + size;
    packet->packets = DIV_ROUND_UP(get_size(frame) - header, size);
    packet->bytes += (packet->packets - 1) * header;
    if (packet->is_tcp) {
        packet->segment.size = MIN(packet->segment.size, size);
    }
}

/* Fills '*frame' from 'packet', of which nothing is read but its size.  The
 * segment, which most packets do not have, stays as it is. */
void
shim_frame_parse_opaque(struct dp_packet *packet, struct shim_frame *frame)
{
    memset(frame, 0, offsetof(struct shim_frame, packet.segment));
    frame->packet.frame = packet;
    frame->packet.bytes = dp_packet_size(packet);
    frame->packet.packets = 1;
}

/* Fills '*frame' from 'packet_'; 'wants' are SHIM_LAW_* of the law that is
 * going to see it.  The time is the caller's to set. */
void
shim_frame_parse(struct dp_packet *packet_, u8 wants,
                 struct shim_frame *frame)
{
    struct shim_packet *packet = &frame->packet;

    shim_frame_parse_opaque(packet_, frame);
    if (flow_tnl_dst_is_set(&packet_->md.tunnel)) {
        packet->network.tunnel_id = ntohll(packet_->md.tunnel.tun_id);
    }
    if (packet_->packet_type != htonl(PT_ETH)
        || get_size(frame) < ETH_HEADER_LEN) {
        return;
    }

    u16 type = get_u16(frame, 12);
    packet->link_destination = shim_mac(at(frame, 0));
    packet->link_source = shim_mac(at(frame, ETH_ADDR_LEN));
    frame->offset = ETH_HEADER_LEN;
    for (int tags = 0; eth_type_vlan(htons(type)); tags++) {
        if (tags == VLAN_TAGS_MAX
            || get_size(frame) < frame->offset + VLAN_HEADER_LEN) {
            return;
        }
        if (!tags) {
            packet->network.vlan = get_network(type,
                                               get_u16(frame, frame->offset));
        }
        type = get_u16(frame, frame->offset + 2);
        frame->offset += VLAN_HEADER_LEN;
    }
    if (type == ETH_TYPE_IP) {
        parse_ipv4(frame);
    } else if (type == ETH_TYPE_IPV6) {
        parse_ipv6(frame);
    }
    if (wants & SHIM_LAW_FLOWS && packet->version
        && packet->protocol == IPPROTO_TCP) {
        parse_segment(frame);
    }

    size_t size = shim_gso_size(packet_);
    if (OVS_UNLIKELY(size)) {
        weigh(frame, size);
    }
}

/* Returns true if 'frame' is an ARP packet or a neighbour advertisement that
 * says which address its sender has, and stores that in '*address'. */
bool
shim_frame_announces(const struct shim_frame *frame,
                     struct shim_address *address)
{
    const struct shim_packet *packet = &frame->packet;
    size_t arp = frame->offset;

    if (packet->version) {
        if (packet->version != 6 || packet->protocol != IPPROTO_ICMPV6
            || !packet->plain || get_size(frame) < frame->payload + ND_MSG_LEN
            || *at(frame, frame->payload) != ND_NEIGHBOR_ADVERT) {
            return false;
        }
        memcpy(address->bytes, at(frame, frame->payload + 8), 16);
        return true;
    }
    if (arp < ETH_HEADER_LEN || get_size(frame) < arp + ARP_ETH_HEADER_LEN
        || get_u16(frame, arp - 2) != ETH_TYPE_ARP
        || get_u16(frame, arp) != ARP_HRD_ETHERNET
        || get_u16(frame, arp + 2) != ARP_PRO_IP
        || *at(frame, arp + 4) != ETH_ADDR_LEN || *at(frame, arp + 5) != 4
        || !get_u32(frame, arp + 14)) {
        return false;
    }
    get_ipv4(frame, arp + 14, address);
    return true;
}

/* Copies what follows the IP header of a frame that is IP, at most 'room'
 * bytes of it, to 'data'.  Returns how many, 0 if the packet is not as long as
 * its header says. */
size_t
shim_frame_payload(const struct shim_frame *frame, u8 *data, size_t room)
{
    size_t end = ip_end(frame);

    if (end <= frame->payload) {
        return 0;
    }
    room = MIN(room, end - frame->payload);
    memcpy(data, at(frame, frame->payload), room);
    return room;
}

/* Writes 'value' in place of the 16 bits at 'offset', which the checksum at
 * 'csum' covers, if that is not 0. */
static void
put_u16(const struct shim_frame *frame, size_t offset, u16 value, size_t csum)
{
    ovs_be16 *word = ALIGNED_CAST(ovs_be16 *, at(frame, offset));
    ovs_be16 *sum = ALIGNED_CAST(ovs_be16 *, at(frame, csum));
    ovs_be16 old = get_unaligned_be16(word);

    if (csum && old != htons(value)) {
        put_unaligned_be16(sum, recalc_csum16(get_unaligned_be16(sum), old,
                                              htons(value)));
    }
    put_unaligned_be16(word, htons(value));
}

/* Writes the fields of an IPv4 header. */
static void
write_ipv4(const struct shim_frame *frame, const struct shim_action *action)
{
    size_t ip = frame->offset;
    u16 tos = get_u16(frame, ip);
    u16 frag_off = get_u16(frame, ip + 6);

    put_u16(frame, ip, (tos & ~IP_ECN_MASK) | action->ecn, ip + 10);
    put_u16(frame, ip + 4, action->id, ip + 10);
    put_u16(frame, ip + 6, (frag_off & ~IP_RESERVED)
            | (action->echo ? IP_RESERVED : 0), ip + 10);
}

/* Makes the header of a frame what 'action' says. */
void
shim_frame_act(const struct shim_frame *frame,
               const struct shim_action *action)
{
    const struct shim_packet *packet = &frame->packet;

    if (!packet->version) {
        return;
    }
    if (action->ecn != packet->ecn || action->id != packet->id
        || action->echo != packet->echo) {
        if (packet->version == 4) {
            write_ipv4(frame, action);
        } else {
            u8 *byte = at(frame, frame->offset + 1);

            *byte = (*byte & ~(IP_ECN_MASK << 4)) | action->ecn << 4;
        }
    }
    if (packet->is_tcp) {
        size_t tcp = frame->payload;
        u16 word = get_u16(frame, tcp + 12);
        size_t csum = (shim_gso_is_partial(packet->frame, frame->tunnelled)
                       ? 0 : tcp + 16);

        put_u16(frame, tcp + 12, (word & ~TCP_WORD_MASK) | action->tcp_flags,
                csum);
        put_u16(frame, tcp + 14, action->tcp_window, csum);
    }
}

/* Returns a hash of the flow that 'packet', of a struct shim_frame, belongs
 * to. */
u32
shim_host_flow_hash(const struct shim_packet *packet)
{
    const struct shim_frame *frame = CONTAINER_OF(packet, struct shim_frame,
                                                  packet);
    bool has_ports = (packet->plain
                      && (packet->protocol == IPPROTO_TCP
                          || packet->protocol == IPPROTO_UDP
                          || packet->protocol == IPPROTO_SCTP)
                      && get_size(frame) >= frame->payload + 4);
    struct {
        struct shim_address source;
        struct shim_address destination;
        uint32_t ports;
        uint32_t protocol;
    } key = {
        .source = packet->source,
        .destination = packet->destination,
        .ports = has_ports ? get_u32(frame, frame->payload) : 0,
        .protocol = packet->protocol,
    };

    return shim_hash(&key, sizeof key, 0);
}

/* Returns false: this datapath finds no path by the far end of a tunnel. */
bool
shim_host_tunnel_end(const struct shim_packet *packet OVS_UNUSED,
                     struct shim_address *end OVS_UNUSED)
{
    return false;
}

/* Copies the link-layer source of 'packet' to 'mac', all 0 without one. */
void
shim_host_source(const struct shim_packet *packet, u8 mac[6])
{
    const struct dp_packet *frame = packet->frame;

    if (frame->packet_type == htonl(PT_ETH)
        && dp_packet_size(frame) >= ETH_HEADER_LEN) {
        memcpy(mac, (const u8 *) dp_packet_data(frame) + ETH_ADDR_LEN,
               ETH_ADDR_LEN);
    } else {
        memset(mac, 0, ETH_ADDR_LEN);
    }
}
