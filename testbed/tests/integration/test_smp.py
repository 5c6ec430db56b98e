# SPDX-License-Identifier: Apache-2.0
"""The datapath on two CPUs of Debian's kernel, with the watcher of races: the short run of `make smp`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdngcc.testbed.smp.build import smp_build
from sdngcc.testbed.smp.run import SHORT, run_machine

pytestmark = [pytest.mark.uml, pytest.mark.slow]


@pytest.mark.timeout(1500)  # a minute or two, but on a busy machine
@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=pytest.mark.release)])
def test_two_cpus_find_no_race_and_keep_the_limit(tmp_path: Path, beside: bool) -> None:
    artifacts = smp_build("debian", beside=beside)
    outcome = run_machine(artifacts, SHORT, cpus=2, out=tmp_path / "debian")
    assert not outcome.findings, "\n\n".join(outcome.findings)
    assert outcome.control and outcome.conserved == outcome.trials > 0 and outcome.changes > 100
