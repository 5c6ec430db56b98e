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

size_t shim_gso_size(const struct dp_packet *);
size_t shim_gso_cut(struct dp_packet *, struct dp_packet ***parts);
bool shim_gso_is_partial(const struct dp_packet *, bool tunnelled);
void shim_gso_batch_done(struct dp_packet_batch *);

#endif /* shim-gso.h */
