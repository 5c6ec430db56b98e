# SPDX-License-Identifier: Apache-2.0
"""``make bench-overhead``: Seawall's Table 1, the CPU cost of its shim beside a null shim and none.

The paper gives the CPU's load at sender and receiver for one TCP connection at line rate. Here one CPU does the work of
both and is always busy, so a variant's cost per packet is the inverse of its packets/s; what is compared is the sum of
sender and receiver. With the shim at one end alone the sum tells that end's part: the other is as the null shim has it.
Boots User Mode Linux once, in real time; overhead_guest measures in alternating rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import click
from rich.console import Console
from rich.table import Table

from sdngcc.testbed.build import BuildError, build
from sdngcc.testbed.machine import MachineError, run_job, scratch

# CPU load of sender and receiver together in Table 1, percent; where the shim is at one end, the other's is the null's.
PAPER = {"baseline": 16.9 + 10.8, "null": 18.7 + 13.5, "seawall": 20.7 + 14.2, "seawall-sender": 20.7 + 13.5,
         "seawall-receiver": 18.7 + 14.2}

TITLES = {
    "baseline": "unpatched OVS",
    "null": "patched, nothing configured (the null shim)",
    "static": "patched, law static",
    "seawall": "patched, law seawall at both ends",
    "seawall-sender": "the same at the sender alone",
    "seawall-receiver": "the same at the receiver alone",
}

# Wall time after which a run is given up, s.
LIMIT_S = 600.0


def summarize(samples: Dict[str, List[float]]) -> List[Dict[str, Any]]:
    """Turn samples (packets/s by variant and round) into one row a variant.

    A row holds variant, per_s (median), cost_to_null and cost_to_baseline (medians of the rounds' ratios of cost a
    packet) and the paper's ratios where it has them.
    """
    rows = []
    for variant, rates in samples.items():
        row: Dict[str, Any] = {"variant": variant, "per_s": round(statistics.median(rates))}
        for reference in ("null", "baseline"):
            ratios = [base / rate for base, rate in zip(samples[reference], rates)]
            row[f"cost_to_{reference}"] = round(statistics.median(ratios), 4)
            row[f"paper_to_{reference}"] = (
                round(PAPER[variant] / PAPER[reference], 3) if variant in PAPER else None)
        rows.append(row)
    return rows


def table(rows: List[Dict[str, Any]]) -> Table:
    """Return the rows as a table."""
    result = Table(title="One TCP connection in single segments, VM to VM, one CPU", title_justify="left")
    result.add_column("variant")
    for head in ("packets/s", "cost / null", "paper", "cost / baseline", "paper"):
        result.add_column(head, justify="right")
    for row in rows:
        result.add_row(TITLES[row["variant"]], f"{row['per_s']:,}", *(
            "" if row[name] is None else f"{row[name]:.3f}"
            for name in ("cost_to_null", "paper_to_null", "cost_to_baseline", "paper_to_baseline")))
    return result


def measure(rounds: int, work: Path, console: Optional[Console]) -> Dict[str, Any]:
    """Boot, measure and return the document that --out keeps. Raises BuildError or MachineError."""
    artifacts = build(only=("kernel", "module"))
    modules = {"stock": str(artifacts.kernel_build / "net" / "openvswitch" / "openvswitch.ko"),
               "patched": artifacts.modules[-1]}
    job = {"rounds": rounds, "preload": artifacts.modules[:-1], "modules": modules}

    def progress(_: float, text: str) -> None:
        if console is not None:
            console.print(f"bench-overhead: {text}")

    run_job(artifacts.kernel, job, work, seed=1, limit_s=LIMIT_S, progress=progress, virtual_time=False,
            main="sdngcc.testbed.bench.overhead_guest")
    samples = json.loads((work / "samples.json").read_text())
    return {"schema": 1, "rounds": rounds, "samples": samples, "summary": summarize(samples)}


@click.command()
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1, 99),
              help="Rounds; each measures every variant once.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for bench-overhead.json; made when missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document instead of a table.")
def main(rounds: int, out: Optional[Path], as_json: bool) -> None:
    """Compare the cost a packet of unpatched OVS, a null shim and the shim under seawall, in real time.

    Ratios are worth more than rates: the machine is virtual and its host may be busy. Nothing else should run
    meanwhile.
    """
    console = Console(stderr=as_json)
    try:
        with scratch("sdngcc-bench-") as work:
            document = measure(rounds, work, console)
    except (BuildError, MachineError) as error:
        raise click.ClickException(str(error)) from error
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench-overhead.json").write_text(json.dumps(document, indent=1) + "\n")
    if as_json:
        json.dump(document, sys.stdout, indent=1)
        print()
    else:
        console.print(table(document["summary"]))


if __name__ == "__main__":
    main()
