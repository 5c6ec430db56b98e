# SPDX-License-Identifier: Apache-2.0
"""The header, the YAML specification and the Python client name the same attributes with the same numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import yaml

from sdngcc.shim import netlink

KERNEL = Path(__file__).resolve().parents[1] / "kernel"
HEADER = (KERNEL / "uapi" / "ovs_shim.h").read_text(encoding="utf-8")
SPEC: Dict[str, Any] = yaml.safe_load((KERNEL / "ovs_shim.yaml").read_text(encoding="utf-8"))


def enumerators() -> Dict[str, List[str]]:
    """Return each enum of the header with its enumerators in order, the guard at its end left out."""
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    found = {}
    for name, body in re.findall(r"enum (\w+) \{(.*?)\}", code, re.DOTALL):
        found[name] = [word for word in re.findall(r"\w+", body) if not word.startswith("__")]
    return found


def constant(prefix: str, name: str) -> str:
    """Return the C name of a name in the specification."""
    return (prefix + name).upper().replace("-", "_")


def client_maps() -> Iterator[Tuple[Tuple[str, str], ...]]:
    """Yield the attribute maps of the client's messages and nests."""
    settings, port, limiter = netlink._SettingsMessage, netlink._PortMessage, netlink._LimiterMessage
    for one in (settings, settings.knobs, settings.knobs.knob, settings.laws, port, port.stats, limiter):
        yield one.nla_map


@pytest.mark.parametrize("attributes", SPEC["attribute-sets"], ids=lambda one: one["name"])
def test_specification(attributes: Dict[str, Any]) -> None:
    """Every attribute of the specification has its number in the header, and none is missing."""
    names = [constant(attributes["name-prefix"], one["name"]) for one in attributes["attributes"]]
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


def test_choices() -> None:
    """Roles and limiters have the header's numbers."""
    enums = enumerators()
    assert enums["ovs_shim_role"] == [constant("ovs-shim-role-", name) for name in netlink.ROLES]
    assert enums["ovs_shim_limiter"] == [constant("ovs-shim-limiter-", name) for name in netlink.LIMITERS]
