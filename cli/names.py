# SPDX-License-Identifier: Apache-2.0
"""Short names of VMs for tables: as much of an id as tells it apart, which the controller takes for a name too."""

from __future__ import annotations

import collections
import re
from typing import Dict, Iterable, List

UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
PREFIX_CHARS = 8
LONGEST = 24

_PLACE = re.compile(r"0*([0-9a-f]+):(.+)")


def short_names(ids: Iterable[str], longest: int = LONGEST) -> Dict[str, str]:
    """Return a name for each id, no two the same.

    Of a UUID it is the shortest beginning, of 8 characters or more, that no other one has; of a switch and a port
    the leading zeros go.  What is longer then is shortened in its middle, as long as that leaves it distinct.
    """
    whole = sorted(set(ids))
    found = {}
    for at, one in enumerate(whole):
        place = _PLACE.fullmatch(one)
        if UUID.fullmatch(one):
            near = [other for other in whole[max(0, at - 1) : at + 2] if other != one]
            found[one] = one[: max([PREFIX_CHARS, *(_common(one, other) + 1 for other in near)])]
        else:
            found[one] = f"{place[1]}:{place[2]}" if place else one
    return _distinct(found, {one: _shorten(name, longest) for one, name in found.items()})


def _common(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _shorten(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    head = (longest - 1) // 2
    return f"{name[:head]}…{name[head + 1 - longest:]}"


def _distinct(whole: Dict[str, str], short: Dict[str, str]) -> Dict[str, str]:
    """Return the short names, and whole ones where the short ones are alike."""
    alike: Dict[str, List[str]] = collections.defaultdict(list)
    for one, name in short.items():
        alike[name].append(one)
    return {one: name if len(alike[name]) == 1 else whole[one] for one, name in short.items()}
