# SPDX-License-Identifier: Apache-2.0
"""What databases, clients of TLS and listeners to events may cost: a switch beside them is polled as always."""

import contextlib
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request

import pytest

from sdngcc.controller.budget import STRETCH_NS, Budget, Budgets, Stretches, Turns
from sdngcc.controller.framework.admission import (
    HANDSHAKES_AT_ONCE,
    STRANGERS_A_SECOND,
    STRANGERS_AT_ONCE,
    Admission,
    Reason,
)
from sdngcc.controller.framework.handshakes import shake_hands

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
    refused = [admission.may_shake_hands("10.0.0.1", 0) for _ in range(HANDSHAKES_AT_ONCE + 5)]
    assert refused.count(None) == HANDSHAKES_AT_ONCE and "of its address" in refused[-1]
    assert admission.may_shake_hands("10.0.0.2", 0) is None  # another address
    assert admission.may_shake_hands("10.0.0.1", SECOND_NS) is None  # after a while
    admission = Admission()
    for _ in range(3 * HANDSHAKES_AT_ONCE):
        assert admission.may_shake_hands("10.0.0.1", 0) is None
        admission.shook_hands("10.0.0.1", 0)


def test_addresses_that_never_ended_a_handshake_well_have_a_part_together():
    admission = Admission()
    for number in range(10):
        assert admission.may_shake_hands(f"10.0.1.{number}", 0) is None
        admission.shook_hands(f"10.0.1.{number}", 0)
    why = [admission.may_shake_hands(f"10.{number >> 8}.{number & 255}.1", 0) for number in range(2000)]
    assert why.count(None) in range(STRANGERS_AT_ONCE - 10, STRANGERS_AT_ONCE + 1)
    assert "of addresses that never ended one" in why[-1]
    every = Admission()
    for number in range(3 * STRANGERS_AT_ONCE):  # as after a start
        assert every.may_shake_hands(f"10.{number >> 8}.{number & 255}.1", 0) is None
        every.shook_hands(f"10.{number >> 8}.{number & 255}.1", 0)
    # Whoever ended one well begins the next, however many others there are.
    assert all(admission.may_shake_hands(f"10.0.1.{number}", 0) is None for number in range(10))
    later = [admission.may_shake_hands(f"11.{number >> 8}.{number & 255}.1", SECOND_NS) for number in range(1000)]
    assert later.count(None) <= STRANGERS_A_SECOND
    for number in range(10):
        assert admission.may_shake_hands(f"10.0.1.{number}", SECOND_NS) is None


def test_openssl_reckons_in_another_thread():
    seen = []

    class Reckoning:
        def do_handshake(self):
            seen.append(threading.get_native_id())

    class Sock(Reckoning):
        def do_handshake(self):
            raise AssertionError("others would wait")

    shake_hands(Sock())
    assert seen and seen[0] != threading.get_native_id()


class Clock:
    """A clock, processor time and sleep of a test, ns."""

    def __init__(self):
        self.now = self.worked = 0
        self.slept = []

    def work(self, took_ns, lasted_ns=None):
        self.worked += took_ns
        self.now += lasted_ns or took_ns

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += round(seconds * 1e9)


def test_a_stretch_ends_by_processor_time_and_others_have_as_long_as_it_lasted():
    clock = Clock()
    stretches = Stretches(clock.sleep, 3.0, lambda: clock.worked, lambda: clock.now)
    stretches.begin()
    clock.work(STRETCH_NS // 2, 10_000_000)
    stretches.pause()
    assert not clock.slept, "it waited for others, and did not work"
    clock.work(STRETCH_NS // 2, 10_000_000)
    stretches.pause()
    assert clock.slept == [0.06] and stretches.spent_ns == STRETCH_NS
    clock.work(STRETCH_NS, 10 * SECOND_NS)
    stretches.pause()
    assert clock.slept[1] == 0.1, "however long the process stood still"


def test_those_who_take_turns_have_one_part_together():
    clock, who = Clock(), ["a"]
    turns = Turns(clock.sleep, 2.0, lambda: clock.worked, lambda: clock.now, lambda: who[0])
    woken = {}
    for name in "abc" * 40:
        clock.now, who[0] = max(clock.now, woken.get(name, 0)), name
        begun, before = clock.now, len(clock.slept)
        turns.pause()
        for _ in range(2):
            clock.work(STRETCH_NS)
            turns.pause()
            if len(clock.slept) > before:
                break
        woken[name], clock.now = clock.now, begun + STRETCH_NS
    assert clock.worked < 0.45 * max(woken.values())


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


ASKED = {
    "pipelined": b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
    "refused": b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200,
    "bytes as chunks": b"PUT /v1/vms/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 5000,
    "a line between chunks": b"1",
    "chunks that nobody reads": b"3e8\r\n" + b"x" * 1000 + b"\r\n",
}  # fmt: skip

BEGUN = {
    "a line between chunks": b"PUT /v1/vms/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                             b"Transfer-Encoding: chunked\r\n\r\n1;",
    "chunks that nobody reads": b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
def test_requests_without_end_take_nothing_from_a_switch(tmp_path, asked):
    over = threading.Event()

    def ask(address):
        while not over.is_set():
            try:
                with socket.create_connection(address, timeout=5) as sock:
                    threading.Thread(target=drain, args=(sock,), daemon=True).start()
                    sock.sendall(BEGUN.get(asked, b""))
                    while not over.is_set():
                        sock.sendall(ASKED[asked] * (1 if len(ASKED[asked]) > 5000 else 20_000 // len(ASKED[asked])))
            except OSError:
                pass

    def drain(sock):
        with contextlib.suppress(OSError):
            while sock.recv(65_536):
                pass

    with running(tmp_path, "ryu") as controller:
        switch = switch_of(controller)
        host, port = controller.url[len("http://") :].split(":")
        clients = [threading.Thread(target=ask, args=((host, int(port)),), daemon=True) for _ in range(4)]
        for one in clients:
            one.start()
        for _ in range(3):
            seen = switch.polls
            wait_for(lambda before=seen: switch.polls > before + 20, controller.log)
        over.set()
        for one in clients:
            one.join(60)
        switch.close()


def test_short_work_waits_for_its_turn_once_it_adds_up_and_others_run_in_any_case():
    clock, who = Clock(), ["a"]
    turns = Turns(clock.sleep, 2.0, lambda: clock.worked, lambda: clock.now, lambda: who[0])
    for _ in range(20):
        turns.begin()
        clock.work(STRETCH_NS // 4)
        turns.finish()
    assert len(clock.slept) == 20 and sum(one > 0 for one in clock.slept) == 5
    assert sum(clock.slept) * 1e9 >= 2 * 5 * STRETCH_NS
    clock.slept.clear()
    turns.begin()
    who[0] = "b"
    clock.work(10 * STRETCH_NS)
    turns.finish()  # others worked since
    assert clock.slept == [0]


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
