# SPDX-License-Identifier: Apache-2.0
"""Reports have a part of the link: a sixty-fourth of the receiving VM's share, which pays for them; none gets lost."""

from typing import Any, Callable, List

import pytest

from sdngcc.shim import core as binding

from .host import CE, KEY, MS, SECOND, Host, address

#: 20 Mb/s, as of a slow VM's uplink.
CAPACITY = 2_500_000
HERE, NEIGHBOUR = address("10.0.0.1"), address("10.0.0.2")
SINK = address("10.1.255.1")
LAWS = ["hygenicc", "eyeq", "seawall", "scc", "elasticswitch"]
#: Of a report, and of those that may be saved up.
REPORT, SAVED = 130, 8


def there(number: int) -> bytes:
    return address(f"10.1.{number >> 8}.{number & 255}")


@pytest.fixture(params=LAWS)
def law(request: pytest.FixtureRequest, host: Host) -> str:
    host.key(KEY)
    host.law(request.param)
    return str(request.param)


def flood(host: Host, vm: Any, uplink: Any, source: Callable[[int], int], meanwhile: Callable[[], None],
          count: int = 4000) -> int:
    """Bring a VM so many packets of 60 bytes, 10,000 in a second, with CE; return how many."""
    for number in range(count):
        host.receive(vm, uplink, there(source(number)), HERE, bytes=60, ecn=CE)
        meanwhile()
        host.pass_time(MS // 10)
    return count


SOURCES = {"one source": lambda number: 1, "fifty": lambda number: number % 50, "a new one each": lambda number: number}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_flood_makes_no_more_reports_than_their_part_and_its_receiver_pays(host: Host, law: str,
                                                                            source: Callable[[int], int]) -> None:
    uplink = host.uplink(CAPACITY)
    vm, neighbour = host.vm(), host.vm(least=CAPACITY * 8 // 10)
    passed = {HERE: 0, NEIGHBOUR: 0}
    for one, name in ((vm, HERE), (neighbour, NEIGHBOUR)):
        host.receive(one, uplink, SINK, name, bytes=60)

    def send() -> None:
        """Both send more than they may, to who answers."""
        for one, name in ((vm, HERE), (neighbour, NEIGHBOUR)):
            host.receive(one, uplink, SINK, name, bytes=60, ecn=0)
            passed[name] += host.send(one, uplink, name, SINK, bytes=300).passed

    flood(host, vm, uplink, source, send)
    sent = host.counter(vm, "report_bytes_sent")
    assert sent <= CAPACITY // 64 * 0.4 + (SAVED + 1) * 160, sent
    assert sent or law == "eyeq"
    assert sum(passed.values()) + sent <= CAPACITY * 0.4 * 1.01 + 2 * (3028 + 12 * 1514), (passed, sent)
    if law not in ("seawall", "hygenicc"):
        assert passed[NEIGHBOUR] >= 0.98 * CAPACITY * 0.8 * 0.4, passed
    if law not in ("eyeq", "seawall") or (law == "seawall" and source is SOURCES["a new one each"]):
        assert host.counter(vm, "reports_deferred") > 50


@pytest.mark.parametrize("law", ["scc"])
def test_reports_are_taken_off_what_the_vm_itself_may_send(hosts: Callable[..., Host], law: str) -> None:
    passed = []
    for source in (None, SOURCES["fifty"]):
        host = hosts()
        host.key(KEY)
        host.law(law)
        uplink, vm = host.uplink(CAPACITY), host.vm()
        host.receive(vm, uplink, SINK, HERE, bytes=60)
        left = 0
        for number in range(4000):
            if source:
                host.receive(vm, uplink, there(source(number)), HERE, bytes=60, ecn=CE)
            for _ in range(2):
                left += host.send(vm, uplink, HERE, SINK, bytes=300).passed
            host.pass_time(MS // 10)
        passed.append(left)
    sent = host.counter(vm, "report_bytes_sent")
    assert sent > 4000 and passed[0] - passed[1] == pytest.approx(sent, abs=600), (passed, sent)


@pytest.mark.parametrize("law", ["scc", "hygenicc", "seawall", "elasticswitch"])
def test_what_had_to_wait_is_told_by_the_next_report(host: Host, law: str) -> None:
    host.key(KEY)
    host.law(law)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    count = flood(host, vm, uplink, lambda number: 1, lambda: None)
    host.pass_time(200 * MS)
    found = [binding.decode(data, KEY)[1] for _, to, data in host.reports() if to == there(1)]
    assert len(found) < 200
    told = sum(one["marks"] for one in found) if law in ("scc", "hygenicc") else found[-1]["marks"]
    assert told == count


def test_peers_have_their_turns(host: Host) -> None:
    """Reports that have to wait go round: none of a VM's peers is told of less often than half of the others."""
    host.key(KEY)
    host.law("scc")
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number in range(20):
        host.send(vm, uplink, HERE, there(number), bytes=60)
        host.receive(vm, uplink, there(number), HERE, bytes=60)
    host.pass_time(SECOND)
    host.reports()
    flood(host, vm, uplink, lambda number: number % 20, lambda: None)
    told: List[int] = [0] * 20
    for _, to, _ in host.reports():
        told[int.from_bytes(to[14:], "big")] += 1
    assert min(told) >= max(told) // 2 - 1 and sum(told) > 80, told


def test_who_the_vm_talks_with_is_told_first(host: Host) -> None:
    """10,000 sources that the VM never sent to leave its own peers half of what reports have."""
    host.key(KEY)
    host.law("scc")
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.send(vm, uplink, HERE, there(1), bytes=60)

    def talk() -> None:
        host.receive(vm, uplink, there(1), HERE, bytes=60)

    flood(host, vm, uplink, lambda number: 1000 + number, talk, 10_000)
    told = sum(to == there(1) for _, to, _ in host.reports())
    assert told >= CAPACITY // 64 // REPORT // 3, told


def test_many_vms_that_only_receive_have_a_part_of_the_uplink_together(host: Host, law: str) -> None:
    uplink = host.uplink(CAPACITY)
    vms = [host.vm() for _ in range(20)]
    for number in range(2000):
        host.receive(vms[number % 20], uplink, there(1), address(f"10.0.1.{number % 20}"), bytes=60, ecn=CE)
        host.pass_time(MS // 4)
    sent = sum(host.counter(vm, "report_bytes_sent") for vm in vms)
    assert 0 < sent <= CAPACITY // 64 // 2 + (SAVED + 1) * 160, sent
