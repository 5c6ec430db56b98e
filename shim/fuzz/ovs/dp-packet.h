/* SPDX-License-Identifier: Apache-2.0 */
/* Frames, as the fuzzers hold them. */
#ifndef FUZZ_DP_PACKET_H
#define FUZZ_DP_PACKET_H

#include "util.h"

/* The tunnel that a frame came by. */
struct flow_tnl {
	u64 tun_id;			/* in network order */
	bool set;			/* there is one */
};

/* What Open vSwitch knows of a frame. */
struct pkt_metadata {
	struct flow_tnl tunnel;
};

/* A frame. */
struct dp_packet {
	u8 *data;			/* its bytes */
	size_t size;			/* how many */
	ovs_be32 packet_type;		/* PT_ETH, or else */
	struct pkt_metadata md;
};

/* Tells whether there is a tunnel. */
static inline bool flow_tnl_dst_is_set(const struct flow_tnl *tunnel)
{
	return tunnel->set;
}

/* Returns the bytes of a frame. */
static inline void *dp_packet_data(const struct dp_packet *packet)
{
	return packet->data;
}

/* Returns how many bytes a frame has. */
static inline size_t dp_packet_size(const struct dp_packet *packet)
{
	return packet->size;
}

#endif
