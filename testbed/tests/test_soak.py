# SPDX-License-Identifier: Apache-2.0
"""The soak: what its judge lets pass and what not, a short one, and leaks that are planted and must be found."""

import copy
import json
import random
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Callable, Counter, Dict, List

import pytest

from sdngcc.controller import engine, settings
from sdngcc.controller.framework import launcher
from sdngcc.controller.rest import audit, events
from sdngcc.testbed.build import build
from sdngcc.testbed.soak import __main__ as command
from sdngcc.testbed.soak import controller, guest, readings
from sdngcc.testbed.soak import run as runs
from sdngcc.testbed.soak.judge import LIFE_WARM_UP, NEVER, Row, judge, slope
from sdngcc.testbed.soak.run import Plan, make_plan, soak, table
from sdngcc.testbed.tests.planted import plant

CYCLES, CHANGES = 24, 1000
#: Cycles of 90 s, for tests.
SHORT = Plan(6, 90.0, 4000)

#: What is planted where a VM's memory is given back: 32 bytes that nobody frees.
FREED, LEAK = "\tshim_free_rcu(vm, rcu);\n", "\t(void)shim_alloc_now(32);\n"


def rows() -> List[Row]:
    """Return rows of a soak that ends as it began; processes begin anew in the middle, and all wanders a little."""
    chance = random.Random(1)
    found = []
    for cycle in range(1, CYCLES + 1):
        anew = cycle > CYCLES // 2
        found.append({
            "cycle": cycle, "law": "sdngcc", "fault": "none", "jain": 0.9999, "share_error": 0.01, "utilisation": 0.95,
            "fell": [], "devices": 23, "faulty_lines": {"controller": []}, "counters": dict.fromkeys(NEVER, 0),
            "memory_kb": {"SUnreclaim": 6700 + chance.randrange(80), "MemAvailable": 1880000 + chance.randrange(4000),
                          "Shmem": 100, "KernelStack": 624, "PageTables": 770, "VmallocUsed": 480, "Percpu": 96},
            "processes": {"controller": {"pid": 200 + anew, "rss_kb": 103000 + 900 * anew + chance.randrange(60),
                                         "threads": 1, "files": {"tcp": 5, "netlink 16": 1}},
                          "ovs-vswitchd": {"pid": 46, "rss_kb": 10460, "threads": 4,
                                           "files": {"pipe": 16, "unix": 14, "netlink 16": 2}},
                          "ovsdb-server": {"pid": 42, "rss_kb": 6924, "threads": 1, "files": {"unix": 18}}}})
    return found


def failed(changed: List[Row]) -> List[str]:
    """Return the names of what does not pass."""
    return [verdict.name for verdict in judge(changed, CYCLES, CHANGES) if not verdict.passed]


def test_what_ends_as_it_began_passes() -> None:
    assert failed(rows()) == []


def test_a_process_that_lives_for_long_may_find_its_size_first() -> None:
    grown, leaking = rows(), rows()
    for row, other in zip(grown, leaking):
        age = row["cycle"] - CYCLES // 2  # of the controller's second life
        row["processes"]["controller"]["rss_kb"] = 103000 + 300 * max(0, min(age, LIFE_WARM_UP + 1))
        other["processes"]["controller"] |= {"pid": 200, "rss_kb": 103000 + 100 * other["cycle"]}
    assert failed(grown) == []
    assert failed(leaking) == ["resident memory of controller"]


def test_the_controller_ends_once() -> None:
    faults = [guest.fault_of(cycle) for cycle in range(1, 25)]
    assert faults.count("controller") == 1 and faults.count("module") == 6 and faults.count("ovsdb-server") == 3


def _leak_slab(row: Row) -> None:
    row["memory_kb"]["SUnreclaim"] += row["cycle"] * 32 * CHANGES // 1024


def _leak_controller(row: Row) -> None:
    row["processes"]["controller"]["rss_kb"] += 100 * row["cycle"]


def _leak_file(row: Row) -> None:
    row["processes"]["ovs-vswitchd"]["files"]["unix"] += row["cycle"] > 9


def _exchange_files(row: Row) -> None:
    files = row["processes"]["ovs-vswitchd"]["files"]
    files["unix"], files["pipe"] = files["unix"] + (row["cycle"] > 9), files["pipe"] - (row["cycle"] > 9)


def _less_available(row: Row) -> None:
    row["memory_kb"]["MemAvailable"] -= 1500 * row["cycle"]


def _drift(row: Row) -> None:
    row["jain"] -= 0.001 * row["cycle"]


def _mistake(row: Row) -> None:
    row["counters"]["drop_memory"] += row["cycle"] == 9


def _complaint(row: Row) -> None:
    row["faulty_lines"]["controller"] += ["Traceback"] if row["cycle"] == 9 else []


def _device(row: Row) -> None:
    row["devices"] += row["cycle"] > 9


def _fall(row: Row) -> None:
    row["fell"] += ["hv1-vm1:tx_bytes"] if row["cycle"] == 9 else []


@pytest.mark.parametrize("change, name", [
    (_leak_slab, "unreclaimable slab"), (_leak_controller, "resident memory of controller"),
    (_leak_file, "files of ovs-vswitchd"), (_exchange_files, "files of ovs-vswitchd"),
    (_less_available, "memory available, and in tmpfs"),
    (_drift, "jain of the reference load, first to last"), (_mistake, "counters of mistakes"), (_complaint, "logs"),
    (_device, "network devices"), (_fall, "counters that fell")])
def test_what_does_not_is_told(change: Callable[[Row], None], name: str) -> None:
    changed = copy.deepcopy(rows())
    for row in changed:
        change(row)
    assert name in failed(changed)


def test_a_soak_that_was_cut_short_does_not_pass() -> None:
    assert failed(rows()[:-1]) == ["cycles"]
    assert failed([]) == ["cycles", "cycles after the warm-up"]


def test_an_interrupted_soak_tells_what_it_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(kernel: Path, job: Dict[str, Any], out: Path, *_: object, **__: object) -> None:
        out.mkdir()
        (out / "job.json").write_text(json.dumps(job))
        (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()[:5]))
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "run_job", interrupted)
    monkeypatch.setattr(runs, "soak_job", lambda plan, *_: {"soak": plan.__dict__})
    result = soak(make_plan(24), build_nothing(), tmp_path / "out")
    verdicts = {verdict["name"]: (verdict["passed"], verdict["seen"]) for verdict in result["verdicts"]}
    assert verdicts["cycles"] == (False, "5")
    assert verdicts["the machine, its kernel's log"] == (False, "it was interrupted")
    assert verdicts["resident memory of controller"][0] and verdicts["unreclaimable slab"][0]
    assert command.main(["--judge", "--out", str(tmp_path / "out")]) == 1
    assert command.main(["--judge", "--out", str(tmp_path)]) == 2


def test_open_files_are_told_by_kind() -> None:
    program = ("import os, socket, tempfile; t = tempfile.TemporaryFile(dir='/tmp'); a, b = socket.socketpair(); "
               "n = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); n.bind(('127.0.0.1', 0)); print(flush=True); "
               "os.read(0, 1)")
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == b"\n"
        found = readings.open_files(process.pid)
        process.stdin.close()
    assert found == {"/dev/null": 1, "pipe": 2, "temporary file": 1, "udp": 1, "unix": 2}


def test_what_a_soaks_controller_keeps_is_full_after_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "prepare", lambda: None)
    monkeypatch.setattr(launcher, "start", lambda *_: None)
    monkeypatch.setattr(settings, "load", lambda _: types.SimpleNamespace(read_key=lambda: None))
    for module, name in ((engine, "NAP_NS"), (events, "HISTORY_MAX"), (audit, "KEPT")):
        monkeypatch.setattr(module, name, getattr(module, name))
    controller.main()
    assert (events.HISTORY_MAX, audit.KEPT) == (controller.EVENTS, controller.RECORDS)
    assert audit.AuditLog(None, Counter()).records.maxlen == controller.RECORDS


def test_slopes_are_of_one_process() -> None:
    assert slope([(1, 100, 1), (2, 110, 1), (3, 50, 2), (4, 60, 2)]) == 10
    assert slope([(1, 100, 1), (2, 90, 2)]) is None


@pytest.mark.parametrize("hours, cycles, cycle_s", [(24, 24, 3600), (1, 6, 600), (0.2, 6, 120)])
def test_plans(hours: float, cycles: int, cycle_s: float) -> None:
    assert (make_plan(hours).cycles, make_plan(hours).cycle_s) == (cycles, pytest.approx(cycle_s))


def test_hours_out_of_range_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--hours", "0.05"])
    assert "allowed is 0.1 to 1000" in capsys.readouterr().err


def build_nothing() -> Any:
    """Return artifacts of which only the kernel's path is looked at."""
    return types.SimpleNamespace(kernel=Path("linux"))


def unfit(result: Dict[str, Any]) -> List[str]:
    """Print a soak's table; return the names of what did not pass."""
    print(table(result))
    return [verdict["name"] for verdict in result["verdicts"] if not verdict["passed"]]


@pytest.mark.release
@pytest.mark.uml
@pytest.mark.timeout(1800)
def test_a_short_soak_ends_as_it_began(tmp_path: Path) -> None:
    assert unfit(soak(SHORT, build(), tmp_path)) == []


@pytest.mark.release
@pytest.mark.uml
@pytest.mark.timeout(1800)
def test_32_bytes_lost_with_each_vm_are_found(tmp_path: Path) -> None:
    artifacts = build()
    module = plant(artifacts, tmp_path / "source", "core/engine/vm.c", FREED, LEAK + FREED)

    def load(job: Dict[str, Any]) -> None:
        job["modules"][-1] = module

    assert unfit(soak(SHORT, artifacts, tmp_path / "out", change=load)) == ["unreclaimable slab"]


@pytest.mark.release
@pytest.mark.uml
@pytest.mark.timeout(1800)
def test_16_kilobytes_that_the_controller_keeps_of_each_vm_are_found(tmp_path: Path) -> None:
    def load(job: Dict[str, Any]) -> None:
        job["controller"]["program"] = ["sdngcc.testbed.tests.leaky_controller"]

    assert unfit(soak(SHORT, build(), tmp_path, change=load)) == ["resident memory of controller"]
