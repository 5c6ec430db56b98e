# SPDX-License-Identifier: Apache-2.0
"""Small packets and young flows that leave ahead of a VM's bulk: who may, in what order, and how much of it."""

from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .host import FULL, MS, SECOND, TCP, Host, Outcome, address, excess

RATE = 31_250_000  # 250 Mb/s: a full packet takes 48 us, the horizon of 2 ms holds 62,500 bytes
US = 1000
SMALL = 378  # bytes of the largest packet that may whatever its flow has sent
YOUNG = 16384  # bytes after which a flow's larger packets may not
REST = 8 * MS  # after which they may again, at the default horizon
ELEVEN = 11 * FULL  # bytes that may wait whatever the horizon
HERE = address("10.0.0.1")
BULK, PING = 1, 2  # flows


def early(rate: int, horizon_ns: int = 2 * MS) -> float:
    """Return the bytes that may leave before their turns at any time."""
    return max(rate * horizon_ns / SECOND, ELEVEN) * 17 / 64


def remote(flow: int) -> bytes:
    """Return the address that a flow goes to: each has its own."""
    return address(f"10.9.{flow // 256}.{flow % 256}")


class Line:
    """A VM under a limit, some of whose packets go ahead."""

    def __init__(self, host: Host, rate: int = RATE, law: str = "static", **settings: int) -> None:
        self.host = host
        host.law(law)
        host.set(**{"ahead": 1, **settings})
        self.uplink, self.vm = host.uplink(125_000_000), host.vm(most=rate)
        self.left: List[Tuple[int, int]] = []
        self.before = 0

    def send(self, flow: int, size: int = FULL, **fields: Any) -> Outcome:
        """Send a packet of a flow now, and note when it leaves."""
        outcome = self.host.send(self.vm, self.uplink, HERE, remote(flow), bytes=size, **fields)
        if outcome.passed:
            self.left.append((self.when_ns(outcome), size))
        return outcome

    def when_ns(self, outcome: Outcome) -> int:
        """Return when a packet that passed leaves."""
        return max(outcome.departure_ns, self.host.now_ns)

    def fill(self, flow: int = BULK) -> int:
        """Let bulk of a flow that is young no more fill the queue nearly up to the horizon; return when it ends.

        What of it went ahead while the flow was young is paid then, and not counted in ``ahead``.
        """
        for _ in range(38):
            self.send(flow)
        self.host.pass_time(2 * MS)
        self.before = self.found.ahead
        last_ns = 0
        for _ in range(38):
            last_ns = self.when_ns(self.send(flow))
        assert self.ahead == 0 and last_ns >= self.host.now_ns + 1700 * US
        return last_ns

    @property
    def found(self) -> Any:
        """What the limiter counted."""
        return self.host.limiter(self.vm, self.uplink)

    @property
    def ahead(self) -> int:
        """Packets that went ahead since the queue was filled."""
        return int(self.found.ahead) - self.before

    def passes(self, flow: int, size: int = FULL) -> bool:
        """Tell whether a packet of a flow leaves at once though others wait."""
        before = self.ahead
        outcome = self.send(flow, size)
        assert (self.ahead > before) <= (outcome.departure_ns == 0)
        return self.ahead > before


def test_a_ping_does_not_wait_for_bulk_and_is_paid_for(host: Host) -> None:
    line = Line(host)
    last_ns = line.fill()
    assert line.send(PING, 98).departure_ns == 0
    assert line.ahead == 1
    # What comes next waits for the ping's 98 bytes as if it had waited itself.
    assert line.send(BULK).departure_ns == pytest.approx(last_ns + (FULL + 98) * SECOND / RATE, abs=2)


def test_without_the_setting_it_waits(host: Host) -> None:
    line = Line(host, ahead=0)
    last_ns = line.fill()
    assert line.send(PING, 98).departure_ns >= last_ns
    assert line.found.ahead == 0


def test_police_has_nothing_wait(host: Host) -> None:
    line = Line(host, limiter=0, burst_bytes=10 * FULL)
    for _ in range(40):
        line.send(BULK)
    assert [line.send(PING, 98).drop for _ in range(10)][-1] == "police"
    assert line.found.ahead == 0


@pytest.mark.parametrize("size, ahead", [(SMALL, True), (SMALL + 1, False), (FULL, False)])
def test_of_a_flow_that_has_sent_its_part_only_small_packets_do(host: Host, size: int, ahead: bool) -> None:
    line = Line(host)
    line.fill(BULK)
    host.pass_time(2 * MS)
    line.fill(BULK + 1)
    assert line.passes(BULK, size) == ahead


def test_an_answer_of_a_few_packets_does_not_wait_for_bulk(host: Host) -> None:
    """5 kB of payload with headers, at 250 Mb/s."""
    line = Line(host)
    last_ns = line.fill()
    assert [line.passes(PING, size) for size in (FULL, FULL, FULL, 922)] == [True] * 4
    assert line.send(BULK).departure_ns == pytest.approx(last_ns + (4 * FULL + 922) * SECOND / RATE, abs=3)


def test_a_flow_that_goes_on_waits_and_is_young_again_when_it_has_rested(host: Host) -> None:
    """At most 16 kB of it go ahead, however slowly they come; bulk fills the queue all the time."""
    line = Line(host)
    line.fill()

    def pass_filled(ns: int) -> None:
        for _ in range(ns // (40 * US)):
            line.send(BULK)
            host.pass_time(40 * US)

    sent = 0
    while line.passes(PING):
        sent += FULL
        pass_filled(REST // 4)
    assert YOUNG * 3 // 4 < sent < YOUNG
    for pause_ns, young in ((REST // 2, False), (REST * 3 // 4, False), (2 * MS + REST + 10 * US, True)):
        pass_filled(pause_ns)
        assert line.passes(PING) == young


def test_who_has_sent_less_goes_first(host: Host) -> None:
    """Where a flow that has sent half of its part may no more, one that begins may, and a small packet after it."""
    line = Line(host)
    line.fill()
    for _ in range(6):
        assert line.passes(100)
        for _ in range(10):
            line.send(BULK)
            host.pass_time(40 * US)
    host.pass_time(MS)
    line.fill()
    assert all(line.passes(flow) for flow in (101, 102, 103))
    assert not line.passes(100)
    assert line.passes(104)
    assert not line.passes(105)
    assert line.passes(106, SMALL)


@pytest.mark.parametrize("fields", [{"fragment": True}, {"version": 0}])
def test_what_has_no_flow_does_not(host: Host, fields: Dict[str, Any]) -> None:
    line = Line(host)
    line.fill()
    assert line.send(PING, 98, **fields).departure_ns > host.now_ns


def test_ipv6_tunnels_and_acks_do(host: Host) -> None:
    line = Line(host)
    line.fill()
    here, there = address("fd00::1"), address("fd00::2")
    assert host.send(line.vm, line.uplink, here, there, version=6, bytes=90).departure_ns == 0
    assert line.send(PING, 120, tunnel_id=7).departure_ns == 0
    assert line.send(PING + 1, 66, is_tcp=True, protocol=TCP, flags=0x10).departure_ns == 0
    assert line.ahead == 3


def test_a_flow_that_was_bulk_does_not_overtake_its_own(host: Host) -> None:
    """Its small packets wait as long as one of its packets does, and no longer."""
    line = Line(host)
    last_ns = line.fill(BULK)
    assert line.send(BULK, 60).departure_ns >= last_ns
    host.pass_time(1000 * US)
    later = line.send(BULK, 60)
    assert later.departure_ns >= last_ns
    # Times are remembered rounded up to 2^16 ns.
    while host.now_ns < later.departure_ns + 66 * US:
        assert line.send(BULK + 7).passed
        host.pass_time(48 * US)
    assert line.send(BULK, 60).departure_ns == 0


def test_the_last_packet_that_waits_is_the_one_that_counts(host: Host) -> None:
    """Two flows in turns: a flow with a packet far behind waits until that has left."""
    line = Line(host)
    for _ in range(19):
        line.send(BULK)
        line.send(BULK + 1)
    for flow in (BULK, BULK + 1):
        assert line.send(flow, 60).departure_ns > host.now_ns + 1700 * US


def test_the_part_is_bounded_and_the_rest_waits(host: Host) -> None:
    """An eighth of the horizon's bytes go ahead at once, an eighth of the rate in the long run."""
    line = Line(host)
    line.fill()
    assert sum(line.passes(flow, 60) for flow in range(100, 300)) == 130  # of 7,812 bytes
    before = line.found.ahead
    flow = 1000
    for _ in range(100):
        for _ in range(18):
            line.send(BULK)
        for _ in range(100):
            line.send(flow, 60)
            flow += 1
        host.pass_time(MS)
    assert (line.found.ahead - before) * 60 == pytest.approx(100 * MS * RATE / SECOND / 8, rel=0.03)


def test_small_packets_have_the_eighth_whoever_is_young(host: Host) -> None:
    """Bulk of flows that are new all the time leaves small packets their room."""
    line = Line(host)
    line.fill()
    flow, small = 1000, 0
    for turn in range(200):
        for _ in range(40):
            line.send(flow)
            flow += 1
        small += line.passes(PING + turn, 98)
        host.pass_time(MS)
    assert small == 200


def test_bulk_beyond_the_rate_leaves_room_for_pings(hosts: Callable[..., Host]) -> None:
    """UDP at twice the rate keeps the queue at the horizon, where without the setting a ping may find no room."""
    lost = {}
    for setting in (0, 1):
        line = Line(hosts(), ahead=setting)
        pings = []
        for turn in range(4000):
            line.send(BULK)
            if turn > 200 and turn % 19 == 0:
                pings.append(line.send(PING, 98))
            line.host.pass_time(19 * US + turn * 7919 % 10_007)
        lost[setting] = sum(bool(one.drop) for one in pings)
        if setting:
            assert not any(one.departure_ns for one in pings)
    assert lost[0] > 5 and lost[1] == 0


@pytest.mark.parametrize("size", [SMALL, SMALL + 1, FULL])
def test_ten_thousand_flows_gain_nothing(host: Host, size: int) -> None:
    """An attack: bulk of ten thousand flows in turns, small or full, at ten times the limit."""
    line = Line(host)
    start_ns = host.now_ns
    for turn in range(60_000 * SMALL // size):
        line.send(turn % 10_000, size)
        host.pass_time(1210 * size // SMALL)
    seconds = (host.now_ns - start_ns) / SECOND
    left = sum(size for when_ns, size in line.left if when_ns <= host.now_ns)
    assert left <= RATE * seconds + 3028 + early(RATE) + 1
    assert left >= 0.99 * RATE * seconds
    assert excess(line.left, RATE) <= 3028 + early(RATE) + 1


@pytest.mark.parametrize("pause_ns", [REST // 2, REST, 2 * REST])
def test_flows_that_rest_in_turns_gain_nothing(host: Host, pause_ns: int) -> None:
    """An attack: the queue is kept full by flows of which each sends what a young one may, and rests."""
    line = Line(host)
    start_ns, size = host.now_ns, FULL
    groups = max(1, pause_ns // MS)
    for turn in range(200):
        for number in range(5):
            for _ in range(10):
                line.send(10 * (turn % groups) + number, size)
        host.pass_time(MS)
    seconds = (host.now_ns - start_ns) / SECOND
    assert sum(size for when_ns, size in line.left if when_ns <= host.now_ns) >= 0.98 * RATE * seconds
    assert line.found.ahead * FULL <= (seconds + 2 * MS / SECOND) * RATE / 8
    assert excess(line.left, RATE) <= 3028 + early(RATE) + 1


@pytest.mark.parametrize("size", [60, FULL])
def test_more_flows_than_are_remembered_cost_a_wait_and_not_the_order(host: Host, size: int) -> None:
    """With 1,000 flows waiting their later packets do not overtake them."""
    line = Line(host, rate=125_000_000, horizon_ns=100 * MS, waiting_max=0)
    last: Dict[int, int] = {}
    for flow in range(1000):
        last[flow] = 0
        while last[flow] == host.now_ns or not last[flow]:
            last[flow] = line.when_ns(line.send(flow))
    for flow in range(1000):
        assert line.when_ns(line.send(flow, size)) >= last[flow]


def test_a_flow_of_small_packets_may_go_ahead_again_and_again(host: Host) -> None:
    line = Line(host)
    line.fill()
    for _ in range(200):
        assert line.send(PING, 98).departure_ns == 0
        host.pass_time(100 * US)
        line.send(BULK)
        line.send(BULK)
    assert line.ahead == 200


def test_a_cut_of_the_rate_leaves_the_debt(host: Host) -> None:
    """What went ahead at 250 Mb/s is paid by an eighth of 25, but for 2,081 bytes that may be owed at any time."""
    line = Line(host)
    line.fill()
    for flow in range(100, 230):
        assert line.send(flow, 60).departure_ns == 0
    host.configure(line.vm, most=RATE // 10)
    start_ns = host.now_ns
    flow = 1000
    while line.send(flow, 60).departure_ns != 0 or line.ahead == 130:
        line.send(BULK)
        flow += 1
        host.pass_time(100 * US)
    assert host.now_ns - start_ns == pytest.approx((7800 + 60 - ELEVEN / 8) * SECOND / (RATE / 80), rel=0.02)


def test_setting_it_knows_nobody_that_waits(host: Host) -> None:
    """Packets that waited before are not overtaken by their flow's."""
    line = Line(host, ahead=0)
    last_ns = line.fill()
    host.set(ahead=1)
    assert line.send(BULK, 60).departure_ns >= last_ns
    host.set(ahead=0)
    host.set(ahead=1)
    assert line.send(BULK, 60).departure_ns >= last_ns


def test_without_memory_all_wait_as_before(core: Any) -> None:
    """The table comes with the next period that has memory."""
    host = Host(core)
    try:
        line = Line(host, ahead=0)
        line.fill()
        core.lib.shim_host_fail_at, core.lib.shim_host_fail_count = core.lib.shim_host_allocations + 2, 1000
        host.set(ahead=1)
        assert line.send(PING, 98).departure_ns > host.now_ns
        core.lib.shim_host_fail_at = 0
        for _ in range(400):
            line.send(BULK)
            host.pass_time(40 * US)
        assert line.send(PING + 5, 98).departure_ns == 0
    finally:
        core.lib.shim_host_fail_at = 0
        host.close()


@pytest.mark.parametrize("law", ["static", "seawall"])
def test_order_and_bound_hold_whatever_comes(core: Any, effort: Any, law: str) -> None:
    steps = st.lists(st.tuples(st.one_of(st.integers(0, 20), st.integers(0, 5000)),
                               st.sampled_from([60, 100, SMALL, 700, FULL]),
                               st.one_of(st.integers(0, 150 * US), st.just(10 * MS)),
                               st.sampled_from([None] * 200 + [125_000, 2_000_000, RATE])),
                     min_size=1, max_size=250)

    @effort
    @given(steps=steps, horizon_ns=st.sampled_from([100 * US, 2 * MS, 20 * MS]),
           rate=st.sampled_from([125_000, 2_000_000, RATE]))
    def holds(steps: List[Tuple[int, int, int, Optional[int]]], horizon_ns: int, rate: int) -> None:
        host = Host(core)
        try:
            line = Line(host, rate=rate, law=law, horizon_ns=horizon_ns)
            last: Dict[int, int] = {}
            constant = True
            for flow, size, gap_ns, change in steps:
                outcome = line.send(flow, size)
                if outcome.passed:
                    # Where the rate rises packets that got their time before leave later: fq has them in order.
                    assert not constant or line.when_ns(outcome) >= last.get(flow, 0)
                    last[flow] = line.when_ns(outcome)
                host.pass_time(gap_ns)
                if change is not None and change != rate:
                    host.configure(line.vm, most=change)
                    constant = False
            if constant and law == "static":
                assert excess(line.left, rate) <= 3028 + early(rate, horizon_ns) + 1
        finally:
            host.close()

    holds()
