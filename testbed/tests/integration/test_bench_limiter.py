# SPDX-License-Identifier: Apache-2.0
"""The limiter benchmark as it is run, on a few loads: ours at its limit, and each peer in force."""

import json

import pytest
from click.testing import CliRunner

from sdngcc.testbed.bench import limiter

pytestmark = pytest.mark.uml


def measured(folder, name, loads):
    """Run the command and return what was found by load."""
    done = CliRunner().invoke(limiter.main, ["--limiters", name, "--loads", loads, "--out", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads((folder / "result.json").read_text())
    assert list(document["limiters"]) == [name]
    return document["found"][name]


def test_ours_keeps_its_rate_its_burst_and_its_spacing(tmp_path):
    found = measured(tmp_path, "shim", "rate-10000000,rate-100000000,tcp-250000000-bbr")
    for load in ("rate-10000000", "rate-100000000"):
        one = found[load]
        assert abs(one["error_percent"]) < 0.1 and one["burst_bytes"] <= 3028 + 1538, found
        assert 0.9 < one["gap_p50"] < 1.1, found
    assert found["tcp-250000000-bbr"]["part"] > 0.9, found


@pytest.mark.release
@pytest.mark.parametrize("name", [name for name in limiter.LIMITERS if name != "shim"])
def test_a_peer_limits(tmp_path, name):
    found = measured(tmp_path, name, "rate-100000000")["rate-100000000"]
    assert abs(found["error_percent"]) < 5, found
