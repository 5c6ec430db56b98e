# SPDX-License-Identifier: Apache-2.0
"""Loses control messages on their way: the controller's before they leave it, hypervisors' reports at the uplink.

As a main module (``python -m sdngcc.testbed.lossy PERCENT SEED``) it is the controller with that loss.
"""

from __future__ import annotations

import random
import sys
from typing import Any, List

# IP protocol of control messages.
PROTOCOL = 253


def report_filter(device: str, percent: float) -> List[List[str]]:
    """Return the argument lists of the ``tc`` calls that lose that part of the control messages device receives.

    A classic BPF program takes IPv4 packets of the protocol whose random number is below the limit.
    """
    limit = min(round(percent / 100 * 2**32), 2**32 - 1)
    # ldh [12]; jeq IPv4; ldb [23]; jeq protocol; ld random; jge limit: keep; ret match; ret keep
    program = ["40 0 0 12", "21 0 5 2048", "48 0 0 23", f"21 0 3 {PROTOCOL}", "32 0 0 4294963256",
               f"53 1 0 {limit}", "6 0 0 4294967295", "6 0 0 0"]
    code = f"{len(program)},{','.join(program)}"
    return [["qdisc", "add", "dev", device, "clsact"],
            ["filter", "add", "dev", device, "ingress", "bpf", "bytecode", code, "action", "drop"]]


def lose_notices(percent: float, seed: int) -> None:
    """Let the controller of this process lose that part of its messages; seed chooses which."""
    from sdngcc.controller.notifier import Notifier

    chance = random.Random(seed)
    compose = Notifier.compose

    def lossy(self: Any, *args: Any) -> bytes:
        data = compose(self, *args)
        return b"" if chance.random() * 100 < percent else data

    Notifier.compose = lossy  # type: ignore[assignment, method-assign]


def main() -> None:
    """Run the controller with the loss and the seed that the command line names."""
    from sdngcc.controller import launcher

    launcher.prepare()
    from sdngcc.controller import settings

    lose_notices(float(sys.argv[1]), int(sys.argv[2]))
    chosen = settings.load(None)
    chosen.read_key()
    launcher.start(chosen)


if __name__ == "__main__":
    main()
