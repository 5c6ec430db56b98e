# SPDX-License-Identifier: Apache-2.0
"""Which messages of a database are taken in: those that have the shape of their kind."""

import pytest

from sdngcc.controller.databases.messages import SHORT, fault

KEY = "12345678-1234-1234-1234-123456789abc"
ROWS = {"Port": {KEY: {"new": {"name": "p"}}}}


@pytest.mark.parametrize("message", [
    {"method": "update", "params": ["m", ROWS], "id": None},
    {"method": "update2", "params": ["m", {"Port": {KEY: {"modify": {"name": "q"}}, KEY.upper(): {"delete": None}}}]},
    {"method": "update3", "params": ["m", KEY, {}]},
    {"method": "echo", "params": [], "id": "echo"},
    {"id": 1, "result": [], "error": None},
    {"id": 1, "result": {"anything": ["else"]}, "error": None},
])  # fmt: skip
def test_messages_of_a_database_are_taken(message):
    assert fault(message, 100) is None


@pytest.mark.parametrize("result", [ROWS, {}, [True, KEY, ROWS]])
def test_tables_may_be_long(result):
    assert fault({"id": 1, "result": result, "error": None}, SHORT + 1) is None


@pytest.mark.parametrize(("message", "why"), [
    ([], "no object"),
    ({"method": "update", "params": ["m"]}, "without its 2 parameters"),
    ({"method": "update3", "params": ["m", ROWS]}, "without its 3 parameters"),
    ({"method": "update2", "params": "mm"}, "without its 2 parameters"),
    ({"method": "update", "params": ["m", [ROWS]]}, "rows that are in no table"),
    ({"method": "update", "params": ["m", {"Port": []}]}, "a table whose rows have no names"),
    ({"method": "update", "params": ["m", {"Port": {"p": {}}}]}, "a row whose name is no UUID"),
    ({"method": "update", "params": ["m", {"Port": {KEY + "0": {}}}]}, "a row whose name is no UUID"),
    ({"method": "update", "params": ["m", {"Port": {KEY: []}}]}, "neither comes, changes nor goes"),
    ({"method": "update", "params": ["m", {"Port": {KEY: {"new": {}, "x": {}}}}]}, "neither comes, changes nor goes"),
    ({"method": "update", "params": ["m", {"Port": {KEY: {"new": []}}}]}, "a row whose columns have no names"),
])  # fmt: skip
def test_what_has_not_the_shape_of_its_kind_is_refused(message, why):
    assert why in fault(message, 100)


@pytest.mark.parametrize(("message", "why"), [
    ({"method": "echo", "params": ["x" * SHORT], "id": 1}, "that is no update"),
    ({"id": 1, "result": [{"rows": []}] * SHORT, "error": None}, "an answer of more than 65536 characters with rows"),
    ({"id": 1, "result": {"tables": [1]}, "error": None}, "a table whose rows have no names"),
])  # fmt: skip
def test_what_brings_no_rows_is_short(message, why):
    assert why in fault(message, SHORT + 1)
