# SPDX-License-Identifier: Apache-2.0
"""Tenants by REST: what is shown, what is stored, what is refused, and what is recorded of it."""

import json

import pytest

from sdngcc.controller.databases.client import OutcomeUnknown
from sdngcc.controller.databases.tenants import TENANTS_MAX, TenantFile
from sdngcc.controller.rest.openapi import make_document
from sdngcc.rest import RestClient

from ..databases.test_ovsdb import needs_ovsdb
from ..fabric import vm_reading
from ..processes import wait_for
from ..test_engine import H1, H2, PLACES
from .rest_bench import Bench
from .test_rest_process import bridge as switch_bridge
from .test_rest_process import database, start

__all__ = ["database", "switch_bridge"]  # fixtures

NAMES = {(H1, "vm1a"): "gold", (H1, "vm1b"): "gold", (H2, "vm2a"): "gold", (H2, "vm2b"): "tin/1"}


def make(tmp_path, decision="maxmin", **values):
    made = Bench(tmp_path, decision=decision, **values)
    made.context.tenants = TenantFile(tmp_path / "tenants.json")
    made.engine.tenants.set_names(NAMES)
    return made


@pytest.fixture
def bench(tmp_path):
    return make(tmp_path)


def put(bench, body, name="gold"):
    return bench.client.simulate_put(f"/v1/tenants/{name}", json=body)


def test_tenants_are_shown_with_their_machines_and_sums(bench):
    for number, (dpid, port) in enumerate((PLACES[11], PLACES[12], PLACES[21]), 1):
        bench.fabric.switches[dpid].vms[port] = vm_reading(port, number * 1_000_000, weight=number)
    bench.fabric.run(1.0)
    listed = bench.get("/v1/tenants").json
    assert [one["name"] for one in listed["tenants"]] == ["gold", "tin/1"] and listed["total"] == 2
    gold = bench.get("/v1/tenants/gold").json
    assert {key: gold[key] for key in ("vms", "active", "hypervisors", "sent_bps", "weight", "min_bps", "max_bps")} == {
        "vms": 3, "active": 3, "hypervisors": 2, "sent_bps": 48_000_000, "weight": None, "min_bps": 0, "max_bps": 0,
    }  # fmt: skip
    assert gold["rate_bps"] == 3 * 800_000_000 and gold["stored"] is None and gold["applied"]
    assert [(one["id"], one["weight"]) for one in gold["members"]] == [
        ("neutron-1", 1), ("0000000000000001:vm1b", 2), ("0000000000000002:vm2a", 3)]  # fmt: skip
    assert bench.get("/v1/tenants/tin/1").json["vms"] == 1
    vms = bench.get("/v1/vms?tenant=gold").json["vms"]
    assert [vm["tenant"] for vm in vms] == ["gold"] * 3
    assert bench.get("/v1/vms/0000000000000003:vm3a").json["tenant"] is None


def test_put_stores_and_is_in_force_at_once(bench, tmp_path):
    answer = put(bench, {"weight": 3, "max": 5_000_000_000_000})
    assert answer.status_code == 200 and answer.json["stored"] == {"weight": 3, "min": None, "max": 5_000_000_000_000}
    assert bench.engine.tenants.shares["gold"] == (3, 0.0, 625e9)
    answer = put(bench, {"weight": None, "min": 8000})
    assert answer.json["stored"] == {"weight": None, "min": 8000, "max": 5_000_000_000_000}
    assert TenantFile(tmp_path / "tenants.json").read() == {"gold": {"min": 8000, "max": 5_000_000_000_000}}
    assert put(bench, {"weight": 1}, "ahead-of-its-vms").json["vms"] == 0
    assert [one["name"] for one in bench.get("/v1/tenants").json["tenants"]] == ["ahead-of-its-vms", "gold", "tin/1"]


def test_delete_takes_all_back_and_leaves_the_machines(bench):
    put(bench, {"weight": 3, "max": 10_000_000})
    answer = bench.client.simulate_delete("/v1/tenants/gold")
    assert answer.status_code == 200 and answer.json["stored"] is None and answer.json["vms"] == 3
    assert bench.engine.tenants.shares == {}
    again = bench.client.simulate_delete("/v1/tenants/gold")
    assert again.status_code == 404 and 'shim-tenant "gold"' in again.json["error"]
    assert bench.get("/v1/tenants/nobody").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "field", "allowed"),
    [
        ({"weight": 0}, 422, "weight", "1 to 65535"),
        ({"weight": 65536}, 422, "weight", "1 to 65535"),
        ({"weight": "4"}, 422, "weight", "1 to 65535"),
        ({"weight": True}, 422, "weight", "1 to 65535"),
        ({"max": False}, 422, "max", "0 for no cap"),
        ({"min": 7999}, 422, "min", "0 for no guarantee or 8000 to 800000000000000"),
        ({"max": 10**15}, 422, "max", "0 for no cap or 8000 to 800000000000000"),
        ({"min": 20_000_000}, 409, "min", "min <= max"),
        ({"max": 8000, "min": 9000}, 409, "min", "min <= max"),
        ({"law": "maxmin"}, 422, "law", "weight, min, max"),
        ([1], 400, None, "weight, min, max"),
    ],
)
def test_refused_bodies_change_nothing_and_are_counted(bench, body, status, field, allowed):
    put(bench, {"weight": 2, "max": 10_000_000})
    answer = put(bench, body)
    assert answer.status_code == status and answer.json.get("field") == field
    assert allowed in answer.json["allowed"]
    assert answer.json["in_force"] == {"weight": 2, "min": 0, "max": 10_000_000}
    assert bench.context.tenants.read() == {"gold": {"weight": 2, "max": 10_000_000}}
    assert bench.get("/v1/status").json["counters"]["tenant_changes_refused"] == 1
    assert 'sdngcc_controller_events_total{event="tenant_changes_refused"} 1.0' in bench.get("/metrics").text


@pytest.mark.parametrize("name", ["a" * 65, "two%20words", "caf%C3%A9", "100%25"])
def test_what_names_no_tenant_is_refused(bench, name):
    answer = put(bench, {"weight": 1}, name)
    assert answer.status_code == 422 and answer.json["field"] == "tenant"
    assert answer.json["allowed"] == "1 to 64 visible ASCII characters without spaces and %"


def test_marks_hold_no_policy_of_tenants(tmp_path):
    bench = make(tmp_path, "marks")
    for key, value in (("weight", 2), ("min", 8000), ("max", 8000)):
        answer = put(bench, {key: value})
        assert answer.status_code == 409 and answer.json["field"] == key
        assert "decision marks" in answer.json["error"] and "decision: maxmin" in answer.json["allowed"]
    assert bench.get("/v1/tenants/gold").json["applied"] is False
    assert put(bench, {"max": 0}).status_code == 200


def test_without_a_place_for_it_nothing_is_taken(tmp_path):
    bench = Bench(tmp_path, decision="maxmin")
    answer = put(bench, {"weight": 1})
    assert answer.status_code == 503 and "set tenant_file, or cluster" in answer.json["error"]


def test_a_full_store_and_a_file_that_cannot_be_written_are_said(bench, tmp_path):
    bench.context.tenants._policies = {str(number): {} for number in range(TENANTS_MAX)}
    answer = put(bench, {"weight": 1})
    assert answer.status_code == 409 and "10000 at most" in answer.json["allowed"]
    bench.context.tenants = TenantFile(tmp_path / "gone" / "tenants.json")
    answer = put(bench, {"weight": 1})
    assert answer.status_code == 503 and "nothing was stored" in answer.json["error"]
    assert bench.context.tenants.read() == {}


def test_changes_and_refusals_are_recorded(tmp_path):
    bench = make(tmp_path, audit_file=tmp_path / "audit.jsonl")
    put(bench, {"weight": 2})
    put(bench, {"weight": 0})
    bench.client.simulate_delete("/v1/tenants/gold")
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(one["tenant"], one["vm"], one["result"]) for one in records] == [
        ("gold", None, "stored"), ("gold", None, "refused"), ("gold", None, "stored")]  # fmt: skip
    assert records[0]["after"]["weight"] == 2 and records[2]["after"] is None and records[1]["who"] == "loopback"
    assert bench.get("/v1/audit").json["records"][-1]["tenant"] == "gold"


class Doubt:
    stored = None

    def resolve(self):
        return self.stored


def test_a_change_in_doubt_is_answered_so_and_settled_later(bench):
    doubt, stored = Doubt(), {}

    class Store:
        def read(self):
            return stored

        def health(self):
            return []

        def write(self, *_):
            raise OutcomeUnknown("sent, and not answered", doubt)

    bench.context.tenants = Store()
    assert put(bench, {"weight": 2}).status_code == 504
    answer = put(bench, {"weight": 3})
    assert answer.status_code == 503 and "was sent and not answered yet" in answer.json["error"]
    doubt.stored = True
    stored["gold"] = {"weight": 2}
    bench.reporter.tick()
    first, refused, settled = bench.get("/v1/audit").json["records"]
    assert (first["result"], refused["result"], settled["result"]) == ("unknown", "refused", "stored")
    assert settled["settles"] == first["time"] and settled["after"]["weight"] == 2


def test_pages_by_name(bench):
    first = bench.get("/v1/tenants?limit=1").json
    assert (len(first["tenants"]), first["next"], first["total"]) == (1, "gold", 2)
    second = bench.get("/v1/tenants?limit=1&after=gold").json
    assert (second["tenants"][0]["name"], second["next"]) == ("tin/1", None)
    assert bench.get("/v1/tenants?limit=0").status_code == 422


def test_metrics_have_each_tenant(bench):
    put(bench, {"weight": 3, "min": 8000, "max": 80_000})
    lines = bench.get("/metrics").text.splitlines()
    for line in (
        'sdngcc_tenant_vms{tenant="gold"} 3.0', 'sdngcc_tenant_weight_ratio{tenant="gold"} 3.0',
        'sdngcc_tenant_cap_bytes_per_second{tenant="gold"} 10000.0',
        'sdngcc_tenant_guarantee_bytes_per_second{tenant="gold"} 1000.0',
    ):  # fmt: skip
        assert line in lines
    assert not any(line.startswith('sdngcc_tenant_weight_ratio{tenant="tin/1"}') for line in lines)


def test_the_document_says_what_may_name_a_tenant():
    from sdngcc.controller.rest.application import ROUTES

    path = make_document(ROUTES, True).root["paths"]["/v1/tenants/{tenant}"]
    assert set(path) == {"get", "put", "delete"} and path["put"]["x-role"] == "operate"
    assert path["get"]["parameters"][0]["schema"] == {"type": "string", "pattern": "^[!-$&-~]{1,64}$"}


@needs_ovsdb
def test_policy_in_a_file_outlives_the_controller(tmp_path, switch_bridge, database):
    for port in ("tap0", "tap1"):
        database.vsctl("set", "interface", port, "external_ids:shim-tenant=gold")
    chosen = {"ovsdb": database.remote, "decision": "maxmin", "tenant_file": tmp_path / "tenants.json"}
    controller = start(tmp_path, switch_bridge, **chosen)
    try:
        client = RestClient(controller.url)
        wait_for(lambda: [one["vms"] for one in client.tenants()] == [2], controller.log)
        assert client.tenant_change("gold", {"weight": 3, "max": 10**12})["weight"] == 3
        controller.kill()
        controller.start()
        switch_bridge.connect(controller.address)
        wait_for(lambda: [(one["vms"], one["weight"]) for one in client.tenants()] == [(2, 3)], controller.log)
        assert client.tenant_reset("gold")["stored"] is None
        assert json.loads((tmp_path / "tenants.json").read_text()) == {"tenants": {}}
        assert "Traceback" not in controller.log()
    finally:
        controller.stop()
