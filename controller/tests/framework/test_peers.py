# SPDX-License-Identifier: Apache-2.0
"""What databases, clients of TLS and listeners to events may cost: a switch beside them is polled as always."""

import json
import socket
import ssl
import time
import urllib.error
import urllib.request

import pytest

from sdngcc.controller.budget import Budget, Budgets
from sdngcc.controller.framework.admission import HANDSHAKES_AT_ONCE, Admission, Reason

from ..databases import hostile
from ..fabric import port_reading
from ..processes import PATIENCE_S, WireSwitch, wait_for
from ..real_ovs import INSTALLED, make_pki
from .test_attacks import running, switch_of

SECOND_NS = 1_000_000_000


def turns_late(controller, switch, seconds=3.0):
    """Return the part of polls that did not come, of those due within some seconds of a period of 20 ms."""
    before, begun = switch.polls, time.monotonic()
    time.sleep(seconds)
    due = (time.monotonic() - begun) / 0.02
    return 1 - (switch.polls - before) / due


@pytest.mark.parametrize("flood", [hostile.endless_string, hostile.updates, hostile.rows, hostile.unknown_answers],
                         ids=lambda one: one.__name__)  # fmt: skip
def test_a_hostile_database_takes_nothing_from_a_switch(tmp_path, flood):
    database = hostile.HostileDatabase(flood)
    try:
        with running(tmp_path, "ryu", ovsdb=database.remote) as controller:
            switch = switch_of(controller)
            quiet = turns_late(controller, switch)
            wait_for(lambda: database.connections, controller.log)
            # However busy this machine is: no tenth more is lost than without it.
            assert turns_late(controller, switch, 6.0) < max(quiet, 0) + 0.1
            resident = int(next(line for line in open(f"/proc/{controller.process.pid}/status")
                                if line.startswith("VmHWM")).split()[1])  # fmt: skip
            assert resident < 400_000, resident
            if flood in (hostile.endless_string, hostile.rows):
                shown = wait_for(lambda: controller.get("/v1/status")["databases"][0]["fault"], controller.log)
                assert "closed the connection to it" in shown and "connecting again in" in shown
                warnings = controller.get("/v1/status")["warnings"]
                assert any(database.remote in one for one in warnings), warnings
                assert database.remote in controller.log() and "closed the connection to it" in controller.log()
            switch.close()
    finally:
        database.close()


def test_handshakes_of_an_address_are_counted_and_those_that_end_well_given_back():
    admission = Admission()
    taken = [admission.may_shake_hands("10.0.0.1", 0) for _ in range(HANDSHAKES_AT_ONCE + 5)]
    assert sum(taken) == HANDSHAKES_AT_ONCE and not taken[-1]
    assert admission.may_shake_hands("10.0.0.2", 0)  # another address
    assert admission.may_shake_hands("10.0.0.1", SECOND_NS)  # after a while
    admission = Admission()
    for _ in range(3 * HANDSHAKES_AT_ONCE):
        assert admission.may_shake_hands("10.0.0.1", 0)
        admission.shook_hands("10.0.0.1", 0)


def test_budgets_of_many_peers_are_bounded_and_those_in_use_stay():
    budgets = Budgets(1, 2, most=3)
    for address in "abc":
        assert budgets.take(address, 1, SECOND_NS)
    assert budgets.take("d", 2, SECOND_NS) and len(budgets) == 3  # of the one that newcomers share
    assert not budgets.take("e", 1, SECOND_NS)
    assert budgets.take("e", 1, 10 * SECOND_NS) and len(budgets) == 1  # the others are full again


def test_a_budget_may_be_overdrawn_and_fills_up_to_its_depth():
    budget = Budget(10, 5, 0)
    assert budget.spend(7, 0) == -2 and not budget.take(1, 0)
    assert budget.left(SECOND_NS // 2) == 3 and budget.left(10 * SECOND_NS) == 5 and budget.is_full(10 * SECOND_NS)


@pytest.mark.skipif(not INSTALLED, reason="Open vSwitch is not installed")
@pytest.mark.parametrize("at", ["openflow", "rest"])
def test_handshakes_without_end_from_one_address_are_refused_and_a_switch_is_polled(tmp_path, at):
    files = make_pki(tmp_path / "pki")
    group = "openflow_tls" if at == "openflow" else "rest_tls"
    tls = {f"{group}_key": files["ctl_key"], f"{group}_cert": files["ctl_cert"]}
    tls |= {"openflow_tls_ca": files["switch_ca"]} if at == "openflow" else {}
    with running(tmp_path, "ryu", **tls) as controller:
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        host, port = controller.address if at == "openflow" else controller.url[len("http://") :].split(":")
        done = refused = 0
        for _ in range(4 * HANDSHAKES_AT_ONCE):
            sock = socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=("127.0.0.9", 0))
            try:
                with stranger.wrap_socket(sock) as tls_sock:
                    done += 1
                    tls_sock.settimeout(PATIENCE_S)
                    if at == "openflow":
                        tls_sock.recv(1)
            except OSError:
                refused += 1
        assert "more than 5 TLS handshakes of its address in a second" in controller.log()
        if at == "openflow":
            known = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            known.check_hostname, known.verify_mode = False, ssl.CERT_NONE
            known.load_cert_chain(files["sw_cert"], files["sw_key"])
            switch = WireSwitch(0xB1, {1: b"p1"})
            switch.marks = {1: port_reading(1)}
            switch.connect(controller.address, context=known)
            wait_for(lambda: switch.polls > 3, controller.log)
            assert controller.get("/v1/status")["connections"]["refused"][Reason.TOO_OFTEN.value] > 0
            switch.close()


def streams(controller, address, count):
    """Open streams of events from an address that never reads."""
    host, port = controller.url[len("http://") :].split(":")
    found = []
    for _ in range(count):
        sock = socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=(address, 0))
        sock.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found.append(sock)
    return found


def test_streams_that_never_read_shut_nobody_out(tmp_path):
    with running(tmp_path, "ryu") as controller:
        switch = switch_of(controller)
        held = []
        for number in range(2, 8):
            held += streams(controller, f"127.0.0.{number}", 12)
        wait_for(lambda: controller.get("/v1/status")["event_clients"] >= 24, controller.log)
        for _ in range(3):
            with urllib.request.urlopen(f"{controller.url}/v1/events", timeout=PATIENCE_S) as stream:
                assert stream.readline().startswith(b"retry:")
        counters = controller.get("/v1/status")["counters"]
        assert counters["event_clients_refused"] >= 6 * 4
        for sock in held:
            sock.close()
        switch.close()


def test_one_address_has_a_part_of_the_streams_and_is_told_so(tmp_path):
    with running(tmp_path, "ryu", rest_event_clients=16) as controller:
        held = streams(controller, "127.0.0.1", 4)
        wait_for(lambda: controller.get("/v1/status")["event_clients"] == 4, controller.log)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{controller.url}/v1/events", timeout=PATIENCE_S)
        refusal = json.loads(caught.value.read())
        assert caught.value.code == 503 and "16 (setting rest_event_clients), and 4 of one address" in refusal["error"]
        assert caught.value.headers["Retry-After"]
        for sock in held:
            sock.close()


def test_the_log_tells_of_the_start_and_the_end(tmp_path):
    with running(tmp_path, "ryu", period_us=25_000) as controller:
        address = controller.url[len("http://") :]
        wait_for(lambda: "has started" in controller.log(), controller.log)
        [line] = [one for one in controller.log().splitlines() if "has started" in one]
        assert f"REST at {address}" in line and "period_us 25000" in line and "sdn-gcc " in line
    assert "as it was asked to" in controller.log().splitlines()[-1]
