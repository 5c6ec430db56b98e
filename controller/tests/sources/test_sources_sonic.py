# SPDX-License-Identifier: Apache-2.0
"""SONiC's COUNTERS_DB in a real Redis: no mark is invented, none of the database's troubles hides."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import redis

from sdngcc.controller.network.topology import Port, Topology
from sdngcc.controller.settings import Settings, SettingsError
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.sources.sonic import MARKED, SonicMarks

from ..processes import free_port

MS = 1_000_000
DPID = 0x1001
PORTS = {"Ethernet0": "oid:0x1000000000001", "Ethernet4": "oid:0x1000000000002"}
QUEUES = {
    "Ethernet0:0": "oid:0x15000000000a1",
    "Ethernet0:3": "oid:0x15000000000a2",
    "Ethernet4:3": "oid:0x15000000000a3",
}
Q00, Q03, Q43 = QUEUES.values()


class Database:
    """A redis-server of our own."""

    def __init__(self, tmp_path, password=""):
        self.port = free_port()
        argv = [shutil.which("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        argv += ["--dir", str(tmp_path), *(["--requirepass", password] if password else [])]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline and self.process.poll() is None
                time.sleep(0.05)
        self.client = redis.Redis(port=self.port, db=2, password=password or None)

    def fill(self):
        """Write what SONiC writes: names, and counters of two ports and three queues."""
        self.client.hset("COUNTERS_PORT_NAME_MAP", mapping=PORTS)
        self.client.hset("COUNTERS_QUEUE_NAME_MAP", mapping=QUEUES)
        for oid in PORTS.values():
            self.set(oid, SAI_PORT_STAT_IF_OUT_OCTETS=1000, SAI_PORT_STAT_IF_OUT_UCAST_PKTS=10)
        for oid in QUEUES.values():
            self.set(oid, SAI_QUEUE_STAT_PACKETS=10, **{MARKED: 5})

    def set(self, oid, **values):
        self.client.hset(f"COUNTERS:{oid}", mapping=values)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class Reader:
    """The source, with a clock of its own."""

    def __init__(self, port, password=None, **changes):
        topology = Topology()
        topology.add_switch(DPID, {7: Port("Ethernet4", bytes(6), True, 0)})
        settings = Settings(
            notify=False,
            mark_source="sonic",
            sonic_redis=(f"127.0.0.1:{port}=1001",),
            sonic_ports=("1001/Ethernet0=3",),
            sonic_counter_age_ms=1000,
            **changes,
        )
        self.source = SonicMarks(settings, topology, password)
        self.switch = self.source.switches[0]
        self.client = self.source.connect(self.switch, timeout_s=0.5)
        self.now_ns = 50_000 * MS

    def read(self, after_ms=1000):
        self.now_ns += after_ms * MS
        return self.source.read(self.switch, self.client, lambda: self.now_ns)


@pytest.fixture
def database(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.fail("redis-server is missing; testbed/setup.sh installs it")
    made = Database(tmp_path)
    made.fill()
    yield made
    made.end()


def test_baseline_then_marks_by_port(database):
    reader = Reader(database.port)
    assert reader.read() == []
    assert reader.source.counted(DPID) and not reader.source.counted(7)
    database.set(Q00, **{MARKED: 7})
    database.set(Q03, **{MARKED: 10})
    database.set(Q43, **{MARKED: 6})
    assert reader.read() == [PortMarks((DPID, 3), 7, 1000 * MS), PortMarks((DPID, 7), 1, 1000 * MS)]
    assert reader.read() == []
    shown = reader.source.readings(DPID)
    assert shown[3].marks == 7 and shown[3].bytes == 1000 and shown[3].packets == 10 and shown[3].drops is None
    assert reader.source.origins(reader.now_ns)[0]["state"] == "fresh"


def test_counters_that_stand_still_make_the_interval_longer(database):
    reader = Reader(database.port)
    reader.read()
    for _ in range(9):
        assert reader.read(100) == []
    database.set(Q03, **{MARKED: 305})
    assert reader.read(100) == [PortMarks((DPID, 3), 300, 1000 * MS)]


@pytest.mark.parametrize(
    ("before", "after", "marks", "resets"),
    [(2**64 - 3, 4, 7, 0), (2**32 - 1, 2**32 + 1, 2, 0), (2**32 - 1, 4, None, 1), (900, 40, None, 1)],
    ids=["64 bits wrap", "32 bits pass", "no wrap of 32 bits", "reset"],
)
def test_wrap_and_reset(database, before, after, marks, resets):
    reader = Reader(database.port)
    database.set(Q03, **{MARKED: before})
    reader.read()
    database.set(Q03, **{MARKED: after})
    assert [one.marks for one in reader.read()] == ([marks] if marks else [])
    assert reader.source.resets == resets
    database.set(Q03, **{MARKED: after + 2})
    assert [one.marks for one in reader.read()] == [2]


def test_missing_is_not_zero(database):
    reader = Reader(database.port)
    reader.read()
    database.client.hdel(f"COUNTERS:{Q03}", MARKED)
    database.client.delete(f"COUNTERS:{Q43}")
    assert reader.read() == [] and reader.source.faults["counter_missing"] == 2
    assert reader.source.readings(DPID)[7].marks is None
    assert reader.source.readings(DPID)[3].marks == 0  # queue 0 still counts
    database.set(Q03, **{MARKED: 500})
    assert reader.read() == []  # a baseline again
    database.set(Q03, **{MARKED: "many"})
    assert reader.read() == [] and reader.source.faults["value_malformed"] == 1


def test_new_objects_are_a_restart(database):
    reader = Reader(database.port)
    reader.read()
    database.client.hset("COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1000000000009")
    database.client.hset("COUNTERS_QUEUE_NAME_MAP", "Ethernet0:3", "oid:0x15000000000ff")
    database.set("oid:0x15000000000ff", **{MARKED: 100_000})
    assert reader.read(10_000) == [] and reader.source.restarts == 1
    database.set("oid:0x15000000000ff", **{MARKED: 100_002})
    assert [one.marks for one in reader.read()] == [2]


def test_a_port_nobody_named_is_counted(database):
    database.client.hset("COUNTERS_PORT_NAME_MAP", "Ethernet8", "oid:0x1000000000003")
    reader = Reader(database.port)
    reader.read()
    assert reader.source.faults["port_unknown"] == 1


def test_empty_database_has_no_counters(tmp_path):
    made = Database(tmp_path)
    try:
        reader = Reader(made.port)
        assert reader.read() == [] and not reader.source.counted(DPID)
        made.client.set("COUNTERS_PORT_NAME_MAP", "no hash")
        assert reader.read(10_000) == [] and reader.switch.origin.state == "refused"
    finally:
        made.end()


def test_slow_silent_and_back(database):
    reader = Reader(database.port)
    reader.read()
    moments = iter(range(reader.now_ns, reader.now_ns + 10**12, 150 * MS))
    reader.source.read(reader.switch, reader.client, lambda: next(moments))
    assert reader.switch.origin.state == "slow"
    database.process.send_signal(signal.SIGSTOP)
    assert reader.read() == [] and reader.switch.origin.state == "silent"
    assert "Timeout" in reader.switch.origin.error
    database.process.send_signal(signal.SIGCONT)
    database.set(Q03, **{MARKED: 9})
    assert [one.marks for one in reader.read()] == [4] and reader.switch.origin.state == "fresh"
    database.end()
    assert reader.read() == [] and reader.switch.origin.state == "silent"


def test_password_is_read_from_its_file_only(tmp_path):
    made = Database(tmp_path, password="open sesame")
    try:
        made.fill()
        file = tmp_path / "password"
        file.write_text("open sesame\n")
        settings = Settings(
            notify=False,
            mark_source="sonic",
            sonic_redis=(f"127.0.0.1:{made.port}=1001",),
            sonic_password_file=file,
        )
        assert "sesame" not in settings.model_dump_json()
        source = SonicMarks.make(settings, Topology())
        source.read(source.switches[0], source.connect(source.switches[0]), lambda: 10**12)
        assert source.switches[0].origin.state == "fresh"
        reader = Reader(made.port)
        assert reader.read() == [] and reader.switch.origin.state == "refused"
        reader = Reader(made.port, password="wrong")
        assert reader.read() == [] and reader.switch.origin.state == "refused"
        assert "wrong" not in reader.switch.origin.error
        os.truncate(file, 0)
        with pytest.raises(SettingsError, match="sonic_password_file .*one line"):
            SonicMarks.make(settings, Topology())
    finally:
        made.end()


class Liar:
    """Something that is no Redis database: it answers each request by the same bytes, again and again if asked to."""

    def __init__(self, answer, endless=False):
        self._answer, self._endless = answer, endless
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.sent = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                try:
                    while sock.recv(65_536):
                        while True:
                            self.sent += sock.send(self._answer)
                            if not self._endless:
                                break
                except OSError:
                    pass

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.mark.parametrize(
    "answer",
    [b"$99999999999\r\n" + b"x" * 65_536, b"x" * 65_536, b"*99999999999\r\n" + b":1\r\n" * 10_000, b"*1\r\n" * 10_000],
    ids=["a string", "no end of a line", "an array", "arrays in each other"],
)
def test_an_answer_without_end_is_left_by_name(answer):
    liar = Liar(answer, endless=True)
    try:
        reader = Reader(liar.port)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(1, 3):
            assert reader.read() == []
            [origin] = reader.source.origins(reader.now_ns)
            assert origin["state"] == "refused", origin
            assert reader.switch.retry_s == 2**number
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000  # kB
        assert "AttributeError" not in origin["error"] and f"what is at 127.0.0.1:{liar.port}?" in origin["error"]
    finally:
        liar.close()


@pytest.mark.parametrize(
    "answer", [b"+OK\r\n" * 8, b":5\r\n" * 8, b"*1\r\n$1\r\nx\r\n" * 8, b"HTTP/1.1 400 no\r\n\r\n"]
)
def test_what_is_no_database_is_told_in_words(answer, caplog):
    liar = Liar(answer)
    try:
        reader = Reader(liar.port)
        assert reader.read() == []
        [origin] = reader.source.origins(reader.now_ns)
        assert origin["state"] in ("refused", "silent") and "attribute" not in origin["error"], origin
    finally:
        liar.close()


def test_a_database_that_answers_again_is_asked_as_often_as_before(database):
    reader = Reader(database.port)
    reader.switch.retry_s = 32.0
    reader.read()
    assert reader.switch.retry_s == 1.0
