# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the papers' clusters and the tournament: what they send, how they judge, and the command for all."""

import io
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sdngcc.testbed.simulation import everything, tenants, validate
from sdngcc.testbed.simulation.fabric import Vm, leaf_spine
from sdngcc.testbed.simulation.options import Options
from sdngcc.testbed.simulation.packets import Bulk, Call, Simulation, Stream, run, table
from sdngcc.testbed.simulation.scenarios import (
    SCENARIOS,
    eyeq_memcached,
    eyeq_shuffle,
    seawall_racks,
    tournament_size,
)

SECOND = 10**9


def holds(verdicts):
    return {verdict.name: verdict.holds for verdict in verdicts}


@pytest.mark.parametrize("name", ["eyeq-shuffle", "eyeq-memcached", "seawall-racks", "tournament-size"])
def test_scenarios_of_packets_refuse_the_model_of_rates(name):
    with pytest.raises(tenants.ParameterError, match="model=packets"):
        SCENARIOS[name].works(["model=fluid"])


# EyeQ's shuffle


def test_jobs_of_a_shuffle_move_the_same_bytes_between_all_pairs():
    flows = eyeq_shuffle.transfers(eyeq_shuffle.Parameters(servers=4, line_ms=12), 1)
    assert len(flows) == 12 * 7
    for job, count in enumerate((1, 2, 4)):
        mine = [flow for flow in flows if flow.vm % 3 == job]
        assert len(mine) == 12 * count and all(flow.to % 3 == job and flow.vm != flow.to for flow in mine)
        assert sum(flow.size for flow in mine if flow.vm // 3 == 0) == pytest.approx(10e9 / 8 * 0.012, rel=1e-3)


def test_ideal_ends_of_jobs_are_those_of_weighted_shares():
    payload = eyeq_shuffle.TCP_PAYLOAD
    # The heaviest has 4/7 of the line until it ends; all together take three times what one takes.
    assert eyeq_shuffle.ideal("none")["P4"] == pytest.approx(7 / 4 / payload)
    assert eyeq_shuffle.ideal("none")["P1"] == pytest.approx(3 / payload)
    assert eyeq_shuffle.ideal("eyeq")["P1"] == pytest.approx(7 / 4 / payload / 0.9)


def shuffle_run(law, *done):
    return f"law={law}", {"parameters": {"law": law}, "measured": {"done": dict(zip(("P1", "P2", "P4"), done))}}


def test_a_shuffle_off_its_ideal_does_not_hold():
    bare, good = shuffle_run("none", 3.3, 2.9, 2.0), shuffle_run("eyeq", 2.1, 3.0, 3.6)
    assert all(holds(eyeq_shuffle.judge([bare, good])).values())
    for bad in ((3.6, 3.0, 2.1), (2.1, 3.0, 4.3), (2.1, 3.0, None)):
        assert not all(holds(eyeq_shuffle.judge([bare, shuffle_run("eyeq", *bad)])).values()), bad


# EyeQ's memcached


def test_memcached_asks_what_the_paper_tells():
    parameters = eyeq_memcached.Parameters(duration_ms=200)
    flows = eyeq_memcached.flows_of(parameters)
    calls = [flow for flow in flows if isinstance(flow, Call)]
    assert len(calls) == 480 and sum(1e9 / call.gap_ns for call in calls) == pytest.approx(288_000, rel=1e-3)
    bursts = [flow for flow in flows if isinstance(flow, Stream)]
    assert len(bursts) == 2 * 16 and sum(one.stop_ns - one.start_ns for one in bursts) == 16 * SECOND // 10
    for start in {one.start_ns for one in bursts}:
        assert len({one.to for one in bursts if one.start_ns == start}) == 16, "each receives from one"


def memcached_run(label, answered, p99, p999):
    law, load = label.split(", ")[0][4:], float(label.split("load ")[1].split("%")[0])
    return label, {"parameters": {"law": law, "load": load},
                   "measured": {"answered": answered, "p50_us": 1, "p99_us": p99, "p99.9_us": p999}}


def test_memcached_that_is_held_up_does_not_hold():
    good = {"law=none, load 100%": (0.93, 9, 9), "law=eyeq, load 100%": (0.999, 9, 9),
            "law=none, load 50%, alone": (1, 60, 9), "law=none, load 50%": (1, 90_000, 9),
            "law=eyeq, load 50%": (1, 9, 700)}
    assert all(holds(eyeq_memcached.judge([memcached_run(label, *one) for label, one in good.items()])).values())
    for label, bad in (("law=eyeq, load 100%", (0.98, 9, 9)), ("law=none, load 100%", (0.999, 9, 9)),
                       ("law=eyeq, load 50%", (1, 9, 800)), ("law=none, load 50%", (1, 6000, 9))):
        runs = [memcached_run(name, *one) for name, one in {**good, label: bad}.items()]
        assert not all(holds(eyeq_memcached.judge(runs)).values()), label


@pytest.mark.slow
def test_calls_are_answered_in_a_round_trip_and_wait_behind_each_other(tmp_path):
    fabric = leaf_spine(1, 2, 1, 1000, 1000, 400, 250_000, 50_000)
    fabric.vms = [Vm(0), Vm(1)]
    run(Simulation(fabric, "none", SECOND, 1, Options(), [Call(0, 1, 0, SECOND, 1000, 10, 2_000_000)]), tmp_path)
    took = [length for _, _, length in table(tmp_path / "calls.txt") if length >= 0]
    # Two hops of 50 us each way, and 1,066 and 76 bytes at 1 Gb/s on both.
    assert 400 < len(took) < 600 and 218_000 <= min(took) <= 235_000
    assert sorted(took)[len(took) // 2] <= 1.1 * min(took)


# Seawall's racks


def test_tasks_have_the_flows_that_the_paper_tells():
    counts = seawall_racks.flow_counts(100, random.Random(1))
    assert sum(count == 1 for count in counts) == 20 and sum(30 <= count <= 100 for count in counts) == 70
    assert sum(count > 150 for count in counts) == 2 and len(counts) == 100


def test_tasks_read_from_other_racks_and_divide_their_weight():
    parameters = seawall_racks.Parameters()
    tasks = seawall_racks.tasks_of(parameters, 3)
    assert len({task.server for task in tasks}) == 30
    assert all(source // 20 != task.server // 20 for task in tasks for source in task.sources)
    fabric, placed = seawall_racks.place(parameters, tasks, "task")
    for task, mine in zip(tasks, placed):
        assert 0.9 * seawall_racks.WEIGHT <= sum(fabric.vms[vm].weight for vm in mine.values()) <= seawall_racks.WEIGHT
        assert all(fabric.vms[vm].host == server for server, vm in mine.items()) and set(mine) == set(task.sources)


def racks_run(part, law, weights, **measured):
    return f"{part}, {law}, {weights}", {"parameters": {"part": part, "law": law, "weights": weights},
                                         "measured": measured}


def test_tasks_off_their_shares_do_not_hold():
    def runs(bare=89.0, own=46.0, starved=0.1, single=0.9, even=0.95):
        return [racks_run("schedule", "none", "task", activity=bare),
                racks_run("schedule", "seawall", "task", activity=own),
                racks_run("racks", "none", "task", single=starved, jain=0.3, of_max_min=1),
                racks_run("racks", "seawall", "task", single=single, jain=even, of_max_min=1)]

    assert all(holds(seawall_racks.judge(runs())).values())
    for bad in ({"bare": 70.0}, {"own": 60.0}, {"starved": 0.7}, {"single": 0.5}, {"even": 0.8}):
        assert not all(holds(seawall_racks.judge(runs(**bad))).values()), bad


# The tournament


def test_well_behaved_tenants_keep_to_their_load_and_rivals_do_not():
    parameters = tournament_size.Parameters(load=60)
    for tenant, name in enumerate(tournament_size.WELL):
        flows = tournament_size.well_behaved(parameters, tournament_size.TRACES[name], tenant, 1, SECOND)
        sent = sum(flow.size for flow in flows) * 8 / 0.1 / 32
        # One flow a VM is the least, which is much of what data mining sends in so short a time.
        assert sent == pytest.approx(0.6 * 250e6 * tournament_size.TCP_PAYLOAD, rel=0.15), name
        assert all(flow.vm % 4 == flow.to % 4 == tenant and flow.vm != flow.to for flow in flows)
    others = tournament_size.hostile(parameters, 1, SECOND)
    assert sum(isinstance(flow, Stream) for flow in others) == 11
    assert sum(isinstance(flow, Bulk) for flow in others) == 11 * 32 + 10 * 31
    assert all(flow.vm % 4 == flow.to % 4 == 3 and flow.vm != flow.to for flow in others)


def test_the_tournament_has_all_laws_at_three_loads():
    labels = [work.label for work in SCENARIOS["tournament-size"].works([])]
    assert len(labels) == 30 and {"alone, load 30%", "none, load 60%", "vcc, load 80%"} <= set(labels)
    assert not any(work.parameters.hostile for work in SCENARIOS["tournament-size"].works([])
                   if work.label.startswith("alone"))


def test_a_law_that_makes_tenants_wait_longer_does_not_hold():
    def one(label, p99):
        return label, {"measured": {name: {"p50": 1, "p99": p99} for name in ("all", *tournament_size.WELL)} |
                       {"ended": 1}}

    def runs(own):
        return [one("alone, load 60%", 5), one("none, load 60%", 50), one("eyeq, load 60%", own)]

    assert all(holds(tournament_size.judge(runs(20))).values())
    assert not all(holds(tournament_size.judge(runs(51))).values())


# The command for all


def some(out, **given):
    return everything.Everything(out, given.get("only", ["leaf-spine"]), given.get("seeds"))


def test_a_run_stands_until_something_changes_that_it_follows_from(tmp_path, monkeypatch):
    [first, *_] = some(tmp_path).items
    sources = everything.sources_key(SCENARIOS["leaf-spine"])
    key = everything.key_of(first, sources)
    assert not everything.stands(first, key)
    first.folder.mkdir(parents=True)
    first.result.write_text(json.dumps({"inputs": key, "run": {}}))
    assert everything.stands(first, key)
    changed = everything.key_of(first, sources[::-1])
    assert not everything.stands(first, changed)
    # The scenario's own module is among what it follows from.
    module = everything.sys.modules[SCENARIOS["leaf-spine"].works.__module__]
    monkeypatch.setattr(module, "__file__", everything.__file__)
    assert everything.sources_key(SCENARIOS["leaf-spine"]) != sources


def test_all_scenarios_and_the_validation_are_had(tmp_path):
    all_ = some(tmp_path, only=[])
    assert {task.experiment.name for task in all_.tasks} == {"share", "scale", "udp-flood", "converge"}
    assert {item.scenario for item in all_.items} == set(SCENARIOS)
    assert len({item.folder for item in all_.items}) == len(all_.items)
    assert sum(item.scenario == "eyeq-shuffle" for item in all_.items) == 2 * SCENARIOS["eyeq-shuffle"].seeds


@pytest.mark.slow
def test_everything_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """Two seeds, of which one is there: only the other runs, and a second time nothing does."""
    small = ("leaves=2", "per_leaf=4", "spines=2", "vms_per_host=2", "senders=16", "duration_s=0.5", "join_s=0.2",
             "period_ms=5", "model=fluid")
    scenario = replace(SCENARIOS["leaf-spine"], page=small, seeds=2)
    monkeypatch.setattr(everything, "pages", lambda: {"leaf-spine": scenario})
    said = Console(file=io.StringIO())
    assert everything.run_all(some(tmp_path, seeds=1), None, 2, said) == {}
    assert everything.run_all(some(tmp_path), None, 2, said) == {}
    assert everything.run_all(some(tmp_path), None, 2, said) == {}
    lines = said.file.getvalue().splitlines()
    assert lines == ["1/1 leaf-spine, seed 1: done", "1/1 leaf-spine, seed 2: done"]
    docs = tmp_path / "docs"
    (docs / "figures" / "simulation").mkdir(parents=True)
    assert everything.write(some(tmp_path), docs) == []
    assert (docs / "figures" / "simulation" / "leaf-spine.png").exists()
    assert json.loads((tmp_path / "leaf-spine" / "result.json").read_text())["seeds"] == [1, 2]


@pytest.mark.slow
def test_everything_keeps_what_no_program_simulates(tmp_path, monkeypatch):
    small = ("figures=6", "ideals_only=true", "per_tor=2", "duration_ms=20", "tail_ms=10")
    scenario = replace(SCENARIOS["scc-clos"], page=small)
    monkeypatch.setattr(everything, "pages", lambda: {"scc-clos": scenario})
    assert everything.run_all(some(tmp_path, only=["scc-clos"]), None, 2, Console(file=io.StringIO())) == {}
    assert everything.write(some(tmp_path, only=["scc-clos"]), None) == []


def test_a_scenario_that_is_not_whole_is_named_and_not_written(tmp_path):
    assert everything.write(some(tmp_path / "out"), None) == ["leaf-spine"]


def test_a_table_of_the_page_is_written_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- one: begin -->\nold\n<!-- one: end -->\nb\n")
    validate.write_page(page, "one", ["| new |"])
    assert page.read_text() == "a\n<!-- one: begin -->\n| new |\n<!-- one: end -->\nb\n"
    with pytest.raises(ValueError, match="other: begin"):
        validate.write_page(page, "other", [])


def test_the_page_has_marks_and_a_figure_of_every_scenario():
    text = (Path(__file__).resolve().parents[2] / "docs" / "simulation.md").read_text()
    for name, scenario in everything.pages().items():
        assert f"figures/simulation/{name}.png" in text
        if scenario.tabulate is not None:
            assert validate.BEGIN.format(name) in text and validate.END.format(name) in text


def test_what_does_not_hold_with_every_seed_is_told():
    verdicts = [{"name": "a", "expected": "<= 1", "paper": "", "values": [0.5, 2.0], "holds": 1},
                {"name": "b", "expected": "as measured", "paper": "", "values": [1, 1], "holds": 2},
                {"name": "c", "expected": "<= 3", "paper": "", "values": [1, 1], "holds": 2}]
    lines = everything.judged(verdicts, 2)
    assert "Seeds 1 to 2" in lines[1] and "Of 2 expectations 1 hold" in lines[1]
    assert lines[-1] == "| a | <= 1 | - | 0.5 / 2 | 1 |"


def test_a_cell_has_mean_and_interval():
    assert tenants.cell([1, 2, 3]) == "2 ± 2.5" and tenants.cell([2130.4]) == "2130"
    assert tenants.cell([1000, 2000]) == "1500 ± 6353" and tenants.cell([1, None]) == tenants.cell([]) == "-"
