# SPDX-License-Identifier: Apache-2.0
"""Taking a controller out of service: what REST shows and does, in a cluster and alone."""

import json

import pytest

from sdngcc.controller.cluster.drain import Drain
from sdngcc.controller.settings.rest import Role, Token

from ..rest.rest_bench import Bench
from ..test_engine import PLACES, T2, notices, talk

TOKEN, OTHER = "t" * 32, "u" * 32


class Cluster:
    """Acts for what the test says."""

    def __init__(self):
        self.switches, self.wanted, self.near = [1, 2, 3], None, {1, 2}

    def drain(self, wanted):
        self.wanted = wanted

    def held(self):
        return list(self.switches)

    def others_connected(self, dpid):
        return dpid in self.near


def test_it_is_done_when_nothing_is_left_that_another_could_take():
    cluster, told = Cluster(), []
    drain = Drain(cluster, told.append, lambda: 5)
    assert not drain.state().done and drain.state().held == [] and not drain.alone
    drain.set(True, "alice")
    assert cluster.wanted is True and drain.state().held == [1, 2, 3] and not drain.state().done
    assert drain.state().unclaimed == [3]
    cluster.switches = [3]
    assert drain.state().done
    drain.set(False, "alice")
    assert cluster.wanted is False and not drain.state().done and not told


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, {"alice": Token(TOKEN, Role.ADMIN), "bob": OTHER}, audit_file=tmp_path / "audit")


def put(bench, wanted, token=TOKEN):
    headers = {"Authorization": f"Bearer {token}"}
    return bench.client.simulate_put("/v1/drain", json={"draining": wanted}, headers=headers)


def test_alone_it_tells_nobody_until_it_resumes(bench, tmp_path):
    fabric = bench.fabric
    talk(fabric, 11, 31)
    fabric.run(1.0)
    notices(fabric)
    assert put(bench, True, OTHER).status_code == 403
    answer = put(bench, True)
    assert answer.json["done"] and answer.json["alone"] and answer.json["held"] == []
    fabric.switches[T2].add_marks(1, 9)
    fabric.run(1.0)
    assert not notices(fabric) and not bench.engine.switches[PLACES[11][0]].vms[PLACES[11][1]].notices
    assert bench.get("/v1/readyz").json == {"ready": False, "causes": ["drain"], "warnings": []}
    assert "sdngcc_draining 1.0" in bench.get("/metrics", Authorization=f"Bearer {OTHER}").text
    assert put(bench, False).json["draining"] is False
    fabric.switches[T2].add_marks(1, 9)
    fabric.run(1.0)
    assert notices(fabric)[PLACES[11]].marks == 9
    records = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(one["who"], one["action"], one["vm"]) for one in records] == [
        ("alice", "drain", None), ("alice", "resume", None),
    ]  # fmt: skip


@pytest.mark.parametrize("body", [{}, {"draining": 1}, {"draining": True, "now": True}, []])
def test_bodies_that_say_nothing_clear_are_refused(bench, body):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = bench.client.simulate_put("/v1/drain", json=body, headers=headers)
    assert answer.status_code in (400, 422) and answer.json["allowed"]
    assert not bench.context.drain.state().draining
