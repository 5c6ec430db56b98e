/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Bytes on the wire: what a packet takes of a cable, as tc's `overhead` and `mpu` have it.
 *
 *   bytes on the wire = max(bytes, SHIM_WIRE_LEAST) + overhead        for each packet
 *
 * Buckets, rates and shares count these, for they divide a cable.  Counters of bytes that operators
 * read count packets as devices do, with the link-layer header.
 */
#ifndef SHIM_CORE_ENGINE_WIRE_H
#define SHIM_CORE_ENGINE_WIRE_H

#include "../types.h"

/* The least that Ethernet sends, bytes without FCS: shorter packets are padded. */
#define SHIM_WIRE_LEAST 60U

/* Preamble, FCS and gap of Ethernet, bytes. */
#define SHIM_OVERHEAD_ETHERNET 24U

/* The most that an uplink may have, bytes. */
#define SHIM_OVERHEAD_MAX 1000U

/*
 * Returns the bytes on the wire of packets of `bytes` together; overhead 0: as many.  At most 1001
 * for each packet more, so it fits: packets of one call are at most 2^21 bytes.
 */
static inline u64 shim_wire_bytes(u32 overhead, u64 bytes, u64 packets)
{
	u64 least = SHIM_WIRE_LEAST * packets;

	if (!overhead)
		return bytes;
	return (bytes > least ? bytes : least) + overhead * packets;
}

#endif
