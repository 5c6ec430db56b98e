# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md names tests that there are."""

import re

import pytest

from sdngcc.testbed.build import ROOT

FAULTS = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").split("## Faults")[1]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", FAULTS)))


def test_faults_have_tests() -> None:
    rows = [line for line in FAULTS.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20 and all(re.search(r"`[\w/]+\.py|fuzzer|experiment", row.split("|")[2]) for row in rows)


@pytest.mark.parametrize("file, test", NAMED, ids=[f"{file}::{test}" for file, test in NAMED])
def test_named_tests_are_there(file: str, test: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not test or f"\ndef {test}(" in text, f"{file} has no {test}"
