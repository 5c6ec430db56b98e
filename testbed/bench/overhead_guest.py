# SPDX-License-Identifier: Apache-2.0
"""The half of ``make bench-overhead`` that runs inside User Mode Linux, in real time.

One TCP connection in single segments from VM to VM over two datapaths on one CPU that is always busy: what a variant
costs shows as packets/s that are missing. As in datapath_guest, every round measures every variant once, in an order
that rotates.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Callable

from sdngcc.testbed.bench.datapath_guest import LIMIT_BITS, Variant, measure_sockets, nothing, rounds, run
from sdngcc.testbed.entropy import seed_entropy


def law(name: str) -> Callable[[], None]:
    """Return what makes vm0, vm1 VMs and up0, up1 uplinks of the shim under a law."""

    def enable() -> None:
        from sdngcc.shim.netlink import ShimClient

        with ShimClient() as shim:
            shim.settings_set(law=name, key=bytes(range(16)))
            for number in (0, 1):
                shim.port_set(f"up{number}", role="uplink", capacity=LIMIT_BITS // 8)
                shim.port_set(f"vm{number}", role="vm")

    return enable


VARIANTS = (
    Variant("baseline", "stock", nothing),
    Variant("null", "patched", nothing),
    Variant("static", "patched", law("static")),
    Variant("seawall", "patched", law("seawall")),
)


def main(path: Path) -> None:
    """Do the job: settings in path, samples.json ({variant: [packets/s, ..]}) beside it."""
    seed_entropy()
    job = json.loads(path.read_text())
    for module in job["preload"]:
        run("insmod", module)
    samples = rounds(VARIANTS, job["modules"], measure_sockets, job["rounds"], 0, "overhead")
    path.with_name("samples.json").write_text(json.dumps(samples))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
