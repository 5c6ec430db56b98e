# SPDX-License-Identifier: Apache-2.0
"""Verdicts on VMs that are told rates by path: the solver's rates hold, others fail at the ports that they cross."""

import json

import pytest

from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD
from sdngcc.experiments.sdn_gcc import paths
from sdngcc.testbed.parameters import make_parameters
from sdngcc.testbed.tests.test_experiments import failing, run_of
from sdngcc.topologies.racks import Racks

RACKS = {"law": "maxmin", "by_path": True, "topology": "racks", "senders": 12, "vms_per_hypervisor": 3, "racks": 3,
         "receivers": 4, "destinations": 3, "competitor": ("udp", "cubic", "dctcp"), "phases": (2, 8, 3)}


def divided(**changes):
    """Return a run in which every pair has what the solver gives it."""
    run = run_of(**{**RACKS, **changes})
    parameters = make_parameters(run["parameters"])
    payload = {vm: UDP_PAYLOAD if parameters.protocol(index) == "udp" else TCP_PAYLOAD
               for index, vm in enumerate(parameters.vm_names)}
    run["measured"] = {f"{vm}>{receiver}": one.rate * payload[vm] for (vm, receiver), one in paths.due(run).items()}
    return run


def test_the_solvers_rates_are_as_expected():
    run = divided()
    assert failing("share", run) == []
    # 7.5 Gb/s could enter the fabric; both ways from the core and four receivers' ports are full.
    assert sum(run["measured"].values()) == pytest.approx(3750, rel=0.01)
    assert run["measured"]["vm1>rx1"] / TCP_PAYLOAD == pytest.approx(123.8, rel=0.01)


@pytest.mark.parametrize("pair, part, port", [("vm1>rx1", 0.9, "core-tor2"), ("vm5>rx3", 1.2, "hv201-tor2"),
                                              ("vm10>rx4", 1.2, "tor1-rx4")])
def test_who_is_off_at_a_full_port_fails_there(pair, part, port):
    run = divided()
    run["measured"][pair] *= part
    assert any(name.startswith(port) for name in failing("share", run))


def test_a_vm_divides_what_its_uplink_leaves_it():
    run = divided()
    for pair, more in ("vm5>rx1", 15), ("vm5>rx3", -15), ("vm8>rx1", -7.5), ("vm11>rx1", -7.5), ("vm2>rx3", 7.5), \
                      ("vm11>rx3", 7.5):
        run["measured"][pair] += more * UDP_PAYLOAD
    assert failing("share", run) == []
    run["measured"]["vm5>rx3"] *= 0.8
    assert failing("share", run) == ["hv201-tor2: what the VM farthest from its part had of it"]


def test_a_link_left_unused_fails():
    run = divided()
    run["measured"] = {pair: 0.94 * rate for pair, rate in run["measured"].items()}
    assert "all VMs, of the solver's rates by path" in failing("share", run)


def test_what_a_vm_may_have_in_all_bounds_its_pairs():
    due = paths.due(divided(maximums=(0, 100)))
    assert sum(one.rate for (vm, _), one in due.items() if vm == "vm2") == pytest.approx(100, rel=0.01)


def test_runs_without_paths_are_judged_as_before():
    assert not paths.judges(run_of(**{**RACKS, "by_path": False}))
    assert not paths.judges(run_of(law="maxmin", by_path=True))


def test_ports_are_those_of_the_topology():
    topo = Racks(senders=12, vms_per_hypervisor=3, receivers=4, racks=3)
    links = {frozenset(link) for link in topo.links()}
    for due in paths.due(run_of(**RACKS)).values():
        for one, other in due.way:
            assert frozenset((one, other.replace("rx", "hvr"))) in links


def test_rates_of_pairs_are_those_of_the_settled_part_of_period_all(tmp_path):
    run = run_of(**{**RACKS, "senders": 2, "destinations": 2})
    (tmp_path / "job.json").write_text(json.dumps({"sampling": {"bin_us": 1000000}}))
    flows = {5001: [0] * 12 + [125000] * 8 + [9] * 10, 5002: [7] * 12 + [250000] * 8, 5003: [0] * 12 + [500000] * 8}
    for number, (port, bins) in enumerate(flows.items()):
        (tmp_path / f"sink-rx{number + 1}.txt").write_text(f"{port} {' '.join(map(str, bins))}\n")
    assert paths.measure(tmp_path, run) == {"vm1>rx1": 1.0, "vm2>rx2": 2.0, "vm2>rx3": 4.0}
    assert paths.measure(tmp_path, run_of()) == {}
