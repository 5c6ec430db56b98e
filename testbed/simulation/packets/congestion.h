/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Congestion controls of flows that know their size or their deadline, which ns-3 lacks.
 *
 *   d2tcp     DCTCP that cuts by alpha^d / 2, d the urgency of the deadline
 *   l2dct     DCTCP whose growth and cuts follow a weight that falls with the bytes sent
 *   pfabric   a window that is always WINDOW; only timeouts send again
 *
 * The arithmetic of the first two is testbed/congestion/algebra.c, as in the testbed's kernel.
 * What differs there: ns-3's DCTCP cuts by alpha at a loss, too, where the kernel's halve.
 */
#ifndef SIMULATION_CONGESTION_H
#define SIMULATION_CONGESTION_H

#include <string>

#include "ns3/tcp-congestion-ops.h"

/* Window of pfabric, segments: 37.5 kB, what 1 Gb/s brings in 300 us. */
constexpr uint32_t PFABRIC_WINDOW = 26;

/*
 * Returns the congestion control of that name for a flow of so many bytes, whose deadline is at
 * deadline_ns of the simulator's time, 0: it has none.  NULL: it is one of ns-3's own.
 */
ns3::Ptr<ns3::TcpCongestionOps> congestion_make(const std::string &name, uint64_t bytes,
						uint64_t deadline_ns);

#endif
