# SPDX-License-Identifier: Apache-2.0
"""Builds other versions of Open vSwitch than the plain one, in the cache of testbed/build.py.

Of each version there are two parts: ``ovs<version>_source`` holds Debian's package openvswitch-source of the suite that
has it, fetched by this machine's apt and never installed; ``ovs<version>`` is built from that.

``$SDNGCC_OVS_SOURCES`` may name a folder with upstream's tarballs, ``openvswitch-3.3.9.tar.gz``: the newest of a
version is taken instead. So 3.3 can be built, which no suite of Debian has.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Dict, List, Optional

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
    parts,
)
from sdngcc.testbed.fetch import DEBIAN_KEYS, numbers
from sdngcc.testbed.ovs.versions import PLAIN, VERSIONS
from sdngcc.testbed.packages.roots import RootError, mirror

# The suite of Debian whose openvswitch-source is of a version.
SUITES = {"3.1": "bookworm", "3.5": "trixie", "4.0": "sid"}


class Unavailable(BuildError):
    """The source of a version cannot be had on this machine; the text says why."""


def given_tarball(version: str) -> Optional[Path]:
    """Return the newest tarball of a version in $SDNGCC_OVS_SOURCES, None when there is none."""
    folder = os.environ.get("SDNGCC_OVS_SOURCES")
    found = Path(folder).glob(f"openvswitch-{version}.*.tar.gz") if folder else []
    return max(found, key=lambda path: numbers(path.name), default=None)


def version_parts() -> Dict[str, Part]:
    """Return the parts of all versions but the plain one, by name, with the keys of the present sources."""
    gcc = compiler_version()
    found: List[Part] = []
    for version in VERSIONS:
        if version == PLAIN:
            continue
        source = Part(f"ovs{version}_source", content_key([f"openvswitch-source of {SUITES.get(version)}"]), 10,
                      recipe=functools.partial(_fetch, version))
        archive = _archive(version, source)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest() if archive is not None else "not fetched"
        found += [source, Part(f"ovs{version}", content_key([digest, gcc], *open_vswitch_files(version)), 1400,
                               recipe=functools.partial(_build, version))]
    return {part.name: part for part in found}


def build_version(version: str, progress: Optional[Progress] = None) -> Path:
    """Build a version unless it is there and return its tree.

    Raises Unavailable when its source cannot be had, BuildError when it does not build.
    """
    if version == PLAIN:
        plain = parts()["ovs"]
        build_part(plain, progress)
        return plain.folder / "source"
    if given_tarball(version) is None:
        build_part(version_parts()[f"ovs{version}_source"], progress)
    made = version_parts()[f"ovs{version}"]
    build_part(made, progress)
    return made.folder / "source"


def _archive(version: str, source: Part) -> Optional[Path]:
    """Return the tarball or package with a version's source, None when it was not fetched yet."""
    return given_tarball(version) or next(iter(source.folder.glob("*.deb")), None)


def _fetch(version: str, build: Build) -> None:
    """Fetch openvswitch-source of the suite that has the version. Raises Unavailable."""
    if version not in SUITES:
        raise Unavailable(f"Open vSwitch {version} cannot be had here: no suite of Debian has it; put upstream's "
                          f"openvswitch-{version}.*.tar.gz into a folder that $SDNGCC_OVS_SOURCES names")
    lists = build.folder / "lists"
    (lists / "partial").mkdir(parents=True)
    sources = build.folder / "sources.list"
    options = ["-q", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-",
               "-o", f"Dir::State::lists={lists}", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
               "-o", "APT::Sandbox::User=root"]
    signed = f"[signed-by={DEBIAN_KEYS}] " if DEBIAN_KEYS.exists() else ""
    try:
        sources.write_text(f"deb {signed}{mirror('Debian')} {SUITES[version]} main\n", encoding="utf-8")
        build.run(["apt-get", *options, "update"], "asking Debian")
        build.run(["apt-get", *options, "download", f"openvswitch-source={version}.*"], "fetching the source",
                  cwd=build.folder)
    except (BuildError, RootError) as error:
        raise Unavailable(f"Open vSwitch {version} cannot be had here, which was in Debian's {SUITES[version]}: "
                          f"{error}") from None


def _build(version: str, build: Build) -> None:
    archive = _archive(version, version_parts()[f"ovs{version}_source"])
    assert archive is not None
    tree = build.folder / "source"
    if archive.suffix == ".deb":
        package = build.folder / "package"
        build.run(["dpkg-deb", "-x", str(archive), str(package)], "unpacking the source")
        (package / "usr" / "src" / "openvswitch").rename(tree)
    else:
        tree.mkdir()
        build.run(["tar", "-xf", str(archive), "-C", str(tree), "--strip-components=1"], "unpacking the source")
    make_open_vswitch(build, tree)
