# SPDX-License-Identifier: Apache-2.0
"""``make bench-destinations``: what 1 to 10,000 limiters of destinations cost a packet, EyeQ's section 5.1.

The paper puts 20,000 flows on 1, 1,000 and 10,000 rate limiters and finds the same CPU usage. Here one CPU sends as
fast as it can, to as many destinations as there are limiters, through law eyeq's, HTB's and sch_fq's, and through none
in the same round: a round's figure is the time of a packet beside that without limiters. Boots User Mode Linux once,
in real time; destinations_guest measures.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import click
from rich.console import Console
from rich.table import Table

from sdngcc.testbed.bench.datapath import machine, spread
from sdngcc.testbed.build import BuildError, build
from sdngcc.testbed.machine import MachineError, run_job, scratch

COUNTS = (1, 10, 100, 1_000, 10_000)
TITLES = {"none": "no limiter", "eyeq": "law eyeq, a limiter a destination, and fq",
          "htb": "HTB, a class a destination", "fq": "fq with maxrate, a flow a destination"}

# Wall time after which a run is given up, s.
LIMIT_S = 900.0


def summarize(samples: Mapping[str, Mapping[str, Sequence[float]]]) -> List[Dict[str, Any]]:
    """Return a row for each number of limiters and way, from packets/s by both and by round.

    A row has limiters, way, ns (median time of a packet), cost (median of the rounds' ratios to the time without
    limiters), error (the median's) and to_least (cost beside that of the way's fewest limiters).
    """
    rows: List[Dict[str, Any]] = []
    first: Dict[str, float] = {}
    for count, ways in samples.items():
        base = next(iter(ways.values()))
        for way, rates in ways.items():
            ratios = [one / rate for one, rate in zip(base, rates)]
            cost, (_, _, error) = statistics.median(ratios), spread(ratios)
            first.setdefault(way, cost)
            rows.append({"limiters": int(count), "way": way, "ns": round(statistics.median(1e9 / one for one in rates)),
                         "cost": round(cost, 3), "error": round(error, 3), "to_least": round(cost / first[way], 3)})
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows as a table."""
    result = Table(title="CPU time of a packet by number of limiters", title_justify="left")
    for head in ("limiters", "way", "ns a packet", "beside no limiter", "error", "beside the fewest"):
        result.add_column(head, justify="left" if head == "way" else "right")
    for row in rows:
        result.add_row(f"{row['limiters']:,}", TITLES[row["way"]], f"{row['ns']:,}", f"{row['cost']:.3f}",
                       f"{row['error']:.3f}", f"{row['to_least']:.3f}")
    return result


def measure(counts: Sequence[int], rounds: int, packets: int, work: Path, console: Optional[Console]) -> Dict[str, Any]:
    """Boot, measure and return the document that --out keeps. Raises BuildError or MachineError."""
    artifacts = build(only=("kernel", "module"))
    job = {"counts": list(counts), "rounds": rounds, "packets": packets, "preload": artifacts.modules[:-1],
           "module": artifacts.modules[-1]}

    def progress(_: float, text: str) -> None:
        if console is not None:
            console.print(f"bench-destinations: {text}")

    host = machine()
    # What this starts is not interrupted by the host's other programs, where it may ask for that.
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    run_job(artifacts.kernel, job, work, 1, LIMIT_S, progress, virtual_time=False, memory="1G",
            main="sdngcc.testbed.bench.destinations_guest")
    samples = json.loads((work / "result.json").read_text())
    return {"schema": 1, "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": ["python", "-m", "sdngcc.testbed.bench.destinations", *sys.argv[1:]], "machine": host,
            "rounds": rounds, "packets_a_burst": packets, "samples": samples, "summary": summarize(samples)}


@click.command()
@click.option("--counts", default=",".join(map(str, COUNTS)), show_default=True, help="Numbers of limiters.")
@click.option("--rounds", default=31, show_default=True, type=click.IntRange(1, 999))
@click.option("--packets", default=20_000, show_default=True, type=click.IntRange(1_000, 10_000_000),
              help="Packets of a burst.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for result.json; made when missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document instead of a table.")
def main(counts: str, rounds: int, packets: int, out: Optional[Path], as_json: bool) -> None:
    """Compare what many limiters cost a packet: law eyeq's, HTB's and fq's, in real time. Takes some minutes."""
    console = Console(stderr=as_json)
    try:
        numbers = [int(word) for word in counts.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"want whole numbers with commas, not {counts}", param_hint="--counts") from error
    if not all(1 <= number <= 65_000 for number in numbers):
        raise click.BadParameter("each is from 1 to 65000", param_hint="--counts")
    try:
        with scratch("sdngcc-bench-") as work:
            try:
                document = measure(numbers, rounds, packets, work, console)
            except MachineError:
                log = work / "console.log"
                console.print("\n".join(log.read_text(errors="replace").splitlines()[-40:]), markup=False)
                raise
    except (BuildError, MachineError) as error:
        raise click.ClickException(str(error)) from error
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    if as_json:
        print(json.dumps(document, indent=1))
    else:
        console.print(table(document["summary"]))


if __name__ == "__main__":
    main()
