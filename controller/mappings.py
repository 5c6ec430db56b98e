# SPDX-License-Identifier: Apache-2.0
"""What settings say of switches that a mark source knows by names of its own.

``<name>=<datapath id>`` names a switch: "10.0.0.1:6379=1001" or "10.0.0.1=1001".
``<datapath id>/<name>=<port>`` gives one of its ports its OpenFlow number: "1001/Ethernet0=1" or "1001/49=1".
``<agent>=<network>`` says from where an agent's datagrams may come: "10.0.0.1=192.0.2.7" or "10.0.0.1=192.0.2.0/24".
Datapath ids are hexadecimal, with or without colons.
"""

import ipaddress
import re
from typing import Iterable, NamedTuple, Optional, Union


class SwitchName(NamedTuple):
    """A switch under another name."""

    name: str
    dpid: int


class PortName(NamedTuple):
    """A port under another name."""

    dpid: int
    name: str
    port: int


class Agent(NamedTuple):
    """An sFlow agent; ``sub`` None stands for all of its sub-agents."""

    address: bytes  # 4 or 16 bytes
    sub: Optional[int]


Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


class Sender(NamedTuple):
    """From where an sFlow agent's datagrams may come."""

    agent: bytes  # its address, 4 or 16 bytes
    network: Network


def datapath_id(value: Union[str, int]) -> int:
    """Return a datapath id given in hex, with or without colons, or as a number; raises ValueError."""
    if isinstance(value, int):
        if isinstance(value, bool) or not 0 <= value < 1 << 64:
            raise ValueError(f"{value} is no datapath id; 64 bits are")
        return value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no datapath id; up to 16 hex digits are")
    digits = value.replace(":", "")
    digits = digits[2:] if digits.startswith("0x") else digits
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", digits):
        raise ValueError(f'"{value}" is no datapath id; up to 16 hex digits are')
    return int(digits, 16)


def read_capacity(text: str) -> tuple[tuple[int, int], float]:
    """Return (datapath id, port) and Mb/s of "<datapath id>/<port>=<Mb/s>"; raises ValueError."""
    found = re.fullmatch(r"([^/]+)/([0-9]{1,10})=([0-9]+(?:\.[0-9]+)?)", text)
    if not found or not 0.001 <= float(found[3]) <= 800_000:
        raise ValueError(f'"{text}" is no <datapath id>/<port>=<Mb/s> with 0.001 to 800000 Mb/s')
    return (datapath_id(found[1]), int(found[2])), float(found[3])


def read_switch(text: str) -> SwitchName:
    """Return what "<name>=<datapath id>" says; raises ValueError naming what is wrong."""
    name, equals, dpid = text.rpartition("=")
    if not (equals and name):
        raise ValueError(f'"{text}" is no <name>=<datapath id>')
    return SwitchName(name, datapath_id(dpid))


def read_port(text: str) -> PortName:
    """Return what "<datapath id>/<name>=<port>" says; raises ValueError naming what is wrong."""
    found = re.fullmatch(r"([^/]+)/(.+)=([0-9]{1,10})", text)
    if not found or not 1 <= int(found[3]) < 0xFFFFFF00:
        raise ValueError(f'"{text}" is no <datapath id>/<name>=<port> with a port of 1 to {0xFFFFFF00 - 1}')
    return PortName(datapath_id(found[1]), found[2], int(found[3]))


def read_agent(text: str) -> Agent:
    """Return the agent that "<IP address>" or "<IP address>/<sub-agent>" names; raises ValueError."""
    address, slash, sub = text.partition("/")
    if slash and not (re.fullmatch(r"[0-9]{1,10}", sub) and int(sub) <= 0xFFFFFFFF):
        raise ValueError(f'"{text}": a sub-agent is a number of 0 to {0xFFFFFFFF}')
    try:
        return Agent(ipaddress.ip_address(address).packed, int(sub) if slash else None)
    except ValueError:
        raise ValueError(f'"{text}" is no <IP address> or <IP address>/<sub-agent>') from None


def read_sender(text: str) -> Sender:
    """Return what "<agent's IP address>=<IP address or network>" says; raises ValueError naming what is wrong."""
    agent, equals, network = text.partition("=")
    try:
        if equals:
            return Sender(ipaddress.ip_address(agent).packed, ipaddress.ip_network(network))
    except ValueError:
        pass
    raise ValueError(
        f'"{text}" is no <agent\'s IP address>=<IP address or network>, such as 10.0.0.1=192.0.2.0/24'
    )


def check_distinct(names: Iterable[object]) -> None:
    """Raise ValueError when a name comes twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name} is named twice")
        seen.add(name)
