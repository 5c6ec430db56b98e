# SPDX-License-Identifier: Apache-2.0
"""``make fuzz``: runs each fuzzer for some time, and reports the coverage of shim/core."""

import argparse
import sys
from pathlib import Path
from typing import Optional, Sequence

from sdngcc.testbed.fuzz.build import FUZZERS, FuzzBuildError, build, fuzzer
from sdngcc.testbed.fuzz.run import coverage, fuzz, report, to_json


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the fuzzers chosen; returns 0 if nothing was found, 1 else, 2 if a build fails."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="fuzzes the engine in user space")
    parser.add_argument("--seconds", type=int, default=60, help="time of each fuzzer, at least 1; default: 60")
    parser.add_argument(
        "--only", choices=[one.name for one in FUZZERS], action="append", help="this fuzzer alone; may be repeated"
    )
    parser.add_argument("--out", type=Path, default=Path("results/fuzz"), help="where inputs are kept from run to run")
    given = parser.parse_args(arguments)
    if given.seconds < 1:
        parser.error(f"--seconds: {given.seconds} is out of range, allowed is 1 and more")
    names = given.only or [one.name for one in FUZZERS]
    folder = given.out.resolve()
    try:
        programs, covering = build("sanitized"), build("coverage")
    except FuzzBuildError as error:
        print(error, file=sys.stderr)
        return 2
    failed = False
    for name in names:
        print(f"== {name}: {given.seconds} s", flush=True)
        finding, words = fuzz(fuzzer(name), programs[name], folder, [f"-max_total_time={given.seconds}"])
        print(words, flush=True)
        if finding:
            failed = True
            print(f"{finding.words}\ninput: {finding.input}", flush=True)
    found = coverage({name: covering[name] for name in names}, folder)
    (folder / "coverage.json").write_text(to_json(found), encoding="utf-8")
    print(report(found))
    print("something was found" if failed else "nothing was found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
