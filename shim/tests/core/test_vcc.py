# SPDX-License-Identifier: Apache-2.0
"""Law vcc: what it writes into segments, how its virtual window moves, and what it never does."""

from typing import Any, Dict, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

from .connection import ACK, CWR, ECE, MSS, NO_SCALE, NOT_ECT, SECOND, SYN, WRAP, Flow

MS = 10**6
FIN, RST, AE = 0x01, 0x04, 0x100
ECT_1, ECT_0, CE = 1, 2, 3


def is_(flow: Flow, name: str) -> bool:
    return bool(flow.core.ffi.typeof("enum shim_flow_ecn").elements[flow.ecn] == f"SHIM_FLOW_{name}")


def test_the_shim_asks_for_a_guest_that_does_not_and_hides_it(core: Any) -> None:
    flow = Flow(core)
    syn, reply = flow.connect()
    assert syn.flags == SYN | ECE | CWR and reply.flags == SYN | ACK
    assert syn.ecn == NOT_ECT and is_(flow, "VIRTUAL")
    data = flow.out(payload=MSS)
    assert data.ecn == ECT_0 and data.flags == ACK
    assert flow.out(seq=MSS).ecn == NOT_ECT  # a pure ACK is nobody's data
    heard = flow.into(ACK | ECE, ack=MSS)
    assert heard.flags == ACK
    assert flow.out(seq=MSS, payload=MSS).flags == ACK | CWR
    assert flow.out(seq=2 * MSS, payload=MSS).flags == ACK


@pytest.mark.parametrize("answer", [0, ECE | CWR, ECE | AE, AE])
def test_a_peer_that_refuses_or_mirrors(core: Any, answer: int) -> None:
    flow = Flow(core)
    flow.connect(answer=answer)
    assert is_(flow, "PLAIN")
    assert flow.out(payload=MSS).ecn == NOT_ECT
    assert flow.into(ACK | ECE, ack=MSS, window=400).window == 400


@pytest.mark.parametrize("asks", [ECE | CWR, ECE | CWR | AE])
def test_a_guest_that_asks_itself_is_left_alone(core: Any, asks: int) -> None:
    flow = Flow(core)
    syn, reply = flow.connect(asks=asks)
    assert syn.flags == SYN | asks and reply.flags == SYN | ACK | ECE and is_(flow, "OWN")
    flow.fill(0, 10)
    heard = flow.into(ACK | ECE, ack=MSS)
    assert heard.flags == ACK | ECE and heard.window == 65535
    assert flow.into(payload=100, ecn=CE).ecn == CE
    assert flow.into(payload=100, ecn=ECT_1).ecn == ECT_1


def test_a_peer_with_accurate_ecn_falls_back_for_a_guest_without(core: Any) -> None:
    """ECE alone is the classic answer, which such a peer obeys; the other way round it is the peer's."""
    flow = Flow(core)
    syn, reply = flow.accept(asks=ECE | CWR | AE)
    assert syn.flags == SYN | ECE | CWR | AE and reply.flags == SYN | ACK | ECE and is_(flow, "VIRTUAL")
    for asks in (AE, AE | ECE, AE | CWR):
        other = Flow(core)
        _, reply = other.accept(asks=asks)
        assert reply.flags == SYN | ACK and is_(other, "PLAIN")
    again = Flow(core, {"own-ecn": 1})
    again.connect(ECE | CWR | AE, AE)
    again.isn += 12345
    again.connect(ECE | CWR)
    again.fill(0, 10)
    assert again.into(ACK | ECE, ack=MSS).window < 65535


def test_negotiate_off(core: Any) -> None:
    flow = Flow(core, {"negotiate": 0})
    syn, _ = flow.connect(answer=0)
    assert syn.flags == SYN and is_(flow, "PLAIN")
    served = Flow(core, {"negotiate": 0})
    _, reply = served.accept()
    assert reply.flags == SYN | ACK and is_(served, "PLAIN")


def test_the_third_syn_does_not_ask(core: Any) -> None:
    """A path may drop SYNs that ask; the answer to an earlier one still counts."""
    flow = Flow(core)
    flags = [flow.out(SYN, -1, -1, scale=7, mss=1460).flags for _ in range(4)]
    assert flags == [SYN | ECE | CWR] * 2 + [SYN] * 2
    flow.into(SYN | ACK | ECE, -1, 0, scale=7, mss=1460)
    assert is_(flow, "VIRTUAL")


def test_a_guest_that_serves(core: Any) -> None:
    flow = Flow(core)
    syn, reply = flow.accept()
    assert syn.flags == SYN | ECE | CWR and reply.flags == SYN | ACK | ECE and is_(flow, "VIRTUAL")
    flow = Flow(core)
    _, reply = flow.accept(answer=ECE)
    assert reply.flags == SYN | ACK | ECE and is_(flow, "OWN")
    flow = Flow(core)
    _, reply = flow.accept(asks=0)
    assert reply.flags == SYN | ACK and is_(flow, "PLAIN")


def test_marks_are_echoed_until_cwr(core: Any) -> None:
    flow = Flow(core)
    flow.accept()
    flow.into(ecn=CE)
    assert flow.out().flags == ACK
    got = flow.into(payload=MSS, ecn=CE)
    assert got.ecn == NOT_ECT
    assert [flow.out(ack=MSS).flags for _ in range(3)] == [ACK | ECE] * 3
    assert flow.into(seq=MSS, payload=MSS, ecn=ECT_0).ecn == NOT_ECT
    assert flow.out(ack=2 * MSS).flags == ACK | ECE
    assert flow.into(ACK | CWR, seq=2 * MSS, payload=MSS, ecn=ECT_0).flags == ACK
    assert flow.out(ack=3 * MSS).flags == ACK
    flow.into(ACK | CWR, seq=3 * MSS, payload=MSS, ecn=CE)
    assert flow.out(ack=4 * MSS).flags == ACK | ECE


def test_target_dctcp_echoes_the_part_marked(core: Any) -> None:
    flow = Flow(core, {"target": 1})
    flow.accept()
    flow.out()
    echoed = 0
    for number in range(400):
        flow.into(seq=number * MSS, payload=MSS, ecn=CE if number % 4 == 0 else ECT_0)
        if number % 2:
            echoed += flow.out(ack=(number + 1) * MSS).flags == ACK | ECE
    assert echoed == pytest.approx(200 / 4, abs=2)


def drive(flow: Flow, rounds: int, marked: Any = lambda number: False) -> List[int]:
    """Let a guest use the whole window, ACK packet by packet; return the window in packets after each round."""
    ack, windows = flow.una, []
    flow.fill(ack, 10)
    sent = ack + 10 * MSS
    for number in range(rounds):
        end = sent
        while ack < end:
            ack += MSS
            flow.now_ns += 10_000
            heard = flow.into(ACK | (ECE if marked(number) else 0), ack=ack, window=65535)
            edge = ack + heard.window * 128
            while sent + MSS <= edge:
                flow.out(seq=sent, payload=MSS)
                sent += MSS
        windows.append((sent - ack) // MSS)
    return windows


def test_slow_start_then_congestion_avoidance(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    windows = drive(flow, 8, lambda number: number == 3)
    assert windows[:3] == [20, 40, 80]
    # Marked in the fourth round: half of its window after it, then one packet more each round.
    assert windows[3:] == [40, 41, 42, 43, 44]


def test_a_cut_leaves_whole_packets(core: Any) -> None:
    """Else a window of 2.9 packets, 2 in flight, would take half as long again to grow as a TCP's of 2."""
    flow = Flow(core)
    flow.connect()
    for _ in range(6):
        drive(flow, 3, lambda number: number == 0)
        assert flow.own.ssthresh % MSS == 0


def test_one_cut_a_round_trip(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    assert drive(flow, 7, lambda number: number >= 3)[3:] == [40, 20, 10, 5]
    assert drive(flow, 6, lambda number: True)[-1] == 2


def test_the_cut_is_smooth(core: Any) -> None:
    """Half is cut: one packet leaves for two acknowledged."""
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    before = int(flow.state.nxt)
    for number in range(40):
        heard = flow.into(ACK | ECE, ack=flow.una + MSS)
        while (int(flow.state.nxt) - int(flow.state.una)) % WRAP + MSS <= heard.window * 128:
            flow.out(seq=(int(flow.state.nxt) - flow.isn - 1) % WRAP, payload=MSS)
        sent = (int(flow.state.nxt) - before) // MSS
        assert sent == pytest.approx((number + 1) / 2, abs=1)


def shrink(flow: Flow, acks: List[int], marked: int) -> List[int]:
    """ACK so many packets each time, the first so many ACKs with ECE; return the packets sent after each."""
    sent = []
    for number, count in enumerate(acks):
        done = flow.una + count * MSS
        heard = flow.into(ACK | (ECE if number < marked else 0), ack=done)
        begin = (int(flow.state.nxt) - flow.isn - 1) % WRAP
        packets = max((done + heard.window * 128 - begin) // MSS, 0)
        flow.fill(begin, packets)
        sent.append(packets)
    return sent


def with_window(core: Any, packets: int, **knobs: int) -> Flow:
    """Return a flow that has a window of so many packets in flight."""
    flow = Flow(core, {"initial-window": packets, **knobs})
    flow.connect(ECE | CWR if "own-ecn" in knobs else 0)
    flow.fill(0, packets)
    flow.own.cwnd = packets * MSS
    return flow


def reduced(window: int, acks: List[int]) -> List[int]:
    """Return the packets that Linux sends after each ACK of so many (tcp_cwnd_reduction(); RFC 6937, no losses)."""
    target, flight, out, sent = max(window // 2, 2), window, 0, []
    for number, count in enumerate(acks):
        flight -= count
        proportional = -(-target * sum(acks[:number + 1]) // window) - out
        packets = max(proportional if flight > target else target - flight, 0 if out else 1)
        flight, out = flight + packets, out + packets
        sent.append(packets)
    return sent


@given(window=st.integers(2, 60), acks=st.lists(st.integers(1, 4), min_size=1, max_size=30))
def test_a_cut_is_as_linux_makes_it(core: Any, window: int, acks: List[int]) -> None:
    """Whatever the window and its ACKs: as many packets leave, after each, as a Linux guest's with ECN would send."""
    acks = [count for number, count in enumerate(acks) if sum(acks[:number + 1]) <= window]
    assert shrink(with_window(core, window), acks, len(acks)) == reduced(window, acks)


def test_cwr_leaves_at_once(core: Any) -> None:
    """More in flight than the window: the ACK with ECE lets one packet out that carries CWR, the next one none."""
    flow = with_window(core, 8)
    flow.own.cwnd = 4 * MSS
    assert shrink(flow, [1, 1], 2) == [1, 0]
    assert not flow.own.answer
    own = with_window(core, 8, **{"own-ecn": 1})
    own.own.cwnd = 4 * MSS
    assert shrink(own, [1, 1, 1, 1], 4) == [1, 0, 0, 0]


def test_losses_are_the_guests(core: Any) -> None:
    """Duplicates, retransmissions and silence leave the virtual window: the guest's own takes care of them."""
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    before = flow.own.cwnd
    for count in range(6):
        flow.into(ack=flow.una)
        flow.now_ns += SECOND
        assert flow.out(seq=flow.una + count * MSS, payload=MSS).flags == ACK
    assert flow.own.cwnd == before and not flow.own.cutting


def test_a_cut_begins_at_what_is_in_flight(core: Any) -> None:
    """After a loss the guest's own window is the lesser one; half of a virtual window that is not used cuts nothing."""
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    done = (int(flow.state.nxt) - flow.isn - 1) % WRAP
    flow.into(ack=done)
    flow.fill(done, 12)
    flow.into(ack=done + 2 * MSS)
    flow.fill(done + 12 * MSS, 2)
    flow.into(ACK | ECE, ack=done + 3 * MSS)
    assert flow.own.ssthresh == 6 * MSS


def test_cwr_is_on_new_data(core: Any) -> None:
    """A retransmission may be taken for an old packet."""
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    flow.into(ACK | ECE, ack=flow.una + MSS)
    assert flow.out(seq=flow.una, payload=MSS).flags == ACK
    assert flow.out(seq=(int(flow.state.nxt) - flow.isn - 1) % WRAP, payload=MSS).flags == ACK | CWR


def test_the_window_grows_only_while_it_is_used(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    for number in range(200):
        flow.out(seq=number * MSS, payload=MSS)
        flow.into(ack=(number + 1) * MSS)
    assert flow.own.cwnd <= 10 * 1460
    flow.fill(200 * MSS, 10)
    flow.into(ACK | ECE, ack=201 * MSS)
    before = int(flow.own.cwnd)
    for number in range(210, 400):
        flow.out(seq=number * MSS, payload=MSS)
        flow.into(ack=(number + 1) * MSS)
    assert flow.own.cwnd <= before + MSS


def test_what_was_used_is_not_taken_back(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    drive(flow, 3)
    for _ in range(40):
        flow.now_ns += 300 * MS
        flow.out(seq=flow.una, payload=MSS)
        flight = (int(flow.state.nxt) - int(flow.state.una)) % WRAP
        assert flow.into(ack=flow.una).window * 128 >= flight


def test_dctcp_cuts_by_the_part_marked(core: Any) -> None:
    """All marked: half in the end. One round in many: little."""
    heavy = Flow(core, {"target": 1})
    heavy.connect()
    windows = drive(heavy, 6, lambda number: number >= 3)
    assert 40 < windows[3] <= 50 and windows[5] / windows[4] == pytest.approx(0.6, abs=0.04)
    light = Flow(core, {"target": 1})
    light.connect()
    windows = drive(light, 200, lambda number: number >= 4 and number % 20 == 0)
    assert min(windows[100:]) > 0.9 * max(windows[100:])
    # A part of a packet is no cut: alpha of a few percent leaves a window of few packets as it is.
    few = Flow(core, {"target": 1})
    few.connect()
    drive(few, 2, lambda number: True)
    few.own.alpha, few.own.cwnd, few.state.peak, few.own.cutting = 60, 8 * MSS, 8 * MSS, False
    few.into(ACK | ECE, ack=few.una + MSS)
    assert few.own.cutting and few.own.ssthresh == 8 * MSS


@pytest.mark.parametrize("scale_vm,scale_peer,shift", [(7, 7, 7), (7, 0, 0), (0, 9, 9), (NO_SCALE, 7, 0),
                                                        (7, NO_SCALE, 0), (7, 14, 14), (7, 200, 14)])
def test_scales(core: Any, scale_vm: int, scale_peer: int, shift: int) -> None:
    """The peer's scale counts, and only if both sent the option; the result is rounded up."""
    flow = Flow(core)
    flow.connect(scale_vm=scale_vm, scale_peer=scale_peer)
    flow.fill(0, 10)
    heard = flow.into(ack=MSS)
    window = int(flow.own.cwnd)
    assert heard.window == -(-window >> shift)


def test_windows_of_syns_stay(core: Any) -> None:
    flow = Flow(core)
    assert flow.out(SYN, -1, -1, scale=7, mss=1460, window=64240).window == 64240
    assert flow.into(SYN | ACK | ECE, -1, 0, scale=7, mss=1460, window=65160).window == 65160


def test_without_a_handshake_flows_are_left_alone(core: Any) -> None:
    flow = Flow(core)
    flow.fill(0, 10)
    assert flow.out(seq=10 * MSS, payload=MSS).ecn == NOT_ECT
    heard = flow.into(ACK | ECE, ack=MSS, window=65535, ecn=CE)
    assert (heard.window, heard.flags, heard.ecn) == (65535, ACK | ECE, CE) and is_(flow, "UNKNOWN")


def test_a_late_flow_is_limited_by_the_least_scale(core: Any) -> None:
    """A window of 1,000 that let 100 kB out has a shift of 7 at least: limits are kept, and never undercut."""
    flow = Flow(core)
    flow.into(ack=0, window=1000)
    flow.fill(0, 69)
    flow.own.limit = 20 * MSS
    for number in range(60):
        heard = flow.into(ack=(number + 1) * MSS, window=1000)
    assert flow.state.scale_least == 7 and heard.window == -(-20 * MSS // 128)


def test_a_new_connection_of_the_same_ports_begins_anew(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    drive(flow, 3)
    flow.isn += 12345678
    flow.connect(answer=0)
    assert is_(flow, "PLAIN") and flow.una == 0
    flow.isn += 12345678
    flow.connect()
    assert is_(flow, "VIRTUAL") and flow.own.cwnd == 14600 and not flow.state.size


def test_the_lesser_mss_counts(core: Any) -> None:
    for ours, theirs, least in ((1460, 1000, 1000), (1000, 1460, 1000), (0, 1460, 536)):
        flow = Flow(core)
        flow.out(SYN, -1, -1, scale=7, mss=ours)
        flow.into(SYN | ACK | ECE, -1, 0, scale=7, mss=theirs)
        flow.into()
        assert flow.own.cwnd == 10 * least


def test_the_size_of_packets_is_at_most_the_mss(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    flow.out(payload=60000, size=60000)
    assert flow.state.size == 1460


def test_an_old_ack_has_the_same_right_edge(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    newest, old = flow.into(ack=flow.una), flow.into(ack=flow.una - 5 * MSS)
    assert abs((old.window - newest.window) * 128 - 5 * MSS) < 128


def test_impossible_jumps_move_nothing(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    before = int(flow.state.nxt)
    flow.out(seq=flow.una + 2**31 - 1, payload=MSS)
    flow.out(seq=flow.una - 2**20, payload=MSS)
    assert flow.state.nxt == before
    for _ in range(5):
        flow.out(seq=(int(flow.state.nxt) - flow.isn - 1 + 2**29) % WRAP, payload=MSS)
    assert (int(flow.state.nxt) - int(flow.state.una)) % WRAP == 2**30
    assert flow.into(ack=flow.una + 2**30, window=9).window == 9


def test_a_forged_syn_changes_nothing(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    before = bytes(core.ffi.buffer(flow.state))
    flow.into(SYN, 999, 0, scale=0, mss=1)
    flow.into(SYN | ACK, 999, 0, scale=0, mss=1)
    assert bytes(core.ffi.buffer(flow.state)) == before


def test_a_closed_connection_may_be_reopened_by_the_peer(core: Any) -> None:
    flow = Flow(core)
    flow.accept()
    flow.into(FIN | ACK)
    flow.into(SYN, 10**6, 0, scale=7, mss=1460)
    flow.out(SYN | ACK, -1, 10**6 + 1, scale=7, mss=1460)
    assert is_(flow, "PLAIN")


def test_a_wild_ack_is_left_alone(core: Any) -> None:
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    before = flow.una
    for ack in (before + 2**30, before + 2**31, before - 2**30):
        assert flow.into(ack=ack).window == 65535
    assert flow.una == before


def sharing(core: Any, flows: List[Flow], periods: int = 3, now_ns: int = 0) -> List[int]:
    """Run periods of flows of one VM; return their limits."""
    law = flows[0].law
    state = binding.limiter(law)
    inputs = core.ffi.new("struct shim_law_input *", {"share": 1000, "knobs": flows[0].values, "now_ns": now_ns})
    law.init(state, inputs)
    for number in range(periods):
        law.on_period(state, inputs)
        if number == periods - 1:
            law.on_period(state, inputs)  # once more, for changed settings
        for flow in flows:
            law.on_flow_period(flow.state, core.ffi.NULL, state, inputs)
    assert state.rate == 1000
    return [int(flow.own.limit) for flow in flows]


def test_windows_are_shared_by_port(core: Any) -> None:
    """Two preferred flows of five get three times the window; the sum stays; an idle flow takes nothing."""
    knobs = {"window-total": 900_000, "port-first": 6000, "port-last": 6001, "port-weight": 3}
    flows = [Flow(core, knobs) for _ in range(6)]
    for number, flow in enumerate(flows[:5]):
        core.lib.shim_flow_init(flow.state, 40000, (5001, 5002, 5003, 6000, 6001)[number])
        flow.connect(answer=0)
        flow.out(payload=MSS)
    assert sharing(core, flows[:3], now_ns=SECOND) == [300_000] * 3
    assert sharing(core, flows, now_ns=SECOND) == [100_000] * 3 + [300_000] * 2 + [90_000]
    assert sharing(core, flows, now_ns=2 * SECOND) == [900_000] * 6
    for flow in flows:
        flow.values[core.lib.shim_knob_find(flow.law, b"window-total")] = 0
    assert sharing(core, flows, now_ns=2 * SECOND) == [0] * 6


def test_a_part_of_the_sum_is_a_packet_at_least(core: Any) -> None:
    flow = Flow(core, {"window-total": 100})
    flow.connect(answer=0)
    flow.out(payload=MSS)
    assert sharing(core, [flow], now_ns=SECOND) == [MSS]


def test_the_server_side_shares_by_its_own_port(core: Any) -> None:
    flow = Flow(core, {"window-total": 900_000, "port-first": 40000, "port-last": 40000})
    flow.accept()
    flow.out(payload=MSS)
    other = Flow(core, {"window-total": 900_000})
    other.connect()
    other.out(payload=MSS)
    assert sharing(core, [flow, other], now_ns=SECOND) == [675_000, 225_000]


u32 = st.integers(0, WRAP - 1)
wild = st.tuples(st.booleans(), st.integers(0, 0x1FF), u32, u32, st.integers(0, 65535), st.integers(0, 65535),
                 st.integers(0, 65535), st.integers(0, 255), st.integers(0, 3), st.integers(0, 2 * SECOND))


@st.composite
def knob_values(draw: Any) -> Dict[str, int]:
    return {"target": draw(st.integers(0, 1)), "negotiate": draw(st.integers(0, 1)),
            "own-ecn": draw(st.integers(0, 1)), "initial-window": draw(st.integers(1, 1000)),
            "min-window": draw(st.integers(1, 1000)), "alpha-shift": draw(st.integers(0, 10))}


@given(segments=st.lists(wild, max_size=40), knobs=knob_values(), limit=st.integers(0, 2**30), opened=st.booleans())
def test_fuzzed_segments(core: Any, segments: Any, knobs: Dict[str, int], limit: int, opened: bool) -> None:
    """The window never grows; nothing is written but windows in ACKs, ECE, CWR and the ECN field."""
    flow = Flow(core, knobs)
    if opened:
        flow.connect()
        flow.fill(0, 10)
    flow.own.limit = limit
    for out, flags, seq, ack, payload, window, size, scale, ecn, wait in segments:
        flow.now_ns += wait
        segment = flow.segment(flags, seq, ack, payload, window, ecn, scale, size, size)
        (flow.law.on_segment_out if out else flow.law.on_segment_in)(flow.state, segment)
        assert segment.window <= window and (segment.flags ^ flags) & ~(ECE | CWR) == 0
        assert (segment.seq, segment.ack, segment.payload) == (seq, ack, payload)
        if out or flags & (SYN | RST) or not flags & ACK:
            assert segment.window == window
        assert (segment.flags & ~flags) == 0 or out
        assert flow.own.cwnd <= 0x3FFFC000 and flow.own.alpha <= 1024
        assert flow.own.cutting or not flow.own.cwnd or flow.own.cwnd >= 1


@given(isn=u32, peer_isn=u32, marks=st.lists(st.booleans(), min_size=12, max_size=12))
def test_sequence_numbers_may_wrap(core: Any, isn: int, peer_isn: int, marks: List[bool]) -> None:
    """Whatever the first sequence number, the windows are the same."""
    reference, flow = Flow(core, isn=0, peer_isn=0), Flow(core, isn=isn, peer_isn=peer_isn)
    for one in (reference, flow):
        one.connect()
    assert drive(flow, 12, lambda number: marks[number]) == drive(reference, 12, lambda number: marks[number])


@given(order=st.permutations(range(8)), window=st.integers(1, 65535))
def test_reordered_acks(core: Any, order: List[int], window: int) -> None:
    """ACKs in any order grant the same right edge as the newest, or less, and never more than the peer did."""
    flow = Flow(core)
    flow.connect()
    drive(flow, 2)
    base = flow.una
    for number in order:
        ack = base + (number + 1) * MSS
        heard = flow.into(ack=ack, window=window)
        assert heard.window <= window
        assert ack + heard.window * 128 <= flow.una + max(int(flow.own.cwnd), 40 * MSS) + 128
    assert flow.una == base + 8 * MSS
