# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC documents cut out of a stream, however its bytes come."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.databases.documents import NESTING_MAX, DocumentError, Documents

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
