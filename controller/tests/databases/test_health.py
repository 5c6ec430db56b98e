# SPDX-License-Identifier: Apache-2.0
"""What a connection shows of its database, under a clock of the test's own."""

import pytest

from sdngcc.controller.databases.health import (
    HUNG_NS,
    PATIENCE_NS,
    PROBE_NS,
    TABLES_NS,
    UNREACHABLE_NS,
    Health,
    Liveness,
)

STEP_NS = 500_000_000


class Line:
    """A connection that is looked at every half second; an echo is answered at once unless the database is ``dead``."""

    def __init__(self):
        self.now_ns = 10 * STEP_NS
        self.liveness = Liveness(self.now_ns)
        self.connection, self.ready, self.received, self.dead = None, False, 0, False
        self.cuts = self.probes = 0

    def run(self, seconds):
        for _ in range(round(seconds * 1e9 / STEP_NS)):
            self.now_ns += STEP_NS
            advice = self.liveness.look(self.connection, self.ready, self.received, self.now_ns)
            if advice.cut:
                self.cuts += 1
                self.connection, self.ready = None, False
            if advice.probe:
                self.probes += 1
                self.liveness.probed(self.now_ns)
                self.received += not self.dead
        return advice.state


@pytest.fixture
def line():
    return Line()


def test_a_database_that_never_connects_is_unreachable(line):
    assert line.run(UNREACHABLE_NS / 1e9) == "connecting"
    assert line.run(1) == "unreachable"
    line.connection, line.received = 1, 1
    assert line.run(1) == "unreachable"  # not before all tables were read
    line.ready = True
    assert line.run(0.5) == "connected"


def test_one_that_ends_each_connection_before_its_tables_are_read_is_hung(line):
    for connection in range(round(TABLES_NS / 1e9)):
        line.connection, line.received = connection, connection
        assert line.run(1) == "connecting"
    line.connection = -1
    assert line.run(1) == "hung" and line.cuts == 0
    line.ready = True
    assert line.run(0.5) == "connected"


def test_tables_that_take_long_after_a_loss_are_no_hang(line):
    line.connection, line.ready = 1, True
    line.run(1)
    line.connection, line.ready = 2, False
    for _ in range(round(2 * TABLES_NS / 1e9)):
        line.received += 1
        assert line.run(1) == "connected"


def test_a_live_one_is_asked_once_a_second_and_stays_connected(line):
    line.connection, line.ready = 1, True
    assert line.run(60) == "connected"
    assert abs(line.probes - 60e9 / PROBE_NS) <= 1 and line.cuts == 0


def test_one_that_falls_silent_is_hung_and_stays_so_over_new_connections(line):
    line.connection, line.ready = 1, True
    line.run(10)
    line.dead = True
    assert line.run(2) == "connected"
    assert line.run((HUNG_NS - PROBE_NS) / 1e9 + 0.5) == "hung" and line.cuts == 1
    for connection, seconds in ((2, 4), (3, 7), (4, 13)):
        line.connection, line.ready = connection, False  # the kernel takes it, nobody answers
        assert line.run(seconds) == "hung"
    assert line.cuts == 4
    line.connection, line.ready, line.dead = 9, True, False
    assert line.run(1) == "connected"


def test_one_that_owes_each_answer_for_long_is_connected_in_the_end(line):
    """As on a machine that is busy with else: three answers, 5 s after each request, until all tables are read."""
    answers = connections = 0
    while not line.ready and connections < 20:
        if line.connection is None:
            connections, answers = connections + 1, 0
            line.connection = connections
        for _ in range(10):
            if line.connection is not None:
                state = line.run(0.5)
        if line.connection is not None:
            line.received, answers = line.received + 1, answers + 1
            line.ready = answers == 3
    assert line.ready and line.run(0.5) == "connected" and connections == 2 and state == "hung"


def test_the_time_that_a_connection_has_is_bounded_and_begins_anew_with_the_tables(line):
    for ready in (False, True):
        line.connection, line.ready = 1, ready
        line.run(0.5)
    assert time_of(line) == HUNG_NS
    times = [time_of(line) for _ in range(5)]
    assert times == [2 * HUNG_NS, 4 * HUNG_NS, 8 * HUNG_NS, PATIENCE_NS, PATIENCE_NS]


def time_of(line):
    """Return after how long a connection without answers ends, ns."""
    line.connection, line.ready, line.received = (line.connection or 1) + 1, False, 0
    line.run(0.5)
    begun_ns = line.now_ns
    while line.connection is not None:
        line.run(0.5)
    return line.now_ns - begun_ns - STEP_NS


def test_a_long_first_reading_is_no_hang(line):
    line.connection = 1
    for _ in range(20):
        line.received += 4096
        assert line.run(2) == "connecting"
    assert line.cuts == 0


def test_a_restart_is_no_outage(line):
    line.connection, line.ready = 1, True
    line.run(5)
    line.connection, line.ready = None, False
    assert line.run(1.5) == "connected"
    line.connection, line.ready = 2, True
    assert line.run(2) == "connected" and line.cuts == 0


def test_a_process_that_slept_does_not_take_its_database_for_hung(line):
    line.connection, line.ready = 1, True
    line.run(5)
    line.now_ns += 60 * STEP_NS
    line.received += 1  # what came meanwhile is read before it is judged
    assert line.run(1) == "connected"


def test_changes_of_state_are_counted_and_told_once(caplog):
    caplog.set_level("INFO")
    health = Health("tcp:10.0.0.1:6640", "hypervisor", 0, "what follows")
    for state in ("connecting", "connected", "connected", "hung", "hung", "connected"):
        health.become(state, 7)
    assert (health.changes, health.since_ns, health.state) == (3, 7, "connected")
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR", "INFO"]
