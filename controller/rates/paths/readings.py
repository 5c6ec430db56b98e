# SPDX-License-Identifier: Apache-2.0
"""What members' shims tell, as readings of entries.

What a part sends its path in the shim counts.  While a part has no path it has of what no path counts, by proportion,
as attribution.py measures it.  Who is *bound*, sends BINDING of its rate or had packets held back, could send more.
"""

import math
from typing import Callable, NamedTuple, Optional, Sequence

import numpy as np

from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.paths.entries import CAPS, Member, Part
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.rates.paths.ports import ELSEWHERE, HERE, IDLE, MARGIN, SAME, Ports
from sdngcc.controller.wire.experimenter import PATH_LIMITED, PathReading

BINDING = 0.9  # of a rate in force
HELD = 0.98  # of a path's rate: who sends less, though it holds packets back, is held more by the machine's own bucket
TIMEOUT_NS = 200_000_000  # the shim's rate-timeout: what was told longer ago holds nobody
JUDGE = -1  # in place of a state: the port can tell

Shares = Callable[[Hop], dict[Pair, float]]


class Measured(NamedTuple):
    """What a part does."""

    part: Part
    sent: float  # bytes/s
    rate: Optional[float]  # in force, bytes/s, if it is bound by it


class Readings:
    """Readings of a period, gathered for ``ports``.

    ``shares`` tells in what parts a machine's bytes go to its pairs.
    """

    def __init__(self, ports: Ports, shares: Shares) -> None:
        self._ports = ports
        self._shares = shares
        self._rows: list[tuple[int, float, float, int, float]] = []  # number, sent, rate in force, state, floor

    def take(self, place: Hop, member: Member, low: float, now_ns: int) -> None:
        """Take what a member's shim told last, once; ``low`` is its guarantee, bytes/s."""
        vm, reading = member.vm, member.vm.reading
        if reading is None or vm.read_ns == member.read_ns:
            return
        bound = reading.drops > member.drops or reading.sent_rate >= BINDING * reading.rate
        member.read_ns, member.drops = vm.read_ns, reading.drops
        parts = _measure(member, lambda: self._shares(place))
        wants = [math.inf if bound or one.rate is not None else MARGIN * one.sent for one in parts]
        for one, floor in zip(parts, _split(low, wants)):
            rate = one.rate
            if bound and rate is not None and one.sent < HELD * rate:
                rate = None
            for number in one.part.entries.values():
                if rate is not None:
                    self._rows.append((number, one.sent, rate, JUDGE, floor))
                else:
                    self._rows.append((number, one.sent, 0.0, ELSEWHERE if bound and one.sent else IDLE, floor))
        held = any(one.rate is not None for one in parts)
        low = min(low, math.inf if bound else MARGIN * reading.sent_rate)
        for port, number in member.whole.items():
            state = _state(member, port, now_ns) if bound else ELSEWHERE if held else IDLE
            self._rows.append((number, float(reading.sent_rate), 0.0, state, low))

    def give(self) -> None:
        """Give the ports what was taken."""
        if not self._rows:
            return
        columns = [np.array(column) for column in zip(*self._rows)]
        numbers, sent, limits, states, lows = columns
        judged = self._ports.judge(numbers, limits, np.ones(len(numbers), np.bool_))
        self._ports.read(numbers, sent, np.where(states == JUDGE, judged, states).astype(np.int8), lows)


def _state(member: Member, port: Hop, now_ns: int) -> int:
    """Return what holds all that a member sends, which is bound by its own bucket."""
    reading = member.vm.reading
    assert reading is not None
    if not member.by_path and port[0] != CAPS:
        return HERE if port == member.bottleneck else ELSEWHERE
    if reading.max_rate and reading.rate >= (1 - SAME) * reading.max_rate:
        return ELSEWHERE
    told = {hop: rate for hop, (rate, told_ns) in member.heads.items() if now_ns - told_ns < TIMEOUT_NS}
    return HERE if port not in told or told[port] <= min(told.values()) else ELSEWHERE


def _measure(member: Member, shares: Callable[[], dict[Pair, float]]) -> list[Measured]:
    """Return what the parts of a member do."""
    assert member.vm.reading is not None
    paths: dict[Prefix, list[PathReading]] = {}
    for path in member.vm.paths:
        name = _name(member, Prefix(path.prefix, path.bits))
        if name is not None:
            paths.setdefault(name, []).append(path)
    seen, member.seen = member.seen, frozenset(paths)
    left = float(member.vm.reading.sent_rate)
    found, uncounted = [], []
    for name, part in member.parts.items():
        there = paths.get(name, ())
        rates = [one.rate for one in there if one.flags & PATH_LIMITED or one.sent_rate >= BINDING * one.rate]
        rate = float(min(rates)) if rates else None
        if name in seen and there:
            sent = float(sum(one.sent_rate for one in there))
            left -= sent
            found.append(Measured(part, sent, rate))
        else:  # a path that is new has counted nothing yet
            uncounted.append(Measured(part, 0.0, rate))
    return found + _divide(max(0.0, left), uncounted, shares)


def _name(member: Member, prefix: Prefix) -> Optional[Prefix]:
    """Return the part that a path in a shim belongs to, if any."""
    if prefix in member.parts:
        return prefix
    around = [name for name in member.parts if 0 < name.bits < prefix.bits and name.covers(prefix.first)]
    return max(around, key=lambda name: name.bits, default=None)


def _divide(sent: float, parts: list[Measured], shares: Callable[[], dict[Pair, float]]) -> list[Measured]:
    """Return parts without a count with what they sent of a rate, bytes/s."""
    if len(parts) < 2:
        return [one._replace(sent=sent) for one in parts]
    known = shares()
    weights = [sum(weight * known.get(pair, 0.0) for pair, weight in one.part.pairs.items()) for one in parts]
    total = sum(weights)
    if total <= 0:
        weights, total = [1.0] * len(parts), len(parts)
    return [one._replace(sent=sent * weight / total) for one, weight in zip(parts, weights)]


def _split(total: float, wants: Sequence[float]) -> list[float]:
    """Return a total divided evenly among parts, to none more than it wants."""
    found = [0.0] * len(wants)
    if total > 0:
        left = total
        for count, place in zip(range(len(wants), 0, -1), sorted(range(len(wants)), key=wants.__getitem__)):
            found[place] = min(wants[place], left / count)
            left -= found[place]
    return found
