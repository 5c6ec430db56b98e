# SPDX-License-Identifier: Apache-2.0
"""Certificates that their authority has revoked, over real handshakes."""

import errno
import shutil
import signal
import socket
import ssl
import threading

import pytest

from sdngcc.configuration import SettingsError
from sdngcc.controller.framework import ovsdb_tls, tls
from sdngcc.controller.framework.admission import Reason
from sdngcc.controller.settings import Settings

from ..processes import PATIENCE_S, Controller, free_port, wait_for
from ..real_ovs import make_certificates, make_list
from .test_attacks import READY
from .test_nodes import context, tls_settings

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("keys") / "pki", "good", "bad")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("others") / "pki", "good")


def folder_of(keys):
    return keys["switch_ca"].parent


def settings(keys, **more):
    return Settings(notify=False, **tls_settings(keys), **more)


def shake_hands(server, keys, name):
    """Let one with a certificate connect; return why it was refused, None when it was not."""
    ours, theirs = socket.socketpair()

    def connect():
        try:
            with context(keys, name).wrap_socket(theirs) as sock:
                sock.recv(1)
        except OSError:
            pass  # the server tells

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        with server.wrap_socket(ours, server_side=True):
            return None
    except OSError as error:
        return tls.refusal(error)
    finally:
        ours.close()
        thread.join()


def test_without_a_list_a_certificate_counts_until_it_expires(keys):
    assert shake_hands(tls.server_context(settings(keys)), keys, "bad") is None


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_revoked_certificate_is_refused_and_others_are_not(keys, tmp_path, in_folder):
    made = make_list(folder_of(keys), keys["bad_cert"])
    path = tmp_path / "lists" if in_folder else made
    if in_folder:
        path.mkdir()
        shutil.copy(made, path / "authority.crl")
    server = tls.server_context(settings(keys, openflow_tls_crl=path))
    assert shake_hands(server, keys, "good") is None
    reason, text = shake_hands(server, keys, "bad")
    assert reason is Reason.REVOKED and "openflow_tls_crl" in text


def shake_hands_as_client(keys, name, **more):
    """Connect to a server that shows a certificate; return what is wrong with it, None when nothing is."""
    chosen = settings(keys, **more)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys[f"{name}_cert"], keys[f"{name}_key"])
    ours, theirs = socket.socketpair()

    def accept():
        try:
            with server.wrap_socket(theirs, server_side=True) as sock:
                sock.recv(1)
        except OSError:
            pass  # the client tells

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        with tls.client_context(tls.files_of(chosen)).wrap_socket(ours):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    finally:
        ours.close()
        thread.join()


def test_a_server_whose_certificate_is_revoked_is_not_connected_to(keys, others, tmp_path):
    crl = shutil.copy(make_list(folder_of(keys), keys["bad_cert"]), tmp_path / "crl.pem")
    assert shake_hands_as_client(keys, "bad") is None
    assert shake_hands_as_client(keys, "bad", openflow_tls_crl=crl) == "certificate revoked"
    assert shake_hands_as_client(keys, "good", openflow_tls_crl=crl) is None
    unknown = shake_hands_as_client(keys, "good", openflow_tls_crl=make_list(folder_of(keys), expired=True))
    assert unknown == "CRL has expired"
    assert shake_hands_as_client({**others, "switch_ca": keys["switch_ca"]}, "good") is not None


def test_a_remote_is_not_connected_to_with_lists_that_cannot_be_used(keys, tmp_path, caplog):
    """The file may break after the start; then the log tells once, and each connection fails."""
    from ovs.stream import Stream

    crl = shutil.copy(make_list(folder_of(keys)), tmp_path / "crl.pem")
    chosen = settings(keys, openflow_tls_crl=crl)
    known = dict(Stream._SOCKET_METHODS)
    try:
        ovsdb_tls.prepare_ovsdb(chosen)
        crl.write_text("broken")
        for _ in range(2):
            assert Stream.open("ssl:127.0.0.1:1") == (errno.EPROTO, None)
    finally:
        Stream._SOCKET_METHODS.clear()
        Stream._SOCKET_METHODS.update(known)
    assert sum(f"openflow_tls_crl {crl}: no list" in text for text in caplog.messages) == 1


def test_who_comes_by_another_authority_is_refused_as_before(keys, others):
    server = tls.server_context(settings(keys, openflow_tls_crl=make_list(folder_of(keys))))
    reason, _ = shake_hands(server, {**others, "controller_ca": keys["controller_ca"]}, "good")
    assert reason is Reason.TLS


def test_without_a_list_that_is_valid_now_nobody_is_let_in(keys, others):
    for made, words in (
        (make_list(folder_of(keys), expired=True), "CRL has expired"),
        (make_list(folder_of(others)), "CRL signature failure"),  # of another authority with the same name
    ):
        reason, text = shake_hands(tls.server_context(settings(keys, openflow_tls_crl=made)), keys, "good")
        assert reason is Reason.REVOCATION and words in text and "openflow_tls_crl" in text


def test_what_is_no_list_is_refused_by_name(keys, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    for path, words in (
        (tmp_path / "nowhere", "No such file"),
        (empty, "the folder holds no list"),
        (nonsense, "no list of revoked certificates"),
        (keys["bad_cert"], "it holds a certificate"),
        (keys["switch_ca"], "it holds no list"),
    ):
        with pytest.raises(SettingsError, match=words) as caught:
            tls.server_context(settings(keys, openflow_tls_crl=path))
        assert f"openflow_tls_crl {path}" in str(caught.value)
    with pytest.raises(ValueError, match="openflow_tls_crl: certificates are shown with openflow_tls_key"):
        Settings(notify=False, openflow_tls_crl=nonsense)


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_a_new_list_is_read_on_reload_and_refusals_are_seen(tmp_path, framework, keys):
    crl = shutil.copy(make_list(folder_of(keys)), tmp_path / "crl.pem")
    databases = ("127.0.0.1", free_port())
    controller = Controller(
        tmp_path, framework, **tls_settings(keys), openflow_tls_crl=crl, ovsdb_listen=f"127.0.0.1:{databases[1]}"
    )

    def connect(address):
        return context(keys, "bad").wrap_socket(socket.create_connection(address, timeout=PATIENCE_S))

    def refused(of="connections"):
        return controller.get("/v1/status")[of]["refused"]

    try:
        with connect(controller.address) as stays:
            stays.sendall(READY)
            wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
            shutil.copy(make_list(folder_of(keys), keys["bad_cert"]), crl)
            controller.process.send_signal(signal.SIGHUP)
            wait_for(lambda: controller.get("/v1/status")["reload"]["done"] == 1, controller.log)
            before = refused()["tls"]  # of who only looked whether somebody listens
            for address in (controller.address, databases):
                with pytest.raises(OSError):
                    with connect(address) as sock:
                        sock.recv(1)
            wait_for(lambda: refused()["revoked"] == refused("database_connections")["revoked"] == 1, controller.log)
            assert refused()["tls"] == before and "its certificate is revoked" in controller.log()
            assert 'sdngcc_openflow_connections_refused_total{reason="revoked"} 1.0' in controller.metrics()
            crl.write_text("broken")
            controller.process.send_signal(signal.SIGHUP)
            wait_for(lambda: controller.get("/v1/status")["reload"]["failed"] == 1, controller.log)
            assert "openflow_tls_crl" in controller.get("/v1/status")["reload"]["last"]["error"]
            assert controller.get("/v1/status")["switches"] == 1
    finally:
        controller.stop()
