# SPDX-License-Identifier: Apache-2.0
"""What a controller says of its cluster's database and of its lease, with real ovsdb-servers that die and hang."""

import signal
import time

import pytest

from sdngcc.controller.cluster import runner
from sdngcc.controller.engine import Engine
from sdngcc.controller.settings import Settings

from ..processes import wait_for
from .raft import INSTALLED, Raft

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated"),
    pytest.mark.skipif(not INSTALLED, reason="ovsdb-server is not installed"),
]


def nothing(*_):
    return True


@pytest.fixture
def raft(tmp_path):
    cluster = Raft(tmp_path)
    yield cluster
    for server in cluster.servers.values():
        server.send_signal(signal.SIGCONT)
    cluster.stop()


@pytest.fixture
def cluster(tmp_path, raft, monkeypatch):
    monkeypatch.setattr(runner, "_AWAY_NS", 300_000_000)
    (tmp_path / "key").write_text("00" * 16)
    (tmp_path / "key").chmod(0o600)
    found = runner.Cluster(raft.remotes.split(","), 1, 1000, nothing, time.monotonic_ns)
    settings = Settings(key_file=tmp_path / "key", cluster=raft.remotes.split(","))
    found.attach(Engine(settings, owner=found))
    return found


def until(cluster, condition):
    def step():
        cluster.run()
        return condition()

    wait_for(step, lambda: f"{cluster.health.state}, {'a' if cluster.is_live() else 'no'} lease")


def test_a_lost_quorum_and_a_lost_lease_are_states_and_logged_once(cluster, raft, caplog):
    caplog.set_level("INFO")
    assert cluster.health.state == "connecting" and not cluster.is_live()
    until(cluster, lambda: cluster.health.state == "connected" and cluster.is_live())
    held_ns = cluster.lease_changed_ns
    for number in list(raft.servers)[:2]:
        raft.kill(number)
    until(cluster, lambda: cluster.health.state == "no quorum" and not cluster.is_live())
    assert cluster.lease_changed_ns > held_ns
    for number in range(3):
        if number not in raft.servers:
            raft.start(number)
    until(cluster, lambda: cluster.health.state == "connected" and cluster.is_live())
    said = [(one.levelname, one.message) for one in caplog.records if "cluster" in one.message]
    assert sum("lease lost" in text for _, text in said) == 1, said
    assert [level for level, text in said if "lease lost" in text or "no quorum:" in text] == ["ERROR"] * 2, said


def test_servers_that_hang_and_servers_that_are_gone_are_told_apart(cluster, raft):
    until(cluster, lambda: cluster.health.state == "connected")
    for server in raft.servers.values():
        server.send_signal(signal.SIGSTOP)
    until(cluster, lambda: cluster.health.state == "hung")
    raft.stop()
    until(cluster, lambda: cluster.health.state == "unreachable")
