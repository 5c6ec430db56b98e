# SPDX-License-Identifier: Apache-2.0
"""Packets in a victim's name from another host: a peer answers addresses of a VM, and the rest is not answered."""

from typing import Any, List

import pytest

from sdngcc.controller.wire.message import TYPE_REPORT, Message, encode_v1

from .host import FULL, KEY, MS, SECOND, Host, address
from .link import RECEIVER, RETRY_NS, Link

CAPACITY = 125_000_000
THERE = address("10.2.0.1")
LAWS = ["eyeq", "seawall", "scc", "elasticswitch", "hygenicc"]
MAC = 0x020000000001


class Named(Link):
    """A link to one host: the first sender floods its VM, the second one does in its own name or the first one's."""

    def __init__(self, core: Any, law: str) -> None:
        super().__init__(core, law, 12_500_000, [1, 1])

    def flood(self, number: int, sources: List[bytes], turn: int = 0) -> None:
        """Send UDP from a sender, by sources in turn, from now on."""
        source = sources[turn % len(sources)]
        outcome = self.senders[number].send(self.vms[number], self.uplinks[number], source, RECEIVER,
                                            link_destination=MAC)
        if not outcome.passed:
            self.after(RETRY_NS, lambda: self.flood(number, sources, turn + 1))
            return
        leaves_ns = max(outcome.departure_ns, self.two.now_ns)

        def arrive(ecn: int) -> None:
            passed = self.two.receive(self.receiver, self.uplink_two, source, RECEIVER, ecn=ecn, id=outcome.id,
                                      echo=outcome.echo).passed
            if passed:
                self.delivered[number] += FULL

        self.at(leaves_ns, lambda: self.cross(number, outcome, FULL, arrive))
        self.at(max(leaves_ns, self.two.now_ns + FULL * SECOND // self.rate),
                lambda: self.flood(number, sources, turn + 1))

    def answer(self) -> None:
        """Let the receiver say a word to each sender's own address every 10 ms, which carries echoes of marks."""
        for number, to in enumerate(self.addresses):
            outcome = self.two.send(self.receiver, self.uplink_two, RECEIVER, to, bytes=60)
            self.senders[number].receive(self.vms[number], self.uplinks[number], RECEIVER, to, bytes=60,
                                         link_source=MAC, echo=outcome.echo, id=outcome.id)
        self.after(10 * MS, self.answer)

    def goodput(self, sources: List[bytes], answered: bool) -> float:
        """Return the first sender's, Mb/s, beside the second one's flood from sources."""
        if answered:
            self.answer()
        self.flood(0, [self.addresses[0]])
        self.flood(1, sources)
        self.run(400 * MS)
        self.count_anew()
        self.run(500 * MS)
        self.close()
        return self.delivered[0] * 8 / 0.5 / 1e6


@pytest.mark.parametrize("law", LAWS)
def test_a_victim_keeps_its_part_beside_who_sends_in_its_name(core: Any, law: str) -> None:
    """All the time, by turns, or but for a word of its own that is answered."""
    victim, own = address("10.1.0.1"), address("10.1.0.2")
    honest = Named(core, law).goodput([own], True)
    attacked = {what: Named(core, law).goodput(sources, answered) for what, sources, answered in (
        ("never answered", [victim], False), ("by turns", [victim, own], True),
        ("mostly", [victim] * 99 + [own], True))}
    print(f"{law}: honest {honest:.1f} Mb/s, attacked {attacked}")
    assert all(rate >= 0.9 * honest for rate in attacked.values()), (honest, attacked)


def test_who_sends_from_one_address_at_two_places_is_told_in_turn(host: Host) -> None:
    """Until the VM itself sends to one of them, however many packets come from the other."""
    host.key(KEY)
    host.law("scc")
    uplink, vm, here, there = host.uplink(CAPACITY), host.vm(), address("10.0.0.1"), address("10.1.0.1")
    report = host.ffi.new("struct shim_lab_report *")

    def told() -> List[int]:
        """Return where reports of 200 ms go, in which one place sends fifty times as many packets."""
        found = []
        for number in range(200):
            for packet in range(51):
                host.receive(vm, uplink, there, here, ecn=3, bytes=100, id=number,
                             link_source=MAC if packet == number % 51 else MAC + 1)
            host.pass_time(MS)
            while host.lib.shim_lab_report(host.lab, report):
                found.append(report.mac)
        return found

    found = told()
    assert len(found) >= 20 and 0.4 <= found.count(MAC) / len(found) <= 0.6, found
    host.send(vm, uplink, here, there, link_destination=MAC)
    assert set(told()[1:]) == {MAC}


class Sender:
    """A VM with a peer, which answers some of its addresses."""

    def __init__(self, host: Host) -> None:
        self.host, self.sequence = host, 0
        host.key(KEY)
        host.law("eyeq")
        self.uplink, self.vm = host.uplink(CAPACITY), host.vm()

    def send(self, source: bytes, count: int = 1) -> None:
        """Send packets from an address."""
        for _ in range(count):
            self.host.send(self.vm, self.uplink, source, THERE, link_destination=MAC)

    def hear(self, here: bytes) -> None:
        """Bring a packet of the peer for an address."""
        assert self.host.receive(self.vm, self.uplink, THERE, here, bytes=60, link_source=MAC).passed

    def report(self, here: bytes) -> None:
        """Bring a report of the peer's shim for an address."""
        self.sequence += 1
        data = encode_v1(Message(vm=here, peer=THERE, marks=0, type=TYPE_REPORT, rate=CAPACITY, point_datapath=FULL,
                                 weight_total=self.sequence, interval_ns=MS // 2, sender=7, epoch=1000,
                                 sequence=self.sequence), KEY)
        verdict = self.host.lib.shim_lab_message_from(self.vm, self.uplink, MAC, THERE, here, data, len(data))
        assert self.host.names[verdict] == "SHIM_REPORTS"

    def answered(self, source: bytes) -> bool:
        """Tell whether packets from an address leave as those to a peer that answers, and let time pass."""
        before = self.host.counter(self.vm, "drop_unanswered")
        for _ in range(10):
            self.send(source, 60)
            self.host.pass_time(2 * MS)
        self.host.pass_time(100 * MS)
        return self.host.counter(self.vm, "drop_unanswered") == before


@pytest.fixture
def sender(host: Host) -> Sender:
    return Sender(host)


HERE = [address(f"10.0.0.{number}") for number in range(1, 21)]


def test_an_answer_is_for_the_address_that_it_came_for(sender: Sender) -> None:
    for here in HERE[:2]:
        sender.send(here)
    sender.hear(HERE[0])
    assert sender.answered(HERE[0]) and not sender.answered(HERE[1])
    sender.hear(HERE[1])
    assert sender.answered(HERE[0]) and sender.answered(HERE[1])


def test_an_answer_lasts_for_seconds(sender: Sender) -> None:
    """However busy another address of the VM is."""
    for here in HERE[:2]:
        sender.send(here)
        sender.hear(here)
    for _ in range(20):
        sender.hear(HERE[0])
        sender.host.pass_time(100 * MS)
    assert sender.answered(HERE[1])
    for _ in range(31):
        sender.hear(HERE[0])
        sender.host.pass_time(100 * MS)
    assert sender.answered(HERE[0]) and not sender.answered(HERE[1])


def test_a_report_answers_the_address_that_it_bears(sender: Sender) -> None:
    for here in HERE[:2]:
        sender.send(here)
    sender.report(HERE[0])
    assert sender.answered(HERE[0]) and not sender.answered(HERE[1])


def test_more_addresses_than_are_remembered_are_no_way_around(sender: Sender) -> None:
    for here in HERE:
        sender.send(here)
        sender.hear(here)
    assert sender.answered(HERE[0]) and not sender.answered(HERE[17])
    sender.hear(HERE[19])
    assert not sender.answered(HERE[17])


def test_addresses_that_are_set_need_no_answer_of_their_own(sender: Sender) -> None:
    words = address("10.0.0.0")
    assert sender.host.lib.shim_lab_set_prefixes(sender.vm, words, bytes([96 + 24]), 1) == 0
    sender.send(HERE[0])
    sender.hear(HERE[0])
    assert all(sender.answered(here) for here in HERE)


def test_translated_addresses_are_answered_until_reports_tell(sender: Sender) -> None:
    """A guest gets what is for its own address, and leaves by another: a peer without a shim answers that."""
    own, public, other = address("192.168.0.1"), *HERE[:2]
    sender.send(public)
    sender.hear(own)
    assert sender.answered(public)
    sender.report(public)
    sender.send(other)
    sender.hear(own)
    assert sender.answered(public) and not sender.answered(other)
