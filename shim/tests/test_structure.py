# SPDX-License-Identifier: Apache-2.0
"""The C of the shim as a whole: every function is used, in each module that it is built into."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Set

import pytest

SHIM = Path(__file__).resolve().parents[1]
PATCHES = "".join(path.read_text(encoding="utf-8") for path in (SHIM.parent / "ovs-patches").rglob("*.patch"))
# A function that begins in the first column and is not static.
FUNCTION = re.compile(r"^(?!static|#|\s)[\w \*]*?\b(\w+)\([^;{]*\)\s*\{", re.MULTILINE)
# What neither module has, by the sources that it is built without.
WITHOUT = {"openvswitch": "kernel/netdev/", "sdngcc": "kernel/hook_ovs.c"}
# For user space alone: the kernel names laws by their place.
NOT_KERNEL = {"shim_law_find"}
# For sdngcc.ko alone.
BESIDE_ONLY = {"ovs_shim_judge_tunnelled"}


def sources(without: str) -> Dict[str, str]:
    """Return the sources of a module by path, without comments and texts."""
    found = {}
    for folder in ("core", "kernel"):
        for path in sorted((SHIM / folder).rglob("*.[ch]")):
            name = path.relative_to(SHIM).as_posix()
            if not name.startswith(without):
                text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
                found[name] = re.sub(r'"(\\.|[^"\n])*"', '""', text)
    return found


@pytest.mark.parametrize("module", WITHOUT)
def test_every_function_is_used(module: str) -> None:
    """What a file gives to others is named by another, or by a patch, beside its declaration."""
    code = sources(WITHOUT[module])
    assert len(code) > 50
    named: List[str] = re.findall(r"\w+", "\n".join(code.values()))
    times: Dict[str, int] = {}
    for word in named:
        times[word] = times.get(word, 0) + 1
    patched = set(re.findall(r"\w+", PATCHES))
    given: Set[str] = {name for file, text in code.items() if file.endswith(".c") for name in FUNCTION.findall(text)}
    assert len(given) > 200
    # Its definition and its declaration are two.
    unused = {name for name in given if times[name] <= 2 and name not in patched}
    assert unused - NOT_KERNEL == (BESIDE_ONLY if module == "openvswitch" else set())
