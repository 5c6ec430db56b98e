# SPDX-License-Identifier: Apache-2.0
"""Rates that are right at every moment: against the controller's max-min, and against times found by hand."""

import random

import pytest

from sdngcc.controller.rates.maxmin import Claim, allot
from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.simulation.fabric import Fabric, Vm
from sdngcc.testbed.simulation.fluid import LAYERS, NONE, load
from sdngcc.testbed.simulation.ideal import FRAME_BYTES, PAYLOAD_BYTES, Ideal, ways_of
from sdngcc.testbed.simulation.packets import Bulk

pytestmark = pytest.mark.slow
MS = 10**6
RTT_S = 0.001
# Payload that takes a link of 100 Mb/s a millisecond, with its headers.
MS_BYTES = 12_500 * PAYLOAD_BYTES // FRAME_BYTES


def bulk(vm, to, ms_alone, start_ms=0, deadline_ms=0, order="none"):
    """Return a flow that takes so long alone at 100 Mb/s, but for its round trips."""
    return Bulk(vm, to, start_ms * MS, 10**9, size=ms_alone * MS_BYTES, deadline_ns=deadline_ms * MS, order=order)


def arrivals_ms(flows, objectives=None, until_s=1.0, hosts=4):
    """Return when flows arrived less 1.5 round trips, ms; hosts have 1 Gb/s to send and 100 Mb/s to receive by."""
    fabric = Fabric(hosts, 1)
    for host in range(hosts):
        # Those who send do not receive, so one rate a link is enough.
        fabric.attach(host, hosts, (100 if host == hosts - 1 else 1000) * 10**6, 1000, 10**6, 10**5)
    fabric.vms = [Vm(host) for host in range(hosts)]
    arrived = Ideal(fabric, flows, RTT_S, objectives).run(until_s)
    return {number: pytest.approx(arrived[number] / MS - 1.5, abs=0.02) for number in sorted(arrived)}


def test_rates_are_those_of_the_controllers_max_min():
    ffi, lib = load()
    for seed in range(60):
        dice = random.Random(seed)
        count, ports = dice.randint(1, 30), dice.randint(1, 12)
        capacities = [dice.uniform(1, 1000) for _ in range(ports)]
        tunnels, claims = ffi.new("struct share_tunnel[]", count), {}
        for number in range(count):
            way = dice.sample(range(ports), dice.randint(1, min(ports, LAYERS)))
            tunnels[number].ports, tunnels[number].weight = (way + [NONE] * LAYERS)[:LAYERS], dice.randint(1, 9)
            claims[number, 0] = Claim({(port, 0): 1.0 for port in way}, int(tunnels[number].weight))
        lib.share_rates(tunnels, count, capacities, ffi.new("double[]", 2 * ports), ports)
        wanted = allot(claims, {(port, 0): capacity for port, capacity in enumerate(capacities)})
        for number in range(count):
            assert tunnels[number].rate == pytest.approx(wanted[number, 0].rate, rel=1e-9), seed


def test_a_flow_alone_takes_its_round_trips_and_its_bytes():
    assert arrivals_ms([bulk(0, 3, 10, start_ms=5)]) == {0: 15}


def test_flows_share_and_take_what_others_leave():
    # Both have half until 20 ms, when the short one is done; then the long one has all.
    assert arrivals_ms([bulk(0, 3, 10), bulk(1, 3, 30)]) == {0: 20, 1: 40}
    # Of one VM two flows are as two of two VMs.
    assert arrivals_ms([bulk(0, 3, 10), bulk(0, 3, 10), bulk(1, 3, 10)]) == {0: 30, 1: 30, 2: 30}


def test_what_does_not_arrive_in_time_is_not_there():
    assert arrivals_ms([bulk(0, 3, 10), bulk(1, 3, 30)], until_s=0.025) == {0: 20}
    # All of it is sent by then, and half a round trip is to come.
    assert arrivals_ms([bulk(0, 3, 10)], until_s=0.0112) == {}


def test_divisions_have_the_same_whatever_tunnels_they_have():
    # One of completion-sensitive flows, one of two tunnels of such without end: by flows each would have a third.
    flows = [bulk(0, 3, 10), bulk(1, 3, 1000), bulk(2, 3, 1000)]
    assert arrivals_ms(flows, until_s=0.2) == {0: 30}
    assert arrivals_ms(flows, ["cs", "ls", "ls", "ls"], until_s=0.2) == {0: 20}


def test_weights_within_a_division_are_its_objectives():
    # The same size and three times the deadline: W' are as 3 to 1 at first, and in the end the far one has all.
    near, far = arrivals_ms([bulk(0, 3, 30, deadline_ms=100), bulk(1, 3, 30, deadline_ms=300)], ["ds"] * 4).values()
    assert near.expected < 55 and far == 60
    # 1/M: the short one has most of it.
    short, long = arrivals_ms([bulk(0, 3, 10, order="size"), bulk(1, 3, 90, order="size")], ["cs"] * 4).values()
    assert short.expected < 12 and long == 100


def test_who_is_late_keeps_a_hundredth_of_its_divisions_weight():
    late, other = arrivals_ms([bulk(0, 3, 10, deadline_ms=1), bulk(1, 3, 50, deadline_ms=500)], ["ds"] * 4).values()
    assert other.expected == pytest.approx(50.6, abs=0.8) and late == 60


def test_weights_follow_time_where_nothing_begins_or_ends():
    """Until its deadline the first has nearly all, though it cannot be met, and nothing else happens then."""
    first, other = arrivals_ms([bulk(0, 3, 60, deadline_ms=20), bulk(1, 3, 40, deadline_ms=1000)], ["ds"] * 4).values()
    assert first == 100 and 55 < other.expected < 65


def test_flows_of_a_tunnel_take_turns():
    def both(order, objective, *deadlines):
        return list(arrivals_ms([bulk(0, 3, 30, deadline_ms=deadlines[0], order=order),
                                 bulk(0, 3, 10, start_ms=5, deadline_ms=deadlines[1], order=order)],
                                [objective] * 4).values())

    assert both("none", "ls", 0, 0) == [40, 25], "the second begins at 5 ms, and both have half"
    assert both("size", "cs", 0, 0) == [40, 15]
    assert both("deadline", "ds", 100, 200) == [30, 40]
    assert both("deadline", "ds", 200, 100) == [40, 15]
    # 30 ms at full rate are more than 20: it is late from the start, and the other goes first.
    assert both("deadline", "ds", 20, 200) == [40, 15]


def test_ways_have_the_hosts_own_ports_and_no_more_than_six():
    fabric = Fabric(2, 2)
    fabric.attach(0, 2, 10**9, 1000, 10**6, 10**5)
    fabric.attach(1, 3, 10**8, 1000, 10**6, 10**5)
    fabric.join(2, 3, 10**7, 1000, 10**6, 10**5)
    fabric.vms = [Vm(0), Vm(1)]
    found, capacities = ways_of(fabric, [bulk(0, 1, 1)])
    assert [capacities[port] for port in found[0, 1] if port != NONE] == [125e6, 1.25e6, 12.5e6]
    long = Fabric(2, 7)
    long.attach(0, 2, 10**9, 1000, 10**6, 10**5)
    for switch in range(2, 8):
        long.join(switch, switch + 1, 10**9, 1000, 10**6, 10**5)
    long.attach(1, 8, 10**9, 1000, 10**6, 10**5)
    long.vms = [Vm(0), Vm(1)]
    with pytest.raises(ParameterError, match="a way of 8 ports: at most 6 are allowed"):
        ways_of(long, [bulk(0, 1, 1)])
