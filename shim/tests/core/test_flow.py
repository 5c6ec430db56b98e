# SPDX-License-Identifier: Apache-2.0
"""What is followed of a TCP connection for any law: its round trips behind the limiters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .connection import ACK, MSS, SYN, Flow

FIN = 0x01
MS = 10**6


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
