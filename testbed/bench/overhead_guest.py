# SPDX-License-Identifier: Apache-2.0
"""The half of ``make bench-overhead`` that runs inside User Mode Linux, in real time.

One TCP connection in single segments from VM to VM over two datapaths on one CPU that is always busy: what a variant
costs shows as packets/s that are missing. Every round measures every variant once, in an order that rotates, and the
best of BURSTS short bursts counts: one that the host interrupted says nothing of the datapath.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Dict, List

from sdngcc.testbed.bench.datapath_guest import load, run, stream_load, switch_on
from sdngcc.testbed.bench.datapath_rows import STREAM, Row
from sdngcc.testbed.virtual.entropy import seed_entropy

VARIANTS = (
    Row("baseline", STREAM, "unpatched", switch="nothing"),
    Row("null", STREAM, "patched", switch="nothing"),
    Row("static", STREAM, "law static", law="static"),
    Row("seawall", STREAM, "law seawall", law="seawall"),
    Row("seawall-sender", STREAM, "law seawall at the sender", law="seawall", ends=(0,)),
    Row("seawall-receiver", STREAM, "law seawall at the receiver", law="seawall", ends=(1,)),
)

# Short measurements of which the best counts.
BURSTS = 20


def main(path: Path) -> None:
    """Do the job: settings in path, samples.json ({variant: [packets/s, ..]}) beside it."""
    seed_entropy()
    job = json.loads(path.read_text())
    for module in job["preload"]:
        run("insmod", module)
    samples: Dict[str, List[float]] = {variant.name: [] for variant in VARIANTS}
    for index in range(job["rounds"]):
        turn = index % len(VARIANTS)
        for variant in [*VARIANTS[turn:], *VARIANTS[:turn]]:
            load(job["modules"]["stock" if variant.name == "baseline" else "patched"])
            with stream_load(variant, switch_on) as measure:
                samples[variant.name].append(max(measure() for _ in range(BURSTS)))
        print(f"sdngcc-progress {time.monotonic():.3f} overhead: round {index + 1} of {job['rounds']}", flush=True)
    path.with_name("samples.json").write_text(json.dumps(samples))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
