# SPDX-License-Identifier: Apache-2.0
"""What is followed of a TCP connection for any law: its round trips behind the limiters."""

from typing import Any, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .connection import ACK, CWR, ECE, MSS, NO_SCALE, SYN, WRAP, Flow

FIN, RST = 0x01, 0x04
MS = 10**6
FAR = 1 << 24  # bytes: beyond any window of these connections


@pytest.fixture
def flow(core: Any) -> Flow:
    """An open connection of a VM under a law that writes nothing into its segments."""
    made = Flow(core, law="seawall")
    made.connect()
    return made


def trip(flow: Flow, start: int, wait_ns: int, behind_ns: int) -> int:
    """Send a packet that waits and then takes so long until its ACK; return the round trip followed."""
    flow.out(seq=start, payload=MSS, wait_ns=wait_ns)
    flow.now_ns += wait_ns + behind_ns
    flow.into(ack=start + MSS)
    return int(flow.state.rtt_ns)


def test_the_wait_in_the_limiters_is_no_part_of_a_round_trip(flow: Flow) -> None:
    assert flow.state.rtt_ns == 0
    assert trip(flow, 0, 2 * MS, MS) == MS
    assert trip(flow, MSS, 3 * MS, MS) == MS


def test_a_round_trip_counts_an_eighth(flow: Flow) -> None:
    assert trip(flow, 0, 0, 8 * MS) == 8 * MS
    assert trip(flow, MSS, 0, 16 * MS) == 9 * MS
    assert trip(flow, 2 * MSS, 0, MS) == 8 * MS


def test_one_byte_at_a_time_is_timed(flow: Flow) -> None:
    """Packets that follow do not move what is timed; an ACK that does not cover it ends nothing."""
    flow.out(seq=0, payload=MSS)
    flow.now_ns += MS
    flow.out(seq=MSS, payload=MSS)
    flow.into(ack=0)
    assert flow.state.rtt_ns == 0
    flow.now_ns += MS
    flow.into(ack=2 * MSS)
    assert flow.state.rtt_ns == 2 * MS


@pytest.mark.parametrize("again", [0, -MSS])
def test_what_is_sent_again_is_not_timed(flow: Flow, again: int) -> None:
    """Karn's rule: nobody knows which of the two an ACK answers."""
    trip(flow, 0, 0, 10 * MS)
    flow.out(seq=MSS, payload=MSS)
    flow.now_ns += 5 * MS
    flow.out(seq=MSS + again, payload=MSS)
    flow.now_ns += MS
    flow.into(ack=2 * MSS)
    assert flow.state.rtt_ns == 10 * MS
    assert trip(flow, 2 * MSS, 0, 2 * MS) == 9 * MS


def test_a_late_repetition_does_not_disturb(flow: Flow) -> None:
    """What was sent before the packet that is timed may be sent again from behind it."""
    flow.out(seq=0, payload=MSS)
    flow.now_ns += MS
    flow.into(ack=MSS)
    flow.out(seq=MSS, payload=MSS)
    flow.out(seq=2 * MSS, payload=MSS)
    flow.now_ns += MS // 2
    flow.out(seq=2 * MSS, payload=MSS)
    flow.into(ack=2 * MSS)
    assert flow.state.rtt_ns == MS - MS // 8 + MS // 16


def test_a_connection_that_was_there_before_is_timed_from_its_second_packet(core: Any) -> None:
    """The first may be a repetition."""
    flow = Flow(core, law="seawall")
    flow.out(seq=0, payload=MSS)
    flow.now_ns += MS
    flow.into(ack=MSS)
    assert flow.state.rtt_ns == 0
    assert trip(flow, MSS, 0, 2 * MS) == 2 * MS


def test_a_new_connection_forgets_the_round_trips_of_the_old(flow: Flow) -> None:
    trip(flow, 0, 0, MS)
    flow.out(SYN, 10**6, -1, scale=7, mss=1460)
    assert flow.state.rtt_ns == 0 and flow.state.timed_ns == 0


@pytest.mark.parametrize("law", ["seawall", "vcc"])
@pytest.mark.parametrize("by_peer", [False, True])
def test_a_new_connection_forgets_what_the_law_kept(core: Any, law: str, by_peer: bool) -> None:
    """By a SYN of the VM, or of the peer after a FIN; a SYN that is repeated forgets nothing."""
    flow = Flow(core, law=law)
    flow.connect()
    flow.out(FIN | ACK)
    for number in range(2):
        flow.own.limit = 7
        if by_peer:
            flow.into(SYN, 10**6, scale=7, mss=1460)
        else:
            flow.out(SYN, 10**6, -1, scale=7, mss=1460)
        assert flow.own.limit == (7 if number else 0)
        assert flow.state.port_vm == 40000 and not flow.state.open


@given(trips=st.lists(st.tuples(st.integers(0, 10 * MS), st.integers(0, 100 * MS), st.integers(0, 3)), min_size=1,
                      max_size=30), isn=st.integers(0, 2**32 - 1))
def test_a_mean_of_any_round_trips(core: Any, trips: Any, isn: int) -> None:
    """Never more than the longest, never less than the shortest but for rounding, and not 0; ACKs that come late or
    twice change nothing."""
    flow = Flow(core, law="seawall", isn=isn)
    flow.connect()
    seq = 0
    for wait_ns, behind_ns, acks in trips:
        for number in range(acks):
            flow.into(ACK, ack=seq - number)
        have = trip(flow, seq, wait_ns, behind_ns)
        seq += MSS
        behind = [one[1] for one in trips[:seq // MSS]]
        assert max(1, min(behind) - 8) <= have <= max(1, *behind) + 7


def state(flow: Flow) -> bytes:
    """All that is followed of a connection, what the law keeps included."""
    ffi, size = flow.core.ffi, flow.core.ffi.sizeof("struct shim_flow") + flow.law.flow_size
    return bytes(ffi.buffer(ffi.cast("char *", flow.state), size))


def unmoved(flow: Flow, flags: int, **fields: Any) -> None:
    """Let a segment come in that must change nothing, neither of the connection nor of itself."""
    before = state(flow)
    got = flow.into(flags, window=65535, ecn=3, **fields)
    assert (got.flags, got.window, got.ecn) == (flags, 65535, 3)
    assert state(flow) == before, f"flags {flags:#x}, {fields}"


@pytest.fixture(params=["seawall", "vcc"])
def busy(core: Any, request: Any) -> Flow:
    """A connection with data both ways; the peer is at byte 300, the VM acknowledged 200 and has 10 packets out."""
    made = Flow(core, law=request.param, isn=WRAP - 5000, peer_isn=WRAP - 150)
    made.connect()
    made.into(payload=200)
    made.out(ack=200, window=1000)
    made.into(seq=200, payload=100)
    for number in range(12):
        made.out(seq=number * MSS, ack=200, payload=MSS)
    made.own.limit = 20 * MSS
    assert made.into(seq=300, ack=2 * MSS, window=60000).window < 60000
    return made


IMPOSSIBLE: Dict[str, Dict[str, int]] = {
    "sequence beyond the window": {"seq": 200 + (1000 << 7) + 1, "ack": 3 * MSS},
    "sequence far ahead": {"seq": FAR, "ack": 3 * MSS},
    "sequence far ahead, ACK repeated": {"seq": FAR, "ack": 2 * MSS},
    "sequence on the other side": {"seq": 1 << 31, "ack": 3 * MSS},
    "sequence acknowledged before": {"seq": 199, "ack": 3 * MSS},
    "ACK of a byte that was not sent": {"seq": 300, "ack": 12 * MSS + 1},
    "ACK far ahead": {"seq": 300, "ack": FAR},
    "ACK on the other side": {"seq": 300, "ack": 1 << 31},
    "ACK older than a window": {"seq": 300, "ack": 2 * MSS - (65535 << 7) - 1},
}


@pytest.mark.parametrize("flags", [ACK, ACK | ECE, ACK | CWR, FIN | ACK, FIN | ACK | ECE])
@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_numbers_that_cannot_be_move_nothing(busy: Flow, what: str, flags: int) -> None:
    numbers = dict(IMPOSSIBLE[what])
    if "acknowledged before" in what and flags & FIN:
        numbers["seq"] -= 1  # a FIN takes a byte
    unmoved(busy, flags, **numbers)


@pytest.mark.parametrize("flags", [0, ECE, FIN, CWR])
def test_a_segment_without_ack_moves_nothing(busy: Flow, flags: int) -> None:
    unmoved(busy, flags, seq=300, payload=100)


@pytest.mark.parametrize("numbers", [{"seq": 200 + (1000 << 7)}, {"seq": 200}, {"seq": 100, "payload": 100}])
def test_numbers_at_the_edge_count(busy: Flow, numbers: Dict[str, int]) -> None:
    """Of the window that the VM granted, and of what it acknowledged."""
    busy.into(ack=12 * MSS, **numbers)
    assert busy.una == 12 * MSS


def test_an_old_ack_counts_as_no_progress(busy: Flow) -> None:
    """By no more than the largest window that the peer offered."""
    busy.into(seq=300, ack=2 * MSS - (65535 << 7), window=17)
    assert busy.una == 2 * MSS and busy.state.window == 17


@pytest.mark.parametrize("flags", [RST, RST | ACK, RST | ECE, RST | SYN, RST | SYN | ACK])
def test_a_reset_is_exact(busy: Flow, flags: int) -> None:
    """What the VM told last, or what came in order since: nothing else in the window (RFC 5961, section 3.2)."""
    for seq in (0, 199, 201, 299, 301, 10000, FAR, -FAR, 1 << 31):
        unmoved(busy, flags, seq=seq, ack=3 * MSS)
    saved = state(busy)
    for seq in (200, 300):
        busy.core.ffi.memmove(busy.state, saved, len(saved))
        busy.into(flags, seq=seq, ack=3 * MSS)
        assert busy.state.closed


def test_a_reset_behind_a_gap_is_not_believed(busy: Flow) -> None:
    """Its sender will be told by the VM where the gap is; once that is filled, the far end is what comes next."""
    busy.into(seq=400, ack=2 * MSS, payload=100)
    unmoved(busy, RST, seq=500)
    busy.out(seq=12 * MSS, ack=500)
    busy.into(seq=500, ack=2 * MSS, payload=100)
    busy.into(RST, seq=600)
    assert busy.state.closed


@pytest.mark.parametrize("flags", [SYN, SYN | ECE | CWR, SYN | ACK, SYN | ACK | ECE])
def test_a_syn_into_an_open_connection_moves_nothing(busy: Flow, flags: int) -> None:
    for seq in (-1, 299, 300, 301, FAR, -FAR):
        for ack in (0, 3 * MSS, FAR):
            unmoved(busy, flags, seq=seq, ack=ack, scale=14, mss=32)


@pytest.mark.parametrize("ack", [-1, 1, FAR, -FAR, 1 << 31])
def test_an_answer_to_no_syn_moves_nothing(core: Any, ack: int) -> None:
    """Nor does an ACK, or a SYN that crosses the VM's: a VM that answers it, says so."""
    flow = Flow(core)
    flow.out(SYN, -1, -1, scale=7, mss=1460)
    for flags in (SYN | ACK, SYN | ACK | ECE, RST | ACK, RST | SYN | ACK):
        unmoved(flow, flags, seq=77, ack=ack, scale=14, mss=32)
    for flags in (SYN, ACK, FIN | ACK, RST):
        unmoved(flow, flags, seq=77, ack=0, scale=14, mss=32)
    assert flow.into(SYN | ACK | ECE, -1, 0, scale=3, mss=1460).flags == SYN | ACK
    assert (flow.state.scale_peer, flow.state.mss) == (3, 1460)


def test_a_syn_that_is_refused_is_over(core: Any) -> None:
    flow = Flow(core)
    flow.out(SYN, -1, -1, scale=7, mss=1460)
    flow.into(RST | ACK, -5001, 0)
    assert flow.state.closed


def test_the_ack_of_the_vm_ends_its_handshake(core: Any) -> None:
    flow = Flow(core)
    flow.out(SYN, -1, -1, scale=7, mss=1460)
    flow.into(SYN | ACK | ECE, -1, 0, scale=7, mss=1460)
    assert not flow.state.open
    flow.out()
    assert flow.state.open


def test_only_an_ack_of_its_answer_opens_what_the_peer_began(core: Any) -> None:
    flow = Flow(core)
    flow.into(SYN | ECE | CWR, -1, scale=7, mss=1460)
    unmoved(flow, ACK, seq=0, ack=0)
    flow.out(SYN | ACK, -1, 0, scale=7, mss=1460)
    for ack in (-1, 1):
        unmoved(flow, ACK, seq=0, ack=ack)
    unmoved(flow, ACK, seq=70000, ack=0)
    flow.into(ACK, seq=0, ack=0)
    assert flow.state.open


def test_a_forged_syn_does_not_spoil_the_real_one(core: Any) -> None:
    """The later counts while the VM is silent, then the one that it answers."""
    flow = Flow(core)
    flow.into(SYN, FAR, scale=14, mss=32)
    flow.into(SYN | ECE | CWR, -1, scale=7, mss=1460)
    assert flow.state.mss == 1460
    assert flow.out(SYN | ACK, -1, 0, scale=7, mss=1460).flags == SYN | ACK | ECE
    unmoved(flow, SYN, seq=FAR, scale=14, mss=32)
    other = Flow(core)
    other.into(SYN | ECE | CWR, -1, scale=7, mss=1460)
    other.into(SYN | ECE | CWR, FAR, scale=14, mss=32)
    assert other.out(SYN | ACK, -1, 0, scale=7, mss=1460).flags == SYN | ACK
    assert (other.state.mss, other.state.scale_peer, other.state.syn_in) == (1460, NO_SCALE, False)


def test_a_forged_syn_does_not_spoil_the_vms(core: Any) -> None:
    """One that came before the VM opens the same connection itself."""
    flow = Flow(core)
    flow.into(SYN, FAR, scale=14, mss=32)
    _, reply = flow.connect()
    assert reply.flags == SYN | ACK and (flow.state.scale_peer, flow.state.mss) == (7, 1460)
    assert not flow.state.server


@pytest.mark.parametrize("ahead", [FAR, 1000])
def test_a_vm_that_forgot_begins_anew_by_its_own_answer(busy: Flow, ahead: int) -> None:
    """The SYN itself could have been forged; what it said is not known."""
    unmoved(busy, SYN, seq=ahead, scale=3, mss=1000)
    busy.isn += 12345
    busy.peer_isn += ahead
    busy.out(SYN | ACK, -1, 0, scale=7, mss=1460)
    assert (busy.state.open, busy.state.syn_in, busy.state.mss) == (False, False, 1460)
    busy.into(ACK, seq=0, ack=0)
    assert busy.state.open and busy.una == 0


def test_an_old_syn_does_not_reopen(busy: Flow) -> None:
    """In a connection that was closed a SYN must be ahead of what was heard (RFC 9293, section 3.10.7.4)."""
    busy.into(FIN | ACK, seq=300, ack=2 * MSS)
    unmoved(busy, SYN, seq=-1, scale=7, mss=1460)
    unmoved(busy, SYN, seq=300, scale=7, mss=1460)
    busy.into(SYN, 301, scale=7, mss=1460)
    assert not busy.state.open and not busy.state.closed
