# SPDX-License-Identifier: Apache-2.0
"""``make bench-limiter``: how well limiters limit, ours beside those that Linux and Open vSwitch have.

Boots User Mode Linux once for each limiter, in virtual time: what a limiter does with each packet is seen to the
nanosecond, whatever the host has to do, and the same again in every run. What it costs is bench-datapath's question.
"""

from __future__ import annotations

import json
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import click
from rich.console import Console
from rich.table import Table

from sdngcc.testbed.bench.datapath import machine
from sdngcc.testbed.bench.limiter_rows import (
    BESIDE,
    BULK,
    CONTROLS,
    LIMITERS,
    LOADS,
    MTU_RATES,
    MTUS,
    RATES,
    RTT_US,
    TCP_BITS,
    Load,
)
from sdngcc.testbed.build import Build, BuildError, Part, build, build_part, content_key, parts
from sdngcc.testbed.machine import MachineError, run_job, scratch

# Wall time after which a machine is given up, s.
LIMIT_S = 420.0

Found = Dict[str, Dict[str, Any]]
"""What was found by limiter and load."""


def bbr_part() -> Part:
    """Return the part with BBR as a module: the testbed's kernel has none, but its source."""
    return Part("bbr", content_key([parts()["kernel"].key]), 10, recipe=_build_bbr)


def _build_bbr(job: Build) -> None:
    kernel = parts()["kernel"].folder
    shutil.copy(kernel / "source" / "net" / "ipv4" / "tcp_bbr.c", job.folder)
    (job.folder / "Kbuild").write_text("obj-m := tcp_bbr.o\n")
    job.run(["make", "ARCH=um", "-C", str(kernel / "build"), f"M={job.folder}", "modules"], "compiling")


def bits_text(bits: int) -> str:
    """Return bit/s for people."""
    value, unit = (bits // 10**9, "Gb/s") if bits >= 10**9 else (bits // 10**6, "Mb/s")
    return f"{value} {unit}"


def _table(title: str, heads: Sequence[str]) -> Table:
    result = Table(title=title, title_justify="left")
    result.add_column("limiter")
    for head in heads:
        result.add_column(head, justify="right")
    return result


def _cells(found: Found, name: str, loads: Sequence[Load], text: Any) -> List[str]:
    """Return a limiter's cells, with nothing where a load was not measured."""
    return [text(found[name][load.name]) if load.name in found[name] else "" for load in loads]


def tables(found: Found) -> List[Table]:
    """Return all that was found as tables."""
    rates, controls = [Load("rate", bits) for bits in RATES], [Load("tcp", TCP_BITS, one) for one in CONTROLS]
    heads = [bits_text(bits) for bits in RATES]
    error = _table("error of the rate, UDP offered at twice the limit, %", heads)
    burst = _table("least depth of a bucket that lets the same through, bytes", heads)
    gaps = _table("gap between packets in packet times: median / p99", heads)
    part = _table(f"one TCP connection's part of {bits_text(TCP_BITS)}, {RTT_US} us, %", CONTROLS)
    sizes = [_table(f"one {control} connection's part at MTU {' / '.join(map(str, MTUS))}, %",
                    [bits_text(bits) for bits in MTU_RATES]) for control in CONTROLS]
    waits = [_table(f"beside {BULK} {control} at {bits_text(bits)}, ms above {RTT_US} us", (
        "ping p50", "p99", "max", "lost", "request p50", "p99", "max", "bulk, %")) for bits, control in BESIDE]
    for name in found:
        error.add_row(name, *_cells(found, name, rates, lambda one: f"{one['error_percent']:+.2f}"))
        burst.add_row(name, *_cells(found, name, rates, lambda one: f"{one['burst_bytes']:,}"))
        gaps.add_row(name, *_cells(found, name, rates, lambda one: f"{one['gap_p50']:.2f} / {one['gap_p99']:.2f}"))
        part.add_row(name, *_cells(found, name, controls, lambda one: f"{100 * one['part']:.1f}"))
        for control, table in zip(CONTROLS, sizes):
            of = {bits: [found[name].get(Load("tcp", bits, control, mtu).name) for mtu in MTUS] for bits in MTU_RATES}
            if any(any(parts) for parts in of.values()):
                table.add_row(name, *(" / ".join(f"{100 * one['part']:.1f}" if one else "-" for one in parts)
                                      for parts in of.values()))
        for (bits, control), table in zip(BESIDE, waits):
            one = found[name].get(Load("beside", bits, control).name)
            if one:
                table.add_row(name, *(f"{one['ping'][key] / 1000:.2f}" for key in ("p50_us", "p99_us", "max_us")),
                              str(one["ping"]["lost"]),
                              *(f"{one['request'][key] / 1000:.2f}" for key in ("p50_us", "p99_us", "max_us")),
                              f"{100 * one['part']:.1f}")
    return [error, burst, gaps, part, *sizes, *waits]


def measure(limiters: Sequence[str], loads: Sequence[str], work: Path, console: Optional[Console]) -> Found:
    """Measure limiters under loads (none named: all). Raises BuildError or MachineError."""
    artifacts = build(only=("kernel", "module", "ovs", "generator"))
    bbr = bbr_part()
    build_part(bbr)

    def progress(_: float, text: str) -> None:
        if console is not None:
            console.print(f"bench-limiter: {text}")

    found: Found = {}
    for name in limiters:
        job = {"modules": [*artifacts.modules, str(bbr.folder / "tcp_bbr.ko")], "ovs": artifacts.ovs,
               "generator": str(artifacts.generator), "limiter": name, "loads": list(loads)}
        try:
            run_job(artifacts.kernel, job, work / name, seed=1, limit_s=LIMIT_S, progress=progress,
                    main="sdngcc.testbed.bench.limiter_guest")
        except MachineError as error:
            # What was found before is kept; what is missing is seen in the tables.
            if not (work / name / "result.json").exists():
                raise
            progress(0.0, f"{name}: {error}")
        found[name] = json.loads((work / name / "result.json").read_text())
    return found


def _choose(what: str, text: str, known: Sequence[str]) -> List[str]:
    """Return the names in a text with commas; BadParameter for one that is not known."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"unknown: {name}; there are {', '.join(known)}", param_hint=what)
    return names


@click.command()
@click.option("--limiters", default="", metavar="NAME,...", help=f"Of {', '.join(LIMITERS)}; all if none is named.")
@click.option("--loads", default="", metavar="NAME,...",
              help="rate-BITS, tcp-BITS-CONTROL[-mtuMTU], beside-BITS-CONTROL; all.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for result.json; made when missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document instead of tables.")
def main(limiters: str, loads: str, out: Optional[Path], as_json: bool) -> None:
    """Compare limiters of one VM: rate, burst, jitter, TCP's part, and what waits behind its own bulk flows.

    In virtual time, so the machine may be busy, and a run gives what the one before gave. Takes some minutes.
    """
    console = Console(stderr=as_json)
    console.width = max(console.width, 120)
    chosen = _choose("--limiters", limiters, list(LIMITERS)) or list(LIMITERS)
    asked = _choose("--loads", loads, [load.name for load in LOADS])
    try:
        with scratch("sdngcc-bench-") as work:
            try:
                found = measure(chosen, asked, work, console)
            except MachineError:
                for log in sorted(work.rglob("console.log")):
                    console.print("\n".join(log.read_text(errors="replace").splitlines()[-40:]), markup=False)
                raise
    except (BuildError, MachineError) as error:
        raise click.ClickException(str(error)) from error
    document = {"schema": 1, "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "command": ["python", "-m", "sdngcc.testbed.bench.limiter", *sys.argv[1:]], "machine": machine(),
                "limiters": {name: LIMITERS[name].what for name in found}, "found": found}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    if as_json:
        json.dump(document, sys.stdout, indent=1)
        print()
    else:
        for table in tables(found):
            if table.row_count:
                console.print(table)


if __name__ == "__main__":
    main()
