# SPDX-License-Identifier: Apache-2.0
"""Runs the datapath's own tests (shim/tests/datapath) inside the virtual machine, each file in a fresh one."""

from pathlib import Path

import pytest

from sdngcc.testbed.inside import run_inside

pytestmark = pytest.mark.uml

FOLDER = Path(__file__).resolve().parents[3] / "shim" / "tests" / "datapath"


@pytest.mark.parametrize("script", sorted(FOLDER.glob("check_*.py")), ids=lambda path: path.stem)
def test_datapath(artifacts, script):
    ended = run_inside(["python3", str(script), str(artifacts.generator), artifacts.modules[-1]], artifacts.modules,
                       artifacts.ovs)
    print(ended.output)
    assert ended.status == 0, ended.output
    assert "not ok" not in ended.output and "\nok " in ended.output, ended.output
