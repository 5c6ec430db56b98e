# SPDX-License-Identifier: Apache-2.0
"""A line under law eyeq: VMs with their peers, and senders in a closed loop with one receiver."""

import random
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Sequence, Tuple

from sdngcc.shim import core as binding

SECOND = 10**9
LINE = 1_250_000_000  # 10 Gb/s in bytes/s
T = 200_000  # the law's period, ns
REPORT = 3  # SHIM_MESSAGE_REPORT


class Side:
    """A VM under the law, with its peers: the glue's part played in Python."""

    def __init__(self, core: Any, now_ns: int = SECOND, share: int = LINE, low: int = 0, weight: int = 1,
                 capacity: int = LINE, knobs: Optional[Dict[str, int]] = None) -> None:
        self.ffi, lib = core.ffi, core.lib
        self.law = lib.shim_law_find(b"eyeq")
        self.values = self.ffi.new("u64[]", [self.law.knobs[i].value for i in range(self.law.n_knobs)])
        for name, value in (knobs or {}).items():
            index = lib.shim_knob_find(self.law, name.encode())
            assert index >= 0, name
            self.values[index] = value
        self.input = self.ffi.new("struct shim_law_input *", {
            "now_ns": now_ns, "period_ns": T, "capacity": capacity, "share": share, "min": low,
            "rx_share": capacity, "weight": weight, "knobs": self.values, "frame": 1514, "rx_frame": 1514, "peers": 4})
        self.state = binding.limiter(self.law)
        self.own = binding.own(self.law, self.state)
        self.law.init(self.state, self.input)
        self.peers: List[Any] = []

    def peer(self) -> Any:
        """Make a peer, as its first packet does."""
        peer = binding.peer(self.law)
        self.law.peer_init(peer, self.input)
        self.peers.append(peer)
        return peer

    def _packet(self, length: int, packets: int, marks: int, now_ns: Optional[int]) -> Any:
        return self.ffi.new("struct shim_law_packet *", {
            "now_ns": self.input.now_ns if now_ns is None else now_ns, "knobs": self.values, "bytes": length,
            "packets": packets, "marks": marks})

    def send(self, peer: Any, length: int = 1514, now_ns: Optional[int] = None) -> None:
        self.law.on_tx(peer, self._packet(length, 1, 0, now_ns))

    def receive(self, peer: Any, length: int, marks: int = 0, packets: Optional[int] = None,
                now_ns: Optional[int] = None) -> None:
        count = max(1, length // 1514) if packets is None else packets
        self.law.on_rx(peer, self._packet(length, count, marks, now_ns))

    def hear(self, peer: Any, rate: int, kind: int = REPORT) -> None:
        self.law.on_report(peer, self.state, self.input, binding.message({"type": kind, "version": 1, "rate": rate}))

    def tick(self, rx_rate: int = 0, every_ns: int = T) -> List[Tuple[Any, Any]]:
        """Let a period pass; return what is to be told to whom."""
        self.input.now_ns += every_ns
        self.input.rx_rate = rx_rate
        self.law.on_period(self.state, self.input)
        told = []
        for peer in self.peers:
            report = self.ffi.new("struct shim_message *")
            if self.law.on_peer_period(peer, self.state, self.input, report):
                told.append((peer, report))
        return told


class Loop:
    """n senders at line rate, each on a line of its own, into one receiver behind another.

    Reports travel, and what is sent arrives, so many steps later; a step is a tenth of T. A fluid: the line carries
    at most its rate, buffers so many bytes and drops the rest, from everybody alike.
    """

    STEPS = 10

    def __init__(self, core: Any, n: int, delay_steps: int = 5, loss: float = 0.0, seed: int = 1,
                 demands: Optional[Sequence[float]] = None, part: float = 1.0, ecn: bool = False,
                 buffer: int = 10**6, knobs: Optional[Dict[str, int]] = None) -> None:
        settings = {**({"ecn": 1} if ecn else {}), **(knobs or {})}
        self.receiver = Side(core, knobs=settings)
        self.receiver.input.rx_share = round(LINE * part)
        self.senders = [Side(core, knobs=settings) for _ in range(n)]
        for sender in self.senders:
            self.receiver.peer()
            sender.peer()
        self.demands = [min(demand, 1.0) * LINE for demand in (demands or [1.0] * n)]
        self.on = [True] * n
        self.ecn, self.loss, self.random = ecn, loss, random.Random(seed)
        self.flight: Deque[List[float]] = deque([[0.0] * n for _ in range(delay_steps)])
        self.mail: Deque[List[Tuple[int, int]]] = deque([[] for _ in range(delay_steps)])
        self.queue, self.buffer = [0.0] * n, buffer
        self.got = [0.0] * n
        self.reports = 0
        self.history: List[List[float]] = []
        self.pending: List[Tuple[int, int]] = []

    def rate(self, index: int) -> float:
        """What a sender puts on the line."""
        told = int(self.senders[index].peers[0].rate)
        return min(self.demands[index], told or LINE, LINE) if self.on[index] else 0.0

    def step(self) -> None:
        seconds = T / SECOND / self.STEPS
        self.flight.append([self.rate(index) for index in range(len(self.senders))])
        arriving = [rate * seconds for rate in self.flight.popleft()]
        room = self.buffer + LINE * seconds - sum(self.queue)
        taken = min(1.0, room / sum(arriving)) if any(arriving) else 1.0
        self.queue = [one + more * taken for one, more in zip(self.queue, arriving)]
        backlog = sum(self.queue)
        served = min(1.0, LINE * seconds / backlog) if backlog else 1.0
        for index, waiting in enumerate(self.queue):
            length = round(waiting * served)
            self.queue[index] = waiting * (1 - served)
            if length:
                packets = max(1, length // 1514)
                marks = packets if self.ecn and backlog * (1 - served) > 30_000 else 0
                self.receiver.receive(self.receiver.peers[index], length, marks, packets)
                self.got[index] += length
            if self.rate(index):
                self.senders[index].send(self.senders[index].peers[0])
        for index, rate in self.mail.popleft():
            self.senders[index].hear(self.senders[index].peers[0], rate)

    def run(self, periods: int) -> None:
        n = len(self.senders)
        for _ in range(periods):
            before = list(self.got)
            for number in range(self.STEPS):
                self.mail.append([] if number else self.pending)
                self.step()
            rates = [(now - then) * SECOND / T for now, then in zip(self.got, before)]
            self.history.append(rates)
            self.receiver.input.peers = max(1, sum(1 for rate in rates if rate))
            told = self.receiver.tick(round(sum(rates)))
            self.reports += len(told)
            self.pending = [(self.receiver.peers.index(peer), int(report.rate)) for peer, report in told
                            if self.random.random() >= self.loss]
            for index in range(n):
                self.senders[index].input.peers = 1
                self.senders[index].tick()


def settled(loop: Loop, total: float, tolerance: float = 0.1) -> int:
    """Return the period after which the receiver's rate stays within tolerance of total."""
    bad = [number for number, rates in enumerate(loop.history) if abs(sum(rates) - total) > tolerance * total]
    return bad[-1] + 1 if bad else 0
