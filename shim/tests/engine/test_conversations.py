# SPDX-License-Identifier: Apache-2.0
"""Conversations: peers that are kept under laws that want none count, and never judge."""

from typing import Any, Callable, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .host import MS, SECOND, Host, address

CAPACITY = 12_500_000
HERE = address("10.0.0.1")
#: Laws that want no peers.
LAWS = ["static", "sdngcc", "maxmin", "vcc"]
CE = 3


def there(number: int) -> bytes:
    return address(f"10.1.{number >> 8}.{number & 255}")


@pytest.mark.parametrize("law", LAWS)
def test_each_address_is_counted_both_ways(host: Host, law: str) -> None:
    host.law(law)
    host.set(conversations=1)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for _ in range(3):
        host.send(vm, uplink, HERE, there(1))
    host.send(vm, uplink, HERE, there(2), bytes=100)
    host.receive(vm, uplink, there(1), HERE, bytes=60, ecn=CE)
    host.receive(vm, uplink, there(1), HERE, bytes=60)
    first, second = host.peer(vm, there(1)), host.peer(vm, there(2))
    assert (first.tx_bytes, first.tx_packets, first.rx_bytes, first.rx_packets, first.rx_marks) == (4542, 3, 120, 2, 1)
    assert (second.tx_bytes, second.tx_packets, second.rx_packets) == (100, 1, 0)
    assert first.rate == second.rate == 0, "a peer of nobody's law has no rate of its own"


@pytest.mark.parametrize("law", LAWS)
def test_without_the_setting_there_are_none(host: Host, law: str) -> None:
    host.law(law)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    host.send(vm, uplink, HERE, there(1))
    assert host.peers(vm) == 0
    host.set(conversations=1)
    host.send(vm, uplink, HERE, there(1))
    assert host.peers(vm) == 1
    host.set(conversations=0)
    assert host.peers(vm) == 0, "peers that nobody reads"


PACKETS = st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(60, 1514), st.sampled_from([0, 2, CE]),
                             st.integers(0, 2 * MS)), min_size=1, max_size=60)


@pytest.mark.parametrize("law", LAWS)
def test_no_packet_fares_otherwise(hosts: Callable[..., Host], effort: Any, law: str) -> None:
    """The same packets leave at the same times with the same fields, also beyond the peers there may be."""

    @effort
    @given(packets=PACKETS)
    def run(packets: List[Any]) -> None:
        pair = [hosts(), hosts()]
        ports = []
        for number, host in enumerate(pair):
            host.law(law)
            host.set(conversations=number, peers_max=4)
            ports.append((host.vm(), host.uplink(CAPACITY)))
        for out, remote, size, ecn, wait_ns in packets:
            fates = []
            for host, (vm, uplink) in zip(pair, ports):
                act = host.send if out else host.receive
                ends = (HERE, there(remote)) if out else (there(remote), HERE)
                fates.append(act(vm, uplink, *ends, bytes=size, ecn=ecn))
            assert fates[0] == fates[1]
            # Both engines have one clock.
            end_ns = pair[0].now_ns + wait_ns
            for host in pair:
                while 0 < host.due() <= end_ns:
                    host.lib.shim_host_clock_ns = max(host.due(), host.now_ns)
                    host.tick()
            pair[0].lib.shim_host_clock_ns = end_ns
        assert pair[1].peers(ports[1][0]) <= 4 and pair[0].peers(ports[0][0]) == 0

    run()


@pytest.mark.parametrize("law", LAWS)
def test_a_full_table_limits_nobody(host: Host, law: str) -> None:
    host.law(law)
    host.set(conversations=1, peers_max=2, waiting_max=0, horizon_ns=SECOND)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number in (1, 2, 1, 2):
        host.send(vm, uplink, HERE, there(number))
    host.pass_time(20 * MS)
    for number in (1, 2):
        host.send(vm, uplink, HERE, there(number))
    host.pass_time(20 * MS)
    fates = [host.send(vm, uplink, HERE, there(3)) for _ in range(100)]
    assert all(fate.passed for fate in fates) and host.counter(vm, "peers_full") == 100
    all_ns = 110 * 1514 * SECOND // host.limiter(vm, uplink).rate
    assert fates[-1].departure_ns - host.now_ns <= all_ns, "slower than the VM's own rate"


def test_what_moved_is_told_once_it_moved_and_not_for_ever(host: Host, effort: Any) -> None:
    host.law("sdngcc")
    host.set(conversations=1)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number in range(300):
        host.send(vm, uplink, HERE, there(number), bytes=60)
    assert len(host.moved(vm, 0)) == 300
    host.pass_time(20 * MS)
    since_ns = host.now_ns
    host.pass_time(20 * MS)
    assert host.moved(vm, since_ns) == []
    host.send(vm, uplink, HERE, there(7), bytes=60)
    host.receive(vm, uplink, there(8), HERE, bytes=60)
    assert sorted(host.moved(vm, since_ns)) == [there(7), there(8)], "before the next visit"
    host.pass_time(20 * MS)
    assert sorted(host.moved(vm, since_ns)) == [there(7), there(8)], "after it"
    assert host.moved(vm, host.now_ns) == []
    assert len(host.moved(vm, 0)) == 300


STEPS = st.lists(st.one_of(st.tuples(st.just("packet"), st.integers(0, 20)), st.tuples(st.just("wait"),
                 st.integers(0, 12 * MS)), st.tuples(st.just("read"), st.just(0)),
                 st.tuples(st.just("weigh"), st.integers(0, 20))), max_size=80)


@pytest.mark.parametrize("law", ["maxmin", "hygenicc"])
def test_a_reader_that_asks_since_its_last_reading_misses_nothing(hosts: Callable[..., Host], effort: Any,
                                                                  law: str) -> None:
    @effort
    @given(steps=STEPS)
    def run(steps: List[Any]) -> None:
        host = hosts()
        host.law(law)
        host.set(conversations=1, peer_idle_ns=SECOND)
        uplink, vm = host.uplink(CAPACITY), host.vm()
        since_ns, sent, read = 0, {}, {}
        for kind, value in [*steps, ("read", 0)]:
            if kind == "packet":
                host.send(vm, uplink, HERE, there(value), bytes=60)
                sent[there(value)] = sent.get(there(value), 0) + 1
            elif kind == "wait":
                host.pass_time(value)
            elif kind == "weigh":
                host.lib.shim_lab_weigh_peer(vm, there(value), 3)
            else:
                now_ns = host.now_ns
                for remote in host.moved(vm, since_ns):
                    read[remote] = host.peer(vm, remote).tx_packets
                since_ns = now_ns
        assert {remote: count for remote, count in read.items() if count} == sent

    run()
