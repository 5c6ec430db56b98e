# SPDX-License-Identifier: Apache-2.0
"""Results of every experiment, made up: what its runs measure, with values that differ by seed."""

import random

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.own import tournament as of_tournament
from sdngcc.testbed.statistics import quantiles

TIMES = [float(number ** 2) for number in range(1, 200)]
SPREAD = {"p50_us": 90.0, "p99_us": 900.0, "p99.9_us": 990.0, "quantiles_us": quantiles(TIMES)}
GROUP = {"flows": 90, "unfinished": 0, "mean_ms": 4.0, "p50_ms": 3.0, "p99_ms": 20.0, "missed": 0.2, "mbps": 300.0,
         "quantiles_ms": quantiles(TIMES, 4)}
TENANT = {"flows": 90, "ended": 80, "bytes": 9e6, "classes": {
    kind: {"flows": 30, "p50_us": 300.0, "p99_us": 3000.0} for kind in of_tournament.CLASSES}}
PERIOD = {"tcp": 0.8, "free": 0.9, "udp": 1.1, "wait_ms_p50": 0.4, "wait_ms_p99": 2.0, "never": 0.0}
FLOWS = ("vm1>rx1", "vm1>rx2", "vm2>rx1", "vm3>rx1", "vm4>rx1", "vm5>rx1", "vm5>rx2")
# What each experiment's measure returns, as figures read it; others measure nothing that is drawn.
MEASURED = {
    "delay": {"limit_deviation_mbps": 5.0, "limit_mbps": [[10.0 + 0.01 * step, 400.0 - step] for step in range(100)]},
    "mice": {"mean_ms": 40.0, "stdev_ms": 90.0, "p50_ms": 8.0, "p99_ms": 600.0, "quantiles_ms": quantiles(TIMES, 3)},
    "admission": {"at_once": 0.2, "connections": 200, "at_once_after": 1.0, "refused_part": 0.9},
    "burst-latency": {"all": SPREAD, "timed": SPREAD, "in_bursts": SPREAD, "waited": 0.4},
    "spare": {"F1": [8500.0, 1700.0, 3500.0], "F2": [0.0, 6900.0, 4800.0], "F3": [0.0, 0.0, 4800.0]},
    "converge": {"settled_ms": 3.2},
    "shuffle": {"done_s": {"P1": 1.0, "P2": 1.1, "P4": 1.4},
                "quantiles_s": {job: [[0, 0.5], [50, 0.7], [100, 1.0]] for job in ("P1", "P2", "P4")}},
    "ecn-red": {"mixes": {str(mix): {"ratio": 0.8 - 0.05 * mix} for mix in range(1, 10)}},
    "ack-gaps": {"gaps": {name: [9000.0, 0.0, 80.0, 2.0, 1.0, 0.0, 4.0, *[0.0] * 13]
                          for name in ("without ECN", "with ECN")}},
    "send-window": {"window_kb": [20.0 + step % 200 / 3 for step in range(1200)], "teeth": 5.0, "top_kb": 89.0,
                    "foot_kb": 21.0, "held": 1.0},
    "acdc": {"jain": 0.98, "queue_kb": 30.0, "queue_p99_kb": 40.0},
    "memcached": {"per_s": 72000.0, "in_bursts": 0.9, "late": 0.1, **SPREAD},
    "rwnd": {"retransmitted_percent": 2.0},
    "port-share": {"flow_mbps": [[20.0] * 120 for _ in range(5)]},
    "schedule": {"end": {**{f"map{number}": 6.4 for number in range(1, 6)}, "reduce": 15.5}, "active": 48.0,
                 "unfinished": 0},
    "web": {"mbps": 250.0, "mean_us": 900.0, **SPREAD},
    "interference": {"rx1": GROUP, "rx2": GROUP, "rx3": GROUP},
    "divisions": {"rx1": GROUP, "rx2": GROUP, "rx3": GROUP},
    "divisions-load": {"rx1": GROUP, "rx2": GROUP},
    "laws": {"control_bytes": 9e5},
    "maxmin": {"join_ms": 16.0, "leave_ms": 18.0},
    "tournament": {"control_bytes": 9e5, "tenants": {name: TENANT for name in of_tournament.WELL}},
    "today": {"control_bytes": 9e5, "tenants": {name: TENANT for name in of_tournament.WELL}},
    "on-off": {period: PERIOD for period in ("1", "10", "100", "1000")},
    "innocent": {name: 50.0 for name in FLOWS},
    "ways": {f"vm{number}": 60.0 for number in range(1, 6)},
    "takeover": {"taken_ms": {"0000000000001001": 970.0}},
    "beside": {"during": {"flows": 87, "ours": 0, "added": 0, "removed": 0}},
}


def shaken(value, dice):
    """Return a value whose numbers are some percent off, percents of quantiles and times apart."""
    if isinstance(value, dict):
        return {key: shaken(one, dice) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)) and len(value[0]) == 2:
        return [[first, shaken(second, dice)] for first, second in value]
    if isinstance(value, (list, tuple)):
        return [shaken(one, dice) for one in value]
    return value * dice.uniform(0.95, 1.05) if isinstance(value, float) else value


def run_of(experiment, case, dice):
    """Return a run as collect.summarise() makes it, of made-up numbers."""
    parameters = case.parameters
    bins, vms = round(parameters.duration_s * 10), parameters.vm_names
    fair = parameters.link_mbps / len(vms)
    phases, start = [], 0.0
    for name, length in zip(("competitors", "all", "tagged"), parameters.phases):
        if length:
            rates = {vm: fair * dice.uniform(0.8, 1) for vm in vms}
            phases.append({"name": name, "start_s": start, "end_s": start + length, "utilisation": 0.95,
                           "settled_start_s": start + 2, "settled_utilisation": dice.uniform(0.9, 1),
                           "jain": [dice.uniform(0.9, 1) for _ in range(max(int(length), 3))],
                           "goodput_mbps": rates, "settled_goodput_mbps": rates})
        start += length
    series = {vm: [fair * dice.uniform(0.9, 1) for _ in range(bins)] for vm in vms}
    return {"label": case.label, "parameters": parameters.model_dump(mode="json"), "knobs": {}, "phases": phases,
            "series": {"t_s": [number / 10 for number in range(bins)], "goodput_mbps": series},
            "queue": {"bytes_p99": 40_000 * dice.uniform(0.9, 1), "delay_us_p99": 300.0 * dice.uniform(0.9, 1)},
            "requests": {}, "measured": shaken(MEASURED.get(experiment, {}), dice)}


def result_of(experiment, seed):
    """Return a result of an experiment as leave_result() makes it, without verdicts."""
    dice = random.Random(seed)
    first, *others = [run_of(experiment, case, dice) for case in EXPERIMENTS[experiment].cases([])]
    return {"experiment": experiment, "seed": seed, **first, "variants": others, "verdicts": []}
