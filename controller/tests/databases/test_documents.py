# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC documents cut out of a stream, however its bytes come."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.databases.documents import NESTING_MAX, STRING_MAX, DocumentError, Documents, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=5)


@given(OBJECTS, st.lists(st.integers(0, 200), max_size=8), st.sampled_from(["", " ", "\r\n\t"]), st.booleans())
def test_whatever_is_written_is_read_however_it_is_cut(objects, cuts, space, ascii_only):
    data = "".join(space + json.dumps(one, ensure_ascii=ascii_only) for one in objects).encode("utf-8", "replace")
    documents, found, before = Documents(1 << 20), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += documents.feed(data[before:cut])
        before = max(before, cut)
    assert [json.loads(one) for one in found] == json.loads(json.dumps(objects).encode())
    assert not documents.unfinished


@given(st.binary(max_size=300))
def test_nothing_makes_it_fail_but_with_a_named_error(data):
    documents = Documents(64)
    try:
        for one in documents.feed(data):
            assert one.startswith(b"{") and len(one) <= 64
    except DocumentError as error:
        assert str(error)


@pytest.mark.parametrize(
    "data, what",
    [
        (b"[1]", "byte 0x5b where a JSON object should begin"),
        (b'{}"', "byte 0x22"),
        (b"{" + b"[" * NESTING_MAX, f"more than {NESTING_MAX} brackets"),
        (b'{"' + b"x" * 200, "more than 100 bytes"),
        (b"{" + b"[]," * 100, "more than 100 bytes"),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_what_has_no_end_or_no_bottom_is_refused(data, what, step):
    documents = Documents(100)
    with pytest.raises(DocumentError, match=what):
        for start in range(0, len(data), step):
            list(documents.feed(data[start : start + step]))


def test_a_document_as_long_as_allowed_passes():
    data = b'{"a":"' + b"x" * 92 + b'"}'
    assert len(data) == 100
    assert list(Documents(100).feed(data)) == [data]
    with pytest.raises(DocumentError):
        list(Documents(99).feed(data))


LONG = {
    "members": {f"key{number}": {"value": ["map", [["a", "b\\n\u00e4"], ["c", number]]]} for number in range(2000)},
    "items": [number / 4 for number in range(5000)],
    "text": "x" * 100_000,
    "empty": [[], {}, "", None, True, False, -1, 1e9],
    "key of " + "k" * 20_000: 1,
    "map": ["map", [[f"k{number}", "v" * 10] for number in range(3000)]],
}


@pytest.mark.parametrize("indent", [None, 1])
def test_a_long_document_says_what_it_says_and_others_run_between_its_parts(indent):
    pauses = []
    assert parse(json.dumps(LONG, indent=indent), lambda: pauses.append(1)) == LONG
    assert parse(json.dumps(LONG, ensure_ascii=False), lambda: None) == LONG
    assert len(pauses) > 1000


@pytest.mark.parametrize("change", ["]", "}", ",", ":", "[", '"', "{", "nul", "\\", "\x00"])
def test_a_long_document_that_is_broken_is_refused_as_a_parser_would(change):
    text = json.dumps(LONG)
    for place in range(0, len(text), len(text) // 97):
        broken = text[:place] + change + text[place + 1 :]
        try:
            wanted = json.loads(broken)
        except ValueError:
            with pytest.raises((ValueError, IndexError)):
                parse(broken, lambda: None)
        else:
            assert parse(broken, lambda: None) == wanted


@pytest.mark.parametrize("text", ['{"a": "%s"}', '{"%s": 1}', '["a", "%s"]'])
def test_a_string_has_its_bound(text):
    assert parse(text % ("x" * (STRING_MAX - 2)), lambda: None)
    with pytest.raises(ValueError, match=f"a string of more than {STRING_MAX} characters"):
        parse(text % ("x" * STRING_MAX), lambda: None)


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"a\\u0000"', "NaN", "[Infinity]", "1 2", "", '{"a" 1}', "{1: 2}", "9" * 5000]
)
def test_what_no_text_of_a_database_is_is_refused(text):
    with pytest.raises((ValueError, IndexError)):
        parse(text, lambda: None)
