# SPDX-License-Identifier: Apache-2.0
"""What the datapath benchmark makes of its samples."""

import io

from rich.console import Console

from sdngcc.testbed.bench import datapath
from sdngcc.testbed.bench.datapath_guest import PACKET_VARIANTS, SOCKET_VARIANTS

IDLE = "patched, nothing configured"
LIMITER = "patched, one sdngcc limiter"


def rows(samples):
    return {row["variant"]: row for row in datapath.summarize({"packets": samples})["packets"]}


def test_ratios_are_taken_within_a_round():
    # The host slows down by half in the second round: rates differ, ratios do not.
    found = rows({"unpatched": [1000.0, 500.0, 1000.0], LIMITER: [980.0, 490.0, 980.0]})
    assert found[LIMITER]["ratio"] == found[LIMITER]["ratio_min"] == found[LIMITER]["ratio_max"] == 0.98
    assert found["unpatched"]["ratio"] == 1.0


def test_one_disturbed_round_moves_neither_median_nor_best():
    found = rows({"unpatched": [1000.0] * 5, LIMITER: [990.0, 990.0, 100.0, 990.0, 990.0]})
    assert (found[LIMITER]["ratio"], found[LIMITER]["ratio_best"], found[LIMITER]["ratio_min"]) == (0.99, 0.99, 0.1)


def test_our_variants_are_judged_others_are_not():
    found = rows({"unpatched": [1000.0], IDLE: [985.0], LIMITER: [975.0], "HTB": [800.0]})
    assert found[IDLE]["holds"] is False
    assert found[LIMITER]["holds"] is True
    assert "holds" not in found["HTB"]


def test_every_budget_belongs_to_a_variant():
    names = {"packets": {one.name for one in PACKET_VARIANTS}, "sockets": {one.name for one in SOCKET_VARIANTS}}
    for load, variant in datapath.BUDGETS:
        assert variant in names[load]
    assert all(datapath.REFERENCE in one for one in names.values())


def test_the_table_tells_what_does_not_hold():
    summary = datapath.summarize({"packets": {"unpatched": [1000.0], IDLE: [900.0]}})
    text = io.StringIO()
    Console(file=text, width=140).print(datapath.table("packets", summary["packets"]))
    assert "does not hold" in text.getvalue() and "0.900" in text.getvalue()
