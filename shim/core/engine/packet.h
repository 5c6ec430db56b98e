/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A packet as the engine sees it, and what is to be done with it.
 *
 * The host parses a frame once and fills struct shim_packet; the engine decides and fills struct
 * shim_action; the host acts on the frame.  Nothing between parsing and acting touches the frame.
 */
#ifndef SHIM_CORE_ENGINE_PACKET_H
#define SHIM_CORE_ENGINE_PACKET_H

#include "../flow.h"
#include "../host.h"
#include "counters.h"

/*
 * A GSO packet may become so many: 64 KiB in the smallest segments that Linux' TCP sends.  A guest
 * could ask for one of each byte.
 */
#define SHIM_PARTS_MAX (65536 / 48)

/* An IPv6 address in network order, an IPv4 one as ::ffff:a.b.c.d. */
struct shim_address {
	u8 bytes[16];
} __aligned(8);

/* Which tenant network a packet is in, as its uplink tells them apart. */
struct shim_network {
	u64 tunnel_id;		/* of the tunnel, 0: none */
	u32 vlan;		/* protocol << 16 | tag, 0: none */
	u32 zero;		/* fills the hole that would be hashed */
};

/* A frame, parsed without trusting anything; constant from then on. */
struct shim_packet {
	u64 now_ns;		/* monotonic; without `timed` as of the last tick of the host */
	void *frame;		/* the host's own packet */
	struct shim_address source;	/* valid with version */
	struct shim_address destination;	/* valid with version */
	struct shim_network network;	/* as it is on the uplink's side, if network_known */
	u64 link_source;	/* MAC address in the low 48 bits; 0: unknown */
	u64 link_destination;	/* the same of where it goes */
	u32 bytes;		/* link-layer header included, once for each packet */
	u32 packets;		/* 1 but for GSO and GRO */
	u16 id;			/* IPv4 identification of the first packet, the others count up */
	u8 version;		/* 4, 6; 0: not IP, or malformed */
	u8 protocol;		/* of the payload, behind IPv6 extension headers */
	u8 ecn;			/* SHIM_NOT_ECT and so on */
	bool plain;		/* no fragment, no IPv6 extension header */
	bool id_free;		/* id may be written: IPv4, no fragment, DF set */
	bool echo_free;		/* echo may be written: IPv4, no fragment */
	bool echo;		/* the reserved bit of the IPv4 header */
	bool gso;		/* stands for several packets, to be cut */
	bool network_known;	/* false, of what is received: as the VM sees it */
	bool timed;		/* the clock was read: under laws that want peers or connections */
	bool is_tcp;		/* segment is valid: a whole TCP header in a plain packet */
	u16 port_source;	/* with is_tcp */
	u16 port_destination;	/* with is_tcp */
	struct shim_segment segment;	/* with is_tcp */
};

/* What is to be done with a packet; fields of the header have the values to be written. */
struct shim_action {
	u64 departure_ns;	/* earliest; 0: at once */
	u32 cut_bytes;	/* to be cut into parts of no more, which then ask shim_admit(); 0: not */
	enum shim_counter drop;	/* why it is dropped; SHIM_COUNTER_NONE: it passes */
	u16 id;			/* IPv4 identification */
	u16 tcp_flags;		/* SHIM_TCP_*, with is_tcp */
	u16 tcp_window;		/* with is_tcp */
	u8 ecn;			/* SHIM_NOT_ECT and so on */
	bool echo;		/* the reserved bit of the IPv4 header */
};

/* Returns a MAC address as struct shim_packet has it. */
static inline u64 shim_mac(const u8 bytes[6])
{
	return (u64)bytes[0] << 40 | (u64)bytes[1] << 32 | (u64)bytes[2] << 24 |
	       (u64)bytes[3] << 16 | (u64)bytes[4] << 8 | bytes[5];
}

/* Tells whether a MAC address is a group's: multicast or broadcast. */
static inline bool shim_mac_group(u64 mac)
{
	return mac >> 40 & 1;
}

/* Tells whether two addresses are the same. */
static inline bool shim_address_equal(const struct shim_address *a, const struct shim_address *b)
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	return x[0] == y[0] && x[1] == y[1];
}

/* The second word of an IPv4-mapped address in memory: 00 00 ff ff, then the IPv4 address. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SHIM_MAPPED_MASK 0xffffffff00000000ULL
#define SHIM_MAPPED 0x0000ffff00000000ULL
#else
#define SHIM_MAPPED_MASK 0x00000000ffffffffULL
#define SHIM_MAPPED 0x00000000ffff0000ULL
#endif

/* Returns true if an address is IPv4-mapped. */
static inline bool shim_address_ipv4(const struct shim_address *address)
{
	const u64 *words = (const u64 *)address;

	return !words[0] && (words[1] & SHIM_MAPPED_MASK) == SHIM_MAPPED;
}

/* Tells whether an address is that of no host: 0.0.0.0 or ::. */
static inline bool shim_address_unspecified(const struct shim_address *address)
{
	const u8 *v4 = address->bytes + 12;
	const u64 *words = (const u64 *)address;

	if (shim_address_ipv4(address))
		return !(v4[0] | v4[1] | v4[2] | v4[3]);
	return !words[0] && !words[1];
}

/* Tells whether an address is a group's: multicast or broadcast. */
static inline bool shim_address_group(const struct shim_address *address)
{
	const u8 *v4 = address->bytes + 12;

	if (!shim_address_ipv4(address))
		return address->bytes[0] == 0xff;
	return (v4[0] & 0xf0) == 0xe0 || (v4[0] & v4[1] & v4[2] & v4[3]) == 0xff;
}

/* Tells whether an address is a loopback one: 127.0.0.0/8 or ::1. */
static inline bool shim_address_loopback(const struct shim_address *address)
{
	int i;

	if (shim_address_ipv4(address))
		return address->bytes[12] == 127;
	for (i = 0; i < 15; i++)
		if (address->bytes[i])
			return false;
	return address->bytes[15] == 1;
}

/* Fills *action with "send it as it is". */
static inline void shim_action_init(struct shim_action *action, const struct shim_packet *packet)
{
	*action = (struct shim_action){
		.id = packet->id,
		.echo = packet->echo,
		.ecn = packet->ecn,
		.tcp_flags = packet->is_tcp ? packet->segment.flags : 0,
		.tcp_window = packet->is_tcp ? packet->segment.window : 0,
	};
}

#endif
