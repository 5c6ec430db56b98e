# SPDX-License-Identifier: Apache-2.0
"""``make packages``, and the targets that check what it made."""

from __future__ import annotations

import argparse
import filecmp
import functools
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages import container, fresh, openstack, openvswitch, prepared
from sdngcc.testbed.packages.build import MODULES, build
from sdngcc.testbed.packages.check import CheckError, check, require
from sdngcc.testbed.packages.dkms import check_module
from sdngcc.testbed.packages.roots import RELEASES, Release, RootError, missing_programs
from sdngcc.testbed.packages.stock import check as stock
from sdngcc.testbed.packages.version import VersionError, tree_version

Say = Callable[[str], None]


def _build(release: Release, out: Path, say: Say) -> None:
    began = time.monotonic()
    made = build(release, tree_version(ROOT), out)
    say(f"{len(made)} packages in {time.monotonic() - began:.0f} s")
    for path in made:
        print(f"  {path}")


def _check(release: Release, out: Path, say: Say) -> None:
    packages = sorted((out / release.suite).glob("*.deb"))
    check(release, packages, say)
    _check_again(release, packages, say)
    for package in packages:
        if package.name.split("_")[0] in MODULES:
            check_module(release, package, say)
    openvswitch.check_series(release, say)
    openvswitch.check_packages(release, out, say)


def _check_again(release: Release, packages: List[Path], say: Say) -> None:
    """Build once more, and require the same bytes. Raises CheckError and RootError."""
    with tempfile.TemporaryDirectory() as folder:
        again = {path.name: path for path in build(release, tree_version(ROOT), Path(folder))}
        require(sorted(again) == [path.name for path in packages], "files were changed since the packages were built")
        other = [path.name for path in packages if not filecmp.cmp(path, again[path.name], shallow=False)]
        require(not other, f"built again, other bytes: {', '.join(other)}")
    say(f"built again: all {len(packages)} packages are the same, byte for byte")


def _open_vswitch(release: Release, out: Path, say: Say) -> None:
    for path in openvswitch.build(release, out):
        say(str(path))


def _check_fresh(commands: Sequence[str], release: Release, out: Path, say: Say) -> None:
    fresh.check(release, out / "fresh", say, commands)


# By what is asked for: the Makefile's target, which what is said begins with, and what it does with a release.
_WHAT: Dict[str, Tuple[str, Callable[[Release, Path, Say], None]]] = {
    "build": ("packages", _build),
    "check": ("check-packages", _check),
    "container": ("check-container", lambda release, out, say: container.check(release, out / release.suite, say)),
    "fresh": ("check-fresh", functools.partial(_check_fresh, fresh.COMMANDS)),
    "openstack": ("check-openstack", openstack.check),
    "openvswitch": ("openvswitch-packages", _open_vswitch),
    "setup": ("check-setup", lambda release, out, say: prepared.check(release, say)),
    "stock": ("check-stock", lambda release, out, say: stock.check(release, out / release.suite, say)),
}


def _say(start: str, text: str) -> None:
    print(f"{start}: {text}", flush=True)


def main() -> int:
    """Build or try the packages of the releases that are named; return the exit status."""
    parser = argparse.ArgumentParser(prog="sdngcc.testbed.packages", description=__doc__)
    parser.add_argument("what", choices=list(_WHAT))
    parser.add_argument("--releases", default=",".join(RELEASES), help=f"of {', '.join(RELEASES)}, with commas")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "packages", help="folder for the packages")
    parser.add_argument("--commands", default=",".join(fresh.COMMANDS),
                        help=f"what fresh types of {', '.join(fresh.COMMANDS)}, with commas")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.releases.split(",") if name not in RELEASES]
    if unknown:
        parser.error(f"--releases {','.join(unknown)}: there are {', '.join(RELEASES)}")
    commands = chosen.commands.split(",")
    strange = [name for name in commands if name not in fresh.COMMANDS]
    if strange:
        parser.error(f"--commands {','.join(strange)}: there are {', '.join(fresh.COMMANDS)}")
    target, act = _WHAT[chosen.what]
    if chosen.what == "fresh":
        act = functools.partial(_check_fresh, commands)
    missing = missing_programs()
    if missing:
        print(f"{target}: {'; '.join(missing)}", file=sys.stderr)
        return 1
    try:
        for name in chosen.releases.split(","):
            act(RELEASES[name], chosen.out, functools.partial(_say, f"{target}: {name}"))
    except (CheckError, RootError, VersionError) as error:
        print(f"{target}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
