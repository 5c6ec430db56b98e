# SPDX-License-Identifier: Apache-2.0
"""Feedback that is lost, doubled and overtaken, and VMs that come and go by the thousand: what still holds."""

import random
from typing import Any, Callable

import pytest

from .host import FULL, MS, SECOND, Host, address
from .link import Link

RATE = 25_000_000
CAPACITY = 125_000_000
LATEST_NS = 20 * MS  # by which a message is late at most: four periods
CHANGES = 1000  # a second
THERE = address("10.1.0.1")


class Faulty(Link):
    """A link whose feedback is lost, doubled and late, each with the same part of it in percent."""

    def __init__(self, core: Any, law: str, percent: int, **words: Any) -> None:
        self.chance, self.percent = random.Random(percent), percent
        super().__init__(core, law, RATE, [1, 1, 1], **words)

    def happens(self) -> bool:
        return self.chance.randrange(100) < self.percent

    def feedback(self, deliver: Callable[[], None]) -> None:
        if self.happens():
            return
        for _ in range(1 + self.happens()):
            if self.happens():
                self.after(self.chance.randrange(1, LATEST_NS), deliver)
            else:
                deliver()


@pytest.mark.parametrize("percent", [1, 10, 50])
@pytest.mark.parametrize("law", ["sdngcc", "maxmin", "hygenicc", "scc", "seawall", "eyeq"])
def test_lost_doubled_and_late_feedback(core: Any, law: str, percent: int) -> None:
    """The link stays shared, and what was doubled is refused as a replay and changes nothing."""
    link = Faulty(core, law, percent)
    try:
        if law in ("sdngcc", "maxmin"):
            link.control(5 * MS, (lambda number: RATE * 95 // 300) if law == "maxmin" else None)
        for number in range(3):
            link.blast(number)
        link.run(SECOND // 2)
        link.count_anew()
        link.run(SECOND)
        parts = [bytes_ / RATE for bytes_ in link.delivered]
        assert sum(parts) >= 0.6, f"the link is left empty: {parts}"
        # With half of it lost, half doubled and half late Seawall's rates swing over a second; nobody starves.
        assert min(parts) >= (0.6 if percent < 50 else 0.33) * max(parts), f"not fair: {parts}"
        assert set(link.refused) <= {"refused_replay"}, link.refused
        assert link.refused or percent == 1
    finally:
        link.close()


@pytest.mark.parametrize("law", ["static", "sdngcc", "maxmin", "seawall", "vcc"])
def test_a_thousand_changes_of_vms_a_second(host: Host, law: str) -> None:
    """VMs that come, are configured, send and go leave those that stay their guarantees and shares."""
    host.law(law)
    uplink = host.uplink(CAPACITY)
    stay = [host.vm(1, CAPACITY // 4, 0), host.vm(3, 0, CAPACITY // 2)]
    names = [address("10.0.0.1"), address("10.0.0.2")]
    fleeting: list[Any] = []
    for change in range(CHANGES):
        for vm, name in zip(stay, names):
            host.send(vm, uplink, name, THERE)
        kind = change % 4
        if kind == 0:
            fleeting.append(host.vm(1 + change % 7))
        elif kind == 1:
            host.configure(fleeting[-1], 1 + change % 5, 0, CAPACITY // (2 + change % 9))
        elif kind == 2:
            host.send(fleeting[-1], uplink, address(f"10.0.1.{change % 200}"), THERE, bytes=FULL)
        elif len(fleeting) > 20:
            host.lib.shim_lab_remove_vm(fleeting.pop(change % 20))
        host.pass_time(SECOND // CHANGES)
        assert host.limiter(stay[0], uplink).rate >= CAPACITY // 4, f"the guarantee is not kept at change {change}"
        assert host.limiter(stay[1], uplink).rate <= CAPACITY // 2
    for vm in fleeting:
        host.lib.shim_lab_remove_vm(vm)
    host.pass_time(120 * MS)  # more than two periods of any law
    assert [host.limiter(vm, uplink).share for vm in stay] == [CAPACITY // 2, CAPACITY // 2]
