# SPDX-License-Identifier: Apache-2.0
"""``make check-suites``."""

from __future__ import annotations

import argparse
import collections
import re
import sys
from pathlib import Path
from typing import Optional, Sequence

from sdngcc.testbed.build import ROOT, BuildError, build
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.runner import write_json
from sdngcc.testbed.suites.run import VARIANTS, Outcomes, differences, run_suite

SUITES = ("selftests", "kmod")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the suites; return 0 if outcomes are the same on all variants, 1 if not, 2 if a machine or a build fails."""
    parser = argparse.ArgumentParser(prog="make check-suites", description="peers' tests, with the shim and without")
    parser.add_argument("--suites", default=",".join(SUITES), help=f"of {', '.join(SUITES)}, with commas")
    parser.add_argument("--variants", default=",".join(VARIANTS), help=f"of {', '.join(VARIANTS)}, with commas")
    parser.add_argument("--tests", default="", help="of kmod: numbers and ranges, with commas (1-50,75); default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "check-suites", help="folder of lists")
    chosen = parser.parse_args(arguments)
    suites, variants = chosen.suites.split(","), chosen.variants.split(",")
    tests = [test for test in chosen.tests.split(",") if test]
    for given, allowed, what in ((suites, SUITES, "--suites"), (variants, VARIANTS, "--variants")):
        for name in given:
            if name not in allowed:
                parser.error(f"{what} {name}: there are {', '.join(allowed)}")
    for test in tests:
        if not re.fullmatch(r"\d+(-\d+)?", test):
            parser.error(f"--tests {test}: want a number or a range of numbers")
    differing = 0
    try:
        artifacts = build()
        for suite in suites:
            found: dict[str, Outcomes] = {}
            for variant in variants:
                found[variant] = run_suite(suite, variant, artifacts, tests, chosen.out / f"{suite}-{variant}")
                counts = collections.Counter(found[variant].values())
                print(f"check-suites: {suite}, {variant}: " + ", ".join(
                    f"{count} {outcome}" for outcome, count in sorted(counts.items())), flush=True)
            write_json(chosen.out / f"{suite}.json", found)
            for line in differences(found):
                print(f"check-suites: {suite}: DIFFERS: {line}", flush=True)
                differing += 1
    except (BuildError, MachineError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"check-suites: {differing or 'no'} differences")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
