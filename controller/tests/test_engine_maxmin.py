# SPDX-License-Identifier: Apache-2.0
"""The engine under ``decision: maxmin``: who is told what rate, and what happens when things go."""

import pytest

from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import message

from .fabric import vm_reading
from .test_engine import H1, H2, H3, KEY, PLACES, T1, T2, connected, talk

SHARE = 10**8  # bytes/s: what vm_reading() says of share and rate
PORT_MBPS = 800
PERIOD_S = 0.005


@pytest.fixture
def fabric(tmp_path):
    """Machines 11, 12 and 21 send to 31 through T2's port 1, of 100 MB/s; the first two share an uplink."""
    fabric = connected(tmp_path, decision="maxmin", capacities=(f"{T2:x}/1={PORT_MBPS}",))
    for source in (11, 12, 21):
        talk(fabric, source, 31)
        send(fabric, source, SHARE, SHARE)
    fabric.run(0.1)
    return fabric


def send(fabric, machine, sent, rate):
    dpid, port = PLACES[machine]
    fabric.switches[dpid].vms[port] = vm_reading(port, int(sent))._replace(rate=int(rate))


def told(fabric, machine):
    """Return the rates a machine was told, bytes/s, and forget them."""
    dpid, port = PLACES[machine]
    outs = [out for out in fabric.switches[dpid].packet_outs if out[1] == [port] and out[2][23:24] == b"\xfd"]
    fabric.switches[dpid].packet_outs = [out for out in fabric.switches[dpid].packet_outs if out not in outs]
    rates = []
    for _, _, frame in outs:
        decoded = message.decode_v1(frame[34:], KEY)
        assert decoded.type == message.TYPE_RATE and (decoded.point_datapath, decoded.point_port) == (T2, 1)
        rates.append(decoded.rate)
    return rates


def test_senders_are_told_their_parts_of_the_port_they_share(fabric):
    for machine in (11, 12, 21):
        assert told(fabric, machine)[-1] == pytest.approx(0.99 * SHARE / 3, rel=1e-6)
    assert told(fabric, 31) == []


def test_a_newcomer_is_told_within_two_periods(fabric):
    for machine in (11, 12, 21):
        send(fabric, machine, SHARE / 3, SHARE / 3)
        told(fabric, machine)
    talk(fabric, 22, 31)
    send(fabric, 22, SHARE / 10, SHARE / 10)
    fabric.run(2 * PERIOD_S)
    for machine in (11, 12, 21, 22):
        assert told(fabric, machine)[-1] == pytest.approx(0.99 * SHARE / 4, rel=1e-6)


def test_marks_lower_all_rates_at_that_port(fabric):
    for machine in (11, 12, 21):
        send(fabric, machine, 0.33 * SHARE, 0.33 * SHARE)
    fabric.run(PERIOD_S)
    told(fabric, 11)
    fabric.switches[T2].add_marks(1, 300)
    fabric.run(PERIOD_S)
    assert told(fabric, 11)[0] < 0.9 * 0.33 * SHARE


def test_marks_of_a_port_elsewhere_change_nothing(fabric):
    fabric.run(PERIOD_S)
    told(fabric, 11)
    fabric.switches[T1].add_marks(2, 1000)
    fabric.run(PERIOD_S)
    assert told(fabric, 11) in ([], [pytest.approx(0.33 * SHARE)])


def test_a_silent_hypervisor_does_not_stop_the_others(fabric):
    fabric.switches[H1].silent = True
    fabric.run(0.05)
    told(fabric, 21)
    fabric.run(0.1)
    assert 2 <= len(told(fabric, 21)) <= 4
    assert fabric.engine.counters["round_deadlines"] > 0


def test_a_switch_that_goes_frees_its_part(fabric):
    fabric.engine.switch_down(H1)
    told(fabric, 21)
    fabric.run(3 * PERIOD_S)
    assert told(fabric, 21)[-1] == pytest.approx(0.99 * SHARE)
    fabric.engine.switch_down(H2)
    fabric.engine.switch_down(H3)
    fabric.run(3 * PERIOD_S)


def test_speeds_of_ports_count_where_nothing_is_set(tmp_path):
    fabric = connected(tmp_path, decision="maxmin")
    fabric.engine.port_speed(T2, 1, SHARE // 2)
    fabric.engine.port_speed(0xDEAD, 1, 1)
    for source in (11, 21):
        talk(fabric, source, 31)
        send(fabric, source, SHARE, SHARE)
    fabric.run(0.02)
    assert told(fabric, 11)[-1] == pytest.approx(0.99 * SHARE / 4, rel=1e-6)


@pytest.mark.parametrize("changes,words", [
    ({"message_version": "v0"}, "decision maxmin needs message_version v1"),
    ({"capacities": ("7=100",)}, '"7=100" is no <datapath id>/<port>'),
    ({"capacities": ("7/1=0",)}, "0.001 to 800000"),
    ({"capacities": ("hv/1=5",)}, '"hv" is no datapath id'),
    ({"headroom_percent": 51}, "less than or equal to 50"),
])  # fmt: skip
def test_bad_settings_are_refused_by_name(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        Settings(key_file=tmp_path / "key", decision="maxmin", **changes)
