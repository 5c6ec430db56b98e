/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_OUTER_H
#define SHIM_OUTER_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Packets in tunnels, on their way to an uplink: what is in front of the frame
 * that a VM sent. */

struct dp_packet;
struct shim_action;
struct shim_frame;

/* What is in front of a VM's frame. */
struct shim_outer {
    bool opaque;                /* No frame is found behind it. */
    size_t bytes;               /* Of all headers in front. */
    size_t ip;                  /* Offset of the outer IP header. */
    size_t csum;                /* Offset of a checksum that covers the frame,
                                 * 0 if there is none. */
    uint64_t tunnel_id;         /* Of the network, 0 without one. */
};

void shim_outer_read(const struct dp_packet *, struct shim_outer *);
void shim_outer_enter(struct dp_packet *, const struct shim_outer *);
void shim_outer_leave(struct dp_packet *, const struct shim_outer *);
void shim_outer_parse(struct dp_packet *, const struct shim_outer *,
                      uint8_t wants, struct shim_frame *);
void shim_outer_act(const struct shim_outer *, const struct shim_frame *,
                    const struct shim_action *);

#endif /* shim-outer.h */
