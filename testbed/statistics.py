# SPDX-License-Identifier: Apache-2.0
"""Small measures of fairness and spread."""

from __future__ import annotations

import statistics
from typing import Dict, List, Sequence, Tuple

# Percents at which a distribution is kept: every fifth, and more of both ends.
PERCENTS = (0, 1, 2, *range(5, 100, 5), 98, 99, 99.5, 99.9, 100)
# Part of a distribution that an interval is to hold.
CONFIDENCE = 0.95


def jain(values: Sequence[float]) -> float:
    """Return Jain's index, (sum x)^2 / (n * sum x^2): 1 when all are equal, 1/n when one has all, 0 when all are 0."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least percent of the values do not exceed; 0 without values."""
    if not values:
        return 0.0
    ordered: List[float] = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]


def quantiles(values: Sequence[float], digits: int = 1) -> List[Tuple[float, float]]:
    """Return (percent, value) at each of PERCENTS, values rounded to so many digits; nothing without values."""
    return [(percent, round(percentile(values, percent), digits)) for percent in PERCENTS] if values else []


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0 without values."""
    return sum(values) / len(values) if values else 0.0


def mean_and_interval(values: Sequence[float]) -> Tuple[float, float]:
    """Return the mean and half the width of its 95% interval by Student's t; a single value has an interval of 0.

    Raises ValueError without values. Source: Student, The Probable Error of a Mean, Biometrika 1908.
    """
    if not values:
        raise ValueError("no values to take a mean of")
    if len(values) == 1:
        return float(values[0]), 0.0
    from scipy.stats import t

    quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    return mean(values), quantile * statistics.stdev(values) / len(values) ** 0.5


def spread_us(took_ns: Sequence[int]) -> Dict[str, float]:
    """Return count, mean, standard deviation and percentiles of durations, in microseconds."""
    values = [took / 1000 for took in took_ns]
    result: Dict[str, float] = {"count": len(values), "mean_us": round(mean(values), 1),
                                "stdev_us": round(statistics.pstdev(values), 1) if values else 0.0}
    for name, percent in (("p50", 50), ("p99", 99), ("p999", 99.9)):
        result[f"{name}_us"] = round(percentile(values, percent), 1)
    return {**result, "max_us": round(max(values, default=0.0), 1)}
