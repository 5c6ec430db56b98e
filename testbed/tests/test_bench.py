# SPDX-License-Identifier: Apache-2.0
"""The datapath benchmark: its rows, what it makes of its samples, how two machines take turns."""

import io
import struct
from concurrent.futures import Future

import pytest
from click.testing import CliRunner
from rich.console import Console

from sdngcc.testbed.bench import datapath, datapath_vms
from sdngcc.testbed.bench.datapath_rows import AT_WORK, PACKETS, ROWS, VMS, choose
from sdngcc.testbed.machine import MachineError

LIMITER, IDLE = "limiter-1.4g", "idle"


def summary(samples):
    return {entry["row"]: entry for entry in datapath.summarize(samples)}


def test_ratios_are_taken_within_a_round():
    # The host slows down by half in the second round: rates differ, ratios do not.
    found = summary({LIMITER: [(1000.0, 980.0), (500.0, 490.0), (1000.0, 980.0)]})[LIMITER]
    assert found["ratio"] == found["ratio_low"] == found["ratio_high"] == 0.98 and found["error"] == 0.0
    assert (found["per_s"], found["unpatched_per_s"]) == (980, 1000)


def test_one_disturbed_round_moves_neither_median_nor_best():
    found = summary({LIMITER: [(1000.0, 990.0)] * 2 + [(1000.0, 100.0)] + [(1000.0, 990.0)] * 2})[LIMITER]
    assert (found["ratio"], found["ratio_best"], found["ratio_low"]) == (0.99, 0.99, 0.99)


def test_the_error_of_a_median_falls_with_the_rounds():
    pairs = [(1000.0, 900.0), (1000.0, 950.0), (1000.0, 1000.0)]
    few, many = (summary({LIMITER: pairs * times})[LIMITER] for times in (4, 400))
    assert few["ratio"] == many["ratio"] == 0.95 and (many["ratio_low"], many["ratio_high"]) == (0.9, 1.0)
    assert 0.0 < many["error"] == pytest.approx(few["error"] / 10, abs=1e-4)


def test_our_rows_are_judged_others_are_not():
    found = summary({IDLE: [(1000.0, 985.0)], LIMITER: [(1000.0, AT_WORK * 1000)], "htb": [(1000.0, 800.0)]})
    assert found[IDLE]["holds"] is False
    assert found[LIMITER]["holds"] is True
    assert "holds" not in found["htb"]


def test_every_row_of_ours_is_judged_or_is_a_piece_for_comparison():
    compared = {row.name for row in ROWS.values() if row.budget is None}
    assert compared == {"roles", "meter", "police", "htb", "stream-no-ecn", "stream-gso-cut"}
    assert all(row.patched for row in ROWS.values() if row.budget is not None)
    assert {row.vms for row in ROWS.values() if row.load == VMS} == {1, 1000, 100_000}


def test_rows_are_chosen_by_name_in_the_tables_order():
    assert [row.name for row in choose(["htb", "idle"])] == ["idle", "htb"]
    assert choose([]) == list(ROWS.values())
    refused = CliRunner().invoke(datapath.main, ["--rows", "idle,nonsense"])
    assert refused.exit_code == 2 and "unknown: nonsense" in refused.output


def test_help_tells_every_row_and_its_budget():
    told = CliRunner().invoke(datapath.main, ["--help"]).output
    assert all(f"  {row.name} " in told and row.what in told for row in ROWS.values())
    assert "one limiter of 1.4 Gb/s (0.95)" in told


def test_the_table_tells_what_does_not_hold():
    entries = datapath.summarize({IDLE: [(1000.0, 900.0)]})
    text = io.StringIO()
    Console(file=text, width=160).print(datapath.table(PACKETS, entries))
    assert "does not hold" in text.getvalue() and "0.900" in text.getvalue() and "more" not in text.getvalue()


def test_what_the_second_variant_costs_more_is_taken_within_a_round():
    """The host slows down, and both variants with it."""
    rounds = [(1000.0, 900.0, 880.0), (500.0, 400.0, 390.0), (1000.0, 950.0, 930.0)]
    patched, beside = datapath.summarize({IDLE: rounds}, (datapath.PATCHED, datapath.BESIDE))
    assert (patched["datapath"], patched["ratio"]) == ("patched", 0.9) and "more" not in patched
    assert (beside["datapath"], beside["ratio"], beside["more"], beside["more_error"]) == ("beside", 0.88, 0.02, 0.0)
    text = io.StringIO()
    Console(file=text, width=180).print(datapath.table(PACKETS, [patched, beside]))
    assert "0.020 +- 0.000" in text.getvalue()


def test_both_and_beside_exclude_each_other():
    refused = CliRunner().invoke(datapath.main, ["--both", "--beside", "--rows", "idle"])
    assert refused.exit_code == 2 and "--beside and --both exclude each other" in refused.output


def test_machines_measure_in_turn(tmp_path):
    """Each turn is given when the one before is over, the first one changing from round to round."""
    bench = datapath.Bench.__new__(datapath.Bench)
    bench.rounds, bench.work, bench.console, bench.datapaths = 2, tmp_path, None, ("ours",)
    for name in bench.machines:
        (tmp_path / name).mkdir()
    order, rates = [], {"unpatched": 1000.0, "ours": 900.0}

    def answer(path, running):
        name, index = path.parent.name, path.name.rsplit("-", 1)[1]
        turns = sorted(tmp_path.glob("*/turn-*"))
        assert len(turns) == len(order) + 1 and (path.parent / f"turn-vms-1-{index}") in turns
        order.append(name)
        path.write_text(str(rates[name]))

    bench.await_file = answer
    assert [bench.take_turns(ROWS["vms-1"], index, []) for index in range(2)] == [(1000.0, 900.0)] * 2
    assert order == ["unpatched", "ours", "ours", "unpatched"]


def test_a_machine_that_ends_is_not_waited_for(tmp_path):
    ended, failed = Future(), Future()
    ended.set_result(None)
    failed.set_exception(MachineError("no memory"))
    with pytest.raises(MachineError, match="ended before they wrote ready-vms-1"):
        datapath.Bench.await_file(tmp_path / "ready-vms-1", [ended])
    with pytest.raises(MachineError, match="no memory"):
        datapath.Bench.await_file(tmp_path / "ready-vms-1", [failed])


def test_vms_go_round_datapaths_that_have_room():
    places = list(datapath_vms.places(0, 100_000))
    assert places[0] == ("t0", 0, 2) and places[-1] == ("t99999", 1, 40_001)
    assert len({place[1:] for place in places}) == 100_000
    assert max(number for _, _, number in places) < 65_535


def test_requests_are_padded_to_four_bytes():
    assert datapath_vms.attribute(3, b"t0\0") == struct.pack("=HH", 7, 3) + b"t0\0\0"
    assert len(datapath_vms.port_body("t10", 5, 2)) % 4 == 0
