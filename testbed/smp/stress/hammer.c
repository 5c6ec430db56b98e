// SPDX-License-Identifier: Apache-2.0
/*
 * Packets of one CPU, as fast as it can: a packet socket hands each to the device, and the softirq
 * that carries it through the datapath runs on the same CPU before send() returns.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Largest packet, which is longer than the MTU, and what its segments carry. */
#define PACKET_BYTES 3054
#define SEGMENT_BYTES 600

/* IP protocol of control messages where none is set. */
#define CONTROL_PROTOCOL 253

/* ECN fields of packets. */
#define ECN_NOT_ECT 0
#define ECN_ECT_0 2
#define ECN_CE 3

/* Wait after a send that the device refused: it is being taken down. */
#define REFUSED_NS (2 * NSEC_PER_MSEC)

/* A packet under construction. */
struct packet {
	struct virtio_net_hdr head;	/* how to cut it; the socket wants it right before data */
	uint8_t data[PACKET_BYTES];	/* from the Ethernet header on */
	uint32_t bytes;			/* length */
};

_Static_assert(offsetof(struct packet, data) == sizeof(struct virtio_net_hdr),
	       "the socket takes them as one");

/* Returns the Internet checksum of bytes that begin at an even offset. */
static uint16_t checksum(const void *data, size_t bytes)
{
	const uint8_t *byte = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += (uint32_t)byte[i] << 8 | byte[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* Writes the Ethernet header: 02:00:00:00:00:0a and :0b are the guests. */
static void fill_ethernet(struct packet *packet, bool back, uint16_t type)
{
	struct ethhdr *head = (struct ethhdr *)packet->data;
	uint8_t a[ETH_ALEN] = { 2, 0, 0, 0, 0, 0x0a }, b[ETH_ALEN] = { 2, 0, 0, 0, 0, 0x0b };

	memcpy(head->h_dest, back ? a : b, ETH_ALEN);
	memcpy(head->h_source, back ? b : a, ETH_ALEN);
	head->h_proto = htons(type);
}

/* Writes an IPv4 header: 10.9.0.1 on are behind a, 10.9.1.1 on behind b. */
static void fill_ipv4(struct packet *packet, bool back, int address, uint8_t protocol, uint8_t ecn,
		      uint32_t payload)
{
	struct iphdr *head = (struct iphdr *)(packet->data + ETH_HLEN);
	uint32_t a = htonl(0x0a090001), b = htonl(0x0a090101 + (uint32_t)address);

	fill_ethernet(packet, back, ETH_P_IP);
	*head = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tos = ecn,
		.ttl = 64,
		.protocol = protocol,
		.tot_len = htons((uint16_t)(sizeof(*head) + payload)),
		.saddr = back ? b : a,
		.daddr = back ? a : b,
	};
	head->check = checksum(head, sizeof(*head));
	packet->bytes = ETH_HLEN + sizeof(*head) + payload;
}

/* Makes a datagram of bytes, Ethernet header included. */
static void make_udp(struct packet *packet, const struct hammer *hammer, int address, uint8_t ecn,
		     uint32_t bytes)
{
	struct udphdr *head = (struct udphdr *)(packet->data + ETH_HLEN + sizeof(struct iphdr));
	uint32_t payload = bytes - ETH_HLEN - (uint32_t)sizeof(struct iphdr);

	fill_ipv4(packet, hammer->back, address, IPPROTO_UDP, ecn, payload);
	*head = (struct udphdr){
		.source = htons(7),
		.dest = htons((uint16_t)(9000 + hammer->cpu)),
		.len = htons((uint16_t)payload),
	};
}

/* Makes a datagram of IPv6, fd00::a to fd00:1::, of bytes with the Ethernet header. */
static void make_udp6(struct packet *packet, const struct hammer *hammer, int address, uint8_t ecn,
		      uint32_t bytes)
{
	struct ip6_hdr *head = (struct ip6_hdr *)(packet->data + ETH_HLEN);
	struct udphdr *udp = (struct udphdr *)(head + 1);
	uint16_t payload = (uint16_t)(bytes - ETH_HLEN - sizeof(*head));
	struct in6_addr a = { .s6_addr = { 0xfd, [15] = 0x0a } };
	struct in6_addr b = { .s6_addr = { 0xfd, 0, 0, 1, [15] = (uint8_t)address } };

	fill_ethernet(packet, hammer->back, ETH_P_IPV6);
	*head = (struct ip6_hdr){
		.ip6_src = hammer->back ? b : a,
		.ip6_dst = hammer->back ? a : b,
	};
	head->ip6_flow = htonl(6U << 28 | (uint32_t)ecn << 20);
	head->ip6_plen = htons(payload);
	head->ip6_nxt = IPPROTO_UDP;
	head->ip6_hlim = 64;
	*udp = (struct udphdr){
		.source = htons(7),
		.dest = htons(9),
		.len = htons(payload),
		.check = 1,
	};
	packet->bytes = bytes;
}

/*
 * Makes a TCP segment of a connection that begins anew now and then; the other direction
 * acknowledges.
 */
static void make_tcp(struct packet *packet, const struct hammer *hammer, int address,
		     uint32_t number, uint8_t ecn, uint32_t bytes)
{
	struct tcphdr *head = (struct tcphdr *)(packet->data + ETH_HLEN + sizeof(struct iphdr));
	uint32_t payload = hammer->back ? (uint32_t)sizeof(*head) :
					  bytes - ETH_HLEN - (uint32_t)sizeof(struct iphdr);
	bool first = number % 256 < ADDRESSES;

	if (first)
		payload = sizeof(*head);
	fill_ipv4(packet, hammer->back, address, IPPROTO_TCP, first ? 0 : ecn, payload);
	*head = (struct tcphdr){
		.source = htons(hammer->back ? 5001 : 40000),
		.dest = htons(hammer->back ? 40000 : 5001),
		.seq = htonl(number * 600),
		.ack_seq = htonl(number * 600),
		.doff = 5,
		.syn = first,
		.ack = !first || hammer->back,
		.window = htons(4096),
	};
	/* ECE in an ACK now and then; a SYN that asks for ECN. */
	head->res2 = first ? (hammer->back ? 1 : 3) : (hammer->back && number % 3 == 0);
}

/* Makes a TCP segment of several times the MTU, to be cut by whoever sends it on. */
static void make_long(struct packet *packet, const struct hammer *hammer, int address,
		      uint32_t number)
{
	make_tcp(packet, hammer, address, number, ECN_ECT_0, PACKET_BYTES);
	if (packet->bytes <= ETH_HLEN + ETH_DATA_LEN)
		return;
	packet->head = (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
		.gso_size = SEGMENT_BYTES,
		.hdr_len = ETH_HLEN + sizeof(struct iphdr) + sizeof(struct tcphdr),
		.csum_start = ETH_HLEN + sizeof(struct iphdr),
		.csum_offset = offsetof(struct tcphdr, check),
	};
}

/* Makes a control message of version 0, which only the fabric may send. */
static void make_message(struct packet *packet, const struct hammer *hammer, int address)
{
	fill_ipv4(packet, hammer->back, address, CONTROL_PROTOCOL, 0, 2);
	packet->data[packet->bytes - 2] = 0;
	packet->data[packet->bytes - 1] = 5;
}

/* Makes the packet of a number: one kind, or all kinds in turn. */
static void make_packet(struct packet *packet, const struct hammer *hammer, uint32_t number)
{
	static const uint8_t fields[] = { ECN_NOT_ECT, ECN_ECT_0, ECN_CE, ECN_ECT_0 };
	int address = (int)(number / 8 % (uint32_t)hammer->addresses);
	uint8_t ecn = fields[number / 3 % 4];

	packet->head = (struct virtio_net_hdr){ 0 };
	if (!hammer->mixed) {
		make_udp(packet, hammer, address, ECN_ECT_0, hammer->bytes);
		return;
	}
	switch (number % 8) {
	case 0:
		make_udp6(packet, hammer, address, ecn, hammer->bytes);
		break;
	case 1:
	case 3:
		make_tcp(packet, hammer, address, number, ecn, hammer->bytes);
		break;
	case 7:
		make_long(packet, hammer, address, number);
		break;
	case 5:
		make_message(packet, hammer, address);
		break;
	default:
		make_udp(packet, hammer, address, ecn, hammer->bytes);
	}
}

/* Opens the socket once the device is there; -1 when told to stop before. */
static int open_device(struct hammer *hammer)
{
	while (!hammer->stop) {
		int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
		struct sockaddr_ll address = {
			.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(hammer->device),
		};

		if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) ||
		    setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)))
			die(true, "packet socket");
		if (address.sll_ifindex && !bind(fd, (struct sockaddr *)&address, sizeof(address)))
			return fd;
		close(fd);
		nap_ns(REFUSED_NS);
	}
	return -1;
}

/* Waits for the begin of the next round, at which all hammers of its length begin. */
static void await_round(const struct hammer *hammer)
{
	int64_t now = now_ns();

	nap_ns(hammer->round_ns - now % hammer->round_ns);
}

/* Sends on one CPU until told to stop; a thread's main function. */
void *hammer_run(void *data)
{
	struct hammer *hammer = data;
	struct packet packet = { 0 };
	uint32_t number = (uint32_t)hammer->cpu * 5;
	int fd;

	pin(hammer->cpu);
	namespace_enter(hammer->ns);
	fd = open_device(hammer);
	while (!hammer->stop && fd >= 0) {
		if (hammer->round && hammer->sent % hammer->round == 0)
			await_round(hammer);
		make_packet(&packet, hammer, number++);
		if (send(fd, &packet.head, sizeof(packet.head) + packet.bytes, 0) >= 0) {
			hammer->sent++;
		} else if (errno == ENXIO || errno == ENODEV) {
			close(fd);
			fd = open_device(hammer);
		} else {
			nap_ns(REFUSED_NS);
		}
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}
