# SPDX-License-Identifier: Apache-2.0
"""A web server beside a UDP flood of 700 Mb/s, and of the link's rate: Seawall's Fig. 11 and section 6.2.

nginx serves files of WebStone's sizes and popularity to wrk, on a VM beside the flood's sink. The paper's sessions
(WcAsync, Poisson arrivals, 10 requests in the mean) are connections here that wait for a random time, exponential in
the mean, before each request: the load hardly depends on how fast answers come, so latencies compare at equal
throughput.
"""

from __future__ import annotations

import json
from functools import partial
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
    given,
    without_law,
)
from sdngcc.testbed.parameters import Parameters, parse_settings
from sdngcc.testbed.statistics import PERCENTS

# WebStone's standard mix: bytes of a file, and how many of 1000 requests ask for it.
FILES = ((500, 350), (5_000, 500), (50_000, 140), (500_000, 9), (5_000_000, 1))
# Connections, and the mean wait before a request on each, ms: 1600 requests/s, which is 250 Mb/s. Each has a thread of
# wrk's: in a round of its loop a thread reads the clock once for each of its connections that waits, and with all of
# them in one thread those system calls took four fifths of a run's processor time.
CONNECTIONS, WAIT_MS = 64, 40
# The run whose promise is that who uses less than his share does not pay for the limiter, with what the operator guide
# recommends for a VM of short flows: its latencies, of those without the flood.
PROMISING = "law=maxmin, ahead"
MEDIAN, P99 = 1.25, 2.0
PORT = 8080
FLOOD_MBPS = 700
# The flood at the link's rate, for which the paper has words: almost nothing is left, and with Seawall all is "as if
# there were no attack". Parts of what is had without the flood.
FULL = "full rate, "
ALMOST_NONE, AS_ALONE, AS_FAST = 0.1, 0.95, 1.25

NGINX = """
daemon off; user root; worker_processes 1; pid /run/web/pid; error_log stderr;
events { worker_connections 1024; }
http {
	access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000; keepalive_timeout 60s;
	client_body_temp_path /run/web/t1; proxy_temp_path /run/web/t2; fastcgi_temp_path /run/web/t3;
	uwsgi_temp_path /run/web/t4; scgi_temp_path /run/web/t5;
	server { listen PORT; root /run/web/files; }
}
"""

WRK = """
local files = { FILES }
local percents = { PERCENTS }
local threads = 0
function setup(thread)
	thread:set("number", threads)
	threads = threads + 1
end
function init(args)
	math.randomseed(SEED + number)
end
function request()
	local pick = math.random(1000)
	for _, file in ipairs(files) do
		pick = pick - file[2]
		if pick <= 0 then return wrk.format("GET", "/" .. file[1]) end
	end
end
function delay()
	return math.floor(-WAIT * math.log(1 - math.random()) + 0.5)
end
function done(summary, latency, requests)
	local quantiles = string.format("[0, %d]", latency.min)
	for _, percent in ipairs(percents) do
		quantiles = quantiles .. string.format(", [%g, %d]", percent, latency:percentile(percent))
	end
	quantiles = quantiles .. string.format(", [100, %d]", latency.max)
	io.write(string.format(
		'RESULT {"requests": %d, "bytes": %d, "us": %d, "errors": %d, "mean_us": %.1f, "sd_us": %.1f, ' ..
		'"p50_us": %d, "p99_us": %d, "quantiles_us": [%s]}\\n', summary.requests, summary.bytes, summary.duration,
		summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status +
		summary.errors.timeout, latency.mean, latency.stdev, latency:percentile(50), latency:percentile(99),
		quantiles))
end
"""


def workload(parameters: Parameters, flood: bool, full: bool, seed: int) -> Workload:
    """Return server and client, whose requests are drawn from the seed, and the flood if it is wanted, at full rate."""
    first, second, _ = parameters.phases
    script = WRK.replace("FILES", ", ".join(f"{{{size}, {count}}}" for size, count in FILES))
    script = script.replace("PERCENTS", ", ".join(f"{percent:g}" for percent in PERCENTS if 0 < percent < 100))
    script = script.replace("WAIT", str(WAIT_MS)).replace("SEED", str(seed * CONNECTIONS % 2**31))
    sizes = " ".join(str(size) for size, _ in FILES)
    make = f"mkdir /run/web/files && for s in {sizes}; do head -c $s /dev/zero >/run/web/files/$s; done"
    work = Workload()
    work.program(Program("nginx", "vm1", ("sh", "-c", f"{make} && exec nginx -c /run/web/nginx.conf"), serves=True,
                         files={"/run/web/nginx.conf": NGINX.replace("PORT", str(PORT))}))
    work.program(Program("wrk", "rx1", (
        "wrk", "-t", str(CONNECTIONS), "-c", str(CONNECTIONS), "-d", f"{second:g}s", "--timeout", "60s", "-s",
        "/run/web/mix.lua", f"http://{{ip:vm1}}:{PORT}/"), start_s=first, to=("vm1",),
        files={"/run/web/mix.lua": script}))
    if flood:
        for vm in parameters.vm_names[1:]:
            rate_mbps = parameters.udp_mbps or (parameters.link_mbps if full else FLOOD_MBPS)
            work.udp(vm, "rx2", 0, first + second, rate_mbps / (parameters.senders - 1))
    return work


def cases(settings: Sequence[str]) -> List[Case]:
    """Return web alone, and beside the flood without a shim and under laws, with and without what goes ahead.

    Without a shim and under seawall beside the flood at full rate, too.
    """
    defaults: Dict[str, Any] = {"senders": 2, "receivers": 2, "competitor": "udp", "phases": (0.5, 4, 0)}
    laws = [""] if given(settings, "law") else ["none", "seawall", "maxmin"]
    plain = without_law(settings)
    alone = parse_settings(plain, {**defaults, "law": "none"})
    runs = [Case("no flood", alone, partial(workload, alone, False, False))]
    variants: List[Tuple[str, Dict[str, Any], bool]] = []
    for law in laws:
        variants.append((law, {}, False))
        if law in ("seawall", "maxmin") and not given(settings, "ahead"):
            variants.append((law, {"ahead": True}, False))
    if not given(settings, "udp_mbps"):
        variants += [(law, {}, True) for law in laws if law != "maxmin"]
    for law, more, full in variants:
        parameters = parse_settings(plain if law == "none" else settings,
                                    {**defaults, **more, "law": law or "seawall"})
        ahead = ", ahead" if parameters.ahead and law != "none" else ""
        label = f"{FULL if full else ''}law={parameters.law}{ahead}"
        runs.append(Case(label, parameters, partial(workload, parameters, True, full)))
    return runs


def measure(raw: Path, run: Run) -> Dict[str, Any]:
    """Return what wrk reported: requests, their bytes per second, latencies in us with quantiles."""
    for line in (raw / "program-wrk.log").read_text().splitlines():
        if line.startswith("RESULT "):
            found: Dict[str, Any] = json.loads(line[len("RESULT "):])
            found["mbps"] = round(found["bytes"] * 8 / found["us"], 3)
            return found
    raise ValueError("wrk reported nothing")


def judge(runs: List[Tuple[str, Run]]) -> List[Verdict]:
    """Judge latency and throughput under a law against the unprotected ones, maxmin's against those without flood."""
    found = {label: run["measured"] for label, run in runs}
    verdicts = [Verdict(f"{label}: Mb/s, requests, mean, p50, p99 in us", "as measured",
                        [one[name] for name in ("mbps", "requests", "mean_us", "p50_us", "p99_us")], True)
                for label, one in found.items()]
    alone, promising, bare = found["no flood"], found.get(PROMISING), found.get("law=none")
    if promising:
        for name, most in (("p50", MEDIAN), ("p99", P99)):
            verdicts.append(at_most(f"{name}, {PROMISING} / no flood",
                                    round(promising[f"{name}_us"] / alone[f"{name}_us"], 4), most))
    for label, own in found.items():
        if bare and label not in ("no flood", "law=none") and not label.startswith(FULL):
            paper = label == "law=seawall"
            verdicts.append(at_most(f"mean latency, {label} / unprotected",
                                    round(own["mean_us"] / bare["mean_us"], 4), 0.60,
                                    "improved by almost 50%" if paper else ""))
            verdicts.append(at_least(f"throughput, {label} / unprotected", round(own["mbps"] / bare["mbps"], 4), 0.95,
                                     "roughly the same" if paper else ""))
            if label.startswith("law=seawall"):
                verdicts.append(at_most(f"median latency, {label} / unprotected",
                                        round(own["p50_us"] / bare["p50_us"], 4), 1.0))
    return verdicts + _judge_full(found)


def _judge_full(found: Dict[str, Dict[str, Any]]) -> List[Verdict]:
    """Judge what is left beside the flood at full rate, of what is had without it."""
    verdicts, alone = [], found["no flood"]
    for label, own in found.items():
        if not label.startswith(FULL):
            continue
        part = round(own["mbps"] / alone["mbps"], 4)
        slower = round(own["mean_us"] / alone["mean_us"], 4) if own["mean_us"] else None
        if label == f"{FULL}law=none":
            verdicts.append(at_most(f"throughput, {label} / no flood", part, ALMOST_NONE, "close to zero"))
            verdicts.append(Verdict(f"mean latency, {label} / no flood", "as measured", slower, True,
                                    "substantially increased"))
        else:
            verdicts.append(at_least(f"throughput, {label} / no flood", part, AS_ALONE, "as if there were no attack"))
            verdicts.append(Verdict(f"mean latency, {label} / no flood", f"<= {AS_FAST:g}", slower,
                                    slower is not None and slower <= AS_FAST, "as if there were no attack"))
    return verdicts


EXPERIMENT = Experiment("web", "A web server beside a UDP flood of 700 Mb/s", "Seawall, Fig. 11", cases, judge, measure,
                        seen="mean latency 40% lower or more than unprotected at equal throughput; "
                             "under maxmin nearly that without the flood; beside a flood at full rate as without one",
                        changed="The median was recorded before, and is judged since it was seen to be longer under "
                                "the law; the flood at full rate came with that. One thread of wrk's had all "
                                "connections then, and drew other requests; each has one of its own since.")
