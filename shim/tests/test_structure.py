# SPDX-License-Identifier: Apache-2.0
"""The C of the shim as a whole: every function is used where it is built, and files of the engine make no circle."""

from __future__ import annotations

import graphlib
import posixpath
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


def order(edges: Dict[str, Set[str]]) -> List[str]:
    """Return files so that each stands behind all that it needs; fails with a circle if there is one."""
    try:
        return list(graphlib.TopologicalSorter(edges).static_order())
    except graphlib.CycleError as error:
        raise AssertionError(f"a circle: {' needs '.join(error.args[1])}") from error


def test_files_of_the_core_call_down() -> None:
    """No file of the core calls one that calls it, by however many others."""
    code = {file: text for file, text in sources("none").items() if re.fullmatch(r"core/(engine/)?\w+\.c", file)}
    home = {name: file for file, text in code.items() for name in FUNCTION.findall(text)}
    calls = {file: {home[word] for word in re.findall(r"\w+", text) if word in home} - {file}
             for file, text in code.items()}
    assert len(code) > 30 and "core/engine/queue.c" in calls["core/engine/limiter.c"]
    found = order(calls)
    assert found.index("core/engine/limiter.c") < found.index("core/engine/peer.c") < found.index("core/engine/vm.c")


def test_headers_of_the_core_include_down() -> None:
    """No header of the core includes one that includes it."""
    code = {file: text for file, text in sources("none").items() if file.startswith("core/") and file.endswith(".h")}
    includes = {}
    for file in code:
        text = (SHIM / file).read_text(encoding="utf-8")
        paths = [posixpath.normpath(posixpath.join(posixpath.dirname(file), name))
                 for name in re.findall(r'^#include "(.*)"', text, re.MULTILINE)]
        includes[file] = {path for path in paths if path in code}
    assert "core/engine/vm.h" in order(includes)


def test_a_circle_is_found() -> None:
    """The order of files that need each other in a ring is refused, with the ring."""
    with pytest.raises(AssertionError, match="a needs|b needs|c needs"):
        order({"a": {"b"}, "b": {"c"}, "c": {"a"}})
