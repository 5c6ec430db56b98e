# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch with our series, on Debian's own source package of a release: prepared, and built if asked to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable, List, Optional

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.roots import Release, Root, RootError, root
from sdngcc.testbed.packages.vendored import tools

# Where a mirror has no upstream sources: Debian's package openvswitch-source has them, with Debian's patches applied,
# in a tarball without Debian's own files or, since 3.5, in a tree with them.
_UNPACK = """set -eu
cd /build
rm -rf openvswitch-*/
if [ -e /usr/src/openvswitch/openvswitch.tar.gz ]; then
	apt-get -q -o APT::Sandbox::User=root source --diff-only openvswitch
	version=$(ls openvswitch_*.debian.tar.* | sed 's/openvswitch_\\([^-]*\\)-.*/\\1/')
	mkdir "openvswitch-$version"
	tar -xf /usr/src/openvswitch/openvswitch.tar.gz -C "openvswitch-$version" --strip-components=1
	tar -xf openvswitch_*.debian.tar.* -C "openvswitch-$version"
else
	cp -a /usr/src/openvswitch openvswitch-source
fi
mkdir -p openvswitch-*/debian/patches
: >"$(ls -d openvswitch-*/)debian/patches/series"
"""


def series(release: Release) -> Optional[Path]:
    """Return the series for the Open vSwitch of a release, None when there is none."""
    path = ROOT / "ovs-patches" / "ovs" / release.openvswitch / "series"
    return path if path.exists() else None


def prepare(one: Root) -> str:
    """Fetch Debian's source package into a root, let it have the series and apply that; return the version. RootError.

    dpkg-source applies patches without fuzz, and fails where one does not fit.
    """
    one.path("/etc/apt/sources.list.d/source.list").write_text(one.release.sources.replace("deb ", "deb-src "),
                                                               encoding="utf-8")
    one.apt("update")
    one.path("/build").mkdir(exist_ok=True)
    fetch = "cd /build && exec apt-get -q -o APT::Sandbox::User=root source openvswitch"
    if one.run(["sh", "-c", fetch], check=False).returncode:
        one.apt("install", "--no-install-recommends", "openvswitch-source")
        one.run(["sh", "-c", _UNPACK])
    for name in ("packaging", "ovs-patches", "shim"):
        shutil.copytree(ROOT / name, one.path(f"/sdn-gcc/{name}"),
                        ignore=shutil.ignore_patterns("tests", "__pycache__", "*.o"))
    one.run(["sh", "-c", "cd /build && exec /sdn-gcc/packaging/openvswitch/prepare.sh openvswitch-*/"])
    one.run(["sh", "-c", "cd /build/openvswitch-*/ && exec dpkg-source --before-build ."])
    return one.run(["sh", "-c", "cd /build/openvswitch-*/ && exec dpkg-parsechangelog -S Version"]).stdout.strip()


def check_series(release: Release, say: Callable[[str], None]) -> None:
    """Let Debian's source package have the series, where there is one for it. Raises RootError."""
    if series(release) is None:
        say(f"openvswitch: there is no series for {release.openvswitch}")
        return
    with root(release, tools()) as one:
        say(f"openvswitch: {prepare(one)} is prepared, all patches apply without fuzz")


def build(release: Release, results: Path) -> List[Path]:
    """Build Open vSwitch's packages with the series into a folder of ``results`` and return them. RootError.

    That takes a quarter of an hour on one processor.
    """
    if series(release) is None:
        raise RootError(f"{release.suite}: no series for Open vSwitch {release.openvswitch}")
    folder = results / release.suite / "openvswitch"
    with root(release, tools()) as one:
        prepare(one)
        one.run(["sh", "-c", "cd /build && exec apt-get -q -y -o APT::Sandbox::User=root build-dep ./openvswitch-*/"])
        one.run(["sh", "-c", "cd /build/openvswitch-*/ && exec dpkg-buildpackage --build=binary --no-sign"],
                environment={"DEB_BUILD_OPTIONS": "nocheck noautodbgsym parallel=1"}, timeout_s=7200)
        folder.mkdir(parents=True, exist_ok=True)
        for path in one.path("/build").glob("*.deb"):
            shutil.copy(path, folder / path.name)
    return sorted(folder.glob("*.deb"))
