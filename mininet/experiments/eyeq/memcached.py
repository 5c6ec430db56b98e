# SPDX-License-Identifier: Apache-2.0
"""A memcached tenant beside a tenant whose UDP bursts from every host to another in turn: EyeQ's section 5.2.

The paper's 4 servers and 12 clients on 16 hosts are 1 and 3 on 4 hosts here. What each host does is the paper's: 72,000
requests a second at the server, 24,000 from each client over 10 connections for each of the paper's servers, values and
keys of its sizes, 3.5 of the server's 10 Gb/s; the tests of latency have half of that. UDP bursts last 0.2 s, not half
a second, with the paper's duty of one half and equal weights. The shim adds up the guarantees of all VMs of a machine,
and the laboratory's hosts are one machine to it: they are a quarter of the paper's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    Case,
    Experiment,
    Program,
    Run,
    Verdict,
    Workload,
    at_least,
    at_most,
    percentile,
    without_law,
)
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.statistics import quantiles

# UDP sends so long, then rests as long, seconds.
BURST_S = 0.2
# Requests a second of each client where throughput is tested, and where latency is; its connections.
FULL, HALF = 24000, 12000
CONNECTIONS = 40
# The times of the first requests, when all connections begin at once, are not judged, seconds.
WARM_UP_S = 0.02
# An answer is late after so many ms. The paper says that responses timed out, but not after how long.
LATE_MS = 100
# What each client stores, in turn: values under so many keys, both of the paper's sizes, bytes.
KEYS, KEY_BYTES, VALUE_BYTES = 64, 32, 6000
STORED = "STORED\r\n"
LOADS = {"full load": FULL, "half load": HALF}

DEFAULTS: Dict[str, Any] = {
    "law": "eyeq", "topology": "star", "senders": 6, "vms_per_hypervisor": 2, "receivers": 2,
    "guarantees": (1250,), "link_mbps": 10000, "rtt_us": 50, "buffer_packets": 667, "mark_percent": 90,
    "phases": (0, 0.8, 0), "horizon_us": 250}


def stores(vm: str) -> List[str]:
    """Return the requests that a client makes in turn, all of a length."""
    return [f"set {f'{vm}-{number}-'.ljust(KEY_BYTES, 'k')} 0 0 {VALUE_BYTES}\r\n{'v' * VALUE_BYTES}\r\n"
            for number in range(KEYS)]


def workload(parameters: Parameters, rate: int, bursts: bool, seed: int) -> Workload:
    """Return server and clients on the VMs of odd number, and bursts among those of even number."""
    work = Workload()
    work.program(Program("memcached", "rx1", ("memcached", "-u", "root", "-l", "{ip:rx1}", "-t", "1"), serves=True))
    for number, vm in enumerate(parameters.vm_names[::2]):
        requests, path = stores(vm), f"/run/stores-{vm}"
        work.program(Program(f"client-{vm}", vm, (
            "{generator}", "client", "--to", "{ip:rx1}", "--port", "11211", "--connect", "0", "--start", "{start}",
            "--stop", "{end}", "--count", str(CONNECTIONS), "--interval", str(round(1e9 / rate)), "--poisson",
            "--seed", str(seed << 8 | number), "--size", str(len(requests[0])), "--reply", str(len(STORED)),
            "--contents", path, "--out", f"{{out}}/stores-{vm}.txt"), to=("rx1",), files={path: "".join(requests)}))
    nodes = [*parameters.vm_names[1::2], "rx2"]
    for turn in range(int(parameters.duration_s / BURST_S / 2 + 0.5) if bursts else 0):
        for number, vm in enumerate(nodes):
            other = nodes[(number + 1 + turn % (len(nodes) - 1)) % len(nodes)]
            start = turn * 2 * BURST_S
            work.udp(vm, other, start, start + BURST_S, parameters.udp_mbps or parameters.link_mbps)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the runs at each load: memcached alone, beside UDP without a shim, and both with the law."""
    chosen = parse_settings(settings, DEFAULTS)
    plain = parse_settings(without_law(settings), {**DEFAULTS, "law": "none"})
    runs = []
    for load, rate in LOADS.items():
        def case(words: str, parameters: Parameters, bursts: bool, rate: int = rate, load: str = load) -> Case:
            return Case(f"{words}, {load}", parameters, lambda seed: workload(parameters, rate, bursts, seed))

        runs += [case("alone", plain, False), case("law=none", plain, True)]
        if chosen.law != "none":
            runs += [case(f"law={chosen.law} alone", chosen, False), case(f"law={chosen.law}", chosen, True)]
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return requests a second that were answered in the run, percentiles and quantiles of their times in us.

    Also how many were answered while UDP sends, or would send, of those due then, and the part of all that took over
    LATE_MS. A request that was not answered counts as long as was waited for it at least.
    """
    rows = [[int(word) for word in line.split()] for path in sorted(raw.glob("stores-*.txt"))
            for line in path.read_text().splitlines()[1:]]
    seconds = sum(run["parameters"]["phases"])
    start_ns = min(due for due, _, _ in rows)
    end_ns = start_ns + seconds * 1e9

    def sends(at_ns: int) -> bool:
        return (at_ns - start_ns) % (2 * BURST_S * 1e9) < BURST_S * 1e9

    times = [(took if took >= 0 else end_ns - due) / 1000 for due, _, took in rows if due >= start_ns + WARM_UP_S * 1e9]
    return {"per_s": round(sum(took >= 0 for _, _, took in rows) / seconds, 1), "quantiles_us": quantiles(times),
            "in_bursts": round(sum(took >= 0 and sends(due + took) for due, _, took in rows)
                               / sum(sends(due) for due, _, _ in rows), 4),
            "late": round(sum(took > LATE_MS * 1000 for took in times) / max(1, len(times)), 4),
            **{f"p{percent:g}_us": round(percentile(times, percent), 1) for percent in (50, 99, 99.9)}}


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge throughput at full load, and latency at half of it, with the law beside UDP and without."""
    found = {label: run["measured"] for label, run in runs}
    verdicts = [Verdict(f"{label}: requests/s, answered in bursts of those due, part over {LATE_MS} ms, p50, p99, "
                        "p99.9 in us", "as measured", [one[name] for name in (
                            "per_s", "in_bursts", "late", "p50_us", "p99_us", "p99.9_us")], True)
                for label, one in found.items()]

    def part(label: str, load: str, field: str) -> float:
        return float(found[f"{label}, {load}"][field]) / float(found[f"alone, {load}"][field])

    full, half = LOADS
    verdicts.append(at_most("throughput, unprotected / alone", round(part("law=none", full, "per_s"), 4), 0.97,
                            "269k / 288k = 0.934"))
    verdicts.append(at_most("answered while UDP sends, unprotected / alone",
                            round(part("law=none", full, "in_bursts"), 4), 0.97))
    verdicts.append(at_least("p99, unprotected / alone", round(part("law=none", half, "p99_us"), 1), 1000,
                             "over three orders of magnitude"))
    for label in [one.removesuffix(f" alone, {full}") for one in found if one.endswith(f" alone, {full}")]:
        for one in (f"{label} alone", label):
            verdicts.append(at_least(f"answered while UDP sends, {one} / alone",
                                     round(part(one, full, "in_bursts"), 4), 0.99, "288k of 288k"))
        verdicts.append(at_most(f"p99.9, {label}, us", found[f"{label}, {half}"]["p99.9_us"], 750, "750"))
        verdicts.append(at_most(f"p99, {label} / alone", round(part(label, half, "p99_us"), 2), 2))
    return verdicts


EXPERIMENT = Experiment("memcached", "A real memcached and its clients beside bursts of UDP", "EyeQ, section 5.2",
                        cases, judge, measure,
                        seen="UDP takes throughput at full load and makes p99 a thousandfold at half of it, but not "
                        "with the law",
                        changed="A client asked 2,000 times a second before, over one connection, which filled 3% of "
                        "the server's line; it is 24,000 over 40 now, 35%, as in the paper.")
