# SPDX-License-Identifier: Apache-2.0
"""One host for the tests: an engine (shim/user/lab.h) with Python's names and types."""

import ipaddress
from types import SimpleNamespace
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

SECOND = 10**9
MS = 10**6
FULL = 1514
KEY = bytes(range(16))
NOT_ECT, ECT_1, ECT_0, CE = 0, 1, 2, 3
UDP, TCP = 17, 6
SYN, FIN, RST, ACK, ECE, CWR = 0x02, 0x01, 0x04, 0x10, 0x40, 0x80
NO_SCALE = 255


def address(text: str) -> bytes:
    """Return the 16 bytes of an address, an IPv4 one mapped."""
    parsed = ipaddress.ip_address(text)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


class Outcome(NamedTuple):
    """What became of a packet."""

    passed: int  #: bytes
    departure_ns: int  #: 0: at once
    drop: str  #: name of the counter, "" if it passed
    ecn: int
    id: int
    echo: bool
    flags: int
    window: int
    cut: bool


class Host:
    """An engine. Time is that of all engines: ``core.lib.shim_host_clock_ns``."""

    def __init__(self, core: Any, sender: int = 1, epoch: int = 1000, **settings: int) -> None:
        lab = core.lib.shim_lab_create(sender, epoch)
        assert lab != core.ffi.NULL
        self.adopt(core, lab)
        self.set(**settings)

    @classmethod
    def try_new(cls, core: Any) -> Optional["Host"]:
        """Return a host, None if there is no memory for one."""
        lab = core.lib.shim_lab_create(1, 1000)
        if lab == core.ffi.NULL:
            return None
        host = cls.__new__(cls)
        host.adopt(core, lab)
        return host

    def adopt(self, core: Any, lab: Any) -> None:
        """Become the host of an engine."""
        self.core, self.ffi, self.lib, self.lab = core, core.ffi, core.lib, lab
        self.names: Dict[int, str] = self.ffi.typeof("enum shim_counter").elements
        self.numbers = {name: number for number, name in self.names.items()}
        self.near: Any = None  #: an uplink that a test keeps here
        self.packet = self.ffi.new("struct shim_lab_packet *")
        self.result = self.ffi.new("struct shim_lab_result *")
        self.blank = self.ffi.new("struct shim_lab_packet *", {
            "version": 4, "protocol": UDP, "bytes": FULL, "packets": 1, "ecn": ECT_0, "scale": NO_SCALE})

    def close(self) -> None:
        """Remove the engine with all that it has."""
        if self.lab:
            self.lib.shim_lab_remove(self.lab)
            self.lab = None

    def _good(self, error: int) -> None:
        assert error == 0, f"error {error}"

    @property
    def now_ns(self) -> int:
        return int(self.lib.shim_host_clock_ns)

    def set(self, **settings: int) -> None:
        for name, value in settings.items():
            self._good(self.lib.shim_lab_set(self.lab, name.encode(), value))

    def law(self, name: Optional[str], **knobs: int) -> None:
        """Set knobs of a law ("period" as well), then make it that of all VMs."""
        for knob, value in knobs.items():
            self._good(self.lib.shim_lab_set_knob(self.lab, str(name).encode(), knob.replace("_", "-").encode(), value))
        self._good(self.lib.shim_lab_set_law(self.lab, self.ffi.NULL if name is None else name.encode()))

    def key(self, key: Optional[bytes], other: bool = False) -> None:
        self._good(self.lib.shim_lab_set_key(self.lab, self.ffi.NULL if key is None else key, other))

    def uplink(self, capacity: int) -> Any:
        uplink = self.lib.shim_lab_add_uplink(self.lab, capacity)
        assert uplink != self.ffi.NULL
        return uplink

    def vm(self, weight: int = 1, least: int = 0, most: int = 0, law: Optional[str] = None) -> Any:
        vm = self.lib.shim_lab_add_vm(self.lab)
        assert vm != self.ffi.NULL
        if (weight, least, most, law) != (1, 0, 0, None):
            self.configure(vm, weight, least, most, law)
        return vm

    def configure(self, vm: Any, weight: int = 1, least: int = 0, most: int = 0, law: Optional[str] = None) -> None:
        self._good(self.lib.shim_lab_configure_vm(vm, weight, least, most,
                                                  self.ffi.NULL if law is None else law.encode()))

    def _fill(self, source: bytes, destination: bytes, fields: Dict[str, Any]) -> None:
        self.ffi.memmove(self.packet, self.blank, self.ffi.sizeof("struct shim_lab_packet"))
        packet = self.packet
        self.ffi.memmove(packet.source, source, 16)
        self.ffi.memmove(packet.destination, destination, 16)
        for name, value in fields.items():
            setattr(packet, name, value)

    def _outcome(self) -> Outcome:
        result = self.result
        return Outcome(result.passed, result.departure_ns,
                       self.names[result.drop][len("SHIM_DROP_"):].lower() if result.drop else "",
                       result.ecn, result.id, result.echo, result.tcp_flags, result.tcp_window, result.cut)

    def send(self, vm: Any, uplink: Any, source: bytes, destination: bytes, **fields: Any) -> Outcome:
        """Let a VM send a packet: 1514 bytes of UDP in IPv4, ECT(0), unless fields say otherwise."""
        self._fill(source, destination, fields)
        self.lib.shim_lab_send(vm, uplink, self.packet, self.result)
        return self._outcome()

    def announce(self, vm: Any, uplink: Optional[Any], own: bytes, **fields: Any) -> None:
        """Let a VM say that it has an address, by ARP or a neighbour advertisement; no uplink: to another port."""
        self._fill(own, own, fields)
        self.lib.shim_lab_announce(vm, self.ffi.NULL if uplink is None else uplink, self.packet)

    def receive(self, vm: Any, uplink: Any, source: bytes, destination: bytes, **fields: Any) -> Outcome:
        """Bring a packet from an uplink to a VM."""
        self._fill(source, destination, fields)
        self.lib.shim_lab_receive(vm, uplink, self.packet, self.result)
        return self._outcome()

    def message(self, vm: Any, uplink: Optional[Any], source: bytes, destination: bytes, data: bytes) -> str:
        """Bring a control message, from the bridge itself with uplink None; return the counter's name in lower case."""
        counter = self.lib.shim_lab_message(vm, self.ffi.NULL if uplink is None else uplink, source, destination, data,
                                            len(data))
        return self.names[counter][len("SHIM_"):].lower()

    def message_within(self, vm: Any, uplink: Any, source: bytes, destination: bytes, data: bytes, vlan: int = 0,
                       tunnel_id: int = 0) -> str:
        """As message(), of one whose VLAN (protocol << 16 | tag) and tunnel on the uplink are known; 0: none."""
        counter = self.lib.shim_lab_message_within(vm, uplink, source, destination, vlan, tunnel_id, data, len(data))
        return self.names[counter][len("SHIM_"):].lower()

    def tick(self) -> int:
        return int(self.lib.shim_lab_tick(self.lab))

    def due(self) -> int:
        """Return when the next clock is to tick, ns; 0: none is."""
        return int(self.lib.shim_lab_due(self.lab))

    def pass_time(self, ns: int) -> None:
        """Let time go by, and tick when that is due. Reports that the engine builds stay in it."""
        end_ns = self.now_ns + ns
        while 0 < self.due() <= end_ns:
            self.lib.shim_host_clock_ns = max(self.due(), self.now_ns)
            self.tick()
        self.lib.shim_host_clock_ns = end_ns

    def reports(self) -> List[Tuple[bytes, bytes, bytes]]:
        """Return source, destination and data of the reports that were built."""
        report = self.ffi.new("struct shim_lab_report *")
        found = []
        while self.lib.shim_lab_report(self.lab, report):
            found.append((bytes(report.source), bytes(report.destination), bytes(report.data)))
        return found

    def counter(self, vm: Any, name: str) -> int:
        """Read a counter of a VM by its name in lower case."""
        return int(self.lib.shim_lab_counter(vm, self.numbers[f"SHIM_{name.upper()}"]))

    def _read(self, type_name: str, read: Any, *words: Any) -> Optional[SimpleNamespace]:
        found = self.ffi.new(f"{type_name} *")
        if not read(*words, found):
            return None
        return SimpleNamespace(**{name: getattr(found, name) for name, _ in self.ffi.typeof(type_name).fields})

    def limiter(self, vm: Any, uplink: Any) -> Any:
        return self._read("struct shim_lab_limiter", self.lib.shim_lab_read_limiter, vm, uplink)

    def peer(self, vm: Any, remote: bytes) -> Any:
        return self._read("struct shim_lab_peer", self.lib.shim_lab_read_peer, vm, remote)

    def moved(self, vm: Any, since_ns: int) -> List[bytes]:
        """Return the addresses of the peers that had a packet at a time or later, as the engine tells."""
        room = self.peers(vm) + 1
        addresses = self.ffi.new("u8[]", 16 * room)
        count = int(self.lib.shim_lab_moved(vm, since_ns, addresses, room))
        return [bytes(addresses[16 * number:16 * number + 16]) for number in range(count)]

    def peers(self, vm: Any) -> int:
        return int(self.lib.shim_lab_peers(vm))

    def connections(self, vm: Any) -> Tuple[int, int, int]:
        """Return how many connections of a VM are opening, closed and open."""
        opening, closed, is_open = (int(self.lib.shim_lab_connections(vm, rank)) for rank in range(3))
        return opening, closed, is_open


def excess(passed: List[Tuple[int, int]], rate: float) -> float:
    """Return the most bytes by which any span of time exceeds rate * t."""
    worst = over = 0.0
    last = passed[0][0]
    for time_ns, size in sorted(passed):
        over = max(over - (time_ns - last) * rate / SECOND, 0.0) + size
        last, worst = time_ns, max(worst, over)
    return worst
