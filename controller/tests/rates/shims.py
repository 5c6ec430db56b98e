# SPDX-License-Identifier: Apache-2.0
"""Shims of a fabric's hypervisors under law maxmin: they obey messages of both versions, and tell what machines send.

Of what machines want their paths and their own buckets let through what they may; a port that gets more than it
carries marks.  Queues and losses there are none, but that hypervisors' lines let no more through than they carry.
"""

import collections
import struct

from sdngcc.controller.tests.fabric import Fabric, ip, mac, vm_reading
from sdngcc.controller.wire import experimenter, message
from sdngcc.controller.wire.experimenter import PathReading
from sdngcc.controller.wire.packets import mapped

PERIOD_NS = 5_000_000
TIMEOUT_NS = 200_000_000  # rate-timeout
Place = tuple[int, int]
Name = tuple[bytes, int]  # prefix, bits


class Shim:
    """What one machine was told; rates in bytes/s."""

    def __init__(self, share: int) -> None:
        self.share = share
        self.weight = 1
        self.low = 0
        self.high = 0  # its ceiling; 0: none
        self.head = (share, 1 << 62)  # of all that it sends, and until when
        self.paths: dict[Name, dict[int, tuple[int, int]]] = {}  # by teller
        self.messages = 0

    def hear(self, data: bytes, key: bytes, now_ns: int) -> None:
        self.messages += 1
        if data[2] == 1:
            self.head = (message.decode_v1(data, key).rate, now_ns + TIMEOUT_NS)
            return
        told = message.decode_v2(data, key)
        if told.rate:
            self.head = (told.rate, now_ns + TIMEOUT_NS)
        for entry in told.entries:
            path = self.paths.setdefault((entry.prefix, entry.bits), {})
            path[entry.teller] = (entry.rate, now_ns + TIMEOUT_NS)

    def rates(self, now_ns: int) -> dict[Name, int]:
        """Return the paths in force."""
        for tellers in self.paths.values():
            for teller in [teller for teller, (_, end_ns) in tellers.items() if end_ns <= now_ns]:
                del tellers[teller]
        self.paths = {name: tellers for name, tellers in self.paths.items() if tellers}
        return {name: min(rate for rate, _ in tellers.values()) for name, tellers in self.paths.items()}

    def rate(self, now_ns: int) -> int:
        return self.head[0] if self.head[1] > now_ns else self.share


def within(name: Name, address: bytes) -> bool:
    numbers = (int.from_bytes(one, "big") >> (128 - name[1]) for one in (name[0], address))
    return next(numbers) == next(numbers)


class Shims:
    """All shims of a fabric; ``wants`` has bytes/s by (machine, destination), machines by number."""

    def __init__(self, fabric: Fabric, key: bytes, capacities: "dict[Place, int]", share: int) -> None:
        self.fabric, self.key, self.capacities = fabric, key, capacities
        self.places: dict[int, Place] = {}
        self.wants: dict[tuple[int, int], int] = {}
        self.sent: dict[tuple[int, int], float] = {}
        self.shims: collections.defaultdict[Place, Shim] = collections.defaultdict(lambda: Shim(share))
        self.load: dict[Place, float] = {}
        self.lines: dict[int, float] = {}  # what hypervisors' uplinks let through, by bridge
        self.meek: set[int] = set()  # machines that have what a full line leaves them

    def run(self, periods: int = 1) -> None:
        for _ in range(periods):
            self._hear()
            self._send()
            self._mark()
            self.fabric.run(PERIOD_NS / 1e9)

    def _hear(self) -> None:
        for dpid, switch in self.fabric.switches.items():
            for _, ports, frame in switch.packet_outs:
                if frame[12:14] == b"\x08\x00" and frame[23] == 253:
                    length = struct.unpack_from("!H", frame, 16)[0] - 20
                    self.shims[dpid, ports[0]].hear(frame[34 : 34 + length], self.key, self.fabric.now_ns)
            switch.packet_outs.clear()

    def _send(self) -> None:
        now_ns = self.fabric.now_ns
        self.sent = {}
        readings: dict[int, list[PathReading]] = {}
        machines: dict[Place, list[tuple[int, int]]] = {}
        for pair in self.wants:
            machines.setdefault(self.places[pair[0]], []).append(pair)
        for place, pairs in machines.items():
            shim = self.shims[place]
            rates, rate = shim.rates(now_ns), shim.rate(now_ns)
            for name, some in self._groups(rates, pairs).items():
                self._share(some, {pair: float(self.wants[pair]) for pair in some}, rates.get(name, 1 << 40))
            self._share(pairs, {pair: self.sent[pair] for pair in pairs}, rate)
        self._wait()
        for place, pairs in machines.items():
            shim = self.shims[place]
            rates, rate = shim.rates(now_ns), shim.rate(now_ns)
            groups = self._groups(rates, pairs)
            total = round(sum(self.sent[pair] for pair in pairs))
            switch = self.fabric.switches[place[0]]
            switch.vms[place[1]] = vm_reading(place[1], total, shim.weight)._replace(
                rate=rate, share=shim.share, min_rate=shim.low, max_rate=shim.high
            )
            for name, limit in rates.items():
                some = groups.get(name, [])
                sent = sum(self.sent[pair] for pair in some)
                flags = experimenter.PATH_LIMITED * (sum(self.wants[pair] for pair in some) > limit <= 1.001 * sent)
                readings.setdefault(place[0], []).append(
                    PathReading(0, flags, *name, 0, place[1], limit, round(sent), 1, 1, 0)
                )
        for dpid, switch in self.fabric.switches.items():
            switch.paths = readings.get(dpid, [])
            for port in switch.vms.keys() - {port for at, port in machines if at == dpid}:
                switch.vms[port] = vm_reading(port, 0, flags=0)

    @staticmethod
    def _groups(rates: "dict[Name, int]", pairs: "list[tuple[int, int]]") -> "dict[Name, list[tuple[int, int]]]":
        """Return a machine's pairs by the path that each takes."""
        groups: dict[Name, list[tuple[int, int]]] = {}
        for pair in pairs:
            around = [name for name in rates if within(name, mapped(ip(pair[1])))]
            groups.setdefault(max(around, key=lambda name: name[1], default=(b"", -1)), []).append(pair)
        return groups

    def _wait(self) -> None:
        """Take what a line does not carry off what meek machines send most of."""
        for dpid, line in self.lines.items():
            pairs = [pair for pair in self.sent if self.places[pair[0]][0] == dpid]
            over = sum(self.sent[pair] for pair in pairs) - line
            if over > 0:
                most = max((pair for pair in pairs if pair[0] in self.meek), key=self.sent.__getitem__)
                self.sent[most] -= min(over, self.sent[most])

    def _share(self, pairs: "list[tuple[int, int]]", wants: "dict[tuple[int, int], float]", rate: float) -> None:
        """Divide a rate evenly, to none more than it wants."""
        for at, pair in enumerate(sorted(pairs, key=wants.__getitem__)):
            self.sent[pair] = min(wants[pair], rate / (len(pairs) - at))
            rate -= self.sent[pair]

    def _mark(self) -> None:
        self.load = dict.fromkeys(self.capacities, 0.0)
        for (source, target), rate in self.sent.items():
            for hop, part in self.fabric.engine.attribution.way((mac(source), mac(target))).items():
                if hop in self.load:
                    self.load[hop] += part * rate
        for hop, rate in self.load.items():
            over = rate - self.capacities[hop]
            if over > 1:
                self.fabric.switches[hop[0]].add_marks(hop[1], 1 + round(over * PERIOD_NS / 1e9 / 1514))

    def through(self, hop: Place) -> "dict[Place, float]":
        """Return what each machine sends through a port, by place."""
        found: collections.Counter[Place] = collections.Counter()
        for (source, target), rate in self.sent.items():
            part = self.fabric.engine.attribution.way((mac(source), mac(target))).get(hop, 0.0)
            found[self.places[source]] += part * rate
        return {place: rate for place, rate in found.items() if rate}
