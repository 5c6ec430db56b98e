# SPDX-License-Identifier: Apache-2.0
"""Who talks to whom and how much, from the shims: HOST_PEERS of every host.

A machine's shim counts by remote address, and tells the VLAN and the tunnel's key by which it reaches it, as the wire
has them: both ends see the same two, its *segment*. It tells the machine's own address there, too, which no other
machine of the host may use. So the machine at the far end of a conversation is the one that has the remote address as
its own in that segment. Where there is none the bytes go elsewhere. What a database of the cloud says of a machine's
addresses (directory.py) goes before what machines show: such an address is that machine's from the start. Of addresses
that several machines are allowed to use (a virtual address of VRRP) the one has it that sent from it last.

The counters are the kernel's own and fresh with every reply. An entry's first reading is a baseline. With d the bytes
sent to a destination between two readings, t their time and H the half-life,

    b <- b * 2^(-dt / H) + d,     proportion of a destination = b / sum(b) over the machine's destinations

is how a machine's bytes part (Proportions has the same from counters that move in sweeps).
"""

import collections
import dataclasses
import itertools
from typing import (
    AbstractSet,
    Any,
    Callable,
    Generator,
    Generic,
    Iterable,
    Iterator,
    NamedTuple,
    Optional,
    TypeVar,
    cast,
)  # fmt: skip

from sdngcc.controller import budget
from sdngcc.controller.network.directory import CloudPort, Segment
from sdngcc.controller.network.relations import Learned, Pair, Relations
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.wire import experimenter
from sdngcc.controller.wire.experimenter import PeerReading, Reply

HALF_LIFE_NS = 50_000_000
ENTRIES_MAX = 65_536  # of a host, as it tells no more itself
ADDRESSES_MAX = 64  # of a machine, in all segments; of more it keeps those that it used last
KNOWN_MAX = 1024  # of a machine, that the cloud says, in all segments; the same of ranges that it may use
ELSEWHERE = b"elsewhere"  # stands for all that no host here has

_HALVINGS_MAX = 500  # of the weight with which bytes are added, before all are scaled anew

Known = TypeVar("Known")
Named = tuple[Segment, bytes]  # an address in its segment
_Entry = tuple[int, int, int, bytes, bytes, bytes, int]  # all of a reading but its counters


class Arrived(NamedTuple):
    """What came of a pair's packets."""

    packets: int
    marks: int  # packets with CE
    bytes: int


class Arrivals(NamedTuple):
    """What machines of a host received since its reply before."""

    pairs: dict[Pair, Arrived]  # whose source is known
    strangers: int  # packets with CE from others


_NOTHING = Arrived(0, 0, 0)


def machine_key(place: Hop) -> bytes:
    """Return what stands for a machine among the relations, where Ethernet addresses need not be unique."""
    return place[0].to_bytes(8, "big") + place[1].to_bytes(4, "big")


class SentBytes:
    """In what proportion machines send to their destinations; attribution.py reads it as PairBytes' proportions."""

    def __init__(self) -> None:
        self.version = 0
        self._sent: dict[Hop, dict[Pair, float]] = {}
        self._revisions: dict[Hop, int] = {}
        self._origin_ns: dict[Hop, int] = {}  # when a byte weighed 1

    def add(self, place: Hop, sent: dict[Pair, int], now_ns: int) -> None:
        """Add the bytes that a machine sent."""
        known = self._sent.setdefault(place, {})
        origin_ns = self._origin_ns.setdefault(place, now_ns)
        if now_ns - origin_ns > _HALVINGS_MAX * HALF_LIFE_NS:
            known = self._sent[place] = {
                pair: part * 0.5**_HALVINGS_MAX for pair, part in known.items() if part * 0.5**_HALVINGS_MAX > 1.0
            }
            origin_ns += _HALVINGS_MAX * HALF_LIFE_NS
            if now_ns - origin_ns > _HALVINGS_MAX * HALF_LIFE_NS:
                known.clear()
                origin_ns = now_ns
            self._origin_ns[place] = origin_ns
        weight = 2.0 ** ((now_ns - origin_ns) / HALF_LIFE_NS)
        for pair, count in sent.items():
            known[pair] = known.get(pair, 0.0) + count * weight
        self.version += 1
        self._revisions[place] = self.version

    def revision(self, place: Hop) -> int:
        """Return a number that changes whenever a machine's proportions may; 0: nothing was sent."""
        return self._revisions.get(place, 0)

    def of(self, place: Hop, pairs: Iterable[Pair]) -> dict[Pair, float]:
        """Return how a machine's bytes go to some pairs; the parts add up to 1, even ones while nothing was sent."""
        known = self._sent.get(place, {})
        parts = {pair: known.get(pair, 0.0) for pair in pairs}
        total = sum(parts.values())
        if total <= 0:
            return dict.fromkeys(parts, 1 / len(parts)) if parts else {}
        return {pair: part / total for pair, part in parts.items()}

    def forget_pair(self, place: Hop, pair: Pair) -> None:
        """Forget a pair that talks no more."""
        self._sent.get(place, {}).pop(pair, None)

    def forget(self, place: Hop) -> None:
        """Forget a machine that is gone."""
        self.version += 1
        for table in (self._sent, self._revisions, self._origin_ns):
            table.pop(place, None)


class Unasked(Generic[Known]):
    """Proportions as attribution.py reads them from counters, where nobody has to be asked for any."""

    def __init__(self, proportions: Known) -> None:
        self.proportions = proportions

    def want(self, dpid: int, now_ns: int) -> None:
        """Do nothing."""


@dataclasses.dataclass
class _Host:
    """What a host has told."""

    generation: int = 0
    boot: int = 0
    begun: bool = False  # a whole first reply was taken
    entries: "collections.OrderedDict[_Entry, PeerReading]" = dataclasses.field(default_factory=collections.OrderedDict)


class _Cloud(NamedTuple):
    """What the cloud says of a machine."""

    ports: tuple[CloudPort, ...] = ()
    own: frozenset[Named] = frozenset()  # its addresses, of which another one has none
    allowed: frozenset[tuple[Segment, int, int]] = frozenset()  # ranges: bits in common, and these as a number
    lengths: frozenset[int] = frozenset()  # of the ranges, bits

    @classmethod
    def of(cls, ports: tuple[CloudPort, ...]) -> "_Cloud":
        """Return what ports say that are one machine's."""
        allowed = frozenset(itertools.islice(_ranges(ports), KNOWN_MAX))
        own = frozenset(itertools.islice(_named(ports), KNOWN_MAX))
        return cls(ports, own, allowed, frozenset(bits for _, bits, _ in allowed))

    def allows(self, named: Named) -> bool:
        """Tell whether the machine may use an address that may be others', too."""
        segment, address = named
        number = int.from_bytes(address, "big")
        return any((segment, bits, number >> 128 - bits) in self.allowed for bits in self.lengths)


_UNKNOWN = _Cloud()


def _named(ports: tuple[CloudPort, ...]) -> Iterator[Named]:
    """Yield the addresses of ports, each in each segment of its network."""
    for port in ports:
        yield from itertools.product(port.segments, port.addresses)
        yield from port.floating


def _ranges(ports: tuple[CloudPort, ...]) -> Iterator[tuple[Segment, int, int]]:
    for port in ports:
        for segment, (first, bits, _) in itertools.product(port.segments, port.allowed):
            yield segment, bits, int.from_bytes(first, "big") >> 128 - bits


class Conversations:
    """Keeps ``relations`` and ``sent`` as the shims tell; ``idle_ns`` after its last packet a pair is forgotten."""

    def __init__(
        self,
        relations: Relations,
        sent: SentBytes,
        idle_ns: int,
        clock: Callable[[], int],
        counters: "collections.Counter[str]",
    ) -> None:
        self._relations = relations
        self._sent = sent
        self._idle_ns = idle_ns
        self._clock = clock
        self._counters = counters
        self._hosts: dict[int, _Host] = {}
        self._owners: dict[Named, Hop] = {}  # address in its segment -> machine
        self._owned: dict[Hop, dict[Named, None]] = {}
        self._known: dict[Hop, _Cloud] = {}
        # Addresses of theirs that another machine has, of which the cloud says the same.
        self._wanting: dict[Hop, set[Named]] = {}
        self._talking: collections.OrderedDict[Pair, tuple[int, Hop]] = collections.OrderedDict()  # oldest first

    # What hosts say

    def request(self, dpid: int, xid: int) -> bytes:
        """Return the message that asks a host for what moved since its last reply."""
        host = self._hosts.get(dpid)
        return experimenter.host_peers_request(xid, *((host.generation, host.boot) if host else (0, 0)))

    def take(self, dpid: int, reply: Reply) -> Arrivals:
        """Take a HOST_PEERS reply; return what arrived since the one before."""
        steps = self.take_in_steps(dpid, reply)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(Arrivals, end.value)

    def take_in_steps(self, dpid: int, reply: Reply) -> Generator[list[Any], None, Arrivals]:
        """Take a HOST_PEERS reply, some entries a step, each of which yields []; return what arrived meanwhile.

        Others run between two steps; a host that is forgotten then tells no more.
        """
        now_ns = self._clock()
        host = self._hosts.setdefault(dpid, _Host())
        if host.boot != reply.boot:
            host.boot, host.begun = reply.boot, False
            host.entries.clear()
        host.generation = reply.generation
        sent: dict[Hop, dict[Pair, int]] = {}
        arrived: dict[Pair, Arrived] = {}
        strangers = 0
        moves: list[tuple[PeerReading, Optional[PeerReading]]] = []
        for readings in experimenter.slices(reply, budget.SLICE_ENTRIES):
            for reading in readings:
                moved = self._moved(host, reading)
                moves.append((reading, moved))
                speaks = moved is not None and moved.tx_packets > 0
                self._own(((reading.vlan, reading.tunnel_id), reading.local), (dpid, reading.vm), speaks)
            yield []
            if self._hosts.get(dpid) is not host:
                return Arrivals({}, 0)
        for number, (reading, moved) in enumerate(moves, 1):
            if not number % budget.SLICE_ENTRIES:
                yield []
                if self._hosts.get(dpid) is not host:
                    return Arrivals({}, 0)
            if moved is None:
                continue
            if moved.rx_marks > moved.rx_packets:
                self._counters["marks_refused"] += 1
                continue
            place, segment = (dpid, reading.vm), (reading.vlan, reading.tunnel_id)
            remote = self._owners.get((segment, reading.remote))
            if moved.tx_bytes:
                pair = (machine_key(place), machine_key(remote) if remote else ELSEWHERE)
                if self._talk(pair, place, now_ns):
                    bytes_to = sent.setdefault(place, {})
                    bytes_to[pair] = bytes_to.get(pair, 0) + moved.tx_bytes
            if moved.rx_packets and remote is not None:
                pair = (machine_key(remote), machine_key(place))
                before = arrived.get(pair, _NOTHING)
                arrived[pair] = Arrived(
                    before.packets + moved.rx_packets, before.marks + moved.rx_marks, before.bytes + moved.rx_bytes
                )
            elif moved.rx_marks:
                strangers += moved.rx_marks
        host.begun = True
        for place, bytes_to in sent.items():
            self._sent.add(place, bytes_to, now_ns)
        return Arrivals(arrived, strangers)

    def _own(self, named: Named, place: Hop, speaks: bool) -> None:
        """Note a machine's own address in a segment; ``speaks`` tells whether it sent from it just now.

        The first machine has it while it is there, but for addresses that the cloud allows to several.
        """
        if not any(named[1]):
            return
        owner = self._owners.get(named)
        if owner is not None and owner != place:
            if not self._gives_way(named, owner, place, speaks):
                self._counters["addresses_claimed_twice"] += 1
                return
            self._counters["addresses_moved"] += 1
            self._disown(named, owner)
            owner = None
        owned = self._owned.setdefault(place, {})
        if owner == place and named not in owned:
            return  # the cloud says so
        if owner is None:
            outcome = self._relations.learn_host(machine_key(place), place, named[1], self._clock())
            if outcome is Learned.REFUSED:
                return
            self._owners[named] = place
            if len(owned) >= ADDRESSES_MAX:
                oldest = next(iter(owned))
                del owned[oldest], self._owners[oldest]
        else:
            del owned[named]
        owned[named] = None

    def _gives_way(self, named: Named, owner: Hop, place: Hop, speaks: bool) -> bool:
        """Tell whether the machine that has an address loses it to another one that shows it."""
        known = self._known.get(owner, _UNKNOWN)
        if named in known.own or not self._known.get(place, _UNKNOWN).allows(named):
            return False
        return speaks or not known.allows(named)

    def know(self, place: Hop, ports: tuple[CloudPort, ...]) -> None:
        """Take what the cloud says of a machine: its port, and those that pass by it; (): nothing.

        Of two machines with one address the first has it.
        """
        before, told = self._known.get(place, _UNKNOWN), self._wanting.pop(place, set())
        if ports == before.ports:
            wanted: AbstractSet[Named] = told
        else:
            now = self._known[place] = _Cloud.of(ports)
            wanted = now.own
            for named in before.own - now.own:
                self._disown(named, place)
            if not ports:
                del self._known[place]
        missing = {named for named in sorted(wanted) if not self._know_address(named, place)}
        self._counters["addresses_claimed_twice"] += len(missing - told)
        if missing:
            self._wanting[place] = missing

    def _know_address(self, named: Named, place: Hop) -> bool:
        """Let a machine have an address; return False when the cloud says so of another machine, too."""
        owner = self._owners.get(named)
        owned = self._owned.get(owner, {}) if owner is not None else {}
        if owner is not None and owner != place:
            if named not in owned:
                return False
            self._counters["addresses_claimed_twice"] += 1
            self._disown(named, owner)
        owned.pop(named, None)
        self._owners[named] = place
        self._relations.learn_host(machine_key(place), place, named[1], self._clock())
        return True

    def _disown(self, named: Named, place: Hop) -> None:
        """Take an address from a machine, if it has it."""
        if self._owners.get(named) != place:
            return
        del self._owners[named]
        owned = self._owned.get(place, {})
        owned.pop(named, None)
        host = self._relations.hosts.get(machine_key(place))
        if host is None or named[1] not in host.addresses:
            return
        left = {*owned, *self._known.get(place, _UNKNOWN).own} - {named}
        if named[1] not in {address for _, address in left}:
            self._relations.forget_address(machine_key(place), named[1])

    def _moved(self, host: _Host, reading: PeerReading) -> Optional[PeerReading]:
        """Return a reading with what its counters moved by; None for a baseline."""
        entry: _Entry = reading[:7]
        before = host.entries.pop(entry, None)
        host.entries[entry] = reading
        if len(host.entries) > ENTRIES_MAX:
            host.entries.popitem(last=False)
        if before is None:
            return None
        counters = reading[7:]
        if any(now < then for now, then in zip(counters, before[7:])):
            return reading  # it began anew
        return reading._replace(
            tx_bytes=reading.tx_bytes - before.tx_bytes,
            tx_packets=reading.tx_packets - before.tx_packets,
            rx_bytes=reading.rx_bytes - before.rx_bytes,
            rx_packets=reading.rx_packets - before.rx_packets,
            rx_marks=reading.rx_marks - before.rx_marks,
        )

    def _talk(self, pair: Pair, place: Hop, now_ns: int) -> bool:
        """Note that a pair talks; return False where its machine has too many."""
        if pair[0] not in self._relations.hosts or not self._relations.learn_pair(*pair, now_ns):
            self._counters["pairs_refused"] += 1
            return False
        self._talking.pop(pair, None)
        self._talking[pair] = (now_ns, place)
        return True

    # What goes

    def expire(self, now_ns: int) -> None:
        """Forget the pairs that have been silent for long."""
        while self._talking:
            pair, (heard_ns, place) = next(iter(self._talking.items()))
            if now_ns - heard_ns < self._idle_ns:
                break
            self._forget_pair(pair, place)

    def _forget_pair(self, pair: Pair, place: Hop) -> None:
        del self._talking[pair]
        self._relations.forget_pair(*pair)
        self._sent.forget_pair(place, pair)

    def forget_machine(self, place: Hop) -> None:
        """Forget a machine that is gone, with its addresses and pairs."""
        for named in self._owned.pop(place, {}):
            del self._owners[named]
        self._wanting.pop(place, None)
        for named in self._known.pop(place, _UNKNOWN).own:
            if self._owners.get(named) == place:
                del self._owners[named]
        key = machine_key(place)
        pairs = [(key, target) for target in self._relations.targets(key)]
        pairs += [(source, key) for source in self._relations.sources(key)]
        for pair in pairs:
            self._forget_pair(pair, self._talking[pair][1])
        self._relations.forget_host(key)
        self._sent.forget(place)

    def forget(self, dpid: int) -> None:
        """Forget a host whose connection ended, with its machines."""
        self._hosts.pop(dpid, None)
        for place in [place for place in self._owned.keys() | self._known.keys() if place[0] == dpid]:
            self.forget_machine(place)
