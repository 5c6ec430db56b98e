# SPDX-License-Identifier: Apache-2.0
"""``make bench-datapath``: what our limiter costs beside unpatched OVS, an OVS meter, tc police and HTB.

Boots User Mode Linux twice or three times in real time, on one CPU of the host: one machine has unpatched Open vSwitch,
each other one what a row measures, on a variant of our datapath, and they send in turn, a short burst each
(datapath_turns). A row's figure is the median over many rounds of its rate divided by unpatched OVS' rate under the
same load, measured right before or after.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import click
from rich.console import Console
from rich.table import Table

from sdngcc.testbed.bench.datapath_rows import PACKETS, ROWS, STREAM, VMS, Row, choose
from sdngcc.testbed.bench.datapath_turns import RATE, READY, STOP, TURN
from sdngcc.testbed.build import Artifacts, BuildError, build
from sdngcc.testbed.machine import MachineError, run_job

TITLES = {
    PACKETS: "64-byte packets, pktgen, one VM, one core",
    STREAM: "one TCP connection, VM to VM over two datapaths, Not-ECT",
    VMS: "64-byte packets, pktgen, from eight of so many VMs",
}

# Wall time after which machines are given up: so much for each row, for each pair of bursts, for each VM, s.
ROW_S, PAIR_S, VM_S = 120.0, 2.0, 0.1

# Memory of a machine, and of one with many VMs, Linux' notation; ports of Open vSwitch cost some 30 KB each.
MEMORY, CROWD_MEMORY = "2G", "8G"

# So often the host looks for what a machine says, s.
LOOK_S = 0.001

# Progress is told every so many rounds.
TOLD = 25

# Folder of the machine that everything is compared with.
UNPATCHED = "unpatched"

# Variants of our datapath; each has a machine, whose folder has its name.
PATCHED, BESIDE = "patched", "beside"

# Packets/s by row, one tuple a round: of unpatched Open vSwitch, then of each variant.
Samples = Dict[str, List[Tuple[float, ...]]]


def spread(values: Sequence[float]) -> Tuple[float, float, float]:
    """Return between which two the middle half of the values lies, and the standard error of their median.

    The error is 1.25 standard deviations of a normal distribution with these quartiles by the root of their number.
    """
    ordered = sorted(values)
    low, high = (ordered[round((len(ordered) - 1) * part)] for part in (0.25, 0.75))
    return low, high, 1.25 * (high - low) / 1.349 / len(ordered) ** 0.5


def summarize(samples: Samples, datapaths: Sequence[str] = (PATCHED,)) -> List[Dict[str, Any]]:
    """Turn samples into one entry a row and variant.

    An entry holds row, datapath, load, what, per_s and unpatched_per_s (medians), ratio (median of the rounds' ratios),
    ratio_best (best of the whole run by unpatched's best), ratio_low and ratio_high (between these the middle half of
    the rounds' ratios lies), error (the median's), and for rows that are judged budget and holds (by ratio). Of a
    second variant it also has more and more_error: by how much of unpatched it costs more than the first one, the
    median over the rounds.
    """
    entries = []
    for name, rounds in samples.items():
        row = ROWS[name]
        first = [rates[1] / rates[0] for rates in rounds]
        for place, datapath in enumerate(datapaths, 1):
            ratios = [rates[place] / rates[0] for rates in rounds]
            low, high, error = spread(ratios)
            entry: Dict[str, Any] = {
                "row": name, "datapath": datapath, "load": row.load, "what": row.what,
                "per_s": round(statistics.median(rates[place] for rates in rounds)),
                "unpatched_per_s": round(statistics.median(rates[0] for rates in rounds)),
                "ratio": round(statistics.median(ratios), 4),
                "ratio_best": round(max(rates[place] for rates in rounds) / max(rates[0] for rates in rounds), 4),
                "ratio_low": round(low, 4),
                "ratio_high": round(high, 4),
                "error": round(error, 4),
            }
            if row.budget is not None:
                entry["budget"], entry["holds"] = row.budget, entry["ratio"] >= row.budget
            if place > 1:
                more = [before - ratio for before, ratio in zip(first, ratios)]
                entry["more"] = round(statistics.median(more), 4)
                entry["more_error"] = round(spread(more)[2], 4)
            entries.append(entry)
    return entries


def table(load: str, entries: Sequence[Dict[str, Any]]) -> Table:
    """Return one load's entries as a table."""
    compared = any("more" in entry for entry in entries)
    result = Table(title=TITLES[load], title_justify="left")
    for head in ("row", "datapath", "what"):
        result.add_column(head)
    for head in ("packets/s", "ns/packet", "of unpatched", "+-", "middle half", "by best", "budget", ""):
        result.add_column(head, justify="right")
    if compared:
        result.add_column("more", justify="right")
    for entry in entries:
        verdict = "" if "holds" not in entry else "holds" if entry["holds"] else "does not hold"
        cells = [entry["row"], entry["datapath"], entry["what"], f"{entry['per_s']:,}", f"{1e9 / entry['per_s']:.0f}",
                 f"{entry['ratio']:.3f}", f"{entry['error']:.3f}",
                 f"{entry['ratio_low']:.3f}..{entry['ratio_high']:.3f}", f"{entry['ratio_best']:.3f}",
                 str(entry.get("budget", "")), verdict]
        if compared:
            cells.append(f"{entry['more']:.3f} +- {entry['more_error']:.3f}" if "more" in entry else "")
        result.add_row(*cells)
    return result


def machine() -> Dict[str, Any]:
    """Return what the host is: its processor, how many, its kernel, what else it did when asked."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]
    return {"processor": models[0] if models else platform.machine(), "processors": os.cpu_count(),
            "kernel": platform.release(), "load_average": os.getloadavg()}


class Bench:
    """Measures rows: how many rounds, how many packets a measurement, where machines leave their files."""

    def __init__(self, rounds: int, packets: int, work: Path, console: Optional[Console],
                 datapaths: Sequence[str] = (PATCHED,)) -> None:
        """Build what is missing; datapaths: which variants of ours are measured. Raises BuildError."""
        self.rounds, self.packets, self.work, self.console = rounds, packets, work, console
        self.datapaths = tuple(datapaths)
        self.samples: Samples = {}
        self.artifacts: Artifacts = build(only=("kernel", "module", "beside"))

    @property
    def machines(self) -> Tuple[str, ...]:
        """Names of the machines, which are those of their folders."""
        return (UNPATCHED, *self.datapaths)

    def say(self, _: float, text: str) -> None:
        """Show progress."""
        if self.console is not None:
            self.console.print(f"bench-datapath: {text}")

    def boot(self, rows: Sequence[Row], name: str, cpu: int) -> None:
        """Run one machine on one of the host's CPUs until it has done its rows. Raises MachineError."""
        # What this thread starts stays on the CPU, so that both machines meet the same neighbours, and is not
        # interrupted by the host's other programs, where it may ask for that.
        os.sched_setaffinity(0, {cpu})
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        # What all have, nsh.ko, is loaded once.
        stock = self.artifacts.beside[1:2]
        ours = stock if name == UNPATCHED else self.artifacts.datapath(name)[1:]
        job = {"rounds": self.rounds, "packets": self.packets, "rows": [row.name for row in rows],
               "preload": self.artifacts.modules[:-1], "modules": {"stock": stock, "ours": ours},
               "ours": name != UNPATCHED}
        most = max(row.vms for row in rows)
        limit_s = (ROW_S + PAIR_S * self.rounds) * len(rows) + VM_S * most
        run_job(self.artifacts.kernel, job, self.work / name, 1, limit_s, self.say, virtual_time=False,
                main="sdngcc.testbed.bench.datapath_turns", memory=CROWD_MEMORY if most > 1 else MEMORY)

    def in_turn(self, rows: Sequence[Row]) -> None:
        """Measure rows into samples, those with many VMs last. Raises MachineError; rows before it are there."""
        rows = sorted(rows, key=lambda row: (row.load == VMS, row.vms))
        cpu = max(os.sched_getaffinity(0))
        with ThreadPoolExecutor(len(self.machines)) as pool:
            running = [pool.submit(self.boot, rows, name, cpu) for name in self.machines]
            try:
                for row in rows:
                    for name in self.machines:
                        self.await_file(self.work / name / READY.format(row=row.name), running)
                    self.samples[row.name] = [self.take_turns(row, index, running) for index in range(self.rounds)]
                for one in running:
                    one.result()
            finally:
                for name in self.machines:
                    (self.work / name).mkdir(exist_ok=True)
                    (self.work / name / STOP).touch()

    def take_turns(self, row: Row, index: int, running: Sequence[Future[Any]]) -> Tuple[float, ...]:
        """Let all machines measure, in every second round from the last to the first; return their rates."""
        rates = {}
        for name in self.machines if index % 2 == 0 else reversed(self.machines):
            (self.work / name / TURN.format(row=row.name, index=index)).touch()
            told = self.work / name / RATE.format(row=row.name, index=index)
            self.await_file(told, running)
            rates[name] = float(told.read_text())
        if index % TOLD == 0:
            parts = ", ".join(f"{rates[name] / rates[UNPATCHED]:.3f}" for name in self.datapaths)
            self.say(0.0, f"{row.name}: round {index + 1} of {self.rounds}: {parts} of {rates[UNPATCHED]:,.0f}/s")
        return tuple(rates[name] for name in self.machines)

    @staticmethod
    def await_file(path: Path, running: Sequence[Future[Any]]) -> None:
        """Wait for a machine's file. Raises MachineError when a machine has failed, or all have ended without it."""
        while True:
            ended = [one for one in running if one.done()]
            if path.exists():
                return
            for one in ended:
                one.result()
            if running and len(ended) == len(running):
                raise MachineError(f"the machines ended before they wrote {path.name}")
            time.sleep(LOOK_S)

    def measure(self, rows: Sequence[Row]) -> Tuple[Dict[str, Any], Optional[MachineError]]:
        """Measure rows; return the document that --out keeps, and what ended the run before its last row."""
        document: Dict[str, Any] = {
            "schema": 4, "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": ["python", "-m", "sdngcc.testbed.bench.datapath", *sys.argv[1:]],
            "machine": machine(), "rounds": self.rounds, "packets_a_burst": self.packets,
            "datapaths": list(self.datapaths)}
        failure = None
        try:
            self.in_turn(rows)
        except MachineError as error:
            failure = error
        return {**document, "samples": self.samples, "summary": summarize(self.samples, self.datapaths)}, failure


EPILOG = "\b\nRows (and the least ratio that each must keep):\n" + "\n".join(
    f"  {row.name:17} {row.what}{f' ({row.budget})' if row.budget else ''}" for row in ROWS.values())


@click.command(epilog=EPILOG)
@click.option("--rows", default="", metavar="NAME,...", help="Rows to measure, all if none is named.")
@click.option("--rounds", default=101, show_default=True, type=click.IntRange(1, 9999),
              help="Bursts of a row, each beside one of its reference.")
@click.option("--packets", default=20_000, show_default=True, type=click.IntRange(1_000, 10_000_000),
              help="Packets of a burst of pktgen.")
@click.option("--beside", is_flag=True, help="Measure sdngcc.ko beside unpatched Open vSwitch, not the patched one.")
@click.option("--both", is_flag=True, help="Measure the patched one and sdngcc.ko, a machine each, in the same rounds.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for result.json: ratios, all rounds, machine, date and command; made when missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document instead of tables.")
def main(rows: str, rounds: int, packets: int, beside: bool, both: bool, out: Optional[Path], as_json: bool) -> None:
    """Compare the packet rate of ours, an OVS meter, tc police and HTB with unpatched Open vSwitch, in real time.

    Machines send in turn, some tens of milliseconds each: one has unpatched Open vSwitch, the other what the row
    is about, under the same load. The ratio of the two is what counts, its median over the rounds is judged. Ratios
    are worth more than rates: the machines are virtual and their host may be busy. Little else should run meanwhile.
    With --both there is a third machine, and "more" is what sdngcc.ko costs more than the patch, of unpatched.
    Setting up 100,000 VMs, for the last row, takes longer than all other rows. Exit status: 0 when every row keeps its
    budget, 1 when one does not or a machine failed.
    """
    if beside and both:
        raise click.UsageError("--beside and --both exclude each other: --both measures sdngcc.ko, too")
    console = Console(stderr=as_json)
    console.width = max(console.width, 180 if both else 160)
    try:
        chosen = choose([name for name in rows.split(",") if name])
    except KeyError as error:
        raise click.BadParameter(f"unknown: {error.args[0]}; --help lists them", param_hint="--rows") from error
    try:
        with tempfile.TemporaryDirectory(prefix="sdngcc-bench-") as work:
            datapaths = (PATCHED, BESIDE) if both else (BESIDE,) if beside else (PATCHED,)
            bench = Bench(rounds, packets, Path(work), console, datapaths)
            document, failure = bench.measure(chosen)
            logs = [f"{log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-20:])
                    for log in sorted(Path(work).rglob("console.log"))]
    except BuildError as error:
        raise click.ClickException(str(error)) from error
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    if as_json:
        json.dump(document, sys.stdout, indent=1)
        print()
    else:
        for load in TITLES:
            entries = [entry for entry in document["summary"] if entry["load"] == load]
            if entries:
                console.print(table(load, entries))
    if failure is not None:
        raise click.ClickException("\n".join([f"{failure}; rows before that are kept", *logs]))
    if not all(entry.get("holds", True) for entry in document["summary"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
