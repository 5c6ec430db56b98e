# SPDX-License-Identifier: Apache-2.0
"""Explicit rates of machines as a whole: what each is told under ``decision: maxmin``, and when.

For machines of bridges that do not answer HOST_PATHS, whose shims know one rate for all that they send; others are
told by path (by_path.py), and what they send is taken off the ports that they share with these.  Where every bridge
answers, nothing of this is computed.

Every period each port's allowance follows from its marks (capacity.py), each machine's demand from what it sent, and
maxmin.py divides the ones among the others, or hierarchy.py where machines belong to tenants that have a policy.

A machine whose last WINDOW readings all sent less than BINDING of its limit, and dropped nothing, can use no more than
MARGIN times the most of the LATEST; the rest goes to others.  What nobody can use is offered to all, by weight, so that
limits add up to what the port carries and yet nobody starts from nothing.  Where others use all of it, such a machine
is told no less than standby_percent of the part it would have, though only what it uses is set aside for it: one
period's burst of it meets what others send.  One reading at its limit, and it may have its whole part again: in two
periods at most.  What it sent is what its counter says it sent between two readings; what its shim measured last may
have ended a period before.

A machine is told when its rate moved or a refresh is due, for the shim's law goes on by itself after a silence.  One
that is entitled to its share E(i) and has it is told nothing: the shim gives it that without the controller.

Controllers of a cluster all compute this, and the owner of the port that bounds a machine tells it: a shim obeys
whatever rate came last. Where no port on its way is full, who owns them all does, if anybody; where its tenant's cap
bounds it, who owns the first of them.
"""

import collections
import dataclasses
import math
import types
from typing import Callable, Mapping, NamedTuple, Optional

from sdngcc.controller.mappings import read_capacity
from sdngcc.controller.network.attribution import Attribution
from sdngcc.controller.network.inventory import SwitchRecord, VmRecord
from sdngcc.controller.network.tenants import Tenants
from sdngcc.controller.network.topology import Hop, forget_place
from sdngcc.controller.rates import hierarchy, maxmin
from sdngcc.controller.rates.capacity import FRAME_BYTES, Capacity, Marked
from sdngcc.controller.rates.division import Notice
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire.experimenter import VmReading
from sdngcc.controller.wire.message import RATE_MAX, RATE_MIN

WINDOW = 3  # readings
LATEST = 2  # of them; the first one below the limit may be of the period in which a machine stopped
BINDING = 0.9  # of the limit
OVERHEAD_BYTES = 24  # on the wire beyond a packet's own: counters count packets, rates the wire
MARGIN = 1.25
RISE = 1.01  # changes that are worth a message
FALL = 0.9975
AT_SHARE = 0.999
NEAR_SHARE = 0.95
REFRESH_NS = 40_000_000  # a fifth of the shim's rate-timeout
LEAST_NS = 400_000  # between two readings that are compared: a packet or two say nothing of a rate
SECOND_NS = 1_000_000_000
MBPS = 125_000  # bytes/s


class Told(NamedTuple):
    """What a machine was told last."""

    rate: int  # bytes/s
    time_ns: int


@dataclasses.dataclass
class _Machine:
    """What is remembered of a machine that sends."""

    read_ns: int = 0  # when its last reading came
    clock_ns: int = 0  # when that was read, by the bridge's clock
    bytes: int = 0  # sent by then
    packets: int = 0  # the same in packets
    packet_bytes: float = FRAME_BYTES  # of its last ones, in the mean, on the wire
    sent: "collections.deque[int]" = dataclasses.field(default_factory=lambda: collections.deque(maxlen=LATEST))
    bound: "collections.deque[bool]" = dataclasses.field(default_factory=lambda: collections.deque(maxlen=WINDOW))
    drops: int = 0  # by its limiter, as last read
    told: Optional[Told] = None

    def take(self, vm: VmRecord) -> None:
        """Take the machine's reading, once."""
        if vm.reading and vm.read_ns != self.read_ns:
            self.read_ns = vm.read_ns
            sent = self._sent(vm.reading, vm.clock_ns)
            self.sent.append(sent)
            dropped, self.drops = vm.reading.drops > self.drops, vm.reading.drops
            self.bound.append(dropped or sent >= BINDING * vm.reading.rate)

    def _sent(self, reading: VmReading, clock_ns: int) -> int:
        """Return what it sent since the reading before, bytes/s; what its shim says where that is not known.

        The shim says what it sent over the shim's last period, which may have ended a whole period ago.
        """
        elapsed_ns, packets = clock_ns - self.clock_ns, reading.tx_packets - self.packets
        sent = reading.tx_bytes - self.bytes + OVERHEAD_BYTES * packets
        known = self.clock_ns > 0 and elapsed_ns >= LEAST_NS and sent >= 0
        self.clock_ns, self.bytes, self.packets = clock_ns, reading.tx_bytes, reading.tx_packets
        if known and packets > 0:
            self.packet_bytes = sent / packets
        return sent * SECOND_NS // elapsed_ns if known else reading.sent_rate

    def demand(self) -> float:
        """Return what it can use, bytes/s; infinite while that is not known."""
        if len(self.bound) < WINDOW or any(self.bound):
            return math.inf
        return MARGIN * max(self.sent)


def _ceiling(vm: VmRecord) -> float:
    """Return what a machine may never exceed, bytes/s."""
    return vm.reading.max_rate if vm.reading and vm.reading.max_rate else math.inf


class ExplicitRates:
    """Rates of machines that are not told by path.

    ``owns(dpid)`` tells for which switches' ports this controller speaks, ``is_silent(dpid)`` of which no marks are
    heard any more: what is allowed there does not rise meanwhile.
    """

    def __init__(
        self,
        settings: Settings,
        switches: dict[int, SwitchRecord],
        attribution: Attribution,
        owns: Callable[[int], bool],
        is_silent: Callable[[int], bool] = lambda dpid: False,
        tenants: Optional[Tenants] = None,
    ) -> None:
        self.speeds: dict[Hop, int] = {}  # of ports, bytes/s, as their switches say
        self.bottlenecks: dict[Hop, Hop] = {}  # of machines, as last decided
        self._settings = settings
        self._set_mbps = dict(read_capacity(text) for text in settings.capacities)
        self._switches = switches
        self._attribution = attribution
        self._owns = owns
        self._is_silent = is_silent
        self._tenants = tenants or Tenants()
        self._machines: dict[Hop, _Machine] = {}
        self._capacities: dict[Hop, Capacity] = {}
        self._decided_ns = 0

    def set_capacity(self, hop: Hop) -> float:
        """Return a port's capacity in bytes/s as set; infinite where nothing is."""
        set_mbps = self._set_mbps.get(hop, self._settings.capacity_mbps)
        return set_mbps * MBPS if set_mbps else math.inf

    def known_capacity(self, hop: Hop) -> float:
        """Return a port's capacity in bytes/s as set, else as its switch says; infinite if neither does."""
        known = self.set_capacity(hop)
        return known if math.isfinite(known) else float(self.speeds.get(hop) or math.inf)

    def set_speed(self, hop: Hop, speed: int) -> None:
        """Take a port's speed, bytes/s, from its switch; 0: the switch does not know."""
        if self.speeds.get(hop) != speed:
            self.speeds[hop] = speed
            self._capacities.pop(hop, None)

    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone or came anew, or a whole switch."""
        for table in (self._machines, self._capacities, self.speeds):
            forget_place(table, dpid, port)

    def decide(
        self, marks: Mapping[Hop, Marked], now_ns: int, taken: Mapping[Hop, float] = types.MappingProxyType({})
    ) -> list[Notice]:
        """Take the marks of a period, and the machines' readings, and return who is to be told what rate.

        ``taken`` is what machines that are told by path send through ports, bytes/s.
        """
        elapsed_ns = min(now_ns - self._decided_ns, 2 * self._settings.period_us * 1000)
        self._decided_ns = now_ns
        claims, machines = self._claims()
        allowed = self._allowances(claims, machines, marks, elapsed_ns, taken)
        members = self._tenants.members(machines.values())
        needed = self._divide(claims, allowed, members)
        # What nobody needs is offered to all: who begins has a part at once, and limits still fit the ports.
        offered = self._divide(
            {
                place: claim._replace(low=needed[place].rate, high=_ceiling(machines[place]))
                for place, claim in claims.items()
            },
            allowed,
            members,
        )
        self.bottlenecks = {place: got.bottleneck for place, got in offered.items() if got.bottleneck}
        weights: collections.Counter[Hop] = collections.Counter()  # of those who send through a port
        for claim in claims.values():
            weights.update(dict.fromkeys(claim.routes, claim.weight))
        notices = []
        for place, got in offered.items():
            machine, vm = self._machines[place], machines[place]
            point = got.bottleneck or min(claims[place].routes)
            if not all(self._owns(hop[0]) for hop in ([point] if math.isfinite(got.level) else claims[place].routes)):
                machine.told = None
                continue
            rate = self._rate(got.rate, claims[place].weight * needed[place].level, vm)
            if not self._due(machine, vm, rate, now_ns):
                continue
            machine.told = Told(rate, now_ns)
            notices.append(
                Notice(
                    vm=place,
                    marks=0,
                    interval_ns=0,
                    weight_total=weights[point],
                    point=point,
                    rate=rate,
                )
            )
        return notices

    def _divide(
        self, claims: Mapping[Hop, maxmin.Claim], allowed: Mapping[Hop, float], members: Mapping[Hop, str]
    ) -> dict[Hop, maxmin.Allotment]:
        """Return what machines get; ``members`` has the tenants of those whose tenant has a policy."""
        if not members:
            return maxmin.allot(claims, allowed)
        return hierarchy.allot(claims, allowed, members, self._tenants.shares)

    def _claims(self) -> tuple[dict[Hop, maxmin.Claim], dict[Hop, VmRecord]]:
        """Return what the machines that send may send, and their records."""
        claims, machines = {}, {}
        for dpid in sorted(dpid for dpid, switch in self._switches.items() if not switch.paths):
            for number, vm in sorted(self._switches[dpid].vms.items()):
                reading, place = vm.reading, (dpid, number)
                if reading is None or not vm.active:
                    self._machines.pop(place, None)
                    continue
                machine = self._machines.setdefault(place, _Machine())
                machine.take(vm)
                demand = machine.demand()
                claims[place] = maxmin.Claim(
                    self._routes(place, reading.uplink),
                    max(1, reading.weight),
                    min(reading.min_rate, demand),
                    min(_ceiling(vm), demand),
                )
                machines[place] = vm
        return claims, machines

    def _routes(self, place: Hop, uplink: int) -> dict[Hop, float]:
        """Return the ports on a machine's way that can be full; at least its uplink."""
        routes = {
            hop: part
            for hop, part in self._attribution.routes(place).items()
            if hop[0] not in self._switches or hop[1] not in self._switches[hop[0]].vms
        }
        return routes or {(place[0], uplink): 1.0}

    def _allowances(
        self,
        claims: Mapping[Hop, maxmin.Claim],
        machines: Mapping[Hop, VmRecord],
        marks: Mapping[Hop, Marked],
        elapsed_ns: int,
        taken: Mapping[Hop, float],
    ) -> dict[Hop, float]:
        """Return what machines may send through each port of their ways, bytes/s."""
        sent: dict[Hop, float] = {}
        packets: dict[Hop, float] = {}
        allowed: dict[Hop, float] = {}
        for place, claim in claims.items():
            reading = machines[place].reading
            for hop, part in claim.routes.items():
                through = part * machines[place].sent_rate
                sent[hop] = sent.get(hop, 0.0) + through
                packets[hop] = packets.get(hop, 0.0) + through / self._machines[place].packet_bytes
                if hop[0] == place[0] and reading:
                    # An uplink: the shares E(i) add up to what it carries, or to the ceilings of all.
                    allowed[hop] = allowed.get(hop, 0.0) + reading.share
        for hop in [hop for hop in self._capacities if hop not in sent]:
            del self._capacities[hop]
        for hop in sent.keys() - allowed.keys():
            capacity = self._capacities.get(hop)
            if capacity is None:
                headroom = self._settings.headroom_percent / 100
                capacity = self._capacities[hop] = Capacity(self.known_capacity(hop), headroom)
            passed_ns = 0 if self._is_silent(hop[0]) else elapsed_ns
            others = taken.get(hop, 0.0)
            packet_bytes = sent[hop] / packets[hop] if packets[hop] else FRAME_BYTES
            allowed[hop] = capacity.update(
                sent[hop] + others, marks.get(hop, Marked(0, 0)), passed_ns, packet_bytes)
            allowed[hop] = max(RATE_MIN, allowed[hop] - others)
        return allowed

    def _rate(self, offered: float, part: float, vm: VmRecord) -> int:
        """Return the rate to tell a machine, bytes/s; its part is what the full ports on its way would give it."""
        assert vm.reading is not None
        if math.isfinite(part):
            rate = max(offered, self._settings.standby_percent / 100 * part)
        else:
            # No port on its way is full: that the fabric's headroom is missing from its share hurts nobody.
            rate = offered if offered < NEAR_SHARE * vm.reading.share else float(vm.reading.share)
        rate = min(max(rate, vm.reading.min_rate), _ceiling(vm))
        return round(min(max(rate, RATE_MIN), RATE_MAX))

    @staticmethod
    def _due(machine: _Machine, vm: VmRecord, rate: int, now_ns: int) -> bool:
        """Tell whether a machine is to be told its rate now."""
        assert vm.reading is not None
        share = vm.reading.share
        if AT_SHARE * share <= rate <= share / AT_SHARE and vm.reading.rate >= AT_SHARE * share:
            machine.told = None
            return False
        if machine.told is None:
            return True
        return (
            rate >= RISE * machine.told.rate
            or rate <= FALL * machine.told.rate
            or now_ns - machine.told.time_ns >= REFRESH_NS
        )
