# SPDX-License-Identifier: Apache-2.0
"""Makes this folder the package sdngcc.topologies where that is not installed: in the Python of Debian's ``mn``.

``mn --custom FILE`` runs a topology's file by itself, without a name; the file imports this module then.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

FOLDER = str(Path(__file__).resolve().parent)

if importlib.util.find_spec("sdngcc") is None:
    for name, places in (("sdngcc", []), ("sdngcc.topologies", [FOLDER])):
        package = types.ModuleType(name)
        package.__path__ = list(places)
        sys.modules[name] = package
