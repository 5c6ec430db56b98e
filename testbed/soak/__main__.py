# SPDX-License-Identifier: Apache-2.0
"""``make soak``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Optional, Sequence

from sdngcc.testbed.build import ROOT, BuildError, build
from sdngcc.testbed.soak.run import make_plan, soak, table

# Virtual hours that are allowed: a cycle has a minute at least.
SHORTEST_H, LONGEST_H = 0.1, 1000.0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Soak for the hours that are asked for; return 0 if all is as it was, 1 if not, 2 if a build fails."""
    parser = argparse.ArgumentParser(prog="make soak", description="virtual hours of work, changes and faults")
    parser.add_argument("--hours", type=float, default=24.0, help="virtual time (24)")
    parser.add_argument("--seed", type=int, default=1, help="of the machine's randomness (1)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "soak", help="folder of rows and result.json")
    chosen = parser.parse_args(arguments)
    if not SHORTEST_H <= chosen.hours <= LONGEST_H:
        parser.error(f"--hours {chosen.hours:g}: allowed is {SHORTEST_H:g} to {LONGEST_H:g}")
    try:
        artifacts = build()
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    started = time.monotonic()

    def show(virtual_s: float, text: str) -> None:
        print(f"soak: {virtual_s / 3600:6.2f} h in {(time.monotonic() - started) / 60:5.1f} min: {text}", flush=True)

    result = soak(make_plan(chosen.hours), artifacts, chosen.out, chosen.seed, show)
    print(table(result))
    return 0 if all(verdict["passed"] for verdict in result["verdicts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
