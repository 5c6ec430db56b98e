# SPDX-License-Identifier: Apache-2.0
"""Changes of many machines by one request, and policy taken back."""

import json

import pytest

from sdngcc.controller.databases.client import OutcomeUnknown, PolicyError

from ..test_engine import H1, H2
from .rest_bench import Bench

FIRST, SECOND, FAR = "neutron-1", f"{H1:016x}:vm1b", f"{H2:016x}:vm2a"


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path, audit_file=tmp_path / "audit.jsonl")
    bench.policy.stored[H1, "vm1b"] = {}
    bench.policy.stored[H2, "vm2a"] = {"law": "eyeq"}
    return bench


def patch(bench, *changes):
    return bench.client.simulate_patch("/v1/vms", json={"changes": list(changes)})


def records(tmp_path):
    return [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]


def test_many_are_changed_and_each_is_told_and_recorded(bench, tmp_path):
    answer = patch(
        bench, {"vm": "vm1a", "weight": 3}, {"vm": FAR, "law": None, "min": 8000}, {"vm": SECOND, "max": 9_000_000}
    )
    assert answer.status_code == 200
    assert [(one["vm"], one["status"], one["result"]) for one in answer.json["results"]] == [
        (name, 200, "stored") for name in ("vm1a", FAR, SECOND)
    ]
    assert answer.json["results"][0]["id"] == FIRST and answer.json["stored"] == 3
    assert answer.json["results"][1]["stored"] == {"weight": None, "min": 8000, "max": None, "law": None}
    assert bench.policy.stored == {
        (H1, "vm1a"): {"weight": 3, "max": 10_000_000}, (H1, "vm1b"): {"max": 9_000_000}, (H2, "vm2a"): {"min": 8000},
    }  # fmt: skip
    assert {(one["vm"], one["who"], one["result"]) for one in records(tmp_path)} == {
        (name, "loopback", "stored") for name in (FIRST, SECOND, FAR)
    }


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ([], 422, "changes"),
        ([{"vm": FIRST, "weight": 0}], 422, "changes[0].weight"),
        ([{"vm": FIRST}, {"weight": 1}], 422, "changes[1].vm"),
        ([{"vm": FIRST}, 7], 422, "changes[1]"),
        ([{"vm": FIRST, "min": 7}], 422, "changes[0].min"),
        ([{"vm": FIRST, "burst": 7}], 422, "changes[0].burst"),
        ([{"vm": FIRST, "weight": 4}, {"vm": "nobody"}], 404, "changes[1].vm"),
        ([{"vm": FIRST, "weight": 4}, {"vm": "vm1a", "weight": 5}], 409, "changes[1].vm"),
        ([{"vm": FIRST, "weight": 4}] * 501, 422, "changes"),
    ],
)
def test_a_request_with_a_fault_is_refused_as_a_whole(bench, changes, status, field):
    before = json.dumps(bench.policy.stored, default=str, skipkeys=True)
    answer = patch(bench, *changes)
    assert (answer.status_code, answer.json["field"]) == (status, field), answer.text
    assert answer.json["allowed"]
    assert json.dumps(bench.policy.stored, default=str, skipkeys=True) == before
    assert bench.policy.stored[H1, "vm1a"] == {"weight": 2, "max": 10_000_000}


def test_bodies_of_other_kinds(bench):
    def send(body, kind="application/json"):
        return bench.client.simulate_patch("/v1/vms", body=body, headers={"Content-Type": kind}).status_code

    assert [send("[]"), send("{"), send("{}"), send("{}", "text/plain"), send(" " * 140_000)] == [
        400, 400, 422, 415, 413,
    ]  # fmt: skip


def test_who_was_named_before_a_fault_is_recorded_as_refused(bench, tmp_path):
    patch(bench, {"vm": FIRST, "weight": 4}, {"vm": "nobody"})
    [record] = records(tmp_path)
    assert (record["vm"], record["result"]) == (FIRST, "refused") and '"nobody"' in record["error"]


def test_machines_of_one_bridge_are_changed_all_or_none_and_other_bridges_for_themselves(bench, tmp_path):
    answer = patch(
        bench, {"vm": FIRST, "weight": 9}, {"vm": SECOND, "min": 9000, "max": 8000}, {"vm": FAR, "weight": 9}
    )
    assert answer.status_code == 207
    assert [(one["status"], one["result"]) for one in answer.json["results"]] == [
        (409, "refused"), (409, "refused"), (200, "stored"),
    ]  # fmt: skip
    assert "min of 9000 bit/s is above max" in answer.json["results"][0]["error"]
    assert answer.json["results"][0]["stored"]["weight"] == 2
    assert (answer.json["stored"], answer.json["refused"], answer.json["unknown"]) == (1, 2, 0)
    assert bench.policy.stored[H1, "vm1a"]["weight"] == 2
    assert sorted(one["result"] for one in records(tmp_path)) == ["refused", "refused", "stored"]


def test_guarantees_of_one_request_count_together(bench):
    half = {"min": 250_000_000, "max": None}
    answer = patch(bench, {"vm": FIRST, **half}, {"vm": SECOND, **half})
    assert answer.json["refused"] == 2
    assert "500000000 bit/s, and the 600000000 bit/s" in answer.json["results"][0]["error"]
    less = {"min": 200_000_000, "max": None}
    assert patch(bench, {"vm": FIRST, **less}, {"vm": SECOND, **less}).status_code == 200


class Doubtful:
    stored = None

    def resolve(self):
        return self.stored


def test_a_database_that_is_away_and_one_that_does_not_answer(bench, tmp_path):
    doubt, write = Doubtful(), bench.policy.write

    def write_once(dpid, changes, check):
        if dpid == H1:
            raise OutcomeUnknown("sent, and not answered", doubt)
        raise PolicyError("it is hung; nothing was sent to it")

    bench.policy.write = write_once
    answer = patch(bench, {"vm": FIRST, "weight": 4}, {"vm": SECOND, "weight": 4}, {"vm": FAR, "weight": 4})
    assert answer.status_code == 207
    assert [(one["status"], one["result"]) for one in answer.json["results"]] == [
        (504, "unknown"), (504, "unknown"), (503, "refused"),
    ]  # fmt: skip
    assert answer.json["results"][0]["stored"] is None and answer.json["results"][2]["stored"]["law"] == "eyeq"
    bench.policy.write = write
    refused = patch(bench, {"vm": SECOND, "weight": 5}, {"vm": FAR, "weight": 5}).json["results"]
    assert [one["status"] for one in refused] == [503, 200] and "sent and not answered" in refused[0]["error"]
    doubt.stored = False
    bench.reporter.tick()
    settled = [one for one in records(tmp_path) if one["settles"]]
    assert {one["vm"] for one in settled} == {FIRST, SECOND} and {one["result"] for one in settled} == {"refused"}


def test_a_fault_with_one_bridge_hides_nothing_of_the_others(bench):
    write = bench.policy.write

    def broken(dpid, changes, check):
        if dpid == H1:
            raise RuntimeError
        write(dpid, changes, check)

    bench.policy.write = broken
    results = patch(bench, {"vm": FIRST, "weight": 4}, {"vm": FAR, "weight": 4}).json["results"]
    assert [one["result"] for one in results] == ["unknown", "stored"]
    assert bench.engine.counters["internal_errors"] == 1


def test_policy_is_taken_back(bench, tmp_path):
    bench.policy.external = {"shim-weight": "7"}
    for _ in range(2):
        answer = bench.client.simulate_delete("/v1/vms/neutron-1")
        assert answer.status_code == 200 and bench.policy.stored[H1, "vm1a"] == {}
        assert answer.json["configured"]["weight"] == {"value": 7, "origin": "Interface:external_ids"}
        assert answer.json["configured"]["max"] == {"value": 0, "origin": "default"}
    assert records(tmp_path)[0]["before"]["max"] == 10_000_000 and records(tmp_path)[0]["after"]["max"] is None
    assert bench.client.simulate_delete("/v1/vms/nobody").status_code == 404
    assert bench.client.simulate_delete(f"/v1/vms/{H2:016x}:vm2b").status_code == 409
