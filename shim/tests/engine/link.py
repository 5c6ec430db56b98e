# SPDX-License-Identifier: Apache-2.0
"""A simulated link to a host: a VM on each of several others sends all it may to a VM there.

The link's queue marks CE above a threshold and drops at its end. Reports and ACKs travel the other way without
congestion. Time goes from event to event; the engines tick when they are due.
"""

import heapq
import itertools
from typing import Any, Callable, Dict, List, Optional, Tuple

from sdngcc.shim import core as binding

from .host import ACK, CE, FULL, KEY, NO_SCALE, NOT_ECT, SECOND, SYN, TCP, Host, Outcome, address

RECEIVER = address("10.2.0.1")
CONTROLLER = address("10.3.0.1")
SEGMENT = 1448
SCALE = 7
RETRY_NS = 100_000


class Link:
    """A host for each sender and one for the receiver; the link to it and all uplinks carry ``rate`` bytes/s."""

    def __init__(self, core: Any, law: str, rate: int, weights: List[int], mark_bytes: int = 50_000,
                 queue_bytes: int = 400_000, delay_ns: int = 50_000, **settings: int) -> None:
        self.core, self.rate, self.delay_ns = core, rate, delay_ns
        self.mark_bytes, self.queue_bytes = mark_bytes, queue_bytes
        self.senders = [Host(core, 2 + number, **settings) for number in range(len(weights))]
        self.two = Host(core, 1, **settings)
        self.hosts = [*self.senders, self.two]
        for host in self.hosts:
            host.key(KEY)
            host.law(law)
        self.uplinks = [host.uplink(rate) for host in self.senders]
        self.uplink_two = self.two.uplink(rate)
        self.weights = weights
        self.addresses = [address(f"10.1.0.{number + 1}") for number in range(len(weights))]
        self.vms = [host.vm(weight) for host, weight in zip(self.senders, weights)]
        self.receiver = self.two.vm()
        self.places: Dict[bytes, Tuple[Host, Any, Any]] = {RECEIVER: (self.two, self.receiver, self.uplink_two)}
        self.places.update(zip(self.addresses, zip(self.senders, self.vms, self.uplinks)))
        # Whose address it is must be known before the first report for it comes.
        self.two.send(self.receiver, self.uplink_two, RECEIVER, CONTROLLER, bytes=60)
        self.events: List[Tuple[int, int, Callable[[], None]]] = []
        self.turn = itertools.count()
        self.filled, self.filled_ns, self.most_filled = 0.0, self.two.now_ns, 0.0
        self.delivered = [0] * len(weights)
        self.marks = [0] * len(weights)
        self.lost = self.reports = 0
        self.refused: Dict[str, int] = {}

    def close(self) -> None:
        for host in self.hosts:
            host.close()

    def after(self, ns: int, event: Callable[[], None]) -> None:
        self.at(self.two.now_ns + ns, event)

    def at(self, time_ns: int, event: Callable[[], None]) -> None:
        heapq.heappush(self.events, (time_ns, next(self.turn), event))

    def run(self, ns: int) -> None:
        """Let so much time go by."""
        end_ns = self.two.now_ns + ns
        while True:
            due = [host.due() for host in self.hosts if host.due()]
            next_ns = min([end_ns, *due, *(event[0] for event in self.events[:1])])
            self.core.lib.shim_host_clock_ns = max(next_ns, self.two.now_ns)
            if next_ns >= end_ns:
                return
            for host in self.hosts:
                host.tick()
                for report in host.reports():
                    self.after(self.delay_ns, lambda report=report: self.feedback(lambda: self.report(*report)))
            while self.events and self.events[0][0] <= self.two.now_ns:
                heapq.heappop(self.events)[2]()

    def feedback(self, deliver: Callable[[], None]) -> None:
        """Bring a message or a report where it is for; a link with faults may do that otherwise."""
        deliver()

    def report(self, source: bytes, destination: bytes, data: bytes) -> None:
        host, vm, uplink = self.places[destination]
        verdict = host.message(vm, uplink, source, destination, data)
        self.reports += verdict == "reports"
        if verdict != "reports":
            self.refused[verdict] = self.refused.get(verdict, 0) + 1

    def cross(self, number: int, outcome: Outcome, size: int, arrive: Callable[[int], None]) -> None:
        """Let a packet of sender ``number`` pass the link now; ``arrive`` gets its ECN field at the other end."""
        now_ns = self.two.now_ns
        self.filled = max(self.filled - (now_ns - self.filled_ns) * self.rate / SECOND, 0.0)
        self.filled_ns = now_ns
        if self.filled + size > self.queue_bytes:
            self.lost += 1
            return
        ecn = outcome.ecn
        if self.filled > self.mark_bytes and ecn != NOT_ECT:
            ecn = CE
            self.marks[number] += 1
        self.filled += size
        self.most_filled = max(self.most_filled, self.filled)
        self.after(int(self.filled / self.rate * SECOND) + self.delay_ns, lambda: arrive(ecn))

    # UDP: all the time as much as passes.

    def blast(self, number: int) -> None:
        """Send UDP from sender ``number`` from now on."""
        vm, name = self.vms[number], self.addresses[number]
        outcome = self.senders[number].send(vm, self.uplinks[number], name, RECEIVER)
        if not outcome.passed:
            self.after(RETRY_NS, lambda: self.blast(number))
            return
        leaves_ns = max(outcome.departure_ns, self.two.now_ns)

        def arrive(ecn: int) -> None:
            if self.two.receive(self.receiver, self.uplink_two, name, RECEIVER, ecn=ecn, id=outcome.id,
                                echo=outcome.echo).passed:
                self.delivered[number] += FULL

        self.at(leaves_ns, lambda: self.cross(number, outcome, FULL, arrive))
        self.at(max(leaves_ns, self.two.now_ns + FULL * SECOND // self.rate), lambda: self.blast(number))

    # A controller that reads the link's marks.

    def control(self, period_ns: int, rates: Optional[Callable[[int], int]] = None) -> None:
        """Tell each sender every period of the marks its packets got, or of the rate it should have."""
        state = {"sequence": 0}
        kinds = self.core.ffi.typeof("enum shim_message_type").relements

        def tell() -> None:
            state["sequence"] += 1
            for number, name in enumerate(self.addresses):
                marks, self.marks[number] = self.marks[number], 0
                if not marks and not rates:
                    continue
                data = binding.encode({
                    "type": kinds["SHIM_MESSAGE_RATE" if rates else "SHIM_MESSAGE_MARKS"], "vm": name,
                    "peer": RECEIVER, "marks": 0 if rates else marks, "interval_ns": 0 if rates else period_ns,
                    "rate": rates(number) if rates else 0, "weight_total": sum(self.weights), "sender": 77,
                    "epoch": 5, "sequence": state["sequence"]}, KEY)
                self.feedback(lambda number=number, data=data: self.told(number, data))
            self.after(period_ns, tell)

        self.after(period_ns, tell)

    def told(self, number: int, data: bytes) -> None:
        """Bring a controller's message to a sender."""
        verdict = self.senders[number].message(self.vms[number], self.uplinks[number], CONTROLLER,
                                               self.addresses[number], data)
        if verdict != "messages":
            self.refused[verdict] = self.refused.get(verdict, 0) + 1

    def count_anew(self) -> None:
        """Forget what was delivered and lost so far, and how full the queue was."""
        self.delivered = [0] * len(self.weights)
        self.lost, self.most_filled = 0, 0.0


class Guest:
    """A TCP guest without ECN and without a window of its own: it sends all that its peer's window allows."""

    def __init__(self, link: Link, number: int) -> None:
        self.link, self.number = link, number
        self.name, self.vm = link.addresses[number], link.vms[number]
        self.host, self.uplink = link.senders[number], link.uplinks[number]
        self.port = 10_000 + number
        self.una, self.nxt, self.window, self.received = 1, 1, 0, 1
        self.asleep = False
        self.handshake()

    def out(self, flags: int, seq: int, ack: int, payload: int = 0) -> Outcome:
        return self.host.send(
            self.vm, self.uplink, self.name, RECEIVER, protocol=TCP, is_tcp=True, port_source=self.port,
            port_destination=80, flags=flags, seq=seq, ack=ack, payload=payload, size=payload, window=65535,
            mss=SEGMENT if flags & SYN else 0, scale=SCALE if flags & SYN else NO_SCALE, bytes=66 + payload,
            ecn=NOT_ECT)

    def back(self, flags: int, seq: int, ack: int) -> Outcome:
        """The receiving guest's segment, through its host and back."""
        link = self.link
        words = {"protocol": TCP, "is_tcp": True, "port_source": 80, "port_destination": self.port, "seq": seq,
                 "ack": ack, "window": 65535, "bytes": 66, "mss": SEGMENT if flags & SYN else 0,
                 "scale": SCALE if flags & SYN else NO_SCALE}
        left = link.two.send(link.receiver, link.uplink_two, RECEIVER, self.name, flags=flags, ecn=NOT_ECT, **words)
        words["window"] = left.window
        return self.host.receive(self.vm, self.uplink, RECEIVER, self.name, flags=left.flags, ecn=left.ecn, **words)

    def arrive(self, flags: int, seq: int, ack: int, payload: int, ecn: int) -> Outcome:
        link = self.link
        return link.two.receive(
            link.receiver, link.uplink_two, self.name, RECEIVER, protocol=TCP, is_tcp=True, port_source=self.port,
            port_destination=80, flags=flags, seq=seq, ack=ack, payload=payload, size=payload, window=65535,
            mss=SEGMENT if flags & SYN else 0, scale=SCALE if flags & SYN else NO_SCALE, bytes=66 + payload, ecn=ecn)

    def handshake(self) -> None:
        asked = self.out(SYN, 0, 0)
        self.arrive(asked.flags, 0, 0, 0, asked.ecn)
        self.back(SYN | ACK, 0, 1)
        answer = self.out(ACK, 1, 1)
        self.arrive(answer.flags, 1, 1, 0, answer.ecn)
        self.window = 10 * SEGMENT
        self.send()

    def send(self) -> None:
        """Send what the window allows, one segment at a time."""
        if self.nxt + SEGMENT - self.una > self.window:
            self.asleep = True
            return
        seq = self.nxt
        outcome = self.out(ACK, seq, 1, SEGMENT)
        if not outcome.passed:
            self.link.after(RETRY_NS, self.send)
            return
        self.nxt += SEGMENT
        leaves_ns = max(outcome.departure_ns, self.host.now_ns)
        self.link.at(leaves_ns, lambda: self.link.cross(
            self.number, outcome, SEGMENT + 66, lambda ecn: self.segment(outcome.flags, seq, ecn)))
        self.link.at(leaves_ns, self.send)

    def segment(self, flags: int, seq: int, ecn: int) -> None:
        """A segment at the receiver, in order since the link loses none; its ACK goes back at once."""
        self.arrive(flags, seq, 1, SEGMENT, ecn)
        self.received = seq + SEGMENT
        self.link.delivered[self.number] += SEGMENT
        ack = self.received
        self.link.after(self.link.delay_ns, lambda: self.acknowledged(ack))

    def acknowledged(self, ack: int) -> None:
        heard = self.back(ACK, 1, ack)
        self.una = max(self.una, ack)
        self.window = heard.window << SCALE
        if self.asleep:
            self.asleep = False
            self.send()
