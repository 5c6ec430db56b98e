# SPDX-License-Identifier: Apache-2.0
"""What a database may cost, whatever it sends: in this process by its client, and beside switches by a controller."""

import re
import resource
import time

import pytest

from sdngcc.controller.databases import transport
from sdngcc.controller.databases.client import Client, PolicyError
from sdngcc.controller.databases.ovsdb import _SCHEMA, Policy
from sdngcc.controller.databases.transport import Bounds

from . import hostile
from .test_ovsdb import run_until, state

pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated")

# Small, so that no test takes long; the proportions are those in force.
SMALL = Bounds(document_bytes=1 << 17, bytes_a_second=1 << 18, burst_bytes=1 << 18, work_ns_a_second=100_000_000,
               work_burst_ns=300_000_000, rows=3000,
               kept_bytes=4 << 20, throttled_ns=300_000_000, reading_ns=2_000_000_000)  # fmt: skip


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
    hostile.updates: "(costs_too_much.*more than the 262144 bytes.*100 ms of processor time|handshake_time)",
    hostile.unknown_answers: "(costs_too_much.*more than the 262144 bytes|handshake_time)",
    hostile.rows: "costs_too_much.*(more than 3000 rows|of its part of a second)",
    hostile.heavy_rows: "costs_too_much.*(hold more than 4194304 bytes|of its part of a second)",
    hostile.echoes: "(does_not_read.*bytes wait that it does not read|costs_too_much.*of its part of a second)",
    hostile.no_json: "malformed.*no JSON-RPC of a database",
    hostile.no_message: "malformed",
    hostile.slow_document: "handshake_time.*more than 2 s for a document",
}


@pytest.mark.parametrize("early", [False, True], ids=["after the tables", "in place of the tables"])
@pytest.mark.parametrize("flood", FLOODS, ids=lambda one: one.__name__)
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
