# SPDX-License-Identifier: Apache-2.0
"""A figure is rows of panels; each row has its legend above it, where it covers nothing."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import numpy
from matplotlib import pyplot
from matplotlib.ticker import ScalarFormatter

from sdngcc.testbed.figures.style import RC, WIDTH_IN, shades

# What a legend's row has room for, and what its lines and bars take before each label, letters.
LEGEND_LETTERS, HANDLE_LETTERS = 128, 8
# Heights of a line of a legend, and of the note.
LEGEND_LINE_IN, NOTE_IN = 0.17, 0.25
# The label of a paper's mark (marks.py): the paper, and where in it.
PAPER_MARK = re.compile(r"paper \(([^,]+), (.+)\)")

Panel = Callable[[Any], None]
"""Draws into the axes that it is given."""


@dataclass(frozen=True)
class Row:
    """Panels side by side."""

    panels: Sequence[Optional[Panel]]
    """None: the place stays empty."""
    height_in: float = 2.3
    widths: Optional[Sequence[float]] = None
    """Of panels in relation to each other; None: all alike."""
    share_y: bool = False


def chunks(panels: Sequence[Panel], columns: int, **row: Any) -> Sequence[Row]:
    """Return rows of so many panels each, alike but for the panels; fewer panels than that are wider."""
    columns = min(columns, len(panels))
    padded: List[Optional[Panel]] = [*panels, *[None] * (-len(panels) % columns)]
    return [Row(padded[at:at + columns], **row) for at in range(0, len(padded), columns)]


def _legend(part: Any, axes: Sequence[Any], known: Set[str]) -> int:
    """Give a row the legend of what no row above it has in its own, and return its lines.

    Marks of one paper are one entry, the last.
    """
    handles: Dict[str, Any] = {}
    papers: Dict[str, List[str]] = {}
    marks: Dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels()):
            if label in known:
                continue
            mark = PAPER_MARK.fullmatch(label)
            if mark is None:
                handles.setdefault(label, handle)
            else:
                marks.setdefault(mark[1], handle)
                if mark[2] not in papers.setdefault(mark[1], []):
                    papers[mark[1]].append(mark[2])
            known.add(label)
    for name, places in papers.items():
        handles[f"paper ({name}, {', '.join(places)})"] = marks[name]
    if not handles:
        return 0
    columns = _columns(list(handles))
    part.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns, columnspacing=1.6,
                handlelength=2.2)
    return -(-len(handles) // columns)


def _columns(labels: Sequence[str]) -> int:
    """Return the most columns that fit; a legend is filled column by column, each as wide as its longest label."""
    for columns in range(len(labels), 1, -1):
        rows, longer = divmod(len(labels), columns)
        # The first columns have one label more than the others where they cannot have as many.
        starts = [number * rows + min(number, longer) for number in range(columns + 1)]
        if sum(max(map(len, labels[start:end])) + HANDLE_LETTERS for start, end in zip(starts, starts[1:])
               ) <= LEGEND_LETTERS:
            return columns
    return 1


def make(rows: Sequence[Row], note: str) -> Any:
    """Return the figure of the rows, with a note below them."""
    with pyplot.rc_context(RC):
        # Panels ask how far apart values are; so the figure has about its size from the start.
        figure = pyplot.figure(figsize=(WIDTH_IN, sum(row.height_in for row in rows) + NOTE_IN), layout="constrained")
        grid = figure.add_gridspec(len(rows), 1, height_ratios=[row.height_in for row in rows])
        parts = [figure.add_subfigure(place) for place in grid]
        heights = []
        known: Set[str] = set()
        for row, part in zip(rows, parts):
            axes = part.subplots(1, len(row.panels), width_ratios=row.widths, sharey=row.share_y, squeeze=False)[0]
            ends = []
            for panel, one in zip(row.panels, axes):
                if panel is None:
                    one.set_axis_off()
                else:
                    panel(one)
                    ends.append(one.get_ylim())
            if row.share_y:
                axes[0].set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
            for one in axes:
                for axis in (one.xaxis, one.yaxis):
                    plain = isinstance(axis.get_major_formatter(), ScalarFormatter)
                    if plain and max(axis.get_view_interval()) >= 1000:
                        axis.set_major_formatter(lambda value, _: f"{value:,g}")
            heights.append(row.height_in + LEGEND_LINE_IN * _legend(part, axes, known))
        figure.set_size_inches(WIDTH_IN, sum(heights) + NOTE_IN)
        grid.set_height_ratios(heights)
        figure.supxlabel(note, fontsize=8, color="#404040", x=0.995, ha="right")
        return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG of few colours; the same figure gives the same bytes."""
    with pyplot.rc_context(RC):
        figure.canvas.draw()
        pixels = numpy.asarray(figure.canvas.buffer_rgba())[:, :, :3].astype(numpy.int32)
        pyplot.close(figure)
    known = numpy.array(shades(), dtype=numpy.int32)
    colours, places = numpy.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    nearest = numpy.argmin(((colours[:, None, :] - known[None, :, :]) ** 2).sum(axis=2), axis=1).astype(numpy.uint8)
    path.write_bytes(_png(nearest[places].reshape(pixels.shape[:2]), known.astype(numpy.uint8).tobytes()))


def _png(pixels: Any, palette: bytes) -> bytes:
    """Return a PNG (RFC 2083) of rows of numbers of colours, and of the colours, three bytes each."""
    height, width = pixels.shape
    rows = numpy.hstack([numpy.zeros((height, 1), dtype=numpy.uint8), pixels])

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) + chunk(
        b"PLTE", palette) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
