# SPDX-License-Identifier: Apache-2.0
"""``make demo``: SDN-GCC's Fig. 4, each control (none, static, sdngcc) against each competitor, on one page.

The nine runs are the experiment ``share`` with the paper's parameters; each leaves its own result beside the
table and the figure. Runs are independent machines, so as many go at a time as there are processors.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import Case, phase
from sdngcc.testbed.build import Artifacts, BuildError, build
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.parameters import ParameterError, parse_settings
from sdngcc.testbed.runner import leave_result, run_case, write_json

LAWS = {"none": "no shim", "static": "static limit", "sdngcc": "sdngcc"}
COMPETITORS = ("tcp", "dctcp", "udp")
COLOURS = {"tcp": "#2166ac", "dctcp": "#1b7837", "udp": "#b2182b"}

# The paper's optimum of the tagged flow: each period, and all of them together, Mb/s.
IDEAL_MBPS = (0, 250, 1000, 416)

PERIODS = ("competitors", "all", "tagged")


@dataclass(frozen=True)
class Panel:
    """One of the nine runs."""

    law: str
    competitor: str

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{self.law}-{self.competitor}"


PANELS = tuple(Panel(law, competitor) for law in LAWS for competitor in COMPETITORS)


def summarize(panel: Panel, result: Dict[str, Any]) -> Dict[str, Any]:
    """Return a run's row: tagged means of the three periods and overall in Mb/s, Jain, utilisation, queue."""
    means = [phase(result, name).get("goodput_mbps", {}).get("vm1") for name in PERIODS]
    lengths = result["parameters"]["phases"]
    shared = phase(result, "all")
    jain = shared["jain"][2:]
    return {
        "law": panel.law,
        "competitor": panel.competitor,
        "tagged_mbps": means,
        "tagged_mean_mbps": round(sum((one or 0) * length for one, length in zip(means, lengths)) / sum(lengths), 1),
        "jain_worst": min(jain) if jain else None,
        "utilisation_all": shared["utilisation"],
        "queue_bytes_p99": result["queue"]["bytes_p99"],
        "expectations": len(result["verdicts"]),
        "expectations_held": sum(verdict["holds"] for verdict in result["verdicts"]),
    }


def table(rows: Sequence[Dict[str, Any]]) -> Table:
    """Return the rows as a table, the paper's optimum last.

    Jain's index (the worst second from the third on) and use (of the link, by bytes on the wire) are of period 2;
    queue is the bottleneck's 99th percentile.
    """
    result = Table(title="Goodput of the tagged TCP, Mb/s, against three competitors on 1 Gb/s", title_justify="left")
    for head in ("control", "competitors"):
        result.add_column(head)
    for head in ("period 1", "period 2", "period 3", "mean", "Jain", "use", "queue, kB",
                 "expectations"):
        result.add_column(head, justify="right")
    for number, row in enumerate(rows):
        numbers = ["-" if one is None else f"{one:.0f}" for one in [*row["tagged_mbps"], row["tagged_mean_mbps"]]]
        jain = "-" if row["jain_worst"] is None else f"{row['jain_worst']:.3f}"
        last = number + 1 == len(rows) or rows[number + 1]["law"] != row["law"]
        result.add_row(
            LAWS[row["law"]], row["competitor"], *numbers, jain, f"{row['utilisation_all']:.2f}",
            f"{row['queue_bytes_p99'] / 1000:.1f}", f"{row['expectations_held']} of {row['expectations']} hold",
            end_section=last)
    result.add_row("the paper's optimum", "", *map(str, IDEAL_MBPS), "1.000", "1.00", "", "")
    return result


def draw(results: Dict[Panel, Dict[str, Any]], path: Path) -> None:
    """Draw the tagged flow's goodput over time, a panel for each control, a line for each competitor."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    laws = [law for law in LAWS if any(panel.law == law for panel in results)]
    figure, panels = pyplot.subplots(1, len(laws), figsize=(4.6 * len(laws), 4), sharey=True, squeeze=False)
    for axes, law in zip(panels[0], laws):
        for panel, result in results.items():
            if panel.law != law:
                continue
            mean = summarize(panel, result)["tagged_mean_mbps"]
            series = result["series"]
            axes.plot(series["t_s"], series["goodput_mbps"]["vm1"], color=COLOURS[panel.competitor], linewidth=1.0,
                      label=f"against {panel.competitor}: mean {mean:.0f}")
            for one in result["phases"][1:]:
                axes.axvline(one["start_s"], color="#999999", linewidth=0.8, linestyle=":")
        for one, ideal in zip(result["phases"], IDEAL_MBPS):
            axes.hlines(ideal, one["start_s"], one["end_s"], color="black", linestyle="--", linewidth=0.8)
        axes.set_title(LAWS[law])
        axes.set_xlabel("time, s")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper left")
    panels[0][0].set_ylabel("goodput of the tagged TCP, Mb/s")
    panels[0][0].set_ylim(0, 1080)
    figure.suptitle("One tagged TCP and three competitors on 1 Gb/s: competitors alone, all, tagged alone "
                    f"(dashed: optimum; mean {IDEAL_MBPS[3]})", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def run_panels(artifacts: Artifacts, settings: Sequence[str], seed: int, out: Path, jobs: int,
               console: Console) -> Dict[Panel, Dict[str, Any]]:
    """Run the nine, jobs at a time, each leaving its result in a folder of its own. Raises MachineError."""
    experiment = EXPERIMENTS["share"]
    cases = {panel: parse_settings([f"law={panel.law}", f"competitor={panel.competitor}", *settings], {})
             for panel in PANELS}
    columns = (TextColumn("{task.description:14}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    results: Dict[Panel, Dict[str, Any]] = {}
    # Without a terminal a line tells what ended; bars would only be printed once, at the end.
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks = {panel: bars.add_task(panel.name, total=1.0, what="waiting") for panel in PANELS}

        def run(panel: Panel) -> Any:
            def show(part: float, text: str) -> None:
                bars.update(tasks[panel], completed=part, what=text)

            return run_case(Case("", cases[panel]), artifacts, seed, out / panel.name / "raw", progress=show)

        with ThreadPoolExecutor(jobs) as pool:
            running = {pool.submit(run, panel): panel for panel in PANELS}
            try:
                for done in as_completed(running):
                    panel = running[done]
                    run_result, timing = done.result()
                    results[panel] = leave_result(experiment, [("", run_result)], seed, out / panel.name)
                    bars.update(tasks[panel], completed=1.0, what=f"done, {timing['wall_s']:.0f} s")
                    if not console.is_terminal:
                        console.print(f"demo: {len(results)} of {len(PANELS)}: {panel.name}, {timing['wall_s']:.0f} s",
                                      highlight=False)
            except MachineError:
                pool.shutdown(cancel_futures=True)
                raise
    return {panel: results[panel] for panel in PANELS}


@click.command()
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of all nine runs.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1, 9), default=min(9, os.cpu_count() or 1), show_default=True,
              help="Runs at a time.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("results/demo"),
              show_default=True, help="Folder for demo.json, figure.png and a folder for each run.")
@click.option("--json", "as_json", is_flag=True, help="Print demo.json instead of the table.")
def main(settings: Sequence[str], seed: int, jobs: int, out: Path, as_json: bool) -> None:
    """Reproduce SDN-GCC's Fig. 4: no shim, static and sdngcc, each against tcp, dctcp and udp."""
    console = Console(stderr=True)
    started = time.monotonic()
    try:
        results = run_panels(build(), settings, seed, out, jobs, console)
    except ParameterError as error:
        raise click.UsageError(str(error)) from None
    except (BuildError, MachineError) as error:
        raise click.ClickException(str(error)) from None
    rows: List[Dict[str, Any]] = [summarize(panel, result) for panel, result in results.items()]
    write_json(out / "demo.json", {"schema": 1, "seed": seed, "settings": list(settings), "runs": rows})
    figure = out / "figure.png"
    draw(results, figure)
    if as_json:
        json.dump(rows, sys.stdout, indent=1)
        print()
        return
    printed = Console()
    printed.width = max(printed.width, 118)
    printed.print(table(rows))
    printed.print(f"{time.monotonic() - started:.0f} s; figure: {figure}; each run's report: {out}/*/report.html",
                  highlight=False)


if __name__ == "__main__":
    main()
