# SPDX-License-Identifier: Apache-2.0
"""docs/related-systems.md: what it says of this project stands in the sections that it names; links lead somewhere."""

import re
from pathlib import Path

import pytest

from sdngcc.testbed.build import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "related-systems.md").read_text(encoding="utf-8")
LINK = re.compile(r"\[[^\]]*\]\(([\w./-]*)(?:#([\w-]+))?\)")
NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


def sections(page: Path) -> dict[str, str]:
    """Return the text of each heading of a page, to the next heading of its level or above, by anchor."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found = {}
    for number, line in enumerate(lines):
        head = re.match(r"(#+) (.*)", line)
        if head:
            end = next((later for later in range(number + 1, len(lines))
                        if re.match(rf"#{{1,{len(head[1])}}} ", lines[later])), len(lines))
            found[anchor(head[2])] = "\n".join(lines[number:end])
    return found


def numbers(text: str) -> set[str]:
    """Return the numbers of a text, without commas; names in backquotes, and links' targets, have none."""
    bare = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)
    return {number.replace(",", "") for number in NUMBER.findall(bare)}


def rows() -> list[tuple[str, str, str]]:
    """Return of each row whose last cell is a link to a section: what is said of this project, page and anchor."""
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        link = LINK.fullmatch(cells[-1]) if line.startswith("| ") else None
        if link and link[2]:
            found.append((cells[-2], link[1], link[2]))
    return found


ROWS = rows()


def test_the_readme_names_the_page() -> None:
    assert "](docs/related-systems.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_to_sections() -> None:
    links = LINK.findall(PAGE)
    assert len(links) > 40
    for page, name in links:
        target = DOCS / (page or "related-systems.md")
        assert target.is_file(), f"no {target}"
        assert not name or name in sections(target), f"{target} has no section #{name}"


@pytest.mark.parametrize("said, page, name", ROWS, ids=[f"{name}-{index}" for index, (_, _, name) in enumerate(ROWS)])
def test_numbers_stand_where_the_row_says(said: str, page: str, name: str) -> None:
    missing = numbers(said) - numbers(sections(DOCS / page)[name])
    assert not missing, f"docs/related-systems.md: {said!r}: docs/{page}#{name} has no {', '.join(sorted(missing))}"


def test_rows_have_numbers() -> None:
    assert len(ROWS) > 30 and sum(bool(numbers(said)) for said, _, _ in ROWS) > 30


def test_anchors_are_githubs() -> None:
    assert anchor("10000 Mb/s, 12 VMs, load 80%, seed 1") == "10000-mbs-12-vms-load-80-seed-1"
    assert numbers("`x-9` 1,904 and 0.5, [a](b-7)") == {"1904", "0.5"}
