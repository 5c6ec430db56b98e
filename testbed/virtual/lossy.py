# SPDX-License-Identifier: Apache-2.0
"""Loses feedback on its way: the controller's messages before they leave it, hypervisors' reports at the uplink.

Law vcc has neither: marks are its feedback. A part of them is lost with the ACKs that carry ECE to the sender's
hypervisor; to lose all of these would cut the connections, so then CE is taken off before the receiver's shim sees it.
On demand that is done with any part of them, so that marks alone are lost and each ACK arrives.

As a main module (``python -m sdngcc.testbed.virtual.lossy SEED PERCENT...``) it is the controller with the first
of these losses; each SIGUSR1 puts the next one in force.
"""

from __future__ import annotations

import random
import signal
import sys
from typing import Any, Iterator, List

# IP protocol of control messages.
PROTOCOL = 253
# Classic BPF that goes on with IPv4 packets of a protocol; {} is the jump to the end, which keeps the packet.
# ldh [12]; jeq IPv4; ldb [23]; jeq protocol
IPV4 = ["40 0 0 12", "21 0 {} 2048", "48 0 0 23"]
MESSAGES = [*IPV4, f"21 0 {{}} {PROTOCOL}"]
# ldb [47]; and ECE | SYN; jeq ECE
ECHOES = [*IPV4, "21 0 {} 6", "48 0 0 47", "84 0 0 66", "21 0 {} 64"]
# ldb [15]; and ECN; jeq CE
MARKS = [*IPV4[:2], "48 0 0 15", "84 0 0 3", "21 0 {} 3"]
# Makes CE ECT(0), and the header's checksum right again.
BLEACH = ["pedit", "ex", "munge", "ip", "tos", "set", "2", "retain", "3", "pipe", "action", "csum", "ip"]


def loss_filter(device: str, percent: float, law: str, marks_alone: bool = False) -> List[List[str]]:
    """Return the argument lists of the ``tc`` calls that lose that part of a law's feedback that device receives.

    A classic BPF program takes packets of the feedback whose random number is below the limit. marks_alone: of law vcc
    CE is lost, no ACK.
    """
    bleach = law == "vcc" and (marks_alone or percent == 100)
    feedback = MARKS if bleach else ECHOES if law == "vcc" else MESSAGES
    limit = min(round(percent / 100 * 2**32), 2**32 - 1)
    # ... ld random; jge limit; ret match; ret keep
    program = [*feedback, "32 0 0 4294963256", f"53 {{}} 0 {limit}"]
    program = [line.format(len(program) - number) for number, line in enumerate(program)]
    program += ["6 0 0 4294967295", "6 0 0 0"]
    code = f"{len(program)},{','.join(program)}"
    return [["qdisc", "add", "dev", device, "clsact"],
            ["filter", "add", "dev", device, "ingress", "bpf", "bytecode", code, "action",
             *(BLEACH if bleach else ["drop"])]]


class LossyNotices:
    """The controller's messages, of which a part is lost."""

    def __init__(self, percents: Iterator[float], seed: int) -> None:
        """Begin with the first of the percentages; seed chooses the messages."""
        self._percents = percents
        self._chance = random.Random(seed)
        self.percent = next(percents)

    def next(self, *_: Any) -> None:
        """Put the next percentage in force; behind the last one nothing changes."""
        self.percent = next(self._percents, self.percent)

    def install(self) -> None:
        """Let the notifier of this process lose messages."""
        from sdngcc.controller.rates.notifier import Notifier

        address = Notifier.address

        def lossy(notifier: Any, batch: Any) -> Any:
            kept = [row for row in range(len(batch)) if self._chance.random() * 100 >= self.percent]
            return address(notifier, batch.select(kept))

        Notifier.address = lossy  # type: ignore[assignment, method-assign]


def main() -> None:
    """Run the controller with the seed and the losses that the command line names."""
    loss = LossyNotices(map(float, sys.argv[2:]), int(sys.argv[1]))
    signal.signal(signal.SIGUSR1, loss.next)
    from sdngcc.controller.framework import launcher

    launcher.prepare()
    from sdngcc.controller import settings

    loss.install()
    chosen = settings.load(None)
    chosen.read_key()
    launcher.start(chosen, settings.load)


if __name__ == "__main__":
    main()
