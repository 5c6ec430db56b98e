# SPDX-License-Identifier: Apache-2.0
"""Explicit rates in a fluid model: machines that obey, a port that marks over its threshold, periods of T_i."""

import pytest

from sdngcc.controller.network.inventory import Answer, SwitchRecord, VmRecord
from sdngcc.controller.rates.capacity import Marked
from sdngcc.controller.rates.explicit import REFRESH_NS, ExplicitRates
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire.experimenter import VM_ACTIVE, VmReading, encode_vm_state

MS = 1_000_000
C = 125_000_000  # bytes/s
T = 5 * MS
BUFFER, THRESHOLD = 150_000, 30_000  # bytes
NEAR, FAR = (100, 1), (101, 1)
UPLINK = 99


class Network:
    """Machines, each on a hypervisor of its own, and the ports they share.

    A machine sends what it wants within its limit. Rates told in a period are in force from the next one on.
    With ``mark_delay`` marks are counted for so long, and known as long after that.
    """

    def __init__(
        self, wanted, routes=None, capacity=None, assumed=None, outside=0.0, weights=None, period=T, mark_delay=0,
        tenants=None, standby=12.5, **limits,
    ):  # fmt: skip
        self.settings = Settings(
            key_file="k", decision="maxmin", period_us=period // 1000, capacity_mbps=(assumed or C) / 125_000,
            standby_percent=standby,
        )  # fmt: skip
        self.period = period
        self.wanted = list(wanted)
        self.paths = routes or [(NEAR,)] * len(self.wanted)
        self.capacity = capacity or {NEAR: C, FAR: C}
        self.outside = outside
        self.weights = weights or [1] * len(self.wanted)
        self.limits = limits
        self.mark_delay = mark_delay
        self.counted, self.under_way = {}, {}
        self.switches = {number: SwitchRecord(number, 0, hypervisor=True) for number in range(len(self.wanted))}
        self.owned = {*self.switches, NEAR[0], FAR[0]}
        self.explicit = ExplicitRates(
            self.settings, self.switches, self, lambda dpid: dpid in self.owned, tenants=tenants
        )
        self.limit = [C // 10] * len(self.wanted)
        self.sent = [0.0] * len(self.wanted)
        self.queue = dict.fromkeys(self.capacity, 0.0)
        self.now = 0
        self.told = 0
        self.history, self.queues = [], []

    def routes(self, place):
        return dict.fromkeys([(place[0], UPLINK), *self.paths[place[0]]], 1.0)

    def _read(self):
        for number, switch in self.switches.items():
            if self.wanted[number]:
                vm = switch.vms.setdefault(1, VmRecord((number, 1), str(number), "tap"))
                reading = VmReading(1, UPLINK, self.weights[number], VM_ACTIVE, self.limit[number], C,
                                    self.limits.get("low", 0), self.limits.get("high", 0), int(self.sent[number]),
                                    0, 0, 0, 0, 0, 0)  # fmt: skip
                vm.answer, vm.row = Answer(encode_vm_state(reading), self.now), 0

    def _late(self, fresh):
        for hop, marked in fresh.items():
            self.counted[hop] = self.counted.get(hop, 0) + marked.marks
        if self.now % self.mark_delay:
            return {}
        known, self.under_way, self.counted = self.under_way, self.counted, {}
        return {hop: Marked(marks, self.mark_delay) for hop, marks in known.items() if marks}

    def step(self, count=1):
        """Let periods pass."""
        for _ in range(count):
            self.now += self.period
            self.sent = [min(one, limit) for one, limit in zip(self.wanted, self.limit)]
            marks = {}
            for hop, capacity in self.capacity.items():
                arriving = self.outside * (hop == NEAR)
                arriving += sum(sent for sent, path in zip(self.sent, self.paths) if hop in path)
                before = self.queue[hop]
                seconds = self.period / 1e9
                after = self.queue[hop] = min(BUFFER, max(0.0, before + (arriving - capacity) * seconds))
                over = sum(level > THRESHOLD for level in (before, (before + after) / 2, after)) / 3
                if over:
                    marks[hop] = Marked(int(over * min(arriving, capacity) * seconds / 1514), self.period)
            self._read()
            for notice in self.explicit.decide(self._late(marks) if self.mark_delay else marks, self.now):
                self.told += 1
                self.limit[notice.vm[0]] = notice.rate
            self.history.append(self.sent)
            self.queues.append(self.queue[NEAR])

    def mean(self, number, periods):
        return sum(sent[number] for sent in self.history[-periods:]) / periods


def settled(network, wanted, within=0.05):
    return all(abs(have - want) <= within * want for have, want in zip(network.limit, wanted))


@pytest.mark.parametrize("count", [2, 4, 32])
@pytest.mark.parametrize("period", [T, 20 * MS])
def test_all_begin_together_and_have_their_parts_in_five_periods(count, period):
    network = Network([C] * count, period=period)
    network.step(5)
    assert settled(network, [C / count] * count, 0.05)
    network.step(200)
    assert settled(network, [C / count] * count, 0.02)
    assert sum(network.sent) >= 0.98 * C
    assert max(network.queues[100:]) <= THRESHOLD


def test_weights_count():
    network = Network([C] * 3, weights=[1, 2, 4])
    network.step(3)
    assert settled(network, [C / 7, C * 2 / 7, C * 4 / 7], 0.02)


def test_a_newcomer_has_its_part_within_five_periods_and_leaves_no_queue():
    network = Network([C, C, C, 0])
    network.step(100)
    network.wanted[3] = C
    for _ in range(5):
        network.step()
        if settled(network, [C / 4] * 4, 0.05):
            break
    assert settled(network, [C / 4] * 4, 0.05)
    network.step(20)
    assert network.queue[NEAR] < THRESHOLD
    assert sum(network.sent) >= 0.98 * C


def test_what_a_machine_leaves_goes_to_the_others_within_five_periods_and_back():
    network = Network([C, C])
    network.step(100)
    network.wanted[0] = C / 10
    network.step(6)
    assert network.sent[1] > 0.85 * C
    network.wanted[0] = C
    network.step(5)
    assert settled(network, [C / 2] * 2, 0.05)


def test_parking_lot():
    network = Network([C, C, C], routes=[(NEAR, FAR), (NEAR,), (FAR,)], capacity={NEAR: C, FAR: C})
    network.step(5)
    assert settled(network, [C / 2] * 3, 0.02)
    assert max(network.queues) < THRESHOLD


@pytest.mark.parametrize("assumed", [2 * C, 10 * C])
def test_marks_find_a_capacity_that_is_less_than_said(assumed):
    network = Network([C] * 4, assumed=assumed)
    network.step(600)
    assert sum(network.mean(number, 400) for number in range(4)) >= 0.93 * C
    assert [network.mean(number, 400) / C for number in range(4)] == pytest.approx([0.24] * 4, abs=0.015)
    assert sorted(network.queues[-400:])[200] <= THRESHOLD


def test_marks_make_room_for_traffic_that_nobody_limits():
    network = Network([C] * 3)
    network.step(50)
    network.outside = 0.3 * C
    network.step(100)
    assert sum(network.mean(number, 60) for number in range(3)) == pytest.approx(0.67 * C, rel=0.06)
    network.outside = 0.0
    network.step(300)
    assert sum(network.sent) >= 0.98 * C


def test_bounds_are_kept():
    network = Network([C] * 4, low=C // 3, high=C // 2)
    network.step(10)
    assert all(C // 3 <= limit <= C // 2 for limit in network.limit)


def test_messages_are_few_when_nothing_moves():
    network = Network([C] * 4)
    network.step(100)
    network.told = 0
    network.step(100)
    assert network.told == 4 * (100 * T // REFRESH_NS)


def test_a_machine_alone_on_its_way_is_told_its_share_once():
    network = Network([C / 20])
    network.step(10)
    assert network.limit == [C]
    network.told = 0
    network.step(100)
    assert network.told == 0


def test_of_a_cluster_the_owner_of_the_full_port_tells():
    network = Network([C] * 4, routes=[(NEAR,), (NEAR,), (FAR,), (FAR,)])
    network.owned.remove(FAR[0])
    network.step(50)
    assert settled(network, [C / 2] * 2) and network.limit[2:] == [C // 10] * 2
    network.owned = {FAR[0]}
    before = network.limit[:2]
    network.step(50)
    assert settled(network, [C / 2] * 4) and network.limit[:2] == before


def test_where_no_port_is_full_only_who_owns_the_whole_way_tells():
    network = Network([C / 20])
    network.owned.remove(NEAR[0])
    network.step(10)
    assert network.told == 0
    network.owned.add(NEAR[0])
    network.step(10)
    assert network.limit == [C]


def test_a_switch_that_is_gone_is_forgotten():
    network = Network([C, C])
    network.step(10)
    del network.switches[1]
    network.wanted[1] = 0
    network.explicit.forget(1)
    network.explicit.forget(100)
    network.step(5)
    assert network.limit[0] == pytest.approx(0.99 * C)


@pytest.mark.parametrize("standby", [0.0, 12.5, 50.0, 100.0])
def test_who_uses_less_is_told_his_standby_all_the_same(standby):
    network = Network([C, C, C, 1000], standby=standby)
    network.step(100)
    part = 0.99 * C / 3  # what the three others have, each
    assert network.limit[3] == pytest.approx(max(1250, standby / 100 * part), rel=0.02)
    assert sum(network.sent) >= 0.98 * C


def test_a_machine_whose_limiter_drops_is_not_taken_for_content():
    network = Network([C, C / 10])
    network.step(20)
    assert network.limit[1] < C / 5
    vm = network.switches[1].vms[1]
    network.now += T
    network._read()
    vm.answer = Answer(encode_vm_state(vm.reading._replace(drops=1)), vm.read_ns)
    rates = {notice.vm[0]: notice.rate for notice in network.explicit.decide({}, network.now)}
    assert rates == {0: pytest.approx(0.99 * C / 2), 1: pytest.approx(0.99 * C / 2)}


def test_machines_that_begin_together_after_a_pause_fit_the_port_at_once():
    network = Network([C / 10**4] * 4)
    network.step(20)
    assert sum(network.limit) <= C
    network.wanted = [C] * 4
    network.step(5)
    assert max(network.queues) < THRESHOLD
    assert settled(network, [C / 4] * 4, 0.05)


def test_marks_of_a_burst_that_readings_show_late_do_not_lower_the_capacity():
    network = Network([C] * 4)
    network.step(50)
    network.explicit.decide({NEAR: Marked(100, T)}, network.now + T)
    network.explicit.decide({}, network.now + 2 * T)
    assert network.explicit._capacities[NEAR].allowed == pytest.approx(0.99 * C)


@pytest.mark.parametrize("mark_delay", [10 * MS, 100 * MS, 1000 * MS])
def test_late_marks_of_a_known_capacity_move_nothing(mark_delay):
    network = Network([C] * 4, mark_delay=mark_delay)
    network.step(20)
    network.wanted[0] = 0
    network.step(20)
    network.wanted[0] = C
    network.step(4 * mark_delay // T)
    assert settled(network, [0.99 * C / 4] * 4, 0.02)
    assert max(network.queues[-2 * mark_delay // T :]) < THRESHOLD


@pytest.mark.parametrize("mark_delay", [10 * MS, 100 * MS, 1000 * MS])
def test_late_marks_find_a_capacity_that_is_less_than_said(mark_delay):
    """The estimate comes down to what the port carries and stays about there, not far below."""
    network = Network([C] * 4, capacity={NEAR: 0.75 * C}, mark_delay=mark_delay)
    network.step(30 * mark_delay // T + 400)
    totals = [sum(sent) for sent in network.history[-12 * mark_delay // T :]]
    assert 0.85 * 0.75 * C < sum(totals) / len(totals) < 1.02 * 0.75 * C
    assert max(totals) < 1.06 * 0.75 * C
    used = [min(total, 0.75 * C) for total in totals]
    assert sum(used) / len(used) > 0.85 * 0.75 * C


def test_what_a_machine_sent_is_counted_between_readings():
    """Its shim's last period ended before it came back: what that says of it is of the time when it was silent."""
    network = Network([C, 1000])
    network.step(100)
    vm = network.switches[1].vms[1]
    bytes_sent, clock_ns = 10_000, 1_000 * MS
    for rate in (vm.reading.sent_rate, network.limit[1]):
        bytes_sent, clock_ns, network.now = bytes_sent + rate * T // 10**9, clock_ns + T, network.now + T
        reading = vm.reading._replace(tx_bytes=bytes_sent, rate=network.limit[1])
        vm.answer = Answer(encode_vm_state(reading), network.now, clock_ns)
        notices = network.explicit.decide({}, network.now)
    assert max(notice.rate for notice in notices if notice.vm[0] == 1) > 0.45 * C


@pytest.mark.parametrize("elapsed, moved", [(0, 0), (100_000, 0), (T, -5_000)])
def test_where_counters_cannot_be_compared_what_the_shim_measured_counts(elapsed, moved):
    """The same reading twice, readings close together, and a counter that began anew."""
    network = Network([C, 1000])
    network.step(100)
    vm, limit = network.switches[1].vms[1], network.limit[1]
    for number, sent in enumerate((vm.reading.sent_rate, limit)):
        network.now += T
        reading = vm.reading._replace(tx_bytes=10_000 + number * moved, sent_rate=sent, rate=limit)
        vm.answer = Answer(encode_vm_state(reading), network.now, 1_000 * MS + number * elapsed)
        notices = network.explicit.decide({}, network.now)
    assert max(notice.rate for notice in notices if notice.vm[0] == 1) > 0.45 * C
