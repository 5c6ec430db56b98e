# SPDX-License-Identifier: Apache-2.0
"""The kernel's drop reasons are the engine's counters of drops."""

from __future__ import annotations

import re
from pathlib import Path

SHIM = Path(__file__).resolve().parents[1]
COUNTERS = re.findall(r"^\tX\((\w+),", (SHIM / "core" / "engine" / "counters.h").read_text(encoding="utf-8"), re.M)
REASONS = re.findall(r"R\(OVS_DROP_SHIM_(\w+)\)", (SHIM / "kernel" / "reasons.h").read_text(encoding="utf-8"))


def test_each_drop_has_its_reason_at_its_place() -> None:
    """A reason's number is that of the counter, less that of the first drop."""
    drops = [name for name in COUNTERS if name.startswith("DROP_")]
    first = COUNTERS.index(drops[0])
    assert COUNTERS[first:first + len(drops)] == drops, "drops stand together"
    assert [f"DROP_{name}" for name in REASONS] == drops
