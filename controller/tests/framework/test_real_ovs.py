# SPDX-License-Identifier: Apache-2.0
"""Real ovs-vswitchd: TLS with the keys of ovs-pki, and roles in a cluster."""

import re
import subprocess

import pytest

from ..cluster.raft import Raft
from ..fabric import arp, ipv4
from ..processes import Controller, free_port, wait_for
from ..real_ovs import INSTALLED, OpenVSwitch, make_pki

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="Open vSwitch is not installed")]


def tls_settings(keys):
    return {
        "openflow_tls_key": keys["ctl_key"],
        "openflow_tls_cert": keys["ctl_cert"],
        "openflow_tls_ca": keys["switch_ca"],
    }


@pytest.fixture
def ovs(tmp_path):
    running = OpenVSwitch(tmp_path / "ovs", 0xA1, 2)
    yield running
    running.stop()


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_only_switches_with_a_certificate_of_the_authority_connect(tmp_path, ovs, framework):
    right, wrong = make_pki(tmp_path / "right"), make_pki(tmp_path / "wrong")
    controller = Controller(tmp_path, framework, **tls_settings(right))
    try:
        target = f"ssl:127.0.0.1:{controller.address[1]}"
        ovs.vsctl("set-ssl", wrong["sw_key"], wrong["sw_cert"], right["controller_ca"])
        ovs.vsctl("set-controller", "br0", target)
        wait_for(lambda: ": no TLS handshake with a known certificate" in controller.log(), controller.log)
        assert controller.get("/v1/status")["switches"] == 0
        refused = controller.get("/v1/status")["connections"]["refused"]["tls"]
        ovs.vsctl("set-controller", "br0", f"tcp:127.0.0.1:{controller.address[1]}")
        wait_for(
            lambda: controller.get("/v1/status")["connections"]["refused"]["tls"] > refused + 2, controller.log
        )
        assert controller.get("/v1/status")["switches"] == 0
        ovs.vsctl("set-ssl", right["sw_key"], right["sw_cert"], right["controller_ca"])
        ovs.vsctl("set-controller", "br0", target)
        wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
        wait_for(lambda: "actions=CONTROLLER" in ovs.flows(), ovs.flows)
        # A second connection under the same keys, after the first ended.
        ovs.vsctl("del-controller", "br0")
        wait_for(lambda: controller.get("/v1/status")["switches"] == 0, controller.log)
        ovs.vsctl("set-controller", "br0", target)
        wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
        assert "Traceback" not in controller.log() and "PRIVATE KEY" not in controller.log()
    finally:
        controller.stop()


def test_secrets_are_in_no_log_and_no_list_of_processes(tmp_path):
    controller = Controller(tmp_path, "ryu")
    try:
        key = (tmp_path / "key").read_text()
        listed = subprocess.run(["ps", "-ww", "-o", "args", "-p", str(controller.process.pid)], capture_output=True)
        assert listed.stdout and key.encode() not in listed.stdout
        assert key not in controller.log() and key not in str(controller.get("/v1/settings"))
        assert key not in controller.trace.read_text() if controller.trace.exists() else True
    finally:
        controller.stop()


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "ssl"])
def test_real_switches_obey_one_master_and_all_controllers_hear(tmp_path, ovs, tls):
    keys = make_pki(tmp_path / "pki") if tls else None
    raft = Raft(tmp_path, keys)
    # The lease that must end is as long as a silent pair is remembered.
    scheme, settings = "tcp", {"relation_idle_s": 3600}
    if keys:
        port = free_port()
        ovs.vsctl("set-ssl", keys["sw_key"], keys["sw_cert"], keys["controller_ca"])
        ovs.vsctl("set-manager", f"pssl:{port}:127.0.0.1")
        ovs.vsctl("set", "interface", "p1", "external_ids:iface-id=neutron-1")
        scheme, settings = "ssl", {**settings, **tls_settings(keys), "ovsdb": f"ssl:127.0.0.1:{port}"}
    controllers = []
    try:
        for sender in (1, 2):
            controllers.append(
                Controller(
                    tmp_path, "ryu", f"c{sender}", cluster=raft.remotes, sender_id=sender, lease_ms=10_000, **settings
                )
            )
        targets = [f"{scheme}:127.0.0.1:{controller.address[1]}" for controller in controllers]
        ovs.vsctl("set-controller", "br0", *targets)

        def told():
            return "\n".join([*(c.log() for c in controllers), ovs.flows(), raft.dump("Switch")])

        def roles(*wanted):
            return sorted(role for _, role in ovs.connected()) == sorted(wanted)

        # By OVSDB the bridge has a machine, so who does not own it is EQUAL there.
        wait_for(lambda: roles("master", "other" if tls else "slave"), told)
        # Debian's own Open vSwitch has no shim: nothing else keeps the controllers from their work.
        wait_for(lambda: all("marks" in text or "VM state" in text for c in controllers
                             for text in c.get("/v1/status")["not_ready"]), told)  # fmt: skip
        ovs.receive(1, arp(1, 2))
        ovs.receive(2, arp(2, 1))
        ovs.receive(1, ipv4(1, 2))
        wait_for(lambda: all(c.get("/v1/status")["pairs"] >= 1 for c in controllers), told)
        wait_for(lambda: "dl_src=02:00:00:00:00:01" in ovs.flows(), told)
        [master] = [target for target, role in ovs.connected() if role == "master"]
        victim = controllers[targets.index(master)]
        survivor = controllers[1 - targets.index(master)]
        if tls:
            wait_for(lambda: all(c.get("/v1/vms")["vms"] for c in controllers), told)
            assert victim.put("/v1/vms/neutron-1", {"weight": 3})["stored"]["weight"] == 3, told()
            wait_for(lambda: survivor.get("/v1/vms/neutron-1")["stored"]["weight"] == 3, told)
            raft.kill(raft.leader())
        victim.kill()
        wait_for(lambda: roles("master"), told)
        assert survivor.get("/v1/status")["pairs"] >= 1
        assert "Traceback" not in survivor.log()
    finally:
        for controller in controllers:
            controller.stop()
        raft.stop()


def test_databases_of_another_authority_are_refused_and_named(tmp_path):
    right, wrong = make_pki(tmp_path / "right"), make_pki(tmp_path / "wrong")
    raft = Raft(tmp_path, right)
    controller = None
    try:
        first = raft.remotes.partition(",")[0]
        settings = {**tls_settings(wrong), "cluster": raft.remotes, "ovsdb": first}
        controller = Controller(tmp_path, "ryu", **settings)
        wait_for(lambda: re.search(f"cluster database {first}.*: unreachable", controller.log()), controller.log)
        for remote in raft.remotes.split(","):  # one after the other is tried
            wait_for(lambda at=remote: f"OVSDB {at}: TLS failed" in controller.log(), controller.log)
        assert controller.get("/v1/status")["counters"].get("internal_errors", 0) == 0, controller.log()
        assert "Traceback" not in controller.log() and "PRIVATE KEY" not in controller.log()
        assert "lease held" not in controller.log()
    finally:
        if controller:
            controller.stop()
        raft.stop()
