# SPDX-License-Identifier: Apache-2.0
"""Marks by path: who gets them, and what shims under law sdngcc make of them in a loop with one port."""

import types

import pytest

from sdngcc.controller.network.inventory import Answer, SwitchRecord, VmRecord
from sdngcc.controller.rates.division import Congestion, Source
from sdngcc.controller.rates.marks_by_path import PathDivider
from sdngcc.controller.rates.paths.naming import REST, Prefix
from sdngcc.controller.tests.fabric import ip, mac, vm_reading
from sdngcc.controller.tests.rates.shims import Shims
from sdngcc.controller.tests.rates.test_by_path import CORE, FAR, H1, H2, H3, KEY, MB, NEAR, T1, build, want
from sdngcc.controller.wire import message
from sdngcc.controller.wire.experimenter import PathReading, encode_path, encode_vm_state
from sdngcc.controller.wire.packets import mapped

P, Q = (9, 1), (9, 2)
A, B, C = (1, 1), (1, 2), (2, 1)  # the last one's bridge knows no paths
PERIOD_NS = 5_000_000
CAPACITY = 125 * MB


def name(peer):
    return Prefix(mapped(ip(peer)), 128)


def path_entry(place, peer, rate):
    """Return a machine's path to a destination as its bridge tells it; bytes/s."""
    return encode_path(PathReading(0, 0, *name(peer), 0, place[1], CAPACITY, round(rate), 1, 1, 0))


class Network:
    """Machines with ways as they are told; ``sends`` is {place: {peer: (bytes/s, ports)}}."""

    def __init__(self, sends, weights=None):
        self.sends, self.weights = sends, weights or {}
        self.seen = set()  # (place, peer) with a path in the shim
        self.switches = {dpid: SwitchRecord(dpid, 0, paths=dpid == 1) for dpid in (1, 2)}
        peers = {peer for some in sends.values() for peer in some}
        relations = types.SimpleNamespace(
            hosts={mac(peer): types.SimpleNamespace(addresses=[mapped(ip(peer))]) for peer in peers}
        )
        for place in sends:
            self.switches[place[0]].vms[place[1]] = VmRecord(place, str(place), "vm")
        self.divider = PathDivider(self.switches, self, relations)

    def ways(self, place):
        return {(bytes(place), mac(peer)): dict.fromkeys(ports, 1.0) for peer, (_, ports) in self.sends[place].items()}

    def shares(self, place):
        total = sum(rate for rate, _ in self.sends[place].values()) or 1
        return {(bytes(place), mac(peer)): rate / total for peer, (rate, _) in self.sends[place].items()}

    def tell(self, marks, interval_ns=PERIOD_NS):
        """Return what parts are told, {place: {name: (marks, weight total)}}, those told as a whole by REST's name."""
        congestions = []
        for place, some in self.sends.items():
            vm = self.switches[place[0]].vms[place[1]]
            total = round(sum(rate for rate, _ in some.values()))
            vm.answer, vm.row = Answer(encode_vm_state(vm_reading(place[1], total, self.weights.get(place, 1))), 1), 0
        for dpid, switch in self.switches.items():
            switch.path_entries = b"".join(
                path_entry(place, peer, rate)
                for place, some in self.sends.items()
                for peer, (rate, _) in some.items()
                if place[0] == dpid and (place, peer) in self.seen
            )
        for port, count in marks.items():
            rates = {p: sum(rate for rate, ports in some.values() if port in ports) for p, some in self.sends.items()}
            sources = [Source(p, round(rate), self.weights.get(p, 1)) for p, rate in rates.items() if rate]
            congestions.append(Congestion(port, count, interval_ns, sources))
        found = {}
        for telling in self.divider.tellings(congestions):
            for one in telling.marks:
                found.setdefault(telling.vm, {})[one.name] = (one.marks, one.weight_total)
            if telling.whole:
                found.setdefault(telling.vm, {})[REST] = (telling.whole.marks, telling.whole.weight_total)
        return found


def test_marks_go_to_what_goes_through_the_port():
    network = Network({A: {11: (30 * MB, [P]), 12: (90 * MB, [Q])}, C: {11: (60 * MB, [P])}})
    assert network.tell({P: 90}) == {A: {name(11): (30, 2)}, C: {REST: (60, 2)}}


def test_paths_of_a_machine_step_as_one():
    network = Network({A: {11: (30 * MB, [P]), 12: (30 * MB, [P]), 13: (15 * MB, [P])}, B: {11: (75 * MB, [P])}})
    told = network.tell({P: 150})
    assert told == {A: {name(11): (30, 5), name(12): (30, 5), name(13): (15, 5)}, B: {name(11): (75, 2)}}


def test_marks_of_two_ports_on_a_way_come_together_from_the_worse_one():
    network = Network({A: {11: (30 * MB, [P, Q])}, B: {12: (30 * MB, [Q])}})
    network.weights[B] = 3
    assert network.tell({P: 10, Q: 40}) == {A: {name(11): (30, 4)}, B: {name(12): (20, 4)}}


def test_what_a_path_counted_counts():
    network = Network({A: {11: (30 * MB, [P]), 12: (30 * MB, [P])}})
    network.tell({P: 2})
    network.switches[1].path_entries = path_entry(A, 11, 45 * MB)
    told = network.divider.tellings([Congestion(P, 60, PERIOD_NS, [Source(A, 60 * MB)])])
    assert {one.name: one.marks for one in told[0].marks} == {name(11): 45, name(12): 15}


def test_marks_are_conserved_and_rounding_evens_out():
    network = Network({A: {11: (10 * MB, [P]), 12: (20 * MB, [P])}, C: {11: (40 * MB, [P])}})
    total = {}
    for _ in range(70):
        told = network.tell({P: 1})
        assert sum(marks for some in told.values() for marks, _ in some.values()) == 1
        for place, some in told.items():
            for one, (marks, _) in some.items():
                total[place, one] = total.get((place, one), 0) + marks
    assert total == pytest.approx({(A, name(11)): 10, (A, name(12)): 20, (C, REST): 40}, abs=1)


class Loop(Network):
    """Shims under law sdngcc before ports of CAPACITY that mark all packets while a queue stands."""

    def __init__(self, wants, weights=None):
        none = {place: {peer: (0, ports) for peer, (_, ports) in some.items()} for place, some in wants.items()}
        super().__init__(none, weights)
        self.wants = wants
        self.rates = {(place, peer): CAPACITY for place, some in wants.items() for peer in some}
        self.totals = {one: 4 for one in self.rates}
        crossed = {port for some in wants.values() for _, ports in some.values() for port in ports}
        self.queues = dict.fromkeys(crossed, 0.0)

    def run(self, periods):
        """Return the mean rates of the second half in parts of CAPACITY."""
        sums = dict.fromkeys(self.rates, 0.0)
        for period in range(periods):
            for place, some in self.wants.items():
                self.sends[place] = {
                    peer: (min(rate, self.rates[place, peer]), ports) for peer, (rate, ports) in some.items()
                }
            marks = {}
            for port in self.queues:
                load = sum(rate for some in self.sends.values() for rate, ports in some.values() if port in ports)
                self.queues[port] = min(150_000, max(0.0, self.queues[port] + (load - CAPACITY) * PERIOD_NS / 1e9))
                if self.queues[port] > 30_000:
                    marks[port] = round(load * PERIOD_NS / 1e9 / 1514)
            told = self.tell(marks) if marks else {}
            for (place, peer), rate in self.rates.items():
                cut, total = told.get(place, {}).get(name(peer), (0, 0))
                if cut:
                    self.seen.add((place, peer))
                    self.totals[place, peer] = total
                    rate -= 0.05 * cut * 1514 / (PERIOD_NS / 1e9)
                step = 0.006 * CAPACITY * self.weights.get(place, 1) / self.totals[place, peer]
                self.rates[place, peer] = min(CAPACITY, max(0.01 * CAPACITY, rate) + step)
                if period >= periods // 2:
                    sums[place, peer] += self.sends[place][peer][0]
        return {one: rate / (periods - periods // 2) / CAPACITY for one, rate in sums.items()}


def through(rates, place):
    return sum(rate for (vm, _), rate in rates.items() if vm == place)


def test_a_machine_with_four_destinations_has_what_one_with_one_has():
    rates = Loop({A: {11: (CAPACITY, [P])}, B: {peer: (CAPACITY, [P]) for peer in (11, 12, 13, 14)}}).run(6000)
    assert (through(rates, A), through(rates, B)) == (pytest.approx(0.48, abs=0.03), pytest.approx(0.48, abs=0.03))


def test_small_destinations_beside_a_large_one_cost_nothing():
    small = {peer: (CAPACITY // 50, [P]) for peer in (12, 13, 14)}
    rates = Loop({A: {11: (CAPACITY, [P])}, B: {11: (CAPACITY, [P]), **small}}).run(6000)
    assert (through(rates, A), through(rates, B)) == (pytest.approx(0.48, abs=0.03), pytest.approx(0.48, abs=0.03))


def test_weights_count():
    wants = {A: {11: (CAPACITY, [P])}, B: {11: (CAPACITY, [P]), 12: (CAPACITY, [P])}}
    rates = Loop(wants, {B: 2}).run(6000)
    assert through(rates, B) / through(rates, A) == pytest.approx(2, rel=0.1)


def test_steps_are_as_due_whatever_rounding_does():
    network = Network({A: {11: (75 * MB, [P]), 12: (20 * MB, [P])}, B: {11: (30 * MB, [P])}})
    totals = [network.tell({P: 125})[A][name(11)][1] for _ in range(300)]
    assert sum(1 / total for total in totals) / 300 == pytest.approx(75 / 95 / 2, rel=0.005)


def test_what_goes_elsewhere_is_not_cut():
    rates = Loop({A: {11: (CAPACITY, [P])}, B: {11: (CAPACITY, [P]), 12: (CAPACITY // 2, [Q])}}).run(4000)
    assert rates[B, 12] == pytest.approx(0.5) and rates[B, 11] == pytest.approx(0.48, abs=0.03)


def test_from_a_switchs_marks_to_messages_by_path_and_as_a_whole(tmp_path):
    fabric = build(tmp_path, by_path=True)
    fabric.switches[H1].by_path = True
    fabric.connect()
    others = dict.fromkeys(((T1, 2), FAR, (CORE, 2)), 10 * CAPACITY)
    shims = Shims(fabric, KEY, {NEAR: 60 * MB, **others}, CAPACITY)
    shims.places = {11: (H1, 2), 21: (H2, 2), 31: (H3, 2)}
    want(shims, (11, 31), (11, 21), (21, 31), rate=50 * MB)
    found = {1: [], 2: []}
    for _ in range(3):
        shims._send()
        shims._mark()
        fabric.run(0.005)
        for place, told in heard(fabric).items():
            for one in told:
                found[one[2]].append((place, one))
    by_path = [message.decode_v2(data, KEY) for place, data in found[2] if place == (H1, 2)]
    assert by_path and len(by_path) == len(found[2])
    assert {(one.type, entry.prefix, entry.bits) for one in by_path for entry in one.entries} == {
        (message.TYPE_MARKS, mapped(ip(31)), 128)
    }
    entries = [entry for one in by_path for entry in one.entries]
    assert all(entry.marks and entry.interval_ns and entry.weight_total == 2 for entry in entries)
    wholes = [message.decode_v1(data, KEY) for place, data in found[1] if place == (H2, 2)]
    assert wholes and len(wholes) == len(found[1]) and all(one.marks and not one.rate for one in wholes)


def heard(fabric):
    """Return the control messages at machines, and forget them."""
    found = {}
    for dpid, switch in fabric.switches.items():
        for _, ports, frame in switch.packet_outs:
            if frame[12:14] == b"\x08\x00" and frame[23] == 253:
                length = int.from_bytes(frame[16:18], "big") - 20
                found.setdefault((dpid, ports[0]), []).append(frame[34 : 34 + length])
        switch.packet_outs.clear()
    return found
