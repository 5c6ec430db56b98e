# SPDX-License-Identifier: Apache-2.0
"""What is done before a machine starts."""

from __future__ import annotations

from pathlib import Path

from sdngcc.testbed.machine import compile_sources


def test_sources_are_compiled_wherever_the_project_lies(tmp_path: Path) -> None:
    root = tmp_path / ".hidden" / "build" / "tests"
    for name in ("a.py", "controller/b.py", ".venv/c.py", "controller/tests/d.py", "results/e.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n", encoding="ascii")
    compile_sources(root)
    assert {path.name.split(".")[0] for path in root.rglob("*.pyc")} == {"a", "b"}
