/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a guest that uses ECN is told inside a tunnel between two shims: SCC section III.C.
 *
 * The fabric's marks steer the tunnel's rate.  A guest that saw them too would slow down twice, so
 * they are taken away, and the guest sees the marks of the queue it does wait in, the tunnel's own
 * at the sender:
 *
 *   sender:    echo = wait * R > mark, or wait > horizon / 2
 *   receiver:  echo set:                          CE
 *              the peer's shim lately reported:   no CE, whatever the fabric marked
 *              else:                              as the fabric left it
 *
 * wait is the time a packet stays in the limiters, R the tunnel's rate, mark a length in bytes.
 * Half of the horizon marks where R is too low for `mark` to come before the drops.
 *
 * The mark travels in the reserved bit of the IPv4 header, which the receiving shim clears; IPv6
 * and fragments have none, their guests keep the fabric's marks.  A peer that sends no reports has
 * no tunnel: its guests have nothing but the fabric's marks to slow down by.  Whoever forges the
 * bit on the way could as well set CE.
 */
#ifndef SHIM_CORE_TUNNEL_H
#define SHIM_CORE_TUNNEL_H

#include "law.h"

/* Length of a tunnel's queue above which it marks, bytes: 20 full packets, SCC section II.B. */
#define SHIM_TUNNEL_MARK_BYTES 30280

/* Lets a packet that goes into a tunnel of `rate` bytes/s carry its mark; mark_bytes 0: none. */
void shim_tunnel_enter(struct shim_law_packet *packet, u64 rate, u64 mark_bytes);

/*
 * Says what the guest is told by a packet out of a tunnel; reported: the peer's shim sends reports.
 * mark_bytes 0: what the fabric says.
 */
void shim_tunnel_leave(struct shim_law_packet *packet, bool reported, u64 mark_bytes);

#endif
