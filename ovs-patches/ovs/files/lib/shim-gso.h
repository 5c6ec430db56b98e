/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_GSO_H
#define SHIM_GSO_H 1

#include <stdbool.h>
#include <stddef.h>

/* Packets that stand for several, to be cut by whom sends them
 * (userspace-tso-enable), and what else versions of Open vSwitch call
 * differently of packets. */

struct dp_packet;
struct dp_packet_batch;

/* What a packet was cut into. */
struct shim_parts {
    struct dp_packet **packets; /* An array that the caller must free. */
    size_t n;                   /* Elements in it. */
};

size_t shim_gso_size(const struct dp_packet *);
void shim_gso_cut(struct dp_packet *, struct shim_parts *);
bool shim_gso_is_partial(const struct dp_packet *, bool tunnelled);
void shim_gso_batch_done(struct dp_packet_batch *);

#endif /* shim-gso.h */
