# SPDX-License-Identifier: Apache-2.0
"""What rows of OVN's northbound database say about a port, and the keys that the server's part leaves there.

Neutron's server writes a QoS policy into the rows that make ovn-controller limit: a row of table QoS becomes a meter,
options of Logical_Switch_Port become an HTB queue. With the server's part (``ovn_server``) what a VM sends stands in
external_ids of the Logical_Switch_Port instead, which ovn-controller does not obey.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

from sdngcc_neutron import mapping

# In external_ids of Logical_Switch_Port, in kbit/s; a key that is missing is no rule.
LIMITS = MIN_KBPS, MAX_KBPS = "sdngcc:min_kbps", "sdngcc:max_kbps"

# Neutron's own, in external_ids of QoS and Logical_Switch_Port.
PORT_ID, DEVICE_OWNER, PROJECT_ID = "neutron:port_id", "neutron:device_owner", "neutron:project_id"

# Options of Logical_Switch_Port, in bit/s.
OPTION_MIN, OPTION_MAX = "qos_min_rate", "qos_max_rate"

# Types of Logical_Switch_Port that stand for a VM's port.
VM_TYPES = ("", "virtual")


def limits_of(port: Any, qos_rows: Iterable[Any]) -> mapping.Limits:
    """Return what a port may send.

    port: a row of Logical_Switch_Port. qos_rows: rows of QoS that name it.
    """
    given = port.external_ids
    if MIN_KBPS in given or MAX_KBPS in given:
        return mapping.Limits(int(given.get(MIN_KBPS, 0)), int(given.get(MAX_KBPS, 0)))
    max_kbps = int(port.options.get(OPTION_MAX, 0)) // mapping.BPS_PER_KBPS
    for row in qos_rows:
        if row.direction == "from-lport":
            max_kbps = int(row.bandwidth.get("rate", 0)) or max_kbps
    return mapping.Limits(int(port.options.get(OPTION_MIN, 0)) // mapping.BPS_PER_KBPS, max_kbps)


def member_of(port: Any, qos_rows: Iterable[Any]) -> mapping.Member:
    """Return what is known of a port; see limits_of() for the parameters. Raises ValueError for what cannot be read."""
    owner = port.external_ids.get(DEVICE_OWNER)
    if port.type not in VM_TYPES or mapping.is_infrastructure(owner):
        return mapping.Member(infrastructure=True)
    macs: List[str] = []
    addresses: List[str] = []
    anything = not port.port_security
    for entry in port.port_security:
        mac, *networks = entry.split()
        macs.append(mac)
        addresses += networks
        # A MAC address alone may send from any address.
        anything = anything or not networks
    return mapping.Member(limits_of(port, qos_rows), mapping.sources(macs, addresses, not anything),
                          project=port.external_ids.get(PROJECT_ID, ""))


def external_ids_of(limits: mapping.Limits) -> Dict[str, str]:
    """Return the keys that stand for limits in external_ids of Logical_Switch_Port."""
    return {key: str(kbps) for key, kbps in ((MIN_KBPS, limits.min_kbps), (MAX_KBPS, limits.max_kbps)) if kbps}
