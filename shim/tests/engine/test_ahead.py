# SPDX-License-Identifier: Apache-2.0
"""Small packets that leave ahead of a VM's bulk: who may, in what order, and how much of it."""

from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .host import FULL, MS, SECOND, TCP, Host, Outcome, address, excess

RATE = 31_250_000  # 250 Mb/s: a full packet takes 48 us, the horizon of 2 ms holds 62,500 bytes
US = 1000
SMALL = 378  # bytes of the largest packet that may
ELEVEN = 11 * FULL  # bytes that may wait whatever the horizon
HERE = address("10.0.0.1")
BULK, PING = 1, 2  # flows


def remote(flow: int) -> bytes:
    """Return the address that a flow goes to: each has its own."""
    return address(f"10.9.{flow // 256}.{flow % 256}")


class Line:
    """A VM under a limit, whose small packets go ahead."""

    def __init__(self, host: Host, rate: int = RATE, law: str = "static", **settings: int) -> None:
        self.host = host
        host.law(law)
        host.set(**{"ahead": 1, **settings})
        self.uplink, self.vm = host.uplink(125_000_000), host.vm(most=rate)
        self.left: List[Tuple[int, int]] = []

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
        """Let bulk fill the queue nearly up to the horizon, and return when its last packet leaves."""
        last_ns = 0
        for _ in range(38):
            last_ns = self.when_ns(self.send(flow))
        assert last_ns >= self.host.now_ns + 1700 * US
        return last_ns

    @property
    def found(self) -> Any:
        """What the limiter counted."""
        return self.host.limiter(self.vm, self.uplink)


def test_a_ping_does_not_wait_for_bulk_and_is_paid_for(host: Host) -> None:
    line = Line(host)
    last_ns = line.fill()
    assert line.send(PING, 98).departure_ns == 0
    assert line.found.ahead == 1
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
def test_only_small_packets_do(host: Host, size: int, ahead: bool) -> None:
    line = Line(host)
    line.fill()
    assert (line.send(PING, size).departure_ns == 0) == ahead


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
    assert line.found.ahead == 3


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
    """7/8 of a sixteenth of the horizon's bytes go ahead at once, a sixteenth of the rate in the long run."""
    line = Line(host)
    line.fill()
    at_once = 0
    for flow in range(100, 200):
        at_once += line.send(flow, 60).departure_ns == 0
    assert at_once == 56  # of 3,418 bytes
    before = line.found.ahead
    flow = 1000
    for _ in range(100):
        for _ in range(18):
            line.send(BULK)
        for _ in range(60):
            line.send(flow, 60)
            flow += 1
        host.pass_time(MS)
    assert (line.found.ahead - before) * 60 == pytest.approx(100 * MS * RATE / SECOND / 16, rel=0.03)


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


def test_ten_thousand_flows_gain_nothing(host: Host) -> None:
    """An attack: bulk in small packets, each of another flow, at ten times the limit."""
    line = Line(host)
    start_ns = host.now_ns
    for turn in range(60_000):
        line.send(turn % 10_000, SMALL)
        host.pass_time(1210)
    seconds = (host.now_ns - start_ns) / SECOND
    left = sum(size for when_ns, size in line.left if when_ns <= host.now_ns)
    assert left <= RATE * seconds + 3028 + RATE * 2 * MS / SECOND / 8 + 1
    assert left >= 0.99 * RATE * seconds
    assert excess(line.left, RATE) <= 3028 + RATE * 2 * MS / SECOND / 8 + 1


def test_more_flows_than_are_remembered_cost_a_wait_and_not_the_order(host: Host) -> None:
    """With 1,000 flows waiting their small packets do not overtake them."""
    line = Line(host, rate=125_000_000, horizon_ns=100 * MS, waiting_max=0)
    last: Dict[int, int] = {}
    for flow in range(1000):
        last[flow] = line.when_ns(line.send(flow))
    for flow in range(1000):
        assert line.when_ns(line.send(flow, 60)) >= last[flow]


def test_a_flow_of_small_packets_may_go_ahead_again_and_again(host: Host) -> None:
    line = Line(host)
    line.fill()
    for _ in range(200):
        assert line.send(PING, 98).departure_ns == 0
        host.pass_time(100 * US)
        line.send(BULK)
        line.send(BULK)
    assert line.found.ahead == 200


def test_a_cut_of_the_rate_leaves_the_debt(host: Host) -> None:
    """What went ahead at 250 Mb/s is paid by a sixteenth of 25, but for 911 bytes that may be owed at any time."""
    line = Line(host)
    line.fill()
    for flow in range(100, 156):
        assert line.send(flow, 60).departure_ns == 0
    host.configure(line.vm, most=RATE // 10)
    start_ns = host.now_ns
    flow = 1000
    while line.send(flow, 60).departure_ns != 0 or line.found.ahead == 56:
        line.send(BULK)
        flow += 1
        host.pass_time(100 * US)
    assert host.now_ns - start_ns == pytest.approx((3360 + 60 - ELEVEN * 7 / 128) * SECOND / (RATE / 160), rel=0.02)


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
    steps = st.lists(st.tuples(st.integers(0, 20), st.sampled_from([60, 100, SMALL, 700, FULL]),
                               st.integers(0, 150 * US), st.sampled_from([None] * 200 + [125_000, 2_000_000, RATE])),
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
                assert excess(line.left, rate) <= 3028 + max(rate * horizon_ns / SECOND, ELEVEN) / 8 + 1
        finally:
            host.close()

    holds()
