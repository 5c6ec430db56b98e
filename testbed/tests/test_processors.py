# SPDX-License-Identifier: Apache-2.0
"""Processors of virtual machines: as few machines on one as can be, and given back however the holder ends."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from sdngcc.testbed import processors
from sdngcc.testbed.processors import own_processor


@pytest.fixture
def name(monkeypatch):
    """Give processors names that no machine of another test takes meanwhile."""
    monkeypatch.setattr(processors, "NAME", f"sdngcc-test-{os.getpid()}")
    return processors.NAME


def test_machines_are_spread_and_processors_given_back(name):
    allowed = sorted(os.sched_getaffinity(0))
    for _ in range(2):
        with ExitStack() as held:
            assert [held.enter_context(own_processor()) for _ in range(3 * len(allowed))] == 3 * allowed


def test_a_processor_is_given_back_by_who_is_killed(name):
    code = ("import os, signal\nfrom pathlib import Path\nfrom sdngcc.testbed import processors\n"
            f"processors.NAME = {name!r}\n"
            "with processors.own_processor():\n"
            "    print(Path('/proc/net/unix').read_text().count(processors.NAME), flush=True)\n"
            "    os.kill(0, signal.SIGKILL)\n")
    dead = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True, check=False)
    assert dead.returncode == -9 and int(dead.stdout) == 1
    assert name not in Path("/proc/net/unix").read_text()
