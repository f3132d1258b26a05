# SPDX-License-Identifier: GPL-2.0-only
"""Figures and tables of a report, as data. lab/chart.py draws them."""

from __future__ import annotations

import math
from dataclasses import dataclass

CUT = 8
"""A bar of an overview that is longer than so many times the reference is cut, or the others are too short to see."""


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
