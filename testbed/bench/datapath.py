# SPDX-License-Identifier: Apache-2.0
"""``make bench-datapath``: what our limiter costs beside unpatched OVS, an OVS meter, tc police and HTB.

Boots User Mode Linux once, in real time, and lets datapath_guest measure all variants in alternating rounds.
A variant's figure is the median over rounds of its rate divided by unpatched OVS' rate in the same round.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

import click
from rich.console import Console
from rich.table import Table

from sdngcc.testbed.build import BuildError, build
from sdngcc.testbed.machine import MachineError, run_job

# Least rate against unpatched OVS that a variant of ours must keep: what must hold, and the budget aimed at.
BUDGETS = {
    ("packets", "patched, nothing configured"): (0.99, 0.99),
    ("packets", "patched, one sdngcc limiter"): (0.97, 0.98),
    ("sockets", "patched, sdngcc with ECN handling"): (0.95, 0.97),
}

TITLES = {
    "packets": "64-byte packets that are ECT already, pktgen, one core",
    "sockets": "one TCP connection in single segments, VM to VM over two datapaths",
}

REFERENCE = "unpatched"

# Wall time after which a run is given up, s.
LIMIT_S = 900.0


def summarize(samples: Dict[str, Dict[str, List[float]]]) -> Dict[str, List[Dict[str, Any]]]:
    """Turn samples (packets/s by load, variant and round) into one row a variant.

    A row holds variant, per_s (median), ratio (median of the rounds' ratios), ratio_best (best of the whole run by
    unpatched's best: the steadier figure on a busy host), ratio_min, ratio_max, and for variants of ours required,
    budget and holds (by ratio).
    """
    result: Dict[str, List[Dict[str, Any]]] = {}
    for load, by_variant in samples.items():
        rows = result[load] = []
        reference = by_variant[REFERENCE]
        for variant, rates in by_variant.items():
            ratios = [rate / base for rate, base in zip(rates, reference)]
            row: Dict[str, Any] = {
                "variant": variant,
                "per_s": round(statistics.median(rates)),
                "ratio": round(statistics.median(ratios), 4),
                "ratio_best": round(max(rates) / max(reference), 4),
                "ratio_min": round(min(ratios), 4),
                "ratio_max": round(max(ratios), 4),
            }
            if (load, variant) in BUDGETS:
                row["required"], row["budget"] = BUDGETS[load, variant]
                row["holds"] = row["ratio"] >= row["required"]
            rows.append(row)
    return result


def table(load: str, rows: List[Dict[str, Any]]) -> Table:
    """Return one load's rows as a table."""
    result = Table(title=TITLES[load], title_justify="left")
    result.add_column("variant")
    for head in ("packets/s", "ns/packet", "of unpatched", "by best", "least..most", "required", ""):
        result.add_column(head, justify="right")
    for row in rows:
        verdict = "" if "holds" not in row else "holds" if row["holds"] else "does not hold"
        result.add_row(
            row["variant"], f"{row['per_s']:,}", f"{1e9 / row['per_s']:.0f}", f"{row['ratio']:.3f}",
            f"{row['ratio_best']:.3f}", f"{row['ratio_min']:.3f}..{row['ratio_max']:.3f}",
            str(row.get("required", "")), verdict)
    return result


def measure(rounds: int, packets: int, work: Path, console: Optional[Console]) -> Dict[str, Any]:
    """Boot, measure and return the document that --out keeps. Raises BuildError or MachineError."""
    artifacts = build(only=("kernel", "module"))
    modules = {"stock": str(artifacts.kernel_build / "net" / "openvswitch" / "openvswitch.ko"),
               "patched": artifacts.modules[-1]}
    job = {"rounds": rounds, "packets": packets, "preload": artifacts.modules[:-1], "modules": modules}

    def progress(_: float, text: str) -> None:
        if console is not None:
            console.print(f"bench-datapath: {text}")

    run_job(artifacts.kernel, job, work, seed=1, limit_s=LIMIT_S, progress=progress, virtual_time=False,
            main="sdngcc.testbed.bench.datapath_guest")
    samples = json.loads((work / "samples.json").read_text())
    return {"schema": 1, "rounds": rounds, "packets_per_round": packets, "samples": samples,
            "summary": summarize(samples)}


@click.command()
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1, 99),
              help="Rounds; each measures every variant once.")
@click.option("--packets", default=1_000_000, show_default=True, type=click.IntRange(10_000, 100_000_000),
              help="Packets of one pktgen measurement.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for bench-datapath.json; made when missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document instead of tables.")
def main(rounds: int, packets: int, out: Optional[Path], as_json: bool) -> None:
    """Compare the packet rate of unpatched OVS, ours, an OVS meter, tc police and HTB, in real time.

    Ratios are worth more than rates: the machine is virtual and its host may be busy. Nothing else should run
    meanwhile.
    """
    console = Console(stderr=as_json)
    console.width = max(console.width, 118)
    try:
        with tempfile.TemporaryDirectory(prefix="sdngcc-bench-") as work:
            document = measure(rounds, packets, Path(work), console)
    except (BuildError, MachineError) as error:
        raise click.ClickException(str(error)) from error
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench-datapath.json").write_text(json.dumps(document, indent=1) + "\n")
    if as_json:
        json.dump(document, sys.stdout, indent=1)
        print()
        return
    for load, rows in document["summary"].items():
        console.print(table(load, rows))


if __name__ == "__main__":
    main()
