# SPDX-License-Identifier: Apache-2.0
"""Experiment tenants: the runs it makes, what it tells the controller, and verdicts that fail."""

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import TCP_PAYLOAD, UDP_PAYLOAD
from sdngcc.experiments.own import tenants
from sdngcc.testbed.parameters import ParameterError, Parameters, parse_settings
from sdngcc.testbed.runner import make_job

from .test_experiments import run_of
from .test_parameters import ARTIFACTS


def made(label="share", **rates):
    """Return a run in which each VM has its tenant's rate, in whole frames, divided among the tenant's VMs."""
    case = next(case for case in tenants.cases([]) if case.label == label)
    parameters = case.parameters
    run = run_of(**parameters.model_dump())
    for index, vm in enumerate(parameters.vm_names):
        number = parameters.tenant_of(index)
        payload = UDP_PAYLOAD if parameters.protocol(index) == "udp" else TCP_PAYLOAD
        mbps = rates.get(vm, rates[f"tenant{number + 1}"] / parameters.tenant_sizes[number])
        run["series"]["goodput_mbps"][vm] = [mbps * payload] * 50
    return label, run


def failing(*runs):
    return [one.name for one in EXPERIMENTS["tenants"].judge(list(runs)) if not one.holds]


def test_three_runs_and_what_the_controller_is_told():
    cases = tenants.cases([])
    assert [case.label for case in cases] == ["share", "share, no weights", "cap"]
    assert [[" ".join(words) for words in tenants.commands(case.parameters)] for case in cases] == [
        ["set tenant1 --weight 1", "set tenant2 --weight 1"], [], ["set tenant1 --max 300000000"]]
    assert [program.argv[-3:] for program in cases[0].workload.programs] == [
        ("tenant1", "--weight", "1"), ("tenant2", "--weight", "1")]
    assert all(program.start_s is None for program in cases[0].workload.programs)


def test_other_numbers_of_vms_and_hosts_are_taken():
    share, cap = tenants.cases(["tenant_sizes=3,5,1", "tenant_weights=1,2,1", "hosts=2"])
    assert (share.parameters.senders, share.parameters.hosts) == (9, 2) and share.label == "share"
    assert [share.parameters.tenant_of(index) for index in (0, 2, 3, 7, 8)] == [0, 0, 1, 1, 2]
    assert [words[-1] for words in tenants.commands(share.parameters)] == ["1", "2", "1"]
    assert cap.parameters.tenant_maximum_mbps(2) == 300
    case, *_ = tenants.cases(["tenant_sizes=1,1", "senders=4"])
    assert case.parameters.tenant_of(2) is None
    for settings in (["tenant_sizes=1,x"], ["tenant_sizes=0,1"], ["tenant_sizes=9,9", "senders=4"], ["law=sdngcc"]):
        with pytest.raises(ParameterError):
            tenants.cases(settings)


def test_ports_name_their_tenants():
    shim = make_job(parse_settings(["tenant_sizes=1,2", "senders=4", "law=maxmin"], {}), ARTIFACTS, 1)["shim"]
    assert [shim["vms"][f"vm{number}"].get("shim-tenant") for number in range(1, 5)] == [
        "tenant1", "tenant2", "tenant2", None]


def test_all_holds_when_all_is_well():
    assert failing(made(tenant1=495, tenant2=495), made("share, no weights", tenant1=124, tenant2=866),
                   made("cap", tenant1=300, tenant2=1680)) == []


def test_each_claim_fails_when_it_is_not_so():
    name, = failing(made(tenant1=440, tenant2=550))[:1]
    assert name == "share: tenant1 of 2 VMs, Mb/s, weight 1"
    assert failing(made("cap", tenant1=307, tenant2=1680)) == ["cap: tenant1 of 6 VMs, Mb/s, cap 300"]
    assert failing(made("cap", tenant1=293, tenant2=1680)) == ["cap: tenant1 of 6 VMs, Mb/s, cap 300"]
    assert failing(made(tenant1=480, tenant2=480)) == ["share: use of the receivers' ports"]
    assert failing(made("cap", tenant1=300, tenant2=1600)) == ["cap: use of the receivers' ports"]
    assert failing(made(tenant1=495, tenant2=495, vm9=39)) == ["share: tenant2: farthest of its VMs from its part"]


@pytest.mark.parametrize(("settings", "word"), [
    ({"tenant_weights": (1,), "law": "maxmin"}, "need law=maxmin and tenant_sizes"),
    ({"tenant_sizes": (1,), "tenant_maximums": (9,), "law": "sdngcc"}, "need law=maxmin and tenant_sizes"),
    ({"tenant_sizes": (1,), "tenant_guarantees": (9,), "tenant_maximums": (8,), "law": "maxmin"}, "above its maximum"),
    ({"tenant_sizes": (5,)}, "add up to 5 VMs; there are 4"),
])
def test_what_does_not_fit_is_refused_by_name(settings, word):
    with pytest.raises(ValueError, match=word):
        Parameters(**settings)


def test_the_controller_has_a_place_for_policy_unless_a_cluster_is_it():
    assert "SDNGCC_CONTROLLER_TENANT_FILE" in environment([])
    assert "SDNGCC_CONTROLLER_TENANT_FILE" not in environment(["controllers=2"])


def environment(settings):
    return make_job(parse_settings(["law=maxmin", *settings], {}), ARTIFACTS, 1)["controller"]["environment"]
