# SPDX-License-Identifier: Apache-2.0
"""What ovs-vswitchd is told of the time: one reading in a round of its loop."""

import os
import subprocess
import sys

import pytest

from sdngcc.testbed.build import build


def told(program: str) -> str:
    """Return what a Python program says that has the loop's clock."""
    preload = str(build(only=["loop-clock"]).loop_clock)
    return subprocess.run([sys.executable, "-S", "-c", f"import select, time\n{program}"], capture_output=True,
                          text=True, check=True, env={**os.environ, "LD_PRELOAD": preload}).stdout.strip()


@pytest.mark.parametrize("clock", ["time.monotonic_ns", "time.time_ns"])
def test_time_stands_within_a_round_and_goes_on_with_the_next(clock):
    assert told(f"select.poll().poll(0)\nprint(len({{{clock}() for _ in range(60)}}))") == "1"
    assert told(f"select.poll().poll(0)\na = {clock}()\nselect.poll().poll(20)\nprint({clock}() - a > 19e6)") == "True"


def test_a_round_without_an_end_sees_time_go_on():
    assert told("select.poll().poll(0)\nprint(1 < len({time.monotonic_ns() for _ in range(300)}) <= 6)") == "True"


def test_other_clocks_are_read_each_time():
    assert int(told("print(len({time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) for _ in range(60)}))")) > 30
