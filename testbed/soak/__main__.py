# SPDX-License-Identifier: Apache-2.0
"""``make soak``."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from sdngcc.testbed.build import ROOT, BuildError, build
from sdngcc.testbed.soak.run import judge_so_far, make_plan, soak, table

# Virtual hours that are allowed: a cycle has a minute at least.
SHORTEST_H, LONGEST_H = 0.1, 1000.0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Soak for the hours that are asked for; return 0 if all is as it was, 1 if not, 2 if it cannot run.

    Ctrl-C and SIGTERM end it early; the cycles until then are judged.
    """
    parser = argparse.ArgumentParser(prog="make soak", description="virtual hours of work, changes and faults")
    parser.add_argument("--hours", type=float, default=24.0, help="virtual time (24)")
    parser.add_argument("--seed", type=int, default=1, help="of the machine's randomness (1)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "soak", help="folder of rows and result.json")
    parser.add_argument("--judge", action="store_true", help="run nothing; judge the rows that are in --out so far")
    chosen = parser.parse_args(arguments)
    if not SHORTEST_H <= chosen.hours <= LONGEST_H:
        parser.error(f"--hours {chosen.hours:g}: allowed is {SHORTEST_H:g} to {LONGEST_H:g}")
    try:
        if chosen.judge:
            return tell(judge_so_far(chosen.out))
        artifacts = build()
    except (BuildError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()

    def show(virtual_s: float, text: str) -> None:
        print(f"soak: {virtual_s / 3600:6.2f} h in {(time.monotonic() - started) / 60:5.1f} min: {text}", flush=True)

    return tell(soak(make_plan(chosen.hours), artifacts, chosen.out, chosen.seed, show))


def tell(result: Dict[str, Any]) -> int:
    """Print rows and verdicts; return 0 if all passed, 1 if not."""
    print(table(result))
    return 0 if all(verdict["passed"] for verdict in result["verdicts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
