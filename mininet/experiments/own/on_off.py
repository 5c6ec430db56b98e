# SPDX-License-Identifier: Apache-2.0
"""UDP that comes and goes beside TCP, slowly and fast: what TCP gets of what was free, and how long UDP waits.

The tagged VM sends TCP all the time. The others send UDP at line rate for half of each period and rest for the other
half. The periods come one after the other and divide the second phase: each lasts three times, no less than a third of
a second, or as much more or less as the length that the user sets has room for. What a VM is due at an instant is its
part by weight of the link among those that send then, and no more than it sends.

A VM that returns has its part from the first window on in which it received nine tenths of it. A window is a
millisecond, a fifth of the sending time where that is shorter, and ten packets at that part where that is longer. The
wait has the time of the first packet's way in it, which is the round trip and what stands in queues.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    UDP_PAYLOAD,
    Case,
    Experiment,
    Run,
    Verdict,
    Workload,
    given,
    percentile,
    vm_frame_mbps,
)
from sdngcc.testbed.parameters import FRAME_BYTES, ParameterError, Parameters, make_parameters, parse_settings

DEFAULTS: Dict[str, Any] = {"senders": 2, "competitor": ("udp",), "handshake": "early"}
# Seconds for TCP to settle in before UDP comes, unless the user sets phases.
ALONE_S = 0.5
# How often a period comes at least, and for how long, s.
REPEATS, LEAST_S = 3, 0.3
# Bins of what is received, us.
BIN_US = 200
# Windows in which a VM that returned has its part: ms, part of the sending time, packets at that part; and how much.
WINDOW_MS, WINDOW_PART, WINDOW_PACKETS = 1.0, 0.2, 10
ENOUGH = 0.9
# Control periods in which a VM has its part under the law that promises it, as experiment maxmin asks.
SETTLE_PERIODS = 5


def wanted(period_ms: float) -> float:
    """Return for how long a period should come, s."""
    return max(LEAST_S, REPEATS * period_ms / 1000)


def stretches(parameters: Parameters) -> List[Tuple[float, float, float]]:
    """Return (period in ms, start in s, end in s) of each period's part of the run; whole periods only.

    Raises ParameterError for a period that does not fit twice into its part.
    """
    wanted_s = [wanted(period_ms) for period_ms in parameters.on_off_ms]
    begin, result = parameters.phases[0], []
    for period_ms, wish_s in zip(parameters.on_off_ms, wanted_s):
        length_s = parameters.phases[1] * wish_s / sum(wanted_s)
        count = int(length_s * 1000 / period_ms + 1e-9)
        if count < 2:
            raise ParameterError(f"on_off_ms: {period_ms:g} ms does not fit twice into its {length_s:g} s of phases")
        result.append((period_ms, begin, begin + count * period_ms / 1000))
        begin += length_s
    return result


def workload(parameters: Parameters) -> Workload:
    """Return TCP of the tagged VM and UDP of the others in each stretch."""
    work = Workload()
    work.count_in(BIN_US)
    work.tcp("vm1", "rx1", 0, parameters.duration_s, parameters.protocol(0),
             parameters.guest_ecn and parameters.protocol(0) != "dctcp")
    for period_ms, start, end in stretches(parameters):
        for index in range(1, parameters.senders):
            receiver = f"rx{parameters.receivers_of(index)[0] + 1}"
            work.udp(f"vm{index + 1}", receiver, start, end, parameters.udp_mbps or parameters.link_mbps,
                     period_ms / 2, period_ms / 2)
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return a run without a shim and one of each law that the shim knows, or of the one that the user set.

    Raises CoreBuildError when the shim cannot be asked, ParameterError for work that this experiment is not about.
    """
    from sdngcc.shim.knobs import laws

    names = [""] if given(settings, "law") else ["none", *(law.name for law in laws())]
    runs = []
    for name in names:
        own = {**DEFAULTS, **({"law": name} if name else {})}
        parameters = parse_settings(settings, own)
        if not given(settings, "phases"):
            length_s = sum(map(wanted, parameters.on_off_ms))
            parameters = parse_settings(settings, {**own, "phases": (ALONE_S, math.ceil(length_s * 10) / 10, 0)})
        if parameters.senders < 2 or parameters.tagged == "udp" or set(parameters.competitor) != {"udp"}:
            raise ParameterError("on-off needs senders=2 or more, a tagged VM that sends TCP, and competitor=udp")
        if parameters.topology != "dumbbell" or parameters.generator != "own":
            raise ParameterError("on-off needs topology=dumbbell and generator=own")
        runs.append(Case(name and f"law={name}", parameters, workload(parameters)))
    return runs


def due_mbps(run: Run) -> Tuple[float, float, List[float]]:
    """Return payload due to TCP while UDP rests and while it sends, and to each UDP VM while it sends, Mb/s."""
    parameters = make_parameters(run["parameters"])
    line = vm_frame_mbps(run)
    offered = min(parameters.udp_mbps or line, line)
    left, weight = line, sum(parameters.weight(index) for index in range(parameters.senders))
    udp = [0.0] * (parameters.senders - 1)
    # Those that send less than their part leave the rest of it to the others.
    for index in sorted(range(1, parameters.senders), key=parameters.weight, reverse=True):
        udp[index - 1] = min(offered, left * parameters.weight(index) / weight)
        left -= udp[index - 1]
        weight -= parameters.weight(index)
    return line * TCP_PAYLOAD, left * TCP_PAYLOAD, [rate * UDP_PAYLOAD for rate in udp]


def first_window(received: Sequence[int], length: int, enough: float) -> Optional[int]:
    """Return the number of the first bin from which on length bins have enough bytes in all; None: there is none."""
    for number in range(len(received) - length + 1):
        if sum(received[number:number + length]) >= enough:
            return number
    return None


def waits_ms(received: Sequence[int], bin_s: float, period_ms: float, due: float) -> List[Optional[float]]:
    """Return after each return of a VM how long it waited for its part, ms; None: it never had it while it sent.

    received are its bytes in bins of bin_s from the first return on, due is its part in Mb/s.
    """
    on_s = period_ms / 2000
    window_s = max(min(WINDOW_MS / 1000, WINDOW_PART * on_s), WINDOW_PACKETS * FRAME_BYTES * 8 / (due * 1e6))
    length = max(1, round(window_s / bin_s))
    enough = ENOUGH * due * 1e6 / 8 * length * bin_s
    result: List[Optional[float]] = []
    for number in range(round(len(received) * bin_s / (period_ms / 1000))):
        begin = round(number * period_ms / 1000 / bin_s)
        # The last window may begin when the VM stops.
        inside = received[begin:begin + round(on_s / bin_s) + length]
        found = first_window(inside, length, enough)
        result.append(None if found is None else round(found * bin_s * 1000, 3))
    return result


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return for each period, by its ms as text, parts and waits; see row()."""
    job = json.loads((raw / "job.json").read_text())
    bin_s = job["sampling"]["bin_us"] / 1e6
    bins: Dict[int, List[int]] = {}
    for sink in sorted(raw.glob("sink-*.txt")):
        for line in sink.read_text().splitlines():
            port, *counts = (int(word) for word in line.split())
            bins[port] = counts
    flows = {(flow["vm"], flow["start_s"]): bins[flow["port"]] for flow in job["flows"]}
    parameters = make_parameters(run["parameters"])
    found = {}
    for period_ms, start, end in stretches(parameters):
        inside = slice(round(start / bin_s), round(end / bin_s))
        udp = [flows[vm, round(start, 6)][inside] for vm in parameters.vm_names[1:]]
        found[f"{period_ms:g}"] = row(run, flows["vm1", 0][inside], udp, bin_s, period_ms)
    return found


def row(run: Run, tcp: Sequence[int], udp: Sequence[Sequence[int]], bin_s: float, period_ms: float) -> Dict[str, Any]:
    """Return what became of one stretch, out of bytes by bins of TCP and of each UDP VM.

    tcp and udp are what was received as parts of what was due, free TCP's of what UDP left of the link;
    wait_ms_p50 and wait_ms_p99 are of returns that were given their part, never is the part of those that were not.
    """
    rest, beside, due = due_mbps(run)
    megabits = len(tcp) * bin_s * 1e6 / 8
    left = rest * megabits - sum(map(sum, udp)) / UDP_PAYLOAD * TCP_PAYLOAD
    waits = [wait for counts, part in zip(udp, due) for wait in waits_ms(counts, bin_s, period_ms, part)]
    had = [wait for wait in waits if wait is not None]
    return {
        "tcp": round(sum(tcp) / ((rest + beside) / 2 * megabits), 4),
        "free": round(sum(tcp) / left, 4) if left > 0 else None,
        "udp": round(sum(map(sum, udp)) / (sum(due) / 2 * megabits), 4),
        "wait_ms_p50": round(percentile(had, 50), 3) if had else None,
        "wait_ms_p99": round(percentile(had, 99), 3) if had else None,
        "never": round(1 - len(had) / len(waits), 4),
    }


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Give a row a period of each run; judge maxmin's waits where it has time to settle."""
    verdicts = []
    for label, run in runs:
        limit_ms = SETTLE_PERIODS * run["parameters"]["period_ms"]
        for period, measured in run["measured"].items():
            name = f"{label}, period {period} ms".removeprefix(", ")
            wait = measured["wait_ms_p50"]
            if run["parameters"]["law"] == "maxmin" and float(period) / 2 > limit_ms:
                verdicts.append(Verdict(f"{name}: wait, ms", f"<= {limit_ms:g}", wait,
                                        wait is not None and wait <= limit_ms))
            verdicts.append(Verdict(name, "as measured", measured, True))
    return verdicts


EXPERIMENT = Experiment("on-off", "UDP that comes and goes beside TCP, in periods of 1 ms to 1 s", "ours", cases, judge,
                        measure,
                        seen="what TCP gets of what was free, and how long a VM that returns waits for its part")
