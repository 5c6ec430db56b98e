# SPDX-License-Identifier: Apache-2.0
"""The Python packages that ours bring along: installed by the release's own pip and Python, kept by their pins.

Debian has neither Ryu nor most of the others in the versions that sdn-gcc is tested with. They become files of
/usr/lib/sdn-gcc, which no other Python program sees.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Dict, List, Tuple

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.roots import Release, locked, packages_cache, root, trust_outside

PACKAGING = ROOT / "packaging"

# What the root needs that everything is made in: pip, what packaging/debian/control asks for, and lintian.
_TOOLS = ("build-essential", "ca-certificates", "python3-venv", "python3-pip", "python3-setuptools", "debhelper",
          "dh-dkms", "bash-completion", "lintian")

# Makes /vendor/common and /vendor/controller; its arguments are the folders of lists, and what pip is to leave out.
_INSTALL = """set -eu
cd /tmp/lists
python3 -m venv --system-site-packages /tmp/venv
site=$(echo /tmp/venv/lib/python3.*/site-packages)
pip="/tmp/venv/bin/pip install --quiet --no-compile --constraint constraints.txt"
$pip --requirement common.txt
mkdir /vendor
cp -a "$site" /vendor/common
# Ryu builds with these and with nothing newer.
$pip --ignore-installed setuptools wheel pbr
$pip --no-build-isolation --requirement controller.txt
/tmp/venv/bin/pip check
/tmp/venv/bin/pip uninstall --quiet --yes $UNUSED
cp -a "$site" /vendor/controller
cd /vendor/common
find . -type f -o -type l | while read -r name; do
	[ -e "/vendor/controller/$name" ] || rm "$name"
	rm -f "/vendor/controller/$name"
done
find /vendor -depth -type d -empty -delete
find /vendor -name __pycache__ -prune -exec rm -rf {} +
"""


def names(kind: str) -> List[str]:
    """Return the lines of packaging/python-<kind>.txt that are no comments."""
    lines = (PACKAGING / f"python-{kind}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def debian() -> Dict[str, str]:
    """Return the Debian package of each Python package that Debian's own packages bring."""
    return {name: package for name, package in (line.split() for line in names("debian"))}


def requirements(kind: str) -> List[str]:
    """Return the pins of requirements.txt for what packaging/python-<kind>.txt names."""
    pins = {line.split("==")[0]: line for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
            if "==" in line and not line.startswith("#")}
    return [pins[name] for name in names(kind)]


def constraints() -> List[str]:
    """Return the pins of constraints.txt, without what Debian brings."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "==" in line and line.split("==")[0] not in debian()]


def tools() -> Tuple[str, ...]:
    """Return what the root has that everything is made in; with what Debian brings, so that pip is content with it."""
    return (*_TOOLS, *debian().values())


def vendored(release: Release) -> Path:
    """Return the folder with ``common`` and ``controller``, made when it is not there. Raises RootError."""
    lists = {"common.txt": requirements("common"), "controller.txt": requirements("controller"),
             "constraints.txt": constraints()}
    content = repr((sorted(lists.items()), names("unused"), sorted(tools()), _INSTALL))
    folder = packages_cache() / f"python-{release.suite}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    with locked(folder.name):
        if not folder.exists():
            with root(release, tools()) as one:
                one.path("/tmp/lists").mkdir()
                for name, lines in lists.items():
                    one.path(f"/tmp/lists/{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
                one.run(["sh", "-c", _INSTALL], environment={**trust_outside(one), "UNUSED": " ".join(names("unused"))})
                part = folder.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                shutil.copytree(one.path("/vendor"), part, symlinks=True)
                part.rename(folder)
    return folder
