# SPDX-License-Identifier: Apache-2.0
"""Real ovs-vswitchd: TLS with the keys of ovs-pki."""

import subprocess

import pytest

from .real_ovs import INSTALLED, OpenVSwitch, make_pki
from .wire import Controller, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="Open vSwitch is not installed")]


@pytest.fixture
def ovs(tmp_path):
    running = OpenVSwitch(tmp_path / "ovs", 0xA1, 2)
    yield running
    running.stop()


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_only_switches_with_a_certificate_of_the_authority_connect(tmp_path, ovs, framework):
    right, wrong = make_pki(tmp_path / "right"), make_pki(tmp_path / "wrong")
    controller = Controller(
        tmp_path, framework, openflow_tls_key=right["ctl_key"], openflow_tls_cert=right["ctl_cert"],
        openflow_tls_ca=right["switch_ca"],
    )  # fmt: skip
    try:
        target = f"ssl:127.0.0.1:{controller.address[1]}"
        ovs.vsctl("set-ssl", wrong["sw_key"], wrong["sw_cert"], right["controller_ca"])
        ovs.vsctl("set-controller", "br0", target)
        wait_for(lambda: "refused 127.0.0.1: no TLS handshake" in controller.log(), controller.log)
        assert controller.get("/v1/status")["switches"] == 0
        ovs.vsctl("set-controller", "br0", f"tcp:127.0.0.1:{controller.address[1]}")
        wait_for(lambda: controller.log().count("refused 127.0.0.1") > 2, controller.log)
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
