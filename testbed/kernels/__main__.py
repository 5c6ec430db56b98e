# SPDX-License-Identifier: Apache-2.0
"""``make check-kernels``: the shim built for each kernel that it is for, and run where the testbed can boot it.

Against the headers of a stock kernel, in a root of the release that has it: the module beside, with warnings, and the
patched datapath, whose symbols must fit the kernel's own vport-*.ko. In the tree: the patched datapath in that of the
testbed's kernel. Booted: all tests of the datapath and the experiment ``share``, on both variants; on the newest kernel
also with BBR's guests and with AccECN's.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed.build import JOBS, KERNELS, ROOT, SUITES, Artifacts, BuildError, build, copy_beside
from sdngcc.testbed.fetch import numbers
from sdngcc.testbed.machine import MachineError
from sdngcc.testbed.packages.roots import RELEASES, Root, RootError, mirror, missing_programs, root
from sdngcc.testbed.parameters import NEWEST
from sdngcc.testbed.runner import run_experiment
from sdngcc.testbed.sanitizers import BESIDE_ONLY, FOLDER, run_file

# Complaints of compilers about a line, and of modpost.
COMPLAINT = re.compile(r"^\S+\.[chS]:\d.*\b(warning|error): |^(WARNING|ERROR): modpost")

# What is checked, in this order.
STEPS = ("stock", "tree", "booted")

# Settings of `share` by the name of a run; only the newest kernel has what those after the first need.
SHARES: Dict[str, Tuple[str, ...]] = {
    "share": (), "share-bbr": ("tagged=bbr", "competitor=bbr,udp"), "share-ecn": ("guest_ecn=true",),
    "share-accecn": ("guest_ecn=true", "accecn=true")}

# Guests that obey marks themselves take five seconds to share evenly, on every kernel; `share` looks from the third on.
# So evenness is not judged where they have RFC 3168's ECN, and with AccECN's it is held against theirs.
EVENNESS = "Jain in the worst second from the third on"
EVEN_AS: Dict[str, Optional[str]] = {"share-ecn": None, "share-accecn": "share-ecn"}
# By how much Jain's index may be below theirs.
LESS_EVEN = 0.05

# Says what happens; a line.
Say = Callable[[str], None]


@dataclass(frozen=True)
class Stock:
    """Where Debian has a kernel."""

    suite: str
    """The release whose compiler it was built with."""
    extra: Tuple[str, ...] = ()
    """Suites of the same archive that have it, if the release has not."""


# The kernels that the shim is for; None: no suite of Debian has it.
STOCKS: Dict[str, Optional[Stock]] = {
    "6.1": Stock("bookworm"), "6.8": None, "6.12": Stock("bookworm", ("bookworm-backports",)),
    "7.3": Stock("trixie", (SUITES["7.3"],))}


class CheckError(Exception):
    """Something is not as it has to be; the text says what."""


def _headers(one: Root, kernel: str) -> str:
    """Return the package with the newest headers of a kernel that a root knows; "" for none."""
    told = one.run(["apt-cache", "pkgnames", f"linux-headers-{kernel}"]).stdout
    found = re.findall(rf"^linux-headers-{re.escape(kernel)}\.[0-9][^\s-]*(?:-\d+)?-amd64$", told, re.MULTILINE)
    return max(found, key=numbers, default="")


def _complaints(output: str) -> str:
    """Return the complaints in what a build said, as the end of a sentence; "" for none."""
    lines = [line for line in output.splitlines() if COMPLAINT.search(line)]
    return "\n  ".join(["", *lines[:20]]) if lines else ""


def check_stock(kernel: str, stock: Stock, say: Say) -> None:
    """Build both variants against the headers of a release's own kernel. Raises CheckError and RootError."""
    with root(RELEASES[stock.suite], ("ca-certificates",)) as one:
        debian = mirror("Debian")
        one.path("/etc/apt/sources.list.d/extra.list").write_text(
            "".join(f"deb {debian} {suite} main\n" for suite in stock.extra), encoding="utf-8")
        one.apt("update")
        headers = _headers(one, kernel)
        if not headers:
            say(f"stock: skipped, {stock.suite} has no headers of {kernel}")
            return
        release = headers.removeprefix("linux-headers-")
        series = ROOT / "ovs-patches" / "linux" / kernel / "series"
        version = re.search(r"^Version: (\S+)$", one.run(["apt-cache", "show", headers]).stdout, re.MULTILINE)
        assert version is not None
        source = [f"linux-source-{kernel}={version[1]}", "xz-utils", "patch"] if series.exists() else []
        one.apt("install", "--no-install-recommends", headers, "make", "pahole", *source)
        copy_beside(one.path("/build/beside"))
        make = ["make", f"-j{JOBS}", "-C", f"/usr/src/{headers}"]
        said = one.run([*make, "M=/build/beside", "W=1", "modules"]).stdout
        if _complaints(said):
            raise CheckError(f"sdngcc.ko for {release}:{_complaints(said)}")
        say(f"stock: sdngcc.ko builds for {release} without a warning of W=1")
        if not series.exists():
            say("stock: no openvswitch.ko, there are no patches")
            return
        for name in ("core", "kernel"):
            shutil.copytree(ROOT / "shim" / name, one.path(f"/build/patched/shim/{name}"))
        shutil.copytree(ROOT / "ovs-patches", one.path("/build/patched/ovs-patches"))
        shutil.copy(ROOT / "packaging" / "dkms" / "build-patched", one.path("/build/patched"))
        said = one.run(["sh", "/build/patched/build-patched", release, f"/usr/src/{headers}"]).stdout
        if _complaints(said):
            raise CheckError(f"openvswitch.ko for {release}:{_complaints(said)}")
        say(f"stock: {said.splitlines()[-1].removeprefix('openvswitch-sdngcc: ')} of {release}")


def check_tree(artifacts: Artifacts, say: Say) -> None:
    """Build the patched datapath as part of the tree of the testbed's kernel. Raises CheckError."""
    with tempfile.TemporaryDirectory(prefix="sdngcc-tree-", dir=artifacts.root) as folder:
        source, objects = Path(folder) / "source", Path(folder) / "build"
        objects.mkdir()
        shutil.copy(artifacts.kernel_build / ".config", objects)
        for argv in (["cp", "-al", str(artifacts.kernel_source), str(source)],
                     ["sh", str(ROOT / "ovs-patches" / "build.sh"), "linux", str(source)],
                     ["make", "ARCH=um", f"O={objects}", f"-j{JOBS}", "-C", str(source), "net/openvswitch/"]):
            done = subprocess.run(argv, capture_output=True, text=True)
            if done.returncode or _complaints(done.stderr):
                raise CheckError(f"{' '.join(argv)} (exit {done.returncode}): {done.stderr[-2000:]}")
        built = len(list((objects / "net" / "openvswitch" / "shim").rglob("*.o")))
    say(f"tree: the datapath with {built} objects of the shim builds without a warning")


def judge_share(name: str, verdicts: Sequence[Dict[str, Any]], evenness: Dict[str, float]) -> List[str]:
    """Return what a run of SHARES missed; evenness has Jain's index of this one and of those before it, by name."""
    failed = [f"{name}: {one['name']}: {one['measured']}, expected {one['expected']}" for one in verdicts
              if not one["holds"] and not (name in EVEN_AS and one["name"] == EVENNESS)]
    yardstick = EVEN_AS.get(name)
    if yardstick in evenness and evenness[name] < evenness[yardstick] - LESS_EVEN:
        failed.append(f"{name}: {EVENNESS}: {evenness[name]}, expected >= {yardstick}'s {evenness[yardstick]} less "
                      f"{LESS_EVEN}")
    return failed


def check_booted(kernel: str, artifacts: Artifacts, scripts: Sequence[str], out: Path, say: Say) -> List[str]:
    """Run the datapath's tests, all or those named, and ``share`` on both variants; return what failed."""
    failed: List[str] = []
    for variant in ("patched", "beside"):
        chosen = [path for path in sorted(FOLDER.glob("check_*.py"))
                  if (not scripts or path.stem.removeprefix("check_") in scripts)
                  and (variant == "beside" or path.name not in BESIDE_ONLY)]
        wrong = [f"{variant}: {line}" for path in chosen for line in run_file(path, artifacts, variant)]
        say(f"booted, {variant}: {len(chosen)} files of tests, {len(wrong)} failures")
        evenness: Dict[str, float] = {}
        for name, settings in SHARES.items():
            if name != "share" and kernel != NEWEST:
                continue
            experiment = EXPERIMENTS["share"]
            cases = experiment.cases((f"kernel={kernel}", f"datapath={variant}", *settings))
            try:
                verdicts = run_experiment(experiment, cases, artifacts, 1, out / kernel / variant / name)["verdicts"]
            except MachineError as error:
                wrong.append(f"{variant}: {name}: {error}")
                continue
            evenness[name] = next(one["measured"] for one in verdicts if one["name"] == EVENNESS)
            wrong += [f"{variant}: {line}" for line in judge_share(name, verdicts, evenness)]
            say(f"booted, {variant}: {name}: " + ", ".join(f"{one['name']} {one['measured']}" for one in verdicts))
        failed += wrong
    return failed


def check(kernel: str, steps: Sequence[str], scripts: Sequence[str], out: Path) -> List[str]:
    """Take some of STEPS with one kernel and return what failed."""
    def say(text: str) -> None:
        print(f"check-kernels: {kernel}: {text}", flush=True)

    began = time.monotonic()
    failed: List[str] = []
    stock = STOCKS[kernel]
    missing = missing_programs()
    try:
        if "stock" not in steps:
            pass
        elif stock is None:
            say("stock: skipped, no suite of Debian has it")
        elif missing:
            say(f"stock: skipped, {'; '.join(missing)}")
        else:
            check_stock(kernel, stock, say)
    except (CheckError, RootError) as error:
        failed.append(str(error))
    inside = [step for step in steps if step != "stock"]
    if inside and kernel not in KERNELS:
        say(f"{', '.join(inside)}: skipped, the testbed has no such kernel")
    elif inside:
        try:
            artifacts = build(linux=kernel)
            if "tree" in inside:
                check_tree(artifacts, say)
            if "booted" in inside:
                failed += check_booted(kernel, artifacts, scripts, out, say)
        except (BuildError, CheckError) as error:
            failed.append(str(error))
    for one in failed:
        say(f"FAILED: {one}")
    say(f"{len(failed)} failures in {time.monotonic() - began:.0f} s")
    return failed


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Check the kernels named, all if none is, step by step; returns 0 if nothing failed, 1 else."""
    parser = argparse.ArgumentParser(prog="python -m sdngcc.testbed.kernels", description="the shim on other kernels")
    parser.add_argument("--kernels", default=",".join(STOCKS), help=f"of {', '.join(STOCKS)}, with commas")
    parser.add_argument("--steps", default=",".join(STEPS), help=f"of {', '.join(STEPS)}, with commas")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "kernels", help="folder for results of share")
    parser.add_argument("script", nargs="*", help="tests of the datapath, as in make sanitize; default: all")
    given = parser.parse_args(arguments)
    chosen, steps = given.kernels.split(","), given.steps.split(",")
    for option, names, known in (("--kernels", chosen, tuple(STOCKS)), ("--steps", steps, STEPS)):
        unknown = [name for name in names if name not in known]
        if unknown:
            parser.error(f"{option} {','.join(unknown)}: there are {', '.join(known)}")
    for name in given.script:
        if not (FOLDER / f"check_{name}.py").exists():
            parser.error(f"there is no {FOLDER / f'check_{name}.py'}")
    failed = [one for kernel in chosen for one in check(kernel, steps, given.script, given.out)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
