# SPDX-License-Identifier: Apache-2.0
"""Who is behind a port, and with how much, in the engine's own terms."""

import pytest

from ..fabric import ipv4, mac, vm_reading
from ..test_engine import CORE, H1, H2, H3, PLACES, T1, T2, connected, notices, talk


def send_bytes(fabric, source, target, count):
    """Let the pair's flow at the source's bridge count bytes."""
    fabric.switches[PLACES[source][0]].find_pair_flow(mac(source), mac(target)).octets += count


def elephants(tmp_path, **changes):
    """VM 11 sends most to 22 and a tenth to 31; VM 21 sends all to 31."""
    fabric = connected(tmp_path, **changes)
    for source, target in ((11, 22), (11, 31), (21, 31)):
        talk(fabric, source, target)
    fabric.switches[H1].vms[2] = vm_reading(2, 100_000_000)
    fabric.switches[H2].vms[2] = vm_reading(2, 40_000_000)
    send_bytes(fabric, 11, 22, 9_000_000)
    send_bytes(fabric, 11, 31, 1_000_000)
    fabric.run(1.0)
    fabric.delivered.clear()
    return fabric


def test_rates_through_a_port_are_measured(tmp_path):
    fabric = elephants(tmp_path)
    attribution = fabric.engine.attribution
    assert attribution.through((T2, 1))[PLACES[11]] == 50_000_000  # not measured yet
    fabric.run(0.2)
    assert attribution.through((T2, 1)) == {PLACES[11]: 10_000_000, PLACES[21]: 40_000_000}
    assert attribution.through((T1, 2)) == {PLACES[11]: 90_000_000}
    assert attribution.routes(PLACES[11]) == pytest.approx(
        {(H1, 1): 1, (T1, 2): 0.9, (H2, 3): 0.9, (T1, 9): 0.1, (CORE, 2): 0.1, (T2, 1): 0.1, (H3, 2): 0.1}
    )


def divided(fabric, point):
    """Return the marks each machine is told of 1,000 at a port, once proportions were read."""
    for _ in range(3):
        fabric.delivered.clear()
        fabric.switches[point[0]].add_marks(point[1], 1000)
        fabric.run(0.2)
    return {place: told.marks for place, told in notices(fabric).items()}


def test_a_sender_elsewhere_is_not_charged_for_it(tmp_path):
    fabric = elephants(tmp_path)
    assert divided(fabric, (T2, 1)) == {PLACES[11]: 200, PLACES[21]: 800}


def test_division_by_all_bytes_charges_it(tmp_path):
    fabric = elephants(tmp_path, division="sent")
    told = divided(fabric, (T2, 1))
    assert told[PLACES[11]] == pytest.approx(714, abs=1) and told[PLACES[21]] == pytest.approx(286, abs=1)


def test_machine_behind_two_ports_is_charged_at_each_by_its_bytes_there(tmp_path):
    fabric = elephants(tmp_path)
    divided(fabric, (T2, 1))
    fabric.delivered.clear()
    fabric.switches[T2].add_marks(1, 100)
    fabric.switches[T1].add_marks(2, 100)
    fabric.run(0.01)
    told = {place: (notice.marks, notice.point_port) for place, notice in notices(fabric).items()}
    assert told == {PLACES[11]: (120, 2), PLACES[21]: (80, 1)}


def test_bridge_of_machines_with_one_destination_is_not_asked(tmp_path):
    fabric = elephants(tmp_path)
    divided(fabric, (T2, 1))
    assert fabric.switches[H1].flow_requests > 0
    assert fabric.switches[H2].flow_requests == 0 == fabric.switches[H3].flow_requests


def test_pairs_inside_a_bridge_take_no_part(tmp_path):
    fabric = connected(tmp_path)
    for target in (12, 31):
        talk(fabric, 11, target)
    fabric.switches[H1].vms[2] = vm_reading(2, 100_000_000)
    send_bytes(fabric, 11, 12, 10**9)
    send_bytes(fabric, 11, 31, 10**6)
    fabric.run(1.5)
    assert fabric.engine.attribution.through((T2, 1)) == {PLACES[11]: 100_000_000}
    assert (H1, 3) not in fabric.engine.attribution.routes(PLACES[11])


def test_unreadable_statistics_are_counted_and_the_rest_goes_on(tmp_path):
    fabric = elephants(tmp_path)
    fabric.engine.attribution.routes(PLACES[11])
    pair_bytes = fabric.engine.pair_bytes
    pair_bytes.asked(H1, 123, fabric.now_ns)
    fabric.engine.multipart(H1, b"\x04\x13\x00\x14\x00\x00\x00\x7b\x00\x01\x00\x00" + bytes(8))
    assert fabric.engine.counters["reply_malformed"] == 1
    assert divided(fabric, (T2, 1))[PLACES[11]] == 200


def test_switch_that_refuses_flow_statistics_is_no_mark_source_less(tmp_path):
    fabric = elephants(tmp_path)
    fabric.engine.attribution.routes(PLACES[11])
    fabric.engine.pair_bytes.asked(H1, 123, fabric.now_ns)
    fabric.engine.error(H1, 123, 1, 2)
    assert not fabric.engine.pair_bytes.owes(H1, 123)
    assert fabric.engine.switches[H1].vm_state


def test_switch_gone_and_back(tmp_path):
    fabric = elephants(tmp_path)
    divided(fabric, (T2, 1))
    fabric.engine.switch_down(H1)
    assert fabric.engine.attribution.routes(PLACES[11]) == {}
    assert fabric.engine.attribution.through((T2, 1)) == {PLACES[21]: 40_000_000}
    fabric.inject(*PLACES[21], ipv4(21, 31))
    fabric.run(1.0)
