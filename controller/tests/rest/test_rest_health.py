# SPDX-License-Identifier: Apache-2.0
"""What load balancers and supervisors ask, without a token."""

import pytest

from .rest_bench import Bench

TOKEN = "t" * 32


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, {"alice": TOKEN})


def test_a_load_balancer_needs_no_token(bench):
    assert bench.get("/v1/healthz").json == {"status": "alive"}
    answer = bench.get("/v1/readyz")
    assert answer.status_code == 200 and answer.json == {"ready": True, "causes": []}
    assert bench.get("/v1/status").status_code == 401
    assert not bench.engine.counters["rest_foreign_host"]


def test_not_ready_is_told_by_kind_and_names_nothing(bench):
    bench.policy.databases[0].become("hung", bench.engine.clock())
    bench.engine.switches.clear()
    answer = bench.get("/v1/readyz")
    assert answer.status_code == 503
    assert answer.json == {"ready": False, "causes": ["switches", "databases"]}
    assert "unix:" not in answer.text
    assert bench.get("/v1/healthz").status_code == 200


@pytest.mark.parametrize("path", ["/v1/healthz", "/v1/readyz"])
def test_what_is_asked_without_a_token_is_checked_all_the_same(bench, path):
    assert bench.get(path, Host="evil.example").status_code == 421
    assert bench.get(f"{path}?x=1").status_code == 422
    assert bench.client.simulate_put(path).status_code == 405
    assert bench.get(f"{path}/").status_code == 401
    answer = bench.get("/v1/openapi.json", Authorization=f"Bearer {TOKEN}").json
    assert answer["paths"][path]["get"]["security"] == []
    assert "401" not in answer["paths"][path]["get"]["responses"]
