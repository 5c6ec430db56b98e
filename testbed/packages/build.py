# SPDX-License-Identifier: Apache-2.0
"""Builds the packages of a release: debhelper and lintian, in a root, without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import List

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.roots import Release, Root, RootError, root
from sdngcc.testbed.packages.vendored import PACKAGING, tools, vendored
from sdngcc.testbed.packages.version import Version

# The module of each package.
MODULES = {"openvswitch-sdngcc-dkms": "openvswitch", "sdngcc-dkms": "sdngcc"}

# Folders of the tree that no package is made of.
_LEFT_OUT = ("docs/figures/", "testbed/tests/", "shim/tests/", "controller/tests/", "cli/tests/", "tracker/tests/",
             "openstack/tests/")

# What stands in packaging/dkms for each package of a module, and what it is called in debian/, where {} is the package
# and {name} its module's source.
_OF_A_MODULE = {"check.service": "{}.{name}-check.service", "check.timer": "{}.{name}-check.timer", "build": "{}.build",
                "check": "{}.check", "kernel-hook": "{}.kernel-hook"}


def export(target: Path, release: Release, version: Version, python: Path) -> None:
    """Make the source that dpkg-buildpackage takes: git's files, debian/, and Python packages in vendor/."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name and not name.startswith(_LEFT_OUT) and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    shutil.copytree(PACKAGING / "debian", target / "debian", dirs_exist_ok=True)
    configure(target, release)
    shutil.copytree(python, target / "vendor", symlinks=True)
    (target / "debian" / "changelog").write_text(version.changelog(release), encoding="utf-8")
    (target / "debian" / "source").mkdir(exist_ok=True)
    (target / "debian" / "source" / "format").write_text("3.0 (native)\n", encoding="utf-8")
    _set_times(target, version.time_s)


def series() -> List[str]:
    """Return the kernels that there are patches for, as "6.1", the oldest first."""
    found = [path.parent.name for path in (ROOT / "ovs-patches" / "linux").glob("*/series")]
    return sorted(found, key=lambda name: tuple(map(int, name.split("."))))


def modules(release: Release) -> List[str]:
    """Return the names of the modules that DKMS can build for a release's kernel."""
    patched = release.kernel in series()
    beside = (ROOT / "shim" / "Kbuild").exists()
    return [name for name, there in (("openvswitch-sdngcc", patched), ("sdngcc", beside)) if there]


def control(release: Release) -> str:
    """Return debian/control, with the packages of the modules that there are for the release's kernel."""
    texts = [PACKAGING / "debian" / "control", *(PACKAGING / "dkms" / f"{name}.control" for name in modules(release))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in texts)
    return text.replace("@KERNEL@", release.kernel)


def configure(target: Path, release: Release) -> None:
    """Write debian/control, what DKMS is told of each module and its scripts into the source of packages."""
    (target / "debian" / "control").write_text(control(release), encoding="utf-8")
    for name in modules(release):
        package = f"{name}-dkms"
        own = {f"{name}.conf": f"{package}.dkms", **{f"{name}.{script}": f"{package}.{script}" for script in
                                                     ("postinst", "prerm")}}
        shared = {source: made.format(package, name=name) for source, made in _OF_A_MODULE.items()}
        words = {"@NAME@": name, "@PACKAGE@": package, "@MODULE@": MODULES[package],
                 "#KERNELS#": "|".join(re.escape(kernel) for kernel in series())}
        for source, made in {**own, **shared}.items():
            text = (PACKAGING / "dkms" / source).read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            (target / "debian" / made).write_text(text, encoding="utf-8")


def _set_times(folder: Path, time_s: int) -> None:
    """Give all files one time: what is packed must not tell when it was."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (time_s, time_s), follow_symlinks=False)


def build(release: Release, version: Version, results: Path) -> List[Path]:
    """Build a release's packages into a folder of ``results`` and return them; lintian must be content. RootError."""
    python = vendored(release)
    with root(release, tools()) as one:
        source = one.path("/build/sdn-gcc")
        source.mkdir(parents=True)
        export(source, release, version, python)
        done = one.run(["sh", "-c", "cd /build/sdn-gcc && exec dpkg-buildpackage --build=binary --no-sign"],
                       environment={"SOURCE_DATE_EPOCH": str(version.time_s), "DEB_BUILD_OPTIONS": "noautodbgsym"},
                       alone=True)
        folder = results / release.suite
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if old.is_file():
                old.unlink()
        (folder / "build.log").write_text(done.stdout, encoding="utf-8")
        for path in sorted(one.path("/build").iterdir()):
            if path.is_file():
                shutil.copy(path, folder / path.name)
        _lint(one, folder)
    return sorted(folder.glob("*.deb"))


def _lint(one: Root, folder: Path) -> None:
    """Have lintian judge what was built; its report stays there. RootError when it finds errors or warnings."""
    done = one.run(["sh", "-c", "cd /build && exec lintian --allow-root --no-cfg --display-info --fail-on "
                    "error,warning --tag-display-limit 0 *.changes"], check=False)
    (folder / "lintian.txt").write_text(done.stdout, encoding="utf-8")
    if done.returncode:
        wrong = "\n".join(line for line in done.stdout.splitlines() if not line.startswith("I: "))
        raise RootError(f"lintian is not content:\n{wrong[-4000:]}")
