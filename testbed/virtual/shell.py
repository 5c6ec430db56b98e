# SPDX-License-Identifier: Apache-2.0
"""The inside of ``sdngcc testbed shell``: the same preparations as an experiment, then Mininet's command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sdngcc.testbed.virtual.agent import Agent
from sdngcc.testbed.virtual.entropy import seed_entropy

WELCOME = """
Mininet's command line: `vm1 ping -c 3 rx1`, `vm1 iperf -c 10.0.1.1 &`, `sh ovs-vsctl show`, `sh ovs-appctl shim/show`,
`sh tc -s qdisc show dev tor1-hvr`. The host's files are here read-only; /tmp and /run are in memory. `exit` ends it.
"""


def main() -> int:
    """Prepare the job named by the first argument and hand the terminal over."""
    from mininet.cli import CLI

    seed_entropy()
    path = Path(sys.argv[1])
    agent = Agent(json.loads(path.read_text()), path.parent)
    agent.prepare()
    print(WELCOME, flush=True)
    CLI(agent.network.mininet)
    return 0


if __name__ == "__main__":
    sys.exit(main())
