# SPDX-License-Identifier: Apache-2.0
"""What docs/security.md promises: each promise names its tests, and each test that is named exists."""

import re
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("cli", "controller", "openstack", "shim", "testbed", "tracker")
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")

#: Sections each of whose bullets is a promise.
BULLETS = (
    "What a client of REST, a host or a workload can do to others",
    "What a VM or a switch can do to others",
)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
LAST_CELL = re.compile(r"`[\w/]+\.py::\w+`(, `[\w/]+\.py::\w+`)*")


def sections() -> Dict[str, str]:
    """Return the text of each section by its heading."""
    parts = re.split(r"^##+ (.+)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def tables() -> Iterator[List[List[str]]]:
    """Yield each table as rows of cells, its header first and the line beneath left out."""
    for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        yield [rows[0], *rows[2:]]


def promises() -> Iterator[Tuple[str, str]]:
    """Yield what stands first in each row that promises something, and its last cell."""
    for header, *rows in tables():
        if {"promise", "bound"} & set(header):
            assert header[-1] == "test", f"the table {header} has no column of tests"
            for row in rows:
                assert len(row) == len(header), row[0]
                yield row[0], row[-1]


def bullets() -> Iterator[str]:
    """Yield the bullets that are promises."""
    for heading in BULLETS:
        found = re.findall(r"^\* .*(?:\n  .*)*", sections()[heading], re.MULTILINE)
        assert found, heading
        yield from found


def missing(path: str, name: str) -> str:
    """Return what is wrong with a test that is named; empty if it is there."""
    found = [file for folder in FOLDERS for file in (ROOT / folder / "tests").rglob(path.rpartition("/")[2])
             if f"/{file}".endswith(f"/{path}")]  # fmt: skip
    if len(found) != 1:
        return f"{path} is the name of {len(found)} files"
    before = r"^@check\n" if Path(path).name.startswith("check_") else r"^(?:async )?"
    if not re.search(rf"{before}def {name}\(", found[0].read_text(encoding="utf-8"), re.MULTILINE):
        return f"{path} has no test {name}"
    return ""


def test_each_row_that_promises_names_its_tests() -> None:
    rows = list(promises())
    assert len(rows) > 70
    assert not [first for first, last in rows if not LAST_CELL.fullmatch(last)]


def test_each_bullet_that_promises_names_its_tests() -> None:
    assert not [one for one in bullets() if not re.search(r"\(test: [^()]*\)$", one) or not NAMED.search(one)]


def test_each_section_names_a_test() -> None:
    assert not [heading for heading, text in sections().items() if not NAMED.search(text)]


def test_tests_that_are_named_exist() -> None:
    named = set(NAMED.findall(TEXT))
    assert named and not [fault for fault in (missing(*one) for one in sorted(named)) if fault]


def test_no_test_is_named_in_another_way() -> None:
    assert not re.findall(r"`(?:\w+/)*(?:test|check)_\w+\.py`|`(?:test|check)_\w+`", TEXT)


@pytest.mark.parametrize(
    ("path", "name", "fault"),
    [
        ("test_promises.py", "test_tests_that_are_named_exist", ""),
        ("test_promises.py", "test_that_nobody_wrote", "has no test"),
        ("test_that_nobody_wrote.py", "test_one", "0 files"),
        ("test_nodes.py", "test_one", "2 files"),
        ("check_attack_peers.py", "askers", ""),
        ("check_attack_peers.py", "run", "has no test"),
    ],
)
def test_what_is_not_there_is_seen(path: str, name: str, fault: str) -> None:
    assert (fault in missing(path, name)) if fault else not missing(path, name)
