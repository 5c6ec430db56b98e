# SPDX-License-Identifier: Apache-2.0
"""Whom REST serves, and for how long: the decisions, then the controller's own process under slow clients."""

import collections
import concurrent.futures
import http.client
import json
import re
import socket
import urllib.error

import pytest

from sdngcc.controller.rest import connections, resource
from sdngcc.controller.rest.connections import Connections, Phase
from sdngcc.rest import RestClient

from ..databases.test_ovsdb import Database, needs_ovsdb
from ..fabric import vm_reading
from ..processes import PATIENCE_S, Controller, WireSwitch, wait_for
from .test_rest_process import ask, bridge, database, known, start, token_file

__all__ = ["bridge", "database", "token_file"]  # fixtures


class Listener:
    """Connections under a clock of the test's own; ``ended`` has the names of those that were broken."""

    def __init__(self):
        self.now_s, self.ended, self.counters = 0.0, [], collections.Counter()
        self.connections = Connections(self.counters, lambda: self.now_s)

    def come(self, name, peer="10.0.0.1"):
        found = self.connections.admit(
            peer, 1, lambda: self.ended.append(name), lambda: self.ended.append(f"{name}'s input")
        )
        return found if isinstance(found, connections.Connection) else None


@pytest.fixture
def listener(monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(connections, "PEER_CONNECTIONS_MAX", 3)
    return Listener()


def test_the_slowest_of_a_peer_makes_way_for_its_newest(listener):
    for number in range(3):
        listener.now_s = number / 10
        assert listener.come(number)
    assert listener.come("another peer's", "10.0.0.2") and not listener.ended
    assert listener.come("at once") is None and not listener.ended  # all may still be asking
    listener.now_s = connections.ASKING_GRACE_S + 0.01
    assert listener.come("fourth") and listener.ended == [0]
    assert len(listener.connections) == 4 and listener.counters["rest_connections_displaced"] == 1


def test_when_all_are_too_many_the_peer_with_most_gives_way(listener):
    for number in range(3):
        listener.come(number)
    listener.now_s = connections.ASKING_GRACE_S + 1
    listener.come("b", "10.0.0.2")
    assert listener.come("c", "10.0.0.3")
    assert len(listener.ended) == 1 and listener.ended[0] in range(3)


def test_streams_and_young_answers_never_make_way(listener):
    for phase in (Phase.STREAM, Phase.ANSWER, Phase.ANSWER):
        listener.connections.enter(listener.come(phase), phase)
    assert listener.come("late") is None
    assert listener.counters["rest_connections_refused"] == 1 and not listener.ended
    listener.now_s = connections.ANSWER_GRACE_S + 1
    assert listener.come("later") and listener.ended == [Phase.ANSWER]


@pytest.mark.parametrize("phase", [Phase.HEAD, Phase.IDLE, Phase.ANSWER])
def test_a_phase_that_lasts_too_long_ends(listener, phase):
    listener.connections.enter(listener.come("one"), phase)
    listener.now_s = phase.longest_s
    listener.connections.expire()
    assert not listener.ended
    listener.now_s += 0.1
    listener.connections.expire()
    assert listener.ended == ["one"] and len(listener.connections) == 0
    assert listener.counters[f"rest_{phase.text}_timeouts"] == 1


def test_who_sends_a_body_slowly_can_still_be_told_so(listener):
    one = listener.come("one")
    listener.connections.enter(one, Phase.BODY)
    listener.now_s = 1000.0
    listener.connections.expire()
    listener.connections.expire()
    assert listener.ended == ["one's input"] and one.expired and listener.counters["rest_body_timeouts"] == 1


def test_a_stream_lasts(listener):
    listener.connections.enter(listener.come("one"), Phase.STREAM)
    listener.now_s = 1e6
    listener.connections.expire()
    assert not listener.ended and listener.connections.view()["stream"] == 1


def dial(controller):
    host, port = controller.url[len("http://") :].split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def head(length):
    return (
        f"PUT /v1/vms/tap0 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def test_changes_at_one_bridge_wait_for_each_other_only_and_not_for_ever(monkeypatch):
    monkeypatch.setattr(resource, "LOCK_TIMEOUT_S", 0.01)
    locks = resource.Locks()
    with locks.hold(1) as first, locks.hold(1) as second, locks.hold(2) as elsewhere:
        assert (first, second, elsewhere) == (True, False, True)
    with locks.hold(1) as again:
        assert again


def answered(controller, path):
    """Return the status of an answer."""
    try:
        with ask(controller, path) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_each_of_many_requests_at_once_gets_an_answer(tmp_path, bridge):
    """Each is answered, by what it asked for or by a refusal that says when to come again."""
    controller = start(tmp_path, bridge)
    host, port = controller.url[len("http://") :].split(":")

    def change(number):
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
        try:
            connection.request("PUT", "/v1/vms/tap0", b'{"weight": 2}', {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.getheader("Retry-After")
        finally:
            connection.close()

    try:
        wait_for(lambda: known(controller, "tap0"), controller.log)
        with concurrent.futures.ThreadPoolExecutor(150) as pool:
            answers = list(pool.map(change, range(300)))
        assert {status for status, _, _ in answers} <= {200, 404, 409, 503}
        for status, body, again in answers:
            assert status == 200 or body["error"]
            assert status != 503 or int(again) >= 1
        refused = [body["error"] for status, body, _ in answers if "of this address are open" in body.get("error", "")]
        assert len(refused) < len(answers)
        assert "Traceback" not in controller.log()
    finally:
        controller.stop()


@needs_ovsdb
@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_slow_clients_keep_nobody_from_being_served(tmp_path, bridge, database, framework):
    controller = Controller(
        tmp_path, framework, poll_hypervisors="true", period_us=100_000, ovsdb=database.remote
    )
    bridge.connect(controller.address)
    slow = []
    try:
        wait_for(lambda: known(controller, "neutron-0"), controller.log)
        # A body that does not come: other changes go on.
        trickling = dial(controller)
        slow.append(trickling)
        trickling.sendall(head(20) + b'{"we')
        wait_for(lambda: controller.get("/v1/status")["rest_connections"]["body"] == 1, controller.log)
        assert controller.put("/v1/vms/neutron-0", {"weight": 5})["stored"]["weight"] == 5
        # Three hundred heads that do not come, without a token: whoever asks is answered, after a moment.
        for _ in range(300):
            slow.append(dial(controller))
            slow[-1].sendall(b"G")
        for path in ("/v1/status", "/metrics"):
            wait_for(lambda path=path: answered(controller, path) == 200, controller.log)
        status = controller.get("/v1/status")
        counters = status["counters"]
        assert counters["rest_connections_displaced"] + counters["rest_connections_refused"] >= (
            300 - connections.PEER_CONNECTIONS_MAX
        )
        assert sum(status["rest_connections"].values()) <= connections.PEER_CONNECTIONS_MAX
        assert "Traceback" not in controller.log()
    finally:
        for one in slow:
            one.close()
        controller.stop()


def test_a_body_that_comes_too_late_or_too_long_is_refused(tmp_path, bridge):
    controller = start(tmp_path, bridge)
    try:
        wait_for(lambda: known(controller, "tap0"), controller.log)
        with dial(controller) as late, dial(controller) as long:
            long.sendall(head(5000))
            assert long.makefile("rb").readline().split()[1] == b"413"  # before any of it
            late.sendall(head(20) + b"{")
            assert late.makefile("rb").readline().split()[1] == b"408"
        assert controller.get("/v1/status")["counters"]["rest_body_timeouts"] == 1
        assert "Traceback" not in controller.log()
    finally:
        controller.stop()


@needs_ovsdb
def test_a_hung_hypervisor_database_is_seen_and_delays_no_other(tmp_path, bridge, database):
    (tmp_path / "other").mkdir()
    other = Database(tmp_path / "other")
    other.vsctl("set", "bridge", "br0", "datapath_id=00000000000000a2")
    other.vsctl("set", "interface", "tap0", "external_ids:iface-id=neutron-a2")
    audit = tmp_path / "audit"
    controller = start(tmp_path, bridge, ovsdb=f"{database.remote},{other.remote}", audit_file=audit)
    try:
        wait_for(lambda: known(controller, "neutron-0") and controller.get("/v1/status")["ready"], controller.log)
        other.hang()
        said = wait_for(lambda: controller.get("/v1/status")["not_ready"], controller.log)
        assert said == [f"hypervisor database hung: {other.remote}"]
        status = controller.get("/v1/status")
        assert not status["ready"]
        assert [one["state"] for one in status["databases"]] == ["connected", "hung"]
        with ask(controller, "/metrics") as answer:
            text = answer.read().decode()
        assert f'sdngcc_database_state{{database="{other.remote}",kind="hypervisor",state="hung"}} 1.0' in text
        assert "sdngcc_ready 0.0" in text
        assert controller.put("/v1/vms/neutron-0", {"weight": 7})["stored"]["weight"] == 7
        database.hang()
        refusal = controller.put("/v1/vms/neutron-0", {"weight": 9})
        assert "nothing was sent" in refusal["error"]
        for one in (database, other):
            one.resume()
        wait_for(lambda: controller.get("/v1/status")["ready"], controller.log)
        assert controller.put("/v1/vms/neutron-0", {"max": 9_000_000})["stored"]["weight"] == 7
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        assert [one["result"] for one in records] == ["stored", "refused", "stored"]
        [line] = [one for one in controller.log().splitlines() if f"hypervisor database {other.remote}: hung" in one]
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z ERROR sdngcc\.controller\.databases\.health: ", line), line
    finally:
        other.stop()
        controller.stop()



@needs_ovsdb
def test_many_changes_reach_each_database_that_answers(tmp_path, bridge, database):
    (tmp_path / "other").mkdir()
    other = Database(tmp_path / "other")
    other.vsctl("set", "bridge", "br0", "datapath_id=00000000000000a2")
    other.vsctl("set", "interface", "tap0", "external_ids:iface-id=neutron-a2")
    controller = start(tmp_path, bridge, ovsdb=f"{other.remote},{database.remote}")
    far = WireSwitch(0xA2, {1: b"tap0"})
    far.vms = {1: vm_reading(1, 0)}
    try:
        far.connect(controller.address)
        wait_for(lambda: known(controller, "neutron-0") and known(controller, "neutron-a2"), controller.log)
        wait_for(lambda: controller.get("/v1/status")["ready"], controller.log)
        client = RestClient(controller.url)
        changes = [{"vm": "neutron-a2", "weight": 3}, {"vm": "neutron-0", "law": "eyeq"}, {"vm": "tap1", "weight": 3}]
        assert client.vms_change(changes)["stored"] == 3
        assert database.vsctl("get", "interface", "tap0", "other_config:shim-law").strip() == "eyeq"
        other.hang()
        answer = client.vms_change([{**one, "weight": 4} for one in changes])
        assert [(one["result"], one["status"]) for one in answer["results"]] == [
            ("refused", 503), ("stored", 200), ("stored", 200),
        ]  # fmt: skip
        assert "nothing was sent" in answer["results"][0]["error"]
        other.resume()
        assert client.vm_reset("neutron-0")["stored"] == dict.fromkeys(("weight", "min", "max", "law"))
        assert database.vsctl("get", "interface", "tap0", "other_config").strip() == "{}"
    finally:
        far.close()
        other.stop()
        controller.stop()
