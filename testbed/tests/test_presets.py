# SPDX-License-Identifier: Apache-2.0
"""Literal presets: refused by name where there is none, overruled by what is set, known to the shim and explained."""

import re
from pathlib import Path
from typing import get_args

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.base import without_law
from sdngcc.shim.knobs import laws
from sdngcc.testbed.knobs import knobs_of
from sdngcc.testbed.parameters import Law, ParameterError, Parameters, make_parameters, parse_settings
from sdngcc.testbed.presets import PRESETS

DOCS = Path(__file__).parents[2] / "docs" / "laws.md"
WITHOUT = sorted(set(get_args(Law)) - set(PRESETS))


def section(anchor):
    """Return the text under the heading of docs/laws.md that has that anchor."""
    parts = re.split(r"^#+ (.*)$", DOCS.read_text(), flags=re.M)
    found = [text for heading, text in zip(parts[1::2], parts[2::2])
             if heading.lower().replace(" ", "-") == anchor]
    assert len(found) == 1, f"{anchor}: {len(found)} headings"
    return found[0]


def test_laws_are_mended_unless_said_otherwise():
    for law in get_args(Law):
        assert parse_settings([f"law={law}"], {}).knobs == {}
    assert parse_settings(["law=eyeq", "preset=mended"], {}).knobs == {}
    assert parse_settings([], {}).tells_levels


@pytest.mark.parametrize("law", PRESETS)
def test_published_sets_all_of_the_preset(law):
    parameters = parse_settings([f"law={law}", "preset=published"], {})
    assert parameters.knobs == PRESETS[law].knobs
    for name, value in PRESETS[law].parameters.items():
        assert getattr(parameters, name) == value
    if law == "sdngcc":
        assert not parameters.tells_levels and parameters.division == "equal" and parameters.shim_period_us == 2000


def test_what_is_set_wins():
    parameters = parse_settings(["preset=published", "law=sdngcc", "knob.step-scaled=1", "knob.rmin-ppm=7",
                                 "shim_period_us=5000", "division=sent"], {})
    assert parameters.knobs == {**PRESETS["sdngcc"].knobs, "step-scaled": 1, "rmin-ppm": 7}
    assert (parameters.shim_period_us, parameters.division, parameters.tells_levels) == (5000, "sent", False)
    assert parse_settings(["law=sdngcc"], {"preset": "published", "division": "bytes"}).division == "bytes"


def test_a_result_says_the_same_when_it_is_read_again():
    for law in PRESETS:
        knob, value = next(iter(knobs_of(law, {}).items()))
        parameters = parse_settings([f"law={law}", "preset=published", f"knob.{knob}={value}"], {})
        assert make_parameters(parameters.model_dump()) == parameters


@pytest.mark.parametrize("law", WITHOUT)
def test_a_law_without_a_paper_has_none(law):
    with pytest.raises(ParameterError, match=f"law={law} is .*eyeq, hygenicc, scc, sdngcc, seawall, vcc"):
        parse_settings([f"law={law}", "preset=published"], {})


def test_other_values_are_refused_by_name():
    with pytest.raises(ParameterError, match="preset='paper'.*'mended' or 'published'"):
        parse_settings(["preset=paper"], {})
    with pytest.raises(ParameterError, match="law='red'"):
        parse_settings(["law=red", "preset=published"], {})


def test_the_shim_knows_all_knobs_and_their_defaults_differ():
    """A choice that the default makes anyway is no difference."""
    known = {law.name: {knob.name: knob for knob in law.knobs} for law in laws()}
    for law, preset in PRESETS.items():
        for choice in preset.choices:
            knob = known[law][choice.name]
            assert knob.minimum <= choice.value <= knob.maximum and choice.value != knob.value, (law, choice.name)
        for choice in preset.settings:
            assert getattr(Parameters(law=law), choice.name) != choice.value, (law, choice.name)
        assert all(one.reason and "\n" not in one.reason for one in (*preset.choices, *preset.settings))


@pytest.mark.parametrize("law", PRESETS)
def test_the_documentation_explains_each_choice(law):
    text = section(PRESETS[law].anchor)
    for choice in (*PRESETS[law].choices, *PRESETS[law].settings):
        assert f"`{choice.name}`" in text, f"{law}: {choice.name} is not explained"


def test_a_run_without_a_law_has_no_preset():
    assert without_law(["law=eyeq", "preset=published", "senders=5"]) == ["senders=5"]
    bare, own = EXPERIMENTS["shuffle"].cases(["preset=published"])
    assert (bare.parameters.law, bare.parameters.preset) == ("none", "mended")
    assert own.parameters.knobs == PRESETS["eyeq"].knobs


def test_constants_shows_the_preset():
    cases = {case.label: case.parameters for case in EXPERIMENTS["constants"].cases([])}
    for division in ("equal", "bytes"):
        parameters = cases[f"division={division}, authors' constants"]
        assert (parameters.preset, parameters.division, parameters.levels) == ("published", division, False)
        assert parameters.knobs == PRESETS["sdngcc"].knobs
    assert all(parameters.preset == "mended" for label, parameters in cases.items() if "authors" not in label)
