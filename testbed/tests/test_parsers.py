# SPDX-License-Identifier: Apache-2.0
"""The programs that fuzz parsers in Python: the same inputs with each change, and how far they reach."""

import re
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest

from sdngcc.testbed.fuzz import parsers
from sdngcc.testbed.fuzz.parsers import PROGRAMS, File, Program

#: Inputs of each program: a second or two of a processor, with their seeds.
RUNS = {"openflow": 3000, "wire": 5000, "sflow": 20_000, "sflow-rt": 400, "sonic": 200, "otlp": 1500, "rest": 400,
        "databases": 1500, "files": 800, "tracker": 10_000, "client": 300}

#: Part of the lines of a program's parsers that these reach at least; docs/reliability.md names the rest.
REACHED = 0.95


@pytest.mark.parametrize("program", PROGRAMS, ids=[one.name for one in PROGRAMS])
def test_nothing_is_found_and_the_parsers_are_reached(tmp_path: Path, program: Program) -> None:
    pytest.importorskip("atheris")
    inputs = tmp_path / program.name
    found, words = parsers.fuzz(program, inputs, [f"-runs={RUNS[program.name]}", "-seed=1"])
    done = re.search(r"^Done (\d+) runs", words)
    assert not found and done and int(done[1]) >= RUNS[program.name], words  # libFuzzer may do some more
    lines = parsers.reached(program, inputs)
    total, missed = sum(one.total for one in lines), sum(len(one.missed) for one in lines)
    assert total and missed <= (1 - REACHED) * total, parsers.report(lines)


@pytest.mark.release
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", PROGRAMS, ids=[one.name for one in PROGRAMS])
def test_nothing_is_found_in_ten_minutes(tmp_path: Path, program: Program) -> None:
    pytest.importorskip("atheris")
    found, words = parsers.fuzz(program, tmp_path / program.name, ["-max_total_time=600"])
    assert not found, words


def test_lines_that_count(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\n\n\nclass A:\n    @property\n    def one(self):\n        return 1\n\n\n"
                                   "def two():\n    return 2\n")
    assert parsers.parsing(File("a.py", only=("A.one", "two")), tmp_path) == {5, 6, 7, 10, 11}
    assert parsers.parsing(File("a.py", without=("A",)), tmp_path) == {1, 2, 3, 8, 9, 10, 11}
    with pytest.raises(KeyError, match="three"):
        parsers.parsing(File("a.py", without=("three",)), tmp_path)


def rest_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.rest import vms

    monkeypatch.setattr(vms, "show", lambda *_: 1 // 0)


def rest_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what a change is refused for be stored all the same."""
    from sdngcc.controller.rest import changes
    from sdngcc.controller.tests.rest.rest_bench import FakePolicy

    check = changes.BridgeChange._check

    def late(self: Any) -> None:
        FakePolicy.write(self._context.policy, self._dpid, {one.vm.name: one.changes for one in self._wanted}, bool)
        check(self)

    monkeypatch.setattr(changes.BridgeChange, "_check", late)


def rest_admits(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.settings.rest import Role

    monkeypatch.setattr(Role, "includes", lambda *_: True)


def sonic_invents(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.sources import sonic

    monkeypatch.setattr(sonic, "difference", lambda before, now: now + 1)


def otlp_shifts(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.otlp import metrics

    monkeypatch.setattr(metrics, "_value", lambda *_: 1 << 64)


def wire_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.wire import message

    monkeypatch.setattr(message, "siphash24", lambda *_: 0)


def node_is_unprintable(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.databases import introduction

    monkeypatch.setattr(introduction, "system_name", lambda row, ids: ids.get("system-id") or row)


def number_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.databases import stored

    monkeypatch.setattr(stored, "_number", lambda text: int(text) if text and text.isdecimal() else None)


def yaml_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    from sdngcc import configuration

    monkeypatch.setattr(configuration, "_read_yaml", yaml.safe_load)


def client_is_led(monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.request

    from sdngcc import rest

    monkeypatch.setattr(rest, "_NoRedirect", urllib.request.HTTPRedirectHandler)


def client_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc import rest

    monkeypatch.setattr(rest, "printable", lambda text: text)


def rates_have_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdngcc.controller.sources import origin

    monkeypatch.setattr(origin, "ERROR_MAX", 1 << 20)


BROKEN: List[Tuple[str, Callable[[pytest.MonkeyPatch], None]]] = [
    ("controller.tests.rest.fuzz_rest", rest_breaks), ("controller.tests.rest.fuzz_rest", rest_moves),
    ("controller.tests.rest.fuzz_rest", rest_admits), ("controller.tests.sources.fuzz_sonic", sonic_invents),
    ("controller.tests.otlp.fuzz_otlp", otlp_shifts), ("controller.tests.wire.fuzz_wire", wire_trusts),
    ("controller.tests.databases.fuzz_databases", node_is_unprintable),
    ("controller.tests.databases.fuzz_databases", number_has_no_end), ("controller.tests.fuzz_files", yaml_raises),
    ("tests.fuzz_rest_client", client_is_led), ("tests.fuzz_rest_client", client_prints),
    ("controller.tests.sources.fuzz_sflow_rt", rates_have_no_end),
]  # fmt: skip


@pytest.mark.parametrize("module, breaking", BROKEN, ids=[breaking.__name__ for _, breaking in BROKEN])
def test_what_is_broken_is_seen_in_the_seeds(
    monkeypatch: pytest.MonkeyPatch, module: str, breaking: Callable[[pytest.MonkeyPatch], None]
) -> None:
    pytest.importorskip("atheris")
    import importlib

    program = importlib.import_module(f"sdngcc.{module}")
    breaking(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017  # whatever the parser, or a check of the program, raises
        for seed in program.SEEDS:
            program.take(seed)
