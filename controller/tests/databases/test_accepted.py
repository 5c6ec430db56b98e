# SPDX-License-Identifier: Apache-2.0
"""Clients of databases that connect: a real ovsdb-server, and what python-ovs makes of lines."""

import contextlib
import socket
import threading
import time

import pytest

from sdngcc.controller.databases import accepted, client, health
from sdngcc.controller.databases.accepted import AcceptedClient, Line, system_name
from sdngcc.controller.databases.client import OutcomeUnknown, PolicyError
from sdngcc.controller.databases.documents import DocumentError
from sdngcc.controller.databases.ovsdb import Policy
from sdngcc.controller.databases.transport import Bounds
from sdngcc.controller.framework.admission import Channel, Reason

from ..real_ovs import MANAGED
from .test_ovsdb import Database, needs_ovsdb, run_until, state

BOUNDS = Bounds(document_bytes=1 << 20)
STRANGERS = Bounds(document_bytes=1 << 14, burst_bytes=1 << 17)
pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated")


class ConnectingDatabase(Database):
    """A database that connects to a listener of the test."""

    def __init__(self, folder):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(60)
        super().__init__(folder)
        self.vsctl("set", "open_vswitch", ".", "external_ids:system-id=compute-1")
        self.vsctl("set-manager", f"tcp:127.0.0.1:{self.listener.getsockname()[1]}")
        self.vsctl("set", "manager", ".", "max_backoff=1000")

    def _start(self):
        self._command[-1:-1] = [one for one in MANAGED if one not in self._command]
        super()._start()

    def accept(self, ended=lambda line: None):
        sock, (address, port) = self.listener.accept()
        return Line(sock, Channel(address, port, 0, 0), ended)

    def stop(self):
        super().stop()
        self.listener.close()


@pytest.fixture
def database(tmp_path):
    found = ConnectingDatabase(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def ends():
    return []


@pytest.fixture
def policy(database, ends):
    policy = Policy([], time.sleep)
    policy.client = AcceptedClient("compute-1", policy.schema, time.sleep)
    policy.client.dpids = frozenset([0xA1])
    policy.add(policy.client)
    policy.client.attach(database.accept(ends.append))
    run_until(policy, lambda: policy.read(0xA1, "up0") is not None and state(policy) == ["connected"])
    return policy


@pytest.fixture
def hasty(monkeypatch):
    """Make what is waited for end soon, with the same order of the waits."""
    monkeypatch.setattr(client, "PROBE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(client, "COMMIT_TIMEOUT_S", 0.4)
    monkeypatch.setattr(health, "HUNG_NS", 300_000_000)
    monkeypatch.setattr(health, "PROBE_NS", 100_000_000)
    monkeypatch.setattr(health, "UNREACHABLE_NS", 200_000_000)


@needs_ovsdb
def test_one_that_connects_is_read_and_written_as_one_that_is_connected_to(database, policy):
    assert policy.interfaces() == {(0xA1, "tap0"): "neutron-0"}
    assert policy.client.system_id() == "compute-1"
    policy.write(0xA1, {"tap0": {"weight": 3}})
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == '{shim-weight="3"}'
    database.vsctl("set", "interface", "tap0", "other_config:shim-weight=7")
    run_until(policy, lambda: policy.read(0xA1, "tap0") == {"weight": 7})


@needs_ovsdb
def test_of_bridges_that_are_not_its_own_nothing_is_believed(policy):
    policy.client.dpids = frozenset()
    policy.reread(policy.client)
    assert policy.interfaces() == {} and policy.read(0xA1, "tap0") is None
    with pytest.raises(PolicyError, match="has port tap0"):
        policy.write(0xA1, {"tap0": {"weight": 1}})


@needs_ovsdb
def test_one_that_goes_is_gone_and_resumes_by_its_next_connection(database, policy, hasty, ends):
    database.process.kill()
    database.process.wait(10)
    run_until(policy, lambda: state(policy) == ["gone"])
    assert policy.read(0xA1, "tap0") == {} and policy.interfaces()  # what is known stays
    with pytest.raises(PolicyError, match="node compute-1 is gone .*; nothing was sent"):
        policy.write(0xA1, {"tap0": {"weight": 9}})
    assert [line.cause for line in ends] == [None]
    database.restart()
    policy.client.attach(database.accept(ends.append))
    run_until(policy, lambda: state(policy) == ["connected"])
    policy.write(0xA1, {"tap0": {"weight": 9}})
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == '{shim-weight="9"}'


@needs_ovsdb
@pytest.mark.parametrize("stored", [True, False])
def test_a_change_without_answer_is_in_doubt_until_the_node_comes_back(
    database, policy, hasty, monkeypatch, ends, stored
):
    monkeypatch.setattr(client, "PROBE_TIMEOUT_S", 60)  # the database hangs after the echo, however long that took
    with pytest.raises(OutcomeUnknown, match="node compute-1, which does not answer.*unknown") as caught:
        policy.write(0xA1, {"tap0": {"weight": 9}}, database.hang)
    doubt = caught.value.doubt
    assert doubt.is_of(policy.client) and doubt.resolve() is None
    assert ends[0].cause[0] is Reason.SILENT
    if not stored:  # what was in its buffers dies with it
        database.process.kill()
        database.restart()
    database.resume()
    policy.client.attach(database.accept(ends.append))
    run_until(policy, lambda: doubt.resolve() is not None)
    assert doubt.resolve() is stored
    said = database.vsctl("get", "interface", "tap0", "other_config").strip()
    assert said == ('{shim-weight="9"}' if stored else "{}")


@needs_ovsdb
def test_another_connection_takes_the_place_of_the_one_there_is(database, policy, ends):
    database.vsctl("set", "manager", ".", "inactivity_probe=0")
    kept = ends[:]
    first = policy.client.line
    database.process.kill()
    database.process.wait(10)
    database.restart()
    policy.client.attach(database.accept(ends.append))
    assert ends == [*kept, first] and first.closed
    run_until(policy, lambda: policy.client.ready)
    assert policy.client.line is not first and len(ends) == 1


@needs_ovsdb
def test_a_database_that_changes_its_name_ends(database, policy, ends):
    database.vsctl("set", "open_vswitch", ".", "external_ids:system-id=compute-2")
    run_until(policy, lambda: ends)
    assert ends[0].cause == (
        Reason.NOT_ADMITTED, 'it was admitted as node compute-1 and says that it is node "compute-2" now'
    )  # fmt: skip


@needs_ovsdb
@pytest.mark.parametrize(
    "bound, value, reason",
    [
        ("rows", 5, Reason.COSTLY),
        ("document_bytes", 500, Reason.MALFORMED),
        ("kept_bytes", 500, Reason.COSTLY),
        ("reading_ns", 0, Reason.HANDSHAKE),
    ],
)
def test_what_is_more_than_a_node_may_have_ends_its_connection(database, monkeypatch, ends, bound, value, reason):
    monkeypatch.setattr(accepted, "BOUNDS", Bounds()._replace(**{bound: value}))
    policy = Policy([], time.sleep)
    one = AcceptedClient("compute-1", policy.schema, time.sleep)
    policy.add(one)
    one.attach(database.accept(ends.append))
    run_until(policy, lambda: ends)
    assert ends[0].cause[0] is reason, ends[0].cause
    # With the bound as it should be the same node is read after that.
    one.gate.bounds = Bounds()
    one.attach(database.accept(ends.append))
    run_until(policy, lambda: one.ready)


def pair():
    near, far = socket.socketpair()
    near.setblocking(False)
    pair.now_ns, ends = 0, []
    return Line(near, Channel("10.0.0.1", 1, 0, 0), ends.append, BOUNDS, lambda: pair.now_ns), far, ends


def test_a_line_yields_no_more_than_a_document_at_a_time():
    line, far, _ = pair()
    far.sendall(b'{"a":1}{"b":"')
    assert line.recv(4) == b'{"a"' and line.recv(4096) == b":1}"
    with pytest.raises(BlockingIOError):
        line.recv(4096)
    assert not line.is_late(BOUNDS.reading_ns) and line.is_late(BOUNDS.reading_ns + 1)
    far.sendall(b'x"}')
    assert line.recv(4096) == b'{"b":"x"}' and not line.is_late(BOUNDS.reading_ns + 1)


def test_a_line_reads_no_more_than_may_come_in_a_second():
    line, far, _ = pair()
    far.setblocking(False)
    far.send(b'{"')
    sent = 0
    while sent < 2 * BOUNDS.burst_bytes:
        try:
            sent += far.send(b"x" * 65536)
        except BlockingIOError:
            break  # nothing is read any more
        with pytest.raises(BlockingIOError):
            line.recv(65536)
    assert BOUNDS.burst_bytes <= line.received <= BOUNDS.burst_bytes + 65536 < sent + 65536
    before = line.received
    pair.now_ns += 100_000_000
    with pytest.raises(BlockingIOError):
        line.recv(65536)
    assert before < line.received <= before + BOUNDS.bytes_a_second // 10 + 65536
    line.quit()


def test_a_line_that_the_other_end_closed_is_nobodys_fault():
    line, far, ends = pair()
    far.close()
    assert line.recv(100) == b""
    line.close()
    line.close()
    assert ends == [line] and line.cause is None


def test_a_nodes_name_is_printed_as_it_is_or_not_at_all():
    assert system_name("row", {}) == system_name("row", {"system-id": " "}) == "row"
    assert system_name("row", {"system-id": " compute-1\n"}) == "compute-1"
    assert system_name("row", {"system-id": "a\nb\x1b[31m"}) == "a?b?[31m"
    assert len(system_name("row", {"system-id": "x" * 999})) == 128


@pytest.mark.parametrize("what", [b" " * 65_536, b'{"a":' + b"[]," * 20_000, b"{}" * 30_000])
def test_before_it_is_known_who_it_is_what_is_read_has_an_end_and_others_run_meanwhile(what):
    here, there = socket.socketpair()
    pauses = []
    line = Line(here, Channel("127.0.0.1", 1, 0, 0), lambda _: None, STRANGERS)
    line.pause = lambda: pauses.append(line.received)

    def send():
        with contextlib.suppress(OSError):
            for _ in range(100):
                there.sendall(what)
            there.shutdown(socket.SHUT_WR)

    threading.Thread(target=send, daemon=True).start()
    try:
        with pytest.raises(DocumentError, match="more than (131072|16384) bytes"):
            while line.read_document():
                line._whole.clear()
        assert line.received < 200_000 and len(pauses) >= line.received // 512
    finally:
        here.close()
        there.close()
