# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch with our series, on Debian's own source package of a release: prepared, and built if asked to."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Set

from sdngcc.testbed.build import ROOT, content_key
from sdngcc.testbed.packages.roots import Release, Root, RootError, root
from sdngcc.testbed.packages.vendored import tools

# Where a mirror has no upstream sources: Debian's package openvswitch-source has them, with Debian's patches applied,
# in a tarball without Debian's own files or, since 3.5, in a tree with some of them. What that tree lacks is written
# here, or stands in packages as it is.
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
	mkdir openvswitch-source/debian/scripts binary
	apt-get -q -o APT::Sandbox::User=root download openvswitch-testcontroller openvswitch-vtep
	for package in *.deb; do dpkg-deb -x "$package" binary; done
	cp -a binary/etc/openvswitch-*/* openvswitch-source/debian/scripts/
	rm -r binary ./*.deb
	echo 'usr/lib/python3*/dist-packages/ovs*' >openvswitch-source/debian/python3-openvswitch.install
	printf '%s\\n' '#!/usr/bin/dh-exec' \\
		'_dpdk/vswitchd/ovs-vswitchd => /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk' \\
		>openvswitch-source/debian/openvswitch-switch-dpdk.install
	chmod +x openvswitch-source/debian/openvswitch-switch-dpdk.install
fi
tree=$(echo openvswitch-*/)
mkdir -p "${tree}debian/patches"
: >"${tree}debian/patches/series"
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
        # With the series' own tests, which Open vSwitch's build packs.
        shutil.copytree(ROOT / name, one.path(f"/sdn-gcc/{name}"), ignore=shutil.ignore_patterns("__pycache__", "*.o"))
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


def _key(release: Release) -> str:
    """Return what tells packages of a release's present series and files from others."""
    return content_key([release.openvswitch], ROOT / "ovs-patches" / "ovs", ROOT / "packaging" / "openvswitch",
                       ROOT / "shim" / "core", ROOT / "shim" / "kernel" / "uapi",
                       ROOT / "testbed" / "packages" / "openvswitch.py")


def packages(release: Release, results: Path) -> List[Path]:
    """Return the packages that ``build`` made of the present series in a folder of ``results``; none if it did not."""
    folder = results / release.suite / "openvswitch"
    key = folder / "key"
    return sorted(folder.glob("*.deb")) if key.exists() and key.read_text(encoding="ascii") == _key(release) else []


def _files(package: Path) -> Set[str]:
    """Return the files of a package, but for those of its documentation and for lintian."""
    listed = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(listed)) as files:
        names = {one.name for one in files if not one.isdir()}
    return {name for name in names if not name.startswith(("./usr/share/doc/", "./usr/share/lintian/"))}


def _compare(one: Root, packages: Sequence[Path]) -> None:
    """Require that packages have all files that the release's own have. Raises RootError."""
    one.path("/own").mkdir()
    for package in packages:
        name = package.name.split("_")[0]
        one.run(["sh", "-c", f"cd /own && apt-get -q -o APT::Sandbox::User=root download {name}"])
        own = next(one.path("/own").glob(f"{name}_*.deb"))
        missing = sorted(_files(own) - _files(package))
        if missing:
            raise RootError(f"{package.name} lacks {len(missing)} files of {own.name}: {', '.join(missing[:5])}")


def build(release: Release, results: Path) -> List[Path]:
    """Build Open vSwitch's packages with the series into a folder of ``results`` and return them. RootError.

    That takes a quarter of an hour on one processor; what is there already is not built again.
    """
    if series(release) is None:
        raise RootError(f"{release.suite}: no series for Open vSwitch {release.openvswitch}")
    if made := packages(release, results):
        return made
    folder, key = results / release.suite / "openvswitch", _key(release)
    with root(release, tools()) as one:
        prepare(one)
        one.run(["sh", "-c", "cd /build && exec apt-get -q -y -o APT::Sandbox::User=root build-dep ./openvswitch-*/"])
        one.run(["sh", "-c", "cd /build/openvswitch-*/ && exec dpkg-buildpackage --build=binary --no-sign"],
                environment={"DEB_BUILD_OPTIONS": "nocheck noautodbgsym parallel=1"}, timeout_s=7200)
        made = sorted(one.path("/build").glob("*.deb"))
        _compare(one, made)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in made:
            shutil.copy(path, folder / path.name)
    (folder / "key").write_text(key, encoding="ascii")
    return sorted(folder.glob("*.deb"))


# Run in a root without a network: a switch without a kernel's datapath is asked what the series adds.
_ASK = """set -eu
mkdir -p /run/openvswitch /var/log/openvswitch
ovsdb-tool create /tmp/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server /tmp/conf.db --remote=punix:/run/openvswitch/db.sock --detach --pidfile --log-file
ovs-vswitchd --enable-dummy=override --disable-system --detach --pidfile --log-file
ovs-vsctl --no-wait init
ovs-vsctl add-br br0 -- set Bridge br0 datapath_type=dummy protocols=OpenFlow13 \
	-- set Open_vSwitch . other_config:shim-law=nonsense
ovs-vswitchd --version
ovs-ofctl -O OpenFlow13 dump-port-marks br0
ovs-ofctl -O OpenFlow13 dump-vm-state br0
ovs-appctl shim/show
"""

# What the answers must have.
_ANSWERS = ("SHIMST_PORT_MARKS reply", "SHIMST_VM_STATE reply", "nonsense")


def check_packages(release: Release, results: Path, say: Callable[[str], None]) -> None:
    """Install Open vSwitch's packages with the series, if they were built, and ask what it adds. Raises RootError."""
    made = {path.name.split("_")[0]: path for path in packages(release, results)}
    if not made:
        say("openvswitch: packages with the series were not built; `make openvswitch-packages` does")
        return
    with root(release, ("ca-certificates",)) as one:
        one.path("/packages").mkdir()
        for name in ("openvswitch-common", "openvswitch-switch", "python3-openvswitch"):
            shutil.copy(made[name], one.path("/packages"))
        one.apt("update")
        one.run(["sh", "-c", "exec apt-get -q -y -o APT::Sandbox::User=root install --no-install-recommends "
                 "/packages/*.deb"])
        answer = one.run(["sh", "-c", _ASK], alone=True).stdout
        missing = [wanted for wanted in _ANSWERS if wanted not in answer]
        if missing:
            raise RootError(f"openvswitch: nothing of {', '.join(missing)} in the answers:\n{answer}")
        version = one.run(["dpkg-query", "-W", "-f", "${Version}", "openvswitch-switch"]).stdout
        say(f"openvswitch: {version} is installed and answers for the shim")
