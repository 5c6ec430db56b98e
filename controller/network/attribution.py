# SPDX-License-Identifier: Apache-2.0
"""Who is behind a port, and with how much: measured bytes of each machine through each port.

A machine i sends s_i bytes/s into the network (VM_STATE, fresh each round), a part f_ip of it to pair p
(counters.PairBytes), and of pair p the part h_p(port) leaves by a port (paths.py).  Through the port it sends

    s_i(port) = s_i * sum over its pairs p of f_ip * h_p(port)

Pairs inside one bridge do not count: the shim's sent rate is what leaves by uplinks.
"""

import dataclasses
from typing import Callable, Hashable, Iterable, Iterator, NamedTuple, Optional, TypeVar, Union

from sdngcc.controller.network.conversations import SentBytes, Unasked
from sdngcc.controller.network.counters import PairBytes, Split, SplitBytes
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.paths import Path, Paths
from sdngcc.controller.network.proportions import Proportions
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.network.topology import Hop

Key = TypeVar("Key", bound=Hashable)
PairCounts = Union[PairBytes, Unasked[SentBytes]]
SplitCounts = Union[SplitBytes, Unasked[Proportions[Split, int]]]


class _Known(NamedTuple):
    """A pair as it stands in the indexes."""

    place: Hop  # of its source
    path: Path
    splits: int  # version of the measured splits its path was computed from


@dataclasses.dataclass
class _Machine:
    """A machine's pairs that leave its bridge, and what is computed from their counters while these stand."""

    pairs: dict[Pair, None] = dataclasses.field(default_factory=dict)
    revision: int = -1  # of its counters
    splits: int = -1  # version of the measured splits
    shares: dict[Pair, float] = dataclasses.field(default_factory=dict)  # how its bytes go to the pairs
    routes: Optional[dict[Hop, float]] = None  # the sum of their ways, weighted so; None: not computed yet


_NOBODY = _Machine()


class Attribution:
    """Bytes of machines through ports.  A machine is known by its place: (hypervisor bridge, port).

    The indexes follow the relations by themselves. When ways change, whoever changed them calls refresh() for the pairs
    that crossing() names.
    """

    def __init__(
        self,
        relations: Relations,
        paths: Paths,
        pair_bytes: PairCounts,
        split_bytes: SplitCounts,
        switches: dict[int, SwitchRecord],
        clock: Callable[[], int],
    ) -> None:
        self._relations = relations
        self._paths = paths
        self._pair_bytes = pair_bytes
        self._split_bytes = split_bytes
        self._switches = switches
        self._clock = clock
        self._known: dict[Pair, _Known] = {}
        self._behind: dict[Hop, dict[Pair, None]] = {}  # port -> pairs that leave by it
        self._crossing: dict[int, dict[int, dict[Pair, None]]] = {}  # destination switch -> switch on the way -> pairs
        self._addressed: dict[bytes, dict[Pair, None]] = {}  # address of a tunnel's end -> pairs through the tunnel
        self._machines: dict[int, dict[int, _Machine]] = {}  # by bridge and port
        # Machines whose pairs came, went, moved or go other ways, for who sets it to {} and empties it.
        self.moved: Optional[dict[Hop, None]] = None
        for pair in relations.pairs():
            self.refresh(pair)

    # What machines send

    def through(self, point: Hop) -> dict[Hop, int]:
        """Return the bytes/s that each machine behind a port sends through it.

        Machines known to send nothing through it have 0.
        """
        self.follow()
        parts: dict[Hop, float] = {}
        shares: dict[Hop, dict[Pair, float]] = {}
        for pair in list(self._behind.get(point, ())):
            place = self._known[pair].place
            if place not in shares:
                shares[place] = self._measure(place).shares
                parts[place] = 0.0
            parts[place] += shares[place].get(pair, 0.0) * self._path(pair).hops.get(point, 0.0)
        return {
            place: round(vm.sent_rate * part) for place, part in parts.items() if (vm := self._vm(place)) is not None
        }

    def routes(self, place: Hop) -> dict[Hop, float]:
        """Return the ports that a machine's packets leave by, each with the part of its bytes, 0 to 1.

        {} for a machine that sends nothing into the network.
        """
        self.follow()
        machine = self._measure(place)
        if machine.routes is None:
            machine.routes = {}
            for pair, share in machine.shares.items():
                for hop, part in self._path(pair).hops.items():
                    machine.routes[hop] = machine.routes.get(hop, 0.0) + share * part
        return machine.routes

    def shares(self, place: Hop) -> dict[Pair, float]:
        """Return in what parts, 0 to 1, a machine's bytes go to its pairs that leave its bridge."""
        self.follow()
        return self._measure(place).shares

    def revision(self, place: Hop) -> int:
        """Return a number that changes whenever the counters say something else of shares()."""
        return self._pair_bytes.proportions.revision(place)

    @property
    def measured(self) -> int:
        """Return a number that changes whenever revision() does of any machine."""
        return self._pair_bytes.proportions.version

    def want(self, dpid: int) -> None:
        """Keep the counters fresh that shares() of a bridge's machines come from."""
        self._pair_bytes.want(dpid, self._clock())

    def ways(self, place: Hop) -> dict[Pair, dict[Hop, float]]:
        """Return the ways of a machine's pairs that leave its bridge: ports, each with the part of the pair's bytes."""
        self.follow()
        machine = self._machines.get(place[0], {}).get(place[1]) or _NOBODY
        return {pair: self._path(pair).hops for pair in list(machine.pairs)}

    def places(self) -> list[Hop]:
        """Return the machines with pairs that leave their bridge."""
        self.follow()
        return [(dpid, port) for dpid, machines in self._machines.items() for port in machines]

    @property
    def parted(self) -> int:
        """Return a number that changes whenever it was measured how bytes part among equal ways."""
        return self._split_bytes.proportions.version

    def _measure(self, place: Hop) -> _Machine:
        """Return a machine with its shares as its counters say now; those are kept fresh from now on."""
        machine = self._machines.get(place[0], {}).get(place[1]) or _NOBODY
        if len(machine.pairs) > 1:
            self._pair_bytes.want(place[0], self._clock())
        splits = self._split_bytes.proportions.version
        if machine.splits != splits:
            parted = {dpid for pair in machine.pairs for dpid in self._splitting(pair)}
            for dpid in parted:
                self._split_bytes.want(dpid, self._clock())
            if parted:
                machine.routes = None
            else:
                machine.splits = splits
        revision = self._pair_bytes.proportions.revision(place)
        if machine.revision != revision:
            machine.revision, machine.routes = revision, None
            machine.shares = self._pair_bytes.proportions.of(place, machine.pairs)
        return machine

    def _splitting(self, pair: Pair) -> set[int]:
        """Return the switches whose select groups part a pair's bytes."""
        path = self._known[pair].path
        return self._paths.splitting(path.hops) if path.split else set()

    def _path(self, pair: Pair) -> Path:
        """Return the way of a known pair, with its bytes parted as measured last."""
        known = self._known[pair]
        if known.path.split and known.splits != self._split_bytes.proportions.version:
            self.refresh(pair)
        return self._known[pair].path

    # Who is behind a port

    def pairs_behind(self, point: Hop) -> dict[Pair, float]:
        """Return the pairs whose frames leave by a port, each with the part of its bytes that does."""
        self.follow()
        return {pair: self._path(pair).hops[point] for pair in list(self._behind.get(point, ()))}

    def machines_behind(self, point: Hop) -> dict[Hop, Pair]:
        """Return the machines whose packets leave by a port, each with the first of its pairs there."""
        self.follow()
        machines: dict[Hop, Pair] = {}
        for pair in self._behind.get(point, ()):
            place = self._known[pair].place
            first = machines.get(place)
            if first is None or pair < first:
                machines[place] = pair
        return {place: pair for place, pair in machines.items() if self._vm(place) is not None}

    def way(self, pair: Pair) -> dict[Hop, float]:
        """Return the ports that a pair's frames leave by, in their order, each with the part of its bytes."""
        self.follow()
        return (self._path(pair) if pair in self._known else self._paths.find(pair)).hops

    def place(self, pair: Pair) -> Hop:
        """Return where the source of a pair is that using() names."""
        return self._known[pair].place

    def using(self, point: Hop) -> list[Pair]:
        """Return the pairs whose frames leave by a port."""
        self.follow()
        return list(self._behind.get(point, ()))

    def _vm(self, place: Hop) -> Optional[VmRecord]:
        switch = self._switches.get(place[0])
        return switch.vms.get(place[1]) if switch is not None else None

    def sent_rate(self, pair: Pair) -> int:
        """Return what the machine that sends a pair's frames sends to everybody, bytes/s."""
        known = self._known.get(pair)
        vm = self._vm(known.place) if known else None
        return vm.sent_rate if vm else 0

    # The indexes

    def crossing(self, target: int, switches: Iterable[int]) -> list[Pair]:
        """Return the pairs to hosts at switch ``target`` that depend on the ways of one of some switches to it."""
        self.follow()
        there = self._crossing.get(target, {})
        return list(dict.fromkeys(pair for dpid in switches for pair in there.get(dpid, ())))

    def targets_across(self, dpid: int) -> list[int]:
        """Return the destination switches of the pairs that depend on the ways of a switch."""
        self.follow()
        return [target for target, there in self._crossing.items() if dpid in there]

    def follow(self) -> None:
        """Take in which pairs came, went and moved."""
        for _ in self.follow_slowly():
            pass

    def is_behind(self) -> bool:
        """Tell whether follow() has anything to do."""
        return bool(self._relations.touched or self._relations.readdressed)

    def follow_slowly(self) -> Iterator[None]:
        """Do what follow() does, pair by pair."""
        touched, readdressed = self._relations.touched, self._relations.readdressed
        while touched:
            self.refresh(touched.popitem()[0])
            yield
        while readdressed:
            for pair in list(self._addressed.get(readdressed.popitem()[0], ())):
                self.refresh(pair)
                yield

    def refresh(self, pair: Pair) -> None:
        """Compute the way of a pair anew, or forget the pair if it talks no more."""
        self._forget(pair)
        source = self._relations.hosts.get(pair[0])
        if source is None or not self._relations.talks(*pair):
            return
        path = self._paths.find(pair)
        self._known[pair] = _Known(source.place, path, self._split_bytes.proportions.version)
        for hop in path.hops:
            self._behind.setdefault(hop, {})[pair] = None
        for dpid, target in path.crossed:
            self._crossing.setdefault(target, {}).setdefault(dpid, {})[pair] = None
        for address in path.addresses:
            self._addressed.setdefault(address, {})[pair] = None
        self._note(source.place)
        if path.hops and self._leaves(pair, source.place):
            machine = self._machines.setdefault(source.place[0], {}).setdefault(source.place[1], _Machine())
            machine.pairs[pair] = None
            machine.revision = machine.splits = -1

    def _note(self, place: Hop) -> None:
        if self.moved is not None:
            self.moved[place] = None

    def _leaves(self, pair: Pair, place: Hop) -> bool:
        """Tell whether a pair's destination is at another switch than its source, or at none that is known."""
        target = self._relations.hosts.get(pair[1])
        return target is None or target.place[0] != place[0]

    def _forget(self, pair: Pair) -> None:
        known = self._known.pop(pair, None)
        if known is None:
            return
        for hop in known.path.hops:
            _remove(self._behind, hop, pair)
        for dpid, target in known.path.crossed:
            there = self._crossing[target]
            _remove(there, dpid, pair)
            if not there:
                del self._crossing[target]
        for address in known.path.addresses:
            _remove(self._addressed, address, pair)
        self._note(known.place)
        machines = self._machines.get(known.place[0], {})
        machine = machines.get(known.place[1])
        if machine is not None and pair in machine.pairs:
            del machine.pairs[pair]
            machine.revision = machine.splits = -1
            if not machine.pairs:
                del machines[known.place[1]]
                if not machines:
                    del self._machines[known.place[0]]


def _remove(index: dict[Key, dict[Pair, None]], key: Key, pair: Pair) -> None:
    """Take a pair out of an index, and the entry with its last one."""
    pairs = index[key]
    del pairs[pair]
    if not pairs:
        del index[key]
