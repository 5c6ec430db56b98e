/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's reading and writing of frames, held against Open vSwitch's: what is no control
 * message for the sender's shim must be none for the receiver's.
 */
#ifndef SHIM_FUZZ_KERNEL_H
#define SHIM_FUZZ_KERNEL_H

#include "../core/engine/packet.h"

/* Checks that the kernel reads a frame as it was read; wants: SHIM_LAW_*. */
void kernel_check_parse(const u8 *data, size_t size, u8 wants, const struct shim_packet *packet);

/* Checks that the kernel writes a frame as it was written, but for the form of a checksum's 0. */
void kernel_check_write(const u8 *data, size_t size, const struct shim_packet *packet,
			const struct shim_action *action, const u8 *written);

/* Checks that the kernel finds `len` bytes of a message in a frame. */
void kernel_check_payload(const u8 *data, size_t size, const u8 *message, size_t len);

/* Checks that the kernel finds that a frame announces an address; NULL: none. */
void kernel_check_announcement(const u8 *data, size_t size, const struct shim_address *announced);

/* As shim_host_source() and shim_host_flow_hash(), of the kernel's packets. */
void kernel_host_source(const struct shim_packet *packet, u8 mac[6]);
u32 kernel_host_flow_hash(const struct shim_packet *packet);

#endif
