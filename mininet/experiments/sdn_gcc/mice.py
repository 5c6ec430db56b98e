# SPDX-License-Identifier: Apache-2.0
"""Web pages among elephants: SDN-GCC's Fig. 8.

21 hosts in three racks, each with a VM that sends TCP, one that sends UDP and one with a web server (nginx; the paper's
is Apache). All send to one port for 20 s. At the tenth second six clients fetch a page of 11.5 KB from each web server,
ten times over: 126 mice (7 servers of each of three racks, six times), by Apache Benchmark as in the paper. The paper's
racks are all behind the core; here the second rack stands beside the receivers. It does not say at what rate its UDP
sends; here a UDP VM sends a tenth of the link. ``--set phases=0,6,0`` is a run of a third of the time.
"""

from __future__ import annotations

import csv
import statistics
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from sdngcc.experiments.base import (
    TCP_PAYLOAD,
    Case,
    Experiment,
    Program,
    Run,
    Verdict,
    Workload,
    at_least,
    at_most,
    given,
    mean,
    near,
    percentile,
    settled_phase,
    without_law,
)
from sdngcc.testbed.parameters import ParameterError, Parameters, parse_settings
from sdngcc.testbed.statistics import quantiles

# Page, fetches of each client from each server, and clients.
PAGE_BYTES, FETCHES, CLIENTS = 11_776, 10, 6
# A client that has not ended so long before the end of the run says what it has.
TAIL_S = 0.5
# Part of the unprotected run's completion times that the law's must not exceed.
PART = 0.5
UNPROTECTED = "law=none"
# What the TCP elephant with the least has of an equal share at least.
LEAST = 0.8

NGINX = """
daemon off; master_process off; user root; error_log stderr;
events { worker_connections 256; }
http {
	access_log off; sendfile on;
	client_body_temp_path /run/mice/t1; proxy_temp_path /run/mice/t2; fastcgi_temp_path /run/mice/t3;
	uwsgi_temp_path /run/mice/t4; scgi_temp_path /run/mice/t5;
	server { listen 80; root /run/mice/files; }
}
"""


def thirds(parameters: Parameters) -> Tuple[List[str], List[str], List[str]]:
    """Return the VMs that send TCP, that send UDP, and that serve pages."""
    names, third = parameters.vm_names, parameters.senders // 3
    return names[:third], names[third:2 * third], names[2 * third:]


def workload(parameters: Parameters) -> Workload:
    """Return elephants, servers, and the clients that begin in the middle."""
    work, end = Workload(), parameters.duration_s
    tcp, udp, web = thirds(parameters)
    for vm in tcp:
        work.tcp(vm, "rx1", 0, end, parameters.protocol(0), parameters.guest_ecn, parameters.flows)
    for vm in udp:
        work.udp(vm, "rx1", 0, end, parameters.udp_mbps or parameters.link_mbps / 10)
    files = {"/run/mice/nginx.conf": NGINX, "/run/mice/files/index.html": "m" * PAGE_BYTES}
    for vm in web:
        serve = ("nginx", "-c", "/run/mice/nginx.conf", "-g", f"pid /run/mice/{vm}.pid;")
        work.program(Program(f"nginx-{vm}", vm, serve, serves=True, files=files))
        files = {}
    middle = round(end / 2, 1)
    for vm in web:
        for client in range(CLIENTS):
            name = f"ab-{vm}-{client + 1}"
            fetch = (f"timeout -s INT {end - middle - TAIL_S:g} ab -q -s 60 -n {FETCHES} -e {{out}}/{name}.csv "
                     f"http://{{ip:{vm}}}/index.html; true")
            work.program(Program(name, "rx1", ("sh", "-c", fetch), start_s=middle, to=(vm,)))
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return the unprotected run and that of the law."""
    defaults: Dict[str, Any] = {"topology": "racks", "racks": 3, "senders": 63, "hosts": 21, "receivers": 1,
                                "phases": (0, 20, 0)}
    plain = without_law(settings)
    runs = [parse_settings(plain, {**defaults, "law": "none"})]
    law = parse_settings(settings, {**defaults, "law": "sdngcc"})
    runs += [law] if law.law != "none" or not given(settings, "law") else []
    if law.senders % 3:
        raise ParameterError(f"senders={law.senders}: a third each sends TCP, sends UDP and serves pages")
    if law.duration_s < 2:
        raise ParameterError(f"phases={law.phases}: pages are fetched from the middle on, which takes 2 s at least")
    return [Case(f"law={one.law}", one, workload(one)) for one in runs]


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return completion times of the mice in ms, as Apache Benchmark counted them.

    A page that was not had in time counts with what its client waited: that much it took at least.
    """
    times: List[float] = []
    unfinished = 0
    duration_s = run["phases"][-1]["end_s"]
    for log in sorted(raw.glob("program-ab-*.log")):
        table = raw / log.name.replace("program-", "").replace(".log", ".csv")
        own: List[float] = []
        if table.exists():
            with open(table, newline="", encoding="ascii") as file:
                rows = list(csv.reader(file))[1:]
            count = completed(log)
            # Of n ordered times the one of index k stands first at percentile 100 (k - 0.5) / n, rounded up.
            own = [float(rows[max(-(-(100 * k - 50) // count), 0)][1]) for k in range(count)]
        times += own
        if len(own) < FETCHES:
            unfinished += FETCHES - len(own)
            times.append(round((duration_s / 2 - TAIL_S) * 1000 - sum(own), 3))
    if not times:
        raise ValueError("no client of the mice left a log")
    return {"mean_ms": round(mean(times), 3), "stdev_ms": round(statistics.pstdev(times), 3),
            "p50_ms": percentile(times, 50), "p99_ms": percentile(times, 99), "max_ms": max(times),
            "unfinished": unfinished, "quantiles_ms": quantiles(times, 3)}


def completed(log: Path) -> int:
    """Return how many pages a client had, by its log."""
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("Complete requests:"):
            return int(line.split()[-1])
    return 0


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge the TCP elephants' share under the law, and the mice against the unprotected run's."""
    found = dict(runs)
    verdicts = []
    for label, run in runs:
        mice = run["measured"]
        parameters = Parameters(**run["parameters"])
        tcp, udp, _ = thirds(parameters)
        rates = settled_phase(run, "all")["settled_goodput_mbps"]
        share = parameters.link_mbps / len(tcp + udp) * TCP_PAYLOAD
        name = f"TCP elephants' mean beside UDP, {label}, Mb/s"
        own = round(mean([rates[vm] for vm in tcp]), 3)
        paper = "TCP elephants grab their share of bandwidth regardless of UDP"
        verdicts.append(Verdict(name, "as measured", own, True) if label == UNPROTECTED
                        else near(name, own, share, 0.15, paper))
        verdicts.append(Verdict(f"mice's times, {label}, ms", "as measured", mice, True))
        parts = [round(rates[vm] / share, 3) for vm in tcp]
        name = f"TCP elephant with the least, {label}, part of its share"
        verdicts.append(Verdict(name, "as measured", min(parts), True) if label == UNPROTECTED
                        else at_least(name, min(parts), LEAST, paper))
        bare = found.get(UNPROTECTED)
        if bare is not None and label != UNPROTECTED:
            paper = "smaller and nearly equal times, smaller deviation"
            verdicts += [at_most(f"mice's {what}, part of the unprotected run's",
                                 round(mice[key] / bare["measured"][key], 4), PART, paper)
                         for what, key in (("mean", "mean_ms"), ("deviation", "stdev_ms"))]
    return verdicts


EXPERIMENT = Experiment("mice", "126 web pages among 21 TCP and 21 UDP elephants of three racks", "SDN-GCC, Fig. 8",
                        cases, judge, measure,
                        seen="TCP elephants get their share; pages take half as long, mean and deviation",
                        changed="Runs are as long as the paper's, 20 s, since they had been measured with 6; what the "
                                "TCP elephant with the least has is judged since then, too.")
