# SPDX-License-Identifier: Apache-2.0
"""Paths: what a VM sends to destinations that controllers name is bounded by itself, and the rest is not."""

import ipaddress
import os
import struct
from typing import Any, Dict, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.wire.message import (
    ENTRIES_MAX,
    SCOPE_TUNNEL,
    TYPE_MARKS,
    TYPE_RATE,
    Message,
    PathEntry,
    PathMessage,
    encode_v1,
    encode_v2,
)

from .host import FULL, KEY, MS, SECOND, Host, address

CAPACITY = 125_000_000
HERE, CONTROLLER = address("10.0.0.1"), address("10.3.0.1")
NEAR, FAR, OTHER = (address(text) for text in ("10.1.0.1", "10.2.0.1", "10.9.0.1"))
TIMEOUT = 200 * MS
DEPTH = 3028  # of a pacing bucket
MOST = 127


def entry(prefix: str, rate: int = 0, teller: int = 1, scope: int = 0, **words: int) -> PathEntry:
    """What a teller says of a prefix; "" is the rest."""
    if not prefix:
        return PathEntry(teller, bytes(16), 0, rate=rate, **words)
    net = ipaddress.ip_network(prefix)
    bits = net.prefixlen + (96 if net.version == 4 else 0)
    return PathEntry(teller, address(str(net.network_address)), bits, scope, rate=rate, **words)


class Guest:
    """A VM on an uplink, told of its paths by a sender whose messages count up."""

    def __init__(self, host: Host, law: Optional[str] = "maxmin", least: int = 0, most: int = 0) -> None:
        self.host = host
        host.key(KEY)
        host.law(law)
        self.vm, self.uplink = host.vm(least=least, most=most), host.uplink(CAPACITY)
        self.sequence = 0
        self.passed: Dict[bytes, int] = {}
        host.send(self.vm, self.uplink, HERE, OTHER)

    def tell(self, *entries: PathEntry, kind: int = TYPE_RATE, rate: int = 0, sender: int = 7) -> str:
        self.sequence += 1
        said = PathMessage(HERE, entries, rate, sender, 9, self.sequence, kind)
        return self.host.message(self.vm, None, CONTROLLER, HERE, encode_v2(said, KEY))

    def path(self, prefix: str, scope: int = 0) -> Any:
        said = entry(prefix)
        return self.host._read("struct shim_lab_path", self.host.lib.shim_lab_read_path, self.vm, said.prefix,
                               said.bits, scope)

    def paths(self) -> int:
        return int(self.host.lib.shim_lab_paths(self.vm))

    def rate(self) -> int:
        return int(self.host.limiter(self.vm, self.uplink).rate)

    def share(self) -> int:
        return int(self.host.limiter(self.vm, self.uplink).share)

    def blast(self, ns: int, *destinations: bytes, refresh: Tuple[PathEntry, ...] = (), **words: Any) -> List[int]:
        """Send to all destinations all that passes, for a time; return bytes/s to each."""
        host, end_ns, passed = self.host, self.host.now_ns + ns, [0] * len(destinations)
        told_ns = 0
        while host.now_ns < end_ns:
            if refresh and host.now_ns - told_ns > 40 * MS:
                self.tell(*refresh)
                told_ns = host.now_ns
            for number, to in enumerate(destinations):
                while (sent := host.send(self.vm, self.uplink, HERE, to, **words)).passed:
                    passed[number] += sent.passed
                    if sent.departure_ns > host.now_ns + 100_000:
                        break
            host.pass_time(100_000)
        return [count * SECOND // ns for count in passed]


@pytest.fixture
def guest(host: Host) -> Guest:
    return Guest(host)


def test_a_path_is_held_to_its_rate_and_what_goes_elsewhere_is_not(guest: Guest) -> None:
    told = (entry("10.1.0.0/16", 2_000_000),)
    near, other = guest.blast(SECOND, NEAR, OTHER, refresh=told)
    assert near == pytest.approx(2_000_000, rel=0.02) and other > 0.95 * (CAPACITY - near)
    found = guest.path("10.1.0.0/16")
    assert guest.paths() == 1 and found.rate == 2_000_000 and found.limited and found.held > found.packets
    assert guest.host.counter(guest.vm, "drop_path") > 0 and found.sent_rate == pytest.approx(2_000_000, rel=0.2)
    guest.blast(20 * MS, OTHER)
    found = guest.path("10.1.0.0/16")
    assert not found.limited and found.sent_rate == 0, "who does not send is held back"


def test_the_vm_bounds_the_sum(guest: Guest) -> None:
    told = (entry("10.1.0.0/16", 80_000_000), entry("10.2.0.0/16", 80_000_000))
    assert sum(guest.blast(SECOND // 5, NEAR, FAR, refresh=told)) <= CAPACITY * 1.01
    guest.tell(*told, rate=10_000_000)
    assert guest.rate() == 10_000_000
    assert sum(guest.blast(TIMEOUT // 2, NEAR, FAR)) <= 10_000_000 * 1.05 + 10 * DEPTH
    assert guest.paths() == 2


def test_a_ceiling_and_a_guarantee_bound_the_sum(host: Host) -> None:
    guest = Guest(host, least=5_000_000, most=20_000_000)
    told = (entry("10.1.0.0/16", 50_000_000), entry("10.2.0.0/16", 50_000_000))
    assert sum(guest.blast(SECOND // 5, NEAR, FAR, refresh=told)) <= 20_000_000 * 1.03
    low = (entry("10.1.0.0/16", 100_000), entry("10.2.0.0/16", 100_000))
    guest.blast(SECOND // 5, NEAR, FAR, refresh=low)
    assert sum(guest.blast(SECOND // 2, NEAR, FAR, refresh=low)) >= 0.97 * 5_000_000, "less than the guarantee"


def test_a_path_may_have_the_ceiling_of_all_uplinks(host: Host) -> None:
    guest = Guest(host, least=5_000_000, most=20_000_000)
    uplinks = [guest.uplink, host.uplink(CAPACITY)]
    host.send(guest.vm, uplinks[1], HERE, OTHER)
    rates = [host.limiter(guest.vm, uplink).rate for uplink in uplinks]
    assert max(rates) < 20_000_000
    guest.tell(entry("10.1.0.0/16", 50_000_000), entry("10.2.0.0/16", 10_000_000))
    assert guest.path("10.1.0.0/16").rate == 20_000_000
    assert guest.path("10.2.0.0/16").rate == 10_000_000


@pytest.mark.parametrize("period_us", [500, 1000, 2000, 5000])
def test_a_guarantee_is_had_by_one_path_alone(host: Host, period_us: int) -> None:
    """A path that waits sends nothing for some periods, and keeps its part of the guarantee."""
    guest = Guest(host, least=5_000_000)
    host.law("maxmin", period=period_us * 1000)
    low = (entry("10.1.0.0/16", 100_000),)
    guest.blast(SECOND // 5, NEAR, refresh=low)
    assert guest.blast(SECOND, NEAR, refresh=low)[0] == pytest.approx(5_000_000, rel=0.03)


def test_packets_of_a_path_leave_in_order_where_its_rate_rises(guest: Guest) -> None:
    times = []
    for step in range(20):
        guest.tell(entry("10.1.0.0/16", 30_000_000 if step % 2 else 20_000_000))
        for _ in range(100):
            sent = guest.host.send(guest.vm, guest.uplink, HERE, NEAR)
            if sent.passed:
                times.append(max(sent.departure_ns, guest.host.now_ns))
            guest.host.pass_time(40_000)
    assert times == sorted(times) and len(times) > 1000


def test_a_vm_that_is_told_of_paths_has_left_its_start(guest: Guest) -> None:
    assert guest.rate() == CAPACITY // 10
    guest.tell(entry("10.1.0.0/16", 2_000_000))
    assert guest.rate() == CAPACITY
    guest.tell(entry("10.1.0.0/16", 2_000_000), rate=7_000_000)
    assert guest.rate() == 7_000_000
    said = Message(vm=HERE, peer=NEAR, marks=0, rate=8_000_000, sender=7, epoch=9, sequence=100, type=TYPE_RATE)
    assert guest.host.message(guest.vm, None, CONTROLLER, HERE, encode_v1(said, KEY)) == "messages"
    assert guest.rate() == 8_000_000, "v1 and the head of v2 say the same thing: the last counts"


def test_the_lowest_of_what_tellers_told_holds(guest: Guest) -> None:
    guest.tell(entry("10.1.0.0/16", 3_000_000, 1), entry("10.1.0.0/16", 2_000_000, 2))
    assert guest.path("10.1.0.0/16").rate == 2_000_000
    guest.tell(entry("10.1.0.0/16", 4_000_000, 2))
    assert guest.path("10.1.0.0/16").rate == 3_000_000
    guest.host.pass_time(TIMEOUT // 2)
    guest.tell(entry("10.1.0.0/16", 4_000_000, 2))
    guest.host.pass_time(TIMEOUT * 3 // 5)
    assert guest.path("10.1.0.0/16").rate == 4_000_000, "the first teller's word is too old"


def test_of_many_tellers_the_lowest_are_heeded(guest: Guest) -> None:
    for teller in range(1, 30):
        guest.tell(entry("10.1.0.0/16", 30_000_000 - teller * 1_000_000, teller))
    assert guest.path("10.1.0.0/16").rate == 1_000_000
    guest.tell(entry("10.1.0.0/16", 40_000_000, 29))
    assert guest.path("10.1.0.0/16").rate == 2_000_000
    guest.tell(entry("10.1.0.0/16", 50_000_000, 99))
    assert guest.path("10.1.0.0/16").rate == 2_000_000


def test_of_one_sender_what_was_sent_last_counts(guest: Guest) -> None:
    late = PathMessage(HERE, (entry("10.1.0.0/16", 1_000_000),), 0, 7, 9, 1, TYPE_RATE)
    guest.sequence = 1
    guest.tell(entry("10.1.0.0/16", 2_000_000))
    assert guest.host.message(guest.vm, None, CONTROLLER, HERE, encode_v2(late, KEY)) == "messages"
    assert guest.path("10.1.0.0/16").rate == 2_000_000, "what was overtaken is obeyed"
    assert guest.host.message(guest.vm, None, CONTROLLER, HERE, encode_v2(late, KEY)) == "refused_replay"


@pytest.mark.parametrize("law, marks", [("maxmin", False), ("maxmin", True), ("sdngcc", True)])
def test_silence_gives_a_path_back_step_by_step(host: Host, law: str, marks: bool) -> None:
    guest = Guest(host, law)
    host.pass_time(2 * SECOND) if law == "maxmin" else None
    host.send(guest.vm, guest.uplink, HERE, OTHER)
    host.send(guest.vm, guest.uplink, HERE, OTHER)
    if marks:
        words: Dict[str, int] = {"marks": 1000, "interval_ns": 5 * MS, "weight_total": 4}
        for _ in range(8):
            assert guest.tell(entry("10.1.0.0/16", **words), kind=TYPE_MARKS) == "messages"
    else:
        guest.tell(entry("10.1.0.0/16", 2_000_000))
    before, rates = guest.path("10.1.0.0/16").rate, []
    assert before < CAPACITY // 4
    for _ in range(600):
        host.send(guest.vm, guest.uplink, HERE, OTHER)
        host.send(guest.vm, guest.uplink, HERE, OTHER)
        host.pass_time(5 * MS)
        found = guest.path("10.1.0.0/16")
        if not found:
            break
        rates.append(found.rate)
    assert rates == sorted(rates) and guest.paths() == 0 and len(rates) > 40, "no path is kept for nothing"
    steps = [after - ahead for ahead, after in zip(rates, rates[1:])]
    assert max(steps) <= CAPACITY * 0.06, "no step is beyond step-max"


def test_marks_cut_what_goes_through_the_port_alone(host: Host) -> None:
    guest = Guest(host, "sdngcc")
    marks = entry("10.1.0.0/16", marks=400, interval_ns=5 * MS, weight_total=4)
    for _ in range(20):
        guest.tell(marks, kind=TYPE_MARKS)
        guest.blast(5 * MS, NEAR, OTHER)
    assert guest.rate() == CAPACITY and guest.path("10.1.0.0/16").rate < CAPACITY // 2
    near, other = guest.blast(20 * MS, NEAR, OTHER)
    assert near < CAPACITY // 2 < other
    assert host.counter(guest.vm, "marks") == 8000


def test_the_longest_prefix_takes_a_packet(guest: Guest) -> None:
    guest.tell(entry("10.0.0.0/8", 10**7, 1), entry("10.1.0.0/16", 10**7, 2), entry("10.1.0.1/32", 10**7, 3),
               entry("", 10**7, 4), entry("fd00::/8", 10**7, 5))
    for to, prefix in (("10.1.0.1", "10.1.0.1/32"), ("10.1.0.2", "10.1.0.0/16"), ("10.1.255.255", "10.1.0.0/16"),
                       ("10.2.0.0", "10.0.0.0/8"), ("9.255.255.255", ""), ("11.0.0.0", ""), ("fd12::1", "fd00::/8"),
                       ("fe80::1", ""), ("255.255.255.255", ""), ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "")):
        before = guest.path(prefix).packets
        guest.host.pass_time(MS)
        source, version = (address("fd00::1"), 6) if ":" in to else (HERE, 4)
        assert guest.host.send(guest.vm, guest.uplink, source, address(to), version=version).passed, to
        assert guest.path(prefix).packets == before + 1, to
    before = guest.path("").packets
    guest.host.send(guest.vm, guest.uplink, HERE, HERE, version=0)
    assert guest.path("").packets == before + 1, "what is no IP is of the rest"


LENGTHS = st.sampled_from([1, 2, 3, 8, 63, 64, 65, 120, 127, 128])
drawn = st.lists(st.tuples(st.binary(min_size=16, max_size=16), LENGTHS), min_size=1, max_size=24)


def test_any_prefixes_are_found_as_a_slow_search_finds_them(core: Any, effort: Any) -> None:
    @effort
    @given(drawn=drawn, nested=st.booleans(), edge=st.integers(-1, 1))
    def run(drawn: List[Tuple[bytes, int]], nested: bool, edge: int) -> None:
        host = Host(core)
        guest = Guest(host)
        base = int.from_bytes(drawn[0][0], "big")
        said: Dict[Tuple[int, int], int] = {}
        for raw, bits in drawn:
            first = (base if nested else int.from_bytes(raw, "big")) >> (128 - bits) << (128 - bits)
            said[first, bits] = len(said) + 1
        for (first, bits), teller in said.items():
            assert guest.tell(PathEntry(teller, first.to_bytes(16, "big"), bits, rate=10**7)) == "messages"
        for first, bits in said:
            for to in ((first + edge) % 2**128, (first + (1 << (128 - bits)) - 1 + edge) % 2**128):
                around = [(length, start) for start, length in said if to >> (128 - length) == start >> (128 - length)]
                before = {key: read(guest, *key).packets for key in said}
                host.pass_time(MS)
                host.send(guest.vm, guest.uplink, address("fd00::1"), to.to_bytes(16, "big"), version=6)
                moved = [key for key in said if read(guest, *key).packets != before[key]]
                assert moved == ([max(around)[::-1]] if around else [])
        host.close()

    def read(guest: Guest, first: int, bits: int) -> Any:
        return guest.host._read("struct shim_lab_path", guest.host.lib.shim_lab_read_path, guest.vm,
                                first.to_bytes(16, "big"), bits, 0)

    run()


def test_what_is_said_of_a_prefix_is_said_of_those_within(guest: Guest) -> None:
    guest.tell(entry("10.1.0.0/16", 5_000_000, 1))
    guest.tell(entry("10.1.0.1/32", 9_000_000, 2))
    assert guest.path("10.1.0.1/32").rate == 5_000_000, "a new one has heard what was said of the one around it"
    guest.tell(entry("10.0.0.0/8", 3_000_000, 3))
    assert [guest.path(prefix).rate for prefix in ("10.0.0.0/8", "10.1.0.0/16", "10.1.0.1/32")] == [3_000_000] * 3
    guest.tell(entry("10.1.0.1/32", 4_000_000, 3))
    assert guest.path("10.1.0.1/32").rate == 4_000_000, "of one teller the longest prefix counts"
    guest.tell(entry("10.0.0.0/8", 2_000_000, 3))
    assert guest.path("10.1.0.0/16").rate == 2_000_000 and guest.path("10.1.0.1/32").rate == 4_000_000
    guest.tell(entry("", 1_000_000, 4))
    assert guest.path("10.0.0.0/8").rate == 2_000_000, "the rest is around nothing"


def test_tunnels_are_told_apart_from_destinations(guest: Guest) -> None:
    end = bytes(address("192.0.2.1"))
    guest.tell(entry("192.0.2.1/32", 10**7, 1, SCOPE_TUNNEL), entry("10.1.0.0/16", 10**7, 1), entry("", 10**7, 1))
    for to, words, path in ((OTHER, {"tunnelled": True, "tunnel_end": end}, ("192.0.2.1/32", SCOPE_TUNNEL)),
                            (NEAR, {"tunnelled": True, "tunnel_end": end}, ("10.1.0.0/16", 0)),
                            (address("192.0.2.1"), {}, ("", 0)), (OTHER, {}, ("", 0))):
        before = guest.path(*path).packets
        guest.host.pass_time(MS)
        assert guest.host.send(guest.vm, guest.uplink, HERE, to, **words).passed
        assert guest.path(*path).packets == before + 1


@pytest.mark.parametrize("law, kind, verdict", [
    ("static", TYPE_RATE, "refused_law"), ("scc", TYPE_MARKS, "refused_law"), ("sdngcc", TYPE_RATE, "refused_law"),
    ("sdngcc", TYPE_MARKS, "messages"), ("maxmin", TYPE_MARKS, "messages"), ("maxmin", TYPE_RATE, "messages")])
def test_who_obeys(host: Host, law: str, kind: int, verdict: str) -> None:
    guest = Guest(host, law)
    said = entry("10.1.0.0/16", 10**6) if kind == TYPE_RATE else entry("10.1.0.0/16", marks=5)
    assert guest.tell(said, kind=kind) == verdict and host.counter(guest.vm, verdict) == 1
    assert guest.paths() == (verdict == "messages")


def test_other_laws_and_silence_forget_paths(guest: Guest) -> None:
    host = guest.host
    guest.tell(entry("10.1.0.0/16", 10**6), entry("", 10**6))
    host.law("sdngcc")
    assert guest.paths() == 0
    host.law("maxmin", rate_timeout=10 * SECOND)
    guest.tell(entry("10.1.0.0/16", 10**6))
    host.pass_time(SECOND * 3 // 2)
    assert guest.paths() == 0 and host.due() == 0, "an inactive VM is timed"
    guest.tell(entry("10.1.0.0/16", 10**6))
    assert guest.paths() == 0, "nobody is told who does not send"


@pytest.mark.parametrize("rest", [False, True])
def test_a_vm_has_room_for_so_many_prefixes_and_the_rest(guest: Guest, rest: bool) -> None:
    for number in range(MOST + 5):
        guest.tell(*[entry(f"10.1.{number}.0/24", 10_000_000)], *[entry("", 10_000_000)] * rest)
    assert guest.paths() == MOST + 1 and guest.host.counter(guest.vm, "paths_full") == 5
    assert guest.path(f"10.1.{MOST - 1}.0/24") and not guest.path(f"10.1.{MOST}.0/24") and guest.path("")


def test_a_full_table_binds(guest: Guest) -> None:
    for number in range(MOST):
        guest.tell(entry(f"10.1.{number}.0/24", 10_000_000, number + 1))
    assert guest.paths() == MOST and guest.path("") is None
    assert guest.tell(entry("10.2.0.0/16", 1_000_000, 1), entry("10.4.0.0/16", 3_000_000, 1)) == "messages"
    assert guest.host.counter(guest.vm, "paths_full") == 2
    assert guest.paths() == MOST + 1 and guest.path("").rate == 1_000_000, "the lowest of what has no room"
    refresh = (entry("10.2.0.0/16", 1_000_000, 1), entry("10.4.0.0/16", 3_000_000, 1))
    assert sum(guest.blast(SECOND // 4, FAR, OTHER, refresh=refresh)) <= 1_000_000 + 4 * (DEPTH + 12 * FULL)
    guest.tell(entry("", 2_000_000, 1))
    assert guest.path("").rate == 1_000_000, "what is said of the rest itself does not raise it"
    host, alive = guest.host, tuple(entry(f"10.1.{number}.0/24", 10_000_000, number + 1) for number in range(MOST))
    for _ in range(10):
        for first in range(0, MOST, ENTRIES_MAX):
            guest.tell(*alive[first:first + ENTRIES_MAX])
        host.send(guest.vm, guest.uplink, HERE, OTHER)
        host.pass_time(40 * MS)
    assert guest.path("").rate > 1_000_000, "what nobody says any more is forgotten"


def test_a_guest_makes_no_path_however_many_it_talks_to(guest: Guest, core: Any) -> None:
    guest.tell(entry("10.1.0.0/16", 1_000_000), entry("", 4_000_000))
    asked, passed = core.lib.shim_host_allocations, 0
    for number in range(10_000):
        if not number % 1000:
            guest.tell(entry("10.1.0.0/16", 1_000_000), entry("", 4_000_000))
        to = address(str(ipaddress.ip_address(number * 99991)))
        passed += guest.host.send(guest.vm, guest.uplink, HERE, to).passed
        guest.host.pass_time(20_000)
    assert core.lib.shim_host_allocations - asked <= 10 and guest.paths() == 2
    assert passed <= 5_000_000 * 10_000 * 20_000 // SECOND + 40 * FULL


def test_a_teller_that_names_a_million_prefixes(guest: Guest, core: Any) -> None:
    lib = core.lib
    head, part, mapped = struct.Struct("!HBBHHII16sIB3xQ"), struct.Struct("!Q16sBB2xIQ"), bytes(10) + b"\xff\xff"
    allocated = lib.shim_host_allocated
    prefixes = 10**4 if "SDNGCC_CORE_PROFILE" in os.environ else 10**6
    for number in range(1, prefixes // ENTRIES_MAX + 1):
        body = head.pack(0x5347, 2, 2, 0, 56 + 40 * ENTRIES_MAX, 9, number, HERE, 7, ENTRIES_MAX, 0) + b"".join(
            part.pack(5, mapped + (number * ENTRIES_MAX + place).to_bytes(4, "big"), 128, 0, 0, 1_000_000)
            for place in range(ENTRIES_MAX))
        tag = lib.shim_siphash(KEY, body, len(body)).to_bytes(8, "big")
        assert guest.host.message(guest.vm, None, CONTROLLER, HERE, body + tag) == "messages"
        if not number % 1000:
            lib.shim_host_quiesce()
    lib.shim_host_quiesce()
    assert guest.paths() == MOST + 1
    assert lib.shim_host_allocated - allocated <= MOST + 2 and guest.path("").rate == 1_000_000


def test_paths_of_all_vms_are_bounded(host: Host) -> None:
    """A host has room for 65,536; 520 VMs would have more."""
    guest, vms = Guest(host), []
    for number in range(520):
        vms.append(host.vm())
        own = address(f"10.0.{1 + number // 200}.{number % 200}")
        host.send(vms[-1], guest.uplink, own, OTHER)
        for first in range(0, MOST, ENTRIES_MAX):
            said = tuple(entry(f"10.1.{place}.0/24", 10**6) for place in range(first, min(first + ENTRIES_MAX, MOST)))
            guest.sequence += 1
            host.message(vms[-1], None, CONTROLLER, own,
                         encode_fast(host, PathMessage(own, said, 0, 7, 9, guest.sequence, TYPE_RATE)))
    counts = [int(host.lib.shim_lab_paths(vm)) for vm in vms]
    assert counts[:516] == [MOST] * 516 and sum(counts) == 65_536 + (520 - 516 - (1 if 65_536 % MOST else 0)) + 1
    assert host.counter(vms[-1], "paths_full") == MOST and counts[-1] == 1
    host.lib.shim_lab_remove_vm(vms[0])
    guest.tell(entry("10.1.0.0/16", 10**6))
    assert guest.path("10.1.0.0/16") is not None, "room is given back"


def encode_fast(host: Host, said: PathMessage) -> bytes:
    """As encode_v2, with the core's SipHash."""
    head, part = struct.Struct("!HBBHHII16sIB3xQ"), struct.Struct("!Q16sBB2xIQ")
    body = head.pack(0x5347, 2, said.type, 0, 56 + 40 * len(said.entries), said.epoch, said.sequence, said.vm,
                     said.sender, len(said.entries), said.rate) + b"".join(
        part.pack(one.teller, one.prefix, one.bits, one.scope, one.weight_total, one.rate) for one in said.entries)
    return body + int(host.lib.shim_siphash(KEY, body, len(body))).to_bytes(8, "big")


def test_without_memory_the_whole_vm_is_bound(host: Host) -> None:
    guest, lib = Guest(host), host.lib
    for failing in (1, 2):
        lib.shim_host_fail_at, lib.shim_host_fail_count = lib.shim_host_allocations + failing, 4
        assert guest.tell(entry(f"10.{failing}.0.0/16", 1_000_000 * failing, failing)) == "messages"
        lib.shim_host_fail_at = 0
        assert guest.rate() <= 1_000_000 * failing and guest.paths() == 0, failing
    assert host.counter(guest.vm, "paths_no_memory") == 4, "the prefix's and the rest's, twice"
    guest.tell(entry("10.1.0.0/16", 1_000_000), entry("", 2_000_000))
    host.pass_time(TIMEOUT)
    for _ in range(400):
        lib.shim_host_fail_at, lib.shim_host_fail_count = lib.shim_host_allocations + 1, 100
        host.send(guest.vm, guest.uplink, HERE, OTHER)
        host.send(guest.vm, guest.uplink, HERE, OTHER)
        host.pass_time(5 * MS)
    lib.shim_host_fail_at = 0
    assert guest.paths() == 0, "to forget them all takes no memory"


def test_peers_of_conversations_pass_paths_too(guest: Guest) -> None:
    guest.host.set(conversations=1)
    told = (entry("10.1.0.0/16", 2_000_000),)
    near, _ = guest.blast(SECOND // 2, NEAR, OTHER, refresh=told)
    assert near == pytest.approx(2_000_000, rel=0.03)
    assert guest.host.peer(guest.vm, NEAR).tx_bytes == guest.path("10.1.0.0/16").bytes


def test_parts_of_large_packets_pass_one_by_one(guest: Guest) -> None:
    told = (entry("10.1.0.0/16", 2_000_000),)
    near, _ = guest.blast(SECOND // 2, NEAR, OTHER, refresh=told, packets=10, bytes=10 * FULL)
    assert near == pytest.approx(2_000_000, rel=0.05)


def test_packets_larger_than_the_bucket_have_all_of_the_rate(guest: Guest) -> None:
    guest.host.set(burst_us=0)
    told = (entry("10.1.0.0/16", 2_000_000),)
    # Eleven of them may wait at the end: 5% of half a second, 1.7% of three.
    near, _ = guest.blast(3 * SECOND, NEAR, OTHER, refresh=told, bytes=3 * DEPTH)
    assert near == pytest.approx(2_000_000, rel=0.05)


def test_a_wait_for_the_vm_is_no_debt_of_the_path(host: Host) -> None:
    guest = Guest(host, most=10_000_000)
    host, vm, uplink = guest.host, guest.vm, guest.uplink
    guest.tell(entry("10.1.0.0/16", 8_000_000))
    while host.send(vm, uplink, HERE, OTHER).departure_ns < host.now_ns + MS:
        pass
    first = host.send(vm, uplink, HERE, NEAR)
    assert first.departure_ns > host.now_ns + MS, "not held back by the VM"
    guest.tell(entry("10.1.0.0/16", 400_000))
    waits = [host.send(vm, uplink, HERE, NEAR).departure_ns - first.departure_ns for _ in range(3)]
    assert guest.path("10.1.0.0/16").rate == 400_000 and waits[0] <= MS, waits
    for number, wait in enumerate(waits, 2):
        assert number * FULL - DEPTH <= 400_000 * (wait + 1) / SECOND <= number * FULL - FULL, waits


def test_a_fast_path_of_a_slow_vm_drops_nothing(guest: Guest) -> None:
    """At a low rate a few packets may wait for the VM beyond the horizon."""
    guest.tell(entry("10.1.0.0/16", 30_000_000), rate=200_000)
    guest.host.pass_time(20 * MS)
    left = [guest.host.send(guest.vm, guest.uplink, HERE, NEAR, bytes=1500) for _ in range(10)]
    assert all(sent.passed for sent in left) and left[-1].departure_ns > guest.host.now_ns + 50 * MS, left
    assert not guest.host.counter(guest.vm, "drop_path") and not guest.path("10.1.0.0/16").held


def test_a_path_is_not_held_back_by_what_the_vm_is(guest: Guest) -> None:
    guest.tell(entry("10.1.0.0/16", 30_000_000), entry("10.2.0.0/16", 1_000_000), rate=10_000_000)
    assert sum(guest.blast(SECOND // 10, FAR, NEAR)) > 9_000_000
    near, far = guest.path("10.1.0.0/16"), guest.path("10.2.0.0/16")
    assert (near.limited, near.held) == (False, 0) and far.limited and far.held > 0, (near, far)


def test_no_window_has_more_than_rate_and_depth(core: Any, effort: Any) -> None:
    """Of nested, neighbouring and renamed prefixes alike, with what the rest has."""
    prefixes = ["10.1.0.0/16", "10.1.0.0/24", "10.1.0.1/32", "10.2.0.0/16", ""]
    places = [address(text) for text in ("10.1.0.1", "10.1.0.2", "10.1.7.7", "10.2.0.1", "10.9.0.1")]
    packets = st.lists(st.tuples(st.integers(0, 4), st.integers(60, 9000), st.integers(0, 400_000)),
                       min_size=5, max_size=120)

    @effort
    @given(rates=st.lists(st.integers(200_000, 20_000_000), min_size=5, max_size=5), packets=packets,
           police=st.booleans())
    def run(rates: List[int], packets: List[Tuple[int, int, int]], police: bool) -> None:
        host = Host(core, limiter=0 if police else 1, burst_bytes=20_000)
        guest = Guest(host)
        depth = 20_000 if police else DEPTH
        told = tuple(entry(prefix, rate, number + 1) for number, (prefix, rate) in enumerate(zip(prefixes, rates)))
        # Each is bound by what was said of those around it, too.
        bounds = [rates[0], min(rates[:2]), min(rates[:3]), rates[3], rates[4]]
        of = {0: 2, 1: 1, 2: 0, 3: 3, 4: 4}
        guest.tell(*told)
        left: Dict[int, List[Tuple[int, int]]] = {}
        for place, size, wait in packets:
            host.pass_time(wait)
            sent = host.send(guest.vm, guest.uplink, HERE, places[place], bytes=size)
            guest.tell(*told) if not size % 7 else None
            if sent.passed:
                left.setdefault(of[place], []).append((max(sent.departure_ns, host.now_ns), size))
        for path, sent_there in left.items():
            for start, (begin_ns, first) in enumerate(sent_there):
                total = 0
                for end_ns, size in sent_there[start:]:
                    total += size
                    assert total <= max(depth, first) + bounds[path] * (end_ns - begin_ns) / SECOND + 2, (path, start)
        host.close()

    run()
