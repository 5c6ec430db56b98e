# SPDX-License-Identifier: Apache-2.0
"""Hosts in memory whose packets others forward: they tell their VMs and whom these talk to, and take messages."""

import dataclasses
import struct
from typing import Optional

from sdngcc.controller.engine import Engine
from sdngcc.controller.network.hosts import Device
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import experimenter, message, openflow
from sdngcc.controller.wire.experimenter import PathReading, PeerReading, VmReading
from sdngcc.controller.wire.packets import mapped

from .fabric import Sent, ip, mac, vm_reading

UPLINK = 2  # the kernel's index of each host's uplink
KEY = bytes(range(16))
READ_ONLY = (openflow.OFPT_MULTIPART_REQUEST, openflow.OFPT_EXPERIMENTER, openflow.OFPT_SET_ASYNC)


def address(number: int) -> bytes:
    return mapped(ip(number))


@dataclasses.dataclass
class Host:
    """One host; ``vms`` and ``peers`` are its shim's."""

    dpid: int
    boot: int
    now_ns: int = 5_000_000_000
    generation: int = 1
    vms: dict[int, VmReading] = dataclasses.field(default_factory=dict)
    sent: Sent = dataclasses.field(default_factory=Sent)
    peers: dict[tuple[object, ...], tuple[int, PeerReading]] = dataclasses.field(default_factory=dict)
    told: list[tuple[int, message.Message]] = dataclasses.field(default_factory=list)
    seen: list[int] = dataclasses.field(default_factory=list)  # types of messages received
    asked: list[int] = dataclasses.field(default_factory=list)  # exp_types
    deaf: bool = False
    by_path: bool = False  # whether it answers HOST_PATHS
    paths: list[PathReading] = dataclasses.field(default_factory=list)
    told_by_path: list[tuple[int, message.PathMessage]] = dataclasses.field(default_factory=list)

    def talk(self, vm: int, local: int, remote: int, vlan: int = 0, tunnel: int = 0, **moved: int) -> None:
        """Move the counters of a VM's conversation."""
        self.generation += 1
        key = (vm, vlan, tunnel, local, remote)
        _, before = self.peers.get(
            key, (0, PeerReading(vm, UPLINK, vlan, address(remote), address(local), bytes(16), tunnel, 0, 0, 0, 0, 0))
        )
        after = before._replace(**{name: getattr(before, name) + count for name, count in moved.items()})
        self.peers[key] = (self.generation, after)

    def receive(self, data: bytes) -> list[bytes]:
        """Take OpenFlow messages; return the answers."""
        answers = []
        while data:
            kind, length = data[1], struct.unpack_from("!H", data, 2)[0]
            one, data = data[:length], data[length:]
            self.seen.append(kind)
            exp_type = struct.unpack_from("!I", one, 12)[0]
            if kind == openflow.OFPT_EXPERIMENTER and exp_type == experimenter.PATH_MESSAGES:
                entries = experimenter.decode_path_messages(one)
                self.told_by_path += [(index, message.decode_v2(text, KEY)) for index, text in entries]
            elif kind == openflow.OFPT_EXPERIMENTER:
                entries = experimenter.decode_vm_messages(one)
                self.told += [(index, message.decode_v1(text, KEY)) for index, text in entries]
            elif kind == openflow.OFPT_MULTIPART_REQUEST and not self.deaf:
                answers.append(self._answer(one))
        return answers

    def _answer(self, request: bytes) -> bytes:
        """Return the answer to a request: a reply, or an OpenFlow error."""
        xid, exp_type, generation, boot, _ = experimenter.decode_request(request)
        self.asked.append(exp_type)
        if exp_type == experimenter.HOST_PATHS and not self.by_path:
            return struct.pack("!BBHIHH", openflow.VERSION, openflow.OFPT_ERROR, 12, xid, 1, 3)
        since = generation if boot == self.boot else 0
        if exp_type == experimenter.HOST_VMS:
            entries = [experimenter.encode_vm_state(self.sent.count(vm, self.now_ns)) for vm in self.vms.values()]
        elif exp_type == experimenter.HOST_PATHS:
            entries = [experimenter.encode_path(path) for path in self.paths]
        else:
            assert exp_type == experimenter.HOST_PEERS
            entries = [experimenter.encode_peer(peer) for moved, peer in self.peers.values() if moved > since]
        return experimenter.encode_reply(xid, exp_type, self.generation, self.boot, self.now_ns, entries)


class Cloud:
    """Hosts and a controller; time stands still unless moved."""

    def __init__(self, tmp_path, owner=None, **settings) -> None:
        self.now_ns = 1_000_000_000_000
        self.hosts: dict[int, Host] = {}
        key_file = tmp_path / "key"
        key_file.write_text(KEY.hex())
        key_file.chmod(0o600)
        chosen = {"forwarding": "none", "mark_source": "shim", "key_file": str(key_file), **settings}
        self.engine = Engine(Settings(**chosen), self.clock, epoch=1, owner=owner)

    def clock(self) -> int:
        return self.now_ns

    def add(
        self, dpid: int, boot: Optional[int] = None, vms: tuple[int, ...] = (), by_path: bool = False
    ) -> Host:
        """Connect a host with VMs by their devices' indexes."""
        host = self.hosts[dpid] = Host(dpid, dpid + 1000 if boot is None else boot, by_path=by_path)
        for index in vms:
            host.vms[index] = vm_reading(index)._replace(uplink=UPLINK)
        self.engine.switch_up(dpid, {1: ("br-int", bytes(6), True)})
        self.run(0.02)
        return host

    def settle(self) -> None:
        """Deliver everything on its way, in no time."""
        while waiting := self.engine.outbox.drain():
            for dpid, data in waiting:
                for answer in self.hosts[dpid].receive(data):
                    if answer[1] == openflow.OFPT_ERROR:
                        self.engine.error(dpid, *struct.unpack_from("!IHH", answer, 4))
                    else:
                        assert self.engine.multipart(dpid, answer)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now_ns + round(seconds * 1e9)
        self.settle()
        while True:
            self.engine.tick()
            self.settle()
            upcoming = self.engine.next_ns()
            if upcoming > end:
                break
            self.step(upcoming)
        self.step(end)

    def step(self, time_ns: int) -> None:
        passed = max(time_ns - self.now_ns, 0)
        self.now_ns += passed
        for host in self.hosts.values():
            host.now_ns += passed

    def exchange(self, source: tuple[int, int, int], target: tuple[int, int, int], marks: int = 0, **how: int) -> None:
        """Let 100 packets of 1,500 bytes pass between VMs, each (host, device's index, address), some with CE."""
        packets = 100
        self.hosts[source[0]].talk(source[1], source[2], target[2], tx_bytes=packets * 1500, tx_packets=packets, **how)
        self.hosts[target[0]].talk(
            target[1], target[2], source[2], rx_bytes=packets * 1500, rx_packets=packets, rx_marks=marks, **how
        )

    def devices(self, *names: tuple[int, str, int, int]) -> None:
        """Tell what OVSDB has: (datapath id, name, index, machine whose Ethernet address it is)."""
        found: dict[int, dict[str, Device]] = {}
        for dpid, name, index, machine in names:
            found.setdefault(dpid, {})[name] = Device(index, mac(machine))
        self.engine.set_devices(found)
