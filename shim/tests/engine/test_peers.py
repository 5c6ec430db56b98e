# SPDX-License-Identifier: Apache-2.0
"""Peers: how many there may be, who makes room, and what those get who find none."""

from typing import Any, List

import pytest

from sdngcc.controller.wire.message import TYPE_REPORT, Message, encode_v1
from sdngcc.shim import core as binding

from .host import FULL, KEY, MS, SECOND, Host, address

CAPACITY = 125_000_000
HERE = address("10.0.0.1")
LAWS = ["hygenicc", "eyeq", "seawall", "scc", "elasticswitch"]
#: With few peers, packets without one may have the share shifted by this, or the guarantee where that is more.
SHARED_MIN = 64
#: Of a peer's bucket, bytes.
DEPTH = 3028


def there(number: int) -> bytes:
    return address(f"10.1.{number >> 8}.{number & 255}")


@pytest.fixture(params=LAWS)
def law(request: pytest.FixtureRequest, host: Host) -> str:
    host.key(KEY)
    host.law(request.param)
    return str(request.param)


def test_a_peer_is_made_by_a_packet_either_way(host: Host, law: str) -> None:
    uplink, vm = host.uplink(CAPACITY), host.vm()
    assert host.send(vm, uplink, HERE, there(1)).passed
    assert host.receive(vm, uplink, there(2), HERE).passed
    assert host.peers(vm) == 2 and host.peer(vm, there(1)).tx_packets == 1 and host.peer(vm, there(2)).rx_packets == 1
    assert host.peer(vm, there(3)) is None


def test_idle_peers_are_collected(host: Host, law: str) -> None:
    host.set(peer_idle_ns=300 * MS, inactive_ns=100 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number in range(100):
        host.send(vm, uplink, HERE, there(number), bytes=100)
    assert host.peers(vm) == 100
    for _ in range(100):
        host.send(vm, uplink, HERE, there(7))
        host.pass_time(10 * MS)
    assert host.peers(vm) == 1 and host.peer(vm, there(7)) and host.counter(vm, "peers_collected") == 99
    host.pass_time(20 * SECOND)
    assert host.peers(vm) == 0 and host.due() == 0, "a clock without work goes on ticking"


def test_a_peer_with_a_weight_stays(host: Host, law: str) -> None:
    host.set(peer_idle_ns=100 * MS, inactive_ns=50 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    assert host.lib.shim_lab_weigh_peer(vm, there(1), 5) == 0
    host.send(vm, uplink, HERE, there(1))
    host.pass_time(20 * SECOND)
    assert host.peer(vm, there(1)).weight == 5
    assert host.lib.shim_lab_weigh_peer(vm, there(1), 0) == 0
    host.pass_time(20 * SECOND)
    assert host.peers(vm) == 0


def hear(host: Host, vm: Any, uplink: Any, *numbers: int) -> None:
    """Let a VM hear of peers: what it sends to those that never answered has a bucket beside theirs."""
    for number in numbers:
        host.receive(vm, uplink, there(number), HERE, bytes=60)


def talk(host: Host, vm: Any, uplink: Any, numbers: List[int], packets: int = 3) -> None:
    for number in numbers:
        for _ in range(packets):
            host.send(vm, uplink, HERE, there(number), bytes=100)
    host.pass_time(25 * MS)


def test_packets_in_a_row_find_their_peer_and_never_one_that_has_gone(host: Host, law: str) -> None:
    """A VM's last peer is remembered, and forgotten with the peer: by age, by a change of law, with its weight."""
    host.set(peer_idle_ns=100 * MS, inactive_ns=50 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number, packets in ((1, 5), (2, 1), (1, 1), (2, 4)):
        for _ in range(packets):
            assert host.send(vm, uplink, HERE, there(number), bytes=100).passed
    assert [host.peer(vm, there(number)).tx_packets for number in (1, 2)] == [6, 5]
    host.pass_time(20 * SECOND)
    assert host.peers(vm) == 0
    for expected in (1, 2, 3):
        host.send(vm, uplink, HERE, there(2), bytes=100)
        assert host.peer(vm, there(2)).tx_packets == expected
    host.law("eyeq" if law != "eyeq" else "scc")
    assert host.peers(vm) == 0 and host.send(vm, uplink, HERE, there(2), bytes=100).passed
    assert host.peer(vm, there(2)).tx_packets == 1
    host.law(law)
    assert host.lib.shim_lab_weigh_peer(vm, there(2), 5) == 0
    for _ in range(3):
        host.send(vm, uplink, HERE, there(2), bytes=100)
    host.law("eyeq" if law != "eyeq" else "scc")
    assert host.send(vm, uplink, HERE, there(2), bytes=100).passed and host.peer(vm, there(2)).weight == 5
    assert host.peer(vm, there(2)).tx_packets == 4


def test_who_did_least_makes_room_the_oldest_first(host: Host, law: str) -> None:
    host.set(peers_max=12)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    talk(host, vm, uplink, [0, 1, 2, 3])
    for number in (10, 11, 12, 13):
        host.send(vm, uplink, HERE, there(number), bytes=100)
    for number in (20, 21, 22, 23):
        host.receive(vm, uplink, there(number), HERE)
    host.pass_time(25 * MS)
    assert host.peers(vm) == 12

    def present() -> List[int]:
        return [number for number in (*range(4), *range(10, 14), *range(20, 24)) if host.peer(vm, there(number))]

    order = []
    for number in range(30, 38):
        before = present()
        assert host.send(vm, uplink, HERE, there(number), bytes=100).passed
        talk(host, vm, uplink, [number])
        order += [one for one in before if one not in present()]
    assert order == [20, 21, 22, 23, 10, 11, 12, 13]
    assert host.counter(vm, "peers_evicted") == 8
    assert host.send(vm, uplink, HERE, there(40), bytes=100).passed
    assert host.peer(vm, there(40)) is None and host.counter(vm, "peers_full") == 1, "one that talks was pushed out"
    assert present() == [0, 1, 2, 3] and host.peers(vm) == 12


def test_who_only_sends_to_the_vm_pushes_out_none_but_its_like(host: Host, law: str) -> None:
    host.set(peers_max=8)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number in (1, 2):
        host.send(vm, uplink, HERE, there(number), bytes=100)
    for number in range(100, 200):
        host.receive(vm, uplink, there(number), HERE)
    assert host.peer(vm, there(1)) and host.peer(vm, there(2))
    assert host.peers(vm) == 2 + 4, "heard ones may be half of all"
    assert host.peer(vm, there(199)) and host.peer(vm, there(195)) is None


def test_packets_without_a_peer_share_a_bucket(host: Host, law: str) -> None:
    """A VM that scans cannot pass the limits of its peers by going to addresses for which there is no room."""
    host.set(peers_max=4, horizon_ns=2 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    talk(host, vm, uplink, [0, 1, 2, 3])
    passed, begin_ns = 0, host.now_ns
    number = 100
    while host.now_ns < begin_ns + 200 * MS:
        number += 1
        passed += host.send(vm, uplink, HERE, there(number)).passed
        host.pass_time(50_000)
    bound = max(CAPACITY // SHARED_MIN, 125)
    depth = host.limiter(vm, uplink).depth
    assert passed <= bound * 0.2 + depth + bound * 0.002 + 11 * FULL
    assert passed >= bound * 0.2 * 0.9, "they get nothing"
    assert host.counter(vm, "peers_full") > 1000 and host.counter(vm, "drop_shared") > 1000
    assert host.peers(vm) == 4


@pytest.mark.parametrize("size", [300, FULL, 3 * DEPTH])
def test_who_waited_for_the_vm_does_not_catch_up_with_the_peer(host: Host, size: int) -> None:
    """What leaves to a peer within any time is no more than rate and depth, also behind a backlog of the VM's."""
    host.key(KEY)
    host.law("eyeq")
    host.set(burst_us=0)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=10_000_000)
    assert host.send(vm, uplink, HERE, there(1)).passed
    granted = Message(vm=HERE, peer=there(1), marks=0, type=TYPE_REPORT, rate=4_000_000, point_datapath=FULL,
                      weight_total=1, interval_ns=MS // 2, sender=7, epoch=1000, sequence=1)
    assert host.message(vm, uplink, there(1), HERE, encode_v1(granted, KEY)) == "reports"
    host.pass_time(MS)
    while host.send(vm, uplink, HERE, there(2)).passed:
        pass
    left: List[int] = []
    for _ in range(200):
        host.pass_time(50_000)
        sent = host.send(vm, uplink, HERE, there(1), bytes=size)
        if sent.passed:
            left.append(max(sent.departure_ns, host.now_ns))
        assert host.peer(vm, there(1)).rate == 4_000_000
    assert len(left) >= 4_000_000 * 10 * MS // SECOND // size * 0.8, "less than the rate"
    for start, begin_ns in enumerate(left):
        for number, end_ns in enumerate(left[start:], 1):
            assert number * size <= max(DEPTH, size) + 4_000_000 * (end_ns - begin_ns + 1) / SECOND, (start, number)


def test_a_peer_that_the_vm_held_back_may_wait_longer(host: Host) -> None:
    """Bunches behind the VM's bucket find two horizons; a peer that its own rate alone holds back has one."""
    host.key(KEY)
    host.law("eyeq")
    host.set(burst_us=0, horizon_ns=MS)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=100_000_000)
    hear(host, vm, uplink, 1, 2)
    assert host.send(vm, uplink, HERE, there(1)).passed
    granted = Message(vm=HERE, peer=there(1), marks=0, type=TYPE_REPORT, rate=40_000_000, point_datapath=FULL,
                      weight_total=1, interval_ns=MS // 2, sender=7, epoch=1000, sequence=1)
    assert host.message(vm, uplink, there(1), HERE, encode_v1(granted, KEY)) == "reports"

    def longest_wait() -> int:
        """Send 60 MB/s, which the VM may and the peer may not, until packets are dropped; return ns of wait."""
        longest, drops = 0, host.peer(vm, there(1)).drops
        for _ in range(400):
            assert host.peer(vm, there(1)).rate == 40_000_000
            host.pass_time(MS // 40)
            sent = host.send(vm, uplink, HERE, there(1))
            longest = max(longest, sent.departure_ns - host.now_ns if sent.passed else 0)
        assert host.peer(vm, there(1)).drops > drops, "the peer never had to wait too long"
        return longest

    own = longest_wait()
    assert 0.9 * MS < own <= MS
    host.pass_time(15 * MS)
    while host.send(vm, uplink, HERE, there(2)).departure_ns < host.now_ns + MS // 2:
        pass
    held = host.send(vm, uplink, HERE, there(1))
    assert held.departure_ns >= host.now_ns + MS // 2, "not held back by the VM"
    assert 1.9 * MS < longest_wait() <= 2.5 * MS
    host.pass_time(20 * MS)
    assert 0.9 * MS < longest_wait() <= MS


def test_a_wait_for_the_vm_is_no_debt_of_the_peer(host: Host) -> None:
    """A peer whose rate falls while the VM's bucket holds its packets back waits for that, and its own bytes, only."""
    host.key(KEY)
    host.law("eyeq")
    uplink, vm = host.uplink(CAPACITY), host.vm(most=10_000_000)
    hear(host, vm, uplink, 1, 2)
    assert host.send(vm, uplink, HERE, there(1)).passed

    def grant(rate: int, sequence: int) -> None:
        granted = Message(vm=HERE, peer=there(1), marks=0, type=TYPE_REPORT, rate=rate, point_datapath=FULL,
                          weight_total=1, interval_ns=MS // 2, sender=7, epoch=1000, sequence=sequence)
        assert host.message(vm, uplink, there(1), HERE, encode_v1(granted, KEY)) == "reports"
        assert host.peer(vm, there(1)).rate == rate

    grant(8_000_000, 1)
    host.pass_time(10 * MS)
    while host.send(vm, uplink, HERE, there(2)).departure_ns < host.now_ns + MS:
        pass
    first = host.send(vm, uplink, HERE, there(1))
    assert first.departure_ns > host.now_ns + MS, "not held back by the VM"
    grant(400_000, 2)
    waits = [host.send(vm, uplink, HERE, there(1)).departure_ns - first.departure_ns for _ in range(3)]
    assert waits[0] <= MS, waits
    for number, wait in enumerate(waits, 2):
        assert number * FULL - DEPTH <= 400_000 * (wait + 1) / SECOND <= number * FULL - FULL, waits


def test_a_vm_whose_ceiling_falls_goes_on_to_send(host: Host, law: str) -> None:
    """What waits for the VM's new rate is no debt of a peer whose rate follows it down a period later."""
    host.set(burst_us=0)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    hear(host, vm, uplink, 1)
    talk(host, vm, uplink, [1])
    assert all(host.send(vm, uplink, HERE, there(1)).passed for _ in range(9))
    host.configure(vm, most=200_000)
    # Longer than the horizon: a few packets may wait whatever that is, and a peer that is faster holds none of them.
    assert all(host.send(vm, uplink, HERE, there(1), bytes=66).departure_ns > host.now_ns + 20 * MS for _ in range(5))
    host.pass_time(300 * MS)
    for _ in range(5):
        sent = host.send(vm, uplink, HERE, there(1))
        assert sent.passed and not sent.departure_ns, sent
        host.pass_time(100 * MS)


def test_a_guarantee_is_for_packets_without_a_peer_as_well(host: Host, law: str) -> None:
    host.set(peers_max=1)
    uplink, vm = host.uplink(CAPACITY), host.vm(least=CAPACITY // 4)
    talk(host, vm, uplink, [0])
    passed, begin_ns = 0, host.now_ns
    while host.now_ns < begin_ns + 100 * MS:
        passed += host.send(vm, uplink, HERE, there(9)).passed
        host.pass_time(20_000)
    assert passed == pytest.approx(CAPACITY // 4 * 0.1, rel=0.1)


def test_packets_that_are_no_ip_have_no_peer(host: Host, law: str) -> None:
    uplink, vm = host.uplink(CAPACITY), host.vm()
    assert host.send(vm, uplink, bytes(16), bytes(16), version=0, bytes=60).passed
    assert host.receive(vm, uplink, bytes(16), bytes(16), version=0, bytes=60).passed
    assert host.peers(vm) == 0


def test_a_change_of_law_begins_anew(host: Host, law: str) -> None:
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.lib.shim_lab_weigh_peer(vm, there(1), 3)
    hear(host, vm, uplink, *range(10))
    for number in range(10):
        host.send(vm, uplink, HERE, there(number))
    host.law("hygenicc" if law != "hygenicc" else "scc")
    assert host.peers(vm) == 1 and host.peer(vm, there(1)).weight == 3
    assert host.send(vm, uplink, HERE, there(5)).passed and host.peers(vm) == 2
    host.law("static")
    assert host.send(vm, uplink, HERE, there(6)).passed and host.peer(vm, there(6)) is None


def test_a_tick_costs_what_moved(host: Host, law: str) -> None:
    """Peers at rest are looked at by nobody: with 4,000 of them a tick takes as long as with none."""
    host.set(peers_max=8192, peer_idle_ns=3600 * SECOND, inactive_ns=100 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number in range(4000):
        host.receive(vm, uplink, there(number), HERE, bytes=100)
        if number % 100 == 0:
            host.pass_time(MS)
    host.pass_time(30 * SECOND)
    assert host.peers(vm) == 4000
    reports = host.reports()
    del reports
    host.receive(vm, uplink, there(3), HERE, bytes=100)
    host.pass_time(60 * MS)
    assert len(host.reports()) <= 100


def test_a_receiver_has_its_part_by_weight_whatever_it_receives_in_the_mean(host: Host) -> None:
    """Under eyeq, a tenth of the line for 50 ms beside a VM that takes the rest, then 60%: R falls from its half."""
    host.key(KEY)
    host.law("eyeq", capacity_ppm=10**6)
    uplink, vms = host.uplink(10 * CAPACITY), [host.vm(), host.vm()]
    credit = [0.0, 0.0]
    for period in range(250):
        for number, part in enumerate((0.6 if period >= 245 else 0.1, 0.4 if period >= 245 else 0.9)):
            credit[number] += part * 10 * CAPACITY * MS / 5 / SECOND
            while credit[number] >= FULL:
                credit[number] -= FULL
                host.receive(vms[number], uplink, there(number), HERE)
        host.pass_time(MS // 5)
    rates = [binding.decode(data, KEY)[1]["rate"] / (10 * CAPACITY)
             for _, to, data in host.reports() if to == there(0)]
    told = [rate for rate in rates if rate]
    assert told and 0.4 < told[0] < 0.5, told


def test_a_sender_has_its_part_by_weight_whatever_it_sends_in_the_mean(host: Host) -> None:
    """Under eyeq, a hundredth of the line beside a VM that takes the rest: it is lent, and still there."""
    host.key(KEY)
    host.law("eyeq")
    uplink, vms = host.uplink(10 * CAPACITY), [host.vm(), host.vm(weight=3)]
    for number, vm in enumerate(vms):
        hear(host, vm, uplink, number)
    credit = [0.0, 0.0]
    for _ in range(250):
        for number, part in enumerate((0.01, 0.99)):
            credit[number] += part * 10 * CAPACITY * MS / 5 / SECOND
            while credit[number] >= FULL:
                credit[number] -= FULL
                host.send(vms[number], uplink, address(f"10.0.0.{number + 1}"), there(number))
        host.pass_time(MS // 5)
    shares = [host.limiter(vm, uplink).share / (10 * CAPACITY) for vm in vms]
    assert shares[0] == pytest.approx(0.25, rel=0.01) and shares[1] > 0.9, shares


def ask(host: Host, vm: Any, uplink: Any, source: bytes, answers: int = 1) -> List[str]:
    """Let an address ask the VM, which answers; return the drops of the answers."""
    host.receive(vm, uplink, source, HERE, bytes=100)
    host.pass_time(20_000)
    return [host.send(vm, uplink, HERE, source, bytes=100).drop for _ in range(answers)]


def spoofed(number: int) -> bytes:
    return address(f"10.9.{number >> 8}.{number & 255}")


@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("rounds", [1, 2, 3, 6])
def test_who_asks_from_many_addresses_keeps_no_new_client_out(host: Host, law: str, rounds: int, answers: int) -> None:
    """Askers whom the VM answers prove nothing, however often they ask; each new client has a peer, and stays."""
    host.set(peers_max=256)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for _ in range(rounds):
        for number in range(256):
            ask(host, vm, uplink, spoofed(number), answers)
            host.pass_time(MS // 10)
    clients = [there(number) for number in range(12)]
    drops = [drop for _ in range(20) for client in clients for drop in ask(host, vm, uplink, client)]
    assert drops == [""] * len(drops), "clients were limited by what packets without a peer share"
    assert all(host.peer(vm, client).tx_packets >= 15 for client in clients), "they did not stay"
    assert host.counter(vm, "peers_full") == host.counter(vm, "drop_shared") == 0 and host.peers(vm) == 256


def test_who_talks_stays_while_others_ask(host: Host, law: str) -> None:
    """Whom the VM began to talk to, whose shim reports, and whom it answered often: none makes room for askers."""
    host.set(peers_max=256)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    talk(host, vm, uplink, [1, 2], packets=2)
    ask(host, vm, uplink, there(3))
    reported = Message(vm=HERE, peer=there(3), marks=0, type=TYPE_REPORT, rate=4_000_000, point_datapath=FULL,
                       weight_total=1, interval_ns=MS // 2, sender=7, epoch=1000, sequence=1)
    assert host.message(vm, uplink, there(3), HERE, encode_v1(reported, KEY)) == "reports"
    for _ in range(4):
        ask(host, vm, uplink, there(4))
    for number in (*range(700), *range(700)):
        ask(host, vm, uplink, spoofed(number))
        if number % 100 == 0:
            host.pass_time(50 * MS)
    assert all(host.peer(vm, there(number)) for number in (1, 2, 3, 4))
    assert host.peers(vm) == 256 and host.counter(vm, "peers_full") == 0


def test_newcomers_find_time_to_rise(host: Host, law: str) -> None:
    """Where all peers were answered often, a part of the table is for newcomers, who rise in the midst of others."""
    host.set(peers_max=256)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for _ in range(6):
        for number in range(256):
            ask(host, vm, uplink, spoofed(number))
    client = there(1)
    for number in range(40):
        ask(host, vm, uplink, client)
        for other in range(3):
            ask(host, vm, uplink, spoofed(1000 + 3 * number + other))
    assert host.peer(vm, client).tx_packets == 40


def test_who_was_silent_for_a_second_makes_room(host: Host, law: str) -> None:
    """A table full of peers that the VM began to talk to has room for a new one once one of them is silent."""
    host.set(peers_max=32)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    talk(host, vm, uplink, list(range(32)))
    host.send(vm, uplink, HERE, there(100), bytes=100)
    assert host.peer(vm, there(100)) is None and host.counter(vm, "peers_full") == 1
    for _ in range(60):
        talk(host, vm, uplink, [number for number in range(32) if number != 7], packets=1)
    host.send(vm, uplink, HERE, there(100), bytes=100)
    assert host.peer(vm, there(100)) and host.peer(vm, there(7)) is None
    host.send(vm, uplink, HERE, there(101), bytes=100)
    assert host.peer(vm, there(101)), "one that was sent a packet makes room"
    assert all(host.peer(vm, there(number)) for number in range(32) if number != 7)


@pytest.mark.parametrize("size", [60, FULL])
@pytest.mark.parametrize("limiter", ["pace", "police"])
def test_what_the_vms_bucket_drops_makes_no_peer(host: Host, law: str, limiter: str, size: int) -> None:
    """A VM at 1 MB/s sprays 100,000 addresses/s: as many peers are made as packets pass, and few more."""
    host.set(peers_max=4096, limiter=0 if limiter == "pace" else 1, burst_bytes=3028, horizon_ns=2 * MS)
    uplink, vm = host.uplink(CAPACITY), host.vm(most=1_000_000)
    passed = sent = 0
    for number in range(10_000):
        outcome = host.send(vm, uplink, HERE, address(f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"),
                            bytes=size)
        sent += 1
        passed += bool(outcome.passed)
        host.pass_time(10_000)
    made = host.peers(vm) + host.counter(vm, "peers_evicted") + host.counter(vm, "peers_collected")
    assert passed < sent // 4 and passed <= made <= passed + 10, (passed, made)
