# SPDX-License-Identifier: Apache-2.0
"""Real VXLAN of two ovs-vswitchd, in user space, across the bridge of a third: the VM behind it is found."""

import os
import select
import shutil
import socket
import struct
import subprocess
import time

import pytest

from sdngcc.controller.databases.ovsdb import Policy
from sdngcc.controller.engine import Engine
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import openflow

from ..databases.test_ovsdb import SCHEMA
from ..fabric import arp, ipv4, mac
from ..processes import PATIENCE_S
from ..test_engine import KEY

pytestmark = [
    pytest.mark.skipif(not (shutil.which("ovs-vswitchd") and SCHEMA.exists()), reason="Open vSwitch is not installed"),
    pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated"),
]
A, B, FABRIC = 0xA, 0xB, 0xF
VM, TUNNEL = 1, 2  # ports of A and B; ports 1 and 2 of the fabric lead to A and B


class Vswitchd:
    """An ovsdb-server and an ovs-vswitchd with dummy devices."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.environment = {**os.environ, **{f"OVS_{name}DIR": str(folder) for name in ("RUN", "LOG", "DB")}}
        self.remote = f"unix:{folder}/db.sock"
        subprocess.run(["ovsdb-tool", "create", f"{folder}/conf.db", SCHEMA], check=True)
        self.processes = [self.start("ovsdb-server", f"--remote=p{self.remote}", f"{folder}/conf.db")]
        self.vsctl("--retry", "--no-wait", "init")
        self.processes.append(self.start("ovs-vswitchd", "--enable-dummy", "--disable-system", self.remote))

    def start(self, *argv):
        return subprocess.Popen(
            [*argv, "-vconsole:off", f"--unixctl={self.folder}/{argv[0]}.ctl"], env=self.environment
        )

    def run(self, *argv):
        subprocess.run(argv, env=self.environment, check=True, capture_output=True, timeout=PATIENCE_S)

    def vsctl(self, *words):
        self.run("ovs-vsctl", f"--db={self.remote}", *words)

    def control(self, *words):
        self.run("ovs-appctl", "-t", f"{self.folder}/ovs-vswitchd.ctl", *words)


class Connection:
    """OpenFlow 1.3 to a bridge."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.data = b""
        # Hello, and packets whole: on this kind of connection none come otherwise.
        self.socket.sendall(struct.pack("!BBHI", 4, 0, 8, 1) + struct.pack("!BBHIHH", 4, 9, 12, 2, 0, 0xFFFF))

    def messages(self):
        self.data += self.socket.recv(65536)
        while len(self.data) >= 8 and len(self.data) >= (length := int.from_bytes(self.data[2:4], "big")):
            message, self.data = self.data[:length], self.data[length:]
            yield message


class Lab:
    """Two hypervisors and a fabric bridge under one engine."""

    def __init__(self, folder):
        (folder / "key").write_text(KEY.hex())
        self.nodes = {name: Vswitchd(folder / name) for name in ("a", "b", "f")}
        ports = [word for number, name in ((1, "a"), (2, "b")) for word in (
            "--", "add-port", "fabric", f"to-{name}", "--", "set", "Interface", f"to-{name}", "type=dummy",
            f"ofport_request={number}", f"options:pstream=punix:{folder}/wire-{name}")]  # fmt: skip
        self.nodes["f"].vsctl("add-br", "fabric", "--", "set", "Bridge", "fabric", "datapath_type=dummy",
                              "fail_mode=secure", "protocols=OpenFlow13", *ports)  # fmt: skip
        for number, (name, _) in enumerate((("a", 2), ("b", 1)), 1):
            node = self.nodes[name]
            node.vsctl(
                "add-br", "underlay", "--", "set", "Bridge", "underlay", "datapath_type=dummy",
                f"other_config:hwaddr=02:00:00:00:01:0{number}",
                "--", "add-port", "underlay", "nic", "--", "set", "Interface", "nic", "type=dummy",
                f"options:stream=unix:{folder}/wire-{name}",
                "--", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=dummy", "fail_mode=secure",
                "protocols=OpenFlow13", f"other_config:datapath-id=000000000000000{name}",
                "--", "add-port", "br-int", "vm", "--", "set", "Interface", "vm", "type=dummy", f"ofport_request={VM}",
                f"external_ids:iface-id=vm-{name}",
                "--", "add-port", "br-int", "tun", "--", "set", "Interface", "tun", "type=vxlan",
                f"ofport_request={TUNNEL}", f"options:remote_ip=10.9.0.{3 - number}",
            )  # fmt: skip
            node.control("netdev-dummy/ip4addr", "underlay", f"10.9.0.{number}/24")
            node.control("ovs/route/add", "10.9.0.0/24", "underlay")
        paths = {A: folder / "a/br-int.mgmt", B: folder / "b/br-int.mgmt", FABRIC: folder / "f/fabric.mgmt"}
        self.connections = {dpid: Connection(str(path)) for dpid, path in paths.items()}
        settings = Settings(key_file=folder / "key", hypervisors=[A, B], fabric=[FABRIC], lldp_period_ms=300)
        self.engine = Engine(settings)
        names = {A: {VM: "vm", TUNNEL: "tun"}, B: {VM: "vm", TUNNEL: "tun"}, FABRIC: {1: "to-a", 2: "to-b"}}
        for dpid, ports in names.items():
            self.engine.switch_up(dpid, {number: (name, bytes(6), True) for number, name in ports.items()})
        self.policy = Policy([self.nodes[name].remote for name in "ab"], time.sleep)

    def send(self, dpid, data):
        self.connections[dpid].socket.sendall(data)

    def flush(self):
        for dpid, data in self.engine.outbox.drain():
            self.send(dpid, data)

    def take(self, dpid, message):
        kind, xid = message[1], int.from_bytes(message[4:8], "big")
        if kind == 2:
            self.send(dpid, b"\x04\x03" + message[2:])
        elif kind == 1:
            self.engine.error(dpid, xid, *struct.unpack_from("!HH", message, 8))
        elif kind == 10:
            length = int.from_bytes(message[26:28], "big")
            in_port = int.from_bytes(message[32:36], "big")
            self.engine.packet_in(dpid, in_port, message[24 + (length + 7) // 8 * 8 + 2 :])
        elif kind == openflow.OFPT_MULTIPART_REPLY:
            self.engine.multipart(dpid, message)

    def until(self, condition, again=lambda: None):
        """Serve the switches until something holds; ``again`` is called twice a second meanwhile."""
        deadline, due = time.monotonic() + PATIENCE_S, 0.0
        while not condition():
            now = time.monotonic()
            assert now < deadline, (self.engine.counters, self.engine.forwarder.counters, self.engine.topology.links())
            self.policy.run()
            self.engine.set_interfaces(self.policy.interfaces())
            self.engine.set_tunnels(self.policy.tunnels())
            if now >= due:
                due = now + 0.5
                again()
            self.engine.tick()
            self.flush()
            sockets = {connection.socket: dpid for dpid, connection in self.connections.items()}
            for ready in select.select(list(sockets), [], [], 0.01)[0]:
                for message in self.connections[sockets[ready]].messages():
                    self.take(sockets[ready], message)

    def say(self, name, frame):
        """Let the VM of a hypervisor send a frame."""
        self.nodes[name].control("netdev-dummy/receive", "vm", (frame + bytes(60 - min(60, len(frame)))).hex())


@pytest.fixture
def lab(tmp_path):
    found = Lab(tmp_path)
    yield found
    for node in found.nodes.values():
        for process in reversed(node.processes):
            process.terminate()
            process.wait(PATIENCE_S)


def test_the_vm_behind_a_vxlan_tunnel_is_found_at_the_fabrics_port(lab):
    engine = lab.engine
    lab.until(lambda: engine.topology.peer(A, TUNNEL) == (B, TUNNEL))
    assert {vm.id for dpid in (A, B) for vm in engine.switches[dpid].vms.values()} == {"vm-a", "vm-b"}

    def talk():
        lab.say("a", arp(1, 2))
        lab.say("b", arp(2, 1))
        lab.say("a", ipv4(1, 2))

    lab.until(lambda: engine.relations.talks(mac(1), mac(2)), talk)
    assert set(engine.attribution.machines_behind((FABRIC, 2))) == {(A, VM)}
    assert (A, VM) not in engine.attribution.machines_behind((FABRIC, 1))
    assert engine.attribution.routes((A, VM)) == {(A, TUNNEL): 1, (FABRIC, 2): 1, (B, VM): 1}
    outer = (bytes.fromhex("020000000101"), bytes.fromhex("020000000102"))
    assert engine.relations.talks(*outer)  # what crosses the fabric are the hypervisors' own packets
