/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_FRAME_H
#define SHIM_FRAME_H 1

#include "shim-host.h"
#include "shim/core/engine/packet.h"

/* Frames: from a struct dp_packet to what the shim's engine sees of it, and
 * back. */

/* A parsed frame.  What the engine sees of packets is always part of one,
 * but for control messages. */
struct shim_frame {
    size_t offset;              /* Of the IP header from the packet's data. */
    size_t payload;             /* Of what follows it. */
    size_t part;                /* Bytes of each packet that it is to be cut
                                 * into, from the packet's data; 0 if not. */
    bool tunnelled;             /* It stands behind the headers of a tunnel. */
    struct shim_packet packet;  /* What the engine sees. */
};

void shim_frame_parse(struct dp_packet *, u8 wants, struct shim_frame *);
void shim_frame_parse_opaque(struct dp_packet *, struct shim_frame *);
void shim_frame_act(const struct shim_frame *, const struct shim_action *);
bool shim_frame_announces(const struct shim_frame *, struct shim_address *);
size_t shim_frame_payload(const struct shim_frame *, u8 *data, size_t room);

#endif /* shim-frame.h */
