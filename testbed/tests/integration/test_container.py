# SPDX-License-Identifier: Apache-2.0
"""A machine boots where a container engine's defaults are all that there is."""

import os
import subprocess
import sys

import pytest

from sdngcc.testbed.packages.roots import CONFINE

pytestmark = [pytest.mark.uml, pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")]

BOOT = """
from sdngcc.testbed import host
from sdngcc.testbed.inside import run_inside
print(host.look(host.Path("/dev/shm")), run_inside(["sh", "-c", "ip link show lo"]).status, sep="\\n")
"""


def test_a_machine_boots_with_64_mb_of_shm_few_capabilities_and_a_filter_of_system_calls(artifacts):
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, str(CONFINE), "/dev/shm", sys.executable, "-c", BOOT],
        capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["/dev/shm has 64 MB free, and nothing runs from there", "0"]
