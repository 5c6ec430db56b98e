# SPDX-License-Identifier: Apache-2.0
"""sFlow-RT's REST API, spoken to a stand-in (sflow_rt_server.py)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.network.topology import Port, Topology
from sdngcc.controller.settings import Settings
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.sources.sflow_rt import FLOW_IN, FLOW_OUT, AnswerError, SFlowRtMarks

from .sflow_rt_server import Server

MS = 1_000_000
BEFORE, HERE, AFTER = 0xA, 0xB, 0xC  # BEFORE:2 - HERE:1, HERE:2 - AFTER:1


class Reader:
    """The source, with a clock of its own."""

    def __init__(self, url="http://127.0.0.1:1", agents=("10.0.0.1=b",)):
        topology = Topology()
        topology.add_switch(BEFORE, {2: Port("a2", bytes(6), True, 0)})
        topology.add_switch(HERE, {1: Port("b1", bytes(6), True, 0), 2: Port("b2", bytes(6), True, 0)})
        topology.add_switch(AFTER, {1: Port("c1", bytes(6), True, 0)})
        topology.add_link((BEFORE, 2), (HERE, 1), 0)
        topology.add_link((HERE, 2), (AFTER, 1), 0)
        chosen = Settings(
            notify=False,
            mark_source="sflow-rt",
            sflow_rt_url=url,
            sflow_agents=agents,
            sflow_ports=("b/12=2", "c/11=1"),
        )
        self.source = SFlowRtMarks.make(chosen, topology)
        self.now_ns = 10**12

    def read(self, after_ms=500, number=0, timeout_s=2.0):
        self.now_ns += after_ms * MS
        return self.source.read(self.source.agents[number], lambda: self.now_ns, timeout_s)

    @property
    def origin(self):
        return self.source.agents[0].origin


@pytest.fixture
def server():
    made = Server()
    made.names["10.0.0.1"] = {11: "b1", 12: "b2"}
    yield made
    made.end()


def test_definitions_are_put_once_and_rates_become_counts(server):
    reader = Reader(server.url)
    server.rates["10.0.0.1"] = {"inputifindex": {11: 101.0}}
    assert reader.read() == []  # since when is not known
    assert server.flows[FLOW_IN]["filter"] == "ipecn=11|ip6ecn=11" and server.flows[FLOW_IN]["keys"] == "inputifindex"
    assert server.flows[FLOW_OUT]["keys"] == "outputifindex" and server.flows[FLOW_OUT]["value"] == "frames"
    assert reader.read() == [PortMarks((BEFORE, 2), 50, 500 * MS)]
    assert reader.read() == [PortMarks((BEFORE, 2), 51, 500 * MS)]  # the half was carried on
    assert sum(path.startswith("/flow/sdngcc") for path in server.requests) == 2
    assert reader.read(60_000) == [PortMarks((BEFORE, 2), 101, 1000 * MS)]  # never longer than twice the period
    assert reader.source.readings(BEFORE)[2].marks == 202 and reader.source.readings(HERE)[1].ce_arrived == 202
    assert reader.source.counted(HERE) and not reader.source.counted(AFTER)


def test_ce_that_travels_on_is_counted_once(server):
    reader = Reader(server.url, ("10.0.0.1=b", "10.0.0.2=c"))
    server.rates["10.0.0.1"] = {"inputifindex": {11: 100.0}, "outputifindex": {12: 100.0}}
    server.rates["10.0.0.2"] = {"inputifindex": {11: 140.0}}
    reader.read()
    reader.read(0, number=1)
    assert reader.read(1000) == [PortMarks((BEFORE, 2), 100, 1000 * MS)]
    assert reader.read(0, number=1) == [PortMarks((HERE, 2), 40, 1000 * MS)]


def test_a_port_nobody_named_is_counted(server):
    reader = Reader(server.url)
    server.rates["10.0.0.1"] = {"inputifindex": {99: 5.0}}
    reader.read()
    assert reader.source.faults["port_unknown"] == 1


def test_a_restarted_server_gets_the_definitions_again(server):
    reader = Reader(server.url)
    reader.read()
    server.restart()
    assert reader.read() == [] and reader.origin.state == "refused"  # 404
    assert reader.read() == [] and reader.origin.state == "fresh" and FLOW_IN in server.flows
    assert reader.source.restarts == 1


def test_slow_and_silent_servers(server):
    reader = Reader(server.url)
    reader.read()
    moments = iter(range(reader.now_ns, reader.now_ns + 10**12, 600 * MS))
    reader.source.read(reader.source.agents[0], lambda: next(moments), 2.0)
    assert reader.origin.state == "slow" and reader.origin.slow == 1
    server.delay_s = 0.5
    assert reader.read(timeout_s=0.1) == [] and reader.origin.state == "silent"
    server.end()
    assert reader.read() == [] and reader.origin.state == "silent" and reader.origin.failures == 2


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"[]"),
        (200, b"<html>"),
        (200, b"{}"),
        (200, b"[1]"),
        (200, b"[" * 100_000),
        (200, b'[{"key": "11"}]'),
        (200, b'[{"key": "eth0", "value": 1}]'),
        (200, b'[{"key": "11", "value": -1}]'),
        (200, b'[{"key": "11", "value": NaN}]'),
        (200, b'[{"key": "11", "value": true}]'),
        (200, b"[" + b" " * (1 << 20) + b"]"),
        (200, b"[" + b"{}," * 5000 + b"{}]"),
    ],
)
def test_nonsense_is_refused(server, answer):
    reader = Reader(server.url)
    reader.read()
    server.answer = answer
    assert reader.read() == [] and reader.origin.state == "refused"
    assert reader.source.faults["answer_malformed"] == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(("key", "value", "dataSource", "metricValue")), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(JSON, JSON)
def test_any_json_is_refused_or_read(one, other):
    source = Reader().source
    agent = source.agents[0]
    for now_ns in (10**12, 10**12 + 500 * MS):
        try:
            source.take_names(agent, one)
            source.take_rates(agent, [one], [other], now_ns)
            source.take_rates(agent, one, other, now_ns)
        except AnswerError:
            pass
