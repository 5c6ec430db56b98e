# SPDX-License-Identifier: Apache-2.0
"""Programs of Debian packages that setup.sh unpacked into the cache instead of installing them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, List

from sdngcc.testbed.build import cache_root

if TYPE_CHECKING:
    from sdngcc.testbed.parameters import Parameters
    from sdngcc.testbed.workload import Workload

# Where the virtual machine, whose HOME is another one, is told of them.
VARIABLE = "SDNGCC_PROGRAMS"

# Programs that experiments need and the demo does not, and what else asks for them.
_OF_WORKLOADS = ("memcached", "nginx", "wrk", "iperf", "iperf3")
_OF_OVN = ("ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl")


def folder() -> Path:
    """Return the folder with their files, and what starts the programs in links."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else cache_root() / "programs"


def data(name: str) -> Path:
    """Return where a file below /usr/share is: the system's, else the one that was unpacked."""
    installed = Path("/usr/share") / name
    return installed if installed.exists() else folder() / "usr" / "share" / name


def python_path() -> Path:
    """Return the folder of unpacked Python packages, which Python has to look into behind the system's."""
    return folder() / "usr" / "lib" / "python3" / "dist-packages"


def debians(name: str) -> Path:
    """Return what starts Debian's own program, whatever is before it in PATH. Raises FileNotFoundError."""
    path = os.pathsep.join(["/usr/sbin", "/usr/bin", str(folder() / "links")])
    found = shutil.which(name, path=path)
    if found is None:
        raise FileNotFoundError(f"there is no {name} in {path}")
    return Path(found)


def search_path() -> str:
    """Return PATH with the folders of the system's daemons and of what was unpacked behind it."""
    given = [one for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    behind = ["/usr/local/sbin", "/usr/sbin", "/sbin", str(folder() / "links")]
    return os.pathsep.join([*given, *(one for one in behind if one not in given)])


def needed(parameters: Parameters, workload: Workload) -> List[str]:
    """Return the programs that a run needs beyond those of the demo."""
    words = {word for program in workload.programs for argument in program.argv for word in argument.split()}
    found = [name for name in _OF_WORKLOADS if name in words]
    if parameters.generator == "iperf":
        found.append("iperf")
    if parameters.agent == "ovn":
        found += _OF_OVN
    return found


def missing(names: Iterable[str]) -> List[str]:
    """Return those of some programs that are not here."""
    path = search_path()
    return sorted({name for name in names if shutil.which(name, path=path) is None})
