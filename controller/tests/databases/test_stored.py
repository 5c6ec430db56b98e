# SPDX-License-Identifier: Apache-2.0
"""Which of several columns counts, and what is shown of it."""

import pytest

from sdngcc.controller.databases.stored import COLUMNS, HOST_COLUMN, Setting, Stored

FIRST, SECOND, THIRD = COLUMNS


def test_the_first_column_that_has_a_key_counts():
    keys = Stored(({"shim-weight": "2"}, {"shim-weight": "3", "shim-min-rate": "8000"}, {"shim-max-rate": "9000"}))
    assert keys.policy() == {"weight": 2, "min": 8000, "max": 9000}
    settings = keys.explain("vcc", None).settings
    assert settings == {
        "weight": Setting(2, FIRST), "min": Setting(8000, SECOND), "max": Setting(9000, THIRD),
        "law": Setting("vcc", HOST_COLUMN),
    }  # fmt: skip
    assert keys.own("weight") == "2" and keys.own("min") is None


def test_defaults_and_what_cannot_be_read():
    settings = Stored(({"shim-weight": "-1"}, {}, {})).explain(None, "complaint").settings
    assert settings == {
        "weight": Setting(None, FIRST), "min": Setting(0, "default"), "max": Setting(0, "default"),
        "law": Setting("none", "default"),
    }  # fmt: skip


def test_a_law_named_default_is_the_hosts_even_before_another_column():
    keys = Stored(({"shim-law": "default"}, {"shim-law": "eyeq"}, {}))
    assert keys.policy() == {}
    assert keys.explain("seawall", None).settings["law"] == Setting("seawall", HOST_COLUMN)
    assert Stored(({}, {"shim-law": "eyeq"}, {})).policy() == {"law": "eyeq"}


def test_numbers_are_decimal_ascii():
    keys = Stored(({"shim-min-rate": "٣", "shim-capacity": "5"}, {}, {}))
    assert keys.policy() == {"min": None} and keys.number("shim-min-rate") == 0 and keys.number("shim-capacity") == 5


@pytest.mark.parametrize("text", ["1" * 5000, "18446744073709551616", "\u0663", "-1", "1.5", ""])
def test_what_is_no_number_of_64_bits_cannot_be_read(text):
    assert Stored(({"shim-min-rate": text}, {}, {})).policy() == {"min": None}
