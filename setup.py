# SPDX-License-Identifier: Apache-2.0
"""Packaging of sdn-gcc: the repository's folders become the packages of ``sdngcc``.

The folders are named for what an operator looks for (shim, controller, mininet, testbed); the mapping below
says which Python package each of them is. ``mininet/`` itself holds no ``__init__.py``, so the real Mininet
stays importable when the repository's root is on ``sys.path``.
"""

from pathlib import Path
from typing import Dict, List, Tuple

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent

# Package -> folder, relative to this file.
PACKAGES: Dict[str, str] = {
    "sdngcc": "cli",
    "sdngcc.commands": "cli/commands",
    "sdngcc.shim": "shim/python",
    "sdngcc.controller": "controller",
    "sdngcc.tracker": "tracker",
    "sdngcc.topologies": "mininet/topologies",
    "sdngcc.experiments": "mininet/experiments",
    "sdngcc.testbed": "testbed",
}

# Needed at run time by the name in requirements.txt; the linters and test tools are not.
RUNTIME = ("click", "rich", "pydantic", "pydantic-settings", "ryu", "os-ken", "eventlet", "dnspython", "falcon",
           "prometheus-client", "grpcio", "opentelemetry-proto", "protobuf", "pyOpenSSL", "pyroute2", "matplotlib",
           "redis", "PyYAML", "numpy")


# Needed for what not everybody has, by the extra that brings it.
EXTRAS = {"openstack": ("openstacksdk",)}


def requirements(names: Tuple[str, ...]) -> List[str]:
    """Return the pins of requirements.txt that have these names."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.split("==")[0] in names]


def subpackages(package: str, folder: str) -> Dict[str, str]:
    """Return the packages below folder (with an __init__.py each), leaving tests out."""
    found = {}
    for init in sorted((ROOT / folder).glob("*/**/__init__.py")):
        parts = init.parent.relative_to(ROOT / folder).parts
        if "tests" not in parts:
            found[".".join((package, *parts))] = init.parent.relative_to(ROOT).as_posix()
    return found


def all_packages() -> Dict[str, str]:
    """Return every package and its folder."""
    mapping = {}
    for package, folder in PACKAGES.items():
        mapping[package] = folder
        mapping.update(subpackages(package, folder))
    return mapping


MAPPING = all_packages()

# No module of Python's: a library that controller/native/__init__.py loads by its name, with no header of Python's in
# it.  The C core's SipHash is part of it.
NATIVE = Extension(
    "sdngcc.controller.native._native",
    sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("controller/native/*.c")) + ["shim/core/siphash.c"],
    depends=[
        *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("controller/native/*.h")),
        "shim/core/siphash.h", "shim/core/types.h",
    ],
    include_dirs=["shim/core"],
    libraries=["m"],
)

setup(
    name="sdn-gcc",
    version="0.1.0",
    description="Congestion control for tenants' VMs in Open vSwitch, steered by ECN marks of the fabric",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0 AND GPL-2.0-only",
    python_requires=">=3.9",
    packages=sorted(MAPPING),
    package_dir=MAPPING,
    ext_modules=[NATIVE],
    package_data={
        "sdngcc.controller": ["systemd/*.service", "systemd/*.timer", "systemd/*.path"],
        "sdngcc.controller.cluster": ["*.ovsschema"],
        "sdngcc.controller.rest": ["static/*"],
    },
    install_requires=requirements(RUNTIME),
    extras_require={extra: requirements(names) for extra, names in EXTRAS.items()},
    entry_points={"console_scripts": ["sdngcc=sdngcc.main:main"]},
)
