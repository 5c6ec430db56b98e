# SPDX-License-Identifier: Apache-2.0
"""Simulators: the law's share against the oracle, determinism, refusals, results in the testbed's form."""

import dataclasses
import json
import random
import re
import shlex
from pathlib import Path

import click.testing
import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.main import main
from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.simulation import beds, fabrics
from sdngcc.testbed.simulation.beds import simulate_case
from sdngcc.testbed.simulation.fabric import Vm, address, leaf_spine
from sdngcc.testbed.simulation.fluid import Controlled, Demand, Fluid, layers, step_of, ways
from sdngcc.testbed.simulation.options import Options
from sdngcc.testbed.simulation.packets import Bulk, Simulation, Stream, make_decisions, run, table
from sdngcc.testbed.simulation.runner import over_seeds, run_scenario
from sdngcc.testbed.simulation.scenarios import SCENARIOS, ecmp
from sdngcc.testbed.simulation.scenarios.ecmp import judge as judge_ecmp
from sdngcc.testbed.simulation.scenarios.leaf_spine import judge as judge_leaf_spine

MS = 10**6
SECOND = 10**9


def invoke(*args):
    return click.testing.CliRunner().invoke(main, ["simulate", *args])


# Networks


def test_every_switch_has_all_shortest_ways():
    fabric = leaf_spine(2, 2, 3, 1000, 1000, 80, 250_000, 50_000)
    routes = fabric.routes()
    leaf, spines = 4, (6, 7, 8)
    assert len(routes[leaf, 0]) == 1, "to a host of its own"
    up = [fabric.links[number] for number in routes[leaf, 3]]
    assert sorted(link.b for link in up) == list(spines), "to another leaf's"
    assert all(len(routes[spine, 3]) == 1 for spine in spines)


def test_ports_of_a_way_stand_in_layers_one_after_the_other():
    fabric = leaf_spine(3, 2, 2, 1000, 1000, 80, 250_000, 50_000)
    fabric.vms = [Vm(host) for host in range(6)]
    demands = [Demand(one, other, 0, 1) for one in range(6) for other in range(6) if one != other]
    found = ways(fabric, demands, 1)
    depth = layers(found, fabric)
    assert all(depth[before] < depth[after] for way in found for before, after in zip(way, way[1:]))
    assert {len(way) for way in found} == {1, 3}


def test_an_address_is_the_plans():
    assert address(0) == bytes(10) + b"\xff\xff\x0a\x00\x00\x01"
    assert address(255)[-2:] == b"\x01\x00"


@pytest.mark.parametrize("period, lengths, step", [
    (5 * MS, (2 * MS, 5 * MS), MS), (200_000, (200_000,), 40_000), (500_000, (100 * MS,), 100_000)])
def test_a_step_is_a_part_of_all_lengths(period, lengths, step):
    assert step_of(period, *lengths) == step


def test_lengths_without_a_common_step_are_refused():
    with pytest.raises(ParameterError, match="no common step"):
        step_of(5 * MS, 100 * MS, 5_000_001)


# Rates alone


def shares(law, demands, fabric, seconds=3.0, levels=True):
    """Return each flow's rate over the second half of a run by rates alone, and the oracle's, bytes/s."""
    fluid = Fluid(fabric, law, demands, MS if law in ("sdngcc", "maxmin") else MS // 10, 1)
    decisions = (make_decisions(fabric, law, 5 * MS, "bytes", levels, 5 * MS) if law in ("sdngcc", "maxmin") else None)
    try:
        controlled = Controlled(fluid, decisions, 5 * MS, MS // 10)
        half = round(seconds * SECOND / 2)
        samples = controlled.run(2 * half, half)
        return samples[-1].received.tolist(), fabrics.oracle(fabric, demands, fluid.ways)
    finally:
        fluid.close()


def lost_part(fabric, demands, law="sdngcc", levels=True):
    """Return what part of what VMs sent was lost."""
    fluid = Fluid(fabric, law, demands, MS, 1)
    decisions = make_decisions(fabric, law, 5 * MS, "bytes", levels, 5 * MS) if law == "sdngcc" else None
    try:
        Controlled(fluid, decisions, 5 * MS, MS // 10).run(2 * SECOND, SECOND)
        return float(fluid.ports["lost"].sum()) / sum(fluid.state(vm).tx_bytes for vm in range(len(demands)))
    finally:
        fluid.close()


def one_port(senders, weights=(1,)):
    fabric = leaf_spine(1, senders + 1, 1, 1000, 1000, 100, 150_000, 30_000)
    fabric.vms = [Vm(host, weights[host % len(weights)]) for host in range(senders + 1)]
    return fabric, [Demand(vm, senders, vm * MS, 100 * SECOND) for vm in range(senders)]


@pytest.mark.parametrize("law, least", [("sdngcc", 0.9), ("maxmin", 0.97), ("hygenicc", 0.85), ("seawall", 0.8)])
def test_senders_of_one_port_have_the_oracles_shares(law, least):
    fabric, demands = one_port(4)
    got, ideal = shares(law, demands, fabric)
    assert ideal == pytest.approx([1e9 / 8 / 4] * 4)
    assert all(least <= mine / best <= 1.05 for mine, best in zip(got, ideal)), [a / b for a, b in zip(got, ideal)]


def test_marks_alone_hold_senders_near_the_oracles_shares():
    fabric, demands = one_port(4)
    got, ideal = shares("sdngcc", demands, fabric, levels=False)
    assert all(0.85 <= mine / best <= 1.05 for mine, best in zip(got, ideal)), [a / b for a, b in zip(got, ideal)]
    # Without marks they would share the port, too, but lose three quarters of what they send.
    assert lost_part(fabric, demands, levels=False) <= 0.1 and lost_part(fabric, demands, law="static") >= 0.7


def test_weights_divide_a_hosts_uplink():
    fabric = leaf_spine(1, 2, 1, 1000, 1000, 100, 150_000, 30_000)
    fabric.vms = [Vm(0, 1), Vm(0, 3), Vm(1)]
    fluid = Fluid(fabric, "static", [Demand(0, 2, 0, SECOND), Demand(1, 2, 0, SECOND)], MS, 1)
    try:
        fluid.run(SECOND // 10)
        assert fluid.state(1).share == pytest.approx(3 * fluid.state(0).share, rel=1e-3)
    finally:
        fluid.close()


def test_weights_divide_a_port():
    fabric, demands = one_port(3, (1, 2, 4))
    got, ideal = shares("sdngcc", demands, fabric)
    assert ideal[2] / ideal[0] == pytest.approx(4)
    assert all(0.85 <= mine / best <= 1.1 for mine, best in zip(got, ideal)), [a / b for a, b in zip(got, ideal)]


def test_what_one_cannot_use_the_others_have():
    """Two ports in a row: who crosses both is bound by the second, and the rest of the first goes to the other."""
    fabric = leaf_spine(1, 5, 1, 1000, 1000, 100, 150_000, 30_000)
    fabric.vms = [Vm(host) for host in range(5)]
    demands = [Demand(0, 3, 0, 100 * SECOND), Demand(1, 3, MS, 100 * SECOND), Demand(2, 4, 2 * MS, 100 * SECOND, 5e7)]
    got, ideal = shares("maxmin", demands, fabric)
    assert got[2] == pytest.approx(5e7, rel=0.02), "who wants less has what he wants"
    assert got[0] == pytest.approx(ideal[0], rel=0.04)


def test_what_goes_in_comes_out_or_waits_or_is_lost():
    fabric, demands = one_port(4)
    fluid = Fluid(fabric, "static", demands, MS, 1)
    try:
        fluid.run(SECOND)
        port = fluid.ports[fluid.points.index((5, 4))]
        assert float(fluid.received().sum()) == pytest.approx(float(port["bytes"]), rel=1e-6)
        sent = sum(fluid.state(vm).tx_bytes for vm in range(4))
        assert sent == pytest.approx(float(port["bytes"] + port["queue"] + port["lost"]), rel=1e-6)
        # 4 Gb/s fill the queue within a step; from then on every packet is marked.
        assert float(port["marks"]) == pytest.approx(sent / 1514, rel=0.01)
        assert port["queue"] == port["limit"] and port["bytes"] == pytest.approx(125e6, rel=0.01)
    finally:
        fluid.close()


def test_engines_of_rates_leave_no_memory():
    fabric, demands = one_port(4)
    fluid = Fluid(fabric, "hygenicc", demands, MS // 10, 1)
    before = fluid.lib.shim_host_allocated
    fluid.run(SECOND // 10)
    fluid.close()
    assert fluid.lib.shim_host_allocated == 0 < before


def test_a_law_of_segments_is_refused_by_rates():
    fabric, demands = one_port(2)
    with pytest.raises(ParameterError, match="law vcc is not simulated by rates"):
        Fluid(fabric, "vcc", demands, MS, 1)


# Packets


def packets_shares(tmp_path, law, flows, fabric, seconds, seed=1):
    simulation = Simulation(fabric, law, round(seconds * SECOND), seed, Options(), flows)
    if law in ("sdngcc", "maxmin"):
        simulation.control_ns = 5 * MS
        simulation.decisions = make_decisions(fabric, law, 5 * MS, "bytes", True, 5 * MS)
    run(simulation, tmp_path)
    found = []
    for line in (tmp_path / "received.txt").read_text().splitlines():
        counts = [int(word) for word in line.split()[1:]]
        found.append(sum(counts[len(counts) // 2:]) / (len(counts) - 1 - len(counts) // 2) * 10)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("law, least", [("sdngcc", 0.9), ("hygenicc", 0.75)])
def test_packets_have_the_oracles_shares(tmp_path, law, least):
    """UDP, TCP and DCTCP at 100 Mb/s; who ignores marks has no more than the others."""
    fabric = leaf_spine(1, 4, 1, 100, 100, 200, 150_000, 30_000)
    fabric.vms = [Vm(host) for host in range(4)]
    end = 4 * SECOND
    flows = [Stream(0, 3, 0, end, 10**8), Bulk(1, 3, MS, end), Bulk(2, 3, 2 * MS, end, "dctcp", True)]
    got = packets_shares(tmp_path, law, flows, fabric, 4.0)[:3]
    ideal = 1e8 / 8 / 3 * 1448 / 1514
    assert all(least <= one / ideal <= 1.1 for one in got), [one / ideal for one in got]
    assert max(got) <= 1.2 * min(got)


@pytest.mark.slow
def test_without_a_shim_who_ignores_marks_takes_all(tmp_path):
    fabric = leaf_spine(1, 3, 1, 100, 100, 200, 150_000, 30_000)
    fabric.vms = [Vm(host) for host in range(3)]
    got = packets_shares(tmp_path, "none", [Stream(0, 2, 0, SECOND, 10**8), Bulk(1, 2, MS, SECOND)], fabric, 1.0)
    assert got[0] > 4 * got[1]


@pytest.mark.slow
def test_flows_with_an_end_are_timed(tmp_path):
    fabric = leaf_spine(2, 1, 2, 100, 100, 200, 150_000, 30_000)
    fabric.vms = [Vm(0), Vm(1)]
    run(Simulation(fabric, "none", SECOND, 1, Options(),
                   [Bulk(0, 1, 0, SECOND, size=125_000), Bulk(0, 1, SECOND // 2, SECOND, size=100_000_000)]), tmp_path)
    first, second = [line.split() for line in (tmp_path / "flows.txt").read_text().splitlines()[1:]]
    # 125,000 bytes in 1,448 a frame of 1,514 at 100 Mb/s, a handshake and the way.
    assert 10.45 <= int(first[3]) / MS <= 12
    assert second[3] == "-1"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path):
    settings = ["link_mbps=100", "phases=0.5,0.5,0", "competitor=udp"]
    experiment = EXPERIMENTS["share"]
    case = experiment.cases(["backpressure=false", *settings])[0]
    found = []
    for number, seed in enumerate((3, 3, 4)):
        raw = tmp_path / str(number)
        result = simulate_case(experiment, case, seed, Options(), raw)
        found.append((json.dumps(result), [(raw / name).read_bytes() for name in ("received.txt", "limiters.txt")]))
    assert found[0] == found[1]
    assert found[0][1] != found[2][1]


# The testbed's own experiments


def test_trains_are_the_generators():
    source = (Path(__file__).resolve().parents[1] / "generator" / "source.c").read_text()
    of_source = {name: int(value) for name, value in re.findall(r"#define (UDP_TRAIN_\w+) (\d+)", source)}
    assert of_source == {"UDP_TRAIN_BYTES": beds.TRAIN_BYTES, "UDP_TRAIN_DATAGRAMS": beds.TRAIN_DATAGRAMS,
                         "UDP_TRAIN_NS": beds.TRAIN_NS}
    assert [beds.train_of(rate, 1472) for rate in (10**10, 10**9, 10**8, 10**6)] == [44, 41, 4, 1]
    assert beds.train_of(10**10, 18) == 64


def test_a_star_delays_where_a_vm_gets_its_packets():
    [case] = EXPERIMENTS["converge"].cases(["backpressure=false", "senders=2"])
    simulation, _ = beds.simulation_of(case, 1, Options())
    lines = simulation.plan().splitlines()
    assert "delivery 25000" in lines and "warm" in lines
    assert all(line.split()[4] == "0" for line in lines if line.startswith("link "))
    assert [line.split()[-1] for line in lines if line.startswith("stream ")] == ["44", "44"]
    dumbbell, _ = beds.simulation_of(EXPERIMENTS["share"].cases(["backpressure=false"])[0], 1, Options())
    assert not any(line.startswith("delivery") for line in dumbbell.plan().splitlines())


def converge(raw, seed, senders=8, warm=True, train=None, burst_us=100):
    """Simulate 5 ms of experiment converge; return what arrived in each 0.02 ms, of the line, and of it first off."""
    [case] = EXPERIMENTS["converge"].cases(["backpressure=false", f"senders={senders}", f"burst_us={burst_us}"])
    simulation, _ = beds.simulation_of(case, seed, Options(jitter_percent=0))
    simulation.duration_ns, simulation.sample_ns, simulation.warm = 5 * MS, 20_000, warm
    if train is not None:
        simulation.flows = [dataclasses.replace(flow, train=train) for flow in simulation.flows]
    run(simulation, raw)
    sent = [row[1] for row in table(raw / "queue.txt")]
    return [(after - before) * 8 / 20e-6 / 1e10 for before, after in zip(sent, sent[1:])]


@pytest.mark.slow
def test_trains_have_senders_pause_longer(tmp_path):
    """Peers that their VM's bucket held back may wait two horizons, and what waited at a higher rate is a debt.

    A bucket as deep as what the line sends in 100 us holds a train.
    """
    silent = {(train, burst_us): sum(part < 0.01 for part in converge(tmp_path / f"{train}-{burst_us}", 1, 16,
                                                                      train=train, burst_us=burst_us))
              for train, burst_us in ((44, 0), (1, 0), (44, 100))}
    assert silent[44, 0] >= 20 > 10 >= silent[1, 0], silent
    assert silent[44, 100] <= 10, silent


@pytest.mark.slow
def test_clocks_of_hosts_go_before_the_run_in_phases_of_their_own(tmp_path):
    def first_fall(seed, warm):
        parts = converge(tmp_path / f"{seed}-{warm}", seed, 2, warm)
        return next(number for number, part in enumerate(parts) if number and part < 0.95)

    cold, warm = ([first_fall(seed, warm) for seed in (1, 2, 3, 4)] for warm in (False, True))
    assert len(set(cold)) == 1, "from the first packet on"
    assert len(set(warm)) > 1
    # What a receiver hears of a period that had begun is no excess, or nearly all of a period.
    assert min(warm) >= min(cold) - 1, (warm, cold)


# Scenarios and the command


@pytest.mark.parametrize("scenario, setting, words", [
    ("share", "gso=true", "gso=True"), ("share", "nonsense=1", "nonsense"), ("share", "knob.bad=1", "no knob bad"),
    ("share", "min_rto_ms=0", "min_rto_ms"), ("share", "backpressure=true", "backpressure=True"),
    ("share", "tagged=bbr", "bbr"), ("leaf-spine", "senders=0", "senders"),
    ("leaf-spine", "senders=1000000", "senders"), ("leaf-spine", "weights=0", "weights"),
    ("leaf-spine", "join_s=9", "join_s"), ("leaf-spine", "knob.bad=1", "no knob bad"),
    ("stability", "law=eyeq", "law=sdngcc")])
def test_bad_settings_are_refused_by_name(scenario, setting, words):
    result = invoke("run", scenario, "--set", setting)
    assert result.exit_code == 2 and words in result.output, result.output


def test_an_unknown_scenario_is_refused_by_name():
    for command in (["run", "nonsense"], ["list", "nonsense"]):
        result = invoke(*command)
        assert result.exit_code == 2 and "no scenario 'nonsense'" in result.output and "leaf-spine" in result.output


def test_scenarios_and_their_parameters_are_listed():
    listed = json.loads(invoke("list", "--json").output)["scenarios"]
    assert [one["name"] for one in listed] == list(SCENARIOS)
    for name in SCENARIOS:
        parameters = json.loads(invoke("list", name, "--json").output)["parameters"]
        assert {"model", "ecmp"} <= {one["name"] for one in parameters}


SMALL = ["leaves=2", "per_leaf=4", "spines=2", "vms_per_host=2", "senders=16", "duration_s=1", "join_s=0.4",
         "period_ms=5"]


@pytest.mark.slow
def test_seeds_run_side_by_side_and_each_stands_alone(tmp_path):
    both = run_scenario(SCENARIOS["leaf-spine"], ["model=fluid", *SMALL], [1, 2], tmp_path / "both")
    alone = run_scenario(SCENARIOS["leaf-spine"], ["model=fluid", *SMALL], [2], tmp_path / "alone")
    beside, by_itself = tmp_path / "both" / "seed-2" / "result.json", tmp_path / "alone" / "result.json"
    assert beside.read_bytes() == by_itself.read_bytes()
    assert both["seeds"] == [1, 2] and (tmp_path / "both" / "seed-1" / "figure.png").exists()
    first = both["verdicts"][0]
    assert first["values"][1] == alone["verdicts"][0]["measured"]
    assert first["mean"] == pytest.approx(sum(first["values"]) / 2, abs=1e-6)


@pytest.mark.slow
def test_models_agree_on_a_leaf_spine(tmp_path):
    found = {}
    for model in ("packets", "fluid"):
        work = SCENARIOS["leaf-spine"].works([f"model={model}", *SMALL, "host_mbps=100", "fabric_mbps=200",
                                              "duration_s=1.2", "window_ms=100"])[0]
        found[model] = work.run(1, tmp_path / model, None)["measured"]
        assert found[model]["of_max_min"] >= 0.8 and found[model]["jain"] >= 0.9, found[model]
    assert found["packets"]["of_max_min"] == pytest.approx(found["fluid"]["of_max_min"], rel=0.1)


def test_a_network_off_its_oracle_does_not_hold():
    good = {"measured": {"jain": 1.0, "of_max_min": 0.95, "error": 0.02, "settled_ms": 20.0, "messages_per_s": 1,
                         "below": 0, "below_at_share": 0}}
    assert all(verdict.holds for verdict in judge_leaf_spine([("", good)]))
    for name, value in (("jain", 0.9), ("of_max_min", 0.8), ("error", 0.3)):
        bad = {"measured": {**good["measured"], name: value}}
        assert not all(verdict.holds for verdict in judge_leaf_spine([("", bad)]))


def ecmp_run(core, lost_in_core, edge=100):
    queues = {"edge": [[0, 50], [edge, 50]], "up": [[0, 50], [core, 50]], "down": [[0, 100]]}
    longest = {kind: {"p100": max(length for length, _ in points)} for kind, points in queues.items()}
    return {"measured": {"queue_packets": longest, "lost": {"edge": 9, "up": lost_in_core, "down": 0},
                         "received_of_capacity": 0.3}, "series": {"queue_packets": queues}}


def test_a_congested_core_does_not_hold():
    assert all(one.holds for one in judge_ecmp([("ecmp=packet", ecmp_run(10, 0))]))
    for core, lost, edge in ((40, 0, 100), (10, 1, 100), (30, 0, 40)):
        assert not all(one.holds for one in judge_ecmp([("ecmp=packet", ecmp_run(core, lost, edge))])), (core, lost)
    assert ecmp.mean_length([[0, 1], [3, 2]]) == 2 and ecmp.mean_length([]) == 0


def test_sizes_of_flows_have_the_papers_numbers():
    draw = random.Random(1)
    points = [*ecmp.SIZES, (ecmp.largest(), 1.0)]
    sizes = sorted(ecmp.draw_size(draw, points) for _ in range(200_000))
    assert sizes[100_000] == pytest.approx(19_000, rel=0.03)
    assert sizes[180_000] == pytest.approx(133_000, rel=0.1)
    assert sum(sizes) / len(sizes) == pytest.approx(ecmp.MEAN_BYTES, rel=0.05)


def test_settling_is_counted_from_the_last_window_that_was_off():
    assert fabrics.settled_ms([0.5, 0.5, 0.01, 0.2, 0.02, 0.01], 100, 1) == 300
    assert fabrics.settled_ms([0.5, 0.01], 100, 1) == 0
    assert fabrics.settled_ms([0.01, 0.5], 100, 0) is None


def test_verdicts_over_seeds_have_mean_and_interval():
    verdict = {"name": "n", "expected": "", "paper": "", "holds": True}
    [one] = over_seeds([{"verdicts": [{**verdict, "measured": value, "holds": value > 1}]} for value in (1, 2, 3)])
    assert one["values"] == [1, 2, 3] and one["mean"] == 2 and one["holds"] == 2
    assert one["interval"] == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    [one] = over_seeds([{"verdicts": [{**verdict, "measured": 1}]}, {"verdicts": [{**verdict, "measured": None}]}])
    assert one["values"] == [1, None] and one["mean"] is None and one["interval"] is None


def test_nobody_sends_to_his_own_host():
    parameters = fabrics.parse([], {"leaves": 2, "per_leaf": 3, "vms_per_host": 4})
    for seed in range(20):
        found = fabrics.pairs(parameters, seed)
        assert sorted(to for _, to in found) == list(range(24)), "each receives from one"
        assert all(vm // 4 != to // 4 for vm, to in found)
    assert fabrics.pairs(parameters, 1) == fabrics.pairs(parameters, 1) != fabrics.pairs(parameters, 2)


def test_the_repositorys_page_has_a_table_of_all_that_is_compared():
    from sdngcc.testbed.simulation.validate import BEGIN, END, rows

    page = (Path(__file__).resolve().parents[2] / "docs" / "simulation.md").read_text()
    table = page.partition(BEGIN.format("validation"))[2].partition(END.format("validation"))[0]
    assert all(f"| {row.name} |" in table for row in rows())


def test_commands_of_the_page_are_accepted():
    page = (Path(__file__).resolve().parents[2] / "docs" / "simulation.md").read_text().replace("\\\n", " ")
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("sdngcc simulate run ")]
    assert len(commands) >= 5
    for words in commands:
        settings = [value for option, value in zip(words[4:], words[5:]) if option == "--set"]
        assert SCENARIOS[words[3]].works(settings)
