# SPDX-License-Identifier: Apache-2.0
"""Every experiment has a figure, which shows intervals, can be read, and bears missing values and unknown runs."""

import copy
import importlib.util
import itertools
import math
from pathlib import Path

import numpy
import pytest
from matplotlib import colors, pyplot
from matplotlib.container import ErrorbarContainer
from matplotlib.text import Text

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed import figures
from sdngcc.testbed.figures.bars import Bars
from sdngcc.testbed.figures.data import Estimate, gather
from sdngcc.testbed.figures.layout import Row, make
from sdngcc.testbed.figures.marks import Paper
from sdngcc.testbed.figures.papers import PAPERS
from sdngcc.testbed.figures.series import Series
from sdngcc.testbed.figures.style import DPI, INTERVAL, LOOKS, PALETTE, WIDTH_IN
from sdngcc.testbed.figures.table import DRAWINGS

_SPEC = importlib.util.spec_from_file_location("figure_runs", Path(__file__).with_name("figure_runs.py"))
figure_runs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(figure_runs)
result_of = figure_runs.result_of

#: Pixels of a page of GitHub, and dots per inch at that width.
PAGE_PX = 830
#: Labels of an unknown run where labels have a part that tells the work.
PLACEBO = {"unfair": "udp, placebo", "many-flows": "flows=1, placebo",
           "many-dsts": "one server, destinations=1, placebo",
           "divisions": "DS and CS, law=placebo, unordered", "divisions-load": "load 80%, law=placebo, unordered",
           "interference": "DS and CS, load 80%, placebo",
           "laws": "placebo, share", "maxmin": "placebo, share", "tournament": "placebo, load 60%",
           "today": "placebo, share", "elasticswitch": "16 tcp, placebo"}
#: Simulated vision without the pigment for green, for linear RGB: Machado, Oliveira and Fernandes, A Physiologically-
#: based Model for Simulation of Color Vision Deficiency, 2009, severity 1.0. The same for red.
DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
PROTANOPIA = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
#: Difference in CIE L*a*b* from which on two colours are told apart at a glance; 2.3 is just noticeable.
APART = 10


def figure_of(experiment, *results, laid_out=True):
    """Return a figure, and the axes that show something; only one that is laid out has the texts of its ticks."""
    figure = figures.figure_of(experiment, results)
    if laid_out:
        figure.canvas.draw()
    return figure, [axes for axes in figure.get_axes() if axes.axison]


def texts_of(figure):
    """Return all that is written in a figure and seen; ticks outside of an axis are not."""
    unseen = set()
    for axes in figure.get_axes():
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            unseen |= {id(tick.label1) for tick in axis.get_major_ticks() + axis.get_minor_ticks()
                       if not low <= tick.get_loc() <= high or not axes.axison}
    return [text for text in figure.findobj(Text)
            if text.get_visible() and text.get_text().strip() and id(text) not in unseen]


def intervals_of(axes):
    """Return how many intervals are drawn."""
    bars = sum(1 for container in axes.containers if isinstance(container, ErrorbarContainer)
               and (container.has_xerr or container.has_yerr))
    return bars + sum(1 for one in axes.collections if one.get_gid() == INTERVAL)


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def test_every_experiment_has_a_figure():
    assert set(DRAWINGS) == set(EXPERIMENTS)
    assert all(drawing.__doc__ for drawing in DRAWINGS.values())
    # Values of papers belong to an experiment that follows that paper, and say where they stand.
    for name, values in PAPERS.items():
        paper = EXPERIMENTS[name].paper.split(",")[0]
        assert all(value.source.startswith(f"{paper}, ") for value in values.values()), name


@pytest.mark.parametrize("experiment", list(EXPERIMENTS))
def test_a_figure_of_one_seed_shows_something_everywhere_and_can_be_read(experiment):
    figure, shown = figure_of(experiment, result_of(experiment, 1))
    assert shown
    for axes in shown:
        drawn = [one for one in (*axes.lines, *axes.patches, *axes.collections) if one.get_visible()]
        assert drawn, axes.get_title()
        assert axes.get_xlabel() or any(text.get_text() for text in axes.get_xticklabels()), axes.get_title()
        assert not intervals_of(axes)
    texts = texts_of(figure)
    smallest = min(text.get_fontsize() for text in texts)
    assert figure.get_size_inches()[0] == WIDTH_IN and round(smallest * PAGE_PX / (WIDTH_IN * 100), 6) >= 8
    assert "seed 1" in [text.get_text() for text in texts]
    # Nothing is cut off, and no title, legend or name of an axis covers another.
    width, height = figure.canvas.get_width_height()
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= -1 and box.x1 <= width + 1 and box.y0 >= -1 and box.y1 <= height + 1, text.get_text()
    boxes = [(text.get_text(), text.get_window_extent()) for axes in shown for text in (
        axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels())
        if text in texts]
    legends = [("legend", legend.get_window_extent()) for part in figure.subfigs for legend in part.legends]
    assert not any(_cover(legend, axes.get_window_extent()) for _, legend in legends for axes in shown)
    boxes += legends
    for (one, box), (other, rest) in itertools.combinations(boxes, 2):
        assert not _cover(box, rest), f"{one!r} covers {other!r}"


def _cover(one, other):
    return min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1


@pytest.mark.parametrize("experiment", list(EXPERIMENTS))
def test_three_seeds_have_intervals(experiment):
    figure, shown = figure_of(experiment, *(result_of(experiment, seed) for seed in (1, 2, 3)), laid_out=False)
    assert sum(intervals_of(axes) for axes in shown), experiment
    assert "means of 3 seeds, with 95% intervals" in [text.get_text() for text in texts_of(figure)]


@pytest.mark.parametrize("experiment", list(EXPERIMENTS))
def test_missing_values_and_unknown_runs_are_borne(experiment):
    first, second = (result_of(experiment, seed) for seed in (1, 2))
    label = PLACEBO.get(experiment, "placebo")
    first["variants"].append({**copy.deepcopy({key: first[key] for key in first if key not in (
        "variants", "verdicts", "seed", "experiment")}), "label": label})
    for value in (None, math.nan):
        broken = copy.deepcopy(second)
        vm = next(iter(broken["series"]["goodput_mbps"]))
        broken["series"]["goodput_mbps"][vm][0:5] = [value] * 5
        broken["measured"] = _emptied(broken["measured"], value)
        for one in broken["phases"]:
            one["settled_goodput_mbps"] = _emptied(one["settled_goodput_mbps"], value)
        figure, _ = figure_of(experiment, first, broken, laid_out=value is None)
        assert value is not None or any("placebo" in text.get_text() for text in texts_of(figure))
        # Without another seed the values are missing altogether.
        figure_of(experiment, broken, laid_out=False)


def _emptied(measured, value):
    """Return the same with another value for every number; of lists, which are distributions, nothing is left."""
    if isinstance(measured, dict):
        return {key: _emptied(one, value) for key, one in measured.items()}
    return [] if isinstance(measured, list) else value


def test_a_value_its_interval_and_the_papers_are_where_they_belong():
    bars = Bars(["a", "b"], [Series("one", LOOKS[0], [Estimate(4.0, 0.5), None])], "Mb/s", "title",
                {(0, 0): Paper(5.0, "Paper, Fig. 1")}, targets={(1, 0): 3.0})
    figure = make([Row([bars])], "seed 1")
    axes = figure.get_axes()[0]
    assert [round(patch.get_height(), 6) for patch in axes.patches] == [4.0]
    container = next(one for one in axes.containers if isinstance(one, ErrorbarContainer))
    (low, high), = ((segment[0][1], segment[1][1]) for segment in container.lines[2][0].get_segments())
    assert (low, high) == (3.5, 4.5)
    assert [line.get_ydata()[0] for line in axes.lines if line.get_label() == "paper (Paper, Fig. 1)"] == [5.0]
    assert {"4", "no value", "title"} <= {text.get_text() for text in texts_of(figure)}


def test_thin_bars_may_go_without_their_values():
    for write in (True, False):
        bars = Bars(["a"], [Series("one", LOOKS[0], [Estimate(4.0, 0.0)])], "", "", write_values=write)
        assert ("4" in [text.get_text() for text in make([Row([bars])], "").get_axes()[0].texts]) is write


def test_a_value_keeps_clear_of_a_papers_mark_and_stays_at_its_bar_otherwise():
    texts = {}
    for paper in (1.1, 6.0):
        bars = Bars(["a"], [Series("", LOOKS[0], [Estimate(1.0, 0.0)])], "", "",
                    {(0, 0): Paper(paper, "Paper, Fig. 1")}, form="value {:g}")
        axes = make([Row([bars])], "").get_axes()[0]
        texts[paper] = next(text.xy[1] for text in axes.texts if text.get_text().startswith("value"))
    assert texts == {1.1: 1.1, 6.0: 1.0}


def test_runs_are_told_by_label_and_seeds_without_one_are_left_out():
    one, other = ({"seed": seed, "label": "a", "variants": [{"label": label}]} for seed, label in ((1, "b"), (2, "c")))
    found = gather([one, other])
    assert {label: [run["seed"] for run in seeds] for label, seeds in found.items()} == {
        "a": [1, 2], "b": [1], "c": [2]}
    with pytest.raises(ValueError, match="share: there is no result"):
        figures.figure_of("share", [])


@pytest.mark.parametrize("experiment", ["share", "laws"])
def test_the_same_results_give_the_same_small_file(experiment, tmp_path):
    results = [result_of(experiment, seed) for seed in (1, 2)]
    files = []
    for name in ("one.png", "two.png"):
        figures.draw(experiment, results, tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1] and len(files[0]) < 60_000 and b"Software" not in files[0]
    pixels = pyplot.imread(tmp_path / "one.png")
    assert pixels.shape[1] == int(WIDTH_IN * DPI) and pixels.shape[1] >= PAGE_PX
    # White is white, and the colours of series are exactly theirs.
    seen = {colors.to_hex(colour) for colour in numpy.unique(pixels[:, :, :3].reshape(-1, 3), axis=0)}
    assert {"#ffffff", PALETTE[0]} <= seen


def _lab(colour, matrix):
    """Return a colour as CIE L*a*b* under D65, seen through a matrix for linear RGB."""
    srgb = numpy.array(colors.to_rgb(colour))
    linear = numpy.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = numpy.clip(numpy.array(matrix) @ linear, 0, 1)
    to_xyz = numpy.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                          [0.0193339, 0.1191920, 0.9503041]])
    ratio = to_xyz @ seen / numpy.array([0.95047, 1.0, 1.08883])
    x, y, z = numpy.where(ratio > (6 / 29) ** 3, numpy.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return numpy.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("matrix", [numpy.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "no green", "no red"])
def test_who_sees_no_green_or_red_can_tell_colours_apart(matrix):
    for one, other in itertools.combinations((*PALETTE, "#ffffff"), 2):
        assert numpy.linalg.norm(_lab(one, matrix) - _lab(other, matrix)) > APART, f"{one} and {other}"


def test_series_differ_in_more_than_colour():
    for kind in ("marker", "hatch"):
        assert len({getattr(look, kind) for look in LOOKS}) == len(LOOKS)
