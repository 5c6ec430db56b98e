# SPDX-License-Identifier: Apache-2.0
"""What the shim in ovs-vswitchd's own datapath says of itself: it has no netlink, which the kernel's is asked by."""

from __future__ import annotations

import json
from typing import Any, Dict, List

from sdngcc.testbed.virtual.openvswitch import OpenVSwitch


def _rows(switch: OpenVSwitch, caption: str) -> List[List[Any]]:
    """Return the rows of a table of ``ovs-appctl shim/show``; none without a shim."""
    for line in switch.appctl("shim/show", "--json").splitlines():
        table: Dict[str, Any] = json.loads(line)
        if table.get("caption") == caption:
            return list(table["data"])
    return []


def law(switch: OpenVSwitch) -> str:
    """Return the name of the law in force, empty without a shim."""
    return str(dict(_rows(switch, "Settings in force")).get("law", ""))


def knobs(switch: OpenVSwitch) -> Dict[str, int]:
    """Return the knobs of the law in force."""
    return {name[len("knob-"):].partition(" ")[0]: int(value) for name, value in _rows(switch, "Settings in force")
            if name.startswith("knob-")}


def counters(switch: OpenVSwitch) -> Dict[str, Dict[str, int]]:
    """Return the counters of each VM and uplink, by name and then by the names that netlink has for them."""
    ports: Dict[str, Dict[str, int]] = {}
    for port, counter, value in _rows(switch, "Counters"):
        ports.setdefault(port, {})[counter[len("shim_"):]] = int(value)
    return ports
