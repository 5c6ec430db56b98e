# SPDX-License-Identifier: Apache-2.0
"""Boots the machine of ``make bench-instructions``, judges its rows and prints the table."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import click
from rich.console import Console
from rich.table import Table

from sdngcc.testbed.build import BuildError
from sdngcc.testbed.instructions.build import KERNELS, Machine, machine
from sdngcc.testbed.instructions.rows import BESIDE, CASES, PACKETS, PATCHED, STOCK, Case, choose
from sdngcc.testbed.programs import VARIABLE, folder
from sdngcc.testbed.progress import build_progress
from sdngcc.testbed.qemu import PROGRAM
from sdngcc.testbed.smp.run import initial_ram_disk

# Memory of the machine, and wall time after which it is given up: so much to boot, and for each row, s.
MEMORY = "1500M"
BOOT_S, ROW_S = 300.0, 60.0

# Copies are loops of ordinary instructions, so that a byte costs what it costs.
PROCESSOR = "max,la57=off,erms=off,fsrm=off"

PARAMETERS = ("console=ttyS1", "rdinit=/init", "panic=-1", "oops=panic", "tsc=reliable", "clocksource=tsc",
              "no_timer_check", "nokaslr", "init_on_alloc=0", "mitigations=off", "quiet")

# Called with a row's name and what was told of it.
Tell = Callable[[str], None]


class InstructionsError(Exception):
    """The machine did not measure; the text says what it said last."""


def command_line(built: Machine, out: Path) -> List[str]:
    """Return how QEMU is called for a machine whose files are in out."""
    parameters = [*PARAMETERS, f"BENCH_PYTHON={sys.executable}", f"BENCH_JOB={out / 'job.json'}",
                  f"{VARIABLE}={folder()}"]
    return [PROGRAM, "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", PROCESSOR, "-smp", "1",
            "-m", MEMORY, "-nodefaults", "-no-reboot", "-display", "none",
            "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
            "-serial", "stdio", "-serial", f"file:{out / 'console.log'}", "-kernel", str(built.image),
            "-initrd", str(out / "initrd.gz"), "-append", " ".join(parameters)]


def measure(built: Machine, cases: Sequence[Case], out: Path, tell: Optional[Tell] = None) -> Dict[str, float]:
    """Boot a machine and return the instructions of each row. Raises InstructionsError.

    console.log and report.txt stay in out.
    """
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    files = {"init": built.init, **{f"{number}.ko": path for number, path in enumerate(built.files)}}
    (out / "initrd.gz").write_bytes(initial_ram_disk(files))
    modules = {STOCK: built.stock, PATCHED: built.patched, BESIDE: built.beside}
    (out / "job.json").write_text(json.dumps({
        "loads": [str(path) for path in built.loads], "rows": [case.name for case in cases],
        "modules": {name: [str(path) for path in paths] for name, paths in modules.items()}}))
    process = subprocess.Popen(command_line(built, out), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    timer = threading.Timer(BOOT_S + ROW_S * len(cases), process.kill)
    timer.start()
    found: Dict[str, float] = {}
    lines: List[str] = []
    ended = False
    assert process.stdout is not None
    with open(out / "report.txt", "w", encoding="utf-8") as report:
        for line in process.stdout:
            report.write(line)
            lines.append(line.strip())
            told = _told(line)
            ended |= "end" in told
            if "error" in told:
                process.kill()
                raise InstructionsError(f"{told['row']}: {told['error']}")
            if "row" in told:
                found[told["row"]] = told["instructions"]
                if tell is not None:
                    tell(told["row"])
    process.wait()
    timer.cancel()
    if not ended:
        raise InstructionsError(f"the machine did not end; its last words: {' / '.join(lines[-8:]) or 'none'}; "
                                f"see {out / 'console.log'}")
    return found


def _told(line: str) -> Dict[str, Any]:
    """Return what a line of the machine tells, {} when it is not ours."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def judge(found: Dict[str, float]) -> List[Dict[str, Any]]:
    """Return one entry a row: its instructions, what that is above its base and of it, and whether the budget holds."""
    entries = []
    for name, instructions in found.items():
        case = CASES[name]
        entry: Dict[str, Any] = {"row": name, "what": case.what, "instructions": round(instructions, 1)}
        base = found.get(case.base)
        if base is not None:
            entry["above"] = round(instructions - base, 1)
            entry["of_base"] = round(base / instructions, 4)
            if case.budget is not None:
                entry["budget"] = case.budget
                entry["holds"] = (entry["above"] <= case.budget if case.load == PACKETS else
                                  entry["of_base"] >= case.budget)
        entries.append(entry)
    return entries


def table(entries: Sequence[Dict[str, Any]], release: str) -> Table:
    """Return the entries as a table."""
    result = Table(title=f"instructions a packet, or a full segment of TCP, on {release}", title_justify="left")
    for head in ("row", "what"):
        result.add_column(head)
    for head in ("instructions", "above unpatched", "of unpatched", "budget", ""):
        result.add_column(head, justify="right")
    for entry in entries:
        result.add_row(entry["row"], entry["what"], f"{entry['instructions']:,.0f}",
                       f"{entry['above']:,.0f}" if "above" in entry else "",
                       f"{entry['of_base']:.3f}" if "of_base" in entry else "", str(entry.get("budget", "")),
                       "" if "holds" not in entry else "holds" if entry["holds"] else "does not hold")
    return result


@click.command()
@click.option("--rows", default="", help=f"Rows, with commas: {', '.join(CASES)}. Default: all.")
@click.option("--kernel", type=click.Choice(KERNELS), default=KERNELS[0], show_default=True,
              help="Debian's own kernel of that version.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results/bench-instructions"), show_default=True,
              help="Folder for result.json and what the machine said.")
def main(rows: str, kernel: str, out: Path) -> None:
    """Count what a packet costs in Debian's own kernel; exits with 1 when a budget does not hold."""
    console = Console(stderr=True)
    try:
        cases = choose([name for name in rows.split(",") if name])
    except KeyError as error:
        raise click.UsageError(f"--rows: there is no {error.args[0]}; there are {', '.join(CASES)}") from None
    try:
        with build_progress() as progress:
            built = machine(progress, kernel)
        done: List[str] = []

        def tell(name: str) -> None:
            done.append(name)
            console.print(f"{len(done)} of {len(cases)}: {name}", highlight=False)

        found = measure(built, cases, out, tell)
    except (BuildError, InstructionsError) as error:
        raise click.ClickException(str(error)) from None
    entries = judge(found)
    (out / "result.json").write_text(json.dumps({
        "schema": 1, "date": datetime.now(timezone.utc).isoformat(timespec="seconds"), "kernel": built.release,
        "command": sys.argv, "rows": entries}, indent=1) + "\n")
    Console(width=140).print(table(entries, built.release))
    sys.exit(any(not entry.get("holds", True) for entry in entries))


if __name__ == "__main__":
    main()
