# SPDX-License-Identifier: Apache-2.0
"""Builds sdngcc.ko with a mistake in it, which tests are to find."""

import shutil
import subprocess
from pathlib import Path

from sdngcc.testbed.build import Artifacts


def plant(artifacts: Artifacts, tree: Path, file: str, before: str, after: str) -> str:
    """Build the module in a new folder with a text of one of its files replaced; return the module's path."""
    shutil.copytree(artifacts.beside_source, tree)
    path = tree / file
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")
    subprocess.run(["make", "ARCH=um", "-C", str(artifacts.kernel_build), f"M={tree}", "modules"], check=True)
    return str(tree / Path(artifacts.beside[-1]).name)
