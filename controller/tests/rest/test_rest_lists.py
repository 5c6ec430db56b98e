# SPDX-License-Identifier: Apache-2.0
"""Machines by every name they have, lists in pages, and the topology."""

import pytest

from ..fabric import arp, mac, port_reading, vm_reading
from ..test_engine import H1, H2, PLACES, T2, talk
from .rest_bench import Bench


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    talk(bench.fabric, 11, 31)
    return bench


def ids(answer):
    return [vm["id"] for vm in answer.json["vms"]]


@pytest.mark.parametrize(
    "name",
    ["neutron-1", "0000000000000001:vm1a", "1:vm1a", "vm1a", "02:00:00:00:00:0b", "02:00:00:00:00:0B", "10.0.0.11"],
)
def test_a_machine_has_many_names(bench, name):
    assert bench.get(f"/v1/vms/{name}").json["id"] == "neutron-1"
    assert ids(bench.client.simulate_get("/v1/vms", params={"name": name})) == ["neutron-1"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("mac", "02:00:00:00:00:0b"), ("ip", "10.0.0.11"), ("port", "vm1a"), ("iface_id", "neutron-1")],
)
def test_filters(bench, key, value):
    assert ids(bench.get(f"/v1/vms?{key}={value}")) == ["neutron-1"]
    assert ids(bench.get(f"/v1/vms?{key}={value}&switch={H1:016x}")) == ["neutron-1"]
    assert ids(bench.get(f"/v1/vms?{key}={value}&switch={H2:016x}")) == []


def test_state_filter(bench):
    bench.fabric.switches[H2].vms[2] = vm_reading(2, flags=3)
    bench.fabric.run(1.0)
    assert ids(bench.get("/v1/vms?state=congested")) == ["0000000000000002:vm2a"]
    assert len(ids(bench.get("/v1/vms?state=active"))) == len(PLACES) - 1


def test_ambiguous_names_are_refused_with_the_candidates(bench):
    # Another machine claims the address of machine 11.
    frame = bytearray(arp(21, 31))
    frame[28:32] = bytes([10, 0, 0, 11])
    bench.fabric.inject(*PLACES[21], bytes(frame))
    answer = bench.put({"weight": 3}, vm="10.0.0.11")
    assert answer.status_code == 409
    assert {one["place"] for one in answer.json["candidates"]} == {"0000000000000001:vm1a", "0000000000000002:vm2a"}
    assert answer.json["candidates"][0]["macs"] == ["02:00:00:00:00:0b"]
    assert bench.policy.stored[H1, "vm1a"]["weight"] == 2
    assert bench.put({"weight": 3}, vm="0000000000000001:vm1a").status_code == 200


def test_one_port_id_at_two_bridges_during_migration(bench):
    bench.engine.set_interfaces({(H1, "vm1a"): "neutron-1", (H2, "vm2a"): "neutron-1"})
    assert bench.get("/v1/vms/neutron-1").status_code == 409
    assert bench.get(f"/v1/vms/{H2:016x}:vm2a").json["iface_id"] == "neutron-1"


PORT_IDS = ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "3f2504e0-ffff-41d3-9a0c-0305e82c3301")


@pytest.mark.parametrize("name", [PORT_IDS[0], PORT_IDS[0].upper(), "3f2504e0-4", "3F2504E0-4F89-41D3"])
def test_a_port_id_of_neutron_or_its_beginning_names_a_machine(bench, name):
    bench.engine.set_interfaces({(H1, "vm1a"): PORT_IDS[0], (H2, "vm2a"): PORT_IDS[1]})
    assert bench.get(f"/v1/vms/{name}").json["id"] == PORT_IDS[0]
    assert bench.put({"weight": 7}, vm=name).json["stored"]["weight"] == 7
    assert ids(bench.get(f"/v1/vms?name={name}")) == [PORT_IDS[0]]


def test_the_beginning_of_two_port_ids_is_refused_with_both(bench):
    bench.engine.set_interfaces({(H1, "vm1a"): PORT_IDS[0], (H2, "vm2a"): PORT_IDS[1]})
    answer = bench.get("/v1/vms/3f2504e0")
    assert answer.status_code == 409 and {one["id"] for one in answer.json["candidates"]} == set(PORT_IDS)
    assert bench.get("/v1/vms/3f2").status_code == 404  # too short to be meant
    bench.engine.set_interfaces({(H1, "vm1a"): PORT_IDS[0], (H2, "vm2a"): "3f2504e0"})
    assert bench.get("/v1/vms/3f2504e0").json["switch"] == f"{H2:016x}"  # a whole id wins
    assert bench.get("/v1/vms/neut").status_code == 404


def test_an_id_wins_over_other_names(bench):
    bench.engine.set_interfaces({(H2, "vm2a"): "vm1a"})
    assert bench.get("/v1/vms/vm1a").json["switch"] == f"{H2:016x}"


def test_an_id_with_a_slash(bench):
    bench.engine.set_interfaces({(H1, "vm1a"): "rack/7"})
    assert bench.get("/v1/vms/rack/7").json["id"] == "rack/7"


def test_pages(bench):
    seen, after = [], None
    while True:
        answer = bench.client.simulate_get("/v1/vms", params={"limit": 2, **({"after": after} if after else {})})
        assert answer.json["total"] == len(PLACES) and len(answer.json["vms"]) <= 2
        seen += ids(answer)
        after = answer.json["next"]
        if after is None:
            break
    assert seen == ids(bench.get("/v1/vms")) and len(seen) == len(PLACES)
    ports = bench.get("/v1/ports?limit=3").json
    assert len(ports["ports"]) == 3 and ports["total"] == 16
    assert bench.get(f"/v1/ports?after={ports['next']}").json["ports"][0]["switch"] == f"{H2:016x}"


def test_long_lists_let_other_work_go_on(bench):
    bench.fabric.plug(H1, *range(10, 110))
    bench.fabric.switches[H1].vms = {number: vm_reading(number) for number in (2, 3, *range(10, 110))}
    bench.fabric.run(1.0)
    bench.pauses.clear()
    assert len(bench.get("/v1/vms").json["vms"]) > 100
    assert len(bench.pauses) >= 5


@pytest.mark.parametrize(
    ("query", "field", "allowed"),
    [
        ("limit=0", "limit", "1 to 1000"),
        ("limit=1_0", "limit", "1 to 1000"),
        ("limit=1.0", "limit", "1 to 1000"),
        ("after=7", "after", "00000000000000a1:3"),
        ("mac=02:00", "mac", "six pairs"),
        ("ip=10.0.0", "ip", "IPv4 or IPv6"),
        ("ip=fe80::1%25eth0", "ip", "without scope"),
        ("switch=1", "switch", "16 lower-case hex digits"),
        ("state=busy", "state", "congested"),
        ("port=", "port", "1 to 255"),
        ("nonsense=1", "nonsense", "limit, after, name"),
        ("mac=02:00:00:00:00:0b&mac=02:00:00:00:00:0c", "mac", "once"),
    ],
)
def test_wrong_parameters_are_refused_by_name(bench, query, field, allowed):
    answer = bench.get(f"/v1/vms?{query}")
    assert answer.status_code == 422
    assert answer.json["field"] == field and allowed in answer.json["allowed"]


def test_congested_ports_and_topology(bench):
    bench.reporter.tick()
    bench.fabric.switches[T2].add_marks(1, 50)
    bench.fabric.switches[T2].marks[1] = bench.fabric.switches[T2].marks[1]._replace(bytes=1_000_000)
    bench.fabric.run(0.5)
    bench.reporter.tick()
    [port] = bench.get("/v1/ports?congested=true").json["ports"]
    assert (port["switch"], port["port"]) == (f"{T2:016x}", 1)
    assert port["marks_per_s"] == 100.0 and port["tx_bps"] == 16_000_000.0
    assert bench.get("/v1/ports?congested=false").json["total"] == 15
    topology = bench.get("/v1/topology").json
    assert len(topology["switches"]) == 6 and len(topology["links"]) == 5
    assert topology["switches"][0] == {"switch": f"{H1:016x}", "hypervisor": True, "vms": 2}
    [hot] = [link for link in topology["links"] if any(link["congested"])]
    end = hot["congested"].index(True)
    assert hot["ends"][end] == {"switch": f"{T2:016x}", "port": 1} and hot["tx_bps"][end] == 16_000_000.0
    bench.reporter.tick()
    assert bench.get("/v1/ports?congested=true").json["total"] == 0


def test_a_counter_that_went_back_is_no_congestion(bench):
    bench.reporter.tick()
    bench.fabric.switches[T2].marks[1] = port_reading(1, count=0)._replace(bytes=5)
    bench.fabric.run(0.5)
    bench.reporter.tick()
    bench.fabric.switches[T2].marks[1] = port_reading(1, count=0)
    bench.fabric.run(0.5)
    bench.reporter.tick()
    port = bench.get(f"/v1/ports?switch={T2:016x}&name=t2-h3").json["ports"][0]
    assert port["congested"] is None and port["tx_bps"] is None and port["marks"] == 0


def test_mac_helpers_agree(bench):
    assert bench.get("/v1/vms/vm1a").json["macs"] == [":".join(f"{byte:02x}" for byte in mac(11))]
