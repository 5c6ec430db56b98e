# SPDX-License-Identifier: Apache-2.0
"""SIGHUP of the controller's own process: tokens, certificates and settings come into force while it runs."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from sdngcc.rest import RestClient

from .framework.test_attacks import READY
from .processes import PATIENCE_S, Controller, WireSwitch, wait_for
from .real_ovs import INSTALLED, make_pki

OLD, NEW = "o" * 32, "n" * 32


def certify(folder, name):
    """Make a certificate of this address, and its key, in place of those there are."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", "key.pem", "-out", "cert.pem", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


def write(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


def ask(controller, path, token, trusted):
    """Return the status of an answer, and the document in it."""
    request = urllib.request.Request(controller.url + path, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=trusted) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_tokens_certificates_and_settings_are_read_again(tmp_path, framework):
    former = certify(tmp_path, "former")
    tokens = write(tmp_path / "tokens", f"alice {OLD} admin\n")
    config = write(tmp_path / "controller.json", '{"rest_event_clients": 3}')
    controller = Controller(
        tmp_path, framework, config=config, rest_token_file=tokens, rest_tls_cert=tmp_path / "cert.pem",
        rest_tls_key=tmp_path / "key.pem",
    )  # fmt: skip
    controller.url = controller.url.replace("http:", "https:")
    switch = WireSwitch(0xA1, {1: b"tap0"})
    line = switch.connect(controller.address)
    try:
        wait_for(lambda: ask(controller, "/v1/status", OLD, former)[1]["switches"] == 1, controller.log)
        events = RestClient(controller.url, OLD, str(tmp_path / "cert.pem")).events()
        assert next(events)[0] == "vms"
        former_file = shutil.copy(tmp_path / "cert.pem", tmp_path / "former.pem")
        later = certify(tmp_path, "later")
        write(tokens, f"bob {NEW}\n")
        write(config, '{"rest_event_clients": 4, "period_us": 100000}')
        controller.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reload by SIGHUP" in controller.log(), controller.log)
        for _ in events:  # the stream of a token that is no more ends
            pass
        assert ask(controller, "/v1/status", OLD, later)[0] == 401
        status = ask(controller, "/v1/status", NEW, later)[1]
        assert status["reload"]["last"]["changed"] == ["rest_event_clients"]
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(controller, "/v1/status", NEW, ssl.create_default_context(cafile=former_file))
        assert ask(controller, "/v1/settings", NEW, later)[1]["rest_event_clients"] == 4

        write(tokens, "broken\n")
        controller.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reload by SIGHUP failed" in controller.log(), controller.log)
        status = ask(controller, "/v1/status", NEW, later)[1]
        assert status["reload"]["last"]["result"] == "failed" and status["reload"]["failed"] == 1
        assert status["switches"] == 1 and line.alive
        assert NEW not in controller.log() and OLD not in controller.log() and "Traceback" not in controller.log()
    finally:
        controller.stop()
        switch.close()


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_while_a_file_of_the_network_beneath_is_tried_everything_else_goes_on(tmp_path, framework):
    """The file is a pipe here, so that reading it lasts for as long as the test wants."""
    former, pipe = write(tmp_path / "former.json", "{}"), tmp_path / "later.json"
    os.mkfifo(pipe)
    config = write(tmp_path / "controller.json", json.dumps({"forwarding": "none", "underlay_file": str(former)}))
    controller = Controller(tmp_path, framework, config=config, mark_source="shim")

    def open_pipe():
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None  # nobody reads it yet

    def reload(content, result):
        before = controller.get("/v1/status")["reload"]
        controller.process.send_signal(signal.SIGHUP)
        descriptor = wait_for(open_pipe, controller.log)
        assert controller.get("/v1/status")["reload"] == before
        os.write(descriptor, content)
        os.close(descriptor)
        wait_for(lambda: controller.get("/v1/status")["reload"][result] == 1, controller.log)
        return controller.get("/v1/status")["reload"]["last"]

    try:
        write(config, json.dumps({"forwarding": "none", "underlay_file": str(pipe)}))
        assert f"underlay_file {pipe}: links" in reload(b'{"links": 3}', "failed")["error"]
        assert reload(b"{}", "done")["changed"] == ["underlay_file"]
        descriptor = wait_for(open_pipe, controller.log)  # now it is followed
        os.write(descriptor, b'{"switches": {"leaf1": {}}}')
        os.close(descriptor)
        wait_for(lambda: "1 switches, 0 hosts and 0 links are in force now" in controller.log(), controller.log)
    finally:
        controller.stop()


def test_the_log_goes_to_a_file_that_logrotate_may_move(tmp_path):
    path = tmp_path / "controller-file.log"
    controller = Controller(tmp_path, "os-ken", log_file=path, log_format="json", log_level="info")
    switch = WireSwitch(0xA1, {1: b"tap0"})
    try:
        switch.connect(controller.address)
        wait_for(lambda: path.exists() and "switch 00000000000000a1 connected" in path.read_text(), controller.log)
        path.rename(tmp_path / "controller-file.log.1")
        controller.process.send_signal(signal.SIGHUP)
        wait_for(lambda: path.exists() and "reload by SIGHUP" in path.read_text(), controller.log)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
        assert "connected with" not in controller.log()
    finally:
        controller.stop()
        switch.close()


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_systemd_is_told_of_the_controllers_states(tmp_path, framework, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        controller = Controller(tmp_path, framework)
        try:
            def await_word(word):
                while True:
                    lines = sock.recv(9999).decode().split("\n")
                    if word in lines:
                        return lines

            assert await_word("READY=1")[1] == "STATUS=0 switches, 0 VMs"
            await_word("WATCHDOG=1")
            await_word("WATCHDOG=1")
            controller.process.send_signal(signal.SIGHUP)
            await_word("RELOADING=1")
            await_word("READY=1")
            controller.process.terminate()
            await_word("STOPPING=1")
        finally:
            controller.stop()


def switch_context(keys):
    """Return what a switch connects by, with its certificate of one authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(keys["controller_ca"])
    context.load_cert_chain(keys["sw_cert"], keys["sw_key"])
    return context


@pytest.mark.skipif(not INSTALLED, reason="ovs-pki is not installed")
@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_switches_are_judged_by_the_new_authority_and_those_connected_stay(tmp_path, framework):
    former, later = make_pki(tmp_path / "former"), make_pki(tmp_path / "later")
    files = {"openflow_tls_key": "ctl_key", "openflow_tls_cert": "ctl_cert", "openflow_tls_ca": "switch_ca"}

    def install(keys):
        return {setting: shutil.copy(keys[name], tmp_path / setting) for setting, name in files.items()}

    controller = Controller(tmp_path, framework, **install(former))

    def connect(keys):
        sock = switch_context(keys).wrap_socket(socket.create_connection(controller.address, timeout=PATIENCE_S))
        sock.sendall(READY)
        return sock

    try:
        with connect(former) as stays:
            wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
            refused = controller.get("/v1/status")["connections"]["refused"]["tls"]
            (tmp_path / "openflow_tls_ca").write_text("broken")
            controller.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "reload by SIGHUP failed" in controller.log(), controller.log)
            assert "openflow_tls_ca" in controller.get("/v1/status")["reload"]["last"]["error"]
            install(later)
            controller.process.send_signal(signal.SIGHUP)
            wait_for(lambda: controller.get("/v1/status")["reload"]["done"] == 1, controller.log)
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
                connect(former)
            # The switch of the new authority bears the id of the first one, which is there still.
            with connect(later):
                wait_for(lambda: controller.get("/v1/status")["connections"]["open"] == 2, controller.log)
                assert controller.get("/v1/status")["switches"] == 1
            assert controller.get("/v1/status")["connections"]["refused"]["tls"] > refused
            stays.sendall(bytes.fromhex("0402000800000001"))
            assert stays.recv(8)
    finally:
        controller.stop()
