# SPDX-License-Identifier: Apache-2.0
"""Law vcc with own-ecn: guests that use ECN themselves are held to the virtual window, and see no mark."""

from typing import Any

import pytest

from .connection import ACK, CWR, ECE, MSS, NOT_ECT, SYN, Flow
from .test_vcc import AE, CE, ECT_0, is_


def test_own_ecn_holds_it_to_the_window(core: Any) -> None:
    """And answers in its stead: a guest that saw ECE would cut its own window for the same mark."""
    flow = Flow(core, {"own-ecn": 1})
    flow.connect(asks=ECE | CWR)
    flow.fill(0, 10)
    heard = flow.into(ACK | ECE, ack=MSS)
    assert heard.flags == ACK and heard.window == -(-10 * MSS // 128)
    assert flow.out(seq=10 * MSS, payload=MSS).flags == ACK | CWR
    assert flow.out(seq=11 * MSS, payload=MSS).flags == ACK
    # The CWR of its own, which follows a loss, passes.
    assert flow.out(ACK | CWR, seq=12 * MSS, payload=MSS).flags == ACK | CWR


def test_own_ecn_keeps_marks_from_a_guest_that_receives(core: Any) -> None:
    """The law echoes them until CWR comes; data stay ECT(0), and what is not ECT stays so."""
    flow = Flow(core, {"own-ecn": 1})
    flow.accept(ECE | CWR, ECE)
    flow.out()
    assert flow.into(payload=MSS, ecn=CE).ecn == ECT_0
    assert flow.out(ack=MSS).flags == ACK | ECE
    assert flow.into(seq=MSS, payload=MSS, ecn=NOT_ECT).ecn == NOT_ECT
    assert flow.out(ack=2 * MSS).flags == ACK | ECE
    assert flow.into(ACK | CWR, seq=2 * MSS, payload=MSS, ecn=ECT_0).flags == ACK | CWR
    assert flow.out(ack=3 * MSS).flags == ACK


def test_a_guest_that_echoes_when_own_ecn_is_set_hears_cwr(core: Any) -> None:
    """Else it would echo a mark of before for the connection's life, and its peer cut in each round trip."""
    flow = Flow(core)
    flow.accept(ECE | CWR, ECE)
    flow.out()
    assert flow.into(payload=MSS, ecn=CE).ecn == CE
    flow.values[core.lib.shim_knob_find(flow.law, b"own-ecn")] = 1
    assert flow.out(ACK | ECE, ack=MSS).flags == ACK | ECE
    assert flow.into(ACK | CWR, seq=MSS, payload=MSS, ecn=ECT_0).flags == ACK | CWR


@pytest.mark.parametrize("answer", [0, ECE | CWR, CWR, AE])
@pytest.mark.parametrize("serves", [False, True])
def test_own_ecn_needs_both_ends(core: Any, answer: int, serves: bool) -> None:
    """A peer that does not use ECN echoes no mark, so nothing may say ECT in a guest's stead."""
    flow = Flow(core, {"own-ecn": 1, "negotiate": 0})
    opened = flow.accept(ECE | CWR, answer) if serves else flow.connect(ECE | CWR, answer)
    assert opened[1].flags == SYN | ACK | answer and is_(flow, "PLAIN")
    assert flow.out(payload=MSS).ecn == NOT_ECT
    assert flow.into(ACK | ECE, ack=MSS, window=400).flags == ACK | ECE


# Answers to a SYN with AccECN that agree to it (RFC 9768, table 2), and others.
AGREES = [CWR, CWR | ECE, AE, AE | CWR]
CLASSIC = [ECE, ECE | AE]


@pytest.mark.parametrize("answer", AGREES + CLASSIC)
@pytest.mark.parametrize("serves", [False, True])
def test_own_ecn_leaves_accurate_ecn_alone(core: Any, answer: int, serves: bool) -> None:
    """ECE is a bit of a counter there: held to the window are guests whose peer, or who themselves, fell back."""
    flow = Flow(core, {"own-ecn": 1})
    opened = flow.accept(ECE | CWR | AE, answer) if serves else flow.connect(ECE | CWR | AE, answer)
    assert opened[0].flags == SYN | ECE | CWR | AE and opened[1].flags == SYN | ACK | answer and is_(flow, "OWN")
    flow.fill(0, 10)
    heard = flow.into(ACK | ECE | AE, ack=MSS, ecn=CE)
    assert (heard.flags, heard.ecn) == ((ACK | ECE | AE, CE) if answer in AGREES else (ACK | AE, ECT_0))
    assert (heard.window == 65535) == (answer in AGREES)


@pytest.mark.parametrize("answer", AGREES)
def test_those_answers_without_such_a_syn_refuse(core: Any, answer: int) -> None:
    """As Linux has it: ECE without CWR alone agrees to a classic SYN."""
    flow = Flow(core, {"own-ecn": 1})
    flow.connect(ECE | CWR, answer)
    flow.fill(0, 10)
    assert is_(flow, "PLAIN") and flow.into(ACK | ECE, ack=MSS).window == 65535
