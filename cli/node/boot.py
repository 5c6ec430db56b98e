# SPDX-License-Identifier: Apache-2.0
"""What puts fq back after a boot, a restart of Open vSwitch, and when queues or devices come anew."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Sequence

from sdngcc.node.record import FOLDER

UNIT = "sdngcc-node.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
RULES_FILE = "/etc/udev/rules.d/90-sdngcc-node.rules"

_HEAD = "# Written by `sdngcc node setup`, removed by `sdngcc node setup --undo`.\n"

_UNIT = """
[Unit]
Description=Queuing disciplines that sdn-gcc needs at uplinks
Documentation=file:/usr/share/doc/sdn-gcc/operator-guide.md
After=network-pre.target ovs-vswitchd.service
# Each queue that a network card brings asks for it.
StartLimitIntervalSec=0
# The package may be removed while a node is set up.
ConditionFileIsExecutable={program}

[Service]
Type=oneshot
ExecStart={program} node setup --reapply
CapabilityBoundingSet=CAP_NET_ADMIN CAP_DAC_OVERRIDE
NoNewPrivileges=yes
ProtectSystem=strict
StateDirectory={folder}
ReadWritePaths=-/run/openvswitch
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target ovs-vswitchd.service
"""


def unit_text(program: str) -> str:
    """Return the unit, which runs this program."""
    return _HEAD + _UNIT.format(program=program, folder=PurePosixPath(FOLDER).name)


def rules_text(devices: Sequence[str]) -> str:
    """Return udev's rules: a device that comes or is renamed, or a queue that comes, starts the unit."""
    start = f'RUN+="/usr/bin/systemctl --no-block start {UNIT}"'
    lines = []
    for name in devices:
        lines.append(f'ACTION=="add|move", SUBSYSTEM=="net", KERNEL=="{name}", {start}')
        lines.append(f'ACTION=="add", SUBSYSTEM=="queues", DEVPATH=="*/net/{name}/queues/tx-*", {start}')
    return _HEAD + "\n".join(lines) + "\n"
