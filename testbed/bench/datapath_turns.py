# SPDX-License-Identifier: Apache-2.0
"""One of the machines of ``make bench-datapath``, inside User Mode Linux, in real time.

One machine has unpatched Open vSwitch, each other one what a row measures. Each sets a row up once; then the host lets
them measure in turn, a short burst each (``take_turns`` in datapath). Bursts that follow each other within some
tens of milliseconds see the same host, however busy it is.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict

from sdngcc.testbed.bench.datapath_guest import load, packets_load, run, stream_load, switch_on
from sdngcc.testbed.bench.datapath_rows import ROWS, STREAM, VMS, Row
from sdngcc.testbed.bench.datapath_vms import crowd_load
from sdngcc.testbed.virtual.entropy import seed_entropy

# Names of the host's and the guest's files.
READY, TURN, RATE = "ready-{row}", "turn-{row}-{index}", "rate-{row}-{index}"

# The host's file that ends a machine early.
STOP = "stop"

# So often a machine looks whether it is its turn, s.
LOOK_S = 0.001


def answer(out: Path, row: Row, turns: int, measure: Callable[[], float]) -> None:
    """Tell the host that all is ready; measure whenever it is this machine's turn. SystemExit when the host gave up."""
    (out / READY.format(row=row.name)).touch()
    for index in range(turns):
        while not (out / TURN.format(row=row.name, index=index)).exists():
            if (out / STOP).exists():
                sys.exit("the host gave up")
            time.sleep(LOOK_S)
        rate = measure()
        told = out / RATE.format(row=row.name, index=index)
        told.with_suffix(".part").write_text(str(rate))
        told.with_suffix(".part").rename(told)


def nothing(_: Row) -> None:
    """Switch nothing on."""


def main(path: Path) -> None:
    """Do the job: each of its rows in order, with as many turns as there are rounds."""
    seed_entropy()
    job: Dict[str, Any] = json.loads(path.read_text())
    for module in job["preload"]:
        run("insmod", module)
    ours, packets, there = job["ours"], job["packets"], 0
    for row in (ROWS[name] for name in job["rows"]):
        if not there:
            # Anew for each row: nothing that was set before may stay. Rows with many VMs keep those they have.
            load(*job["modules"]["ours" if row.patched else "stock"])
        enable = switch_on if ours else nothing
        work: ContextManager[Callable[[], float]]
        if row.load == VMS:
            work = crowd_load(there, row, packets, ours)
            there = row.vms
        elif row.load == STREAM:
            work = stream_load(row, enable)
        else:
            work = packets_load(row, packets, enable)
        with work as measure:
            answer(path.parent, row, job["rounds"], measure)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
