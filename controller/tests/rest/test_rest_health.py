# SPDX-License-Identifier: Apache-2.0
"""What load balancers and supervisors ask, without a token."""

import pytest

from sdngcc.controller.rates.effect import CAUSES, Fault

from .rest_bench import Bench

TOKEN = "t" * 32


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, {"alice": TOKEN})


def test_a_load_balancer_needs_no_token(bench):
    assert bench.get("/v1/healthz").json == {"status": "alive"}
    answer = bench.get("/v1/readyz")
    assert answer.status_code == 200 and answer.json == {"ready": True, "causes": [], "warnings": []}
    assert bench.get("/v1/status").status_code == 401
    assert not bench.engine.counters["rest_foreign_host"]


def test_not_ready_is_told_by_kind_and_names_nothing(bench):
    bench.policy.databases[0].become("hung", bench.engine.clock())
    bench.engine.switches.clear()
    answer = bench.get("/v1/readyz")
    assert answer.status_code == 503
    assert answer.json == {"ready": False, "causes": ["switches", "databases"], "warnings": []}
    assert "unix:" not in answer.text
    assert bench.get("/v1/healthz").status_code == 200


@pytest.mark.parametrize("cause", CAUSES)
def test_a_controller_that_controls_nothing_is_not_ready_and_one_that_controls_some_warns(bench, cause):
    bench.engine.effect.faults = [Fault(cause, True, f"no {cause}")]
    answer = bench.get("/v1/readyz")
    assert answer.status_code == 503 and answer.json == {"ready": False, "causes": [cause], "warnings": []}
    status = bench.get("/v1/status", Authorization=f"Bearer {TOKEN}").json
    assert status["not_ready"] == [f"no {cause}"] and status["warnings"] == []
    metrics = bench.get("/metrics", Authorization=f"Bearer {TOKEN}").text
    assert f'sdngcc_control_fault{{cause="{cause}",extent="all"}} 1.0' in metrics and "sdngcc_ready 0.0" in metrics
    bench.engine.effect.faults = [Fault(cause, False, f"few {cause}")]
    answer = bench.get("/v1/readyz")
    assert answer.status_code == 200 and answer.json == {"ready": True, "causes": [], "warnings": [cause]}
    status = bench.get("/v1/status", Authorization=f"Bearer {TOKEN}").json
    assert status["ready"] and status["warnings"] == [f"few {cause}"]
    metrics = bench.get("/metrics", Authorization=f"Bearer {TOKEN}").text
    assert f'sdngcc_control_fault{{cause="{cause}",extent="some"}} 1.0' in metrics and "sdngcc_ready 1.0" in metrics


@pytest.mark.parametrize("path", ["/v1/healthz", "/v1/readyz", "/v1/status", "/metrics", "/", "/v1/vms"])
def test_head_is_answered_as_get_is_without_a_body(bench, path):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = bench.client.simulate_head(path, headers=headers)
    wanted = bench.client.simulate_get(path, headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (wanted.status_code, wanted.headers["Content-Type"])
    assert not answer.content


def test_head_begins_no_stream_and_needs_the_token_that_get_needs(bench):
    answer = bench.client.simulate_head("/v1/events", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200 and not bench.reporter.broker.clients
    assert bench.client.simulate_head("/v1/status").status_code == 401


@pytest.mark.parametrize("path", ["/v1/healthz", "/v1/readyz"])
def test_what_is_asked_without_a_token_is_checked_all_the_same(bench, path):
    assert bench.get(path, Host="evil.example").status_code == 421
    assert bench.get(f"{path}?x=1").status_code == 422
    assert bench.client.simulate_put(path).status_code == 405
    assert bench.get(f"{path}/").status_code == 401
    answer = bench.get("/v1/openapi.json", Authorization=f"Bearer {TOKEN}").json
    assert answer["paths"][path]["get"]["security"] == []
    assert "401" not in answer["paths"][path]["get"]["responses"]
