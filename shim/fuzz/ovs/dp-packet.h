/* SPDX-License-Identifier: Apache-2.0 */
/* Frames, as the fuzzers hold them. */
#ifndef FUZZ_DP_PACKET_H
#define FUZZ_DP_PACKET_H

#include "util.h"

/* A frame. */
struct dp_packet {
	u8 *data;			/* its bytes */
	size_t size;			/* how many */
	ovs_be32 packet_type;		/* PT_ETH, or else */
};

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
