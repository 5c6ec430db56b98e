# SPDX-License-Identifier: Apache-2.0
"""Laws' knobs in settings: which there are, and whether what is asked for can be had.

The laws' own C tables, which the datapath obeys, know what can be had, so a run is refused before anything is built.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping

from sdngcc.shim.core import CoreBuildError
from sdngcc.shim.knobs import Knob, Law, laws
from sdngcc.testbed.settings import ParameterError


def law_of(name: str) -> Law:
    """Return a law by its name; raises ParameterError for none of that name, or when the laws cannot be read."""
    try:
        known = {law.name: law for law in laws()}
    except CoreBuildError as error:
        raise ParameterError(f"the laws cannot be read: {error}") from None
    if name not in known:
        raise ParameterError(f"there is no law '{name}'; there are {', '.join(known)}")
    return known[name]


def _check(law: Law, name: str, value: int, setting: str) -> None:
    knobs = {knob.name: knob for knob in law.knobs}
    knob = knobs.get(name)
    if knob is None:
        raise ParameterError(f"{setting}: law {law.name} has no knob {name}; it has {', '.join(knobs) or 'none'}")
    if not knob.minimum <= value <= knob.maximum:
        raise ParameterError(f"{setting}={value}: {knob.minimum} to {knob.maximum} {knob.unit} are allowed")


def knobs_of(law: str, given: Mapping[str, int]) -> Dict[str, int]:
    """Return all knobs of a law, those given over its own values.

    Raises ParameterError naming one that it lacks or a value that it does not take.
    """
    found = law_of(law)
    for name, value in given.items():
        _check(found, name, value, f"knob.{name}")
    return {**{knob.name: knob.value for knob in found.knobs}, **given}


def check_knobs(law: str, others: Iterable[str], given: Mapping[str, int]) -> None:
    """Raise ParameterError for a knob that nobody in a run would obey, or a value that is not taken.

    law is that of the run; others are further laws of single VMs, whose knobs are called ``<law>-<name>``.
    """
    if not given:
        return
    whole = [law_of(one) for one in dict.fromkeys((law, *others))]
    for name, value in given.items():
        # Names of laws have no hyphens.
        prefix, _, rest = name.partition("-")
        named = next((one for one in whole if one.name == prefix and rest), None)
        own = {knob.name for knob in whole[0].knobs}
        if named is not None and name not in own:
            _check(named, rest, value, f"knob.{name}")
        else:
            _check(whole[0], name, value, f"knob.{name}")


def describe_knobs(law: Law) -> List[Dict[str, str]]:
    """Return a law's knobs for people: name, default, allowed values with unit, meaning."""
    def row(knob: Knob) -> Dict[str, str]:
        return {"name": f"knob.{knob.name}", "default": str(knob.value),
                "allowed": f"{knob.minimum} to {knob.maximum} {knob.unit}", "meaning": knob.meaning}

    return [row(knob) for knob in law.knobs]
