# SPDX-License-Identifier: Apache-2.0
"""Real ovs-vswitchd whose bridge another one owns, under ``forwarding: none``: what is there stays as it is."""

import re

import pytest

from ..cluster.raft import Raft
from ..fabric import arp, ipv4
from ..processes import Controller, wait_for
from ..real_ovs import INSTALLED, OpenVSwitch

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="Open vSwitch is not installed")]

OWNER = "tcp:127.0.0.1:1"
OWNERS = ("priority=5,dl_src=02:00:00:00:00:01,actions=CONTROLLER:65535", "priority=0,actions=NORMAL")


@pytest.fixture
def ovs(tmp_path):
    running = OpenVSwitch(tmp_path / "ovs", 0xA1, 2)
    running.vsctl("set", "interface", "p1", "external_ids:iface-id=neutron-1")
    # Open vSwitch deletes all flows of a bridge that gets its first controller, so its owner comes first.
    running.vsctl("set-controller", "br0", OWNER)
    yield running
    running.stop()


def owned(ovs):
    """Give the bridge its owner's flows; return them without counters."""
    for flow in OWNERS:
        ovs.ofctl("add-flow", "br0", flow)
    return listed(ovs)


def listed(ovs):
    text = ovs.flows() + ovs.ofctl("dump-groups", "br0") + ovs.ofctl("dump-meters", "br0")
    return re.sub(r"(duration|n_packets|n_bytes|idle_age)=[^,]*, |\(xid=0x[0-9a-f]+\)", "", text)


def connect(ovs, how, controllers):
    """Let controllers be reached by a bridge of their own, or by the owner's bridge as further ones."""
    targets = [f"tcp:127.0.0.1:{controller.address[1]}" for controller in controllers]
    if how == "own bridge":
        ovs.vsctl("add-br", "br-sdngcc", "--", "set", "bridge", "br-sdngcc", "datapath_type=dummy", "fail_mode=secure")
        ovs.vsctl("set-controller", "br-sdngcc", *targets)
    else:
        ovs.vsctl("set-controller", "br0", OWNER, *targets)


@pytest.mark.parametrize("framework, how", [("ryu", "own bridge"), ("os-ken", "own bridge"), ("ryu", "further one")])
def test_a_bridge_of_another_owner_stays_as_it_is(tmp_path, ovs, framework, how):
    before = owned(ovs)
    controller = Controller(tmp_path, framework, forwarding="none", mark_source="shim", ovsdb=ovs.remote)
    try:
        connect(ovs, how, [controller])
        wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
        # This ovs-vswitchd has no shim and says so; that is told once and asked no more.
        wait_for(lambda: "reports no virtual machines" in controller.log(), controller.log)
        for frame in (arp(1, 2), ipv4(1, 2), arp(2, 1)):
            ovs.receive(1, frame)
        ovs.vsctl("add-port", "br0", "p3", "--", "set", "interface", "p3", "type=dummy")
        status = controller.get("/v1/status")
        assert "packet_ins_unasked" not in status["counters"] and status["pairs"] == 0
        assert listed(ovs) == before
        wait_for(lambda: [role for _, role in ovs.connected()] == ["other"], controller.log)
    finally:
        controller.stop()
    assert listed(ovs) == before
    assert "Traceback" not in controller.log()


def test_a_cluster_gives_no_bridge_a_role(tmp_path, ovs):
    before = owned(ovs)
    raft = Raft(tmp_path)
    controllers = []
    try:
        for sender, framework in ((1, "ryu"), (2, "os-ken")):
            controllers.append(
                Controller(tmp_path, framework, f"c{sender}", cluster=raft.remotes, sender_id=sender,
                           forwarding="none", mark_source="shim", ovsdb=ovs.remote)  # fmt: skip
            )

        def told():
            return "\n".join([*(c.log() for c in controllers), raft.dump("Switch")])

        def acting(controller):
            lines = re.findall(r"acting( no more)? for the whole network", controller.log())
            return bool(lines) and lines[-1] == ""

        connect(ovs, "own bridge", controllers)
        wait_for(lambda: all(c.get("/v1/status")["switches"] == 1 for c in controllers), told)
        holders = []

        def one_acts():
            holders[:] = filter(acting, controllers)  # it may move once more while they join
            return len(holders) == 1

        wait_for(one_acts, told)
        wait_for(lambda: [role for _, role in ovs.connected()] == ["other", "other"], told)
        [victim] = holders
        survivor = controllers[1 - controllers.index(victim)]
        victim.kill()
        wait_for(lambda: acting(survivor), told)
        assert listed(ovs) == before
        assert "Traceback" not in survivor.log()
    finally:
        for controller in controllers:
            controller.stop()
        raft.stop()
