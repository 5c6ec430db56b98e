# SPDX-License-Identifier: Apache-2.0
"""What the testbed's own patches for its kernel must not change: the clock, and what registers hold."""

import subprocess
from pathlib import Path

import pytest

from sdngcc.testbed.inside import run_inside

pytestmark = pytest.mark.uml

# Reads a clock by a system call, without one, and by one again, at times over several seconds.
CLOCKS = """
import ctypes, time
libc = ctypes.CDLL(None)
class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
def asked(clock):
    ts = Timespec()
    assert libc.syscall(228, clock, ctypes.byref(ts)) == 0
    return ts.s * 10**9 + ts.ns
steps = set()
for clock in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME):
    for _ in range(400):
        one, own, other = asked(clock), time.clock_gettime_ns(clock), asked(clock)
        steps |= {own - one, other - own}
        time.sleep(0.0073)
print(min(steps), max(steps))
print(len({time.monotonic_ns() for _ in range(1000)}))
"""

# Waits for a timer by nothing but readings of the clock.
TIMER = """
import signal, time
fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append(time.monotonic_ns()))
time.sleep(0.05)  # timers are exact only after the machine's first tick
start = time.monotonic_ns()
signal.setitimer(signal.ITIMER_REAL, 1e-3)
readings = 0
while not fired and readings < 10000:
    time.monotonic_ns()
    readings += 1
print(readings, fired[0] - start)
"""

# Two processes of two threads each, which look whether a register of the extended state is still theirs.
STATE = Path(__file__).with_name("extended_state.c")


def test_the_clock_is_one_whether_the_kernel_is_asked_or_not():
    steps, readings = run_inside(["python3", "-c", CLOCKS]).output.splitlines()
    least, most = map(int, steps.split())
    # The timekeeper's factor is not quite 256.
    assert 255 <= least <= most <= 257
    assert readings == "1000"


def test_who_only_reads_the_clock_is_interrupted_in_time():
    readings, took_ns = map(int, run_inside(["python3", "-c", TIMER]).output.split())
    assert readings < 4000
    assert 1_000_000 <= took_ns < 1_002_000


def test_the_extended_state_is_each_threads_own(tmp_path):
    program = tmp_path / "state"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-pthread", "-o", str(program), str(STATE)], check=True)
    assert run_inside([str(program)]).output == "kept 0\n"
