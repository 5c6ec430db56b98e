# SPDX-License-Identifier: Apache-2.0
from sdngcc.controller.network.absent import HOSTS_MAX, KEPT_NS, AbsentHosts
from sdngcc.controller.network.relations import Host


def hosts(count, port="tap0", first=0):
    return [(port, Host((first + number).to_bytes(6, "big"), (1, 2), 5, {b"addr": 4})) for number in range(count)]


def test_what_left_is_told_once_at_the_ports_that_are_there():
    absent = AbsentHosts()
    absent.leave(1, [*hosts(1), *hosts(1, "tap1", 9)], 0)
    [host] = absent.back(1, {"tap1": 7}, KEPT_NS - 1)
    assert (host.mac, host.place, host.seen_ns, host.addresses) == (bytes(5) + b"\x09", (1, 7), 5, {b"addr": 4})
    assert absent.back(1, {"tap1": 7}, KEPT_NS - 1) == []


def test_a_minute_later_nothing_is_remembered():
    absent = AbsentHosts()
    absent.leave(1, hosts(1), 0)
    assert absent.back(1, {"tap0": 2}, KEPT_NS) == []


def test_the_oldest_go_where_there_are_too_many():
    absent = AbsentHosts()
    for dpid in (1, 2, 3):
        absent.leave(dpid, hosts(HOSTS_MAX // 2), dpid)
    absent.leave(4, hosts(HOSTS_MAX + 1), 4)
    assert [bool(absent.back(dpid, {"tap0": 2}, 5)) for dpid in (1, 2, 3, 4)] == [False, True, True, False]
