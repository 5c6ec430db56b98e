# SPDX-License-Identifier: Apache-2.0
"""The audit log: who, when, from what to what, and what came of it."""

import json
import os
import resource

import pytest

from sdngcc.controller.databases.client import OutcomeUnknown

from ..test_engine import H1
from .rest_bench import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, audit_file=tmp_path / "audit.jsonl")


def lines(tmp_path, name="audit.jsonl"):
    return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]


def test_a_change_is_recorded(bench, tmp_path):
    bench.put({"weight": 4})
    [record] = lines(tmp_path)
    assert record.pop("time").endswith("Z")
    assert record == {
        "who": "loopback", "address": "127.0.0.1", "action": "policy", "vm": "neutron-1",
        "place": "0000000000000001:vm1a",
        "before": {"weight": 2, "min": None, "max": 10_000_000, "law": None},
        "after": {"weight": 4, "min": None, "max": 10_000_000, "law": None},
        "tenant": None, "result": "stored", "error": None, "settles": None,
    }  # fmt: skip
    assert os.stat(tmp_path / "audit.jsonl").st_mode & 0o007 == 0


@pytest.mark.parametrize("body", [{"weight": 0}, {"min": 20_000_000}, {"burst": 1}])
def test_a_refused_change_is_recorded_too(bench, tmp_path, body):
    refusal = bench.put(body).json
    [record] = lines(tmp_path)
    assert record["result"] == "refused" and record["error"] == refusal["error"]
    assert record["before"] == record["after"]


def test_moving_the_file_away_begins_a_new_one(bench, tmp_path):
    bench.put({"weight": 3})
    bench.put({"weight": 4})
    os.rename(tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1")
    bench.put({"weight": 5})
    assert [one["after"]["weight"] for one in lines(tmp_path, "audit.jsonl.1")] == [3, 4]
    assert [one["after"]["weight"] for one in lines(tmp_path)] == [5]
    assert [one["after"]["weight"] for one in bench.get("/v1/audit").json["records"]] == [3, 4, 5]


def test_without_its_file_nothing_is_changed(tmp_path):
    bench = Bench(tmp_path, audit_file=tmp_path / "no-such-folder" / "audit")
    answer = bench.put({"weight": 4})
    assert answer.status_code == 503 and "audit_file" in answer.json["error"]
    assert bench.policy.stored[H1, "vm1a"]["weight"] == 2
    assert bench.engine.counters["audit_lost"] == 1


def test_a_full_disk_keeps_policy_from_being_changed(bench, tmp_path, monkeypatch):
    room = os.statvfs(tmp_path)
    full = os.statvfs_result((*room[:4], 1, *room[5:]))
    monkeypatch.setattr("sdngcc.controller.rest.audit.os.fstatvfs", lambda descriptor: full)
    answer = bench.put({"weight": 4})
    assert answer.status_code == 503 and "its file system has less than 65536 bytes left" in answer.json["error"]
    assert bench.policy.stored[H1, "vm1a"]["weight"] == 2
    monkeypatch.undo()
    assert bench.put({"weight": 4}).status_code == 200


def test_a_record_that_finds_no_room_is_told_whole_and_leaves_no_part(bench, tmp_path, caplog):
    """The disk fills up between the question and the record: here, a limit on files leaves room for a part."""
    bench.put({"weight": 3})
    size = os.stat(tmp_path / "audit.jsonl").st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
    try:
        assert bench.put({"weight": 4}).status_code == 200
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.stat(tmp_path / "audit.jsonl").st_size == size
    assert bench.engine.counters["audit_lost"] == 1 and '"weight":4' in caplog.text
    bench.put({"weight": 5})
    assert [one["after"]["weight"] for one in lines(tmp_path)] == [3, 5]
    # What was lost of the file is still shown.
    assert [one["after"]["weight"] for one in bench.get("/v1/audit").json["records"]] == [3, 4, 5]


def test_the_last_records_outlive_the_controller(bench, tmp_path):
    bench.put({"weight": 4})
    with open(tmp_path / "audit.jsonl", "a") as stream:
        stream.write("{broken\n")
    again = Bench(tmp_path, audit_file=tmp_path / "audit.jsonl")
    again.put({"weight": 6})
    assert [one["after"]["weight"] for one in again.get("/v1/audit").json["records"]] == [4, 6]
    assert [one["after"]["weight"] for one in again.get("/v1/audit?n=1").json["records"]] == [6]
    assert again.get("/v1/audit?n=1001").status_code == 422


def test_what_others_store_is_recorded_once(bench, tmp_path):
    bench.reporter.tick()
    bench.policy.stored[H1, "vm1a"] = {"weight": 9}
    bench.reporter.tick()
    bench.reporter.tick()
    [record] = lines(tmp_path)
    assert record["who"] == "ovsdb" and record["address"] is None
    assert record["before"]["max"] == 10_000_000
    assert record["after"] == {"weight": 9, "min": None, "max": None, "law": None}


def test_ones_own_change_is_not_taken_for_anothers(bench, tmp_path):
    bench.reporter.tick()
    write = bench.policy.write

    def slow(dpid, changes, check):
        write(dpid, changes, check)
        bench.reporter.tick()  # the database told of the change before it confirmed it

    bench.policy.write = slow
    bench.put({"weight": 4})
    bench.reporter.tick()
    assert [one["who"] for one in lines(tmp_path)] == ["loopback"]


class Doubtful:
    """A doubt that the test ends."""

    stored = None

    def resolve(self):
        return self.stored


@pytest.mark.parametrize("stored", [True, False])
def test_a_change_without_answer_is_unknown_until_the_database_tells(bench, tmp_path, stored):
    bench.reporter.tick()
    doubt = Doubtful()
    bench.policy.doubt = OutcomeUnknown("sent, and not answered", doubt)
    answer = bench.put({"weight": 4})
    assert answer.status_code == 504 and answer.json["error"] == "sent, and not answered"
    bench.policy.doubt = None
    answer = bench.put({"weight": 5})
    assert answer.status_code == 503
    assert "an earlier change of neutron-1 was sent and not answered" in answer.json["error"]
    if stored:
        bench.policy.stored[H1, "vm1a"]["weight"] = 4
    bench.reporter.tick()  # what came of it is not yet known: nobody else did it
    doubt.stored = stored
    bench.reporter.tick()
    bench.reporter.tick()
    sent, refused, settled = lines(tmp_path)
    assert (sent["result"], sent["after"], refused["result"]) == ("unknown", None, "refused")
    assert settled["settles"] == sent["time"] and settled["who"] == "loopback"
    assert settled["result"] == ("stored" if stored else "refused")
    assert settled["after"]["weight"] == (4 if stored else 2)
    assert bench.put({"weight": 6}).status_code == 200
