# SPDX-License-Identifier: Apache-2.0
"""What ports and switches that come and go leave behind: nothing."""

import gc
import sys

from sdngcc.controller.engine import Engine
from sdngcc.controller.settings import Settings
from sdngcc.controller.tests.fabric import Fabric, arp, vm_reading
from sdngcc.controller.wire import packets

PORTS, TURNS = 200, 4  # that come and go between two looks at memory, and how often
# Blocks of memory that are left in at least one turn, at most: caches of Python fill and empty meanwhile.
BREATH = PORTS // 2


def _fabric() -> Fabric:
    fabric = Fabric()
    fabric.engine = Engine(Settings(notify=False), fabric.clock, epoch=1)
    fabric.add_switch(1, {1: "p1", 2: "p2"})
    fabric.connect()
    return fabric


def _come_and_go(fabric: Fabric, first: int, count: int) -> None:
    """Let machines come and go, each at a port of its own number."""
    switch = fabric.switches[1]
    for number in range(first, first + count):
        switch.ports[number] = f"p{number}"
        fabric.engine.port_changed(1, number, f"p{number}", bytes(6), True)
        fabric.run(0.4)
        switch.vms = {number: vm_reading(number)}
        fabric.inject(1, number, arp(9, 9))
        fabric.run(0.4)
        switch.vms = {}
        del switch.ports[number]
        fabric.engine.port_removed(1, number)
        # Switches of this kind remember all that they were asked, told and have counted.
        switch.sent = type(switch.sent)()
        switch.requests.clear()
        switch.packet_outs.clear()
        fabric.delivered.clear()


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def test_ports_that_come_and_go_leave_nothing() -> None:
    fabric = _fabric()
    left = []
    for turn in range(TURNS):
        before = _blocks()
        _come_and_go(fabric, 10 + turn * PORTS, PORTS)
        left.append(_blocks() - before)
    assert min(left) < BREATH, left


def test_frames_are_under_the_key_that_holds() -> None:
    fabric = _fabric()
    former = fabric.engine.discovery.key
    assert packets.parse_lldp(fabric.switches[1].packet_outs[-1][2], former) == (1, 2)
    fabric.switches[1].packet_outs.clear()
    fabric.engine.discovery.set_key(bytes(reversed(range(16))))
    fabric.engine.discover(1)
    fabric.settle()
    frame = fabric.switches[1].packet_outs[-1][2]
    assert packets.parse_lldp(frame, fabric.engine.discovery.key) == (1, 2)
    assert packets.parse_lldp(frame, former) is None


def test_a_frame_under_no_key_of_the_controllers_is_counted_and_makes_no_link() -> None:
    fabric = _fabric()
    fabric.add_switch(2, {1: "p1"})
    fabric.connect()
    engine = fabric.engine
    links, foreign = engine.topology.links(), engine.counters["lldp_foreign"]
    engine.packet_in(1, 1, packets.lldp_frame(2, 1, b"x" * 16))
    assert engine.topology.links() == links and engine.counters["lldp_foreign"] == foreign + 1
    engine.packet_in(1, 1, packets.lldp_frame(2, 1, engine.discovery.key))
    assert engine.topology.links() != links and engine.counters["lldp_foreign"] == foreign + 1
