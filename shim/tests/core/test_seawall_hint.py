# SPDX-License-Identifier: Apache-2.0
"""Law seawall's window hint: how many flows a tunnel counts, what each may read, and what that does to the queue."""

from typing import Any, Dict, List, Optional, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

from .connection import ACK, MSS, SECOND, SYN, WRAP, Flow
from .drawn import knob_values

MS = 10**6
RATE = 125_000_000
WINDOW_MAX = 65535 << 14
U32, U64 = 2**32 - 1, 2**64 - 1


class Tunnel:
    """A tunnel of `rate` bytes/s and its flows, each with a round trip and the bytes that it has in flight."""

    def __init__(self, core: Any, rtts_ns: Sequence[int], rate: int = RATE, horizon_ns: int = 0,
                 knobs: Optional[Dict[str, int]] = None) -> None:
        self.core, self.law = core, core.lib.shim_law_find(b"seawall")
        self.flows = [Flow(core, knobs, law="seawall") for _ in rtts_ns]
        for flow, rtt_ns in zip(self.flows, rtts_ns):
            flow.connect()
            flow.out(payload=MSS)
            flow.state.rtt_ns = rtt_ns
        self.values = Flow(core, knobs, law="seawall").values
        self.peer = binding.peer(self.law)
        self.peer.rate = rate
        self.state = binding.limiter(self.law)
        self.input = core.ffi.new("struct shim_law_input *", {
            "now_ns": SECOND, "period_ns": 10 * MS, "capacity": rate, "share": rate, "weight": 1, "peers": 1,
            "horizon_ns": horizon_ns, "knobs": self.values})

    def fly(self, flights: Sequence[int]) -> None:
        """Say what the flows have in flight, and that they just sent."""
        for flow, flight in zip(self.flows, flights):
            flow.state.peak = flight
            flow.state.sent_ns = self.input.now_ns

    def step(self) -> List[int]:
        """Let periods pass until the flows take their step; return the windows, 0 for none."""
        for _ in range(3):
            self.input.now_ns += 10 * MS
            self.law.on_peer_period(self.peer, self.core.ffi.NULL, self.input,
                                    self.core.ffi.new("struct shim_message *"))
        for flow in self.flows:
            self.law.on_flow_period(flow.state, self.peer, self.state, self.input)
        return [int(flow.own.limit) for flow in self.flows]

    def settle(self, wants: Sequence[int], steps: int = 400) -> List[int]:
        """Let flows use their windows as far as each wants to; return the windows in the end."""
        windows = [WINDOW_MAX] * len(self.flows)
        for _ in range(steps):
            self.fly([min(window or WINDOW_MAX, want) for window, want in zip(windows, wants)])
            windows = self.step()
        return windows


def test_one_flow_gets_rate_times_round_trip_and_queue(core: Any) -> None:
    assert Tunnel(core, [MS]).settle([WINDOW_MAX]) == [RATE * 2 // 1000]
    assert Tunnel(core, [MS], knobs={"hint": 3 * MS}).settle([WINDOW_MAX]) == [RATE * 4 // 1000]


def test_half_of_the_horizon_bounds_the_queue(core: Any) -> None:
    """A queue as long as the horizon would be one that drops."""
    assert Tunnel(core, [MS // 4], horizon_ns=MS).settle([WINDOW_MAX]) == [RATE * 3 // 4000]
    assert Tunnel(core, [MS], horizon_ns=10 * MS).settle([WINDOW_MAX]) == [RATE * 2 // 1000]


def test_a_round_trip_beyond_half_of_the_horizon_loosens_the_bound(core: Any) -> None:
    assert Tunnel(core, [MS], horizon_ns=2 * MS).settle([WINDOW_MAX]) == [RATE * 2 // 1000]
    assert Tunnel(core, [2 * MS], horizon_ns=2 * MS).settle([WINDOW_MAX]) == [RATE * 5 // 1000]
    assert Tunnel(core, [5 * MS], horizon_ns=2 * MS).settle([WINDOW_MAX]) == [RATE * 26 // 1000]


def test_windows_rise_slowly_and_fall_at_once(core: Any) -> None:
    tunnel = Tunnel(core, [MS])
    (before,) = tunnel.settle([WINDOW_MAX])
    tunnel.peer.rate = 2 * RATE
    tunnel.fly([before])
    assert tunnel.step() == [before + before // 16]
    assert tunnel.settle([WINDOW_MAX]) == [2 * before]
    tunnel.peer.rate = RATE // 4
    tunnel.fly([before])
    assert tunnel.step() == [before // 4]


def test_busy_flows_share(core: Any) -> None:
    assert Tunnel(core, [MS] * 4).settle([WINDOW_MAX] * 4) == [RATE * 2 // 1000 // 4] * 4


def test_a_longer_round_trip_has_a_larger_window_for_the_same_rate(core: Any) -> None:
    near, far = Tunnel(core, [MS, 9 * MS]).settle([WINDOW_MAX] * 2)
    assert near == RATE * 2 // 1000 // 2 and far == RATE * 10 // 1000 // 2


def test_quiet_flows_leave_their_part(core: Any) -> None:
    """But for 2 to 4 times what they use; each might have half, as one of two busy ones."""
    windows = Tunnel(core, [MS] * 10).settle([WINDOW_MAX] + [1000] * 9)
    assert RATE * 2 // 1000 - 9 * 4 * 1000 <= windows[0] <= RATE * 2 // 1000 - 9 * 2 * 1000
    assert all(window == pytest.approx(windows[0] / 2, rel=0.1) for window in windows[1:])


def test_a_silent_flow_is_not_counted_but_told(core: Any) -> None:
    tunnel = Tunnel(core, [MS] * 2)
    tunnel.settle([WINDOW_MAX] * 2)
    for _ in range(100):
        tunnel.flows[0].state.sent_ns = tunnel.input.now_ns
        windows = tunnel.step()
    assert windows == [RATE * 2 // 1000, RATE * 2 // 1000 // 2]


def test_a_queue_of_six_packets_at_least(core: Any) -> None:
    """At a low rate a time is less than the packets that a limiter holds anyway."""
    assert Tunnel(core, [MS], rate=10**6).settle([WINDOW_MAX]) == [1000 + 6 * MSS]


def test_four_packets_at_least(core: Any) -> None:
    """Fewer would leave no duplicate ACKs to find a loss by."""
    assert Tunnel(core, [MS] * 200).settle([WINDOW_MAX] * 200, 5) == [4 * MSS] * 200


@pytest.mark.parametrize("what", ["hint", "rate", "rtt", "peer"])
def test_what_is_not_known_bounds_nothing(core: Any, what: str) -> None:
    """No hint wanted, a tunnel without a rate, a flow without a round trip, a VM with too many peers."""
    tunnel = Tunnel(core, [0 if what == "rtt" else MS], 0 if what == "rate" else RATE,
                    knobs={"hint": 0} if what == "hint" else None)
    if what == "peer":
        tunnel.peer = core.ffi.NULL
        flow = tunnel.flows[0]
        flow.own.limit = 7
        tunnel.law.on_flow_period(flow.state, tunnel.peer, tunnel.state, tunnel.input)
        assert flow.own.limit == 0
        return
    assert tunnel.settle([WINDOW_MAX]) == [0]


def test_the_window_is_written_into_acks_alone(core: Any) -> None:
    flow = Flow(core, law="seawall")
    syn, reply = flow.connect()
    assert syn.window == 500 and reply.window == 65535 and (syn.flags, reply.flags) == (SYN, SYN | ACK | 0x40)
    flow.own.limit = 6 * MSS
    flow.fill(0, 10)
    assert flow.into(ack=0).window == -(-10 * MSS // 128)  # what is in flight is not taken back
    assert flow.into(ack=6 * MSS).window == -(-6 * MSS // 128)
    assert flow.into(ack=6 * MSS, window=3).window == 3
    assert flow.into(0x04, ack=6 * MSS).window == flow.into(0x14, ack=6 * MSS).window == 65535
    flow.own.limit = 0
    assert flow.into(ack=7 * MSS).window == 65535


def test_an_ack_lets_no_burst_go(core: Any) -> None:
    """What is granted grows by what was acknowledged, and shrinks by half of that."""
    flow = Flow(core, law="seawall")
    flow.connect()
    flow.fill(0, 20)
    flow.own.limit = 100 * MSS
    assert flow.into(ack=MSS).window == -(-(19 + 10 + 1) * MSS // 128)
    assert flow.into(ack=3 * MSS).window == -(-32 * MSS // 128)
    flow.own.limit = 10 * MSS
    assert flow.into(ack=11 * MSS).window == -(-28 * MSS // 128)
    flow.fill(20 * MSS, 12)
    assert flow.into(ack=31 * MSS).window == -(-18 * MSS // 128)
    assert flow.into(ack=32 * MSS).window == -(-35 * MSS // 256)


def test_without_the_knob_no_flow_is_followed(core: Any) -> None:
    law, lib = core.lib.shim_law_find(b"seawall"), core.lib
    values = core.ffi.new("u64[]", [law.knobs[i].value for i in range(law.n_knobs)])
    assert lib.shim_law_wants(law, values) == lib.SHIM_LAW_PEERS | lib.SHIM_LAW_FLOWS
    values[lib.shim_knob_find(law, b"hint")] = 0
    assert lib.shim_law_wants(law, values) == lib.SHIM_LAW_PEERS
    vcc = lib.shim_law_find(b"vcc")
    zeros = core.ffi.new("u64[]", int(vcc.n_knobs))
    assert lib.shim_law_wants(vcc, zeros) == lib.SHIM_LAW_FLOWS | lib.SHIM_LAW_ECN


def queue_ns(flights: Sequence[int], rtts_ns: Sequence[int], rate: int) -> float:
    """Return the time in a queue served at `rate` that holds what the round trips do not."""
    low, high = 0.0, sum(flights) / rate * SECOND
    if sum(flight / rtt for flight, rtt in zip(flights, rtts_ns)) * SECOND <= rate:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        sent = sum(flight / (rtt + middle) for flight, rtt in zip(flights, rtts_ns)) * SECOND
        low, high = (middle, high) if sent > rate else (low, middle)
    return high


flow_ways = st.tuples(st.integers(50_000, 20 * MS), st.one_of(st.just(WINDOW_MAX), st.integers(1, 200_000)))


@given(ways=st.lists(flow_ways, min_size=1, max_size=20), rate=st.integers(10**6, 10**10),
       hint=st.integers(MS // 10, 10 * MS))
def test_the_queue_holds_what_windows_allow_and_the_rate_is_used(core: Any, ways: Any, rate: int, hint: int) -> None:
    """At rest the queue is no longer than the hint; flows that could use the rate alone use half of it at least."""
    rtts, wants = [way[0] for way in ways], [way[1] for way in ways]
    tunnel = Tunnel(core, rtts, rate, knobs={"hint": hint})
    windows = tunnel.settle(wants)
    flights = [min(window, want) for window, want in zip(windows, wants)]
    if all(window > 4 * MSS for window in windows):
        allowed = max(hint, 6 * MSS * SECOND / rate)
        assert queue_ns(flights, rtts, rate) <= allowed * 1.02 + 2 * SECOND * len(ways) / rate
    used = min(1.0, sum(flight / rtt for flight, rtt in zip(flights, rtts)) * SECOND / rate)
    if any(want == WINDOW_MAX and rate * (rtt + hint) < WINDOW_MAX * SECOND for rtt, want in ways):
        assert used >= 0.49
        if all(hint >= 1.1 * rtt for rtt in rtts):
            assert used >= 0.99


@given(rate=st.integers(0, U64), rtts=st.lists(st.integers(0, U64), min_size=1, max_size=4),
       peak=st.integers(0, U32), count=st.integers(0, U64), knobs=knob_values("seawall"), limit=st.integers(0, U32),
       horizon=st.integers(0, U64))
def test_nothing_overflows(core: Any, rate: int, rtts: List[int], peak: int, count: int, knobs: Dict[str, int],
                           limit: int, horizon: int) -> None:
    """Whatever is kept of the tunnel, a window is none, or from 4 packets to the largest there is."""
    tunnel = Tunnel(core, rtts, horizon_ns=horizon, knobs=knobs)
    for index in range(tunnel.law.n_knobs):
        tunnel.values[index] = knobs[core.ffi.string(tunnel.law.knobs[index].name).decode()]
    tunnel.peer.rate = rate
    kept = binding.own(tunnel.law, tunnel.peer)
    kept.flows_counted, kept.flows = divmod(count, U32 + 1)
    tunnel.fly([peak] * len(rtts))
    for flow in tunnel.flows:
        flow.own.limit = limit
        tunnel.law.on_flow_period(flow.state, tunnel.peer, tunnel.state, tunnel.input)
        assert flow.own.limit == 0 or 4 * MSS <= flow.own.limit <= WINDOW_MAX
    assert tunnel.peer.rate == rate


@given(segments=st.lists(st.tuples(st.booleans(), st.integers(0, 0x1FF), st.integers(0, U32), st.integers(0, U32),
                                   st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 255),
                                   st.integers(0, 3), st.integers(0, SECOND)), max_size=40),
       limit=st.integers(0, 2**30))
def test_fuzzed_segments(core: Any, segments: Any, limit: int) -> None:
    """Nothing is written but smaller windows into ACKs for the guest."""
    flow = Flow(core, law="seawall")
    flow.connect()
    for out, flags, seq, ack, payload, window, scale, ecn, wait in segments:
        flow.now_ns += wait
        flow.own.limit = limit
        segment = flow.segment(flags, seq, ack, payload, window, ecn, scale, 1460)
        segment.wait_ns = wait
        before = bytes(core.ffi.buffer(segment))
        (flow.law.on_segment_out if out else flow.law.on_segment_in)(flow.state, segment)
        assert segment.window <= window
        if out or flags & (SYN | 0x04) or not flags & ACK or not limit:
            assert segment.window == window
        segment.window = window
        assert bytes(core.ffi.buffer(segment)) == before
        assert flow.state.rtt_ns <= 41 * SECOND


@given(isn=st.integers(0, WRAP - 1))
def test_sequence_numbers_may_wrap(core: Any, isn: int) -> None:
    flow = Flow(core, law="seawall", isn=isn)
    flow.connect()
    flow.own.limit = 8 * MSS
    flow.fill(0, 4)
    assert flow.into(ack=4 * MSS).window == -(-8 * MSS // 128)
