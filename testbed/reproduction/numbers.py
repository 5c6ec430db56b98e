# SPDX-License-Identifier: Apache-2.0
"""Numbers of seeds for people, and texts that quote them: what is written by hand follows what was measured."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from sdngcc.testbed.presets import MENDED
from sdngcc.testbed.reproduction.outcomes import Reproduced
from sdngcc.testbed.statistics import mean_and_interval

# A number in a text: {experiment: name of a verdict}, behind which may stand @ and a form, then a member's number.
QUOTE = re.compile(r"\{([a-z-]+): ([^{}]+?)(?:@([a-z]+))?(?:\[(\d+)\])?\}")
UNMEASURED = "(not measured)"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def spread(values: Sequence[float]) -> str:
    """Return the mean of what seeds measured and, behind ±, half of its 95% interval, which one seed has not."""
    middle, half = mean_and_interval(values)
    return _number(middle) if len(values) == 1 else f"{_number(middle)} ± {half:.2g}"


def shown(values: Sequence[Any]) -> str:
    """Return what several seeds measured for people: numbers as means with intervals, lists and mappings by member.

    Other values are told once when all are equal, else each.
    """
    first = values[0]
    if all(_is_number(value) for value in values):
        return spread(values)
    if all(isinstance(value, Mapping) and value.keys() == first.keys() for value in values):
        # Distributions are for figures.
        names = [name for name in first if not str(name).startswith("quantiles")]
        return ", ".join(f"{name} {shown([value[name] for value in values])}" for name in names)
    if all(isinstance(value, (list, tuple)) and len(value) == len(first) for value in values):
        return ", ".join(shown(members) for members in zip(*values))
    numbers = [value for value in values if _is_number(value)]
    if numbers and all(value is None for value in values if not _is_number(value)):
        return f"{spread(numbers)} ({len(values) - len(numbers)} without)"
    return " / ".join(dict.fromkeys(str(value) for value in values))


def quoted(text: str, outcomes: Sequence[Reproduced]) -> str:
    """Return a text with what verdicts measured in place of its quotes, UNMEASURED for those that are not there.

    ``{spare: T1 alone, Mb/s}`` is what that verdict of that experiment measured, mended; ``{...@placebo}`` the same in
    another form, ``{...[1]}`` the second member of a list.
    """
    rows = {(one.name, row.name): row for one in outcomes for row in one.rows}

    def number(found: re.Match[str]) -> str:
        experiment, name, form, member = found.groups()
        row = rows.get((experiment, name))
        judged = row.by_form.get(form or MENDED) if row else None
        if judged is None:
            return UNMEASURED
        values = judged.measured
        if member is not None:
            if any(not isinstance(value, (list, tuple)) or len(value) <= int(member) for value in values):
                return UNMEASURED
            values = tuple(value[int(member)] for value in values)
        return shown(values)

    return QUOTE.sub(number, text)
