# SPDX-License-Identifier: Apache-2.0
"""Settings from files, the environment and the command line; the programs' own tests have what each refuses."""

from typing import Annotated, Dict, Optional, Tuple

import pydantic
import pytest

from sdngcc.configuration import Hexadecimal, SettingsError, load, read_file


class Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    size: int = 1


class Whole(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    name: str = "none"
    words: Tuple[str, ...] = ()
    ids: Annotated[Tuple[str, ...], Hexadecimal()] = ()
    parts: Dict[str, Part] = {}
    rate: Optional[float] = None


def test_each_layer_wins_over_the_one_below(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("name: file\nwords: [a]\nrate: 1.5\n")
    found = load(Whole, "X_", path, {"X_NAME": "environment", "X_WORDS": "b, c,", "Y_NAME": "no"}, {"name": "line"})
    assert isinstance(found, Whole)
    assert (found.name, found.words, found.rate) == ("line", ("b", "c"), 1.5)
    assert load(Whole, "X_", None, {"X_CONFIG": str(path)}).name == "file"
    assert load(Whole, "X_", None, {}) .model_dump() == Whole().model_dump()


def test_tables_are_json_in_the_environment():
    assert load(Whole, "X_", None, {"X_PARTS": '{"a": {"size": 2}}'}).parts["a"].size == 2
    for text in ("{", '{"a": {}, "a": {}}', "[" * 100_000):
        with pytest.raises(SettingsError, match="X_PARTS: no JSON"):
            load(Whole, "X_", None, {"X_PARTS": text})


def test_all_faults_are_told_with_their_place():
    with pytest.raises(SettingsError) as caught:
        load(Whole, "X_", None, {"X_PARTS": '{"a": {"size": "big", "colour": 1}}', "X_RATE": "fast", "X_OTHER": "1"})
    said = str(caught.value)
    for text in ("parts.a.size: ", "parts.a.colour: unknown key", "rate: ", "other: unknown key", "known keys: ids"):
        assert text in said


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0100", "0100"), ("0x10", "0x10"), ("10:01", "10:01"), ("1_000", "1_000"), ("10e1", "10e1"), ("off", "off"),
        ("2026-11-22", "2026-11-22"), ("0", 0), ("-5", -5), ("+5", 5), ("1.5", 1.5), (".5", 0.5), ("-1.5e+3", -1500.0),
        ("true", True), ("False", False), ("~", None), ("", None), ("'5'", "5"),
    ],
)  # fmt: skip
def test_yaml_scalars_are_numbers_where_nobody_doubts_it(tmp_path, text, value):
    path = tmp_path / "a.yaml"
    path.write_text(f"key: {text}\n")
    found = read_file(path)["key"]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("text", ["ids: [1001]\n", "ids: 1001\n", "ids: [[5]]\n"])
def test_bare_numbers_are_no_hexadecimal_text(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match="ids: (1001|5) is a bare number; .*quote it"):
        load(Whole, "X_", path, {})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"a": {"b": 1, "b": 2}}', '"b" is given twice'),
        ("a.yaml", "a:\n  b: 1\n  b: 2\n", '"b" is given twice'),
        ("a.yaml", "[" * 5000, "nested too deeply"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.yaml", "a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("a.yaml", "a: [\n", "while parsing"),
        ("a.json", "[1]", "must hold keys and values, not a list"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=f"settings file .*{name}: (.|\n)*{said}"):
        read_file(tmp_path / name)


@pytest.mark.parametrize(
    "text, words",
    [
        ("? [a, b]\n: 1\n", "a key is a text"), ("? {a: 1}\n: 1\n", "a key is a text"),
        ("a: !!timestamp x\n", "not what its tag"), ("a: !!bool x\n", "not what its tag"),
        ("a: !!float ''\n", "not what its tag"), ("a: !!int x\n", "invalid literal"),
    ],
)  # fmt: skip
def test_yaml_that_is_not_what_it_says_is_refused_by_name(tmp_path, text, words):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=words) as refused:
        read_file(path)
    assert str(path) in str(refused.value)
