# SPDX-License-Identifier: Apache-2.0
"""The event stream."""

import json

import pytest

from sdngcc.controller.network.directory import CloudPort
from sdngcc.controller.rest import event_models, events

from ..fabric import vm_reading
from ..test_engine import H1, H3, T2, talk
from .rest_bench import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def parse(chunk):
    """Return (kind, id, data) of an event."""
    fields = dict(line.split(": ", 1) for line in chunk.decode().splitlines() if line)
    return fields["event"], fields["id"], json.loads(fields["data"])


def listen(bench, last_id=None, abort=lambda: None):
    """Return a client and the events it is greeted with."""
    client = bench.broker.join(last_id, bench.reporter.snapshots(), abort)
    assert next(client).startswith(b"retry: ")
    greeting = [parse(chunk) for chunk in client._first]
    client._first.clear()
    return client, greeting


def drain(client):
    found = []
    while not client._queue.empty():
        found.append(parse(next(client)))
    return found


def test_a_newcomer_sees_everything_then_what_changes(bench):
    client, greeting = listen(bench)
    assert [(kind, data["full"]) for kind, _, data in greeting] == [("vms", True), ("ports", True)]
    assert len(greeting[0][2]["vms"]) == 5 and len(greeting[1][2]["ports"]) == 16
    for _ in range(3):  # what moves is known from the second sample on
        drain(client)
        bench.reporter.tick()
        bench.fabric.run(1.0)
    assert drain(client) == []
    bench.fabric.switches[H1].vms[2] = vm_reading(2, 1_000_000, weight=2)
    bench.fabric.run(1.0)
    bench.reporter.tick()
    [(kind, _, data)] = drain(client)
    assert kind == "vms" and not data["full"]
    [row] = data["vms"]
    assert row["id"] == "neutron-1" and row["sent_bps"] == 8_000_000 and row["weight"] == 2


def test_rows_bear_what_the_cloud_calls_a_machine(bench):
    client, _ = listen(bench)
    bench.reporter.tick()
    drain(client)
    port = CloudPort("neutron-1", "web", network="blue", network_id="net-1", tenant="project-1")
    bench.engine.directory.take("ovn", port)
    bench.reporter.tick()
    [(_, _, data)] = drain(client)
    [row] = data["vms"]
    assert (row["id"], row["cloud_name"], row["network"], row["tenant"]) == ("neutron-1", "web", "blue", "project-1")
    bench.engine.directory.take("ovn", port._replace(name="", network=""))
    bench.reporter.tick()
    [row] = drain(client)[0][2]["vms"]
    assert (row["cloud_name"], row["network"]) == (None, "net-1")


def test_congested_ports(bench):
    bench.reporter.tick()
    client, _ = listen(bench)
    bench.fabric.switches[T2].add_marks(1, 50)
    bench.fabric.run(0.5)
    bench.reporter.tick()
    rows = [row for kind, _, data in drain(client) if kind == "ports" for row in data["ports"] if row["congested"]]
    assert [(row["place"], row["marks_per_s"]) for row in rows] == [(f"{T2:016x}:1", 100.0)]


def test_notices_machines_that_go_switches_and_policy(bench):
    talk(bench.fabric, 11, 31)
    bench.reporter.tick()
    client, _ = listen(bench)
    bench.fabric.switches[T2].add_marks(1, 12)
    bench.fabric.run(0.1)
    bench.put({"weight": 7})
    bench.engine.switch_down(H3)
    bench.reporter.tick()
    told = {}
    for kind, _, data in drain(client):
        told.setdefault(kind, []).append(data)
    [notice] = told["notice"][0]["notices"]
    assert notice == {"place": f"{H1:016x}:2", "id": "neutron-1", "cloud_name": None, "messages": 1, "marks": 12}
    assert told["policy"][0]["who"] == "loopback" and told["policy"][0]["after"]["weight"] == 7
    assert told["switch"] == [{"switch": f"{H3:016x}", "connected": False}]
    assert f"{H3:016x}:2" in told["vms"][0]["gone"] and f"{H3:016x}:1" in told["ports"][0]["gone"]


def test_who_comes_back_gets_what_it_missed(bench):
    bench.reporter.tick()
    client, greeting = listen(bench)
    last = greeting[-1][1]
    client.close()
    bench.put({"weight": 7})
    _, greeting = listen(bench, last)
    assert [kind for kind, _, _ in greeting] == ["policy", "vms", "ports"]
    _, greeting = listen(bench, greeting[0][1])
    assert [kind for kind, _, _ in greeting] == ["vms", "ports"]


@pytest.mark.parametrize("last_id", ["6-1", "7-999999"])
def test_who_comes_back_to_another_controller_is_told_of_the_gap(bench, last_id):
    _, greeting = listen(bench, last_id)
    assert greeting[0][0] == "gap" and greeting[0][2] == {"last_event_id": last_id}


def test_what_is_no_longer_kept_is_a_gap(bench):
    bench.reporter.tick()
    _, greeting = listen(bench)
    for _ in range(events.HISTORY_MAX + 1):
        bench.broker.publish("notice", event_models.NoticeEvent(notices=[]))
    _, greeting = listen(bench, greeting[-1][1])
    assert greeting[0][0] == "gap"


def test_wrong_last_event_id(bench):
    answer = bench.get("/v1/events", **{"Last-Event-ID": "x"})
    assert answer.status_code == 422 and answer.json["field"] == "Last-Event-ID"


def test_a_slow_client_is_cut_off_and_the_others_go_on(bench):
    cut = []
    slow, _ = listen(bench, abort=lambda: cut.append(1))
    quick, _ = listen(bench)
    for _ in range(events.QUEUE_MAX + 1):
        bench.broker.publish("notice", event_models.NoticeEvent(notices=[]))
        assert len(drain(quick)) == 1
    assert cut == [1] and bench.broker.clients == {quick}
    assert bench.engine.counters["event_clients_cut"] == 1
    with pytest.raises(StopIteration):
        next(slow)


def test_silence_is_filled_with_comments(bench, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.01)
    client, _ = listen(bench)
    assert next(client).startswith(b":")


def test_clients_are_bounded(bench):
    clients = [listen(bench)[0] for _ in range(4)]
    answer = bench.get("/v1/events")
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "10"
    assert "rest_event_clients" in answer.json["error"]
    clients[0].close()
    assert len(bench.broker.clients) == 3
    assert bench.get("/v1/status").json["event_clients"] == 3


def test_a_controller_that_stops_ends_its_streams(bench):
    client, _ = listen(bench)
    bench.broker.close()
    assert list(client) == []
