# SPDX-License-Identifier: Apache-2.0
"""What leaves for where nobody answers: other names of a host that grants a rate give a VM no more than an eighth."""

from typing import Any, Dict, List, Tuple

import pytest

from sdngcc.controller.wire.message import TYPE_REPORT, Message, encode_v1
from sdngcc.shim import core as binding

from .host import FULL, KEY, MS, SECOND, Host, address
from .link import RECEIVER, RETRY_NS, Link

CAPACITY = 125_000_000
GRANT = 1_000_000
HERE, THERE = address("10.0.0.1"), address("10.1.0.1")
LAWS = ["eyeq", "seawall", "scc", "elasticswitch", "hygenicc"]
#: MAC addresses of the host that grants, of another, of a router, and one that nobody has.
MAC, OTHER_MAC, ROUTER, NOBODY = 0x020000000002, 0x020000000004, 0x020000000006, 0x0200000000FF
#: Of what leaves in 100 ms at no more than a rate: what a bucket has, and eleven packets that may wait.
SLACK = 3028 + 12 * FULL


@pytest.fixture(params=LAWS)
def law(request: pytest.FixtureRequest, host: Host) -> str:
    host.key(KEY)
    host.law(request.param)
    return str(request.param)


def hear(host: Host, vm: Any, uplink: Any, *peers: Tuple[bytes, int]) -> None:
    """Bring a VM a packet of each of these peers, by their MAC addresses."""
    for peer, mac in peers:
        assert host.receive(vm, uplink, peer, HERE, bytes=60, link_source=mac).passed


class Granted:
    """A VM, and a peer whose shim granted it a rate."""

    def __init__(self, host: Host, rate: int = GRANT, mac: int = MAC) -> None:
        self.host, self.mac, self.sequence, self.rate = host, mac, 0, rate
        self.uplink, self.vm = host.uplink(CAPACITY), host.vm()
        hear(host, self.vm, self.uplink, (THERE, mac))
        self.send(THERE, 1)
        self.grant()
        host.pass_time(20 * MS)

    def grant(self) -> None:
        """Let the peer's shim grant the rate once more."""
        self.sequence += 1
        report = Message(vm=HERE, peer=THERE, marks=0, type=TYPE_REPORT, rate=self.rate, point_datapath=FULL,
                         weight_total=self.sequence, interval_ns=MS // 2, sender=7, epoch=1000, sequence=self.sequence)
        data = encode_v1(report, KEY)
        verdict = self.host.lib.shim_lab_message_from(self.vm, self.uplink, self.mac, THERE, HERE, data, len(data))
        assert self.host.names[verdict] == "SHIM_REPORTS"

    def send(self, to: bytes, count: int = 1, **fields: Any) -> int:
        """Send packets at once; return the bytes that passed."""
        return sum(self.host.send(self.vm, self.uplink, HERE if fields.get("version", 4) == 4 else address("fd00::1"),
                                  to, **{"link_destination": self.mac, **fields}).passed for _ in range(count))

    def flood(self, *names: Tuple[bytes, Dict[str, Any]]) -> int:
        """Send 40 MB/s to names in turn for 100 ms, while the peer grants its rate on; return the bytes that passed."""
        passed = 0
        for number in range(2642):
            to, fields = names[number % len(names)]
            passed += self.send(to, **fields)
            if number % 26 == 25:
                self.host.pass_time(MS)
            if number % 520 == 0:
                self.grant()
        return passed


def name(text: str, **fields: Any) -> Tuple[bytes, Dict[str, Any]]:
    return address(text), {"version": 6 if ":" in text else 4, **fields}


NAMES: Dict[str, List[Tuple[bytes, Dict[str, Any]]]] = {
    "an address never heard": [name("10.1.0.99")],
    "a hundred of them": [name(f"10.1.1.{number}") for number in range(100)],
    "the other family": [name("fd00::99")],
    "a group": [name("239.1.2.3", link_destination=0x01005E010203)],
    "a group of the other family": [name("ff02::1", link_destination=0x333300000001)],
    "everybody": [name("255.255.255.255", link_destination=0xFFFFFFFFFFFF)],
    "a subnet's broadcast": [name("10.1.0.255", link_destination=0xFFFFFFFFFFFF)],
    "the peer's address at everybody's": [name("10.1.0.1", link_destination=0xFFFFFFFFFFFF)],
    "no IP": [(bytes(16), {"version": 0})],
    "an address that switches flood": [name("10.1.0.99", link_destination=NOBODY)],
    "all in turn": [name("10.1.0.99"), name("fd00::99"), name("239.1.2.3", link_destination=0x01005E010203),
                    (bytes(16), {"version": 0})],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_other_names_give_no_more_than_a_part_of_the_tightest_grant(host: Host, names: Any) -> None:
    host.key(KEY)
    host.law("eyeq")
    granted = Granted(host)
    least = GRANT // 8 if names != NAMES["no IP"] else GRANT
    passed = granted.flood(*names)
    more = GRANT if names == NAMES["all in turn"] else 0
    assert FULL <= passed <= (least + more) // 10 + 2 * SLACK, passed
    dropped = host.counter(granted.vm, "drop_unanswered") + host.counter(granted.vm, "drop_shared")
    assert dropped >= 2400


def test_an_address_that_answers_is_not_reached_by_anothers_mac_address(host: Host) -> None:
    """Who sends to a host without a shim, and has the frames reach one that grants, is bound as by the latter."""
    host.key(KEY)
    host.law("eyeq")
    granted = Granted(host)
    hear(host, granted.vm, granted.uplink, (address("10.1.0.4"), OTHER_MAC))
    assert granted.flood(name("10.1.0.4", link_destination=OTHER_MAC)) > 3_500_000
    assert granted.flood(name("10.1.0.4")) <= GRANT // 80 + 2 * SLACK


def test_behind_a_router_who_answers_is_bound_by_no_others_grant(host: Host) -> None:
    """Many addresses behind one MAC address: one grants, one answers and has no shim, one never answers."""
    host.key(KEY)
    host.law("eyeq")
    granted = Granted(host, mac=ROUTER)
    hear(host, granted.vm, granted.uplink, (address("192.0.2.1"), ROUTER))
    assert granted.flood(name("192.0.2.1")) > 3_500_000
    assert granted.flood(name("192.0.2.2")) <= GRANT // 80 + 2 * SLACK
    # A gateway that takes packets by another MAC address than it sends by (VRRP).
    assert granted.flood(name("192.0.2.1", link_destination=NOBODY)) > 3_500_000


def test_what_a_new_peer_gets_at_once_is_enough_to_be_answered(host: Host, law: str) -> None:
    """ARP, DHCP, a SYN and the first ten packets to a new peer pass while a grant is filled; then it has all."""
    granted = Granted(host, rate=125_000)
    new = address("10.1.0.5")
    for _ in range(200):
        granted.send(THERE, 3)
        host.pass_time(MS)
    assert granted.send(bytes(16), version=0, bytes=42, link_destination=0xFFFFFFFFFFFF)
    assert host.send(granted.vm, granted.uplink, address("0.0.0.0"), address("255.255.255.255"), bytes=342,
                     link_destination=0xFFFFFFFFFFFF).passed
    assert granted.send(new, bytes=66, link_destination=OTHER_MAC)
    hear(host, granted.vm, granted.uplink, (new, OTHER_MAC))
    first = [host.send(granted.vm, granted.uplink, HERE, new, link_destination=OTHER_MAC) for _ in range(10)]
    assert all(one.passed for one in first)
    if law in ("eyeq", "scc"):
        assert all(one.departure_ns < host.now_ns + 2 * MS for one in first)


def test_who_grants_nothing_leaves_an_eighth_or_the_guarantee(host: Host, law: str) -> None:
    uplink, vms = host.uplink(CAPACITY), [host.vm(), host.vm(least=CAPACITY // 2)]
    passed = [0, 0]
    for _ in range(100):
        for number, vm in enumerate(vms):
            for _ in range(80):
                passed[number] += host.send(vm, uplink, address(f"10.0.0.{number + 1}"), THERE,
                                            link_destination=NOBODY).passed
        host.pass_time(MS)
    most = [CAPACITY // 8, CAPACITY // 2]
    assert all(sent <= rate // 10 * 1.05 + 4 * SLACK for sent, rate in zip(passed, most)), passed
    assert passed[1] > CAPACITY // 2 // 10 * 0.9


def test_a_shim_answers_who_sends_to_its_vm(hosts: Any) -> None:
    """Under every law the receiver's shim says within a period that it is there, and once a second from then on."""
    for law in LAWS:
        host = hosts()
        host.key(KEY)
        host.law(law)
        uplink, vm = host.uplink(CAPACITY), host.vm()
        host.send(vm, uplink, HERE, address("10.3.0.1"), bytes=60)
        for number in range(250):
            host.receive(vm, uplink, THERE, HERE, ecn=0)
            host.pass_time(10 * MS)
            if number == 1:
                assert host.reports(), law
        found = [binding.decode(data, KEY)[1] for _, to, data in host.reports() if to == THERE]
        assert len(found) >= 2, law
        # It goes on to be answered, and says nothing that the sender's law would obey.
        other = hosts()
        other.key(KEY)
        other.law(law)
        uplink, vm = other.uplink(CAPACITY), other.vm()
        other.send(vm, uplink, THERE, HERE)
        before = other.limiter(vm, uplink).rate
        empty = encode_v1(Message(vm=THERE, peer=HERE, marks=0, type=TYPE_REPORT, sender=7, epoch=1000, sequence=1),
                          KEY)
        assert other.message(vm, uplink, HERE, THERE, empty) == "reports"
        assert other.limiter(vm, uplink).rate == before


class Shared(Link):
    """A link to one hypervisor with two VMs: the first sender floods one, the second names of the other."""

    def __init__(self, core: Any, law: str) -> None:
        super().__init__(core, law, 12_500_000, [1, 1])
        self.other = self.two.vm()
        self.other_name = address("10.2.0.2")
        self.places[self.other_name] = (self.two, self.other, self.uplink_two)
        self.two.send(self.other, self.uplink_two, self.other_name, address("10.3.0.1"), bytes=60)

    def flood(self, number: int, names: List[bytes], turn: int = 0) -> None:
        """Send UDP from a sender to names in turn from now on."""
        to = names[turn % len(names)]
        group = to[0] == 0xFF or to[12] == 239
        outcome = self.senders[number].send(
            self.vms[number], self.uplinks[number], self.addresses[number] if to[10:12] == b"\xff\xff" else
            address(f"fd01::{number + 1}"), to, version=4 if to[10:12] == b"\xff\xff" else 6,
            link_destination=0x01005E000001 if group else MAC)
        if not outcome.passed:
            self.after(RETRY_NS, lambda: self.flood(number, names, turn + 1))
            return
        leaves_ns = max(outcome.departure_ns, self.two.now_ns)
        vms = [self.receiver, self.other] if group else [self.receiver if to == RECEIVER else self.other]

        def arrive(ecn: int) -> None:
            for vm in vms:
                passed = self.two.receive(vm, self.uplink_two, self.addresses[number], to, ecn=ecn, id=outcome.id,
                                          echo=outcome.echo).passed
                if passed and to == RECEIVER:
                    self.delivered[number] += FULL

        self.at(leaves_ns, lambda: self.cross(number, outcome, FULL, arrive))
        self.at(max(leaves_ns, self.two.now_ns + FULL * SECOND // self.rate),
                lambda: self.flood(number, names, turn + 1))

    def speak(self, heard: bool) -> None:
        """Let the flooded VM send to the second sender by its own name, which that one's shim hears of or not."""
        self.two.send(self.other, self.uplink_two, self.other_name, self.addresses[1], bytes=60)
        if heard:
            self.senders[1].receive(self.vms[1], self.uplinks[1], self.other_name, self.addresses[1], bytes=60,
                                    link_source=MAC)

    def goodput(self, names: List[bytes]) -> float:
        """Return the first sender's, Mb/s, beside the second one's flood of names."""
        self.flood(0, [RECEIVER])
        self.flood(1, names)
        self.run(400 * MS)
        self.count_anew()
        self.run(500 * MS)
        self.close()
        return self.delivered[0] * 8 / 0.5 / 1e6


@pytest.mark.parametrize("law", LAWS)
def test_a_victim_has_what_it_has_beside_an_honest_flood(core: Any, law: str) -> None:
    honest = Shared(core, law).goodput([address("10.2.0.2")])
    attacks = {"never heard": [address("10.2.0.99")], "group": [address("239.1.2.3")],
               "other family": [address("fd02::2")],
               "both": [address("10.2.0.2"), address("10.2.0.99"), address("239.1.2.3")]}
    attacked = {kind: Shared(core, law).goodput(names) for kind, names in attacks.items()}
    for heard in (False, True):
        link = Shared(core, law)
        link.speak(heard)
        attacked[f"never heard, own name {'heard' if heard else 'lost'}"] = link.goodput([address("10.2.0.99")])
    print(f"{law}: honest {honest:.1f} Mb/s, attacked " + ", ".join(f"{kind} {rate:.1f}" for kind, rate in
                                                                     attacked.items()))
    assert all(rate >= 0.9 * honest for rate in attacked.values()), (honest, attacked)
