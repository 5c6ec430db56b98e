# SPDX-License-Identifier: Apache-2.0
"""Settings are read, refused by name, and make the flows they say."""

from pathlib import Path

import pytest

from sdngcc.testbed.build import Artifacts
from sdngcc.testbed.parameters import ParameterError, Parameters, parse_settings
from sdngcc.testbed.runner import make_job
from sdngcc.testbed.settings import describe
from sdngcc.testbed.workload import three_periods
from sdngcc.topologies import TOPOLOGIES

NOWHERE = Path("/nowhere")
ARTIFACTS = Artifacts(kernel=NOWHERE, modules=[], product=[], ovs={}, other_ovs={}, generator=NOWHERE,
                      loop_clock=NOWHERE, congestion=NOWHERE, kernel_source=NOWHERE, kernel_build=NOWHERE,
                      module_source=NOWHERE, beside=[], beside_source=NOWHERE, ovs_source=NOWHERE)


def test_the_papers_setup_is_the_default():
    parameters = parse_settings([], {})
    assert (parameters.link_mbps, parameters.rtt_us, parameters.buffer_packets) == (1000, 100, 100)
    assert parameters.duration_s == 30 and parameters.period_ms == 5
    assert parameters.vm_names == ["vm1", "vm2", "vm3", "vm4"]


def test_settings_override_defaults_and_the_last_counts():
    parameters = parse_settings(["senders=5", "senders=6", "phases=1,2.5,0", "competitor=udp,dctcp", "weights=1,2,4",
                                 "knob.rmin-ppm=7", "gso=true"], {"law": "sdngcc"})
    assert parameters.senders == 6 and parameters.phases == (1, 2.5, 0) and parameters.gso
    assert parameters.knobs == {"rmin-ppm": 7}
    assert [parameters.protocol(index) for index in range(4)] == ["reno", "udp", "dctcp", "udp"]
    assert [parameters.weight(index) for index in range(4)] == [1, 2, 4, 1]


@pytest.mark.parametrize("settings, named", [
    (["sender=4"], ["'sender'", "senders", "knob.<name>"]),
    (["senders"], ["'senders'", "name=value"]),
    (["senders=0"], ["senders", "'0'", "greater than or equal to 1"]),
    (["link_mbps=fast"], ["link_mbps", "'fast'"]),
    (["competitor=quic"], ["competitor", "'quic'", "'dctcp'"]),
    (["phases=1,2"], ["phases"]),
    (["phases=1,0,1"], ["phases", "longer than 0"]),
    (["phases=0.05,1,1"], ["phases", "steps of 0.1 s"]),
    (["weights=1,0"], ["weights", "65535"]),
    (["kernel=5.4"], ["kernel", "'5.4'", "'6.12'"]),
    (["tagged=bbr", "accecn=true", "kernel=6.12"], ["accecn and bbr", "kernel=7.3", "6.12"]),
    (["accecn=true", "kernel=7.3"], ["accecn", "guest_ecn=true"]),
    (["law=none", "knob.x=1"], ["knob.*", "law"]),
    (["law=sdngcc", "knob.x=much"], ["knobs.x", "'much'"]),
    (["law=static", "kill_controller_at_s=3"], ["kill_controller_at_s", "law=sdngcc"]),
    (["law=sdngcc", "restart_controller_at_s=3"], ["restart_controller_at_s", "kill_controller_at_s"]),
    (["law=static", "controllers=2"], ["controllers", "law=sdngcc"]),
    (["law=eyeq", "mark_delay_ms=10"], ["mark_delay_ms", "law=sdngcc"]),
    (["mark_delay_ms=20000"], ["mark_delay_ms", "'20000'", "10000"]),
    (["controllers=5"], ["controllers", "'5'", "less than or equal to 4"]),
    (["controllers=2", "mark_source=sflow"], ["mark_source=sflow", "one controller"]),
    (["destinations=2"], ["destinations=2", "receivers"]),
    (["senders=1"], ["senders=1", "phases"]),
    (["knobs=3"], ["'knobs'"]),
    (["flows=0"], ["flows", "'0'", "greater than or equal to 1"]),
    (["flows=257"], ["flows", "'257'", "less than or equal to 256"]),
    (["loss=101"], ["loss", "'101'", "less than or equal to 100"]),
    (["loss=1,10"], ["loss", "2 percentages", "loss_at_s 1 times"]),
    (["loss=1,10", "loss_at_s=1,2"], ["loss_at_s", "begin with 0"]),
    (["loss=1,10", "loss_at_s=0,0"], ["loss_at_s", "grow"]),
    (["law=eyeq", "loss_of=marks"], ["loss_of=marks", "law=vcc", "eyeq"]),
    (["red=1000,500,900"], ["red has limit", "1000,500,900"]),
    (["red=1000,900,900,61,1"], ["min below max", "1000,900,900,61,1"]),
    (["red=1000,500,900,61,2"], ["probability at most 1", "61,2"]),
    (["red=1000,500,900,61,1", "topology=star"], ["red needs topology=dumbbell", "star"]),
    (["hosts=0"], ["hosts", "'0'", "greater than or equal to 1"]),
    (["hosts=5"], ["hosts=5", "senders", "4"]),
    (["law=none", "uplink_mbps=5"], ["uplink_mbps", "'5'", "greater than or equal to 10"]),
    (["law=static", "uplink_mbps=500"], ["uplink_mbps", "law=none", "static"]),
    (["law=none", "topology=star", "uplink_mbps=500"], ["uplink_mbps", "topology=dumbbell", "star"]),
    (["law=static", "edge=htb"], ["edge=htb", "law=none", "static"]),
    (["law=none", "edge=htb", "fabric=linux"], ["edge=htb", "fabric=openflow", "linux"]),
    (["hosts=2", "vms_per_hypervisor=2"], ["hosts", "vms_per_hypervisor"]),
    (["guarantees=1,-1"], ["guarantees", "from 0 (none) to 10000 Mb/s"]),
    (["maximums=20000"], ["maximums", "from 0 (none) to 10000 Mb/s"]),
    (["guarantees=100", "maximums=200,50"], ["guarantees", "vm2", "100", "50"]),
    (["guarantees=300", "hosts=1"], ["guarantees", "vm4", "1200", "1000"]),
    (["guarantees=300", "law=eyeq"], ["guarantees", "1200", "fabric=openflow", "1000", "fabric=linux"]),
    (["divisions=65536"], ["divisions", "from 0 to 65535"]),
    (["divisions=ls"], ["divisions", "'ls'"]),
    (["fabric=linux", "mark_source=openflow"], ["mark_source=shim", "fabric=linux", "openflow, linux"]),
    (["mark_source=shim"], ["mark_source=shim", "fabric=linux", "shim, openflow"]),
    (["datapath=netdev", "gso=true"], ["datapath=netdev", "gso=false", "openflow, true"]),
    (["datapath=netdev", "fabric=linux"], ["fabric=openflow", "linux, false"]),
    (["fabric=linux", "topology=spines"], ["topology=spines", "two ways", "racks or parking-lot"]),
    (["fabric=linux", "controllers=3"], ["fabric=linux", "one controller", "controllers=3"]),
    (["agent=neutron", "network=geneve", "fabric=linux"], ["agent=neutron", "network=vlan", "geneve"]),
    (["agent=ovn", "fabric=linux"], ["agent=ovn", "network=vlan or geneve", "flat"]),
    (["network=vlan", "fabric=linux"], ["agent=none", "network=flat", "vlan"]),
    (["agent=ovn", "network=vlan"], ["agent=ovn", "fabric=linux", "openflow"]),
    (["agent=ovn", "network=vlan", "fabric=linux", "law=none"], ["agent=ovn", "a law", "none"]),
    (["agent=ovn", "network=vlan", "fabric=linux", "loss=5"], ["loss", "agent=none", "ovn"]),
    (["agent=ovn", "network=vlan", "fabric=linux", "receivers=2", "destinations=2"], ["agent=ovn", "destinations"]),
    (["by_path=true", "law=eyeq"], ["by_path", "law=maxmin or sdngcc", "eyeq"]),
    (["levels=true", "law=maxmin"], ["levels", "law=sdngcc", "maxmin"]),
    (["levels=true", "law=sdngcc", "division=equal"], ["levels", "division=bytes", "equal"]),
    (["by_path=true", "law=sdngcc", "division=sent"], ["by_path", "division=bytes", "sent"]),
])
def test_refusals_name_the_setting_and_what_is_allowed(settings, named):
    with pytest.raises(ParameterError) as refusal:
        parse_settings(settings, {})
    for word in named:
        assert word in str(refusal.value)


def test_tagged_vm_sends_in_the_last_two_periods_the_others_in_the_first_two():
    tagged, other, third = three_periods(Parameters(competitor=("udp", "tcp"), senders=3, phases=(1, 2, 3), receivers=2,
                                                 udp_mbps=10, guest_ecn=True)).flows
    assert (tagged["start_s"], tagged["stop_s"]) == (1, 6)
    assert (other["start_s"], other["stop_s"]) == (0, 3)
    assert other["proto"] == "udp" and other["rate_bps"] == 10_000_000 and "ecn" not in other
    assert third["cc"] == "reno" and third["ecn"] is True
    assert [flow["to"] for flow in (tagged, other, third)] == ["rx1", "rx2", "rx1"]
    assert len({flow["port"] for flow in (tagged, other, third)}) == 3


def test_a_rival_with_several_destinations_has_a_flow_to_each():
    flows = three_periods(Parameters(senders=3, receivers=3, destinations=2, competitor=("udp", "tcp"), flows=5)).flows
    assert [(flow["vm"], flow["to"]) for flow in flows] == [
        ("vm1", "rx1"), ("vm2", "rx2"), ("vm2", "rx3"), ("vm3", "rx3"), ("vm3", "rx1")]
    assert flows[1]["rate_bps"] == 500_000_000 and len({flow["port"] for flow in flows}) == 5
    assert [flow.get("count") for flow in flows] == [1, None, None, 5, 5]


@pytest.mark.parametrize("topology, hosts", [
    ("dumbbell", ["hv1", "hv2", "hv3", "hv1", "hv2"]), ("racks", ["hv101", "hv201", "hv102", "hv101", "hv201"])])
def test_vms_go_round_the_hosts(topology, hosts):
    parameters = Parameters(senders=5, hosts=3, topology=topology)
    assert [parameters.hypervisor(index) for index in range(5)] == hosts
    topo = TOPOLOGIES[topology](senders=5, hosts=3)
    assert [topo.nodeInfo(vm)["hypervisor"] for vm in topo.vms] == hosts


def test_rates_become_settings_of_the_vms_ports():
    job = make_job(Parameters(guarantees=(50, 0), maximums=(0, 200.5), loss=10), ARTIFACTS, 1)
    assert job["loss"] == [[0, 10]]
    assert job["shim"]["vms"]["vm1"] == {"shim-weight": "1", "shim-min-rate": "50000000"}
    assert job["shim"]["vms"]["vm4"] == {"shim-weight": "1", "shim-max-rate": "200500000"}
    static = make_job(Parameters(law="static", maximums=(0, 20)), ARTIFACTS, 1)["shim"]["vms"]
    assert static["vm1"]["shim-max-rate"] == "250000000" and static["vm2"]["shim-max-rate"] == "20000000"


def test_an_edge_holds_vms_to_what_static_does():
    rates = {"vm1": 250_000_000, "vm2": 20_000_000, "vm3": 250_000_000, "vm4": 20_000_000}
    job = make_job(Parameters(law="none", edge="police", maximums=(0, 20)), ARTIFACTS, 1)
    assert job["shim"] is None and job["edge"] == {
        "kind": "police", "rate_bps": rates, "uplink_bps": 1_000_000_000,
        "burst_bits": {vm: rate * 4 // 5 for vm, rate in rates.items()}}
    shorter = make_job(Parameters(law="none", edge="police", static_mbps=100, burst_bytes=15000), ARTIFACTS, 1)["edge"]
    assert shorter["rate_bps"]["vm4"] == 100_000_000 and shorter["burst_bits"]["vm4"] == 120_000
    assert make_job(Parameters(), ARTIFACTS, 1)["edge"] is None


def test_a_fabric_of_linux_bridges_has_its_only_mark_source_by_default():
    assert parse_settings(["fabric=linux"], {}).mark_source == "shim"
    assert parse_settings(["fabric=linux", "law=hygenicc"], {}).mark_source == "openflow"
    job = make_job(parse_settings(["fabric=linux"], {}), ARTIFACTS, 1)
    assert job["controller"]["environment"]["SDNGCC_CONTROLLER_MARK_SOURCE"] == "shim"
    assert job["shim"]["settings"]["shim-conversations"] == "true"
    assert job["fabric"] == "linux" and job["cloud"]["agent"] == "none"
    usual = make_job(Parameters(), ARTIFACTS, 1)
    assert usual["fabric"] == "openflow" and "shim-conversations" not in usual["shim"]["settings"]


def test_tunnels_take_a_part_of_each_frame():
    parameters = parse_settings(["fabric=linux", "agent=ovn", "network=geneve"], {})
    assert parameters.inner_part == pytest.approx(1538 / 1596)
    assert parse_settings(["fabric=linux", "agent=ovn", "network=vlan"], {}).inner_part == 1


def test_losses_come_in_turn():
    parameters = parse_settings(["loss=1,100,0", "loss_at_s=0,2.5,4"], {})
    assert make_job(parameters, ARTIFACTS, 1)["loss"] == [[0, 1], [2.5, 100], [4, 0]]
    assert make_job(Parameters(), ARTIFACTS, 1)["loss"] == []
    assert make_job(Parameters(law="none", loss=10), ARTIFACTS, 1)["loss"] == []


def test_every_parameter_is_described():
    rows = {row["name"]: row for row in describe(Parameters)}
    assert set(rows) == set(Parameters.model_fields) - {"knobs"} | {"knob.<name>"}
    assert rows["senders"]["allowed"] == "1 to 64" and "sdngcc" in rows["law"]["allowed"].split(", ")
    assert all(row["meaning"] for row in rows.values())
