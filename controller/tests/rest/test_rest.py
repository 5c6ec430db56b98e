# SPDX-License-Identifier: Apache-2.0
"""REST by falcon's own WSGI client, on the two-rack fabric in memory."""

import pathlib
import re

import pytest

from sdngcc.controller.rest import page

from ..fabric import vm_reading
from ..test_engine import H1, PLACES, T1, T2, talk
from .rest_bench import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_vms(bench):
    talk(bench.fabric, 11, 31)
    bench.fabric.switches[H1].vms[2] = vm_reading(2, 1_000_000, weight=2)
    bench.fabric.run(1.0)
    vms = {vm["id"]: vm for vm in bench.client.simulate_get("/v1/vms").json["vms"]}
    assert len(vms) == len(PLACES)
    vm = vms["neutron-1"]
    assert vm["sent_bps"] == 8_000_000 and vm["weight"] == 2 and vm["state"] == "active"
    assert vm["addresses"] == ["10.0.0.11"] and vm["destinations"] == ["02:00:00:00:00:1f"]
    assert vm["stored"] == {"weight": 2, "min": None, "max": 10_000_000, "law": None}
    assert "0000000000000002:vm2a" in vms
    one = bench.client.simulate_get("/v1/vms/neutron-1").json
    assert one["id"] == "neutron-1" and one["share_bps"] == 800_000_000


def test_ports_switches_settings_status(bench):
    talk(bench.fabric, 11, 31)
    bench.fabric.switches[T2].add_marks(1, 42)
    bench.fabric.run(0.1)
    ports = bench.client.simulate_get("/v1/ports").json["ports"]
    port = next(one for one in ports if (one["switch"], one["port"]) == (f"{T2:016x}", 1))
    assert port["marks"] == 42 and port["queues"] == ["red"] and port["sources"] == 1
    assert port["peer"] == {"switch": "0000000000000003", "port": 1}
    assert next(one for one in ports if one["name"] == "vm1a")["marks"] is None
    switches = {one["switch"]: one for one in bench.client.simulate_get("/v1/switches").json["switches"]}
    assert switches[f"{H1:016x}"]["hypervisor"] and not switches[f"{T1:016x}"]["hypervisor"]
    assert switches[f"{T1:016x}"]["poll"]["period_ms"] == 5.0
    assert len(switches[f"{T1:016x}"]["links"]) == 3
    settings = bench.client.simulate_get("/v1/settings").json
    assert settings["period_us"] == 5000 and settings["key_file"].endswith("key")
    status = bench.client.simulate_get("/v1/status").json
    assert status["ready"] and status["links"] == 5 and status["counters"]["notices"] == 1


def test_what_hinders_the_controller_is_said(bench):
    assert bench.get("/v1/status").json["not_ready"] == []
    bench.policy.databases[0].become("hung", bench.engine.clock())
    status = bench.get("/v1/status").json
    assert not status["ready"] and status["not_ready"] == ["hypervisor database hung: unix:/none"]
    assert status["databases"][0]["state"] == "hung" and status["lease"] is None
    bench.engine.switches[T1].settled = False
    said = bench.get("/v1/status").json["not_ready"]
    assert said[0] == f"links are still being looked for at {T1:016x}"
    bench.engine.switches.clear()
    assert bench.get("/v1/status").json["not_ready"][0] == "no switch is connected"


def test_put_stores_what_is_named_and_leaves_the_rest(bench):
    assert bench.put({"weight": 4}).status_code == 200
    assert bench.policy.stored[H1, "vm1a"] == {"weight": 4, "max": 10_000_000}
    answer = bench.put({"max": None, "min": 5_000_000})
    assert answer.json["stored"] == {"weight": 4, "min": 5_000_000, "max": None, "law": None}


@pytest.mark.parametrize(
    ("body", "status", "field", "allowed"),
    [
        ({"weight": 0}, 422, "weight", "1 to 65535"),
        ({"weight": 65536}, 422, "weight", "1 to 65535"),
        ({"weight": "4"}, 422, "weight", "1 to 65535"),
        ({"weight": 1.5}, 422, "weight", "1 to 65535"),
        ({"weight": True}, 422, "weight", "1 to 65535"),
        ({"min": -1}, 422, "min", "0 for no guarantee or 8000 to"),
        ({"min": 7999}, 422, "min", "0 for no guarantee or 8000 to"),
        ({"max": 10**12}, 422, "max", "0 for no ceiling or 8000 to"),
        ({"min": 20_000_000}, 409, "min", "min <= max"),
        ({"min": 400_000_001, "max": 0}, 409, "min", "0 to 400000000"),
        ({"burst": 3}, 422, "burst", "weight, min, max, law"),
        (b"{", 400, None, "weight, min, max, law"),
        (b"[1]", 400, None, "weight, min, max, law"),
        (b"", 400, None, "weight, min, max, law"),
    ],
)
def test_refused_bodies_change_nothing(bench, body, status, field, allowed):
    answer = bench.put(body)
    assert answer.status_code == status
    assert answer.json.get("field") == field
    assert allowed in answer.json["allowed"]
    assert answer.json["in_force"]["weight"] == 1
    assert bench.policy.stored[H1, "vm1a"] == {"weight": 2, "max": 10_000_000}


def test_the_law_of_one_machine(bench):
    assert bench.put({"law": "eyeq"}).json["stored"]["law"] == "eyeq"
    assert bench.policy.stored[H1, "vm1a"]["law"] == "eyeq"
    for law in ("default", "tcp", "", 3):
        answer = bench.put({"law": law})
        assert answer.status_code == 422 and answer.json["field"] == "law" and "hygenicc" in answer.json["allowed"]
        assert repr(law) in answer.json["error"]
    answer = bench.put({"law": None}).json
    assert answer["stored"]["law"] is None
    assert answer["configured"]["law"] == {"value": "sdngcc", "origin": "Open_vSwitch:other_config"}


def test_what_counts_is_shown_with_the_column_it_is_from(bench):
    bench.policy.external = {"shim-weight": "7", "shim-min-rate": "9000000", "shim-max-rate": "many"}
    bench.policy.complaint = "shim-max-rate: 'many' is no number"
    configured = bench.get("/v1/vms/neutron-1").json["configured"]
    assert configured["weight"] == {"value": 2, "origin": "Interface:other_config"}
    assert configured["min"] == {"value": 9_000_000, "origin": "Interface:external_ids"}
    assert configured["complaint"] == "shim-max-rate: 'many' is no number"
    answer = bench.put({"max": 8_000_000})
    assert answer.status_code == 409 and "min of 9000000 bit/s is above max" in answer.json["error"]
    configured = bench.put({"weight": None, "max": None}).json["configured"]
    assert configured["weight"] == {"value": 7, "origin": "Interface:external_ids"}
    assert configured["max"] == {"value": None, "origin": "Interface:external_ids"}


def test_long_body_is_refused(bench):
    assert bench.put(b" " * 5000).status_code == 413


def test_unknown_machine_and_path(bench):
    answer = bench.put({"weight": 1}, vm="nobody")
    assert answer.status_code == 404 and '"nobody"' in answer.json["error"]
    answer = bench.client.simulate_get("/v2/vms")
    assert answer.status_code == 404 and "/v1/vms" in answer.json["allowed"]
    answer = bench.client.simulate_post("/v1/vms")
    assert answer.status_code == 405 and "error" in answer.json


def test_machine_in_no_database(bench):
    answer = bench.put({"weight": 3}, vm="0000000000000002:vm2a")
    assert answer.status_code == 409 and "no OVSDB remote has port vm2a" in answer.json["error"]


def test_database_that_does_not_answer(bench):
    bench.policy.fault = "OVSDB did not answer within 5 s"
    answer = bench.put({"weight": 3})
    assert answer.status_code == 503 and "did not answer" in answer.json["error"]
    assert answer.json["in_force"]["weight"] == 1


def test_the_page_sets_text_and_never_html():
    scripts = sorted(pathlib.Path(page.__file__).parent.glob("static/*.js"))
    assert "page.js" in {script.name for script in scripts}
    parsed = re.compile(r"(inner|outer)HTML|insertAdjacentHTML|document\.write|DOMParser|createContextual|srcdoc")
    for script in scripts:
        assert not parsed.search(script.read_text()), script.name
