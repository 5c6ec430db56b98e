# SPDX-License-Identifier: Apache-2.0
"""Each law between whole hosts: senders that take all they may share one marked link fairly, and fill it."""

from typing import Any, Iterator, List

import pytest

from .host import MS, SECOND
from .link import RECEIVER, Guest, Link

RATE = 25_000_000
LOOPS = ["sdngcc", "maxmin", "hygenicc", "scc", "seawall", "eyeq", "vcc", "elasticswitch"]
#: Laws whose sums go by the senders' weights; eyeq divides among peers and vcc among connections.
WEIGHED = ["sdngcc", "maxmin", "hygenicc", "scc", "seawall"]


@pytest.fixture
def links(core: Any) -> Iterator[List[Link]]:
    made: List[Link] = []
    yield made
    for link in made:
        link.close()


def begin(core: Any, law: str, weights: List[int]) -> Link:
    link = Link(core, law, RATE, weights)
    if law == "sdngcc":
        link.control(5 * MS)
    elif law == "maxmin":
        link.control(5 * MS, lambda number: RATE * 95 // 100 * weights[number] // sum(weights))
    if law == "vcc":
        for number in range(len(weights)):
            Guest(link, number)
    else:
        for number in range(len(weights)):
            link.blast(number)
    return link


@pytest.mark.parametrize("law", LOOPS)
def test_three_share_a_link(core: Any, links: List[Link], law: str) -> None:
    link = begin(core, law, [1, 1, 1])
    links.append(link)
    link.run(SECOND // 2)
    link.count_anew()
    link.run(SECOND // 2)
    parts = [bytes_ / (RATE * 0.5) for bytes_ in link.delivered]
    assert sum(parts) >= 0.65, f"the link is left empty: {parts}"
    assert min(parts) >= 0.75 * max(parts), f"not fair: {parts}"
    assert link.lost == 0 and not link.refused
    assert (link.reports > 0) == (law in ("hygenicc", "scc", "seawall", "eyeq", "elasticswitch"))


@pytest.mark.parametrize("law", WEIGHED)
def test_two_share_a_link_by_weight(core: Any, links: List[Link], law: str) -> None:
    link = begin(core, law, [1, 3])
    links.append(link)
    link.run(SECOND // 2)
    link.count_anew()
    link.run(SECOND // 2)
    one, three = link.delivered
    assert 2.0 <= three / one <= 4.5 and one + three >= 0.65 * RATE * 0.5


def test_without_feedback_nobody_is_protected(core: Any, links: List[Link]) -> None:
    """The placebo: under law static the same senders overrun the link, so it is the laws that keep it whole above."""
    link = begin(core, "static", [1, 1, 1])
    links.append(link)
    link.run(SECOND // 10)
    assert link.lost > 1000


@pytest.mark.parametrize("law", ["hygenicc", "scc", "seawall", "eyeq", "elasticswitch"])
def test_a_newcomer_gets_his_part(core: Any, links: List[Link], law: str) -> None:
    link = Link(core, law, RATE, [1, 1])
    links.append(link)
    link.blast(0)
    link.run(SECOND // 2)
    link.count_anew()
    link.run(SECOND // 4)
    assert link.delivered[0] >= 0.6 * RATE * 0.25, "who is alone gets too little"
    link.blast(1)
    link.run(SECOND // 2)
    link.count_anew()
    link.run(SECOND // 2)
    assert min(link.delivered) >= 0.6 * max(link.delivered)


@pytest.mark.parametrize("pause_ms", [40, 60, 80])
def test_a_sender_that_stalled_in_silence_is_let_through_again(core: Any, links: List[Link], pause_ms: int) -> None:
    """As a TCP without ACKs: its probe leaves a while after the last packet, the timeout's 0.2 s later must."""
    link = Link(core, "elasticswitch", RATE, [1])
    links.append(link)
    sender, vm, uplink, name = link.senders[0], link.vms[0], link.uplinks[0], link.addresses[0]
    sender.configure(vm, least=RATE // 4)
    link.blast(0)
    link.run(SECOND // 5)
    assert link.reports
    link.feedback = lambda deliver: None  # type: ignore[method-assign]
    link.run(SECOND // 5)
    link.blast = lambda number: None  # type: ignore[method-assign]
    link.run(pause_ms * MS)
    assert sender.send(vm, uplink, name, RECEIVER).passed
    link.run(SECOND // 5)
    outcome = sender.send(vm, uplink, name, RECEIVER)
    assert outcome.passed and outcome.departure_ns <= link.two.now_ns + 2 * MS, outcome
