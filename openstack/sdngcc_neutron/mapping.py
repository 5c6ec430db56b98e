# SPDX-License-Identifier: Apache-2.0
"""What Neutron says about a port, as keys that ovs-vswitchd reads for the shim.

Neutron counts in kbit/s, 1000 bit/s each, and 0 or None is no rule; the shim's keys are in bit/s, and a key that is
missing is no rule. Only what a VM sends is the shim's business: Neutron calls that direction egress.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

ROLE, WEIGHT, MIN_RATE, MAX_RATE, ADDRESSES, TENANT = (
    "shim-role", "shim-weight", "shim-min-rate", "shim-max-rate", "shim-addresses", "shim-tenant")
KEYS = (ROLE, WEIGHT, MIN_RATE, MAX_RATE, ADDRESSES, TENANT)
"""Keys that are written, and removed where there is no reason for them; other ``shim-`` keys are the operator's."""

# Ranges of ovs-vswitchd.conf.db(5) of the patched build.
WEIGHT_MAX = 65535
RATE_MAX_BPS = 800_000_000_000
ADDRESSES_MAX = 256
# Of the controller, which alone uses the tenant; ovs-vswitchd refuses the same names (ovs-vswitchd.conf.db(5)).
TENANT_NAME = re.compile("[!-$&-~]{1,64}")

BPS_PER_KBPS = 1000

ANY_ADDRESS = frozenset((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
"""A port without port security may send from any address."""

# Owners of ports that carry the traffic of others or of the cloud itself: routers, DHCP and metadata servers.
INFRASTRUCTURE = ("network:", "neutron:")


@dataclass(frozen=True)
class Limits:
    """What a QoS policy allows a port to send, in kbit/s; 0: nothing said."""

    min_kbps: int = 0
    max_kbps: int = 0


@dataclass(frozen=True)
class Member:
    """A Neutron port: all of a VM's port, or parent or subport of a trunk that the VM's port carries."""

    limits: Limits = Limits()
    addresses: FrozenSet[Network] = ANY_ADDRESS
    """Networks that it may send from, single addresses as those of 32 or 128 bits."""
    infrastructure: bool = False
    """Owned by the cloud itself: the shim leaves it alone."""
    project: str = ""
    """Id of the project it belongs to; empty: not known."""


@dataclass(frozen=True)
class Settings:
    """The keys of an interface, and what of the wishes could not be met, one sentence each."""

    keys: Mapping[str, str]
    remarks: Tuple[str, ...] = ()


def is_infrastructure(device_owner: Optional[str]) -> bool:
    """Tell whether a port with this owner is a router's, a DHCP server's or another one of the cloud itself."""
    return (device_owner or "").startswith(INFRASTRUCTURE)


def limits_of(rules: Iterable[Any]) -> Limits:
    """Return what rules of a QoS policy say about sending.

    rules: those of Neutron's objects that apply to the port, with ``rule_type`` and, by type, ``direction``,
    ``max_kbps`` and ``min_kbps``. Rules of other types or of what the port receives are passed by.
    """
    found: Dict[str, int] = {}
    for rule in rules:
        if getattr(rule, "direction", None) != "egress":
            continue
        if rule.rule_type == "bandwidth_limit":
            found["max_kbps"] = rule.max_kbps or 0
        elif rule.rule_type == "minimum_bandwidth":
            found["min_kbps"] = rule.min_kbps or 0
    return Limits(**found)


def link_local(mac: str) -> Network:
    """Return the link-local IPv6 address that stands for a MAC address (RFC 4291, appendix A)."""
    octets = [int(octet, 16) for octet in mac.replace("-", ":").split(":")]
    interface = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return ipaddress.ip_network(b"\xfe\x80" + bytes(6) + interface)


def sources(macs: Iterable[str], addresses: Iterable[str], port_security: bool) -> FrozenSet[Network]:
    """Return what a port may send from, as Neutron's firewall drivers see it.

    macs: the port's and those of its allowed address pairs; each stands for a link-local address too.
    addresses: fixed addresses and allowed address pairs, the latter perhaps with a prefix length.
    Raises ValueError for what is neither address nor network.
    """
    if not port_security:
        return ANY_ADDRESS
    return frozenset([*(link_local(mac) for mac in macs),
                      *(ipaddress.ip_network(address, strict=False) for address in addresses)])


def interface_settings(members: Sequence[Member], weight_unit_kbps: int) -> Settings:
    """Return the keys of the interface that carries members: one port, or a trunk's parent and subports.

    weight_unit_kbps: the guarantee that weight 1 stands for; 0: no weight is written. The shim limits what enters by
    one interface, so members are limited together: guarantees add up, and ceilings do where every member has one.
    """
    if any(member.infrastructure for member in members):
        return Settings({ROLE: "none"})
    keys: Dict[str, str] = {}
    remarks: List[str] = []
    min_kbps = sum(member.limits.min_kbps for member in members)
    ceilings = [member.limits.max_kbps for member in members if member.limits.max_kbps]
    max_kbps = sum(ceilings) if len(ceilings) == len(members) else 0
    if ceilings and not max_kbps:
        remarks.append(f"{len(members) - len(ceilings)} of the trunk's {len(members)} ports have no ceiling, "
                       f"so the interface that carries them has none")
    if max_kbps and min_kbps > max_kbps:
        remarks.append(f"the guarantee of {min_kbps} kbit/s is above the ceiling and is lowered to {max_kbps}")
        min_kbps = max_kbps
    if max_kbps * BPS_PER_KBPS > RATE_MAX_BPS:
        remarks.append(f"the ceiling of {max_kbps} kbit/s is above what the shim can limit, so there is none")
        max_kbps = 0
    if min_kbps * BPS_PER_KBPS > RATE_MAX_BPS:
        min_kbps = RATE_MAX_BPS // BPS_PER_KBPS
        remarks.append(f"the guarantee is lowered to {min_kbps} kbit/s, the most that the shim can give")
    if min_kbps:
        keys[MIN_RATE] = str(min_kbps * BPS_PER_KBPS)
        if weight_unit_kbps:
            keys[WEIGHT] = str(min(max((2 * min_kbps + weight_unit_kbps) // (2 * weight_unit_kbps), 1), WEIGHT_MAX))
    if max_kbps:
        keys[MAX_RATE] = str(max_kbps * BPS_PER_KBPS)
    addresses = _merged(network for member in members for network in member.addresses)
    if len(addresses) <= ADDRESSES_MAX:
        keys[ADDRESSES] = " ".join(addresses)
    else:
        remarks.append(f"{len(addresses)} networks are too many, the shim takes {ADDRESSES_MAX}: none are set, so "
                       f"addresses belong to who sends from them first")
    projects = {member.project for member in members}
    if len(projects) > 1:
        remarks.append("the ports of the trunk belong to several projects, so the interface counts to no tenant")
    elif projects != {""}:
        (project,) = projects
        if TENANT_NAME.fullmatch(project):
            keys[TENANT] = project
        else:
            remarks.append(f"the project's id {project!r} names no tenant; 1 to 64 visible ASCII characters without "
                           "spaces and % do")
    return Settings(keys, tuple(remarks))


def _merged(networks: Iterable[Network]) -> List[str]:
    """Return networks without those that others contain, in order, single addresses without prefix length.

    Neighbours are not joined: the shim reserves a single address for its VM, a wider network it does not.
    """
    kept: List[Network] = []
    for network in sorted(set(networks), key=lambda one: (one.version, int(one.network_address), one.prefixlen)):
        last = kept[-1] if kept else None
        if last is None or last.version != network.version or not network.subnet_of(last):  # type: ignore[arg-type]
            kept.append(network)
    return [str(network.network_address) if network.num_addresses == 1 else str(network) for network in kept]


@dataclass(frozen=True)
class Change:
    """What is to be written to and removed from an interface's external_ids."""

    put: Mapping[str, str]
    remove: Tuple[str, ...]

    def __bool__(self) -> bool:
        """Tell whether there is anything to do."""
        return bool(self.put or self.remove)


def change(external_ids: Mapping[str, str], keys: Mapping[str, str]) -> Change:
    """Return how to come from external_ids to keys."""
    put = {key: value for key, value in keys.items() if external_ids.get(key) != value}
    return Change(put, tuple(key for key in KEYS if key in external_ids and key not in keys))
