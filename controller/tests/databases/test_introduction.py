# SPDX-License-Identifier: Apache-2.0
"""Which node a database says it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.databases.introduction import QUESTION, IntroductionError, Step, read

ROW = {"_uuid": ["uuid", "6a0b"], "external_ids": ["map", [["system-id", "compute-1"], ["hostname", "x"]]]}


def answer(*rows):
    return json.dumps({"id": json.loads(QUESTION)["id"], "error": None, "result": [{"rows": list(rows)}]}).encode()


def test_the_answer_names_the_node():
    assert read(answer(ROW)) == Step(name="compute-1")
    assert read(answer({**ROW, "external_ids": ["map", []]})) == Step(name="6a0b")


def test_what_comes_in_between_is_answered_or_left_aside():
    step = read(b'{"method": "echo", "params": [1], "id": "echo"}')
    assert json.loads(step.reply) == {"result": [1], "error": None, "id": "echo"} and step.name is None
    assert read(b'{"method": "update", "params": [], "id": null}') == Step()
    assert read(b'{"id": 7, "result": []}') == Step()


@pytest.mark.parametrize(
    "document",
    [
        answer(), answer(ROW, ROW), answer({**ROW, "_uuid": ["uuid", 7]}), answer({**ROW, "_uuid": ["uuid", ""]}),
        answer({**ROW, "external_ids": ["set", []]}), answer({**ROW, "external_ids": ["map", [1]]}), answer({}),
        b'{"method": "echo"}', b"{", b'{"id": "which node", "result": null}', b'{"id": "\xff"}',
        b'{"id": "which node", "result": ' + b"9" * 5000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(document):
    with pytest.raises(IntroductionError, match="did not answer which node it is"):
        read(document)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("uuid") | st.just("map"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["id", "method", "params", "result", "rows", "_uuid", "external_ids"]), inner),
    max_leaves=15,
))  # fmt: skip
def test_no_document_makes_it_fail_but_with_a_named_error(result):
    for said in ({"id": "which node", "result": result}, {"id": "which node", "result": [{"rows": [result]}]}, result):
        try:
            step = read(json.dumps(said).encode())
        except IntroductionError:
            continue
        assert step.name is None or 0 < len(step.name) <= 128


def test_the_name_of_a_row_is_fit_for_a_terminal():
    row = {"_uuid": ["uuid", "\x1b[2J" + "x" * 500], "external_ids": ["map", []]}
    answer = json.dumps({"id": "which node", "result": [{"rows": [row]}]}).encode()
    name = read(answer).name
    assert name.isprintable() and len(name) == 128
