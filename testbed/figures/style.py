# SPDX-License-Identifier: Apache-2.0
"""One style for all figures: size, fonts, colours, and what tells series apart besides colour.

A figure is as wide as a page of GitHub, 830 pixels, at 100 dots per inch; it is drawn finer than that and shown at that
width. Colours are those of Okabe and Ito, Color Universal Design (2008), without their yellow, which is too pale for
lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

import matplotlib

matplotlib.use("Agg")

WIDTH_IN = 8.3
DPI = 125
FONT_PT = 8.0

BLACK, GREY, PALE = "#000000", "#8c8c8c", "#d9d9d9"
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, BLACK)
# Parts of a colour on white that files know: edges of lines and letters, and intervals.
TINTS = (1.0, 0.8, 0.6, 0.4, 0.25, 0.12)

RC: Dict[str, Any] = {
    "font.size": FONT_PT, "axes.titlesize": 9.0, "axes.labelsize": FONT_PT, "legend.fontsize": FONT_PT,
    "xtick.labelsize": FONT_PT, "ytick.labelsize": FONT_PT, "figure.titlesize": 9.0, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e5e5e5", "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.linewidth": 1.4,
    "lines.markersize": 4.5, "legend.frameon": False, "hatch.linewidth": 0.7, "errorbar.capsize": 2.5,
    "font.family": "DejaVu Sans", "figure.dpi": DPI, "savefig.dpi": DPI, "text.parse_math": False,
}


@dataclass(frozen=True)
class Look:
    """How a series looks: colour, and marker, hatch and dashes for who cannot tell colours apart."""

    colour: str
    marker: str
    hatch: str
    dash: str


LOOKS = (Look(BLUE, "o", "", "-"), Look(ORANGE, "s", "xx", "--"), Look(GREEN, "^", "..", "-."),
         Look(VERMILLION, "D", "\\\\", ":"), Look(SKY, "v", "++", "-"), Look(PURPLE, "P", "oo", "--"),
         Look(BLACK, "X", "--", "-."))
# Name of areas that are intervals.
INTERVAL = "interval"
# No shim; the network to oneself; the flow that a figure is about.
UNPROTECTED = Look(GREY, "x", "////", "--")
ALONE = Look(SKY, "v", "", ":")
TAGGED = Look(VERMILLION, "D", "", "-")
# Of senders by transport protocol.
PROTOCOLS = {"tcp": Look(BLUE, "o", "", "-"), "reno": Look(BLUE, "o", "", "-"),
             "dctcp": Look(GREEN, "^", "..", "-."), "udp": Look(ORANGE, "s", "xx", "--")}
PROTOCOL_NAMES = {"tcp": "TCP", "reno": "TCP", "dctcp": "DCTCP", "udp": "UDP", "cubic": "CUBIC", "bbr": "BBR"}


def protocol_look(name: str) -> Look:
    """Return the look of senders of a protocol."""
    return PROTOCOLS.get(name, LOOKS[5])


def looks(names: Sequence[str]) -> Dict[str, Look]:
    """Return a look for each name, those without a law and those alone always the same."""
    found: Dict[str, Look] = {}
    free = [look for look in LOOKS if look not in (LOOKS[4], LOOKS[5])]
    for name in names:
        if name in ("none", "law=none") or name.startswith(("without", "no law")):
            found[name] = UNPROTECTED
        elif "alone" in name or name in ("idle", "no flood"):
            found[name] = ALONE if ALONE not in found.values() else LOOKS[5]
        else:
            used = sum(look in free for look in found.values())
            found[name] = free[used % len(free)]
    return found


def logarithmic(axis: Any) -> None:
    """Make an axis of axes logarithmic, with plain numbers at its decades."""
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.set_minor_formatter(lambda value, _: "")


def shades() -> List[Tuple[int, int, int]]:
    """Return the colours of files, red, green and blue to 255; that they are few keeps files small."""
    found = {(255, 255, 255): None}
    for colour in (*PALETTE, GREY, PALE):
        parts = [int(colour[at:at + 2], 16) for at in (1, 3, 5)]
        for tint in TINTS:
            red, green, blue = (round(255 - (255 - part) * tint) for part in parts)
            found[red, green, blue] = None
    return list(found)
