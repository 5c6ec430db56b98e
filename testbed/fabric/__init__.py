# SPDX-License-Identifier: Apache-2.0
"""What the laboratory's fabric is made of, and the Open vSwitch of its hypervisors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

from sdngcc.testbed.fabric.base import Fabric
from sdngcc.testbed.fabric.linux import LinuxFabric
from sdngcc.testbed.fabric.openflow import OpenFlowFabric

FABRICS = {"openflow": OpenFlowFabric, "linux": LinuxFabric}


def make_fabric(job: Dict[str, Any], out: Path) -> Fabric:
    """Return the fabric that a job asks for; out is the folder of raw samples, where logs are kept."""
    return FABRICS[job["fabric"]](job, out)
