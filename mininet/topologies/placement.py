# SPDX-License-Identifier: Apache-2.0
"""Which hypervisor a sending VM runs on, without Mininet."""

from __future__ import annotations

from typing import Optional

# Parking lot: the links (0: A, 1: B) that each group of VMs crosses; VMs, and receivers, go round the groups.
LINKS_OF_GROUP = ((0, 1), (0,), (1,))


def hypervisor_of(topology: str, index: int, vms_per_hypervisor: int = 1, hosts: Optional[int] = None,
                  racks: int = 2) -> str:
    """Return the hypervisor of the index-th sending VM (0: tagged) in a topology.

    Topologies are ``dumbbell``, ``spines``, ``star``, ``racks`` and ``parking-lot``, where each VM has one of its own.

    VMs go round the hypervisors when their number hosts is given; else each hypervisor takes vms_per_hypervisor. In
    racks hypervisors (without hosts: VMs) go round the racks.
    """
    if topology in ("dumbbell", "spines", "star", "parking-lot"):
        return f"hv{(index // vms_per_hypervisor if hosts is None else index % hosts) + 1}"
    rack, place = (index % racks, index // racks // vms_per_hypervisor) if hosts is None else (
        index % hosts % racks, index % hosts // racks)
    return f"hv{rack + 1}{place + 1:02d}"
