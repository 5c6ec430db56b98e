/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cutting of GSO packets.
 */
#ifndef OVS_SHIM_SEGMENT_H
#define OVS_SHIM_SEGMENT_H

#include <linux/types.h>

struct sk_buff;

/*
 * Cuts a GSO packet of IP, whose data starts at the link-layer header, into parts that have so many
 * of its segments each and are GSO packets again; into single segments if that is less than 2 or
 * cannot be.  Returns the list of the parts; NULL: it is a single segment; or an error.  The packet
 * stays the caller's.  Softirqs off.
 */
struct sk_buff *ovs_shim_segment(struct sk_buff *skb, u32 segments);

#endif
