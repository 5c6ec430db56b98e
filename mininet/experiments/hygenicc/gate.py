# SPDX-License-Identifier: Apache-2.0
"""HyGenICC's admission control as its section III has it, beside the shim: no connections to a congested destination.

The paper has neither an algorithm nor a number of it. Here the part of packets with CE of those that came from a
hypervisor's VMs to a destination is read each PERIOD_S; when it is above a threshold, the hypervisor's bridge drops
SYNs to that destination until it was not for HOLD_S. Runs in the machine, in the datapath's network namespace:

    python gate.py THRESHOLD DESTINATION HYPERVISOR=VM,VM ...

with addresses for the destination and the VMs; THRESHOLD is a part of packets. It writes a line for each change: time
of CLOCK_MONOTONIC in ns, hypervisor, closed or open.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Dict, List, Sequence, Tuple

from sdngcc.shim.netlink import Peer, ShimClient

# How often marks are read, and how long a path is without congestion until it counts as free, s: law hygenicc's T_c.
PERIOD_S, HOLD_S = 0.01, 0.05
# A period with fewer packets than these tells nothing of a path.
FEWEST = 4
PRIORITY = 60000


class Gate:
    """Which hypervisors refuse connections to the destination."""

    def __init__(self, threshold: float, destination: str, hypervisors: Dict[str, Sequence[str]]) -> None:
        """Refuse nothing yet; hypervisors are their VMs' addresses by name."""
        self.threshold = threshold
        self.destination = destination
        self.hypervisors = hypervisors
        self.closed: Dict[str, bool] = dict.fromkeys(hypervisors, False)
        self._counts: Dict[str, Tuple[int, int]] = {}
        self._congested_ns: Dict[str, int] = {}

    def look(self, peers: Sequence[Peer], now_ns: int) -> List[Tuple[str, bool]]:
        """Take readings of all peers; return the hypervisors that close now, True, or open."""
        changes = []
        for name, sources in self.hypervisors.items():
            own = [peer for peer in peers if peer.local == self.destination and peer.address in sources]
            counts = sum(peer.rx_packets for peer in own), sum(peer.rx_marks for peer in own)
            before = self._counts.get(name, counts)
            self._counts[name] = counts
            packets, marks = counts[0] - before[0], counts[1] - before[1]
            if packets >= FEWEST and marks > self.threshold * packets:
                self._congested_ns[name] = now_ns
            closed = name in self._congested_ns and now_ns - self._congested_ns[name] < HOLD_S * 1e9
            if closed != self.closed[name]:
                self.closed[name] = closed
                changes.append((name, closed))
        return changes

    def switch(self, name: str, closed: bool) -> None:
        """Let a hypervisor's bridge drop SYNs to the destination, or no longer."""
        match = f"tcp,nw_dst={self.destination},tcp_flags=+syn-ack"
        words = (["add-flow", name, f"priority={PRIORITY},{match},actions=drop"] if closed
                 else ["--strict", "del-flows", name, f"priority={PRIORITY},{match}"])
        subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", *words], check=True)


def main(argv: Sequence[str]) -> None:
    """Run until killed."""
    threshold, destination, *rest = argv
    gate = Gate(float(threshold), destination,
                {name: addresses.split(",") for name, _, addresses in (one.partition("=") for one in rest)})
    with ShimClient() as shim:
        while True:
            for name, closed in gate.look(shim.peers(), time.monotonic_ns()):
                gate.switch(name, closed)
                print(time.monotonic_ns(), name, "closed" if closed else "open", flush=True)
            time.sleep(PERIOD_S)


if __name__ == "__main__":
    main(sys.argv[1:])
