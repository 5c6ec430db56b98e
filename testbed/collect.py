# SPDX-License-Identifier: Apache-2.0
"""Makes a run's result out of the raw samples the machine left: phases, series, counters.

Everything here follows from the samples alone, so the same samples give the same bytes; wall times stay out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from sdngcc.testbed.parameters import Parameters
from sdngcc.testbed.statistics import jain, mean, percentile, spread_us
from sdngcc.testbed.workload import BIN_MS

SCHEMA = "sdngcc-result/1"
BIN_S = BIN_MS / 1000
# Windows of Jain's index, seconds.
WINDOW_S = 1.0
# The first seconds of a phase are for settling, if it has a window more than these.
SETTLE_S = 2
PHASES = ("competitors", "all", "tagged")


@dataclass(frozen=True)
class Request:
    """One request of a flow of Workload's calls() or short()."""

    name: str
    """The flow's."""
    due_ns: int
    """When it should have left, from the start of the run."""
    took_ns: Optional[int]
    """From then to the end of the answer; None: it was not over when its flow stopped."""
    missed: bool
    """It has a deadline and did not meet it."""


@dataclass
class Samples:
    """Raw samples of one run."""

    meta: Dict[str, Any]
    goodput: Dict[str, List[int]]
    """Payload bytes by VM and bin."""
    queue: List[Tuple[int, ...]]
    """t_ns bytes backlog marks early pdrop other, in order of time; t_ns from the start of the run."""
    limiters: List[Dict[str, int]]
    """Readings of limiters; t_ns from the start of the run."""
    requests: List[Request]
    """Requests of all flows that make them."""


def _table(path: Path) -> Tuple[List[str], List[Tuple[int, ...]]]:
    lines = path.read_text().splitlines()
    return lines[0].split(), [tuple(int(word) for word in line.split()) for line in lines[1:]]


def _read_limiters(raw: Path, start_ns: int) -> List[Dict[str, int]]:
    """Return the readings of limiters in raw, empty without a shim."""
    if not (raw / "limiters.txt").exists():
        return []
    names, rows = _table(raw / "limiters.txt")
    readings = [dict(zip(names, row)) for row in rows]
    for reading in readings:
        reading["t_ns"] -= start_ns
    return readings


def _is_of(reading: Dict[str, int], vm: str, devices: Dict[int, str]) -> bool:
    """Return whether that is an active limiter of the VM; devices are names by index."""
    return bool(reading["active"]) and devices.get(reading["vm"], "").endswith(f"-{vm}")


def limits_mbps(raw: Path, vm: str) -> List[Tuple[float, float]]:
    """Return each reading in raw of a VM's rate limit while it was active: time in s, Mb/s."""
    meta = json.loads((raw / "meta.json").read_text())
    devices = {index: name for name, index in meta["devices"].items()}
    return [(reading["t_ns"] / 1e9, _mbps(reading["rate"], 1))
            for reading in _read_limiters(raw, round(meta["start_s"] * 1e9)) if _is_of(reading, vm, devices)]


def read_samples(raw: Path, job: Dict[str, Any]) -> Samples:
    """Read what the machine left in raw for that job. Raises OSError or ValueError when it is incomplete."""
    meta = json.loads((raw / "meta.json").read_text())
    start_ns = round(meta["start_s"] * 1e9)
    bins = round(job["duration_s"] / BIN_S)
    goodput: Dict[str, List[int]] = {}
    requests: List[Request] = []
    finer = BIN_MS * 1000 // job["sampling"]["bin_us"]
    sinks = {(flow["to"], flow["port"]): flow["vm"] for flow in job["flows"] if "reply" not in flow}
    for receiver in sorted({receiver for receiver, _ in sinks}):
        for line in (raw / f"sink-{receiver}.txt").read_text().splitlines():
            port, *counts = (int(word) for word in line.split())
            total = goodput.setdefault(sinks[receiver, port], [0] * bins)
            for number, count in enumerate(counts):
                total[number // finer] += count
    for flow in job["flows"]:
        if "reply" in flow:
            total = goodput.setdefault(flow["vm"], [0] * bins)
            requests += _read_requests(raw / f"requests-{flow['port']}.txt", flow, start_ns, total)
    _, queue = _table(raw / "queue.txt")
    limiters = _read_limiters(raw, start_ns)
    return Samples(meta, goodput, [(row[0] - start_ns, *row[1:]) for row in queue], limiters, requests)


def _read_requests(path: Path, flow: Dict[str, Any], start_ns: int, bins: List[int]) -> List[Request]:
    """Return a flow's requests, and count the bytes of those that ended into the bins of their ends."""
    deadline_ns = None if flow["deadline_us"] is None else flow["deadline_us"] * 1000
    result = []
    for due_ns, size, took_ns in _table(path)[1]:
        due_ns -= start_ns
        number = int((due_ns + took_ns) / (BIN_S * 1e9))
        if took_ns >= 0 and number < len(bins):
            bins[number] += size
        waited_ns = took_ns if took_ns >= 0 else flow["stop_s"] * 1e9 - due_ns
        result.append(Request(flow["name"], due_ns, took_ns if took_ns >= 0 else None,
                              deadline_ns is not None and waited_ns > deadline_ns))
    return result


def _request_summary(requests: List[Request]) -> Dict[str, Any]:
    return {**spread_us([one.took_ns for one in requests if one.took_ns is not None]),
            "unfinished": sum(one.took_ns is None for one in requests),
            "missed": sum(one.missed for one in requests)}


def summarise_requests(requests: List[Request], bounds: List[Tuple[str, float, float]]) -> Dict[str, Any]:
    """Return durations by name of flow, over all and by the phase in which a request was due."""
    by_name: Dict[str, List[Request]] = {}
    for one in requests:
        by_name.setdefault(one.name, []).append(one)
    return {name: {**_request_summary(ones), "phases": {
        label: _request_summary([one for one in ones if start * 1e9 <= one.due_ns < end * 1e9])
        for label, start, end in bounds}} for name, ones in by_name.items()}


def _mbps(count_bytes: float, seconds: float) -> float:
    return round(count_bytes * 8 / seconds / 1e6, 3) if seconds else 0.0


def _bins(start_s: float, end_s: float) -> slice:
    return slice(round(start_s / BIN_S), round(end_s / BIN_S))


def goodput_mbps(samples: Samples, vm: str, start_s: float, end_s: float) -> float:
    """Return a VM's payload rate between two times, Mb/s."""
    return _mbps(sum(samples.goodput[vm][_bins(start_s, end_s)]), end_s - start_s)


def window_jain(samples: Samples, parameters: Parameters, start_s: float, end_s: float) -> List[float]:
    """Return Jain's index of goodput by weight in each whole WINDOW_S between two times."""
    indices = []
    for number in range(int((end_s - start_s) / WINDOW_S + 1e-9)):
        begin = start_s + number * WINDOW_S
        indices.append(round(jain([goodput_mbps(samples, vm, begin, begin + WINDOW_S) / parameters.weight(index)
                                   for index, vm in enumerate(parameters.vm_names)]), 5))
    return indices


def utilisation(samples: Samples, parameters: Parameters, start_s: float, end_s: float) -> float:
    """Return the part of the bottleneck's capacity that its bytes on the wire took between two times."""
    inside = [row for row in samples.queue if start_s * 1e9 <= row[0] <= end_s * 1e9]
    if len(inside) < 2:
        return 0.0
    sent = inside[-1][1] - inside[0][1]
    return round(sent * 8 / ((inside[-1][0] - inside[0][0]) / 1e9) / (parameters.link_mbps * 1e6), 4)


def phase_bounds(parameters: Parameters) -> List[Tuple[str, float, float]]:
    """Return name, start and end in seconds of each phase that has a length."""
    bounds, start = [], 0.0
    for name, length in zip(PHASES, parameters.phases):
        if length:
            bounds.append((name, round(start, 1), round(start + length, 1)))
        start += length
    return bounds


def _phases(samples: Samples, parameters: Parameters) -> List[Dict[str, Any]]:
    result = []
    for name, start, end in phase_bounds(parameters):
        settled = start + SETTLE_S if end - start >= SETTLE_S + WINDOW_S else start
        result.append({
            "name": name, "start_s": start, "end_s": end,
            "goodput_mbps": {vm: goodput_mbps(samples, vm, start, end) for vm in parameters.vm_names},
            "settled_start_s": settled,
            "settled_goodput_mbps": {vm: goodput_mbps(samples, vm, settled, end) for vm in parameters.vm_names},
            "jain": window_jain(samples, parameters, start, end),
            "utilisation": utilisation(samples, parameters, start, end),
            "settled_utilisation": utilisation(samples, parameters, settled, end),
        })
    return result


def _queue_series(samples: Samples, bins: int) -> Tuple[List[int], List[int], List[int]]:
    """Return mean and largest backlog in bytes, and new marks, of each bin."""
    backlog: List[List[int]] = [[] for _ in range(bins)]
    marks = [0] * bins
    before = samples.queue[0][3] if samples.queue else 0
    for row in samples.queue:
        number = int(row[0] // (BIN_S * 1e9))
        if 0 <= number < bins:
            backlog[number].append(row[2])
            marks[number] += row[3] - before
        before = row[3]
    return [round(mean(values)) for values in backlog], [max(values, default=0) for values in backlog], marks


def _limit_series(samples: Samples, vm: str, bins: int, column: str) -> List[Any]:
    """Return a VM's rate limit (or its share) in Mb/s as first read in each bin; None where it has none."""
    devices = {index: name for name, index in samples.meta["devices"].items()}
    series: List[Any] = [None] * bins
    for row in samples.limiters:
        number = int(row["t_ns"] // (BIN_S * 1e9))
        if _is_of(row, vm, devices) and 0 <= number < bins and series[number] is None:
            series[number] = _mbps(row[column], 1)
    return series


def summarise(samples: Samples, parameters: Parameters) -> Dict[str, Any]:
    """Return everything of a run's result but its verdicts."""
    bins = round(parameters.duration_s / BIN_S)
    for vm in parameters.vm_names:
        samples.goodput.setdefault(vm, [0] * bins)
    queue_mean, queue_max, marks = _queue_series(samples, bins)
    last = samples.queue[-1]
    microseconds = [row[2] * 8 / parameters.link_mbps for row in samples.queue]
    shim = samples.meta.get("shim", {}).get("counters", {})
    return {
        "parameters": parameters.model_dump(mode="json"),
        "phases": _phases(samples, parameters),
        "queue": {
            "delay_us_p50": round(percentile(microseconds, 50), 1),
            "delay_us_p99": round(percentile(microseconds, 99), 1),
            "bytes_p50": percentile([row[2] for row in samples.queue], 50),
            "bytes_p99": percentile([row[2] for row in samples.queue], 99),
            "marks": last[3],
        },
        "drops": {"bottleneck_early": last[4], "bottleneck_full": last[5], "bottleneck_other": last[6],
                  **{f"shim_{name[5:]}": count for name, count in shim.items() if name.startswith("drop_")}},
        "notifications": {
            "sent": sum(count for name, count in shim.items() if name == "messages" or name.startswith("refused_")),
            "accepted": shim.get("messages", 0), "marks": shim.get("message_marks", 0),
            "refused": sum(count for name, count in shim.items() if name.startswith("refused_")),
            "refused_by_reason": {name[8:]: count for name, count in shim.items() if name.startswith("refused_")},
        },
        "shim": {name: count for name, count in shim.items() if name.startswith(("tx_", "rx_"))},
        "requests": summarise_requests(samples.requests, phase_bounds(parameters)),
        "knobs": samples.meta.get("shim", {}).get("knobs", {}),
        "series": {
            "t_s": [round(number * BIN_S, 1) for number in range(bins)],
            "goodput_mbps": {vm: [_mbps(count, BIN_S) for count in samples.goodput[vm]]
                             for vm in parameters.vm_names},
            "limit_mbps": {vm: _limit_series(samples, vm, bins, "rate") for vm in parameters.vm_names},
            "share_mbps": {vm: _limit_series(samples, vm, bins, "share") for vm in parameters.vm_names},
            "queue_bytes": queue_mean, "queue_bytes_max": queue_max, "marks": marks,
        },
    }
