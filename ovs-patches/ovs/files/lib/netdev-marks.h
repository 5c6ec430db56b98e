/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NETDEV_MARKS_H
#define NETDEV_MARKS_H 1

#include <stdbool.h>
#include <stdint.h>

/* ECN marks that the queuing disciplines of network devices have set.
 *
 * One dump of the kernel's queuing disciplines answers for all devices, and is
 * good for NETDEV_MARKS_FRESH_NS, so a controller that asks every bridge at
 * about the same time costs one dump. */

/* How long a dump answers for the devices, in ns. */
#define NETDEV_MARKS_FRESH_NS (500 * 1000)

/* Counters of one device, of packets that leave by it. */
struct netdev_marks {
    uint32_t kinds;             /* SHIM_MARK_*; 0 if nothing counts marks. */
    uint32_t backlog_bytes;     /* Bytes waiting in the root discipline. */
    uint32_t backlog_packets;   /* Packets waiting there. */
    uint64_t marks;             /* Packets marked CE, all disciplines. */
    uint64_t packets;           /* Packets sent by the root discipline. */
    uint64_t bytes;             /* Bytes sent by it. */
    uint64_t drops;             /* Packets dropped by it, modulo 2^32. */
    uint64_t generation;        /* When 'marks' or 'kinds' last moved. */
};

/* What a queuing discipline's counters said at one time.  The kernel keeps
 * marks and drops in 32 bits, which wrap, and starts anew from 0 when the
 * discipline is replaced. */
struct marks_sample {
    uint64_t bytes;             /* Bytes sent, never wraps. */
    uint32_t marks;             /* Packets marked CE, modulo 2^32. */
    uint32_t drops;             /* Packets dropped, modulo 2^32. */
    uint32_t backlog;           /* Packets waiting. */
};

uint32_t marks_sample_delta(const struct marks_sample *old,
                            const struct marks_sample *new);

bool netdev_marks_refresh(uint64_t now_ns, uint64_t generation);
uint64_t netdev_marks_time_ns(void);
const struct netdev_marks *netdev_marks_get(int ifindex);

#endif /* netdev-marks.h */
