# SPDX-License-Identifier: Apache-2.0
"""Instructions a packet: rows and their judging, and in Debian's own kernel that no change makes a packet dearer."""

import json
from pathlib import Path
from typing import Any

import pytest

from sdngcc.testbed.instructions.__main__ import InstructionsError, judge, measure
from sdngcc.testbed.instructions.build import Machine, machine
from sdngcc.testbed.instructions.rows import CASES, CEILINGS, STOCK, choose


def test_each_row_has_a_base_of_the_same_load_and_packets() -> None:
    for case in CASES.values():
        if case.base:
            base = CASES[case.base]
            assert (base.load, base.packet, base.variant, base.base) == (case.load, case.packet, STOCK, "")
            assert (base.row.destinations, base.row.gso) == (case.row.destinations, case.row.gso)


def test_a_row_is_measured_behind_its_base() -> None:
    assert [case.name for case in choose(["eyeq-received", "meter"])] == ["stock", "stock-received", "meter",
                                                                          "eyeq-received"]
    with pytest.raises(KeyError, match="warp"):
        choose(["sdngcc", "warp"])


def test_packets_are_judged_by_what_is_above_and_streams_by_their_speed() -> None:
    entries = {entry["row"]: entry for entry in judge({
        "stock": 1000.0, "sdngcc": 1120.0, "eyeq": 1201.0, "meter": 1160.0, "stock-stream": 100.0,
        "sdngcc-stream": 103.0, "eyeq-stream": 104.0})}
    assert [entries[name].get("holds") for name in ("stock", "sdngcc", "eyeq", "meter", "sdngcc-stream", "eyeq-stream")
            ] == [None, True, False, None, True, False]
    assert entries["meter"]["above"] == 160


def test_a_machine_that_says_nothing_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    nowhere = tmp_path / "x"
    nowhere.write_bytes(b"")
    built = Machine("0", nowhere, [], [], [], [], [], nowhere)
    monkeypatch.setattr("sdngcc.testbed.instructions.__main__.PROGRAM", "true")
    with pytest.raises(InstructionsError, match="did not end"):
        measure(built, choose(["stock"]), tmp_path)


@pytest.mark.uml
@pytest.mark.slow
def test_no_row_costs_more_than_its_ceiling(tmp_path: Path) -> None:
    found = measure(machine(), choose(list(CEILINGS)), tmp_path)
    above = {entry["row"]: entry["above"] for entry in judge(found) if "above" in entry}
    assert all(above[name] <= ceiling for name, ceiling in CEILINGS.items()), json.dumps(above)
