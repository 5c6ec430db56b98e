# SPDX-License-Identifier: Apache-2.0
"""Small measures of fairness and spread."""

from __future__ import annotations

from typing import List, Sequence


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


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0 without values."""
    return sum(values) / len(values) if values else 0.0
