# SPDX-License-Identifier: Apache-2.0
"""What the build that is packaged refuses, by name and with the name of the build that has it."""

from __future__ import annotations

from typing import Any

from lab import Lab, check, equal, main

from sdngcc.shim.netlink import ShimRefused

lab = Lab()
lab.shim.settings_set(law="sdngcc")


def refused(*words: str, **values: Any) -> None:
    """Check that settings are refused with these words, and that what was in force stays."""
    before = lab.shim.settings_get()
    try:
        lab.shim.settings_set(**values)
    except ShimRefused as refusal:
        for word in (*words, "what is in force stays"):
            assert word in str(refusal), f"'{word}' is not in: {refusal}"
    else:
        raise AssertionError(f"{values} are accepted")
    equal(lab.shim.settings_get(), before, "settings after a refusal")


@check
def law() -> None:
    """A law of the laboratory build is refused, for all VMs and for one; all others are there"""
    refused("law: the laboratory build alone has elasticswitch", law="elasticswitch")
    refused("law: the laboratory build alone has elasticswitch", of="elasticswitch", period=0)
    lab.roles()
    try:
        lab.shim.port_set("s1", law="elasticswitch")
    except ShimRefused as refusal:
        assert "the laboratory build alone has elasticswitch" in str(refusal), refusal
    else:
        raise AssertionError("a VM has the law")
    for name in lab.shim.settings_get().laws:
        lab.shim.settings_set(law=name)
    lab.shim.settings_set(law="sdngcc")


@check
def knobs() -> None:
    """Forms as published are refused as knobs; the other knobs of these laws can be set"""
    for name, knob in (("scc", "literal"), ("hygenicc", "literal"), ("eyeq", "literal"), ("seawall", "literal"),
                       ("seawall", "class")):
        refused(f"knob {knob}: the laboratory build alone has that of {name}", of=name, knobs={knob: 1})
        assert knob not in lab.shim.settings_get(name).knobs
        for one in lab.shim.settings_get(name).knobs.values():
            lab.shim.settings_set(of=name, knobs={one.name: one.maximum})
            equal(lab.shim.settings_get(name).knobs[one.name].value, one.maximum, one.name)
            lab.shim.settings_set(of=name, knobs={one.name: one.default})


@check
def unauthenticated() -> None:
    """Unauthenticated messages cannot be allowed; not to allow them can be said"""
    refused("accept-v0: allowed are 0; the laboratory build alone obeys", accept_v0=True)
    lab.shim.settings_set(accept_v0=False)


main()
