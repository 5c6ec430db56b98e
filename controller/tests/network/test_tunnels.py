# SPDX-License-Identifier: Apache-2.0
"""Machines behind tunnels are found at the congested port of the fabric that the tunnels cross."""

import functools
import struct

import pytest

from sdngcc.controller.engine import Engine
from sdngcc.controller.network.paths import Tunnel
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire.packets import mapped

from ..fabric import Fabric, arp, ip, ipv4, mac, port_reading, vm_reading
from ..test_engine import KEY, notices

B1, B2, B3, T1, T2 = 1, 2, 3, 0x11, 0x12
# Machine -> (bridge, port); bridges' tunnel ports are 10 + the other bridge.
PLACES = {11: (B1, 2), 12: (B1, 3), 21: (B2, 2), 31: (B3, 2)}
# Bridge -> its network card's number, which is its address's too, and place in the fabric.
CARDS = {B1: (101, (T1, 1)), B2: (102, (T1, 2)), B3: (103, (T2, 1))}


class Tunnelled(Fabric):
    """Bridges without wires: what leaves a tunnel's port crosses the fabric in a datagram of its host."""

    def transmit(self, dpid, port, frame):
        if dpid in CARDS and port > 10:
            near, far = CARDS[dpid], CARDS[port - 10]
            outer = ipv4(near[0], far[0])[:34] + struct.pack("!HHHH", 5, 4789, 0, 0) + bytes(8) + frame
            self.queue(lambda: self.switches[near[1][0]].forward(near[1][1], outer))
            return
        for bridge, (card, place) in CARDS.items():
            if place == (dpid, port):
                if frame[12:14] == b"\x08\x00" and frame[30:34] == ip(card) and frame[36:38] == b"\x12\xb5":
                    source = next(other for other, (number, _) in CARDS.items() if ip(number) == frame[26:30])
                    self.queue(functools.partial(self.switches[bridge].forward, 10 + source, frame[50:]))
                return
        super().transmit(dpid, port, frame)


def names(local=True):
    return {
        (one, f"vx{other}"): Tunnel(mapped(ip(CARDS[one][0])) if local else None, mapped(ip(CARDS[other][0])))
        for one in CARDS for other in CARDS if one != other
    }  # fmt: skip


def build(tmp_path, tunnels):
    key_file = tmp_path / "key"
    key_file.write_text(KEY.hex())
    fabric = Tunnelled()
    for dpid in CARDS:
        others = {10 + other: f"vx{other}" for other in CARDS if other != dpid}
        fabric.add_switch(dpid, {2: f"vm{dpid}a", 3: f"vm{dpid}b", **others})
    fabric.add_switch(T1, {1: "t1-h1", 2: "t1-h2", 9: "t1-t2"})
    fabric.add_switch(T2, {1: "t2-h3", 9: "t2-t1"})
    fabric.wire((T1, 9), (T2, 9))
    for dpid, port in PLACES.values():
        fabric.switches[dpid].vms[port] = vm_reading(port, 30_000_000)
    for dpid in (T1, T2):
        fabric.switches[dpid].marks = {port: port_reading(port) for port in fabric.switches[dpid].ports}
    chosen = Settings(key_file=key_file, lldp_period_ms=500)
    fabric.engine = Engine(chosen, fabric.clock, epoch=1000)
    fabric.connect()
    for near, place in CARDS.values():
        for far, _ in CARDS.values():
            if near != far:
                fabric.inject(*place, arp(near, far))
    fabric.run(1.0)
    fabric.engine.set_tunnels(tunnels)
    for source, target in ((11, 31), (12, 21), (21, 31)):
        fabric.inject(*PLACES[source], arp(source, target))
        fabric.inject(*PLACES[target], arp(target, source))
        fabric.inject(*PLACES[source], ipv4(source, target))
    fabric.run(1.0)
    fabric.delivered.clear()
    return fabric


def told(fabric, point):
    fabric.delivered.clear()
    fabric.switches[point[0]].add_marks(point[1], 600)
    fabric.run(0.02)
    return {place: notice.marks for place, notice in notices(fabric).items()}


@pytest.mark.parametrize("local", [True, False])
def test_marks_in_the_fabric_reach_the_machines_behind_tunnels(tmp_path, local):
    fabric = build(tmp_path, names(local))
    assert fabric.engine.topology.peer(B1, 13) == (B3, 11)
    before = fabric.packet_ins
    fabric.inject(*PLACES[11], ipv4(11, 31))
    assert fabric.delivered == [(PLACES[31], ipv4(11, 31))] and fabric.packet_ins == before
    assert told(fabric, (T2, 1)) == {PLACES[11]: 300, PLACES[21]: 300}
    assert told(fabric, (T1, 9)) == {PLACES[11]: 300, PLACES[21]: 300}
    assert told(fabric, (T1, 2)) == {PLACES[12]: 600}


def test_without_the_tunnels_ends_marks_have_no_source(tmp_path):
    fabric = build(tmp_path, {})
    assert told(fabric, (T2, 1)) == {}
    assert fabric.engine.counters["marks_without_source"] == 600


def test_tunnel_to_an_unknown_address_is_left_out(tmp_path):
    tunnels = {**names(), (B1, "vx3"): Tunnel(None, mapped(ip(250)))}
    fabric = build(tmp_path, tunnels)
    assert told(fabric, (T2, 1)) == {PLACES[21]: 600}
    fabric.engine.set_tunnels(names())
    assert told(fabric, (T2, 1)) == {PLACES[11]: 300, PLACES[21]: 300}


def test_machine_with_destinations_behind_two_tunnels_is_charged_at_each(tmp_path):
    fabric = build(tmp_path, names())
    fabric.inject(*PLACES[11], arp(11, 21))
    fabric.inject(*PLACES[21], arp(21, 11))
    fabric.inject(*PLACES[11], ipv4(11, 21))
    for target, count in ((31, 1_000_000), (21, 2_000_000)):
        fabric.switches[B1].find_pair_flow(mac(11), mac(target)).octets += count
    fabric.engine.attribution.through((T2, 1))
    fabric.run(0.3)
    assert fabric.engine.attribution.through((T2, 1))[PLACES[11]] == pytest.approx(10_000_000, rel=0.01)
    assert fabric.engine.attribution.through((T1, 2))[PLACES[11]] == pytest.approx(20_000_000, rel=0.01)


def test_a_switch_that_connects_has_only_its_own_tunnels_looked_for(tmp_path, monkeypatch):
    fabric = build(tmp_path, names())
    placed = []
    place = fabric.engine.paths.set_tunnels
    monkeypatch.setattr(fabric.engine.paths, "set_tunnels", lambda *args: (placed.append(args[0]), place(*args))[1])
    changed = {**names(), (B3, "vx1"): Tunnel(None, mapped(ip(CARDS[B1][0])))}
    fabric.engine.set_tunnels(changed)
    assert placed == [B3]
    ports = {number: (f"vx{number - 10}", mac(number), True) for number in (12, 13)}
    fabric.engine.switch_down(B1)
    fabric.engine.switch_up(B1, ports)
    fabric.engine.port_changed(B1, 14, "vx4", mac(14), True)
    assert placed == [B3, B1, B1], "no database says that vx4 is a tunnel's"
    fabric.engine.port_changed(B1, 12, "other", mac(12), True)
    assert placed == [B3, B1, B1, B1]
