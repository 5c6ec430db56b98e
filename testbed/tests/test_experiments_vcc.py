# SPDX-License-Identifier: Apache-2.0
"""The experiments of vCC make the runs they say, and their verdicts fail when the numbers do."""

import json

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed.parameters import ParameterError, make_parameters


def run_of(tagged=1.0, others=1.0, utilisation=1.0, measured=None, **parameters):
    """Return a run of ten VMs with these payload rates."""
    given = make_parameters({"law": "vcc", "senders": 10, "phases": (0, 12, 0), **parameters})
    rates = {vm: tagged if vm == "vm1" else others for vm in given.vm_names}
    return {"parameters": given.model_dump(mode="json"), "measured": measured or {}, "phases": [
        {"name": "all", "start_s": 0, "settled_start_s": 2, "settled_goodput_mbps": rates,
         "settled_utilisation": utilisation}]}


def failing(name, *runs):
    """Return the names of an experiment's verdicts that do not hold."""
    return [verdict.name for verdict in EXPERIMENTS[name].judge(list(runs)) if not verdict.holds]


def test_ecn_mix_has_one_sender_without_ecn():
    runs = EXPERIMENTS["ecn-mix"].cases([])
    assert [(run.label, run.parameters.law) for run in runs] == [("without the law", "none"), ("with vcc", "vcc")]
    for run in runs:
        assert [flow["ecn"] for flow in run.workload.flows] == [False] + [True] * 9
    assert [run.parameters.law for run in EXPERIMENTS["ecn-mix"].cases(["law=seawall", "senders=3"])] == ["seawall"]


def test_ecn_mix_verdicts():
    before, after = ("without the law", run_of(0.2, law="none")), ("with vcc", run_of(0.97))
    assert failing("ecn-mix", before, after) == []
    assert failing("ecn-mix", ("", run_of(0.5, law="none"))) == ["tagged / mean of the others, with law none"]
    assert failing("ecn-mix", ("with vcc", run_of(0.94))) == ["tagged / mean of the others, with vcc"]
    assert failing("ecn-mix", ("with vcc", run_of(0.5)))[1] == "Jain's index, with vcc"


def test_rwnd_counts_retransmissions(tmp_path):
    (tmp_path / "meta.json").write_text(json.dumps({"tcp": {
        f"vm{number}": {"out_segs": 100, "retrans_segs": number} for number in (1, 2)}}))
    measured = EXPERIMENTS["rwnd"].measure(tmp_path, run_of(link_mbps=10))
    assert measured == {"segments": 200, "retransmitted": 3, "retransmitted_percent": round(3 * 1538 * 8 / 1.2e6, 3)}


def test_rwnd_verdicts():
    def three(virtual, utilisation=1.0):
        parts = (("without ECN", 2.3), ("with ECN", 0.1), ("with virtual ECN", virtual))
        return [(label, run_of(utilisation=utilisation if label == parts[2][0] else 1.0,
                               measured={"retransmitted_percent": part})) for label, part in parts]

    assert [run.label for run in EXPERIMENTS["rwnd"].cases([])] == [label for label, _ in three(0)]
    assert failing("rwnd", *three(0.1)) == []
    assert failing("rwnd", *three(0.11)) == ["of the link for retransmissions, with virtual ECN, %"]
    assert failing("rwnd", *three(0.1, 0.98)) == ["utilisation, with virtual ECN"]


def flows(before, during, preferred, after):
    """Return rates of three flows in three periods of 4 s and of two in the second."""
    plain, chosen = [before] * 40 + [during] * 40 + [after] * 40, [0.0] * 40 + [preferred] * 40 + [0.0] * 40
    return {"flow_mbps": [plain] * 3 + [chosen] * 2}


def test_port_share_verdicts():
    case, full = EXPERIMENTS["port-share"].cases([])
    assert full.parameters.link_mbps < 104 < case.parameters.link_mbps
    assert [(flow["start_s"], flow["stop_s"]) for flow in case.workload.flows] == [(0, 12)] * 3 + [(4, 8)] * 2
    parameters = case.parameters.model_dump(mode="json")

    def judged(*rates):
        return failing("port-share", ("", {"parameters": parameters, "measured": flows(*rates)}))

    assert judged(34.752, 11.584, 34.752, 34.752) == []
    assert judged(34.752, 15.8, 28.4, 34.752) == ["preferred / unpreferred flow's goodput while both send"]
    assert judged(34.752, 13.0, 39.0, 34.752) == ["sum while preferred flows send, Mb/s"]
    assert judged(34.752, 11.584, 34.752, 30.0) == ["sum after them, Mb/s"]
    assert "sum before them, Mb/s" in judged(30, 10, 30, 30)
    parameters = full.parameters.model_dump(mode="json")
    assert judged(19.1, 6.37, 19.1, 19.1) == [] and judged(34.752, 11.584, 34.752, 34.752) == ["sum before them, Mb/s"]


def test_port_share_refuses_more_senders():
    with pytest.raises(ParameterError, match="senders=2"):
        EXPERIMENTS["port-share"].cases(["senders=2"])


def test_port_share_reads_flows_by_port(tmp_path):
    (tmp_path / "sink-rx1.txt").write_text("5002 25000 0\n5001 12500 12500\n")
    assert EXPERIMENTS["port-share"].measure(tmp_path, {}) == {"flow_mbps": [[1.0, 1.0], [2.0, 0.0]]}
