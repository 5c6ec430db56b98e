# SPDX-License-Identifier: Apache-2.0
"""``make check-ovs``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import List, Optional, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.ovs.build import Unavailable
from sdngcc.testbed.ovs.check import CheckError, check
from sdngcc.testbed.ovs.versions import VERSIONS


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Try the versions that are named; return 0 if all that can be had pass, 1 if one does not or none can be had."""
    parser = argparse.ArgumentParser(prog="python -m sdngcc.testbed.ovs", description="try versions of Open vSwitch")
    parser.add_argument("--versions", default=",".join(VERSIONS), help=f"of {', '.join(VERSIONS)}, with commas")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "check-ovs", help="folder for logs and results")
    chosen = parser.parse_args(arguments)
    versions: List[str] = chosen.versions.split(",")
    for version in versions:
        if version not in VERSIONS:
            parser.error(f"--versions {version}: there are {', '.join(VERSIONS)}")
    passed, failed, skipped = [], [], []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    for version in versions:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(version, total=1.0, what="")

            def show(name: str, done: int, steps: int, what: str) -> None:
                bars.update(task, completed=done / steps, what=f"{name}: {what}")  # noqa: B023, ours is of this turn

            def say(text: str) -> None:
                print(f"check-ovs: {version}: {text}", flush=True)  # noqa: B023, ours is of this turn

            try:
                check(version, chosen.out / version, say, show)
                passed.append(version)
            except Unavailable as error:
                say(f"skipped: {error}")
                skipped.append(version)
            except CheckError as error:
                say(f"FAILED: {error}")
                failed.append(version)
    for what, names in (("pass", passed), ("FAILED", failed), ("skipped", skipped)):
        if names:
            print(f"check-ovs: {what}: {', '.join(names)}")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
