# SPDX-License-Identifier: Apache-2.0
"""Which bridges are asked: those that a decision needs, and all others now and then."""

import collections

import pytest

from sdngcc.controller.rates.paths.asking import KEPT, SELDOM, Asking
from sdngcc.controller.rates.paths.entries import CAPS
from sdngcc.controller.tests.fabric import mac, vm_reading
from sdngcc.controller.tests.rates.test_by_path import MB, NEAR, PORTS, SHARE, make, sent, want
from sdngcc.controller.tests.test_engine import H1, H2, H3, T2
from sdngcc.controller.wire import experimenter

FULL, FREE = (100, 1), (100, 2)  # ports


class Ways:
    """Who sends by which ports: machine (bridge, number) has one pair for each of its ports."""

    def __init__(self, ways):
        self.of = ways

    def using(self, port):
        return [(place, hop) for place, hops in self.of.items() for hop in hops if hop == port]

    def place(self, pair):
        return pair[0]

    def ways(self, place):
        return {(place, hop): {hop: 1.0} for hop in self.of[place]}


def asked(asking, bridges, periods=4):
    """Return how often each of some bridges is asked in some periods in which nothing moves."""
    counts = collections.Counter()
    for _ in range(periods):
        counts.update({dpid: asking.needs(dpid) for dpid in bridges})
        asking.decided([FULL], (), ())
    return counts


def test_bridges_behind_a_pressed_port_are_asked_always_and_others_now_and_then():
    asking = Asking(Ways({(1, 2): [FULL, FREE], (1, 3): [], (2, 2): [FREE]}))
    assert all(map(asking.needs, range(100))), "nothing was known"
    asking.decided([FULL], (), ())
    counts = asked(asking, [1, *range(2, 100)])
    assert counts.pop(1) == 4 and set(counts.values()) == {4 // SELDOM}
    # They take turns.
    assert 30 < sum(map(asking.needs, range(2, 100))) < 70


def test_whoever_moved_is_asked_in_the_next_period():
    ways = Ways({(1, 2): [FULL], (2, 2): [FREE]})
    asking = Asking(ways)
    asking.decided([FULL], (), ())
    ways.of[2, 2] = [FULL]
    asking.decided([FULL], [(2, 2)], ())
    assert asked(asking, [1, 2]) == {1: 4, 2: 4}
    for _ in range(SELDOM):
        asking.decided((), [(1, 2)], ())
        assert asking.needs(1)
    ways.of[2, 2] = []
    asked(asking, [2], KEPT)
    assert asked(asking, [1, 2]) == {1: 4, 2: 4 // SELDOM}
    for dpid in (2, 3):
        for _ in range(SELDOM):
            asking.decided([FULL], (), [dpid])
            assert asking.needs(dpid)


def test_a_bridge_whose_own_port_is_pressed_is_asked_and_all_are_where_a_cap_is():
    asking = Asking(Ways({}))
    for _ in range(SELDOM):
        asking.decided([(7, 1)], (), ())
        assert asking.needs(7)
    asking.decided([FULL], (), ())
    assert asked(asking, [7])[7] == 4 // SELDOM
    for _ in range(SELDOM):
        asking.decided([(CAPS, 1)], (), ())
        assert all(map(asking.needs, range(50)))


@pytest.fixture
def shims(tmp_path):
    shims = make(tmp_path)
    shims.questions = collections.Counter()
    send = shims.fabric.send

    def sent_to(dpid, data):
        at = 0
        while at < len(data):
            length = int.from_bytes(data[at + 2 : at + 4], "big")
            if data[at + 1] == 18 and data[at + 8 : at + 10] == b"\xff\xff":
                shims.questions[dpid, experimenter.decode_request(data[at : at + length])[1]] += 1
            at += length
        return send(dpid, data)

    shims.fabric.send = sent_to
    return shims


def questions(shims, periods):
    """Run some periods; return how often H1, H2 and H3 were asked both questions."""
    shims.questions.clear()
    shims.run(periods)
    kinds = (experimenter.VM_STATE, experimenter.HOST_PATHS)
    return [[shims.questions[dpid, kind] for kind in kinds] for dpid in (H1, H2, H3)]


def test_bridges_at_rest_are_asked_every_other_period(shims):
    want(shims, (11, 31), (21, 31))
    shims.run(40)
    # H1 and H2 send by the full port.  H3 does not, and 2 s of nothing else to ask it for are not over.
    assert questions(shims, 20) == [[20, 20], [20, 20], [10, 10]]
    shims.wants.clear()
    shims.run(60)
    assert questions(shims, 20) == [[10, 10]] * 3


@pytest.mark.parametrize("after", range(SELDOM))
def test_who_begins_is_seen_within_two_periods_and_has_its_part_in_the_next(shims, after):
    want(shims, (11, 31), (22, 31))
    shims.run(40)
    del shims.wants[22, 31]
    shims.run(60 + after)
    want(shims, (22, 31))
    shims.run(SELDOM + 1)
    assert shims.fabric.engine.switches[H2].vms[3].active
    shims.run(3)
    assert sent(shims, (11, 31), (22, 31)) == pytest.approx([30, 30], rel=0.03)


@pytest.mark.parametrize("after", range(SELDOM))
def test_bridges_behind_a_port_that_marks_are_asked_in_the_same_period(shims, after):
    want(shims, (11, 31), (22, 31), rate=10 * MB)
    shims.run(60 + after)
    assert questions(shims, 10) == [[5, 5]] * 3
    shims.fabric.switches[T2].add_marks(NEAR[1], 5)
    shims.questions.clear()
    shims.fabric.run(0.0049)
    assert shims.questions[H1, experimenter.VM_STATE] == shims.questions[H2, experimenter.HOST_PATHS] == 1


def test_where_a_bridge_tells_no_paths_all_are_asked(shims):
    want(shims, (11, 31))
    shims.fabric.switches[H2].by_path = False
    shims.fabric.engine.switches[H2].paths = None
    shims.run(40)
    states = [state for state, _ in questions(shims, 20)]
    assert states == [20, 20, 20]


def test_a_machine_that_is_found_late_is_no_port_of_the_fabric(tmp_path):
    shims = make(tmp_path, {**PORTS, (H3, 4): SHARE})
    want(shims, (11, 31))
    shims.run(10)
    engine, paths = shims.fabric.engine, shims.fabric.engine.rounds.paths
    shims.places[34] = (H3, 4)
    engine.relations.learn_host(mac(34), (H3, 4), bytes(10) + b"\xff\xff\x0a\x00\x00\x22", shims.fabric.now_ns)
    engine.relations.learn_pair(mac(11), mac(34), shims.fabric.now_ns)
    shims.wants[11, 34] = 10 * MB
    shims.run(1)
    assert (H3, 4) in paths.ports.table.ports.of
    shims.fabric.switches[H3].vms[4] = vm_reading(4, flags=0)
    shims.run(SELDOM + 1)
    assert 4 in engine.switches[H3].vms and (H3, 4) not in paths.ports.table.ports.of


def test_questions_that_could_not_be_sent_are_awaited_no_more(shims):
    want(shims, (11, 31), (22, 31))
    shims.run(20)
    send = shims.fabric.send
    shims.fabric.send = lambda dpid, data: shims.fabric.engine.unsent(dpid, data) if dpid == H2 else send(dpid, data)
    shims.run(3)
    switch = shims.fabric.engine.switches[H2]
    assert (switch.state_xid, switch.paths_xid) == (0, 0)
    assert shims.fabric.engine.counters["round_deadlines"] == 0
