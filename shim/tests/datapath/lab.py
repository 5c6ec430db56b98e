# SPDX-License-Identifier: Apache-2.0
"""A bridge with two VMs and an uplink, raw frames, and a test list, for tests inside the virtual machine.

    VM namespace v1 -- s1 |           |
    VM namespace v2 -- s2 | bridge br0 | s3 -- namespace u, "the fabric"

Frames are written and read by packet sockets at the namespaces' ends of the veths. Flows say only where frames
go; MAC addresses do not matter. Needs root, ovs-vswitchd and the patched openvswitch module, or sdngcc.ko beside an
unmodified one, or no module at all where the second argument is "netdev": the bridge is then ovs-vswitchd's own.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager
from typing import Any, Callable, ContextManager, Iterator, List, Optional, Sequence

from userspace import UserspaceClient

from sdngcc.shim.netlink import Port, ShimClient, ShimRefused
from sdngcc.testbed.machine import SPLAT
from sdngcc.testbed.virtual.namespaces import network_namespace

BRIDGE = "br0"
MACS = bytes.fromhex("020000000002") + bytes.fromhex("020000000001")
V1, V2, U = "10.9.0.1", "10.9.0.2", "10.9.0.3"
V1_6, U_6 = "fd09::1", "fd09::3"
PROTOCOL = 253
UDP = 17
NOT_ECT, ECT_1, ECT_0, CE = range(4)
SOL_PACKET, PACKET_AUXDATA = 263, 8
SO_RCVBUFFORCE = 33
WIRE_BYTES = 1 << 26  # of memory that frames not yet read may take
KMEMLEAK = "/sys/kernel/debug/kmemleak"
# The module that the shim is part of.
MODULE = sys.argv[2] if len(sys.argv) > 2 else "openvswitch.ko"
# Whether that is one of its own, beside an unmodified openvswitch.ko.
BESIDE = os.path.basename(MODULE) == "sdngcc.ko"
# Whether it is part of ovs-vswitchd's own datapath.
USERSPACE = MODULE == "netdev"

Check = Callable[[], None]
_checks: List[Check] = []


def run(command: str, text: str = "") -> str:
    """Run a shell command that reads text and return its output; RuntimeError with all it said when it fails."""
    done = subprocess.run(["/bin/sh", "-c", command], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def ifindex(device: str) -> int:
    """Return a device's index."""
    return socket.if_nametoindex(device)


def links(*commands: str, within: str = "") -> None:
    """Let one ``ip``, in a network namespace if it is named, do all of this: to start a program is slow here."""
    run(f"ip {'-n ' + within if within else ''} -batch -", "\n".join(commands))


def without_ipv6(name: Optional[str] = None) -> None:
    """Keep what devices a network namespace will have from addresses of IPv6, and from what they would send then."""
    with namespace(name):
        for which in ("all", "default"):
            with open(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6", "w", encoding="ascii") as file:
                file.write("1")


def settle() -> None:
    """Let the datapath catch up with what was set or sent; virtual time, so free."""
    run("ovs-appctl revalidator/wait")
    time.sleep(0.01)


def namespace(name: Optional[str]) -> ContextManager[None]:
    """Let this thread be in a network namespace for a while; None: stay."""
    return network_namespace(f"/run/netns/{name}" if name else "")


class Wire:
    """A packet socket at a namespace's end of a veth."""

    def __init__(self, name: str, device: str) -> None:
        """Open it for every protocol."""
        with namespace(name):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.socket.bind((device, 0))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, WIRE_BYTES)

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self.socket.send(frame)

    def flush(self) -> None:
        """Forget what has arrived."""
        while select.select([self.socket], [], [], 0)[0]:
            self.socket.recv(65536)

    def receive(self, wait_s: float = 0.05) -> Optional[bytes]:
        """Return the next frame that arrives, its VLAN tag put back in; None when none comes."""
        deadline = time.monotonic() + wait_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.socket], [], [], left)[0]:
                return None
            frame, extra, _, address = self.socket.recvmsg(65536, 256)
            if address[2] == socket.PACKET_OUTGOING:
                continue
            for level, kind, data in extra:
                if level == SOL_PACKET and kind == PACKET_AUXDATA:
                    status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
                    if status & 0x10:
                        frame = frame[:12] + struct.pack("!HH", tpid or 0x8100, tci) + frame[12:]
            return frame


def checksum(data: bytes) -> int:
    """Return the Internet checksum of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(src: str, dst: str, payload: bytes, *, protocol: int = UDP, ecn: int = NOT_ECT, fragment: int = 0,
         total: Optional[int] = None, vlan: bool = False, version: int = 0x45) -> bytes:
    """Return an Ethernet frame with an IPv4 packet; fragment is the 16-bit flags and offset field."""
    length = 20 + len(payload) if total is None else total
    head = struct.pack("!BBHHHBBH4s4s", version, 0x28 | ecn, length, 7, fragment, 64, protocol, 0,
                       socket.inet_aton(src), socket.inet_aton(dst))
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return MACS + (b"\x81\x00\x00\x05" if vlan else b"") + b"\x08\x00" + head + payload


def ipv6(src: str, dst: str, payload: bytes, *, protocol: int = UDP, ecn: int = NOT_ECT, extension: bool = False,
         vlan: bool = False) -> bytes:
    """Return an Ethernet frame with an IPv6 packet, with a destination options header if extension."""
    following = protocol
    if extension:
        payload = bytes([protocol, 0, 1, 4, 0, 0, 0, 0]) + payload
        following = 60
    head = struct.pack("!IHBB", 6 << 28 | (0x28 | ecn) << 20, len(payload), following, 64)
    head += socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst)
    return MACS + (b"\x81\x00\x00\x05" if vlan else b"") + b"\x86\xdd" + head + payload


def udp(size: int, port: int = 9) -> bytes:
    """Return a UDP header without checksum and a payload, size bytes together; port makes a flow."""
    return struct.pack("!HHHH", port, 9, size, 0) + bytes(size - 8)


def ecn_of(frame: bytes) -> int:
    """Return a frame's ECN field; ValueError if an IPv4 header's checksum is wrong or it is not IP."""
    offset = 16 if frame[12:14] == b"\x81\x00" else 12
    kind, ip = frame[offset:offset + 2], frame[offset + 2:]
    if kind == b"\x08\x00":
        if checksum(ip[:20]):
            raise ValueError("IPv4 header checksum is wrong")
        return ip[1] & 3
    if kind == b"\x86\xdd":
        return ip[1] >> 4 & 3
    raise ValueError(f"ethertype {kind.hex()}")


def frames(wire: Wire, wait_s: float = 0.02) -> List[bytes]:
    """Return the frames that have arrived, and those that follow one another within wait_s."""
    return list(iter(lambda: wire.receive(wait_s), None))


def reserved_of(frame: bytes) -> int:
    """Return the reserved bit of an IPv4 header without VLAN tag; ValueError if its checksum is wrong."""
    if checksum(frame[14:34]):
        raise ValueError("IPv4 header checksum is wrong")
    return frame[20] >> 7


class Lab:
    """The bridge, its ends and a client of the shim."""

    def __init__(self) -> None:
        """Build it, with roles but no law."""
        without_ipv6()
        ends = {"v1": 1, "v2": 2, "u": 3}
        links(*(f"netns add {name}" for name in ends))
        for name in ends:
            without_ipv6(name)
        links(*(f"link add e{number} netns {name} type veth peer name s{number}" for name, number in ends.items()),
              *(f"link set s{number} up" for number in ends.values()))
        for name, number in ends.items():
            links("link set lo up", f"link set e{number} up", within=name)
            if USERSPACE:
                # Its sockets see no checksum that is left to a device.
                run(f"ip netns exec {name} ethtool -K e{number} tx off")
        kind = f"-- set bridge {BRIDGE} datapath_type=netdev " if USERSPACE else ""
        run(f"ovs-vsctl --may-exist add-br {BRIDGE} {kind}-- set-fail-mode {BRIDGE} secure" + "".join(
            f" -- add-port {BRIDGE} s{number} -- set interface s{number} ofport_request={number}"
            for number in ends.values()))
        self.route()
        self.shim: Any = UserspaceClient() if USERSPACE else ShimClient()
        self.roles()
        self.v1, self.v2, self.u = Wire("v1", "e1"), Wire("v2", "e2"), Wire("u", "e3")

    @staticmethod
    def route() -> None:
        """From VMs to the uplink, from the uplink to v1, and frames of ethertype 0x88b5 from v1 to v2."""
        flows = ["in_port=1,dl_type=0x88b5,actions=output:2", "in_port=1,tp_dst=7,udp,actions=output:2",
                 *(f"priority=9,in_port={before},actions=output:{after}" for before, after in ((1, 3), (2, 3), (3, 1)))]
        run(f"ovs-ofctl add-flows {BRIDGE} -", "\n".join(["delete", *flows]))
        settle()

    def roles(self) -> None:
        """Give s1 and s2 the role vm, s3 the role uplink of 1 Gb/s, with default values and fresh counters."""
        for device in ("s1", "s2", "s3"):
            try:
                self.shim.port_del(device)
            except ShimRefused:
                pass
        for device in ("s1", "s2"):
            self.shim.port_set(device, role="vm")
        self.shim.port_set("s3", role="uplink", capacity=125_000_000)

    def fresh(self, law: str, **settings: Any) -> None:
        """Begin anew under a law: roles as roles() gives them, and settings as they are by default, but for these."""
        values: dict[str, Any] = {"limiter": "pace", "burst": 2_097_152, "burst_us": 100, "horizon": 2_000_000,
                                  "ahead": False, "ecn": True, "peers_max": 4096,
                                  "accept_v0": False}
        self.shim.settings_set(law=law, **{**values, **settings})
        self.roles()

    def stats(self, device: str) -> dict[str, int]:
        """Return a port's counters."""
        port: Port = self.shim.port_get(device)
        return port.stats

    def changes(self, device: str, before: dict[str, int]) -> dict[str, int]:
        """Return by how much each of a port's counters rose since, those that did not left out."""
        return {name: count - before[name] for name, count in self.stats(device).items() if count != before[name]}

    def sends(self, wire: Wire, source: str, vlan: bool = False) -> bool:
        """Let a VM send a packet from an address and tell whether it leaves by the uplink."""
        self.u.flush()
        wire.send(ipv6(source, U_6, udp(100), vlan=vlan) if ":" in source else ipv4(source, U, udp(100), vlan=vlan))
        # What ARP and neighbour discovery send is shorter.
        return any(len(one) > 120 for one in frames(self.u))

    @contextmanager
    def counted(self, device: str, **wanted: int) -> Iterator[None]:
        """Check that what is done meanwhile raises these counters of a port by so much, and tell what else it did.

        A counter that the kernel does not have counts as one that did not rise.
        """
        before = self.stats(device)
        yield
        rose = self.changes(device, before)
        equal({name: rose.get(name, 0) for name in wanted}, wanted, f"counters of {device}, of {rose}")

    @contextmanager
    def flow(self, match: str, actions: str) -> Iterator[None]:
        """Let the bridge have one more flow, above all others, for a while."""
        run(f"ovs-ofctl add-flow {BRIDGE} 'priority=99,{match},actions={actions}'")
        settle()
        try:
            yield
        finally:
            run(f"ovs-ofctl --strict del-flows {BRIDGE} 'priority=99,{match}'")
            settle()


def unload() -> None:
    """Remove the module that the shim is part of, openvswitch with its datapath; ovs-vswitchd does not run."""
    run("rmmod sdngcc" if BESIDE else "ovs-dpctl del-dp ovs-system; rmmod openvswitch")


def check(function: Check) -> Check:
    """Register a test; its docstring's first line is its name."""
    _checks.append(function)
    return function


def equal(got: object, wanted: object, what: str) -> None:
    """Raise AssertionError with both values unless they are equal."""
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def leaks() -> List[str]:
    """Return what kmemleak finds lost.

    User Mode Linux does not scan modules' data: what insmod made is held there, and tables that a worker made larger
    or smaller.  So sdngcc.ko goes first, and takes along what it holds.
    """
    if BESIDE and os.path.exists("/sys/module/sdngcc"):
        unload()
    with open(KMEMLEAK, "r+", encoding="ascii") as file:
        for _ in range(2):
            file.write("scan")
            file.flush()
            time.sleep(6)
        file.seek(0)
        found = file.read().split("unreferenced object ")[1:]
    return [leak for leak in found if 'comm "insmod"' not in leak]


def report(number: int, name: str, complaints: Sequence[str]) -> bool:
    """Print a test's TAP line and what speaks against it; return whether anything does."""
    print(f"{'not ok' if complaints else 'ok'} {number} - {name}")
    print("".join(f"# {line}\n" for complaint in complaints for line in complaint.splitlines()), end="", flush=True)
    return bool(complaints)


def main() -> None:
    """Run every registered test, print TAP, exit 1 if one failed, the kernel complained or memory leaked."""
    failed = 0
    sanitized = os.path.exists(KMEMLEAK)
    print(f"1..{len(_checks) + 1 + sanitized}", flush=True)
    for number, function in enumerate(_checks, 1):
        name = (function.__doc__ or function.__name__).strip().splitlines()[0]
        try:
            function()
            found = []
        except Exception:
            found = [traceback.format_exc()]
        failed += report(number, name, found)
    if sanitized:
        failed += report(len(_checks) + 2, "nothing leaked", leaks())
    # At time 0 the kernel boots; under lockdep, User Mode Linux complains of itself then.
    log = [line for line in run("dmesg").splitlines() if not line.startswith("[    0.000000]")]
    first = next((number for number, line in enumerate(log) if SPLAT.search(line)), len(log))
    failed += report(len(_checks) + 1, "the kernel log has no complaint", log[first:first + 60])
    sys.exit(1 if failed else 0)
