# SPDX-License-Identifier: Apache-2.0
"""What databases of the cloud say of machines, as REST shows it, and machines found by it."""

import pytest

from sdngcc.controller.network.directory import CloudPort, address_of

from ..test_engine import H1, H3
from .rest_bench import Bench

OUTER = ((200, 0), (0, 7))
FIRST, SECOND, THIRD = (address_of(f"192.0.2.{number}") for number in (1, 2, 3))


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    made.engine.set_interfaces({(H1, "vm1a"): "neutron-1", (H3, "vm3a"): "neutron-3"})
    directory = made.engine.directory
    directory.take("ovn", CloudPort("neutron-1", "web", "server-1", floating=tuple((one, FIRST) for one in OUTER)))
    directory.take("neutron", CloudPort("neutron-1", "web", "server-1", server="db-1", associated=(SECOND, FIRST)))
    directory.take("neutron", CloudPort("neutron-3", "eth1", "server-1", server="db-1", associated=(THIRD,)))
    return made


def test_servers_names_and_floating_addresses_are_shown(bench):
    cloud = bench.get("/v1/vms/neutron-1").json["cloud"]
    assert (cloud["name"], cloud["device"], cloud["server"]) == ("web", "server-1", "db-1")
    assert cloud["floating"] == ["192.0.2.1", "192.0.2.2"]


def test_a_machine_is_found_by_its_servers_name_and_by_a_floating_address(bench):
    for name in ("web", "192.0.2.1", "192.0.2.2"):
        assert bench.get(f"/v1/vms/{name}").json["id"] == "neutron-1"
    assert bench.get("/v1/vms/192.0.2.3").json["id"] == "neutron-3"
    answer = bench.get("/v1/vms/db-1")  # of a server with two ports
    assert answer.status_code == 409 and len(answer.json["candidates"]) == 2
    assert bench.get("/v1/vms/192.0.2.9").status_code == 404


def test_a_tenant_takes_no_floating_address_by_the_name_of_a_port(bench):
    bench.engine.directory.take("neutron", CloudPort("neutron-3", "192.0.2.1"))
    assert bench.get("/v1/vms/192.0.2.1").json["id"] == "neutron-1"
