# SPDX-License-Identifier: Apache-2.0
"""Law scc: one tunnel's answers to reports, and divisions of tunnels against a marking link."""

import random
from typing import Any, Dict, List, Optional, Sequence

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
# What the tracker's weight of a peer counts in.
UNIT_PPM = 100
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1


class Tunnel:
    """One VM with one peer under law scc; the inputs of the law are attributes of ``input``."""

    def __init__(self, core: Any, weight_ppm: int = 250_000, share: int = C, low: int = 0, capacity: int = C,
                 now_ns: int = SECOND, weight: int = 1, peers: int = 1, knobs: Optional[Dict[str, int]] = None) -> None:
        ffi, lib = core.ffi, core.lib
        self.ffi = ffi
        self.law = lib.shim_law_find(b"scc")
        self.values = ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            index = lib.shim_knob_find(self.law, name.encode())
            assert index >= 0, name
            self.values[index] = value
        self.input = ffi.new("struct shim_law_input *", {
            "now_ns": now_ns, "period_ns": T, "capacity": capacity, "share": share, "min": low, "peers": peers,
            "peer_weight": weight_ppm // UNIT_PPM, "weight": weight, "knobs": self.values, "frame": 1514,
            "rx_frame": 1514})
        self.state = binding.limiter(self.law)
        self.peer = binding.peer(self.law)
        self.law.init(self.state, self.input)
        self.law.peer_init(self.peer, self.input)

    @property
    def rate(self) -> int:
        return int(self.peer.rate)

    def send(self, count: int) -> None:
        packet = self.ffi.new("struct shim_law_packet *", {"now_ns": self.input.now_ns, "knobs": self.values,
                                                           "bytes": count, "packets": 1})
        self.law.on_tx(self.peer, packet)

    def receive(self, packets: int, marks: int) -> None:
        packet = self.ffi.new("struct shim_law_packet *", {"now_ns": self.input.now_ns, "knobs": self.values,
                                                           "bytes": 1514, "packets": packets, "marks": marks})
        self.law.on_rx(self.peer, packet)

    def period(self, every_ns: int = T, vm: bool = True) -> Optional[Any]:
        """Let a period pass; return the report made, if any."""
        self.input.now_ns = min(self.input.now_ns + every_ns, U64_MAX)
        if vm:
            self.law.on_period(self.state, self.input)
        report = self.ffi.new("struct shim_message *")
        return report if self.law.on_peer_period(self.peer, self.state, self.input, report) else None

    def report(self, packets: int, marks: int, interval_ns: int = T) -> int:
        message = self.ffi.new("struct shim_message *", {"type": 3, "version": 1, "packets": packets, "marks": marks,
                                                         "interval_ns": interval_ns})
        self.law.on_report(self.peer, self.state, self.input, message)
        return self.rate


def test_starts_at_the_share_and_follows_it_until_marked(core: Any) -> None:
    tunnel = Tunnel(core, share=C // 2)
    assert tunnel.rate == tunnel.state.rate == C // 2
    tunnel.input.share = C
    tunnel.period()
    assert tunnel.rate == tunnel.state.rate == C
    tunnel.input.share = C // 4
    tunnel.period()
    assert tunnel.rate == tunnel.state.rate == C // 4


def test_the_first_full_report_costs_a_quarter(core: Any) -> None:
    """As with DCTCP, alpha starts at 1."""
    assert Tunnel(core).report(100, 100) == C * 3 // 4


def test_alpha_follows_the_marked_part(core: Any) -> None:
    tunnel = Tunnel(core)
    for _ in range(400):
        tunnel.input.now_ns += T
        tunnel.report(100, 0)
    assert tunnel.rate == C
    for _ in range(2000):
        tunnel.peer.rate = C
        tunnel.input.now_ns += T
        tunnel.report(1000, 200)
    assert C - tunnel.rate == pytest.approx(0.05 * C, rel=0.01)


def test_more_marks_than_packets_are_all(core: Any) -> None:
    assert Tunnel(core).report(1, U32_MAX) == C * 3 // 4


@pytest.mark.parametrize("packets,marks", [(0, 0), (0, 100), (100, 0)])
def test_reports_that_cut_nothing(core: Any, packets: int, marks: int) -> None:
    assert Tunnel(core).report(packets, marks) == C


def test_reports_lost_before_one_count_like_it(core: Any) -> None:
    """One heard 3 T late whose own interval is T stands for three; but never more than the knob allows."""
    for late, cuts in ((1, 1), (2, 2), (3, 3), (5, 3), (50, 3)):
        tunnel = Tunnel(core)
        tunnel.report(100, 0)
        binding.own(tunnel.law, tunnel.peer).alpha = 100_000
        tunnel.input.now_ns += late * T
        assert C - tunnel.report(100, 10) == pytest.approx(0.025 * C * cuts, rel=0.01)


def test_a_pause_of_the_traffic_is_no_loss(core: Any) -> None:
    tunnel = Tunnel(core)
    tunnel.report(100, 0)
    binding.own(tunnel.law, tunnel.peer).alpha = 100_000
    tunnel.input.now_ns += 50 * T
    assert C - tunnel.report(100, 10, interval_ns=50 * T) == pytest.approx(0.025 * C, rel=0.01)


def test_steps_go_by_weight_and_double_in_silence(core: Any) -> None:
    for ppm in (1_000, 250_000, 1_000_000):
        tunnel = Tunnel(core, weight_ppm=ppm, knobs={"due-ppm": 0})
        tunnel.report(100, 100)
        before = tunnel.rate
        tunnel.period()
        assert tunnel.rate - before == pytest.approx(C // 10 * ppm // 10**6, abs=1)
    tunnel = Tunnel(core, weight_ppm=10_000, knobs={"regain-ppm": 0})
    tunnel.report(100, 100)
    steps = []
    for _ in range(60):
        before = tunnel.rate
        tunnel.period()
        steps.append(tunnel.rate - before)
    assert [steps[i] for i in (0, 20, 40)] == [C // 1000, 2 * (C // 1000), 4 * (C // 1000)]


@pytest.mark.parametrize("part, waits", [(500, 20), (20, 50), (10, 100)])
def test_steps_are_single_until_they_have_doubled_what_marks_left(core: Any, part: int, waits: int) -> None:
    """By steps of C / 1000 each T, but for the quiet time at least."""
    tunnel = Tunnel(core, weight_ppm=10_000, knobs={"due-ppm": 0})
    tunnel.peer.rate = C // part * 4 // 3
    first, step, waited = tunnel.report(100, 100), C // 1000, 0
    assert first == pytest.approx(C / part, rel=0.001)
    while tunnel.rate == first + waited * step:
        tunnel.period()
        waited += 1
    assert waited == pytest.approx(waits + 1, abs=1)
    assert tunnel.rate - first >= (waited - 1) * step + 2 * step


def test_silence_leaves_no_tunnel_of_little_weight_low(core: Any) -> None:
    """Single steps of C / 10^6 each T would need 2 s to double what the floor leaves."""
    tunnel = Tunnel(core, weight_ppm=100, knobs={"step-ppm": 10_000})
    for _ in range(500):
        tunnel.input.now_ns += T
        tunnel.report(100, 100)
    floor = tunnel.rate
    assert floor == C // 500
    for _ in range(190):
        tunnel.period()
    assert tunnel.rate < 1.2 * floor
    for _ in range(500):
        tunnel.period()
    assert tunnel.rate == C


def test_without_a_tracker_the_vm_divides_its_weight_among_peers(core: Any) -> None:
    for weight, peers in ((1, 1), (2, 1), (1, 4), (3, 0)):
        tunnel = Tunnel(core, weight_ppm=0, weight=weight, peers=peers)
        tunnel.report(100, 100)
        before = tunnel.rate
        tunnel.period()
        assert tunnel.rate - before == pytest.approx(C // 50 * weight // 4 // max(peers, 1), abs=2)


def test_a_short_overload_does_not_cut_below_what_is_due(core: Any) -> None:
    tunnel = Tunnel(core, weight_ppm=400_000)
    for _ in range(50):
        tunnel.input.now_ns += T
        tunnel.report(100, 100)
    assert tunnel.rate == C * 95 // 100 * 4 // 10
    tunnel.peer.rate = C // 10
    assert tunnel.report(100, 100) == C // 10
    bare = Tunnel(core, weight_ppm=400_000, knobs={"due-ppm": 0})
    for _ in range(50):
        bare.input.now_ns += T
        bare.report(100, 100)
    assert bare.rate == C // 500


def test_a_narrow_link_takes_due_away_and_a_free_one_gives_it_back(core: Any) -> None:
    tunnel = Tunnel(core, weight_ppm=400_000)
    for _ in range(600):
        tunnel.report(100, 100)
    assert tunnel.rate == C // 500
    for _ in range(700):
        tunnel.report(100, 0)
    tunnel.peer.rate = C
    for _ in range(40):
        tunnel.report(100, 100)
    assert tunnel.rate == pytest.approx(0.38 * C, rel=0.01)


def test_silence_restores_the_share_soon(core: Any) -> None:
    """Feedback stops when a tunnel of a hundredth of all weight is on its floor: E again within 500 ms."""
    tunnel = Tunnel(core, weight_ppm=10_000)
    for _ in range(500):
        tunnel.input.now_ns += T
        tunnel.report(100, 100)
    assert tunnel.rate == C // 500
    for _ in range(500):
        tunnel.period()
    assert tunnel.rate == C
    assert not tunnel.state.congested


def test_the_guarantee_is_divided_among_busy_peers_by_weight(core: Any) -> None:
    """A peer that only hears, or sends little, takes no part of it."""
    one, other = Tunnel(core, low=C // 4, weight_ppm=100_000), Tunnel(core, low=C // 4, weight_ppm=300_000)
    other.state = one.state
    tunnels = (one, other)

    def rounds(count: int, busy: Sequence[bool]) -> None:
        for _ in range(count):
            for tunnel, much in zip(tunnels, busy):
                tunnel.send(int(tunnel.rate * T / SECOND) if much else 60)
            for tunnel in tunnels:
                tunnel.period(vm=tunnel is one)
                tunnel.report(100, 100)

    rounds(300, (True, True))
    assert one.rate == pytest.approx(C // 16, rel=0.03) and other.rate == pytest.approx(3 * C // 16, rel=0.03)
    rounds(300, (True, False))
    assert one.rate == pytest.approx(C // 4, rel=0.03)


def test_reports_tell_what_came_and_over_what_time(core: Any) -> None:
    tunnel = Tunnel(core)
    assert tunnel.period() is None
    tunnel.receive(10, 3)
    tunnel.receive(5, 0)
    report = tunnel.period()
    assert (report.packets, report.marks, report.interval_ns) == (15, 3, 2 * T)
    assert tunnel.period() is None
    tunnel.receive(1, 1)
    report = tunnel.period()
    assert (report.packets, report.marks, report.interval_ns) == (1, 1, 2 * T)
    tunnel.receive(U32_MAX, U32_MAX)
    tunnel.receive(U32_MAX, U32_MAX)
    report = tunnel.period()
    assert (report.packets, report.marks) == (U32_MAX, U32_MAX)


def test_extra_and_late_calls_do_not_change_the_pace(core: Any) -> None:
    regular, eager, late = (Tunnel(core) for _ in range(3))
    for tunnel in (regular, eager, late):
        tunnel.report(100, 100)
    for _ in range(8):
        regular.period()
    for _ in range(80):
        eager.period(T // 10)
    for _ in range(4):
        late.period(2 * T)
    assert eager.rate == pytest.approx(regular.rate, abs=100)
    assert late.rate == pytest.approx(regular.rate, abs=100)
    before = regular.rate
    regular.input.now_ns -= SECOND
    regular.law.on_peer_period(regular.peer, regular.state, regular.input, regular.ffi.new("struct shim_message *"))
    assert regular.rate == before


def test_a_peer_without_a_limiter_still_reports(core: Any) -> None:
    """A VM that only listens has no limiter: its state is NULL."""
    tunnel = Tunnel(core)
    tunnel.receive(10, 10)
    report = tunnel.ffi.new("struct shim_message *")
    tunnel.input.now_ns += T
    assert tunnel.law.on_peer_period(tunnel.peer, tunnel.ffi.NULL, tunnel.input, report)
    tunnel.law.on_report(tunnel.peer, tunnel.ffi.NULL, tunnel.input, report)
    assert 0 < tunnel.rate <= C


any_u64 = st.one_of(st.integers(0, U64_MAX), st.integers(0, 10**11))
any_u32 = st.one_of(st.integers(0, U32_MAX), st.integers(0, 2000))
steps = st.lists(st.one_of(
    st.tuples(st.just("report"), any_u32, any_u32, any_u64),
    st.tuples(st.just("traffic"), any_u32, any_u32, any_u32),
    st.tuples(st.just("period"), any_u64, any_u64, any_u64)), max_size=25)


@given(history=steps, knobs=knob_values("scc"), capacity=any_u64, weight=st.integers(1, 65535), ppm=any_u32,
       peers=any_u32, now_ns=any_u64)
def test_rate_stays_between_floor_and_share(core: Any, history: Any, knobs: Dict[str, int], capacity: int,
                                            weight: int, ppm: int, peers: int, now_ns: int) -> None:
    """Whatever is heard, configured or measured, and whatever the clock does; a lone busy peer has the guarantee."""
    share = capacity // 3
    tunnel = Tunnel(core, ppm, share=share, low=share // 7, capacity=capacity, weight=weight, peers=peers,
                    now_ns=now_ns, knobs=knobs)
    tunnel.input.peer_weight = ppm
    for kind, *values in history:
        if kind == "report":
            before = tunnel.rate
            assert tunnel.report(*values) <= max(before, tunnel.input.min)
        elif kind == "traffic":
            tunnel.send(values[0])
            tunnel.receive(values[1], values[2])
        else:
            tunnel.input.now_ns, tunnel.input.share = values[0], values[1]
            tunnel.input.min = min(values[2], values[1])
            report = tunnel.period(0)
            assert report is None or report.packets > 0
            assert tunnel.state.rate == tunnel.input.share
        floor = max(tunnel.input.min, tunnel.input.share * knobs["rmin-ppm"] // 10**6)
        assert floor <= tunnel.rate <= tunnel.input.share


def fluid(tunnels: List[Tunnel], seconds: float, lost: float = 0.0, seed: int = 1, link: int = C) -> List[float]:
    """A port of that capacity that marks above 30 KB of queue; return each tunnel's mean rate in the second half.

    Packets are marked when they meet the queue above its threshold, ten times a period; reports are lost at random.
    """
    queue, rounds, slots = 0.0, int(seconds * SECOND / T), 10
    sums = [0.0] * len(tunnels)
    dice = random.Random(seed)
    for number in range(rounds):
        marked = 0
        for _ in range(slots):
            more = (sum(tunnel.rate for tunnel in tunnels) - link) * T / SECOND / slots
            queue = min(150_000.0, max(0.0, queue + more))
            marked += queue > 30_000
        for index, tunnel in enumerate(tunnels):
            packets = max(round(tunnel.rate * T / SECOND / PACKET * slots), slots)
            tunnel.send(int(tunnel.rate * T / SECOND))
            tunnel.period()
            if dice.random() >= lost:
                tunnel.report(packets, packets * marked // slots)
            if number >= rounds // 2:
                sums[index] += tunnel.rate / (rounds - rounds // 2)
    return sums


@pytest.mark.parametrize("lost", [0.0, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("divisions", [((1,), (1,)), ((2,), (1,)), ((4, 1), (1, 1, 1, 1)), ((1,) * 8, (2,) * 8)])
def test_divisions_hold_their_weights(core: Any, divisions: Sequence[Sequence[int]], lost: float) -> None:
    """Two divisions of weights 3 and 1, whatever their tunnels' number, reference weights and lost reports."""
    wanted = (0.75, 0.25)
    tunnels = [[Tunnel(core, round(part * 10**6 * reference / sum(references))) for reference in references]
               for part, references in zip(wanted, divisions)]
    flat = [tunnel for division in tunnels for tunnel in division]
    for _ in range(20):
        flat[0].report(100, 100)  # one starts on its floor
    means = fluid(flat, 20 if lost == 0.5 else 4, lost)
    total = sum(means)
    assert 0.85 * C < total < 1.1 * C
    first = sum(means[:len(tunnels[0])]) / total
    assert first == pytest.approx(0.75, rel=0.1)
    assert 1 - first == pytest.approx(0.25, rel=0.1)
    for references, means_of in zip(divisions, (means[:len(tunnels[0])], means[len(tunnels[0]):])):
        for reference, mean in zip(references, means_of):
            assert mean / sum(means_of) == pytest.approx(reference / sum(references), rel=0.15)


@pytest.mark.parametrize("part", [0.3, 0.5, 0.8])
def test_weights_hold_on_a_link_narrower_than_the_uplinks(core: Any, part: float) -> None:
    """What is due of C is more than the link has, until it is seen to be narrow."""
    tunnels = [Tunnel(core, 667_000), Tunnel(core, 333_000)]
    means = fluid(tunnels, 8, link=int(part * C))
    assert means[0] / sum(means) == pytest.approx(0.667, rel=0.1)
    assert sum(means) < (1.1 if part > 0.4 else 1.4) * part * C


def test_weights_hold_where_they_add_up_to_more_than_one(core: Any) -> None:
    tunnels = [Tunnel(core, ppm) for ppm in (400_000,) * 2 + (200_000,) * 6]
    means = fluid(tunnels, 8)
    assert sum(means[:2]) / sum(means) == pytest.approx(0.4, rel=0.1)
    assert sum(means) < 1.1 * C


def test_who_loses_reports_gains_little(core: Any) -> None:
    """Half of one tunnel's reports lost, none of the other's: shares stay within a fifth."""
    tunnels = [Tunnel(core, 500_000), Tunnel(core, 500_000)]
    tunnel, real = tunnels[0], tunnels[0].report
    dice = random.Random(2)
    tunnel.report = lambda *values: real(*values) if dice.random() < 0.5 else tunnel.rate  # type: ignore[method-assign]
    means = fluid(tunnels, 4)
    assert means[0] / sum(means) == pytest.approx(0.5, rel=0.2)


def test_the_literal_equations_do_not_converge(core: Any) -> None:
    """Why steps are added: with (1) and (2) a tunnel that starts low stays low."""
    tunnels = [Tunnel(core, 50_000, knobs={"literal": 1}) for _ in range(2)]
    for tunnel, rate in zip(tunnels, (C // 20, C // 2)):
        tunnel.report(100, 100)
        tunnel.peer.rate = rate
    means = fluid(tunnels, 4)
    assert means[1] > 3 * means[0]


def test_a_newcomer_gets_its_part_within_half_a_second(core: Any) -> None:
    tunnels = [Tunnel(core, 500_000), Tunnel(core, 500_000)]
    for _ in range(100):
        tunnels[1].report(100, 100)
    means = fluid(tunnels, 0.5)
    assert means[1] / sum(means) == pytest.approx(0.5, rel=0.2)


def test_cuts_leave_a_tunnel_bounded(core: Any) -> None:
    """Without a floor, too: a tunnel with a rate of 0 would have none."""
    tunnel = Tunnel(core, knobs={"literal": 1, "rmin-ppm": 0, "gain-ppm": 1})
    for _ in range(100):
        tunnel.report(100, 100)
    assert tunnel.rate == 125
