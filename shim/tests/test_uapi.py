# SPDX-License-Identifier: Apache-2.0
"""The header, the YAML specification and the Python client name the same attributes with the same numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import yaml

from sdngcc.shim import attributes, netlink

KERNEL = Path(__file__).resolve().parents[1] / "kernel"
HEADER = (KERNEL / "uapi" / "ovs_shim.h").read_text(encoding="utf-8")
SPEC: Dict[str, Any] = yaml.safe_load((KERNEL / "ovs_shim.yaml").read_text(encoding="utf-8"))


def enumerators() -> Dict[str, List[str]]:
    """Return each enum of the header with its enumerators in order, the guard at its end left out."""
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    found = {}
    for name, body in re.findall(r"enum (\w+) \{(.*?)\}", code, re.DOTALL):
        body = re.sub(r"^#.*$|\w+\(\w+\)", listed, body, flags=re.MULTILINE)
        found[name] = [word for word in re.findall(r"\w+", body) if not word.startswith("__")]
    return found


def counters() -> List[List[str]]:
    """Return the header's list of counters: name, name in lower case and kind of each."""
    return [list(one) for one in re.findall(r"^\tX\((\w+), (\w+), (\w+)\)", HEADER, re.MULTILINE)]


def listed(match: re.Match[str]) -> str:
    """Return what stands for a directive, or for the use of the list of counters, in an enum."""
    if match[0].startswith("#"):
        return ""
    assert match[0] == "OVS_SHIM_STATS(OVS_SHIM_STAT)"
    return " ".join(f"OVS_SHIM_STAT_{name}," for name, _, _ in counters())


def constant(prefix: str, name: str) -> str:
    """Return the C name of a name in the specification."""
    return (prefix + name).upper().replace("-", "_")


def client_maps() -> Iterator[Tuple[Tuple[str, str], ...]]:
    """Yield the attribute maps of the client's messages and nests."""
    settings, port = attributes.SettingsMessage, attributes.PortMessage
    for one in (settings, settings.knobs, settings.knobs.knob, settings.laws, settings.senders,
                settings.senders.sender, port, port.stats, port.addresses, port.addresses.address,
                attributes.LimiterMessage, attributes.PeerMessage, attributes.PathMessage):
        yield one.nla_map


@pytest.mark.parametrize("group", SPEC["attribute-sets"], ids=lambda one: one["name"])
def test_specification(group: Dict[str, Any]) -> None:
    """Every attribute of the specification has its number in the header, and none is missing."""
    names = [constant(group["name-prefix"], one["name"]) for one in group["attributes"]]
    assert any(enum[1:] == names for enum in enumerators().values() if enum[0].endswith("_UNSPEC")), names


def test_commands() -> None:
    """The operations are the commands, in order."""
    names = [constant(SPEC["operations"]["name-prefix"], one["name"]) for one in SPEC["operations"]["list"]]
    assert enumerators()["ovs_shim_cmd"][1:] == names
    commands = [getattr(netlink, name[len("OVS_SHIM_CMD_"):]) for name in names]
    assert commands == list(range(1, len(names) + 1))


def test_client() -> None:
    """The client's maps are the header's enums."""
    enums = list(enumerators().values())
    for one in client_maps():
        assert [name for name, _ in one] in enums


def test_counters() -> None:
    """Each counter has its own name twice, the second time as people see it, and a kind that its name tells."""
    for name, lower, kind in counters():
        told = re.match("STRAY_DROP|STRAY|DROP|REFUSED|", name)
        assert lower == name.lower() and told
        assert kind == (told[0] or "VM") or (kind, name) == ("UNUSED", "DROP_EARLY"), name
    assert len(counters()) > 60


def test_choices() -> None:
    """Roles, limiters and what qdiscs can be have the header's numbers."""
    enums = enumerators()
    assert enums["ovs_shim_role"] == [constant("ovs-shim-role-", name) for name in netlink.ROLES]
    assert enums["ovs_shim_limiter"] == [constant("ovs-shim-limiter-", name) for name in netlink.LIMITERS]
    assert enums["ovs_shim_qdisc"] == [constant("ovs-shim-qdisc-", name) for name in netlink.QDISCS]


@pytest.mark.parametrize(("text", "prefix"), [
    ("10.0.0.1", 128), ("10.0.0.0/24", 120), ("0.0.0.0/0", 96), ("fd00::1", 128), ("fd00::/64", 64), ("::/0", 0)])
def test_address_ranges(text: str, prefix: int) -> None:
    """A range of addresses survives its way into 16 bytes and a prefix length of 128."""
    value, bits = netlink._range(text)
    assert (len(value), bits) == (16, prefix)
    assert netlink._range_text(value, bits) == text


@pytest.mark.parametrize("text", ["10.0.0.1/24", "10.0.0", "fd00::1/64", "10.0.0.0/33", ""])
def test_address_ranges_refused(text: str) -> None:
    """What is no range of addresses is refused with the attribute's name."""
    with pytest.raises(ValueError, match="^addresses: .*; what is in force stays$"):
        netlink._range(text)


class _Kernel(netlink.ShimClient):
    """A client whose requests are kept, and whose answers are given, instead of a kernel's."""

    def __init__(self, *answers: Any) -> None:
        """Begin with these answers, one for each request."""
        self.asked: List[Any] = []
        self.answers = list(answers)

    def _request(self, message_class: Any, command: int, attrs: List[Any], flags: int = 0) -> List[Any]:
        """Keep what would be sent, decoded from its bytes, and give the next answer from its bytes."""
        self.asked.append(self.coded(message_class, command, attrs))
        return [self.coded(message_class, command, self.answers.pop(0))] if self.answers else []

    @staticmethod
    def coded(message_class: Any, command: int, attrs: List[Any]) -> Any:
        """Return a message that was encoded and decoded again."""
        message = message_class()
        message["cmd"], message["version"], message["attrs"] = command, netlink.VERSION, attrs
        message.encode()
        again = message_class(message.data)
        again.decode()
        return again


class _NextPort(attributes.PortMessage):
    """What a module of the next version may tell of a port: an attribute and a counter more."""

    nla_map = (*attributes.PortMessage.nla_map, ("OVS_SHIM_PORT_NEXT", "uint32"))

    class stats(attributes.PortMessage.stats):  # noqa: N801, pyroute2 finds it by the map's name
        """Counters."""

        nla_map = (*attributes.PortMessage.stats.nla_map, ("OVS_SHIM_STAT_NEXT", "uint64"))


def test_port_of_the_next_version_is_read_as_far_as_it_is_known() -> None:
    """An attribute and a counter that the client does not know are left out; nothing else is lost."""
    known = [("OVS_SHIM_PORT_IFINDEX", 3), ("OVS_SHIM_PORT_NAME", "p"), ("OVS_SHIM_PORT_ROLE", 1),
             ("OVS_SHIM_PORT_WEIGHT", 2), ("OVS_SHIM_PORT_MIN_RATE", 0), ("OVS_SHIM_PORT_MAX_RATE", 0),
             ("OVS_SHIM_PORT_CAPACITY", 0)]
    counter = attributes.PortMessage.stats.nla_map[2][0]
    message = _NextPort()
    message["attrs"] = [*known, ("OVS_SHIM_PORT_STATS", {"attrs": [(counter, 7), ("OVS_SHIM_STAT_NEXT", 8)]}),
                        ("OVS_SHIM_PORT_NEXT", 9)]
    message.encode()
    read = attributes.PortMessage(message.data)
    read.decode()
    port = netlink.ShimClient._port(read)
    assert (port.ifindex, port.name, port.role, port.weight) == (3, "p", "vm", 2)
    assert list(port.stats.values()) == [7]


def test_addresses_set() -> None:
    """Addresses of a port go as nests; none at all go as an empty nest, and not named they do not go."""
    kernel = _Kernel()
    kernel.port_set("p", addresses=["10.0.0.1", "fd00::/64"])
    kernel.port_set("p", addresses=[])
    kernel.port_set("p", weight=2)
    two, none, absent = [message.get_attr("OVS_SHIM_PORT_ADDRESSES") for message in kernel.asked]
    nests = two.get_attrs("OVS_SHIM_ADDRESSES_ADDRESS")
    assert [(nest.get_attr("OVS_SHIM_ADDRESS_VALUE").hex(), nest.get_attr("OVS_SHIM_ADDRESS_PREFIX"))
            for nest in nests] == [("00000000000000000000ffff0a000001", 128), ("fd" + 30 * "0", 64)]
    assert none is not None and none["attrs"] == []
    assert absent is None


def test_port_read() -> None:
    """A port's addresses and what its qdisc is come back as texts."""
    address = {"attrs": [("OVS_SHIM_ADDRESS_VALUE", netlink.MAPPED + bytes([10, 0, 0, 0])),
                         ("OVS_SHIM_ADDRESS_PREFIX", 120)]}
    common = [("OVS_SHIM_PORT_IFINDEX", 7), ("OVS_SHIM_PORT_NAME", "p"), ("OVS_SHIM_PORT_STATS", {"attrs": []})]
    vm = [*common, ("OVS_SHIM_PORT_ROLE", 1),
          ("OVS_SHIM_PORT_ADDRESSES", {"attrs": [("OVS_SHIM_ADDRESSES_ADDRESS", address)]})]
    uplink = [*common, ("OVS_SHIM_PORT_ROLE", 2), ("OVS_SHIM_PORT_QDISC", 2)]
    kernel = _Kernel(vm, uplink)
    assert kernel.port_get("p").addresses == ("10.0.0.0/24",)
    assert kernel.port_get("p").qdisc == "unfit"


def test_settings_new() -> None:
    """The second key goes with codepoint, waiting-max and ahead, and its senders come back."""
    common = [("OVS_SHIM_SETTINGS_" + name, value) for name, value in (
        ("LAW", "none"), ("OF", "none"), ("PERIOD", 0), ("LIMITER", 1), ("BURST", 1), ("BURST_US", 1), ("HORIZON", 1),
        ("ECN", 1), ("INACTIVE", 1), ("PROTOCOL", 253), ("ACCEPT_V0", 0), ("PEERS_MAX", 1),
        ("PEER_IDLE", 1), ("KNOBS", {"attrs": []}), ("LAWS", {"attrs": []}))]
    sender = {"attrs": [("OVS_SHIM_SENDER_ID", 5), ("OVS_SHIM_SENDER_SILENT", 61)]}
    senders = ("OVS_SHIM_SETTINGS_OTHER_KEY_SENDERS", {"attrs": [("OVS_SHIM_SENDERS_SENDER", sender)]})
    new = [("OVS_SHIM_SETTINGS_KEY_OTHER_SET", True), ("OVS_SHIM_SETTINGS_CODEPOINT", 0),
           ("OVS_SHIM_SETTINGS_WAITING_MAX", 9), ("OVS_SHIM_SETTINGS_AHEAD", 1), senders]
    kernel = _Kernel([*common, *new], common, [])
    got = kernel.settings_get()
    assert (got.key_other_set, got.codepoint, got.waiting_max, got.ahead) == (True, 0, 9, True)
    assert got.other_key_senders == {5: 61}
    got = kernel.settings_get()
    assert (got.key_other_set, got.codepoint, got.waiting_max, got.ahead) == (False, 1, 0, False)
    assert got.other_key_senders == {}
    kernel.settings_set(key_other=bytes(range(16)), codepoint=0, waiting_max=9, ahead=True)
    asked = kernel.asked[-1]
    names = ("KEY_OTHER", "CODEPOINT", "WAITING_MAX", "AHEAD")
    assert [asked.get_attr("OVS_SHIM_SETTINGS_" + name) for name in names] == [bytes(range(16)), 0, 9, 1]
