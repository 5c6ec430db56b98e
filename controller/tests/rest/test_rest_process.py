# SPDX-License-Identifier: Apache-2.0
"""REST of the controller's own process, with a bridge, stored policy and clients of all kinds."""

import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from sdngcc.rest import RestClient, RestError

from ..databases.test_ovsdb import Database, needs_ovsdb
from ..fabric import arp, ipv4, port_reading, vm_reading
from ..processes import PATIENCE_S, Controller, WireSwitch, wait_for

TOKEN = "secret-of-the-laboratory-0123456789"
FRAMEWORK = "ryu"


@pytest.fixture
def bridge():
    switch = WireSwitch(0xA1, {1: b"tap0", 2: b"tap1", 3: b"up0"})
    switch.vms = {1: vm_reading(1, 5_000_000), 2: vm_reading(2, 0)}
    switch.marks = {2: port_reading(2), 3: port_reading(3)}
    yield switch
    switch.close()


@pytest.fixture
def database(tmp_path):
    (tmp_path / "db").mkdir()
    found = Database(tmp_path / "db")
    yield found
    found.process.terminate()
    found.process.wait(10)


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"alice {TOKEN}\n")
    path.chmod(0o600)
    return path


def start(tmp_path, bridge, **settings):
    controller = Controller(tmp_path, FRAMEWORK, poll_hypervisors="true", period_us=100_000, **settings)
    bridge.connect(controller.address)
    return controller


def ask(controller, path, token=TOKEN, **more):
    request = urllib.request.Request(controller.url + path, headers={"Authorization": f"Bearer {token}"})
    return urllib.request.urlopen(request, timeout=PATIENCE_S, **more)


def known(controller, name, **more):
    """Tell whether a VM is known by a name."""
    try:
        return json.load(ask(controller, f"/v1/vms?name={name}", **more))["total"] == 1
    except OSError:
        return False


@needs_ovsdb
def test_policy_by_any_name_reaches_the_database_and_the_audit(tmp_path, bridge, database):
    audit = tmp_path / "audit"
    controller = start(tmp_path, bridge, ovsdb=database.remote, audit_file=audit)
    try:
        wait_for(lambda: known(controller, "neutron-0"), controller.log)
        client = RestClient(controller.url)
        bridge.packet_in(1, arp(1, 2))
        wait_for(lambda: known(controller, "10.0.0.1"), controller.log)
        for number, name in enumerate(("neutron-0", "tap0", "02:00:00:00:00:01", "10.0.0.1"), 2):
            assert client.vm_change(name, {"weight": number})["stored"]["weight"] == number
        assert database.vsctl("get", "interface", "tap0", "other_config:shim-weight").strip() == '"5"'
        with pytest.raises(RestError, match="min of 8000000 bit/s and the 3000000 bit/s .* allowed: 0 to 7000000"):
            client.vm_change("tap0", {"min": 8_000_000})
        database.vsctl("set", "interface", "tap0", "other_config:shim-weight=77")
        wait_for(lambda: "ovsdb" in audit.read_text(), controller.log)
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        assert [(one["who"], one["result"]) for one in records] == [
            *[("loopback", "stored")] * 4, ("loopback", "refused"), ("ovsdb", "stored"),
        ]  # fmt: skip
        assert records[-1]["before"]["weight"] == 5 and records[-1]["after"]["weight"] == 77
    finally:
        controller.stop()


def test_events_reach_a_client_and_end_with_the_controller(tmp_path, bridge):
    controller = start(tmp_path, bridge)
    try:
        # The first sample of a port is a baseline.
        wait_for(lambda: [port["congested"] for port in controller.get("/v1/ports")["ports"]] == [None, False, False],
                 controller.log)  # fmt: skip
        events = RestClient(controller.url).events()
        kind, data = next(events)
        assert kind == "vms" and data["full"] and {row["name"] for row in data["vms"]} == {"tap0", "tap1"}
        bridge.packet_in(1, arp(1, 2))
        bridge.packet_in(2, arp(2, 1))
        bridge.packet_in(1, ipv4(1, 2))
        wait_for(lambda: controller.get("/v1/status")["pairs"], controller.log)
        bridge.vms[1] = vm_reading(1, 9_000_000)
        bridge.marks[2] = port_reading(2, count=40)
        wanted = {"rate", "congested", "notice"}
        for kind, data in events:
            if kind == "vms" and any(row["sent_bps"] == 72_000_000 for row in data["vms"]):
                wanted.discard("rate")
            if kind == "ports" and any(row["congested"] for row in data["ports"]):
                wanted.discard("congested")
            if kind == "notice":
                assert data["notices"][0]["messages"] == 1
                wanted.discard("notice")
            if not wanted:
                break
        controller.process.terminate()
        for _ in events:
            pass
        assert controller.process.wait(PATIENCE_S) == 0, controller.log()
        assert "Traceback" not in controller.log()
    finally:
        controller.stop()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_tls_with_a_token(tmp_path, bridge, token_file):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    controller = start(
        tmp_path, bridge, rest_token_file=token_file, rest_tls_cert=tmp_path / "cert.pem",
        rest_tls_key=tmp_path / "key.pem",
    )  # fmt: skip
    controller.url = controller.url.replace("http:", "https:")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    try:
        # Whoever speaks no TLS, or nothing at all, must not keep others out.
        port = int(controller.url.rsplit(":", 1)[1])
        wait_for(lambda: known(controller, "tap0", context=trusted), controller.log)
        with contextlib.ExitStack() as stack:
            other = ("127.0.0.2", 0)  # what one address may begin is bounded
            plain, *_ = (stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=other))
                         for _ in range(100))  # fmt: skip
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            client = RestClient(controller.url, TOKEN, str(tmp_path / "cert.pem"))
            assert client.vm("tap0")["port_name"] == "tap0"
            assert next(client.events())[0] == "vms"
        with pytest.raises(RestError, match="a token is needed.*--token-file"):
            RestClient(controller.url, None, str(tmp_path / "cert.pem")).vm("tap0")
        with pytest.raises(RestError, match="no valid token"):
            RestClient(controller.url, "x" * 40, str(tmp_path / "cert.pem")).vm("tap0")
        with pytest.raises(RestError, match="CERTIFICATE_VERIFY_FAILED"):
            RestClient(controller.url, TOKEN).vm("tap0")
        shown = json.load(ask(controller, "/v1/settings", context=trusted))
        assert shown["rest_token_file"] == str(token_file)
        for path in ("cmdline", "environ"):
            assert TOKEN.encode() not in open(f"/proc/{controller.process.pid}/{path}", "rb").read()
        assert TOKEN not in controller.log() and TOKEN not in json.dumps(shown)
    finally:
        controller.stop()


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"REST": "0.0.0.0:8080"}, "rest_token_file is needed when rest is beyond loopback"),
        ({"REST_TOKEN_FILE": "/none"}, "rest_token_file /none"),
        ({"REST_TLS_CERT": "/none", "REST_TLS_KEY": "/none"}, "rest_tls_cert /none"),
    ],
)
def test_it_refuses_to_start_with_unsafe_rest(settings, fault):
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false"}
    environment.update({f"SDNGCC_CONTROLLER_{key}": text for key, text in settings.items()})
    done = subprocess.run(
        [sys.executable, "-m", "sdngcc.main", "controller", "--framework", FRAMEWORK],
        env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode != 0 and fault in done.stderr, done.stderr
    assert "Traceback" not in done.stderr

