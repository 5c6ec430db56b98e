# SPDX-License-Identifier: Apache-2.0
"""Neutron in a virtual environment of its own, in the cache of testbed/build.py: its agents are run, never changed."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path
from typing import Optional, Tuple

from sdngcc.testbed.build import ROOT, Build, Part, Progress, build_part, content_key

# Neutron and all that it pulls in, pinned.
CONSTRAINTS = ROOT / "openstack" / "constraints.txt"

EXTENSIONS = ROOT / "openstack"

# The real neutron-openvswitch-agent with a server made up for it; run by neutron_python().
NEUTRON_AGENT = EXTENSIONS / "tests" / "ovs_agent.py"


def neutron_part() -> Part:
    """Return the part of the cache that holds Neutron."""
    return Part("neutron", content_key([platform.python_version(), sys.base_prefix], CONSTRAINTS), 300,
                recipe=_build)


def _build(build: Build) -> None:
    build.run([str(Path(sys.base_prefix) / "bin" / "python3"), "-m", "venv", str(build.folder / "venv")],
              "making a virtual environment")
    install = [str(neutron_python()), "-m", "pip", "--disable-pip-version-check", "install", "--constraint",
               str(CONSTRAINTS)]
    build.run([*install, "setuptools", "wheel"], "installing setuptools")
    build.run([*install, "neutron"], "installing Neutron")


def extensions_part() -> Part:
    """Return the part of the cache that holds our extensions as pip installs them."""
    sources = [EXTENSIONS / "pyproject.toml", EXTENSIONS / "sdngcc_neutron"]
    return Part("neutron_extensions", content_key([neutron_part().key], *sources), 10, recipe=_build_extensions)


def _build_extensions(build: Build) -> None:
    # pip leaves its own files beside the source, so it gets a copy.
    source = build.folder / "source"
    shutil.copytree(EXTENSIONS, source, ignore=shutil.ignore_patterns("tests", "build", "*.egg-info", "__pycache__"))
    build.run([str(neutron_python()), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps",
               "--no-build-isolation", "--no-index", "--target", str(build.folder / "installed"), str(source)],
              "installing the extensions")


def neutron_python() -> Path:
    """Return Neutron's interpreter, whether it is there or not."""
    return neutron_part().folder / "venv" / "bin" / "python"


def neutron_environment(progress: Optional[Progress] = None) -> Tuple[Path, Path]:
    """Return the interpreter that has Neutron, and the folder for its PYTHONPATH that has our extensions.

    Both are made unless they are there, which takes minutes. Raises BuildError.
    """
    build_part(neutron_part(), progress)
    build_part(extensions_part(), progress)
    return neutron_python(), extensions_part().folder / "installed"
