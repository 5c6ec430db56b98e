# SPDX-License-Identifier: Apache-2.0
"""Runs an experiment on an inventory whose hosts are namespaces of one virtual machine."""

import json
from pathlib import Path

import pytest

from sdngcc.testbed.inside import run_inside

pytestmark = pytest.mark.uml

SCRIPT = Path(__file__).with_name("racks_inside.py")


def result_of(output):
    """Return the result.json among what a run printed."""
    start = output.index("{\n \"drops\"")
    return json.JSONDecoder().raw_decode(output[start:])[0]


def racks(artifacts, modules, *words):
    ended = run_inside(["python3", str(SCRIPT), *words], modules, artifacts.ovs)
    print(ended.output)
    assert ended.status == 0, ended.output
    return result_of(ended.output)


@pytest.mark.release
def test_share_on_an_inventory(artifacts):
    result = racks(artifacts, artifacts.modules, "share", "--set", "law=static", "--set", "phases=1,3,2", "--set",
                   "competitor=udp")
    assert result["schema"] == "sdngcc-result/1" and all(verdict["holds"] for verdict in result["verdicts"])
    shared = next(phase for phase in result["phases"] if phase["name"] == "all")
    assert set(shared["goodput_mbps"]) == {"vm1", "vm2", "vm3", "vm4"}
    assert 23 < shared["settled_goodput_mbps"]["vm1"] < 24.2
    assert result["series"]["limit_mbps"]["vm1"][25] == 25 and result["shim"]["tx_packets"] > 1000


@pytest.mark.release
def test_the_controller_steers_an_inventorys_hosts(artifacts):
    result = racks(artifacts, artifacts.beside, "share", "--set", "phases=2,6,3", "--set", "competitor=udp")
    assert result["parameters"]["law"] == "sdngcc" and result["parameters"]["mark_source"] == "shim"
    assert result["notifications"]["accepted"] > 0 and not result["notifications"]["refused"]
