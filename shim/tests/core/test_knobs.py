# SPDX-License-Identifier: Apache-2.0
"""The tables of knobs for people: they are those of the C files, and docs/laws.md has them."""

from pathlib import Path

import pytest

from sdngcc.shim import knobs

LAWS_MD = Path(__file__).resolve().parents[3] / "docs" / "laws.md"


def test_laws_and_knobs_are_those_of_the_core() -> None:
    found = {law.name: law for law in knobs.laws()}
    assert list(found)[:2] == ["static", "sdngcc"] and found["hygenicc"].period_ns == 500_000
    echo = found["hygenicc"].knobs[0]
    assert (echo.name, echo.unit, echo.value, echo.minimum, echo.maximum) == ("echo", "switch", 1, 0, 1)


def test_table() -> None:
    law = knobs.Law("slow", 1_500_000, (knobs.Knob("gain", "ppm", "a < b; 0: off", "ours", 100_000_000, 0, 1234),))
    assert knobs.table(law) == (
        "Default period T: 1.5 ms.\n\n| knob | unit | default | range | meaning | source |\n|---|---|---|---|---|---|\n"
        "| `gain` | ppm | 1e8 | 0 to 1234 | a &lt; b; 0: off | ours |\n")
    assert knobs.table(knobs.Law("plain", 10**6, ())) == "Default period T: 1 ms. No knobs.\n"


def test_refresh_replaces_what_is_between_the_marks() -> None:
    text = "a\n<!-- knobs of x -->\nold\n<!-- end of knobs of x -->\nb\n"
    assert knobs.refresh(text, {"x": "new\n"}) == text.replace("old", "new")
    with pytest.raises(ValueError, match="law y needs the marks"):
        knobs.refresh(text, {"x": "", "y": ""})
    with pytest.raises(ValueError, match="there is no law x"):
        knobs.refresh(text, {})


def test_laws_md_is_fresh() -> None:
    """If this fails, run: python -m sdngcc.shim.knobs docs/laws.md"""
    text = LAWS_MD.read_text(encoding="utf-8")
    assert knobs.refresh(text, {law.name: knobs.table(law) for law in knobs.laws()}) == text
