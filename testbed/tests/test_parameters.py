# SPDX-License-Identifier: Apache-2.0
"""Settings are read, refused by name, and make the flows they say."""

import pytest

from sdngcc.testbed.parameters import ParameterError, Parameters, describe, parse_settings
from sdngcc.testbed.runner import make_flows


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
    (["law=none", "knob.x=1"], ["knob.*", "law"]),
    (["law=sdngcc", "knob.x=much"], ["knobs.x", "'much'"]),
    (["law=static", "kill_controller_at_s=3"], ["kill_controller_at_s", "law=sdngcc"]),
    (["law=sdngcc", "restart_controller_at_s=3"], ["restart_controller_at_s", "kill_controller_at_s"]),
    (["destinations=2"], ["destinations=2", "receivers"]),
    (["senders=1"], ["senders=1", "phases"]),
    (["knobs=3"], ["'knobs'"]),
])
def test_refusals_name_the_setting_and_what_is_allowed(settings, named):
    with pytest.raises(ParameterError) as refusal:
        parse_settings(settings, {})
    for word in named:
        assert word in str(refusal.value)


def test_tagged_vm_sends_in_the_last_two_periods_the_others_in_the_first_two():
    tagged, other, third = make_flows(Parameters(competitor=("udp", "tcp"), senders=3, phases=(1, 2, 3), receivers=2,
                                                 udp_mbps=10, guest_ecn=True))
    assert (tagged["start_s"], tagged["stop_s"]) == (1, 6)
    assert (other["start_s"], other["stop_s"]) == (0, 3)
    assert other["proto"] == "udp" and other["rate_bps"] == 10_000_000 and "ecn" not in other
    assert third["cc"] == "reno" and third["ecn"] is True
    assert [flow["to"] for flow in (tagged, other, third)] == ["rx1", "rx2", "rx1"]
    assert len({flow["port"] for flow in (tagged, other, third)}) == 3


def test_a_vm_with_several_destinations_has_a_flow_to_each():
    flows = make_flows(Parameters(senders=2, receivers=3, destinations=2, competitor=("udp",)))
    pairs = [(flow["vm"], flow["to"]) for flow in flows]
    assert pairs == [("vm1", "rx1"), ("vm1", "rx2"), ("vm2", "rx2"), ("vm2", "rx3")]
    assert flows[2]["rate_bps"] == 500_000_000 and len({flow["port"] for flow in flows}) == 4


def test_every_parameter_is_described():
    rows = {row["name"]: row for row in describe()}
    assert set(rows) == set(Parameters.model_fields) - {"knobs"} | {"knob.<name>"}
    assert rows["senders"]["allowed"] == "1 to 64" and rows["law"]["allowed"] == "none, static, sdngcc"
    assert all(row["meaning"] for row in rows.values())
