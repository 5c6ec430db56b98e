# SPDX-License-Identifier: Apache-2.0
"""Experiment beside: the runs it makes, and that it fails when a bridge holds anything that it did not before."""

import copy
import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.own import beside
from sdngcc.testbed.parameters import ParameterError

FLOWS = ["cookie=0xd1cf5ecdb2b36d5b, table=0, priority=0 actions=NORMAL", "table=23, priority=0 actions=drop"]
BEFORE = {"hv1": {"br-int": {"flows": FLOWS, "groups": [], "meters": []}}}
CHANGED = "flows, groups and meters that changed during"
OWN = {"br-sdngcc": {"flows": [], "groups": [], "meters": []}}


def measured(folder, during, after):
    """Return what the experiment measures of bridges that hold these things while it runs and at its end."""
    (folder / "bridges.json").write_text(json.dumps({"before": BEFORE, "during": during, "after": after}))
    return beside.measure(folder, {})


def with_own():
    """Return the state before, and the controller's own bridge."""
    return {"hv1": {**copy.deepcopy(BEFORE["hv1"]), **copy.deepcopy(OWN)}}


def failing(looks, monkeypatch):
    """Return the names of verdicts about bridges that do not hold."""
    monkeypatch.setattr(beside.share, "judge", lambda runs: [])
    return [verdict.name for verdict in beside.judge([("ovn, geneve", {"measured": looks})]) if not verdict.holds]


def test_there_is_a_run_for_each_cloud_or_those_asked_for():
    labels = {settings: [case.label for case in beside.cases(settings)]
              for settings in ((), ("agent=ovn",), ("network=vlan",), ("agent=ovn", "network=vlan"))}
    assert labels == {(): ["neutron, vlan", "ovn, geneve"], ("agent=ovn",): ["ovn, geneve"],
                      ("network=vlan",): ["neutron, vlan"], ("agent=ovn", "network=vlan"): ["ovn, vlan"]}
    assert {case.parameters.mark_source for case in beside.cases(())} == {"shim"}


def test_without_agents_there_is_nobody_to_be_beside():
    with pytest.raises(ParameterError, match="neutron or ovn, not none"):
        beside.cases(["agent=none"])


def test_bridges_that_stay_as_they_were_hold(tmp_path, monkeypatch):
    looks = measured(tmp_path, with_own(), with_own())
    assert looks["before"] == {"flows": 2, "groups": 0, "meters": 0, "ours": 0, "added": 0, "removed": 0}
    assert failing(looks, monkeypatch) == []


@pytest.mark.parametrize("change, names", [
    (lambda state: state["hv1"]["br-int"]["flows"].pop(), [CHANGED]),
    (lambda state: state["hv1"]["br-int"]["meters"].append("meter=1"), [CHANGED]),
    (lambda state: state["hv1"]["br-int"]["flows"].append(FLOWS[0]), [CHANGED]),
    (lambda state: state["hv1"]["br-sdngcc"]["flows"].append("cookie=0x5347000000000001, actions=drop"),
     ["flows of ours during", CHANGED])])
def test_any_change_fails(change, names, tmp_path, monkeypatch):
    during = with_own()
    change(during)
    assert failing(measured(tmp_path, during, with_own()), monkeypatch) == [f"{name}, ovn, geneve" for name in names]


def test_bridges_without_flows_prove_nothing(tmp_path, monkeypatch):
    looks = measured(tmp_path, with_own(), with_own())
    looks["before"]["flows"] = 0
    assert failing(looks, monkeypatch) == ["flows of the agents before, ovn, geneve"]


def test_shares_are_judged_as_share_does():
    assert EXPERIMENTS["beside"].measure is beside.measure
    parameters = beside.cases(["agent=ovn"])[0].parameters
    run = {"parameters": parameters.model_dump(mode="json"),
           "measured": {"before": {"flows": 9}, "during": {"ours": 0, "added": 0, "removed": 0},
                        "after": {"ours": 0, "added": 0, "removed": 0}},
           "phases": [{"name": "all", "start_s": 10, "end_s": 20, "settled_start_s": 12, "jain": [1.0] * 10,
                       "utilisation": 0.96, "settled_goodput_mbps": {"vm1": 226.8}}],
           "queue": {"bytes_p99": 30000}, "series": {"goodput_mbps": {"vm1": [0.0] * 300}}}
    verdicts = {verdict.name: verdict for verdict in beside.judge([("ovn, geneve", run)])}
    share = verdicts["tagged, period all from its third second, Mb/s, ovn, geneve"]
    assert share.expected.startswith("226.8") and share.holds
