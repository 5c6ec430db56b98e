# SPDX-License-Identifier: Apache-2.0
"""Boots one machine of QEMU with the stress program and says what its kernel complained of.

The machine has no disk, no network and no file of the host's: program and modules are its initial RAM disk. The program
reports on the first serial port (standard output of QEMU, report.txt), the kernel on the second (console.log).
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from sdngcc.testbed.qemu import clock
from sdngcc.testbed.smp.build import SmpArtifacts
from sdngcc.testbed.smp.console import Complaint, complaints

# What the planted module does wrong in each kernel, and the function that the complaint must name.
CONTROLS: Dict[str, Tuple[str, str]] = {
    "debian": ("race", "planted_race"), "debian_rt": ("race", "planted_race"), "kcsan": ("race", "planted_race"),
    "lockdep": ("order", "planted_order"), "rt": ("order", "planted_order")}

# Accesses that must have been watched for races before silence about them says anything.
WATCHED_MIN = 5000

# The second serial port as a console, and the same without a lock: a console takes its port's lock even where only raw
# spinlocks may be taken, so lockdep would complain of the first line printed in an interrupt, and then of nothing more.
CONSOLE = ("console=ttyS1",)
LOCKLESS_CONSOLE = ("console=null", "earlycon=uart8250,io,0x2f8", "keep_bootcon")

# Parameters of a kernel. KCSAN, with one module to look at, watches one of so many accesses of a CPU for 80 us.
PARAMETERS: Dict[str, Tuple[str, ...]] = {
    "debian": CONSOLE, "debian_rt": CONSOLE, "kcsan": (*CONSOLE, "kcsan.skip_watch=300"), "lockdep": LOCKLESS_CONSOLE,
    "rt": CONSOLE}

# Memory of a machine.
MEMORY = "512M"

# Called with the part done, 0 to 1, and what is being done.
Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Length:
    """How long a run is."""

    conserve_s: int
    """Each trial of conservation, seconds."""
    churn_s: int
    """Changes under traffic, seconds."""
    expected_s: float
    """All of it on an idle machine, seconds of wall time: the length of the progress bar."""
    limit_s: float
    """Wall time after which it is a failure, seconds."""


SHORT = Length(conserve_s=4, churn_s=20, expected_s=80.0, limit_s=600.0)
LONG = Length(conserve_s=15, churn_s=150, expected_s=300.0, limit_s=1800.0)


@dataclass
class Outcome:
    """What came of one machine's run."""

    kind: str
    """Its kernel."""
    cpus: int
    wall_s: float = 0.0
    """Wall time, seconds."""
    changes: int = 0
    """Changes under traffic that the kernel took."""
    packets: int = 0
    """Packets sent meanwhile."""
    trials: int = 0
    """Trials of conservation."""
    conserved: int = 0
    """Trials in which the bound held."""
    watched: int = 0
    """Accesses to memory that were watched for races, the planted ones apart; only where something watches."""
    control: bool = False
    """The kernel told of what was planted."""
    findings: List[str] = field(default_factory=list)
    """What went wrong, a text each."""
    others: List[str] = field(default_factory=list)
    """Titles of KCSAN's reports that are none of the shim's."""


def initial_ram_disk(files: Dict[str, Path]) -> bytes:
    """Return a compressed newc archive of executable files by their names inside, with /dev/console."""
    entries: List[bytes] = []

    def add(name: str, mode: int, data: bytes = b"", device: Tuple[int, int] = (0, 0)) -> None:
        numbers = (len(entries) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0"
        entries.append(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))

    add("dev", 0o040755)
    add("dev/console", 0o020600, device=(5, 1))
    for name, path in files.items():
        add(name, 0o100755, path.read_bytes())
    add("TRAILER!!!", 0)
    return gzip.compress(b"".join(entries), compresslevel=1)


def command_line(artifacts: SmpArtifacts, length: Length, cpus: int, out: Path) -> List[str]:
    """Return how QEMU is called for a machine whose files are in out."""
    parameters = [*PARAMETERS[artifacts.kind], "rdinit=/init", "panic=-1", "oops=panic", *clock(),
                  "nokaslr", "mitigations=off", "watchdog_thresh=60",
                  f"STRESS_MODULE={artifacts.module.stem}",
                  f"STRESS_CONTROL={CONTROLS[artifacts.kind][0]}", f"STRESS_CONSERVE={length.conserve_s}",
                  f"STRESS_CHURN={length.churn_s}"]
    return [*artifacts.qemu, "-accel", "tcg,thread=multi", "-smp", str(cpus), "-m", MEMORY, "-cpu", "max,la57=off",
            "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
            "-serial", f"file:{out / 'console.log'}", "-kernel", str(artifacts.image),
            "-initrd", str(out / "initrd.gz"), "-append", " ".join(parameters)]


def run_machine(artifacts: SmpArtifacts, length: Length, cpus: int, out: Path, tell: Optional[Tell] = None) -> Outcome:
    """Boot, stress, and return what came of it; console.log and report.txt stay in out.

    A machine that does not end in time, or ends without its last word, is a finding like any other.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    files = {"init": artifacts.stress, artifacts.module.name: artifacts.module, "planted.ko": artifacts.planted}
    files.update({f"before{number}.ko": path for number, path in enumerate(artifacts.before)})
    (out / "initrd.gz").write_bytes(initial_ram_disk(files))
    outcome = Outcome(artifacts.kind, cpus)
    lines: List[str] = []
    started = time.monotonic()
    process = subprocess.Popen(command_line(artifacts, length, cpus, out), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    reader = threading.Thread(target=_read, args=(process, out / "report.txt", lines), daemon=True)
    reader.start()
    while reader.is_alive() and time.monotonic() - started < length.limit_s:
        reader.join(timeout=0.5)
        if tell is not None:
            told = [line for line in lines if line.startswith("progress ")] or ["progress booting"]
            tell(min(1.0, (time.monotonic() - started) / length.expected_s), told[-1].split(" ", 1)[1])
    if reader.is_alive():
        outcome.findings.append(f"the machine did not end within {length.limit_s:.0f} s of wall time; "
                                f"its last words: {' / '.join(lines[-3:])}")
        process.kill()
    process.wait()
    reader.join(timeout=10)
    outcome.wall_s = time.monotonic() - started
    console = (out / "console.log").read_text(errors="replace") if (out / "console.log").exists() else ""
    _judge_report(lines, outcome)
    _judge_console(complaints(console, artifacts.functions), outcome)
    return outcome


def _read(process: subprocess.Popen[bytes], log: Path, lines: List[str]) -> None:
    """Keep what the program says, line by line, until the machine ends."""
    assert process.stdout is not None
    with open(log, "w", encoding="utf-8") as file:
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            lines.append(line)
            file.write(line + "\n")
            file.flush()


def _judge_report(lines: List[str], outcome: Outcome) -> None:
    """Take numbers and failures from what the program said."""
    for line in lines:
        words = line.split()
        if line.startswith("failed: "):
            outcome.findings.append(line)
        elif line.startswith("conserve "):
            outcome.trials += 1
            if words[1] == "ok":
                outcome.conserved += 1
            else:
                outcome.findings.append(line)
        elif line.startswith("churn "):
            outcome.changes, outcome.packets = int(words[1]), int(words[3])
        elif line.startswith("watched "):
            outcome.watched = int(words[1])
    if not lines or lines[-1] != "end":
        outcome.findings.append(f"the program did not end; its last words: {' / '.join(lines[-3:]) or 'none'}")
    if not outcome.trials:
        outcome.findings.append("no trial of conservation ended")
    if CONTROLS[outcome.kind][0] == "race" and outcome.watched < WATCHED_MIN:
        outcome.findings.append(f"only {outcome.watched} accesses were watched for races")


def _judge_console(found: Iterator[Complaint], outcome: Outcome) -> None:
    """Sort the kernel's complaints: what was planted, what is ours, others' races."""
    planted = CONTROLS[outcome.kind][1]
    for complaint in found:
        if complaint.names(planted):
            outcome.control = True
        elif complaint.race and not complaint.ours:
            outcome.others.append(complaint.title)
        else:
            outcome.findings.append(complaint.text)
    if not outcome.control:
        outcome.findings.append(f"the kernel did not tell of the mistake planted in {planted}(): its silence about the "
                                "shim proves nothing")
