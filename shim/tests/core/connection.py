# SPDX-License-Identifier: Apache-2.0
"""One TCP connection of a VM under a law that follows flows, segment by segment."""

from typing import Any, Dict, Optional, Tuple

from sdngcc.shim import core as binding

SECOND = 10**9
MSS = 1448
SYN, ACK, ECE, CWR = 0x02, 0x10, 0x40, 0x80
NOT_ECT = 0
NO_SCALE = 255
WRAP = 2**32


class Flow:
    """One connection of a VM, with the values of the law's knobs."""

    def __init__(self, core: Any, knobs: Optional[Dict[str, int]] = None, isn: int = 1000,
                 peer_isn: int = 5000, law: str = "vcc") -> None:
        self.core = core
        self.law = core.lib.shim_law_find(law.encode())
        self.values = core.ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            self.values[core.lib.shim_knob_find(self.law, name.encode())] = value
        self.state = binding.flow(self.law)
        self.own = binding.own(self.law, self.state)
        core.lib.shim_flow_init(self.state, 40000, 5001)
        self.now_ns, self.isn, self.peer_isn = SECOND, isn, peer_isn

    def segment(self, flags: int, seq: int, ack: int, payload: int, window: int, ecn: int, scale: int, mss: int,
                size: Optional[int] = None) -> Any:
        return self.core.ffi.new("struct shim_segment *", {
            "now_ns": self.now_ns, "knobs": self.values, "seq": seq % WRAP, "ack": ack % WRAP, "payload": payload,
            "size": min(payload, MSS) if size is None else size, "window": window, "flags": flags, "mss": mss,
            "scale": scale, "ecn": ecn})

    def out(self, flags: int = ACK, seq: int = 0, ack: int = 0, payload: int = 0, window: int = 500,
            ecn: int = NOT_ECT, scale: int = NO_SCALE, mss: int = 0, size: Optional[int] = None,
            wait_ns: int = 0) -> Any:
        """A segment of the VM; seq and ack count from the first byte of data."""
        segment = self.segment(flags, self.isn + 1 + seq, self.peer_isn + 1 + ack, payload, window, ecn, scale, mss,
                               size)
        segment.wait_ns = wait_ns
        self.law.on_segment_out(self.state, segment)
        return segment

    def into(self, flags: int = ACK, seq: int = 0, ack: int = 0, payload: int = 0, window: int = 65535,
             ecn: int = NOT_ECT, scale: int = NO_SCALE, mss: int = 0) -> Any:
        """A segment of the peer, as the VM gets it."""
        segment = self.segment(flags, self.peer_isn + 1 + seq, self.isn + 1 + ack, payload, window, ecn, scale, mss)
        self.law.on_segment_in(self.state, segment)
        return segment

    def connect(self, asks: int = 0, answer: int = ECE, scale_vm: int = 7, scale_peer: int = 7) -> Tuple[Any, Any]:
        """Let the VM open a connection; return SYN as it left and SYN-ACK as it arrived."""
        syn = self.out(SYN | asks, -1, -1, scale=scale_vm, mss=1460)
        reply = self.into(SYN | ACK | answer, -1, 0, scale=scale_peer, mss=1460)
        self.out()
        self.into()
        return syn, reply

    def accept(self, asks: int = ECE | CWR, answer: int = 0) -> Tuple[Any, Any]:
        """Let the peer open one; return SYN as it arrived and SYN-ACK as it left."""
        syn = self.into(SYN | asks, -1, 0, scale=7, mss=1460)
        reply = self.out(SYN | ACK | answer, -1, 0, scale=7, mss=1460)
        self.into()
        return syn, reply

    @property
    def ecn(self) -> int:
        return int(self.state.ecn)

    @property
    def una(self) -> int:
        """First unacknowledged byte."""
        return (int(self.state.una) - self.isn - 1) % WRAP

    def fill(self, start: int, count: int) -> None:
        """Let the VM send count full packets from byte start."""
        for number in range(count):
            self.out(seq=start + number * MSS, payload=MSS)
