# SPDX-License-Identifier: Apache-2.0
"""Law elasticswitch: how guarantees are divided at both ends, and pairs in a closed loop with a marking link."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

from .drawn import knob_values

MS = 10**6
SECOND = 10**9
C = 125_000_000
T = MS
PACKET = 1514
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1


class Vm:
    """A VM under the law, with its peers: the glue's part played in Python."""

    def __init__(self, core: Any, guarantee: int = 0, share: int = C, capacity: int = C,
                 knobs: Optional[Dict[str, int]] = None) -> None:
        self.ffi, lib = core.ffi, core.lib
        self.law = lib.shim_law_find(b"elasticswitch")
        self.values = self.ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            self.values[lib.shim_knob_find(self.law, name.encode())] = value
        self.input = self.ffi.new("struct shim_law_input *", {
            "now_ns": SECOND, "period_ns": T, "capacity": capacity, "share": share, "min": guarantee,
            "rx_share": capacity, "weight": 1, "knobs": self.values, "frame": 1514, "rx_frame": 1514, "peers": 1})
        self.state = binding.limiter(self.law)
        self.law.init(self.state, self.input)
        self.peers: List[Any] = []

    def peer(self) -> Any:
        peer = binding.peer(self.law)
        self.law.peer_init(peer, self.input)
        self.peers.append(peer)
        return peer

    def own(self, peer: Any) -> Any:
        return binding.own(self.law, peer)

    def _packet(self, length: int, packets: int, marks: int) -> Any:
        return self.ffi.new("struct shim_law_packet *", {
            "now_ns": self.input.now_ns, "knobs": self.values, "bytes": length, "packets": packets, "marks": marks})

    def send(self, peer: Any, rate: float) -> None:
        """Let bytes of a T at that rate leave."""
        self.law.on_tx(peer, self._packet(round(rate * T / SECOND), 1, 0))

    def receive(self, peer: Any, rate: float, marks: int = 0, packets: int = 100) -> None:
        self.law.on_rx(peer, self._packet(round(rate * T / SECOND), packets, marks))

    def hear(self, peer: Any, rate: int, packets: int = 0, marks: int = 0) -> None:
        self.law.on_report(peer, self.state, self.input, self.ffi.new("struct shim_message *", {
            "type": 3, "version": 1, "rate": rate, "packets": packets, "marks": marks}))

    def tick(self) -> List[Any]:
        """Let a period pass; return what is to be told to each peer, None: nothing."""
        self.input.now_ns = min(self.input.now_ns + T, U64_MAX)
        self.law.on_period(self.state, self.input)
        told = []
        for peer in self.peers:
            report = self.ffi.new("struct shim_message *")
            told.append(report if self.law.on_peer_period(peer, self.state, self.input, report) else None)
        return told


def divided(vm: Vm, rates: Sequence[float], periods: int = 20) -> List[float]:
    """Let a VM send at those rates until its guarantee is divided; return each pair's part of it."""
    peers = [vm.peer() for _ in rates]
    for _ in range(periods):
        for peer, rate in zip(peers, rates):
            if rate:
                vm.send(peer, rate)
        vm.tick()
    return [vm.own(peer).guarantee / vm.input.min for peer in peers]


@pytest.mark.parametrize("demands, parts", [
    ([1], [1]), ([1, 1], [1 / 2, 1 / 2]), ([1, 0], [1, 0]), ([1, 1, 1, 1, 1], [1 / 5] * 5),
    # Twice of what a pair uses is kept for it.
    ([0.1, 1], [0.2, 0.8]), ([0.1, 0.05, 1, 1], [0.2, 0.1, 0.35, 0.35]), ([0.1, 0.1], [0.2, 0.2]),
    # Where all needs are bounded, and more than there is, all are open.
    ([0.4, 0.4], [0.5, 0.5])])
def test_a_guarantee_is_divided_by_demand(core: Any, demands: List[float], parts: List[float]) -> None:
    vm = Vm(core, guarantee=C // 2)
    assert divided(vm, [demand * C / 2 for demand in demands]) == pytest.approx(parts, rel=0.01)


def test_needs_that_grow_past_the_guarantee_become_equal_parts(core: Any) -> None:
    vm = Vm(core, guarantee=C // 2)
    assert divided(vm, [C / 20, C / 20], 60) == pytest.approx([0.2, 0.2], rel=0.01)
    for _ in range(20):
        for peer in vm.peers:
            vm.send(peer, C / 5)
        vm.tick()
    assert [vm.own(peer).guarantee for peer in vm.peers] == pytest.approx([C / 4] * 2, rel=0.01)


def test_a_receivers_part_bounds_the_pair_and_the_rest_is_the_others(core: Any) -> None:
    vm = Vm(core, guarantee=C // 2)
    first, second = vm.peer(), vm.peer()
    for _ in range(20):
        for peer in (first, second):
            vm.send(peer, C)
        vm.hear(first, C // 20)
        vm.tick()
    assert (vm.own(first).guarantee, vm.own(second).guarantee) == pytest.approx((C // 20, C * 9 // 20), rel=0.01)


def test_a_receiver_tells_each_sender_its_part(core: Any) -> None:
    vm = Vm(core, guarantee=C // 2)
    peers = [vm.peer() for _ in range(5)]
    for _ in range(20):
        for peer in peers:
            vm.receive(peer, C / 5)
        told = vm.tick()
    assert [report.rate for report in told] == pytest.approx([C // 10] * 5, rel=0.01)
    assert [report.packets for report in told] == [2000] * 5
    assert vm.tick() == [None] * 5


def test_a_pair_that_comes_back_begins_with_what_the_vm_has(core: Any) -> None:
    vm = Vm(core, guarantee=C // 2)
    assert divided(vm, [C / 100], 60) == pytest.approx([0.04], rel=0.01)
    for _ in range(300):
        vm.tick()
    assert vm.own(vm.peers[0]).guarantee == 0
    vm.send(vm.peers[0], C / 100)
    vm.tick()
    assert vm.own(vm.peers[0]).guarantee == C // 2 <= vm.peers[0].rate


def test_marks_cut_to_the_guarantee_and_hold(core: Any) -> None:
    vm = Vm(core, guarantee=C // 10)
    peer = vm.peer()
    vm.hear(peer, C)
    vm.own(peer).rate = C
    for _ in range(3):
        vm.send(peer, C)
        vm.tick()
    vm.hear(peer, C, packets=100, marks=50)
    assert peer.rate == pytest.approx(C * 7 / 8, rel=0.001)
    before = peer.rate
    for _ in range(4):
        vm.send(peer, C)
        vm.tick()
        assert peer.rate == before
    vm.send(peer, C)
    vm.tick()
    assert peer.rate > before
    vm.hear(peer, C, packets=200, marks=150)
    after = peer.rate
    vm.hear(peer, C, packets=300, marks=250)
    assert peer.rate == after == pytest.approx(before * 3 / 4, rel=0.1)
    for number in range(100):
        vm.hear(peer, C, packets=400 + 100 * number, marks=350 + 100 * number)
        vm.send(peer, C)
        vm.tick()
    assert peer.rate == C // 10 and vm.state.congested


def test_growth_goes_by_the_guarantee_and_less_the_farther_above(core: Any) -> None:
    steps = {}
    for part, above in ((0.1, 1), (0.2, 1), (0.2, 2), (0.2, 4)):
        vm = Vm(core, guarantee=round(C * part), knobs={"quiet": SECOND})
        divided(vm, [C])
        vm.own(vm.peers[0]).rate = rate = round(C * part * above)
        vm.send(vm.peers[0], C)
        vm.tick()
        steps[part, above] = vm.peers[0].rate - rate
    assert steps[0.2, 1] == pytest.approx(2 * steps[0.1, 1], rel=0.01)
    assert steps[0.2, 1] == pytest.approx(2 * steps[0.2, 2], rel=0.01) == pytest.approx(4 * steps[0.2, 4], rel=0.02)


def test_a_pair_to_who_has_no_guarantee_grows_by_best_effort(core: Any) -> None:
    vm = Vm(core, guarantee=C // 4)
    peer = vm.peer()
    for _ in range(200):
        vm.send(peer, C)
        vm.hear(peer, 0, packets=1)
        vm.tick()
    assert vm.own(peer).guarantee < C // 1000
    assert peer.rate == C


def test_in_silence_what_the_receiver_told_is_forgotten(core: Any) -> None:
    vm = Vm(core, guarantee=C // 4)
    peer = vm.peer()
    vm.send(peer, C)
    vm.hear(peer, 0, packets=1)
    for _ in range(300):
        vm.send(peer, C)
        vm.tick()
    assert peer.rate == pytest.approx(C // 4, rel=0.01)
    for _ in range(300):
        vm.tick()
    assert peer.rate == C // 4


def silent_rates(vm: Vm, demands: Sequence[float], periods: int) -> List[int]:
    """Let a VM send at those rates until silence, then nothing; return the rates of its first pair in each T since."""
    peers = [vm.peer() for _ in demands]
    for peer in peers:
        vm.hear(peer, C)
    for _ in range(120):
        for peer, demand in zip(peers, demands):
            vm.send(peer, demand)
        vm.tick()
    rates = []
    for _ in range(periods):
        vm.tick()
        rates.append(peers[0].rate)
    return rates


@pytest.mark.parametrize("demand", [C / 1000, C / 10, C])
def test_what_is_allowed_in_silence_does_not_ebb_with_demand(core: Any, demand: float) -> None:
    assert set(silent_rates(Vm(core, guarantee=C // 4), [demand], 300)) == {C // 4}


@pytest.mark.parametrize("demands", [[C, C, C], [C / 10, C, C / 100]])
def test_in_silence_each_pair_has_an_equal_part_at_least(core: Any, demands: List[float]) -> None:
    assert min(silent_rates(Vm(core, guarantee=C // 4), demands, 300)) >= C // 12


def test_in_silence_who_has_no_guarantee_sends_as_a_new_pair(core: Any) -> None:
    """ACKs go to peers that have a guarantee: at the least rate these would stand still."""
    assert set(silent_rates(Vm(core), [C / 100], 300)) == {C // 20}


def test_needs_that_together_exceed_the_guarantee_leave_others_their_part(core: Any) -> None:
    vm = Vm(core, guarantee=C // 4)
    assert divided(vm, [C / 50, C / 50, 0], 60)[0] < 0.2
    for peer, demand in zip(vm.peers, [C * 0.12, C * 0.12, C]):
        vm.send(peer, demand)
    vm.tick()
    vm.send(vm.peers[2], C)
    vm.tick()
    assert vm.own(vm.peers[2]).guarantee >= C // 12


def test_a_rate_that_is_not_used_does_not_grow(core: Any) -> None:
    vm = Vm(core, guarantee=C // 100)
    divided(vm, [C / 10], 1000)
    assert C / 10 <= vm.peers[0].rate <= C * 0.22


def test_silence_leaves_the_guarantee_and_an_answer_gives_more(core: Any) -> None:
    vm = Vm(core, guarantee=C // 10)
    peer = vm.peer()
    vm.hear(peer, C)
    vm.own(peer).rate = C // 2
    for number in range(120):
        vm.send(peer, C)
        vm.tick()
        assert peer.rate >= C // 10
        assert (peer.rate > C // 10 + 10) == (number < 99), number
    vm.hear(peer, C)
    for _ in range(20):
        vm.send(peer, C)
        vm.tick()
    assert peer.rate > C // 10 + 10


def test_a_peer_without_the_law_is_not_held_down(core: Any) -> None:
    vm = Vm(core)
    peers = [vm.peer()]
    for _ in range(1000):
        vm.send(peers[0], C)
        vm.tick()
    assert peers[0].rate == C


def test_counts_begin_anew(core: Any) -> None:
    vm = Vm(core)
    peer = vm.peer()
    vm.receive(peer, C, marks=2**30, packets=2**31 - 1)
    assert vm.tick()[0].packets == 2**31 - 1
    vm.receive(peer, C, packets=1)
    assert vm.tick()[0].packets == 2**31
    vm.receive(peer, C, marks=1, packets=2)
    report = vm.tick()[0]
    assert (report.packets, report.marks) == (2, 1)
    vm.own(peer).rate = C
    vm.hear(peer, C, packets=2**31, marks=2**30)
    vm.own(peer).rate = C
    vm.input.now_ns += 10 * T
    vm.hear(peer, C, packets=2, marks=1)
    assert peer.rate == pytest.approx(C * 7 / 8, rel=0.001)


class Link:
    """Sending VMs and receiving ones behind one marking link; reports take a T and may be lost."""

    def __init__(self, core: Any, pairs: Sequence[Tuple[int, int]], sent: Sequence[int], received: Sequence[int],
                 lost: int = 0) -> None:
        self.senders, self.receivers = ([Vm(core, guarantee=one) for one in side] for side in (sent, received))
        self.pairs = [(self.senders[a], self.senders[a].peer(), self.receivers[b], self.receivers[b].peer())
                      for a, b in pairs]
        self.demand = [float(C)] * len(pairs)
        self.queue, self.lost, self.number = 0.0, lost, 0
        self.got: List[List[float]] = []

    def run(self, periods: int) -> None:
        for _ in range(periods):
            rates = [min(demand, peer.rate) for (_, peer, _, _), demand in zip(self.pairs, self.demand)]
            self.queue = min(max(self.queue + (sum(rates) - C) * T / SECOND, 0), 150_000)
            served = min(1.0, C / sum(rates)) if sum(rates) else 1.0
            for (sender, peer, receiver, other), rate in zip(self.pairs, rates):
                if rate:
                    sender.send(peer, rate)
                    packets = max(1, round(rate * served * T / SECOND / PACKET))
                    receiver.receive(other, rate * served, packets if self.queue > 30_000 else 0, packets)
            self.got.append([rate * served for rate in rates])
            told = {id(vm): dict(zip(map(id, vm.peers), vm.tick())) for vm in self.receivers}
            for vm in self.senders:
                vm.tick()
            self.number += 1
            for sender, peer, receiver, other in self.pairs:
                report = told[id(receiver)][id(other)]
                if report is not None and not (self.lost and self.number % self.lost):
                    sender.hear(peer, report.rate, report.packets, report.marks)

    def mean(self, pair: int, periods: int) -> float:
        return sum(rates[pair] for rates in self.got[-periods:]) / periods / C


@pytest.mark.parametrize("lost", [0, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 10, 50])
def test_a_guarantee_is_kept_against_many_senders(core: Any, n: int, lost: int) -> None:
    """The victim's VM and that of n senders have 0.45 of the link each, 0.1 is headroom."""
    part = C * 45 // 100
    link = Link(core, [(0, 0), *((1 + number, 1) for number in range(n))], [part] * (n + 1), [part] * 2, lost)
    link.run(1500)
    assert link.mean(0, 500) >= 0.45
    assert sum(link.mean(pair, 500) for pair in range(n + 1)) >= 0.9


@pytest.mark.parametrize("n", [1, 10])
def test_what_the_victim_leaves_is_the_others(core: Any, n: int) -> None:
    part = C * 45 // 100
    link = Link(core, [(0, 0), *((1 + number, 1) for number in range(n))], [part] * (n + 1), [part] * 2)
    link.demand[0] = 0.0
    link.run(1000)
    assert sum(link.mean(pair, 300) for pair in range(1, n + 1)) >= 0.85
    link.demand[0] = float(C)
    link.run(300)
    assert link.mean(0, 200) >= 0.44


NUMBERS = st.sampled_from([0, 1, 125, 10**6, C, 10**11, U32_MAX, U64_MAX - 1, U64_MAX]) | st.integers(0, U64_MAX)


@given(data=st.data(), knobs=knob_values("elasticswitch"))
def test_no_input_takes_a_rate_out_of_its_bounds(core: Any, data: Any, knobs: Dict[str, int]) -> None:
    vm = Vm(core, knobs=knobs)
    peers = [vm.peer(), vm.peer()]
    for _ in range(data.draw(st.integers(1, 12))):
        small = min(data.draw(NUMBERS), 10**11)
        vm.input.share = max(small, 125)
        vm.input.min = min(data.draw(NUMBERS), vm.input.share)
        vm.input.capacity = max(min(data.draw(NUMBERS), 10**11), 125)
        vm.input.period_ns = max(1, min(data.draw(NUMBERS), 10**10))
        vm.input.now_ns = data.draw(NUMBERS)
        for peer in peers:
            vm.law.on_tx(peer, vm._packet(min(data.draw(NUMBERS), U32_MAX), 1, 0))
            vm.law.on_rx(peer, vm._packet(min(data.draw(NUMBERS), U32_MAX), min(data.draw(NUMBERS), U32_MAX),
                                          min(data.draw(NUMBERS), U32_MAX)))
            vm.hear(peer, data.draw(NUMBERS), min(data.draw(NUMBERS), U32_MAX), min(data.draw(NUMBERS), U32_MAX))
        told = vm.tick()
        assert vm.state.rate == vm.input.share
        assert all(125 <= peer.rate <= vm.input.share for peer in peers)
        assert all(report is None or report.marks <= report.packets for report in told)
