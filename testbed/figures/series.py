# SPDX-License-Identifier: Apache-2.0
"""What panels of bars, of lines against a count and of dots draw: values of one look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

from sdngcc.testbed.figures.data import Estimate
from sdngcc.testbed.figures.style import Look


@dataclass(frozen=True)
class Series:
    """Values of one look in a panel's order; None where there is none."""

    name: str
    look: Look
    values: Sequence[Optional[Estimate]]
