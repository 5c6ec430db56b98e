# SPDX-License-Identifier: Apache-2.0
"""Whether a controller that controls nothing says so."""

import collections
import types

import pytest

from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.rates.effect import Effect, shown
from sdngcc.controller.rates.numbering import Hearing, Numbering

SECOND_NS = 1_000_000_000


class World:
    """Two bridges that do as they should, one with a VM; a second passes with each look."""

    def __init__(self, polled=True, by_marks=True):
        self.now_ns = 100 * SECOND_NS
        self.counters = collections.Counter()
        self.numbering = Numbering(1)
        self.origins = []
        self.interfaces = set()
        self.switches = {
            dpid: SwitchRecord(dpid, 0, settled=True, vm_state=True, marks=True) for dpid in (0xA1, 0xB1)
        }
        self.switches[0xA1].vms[1] = object()
        source = types.SimpleNamespace(polled=polled, origins=lambda now_ns: self.origins)
        self.effect = Effect(
            self.switches, source, self.numbering, self.counters, lambda dpid: dpid in self.interfaces, by_marks,
            self.now_ns,
        )  # fmt: skip

    def look(self, seconds=1):
        for _ in range(seconds):
            self.now_ns += SECOND_NS
            self.effect.check(self.now_ns)
        return [(one.cause, one.whole) for one in self.effect.faults]


@pytest.fixture
def world():
    return World()


def test_what_is_as_it_should_be_is_no_fault(world, caplog):
    world.counters["marks"], world.numbering.accepted = 1000, 100
    assert world.look(3) == [] and not caplog.messages
    assert not any(shown(world.effect.faults).values())


def test_marks_without_a_source(world, caplog):
    world.counters["marks"] = world.counters["marks_without_source"] = 22_348
    assert world.look() == [("sources", True)]
    assert "of 22348 marks of the last minute, 22348 have no source" in caplog.text
    world.counters["marks"] += 10_000
    assert world.look() == [("sources", False)]
    assert world.look(70) == []
    assert len([one for one in caplog.messages if "have no source" in one]) == 2
    assert caplog.records[-1].getMessage() == "sources: as it should be again" or caplog.records[-1].levelname != "INFO"


def test_few_marks_prove_nothing(world):
    world.counters["marks"] = world.counters["marks_without_source"] = 99
    assert world.look() == []


def test_shims_that_refuse_all_messages(world, caplog):
    hearing = Hearing()
    world.numbering.heard(hearing, 0, 0, 0)
    for number in range(1, 21):
        world.numbering.epoch_for(hearing)
        world.numbering.heard(hearing, 0, 300 * number, 0)
    assert world.look() == [("shims", True)]
    assert "6000 of 6000 messages of the last minute were refused" in caplog.text and "key_file" in caplog.text
    assert world.counters["messages_refused"] == 6000 and world.counters["messages_accepted"] == 0
    assert len(caplog.messages) == 1
    world.look(30)
    assert len(caplog.messages) == 1
    world.numbering.heard(hearing, 50, 6000, 0)
    assert world.look() == [("shims", False)]


def test_bridges_without_a_shim(world, caplog):
    world.switches[0xA1].vm_state = False
    assert world.look() == [("shims", True)]
    assert "bridge 00000000000000a1 knows no VM state: its Open vSwitch has no shim" in caplog.text
    world.interfaces.add(0xB1)
    assert world.look() == [("shims", False)]
    world.switches[0xB1].vm_state = False
    assert world.look() == [("shims", True)]


def test_a_switch_without_vms_needs_no_shim(world):
    world.switches[0xB1].vm_state = False
    assert world.look() == []


def test_switches_that_all_refuse_marks(world, caplog):
    world.switches[0xA1].marks = False
    assert world.look() == []
    world.switches[0xB1].marks = False
    assert world.look() == [("marks", True)]
    assert "no switch reports marks" in caplog.text


def test_where_capacities_are_decided_by_the_lack_of_marks_is_a_warning():
    world = World(by_marks=False)
    world.switches[0xA1].marks = world.switches[0xB1].marks = False
    world.counters["marks"] = world.counters["marks_without_source"] = 1000
    assert world.look() == [("marks", False), ("sources", False)]


def test_what_feeds_a_source_and_says_nothing():
    world = World(polled=False)
    world.origins = [{"name": "10.0.0.1", "state": "silent"}, {"name": "10.0.0.2", "state": "fresh"}]
    assert world.look(10) == []  # it may come yet
    assert world.look(25) == [("marks", False)]
    world.origins[1]["state"] = "refused"
    assert world.look() == [("marks", True)]


def test_a_fault_that_comes_and_goes_is_told_once_a_minute(world, caplog):
    for _ in range(15):
        world.switches[0xA1].vm_state = False
        world.look()
        world.switches[0xA1].vm_state = True
        world.look()
    assert len([one for one in caplog.messages if "no shim" in one]) == 1
