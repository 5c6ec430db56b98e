# SPDX-License-Identifier: Apache-2.0
"""Writes a result as one HTML file that needs nothing else: verdicts, figure, phases, counters, parameters."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any, Dict, Iterable, List, Sequence

from sdngcc.testbed.plot import runs_of, title_of

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .5em 0 1.5em } th, td { padding: .2em .8em; border-bottom: 1px solid #ddd;
text-align: left } td.n { text-align: right; font-variant-numeric: tabular-nums } img { max-width: 100% }
.yes { color: #1b7837 } .no { color: #b2182b; font-weight: bold }
"""


def _cell(value: Any) -> str:
    kind = ' class="n"' if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
    return f"<td{kind}>{html.escape(str(value))}</td>"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


def _verdicts(result: Dict[str, Any]) -> str:
    rows = []
    for verdict in result["verdicts"]:
        mark = '<td class="yes">holds</td>' if verdict["holds"] else '<td class="no">does not hold</td>'
        rows.append(f"<tr>{_cell(verdict['name'])}{_cell(verdict['expected'])}"
                    f"{_cell(verdict['paper'])}{_cell(verdict['measured'])}{mark}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("what", "expected", "paper", "measured", ""))
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _requests(requests: Dict[str, Any]) -> str:
    """Return a table of durations by flow; nothing when there were no requests."""
    rows = [[name, *(value for key, value in one.items() if key != "phases")] for name, one in requests.items()]
    keys = [key for key in next(iter(requests.values()), {}) if key != "phases"]
    return _table(["requests", *keys], rows) if rows else ""


def _run(run: Dict[str, Any]) -> str:
    vms = list(run["series"]["goodput_mbps"])
    shown = vms[:8]
    rows: List[List[Any]] = []
    for phase in run["phases"]:
        rows.append([phase["name"], f"{phase['start_s']} to {phase['end_s']} s", phase["utilisation"],
                     min(phase["jain"], default=""), *(phase["goodput_mbps"][vm] for vm in shown)])
    counters = {**{f"queue {name}": value for name, value in run["queue"].items()},
                **{f"drops {name}": value for name, value in run["drops"].items()},
                **{f"notifications {name}": value for name, value in run["notifications"].items()}}
    return (f"<h2>{html.escape(title_of(run))}</h2><p>Goodput in Mb/s by VM"
            f"{f' (the first 8 of {len(vms)})' if len(vms) > 8 else ''}, the tagged VM first.</p>"
            + _table(["period", "time", "utilisation", "worst Jain", *shown], rows)
            + _table(["counter", "value"], counters.items())
            + _requests(run["requests"])
            + "<details><summary>Parameters</summary>" + _table(["name", "value"], run["parameters"].items())
            + "</details>")


def write(result: Dict[str, Any], figure: Path, path: Path) -> None:
    """Write the report of a result with its figure inside."""
    image = base64.b64encode(figure.read_bytes()).decode("ascii")
    data = json.dumps(result, sort_keys=True).replace("</", "<\\/")
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(result['experiment'])}</title>"
        f"<style>{STYLE}</style><h1>{html.escape(result['experiment'])}, seed {result['seed']}</h1>"
        + _verdicts(result)
        + f'<img alt="goodput, rate limits and queue over time" src="data:image/png;base64,{image}">'
        + "".join(_run(run) for run in runs_of(result))
        + f'<script type="application/json" id="result">{data}</script></html>\n', encoding="utf-8")
