# SPDX-License-Identifier: Apache-2.0
"""Which hypervisor a sending VM runs on, without Mininet."""

from __future__ import annotations

from typing import Optional


def hypervisor_of(topology: str, index: int, vms_per_hypervisor: int = 1, hosts: Optional[int] = None) -> str:
    """Return the hypervisor of the index-th sending VM (0: tagged) in a topology: ``dumbbell``, ``star``, ``racks``.

    VMs go round the hypervisors when their number hosts is given; else each hypervisor takes vms_per_hypervisor. In
    racks every second hypervisor (without hosts: VM), from the first, stands in rack 1, the others in rack 2.
    """
    if topology in ("dumbbell", "star"):
        return f"hv{(index // vms_per_hypervisor if hosts is None else index % hosts) + 1}"
    rack, place = (index % 2, index // 2 // vms_per_hypervisor) if hosts is None else (
        index % hosts % 2, index % hosts // 2)
    return f"hv{rack + 1}{place + 1:02d}"
