# SPDX-License-Identifier: Apache-2.0
"""What a database may cost, whatever it sends: in this process by its client, and beside switches by a controller."""

import re
import resource
import sys
import time

import pytest

from sdngcc.controller.databases import transport
from sdngcc.controller.databases.client import Client, PolicyError
from sdngcc.controller.databases.ovsdb import _SCHEMA, Policy
from sdngcc.controller.databases.transport import Bounds

from ..processes import PATIENCE_S
from . import hostile
from .test_ovsdb import run_until, state

pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated")

# Small, so that no test takes long; the proportions are those in force.
SMALL = Bounds(document_bytes=1 << 17, bytes_a_second=1 << 18, burst_bytes=1 << 18, work_ns_a_second=10_000_000,
               work_burst_ns=50_000_000, rows=3000,
               kept_bytes=4 << 20, throttled_ns=300_000_000, reading_ns=2_000_000_000, rest=0.1)  # fmt: skip


def policy_of(database, bounds=SMALL):
    """Return policy of one database."""
    policy = Policy([], time.sleep)
    client = Client(database.remote, _SCHEMA, time.sleep, bounds=bounds)
    policy.add(client)
    policy.remotes = (database.remote,)
    return policy, client


FLOODS = {
    hostile.endless_string: "malformed.*document of more than 131072 bytes",
    hostile.deep_nesting: "malformed.*more than 64 brackets",
    hostile.updates: "(costs_too_much.*more than the 262144 bytes.*10 ms of processor time|handshake_time)",
    hostile.unknown_answers: "(costs_too_much.*more than the 262144 bytes|handshake_time)",
    hostile.rows: "costs_too_much.*(more than 3000 rows|of its part of a second)",
    hostile.heavy_rows: "costs_too_much.*(hold more than 4194304 bytes|of its part of a second)",
    hostile.echoes: "(does_not_read.*bytes wait that it does not read|costs_too_much.*of its part of a second)",
    hostile.long_echoes: "malformed.*more than 65536 characters that is no update",
    hostile.long_string: "malformed.*document of more than 131072 bytes",
    hostile.rows2: "(costs_too_much.*of its part of a second|handshake_time)",
    hostile.rows3: "(costs_too_much.*of its part of a second|handshake_time)",
    hostile.wide_columns: "(costs_too_much.*of its part of a second|handshake_time)",
    hostile.many_columns: "(costs_too_much.*of its part of a second|handshake_time)",
    hostile.many_bridges: "(costs_too_much.*(more than 64 bridges|of its part of a second)|handshake_time)",
    hostile.brackets: "malformed.*document of more than 131072 bytes",
    hostile.white_space: "costs_too_much.*of its part of a second",
    hostile.no_uuid: "malformed.*a row whose name is no UUID",
    hostile.odd_updates: "malformed.*rows that are in no table",
    hostile.no_json: "malformed.*no JSON-RPC of a database",
    hostile.no_message: "malformed",
    hostile.slow_document: "handshake_time.*more than 2 s for a document",
}


PLACES = [(flood, False) for flood in FLOODS] + [
    (flood, True) for flood in (hostile.endless_string, hostile.unknown_answers, hostile.rows, hostile.white_space,
                                hostile.no_json, hostile.slow_document)
]  # fmt: skip


@pytest.mark.parametrize(("flood", "early"), PLACES,
                         ids=[f"{one.__name__}-{'in place of' if early else 'after'} the tables"
                              for one, early in PLACES])  # fmt: skip
def test_a_database_that_costs_more_than_its_part_is_left_by_name_and_what_was_read_stays(flood, early, caplog):
    database = hostile.HostileDatabase(flood if early else None, early)
    policy, client = policy_of(database)
    try:
        if not early:
            run_until(policy, lambda: policy.read(0xA1, "tap0") is not None)
            database.flood = flood
            client.idl.force_reconnect()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run_until(policy, lambda: client.health.fault)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200_000  # kB
        assert re.search(FLOODS[flood], client.health.fault), client.health.fault
        assert "connecting again in 1 s" in client.health.fault
        assert [one for one in caplog.messages if database.remote in one and client.health.fault in one]
        assert policy.interfaces() == ({} if early else {(0xA1, "tap0"): "neutron-0"})
        # As soon as it is one that answers it is read, and its fault is forgiven after a while.
        database.flood = None
        run_until(policy, lambda: policy.read(0xA1, "tap0") is not None and state(policy) == ["connected"])
    finally:
        database.close()


def test_a_database_with_more_bridges_than_a_host_has_is_left():
    rows = dict(hostile._row("Bridge", number, name=f"b{number}", datapath_id=f"{number:016x}", ports=["set", []])
                for number in range(1, 66))  # fmt: skip
    database = hostile.HostileDatabase(None, initial={"Bridge": rows})
    policy, client = policy_of(database, Bounds())
    try:
        run_until(policy, lambda: client.health.fault)
        assert "costs_too_much" in client.health.fault and "more than 64 bridges" in client.health.fault
    finally:
        database.close()


def test_each_connection_that_is_ended_for_its_cost_doubles_the_time_to_the_next(monkeypatch):
    database = hostile.HostileDatabase(hostile.deep_nesting)
    policy, client = policy_of(database)
    try:
        run_until(policy, lambda: client.gate.hold_ns == 4 * transport.HOLD_MIN_NS)
        assert database.connections == 3
    finally:
        database.close()


def test_a_sound_connection_makes_good_for_those_before(monkeypatch):
    monkeypatch.setattr(transport, "SOUND_NS", 100_000_000)
    database = hostile.HostileDatabase(hostile.deep_nesting)
    policy, client = policy_of(database)
    try:
        run_until(policy, lambda: client.health.fault)
        database.flood = None
        run_until(policy, lambda: client.ready and client.health.fault is None)
        assert client.gate.hold_ns == 0
    finally:
        database.close()


def test_tables_of_thousands_of_ports_are_read_without_holding_others_up():
    turns = []

    def sleep(seconds):
        turns.append(time.thread_time_ns())
        time.sleep(seconds)

    database = hostile.HostileDatabase(None, initial=hostile.tables(2000, 200))
    policy = Policy([], sleep)
    client = Client(database.remote, _SCHEMA, sleep)
    policy.add(client)
    try:
        run_until(policy, lambda: client.ready)
        assert len(policy.interfaces()) == 2000 and client.health.fault is None
        stretches = sorted(after - before for before, after in zip(turns, turns[1:]))
        # Python's collector of cycles, which the controller runs itself, and making the client are among the longest.
        assert len([one for one in stretches if one > 10_000_000]) <= 3, stretches[-10:]
    finally:
        database.close()


class Steps:
    """Counts the lines of Python that run from one turn of others to the next; a line stands for 100 ns."""

    LINE_NS = 100

    def __init__(self):
        self.lines = self.since = self.longest = self.turns = 0
        self.rested_s = 0.0

    def trace(self, frame, event, argument):
        self.lines += event == "line"
        return self.trace

    def work_ns(self):
        return self.lines * self.LINE_NS

    def sleep(self, seconds):
        self.longest = max(self.longest, self.lines - self.since)
        self.turns += 1
        self.rested_s += seconds
        time.sleep(min(seconds, 0.001))
        self.since = self.lines

    def client(self, database):
        """Return policy of one database whose work is counted here."""
        policy = Policy([], self.sleep)
        client = Client(database.remote, _SCHEMA, self.sleep)
        policy.add(client)
        for one in (client.gate.stretches, policy._stretches):
            one._worked = one._passed = self.work_ns
        return policy, client

    def count(self, function):
        self.since = self.lines
        sys.settrace(self.trace)
        try:
            function()
        finally:
            sys.settrace(None)
        self.longest = max(self.longest, self.lines - self.since)


TENTH = 5_000_000 // 10 // Steps.LINE_NS  # lines of Python in a tenth of the default period


# What fails: the ports of a hundred bridges are read in one step of some 11,000 lines before the database is refused.
LONG = pytest.mark.xfail(reason="python-ovs reads the ports of many bridges in one step", strict=False)


@pytest.mark.parametrize("flood", [None, *(pytest.param(one, marks=LONG) if one is hostile.many_bridges else one
                                           for one in FLOODS if one is not hostile.slow_document)],
                         ids=lambda one: getattr(one, "__name__", "none"))  # fmt: skip
def test_no_step_of_reading_a_database_is_longer_than_a_tenth_of_the_period(flood):
    ports = 1200 if flood is None else 300
    database, steps = hostile.HostileDatabase(flood, initial=hostile.tables(ports)), Steps()
    policy, client = steps.client(database)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while client.health.fault is None and (flood is None or steps.lines < 1_500_000):
            assert time.monotonic() < deadline
            steps.count(policy.run)
            time.sleep(0.002)
            if flood is None and policy.interfaces():
                break
        assert steps.longest <= TENTH, steps.longest
        if flood is None:
            assert len(policy.interfaces()) == 1200 and steps.turns > 20
            # Others had three times as long as it took.
            assert steps.rested_s * 1e9 >= 2.9 * client.gate.stretches.spent_ns
    finally:
        database.close()


def test_a_change_of_policy_is_refused_while_the_database_is_read_anew():
    database = hostile.HostileDatabase(None)
    policy, client = policy_of(database)
    try:
        run_until(policy, lambda: policy.read(0xA1, "tap0") is not None)
        database.flood = hostile.deep_nesting
        client.idl.force_reconnect()
        run_until(policy, lambda: client.health.fault)
        with pytest.raises(PolicyError, match="read anew; nothing was sent"):
            policy.write(0xA1, {"tap0": {"weight": 1}})
    finally:
        database.close()
