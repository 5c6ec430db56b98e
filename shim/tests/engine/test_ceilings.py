# SPDX-License-Identifier: Apache-2.0
"""A VM's ceiling over all its uplinks: it binds their sum, whoever uses which, and leaves nothing unused."""

from typing import Any, Callable, Dict, List, Tuple

import pytest

from .host import FULL, MS, SECOND, Host, address, excess

CAPACITY = 1_250_000_000  # 10 Gb/s
MEGABIT = 125_000  # bytes/s
HERE, THERE = address("10.0.0.1"), address("10.9.9.9")


class Bond:
    """A VM with a ceiling, whose flows leave by several uplinks; each offers so many bytes/s as it is told."""

    def __init__(self, host: Host, most: int, uplinks: int = 2, law: str = "static") -> None:
        host.law(law)
        self.host, self.uplinks = host, [host.uplink(CAPACITY) for _ in range(uplinks)]
        self.vm = host.vm(most=most)
        self.left: List[Tuple[int, int]] = []
        self.got = [0] * uplinks

    def run(self, ns: int, offered: Callable[[int], List[float]], step_ns: int = 0) -> List[int]:
        """Let flows offer bytes/s by time since now; return the bytes that passed by each uplink."""
        begin, due = self.host.now_ns, [0.0] * len(self.uplinks)
        before = list(self.got)
        while self.host.now_ns < begin + ns:
            rates = offered(self.host.now_ns - begin)
            for number, uplink in enumerate(self.uplinks):
                due[number] += rates[number] * step_ns / SECOND
                while due[number] >= FULL:
                    due[number] -= FULL
                    outcome = self.host.send(self.vm, uplink, HERE, THERE)
                    if outcome.passed:
                        self.got[number] += FULL
                        self.left.append((max(outcome.departure_ns, self.host.now_ns), FULL))
            self.host.pass_time(step_ns)
        return [now - then for now, then in zip(self.got, before)]


@pytest.mark.parametrize("megabits", [10, 1000])
@pytest.mark.parametrize("uplinks", [2, 3])
def test_flows_on_several_uplinks_get_the_ceiling_together(host: Host, uplinks: int, megabits: int) -> None:
    most, ns = megabits * MEGABIT, 20 * SECOND // megabits + 50 * MS
    bond = Bond(host, most, uplinks)
    step_ns = FULL * SECOND // most // 2
    bond.run(ns, lambda _: [most] * uplinks, step_ns)
    got = bond.run(ns, lambda _: [most] * uplinks, step_ns)
    assert 0.98 * most <= sum(got) * SECOND / ns <= 1.01 * most + 12 * FULL * SECOND / ns
    assert min(got) >= 0.9 * max(got)
    assert excess(bond.left, most) <= uplinks * (3028 + 12 * FULL)


@pytest.mark.parametrize("small", [0.001, 0.02, 0.2])
def test_an_uplink_that_is_little_used_leaves_the_ceiling_to_the_other(host: Host, small: float) -> None:
    most = 100 * MEGABIT
    bond = Bond(host, most)
    bond.run(SECOND, lambda _: [most, small * most], 50_000)
    got = bond.run(2 * SECOND, lambda _: [most, small * most], 50_000)
    assert sum(got) * SECOND / (2 * SECOND) >= 0.96 * most
    assert got[1] >= 0.95 * small * most * 2


def test_flows_that_move_take_the_ceiling_with_them(host: Host) -> None:
    most, turn_ns = 100 * MEGABIT, 200 * MS
    bond = Bond(host, most)
    got = bond.run(4 * SECOND, lambda ns: [most * (ns // turn_ns % 2 == 0), most * (ns // turn_ns % 2 == 1)], 50_000)
    assert sum(got) >= 0.85 * most * 4
    assert excess(bond.left, most) <= 2 * (3028 + 12 * FULL)


def test_a_second_uplink_adds_nothing_from_its_first_packet_on(host: Host) -> None:
    most = 100 * MEGABIT
    bond = Bond(host, most)
    bond.run(SECOND, lambda _: [2 * most, 0], 50_000)
    bond.run(SECOND, lambda _: [2 * most, 2 * most], 50_000)
    assert excess(bond.left, most) <= 2 * (3028 + 12 * FULL)
    rates = [host.limiter(bond.vm, uplink).rate for uplink in bond.uplinks]
    assert sum(rates) <= most


def test_one_uplink_has_it_all_again_when_the_other_is_idle_or_goes(host: Host) -> None:
    host.set(inactive_ns=100 * MS)
    most = 100 * MEGABIT
    bond = Bond(host, most)
    bond.run(SECOND, lambda _: [most, most], 50_000)
    bond.run(SECOND, lambda _: [most, 0], 50_000)
    assert host.limiter(bond.vm, bond.uplinks[0]).rate == most
    bond.run(100 * MS, lambda _: [most, most], 50_000)
    host.lib.shim_lab_remove_uplink(bond.uplinks[1])
    bond.uplinks.pop()
    bond.run(100 * MS, lambda _: [most], 50_000)
    assert host.limiter(bond.vm, bond.uplinks[0]).rate == most


def test_another_ceiling_is_divided_at_once(host: Host) -> None:
    most = 100 * MEGABIT
    bond = Bond(host, most)
    bond.run(SECOND, lambda _: [most, most], 50_000)
    found: Dict[int, int] = {}
    for ceiling in (most // 10, 0, most):
        host.configure(bond.vm, most=ceiling)
        found[ceiling] = sum(host.limiter(bond.vm, uplink).rate for uplink in bond.uplinks)
    assert found[most // 10] <= most // 10 and found[most] <= most and found[0] == 2 * CAPACITY


def test_guarantee_and_share_stay_per_uplink(host: Host) -> None:
    """Below the ceiling nothing is divided; the guarantee holds on each uplink, up to the ceiling's part."""
    host.law("static")
    uplinks = [host.uplink(100 * MEGABIT) for _ in range(2)]
    vm, other = host.vm(least=60 * MEGABIT), host.vm(weight=100)
    for _ in range(3):
        for uplink in uplinks:
            for one, own in ((vm, HERE), (other, address("10.0.0.2"))):
                host.send(one, uplink, own, THERE)
        host.pass_time(20 * MS)
    assert [host.limiter(vm, uplink).rate for uplink in uplinks] == [60 * MEGABIT] * 2
    host.configure(vm, least=60 * MEGABIT, most=80 * MEGABIT)
    host.pass_time(20 * MS)
    assert sum(host.limiter(vm, uplink).rate for uplink in uplinks) <= 80 * MEGABIT


@pytest.mark.parametrize("law", ["static", "vcc", "maxmin"])
def test_a_guarantee_holds_at_once_where_a_part_rises(host: Host, law: str) -> None:
    host.set(inactive_ns=MS)
    least, most = 60 * MEGABIT, 80 * MEGABIT
    bond = Bond(host, most, law=law)
    host.configure(bond.vm, least=least, most=most)
    bond.run(100 * MS, lambda _: [most, most], 50_000)
    assert host.limiter(bond.vm, bond.uplinks[1]).rate < least
    rates: List[int] = []
    while len(rates) < 100:
        bond.run(200_000, lambda _: [0, most], 50_000)
        if not host.limiter(bond.vm, bond.uplinks[0]).active:
            rates.append(host.limiter(bond.vm, bond.uplinks[1]).rate)
    assert min(rates) >= least


@pytest.mark.parametrize("law", ["sdngcc", "maxmin", "eyeq", "hygenicc", "seawall", "scc", "vcc"])
def test_every_law_keeps_to_it(host: Host, law: str) -> None:
    most = 100 * MEGABIT
    bond = Bond(host, most, law=law)
    got: Any = bond.run(SECOND, lambda _: [most, most], 50_000)
    assert sum(got) <= 1.01 * most + 2 * (3028 + 12 * FULL)
    assert excess(bond.left, most) <= 2 * (3028 + 12 * FULL)
