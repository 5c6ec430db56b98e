# SPDX-License-Identifier: Apache-2.0
"""The ECN field of packets from an uplink, where shims make packets ECT(0)."""

from typing import Any

import pytest

from .host import ACK, CE, CWR, ECE, ECT_0, ECT_1, NOT_ECT, SECOND, SYN, TCP, Host, address

CAPACITY = 125_000_000
HERE, THERE = address("10.0.0.1"), address("10.1.0.1")
AE, FIN, RST = 0x100, 0x01, 0x04
FIELDS = (NOT_ECT, ECT_1, ECT_0, CE)


class Receiver:
    """A VM under law static, to which one flow comes."""

    def __init__(self, host: Host) -> None:
        host.law("static")
        host.set(codepoint=2)
        self.host, self.uplink, self.vm = host, host.uplink(CAPACITY), host.vm()

    def tcp(self, ecn: int, flags: int = ACK, payload: int = 1448, port: int = 80) -> int:
        """Return the field that the VM gets."""
        got = self.host.receive(self.vm, self.uplink, THERE, HERE, protocol=TCP, is_tcp=True, port_source=port,
                                port_destination=1, flags=flags, payload=payload, size=payload, ecn=ecn)
        assert got.passed and got.flags == flags
        return got.ecn

    def other(self, ecn: int, **fields: Any) -> int:
        """The same for what is not TCP."""
        return self.host.receive(self.vm, self.uplink, THERE, HERE, ecn=ecn, **fields).ecn


@pytest.fixture
def receiver(host: Host) -> Receiver:
    return Receiver(host)


@pytest.mark.parametrize("flags", [SYN, SYN | ECE | CWR, SYN | ACK, SYN | ACK | ECE, ACK, ACK | ECE, FIN | ACK, RST])
def test_segments_without_payload_are_not_ect_again(receiver: Receiver, flags: int) -> None:
    assert [receiver.tcp(ecn, flags, 0) for ecn in FIELDS] == [NOT_ECT, ECT_1, NOT_ECT, NOT_ECT]


def test_a_syn_with_data_is_not_ect_again(receiver: Receiver) -> None:
    assert receiver.tcp(ECT_0, SYN | ECE | CWR, 100) == NOT_ECT


def test_data_of_unknown_connections_stays(receiver: Receiver) -> None:
    assert [receiver.tcp(ecn) for ecn in FIELDS] == list(FIELDS)


@pytest.mark.parametrize("syn,refused", [
    (SYN, True), (SYN | ECE, True), (SYN | AE, True), (SYN | ECE | CWR, False), (SYN | ECE | CWR | AE, False),
    (SYN | ACK, True), (SYN | ACK | ECE | CWR | AE, True), (SYN | ACK | ECE, False), (SYN | ACK | AE, False),
    (SYN | ACK | CWR, False)])
def test_data_is_not_ect_again_where_the_peers_syn_refuses(receiver: Receiver, syn: int, refused: bool) -> None:
    receiver.tcp(ECT_0, syn, 0)
    for ecn in (ECT_0, CE):
        assert receiver.tcp(ecn) == (NOT_ECT if refused else ecn)
        assert receiver.tcp(ecn, port=81) == ecn, "another flow"
    assert receiver.tcp(ECT_1) == ECT_1


def test_a_refusal_is_forgotten_and_data_does_not_renew_it(receiver: Receiver) -> None:
    receiver.tcp(ECT_0, SYN, 0)
    for _ in range(7):
        receiver.host.pass_time(SECOND)
        assert receiver.tcp(CE) == NOT_ECT
    receiver.host.pass_time(4 * SECOND)
    assert receiver.tcp(CE) == CE


@pytest.mark.parametrize("flags", [ACK | CWR, ACK | ECE, ACK | AE, SYN | ECE | CWR, SYN | ACK | ECE])
def test_flags_of_ecn_end_a_refusal(receiver: Receiver, flags: int) -> None:
    """It was another connection's before, or forged."""
    receiver.tcp(ECT_0, SYN, 0)
    assert receiver.tcp(CE) == NOT_ECT
    receiver.tcp(ECT_0, flags, 0 if flags & SYN else 100)
    assert receiver.tcp(CE) == CE


def test_other_packets_stay_ect_and_hear_no_marks(receiver: Receiver) -> None:
    assert [receiver.other(ecn) for ecn in FIELDS] == [NOT_ECT, ECT_1, ECT_0, ECT_0]
    assert receiver.other(CE, protocol=TCP) == ECT_0, "a fragment"


def test_flows_that_showed_ect_before_the_setting_are_not_taken_for_refusing(host: Host) -> None:
    """The same table remembers the one and the other."""
    receiver = Receiver(host)
    host.set(codepoint=1)
    assert (receiver.tcp(ECT_0), receiver.tcp(CE), receiver.tcp(ECT_1)) == (ECT_0, CE, NOT_ECT)
    host.set(codepoint=2)
    assert (receiver.tcp(ECT_0), receiver.tcp(CE)) == (ECT_0, CE)
    receiver.tcp(ECT_0, SYN, 0, port=82)
    host.set(codepoint=1)
    assert receiver.tcp(CE, port=82) == NOT_ECT


def test_switched_off_nothing_is_given_back(host: Host) -> None:
    receiver = Receiver(host)
    host.set(ecn=0)
    assert [receiver.tcp(ecn, SYN, 0) for ecn in FIELDS] == list(FIELDS)
    assert [receiver.tcp(ecn) for ecn in FIELDS] == list(FIELDS)


def flow(number: int) -> bytes:
    return address(f"10.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}")


class Guests:
    """VMs under law static whose guests have flows with ECN; shims make packets ECT(1)."""

    def __init__(self, host: Host, count: int) -> None:
        host.law("static")
        self.host, self.uplink, self.vms = host, host.uplink(CAPACITY), [host.vm() for _ in range(count)]

    def get(self, number: int, vm: int, ecn: int) -> int:
        """Return what a VM gets of a packet of flow ``number``."""
        return self.host.receive(self.vms[vm], self.uplink, flow(number), HERE, ecn=ecn).ecn

    def kept(self, flows: int, vm: int) -> int:
        """Return how many of a VM's first flows have a CE mark kept."""
        return sum(self.get(number, vm, CE) == CE for number in range(flows))


@pytest.mark.parametrize("flows", [16_000, 65_000])
def test_flows_of_one_vm_take_no_marks_of_another(host: Host, flows: int) -> None:
    guests = Guests(host, 2)
    for number in range(200):
        assert guests.get(number, 0, ECT_0) == ECT_0
    for number in range(flows):
        guests.get(1000 + number, 1, ECT_0)
    assert guests.kept(200, 0) == 200 and host.counter(guests.vms[0], "rx_ce_lost") == 0


def test_a_vm_with_many_flows_has_a_larger_table_and_no_more_than_it_may(host: Host) -> None:
    """8,000 flows find room; of 40,000 those that go on stay, and marks of the lost ones are counted."""
    guests = Guests(host, 1)
    for number in range(8000):
        guests.get(number, 0, ECT_0)
    assert guests.kept(8000, 0) >= 7600
    host.lib.shim_host_quiesce()
    allocated = host.lib.shim_host_allocated
    for turn in range(5):
        host.pass_time(SECOND * 6 // 5)
        for number in range(200):
            guests.get(number, 0, ECT_0 if turn % 2 else CE)
        for number in range(8000):
            guests.get(10_000 + 8000 * turn + number, 0, ECT_0)
    # The secret hash decides: 191 stay on average, with a standard deviation of 3.
    assert guests.kept(200, 0) >= 180, "flows that went on were lost to new ones"
    before = host.counter(guests.vms[0], "rx_ce_lost")
    lost = sum(guests.get(10_000 + number, 0, CE) != CE for number in range(8000))
    assert lost >= 4000 and host.counter(guests.vms[0], "rx_ce_lost") - before == lost
    host.lib.shim_host_quiesce()
    assert host.lib.shim_host_allocated == allocated, "more than one table"


def test_marks_of_flows_without_ecn_are_not_counted_as_lost(host: Host) -> None:
    guests = Guests(host, 1)
    guests.get(1, 0, ECT_0)
    assert guests.get(2, 0, ECT_1) == guests.get(2, 0, CE) == NOT_ECT
    assert host.counter(guests.vms[0], "rx_ce_lost") == 0


def test_a_table_is_made_when_it_is_needed_and_goes_with_the_law(host: Host) -> None:
    guests = Guests(host, 1)
    guests.get(1, 0, ECT_1)
    guests.get(1, 0, CE)
    allocated = host.lib.shim_host_allocated
    guests.get(1, 0, ECT_0)
    assert host.lib.shim_host_allocated == allocated + 1
    host.configure(guests.vms[0], law=None)
    host.law(None)
    host.lib.shim_host_quiesce()
    assert host.lib.shim_host_allocated <= allocated
    host.law("static")
    assert guests.get(1, 0, CE) == NOT_ECT


def test_without_memory_marks_are_hidden_and_counted(host: Host) -> None:
    guests = Guests(host, 1)
    host.lib.shim_host_fail_at, host.lib.shim_host_fail_count = host.lib.shim_host_allocations + 1, 1
    assert guests.get(1, 0, ECT_0) == ECT_0
    host.lib.shim_host_fail_at = 0
    assert guests.get(1, 0, CE) == NOT_ECT and host.counter(guests.vms[0], "rx_ce_lost") == 1
    host.pass_time(2 * SECOND)
    assert guests.get(1, 0, ECT_0) == ECT_0 and guests.get(1, 0, CE) == CE
