# SPDX-License-Identifier: Apache-2.0
"""Tries one version of Open vSwitch with its series: built, its own tests of what the series touches, an experiment."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Sequence

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed.build import BuildError, Progress, build
from sdngcc.testbed.locks import locked
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.ovs.build import Unavailable, build_version
from sdngcc.testbed.runner import run_experiment

# Keywords of Open vSwitch's tests: ours, and those of the programs and libraries that the series changes.
TOUCHED = ("shim", "ofp-print", "ofp-errors", "ofproto", "bridge", "bundle", "ovs-vswitchd", "ovs-vsctl")

# What ends the output of a test suite that passed, with the number of tests; those that were skipped come before it.
_PASSED = re.compile(r"^(?:All )?(\d+) tests? (?:(?:was|were) successful|behaved as expected)\b", re.MULTILINE)
_SKIPPED = re.compile(r"^(\d+) tests? (?:was|were) skipped\.$", re.MULTILINE)

# For unshare: a network namespace with a loopback alone. Some tests expect addresses that nobody answers,
# and on some networks a gateway answers for all.
_ALONE = ("--net", "sh", "-c", 'ip link set lo up && exec "$@"', "alone")

# A warning of the compiler about a file of ours.
_WARNING = re.compile(r"^\S*(?:shim|netdev-marks)\S*\.[ch]:\d+:\d+: (?:warning|error): .*$", re.MULTILINE)


class CheckError(Exception):
    """A version does not pass; the text says at what."""


@dataclass(frozen=True)
class Passed:
    """How many of Open vSwitch's own tests passed, and how many did not find what they need."""

    passed: int
    skipped: int


def _alone() -> Sequence[str]:
    """Return the words before a command that keep it off the network, none where nobody may make namespaces."""
    # Mapped, root could not write what the source's archive gave to others.
    alone = ("unshare", *(() if os.geteuid() == 0 else ("--map-root-user",)), *_ALONE)
    tried = subprocess.run([*alone, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return () if tried.returncode else alone


def run_tests(tree: Path, keywords: Sequence[str], log: Path) -> Passed:
    """Run the tests with any of the keywords in a tree that is built; their output goes to log. Raises CheckError."""
    flags = " ".join(f"-k {keyword}" for keyword in keywords)
    # Not those of a make that runs this.
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    # The tests of a tree share a folder there.
    with locked(tree.parent / "tests.lock"):
        done = subprocess.run([*_alone(), "make", "-j2", "check", f"TESTSUITEFLAGS=-j2 {flags}"], cwd=tree,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False, env=environment)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(done.stdout, encoding="utf-8")
    passed, skipped = _PASSED.search(done.stdout), _SKIPPED.search(done.stdout)
    if done.returncode or passed is None:
        failed = re.findall(r"^ *\d+: .*FAILED.*$", done.stdout, re.MULTILINE)
        raise CheckError(f"its own tests (exit {done.returncode}); {log} ends with:\n"
                         + "\n".join([*failed, *done.stdout.splitlines()[-40:]]))
    return Passed(int(passed[1]), int(skipped[1]) if skipped else 0)


def check(version: str, out: Path, say: Callable[[str], None], progress: Progress) -> None:
    """Build a version, run its tests and ``share`` with it.

    Raises Unavailable when its source cannot be had, CheckError when something does not pass.
    """
    try:
        tree = build_version(version, progress)
    except BuildError as error:
        if isinstance(error, Unavailable):
            raise
        raise CheckError(str(error)) from None
    warnings = _WARNING.findall((tree.parent / "build.log").read_text(errors="replace"))
    if warnings:
        raise CheckError("\n".join(["the compiler warns of our files:", *warnings]))
    say("the series applies without fuzz, it builds, our files without a warning")
    counted = run_tests(tree, TOUCHED, out / "tests.log")
    say(f"{counted.passed} of its own tests pass, {counted.skipped} find not what they need here")
    _share(version, out / "share", say)


def _share(version: str, out: Path, say: Callable[[str], None]) -> None:
    """Run ``share`` with a version. Raises CheckError when an expectation does not hold."""
    experiment = EXPERIMENTS["share"]
    try:
        result = run_experiment(experiment, experiment.cases((f"ovs={version}",)), build(ovs=[version]), 1, out)
    except MachineError as error:
        raise CheckError(f"share: {error}") from None
    failed = [f"{one['name']}: {one['measured']}, expected {one['expected']}" for one in result["verdicts"]
              if not one["holds"]]
    if failed:
        raise CheckError("\n".join(["share does not hold:", *failed]))
    say(f"share holds in all {len(result['verdicts'])} expectations")
