# SPDX-License-Identifier: Apache-2.0
"""What databases of the cloud say of ports: names, addresses, networks and tenants, by external_ids:iface-id.

Where a port is (bridge, name, device) only its hypervisor's own database says. Of several databases of the cloud the
first of SOURCES that has a value counts, value by value: OVN's knows what is on the wire.

A subport of a trunk has no interface of its own: its frames pass by that of the trunk's parent port, with a VLAN. So
what is known of it belongs to the machine that has the parent port.

Databases are read by processes of their own, which tell one port after the other; so nothing in here takes longer when
there are many ports. What a reader that begins anew does not mention any more goes once it has told everything.
"""

import collections
import ipaddress
import re
import unicodedata
from typing import Any, Literal, NamedTuple, Optional, get_args

from sdngcc.controller.wire.packets import mapped

Source = Literal["ovn", "neutron"]
SOURCES: tuple[Source, ...] = get_args(Source)

Segment = tuple[int, int]  # VLAN and tunnel's key on the wire; 0: none

PORTS_MAX = 32_768  # of one database
TEXT_MAX = 255  # characters of an id or a name
MACS_MAX = 16  # of a port
ADDRESSES_MAX = 32
ALLOWED_MAX = 32  # ranges of addresses that a port may use beside
FLOATING_MAX = 32
SUBPORTS_MAX = 512  # of one trunk


class Allowed(NamedTuple):
    """Addresses that port security lets a port use beside its own; other ports may be allowed the same."""

    address: bytes  # 16 bytes, IPv4 mapped; the first one of the range
    bits: int  # that the addresses of the range have in common, 0 to 128
    mac: bytes = b""  # with which they are used; empty: the port's own


class Trunk(NamedTuple):
    """By whose interface a subport's frames pass, and with which VLAN there."""

    parent: str
    vlan: int


class CloudPort(NamedTuple):
    """A port, as a database of the cloud has it. An empty text or tuple: it does not say."""

    id: str  # external_ids:iface-id of the interface that is this port
    name: str = ""
    device: str = ""  # id of the server it belongs to
    network: str = ""  # name
    network_id: str = ""
    segments: tuple[Segment, ...] = ()  # by which its network is reached
    macs: tuple[bytes, ...] = ()  # 6 bytes each
    addresses: tuple[bytes, ...] = ()  # 16 bytes each, IPv4 mapped
    tenant: str = ""
    trunk: Optional[Trunk] = None  # of a subport
    allowed: tuple[Allowed, ...] = ()
    floating: tuple[tuple[Segment, bytes], ...] = ()  # addresses that its host translates to it, by what they leave
    server: str = ""  # name of the server it belongs to
    associated: tuple[bytes, ...] = ()  # floating addresses that are its own, whoever translates them; 16 bytes each


class Directory:
    """Ports by id. ``version`` changes whenever something of any port does."""

    def __init__(self) -> None:
        self.version = 0
        self.tenants: collections.Counter[str] = collections.Counter()  # ports by tenant
        self._ports: dict[Source, dict[str, CloudPort]] = {source: {} for source in SOURCES}
        self._unconfirmed: dict[Source, dict[str, None]] = {source: {} for source in SOURCES}
        self._merged: dict[str, CloudPort] = {}
        self._subports: dict[str, dict[str, None]] = {}  # of the trunk of each parent port

    def find(self, port_id: Optional[str]) -> Optional[CloudPort]:
        """Return a port, None when no database of the cloud has it."""
        return None if port_id is None else self._merged.get(port_id)

    def behind(self, port_id: Optional[str]) -> tuple[CloudPort, ...]:
        """Return what is known of all ports whose frames pass by a port's interface: its own first, then subports."""
        if port_id is None:
            return ()
        own = self._merged.get(port_id)
        subports = self._subports.get(port_id)
        if subports is None:
            return () if own is None else (own,)
        return (*(() if own is None else (own,)), *map(self._merged.__getitem__, subports))

    def count(self, source: Source) -> int:
        """Return how many ports are known of a database."""
        return len(self._ports[source])

    def begin(self, source: Source) -> None:
        """Take note that a reader begins anew: it tells all ports that there are."""
        self._unconfirmed[source] = dict.fromkeys(self._ports[source])

    def unmentioned(self, source: Source) -> list[str]:
        """Return the ports that were not mentioned since the reader began; drop() them once it has told all."""
        found, self._unconfirmed[source] = list(self._unconfirmed[source]), {}
        return found

    def take(self, source: Source, port: CloudPort) -> bool:
        """Take what a database says of a port; return False when it, or a trunk, has too many."""
        ports = self._ports[source]
        before = ports.get(port.id)
        if before is None and len(ports) >= PORTS_MAX:
            return False
        there = self._subports.get(port.trunk.parent, {}) if port.trunk else {}
        if len(there) >= SUBPORTS_MAX and port.id not in there:
            return False
        self._unconfirmed[source].pop(port.id, None)
        if before != port:
            ports[port.id] = port
            self._merge(port.id)
        return True

    def drop(self, source: Source, port_id: str) -> None:
        """Forget what a database said of a port."""
        self._unconfirmed[source].pop(port_id, None)
        if self._ports[source].pop(port_id, None) is not None:
            self._merge(port_id)

    def _merge(self, port_id: str) -> None:
        said = [ports[port_id] for ports in self._ports.values() if port_id in ports]
        before = self._merged.pop(port_id, None)
        after = _together(said) if said else None
        if after is not None:
            self._merged[port_id] = after
        self.version += 1
        if before is not None and before.trunk is not None:
            there = self._subports[before.trunk.parent]
            del there[port_id]
            if not there:
                del self._subports[before.trunk.parent]
        if after is not None and after.trunk is not None:
            self._subports.setdefault(after.trunk.parent, {})[port_id] = None
        old, new = (one.tenant if one else "" for one in (before, after))
        if old != new:
            if old:
                self.tenants[old] -= 1
                if not self.tenants[old]:
                    del self.tenants[old]
            if new:
                self.tenants[new] += 1


def _together(said: list[CloudPort]) -> CloudPort:
    """Return of each value the first one that says something."""
    columns: list[tuple[Any, ...]] = list(zip(*said))
    return CloudPort(*(next((value for value in values if value), values[0]) for values in columns))


def clean_text(text: object) -> str:
    """Return a name or id without what a terminal would obey, cut at TEXT_MAX; raises ValueError when it is no text."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.40} is no text")
    return "".join("\ufffd" if unicodedata.category(one)[0] == "C" else one for one in text[:TEXT_MAX])


def mac_of(text: str) -> Optional[bytes]:
    """Return an Ethernet address, None when the text is none."""
    known = re.fullmatch("(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", text)
    return bytes.fromhex(text.replace(":", "")) if known else None


def address_of(text: str) -> Optional[bytes]:
    """Return an IP address in 16 bytes, None when the text is none; a prefix length behind it is left out."""
    try:
        address = ipaddress.ip_address(text.split("/")[0])
    except ValueError:
        return None
    return mapped(address.packed) if address.version == 4 else address.packed


def allowed_of(text: str, mac: bytes = b"") -> Optional[Allowed]:
    """Return the addresses that a text means, an address or a network such as 10.0.0.0/24; None when it means none."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    first = network.network_address.packed
    if network.version == 4:
        return Allowed(mapped(first), 96 + network.prefixlen, mac)
    return Allowed(first, network.prefixlen, mac)
