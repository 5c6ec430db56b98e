# SPDX-License-Identifier: Apache-2.0
"""Each law's literal preset: what makes it the algorithm of its paper, as published, and how ours differs from that.

Laws run *mended* by default: slips of the papers are corrected, and parts are added where the algorithm as printed does
not reach what the paper says of it. ``preset=published`` undoes both. What a paper leaves open (a constant without a
value, how feedback travels) is as in the mended law. Slips without whose correction an algorithm means nothing at all,
such as a counter that is never cleared, are corrected in both; docs/laws.md has them, law by law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Tuple

MENDED, PUBLISHED = "mended", "published"


@dataclass(frozen=True)
class Choice:
    """One value of a preset."""

    name: str
    """Of a knob of the law, or a field of Parameters."""
    value: Any
    reason: str
    """What of the paper it is, with the section; one line."""


@dataclass(frozen=True)
class Preset:
    """What makes a law its paper's own algorithm."""

    paper: str
    """The paper and its sections or algorithms."""
    choices: Tuple[Choice, ...]
    """Knobs of the law."""
    mended: str
    """In what the default, mended law differs; one sentence."""
    anchor: str
    """Of the heading in docs/laws.md that explains it."""
    settings: Tuple[Choice, ...] = ()
    """Fields of Parameters, beside the knobs."""

    @property
    def knobs(self) -> Dict[str, int]:
        """Return the knobs by name; the law's defaults hold for all others."""
        return {choice.name: choice.value for choice in self.choices}

    @property
    def parameters(self) -> Dict[str, Any]:
        """Return the fields of Parameters by name."""
        return {choice.name: choice.value for choice in self.settings}


PRESETS: Dict[str, Preset] = {
    "sdngcc": Preset(
        "SDN-GCC, Algorithms 3 and 4, with the constants of the authors' prototype",
        (
            Choice("cut-full-ppm", 0, "cuts go by marks, not by the part marked (Algorithm 3, lines 17, 18)"),
            Choice("cut-mark-ppm", 12500, "the authors' 5 Mb/s a mark of 5 ms, on 1 Gb/s (line 18)"),
            Choice("cut-haste", 1, "no cut is larger for those before it (line 18)"),
            Choice("congestion-timeout", 2_000_000, "T_c of the authors: 2 ms without marks (line 25)"),
            Choice("step-slow-ppm", 0, "no step before T_c has passed (line 31, its condition the right way round)"),
            Choice("step-fast-ppm", 100_000, "the authors' tenth of the fair rate E, in place of line 32's scale(C)"),
            Choice("step-scaled", 2, "steps are parts of E, whoever shares the port (the authors)"),
            Choice("step-max-ppm", 0, "no step doubles (line 32)"),
            Choice("recover-ppm", 500_000, "the authors' middle between R and E, in place of line 32"),
            Choice("level-periods", 0, "messages carry marks alone (Algorithm 4, line 21)"),
            Choice("paced", 0, "T_c and steps go by the clock alone (line 25)"),
        ),
        "It cuts by the part that was marked, divides marks by bytes, climbs by small steps that go by weight, and is "
        "told levels.",
        "sdngcc-as-published",
        (
            Choice("division", "equal", "all sources of a port get as many marks (Algorithm 4, line 18)"),
            Choice("levels", False, "the controller has no levels (Algorithm 4)"),
            Choice("shim_period_us", 2000, "T: one recovery each 2 ms without marks (the authors)"),
        )),
    "hygenicc": Preset(
        "HyGenICC, Algorithms 1 and 2",
        (
            Choice("literal", 1, "Algorithm 1, lines 19 to 26, and Algorithm 2"),
            Choice("mark-rtt", 151_400, "scale(): 1,000 bytes in an RTT of 100 us are 80 Mb/s (section V.A.2)"),
            Choice("cut-most-ppm", 0, "no bound of a cut (Algorithm 1, line 23)"),
            Choice("rmin-ppm", 0, "R falls to 0 (Algorithm 1, line 26)"),
            Choice("feedback-timeout", 100_000, "\"close to an RTT\" (section V.B), 100 us in section VIII"),
        ),
        "Marks cut 260 times less, steps are smaller still and go by weight, the rate has a floor, and feedback is not "
        "held back by echoes.",
        "hygenicc-as-published",
        (Choice("limiter", "police", "what finds no tokens is dropped (Algorithm 1, lines 2 to 5)"),)),
    "eyeq": Preset(
        "EyeQ, sections 3.2 to 3.4",
        (Choice("literal", 1, "C by weight among active VMs (section 3.2), the correction alone (section 3.4)"),),
        "What VMs leave of their parts by weight is lent by demand, R falls at once to C over the number of peers, and "
        "a correction is seen before the next.",
        "eyeq-as-published"),
    "seawall": Preset(
        "Seawall, Classes 2 and 3",
        (
            Choice("literal", 1, "Class 3, lines 5 to 20; Class 2, line 16"),
            Choice("silence", 1, "no report within T is loss (section 4.2)"),
            Choice("forget", 0, "and stays so (section 4.2)"),
            Choice("floor-ppm", 0, "cuts have no floor (Class 3, line 8)"),
        ),
        "Probing begins after Ts at the latest, some congestion does not end all growth, the way back after a cut has "
        "no weight in it, and what a VM leaves unused goes to whoever comes.",
        "seawall-as-published"),
    "scc": Preset(
        "SCC, section III.B, equations (1) and (2)",
        (
            Choice("literal", 1, "R grows by 1 + W and falls by 1 - alpha * W (equations (1) and (2))"),
            Choice("haste", 0, "a report stands for itself (section III.B)"),
            Choice("rmin-ppm", 0, "cuts have no floor (equation (2))"),
        ),
        "Steps are added, by weight, and cuts are the same part for all, but not below what is due by weight.",
        "scc-as-published"),
    "vcc": Preset(
        "vCC, sections 3 and 4",
        (),
        "Nothing: the default, target 0, is the paper's virtual ECN, in as far as it has an algorithm.",
        "vcc-as-published"),
}
"""By law. static, maxmin (ours), elasticswitch and none have none."""


def describe_refusal(law: str) -> str:
    """Return why a law has no literal preset."""
    why = {"maxmin": "is ours, no paper has it", "none": "is no law",
           "elasticswitch": "is of a paper whose text was not at hand",
           "static": "is a fixed rate, no paper's algorithm"}[law]
    return f"preset={PUBLISHED}: law={law} {why}; there are presets of {', '.join(sorted(PRESETS))}"
