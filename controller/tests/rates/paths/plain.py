# SPDX-License-Identifier: Apache-2.0
"""Readings of entries machine by machine, path by path: what readings.py does in arrays, in plain Python."""

import math

import numpy as np

from sdngcc.controller.rates.paths.entries import CAPS
from sdngcc.controller.rates.paths.index import TIMEOUT_NS
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.rates.paths.ports import BINDING, ELSEWHERE, HELD, HERE, IDLE, MARGIN, SAME
from sdngcc.controller.wire import experimenter
from sdngcc.controller.wire.experimenter import PATH_LIMITED

JUDGE = -1


class Memory:
    """What is remembered of a machine."""

    def __init__(self):
        self.read_ns = self.drops = 0
        self.seen = frozenset()
        self.heads = {}  # by port: bytes/s, and when it was told


class Plain:
    """Readings of the machines of PathRates ``paths``; ``bottleneck`` as there."""

    def __init__(self, paths, switches, attribution, bottleneck):
        self.paths, self.switches, self.attribution, self.bottleneck = paths, switches, attribution, bottleneck
        self.memories = {}

    def told(self, due, now_ns):
        """Take note of what machines are told of all that they send."""
        names = self.paths.ports.table.entries.names
        for number, rate in zip(due.numbers.tolist(), due.rates.tolist()):
            port, place, peer = names[number]
            if not isinstance(peer, Prefix) and self.paths.entries.members[place].by_path:
                self.memories[place].heads[port] = (rate, now_ns)

    def lendable(self, headroom):
        """Return what machines of each uplink may send in all, {port: bytes/s}."""
        uplinks = {}
        for place, member in self.paths.entries.members.items():
            for hop in member.whole:
                if hop[0] == place[0] and member.vm.reading is not None:
                    uplinks.setdefault(hop, []).append(member.vm.reading)
        found = {}
        for hop, readings in uplinks.items():
            found[hop] = sum(reading.share for reading in readings)
            ceilings = any(reading.share < reading.max_rate or not reading.max_rate for reading in readings)
            if len(readings) > 1 and ceilings:
                found[hop] *= 1 - headroom
        return found

    def read(self, lows, now_ns):
        """Return what entries read, by number: bytes/s, state, floor; ``lows`` are machines' guarantees."""
        found = {}
        members = self.paths.entries.members
        self.memories = {place: self.memories.get(place, Memory()) for place in members}
        for place, member in members.items():
            self._take(place, member, self.memories[place], lows[place], now_ns, found)
        judged = [number for number, (_, state, _, _) in found.items() if state == JUDGE]
        if judged:
            limits = np.array([found[number][3] for number in judged])
            states = self.paths.ports.judge(np.array(judged), limits, np.ones(len(judged), bool))
            for number, state in zip(judged, states.tolist()):
                found[number] = (found[number][0], state, *found[number][2:])
        return {number: one[:3] for number, one in found.items()}

    def _take(self, place, member, memory, low, now_ns, found):
        vm, reading = member.vm, member.vm.reading
        if vm.read_ns == memory.read_ns:
            return
        bound = reading.drops > memory.drops or reading.sent_rate >= BINDING * reading.rate
        memory.read_ns, memory.drops = vm.read_ns, reading.drops
        parts = self._measure(place, member, memory)
        wants = [math.inf if bound or rate is not None else MARGIN * sent for _, sent, rate in parts]
        for (part, sent, rate), floor in zip(parts, split(low, wants)):
            if bound and rate is not None and sent < HELD * rate:
                rate = None
            for number in part.entries.values():
                if rate is not None:
                    found[number] = (sent, JUDGE, floor, rate)
                else:
                    found[number] = (sent, ELSEWHERE if bound and sent else IDLE, floor, 0.0)
        held = any(rate is not None for _, _, rate in parts)
        low = min(low, math.inf if bound else MARGIN * reading.sent_rate)
        for port, number in member.whole.items():
            state = self._state(place, member, memory, port, now_ns) if bound else ELSEWHERE if held else IDLE
            found[number] = (float(reading.sent_rate), state, low, 0.0)

    def _state(self, place, member, memory, port, now_ns):
        reading = member.vm.reading
        if not member.by_path and port[0] != CAPS:
            return HERE if port == self.bottleneck(place) else ELSEWHERE
        if reading.max_rate and reading.rate >= (1 - SAME) * reading.max_rate:
            return ELSEWHERE
        told = {hop: rate for hop, (rate, told_ns) in memory.heads.items() if now_ns - told_ns < TIMEOUT_NS}
        return HERE if port not in told or told[port] <= min(told.values()) else ELSEWHERE

    def _measure(self, place, member, memory):
        """Return (part, bytes/s, rate in force if it is bound by it) of a member's parts."""
        paths = {}
        switch = self.switches[place[0]]
        for path in experimenter.path_readings(switch.path_entries):
            name = name_of(member, Prefix(path.prefix, path.bits))
            if path.port == place[1] and path.scope == 0 and name is not None:
                paths.setdefault(name, []).append(path)
        seen, memory.seen = memory.seen, frozenset(paths)
        left = float(member.vm.reading.sent_rate)
        found, uncounted = [], []
        for name, part in member.parts.items():
            there = paths.get(name, ())
            rates = [one.rate for one in there if one.flags & PATH_LIMITED or one.sent_rate >= BINDING * one.rate]
            rate = float(min(rates)) if rates else None
            if name in seen and there:
                sent = float(sum(one.sent_rate for one in there))
                left -= sent
                found.append((part, sent, rate))
            else:  # a path that is new has counted nothing yet
                uncounted.append((part, rate))
        left = max(0.0, left)
        if len(uncounted) < 2:
            return found + [(part, left, rate) for part, rate in uncounted]
        known = self.attribution.shares(place)
        weights = [sum(part * known.get(pair, 0.0) for pair, part in one.pairs.items()) for one, _ in uncounted]
        if sum(weights) <= 0:
            weights = [1.0] * len(uncounted)
        return found + [(part, left * weight / sum(weights), rate) for (part, rate), weight in zip(uncounted, weights)]


def name_of(member, prefix):
    """Return the part that a path in a shim belongs to, if any."""
    if prefix in member.parts:
        return prefix
    around = [name for name in member.parts if 0 < name.bits < prefix.bits and name.covers(prefix.first)]
    return max(around, key=lambda name: name.bits, default=None)


def split(total, wants):
    """Return a total divided evenly among parts, to none more than it wants."""
    found = [0.0] * len(wants)
    if total > 0:
        left = total
        for count, place in zip(range(len(wants), 0, -1), sorted(range(len(wants)), key=wants.__getitem__)):
            found[place] = min(wants[place], left / count)
            left -= found[place]
    return found
