# SPDX-License-Identifier: GPL-2.0-only
"""A report's panels, drawn as SVG by matplotlib.

Colours are variables of the page's style sheet, so that one drawing serves light and dark. Lengths are in CSS pixels,
of which matplotlib counts 72 to an inch. The same panel gives the same bytes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullLocator

from lab.figure import CUT, Bars, Column, Line, Lines, Overview, number

WIDTH = 400
"""Of a panel: that of a phone, so that its text is never shrunk by much."""
HEIGHT = 220
ROW = 24
HEAD = 58
"""Above the bars of a measure: rows with its title, what is better, and the reference."""
PICTURE_WIDTH = 940
ROOM = 0.25
"""Of the longest bar: the room of a value beside a bar. Where the reference's line is in it, the value goes beyond."""
MARGIN = 16
"""Around a picture in a file of its own."""
# Stand-ins for what matplotlib can't know: a colour of the style sheet each.
INK, DIM, RULE, PAGE, BAR, OURS = (f"#00000{digit}" for digit in range(1, 7))
CURVES = tuple(f"#00001{digit}" for digit in range(8))
VARIABLES = {
    **{INK: "var(--ink)", DIM: "var(--dim)", RULE: "var(--rule)", PAGE: "var(--page)", BAR: "var(--bar)"},
    **{OURS: "var(--ours)", **{colour: f"var(--c{index})" for index, colour in enumerate(CURVES)}},
}
DASHES = ("-", (0, (5, 2)), (0, (2, 2)), (0, (8, 3)), "-", (0, (6, 2, 2, 2)), (0, (1, 2)), "-")
SETTINGS: Any = {
    **{"svg.fonttype": "none", "svg.hashsalt": "sluice", "text.parse_math": False, "font.size": 12},
    **{"text.color": INK, "axes.edgecolor": RULE, "axes.labelcolor": DIM, "xtick.color": DIM, "ytick.color": DIM},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.spines.bottom": False},
    **{"xtick.major.size": 0, "ytick.major.size": 0, "figure.facecolor": "none", "axes.facecolor": "none"},
}


def svg(panel: Bars | Lines | Overview) -> str:
    """The panel as elements of a page, each with its title as its accessible name. An overview has one a measure."""
    if isinstance(panel, Overview):
        parts = [_element(_overview(panel, (one,), WIDTH), f"{panel.title}: {one.title}") for one in panel.measures]
        return f'<div class="overview">{"".join(parts)}</div>'
    return _element(_bars(panel) if isinstance(panel, Bars) else _lines(panel), panel.title)


def picture(panel: Overview, style: str, note: str) -> str:
    """An overview as a file of its own: with a style sheet, on a background, and with a note as its description."""
    drawn = _inner(_overview(panel, panel.measures, PICTURE_WIDTH))
    width, height = PICTURE_WIDTH + 2 * MARGIN, HEAD + len(panel.rows) * ROW + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="picture" role="img">\n'
        f"<title>{escape(panel.title)}</title>\n<desc>{escape(note)}</desc>\n<style>\n{escape(style, False)}</style>\n"
        f'<rect width="{width}" height="{height}" rx="6" class="page"/>\n'
        f'<g transform="translate({MARGIN} {MARGIN})">\n{drawn}</g>\n</svg>\n'
    )


def _element(canvas: Canvas, title: str) -> str:
    width, height = (72 * inches for inches in canvas.get_size_inches())
    name = escape(title)
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{name}">{_inner(canvas)}</svg>'


def _inner(canvas: Canvas) -> str:
    """What is inside matplotlib's SVG element, with the style sheet's colours and the page's font."""
    out = io.StringIO()
    with mpl.rc_context(SETTINGS):
        canvas.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    inner = re.sub(r"^.*?<svg[^>]*>|</svg>\s*$|<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
    inner = re.sub(r'<g id="[^"]*"', "<g", inner)
    inner = inner.replace("xlink:href", "href")
    inner = re.sub(r" font-family: [^;]*;|<style.*?</style>", "", inner)
    return re.sub("|".join(VARIABLES), lambda found: VARIABLES[found[0]], inner)


def _canvas(width: float, height: float, columns: int = 1) -> tuple[Canvas, list[Axes]]:
    canvas = Canvas(figsize=(width / 72, height / 72), layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02))
    return canvas, list(canvas.subplots(1, columns, squeeze=False, sharey=True)[0])


def _rows(axes: Axes, names: Sequence[str], ours: Sequence[bool]) -> None:
    """Name the rows of bars, the first at the top, and draw no axis."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_xticks([])
    for label, mark in zip(axes.get_yticklabels(), ours, strict=True):
        label.set(color=OURS if mark else INK, weight=_weight(mark))


def _value(axes: Axes, end: float, row: int, value: float, ours: bool) -> None:
    """Write a value beside the end of its bar."""
    axes.annotate(
        number(value),
        (end, row),
        (5, 0),
        textcoords="offset points",
        va="center_baseline",
        color=OURS if ours else INK,
        weight=_weight(ours),
    )


def _weight(ours: bool) -> str:
    return "bold" if ours else "normal"


def _bars(panel: Bars) -> Canvas:
    with mpl.rc_context(SETTINGS):
        canvas, (axes,) = _canvas(WIDTH, max(1, len(panel.bars)) * ROW)
        for row, bar in enumerate(panel.bars):
            low, high = (bar.value if edge is None else edge for edge in (bar.low, bar.high))
            axes.barh(row, bar.value, 0.66, color=OURS if bar.ours else BAR)
            if high > low:
                spread = [[max(bar.value - low, 0)], [max(high - bar.value, 0)]]
                axes.errorbar(bar.value, row, xerr=spread, fmt="none", ecolor=INK, elinewidth=1.2, capsize=4)
            _value(axes, max(bar.value, high), row, bar.value, bar.ours)
        _rows(axes, [bar.label for bar in panel.bars], [bar.ours for bar in panel.bars])
        axes.set_xlim(0, max((max(bar.value, bar.high or 0) for bar in panel.bars), default=0) or 1)
        return canvas


def _overview(panel: Overview, measures: Sequence[Column], width: float) -> Canvas:
    ours = [row in panel.ours for row in range(len(panel.rows))]
    with mpl.rc_context(SETTINGS):
        canvas, columns = _canvas(width, HEAD + len(panel.rows) * ROW, len(measures))
        for axes, measure in zip(columns, measures, strict=True):
            _measure(axes, measure, panel.reference, ours)
        _rows(columns[0], panel.rows, ours)
        return canvas


def _measure(axes: Axes, measure: Column, reference: str, ours: Sequence[bool]) -> None:
    """A measure's bars; those beyond CUT times the reference end at the longest of the others, with a gap."""
    limit = CUT * measure.reference if measure.reference else math.inf
    top = max([measure.reference or 0, *(value for value in measure.values if value <= limit)]) or 1
    axes.set_xlim(0, top)
    axes.set_xticks([])
    for row, value in enumerate(measure.values):
        axes.barh(row, min(value, top), 0.7, color=OURS if ours[row] else BAR)
        if value > limit:
            axes.plot([0.96 * top, 0.98 * top], [row + 0.45, row - 0.45], color=PAGE, linewidth=4)
        end = min(value, top)
        beyond = measure.reference or 0
        _value(axes, beyond if 0 < beyond - end < ROOM * top else end, row, value, ours[row])
    _above(axes, measure.title, (0, 34), weight="bold", size=13)
    _above(axes, measure.hint, (0, 19), color=DIM)
    if measure.reference:
        axes.axvline(measure.reference, color=INK, linewidth=1.4, linestyle=(0, (4, 3)))
        _above(axes, f"{reference} {number(measure.reference)}", (measure.reference, 3), ha="center")


def _above(axes: Axes, text: str, place: tuple[float, float], **style: Any) -> None:
    """Write above the bars, at an x of their values and some pixels higher than the first."""
    x, height = place
    axes.annotate(text, (x, 1), (0, height), xycoords=("data", "axes fraction"), textcoords="offset points", **style)


def _lines(panel: Lines) -> Canvas:
    with mpl.rc_context(SETTINGS):
        canvas, (axes,) = _canvas(WIDTH, HEIGHT)
        for index, line in enumerate(panel.lines):
            _line(axes, line, panel.log, index % len(CURVES))
        _height(axes, panel)
        axes.grid(axis="y", color=RULE)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:,g}")
            axis.set_minor_locator(NullLocator())
        axes.set_xlabel(panel.x_unit, loc="left")
        if panel.lines:
            canvas.legend(loc="outside lower right", ncols=3, frameon=False, labelcolor=INK, handlelength=1.6)
        return canvas


def _height(axes: Axes, panel: Lines) -> None:
    """The range of y: as given, else from zero, and whole decades if it is logarithmic."""
    low, high = panel.bounds or axes.dataLim.intervaly
    if panel.log:
        low, high = (low, high) if 0 < low <= high < math.inf else (1.0, 1.0)
        low, high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        axes.set_yscale("log")
        axes.set_ylim(10.0**low, 10.0 ** max(high, low + 1))
    else:
        axes.set_ylim(min(low, 0.0) if math.isfinite(low) else 0.0, high if panel.bounds else None)


def _line(axes: Axes, line: Line, log: bool, index: int) -> None:
    points = [point for point in line.points if point[1] > 0 or not log]
    xs, ys = zip(*points, strict=True) if points else ((), ())
    axes.plot(xs, ys, label=line.label, color=CURVES[index], linestyle=DASHES[index], linewidth=1.8)
