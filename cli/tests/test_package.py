# SPDX-License-Identifier: Apache-2.0
"""The mapping of folders to packages in setup.py holds, and hides nothing."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def mapping():
    """Return PACKAGES of setup.py without running it."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "PACKAGES":
            return ast.literal_eval(node.value)
    raise AssertionError("setup.py has no PACKAGES")


@pytest.mark.parametrize("package, folder", sorted(mapping().items()))
def test_package_is_its_folder(package, folder):
    assert Path(importlib.import_module(package).__file__).resolve() == ROOT / folder / "__init__.py"


def test_the_real_mininet_is_not_hidden(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    assert importlib.import_module("mininet.net").Mininet


def test_every_import_at_run_time_is_pinned():
    names = {re.split("==", line)[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line}
    setup = (ROOT / "setup.py").read_text()
    for pattern in (r"^RUNTIME = \((.*?)\)", r"^EXTRAS = \{.*?: \((.*?)\)\}"):
        runtime = re.search(pattern, setup, re.DOTALL | re.MULTILINE)
        assert runtime is not None
        assert set(re.findall(r'"(.*?)"', runtime.group(1))) <= names
