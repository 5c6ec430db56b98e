# SPDX-License-Identifier: Apache-2.0
"""The engine among several controllers: it hears all, sends what concerns its own switches, and takes over."""

import pytest

from sdngcc.controller.engine import Engine
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import message, openflow
from sdngcc.controller.wire.openflow import MessageError

from ..fabric import arp, ipv4, mac
from ..test_engine import H1, KEY, PLACES, T2, build, notices, talk


class Part:
    """Owns what the test says."""

    shared = True

    def __init__(self):
        self.owned, self.live = set(), True

    def owns(self, dpid):
        return self.live and dpid in self.owned

    def is_live(self):
        return self.live


@pytest.fixture
def site(tmp_path):
    fabric = build(tmp_path)
    part = Part()
    fabric.engine = Engine(Settings(key_file=tmp_path / "key"), fabric.clock, 1000, part)
    part.owned = set(fabric.switches)
    fabric.connect()
    for dpid in fabric.switches:
        fabric.engine.take_over(dpid, True)
    fabric.run(3.0)
    talk(fabric, 11, 31)
    fabric.run(3.0)
    notices(fabric)
    return fabric, part


def give_up_all(fabric, part):
    part.owned = set()
    for dpid in fabric.switches:
        fabric.engine.give_up(dpid)


def take_over_all(fabric, part):
    part.owned = set(fabric.switches)
    for dpid in fabric.switches:
        fabric.engine.take_over(dpid, False)


def test_what_was_known_is_known_after_a_takeover(site):
    fabric, part = site
    give_up_all(fabric, part)
    fabric.switches[T2].add_marks(1, 9)
    fabric.run(12.0)  # longer than a pair without a flow is remembered
    assert not notices(fabric)
    take_over_all(fabric, part)
    fabric.run(1.0)
    fabric.inject(*PLACES[11], ipv4(11, 31))
    assert fabric.switches[H1].find_pair_flow(mac(11), mac(31))
    assert not any(frame == ipv4(11, 31) for _, _, frame in fabric.switches[PLACES[31][0]].packet_outs[-3:])
    fabric.switches[T2].add_marks(1, 5)
    fabric.run(1.0)
    assert notices(fabric)[PLACES[11]].marks == 5


def test_pairs_of_switches_of_others_are_learned_and_nothing_is_sent_there(site):
    fabric, part = site
    give_up_all(fabric, part)
    sent = {dpid: (len(switch.packet_outs), str(switch.flows)) for dpid, switch in fabric.switches.items()}
    fabric.engine.packet_in(*PLACES[12], arp(12, 31))
    fabric.engine.packet_in(*PLACES[12], ipv4(12, 31))
    fabric.run(12.0)  # longer than a pair without a flow is remembered: its bridge's owner gave it one
    assert fabric.engine.relations.targets(mac(12)) == [mac(31)]
    assert {dpid: (len(s.packet_outs), str(s.flows)) for dpid, s in fabric.switches.items()} == sent


def test_the_owner_of_the_port_tells_a_machine_at_anothers_bridge_unless_its_lease_ended(site):
    fabric, part = site
    part.owned = {T2}
    fabric.switches[T2].add_marks(1, 7)
    fabric.run(1.0)
    assert notices(fabric)[PLACES[11]].marks == 7
    part.live = False
    fabric.switches[T2].add_marks(1, 7)
    fabric.run(1.0)
    assert not notices(fabric)


def flow_reply(xid, *entries):
    body = b""
    for cookie, match, port in entries:
        actions = openflow._outputs((port,))
        instructions = b"\x00\x04" + (8 + len(actions)).to_bytes(2, "big") + bytes(4) + actions
        length = 48 + len(match) + len(instructions)
        body += openflow._FLOW_STATISTICS.pack(length, 0, 0, cookie, 0, 0) + match + instructions
    head = openflow._MULTIPART.pack(4, openflow.OFPT_MULTIPART_REPLY, 16 + len(body), xid, openflow.OFPMP_FLOW, 0)
    return head + body


def test_a_newcomer_reads_pairs_and_places_from_flows(site):
    fabric, part = site
    engine = fabric.engine
    engine.relations.forget_place(PLACES[11][0])
    engine.relations.forget_place(PLACES[31][0])
    assert not engine.relations.pairs()
    for dpid, switch in fabric.switches.items():
        engine.outbox.put(dpid, engine.adoption.request(dpid, 7))
        entries = [
            (flow.cookie, openflow.match(
                int.from_bytes(flow.fields[0], "big") if 0 in flow.fields else None, flow.fields.get(3),
                flow.fields.get(4)), flow.ports[0])
            for flow in switch.flows if flow.ports
        ]  # fmt: skip
        assert engine.multipart(dpid, flow_reply(7, *entries))
    assert engine.relations.pairs() == [(mac(11), mac(31))]
    assert engine.relations.hosts[mac(31)].place == PLACES[31]
    assert engine.adoption.adopted == 1
    # No address is known, so the packet is for the one its Ethernet address gives it, and the message for its port.
    fabric.run(1.0)
    fabric.delivered.clear()
    fabric.switches[T2].add_marks(1, 5)
    fabric.run(0.5)
    [frame] = [frame for place, frame in fabric.delivered if place == PLACES[11] and frame[12:14] == b"\x86\xdd"]
    assert message.decode_v1(frame[54:], KEY).vm == bytes(16)
    assert frame[38:54] == bytes.fromhex("fe80000000000000000000fffe00000b")


@pytest.mark.parametrize("cut", [20, 40, 62, 70, 90])
def test_flows_cut_short_are_refused(cut):
    whole = flow_reply(7, (1, openflow.match(3, mac(1), mac(2)), 4))
    assert openflow.flows(whole) == [openflow.Flow(1, 3, mac(1), mac(2), 4)]
    with pytest.raises(MessageError):
        openflow.flows(whole[:cut])


@pytest.mark.parametrize("known_s", [0.5, 5.0])
def test_a_newcomer_that_takes_over_at_once_keeps_the_flows(tmp_path, site, known_s):
    fabric, part = site
    part.owned = set()
    late = Part()
    fabric.engine = Engine(Settings(key_file=tmp_path / "key"), fabric.clock, 1000, late)
    fabric.connect()
    fabric.run(known_s)
    assert fabric.engine.switches[H1].hypervisor
    take_over_all(fabric, late)
    fabric.run(0.1)
    assert fabric.switches[H1].find_pair_flow(mac(11), mac(31))


def test_a_bridge_that_shows_machines_late_is_flushed_by_whoever_owns_it(tmp_path, site):
    fabric, part = site
    part.owned = set()
    late = Part()
    fabric.engine = Engine(Settings(key_file=tmp_path / "key"), fabric.clock, 1000, late)
    machines, fabric.switches[H1].vms = fabric.switches[H1].vms, {}
    fabric.connect()
    fabric.run(3.0)
    assert not fabric.engine.switches[H1].hypervisor
    fabric.switches[H1].vms = machines
    fabric.run(2.0)
    assert fabric.engine.switches[H1].hypervisor and fabric.switches[H1].find_pair_flow(mac(11), mac(31))
    take_over_all(fabric, late)
    fabric.run(0.1)
    assert not fabric.switches[H1].find_pair_flow(mac(11), mac(31))


def test_a_bridge_that_comes_back_keeps_what_others_kept(site):
    fabric, _ = site
    engine = fabric.engine
    ports = {number: (name, bytes(6), True) for number, name in fabric.switches[H1].ports.items()}
    engine.switch_up(H1, ports)
    fabric.run(2.0)
    assert engine.relations.targets(mac(11)) == [mac(31)] and len(engine.topology.links()) == 5
    del ports[2]
    engine.switch_up(H1, ports)
    assert not engine.relations.targets(mac(11))
