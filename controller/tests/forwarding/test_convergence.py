# SPDX-License-Identifier: Apache-2.0
"""Flows and attribution after links, ports, switches and hosts changed are those of the network as it is."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdngcc.controller import work
from sdngcc.controller.network.attribution import Attribution

from ..fabric import arp, ipv4, mac
from ..network.test_multipath import H1, H2, L1, L2, PLACES, RECEIVERS, S1, S2, SENDERS, UP1, UP2, build, talk

LINKS = [((L1, 5), (S1, 1)), ((L1, 6), (S2, 1)), ((L2, 5), (S1, 2)), ((L2, 6), (S2, 2)), ((H2, 1), (L2, 1))]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), st.sampled_from(LINKS)),
        st.tuples(st.just("mend"), st.sampled_from(LINKS)),
        st.tuples(st.just("half"), st.sampled_from(LINKS)),
        st.tuples(st.just("leave"), st.sampled_from([S1, S2, L2])),
        st.tuples(st.just("join"), st.sampled_from([S1, S2, L2])),
        st.tuples(st.just("talk"), st.tuples(st.sampled_from(SENDERS), st.sampled_from(RECEIVERS))),
        st.tuples(st.just("unplug"), st.sampled_from([PLACES[21], PLACES[11]])),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.3])),
    ),
    max_size=14,
)


class Site:
    """A fabric whose wires can be cut and whose switches can leave."""

    def __init__(self, tmp_path, multipath):
        self.fabric = build(tmp_path, multipath=multipath)
        self.engine = self.fabric.engine

    def port(self, end, up):
        if end[0] in self.engine.switches:
            self.engine.port_changed(*end, self.fabric.switches[end[0]].ports[end[1]], bytes(6), up)

    def cut(self, link, ends=2):
        for end in link:
            self.fabric.wires.pop(end, None)
        for end in link[:ends]:
            self.port(end, False)

    def mend(self, link):
        self.fabric.wire(*link)
        for end in link:
            self.port(end, True)

    def leave(self, dpid):
        self.engine.switch_down(dpid)
        self.fabric.switches[dpid].flows.clear()
        self.fabric.switches[dpid].groups.clear()

    def join(self, dpid):
        if dpid not in self.engine.switches:
            ports = self.fabric.switches[dpid].ports
            self.engine.switch_up(dpid, {number: (name, bytes(6), True) for number, name in ports.items()})

    def unplug(self, place):
        self.engine.port_removed(*place)
        self.engine.port_changed(*place, self.fabric.switches[place[0]].ports[place[1]], bytes(6), True)


def check_attribution(engine):
    """Compare the indexes with those of the same pairs computed from scratch."""
    kept = engine.attribution
    kept.follow()
    fresh = Attribution(engine.relations, engine.paths, engine.pair_bytes, engine.split_bytes, engine.switches, int)
    assert {pair: one.path for pair, one in kept._known.items()} == {
        pair: one.path for pair, one in fresh._known.items()
    }
    for index in ("_behind", "_crossing", "_addressed"):
        assert getattr(kept, index) == getattr(fresh, index), index
    assert {dpid: {port: set(one.pairs) for port, one in there.items()} for dpid, there in kept._machines.items()} == {
        dpid: {port: set(one.pairs) for port, one in there.items()} for dpid, there in fresh._machines.items()
    }


def check_flows(site):
    """Ask that flows carry every pair that has one, and none leads into a circle or a dead port."""
    fabric, engine = site.fabric, site.engine
    for source in SENDERS:
        for target in RECEIVERS:
            pair = mac(source), mac(target)
            if not engine.flows.has_edge(pair):
                continue
            assert engine.paths.find(pair).hops, "a pair's flow without a way"
            fabric.delivered.clear()
            before = fabric.packet_ins
            fabric.inject(*PLACES[source], ipv4(source, target))
            assert fabric.delivered == [(PLACES[target], ipv4(source, target))]
            assert fabric.packet_ins == before


@pytest.mark.parametrize("slice_ns", [-1, 10**9])
@pytest.mark.parametrize("multipath", ["destination", "pair", "flow"])
@given(steps=STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=6)
def test_whatever_changes_flows_and_attribution_follow(tmp_path, monkeypatch, slice_ns, multipath, steps):
    monkeypatch.setattr(work, "SLICE_NS", slice_ns)
    site = Site(tmp_path, multipath)
    for source in SENDERS:
        talk(site.fabric, source, RECEIVERS[source % len(RECEIVERS)])
    for step, what in steps:
        if step == "talk":
            site.fabric.inject(*PLACES[what[0]], arp(*what))
            site.fabric.inject(*PLACES[what[1]], arp(*what[::-1]))
            site.fabric.inject(*PLACES[what[0]], ipv4(*what))
        elif step == "wait":
            site.fabric.run(what)
        elif step == "half":
            site.cut(what, ends=1)
        else:
            getattr(site, step)(what)
        site.fabric.settle()
    for link in LINKS:  # cables are as they are; what the switches say of their ports is true in the end
        for end in link:
            site.port(end, end in site.fabric.wires)
    site.fabric.run(0.6)
    assert not site.engine.backlog and not site.engine.topology.targets()
    check_attribution(site.engine)
    check_flows(site)


def test_a_lost_link_touches_the_flows_that_used_it_and_no_others(tmp_path):
    site = Site(tmp_path, "destination")
    fabric = site.fabric
    for source in SENDERS:
        for target in RECEIVERS:
            talk(fabric, source, target)
    ways = {target: site.engine.paths.ports(L1, PLACES[target], (mac(11), mac(target)))[0] for target in RECEIVERS}
    assert set(ways.values()) == {5, 6}, "the receivers' ways are all the same"
    fabric.run(0.5)
    sent = []
    monitored, fabric.send = fabric.send, lambda dpid, data: (
        sent.append(dpid) if data[1] == 14 else None, monitored(dpid, data)
    )  # fmt: skip
    site.cut(LINKS[0])
    fabric.settle()
    moved = sum(port == UP1[1] for port in ways.values())
    assert sent.count(L1) == moved and set(sent) <= {L1, L2, S1, S2} and sent.count(H1) == sent.count(H2) == 0
    for source in SENDERS:
        for target in RECEIVERS:
            fabric.delivered.clear()
            fabric.inject(*PLACES[source], ipv4(source, target))
            assert fabric.delivered == [(PLACES[target], ipv4(source, target))]
    assert not site.engine.attribution.machines_behind(UP1) and site.engine.attribution.machines_behind(UP2)
