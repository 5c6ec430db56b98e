# SPDX-License-Identifier: Apache-2.0
"""SCC's figures by simulation: weights, congestion controls that know sizes and deadlines, turns, ranks, judgements."""

from dataclasses import asdict

import click.testing
import pytest

from sdngcc.main import main
from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.simulation.divisions import Divisions
from sdngcc.testbed.simulation.fabric import Fabric, Vm
from sdngcc.testbed.simulation.options import Options
from sdngcc.testbed.simulation.packets import Bulk, Simulation, run
from sdngcc.testbed.simulation.scenarios import scc_clos
from sdngcc.testbed.simulation.scenarios.scc_setups import Parameters, SccWork, Setup, label, round_trips, setups
from sdngcc.tracker.decision import Flow

MS = 10**6


def took_ms(tmp_path, flows, vms=(0, 1, 2), law="none", uplink_mbps=1000, **others):
    """Return how long each flow took to a host of 100 Mb/s, whose port marks from 30 of 150 kB on; None: not ended.

    The two other hosts' uplinks have uplink_mbps.
    """
    fabric = Fabric(3, 1)
    for host, mbps in enumerate((uplink_mbps, uplink_mbps, 100)):
        fabric.attach(host, 3, mbps * 10**6, 75_000, 150_000, 30_000)
    fabric.vms = [Vm(host) for host in vms]
    run(Simulation(fabric, law, 1000 * MS, 1, Options(), flows, **others), tmp_path)
    rows = [line.split() for line in (tmp_path / "flows.txt").read_text().splitlines()[1:]]
    return [int(row[3]) / MS if row[3] != "-1" else None for row in rows]


def flow(vm, size, cc="dctcp", start_ms=0, deadline_ms=0, order="none"):
    return Bulk(vm, 2, start_ms * MS, 1000 * MS, cc, cc != "pfabric", size, deadline_ns=deadline_ms * MS, order=order)


# Weights


def test_a_divisions_tunnels_weigh_what_it_does_and_only_news_is_told():
    divisions = Divisions(["ds", "ds", "cs"])
    tunnels = {(0, 5): [Flow(1000, 0.01)], (1, 5): [Flow(3000, 0.01)], (2, 5): [Flow(1000, 0.0)]}
    told = divisions.weigh(0.0, tunnels)
    assert told == [(0, 5, 1250), (1, 5, 3750), (2, 5, 5000)]
    assert divisions.weigh(0.005, tunnels) == []
    # Who has nothing to send keeps a hundredth, for a second.
    assert divisions.weigh(0.5, {(0, 5): tunnels[0, 5]}) == [(0, 5, 5000), (1, 5, 50), (2, 5, 50)]
    assert divisions.weigh(1.1, {(0, 5): tunnels[0, 5]}) == [(1, 5, 0), (2, 5, 0)]


def test_weights_are_multiplied_but_not_beyond_the_shims():
    assert Divisions(["ds"], times=3).weigh(0.0, {(0, 1): [Flow(1000, 0.01)]}) == [(0, 1, 30_000)]
    assert Divisions(["ds"], times=90).weigh(0.0, {(0, 1): [Flow(1000, 0.01)]}) == [(0, 1, 65_535)]


# Packets


@pytest.mark.slow
def test_d2tcp_gives_way_by_deadline(tmp_path):
    """Two flows of one size share a link; without deadlines they are alike."""
    alike = took_ms(tmp_path / "alike", [flow(vm, 2_000_000, "d2tcp") for vm in (0, 1)])
    assert alike[0] == pytest.approx(alike[1], rel=0.1)
    near, far = took_ms(tmp_path / "deadlines", [flow(0, 2_000_000, "d2tcp", deadline_ms=200),
                                                 flow(1, 2_000_000, "d2tcp", deadline_ms=900)])
    assert near < 0.93 * far, "d is 2 at most for the one and 0.5 for the other"


@pytest.mark.slow
def test_l2dct_prefers_the_young(tmp_path):
    young = {}
    for cc in ("dctcp", "l2dct"):
        young[cc] = took_ms(tmp_path / cc, [flow(0, 9_000_000, cc), flow(1, 400_000, cc, start_ms=300)])[1]
    assert young["l2dct"] < 0.9 * young["dctcp"]


@pytest.mark.slow
def test_flows_of_a_tunnel_take_turns(tmp_path):
    def both(order, deadlines=(0, 0)):
        return took_ms(tmp_path / f"{order}{deadlines}",
                       [flow(0, 1_000_000, deadline_ms=deadlines[0], order=order),
                        flow(0, 300_000, start_ms=20, deadline_ms=deadlines[1], order=order)])

    together, by_size = both("none"), both("size")
    assert by_size[1] < 0.8 * together[1] and by_size[0] == pytest.approx(together[0], rel=0.1)
    assert both("deadline", (150, 500))[1] > 0.9 * (both("deadline", (150, 500))[0] - 20), "the first has to be early"
    assert both("deadline", (500, 100))[1] < 0.8 * together[1]


@pytest.mark.slow
def test_pfabric_sends_who_has_least_left_first(tmp_path):
    alone = took_ms(tmp_path / "alone", [flow(1, 300_000, "pfabric")])[0]
    long, short = took_ms(tmp_path / "both", [flow(0, 3_000_000, "pfabric"), flow(1, 300_000, "pfabric", start_ms=50)],
                          ranks="pfabric")
    assert short < 1.2 * alone and long is not None
    first, last = took_ms(tmp_path / "ranks", [flow(0, 3_000_000, "pfabric"), flow(1, 300_000, "pfabric")],
                          ranks="pfabric", rank_of={1: 1})
    assert first < last, "rank comes before size"


@pytest.mark.slow
def test_strict_ranks_go_first(tmp_path):
    plain = took_ms(tmp_path / "plain", [flow(0, 3_000_000), flow(1, 300_000, start_ms=50)])
    ranked = took_ms(tmp_path / "ranked", [flow(0, 3_000_000), flow(1, 300_000, start_ms=50)], ranks="strict",
                     rank_of={0: 1})
    assert ranked[1] < 0.75 * plain[1]


@pytest.mark.slow
def test_the_tracker_weighs_tunnels_of_a_run(tmp_path):
    """The same size and two deadlines, one a third of the other: W' are as 3 to 1, of one division.

    Links are alike, as the law's weights take them to be, and both deadlines are ahead all the time: a flow that has
    missed its own counts no more.
    """
    flows = [flow(0, 4_000_000, deadline_ms=800), flow(1, 4_000_000, deadline_ms=2400)]
    near, far = took_ms(tmp_path, flows, law="scc", uplink_mbps=100, divisions=Divisions(["ds"] * 3))
    assert near < 0.9 * far


# Scenario


def test_flows_bring_the_load_and_no_host_sends_to_itself():
    parameters = Parameters(per_tor=4)
    for network, rack in (("clos", 4), ("3:1", 12)):
        work = SccWork(Setup((("ds", 30), ("cs", 30)), "none", "web search", network), parameters, Options())
        flows = work.flows(4 * rack, rack, 1)
        assert sum(one.size for one in flows) * 8 / 0.2 == pytest.approx(16 * 0.6e9, rel=0.25)
        assert all(one.vm // 2 != one.to // 2 and one.vm % 2 == one.to % 2 for one in flows)
        assert network == "clos" or all(one.vm // 2 // rack != one.to // 2 // rack for one in flows)
        assert all(bool(one.deadline_ns) == (one.vm % 2 == 0) for one in flows)
        assert flows == work.flows(4 * rack, rack, 1) != work.flows(4 * rack, rack, 2)


def test_round_trips_have_mean_and_quantiles():
    assert round_trips({64: 98, 80: 2}) == {"rtt_mean_us": 271.4, "rtt_p50_us": 256.0, "rtt_p99_us": 1024.0}


@pytest.mark.parametrize("setting, words", [
    ("figures=4", "figures=4"), ("loads=0", "loads=0"), ("per_tor=1", "per_tor"), ("model=fluid", "model=fluid")])
def test_bad_settings_are_refused_by_name(setting, words):
    with pytest.raises(ParameterError, match=words):
        scc_clos.works([setting])
    assert click.testing.CliRunner().invoke(main, ["simulate", "run", "scc-clos", "--set", setting]).exit_code == 2


# How long flows take, and how many are late, of what they are alone without SCC, so that all claims hold.
GOOD = {"scc": 0.3, "unordered": 0.5, "first": 0.31, "dctcp": 0.32, "pfabric": 0.46, "beside": 1.3, "none": 1.0,
        "flows": 0.5, "ideal": 0.2}


def measures(setup, times):
    """Return measures of a setup."""
    beside = setup.how == "none" and "ds" in dict(setup.loads) and len(setup.loads) > 1
    one = times["beside" if beside else setup.how]
    own = {"missed": 0.1 * one, "mean_ms": 10 * one,
           "rtt_mean_us": 500 * one * (times.get("ls", 0.5) if setup.how == "first" else 1)}
    return {name: own for name, _ in setup.loads}


ALL = (5, 6, 7, 8, 9, 10, 11, 12)


def runs_with(figures=ALL, **times):
    parameters = Parameters(figures=figures)
    return [{"label": setup.label, "parameters": parameters.model_dump(mode="json"),
             "measured": measures(setup, {**GOOD, **times})} for setup in setups(parameters)]


def verdicts(figures=ALL, **times):
    return scc_clos.judge([(run["label"], run) for run in runs_with(figures, **times)])


def result_with(figures=ALL, **times):
    first, *others = runs_with(figures, **times)
    return {**first, "variants": others, "verdicts": [asdict(one) for one in verdicts(figures, **times)]}


def test_what_the_paper_claims_holds():
    assert len(verdicts()) == 28 and not [one.name for one in verdicts() if not one.holds]


@pytest.mark.parametrize("times, failing", [
    ({"scc": 1.2}, ("5a", "5b", "6a", "6b", "LS", "7a", "8a", "9a", "9b", "10a", "11a")),
    ({"beside": 1.0}, ("7b",)), ({"dctcp": 1.0}, ("11b",)), ({"dctcp": 0.2}, ("11b",)), ({"first": 0.4}, ("12a",)),
    ({"ls": 1.2}, ("12b",)), ({"scc": 1.8}, ("10b",))])
def test_what_is_not_seen_does_not_hold(times, failing):
    found = verdicts(**times)
    for figure in failing:
        assert any(not one.holds for one in found if f"Fig. {figure}" in one.name), figure


def test_figures_are_judged_alone():
    assert {one.name.split(":")[0] for one in verdicts((9,))} == {"Fig. 9a", "Fig. 9b"}
    assert all("Fig. 5" in one.name for one in verdicts((5,)))


def test_a_panel_draws_what_was_run(tmp_path):
    scc_clos.draw(result_with((5, 9)), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    assert label((("ds", 30),), "scc") in {run["label"] for run in runs_with((5, 9))}


def row(figure, *results):
    """Return the cells of the first row of a figure."""
    return [cell.strip() for line in scc_clos.tabulate(results) if f"Fig. {figure}" in line
            for cell in line.split("|")[1:-1]][:6]


def test_the_page_has_each_claim_with_its_ratio_over_seeds():
    good, bad = result_with((6,)), result_with((6,), scc=0.9)
    assert row("6b", good)[1:4] == ["40% less", "at most 0.8", "0.231"], "of 1.3 beside others"
    assert row("6b", good, bad)[3] == "0.462 ± 2.9"
    assert row("6a", good, bad)[3] == "0.462 ± 2.9, no"


def test_the_page_has_what_ideal_rates_would_reach():
    result = result_with(ideal=1.2)
    assert row("6b", result)[4:] == ["0.923, no", "2.4, no"], "beside 1.3 as measured, and 0.5 of ideal flows"
    assert row("8a", result)[4:] == ["2.61, no", "-"], "pFabric has no ideal"
    assert row("5a", result)[4:] == row("12b", result)[4:] == ["-", "-"]
    assert row("11b", result)[4:] == ["0.923, no", "2.4, no"], "whatever the transport"
    assert row("9a", result_with((9,)))[4:] == ["0.2", "0.4"]


def test_ideals_alone_are_told_and_not_judged():
    works = scc_clos.works(["ideals_only=true", "figures=6"])
    assert [work.setup.how for work in works] == ["flows", "ideal"]
    runs = [(work.label, {"parameters": work.parameters.model_dump(mode="json"),
                          "measured": measures(work.setup, GOOD)}) for work in works]
    assert [(one.name, one.expected, one.measured) for one in scc_clos.judge(runs)] == [
        ("Fig. 6a all three, 90%: deadlines missed, SCC / without SCC, both ideal", "as measured", 0.4),
        ("Fig. 6b all three, 90%: AFCT, ms, SCC / without SCC, both ideal", "as measured", 0.4)]
    with pytest.raises(ParameterError, match="ideals_only=true has 6 to 11"):
        scc_clos.works(["ideals_only=true", "figures=5,12"])


@pytest.mark.slow
def test_ideal_rates_are_runs_like_others(tmp_path):
    runs = {how: SccWork(Setup((("ds", 30), ("cs", 30)), how), Parameters(per_tor=2, duration_ms=20), Options())
            .run(1, tmp_path, None)["measured"] for how in ("flows", "ideal")}
    assert set(runs["flows"]["ds"]) == {"load_percent", "flows", "unfinished", "mean_ms", "p50_ms", "p99_ms",
                                        "quantiles_ms", "mbps", "missed"}
    assert runs["flows"] != runs["ideal"] and runs["flows"]["cs"]["flows"] == runs["ideal"]["cs"]["flows"] > 10
    # Nothing is faster than one and a half round trips.
    assert runs["flows"]["cs"]["quantiles_ms"][0][1] >= 0.45
