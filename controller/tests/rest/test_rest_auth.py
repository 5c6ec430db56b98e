# SPDX-License-Identifier: Apache-2.0
"""Tokens, foreign pages and foreign names."""

import pytest

from sdngcc.controller import settings
from sdngcc.controller.settings.rest import Role, Token

from ..test_engine import H1
from .rest_bench import Bench

TOKEN = "t" * 31 + "1"


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, {"alice": TOKEN, "bob": "u" * 32})


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("path", ["/v1/vms", "/v1/settings", "/v1/events", "/v1/openapi.json", "/metrics", "/v1/none"])
@pytest.mark.parametrize("headers", [{}, bearer("x" * 32), bearer(TOKEN[:-1]), bearer(""), {"Authorization": "Basic"}])
def test_without_a_valid_token_nothing_is_shown(bench, path, headers):
    answer = bench.get(path, **headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer realm=")
    assert bench.engine.counters["rest_unauthorized"] == 1
    assert TOKEN not in answer.text


@pytest.mark.parametrize("token", [TOKEN, "u" * 32])
def test_each_token_opens(bench, token):
    assert bench.get("/v1/vms", **bearer(token)).status_code == 200


@pytest.mark.parametrize("role", list(Role))
def test_a_role_bounds_what_its_token_may(tmp_path, role, caplog):
    bench = Bench(tmp_path, {"alice": Token(TOKEN, role)})
    assert bench.get("/v1/vms", **bearer(TOKEN)).status_code == 200
    headers = {**bearer(TOKEN), "Content-Type": "application/json"}
    answer = bench.client.simulate_put("/v1/vms/neutron-1", body='{"weight": 5}', headers=headers)
    if role is not Role.READ:
        assert answer.status_code == 200 and not bench.engine.counters["rest_forbidden"]
        return
    assert answer.status_code == 403
    assert answer.json["error"] == (
        "the token of alice has the role read; PUT /v1/vms/neutron-1 needs operate"
    )
    assert answer.json["allowed"] == "a token with the role operate or admin"
    assert bench.policy.stored[H1, "vm1a"]["weight"] == 2 and bench.engine.counters["rest_forbidden"] == 1
    assert "alice, of role read, may not PUT" in caplog.text and TOKEN not in caplog.text
    assert bench.client.simulate_post("/v1/vms", headers=bearer(TOKEN)).status_code == 405


def test_the_document_says_which_role_an_operation_needs(bench):
    paths = bench.get("/v1/openapi.json", **bearer(TOKEN)).json["paths"]
    assert paths["/v1/vms/{vm}"]["get"]["x-role"] == "read"
    assert paths["/v1/vms/{vm}"]["put"]["x-role"] == "operate"


def test_the_page_itself_needs_no_token(bench):
    for path in ("/", "/page/page.js", "/page/page.css", "/page/icon.svg"):
        answer = bench.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert bench.get("/page/../page.py").status_code in (401, 404)


def test_the_audit_names_who_changed(bench):
    headers = {**bearer(TOKEN), "Content-Type": "application/json"}
    answer = bench.client.simulate_put("/v1/vms/neutron-1", body='{"weight": 5}', headers=headers)
    assert answer.status_code == 200
    [record] = bench.get("/v1/audit", **bearer(TOKEN)).json["records"]
    assert record["who"] == "alice" and record["after"]["weight"] == 5


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "cloud.example:8080"])
def test_own_names(tmp_path, host):
    assert Bench(tmp_path).get("/v1/status", Host=host).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil"])
def test_a_foreign_name_is_refused(tmp_path, host):
    bench = Bench(tmp_path)
    answer = bench.get("/v1/status", Host=host)
    assert answer.status_code == 421 and answer.json["field"] == "Host"
    assert bench.engine.counters["rest_foreign_host"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:9"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_pages_of_other_sites_change_nothing(tmp_path, headers, status):
    bench = Bench(tmp_path)
    headers = {"Content-Type": "application/json", **headers}
    answer = bench.client.simulate_put("/v1/vms/neutron-1", body='{"weight": 9}', headers=headers)
    assert answer.status_code == status
    assert bench.policy.stored[H1, "vm1a"]["weight"] == (9 if status == 200 else 2)


def test_a_form_of_another_site_is_of_the_wrong_type(tmp_path):
    bench = Bench(tmp_path)
    answer = bench.client.simulate_put("/v1/vms/neutron-1", body="weight=9", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415 and answer.json["field"] == "Content-Type"


def make(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return settings.Settings(notify=False, rest_token_file=path)


def test_token_file(tmp_path):
    lines = f"# of the lab\nalice {TOKEN}\n\nbob\t{'u' * 32} read\nroot {'v' * 32} admin \n"
    chosen = make(tmp_path / "tokens", lines)
    assert chosen.read_tokens() == {
        "alice": (TOKEN, Role.OPERATE), "bob": ("u" * 32, Role.READ), "root": ("v" * 32, Role.ADMIN)
    }  # fmt: skip
    assert TOKEN not in chosen.model_dump_json() and TOKEN not in repr(chosen)


@pytest.mark.parametrize(
    ("text", "mode", "fault"),
    [
        ("", 0o600, "holds no token"),
        ("alice short\n", 0o600, "line 1"),
        (f"alice {TOKEN}\nalice {TOKEN}\n", 0o600, "line 2"),
        (f"alice {TOKEN}\nbob {TOKEN}\n", 0o600, "line 2.*each name and token once"),
        (f"alice {TOKEN} root\n", 0o600, "line 1.*read, operate"),
        (f"{TOKEN}\n", 0o600, "line 1"),
        (f"alice {TOKEN}\n", 0o644, "everybody may use it"),
    ],
)
def test_unusable_token_files(tmp_path, text, mode, fault):
    with pytest.raises(settings.SettingsError, match=fault) as caught:
        make(tmp_path / "tokens", text, mode).read_tokens()
    assert "rest_token_file" in str(caught.value) and TOKEN not in str(caught.value)


def test_missing_token_file(tmp_path):
    with pytest.raises(settings.SettingsError, match="rest_token_file"):
        settings.Settings(notify=False, rest_token_file=tmp_path / "none").read_tokens()


@pytest.mark.parametrize("rest", ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "controller.example:8080"])
def test_beyond_loopback_a_token_file_is_needed(tmp_path, rest):
    with pytest.raises(ValueError, match="rest_token_file is needed"):
        settings.Settings(notify=False, rest=rest)
    assert settings.Settings(notify=False, rest=rest, rest_token_file=tmp_path / "tokens").rest == rest


@pytest.mark.parametrize("rest", ["127.0.0.1:8080", "127.9.9.9:1", "[::1]:8080", "localhost:8080", ""])
def test_on_loopback_none_is(rest):
    assert settings.Settings(notify=False, rest=rest).rest == rest


def test_certificate_and_key_come_together(tmp_path):
    with pytest.raises(ValueError, match="rest_tls_cert and rest_tls_key"):
        settings.Settings(notify=False, rest_tls_cert=tmp_path / "cert")
