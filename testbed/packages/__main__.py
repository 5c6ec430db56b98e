# SPDX-License-Identifier: Apache-2.0
"""``make packages``, and the targets that check what it made."""

from __future__ import annotations

import argparse
import filecmp
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, List

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages import container, fresh, openvswitch, prepared
from sdngcc.testbed.packages.build import MODULES, build
from sdngcc.testbed.packages.check import CheckError, check, require
from sdngcc.testbed.packages.dkms import check_module
from sdngcc.testbed.packages.roots import RELEASES, Release, RootError, missing_programs
from sdngcc.testbed.packages.stock import check as stock
from sdngcc.testbed.packages.version import VersionError, tree_version


def _build(release: Release, out: Path) -> None:
    began = time.monotonic()
    made = build(release, tree_version(ROOT), out)
    print(f"packages: {release.suite}: {len(made)} packages in {time.monotonic() - began:.0f} s")
    for path in made:
        print(f"  {path}")


def _check(release: Release, out: Path) -> None:
    def say(text: str) -> None:
        print(f"check-packages: {release.suite}: {text}", flush=True)

    packages = sorted((out / release.suite).glob("*.deb"))
    check(release, packages, say)
    _check_again(release, packages, say)
    for package in packages:
        if package.name.split("_")[0] in MODULES:
            check_module(release, package, say)
    openvswitch.check_series(release, say)
    openvswitch.check_packages(release, out, say)


def _check_again(release: Release, packages: List[Path], say: Callable[[str], None]) -> None:
    """Build once more, and require the same bytes. Raises CheckError and RootError."""
    with tempfile.TemporaryDirectory() as folder:
        again = {path.name: path for path in build(release, tree_version(ROOT), Path(folder))}
        require(sorted(again) == [path.name for path in packages], "files were changed since the packages were built")
        other = [path.name for path in packages if not filecmp.cmp(path, again[path.name], shallow=False)]
        require(not other, f"built again, other bytes: {', '.join(other)}")
    say(f"built again: all {len(packages)} packages are the same, byte for byte")


def _check_stock(release: Release, out: Path) -> None:
    def say(text: str) -> None:
        print(f"check-stock: {release.suite}: {text}", flush=True)

    stock.check(release, out / release.suite, say)


def _check_container(release: Release, out: Path) -> None:
    def say(text: str) -> None:
        print(f"check-container: {release.suite}: {text}", flush=True)

    container.check(release, out / release.suite, say)


def _check_fresh(release: Release, out: Path) -> None:
    def say(text: str) -> None:
        print(f"check-fresh: {release.suite}: {text}", flush=True)

    fresh.check(release, out / "fresh", say)


def _open_vswitch(release: Release, out: Path) -> None:
    for path in openvswitch.build(release, out):
        print(path)


def _check_setup(release: Release, out: Path) -> None:
    prepared.check(release, lambda text: print(f"check-setup: {release.suite}: {text}", flush=True))


_WHAT = {"setup": _check_setup, "build": _build, "check": _check, "stock": _check_stock, "container": _check_container,
         "fresh": _check_fresh, "openvswitch": _open_vswitch}


def main() -> int:
    """Build or try the packages of the releases that are named; return the exit status."""
    parser = argparse.ArgumentParser(prog="sdngcc.testbed.packages", description=__doc__)
    parser.add_argument("what", choices=list(_WHAT))
    parser.add_argument("--releases", default=",".join(RELEASES), help=f"of {', '.join(RELEASES)}, with commas")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "packages", help="folder for the packages")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.releases.split(",") if name not in RELEASES]
    if unknown:
        parser.error(f"--releases {','.join(unknown)}: there are {', '.join(RELEASES)}")
    missing = missing_programs()
    if missing:
        print("packages:", "; ".join(missing), file=sys.stderr)
        return 1
    try:
        for name in chosen.releases.split(","):
            _WHAT[chosen.what](RELEASES[name], chosen.out)
    except (CheckError, RootError, VersionError) as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
