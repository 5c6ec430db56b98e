# SPDX-License-Identifier: Apache-2.0
"""What a guest with ECN is told inside a tunnel, under the laws that have tunnels."""

from typing import Any, Dict, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

MS = 10**6
SECOND = 10**9
C = 125_000_000
# enum shim_told.
FABRIC, NOTHING, CE = 0, 1, 2
MARK_BYTES = {"seawall": 30_280, "scc": 100_000}
U64_MAX = 2**64 - 1
LAWS = pytest.mark.parametrize("name", ["scc", "seawall"])


class End:
    """One end of a tunnel under a law."""

    def __init__(self, core: Any, name: str, knobs: Optional[Dict[str, int]] = None, share: int = C) -> None:
        ffi, lib = core.ffi, core.lib
        self.ffi = ffi
        self.law = lib.shim_law_find(name.encode())
        self.values = ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for knob, value in (knobs or {}).items():
            self.values[lib.shim_knob_find(self.law, knob.encode())] = value
        self.input = ffi.new("struct shim_law_input *", {
            "now_ns": SECOND, "period_ns": MS, "capacity": C, "share": share, "peers": 1, "weight": 1,
            "knobs": self.values, "frame": 1514, "rx_frame": 1514})
        self.state = binding.limiter(self.law)
        self.peer = binding.peer(self.law)
        self.law.init(self.state, self.input)
        self.law.peer_init(self.peer, self.input)
        self.peer.rate = share

    def packet(self, **fields: Any) -> Any:
        common = {"now_ns": self.input.now_ns, "knobs": self.values, "bytes": 1514, "packets": 1, "echo_free": True}
        return self.ffi.new("struct shim_law_packet *", {**common, **fields})

    def send(self, wait_ns: int, room_ns: int = SECOND, **fields: Any) -> bool:
        """Return whether a packet that waits so long carries the tunnel's mark."""
        packet = self.packet(wait_ns=wait_ns, room_ns=room_ns, **fields)
        self.law.on_tx(self.peer, packet)
        return bool(packet.echo)

    def receive(self, **fields: Any) -> Any:
        packet = self.packet(**fields)
        self.law.on_rx(self.peer, packet)
        return packet

    def report(self) -> None:
        """Let a report of the other end come."""
        message = self.ffi.new("struct shim_message *", {
            "type": 3, "version": 1, "packets": 10, "bytes": 15140, "interval_ns": MS})
        self.law.on_report(self.peer, self.state, self.input, message)


@LAWS
def test_the_queue_marks_above_its_length(core: Any, name: str) -> None:
    end = End(core, name)
    wait = MARK_BYTES[name] * SECOND // C
    assert not end.send(0)
    assert not end.send(wait)
    assert end.send(wait + 100)


@LAWS
def test_a_slow_tunnel_marks_before_it_drops(core: Any, name: str) -> None:
    """30 KB at 1 MB/s are 30 ms, which a horizon of 2 ms would never let queue up."""
    end = End(core, name, share=1_000_000)
    assert not end.send(MS, room_ns=2 * MS)
    assert end.send(MS + 1, room_ns=2 * MS)


@LAWS
def test_what_cannot_carry_a_mark_is_left_alone(core: Any, name: str) -> None:
    """IPv6 and fragments: nothing is written, and the guest keeps what the fabric says."""
    end = End(core, name)
    assert not end.send(SECOND, echo_free=False)
    end.report()
    packet = end.receive(echo_free=False, marks=1)
    assert packet.told == FABRIC


@LAWS
def test_a_guest_cannot_set_the_mark(core: Any, name: str) -> None:
    assert not End(core, name).send(0, echo=True)


@LAWS
def test_the_fabrics_marks_are_hidden_once_the_peer_reports(core: Any, name: str) -> None:
    end = End(core, name)
    assert end.receive(marks=1).told == FABRIC
    end.report()
    assert end.receive(marks=1).told == NOTHING


@LAWS
def test_the_tunnels_mark_is_told_and_taken_off(core: Any, name: str) -> None:
    for reported in (False, True):
        end = End(core, name)
        if reported:
            end.report()
        packet = end.receive(echo=True)
        assert (packet.told, packet.echo) == (CE, False)


@LAWS
def test_a_peer_that_reports_no_more_has_no_tunnel(core: Any, name: str) -> None:
    end = End(core, name)
    end.report()
    end.input.now_ns += 20 * SECOND
    if name == "seawall":
        end.send(0)
        end.input.now_ns += 20 * SECOND
        end.law.on_peer_period(end.peer, end.state, end.input, end.ffi.new("struct shim_message *"))
    assert end.receive(marks=1).told == FABRIC


@LAWS
def test_without_the_knob_guests_see_the_fabric(core: Any, name: str) -> None:
    end = End(core, name, {"mark-bytes": 0})
    end.report()
    assert not end.send(SECOND)
    packet = end.receive(marks=1, echo=True)
    assert (packet.told, packet.echo) == (FABRIC, True)


@LAWS
@given(wait=st.integers(0, U64_MAX), room=st.integers(0, U64_MAX), rate=st.integers(0, U64_MAX),
       mark=st.integers(0, 10**9))
def test_marks_follow_the_algebra_for_any_input(core: Any, name: str, wait: int, room: int, rate: int,
                                                mark: int) -> None:
    end = End(core, name, {"mark-bytes": mark})
    end.peer.rate = rate
    queue = min(wait * rate // SECOND, U64_MAX)
    assert end.send(wait, room_ns=room) == (mark > 0 and (queue > mark or wait > room // 2))
