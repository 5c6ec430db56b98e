# SPDX-License-Identifier: Apache-2.0
"""Which virtual machine a name means: its id, MAC, IP address, port name, OpenStack port id, place or cloud's name.

An id that is a UUID may be named by its beginning, and a place's datapath id without its leading zeros. The names that
the cloud has for its port and its server are its tenant's choice, so they count where nothing else fits only. So do ids
and names of the subports of its trunk; before all these, floating addresses, which the cloud gives.

MAC and IP addresses are as learned from traffic, so a machine can take another's; when a name fits more than
one machine none is chosen.
"""

import ipaddress
import re
from typing import Iterable, Optional

from sdngcc.controller.network.directory import CloudPort
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.relations import Host, Relations
from sdngcc.controller.rest import models
from sdngcc.controller.rest.resource import RestContext, dpid_text, refuse

CANDIDATES_MAX = 20
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_BEGINNING = re.compile(r"[0-9a-f-]{4,36}")
_PLACE = re.compile(r"([0-9a-fA-F]{1,16}):(.+)")


def mac_text(mac: bytes) -> str:
    """Return an Ethernet address in the usual form."""
    return ":".join(f"{byte:02x}" for byte in mac)


def ip_text(address: bytes) -> str:
    """Return an address of 16 bytes (IPv4 mapped) in the usual form."""
    value = ipaddress.IPv6Address(address)
    return str(value.ipv4_mapped or value)


def range_text(address: bytes, bits: int) -> str:
    """Return a range of addresses of 16 bytes (IPv4 mapped) with so many bits in common: 10.0.0.0/24, or 10.0.0.1."""
    text = ip_text(address)
    length, whole = (bits, 128) if ":" in text else (bits - 96, 32)
    return text if length == whole else f"{text}/{length}"


def mac_bytes(text: str) -> Optional[bytes]:
    """Return an Ethernet address; None when the text is none."""
    return bytes.fromhex(text.replace(":", "")) if re.fullmatch(models.MAC_PATTERN[1:-1], text) else None


def ip_bytes(text: str) -> Optional[bytes]:
    """Return an address as 16 bytes, IPv4 mapped; None when the text is none."""
    try:
        value = ipaddress.ip_address(text)
    except ValueError:
        return None
    return value.packed if value.version == 6 else ipaddress.IPv6Address(f"::ffff:{value}").packed


def macs(relations: Relations, keys: Iterable[bytes]) -> list[str]:
    """Return the Ethernet addresses of hosts, as far as they are known, as text."""
    hosts = [relations.hosts.get(key) or Host(key, (0, 0), 0) for key in keys]
    known = [host.ethernet or host.mac for host in hosts]
    return [mac_text(mac) for mac in known if len(mac) == 6]


def has_mac(relations: Relations, vm: VmRecord, mac: bytes) -> bool:
    """Tell whether an Ethernet address was seen at a machine's port."""
    return any(mac in (host.mac, host.ethernet) for host in relations.hosts_at(vm.place))


def has_ip(relations: Relations, vm: VmRecord, address: bytes) -> bool:
    """Tell whether an address was seen at a machine's port."""
    return any(address in host.addresses for host in relations.hosts_at(vm.place))


def find_all(context: RestContext, name: str) -> list[VmRecord]:
    """Return the machines a name fits, by what fits first.

    That is place, id, port name or address, the beginning of an id, a floating address, the name in the cloud.
    """
    vms, place = context.vms(), _PLACE.fullmatch(name)
    named = [vm for vm in vms if place and vm.place[0] == int(place[1], 16) and vm.name == place[2]]
    named = named or [vm for vm in vms if vm.id == name]
    named = named or _find_by_port(context, vms, name) or _find_by_beginning(vms, name.lower())
    return named or _find_by_floating(context, vms, name) or _find_by_cloud(context, vms, name)


def floating(port: CloudPort) -> list[bytes]:
    """Return the floating addresses that are a port's own, first those that its host translates."""
    return list(dict.fromkeys((*(address for _, address in port.floating), *port.associated)))


def _find_by_floating(context: RestContext, vms: list[VmRecord], name: str) -> list[VmRecord]:
    """Return the machines one of whose ports the cloud gives a floating address."""
    directory, address = context.engine.directory, ip_bytes(name)
    if address is None:
        return []
    return [vm for vm in vms if any(address in floating(port) for port in directory.behind(vm.iface_id))]


def _find_by_cloud(context: RestContext, vms: list[VmRecord], name: str) -> list[VmRecord]:
    """Return the machines one of whose ports, or its server, the cloud calls so."""
    behind = context.engine.directory.behind
    return [vm for vm in vms if any(name in (port.id, port.name, port.server) for port in behind(vm.iface_id))]


def _find_by_beginning(vms: list[VmRecord], name: str) -> list[VmRecord]:
    """Return the machines whose id is a UUID that begins so."""
    if not _BEGINNING.fullmatch(name):
        return []
    return [vm for vm in vms if vm.id.lower().startswith(name) and _UUID.fullmatch(vm.id.lower())]


def _find_by_port(context: RestContext, vms: list[VmRecord], name: str) -> list[VmRecord]:
    """Return the machines whose port has a name, or an address."""
    relations, mac, address = context.engine.relations, mac_bytes(name), ip_bytes(name)
    return [
        vm
        for vm in vms
        if vm.name == name
        or (mac is not None and has_mac(relations, vm, mac))
        or (address is not None and has_ip(relations, vm, address))
    ]


class Finder:
    """Finds many machines one after the other, with other work in between."""

    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._by_place: dict[tuple[int, str], VmRecord] = {}
        self._by_id: dict[str, list[VmRecord]] = {}
        for vm in context.vms():
            self._by_place[vm.place[0], vm.name] = vm
            self._by_id.setdefault(vm.id, []).append(vm)

    def find(self, name: str, field: str) -> VmRecord:
        """Return the machine a name means; one that fits none or several is refused, as the field of a request."""
        place = _PLACE.fullmatch(name)
        named = self._by_place.get((int(place[1], 16), place[2])) if place else None
        if named is not None:
            return named
        if len(self._by_id.get(name, ())) == 1:
            return self._by_id[name][0]
        self._context.pause()
        return find(self._context, name, field)


def find(context: RestContext, name: str, field: str = "vm") -> VmRecord:
    """Return the machine a name means; one that fits none or several is refused, as the field of a request."""
    found = find_all(context, name)
    if len(found) == 1:
        return found[0]
    if not found:
        raise refuse(
            404,
            f'no virtual machine has the id, MAC, IP address, port name or name in the cloud "{name}", '
            "or a UUID that begins so",
            field=field,
            allowed="what GET /v1/vms lists",
        )
    shown = [candidate(context, vm) for vm in found[:CANDIDATES_MAX]]
    raise refuse(
        409,
        f'"{name}" fits {len(found)} virtual machines',
        field=field,
        allowed="the id or the place of one: " + ", ".join(one.place for one in shown),
        candidates=shown,
    )


def candidate(context: RestContext, vm: VmRecord) -> models.Candidate:
    """Return a machine as a refusal lists it."""
    hosts = context.engine.relations.hosts_at(vm.place)
    return models.Candidate(
        id=vm.id,
        switch=dpid_text(vm.place[0]),
        port_name=vm.name,
        place=vm.bridge_id,
        macs=macs(context.engine.relations, [host.mac for host in hosts]),
        addresses=sorted(ip_text(address) for host in hosts for address in host.addresses),
    )
