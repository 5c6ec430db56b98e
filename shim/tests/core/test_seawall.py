# SPDX-License-Identifier: Apache-2.0
"""Law seawall: what receivers count, what senders make of it, alone and in a closed loop over a simulated link."""

import random
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

from .drawn import knob_values

MS, SECOND = 10**6, 10**9
C = 125_000_000
T = 10 * MS
FULL = 1514
U16, U32_MAX, U64_MAX = 2**16, 2**32 - 1, 2**64 - 1


class VM:
    """One VM that sends to `destinations` addresses; the receivers' states are here too, one an address."""

    def __init__(self, core: Any, destinations: int = 1, weight: int = 1, share: int = C, low: int = 0,
                 capacity: int = C, now_ns: int = SECOND, knobs: Optional[Dict[str, int]] = None) -> None:
        self.ffi = core.ffi
        self.law = core.lib.shim_law_find(b"seawall")
        self.values = self.ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            index = core.lib.shim_knob_find(self.law, name.encode())
            assert index >= 0, name
            self.values[index] = value
        self.input = self.ffi.new("struct shim_law_input *", {
            "now_ns": now_ns, "period_ns": T, "capacity": capacity, "share": share, "min": low, "weight": weight,
            "peers": destinations, "knobs": self.values, "frame": 1514, "rx_frame": 1514})
        self.state = binding.limiter(self.law)
        self.law.init(self.state, self.input)
        self.peers = [binding.peer(self.law) for _ in range(destinations)]
        self.receivers = [binding.peer(self.law) for _ in range(destinations)]
        for peer in (*self.peers, *self.receivers):
            self.law.peer_init(peer, self.input)
        self.sent = 0
        self.told: List[Dict[str, int]] = [{} for _ in range(destinations)]

    @property
    def rate(self) -> int:
        return int(self.state.rate)

    def packet(self, **fields: Any) -> Any:
        return self.ffi.new("struct shim_law_packet *", {
            "now_ns": self.input.now_ns, "knobs": self.values, "bytes": FULL, "packets": 1, "id_free": True, **fields})

    def send(self, number: int = 0, **fields: Any) -> int:
        """Let a packet leave; return its ID."""
        packet = self.packet(**fields)
        self.law.on_tx(self.peers[number], packet)
        self.sent += packet.bytes
        return int(packet.id)

    def receive(self, number: int = 0, **fields: Any) -> None:
        """Let a packet arrive; the law changes no ID."""
        packet = self.packet(**fields)
        self.law.on_rx(self.receivers[number], packet)
        assert packet.id == fields.get("id", 0)

    def due(self, number: int = 0) -> Optional[Any]:
        """Let a receiver's period end; return its report, if one is due. The receiver never sent."""
        report = self.ffi.new("struct shim_message *")
        if self.law.on_peer_period(self.receivers[number], self.ffi.NULL, self.input, report):
            return report
        assert report.type == 0
        return None

    def report(self, number: int = 0, **fields: int) -> None:
        """Let a report arrive that tells this much more than the last one; the first, of nothing, stands before."""
        more = {"bytes": 100 * FULL, "packets": 100, "marks": 0, "lost": 0, **fields}
        told = self.told[number]
        if not told:
            told.update(bytes=FULL, packets=1, marks=0, lost=0)
            self.hear(number, **told)
        for name in told:
            told[name] += more[name]
        self.hear(number, **told, type=more.get("type", 3))

    def hear(self, number: int = 0, **fields: int) -> None:
        """Let a report with these fields arrive."""
        message = self.ffi.new("struct shim_message *", {"type": 3, "version": 1, **fields})
        self.law.on_report(self.peers[number], self.state, self.input, message)

    def tick(self, now_ns: Optional[int] = None) -> int:
        """Let a period of the sender end."""
        self.input.now_ns = self.input.now_ns + T if now_ns is None else now_ns
        self.input.sent_rate = self.sent * SECOND // T
        self.sent = 0
        self.law.on_period(self.state, self.input)
        for peer in self.peers:
            self.law.on_peer_period(peer, self.state, self.input, self.ffi.new("struct shim_message *"))
        return self.rate

    def busy(self, count: int = 1, answer: Optional[Dict[str, int]] = None) -> int:
        """Use the whole rate for some periods, with such a report in each; None: without."""
        for _ in range(count):
            self.send(bytes=min(self.rate * T // SECOND, U32_MAX))
            if answer is not None:
                self.report(**answer)
            self.tick()
        return self.rate


def test_defaults_are_the_documented_ones(core: Any) -> None:
    law = core.lib.shim_law_find(b"seawall")
    have = {core.ffi.string(law.knobs[i].name).decode(): law.knobs[i].value for i in range(law.n_knobs)}
    assert have == {"class": 3, "links": 0, "beta-ppm": 900000, "alpha-ppm": 100000, "gamma-ppm": 62500,
                    "delta-ppm": 500000, "goal-time": 20 * MS, "step-ppm": 3000, "step-sharers": 4,
                    "start-ppm": 1000000, "floor-ppm": 10000, "clamp": 2, "recent": SECOND, "silence": 8,
                    "forget": 10 * SECOND, "mark-bytes": 30280, "hint": 1 * MS, "literal": 0}
    assert law.period_ns == T and law.wants == core.lib.SHIM_LAW_PEERS | core.lib.SHIM_LAW_FLOWS


def test_the_id_counts_packets(core: Any) -> None:
    """Up by the parts of a GSO packet, round at 2^16, and not where the ID is somebody else's."""
    vm = VM(core)
    assert [vm.send(), vm.send(packets=44, bytes=65536), vm.send()] == [0, 1, 45]
    assert vm.send(id=77, id_free=False) == 77
    assert vm.send() == 46
    vm.send(packets=U16 - 48)
    assert [vm.send(), vm.send()] == [U16 - 1, 0]


def test_a_report_tells_what_came(core: Any) -> None:
    vm = VM(core)
    assert vm.due() is None
    for number in (65534, 65535, 0, 3, 4):
        vm.receive(id=number, marks=int(number == 3))
    vm.receive(id=6, packets=10, bytes=15140, marks=2)
    vm.receive(id_free=False, bytes=60)
    report = vm.due()
    assert report is not None
    assert (report.type, report.packets, report.bytes, report.lost, report.marks, report.interval_ns) == (
        3, 16, 5 * FULL + 15200, 3, 3, T)
    assert vm.due() is None
    vm.receive(id=16)
    report = vm.due()
    assert report is not None
    assert (report.packets, report.bytes, report.lost, report.marks) == (17, 6 * FULL + 15200, 3, 3)


def test_counts_begin_anew_before_they_overflow(core: Any) -> None:
    """The last of the old ones are told; of the new ones a sender takes all."""
    vm = VM(core)
    vm.receive(bytes=2**31, packets=1)
    report = vm.due()
    assert report is not None and (report.bytes, report.packets) == (2**31, 1)
    vm.receive(id=1, bytes=FULL)
    report = vm.due()
    assert report is not None and (report.bytes, report.packets, report.marks) == (FULL, 1, 0)


def test_a_late_packet_is_not_lost(core: Any) -> None:
    vm = VM(core)
    for number in (0, 1, 4, 2, 5, 3, 6):
        vm.receive(id=number)
    report = vm.due()
    assert report is not None and report.lost == 0
    vm.receive(id=2)  # twice, or late beyond what is remembered
    report = vm.due()
    assert report is not None and report.lost == 0


@pytest.mark.parametrize("jump,pause_ns", [(20000, 0), (40000, 0), (5000, 2 * SECOND)])
def test_a_sender_that_began_anew_lost_nothing(core: Any, jump: int, pause_ns: int) -> None:
    vm = VM(core)
    vm.receive(id=0)
    vm.input.now_ns += pause_ns
    vm.receive(id=jump)
    vm.receive(id=jump + 2)
    report = vm.due()
    assert report is not None and report.lost == 1


def test_marks_and_losses_cut_by_their_part(core: Any) -> None:
    """c is 1/16 of F at first, the cut a tenth of F * c."""
    for fields, part in (({"marks": 100}, 1.0), ({"marks": 25}, 0.25), ({"lost": 100}, 0.5),
                         ({"lost": U32_MAX, "marks": U32_MAX}, 1.0)):
        vm = VM(core, weight=4, knobs={"start-ppm": 10**6})
        vm.report(**fields)
        assert vm.tick() == pytest.approx(C * (1 - 0.1 * part**2 / 16), rel=1e-4)
        assert vm.state.congested


def test_a_mad_report_weighs_no_more_than_its_bytes(core: Any) -> None:
    """Half of the traffic is hurt, however many losses and marks the report claims."""
    vm = VM(core, destinations=2, weight=4, knobs={"start-ppm": 10**6})
    vm.report(0, packets=50, lost=50, marks=U32_MAX)
    vm.report(1, bytes=200 * FULL)
    assert vm.tick() == pytest.approx(C * (1 - 0.1 * 0.5**2 / 16), rel=1e-4)


def test_a_few_marks_in_every_period_lead_to_the_ratio_of_weights(core: Any) -> None:
    """Where a queue stays at its threshold: cuts by rate, growth by weight."""
    vms = [VM(core, weight=weight, low=1, knobs={"clamp": 0, "start-ppm": start})
           for weight, start in ((1, 10**6), (2, 50_000))]
    for _ in range(1000):
        for vm in vms:
            vm.busy(1, {"marks": 30})
    assert vms[1].rate / vms[0].rate == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("fields", [{"type": 1, "marks": 9}, {"packets": 0, "marks": 9, "lost": 9}])
def test_messages_that_say_nothing(core: Any, fields: Dict[str, int]) -> None:
    vm = VM(core, weight=4, knobs={"start-ppm": 10**6})
    vm.report(**fields)
    assert vm.tick() == C and not vm.state.congested


def test_a_report_for_a_vm_that_never_sent(core: Any) -> None:
    vm = VM(core)
    message = core.ffi.new("struct shim_message *", {"type": 3, "packets": 5, "lost": 5, "bytes": 100})
    vm.law.on_report(vm.peers[0], core.ffi.NULL, vm.input, message)
    assert not vm.law.on_peer_period(vm.peers[0], core.ffi.NULL, vm.input, message)


def test_the_way_back_is_concave_then_convex(core: Any) -> None:
    """Quick at first, slower near the goal; behind goal-time steps grow by 0.5 to 1.5 times step each period."""
    vm = VM(core, weight=4, knobs={"clamp": 0, "goal-time": 10 * T, "start-ppm": 500000})
    vm.busy(3, {"marks": 100})
    rates = [vm.rate] + [vm.busy(1, {}) for _ in range(9)]
    steps = [after - before for before, after in zip(rates, rates[1:])]
    assert steps == sorted(steps, reverse=True) and steps[0] > 10 * steps[-1] and rates[-1] < C // 2
    rates = [vm.rate] + [vm.busy(1, {}) for _ in range(6)]
    steps = [after - before for before, after in zip(rates, rates[1:])]
    growth = [(after - before) / (C * 3000 / 10**6) for before, after in zip(steps, steps[1:])]
    assert 0.5 <= min(growth) < 0.8 and 1.2 < max(growth) < 1.5


def test_unused_rate_is_clamped(core: Any) -> None:
    """To twice the largest rate used recently, and never below the rate of a beginner."""
    vm = VM(core, knobs={"start-ppm": 400000})
    for _ in range(200):
        vm.send(bytes=C // 8 * T // SECOND)
        vm.report()
        vm.tick()
    assert vm.rate == pytest.approx(C // 4, rel=0.001)
    for _ in range(2000):
        vm.send(bytes=100)
        vm.report()
        vm.tick()
    assert vm.rate == C // 10


def test_rates_of_tunnels_follow_use(core: Any) -> None:
    """A tunnel gets beta of the rate in proportion to its use, its part of the rest, and what the VM left unused."""
    vm = VM(core, weight=2, destinations=4)
    rate = vm.rate
    for number, part in enumerate((0.5, 0.25, 0.25, 0)):
        vm.send(number, bytes=int(rate * T / SECOND * part))
    vm.tick()
    assert [peer.rate for peer in vm.peers] == [pytest.approx(rate * part, rel=0.001)
                                                for part in (0.475, 0.25, 0.25, 0.025)]
    vm.send(0, bytes=rate * T // SECOND // 2)
    vm.tick()
    assert vm.peers[0].rate == vm.rate
    assert vm.peers[3].rate == pytest.approx(vm.rate * 0.525, rel=0.001)


def test_each_class_has_its_loops(core: Any) -> None:
    for knobs in ({"class": 1}, {"links": 1}):
        vm = VM(core, destinations=2, knobs=knobs)
        for _ in range(30):
            for number in (0, 1):
                vm.send(number, bytes=C // 2 * T // SECOND)
            vm.report(0, marks=100)
            vm.report(1)
            vm.tick()
        assert vm.rate == C and vm.peers[0].rate < C // 10 < vm.peers[1].rate
    vm = VM(core, weight=2, knobs={"class": 2, "start-ppm": 10**6})
    vm.report(marks=1)
    assert vm.tick() == C // 2 * 9 // 10
    vm.report()
    assert vm.tick() == C // 2 * 9 // 10 + C * 3000 // 10**6 // 2


def test_a_peer_that_never_answers_has_no_shim(core: Any) -> None:
    """Its VM reaches its share."""
    vm = VM(core)
    assert vm.busy(100) == C


@pytest.mark.parametrize("knobs", [{}, {"links": 1}, {"class": 1, "step-ppm": 20000}])
def test_silence_is_loss_until_it_is_forgotten(core: Any, knobs: Dict[str, int]) -> None:
    """Reports stop: down to the floor; resume: up again; stop for long: the share, as without a shim there."""
    vm = VM(core, low=C // 50, knobs=knobs)

    def rate() -> int:
        return min(vm.rate, int(vm.peers[0].rate))

    vm.busy(200, {})
    assert rate() == C
    vm.busy(7)
    assert rate() == C
    vm.busy(150)
    assert rate() == C // 50
    vm.busy(200, {})
    assert rate() == C
    vm.busy(900)
    assert rate() == C // 50
    vm.busy(600)
    assert rate() == C


@given(lost=st.lists(st.booleans(), min_size=1, max_size=40))
def test_a_report_makes_good_for_those_lost(core: Any, lost: List[bool]) -> None:
    """A VM some of whose reports were lost, fewer in a row than `silence`, ends where one that heard all does."""
    vms = [VM(core, weight=4, knobs={"clamp": 0, "silence": 1000, **knobs})
           for knobs in ({}, {"links": 1}) for _ in range(2)]
    missing = 0
    for vm in vms:
        vm.hear(bytes=FULL, packets=1)
        vm.told[0].update(bytes=FULL, packets=1, marks=0, lost=0)
        vm.send()
        vm.tick()
    for gone in [*lost, False]:
        missing = missing + 1 if gone and missing < 6 else 0
        for vm in vms[::2]:
            vm.report(marks=100)
        for vm in vms[1::2]:
            if not missing:
                vm.hear(**vms[0].told[0])
        for vm in vms:
            vm.send(bytes=vm.rate * T // SECOND)
            vm.tick()
    rates = [int(vm.peers[0].rate) if vm.values[1] else vm.rate for vm in vms]
    assert rates[1] == rates[0] < C and rates[3] == rates[2] < C


def test_marks_of_a_lost_report_come_with_the_next(core: Any) -> None:
    """Half of what two periods brought is marked, though the report that came is about one without marks."""
    vm = VM(core, weight=4)
    vm.report()
    vm.send()
    vm.tick()
    for name, more in (("bytes", 100 * FULL), ("packets", 100), ("marks", 100)):
        vm.told[0][name] += more
    vm.send()
    vm.tick()
    vm.report()
    cut = 0.1 * 0.5 * (0.5 / 16 + 0.5 / 16 * 31 / 16)
    assert C * (1 - cut) <= vm.tick() <= C * (1 - cut + 0.001) and vm.state.congested


def test_counts_that_fell_began_anew(core: Any) -> None:
    """As after a restart of the peer: no less than what they say now is new."""
    vm = VM(core, weight=4)
    vm.report(packets=10**6)
    vm.tick()
    vm.told[0].update(bytes=0, packets=0)
    vm.report(marks=100)
    assert vm.tick() == pytest.approx(C * (1 - 0.1 / 16), rel=1e-4)


def test_a_packet_after_a_pause_begins_a_new_wait(core: Any) -> None:
    vm = VM(core, knobs={"clamp": 0})
    vm.busy(200, {})
    vm.busy(1)
    for _ in range(100):
        vm.tick()
    vm.busy(2)
    assert vm.rate == C and not vm.state.congested


def test_an_idle_vm_hears_nothing_and_loses_nothing(core: Any) -> None:
    vm = VM(core, knobs={"clamp": 0})
    vm.busy(100, {})
    vm.send()
    for _ in range(1000):
        vm.tick()
    assert vm.rate == C


def test_weights_that_change_without_congestion_change_no_rate(core: Any) -> None:
    vm = VM(core, weight=4)
    vm.busy(100, {})
    vm.input.weight = 1
    assert vm.busy(1, {}) == C


def kept(vm: VM, state: Any) -> bytes:
    """Return the bytes of what the law itself keeps of a limiter or a peer."""
    return bytes(vm.ffi.buffer(binding.own(vm.law, state)))


def test_a_fresh_state_keeps_nothing(core: Any) -> None:
    """A limiter or a peer that is cleared and begins anew is as new, whatever was kept of it."""
    for knobs in ({}, {"links": 1}):
        used, new = VM(core, knobs=knobs), VM(core, knobs=knobs)
        for state, size in ((used.state, used.law.limiter_size), (used.peers[0], used.law.peer_size)):
            length = core.ffi.sizeof(state[0]) + size
            core.ffi.memmove(state, b"\xff" * length, length)
            binding.clear(used.law, state)
        used.law.init(used.state, used.input)
        used.law.peer_init(used.peers[0], used.input)
        assert used.rate == new.rate and kept(used, used.state) == kept(new, new.state)
        assert not any(kept(used, used.peers[0])) and not any(kept(new, new.peers[0]))
        assert used.peers[0].rate == new.peers[0].rate


any_u64 = st.one_of(st.integers(0, U64_MAX), st.integers(0, 10**11))
any_u32 = st.one_of(st.integers(0, U32_MAX), st.integers(0, 1000))
steps = st.lists(st.one_of(
    st.tuples(st.just("tx"), st.integers(0, 1), any_u32, any_u32),
    st.tuples(st.just("rx"), st.integers(0, 1), any_u32, any_u32),
    st.tuples(st.just("report"), st.integers(0, 1), any_u64, st.tuples(any_u32, any_u32, any_u32)),
    st.tuples(st.just("tick"), any_u64, any_u64, st.tuples(any_u64, any_u64, st.integers(0, 65535)))), max_size=25)


@given(history=steps, knobs=knob_values("seawall"), capacity=any_u64, weight=st.integers(1, 65535), now_ns=any_u64)
def test_rates_stay_between_guarantee_and_share(core: Any, history: Any, knobs: Dict[str, int], capacity: int,
                                                weight: int, now_ns: int) -> None:
    """Whatever is heard, configured or measured, and whatever the clock does; a tunnel's rate too."""
    share = capacity // 3
    vm = VM(core, destinations=2, share=share, low=share // 7, capacity=capacity, weight=weight, now_ns=now_ns,
            knobs=knobs)
    for kind, first, second, rest in history:
        if kind == "tx":
            vm.send(first, bytes=second, packets=rest % U16, id_free=bool(rest & 1))
        elif kind == "rx":
            vm.receive(first, id=second % U16, packets=rest % U16, marks=rest % 100, bytes=second)
        elif kind == "report":
            vm.hear(first, bytes=second, packets=rest[0], lost=rest[1], marks=rest[2])
        else:
            vm.input.now_ns, vm.input.share = first, second
            vm.input.min = rest[0]  # more than the share after a link slowed down
            vm.input.sent_rate, vm.input.peers = rest[1], rest[2]
            vm.law.on_period(vm.state, vm.input)
            floor = min(max(vm.input.min, second * knobs["floor-ppm"] // 10**6), second)
            assert floor <= vm.rate <= second
            for number, peer in enumerate(vm.peers):
                vm.law.on_peer_period(peer, vm.state, vm.input, core.ffi.new("struct shim_message *"))
                assert peer.rate <= second
                if knobs["class"] == 1 or knobs["links"]:
                    assert peer.rate >= floor
                vm.due(number)


Event = Tuple[float, Callable[[], None]]


def link(core: Any, vms: List[VM], seconds: float, events: Sequence[Event] = (), loss: float = 0.0,
         marks_above: int = 30_000, seed: int = 1) -> List[List[float]]:
    """Greedy VMs, a port of capacity C with 150 KB that marks above a level; reports are lost with probability loss.

    Returns what came of each VM in each quarter of a second, as parts of C. Ticks of VM i come 3 i ms late; what its
    receivers report is heard before the next.
    """
    slot_ns, rng, queue = 500_000, random.Random(seed), 0.0
    credit = [[rng.random() * FULL for _ in vm.peers] for vm in vms]
    todo, came, quarters = sorted(events, key=lambda event: event[0]), [0] * len(vms), []
    for slot in range(round(seconds * SECOND / slot_ns)):
        now_ns = SECOND + slot * slot_ns
        while todo and todo[0][0] * SECOND <= slot * slot_ns:
            todo.pop(0)[1]()
        packets = []
        for i, vm in enumerate(vms):
            want = [(peer.rate or vm.rate) * slot_ns / SECOND for peer in vm.peers]
            fit = min(1.0, vm.rate * slot_ns / SECOND / max(sum(want), 1.0))
            vm.input.now_ns = now_ns
            for number, bytes_ in enumerate(want):
                credit[i][number] += bytes_ * fit
                packets += [(i, number)] * int(credit[i][number] // FULL)
                credit[i][number] %= FULL
        rng.shuffle(packets)
        for i, number in packets:
            count = vms[i].send(number)
            queue = max(0.0, queue - C * slot_ns / SECOND / len(packets))
            if queue + FULL <= 150_000:
                vms[i].receive(number, id=count, marks=int(queue > marks_above))
                queue += FULL
                came[i] += FULL
        if not packets:
            queue = max(0.0, queue - C * slot_ns / SECOND)
        for i, vm in enumerate(vms):
            if (slot * slot_ns - 3 * i * MS) % T == 0:
                vm.tick(now_ns)
                for number in range(len(vm.peers)):
                    report = vm.due(number)
                    if report is not None and rng.random() >= loss:
                        vm.law.on_report(vm.peers[number], vm.state, vm.input, report)
        if (slot + 1) * slot_ns % (SECOND // 4) == 0:
            quarters.append([count / (C / 4) for count in came])
            came = [0] * len(vms)
    return quarters


def means(quarters: List[List[float]]) -> List[float]:
    return [sum(column) / len(quarters) for column in zip(*quarters)]


@pytest.mark.parametrize("weights", [(1, 1), (1, 2), (1, 2, 4), (1,) * 8])
def test_rates_converge_to_the_ratio_of_weights(core: Any, weights: Any) -> None:
    got = means(link(core, [VM(core, weight=weight) for weight in weights], 5)[12:])
    assert 0.9 < sum(got) <= 1.0
    for part, weight in zip(got, weights):
        assert part / sum(got) == pytest.approx(weight / sum(weights), rel=0.15)


@pytest.mark.parametrize("before,after", [((1, 1), (3, 1)), ((4, 1), (1, 4)), ((1, 1, 1), (1, 2, 5)),
                                          ((1, 1), (1, 10))])
def test_changed_weights_show_within_a_second(core: Any, before: Any, after: Any) -> None:
    vms = [VM(core, weight=weight) for weight in before]

    def change() -> None:
        for vm, weight in zip(vms, after):
            vm.input.weight = weight

    got = means(link(core, vms, 5, [(3, change)])[16:])
    for part, weight in zip(got, after):
        assert part / sum(got) == pytest.approx(weight / sum(after), rel=0.15)


def test_a_newcomer_gets_its_part(core: Any) -> None:
    """From a thousandth, beside one that has the link."""
    vms = [VM(core), VM(core, knobs={"start-ppm": 0, "floor-ppm": 1000})]
    got = means(link(core, vms, 6)[16:])
    assert min(got) > 0.4


def test_losses_alone_suffice(core: Any) -> None:
    """At a port that marks nothing."""
    got = means(link(core, [VM(core), VM(core, weight=2)], 5, marks_above=10**9)[8:])
    assert sum(got) > 0.9 and got[1] / got[0] == pytest.approx(2, rel=0.15)


@pytest.mark.parametrize("destinations", [2, 8, 32])
def test_destinations_buy_nothing(core: Any, destinations: int) -> None:
    got = means(link(core, [VM(core), VM(core, destinations=destinations)], 4)[8:])
    assert sum(got) > 0.85
    assert got[0] / sum(got) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("knobs", [{"class": 1}, {"links": 1}])
def test_a_loop_a_tunnel_lets_destinations_buy(core: Any, knobs: Dict[str, int]) -> None:
    """What Class 2 is for."""
    got = means(link(core, [VM(core, knobs=knobs), VM(core, destinations=4, knobs=knobs)], 4)[8:])
    assert got[1] > 2.5 * got[0]


@pytest.mark.parametrize("loss,least", [(0.01, 0.9), (0.1, 0.9), (0.5, 0.85)])
def test_lost_reports_leave_the_link_shared(core: Any, loss: float, least: float) -> None:
    got = means(link(core, [VM(core), VM(core)], 5, loss=loss)[8:])
    assert sum(got) > least and min(got) > 0.3


def test_reports_that_stop_and_resume(core: Any) -> None:
    """One VM's reports stop for a second: it falls to its floor, then gets its part back."""
    vms = [VM(core, low=C // 20), VM(core)]
    report = vms[0].due

    def stop() -> None:
        vms[0].due = lambda number=0: (report(number), None)[1]  # type: ignore[method-assign]

    def resume() -> None:
        vms[0].due = report  # type: ignore[method-assign]

    got = link(core, vms, 9, [(3, stop), (4.5, resume)])
    assert got[17][0] < 0.1 and sum(got[17]) > 0.9
    assert min(means(got[-4:])) > 0.4


def test_cuts_leave_a_tunnel_bounded(core: Any) -> None:
    """Without a floor, too: a tunnel with a rate of 0 would have none."""
    vm = VM(core, knobs={"links": 1, "floor-ppm": 0, "alpha-ppm": 1000000, "gamma-ppm": 1000000})
    vm.busy(20, {"marks": 100})
    assert vm.peers[0].rate == 125
