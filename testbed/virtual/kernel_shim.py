# SPDX-License-Identifier: Apache-2.0
"""The client of the kernel's shim, imported without what it does not use: in User Mode Linux imports cost wall time."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdngcc.shim.netlink import ShimClient


def shim_client() -> ShimClient:
    """Return a client of the shim in this thread's network namespace.

    pyroute2 as a whole imports all that it has; only its modules of netlink are wanted, so an empty package has its
    name meanwhile.
    """
    found = None if "pyroute2" in sys.modules else find_spec("pyroute2")
    if found is not None:
        package = ModuleType("pyroute2")
        package.__path__ = list(found.submodule_search_locations or ())
        sys.modules["pyroute2"] = package
    try:
        from sdngcc.shim.netlink import ShimClient
    finally:
        if found is not None:
            del sys.modules["pyroute2"]
    return ShimClient()
