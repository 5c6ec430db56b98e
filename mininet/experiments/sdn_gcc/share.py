# SPDX-License-Identifier: Apache-2.0
"""One tagged TCP and its competitors share a link in three periods: SDN-GCC's Fig. 4."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Run,
    Verdict,
    at_least,
    at_most,
    fair_share_mbps,
    goodput_by_second,
    mean,
    near,
    phase,
    settled_phase,
    vm_frame_mbps,
)
from sdngcc.experiments.sdn_gcc import paths
from sdngcc.testbed.parameters import parse_settings
from sdngcc.topologies.shaping import threshold_bytes

# After its return the controller has so long to learn the network and take hold again, seconds.
RESUME_S = 4


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the one run."""
    return [Case("", parse_settings(settings, {"law": "sdngcc"}))]


def judge_static(run: Run) -> List[Verdict]:
    """Judge law static: every period at the configured rate, whoever is there."""
    parameters = run["parameters"]
    rate = parameters["static_mbps"] or parameters["link_mbps"] / parameters["senders"]
    target = fair_share_mbps(run) * rate / (parameters["link_mbps"] / parameters["senders"])
    return [near(f"tagged, period {name}, Mb/s", settled_phase(run, name)["settled_goodput_mbps"]["vm1"], target, 0.05)
            for name in ("all", "tagged") if phase(run, name)]


def judge_ratio(run: Run) -> List[Verdict]:
    """Judge goodputs against weights: each VM's is within 15% of its weighted part of their sum."""
    parameters, shared = run["parameters"], settled_phase(run, "all")["settled_goodput_mbps"]
    weights = [parameters["weights"][number % len(parameters["weights"])] for number in range(parameters["senders"])]
    return [near(f"{vm}, weight {weights[index]}, period all, Mb/s", shared[vm],
                 sum(shared.values()) * weights[index] / sum(weights), 0.15) for index, vm in enumerate(shared)]


def judge_sdngcc(run: Run) -> List[Verdict]:
    """Judge law sdngcc: fair and full while all send, the whole link for the last one."""
    parameters, shared = run["parameters"], settled_phase(run, "all")
    gso, link = parameters["gso"], vm_frame_mbps(run)
    verdicts: List[Verdict] = []
    if len(set(parameters["weights"])) > 1:
        verdicts += judge_ratio(run)
    else:
        verdicts.append(near("tagged, period all from its third second, Mb/s",
                             shared["settled_goodput_mbps"]["vm1"], fair_share_mbps(run), 0.10))
    if shared["jain"][2:]:
        verdicts.append(at_least("Jain in the worst second from the third on", min(shared["jain"][2:]),
                                 0.97 if gso else 0.99))
    for name in ("competitors", "all"):
        if phase(run, name):
            verdicts.append(at_least(f"utilisation, period {name}", phase(run, name)["utilisation"],
                                     0.88 if gso else 0.92))
    alone = phase(run, "tagged")
    seconds = goodput_by_second(run, "vm1", alone["start_s"], alone["end_s"]) if alone else []
    if len(seconds) > 2:
        verdicts.append(at_least("tagged alone, second second, Mb/s", seconds[1], 0.90 * link))
        verdicts.append(at_least("tagged alone, worst later second, Mb/s", min(seconds[2:]), 0.94 * link))
    verdicts.append(at_most("queue p99, bytes", run["queue"]["bytes_p99"],
                            2 * threshold_bytes(parameters["buffer_packets"], parameters["mark_percent"])))
    return verdicts


def judge_outage(run: Run) -> List[Verdict]:
    """Judge a killed controller: two seconds later every sending VM is limited to its share E(i), no more, no less."""
    parameters, series = run["parameters"], run["series"]
    kill, restart = parameters["kill_controller_at_s"], parameters["restart_controller_at_s"]
    if kill is None:
        return []
    end = restart if restart is not None else sum(parameters["phases"])
    verdicts = []
    for vm, limits in series["limit_mbps"].items():
        pairs = [(limit, share) for limit, share in
                 list(zip(limits, series["share_mbps"][vm]))[round((kill + 2) * 10) + 1:round(end * 10) - 1]
                 if limit is not None]
        if pairs:
            worst = max(pairs, key=lambda pair: abs(pair[0] - pair[1]))
            verdicts.append(near(f"{vm}'s limit two seconds after the controller's death, Mb/s", worst[0], worst[1],
                                 0.001))
    if restart is not None and (restart + RESUME_S) * 10 < len(series["limit_mbps"]["vm1"]):
        moment = round((restart + RESUME_S) * 10)
        below = [vm for vm, limits in series["limit_mbps"].items()
                 if any(limit is not None and limit < 0.95 * share for limit, share in
                        zip(limits[moment - 10:moment], series["share_mbps"][vm][moment - 10:moment]))]
        verdicts.append(Verdict(f"VMs controlled again {RESUME_S} s after its return", "one or more", len(below),
                                bool(below)))
    return verdicts


def judge_fair(run: Run) -> List[Verdict]:
    """Judge the laws of hypervisors among themselves: fair shares within 15%; the rest as measured."""
    shared = settled_phase(run, "all")
    verdicts = [near(f"{vm}, period all from its third second, Mb/s", got, fair_share_mbps(run, index), 0.15)
                for index, (vm, got) in enumerate(shared["settled_goodput_mbps"].items())]
    for name, value in (("Jain in the worst second from the third on", min(shared["jain"][2:], default=None)),
                        ("utilisation, period all", shared["utilisation"]),
                        ("queue p99, bytes", run["queue"]["bytes_p99"])):
        verdicts.append(Verdict(name, "as measured", value, True))
    return verdicts


def judge_late(run: Run) -> List[Verdict]:
    """Judge marks that come late: in the second half of period all every VM has its share, and the link is used.

    In the first half, and while VMs come and go, nothing is asked: what is known then is of the past.
    """
    shared = settled_phase(run, "all")
    middle = (shared["start_s"] + shared["end_s"]) / 2
    got = [mean(goodput_by_second(run, vm, middle, shared["end_s"])) for vm in run["series"]["goodput_mbps"]]
    fair = [fair_share_mbps(run, index) for index in range(len(got))]
    queue = run["series"]["queue_bytes"][round(middle * 10):round(shared["end_s"] * 10)]
    return [
        at_most("error of the worst share, second half of period all",
                round(max(abs(one / part - 1) for one, part in zip(got, fair)), 3), 0.15),
        at_least("utilisation there", round(sum(got) / sum(fair), 3), 0.85),
        Verdict("queue there, mean, bytes", "as measured", round(mean(queue)), True),
        Verdict("queue p99, whole run, bytes", "as measured", run["queue"]["bytes_p99"], True),
    ]


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the run by its law."""
    run = runs[0][1]
    law = run["parameters"]["law"]
    if law == "static":
        return judge_static(run)
    if run["parameters"]["mark_delay_ms"]:
        return judge_late(run)
    if paths.judges(run):
        return paths.judge(run)
    if law == "sdngcc":
        return judge_outage(run) or judge_sdngcc(run)
    if law != "none":
        return judge_outage(run) or judge_fair(run)
    return [at_least("utilisation, period all", phase(run, "all")["utilisation"], 0.90)]


EXPERIMENT = Experiment("share", "One tagged TCP and competitors on one link, in three periods",
                        "SDN-GCC, Fig. 4", cases, judge, paths.measure,
                        seen="fair shares, a full link, all of it for the last one, a short queue")
