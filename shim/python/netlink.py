# SPDX-License-Identifier: Apache-2.0
"""Client of the kernel's generic netlink family ovs_shim: settings, ports and limiters of the shim.

    with ShimClient() as shim:
        shim.settings_set(law="sdngcc", knobs={"cut-full-ppm": 100000})
        shim.port_set("s1-eth1", role="uplink", capacity=125_000_000)
        for limiter in shim.limiters():
            print(limiter.vm, limiter.rate)

Rates are bytes/s, times ns, as in the kernel. A client sees the network namespace it was made in, and needs
CAP_NET_ADMIN there. Every error is a ShimError: ShimMissing when the kernel has no
shim, ShimRefused with the kernel's own words when it refuses; what was in force then stays in force.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkDumpInterrupted, NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from sdngcc.shim.attributes import LimiterMessage, PathMessage, PeerMessage, PortMessage, SettingsMessage

FAMILY = "ovs_shim"
VERSION = 1

# Commands, enum ovs_shim_cmd.
(SETTINGS_GET, SETTINGS_SET, PORT_GET, PORT_SET, PORT_DEL, LIMITER_GET, PEER_GET, PEER_SET, PEER_DEL,
 MESSAGE, PATH_GET) = range(1, 12)

# Values of the role, limiter and qdisc attributes, in the kernel's order.
ROLES = ("none", "vm", "uplink")
LIMITERS = ("police", "pace")
QDISCS = ("unknown", "fit", "unfit")

# Before an IPv4 address in 16 bytes, and its bits.
MAPPED = bytes(10) + b"\xff\xff"
MAPPED_BITS = 96

# Bytes of a SipHash key.
KEY_BYTES = 16

# Times a dump is begun again when ports came or went while it ran.
DUMP_TRIES = 8


class ShimError(Exception):
    """Something about the shim went wrong; the text says what."""


class ShimMissing(ShimError):
    """The running kernel's openvswitch module has no shim, or is not loaded."""


class ShimRefused(ShimError):
    """The kernel refused a request; what was in force stays in force.

    code is the errno value, such as errno.ERANGE.
    """

    def __init__(self, code: int, text: str) -> None:
        """Keep the kernel's errno value and its words."""
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Knob:
    """A parameter of a law."""

    name: str
    value: int  # in unit
    default: int  # in unit
    minimum: int  # smallest value the kernel accepts
    maximum: int  # largest value the kernel accepts
    unit: str
    help: str  # what it does and what 0 means
    source: str  # paper and section, or "ours"


@dataclass(frozen=True)
class Settings:
    """What a namespace's operator has set."""

    law: str  # of VMs that have none of their own; "none": the shim is off for them
    of: str  # the law that period and knobs are of
    period: int  # T of that law, ns; 0 of "none"
    limiter: str  # "police" or "pace"
    burst: int  # depth of a policing bucket, bytes
    burst_us: int  # what a rate sends in it may leave in one go, us
    horizon: int  # longest wait of a paced packet, ns
    ecn: bool  # Not-ECT packets are made ECT, and given back
    inactive: int  # T_o, ns
    protocol: int  # IP protocol of control messages
    accept_v0: bool  # unauthenticated v0 messages are accepted
    key_set: bool  # a SipHash key is set; the key itself cannot be read
    peers_max: int  # peers a VM may have, under a law that wants them
    peer_idle: int  # silence after which a peer is collected, ns
    knobs: Dict[str, Knob] = field(default_factory=dict)  # of the law `of`, by name
    laws: Tuple[str, ...] = ()  # the laws there are
    key_other_set: bool = False  # a second key is set, whose messages are accepted
    codepoint: int = 1  # which ECT(x) the shim makes, 0 or 1
    waiting_max: int = 0  # packets of a VM that may wait on one uplink; 0: their number is not bounded
    other_key_senders: Dict[int, int] = field(default_factory=dict)  # under the second key: id, s since last heard
    conversations: bool = False  # VMs have peers under laws that want none, too
    ahead: bool = False  # small packets and young flows, none of whose packets wait, leave ahead of those that wait


@dataclass(frozen=True)
class Port:
    """What a device of a datapath is to the shim, and what it counted."""

    ifindex: int
    name: str
    role: str  # "vm" or "uplink"
    weight: Optional[int] = None  # VM
    min_rate: Optional[int] = None  # VM: guarantee, bytes/s; 0: none
    max_rate: Optional[int] = None  # VM: ceiling, bytes/s; 0: none
    capacity: Optional[int] = None  # uplink: bytes/s; 0: the device's link speed
    law: Optional[str] = None  # VM: its own law; "default": that of the settings
    stats: Dict[str, int] = field(default_factory=dict)  # counters by name; packets, or what the name says
    addresses: Tuple[str, ...] = ()  # VM: what it may send from, "10.0.0.1" or "10.0.0.0/24"; (): none set
    qdisc: Optional[str] = None  # uplink: "fit" or "unfit" to obey departure times, or "unknown"
    overhead: Optional[int] = None  # uplink: bytes on the wire beyond each packet's own; to set 0: the device's


@dataclass(frozen=True)
class Limiter:
    """The limiter of one VM on one uplink."""

    vm: int  # ifindex
    uplink: int  # ifindex
    rate: int  # R(i,j), bytes/s
    share: int  # E(i) of this VM, bytes/s
    sent_rate: int  # measured over the last period, bytes/s
    tx_bytes: int
    tx_packets: int
    drops: int  # packets, police and horizon
    active: bool  # sent something in the last T_o
    congested: bool  # a message came less than T_c ago
    time: int  # of the reading, CLOCK_MONOTONIC, ns
    weight: int  # of the VM, as all below
    min_rate: int  # guarantee, bytes/s; 0: none
    max_rate: int  # ceiling, bytes/s; 0: none
    messages: int  # control messages accepted
    message_marks: int  # marks they carried
    refused: int  # control messages refused, all reasons


@dataclass(frozen=True)
class Peer:
    """What one VM exchanges with one address, under a law that wants peers or with `conversations`."""

    vm: int  # ifindex
    address: str  # of the other end, "10.0.0.1" or "fd00::1"
    weight: int  # set by the operator; 0: none, the peer is collected when idle
    rate: int  # to this peer, bytes/s; 0: only the VM's own rate bounds it
    tx_bytes: int
    tx_packets: int
    drops: int  # packets over the rate to this peer
    rx_bytes: int
    rx_packets: int
    rx_marks: int  # packets received with CE
    time: int  # of the reading, CLOCK_MONOTONIC, ns
    local: str = "::"  # the VM's own address, as the uplink has it
    uplink: int = 0  # ifindex; 0: unknown
    vlan: int = 0  # the VLAN it is reached by; 0: untagged
    tunnel: Optional[str] = None  # far end of the tunnel; None: there is none
    tunnel_id: int = 0  # key of the tunnel


@dataclass(frozen=True)
class Path:
    """A part of what one VM sends, of which controllers told."""

    vm: int  # ifindex
    prefix: str  # "10.0.0.1", "10.0.0.0/24" or the like in IPv6; "": the rest, what no other path takes
    tunnel: bool  # the prefix is one of tunnels' far ends, not of destinations
    rate: int  # bytes/s
    sent_rate: int  # measured over the last period, bytes/s
    tx_bytes: int
    tx_packets: int
    held: int  # packets that its bucket let wait, or dropped
    limited: bool  # some were in the last period
    time: int  # of the reading, CLOCK_MONOTONIC, ns


def _packed(address: str) -> bytes:
    """Return the 16 bytes of an IPv6 or IPv4-mapped address; ValueError if it is neither."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError as error:
        raise ValueError(f"address: '{address}' is no IPv4 or IPv6 address; what is in force stays") from error
    return parsed.packed if parsed.version == 6 else MAPPED + parsed.packed


def _unpacked(address: bytes) -> str:
    """Return an address of 16 bytes as text, IPv4-mapped ones as IPv4."""
    parsed = ipaddress.IPv6Address(address)
    return str(parsed.ipv4_mapped or parsed)


def _range(text: str) -> Tuple[bytes, int]:
    """Return the 16 bytes and prefix length of "10.0.0.1", "10.0.0.0/24" or the like in IPv6.

    ValueError if it is no such text, or has bits beyond its prefix.
    """
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"addresses: {error}; what is in force stays") from error
    mapped = MAPPED_BITS if network.version == 4 else 0
    return _packed(str(network.network_address)), mapped + network.prefixlen


def _range_text(value: bytes, prefix: int) -> str:
    """Return the text of _range(): an address alone where the prefix covers all of it."""
    if prefix >= MAPPED_BITS and value.startswith(MAPPED):
        address, prefix, whole = str(ipaddress.IPv4Address(value[len(MAPPED):])), prefix - MAPPED_BITS, 32
    else:
        address, whole = str(ipaddress.IPv6Address(value)), 128
    return address if prefix == whole else f"{address}/{prefix}"


def _attributes(message: Any, prefix: str) -> Dict[str, Any]:
    """Return a message's or nest's attributes by their names without prefix, in lower case."""
    return {name[len(prefix):].lower(): value for name, value in message["attrs"]
            if name.startswith(prefix) and not name.endswith(("_PAD", "_UNSPEC"))}


def _number(choices: Tuple[str, ...], what: str, name: str) -> int:
    """Return the kernel's number for a name; ValueError names what is allowed."""
    if name not in choices:
        raise ValueError(f"{what}: '{name}' is not allowed, {', '.join(choices)} are; what is in force stays")
    return choices.index(name)


def _knob(nest: Any) -> Knob:
    """Return a knob from its nest."""
    got = _attributes(nest, "OVS_SHIM_KNOB_")
    return Knob(name=got["name"], value=got["value"], default=got["default"], minimum=got["min"],
                maximum=got["max_value"], unit=got["unit"], help=got["help"], source=got["source"])


class ShimClient:
    """A generic netlink socket of the family ovs_shim; usable as a context manager. Not thread-safe."""

    def __init__(self) -> None:
        """Open the socket in this process's network namespace; ShimMissing if the kernel has no shim."""
        self._socket = GenericNetlinkSocket(ext_ack=True, strict_check=True)
        self._socket.asyncore.module_err_level = "debug"
        try:
            self._socket.bind(FAMILY, SettingsMessage)
        except NetlinkError as error:
            self._socket.close()
            if error.code != errno.ENOENT:
                raise ShimError(f"cannot ask for {FAMILY}: {os.strerror(error.code)}") from error
            raise ShimMissing(
                f"the kernel has no generic netlink family {FAMILY}: neither an openvswitch with the shim is loaded "
                "nor sdngcc (`modprobe openvswitch` or `modprobe sdngcc`, then `genl ctrl list`)") from error

    def __enter__(self) -> ShimClient:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the socket."""
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def settings_get(self, of: Optional[str] = None) -> Settings:
        """Return the settings in force, with period and knobs of a law, by default the law in force."""
        attrs = [] if of is None else [("OVS_SHIM_SETTINGS_OF", of)]
        got = _attributes(self._request(SettingsMessage, SETTINGS_GET, attrs)[0], "OVS_SHIM_SETTINGS_")
        knobs = [_knob(nest) for nest in got["knobs"].get_attrs("OVS_SHIM_KNOBS_KNOB")]
        senders = [_attributes(nest, "OVS_SHIM_SENDER_") for nest in
                   got["other_key_senders"].get_attrs("OVS_SHIM_SENDERS_SENDER")] if "other_key_senders" in got else []
        return Settings(
            law=got["law"], of=got["of"], period=got["period"], limiter=LIMITERS[got["limiter"]], burst=got["burst"],
            burst_us=got["burst_us"], horizon=got["horizon"], ecn=bool(got["ecn"]),
            inactive=got["inactive"], protocol=got["protocol"], accept_v0=bool(got["accept_v0"]),
            key_set="key_set" in got, peers_max=got["peers_max"], peer_idle=got["peer_idle"],
            knobs={knob.name: knob for knob in knobs}, laws=tuple(got["laws"].get_attrs("OVS_SHIM_LAWS_NAME")),
            key_other_set="key_other_set" in got, codepoint=got.get("codepoint", 1),
            waiting_max=got.get("waiting_max", 0), conversations=bool(got.get("conversations", 0)),
            ahead=bool(got.get("ahead", 0)),
            other_key_senders={sender["id"]: sender["silent"] for sender in senders})

    def settings_set(self, *, law: Optional[str] = None, period: Optional[int] = None,
                     limiter: Optional[str] = None, burst: Optional[int] = None, burst_us: Optional[int] = None,
                     horizon: Optional[int] = None, ecn: Optional[bool] = None,
                     inactive: Optional[int] = None, protocol: Optional[int] = None,
                     accept_v0: Optional[bool] = None, key: Optional[bytes] = None,
                     peers_max: Optional[int] = None, peer_idle: Optional[int] = None, of: Optional[str] = None,
                     knobs: Optional[Mapping[str, int]] = None, key_other: Optional[bytes] = None,
                     codepoint: Optional[int] = None, waiting_max: Optional[int] = None,
                     conversations: Optional[bool] = None, ahead: Optional[bool] = None) -> None:
        """Change the settings named, all or none; the fields of Settings say what they are.

        key and key_other are 16 bytes, all zero for none. period and knobs are those of the law `of`, by default of
        the law then in force; each law keeps its own. ShimRefused when the kernel refuses, ValueError for a limiter
        it has no number for.
        """
        values = {
            "LAW": law, "PERIOD": period, "LIMITER": None if limiter is None else _number(LIMITERS, "limiter", limiter),
            "BURST": burst, "BURST_US": burst_us, "HORIZON": horizon, "ECN": None if ecn is None else int(ecn),
            "INACTIVE": inactive, "PROTOCOL": protocol, "PEERS_MAX": peers_max, "PEER_IDLE": peer_idle, "OF": of,
            "ACCEPT_V0": None if accept_v0 is None else int(accept_v0), "KEY": key, "KEY_OTHER": key_other,
            "CODEPOINT": codepoint, "WAITING_MAX": waiting_max,
            "CONVERSATIONS": None if conversations is None else int(conversations),
            "AHEAD": None if ahead is None else int(ahead),
        }
        attrs: List[Any] = [(f"OVS_SHIM_SETTINGS_{name}", value) for name, value in values.items()
                            if value is not None]
        if knobs:
            nests = [("OVS_SHIM_KNOBS_KNOB",
                      {"attrs": [("OVS_SHIM_KNOB_NAME", name), ("OVS_SHIM_KNOB_VALUE", value)]})
                     for name, value in knobs.items()]
            attrs.append(("OVS_SHIM_SETTINGS_KNOBS", {"attrs": nests}))
        self._request(SettingsMessage, SETTINGS_SET, attrs)

    def ports(self) -> List[Port]:
        """Return the ports that have a role, with their counters."""
        return [self._port(message) for message in self._dump(PortMessage, PORT_GET)]

    def port_get(self, device: Union[str, int]) -> Port:
        """Return a port, named by device name or ifindex; ShimRefused if it has no role."""
        return self._port(self._request(PortMessage, PORT_GET, [self._device(device)])[0])

    def port_set(self, device: Union[str, int], *, role: Optional[str] = None, weight: Optional[int] = None,
                 min_rate: Optional[int] = None, max_rate: Optional[int] = None,
                 capacity: Optional[int] = None, law: Optional[str] = None,
                 addresses: Optional[Sequence[str]] = None, overhead: Optional[int] = None) -> None:
        """Create or change a port, all that is named or nothing; the fields of Port say what they are.

        device is a device name or an ifindex. Role "none" takes the port back. addresses replace those set before; none
        at all takes them back. ShimRefused when the kernel refuses, ValueError for an unknown role or a text that is no
        address.
        """
        values = {"ROLE": None if role is None else _number(ROLES, "role", role), "WEIGHT": weight,
                  "MIN_RATE": min_rate, "MAX_RATE": max_rate, "CAPACITY": capacity, "LAW": law,
                  "OVERHEAD": overhead}
        attrs: List[Any] = [(f"OVS_SHIM_PORT_{name}", value) for name, value in values.items() if value is not None]
        if addresses is not None:
            nests = [("OVS_SHIM_ADDRESSES_ADDRESS",
                      {"attrs": [("OVS_SHIM_ADDRESS_VALUE", value), ("OVS_SHIM_ADDRESS_PREFIX", prefix)]})
                     for value, prefix in map(_range, addresses)]
            attrs.append(("OVS_SHIM_PORT_ADDRESSES", {"attrs": nests}))
        self._request(PortMessage, PORT_SET, [self._device(device), *attrs])

    def port_del(self, device: Union[str, int]) -> None:
        """Take a port's role and state back; ShimRefused if it has none."""
        self._request(PortMessage, PORT_DEL, [self._device(device)])

    def limiters(self) -> List[Limiter]:
        """Return the limiters of all pairs of a VM and an uplink that it has sent to."""
        limiters = []
        for message in self._dump(LimiterMessage, LIMITER_GET):
            got = _attributes(message, "OVS_SHIM_LIMITER_")
            got["active"], got["congested"] = bool(got["active"]), bool(got["congested"])
            limiters.append(Limiter(**got))
        return limiters

    def peers(self, since: Optional[int] = None) -> List[Peer]:
        """Return the peers of all VMs, or those that had a packet at a time or later (CLOCK_MONOTONIC, ns).

        While peers come and go one may be missing or told twice.
        """
        peers = []
        attrs = [] if since is None else [("OVS_SHIM_PEER_SINCE", since)]
        for message in self._dump(PeerMessage, PEER_GET, attrs):
            got = _attributes(message, "OVS_SHIM_PEER_")
            for name in ("address", "local", "tunnel"):
                if name in got:
                    got[name] = _unpacked(got[name])
            peers.append(Peer(**got))
        return peers

    def paths(self) -> List[Path]:
        """Return the paths of all VMs. While paths come and go one may be missing or told twice."""
        paths = []
        for message in self._dump(PathMessage, PATH_GET):
            got = _attributes(message, "OVS_SHIM_PATH_")
            bits, tunnel, limited = got.pop("bits"), bool(got.pop("scope")), bool(got.pop("limited"))
            prefix = got.pop("prefix")
            paths.append(Path(prefix=_range_text(prefix, bits) if bits else "", tunnel=tunnel, limited=limited, **got))
        return paths

    def message(self, device: Union[str, int], data: bytes) -> None:
        """Hand a control message to a VM, as if it had come by an uplink; ShimRefused when it is not obeyed."""
        self._request(PortMessage, MESSAGE, [self._device(device), ("OVS_SHIM_PORT_MESSAGE", data)])

    def peer_set(self, device: Union[str, int], address: str, weight: int) -> None:
        """Give a VM's peer a weight, with which it is kept; 0 takes it back.

        ShimRefused when the kernel refuses, ValueError for a text that is no address.
        """
        self._request(PeerMessage, PEER_SET, [self._vm(device), ("OVS_SHIM_PEER_ADDRESS", _packed(address)),
                                               ("OVS_SHIM_PEER_WEIGHT", weight)])

    def peer_del(self, device: Union[str, int], address: str) -> None:
        """Forget a VM's peer with its weight; ShimRefused if there is none, ValueError for no address."""
        self._request(PeerMessage, PEER_DEL, [self._vm(device), ("OVS_SHIM_PEER_ADDRESS", _packed(address))])

    @staticmethod
    def _vm(device: Union[str, int]) -> Tuple[str, Union[str, int]]:
        """Return the attribute that names a peer's VM."""
        return (("OVS_SHIM_PEER_VM_NAME", device) if isinstance(device, str) else ("OVS_SHIM_PEER_VM", device))

    @staticmethod
    def _device(device: Union[str, int]) -> Tuple[str, Union[str, int]]:
        """Return the attribute that names a device."""
        return (("OVS_SHIM_PORT_NAME", device) if isinstance(device, str) else ("OVS_SHIM_PORT_IFINDEX", device))

    @staticmethod
    def _port(message: Any) -> Port:
        """Return a port from its message."""
        got = _attributes(message, "OVS_SHIM_PORT_")
        got["role"] = ROLES[got["role"]]
        got["stats"] = _attributes(got["stats"], "OVS_SHIM_STAT_")
        if "addresses" in got:
            nests = [_attributes(nest, "OVS_SHIM_ADDRESS_") for nest in
                     got["addresses"].get_attrs("OVS_SHIM_ADDRESSES_ADDRESS")]
            got["addresses"] = tuple(_range_text(nest["value"], nest["prefix"]) for nest in nests)
        if "qdisc" in got:
            got["qdisc"] = QDISCS[got["qdisc"]]
        return Port(**got)

    def _request(self, message_class: Any, command: int, attrs: List[Any],
                 flags: int = NLM_F_REQUEST | NLM_F_ACK) -> List[Any]:
        """Send a request and return the answers; ShimRefused with the kernel's words."""
        message = message_class()
        message["cmd"], message["version"], message["attrs"] = command, VERSION, attrs
        self._socket.asyncore.marshal.msg_map[self._socket.prid] = message_class
        try:
            return list(self._socket.nlm_request(message, msg_type=self._socket.prid, msg_flags=flags))
        except NetlinkDumpInterrupted:
            raise
        except NetlinkError as error:
            raise ShimRefused(error.code, str(error.args[1])) from error

    def _dump(self, message_class: Any, command: int, attrs: Sequence[Any] = ()) -> List[Any]:
        """Return a whole dump, begun again if ports came or went meanwhile."""
        for _ in range(DUMP_TRIES):
            try:
                return self._request(message_class, command, list(attrs), NLM_F_REQUEST | NLM_F_DUMP)
            except NetlinkDumpInterrupted:
                continue
        raise ShimError(f"ports came and went during each of {DUMP_TRIES} readings")
