# SPDX-License-Identifier: Apache-2.0
"""The controller's own process with databases of the cloud beside a real Open vSwitch."""

import os
import signal

import pytest

from ..processes import Controller, wait_for
from ..real_ovs import INSTALLED, OpenVSwitch
from .cloud import OVN, Central
from .test_ovn import DB, MACS, WEB

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (INSTALLED and OVN), reason="Open vSwitch or OVN is not installed"),
]


@pytest.fixture(params=["ryu", "os-ken"])
def framework(request):
    pytest.importorskip({"ryu": "ryu", "os-ken": "os_ken"}[request.param])
    return request.param


@pytest.fixture
def bench(tmp_path, framework):
    for name in ("ovn", "run"):
        (tmp_path / name).mkdir()
    central, switch = Central(tmp_path / "ovn"), OpenVSwitch(tmp_path / "ovs", 0xA1, 2)
    controller = Controller(
        tmp_path / "run", framework, ovsdb=switch.remote, ovn_sb=central.south.remote, tenant_file=tmp_path / "tenants"
    )
    switch.vsctl("set-controller", "br0", f"tcp:{controller.address[0]}:{controller.address[1]}")
    yield central, switch, controller
    controller.stop()
    switch.stop()
    central.stop()


def ovn_of(controller):
    (found,) = [one for one in controller.get("/v1/status")["databases"] if one["kind"] == "ovn"]
    return found


def test_names_networks_and_tenants_are_shown_and_stay_while_the_database_is_away(bench):
    central, switch, controller = bench
    central.network("n1", shown="blue")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1", project="project-1")
    central.port("n1", DB, f"{MACS[2]} 10.0.0.2", project="project-1", name="db")
    switch.vsctl("set", "interface", "p1", f"external_ids:iface-id={WEB}")
    switch.vsctl("set", "interface", "p2", f"external_ids:iface-id={DB}", "external_ids:shim-tenant=gold")

    def shown(path="/v1/vms"):
        return {one["id"]: one for one in controller.get(path)["vms"]}

    wait_for(lambda: {WEB, DB} <= {port for port, one in shown().items() if one["cloud"]}, controller.log)
    web = shown()[WEB]
    assert web["cloud"] == {
        "name": "web", "device": "server-web", "network": "blue", "network_id": "n1", "vlan": None,
        "tunnel_key": central.key("n1"), "macs": [MACS[1]], "addresses": ["10.0.0.1"], "tenant": "project-1",
        "server": None, "allowed": [], "floating": [], "subports": [],
    }  # fmt: skip
    assert web["tenant"] == "project-1" and shown()[DB]["tenant"] == "gold"
    assert list(shown("/v1/vms?network=blue&tenant=project-1")) == [WEB]
    assert controller.get("/v1/vms/db")["id"] == DB
    assert {one["name"] for one in controller.get("/v1/tenants")["tenants"]} == {"project-1", "gold"}
    wait_for(lambda: ovn_of(controller)["state"] == "connected", controller.log)
    assert f'sdngcc_cloud_ports{{database="{central.south.remote}",kind="ovn"}} 2.0' in controller.metrics()
    # The switch has no shim: marks and VM state are both missing.
    wait_for(lambda: len(controller.get("/v1/status")["not_ready"]) == 2, controller.log)
    ready = controller.get("/v1/status")["not_ready"]

    central.south.stop()
    wait_for(lambda: ovn_of(controller)["state"] == "unreachable", controller.log)
    assert shown()[WEB]["cloud"]["name"] == "web" and controller.get("/v1/status")["not_ready"] == ready
    assert f"ovn database {central.south.remote}: unreachable" in controller.log()


def test_a_reader_that_dies_is_started_again(bench):
    central, _, controller = bench
    wait_for(lambda: ovn_of(controller)["state"] == "connected", controller.log)
    (reader,) = children(controller.process.pid)
    os.kill(reader, signal.SIGKILL)
    wait_for(lambda: controller.get("/v1/status")["counters"].get("cloud_readers_ended"), controller.log)
    wait_for(lambda: ovn_of(controller)["state"] == "connected", controller.log)
    assert ovn_of(controller)["fault"] is None
    (other,) = children(controller.process.pid)
    assert other != reader
    controller.kill()
    wait_for(lambda: not os.path.exists(f"/proc/{other}"), lambda: "the reader outlives its controller")


def children(pid):
    """Return the readers that a process started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        found = [int(one) for one in file.read().split()]
    return [one for one in found if b"databases.ovn" in open(f"/proc/{one}/cmdline", "rb").read()]
