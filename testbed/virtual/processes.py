# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: programs run to their end, and waiting."""

from __future__ import annotations

import subprocess
import time
from typing import Any, Dict, Sequence


def run(argv: Sequence[str], text: str = "") -> str:
    """Run a program, which reads text, to its end and return its output; RuntimeError with all it said if it fails."""
    given: Dict[str, Any] = {"input": text} if text else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(list(argv), **given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def sleep_until(at_s: float) -> None:
    """Sleep until CLOCK_MONOTONIC shows at_s."""
    while (left := at_s - time.clock_gettime(time.CLOCK_MONOTONIC)) > 0:
        time.sleep(left)
