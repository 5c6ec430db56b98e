# SPDX-License-Identifier: Apache-2.0
"""Runs the suites on a datapath with and without the shim, reads their outcomes and compares them.

A suite's tests are judged by nothing but that: a test has with the shim the outcome that it has without.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Dict, List, Sequence

from sdngcc.testbed.build import Artifacts
from sdngcc.testbed.machine import MachineError, run_job

# Open vSwitch's module of the kernel as it is; with the hooks and the shim in it; as it is, with sdngcc.ko beside it.
VARIANTS = ("unpatched", "patched", "beside")
# Wall time a suite may take, seconds.
LIMIT_S = 7200.0
# A line of Autotest's, and one of the kernel's selftests; the outcome is its last word, without where it failed.
KMOD = re.compile(r"^ *(\d+): (.*?) +(ok|skipped|FAILED|expected failure|UNEXPECTED PASS)\b")
SELFTESTS = re.compile(r"^TEST: (.*?) +\[ *(OK|FAIL|SKIP|NOMOD|PYLIB) *\]")
# What asyncio says, sooner or later, of a task of pyroute2's that nobody waits for: it looks in the background for what
# the testbed's kernel does not have. The tool goes on.
BACKGROUND = re.compile(r"^Task exception was never retrieved\nfuture: .*\nTraceback .*\n(?: .*\n)+\S.*$", re.MULTILINE)

Outcomes = Dict[str, str]


def read_outcomes(text: str, suite: str) -> Outcomes:
    """Return how each test of a suite's output ended, by its number and name, or its name."""
    found: Outcomes = {}
    failed = "Traceback" in BACKGROUND.sub("", text)
    for line in text.splitlines():
        match = (KMOD if suite == "kmod" else SELFTESTS).match(line)
        if match and suite == "kmod":
            found[f"{int(match[1]):3} {match[2]}"] = match[3]
        elif match:
            # The script does not look at how its tool ends.
            found[match[1]] = "its tool failed" if failed else match[2]
    return found


def suite_job(suite: str, variant: str, artifacts: Artifacts, tests: Sequence[str]) -> Dict[str, object]:
    """Return the job that the guest reads; tests are numbers or ranges of numbers of suite kmod, none of them: all."""
    modules = artifacts.datapath("patched" if variant == "patched" else "beside")
    beside = modules[-1] if variant == "beside" else ""
    plain = modules if variant == "patched" else modules[:-1]
    folders = [Path(plain[-1]).parent, artifacts.kernel_build / "drivers" / "net" / "bonding"]
    return {"suite": suite, "tests": list(tests), "ovs_tree": str(artifacts.ovs_source),
            "kernel_source": str(artifacts.kernel_source),
            "environment": {"SDNGCC_MODULE_FOLDERS": " ".join(map(str, folders)), "SDNGCC_BESIDE": beside,
                            "SDNGCC_BEFORE": " ".join(plain[:-1])}}


def run_suite(suite: str, variant: str, artifacts: Artifacts, tests: Sequence[str], out: Path) -> Outcomes:
    """Run a suite on one of VARIANTS, leave its output in out, and return the outcomes; MachineError if it cannot."""
    shutil.rmtree(out, ignore_errors=True)
    run_job(artifacts.kernel, dict(suite_job(suite, variant, artifacts, tests)), out, 1, LIMIT_S,
            main="sdngcc.testbed.suites.guest")
    outcomes = read_outcomes((out / "suite.txt").read_text(errors="replace"), suite)
    if not outcomes:
        raise MachineError(f"suite {suite} on {variant} told of no test; its output is {out / 'suite.txt'}")
    return outcomes


def differences(found: Dict[str, Outcomes]) -> List[str]:
    """Return the tests whose outcomes are not the same on all variants, each with its outcomes."""
    names = list(dict.fromkeys(name for outcomes in found.values() for name in outcomes))
    return [f"{name}: " + ", ".join(f"{variant} {outcomes.get(name, 'not run')}" for variant, outcomes in found.items())
            for name in names if len({outcomes.get(name) for outcomes in found.values()}) > 1]
