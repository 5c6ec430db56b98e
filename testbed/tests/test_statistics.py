# SPDX-License-Identifier: Apache-2.0
"""Quantiles are values that were seen."""

from sdngcc.testbed.statistics import PERCENTS, quantiles


def test_quantiles_are_values_in_order_from_the_least_to_the_largest():
    found = quantiles([float(number) for number in range(1, 1001)])
    assert [percent for percent, _ in found] == list(PERCENTS)
    values = dict(found)
    assert (values[0], values[50], values[99], values[99.9], values[100]) == (1, 500, 990, 999, 1000)
    assert quantiles([]) == []
