# SPDX-License-Identifier: Apache-2.0
"""Seawall's Table 1: ratios are taken inside a round, cost is the inverse of rate."""

from sdngcc.testbed.bench.overhead import summarize


def test_a_cost_is_the_median_of_the_rounds_ratios():
    rows = {row["variant"]: row for row in summarize({
        "baseline": [200.0, 100.0, 100.0], "null": [100.0, 50.0, 80.0], "static": [100.0, 50.0, 40.0],
        "seawall": [80.0, 40.0, 100.0]})}
    assert rows["seawall"]["per_s"] == 80
    assert rows["seawall"]["cost_to_null"] == 1.25 and rows["seawall"]["cost_to_baseline"] == 2.5
    assert rows["null"]["cost_to_null"] == 1.0 and rows["null"]["cost_to_baseline"] == 2.0
    assert rows["seawall"]["paper_to_null"] == 1.084 and rows["null"]["paper_to_baseline"] == 1.162
    assert rows["static"]["paper_to_null"] is None
