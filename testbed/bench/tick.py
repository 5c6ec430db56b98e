# SPDX-License-Identifier: Apache-2.0
"""What the engine's ticks cost: CPU time a second of each law on a large host, and a division of an uplink.

The engine is compiled for user space (shim/user), with the flags that the kernel uses for speed (``-O2``). Simulated
time goes by; the CPU time of the ticks alone is measured, so that other work on the machine distorts it little.

"all work" is what a law would take if each tick did all there is to be done. "as it is" is what it does take: a tick
that has used a forty-eighth of its period leaves the rest to the next, so that periods become longer and the CPU stays
free. "left over" says how many ticks did so: where it is not 0 %, the law's period is stretched by about the ratio of
both.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Dict, List

from ...shim import core

PROGRAMS = core.HOST_DIR.parent / "tests" / "engine"
LAWS = ("static", "sdngcc", "maxmin", "vcc", "seawall", "scc", "hygenicc", "eyeq", "elasticswitch")
#: Part of a core that ticks may take.
BUDGET = 0.05
_FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", core.LABORATORY)


def build(folder: pathlib.Path, name: str, *flags: str) -> pathlib.Path:
    """Compile one of the programs and return its path; raises core.CoreBuildError with the compiler's words."""
    program = folder / name
    sources = [PROGRAMS / f"{name}.c", *core.sources(), *core.host_sources()]
    command = ["gcc", *_FLAGS, *flags, "-o", str(program), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise core.CoreBuildError(f"building {name} failed:\n{' '.join(command)}\n{done.stderr}")
    return program


def run(program: pathlib.Path, *words: object) -> Dict[str, float]:
    """Run a program and return the numbers it prints, by name; raises subprocess.CalledProcessError."""
    done = subprocess.run([str(program), *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    pairs = (word.split("=") for word in done.stdout.split())
    return {name: float(value) for name, value in pairs}


def measure(chosen: argparse.Namespace) -> Dict[str, Any]:
    """Measure all there is; the keys of the result are laws, divisions and threads, each a list of runs."""
    found: Dict[str, Any] = {
        "vms": chosen.vms, "peers": chosen.peers, "active": chosen.active, "seconds": chosen.seconds,
        "laws": [], "divisions": [], "threads": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ticks = build(folder, "bench_tick")
        threads = build(folder, "bench_threads", "-D_GNU_SOURCE", "-DSHIM_THREADS", "-pthread")
        for number in range(chosen.rounds):
            print(f"round {number + 1} of {chosen.rounds} ...", file=sys.stderr, flush=True)
            for law in LAWS:
                for packets in chosen.packets:
                    words = (law, chosen.vms, chosen.peers, chosen.active, packets, chosen.seconds)
                    found["laws"] += [{"law": law, "packets": packets, "kind": kind, **run(ticks, kind, *words)}
                                      for kind in ("law", "work")]
            found["divisions"] += [run(ticks, "divide", limiters, 21) for limiters in chosen.limiters]
            found["threads"] += [run(threads, count, chosen.seconds) for count in (1, 2)]
    return found


def _median(runs: List[Dict[str, Any]], key: str) -> float:
    return statistics.median(one[key] for one in runs)


def _law_line(found: Dict[str, Any], law: str, packets: int) -> str:
    """Return a row of the table of laws."""
    kinds = {kind: [one for one in found["laws"]
                    if one["law"] == law and one["packets"] == packets and one["kind"] == kind]
             for kind in ("law", "work")}
    as_is, work = kinds["law"], kinds["work"]
    left_over = _median(as_is, "postponed") / max(_median(as_is, "ticks"), 1)
    share = _median(as_is, "share")
    verdict = "" if share <= BUDGET else "  over the budget"
    return (f"{law:10} {as_is[0]['period_ns'] / 1e6:8.1f} ms {packets:10,} {_median(work, 'share'):10.1%} {share:10.1%}"
            f" {left_over:10.0%} {_median(as_is, 'longest_ns') / 1e3:10.0f} us{verdict}")


def report(found: Dict[str, Any]) -> str:
    """Return the tables of medians over the rounds."""
    lines = [
        f"{found['vms']:,} VMs; {found['peers']:,} peers, under vcc connections; {found['active']:,} of them active",
        f"CPU share of ticks, budget {BUDGET:.0%} of a core",
        f"{'law':10} {'period':>11} {'packets/s':>10} {'all work':>10} {'as it is':>10} {'left over':>10} "
        f"{'longest':>13}"]
    for law in LAWS:
        for packets in sorted({one["packets"] for one in found["laws"]}):
            lines.append(_law_line(found, law, packets))
    lines += ["", f"{'limiters':>10} {'a division':>14} {'at most every':>16}"]
    for limiters in sorted({int(one["limiters"]) for one in found["divisions"]}):
        median_ns = _median([one for one in found["divisions"] if one["limiters"] == limiters], "median_ns")
        lines.append(f"{limiters:10,} {median_ns / 1e6:11.3f} ms {20 * median_ns / 1e6:13.2f} ms")
    lines += ["", f"{'threads on one limiter':24} {'packets/s':>14} {'CPU a packet':>14}"]
    for count in (1, 2):
        runs = [one for one in found["threads"] if one["threads"] == count]
        rate = statistics.median(one["packets"] / one["spent_ns"] * 1e9 for one in runs)
        each = statistics.median(one["cpu_ns"] / one["packets"] for one in runs)
        lines.append(f"{count:24} {rate:14,.0f} {each:11.0f} ns")
    return "\n".join(lines)


def main() -> None:
    """Measure, print tables, write results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="folder for results.json")
    parser.add_argument("--json", action="store_true", help="print the measurements instead of tables")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="simulated, of each law")
    parser.add_argument("--vms", type=int, default=10_000)
    parser.add_argument("--peers", type=int, default=100_000)
    parser.add_argument("--active", type=int, default=1_000)
    parser.add_argument("--packets", type=int, nargs="+", default=[100_000, 1_000_000], help="a second, in all")
    parser.add_argument("--limiters", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    chosen = parser.parse_args()
    found = measure(chosen)
    text = json.dumps(found, indent=1)
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "results.json").write_text(text + "\n")
    print(text if chosen.json else report(found))


if __name__ == "__main__":
    main()
