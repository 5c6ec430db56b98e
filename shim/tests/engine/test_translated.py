# SPDX-License-Identifier: Apache-2.0
"""Addresses that a bridge translates (NAT), and peers that do not answer."""

from typing import Any, List

import pytest

from sdngcc.shim import core as binding

from .host import KEY, MS, SECOND, Host, address

CAPACITY = 125_000_000
PUBLIC, OWN = address("198.51.100.1"), address("10.0.0.1")
OTHER = address("10.0.0.2")
THERE = address("10.1.0.1")
REPORT = 3


@pytest.fixture(name="vm")
def _vm(host: Host) -> Any:
    host.key(KEY)
    host.near = host.uplink(CAPACITY)
    return host.vm(least=CAPACITY // 100)


def report(host: Host, vm: Any, sequence: int, told: bytes = PUBLIC, to: bytes = PUBLIC, **fields: int) -> str:
    """Bring a report of THERE for `told`, in a packet to `to`; return what became of it."""
    data = binding.encode({"type": REPORT, "vm": told, "peer": THERE, "interval_ns": MS, "sender": 7, "epoch": 9,
                           "sequence": sequence, **fields}, KEY)
    return host.message(vm, host.near, THERE, to, data)


def converse(host: Host, vm: Any, times: int = 24) -> List[bytes]:
    """Let the VM send as PUBLIC and receive as OWN, last; return the addresses its reports are from."""
    for number in range(times):
        host.send(vm, host.near, PUBLIC, THERE, id=number)
        host.pass_time(5 * MS)
        host.receive(vm, host.near, THERE, OWN, id=number, ecn=3)
        host.pass_time(10 * MS)
    found = host.reports()
    for source, destination, data in found:
        verdict, fields = binding.decode(data, KEY)
        assert verdict == "ok" and fields["peer"] == source and destination == fields["vm"] == THERE
    return [source for source, _, _ in found]


@pytest.mark.parametrize("law", ["seawall", "scc", "hygenicc"])
def test_reports_are_from_where_the_vm_sends(host: Host, vm: Any, law: str) -> None:
    """What is received after a translation back does not teach another address."""
    host.law(law, **({"echo": 0} if law == "hygenicc" else {}))
    host.receive(vm, host.near, THERE, OWN)
    sources = converse(host, vm)
    assert len(sources) >= 10 and set(sources) == {PUBLIC}, sources


def test_a_vm_that_only_receives_reports_as_it_is_addressed(host: Host, vm: Any) -> None:
    host.law("seawall")
    for number in range(50):
        host.receive(vm, host.near, THERE, OWN, id=number)
        host.pass_time(MS)
    assert {source for source, _, _ in host.reports()} == {OWN}


def test_the_last_address_sent_from_counts(host: Host, vm: Any) -> None:
    host.law("seawall")
    converse(host, vm)
    host.send(vm, host.near, OTHER, THERE)
    host.receive(vm, host.near, THERE, OWN)
    host.pass_time(20 * MS)
    assert [source for source, _, _ in host.reports()] == [OTHER]


def test_a_translated_message_is_obeyed_by_the_owner_alone(host: Host, vm: Any) -> None:
    host.law("seawall")
    host.send(vm, host.near, PUBLIC, THERE)
    assert report(host, vm, 1) == "reports"
    assert report(host, vm, 2, to=OWN) == "reports", "translated for the guest"
    assert report(host, vm, 3, told=OTHER, to=OWN) == "refused_address"
    assert report(host, vm, 4, told=OTHER, to=OTHER) == "refused_port"
    neighbour = host.vm()
    host.send(neighbour, host.near, OTHER, THERE)
    assert report(host, neighbour, 5, to=OTHER) == "refused_address", "another VM's"
    assert report(host, neighbour, 6, to=PUBLIC) == "refused_port"


def sending(host: Host, vm: Any, ns: int) -> None:
    """Let the VM send a packet each 10 ms."""
    for number in range(ns // (10 * MS)):
        host.send(vm, host.near, PUBLIC, THERE, id=number)
        host.pass_time(10 * MS)


@pytest.mark.parametrize("law", ["eyeq", "seawall", "scc"])
def test_a_peer_that_falls_silent_is_counted_each_second(host: Host, vm: Any, law: str) -> None:
    host.law(law)
    for sequence in range(1, 200):
        sending(host, vm, 10 * MS)
        assert report(host, vm, sequence, rate=CAPACITY // 4, weight_total=sequence,
                      point_datapath=1514 * sequence) == "reports"
    assert host.counter(vm, "reports_overdue") == 0
    sending(host, vm, 5 * SECOND + 100 * MS)
    counted = host.counter(vm, "reports_overdue")
    assert counted in (4, 5)
    host.pass_time(20 * SECOND)
    assert host.counter(vm, "reports_overdue") <= counted + 1, "counted though nothing was sent"


@pytest.mark.parametrize("law, counted", [("eyeq", False), ("hygenicc", False), ("seawall", True), ("scc", True)])
def test_a_peer_that_never_spoke_is_counted_where_it_should_have(host: Host, vm: Any, law: str, counted: bool) -> None:
    host.law(law)
    sending(host, vm, 3 * SECOND)
    assert (host.counter(vm, "reports_overdue") > 0) is counted
