# SPDX-License-Identifier: Apache-2.0
"""Who is behind a port, and with how much: measured bytes of each machine through each port.

A machine i sends s_i bytes/s into the network (VM_STATE, fresh each round), a part f_ip of it to pair p
(counters.PairBytes), and of pair p the part h_p(port) leaves by a port (paths.py).  Through the port it sends

    s_i(port) = s_i * sum over its pairs p of f_ip * h_p(port)

Pairs inside one bridge do not count: the shim's sent rate is what leaves by uplinks.
"""

from typing import Callable, NamedTuple, Optional

from sdngcc.controller.network.counters import PairBytes, SplitBytes
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.paths import Paths
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.topology import Hop


class _Routes(NamedTuple):
    """A machine's routes and what they were computed from."""

    stamp: tuple[int, ...]  # versions of paths and bytes
    pairs: int  # that leave the bridge
    splits: set[int]  # switches where select groups part them
    parts: dict[Hop, float]


class Attribution:
    """Bytes of machines through ports.  A machine is known by its place: (hypervisor bridge, port)."""

    def __init__(
        self,
        relations: Relations,
        paths: Paths,
        pair_bytes: PairBytes,
        split_bytes: SplitBytes,
        switches: dict[int, SwitchRecord],
        clock: Callable[[], int],
    ) -> None:
        self._relations = relations
        self._paths = paths
        self._pair_bytes = pair_bytes
        self._split_bytes = split_bytes
        self._switches = switches
        self._clock = clock
        self._behind: dict[Hop, dict[Pair, float]] = {}  # port -> pairs that leave by it, with h_p
        self._indexed: Optional[tuple[int, ...]] = None
        self._routes: dict[Hop, _Routes] = {}

    def through(self, point: Hop) -> dict[Hop, int]:
        """Return the bytes/s that each machine behind a port sends through it.

        Machines known to send nothing through it have 0.
        """
        return {
            place: round(vm.sent_rate * self.routes(place).get(point, 0.0))
            for place, vm in self._machines(point).items()
        }

    def routes(self, place: Hop) -> dict[Hop, float]:
        """Return the ports that a machine's packets leave by, each with the part of its bytes, 0 to 1.

        {} for a machine that sends nothing into the network.
        """
        stamp = (*self._paths.version, self._pair_bytes.proportions.revision(place))
        known = self._routes.get(place)
        if known is None or known.stamp != stamp:
            known = self._routes[place] = self._compute_routes(place, stamp)
        if known.pairs > 1:
            self._pair_bytes.want(place[0], self._clock())
        for dpid in known.splits:
            self._split_bytes.want(dpid, self._clock())
        return known.parts

    def _compute_routes(self, place: Hop, stamp: tuple[int, ...]) -> _Routes:
        pairs = self._remote_pairs(place)
        parts: dict[Hop, float] = {}
        splits: set[int] = set()
        for pair, proportion in self._pair_bytes.proportions.of(place, pairs).items():
            splits |= self._paths.splitting(pairs[pair])
            for hop, part in pairs[pair].items():
                parts[hop] = parts.get(hop, 0.0) + proportion * part
        return _Routes(stamp, len(pairs), splits, parts)

    def pairs_behind(self, point: Hop) -> dict[Pair, float]:
        """Return the pairs whose frames leave by a port, each with the part of its bytes that does."""
        self._index()
        return self._behind.get(point, {})

    def machines_behind(self, point: Hop) -> dict[Hop, Pair]:
        """Return the machines whose packets leave by a port, each with one of its pairs there."""
        machines: dict[Hop, Pair] = {}
        for pair in sorted(self.pairs_behind(point)):
            place = self._relations.hosts[pair[0]].place
            if self._vm(place) is not None:
                machines.setdefault(place, pair)
        return machines

    def forget(self, dpid: int) -> None:
        """Forget a switch that is gone."""
        for place in [place for place in self._routes if place[0] == dpid]:
            del self._routes[place]

    def _vm(self, place: Hop) -> Optional[VmRecord]:
        switch = self._switches.get(place[0])
        return switch.vms.get(place[1]) if switch is not None else None

    def _machines(self, point: Hop) -> dict[Hop, VmRecord]:
        return {place: self._switches[place[0]].vms[place[1]] for place in self.machines_behind(point)}

    def _remote_pairs(self, place: Hop) -> dict[Pair, dict[Hop, float]]:
        """Return a machine's pairs that leave its bridge by a link, each with its hops."""
        pairs = {}
        for host in self._relations.hosts_at(place):
            for target in self._relations.targets(host.mac):
                other = self._relations.hosts.get(target)
                if other is not None and other.place[0] != place[0]:
                    hops = self._paths.hops((host.mac, target))
                    if hops:
                        pairs[host.mac, target] = hops
        return pairs

    def _index(self) -> None:
        if self._indexed == self._paths.version:
            return
        self._indexed = self._paths.version
        self._behind = {}
        for pair in self._relations.pairs():
            for hop, part in self._paths.hops(pair).items():
                self._behind.setdefault(hop, {})[pair] = part
