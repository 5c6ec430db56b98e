# SPDX-License-Identifier: Apache-2.0
"""Law hygenicc: what receivers tell and senders make of it, alone and in a closed loop over a simulated link."""

import random
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

from .drawn import knob_values

US, MS, SECOND = 10**3, 10**6, 10**9
C = 125_000_000
T = 500 * US
FULL = 1514
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
# A mark costs 50 packets/s and there is no step.
PLAIN = {"mark-rtt": 20 * MS, "step-slow-ppm": 0}


class VM:
    """One VM under the law, with one limiter and a state for each address it talks to."""

    def __init__(self, core: Any, share: int = C, low: int = 0, weight: int = 1, capacity: int = C,
                 now_ns: int = SECOND, knobs: Optional[Dict[str, int]] = None) -> None:
        self.ffi = core.ffi
        self.law = core.lib.shim_law_find(b"hygenicc")
        self.values = self.ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            index = core.lib.shim_knob_find(self.law, name.encode())
            assert index >= 0, name
            self.values[index] = value
        self.input = self.ffi.new("struct shim_law_input *", {
            "now_ns": now_ns, "period_ns": T, "capacity": capacity, "share": share, "min": low, "weight": weight,
            "knobs": self.values, "frame": 1514, "rx_frame": 1514})
        self.state = binding.limiter(self.law)
        self.law.init(self.state, self.input)
        self.peers: Dict[int, Any] = {}

    @property
    def rate(self) -> int:
        return int(self.state.rate)

    def peer(self, number: int) -> Any:
        if number not in self.peers:
            self.peers[number] = binding.peer(self.law)
            self.law.peer_init(self.peers[number], self.input)
        return self.peers[number]

    def packet(self, **fields: Any) -> Any:
        return self.ffi.new("struct shim_law_packet *", {
            "now_ns": self.input.now_ns, "knobs": self.values, "bytes": FULL, "packets": 1, "echo_free": True,
            **fields})

    def send(self, number: int = 0, **fields: Any) -> bool:
        """Let a packet leave; return its echo bit."""
        packet = self.packet(**fields)
        self.law.on_tx(self.peer(number), packet)
        return bool(packet.echo)

    def receive(self, number: int = 0, **fields: Any) -> bool:
        """Take a packet; return the echo bit that the VM gets to see."""
        packet = self.packet(**fields)
        self.law.on_rx(self.peer(number), packet)
        return bool(packet.echo)

    def report(self, marks: int, number: int = 0) -> None:
        message = self.ffi.new("struct shim_message *", {"type": 3, "version": 1, "marks": marks})
        self.law.on_report(self.peer(number), self.state, self.input, message)

    def tick(self, now_ns: Optional[int] = None, sends: bool = True) -> Dict[int, Any]:
        """Let a period end; return the reports that are due, by peer."""
        self.input.now_ns = self.input.now_ns + T if now_ns is None else now_ns
        if sends:
            self.law.on_period(self.state, self.input)
        reports = {}
        for number, peer in self.peers.items():
            report = self.ffi.new("struct shim_message *")
            if self.law.on_peer_period(peer, self.state if sends else self.ffi.NULL, self.input, report):
                reports[number] = report
        return reports

    def ticks(self, count: int) -> int:
        for _ in range(count):
            self.tick()
        return self.rate


def test_defaults_are_the_documented_ones(core: Any) -> None:
    law = core.lib.shim_law_find(b"hygenicc")
    have = {core.ffi.string(law.knobs[i].name).decode(): law.knobs[i].value for i in range(law.n_knobs)}
    assert law.period_ns == T and law.wants == core.lib.SHIM_LAW_PEERS
    assert have == {"echo": 1, "feedback-timeout": MS, "mark-rtt": 40 * MS, "cut-most-ppm": 500000,
                    "congestion-timeout": 50 * MS, "step-slow-ppm": 1200, "step-fast-ppm": 4800,
                    "step-max-ppm": 20000, "step-sharers": 4, "regain-ppm": 300000, "rmin-ppm": 10000,
                    "literal": 0}


def test_each_mark_is_echoed_once(core: Any) -> None:
    vm = VM(core)
    vm.receive(marks=2, packets=3)
    assert [vm.send() for _ in range(4)] == [True, True, False, False]
    assert not vm.tick(SECOND + MS)


def test_marks_return_to_the_one_they_came_from(core: Any) -> None:
    vm = VM(core)
    vm.receive(1, marks=1)
    assert not vm.send(2) and vm.send(1)


def test_a_packet_cut_later_echoes_as_many_marks_as_it_will_be(core: Any) -> None:
    vm = VM(core)
    vm.receive(marks=5, packets=5)
    assert vm.send(packets=4) and not vm.send(packets=4) and vm.send()


def test_what_is_left_is_reported(core: Any) -> None:
    vm = VM(core)
    vm.receive(marks=3, packets=40, bytes=40 * FULL)
    assert vm.send()
    assert not vm.tick()
    report = vm.tick()[0]
    assert (report.marks, report.packets, report.bytes, report.interval_ns) == (2, 40, 40 * FULL, MS)
    assert not vm.send() and not vm.tick(SECOND + SECOND)
    vm.receive(marks=1)
    vm.tick()
    report = vm.tick()[0]
    assert (report.marks, report.packets, report.interval_ns) == (1, 1, SECOND)


def test_a_trickle_of_echoes_does_not_hold_reports_back(core: Any) -> None:
    """The slip of Algorithm 2: a TCP that acknowledges every second packet would leave half the marks untold."""
    vm, told, reported = VM(core), 0, 0
    for _ in range(100):
        vm.receive(marks=2, packets=2)
        told += vm.send()
        reported += sum(report.marks for report in vm.tick().values())
    assert told + reported >= 200 - 8 and reported > 50


@pytest.mark.parametrize("fields", [{"echo_free": False}, {}])
def test_without_the_bit_all_is_reported(core: Any, fields: Dict[str, Any]) -> None:
    """IPv6 and fragments have none, and the operator may forbid it."""
    vm = VM(core, knobs={} if fields else {"echo": 0})
    vm.receive(marks=3, **fields)
    assert not vm.send(**fields)
    vm.tick()
    assert vm.tick()[0].marks == 3


def test_a_vm_that_only_receives_reports_too(core: Any) -> None:
    vm = VM(core)
    vm.receive(marks=1)
    vm.tick(sends=False)
    assert vm.tick(sends=False)[0].marks == 1


@pytest.mark.parametrize("echo", [0, 1])
def test_the_bit_belongs_to_the_shims(core: Any, echo: int) -> None:
    """What a VM sets does not leave, what arrives is not delivered, and off means off."""
    vm = VM(core, knobs={**PLAIN, "echo": echo})
    assert not vm.send(echo=True)
    assert not vm.receive(echo=True)
    vm.ticks(2)
    assert (vm.rate < C) == bool(echo)


def test_a_fragment_keeps_its_bits(core: Any) -> None:
    vm = VM(core)
    vm.receive(marks=1)
    assert vm.send(echo=True, echo_free=False)
    assert vm.receive(echo=True, echo_free=False)
    assert vm.ticks(2) == C


def test_echoes_count_up_to_what_was_sent(core: Any) -> None:
    vm = VM(core, knobs=PLAIN)
    for _ in range(3):
        vm.send()
    for _ in range(10):
        vm.receive(echo=True)
    vm.ticks(2)
    assert C - vm.rate == 3 * FULL * 50
    vm = VM(core, knobs=PLAIN)
    vm.send(packets=1000)
    vm.ticks(1000)
    vm.receive(echo=True, packets=1000)
    rate = vm.rate
    assert rate - vm.ticks(2) < 64 * FULL * 50, "what was sent long ago is forgotten"


def test_a_mark_costs_a_packet_per_rtt(core: Any) -> None:
    vm = VM(core, knobs=PLAIN)
    vm.report(7)
    vm.tick()
    assert C - vm.rate == 7 * FULL * 50
    vm = VM(core, knobs={**PLAIN, "mark-rtt": 100 * US})
    vm.report(1)
    vm.tick()
    assert C - vm.rate == FULL * 10_000


def test_what_was_marked_takes_its_part_of_the_step(core: Any) -> None:
    """The step of a period goes with as many marks as R allows packets, in whatever bundles they are told."""
    bundled, single = VM(core), VM(core)
    for vm, bundles in ((bundled, [0, 0, 0, 8]), (single, [2, 2, 2, 2])):
        vm.state.rate, vm.state.message_ns = C // 2, SECOND
        for marks in bundles:
            vm.report(marks)
            vm.tick()
    allowed = C // 2 * T / SECOND / FULL
    step = C * 1200 // 10**6 // 4
    assert bundled.rate == pytest.approx(C // 2 + step * (4 - 8 / allowed) - 8 * FULL * 25, rel=1e-4)
    assert single.rate == pytest.approx(bundled.rate, rel=1e-4)


def test_many_marks_cost_at_most_half(core: Any) -> None:
    vm = VM(core, knobs=PLAIN)
    vm.report(U32_MAX)
    vm.tick()
    assert vm.rate == C // 2
    vm = VM(core, knobs={**PLAIN, "cut-most-ppm": 0})
    vm.report(U32_MAX)
    vm.tick()
    assert vm.rate == C // 100


def test_marks_count_once(core: Any) -> None:
    """Algorithm 1 leaves the feedback standing; ours is used up."""
    vm = VM(core)
    vm.report(10)
    vm.tick()
    cut = vm.rate
    vm.tick()
    assert vm.rate == cut + C * 1200 // 10**6 // 4


def test_peers_add_up(core: Any) -> None:
    vm = VM(core, knobs=PLAIN)
    for number in range(5):
        vm.report(2, number)
        vm.send(number)
        vm.receive(number, echo=True)
    vm.ticks(1)
    assert C - vm.rate == 10 * FULL * 50
    vm.ticks(1)
    assert C - vm.rate == 15 * FULL * 50


def test_controllers_are_not_needed(core: Any) -> None:
    assert VM(core).law.on_message == core.ffi.NULL


def test_a_report_for_a_vm_that_never_sent(core: Any) -> None:
    vm = VM(core)
    vm.law.on_report(vm.peer(0), core.ffi.NULL, vm.input, core.ffi.new("struct shim_message *", {"marks": 5}))
    assert vm.ticks(2) == C


def cut_to_the_floor(vm: VM) -> VM:
    for _ in range(20):
        vm.report(U32_MAX)
        vm.tick()
    return vm


def test_steps_go_by_weight_and_grow_in_silence(core: Any) -> None:
    steps = []
    for weight in (1, 2, 8):
        vm = cut_to_the_floor(VM(core, weight=weight))
        before = vm.rate
        steps.append(vm.ticks(1) - before)
    assert steps == [C * 1200 // 10**6 * weight // 4 for weight in (1, 2, 8)]
    vm = cut_to_the_floor(VM(core, knobs={"step-slow-ppm": 0}))
    assert vm.ticks(99) == C // 100 and vm.state.congested
    assert vm.ticks(1) == C // 100 + C * 4800 // 10**6 // 4 and not vm.state.congested


@pytest.mark.parametrize("part, waits_ms", [(16, 50), (4, 125), (2, 250)])
def test_steps_are_slow_until_they_have_regained_what_marks_take(core: Any, part: int, waits_ms: int) -> None:
    """0.3 of R by steps of 0.0006 C a ms, but T_c at least."""
    vm = VM(core, knobs={"step-max-ppm": 0})
    vm.state.rate = C // part
    vm.report(1)
    vm.tick()
    first, slow = vm.rate, C * 1200 // 10**6 // 4
    waited = 1
    while vm.ticks(1) == first + waited * slow:
        waited += 1
    assert waited == pytest.approx(waits_ms * MS / T, abs=2)
    assert vm.rate - first == (waited - 1) * slow + C * 4800 // 10**6 // 4


def test_silence_is_over_after_ten_timeouts_however_small_steps_are(core: Any) -> None:
    vm = VM(core, knobs={"step-sharers": 10_000, "step-fast-ppm": 1_000_000})
    vm.state.rate = C // 2
    vm.report(1)
    vm.tick()
    assert vm.ticks(10 * 50 * MS // T - 1) < 0.51 * C
    assert vm.ticks(SECOND // T) == C


def test_four_senders_leave_the_queue_short(core: Any) -> None:
    """Fast steps in each swing, as after T_c alone, have it grow half as long again."""
    longest = {}
    for regain in (0, 300_000):
        link = Link(core, (1,) * 4, reverse=(), knobs={"regain-ppm": regain})
        link.run(1.0)
        longest[regain] = 0.0
        for _ in range(SECOND // 2 // Link.STEP):
            link.step()
            longest[regain] = max(longest[regain], link.backlog)
    assert longest[300_000] < 0.8 * longest[0], longest


def test_feedback_that_stops_leaves_nobody_low(core: Any) -> None:
    vm = cut_to_the_floor(VM(core))
    assert vm.ticks(SECOND // T) == C
    vm.report(100)
    vm.tick()
    assert vm.rate < C, "and it is heard when it resumes"


amounts = st.one_of(st.integers(0, U64_MAX), st.integers(0, 10**11))
happenings = st.lists(st.one_of(
    st.tuples(st.just("report"), st.integers(0, U32_MAX)),
    st.tuples(st.just("send"), st.integers(0, U32_MAX), st.booleans(), st.booleans()),
    st.tuples(st.just("receive"), st.integers(0, U32_MAX), st.booleans(), st.booleans()),
    st.tuples(st.just("tick"), amounts, amounts, amounts)), max_size=25)


@given(history=happenings, knobs=knob_values("hygenicc"), capacity=amounts, weight=st.integers(1, 65535),
       now_ns=amounts)
def test_rate_stays_between_floor_and_share(core: Any, history: Any, knobs: Dict[str, int], capacity: int,
                                            weight: int, now_ns: int) -> None:
    """Whatever is heard, configured or measured, and whatever the clock does."""
    share = capacity // 3
    vm = VM(core, share=share, low=share // 7, capacity=capacity, weight=weight, now_ns=now_ns, knobs=knobs)
    for kind, *values in history:
        if kind == "report":
            vm.report(values[0])
        elif kind == "send":
            vm.send(packets=values[0], echo=values[1], echo_free=values[2])
        elif kind == "receive":
            vm.receive(packets=values[0], marks=values[0], echo=values[1], echo_free=values[2])
        else:
            vm.input.share, vm.input.min = values[1], min(values[2], values[1])
            vm.tick(values[0])
        floor = max(vm.input.min, vm.input.share * knobs["rmin-ppm"] // 10**6)
        assert vm.peer(0).rate == 0
        if kind == "tick":
            assert floor <= vm.rate <= vm.input.share


@given(counts=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=40))
def test_no_mark_is_lost_or_told_twice(core: Any, counts: Any) -> None:
    """Echoed, reported and owed marks are together those received."""
    vm, received, told = VM(core), 0, 0
    for marks, back, tick in counts:
        vm.receive(marks=marks, packets=50)
        received += marks
        told += sum(vm.send() for _ in range(back))
        if tick:
            told += sum(report.marks for report in vm.tick().values())
    for _ in range(3):
        told += sum(report.marks for report in vm.tick().values())
    assert told == received


class Link:
    """Senders, a port of capacity C that marks above 30 KB and drops above 150 KB, and a receiver; 100 us RTT."""

    STEP = 25 * US

    def __init__(self, core: Any, weights: Sequence[int], reverse: Any = range(64), loss: float = 0.0,
                 low: int = 0, knobs: Optional[Dict[str, int]] = None) -> None:
        self.vms = [VM(core, weight=weight, knobs=knobs, low=low) for weight in weights]
        self.receiver = VM(core, knobs=knobs)
        self.reverse, self.loss = reverse, loss
        self.random = random.Random(1)
        self.now = SECOND
        self.backlog = 0.0
        self.credit = [0.0] * len(weights)
        self.unacked = [0] * len(weights)
        self.sent = [0] * len(weights)
        self.wire: Deque[Tuple[int, int, bool]] = deque()
        self.back: Deque[Tuple[int, int, bool]] = deque()
        self.reports: List[Tuple[int, int, int]] = []
        self.served = self.told = 0
        self.used = 0.0

    def enqueue(self, index: int) -> None:
        """Put what a sender may send in a step into the queue."""
        vm = self.vms[index]
        self.credit[index] += vm.rate * self.STEP / SECOND
        while self.credit[index] >= FULL:
            self.credit[index] -= FULL
            vm.send()
            self.sent[index] += 1
            if self.backlog + FULL > 150_000:
                continue
            self.backlog += FULL
            arrival = self.now + 50 * US + round(self.backlog / C * SECOND)
            self.wire.append((arrival, index, self.backlog > 30_000))

    def step(self) -> None:
        """Let 25 us pass."""
        self.now += self.STEP
        order = list(range(len(self.vms)))
        self.random.shuffle(order)
        for index in order:
            self.enqueue(index)
        served = min(self.backlog, C * self.STEP / SECOND)
        self.backlog -= served
        self.served += round(served)
        while self.wire and self.wire[0][0] <= self.now:
            _, index, marked = self.wire.popleft()
            self.receiver.receive(index, marks=int(marked), now_ns=self.now)
            self.unacked[index] += 1
            if index in self.reverse and self.unacked[index] == 2:
                self.unacked[index] = 0
                echo = self.receiver.send(index)
                self.told += echo
                self.back.append((self.now + 50 * US, index, echo))
        while self.back and self.back[0][0] <= self.now:
            _, index, echo = self.back.popleft()
            self.vms[index].receive(0, echo=echo)
        if self.now % T == 0:
            for vm in self.vms:
                vm.tick(self.now)
            for index, report in self.receiver.tick(self.now).items():
                if self.random.random() >= self.loss:
                    self.reports.append((self.now + 50 * US, index, report.marks))
        for at, index, marks in [one for one in self.reports if one[0] <= self.now]:
            self.vms[index].report(marks)
            self.reports.remove((at, index, marks))

    def run(self, seconds: float) -> List[float]:
        """Let time pass; return each sender's part of the link over it."""
        before, served = list(self.sent), self.served
        for _ in range(round(seconds * SECOND / self.STEP)):
            self.step()
        self.used = (self.served - served) / (C * seconds)
        return [(after - first) * FULL / (C * seconds) for after, first in zip(self.sent, before)]


def parts(shares: Sequence[float], weights: Sequence[int]) -> List[float]:
    """Return each sender's part over the part its weight stands for."""
    return [share / sum(shares) * sum(weights) / weight for share, weight in zip(shares, weights)]


@pytest.mark.parametrize("weights", [(1, 1), (1, 2, 4), (1,) * 16])
@pytest.mark.parametrize("reverse,echo", [(range(64), 1), ((), 1), ((1,), 1), (range(64), 0)])
def test_rates_go_to_the_ratio_of_weights(core: Any, weights: Sequence[int], reverse: Any, echo: int) -> None:
    """With echoes, with nothing to carry them, with both, and with echoes off; one starts on its floor."""
    link = Link(core, weights, reverse, knobs={"echo": echo})
    link.vms[0].state.rate = C // 100
    link.run(2.0 if len(weights) < 4 else 1.5)
    assert parts(link.run(0.5), weights) == pytest.approx([1.0] * len(weights), abs=0.1)
    assert link.used > 0.9
    assert (link.told > 0) == (bool(reverse) and echo == 1)


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.5])
def test_lost_reports_change_no_share(core: Any, loss: float) -> None:
    """In the mean: who misses a report is ahead until the next."""
    link = Link(core, (1, 1, 2), reverse=(), loss=loss)
    link.run(1.5)
    assert parts(link.run(3.0), (1, 1, 2)) == pytest.approx([1.0] * 3, abs=0.1)
    assert link.used > 0.9


def test_feedback_that_stops_and_resumes(core: Any) -> None:
    """Without feedback each VM returns to its share; once feedback is back, to its part of the link."""
    link = Link(core, (1, 1, 1), reverse=())
    link.run(0.3)
    link.loss = 1.0
    link.run(0.3)
    assert [vm.rate for vm in link.vms] == [C] * 3
    link.loss = 0.0
    link.run(0.5)
    assert parts(link.run(0.5), (1, 1, 1)) == pytest.approx([1.0] * 3, abs=0.1)


def test_guarantees_hold(core: Any) -> None:
    link = Link(core, (1, 1, 1), reverse=())
    link.vms[0].input.min = C // 2
    link.run(0.5)
    shares = link.run(0.5)
    assert shares[0] >= 0.49 and shares[1] == pytest.approx(shares[2], rel=0.15)
