# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's own test suite, as far as it is about the shim, in the patched and built tree."""

import re
import subprocess

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_patched_open_vswitch_passes_its_shim_tests(artifacts):
    argv = ["make", "-j2", "check", "TESTSUITEFLAGS=-k shim"]
    done = subprocess.run(argv, cwd=artifacts.ovs_source, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    tail = "\n".join(done.stdout.splitlines()[-60:])
    assert done.returncode == 0, tail
    assert re.search(r"All [1-9]\d* tests? (was|were) successful|1 test was successful", done.stdout), tail
