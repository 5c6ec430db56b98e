# SPDX-License-Identifier: Apache-2.0
"""Builds versions of Open vSwitch, in the cache of testbed/build.py.

Of each version there are two parts: ``ovs<version>_source`` holds Debian's package openvswitch-source of the suite that
has it, fetched by this machine's apt and never installed; ``ovs<version>`` is built from that, with the patches of
patches/ that compilers newer than the version need.

``$SDNGCC_OVS_SOURCES`` may name a folder with upstream's tarballs, ``openvswitch-3.3.9.tar.gz``: the newest of a
version is taken instead. So 3.3 can be built, which no suite of Debian has.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Container, Dict, List, Optional

from sdngcc.testbed.build import (
    Build,
    BuildError,
    Part,
    Progress,
    build_part,
    compiler_version,
    content_key,
    make_open_vswitch,
    open_vswitch_files,
)
from sdngcc.testbed.fetch import apt_options, numbers
from sdngcc.testbed.ovs.versions import VERSIONS

PATCHES = Path(__file__).resolve().parent / "patches"

# The suite of Debian whose openvswitch-source is of a version.
SUITES = {"3.1": "bookworm", "3.5": "trixie", "4.0": "sid"}


class Unavailable(BuildError):
    """The source of a version cannot be had on this machine; the text says why."""


def given_tarball(version: str) -> Optional[Path]:
    """Return the newest tarball of a version in $SDNGCC_OVS_SOURCES, None when there is none."""
    folder = os.environ.get("SDNGCC_OVS_SOURCES")
    found = Path(folder).glob(f"openvswitch-{version}.*.tar.gz") if folder else []
    return max(found, key=lambda path: numbers(path.name), default=None)


def version_parts(without: Container[Path] = ()) -> Dict[str, Part]:
    """Return the parts of all versions by name, with the keys of the present sources.

    without: files of the shim that keys do not change with, as in build.parts().
    """
    gcc = compiler_version()
    found: List[Part] = []
    for version in VERSIONS:
        source = Part(f"ovs{version}_source", content_key([f"openvswitch-source of {SUITES.get(version)}"]), 10,
                      recipe=functools.partial(_fetch, version))
        archive = _archive(version, source)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest() if archive is not None else "not fetched"
        key = content_key([digest, gcc], *open_vswitch_files(version), *_patches(version), without=without)
        found += [source, Part(f"ovs{version}", key, 1400, recipe=functools.partial(_build, version))]
    return {part.name: part for part in found}


def build_version(version: str, progress: Optional[Progress] = None) -> Path:
    """Build a version unless it is there and return its tree.

    Raises Unavailable when its source cannot be had, BuildError when it does not build.
    """
    if given_tarball(version) is None:
        build_part(version_parts()[f"ovs{version}_source"], progress)
    build_part(version_parts()[f"ovs{version}"], progress)
    return version_tree(version)


def version_tree(version: str) -> Path:
    """Return where the tree of a version is, whether it was built or not."""
    return version_parts()[f"ovs{version}"].folder / "source"


def _archive(version: str, source: Part) -> Optional[Path]:
    """Return the tarball or package with a version's source, None when it was not fetched yet."""
    return given_tarball(version) or next(iter(source.folder.glob("*.deb")), None)


def _patches(version: str) -> List[Path]:
    """Return the testbed's own patches for a version in the order to apply them."""
    return sorted((PATCHES / version).glob("*.patch"))


def _fetch(version: str, build: Build) -> None:
    """Fetch openvswitch-source of the suite that has the version. Raises Unavailable."""
    if version not in SUITES:
        raise Unavailable(f"Open vSwitch {version} cannot be had here: no suite of Debian has it; put upstream's "
                          f"openvswitch-{version}.*.tar.gz into a folder that $SDNGCC_OVS_SOURCES names")
    try:
        build.run(["apt-get", *apt_options(build, [SUITES[version]]), "download", f"openvswitch-source={version}.*"],
                  "fetching the source", cwd=build.folder)
    except BuildError as error:
        raise Unavailable(f"Open vSwitch {version} cannot be had here, which was in Debian's {SUITES[version]}: "
                          f"{error}") from None


def _build(version: str, build: Build) -> None:
    archive = _archive(version, version_parts()[f"ovs{version}_source"])
    assert archive is not None
    tree = build.folder / "source"
    if archive.suffix == ".deb":
        package = build.folder / "package"
        build.run(["dpkg-deb", "-x", str(archive), str(package)], "unpacking the package")
        source = package / "usr" / "src" / "openvswitch"
        # Debian's packages have the tree, or a tarball of it.
        archive = next(source.glob("openvswitch.tar.*"), source)
    if archive.is_dir():
        archive.rename(tree)
    else:
        tree.mkdir()
        build.run(["tar", "-xf", str(archive), "-C", str(tree), "--strip-components=1"], "unpacking the source")
    for patch in _patches(version):
        build.run(["patch", "-p1", "-s", "-N", "-d", str(tree), "-i", str(patch)], f"applying {patch.name}")
    make_open_vswitch(build, tree)
