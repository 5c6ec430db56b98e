# SPDX-License-Identifier: Apache-2.0
"""The event stream."""

import collections
import json
import threading

import pytest

from sdngcc.controller.network.directory import CloudPort
from sdngcc.controller.rest import event_models, events
from sdngcc.controller.rest.events import Broker

from ..fabric import vm_reading
from ..processes import PATIENCE_S, Turns, wait_for
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
    client = bench.reporter.join(last_id, abort)
    assert next(client).startswith(b"retry: ")
    return client, take(client)


def take(client):
    """Return the events that a client has for whoever reads from it."""
    data = b""
    while client._ready or not client._queue.empty():
        piece = next(client)
        assert len(piece) < 1 << 17
        data += piece
    assert not data or data.endswith(b"\n\n")
    return [parse(chunk) for chunk in data.split(b"\n\n")[:-1]]


def test_a_newcomer_sees_everything_then_what_changes(bench):
    client, greeting = listen(bench)
    assert [(kind, data["full"]) for kind, _, data in greeting] == [("vms", True), ("ports", True)]
    assert len(greeting[0][2]["vms"]) == 5 and len(greeting[1][2]["ports"]) == 16
    for _ in range(3):  # what moves is known from the second sample on
        take(client)
        bench.reporter.tick()
        bench.fabric.run(1.0)
    assert take(client) == []
    bench.fabric.switches[H1].vms[2] = vm_reading(2, 1_000_000, weight=2)
    bench.fabric.run(1.0)
    bench.reporter.tick()
    [(kind, _, data)] = take(client)
    assert kind == "vms" and not data["full"]
    [row] = data["vms"]
    assert row["id"] == "neutron-1" and row["sent_bps"] == 8_000_000 and row["weight"] == 2


def test_rows_bear_what_the_cloud_calls_a_machine(bench):
    client, _ = listen(bench)
    bench.reporter.tick()
    take(client)
    port = CloudPort("neutron-1", "web", network="blue", network_id="net-1", tenant="project-1")
    bench.engine.directory.take("ovn", port)
    bench.reporter.tick()
    [(_, _, data)] = take(client)
    [row] = data["vms"]
    assert (row["id"], row["cloud_name"], row["network"], row["tenant"]) == ("neutron-1", "web", "blue", "project-1")
    bench.engine.directory.take("ovn", port._replace(name="", network=""))
    bench.reporter.tick()
    [row] = take(client)[0][2]["vms"]
    assert (row["cloud_name"], row["network"]) == (None, "net-1")
    bench.engine.directory.take("neutron", CloudPort("neutron-1", server="db-1"))
    bench.reporter.tick()
    [row] = take(client)[0][2]["vms"]
    assert row["cloud_name"] == "db-1"


def crowd(bench, ports=range(100, 400)):
    """Let there be many machines at one switch."""
    bench.fabric.plug(H1, *ports)
    for port in ports:
        bench.fabric.switches[H1].vms[port] = vm_reading(port)
    bench.fabric.run(1.0)


def test_rows_are_made_a_few_at_a_time(bench, monkeypatch):
    """So that 20,000 machines delay no poll, neither when somebody begins to listen nor afterwards."""
    crowd(bench)
    made = collections.Counter()  # by how often others had their turn before
    for name in ("VmRow", "PortRow", "VmNotices"):
        kind = getattr(event_models, name)
        monkeypatch.setattr(event_models, name, lambda kind=kind, **values: made.update([len(bench.pauses)])
                            or kind(**values))  # fmt: skip
    client, greeting = listen(bench)
    assert len(greeting[0][2]["vms"]) == 305 and made.total() >= 305 + 16 and max(made.values()) <= 20
    for vm in bench.context.vms():
        vm.notices += 1
    made.clear()
    bench.reporter.tick()
    assert [len(data["notices"]) for kind, _, data in take(client) if kind == "notice"] == [305]
    assert made.total() >= 2 * 305 + 16 and max(made.values()) <= 20


def test_what_is_sent_is_as_documented(bench):
    crowd(bench)
    client, greeting = listen(bench)
    crowd(bench, range(50, 60))
    talk(bench.fabric, 11, 31)
    bench.reporter.tick()
    bench.fabric.switches[T2].add_marks(1, 12)
    bench.fabric.run(0.1)
    bench.reporter.tick()
    models = {"vms": event_models.VmsEvent, "ports": event_models.PortsEvent, "notice": event_models.NoticeEvent}
    told = [one for one in greeting + take(client) if one[0] != "switch"]
    assert {kind for kind, _, _ in told} == set(models)
    for kind, _, data in told:
        assert models[kind].model_validate(data, strict=True).model_dump() == data


def test_who_comes_while_rows_are_made_misses_nothing(bench):
    crowd(bench)
    bench.reporter._turn = turns = Turns()
    first = listen(bench)[0]
    entered, go_on = threading.Event(), threading.Event()

    def pause():
        if turns.came > before:
            entered.set()
            go_on.wait(PATIENCE_S)

    before = turns.came
    bench.context.pause = pause
    ticking = threading.Thread(target=bench.reporter.tick)
    ticking.start()
    wait_for(lambda: turns.came == before + 1 and entered.is_set(), str)
    found = []
    coming = threading.Thread(target=lambda: found.append(listen(bench)))
    coming.start()
    wait_for(lambda: turns.came == before + 2, str)
    bench.fabric.switches[H1].vms[399] = vm_reading(399, 1_000_000, weight=3)
    go_on.set()
    for thread in (ticking, coming):
        thread.join()
    bench.fabric.run(1.0)
    bench.reporter.tick()
    [(second, greeting)] = found
    rows = {row["place"]: row for row in greeting[0][2]["vms"]}
    for kind, _, data in take(second):
        if kind == "vms":
            rows.update((row["place"], row) for row in data["vms"])
    assert rows[f"{H1:016x}:399"]["weight"] == 3 and len(rows) == 305
    assert [data for kind, _, data in take(first) if kind == "vms"][-1]["vms"][-1] == rows[f"{H1:016x}:399"]


def test_a_fault_while_rows_are_made_keeps_nothing_from_those_who_listen(bench, monkeypatch):
    client, _ = listen(bench)
    bench.reporter.tick()
    take(client)
    bench.fabric.switches[H1].vms[2] = vm_reading(2, 1_000_000, weight=2)
    bench.fabric.run(1.0)
    with monkeypatch.context() as patched:
        patched.setattr(event_models, "PortRow", lambda **_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            bench.reporter.tick()
        patched.undo()
        kind, last = event_models.VmRow, f"{H1:016x}:2"
        patched.setattr(event_models, "VmRow", lambda **more: 1 // 0 if more["place"] > last else kind(**more))
        with pytest.raises(ZeroDivisionError):
            bench.reporter.tick()
    bench.reporter.tick()
    told = {row["place"]: row for kind, _, data in take(client) if kind == "vms" for row in data["vms"]}
    assert told[f"{H1:016x}:2"]["sent_bps"] == 8_000_000


def test_what_is_kept_for_those_who_come_back_has_its_bound(bench, monkeypatch):
    monkeypatch.setattr(events, "HISTORY_MAX_BYTES", 380)
    for _ in range(3):
        bench.broker.publish("notice", event_models.NoticeEvent(notices=[]))
    _, greeting = listen(bench, "7-1")
    assert [kind for kind, _, _ in greeting] == ["notice", "notice", "vms", "ports"]
    gap = event_models.GapEvent(last_event_id="x" * 300)
    bench.broker.publish("gap", gap)
    assert [one for one, _ in bench.broker._history] == [4]
    bench.broker.publish("gap", gap.model_copy(update={"last_event_id": "x" * 500}))
    assert not bench.broker._history
    _, greeting = listen(bench, "7-4")
    assert greeting[0][0] == "gap"
    _, greeting = listen(bench, "7-5")
    assert [kind for kind, _, _ in greeting] == ["vms", "ports"]


def test_congested_ports(bench):
    bench.reporter.tick()
    client, _ = listen(bench)
    bench.fabric.switches[T2].add_marks(1, 50)
    bench.fabric.run(0.5)
    bench.reporter.tick()
    rows = [row for kind, _, data in take(client) if kind == "ports" for row in data["ports"] if row["congested"]]
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
    for kind, _, data in take(client):
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
        assert len(take(quick)) == 1
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


def broker_of(clients_max, told):
    now = [0.0]
    counters = collections.Counter()
    broker = Broker(1, clients_max, counters, tell_cut=lambda peer, why: told.append((peer, why)), clock=lambda: now[0])
    return broker, now, counters


def test_one_address_has_a_quarter_of_the_streams():
    broker, _, _ = broker_of(32, [])
    assert [broker.join(None, [], lambda: None, "10.0.0.1") is not None for _ in range(9)] == [True] * 8 + [False]
    assert broker.join(None, [], lambda: None, "10.0.0.2")


def test_where_all_streams_are_taken_the_address_with_most_gives_one_to_a_newcomer():
    told, cut = [], []
    broker, _, counters = broker_of(16, told)
    for address in range(4):
        for _ in range(4):
            assert broker.join(None, [], lambda address=address: cut.append(address), f"10.0.0.{address}")
    for number in range(3):
        assert broker.join(None, [], lambda: None, f"10.0.1.{number}")
    assert len(cut) == 3 and len(set(cut)) == 3 and counters["event_clients_cut"] == 3 and len(broker.clients) == 16
    assert [why for _, why in told] == ["all streams are taken, and its address has most of them"] * 3
    assert broker.join(None, [], lambda: None, "10.0.0.0") is None or len(cut) == 4  # no more than one apart


def test_who_reads_nothing_of_what_waits_is_cut_off_by_name():
    told, cut = [], []
    broker, now, counters = broker_of(16, told)
    deaf = broker.join(None, [], lambda: cut.append("deaf"), "10.0.0.1")
    reads = broker.join(None, [], lambda: cut.append("reads"), "10.0.0.2")
    for second in range(12):
        now[0] = float(second)
        broker.publish_data("notice", [b"{}"])
        while reads.waiting:
            next(reads)
        broker.sweep()
    assert cut == ["deaf"] and deaf not in broker.clients and reads in broker.clients
    assert told == [("10.0.0.1", "it read nothing for 10 s, though events wait for it")]
    assert counters["event_clients_cut"] == 1


def test_who_has_nothing_to_read_stays():
    broker, now, _ = broker_of(16, [])
    idle = broker.join(None, [], lambda: None, "10.0.0.1")
    while idle.waiting:
        next(idle)
    now[0] = 1e6
    broker.sweep()
    assert idle in broker.clients


def test_a_controller_that_stops_ends_its_streams(bench):
    client, _ = listen(bench)
    bench.broker.close()
    assert list(client) == []
