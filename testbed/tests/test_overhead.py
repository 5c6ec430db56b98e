# SPDX-License-Identifier: Apache-2.0
"""Seawall's Table 1: ratios are taken inside a round, cost is the inverse of rate."""

from sdngcc.testbed.bench.overhead import PAPER, TITLES, summarize, table
from sdngcc.testbed.bench.overhead_guest import VARIANTS


def test_a_cost_is_the_median_of_the_rounds_ratios():
    rows = {row["variant"]: row for row in summarize({
        "baseline": [200.0, 100.0, 100.0], "null": [100.0, 50.0, 80.0], "static": [100.0, 50.0, 40.0],
        "seawall": [80.0, 40.0, 100.0]})}
    assert rows["seawall"]["per_s"] == 80
    assert rows["seawall"]["cost_to_null"] == 1.25 and rows["seawall"]["cost_to_baseline"] == 2.5
    assert rows["null"]["cost_to_null"] == 1.0 and rows["null"]["cost_to_baseline"] == 2.0
    assert rows["seawall"]["paper_to_null"] == 1.084 and rows["null"]["paper_to_baseline"] == 1.162
    assert rows["static"]["paper_to_null"] is None


def test_each_end_alone_is_beside_the_papers_column_of_that_end():
    assert [variant.name for variant in VARIANTS] == list(TITLES)
    ends = {variant.name: variant.ends for variant in VARIANTS if variant.law == "seawall"}
    assert ends == {"seawall": (0, 1), "seawall-sender": (0,), "seawall-receiver": (1,)}
    # Of what both ends add in the paper, each has its own part: 2.0 and 0.7 percent of a processor.
    parts = [PAPER[name] - PAPER["null"] for name in ("seawall-sender", "seawall-receiver", "seawall")]
    assert [round(part, 6) for part in parts] == [2.0, 0.7, 2.7]
    rows = summarize({variant.name: [100.0] for variant in VARIANTS})
    assert [row["paper_to_null"] for row in rows[-2:]] == [1.062, 1.022]
    assert table(rows).row_count == len(VARIANTS)
