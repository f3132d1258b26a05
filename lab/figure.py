# SPDX-License-Identifier: GPL-2.0-only
"""Figures and tables of a report, and their drawing as SVG.

The drawings take their colours from the page's style sheet (classes, currentColor), so that one drawing serves light
and dark. All text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 460
LABEL_WIDTH = 124
VALUE_WIDTH = 64
ROW_HEIGHT = 24
PLOT_HEIGHT = 210
LEFT = 52
BOTTOM = 34
CHARACTER = 7
"""Pixels that a character of a legend takes, roughly."""
SAMPLE = 36
"""Pixels of a line's sample before its name in a legend, with the gap between two entries."""
LEGEND_ROW = 18
"""Extra pixels for a legend that doesn't fit beside the unit of x."""
OVERVIEW_WIDTH = 940
OVERVIEW_LABEL = 136
OVERVIEW_VALUE = 58
OVERVIEW_ROW = 27
OVERVIEW_HEAD = 58
"""Pixels of an overview: its width, its names, the room for a value beside its bar, a row, the heads."""
MARGIN = 16
"""Pixels around an overview in a file of its own."""
CUT = 8
"""A bar longer than this many times the reference is cut, or the others could not be told apart."""


@dataclass(frozen=True)
class Bar:
    """One value with the spread of its runs; ours marks the scheduler that the report is about."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    ours: bool = False


@dataclass(frozen=True)
class Bars:
    """Values side by side, from zero."""

    title: str
    unit: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Line:
    """One curve; points are (x, y)."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Lines:
    """Curves over a common x; on a logarithmic y only positive values are drawn.

    bounds fixes the y axis, so that several drawings can be compared.
    """

    title: str
    x_unit: str
    y_unit: str
    lines: tuple[Line, ...]
    log: bool = False
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of text; numbers are in every column but the first `names`.  ours: the rows to mark."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1
    ours: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Column:
    """One column of bars in an overview, with a row's value each; reference is drawn as a line across all."""

    title: str
    hint: str
    values: tuple[float, ...]
    reference: float | None = None


@dataclass(frozen=True)
class Overview:
    """Several measures of the same rows side by side; ours: the rows to mark; the reference's name."""

    title: str
    rows: tuple[str, ...]
    measures: tuple[Column, ...]
    reference: str
    ours: frozenset[int] = frozenset()


Panel = Bars | Lines | Table | Overview


@dataclass(frozen=True)
class Figure:
    """Panels that belong together.

    terminal: its tables are also printed after a run. opening: it stands at the top of the page, without tables.
    """

    id: str
    title: str
    text: str
    panels: tuple[Panel, ...]
    terminal: bool = False
    opening: bool = False


def number(value: float) -> str:
    """A value with three significant digits or all of its integer part: 13,591, 2.74, 0.061."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def picture(panel: Overview, style: str, note: str) -> str:
    """An overview as a file of its own: with a style sheet, on a background, and with a note as its description."""
    width, height = OVERVIEW_WIDTH + 2 * MARGIN, OVERVIEW_HEAD + len(panel.rows) * OVERVIEW_ROW + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="overview picture" role="img">\n'
        f"<title>{escape(panel.title)}</title>\n<desc>{escape(note)}</desc>\n<style>\n{escape(style, False)}</style>\n"
        f'<rect width="{width}" height="{height}" rx="6" class="page"/>\n<g transform="translate({MARGIN} {MARGIN})">\n'
        + "\n".join(_overview(panel))
        + "\n</g>\n</svg>\n"
    )


def svg(panel: Bars | Lines | Overview) -> str:
    """The panel as an SVG element, its title as the accessible name."""
    width, style = WIDTH, ""
    if isinstance(panel, Overview):
        body, height = list(_overview(panel)), OVERVIEW_HEAD + len(panel.rows) * OVERVIEW_ROW
        width, style = OVERVIEW_WIDTH, ' class="overview"'
    else:
        body, height = _bars(panel) if isinstance(panel, Bars) else _lines(panel)
    name = escape(panel.title)
    return f'<svg viewBox="0 0 {width} {height}"{style} role="img" aria-label="{name}">' + "".join(body) + "</svg>"


def _text(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    name = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}>{escape(text)}</text>'


def _segment(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def _bars(panel: Bars) -> tuple[list[str], int]:
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    top = max((max(bar.value, bar.high or 0) for bar in panel.bars), default=0) or 1
    body: list[str] = []
    for index, bar in enumerate(panel.bars):
        body += _bar(bar, index * ROW_HEIGHT, room / top)
    return body, max(1, len(panel.bars)) * ROW_HEIGHT


def _bar(bar: Bar, y: float, scale: float) -> Iterator[str]:
    style = "bar ours" if bar.ours else "bar"
    middle = y + ROW_HEIGHT / 2
    end = LABEL_WIDTH + bar.value * scale
    yield _text(LABEL_WIDTH - 8, middle + 4, bar.label, "end", "strong" if bar.ours else "")
    yield (
        f'<rect x="{LABEL_WIDTH}" y="{y + 4:.1f}" width="{max(bar.value * scale, 0.5):.1f}" '
        f'height="{ROW_HEIGHT - 8}" class="{style}"/>'
    )
    if bar.low is not None and bar.high is not None and bar.high > bar.low:
        low, high = (LABEL_WIDTH + edge * scale for edge in (bar.low, bar.high))
        yield _segment(low, middle, high, middle, "spread")
        yield _segment(low, middle - 4, low, middle + 4, "spread")
        yield _segment(high, middle - 4, high, middle + 4, "spread")
        end = max(end, high)
    yield _text(end + 6, middle + 4, number(bar.value), style="strong" if bar.ours else "")


def _overview(panel: Overview) -> Iterator[str]:
    for index, name in enumerate(panel.rows):
        y = OVERVIEW_HEAD + (index + 0.5) * OVERVIEW_ROW + 4
        yield _text(OVERVIEW_LABEL - 12, y, name, "end", "strong" if index in panel.ours else "")
    width = (OVERVIEW_WIDTH - OVERVIEW_LABEL) / len(panel.measures)
    for index, measure in enumerate(panel.measures):
        yield from _measure(measure, panel, OVERVIEW_LABEL + index * width, width - OVERVIEW_VALUE)


def _measure(measure: Column, panel: Overview, left: float, room: float) -> Iterator[str]:
    """A measure's column of bars, at most `room` pixels long."""
    limit = CUT * measure.reference if measure.reference else math.inf
    scale = room / (max([measure.reference or 0, *(value for value in measure.values if value <= limit)]) or 1)
    line = (measure.reference or 0) * scale
    yield _text(left, 14, measure.title, style="head")
    yield _text(left, 30, measure.hint, style="dim")
    for index, value in enumerate(measure.values):
        y, style = OVERVIEW_HEAD + index * OVERVIEW_ROW, " ours" if index in panel.ours else ""
        length = min(max(value * scale, 1.0), room)
        yield f'<rect x="{left:.1f}" y="{y + 4}" width="{length:.1f}" height="{OVERVIEW_ROW - 8}" class="bar{style}"/>'
        if value > limit:
            yield _segment(left + room - 12, y + OVERVIEW_ROW, left + room - 6, y, "cut")
        end = line if line - OVERVIEW_VALUE < length < line else length
        yield _text(left + end + 6, y + OVERVIEW_ROW / 2 + 4, number(value), style="strong" if style else "")
    if measure.reference:
        x = left + line
        yield _segment(x, OVERVIEW_HEAD - 6, x, OVERVIEW_HEAD + len(panel.rows) * OVERVIEW_ROW, "reference")
        yield _text(x, OVERVIEW_HEAD - 10, f"{panel.reference} {number(measure.reference)}", "middle")


@dataclass(frozen=True)
class _Axes:
    """Maps data to pixels inside the frame of a Lines panel."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log: bool

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - 8)

    def y(self, value: float) -> float:
        low, high = (self._scale(edge) for edge in self.y_range)
        return PLOT_HEIGHT - BOTTOM - (self._scale(value) - low) / (high - low) * (PLOT_HEIGHT - BOTTOM - 10)

    def _scale(self, value: float) -> float:
        return math.log10(value) if self.log else value


def _lines(panel: Lines) -> tuple[list[str], int]:
    lines = [
        Line(line.label, tuple(point for point in line.points if point[1] > 0 or not panel.log)) for line in panel.lines
    ]
    axes = _axes(panel, [point for line in lines for point in line.points])
    body = [_text(LEFT, PLOT_HEIGHT - 4, panel.x_unit, style="dim")]
    body += _grid(axes)
    for index, line in enumerate(lines):
        points = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in line.points)
        body.append(f'<polyline points="{points}" class="line c{index % 8}"/>')
    room = sum(len(line.label) * CHARACTER + SAMPLE for line in lines)
    height = PLOT_HEIGHT + (LEGEND_ROW if room + len(panel.x_unit) * CHARACTER > WIDTH - LEFT - 8 else 0)
    return body + list(_legend(lines, height)), height


def _axes(panel: Lines, points: Sequence[tuple[float, float]]) -> _Axes:
    xs = [x for x, _ in points] or [0.0, 1.0]
    ys = [y for _, y in points] or [1.0]
    low, high = panel.bounds or (min(ys), max(ys))
    if panel.log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    else:
        low = min(low, 0.0)
    return _Axes(
        (min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1), (low, high if high > low else low + 1), panel.log
    )


def _grid(axes: _Axes) -> Iterator[str]:
    for tick in _ticks(axes.y_range, axes.log):
        yield _segment(LEFT, axes.y(tick), WIDTH - 8, axes.y(tick), "grid")
        yield _text(LEFT - 6, axes.y(tick) + 4, f"{tick:,g}", "end", "dim")
    for tick in _ticks(axes.x_range, False):
        yield _text(axes.x(tick), PLOT_HEIGHT - BOTTOM + 15, f"{tick:,g}", "middle", "dim")


def _ticks(bounds: tuple[float, float], log: bool) -> list[float]:
    low, high = bounds
    if log:
        return [10.0**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1)]
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return [step * count for count in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _legend(lines: Sequence[Line], height: int) -> Iterator[str]:
    x = WIDTH - 8.0
    for index, line in reversed(list(enumerate(lines))):
        x -= len(line.label) * CHARACTER
        yield _text(x, height - 4, line.label)
        yield _segment(x - 24, height - 8, x - 6, height - 8, f"line c{index % 8}")
        x -= SAMPLE
