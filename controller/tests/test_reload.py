# SPDX-License-Identifier: Apache-2.0
"""Settings and files read again: all of it comes into force, or none."""

import json
import threading

import pytest

from sdngcc.controller import settings
from sdngcc.controller.engine import Engine
from sdngcc.controller.network import underlay
from sdngcc.controller.reload import KEPT, LIVE, Reloader
from sdngcc.controller.settings.files import check_files
from sdngcc.controller.settings.rest import Role, Token
from sdngcc.controller.wire import packets

from .processes import PATIENCE_S, Turns, wait_for
from .rest.rest_bench import Bench

OLD, NEW = bytes(range(16)), bytes(range(16, 32))
TOKEN, OTHER = "t" * 32, "u" * 32


class Files:
    """A settings file and what it names."""

    def __init__(self, folder):
        self.folder = folder
        self.write("key", OLD.hex())
        self.write("tokens", f"alice {TOKEN} admin\n")
        self.chosen = {"key_file": str(folder / "key"), "rest_token_file": str(folder / "tokens")}

    def write(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def load(self):
        path = self.write("controller.json", json.dumps(self.chosen))
        return settings.load(type(self.folder)(path), {})


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def make(files):
    """Return an engine and its reloader."""
    engine = Engine(files.load())
    return engine, Reloader(engine.settings, files.load, [engine.prepare])


def test_a_new_key_signs_from_then_on_and_links_are_known_by_both_meanwhile(files):
    engine, reloader = make(files)
    former = engine.discovery.key
    files.write("key", NEW.hex())
    files.chosen["key_other_file"] = files.write("other", OLD.hex())
    outcome = reloader.run("SIGHUP")
    assert (outcome.result, outcome.changed) == ("done", ("key_other_file",))
    assert engine.notifier.key == NEW and engine.discovery.key != former
    assert engine.discovery.other_key == former
    assert engine.settings.key_other_file == files.folder / "other"
    frame = packets.lldp_frame(1, 2, former)
    engine.discovery.heard(9, 1, frame, 0)
    assert packets.parse_lldp(frame, engine.discovery.key) is None
    del files.chosen["key_other_file"]
    assert reloader.run("SIGHUP").result == "done" and engine.discovery.other_key is None


@pytest.mark.parametrize("key", ["key_file", "key_other_file"])
def test_bad_files_leave_all_as_it_was(files, key, caplog):
    engine, reloader = make(files)
    before = engine.settings
    files.write("key", NEW.hex())
    files.chosen["rest_event_clients"] = 5
    files.chosen[key] = files.write("short", "abcd")
    outcome = reloader.run("alice")
    assert outcome.result == "failed" and "32 hex digits" in outcome.error and "abcd" not in outcome.error
    assert engine.notifier.key == OLD and engine.settings is before and reloader.current is before
    assert "reload by alice failed, all stays as it was" in caplog.text
    assert reloader.counts == {"done": 0, "failed": 1}


def test_a_part_that_refuses_keeps_the_others_from_changing(files):
    engine = Engine(files.load())

    def refuse(chosen):
        raise settings.SettingsError("no")

    reloader = Reloader(engine.settings, files.load, [engine.prepare, refuse])
    files.write("key", NEW.hex())
    assert reloader.run("x").error == "no" and engine.notifier.key == OLD


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"period": 3}, "unknown key"),
        ({"period_us": 3}, "period_us"),
        ({"audit_file": "/nowhere/audit"}, "audit_file"),
        ({"rest_token_file": "/nowhere"}, "rest_token_file"),
        ({"openflow_tls_key": "/nowhere"}, "openflow_tls"),
    ],
)
def test_settings_that_cannot_be_used_change_nothing(files, change, fault):
    engine, reloader = make(files)
    files.chosen.update({"rest_event_clients": 7, **change})
    outcome = reloader.run("SIGHUP")
    assert outcome.result == "failed" and fault in outcome.error
    assert engine.settings.rest_event_clients == 32


def test_what_needs_a_restart_is_named_and_stays(files, caplog):
    engine, reloader = make(files)
    files.chosen.update(period_us=10_000, sender_id=3, rest_event_clients=7)
    del files.chosen["rest_token_file"]
    outcome = reloader.run("SIGHUP")
    assert outcome.result == "done" and outcome.changed == ("rest_event_clients",)
    assert set(reloader.restart_needed) == {"period_us", "sender_id", "rest_token_file"}
    assert engine.settings.period_us == 5000 and engine.settings.rest_token_file is not None
    assert "change with a restart only" in caplog.text and "period_us" in caplog.text
    files.chosen.update(period_us=5000, sender_id=1, rest_token_file=str(files.folder / "tokens"))
    assert reloader.run("SIGHUP").changed == () and reloader.restart_needed == ()


def test_who_asks_while_others_reload_waits_for_them(files):
    """Else the one that began first could put older settings into force over newer ones."""
    turns, go_on, inside = Turns(), threading.Event(), []

    def check(chosen):
        inside.append(chosen.rest_event_clients)
        go_on.wait(PATIENCE_S)

    engine = Engine(files.load())
    reloader = Reloader(engine.settings, files.load, [engine.prepare], check, turns)
    threads = []
    for clients in (7, 8):
        files.chosen["rest_event_clients"] = clients
        threads.append(threading.Thread(target=reloader.run, args=(f"who wants {clients}",)))
        threads[-1].start()
        wait_for(lambda: turns.came == len(threads) and inside, str)
    assert inside == [7]
    go_on.set()
    for thread in threads:
        thread.join()
    assert inside == [7, 8] and engine.settings.rest_event_clients == 8


def test_the_file_beneath_is_tried_as_the_caller_wants_and_others_run_between_two_files(files, monkeypatch):
    files.chosen.update(forwarding="none", underlay_file=files.write("underlay.json", "{}"))
    engine, tried, turns = Engine(files.load()), [], []
    monkeypatch.setattr(underlay, "read", lambda path: pytest.fail("it was read in this process"))

    def refuse(path):
        tried.append(path)
        raise settings.SettingsError("underlay_file: no")

    def check(chosen):
        check_files(chosen, refuse, lambda: turns.append(1))

    reloader = Reloader(engine.settings, files.load, [engine.prepare], check)
    assert reloader.run("SIGHUP").error == "underlay_file: no"
    assert tried == [files.folder / "underlay.json"] and len(turns) > 10


def test_a_file_of_settings_that_is_gone_is_told(files):
    engine, reloader = make(files)
    reloader._load = lambda: settings.load(files.folder / "gone.yaml", {})
    assert "gone.yaml" in reloader.run("SIGHUP").error


def test_what_is_live_are_settings():
    assert LIVE <= set(settings.Settings.model_fields) and KEPT <= LIVE


def test_rest_reads_again_for_admins_only_and_shows_what_came_of_it(tmp_path, files):
    bench = Bench(tmp_path, {"alice": Token(TOKEN, Role.ADMIN), "bob": OTHER}, audit_file=tmp_path / "audit")
    bench.context.reloader = reloader = Reloader(files.load(), files.load, [bench.engine.prepare])

    def post(token):
        return bench.client.simulate_post("/v1/reload", headers={"Authorization": f"Bearer {token}"})

    def get(path):
        return bench.get(path, Authorization=f"Bearer {OTHER}")

    answer = post(OTHER)
    assert answer.status_code == 403 and "needs admin" in answer.json["error"] and reloader.last is None
    assert get("/v1/status").json["reload"] == {"done": 0, "failed": 0, "last": None, "restart_needed": []}
    files.chosen["period_us"] = 7000
    answer = post(TOKEN)
    assert answer.status_code == 200 and answer.json["restart_needed"] == ["period_us"]
    files.write("key", "none")
    answer = post(TOKEN)
    assert answer.status_code == 409 and "32 hex digits" in answer.json["error"]
    state = get("/v1/status").json["reload"]
    assert (state["done"], state["failed"], state["last"]["by"]) == (1, 1, "alice")
    assert state["last"]["result"] == "failed" and "key_file" in state["last"]["error"]
    metrics = get("/metrics").text
    for line in (
        'sdngcc_reloads_total{result="done"} 1.0', 'sdngcc_reloads_total{result="failed"} 1.0',
        "sdngcc_last_reload_successful 0.0", "sdngcc_settings_restart_needed 1.0",
    ):  # fmt: skip
        assert line in metrics
    records = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(one["who"], one["action"], one["result"]) for one in records] == [
        ("alice", "reload", "done"), ("alice", "reload", "refused"),
    ]  # fmt: skip
