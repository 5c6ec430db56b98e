# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's own test suite, as far as it is about the shim; `make check-ovs` for a release."""

import os

import pytest

from sdngcc.testbed.ovs import __main__ as check_ovs
from sdngcc.testbed.ovs.check import run_tests


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_patched_open_vswitch_passes_its_shim_tests(artifacts, tmp_path):
    assert run_tests(artifacts.ovs_source, ["shim"], tmp_path / "tests.log").passed >= 1


@pytest.mark.release
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("SDNGCC_RELEASE") != "1", reason="only a release needs it: SDNGCC_RELEASE=1")
def test_every_version_that_can_be_had_passes(tmp_path):
    assert check_ovs.main(["--out", str(tmp_path)]) == 0
