# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: an experiment at many settings of some knobs, and its overview.

A sweep may have thousands of cells: the CSV has them all, a table has the extremes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.figure import Figure, Line, Lines, Table, number

if TYPE_CHECKING:
    from lab.result import Cell, Job

MOST = 10_000
"""The largest number of values of one range; more is taken for a typing error."""
ROWS = 40
"""Rows of the table that the terminal shows."""
FIGURES: Mapping[str, Callable[[Job], float]] = {
    "IOPS": lambda job: job.iops,
    "p99 ms": lambda job: job.lat.p99 / 1e6,
}


def values(text: str) -> tuple[str, ...]:
    """The values of FIRST:LAST or FIRST:LAST:STEP, both ends included, or of a single value; UsageError if bad."""
    if ":" not in text:
        return (text,)
    parts = text.split(":")
    if not re.fullmatch(r"\d+:\d+(:\d+)?", text) or int(parts[0]) > int(parts[1]) or parts[2:] == ["0"]:
        raise UsageError(
            f"{text!r} is not a range of whole numbers, first to last",
            "./sluice sweep … --set low_share=1:50, or 1:50:5 for every fifth",
        )
    numbers = range(int(parts[0]), int(parts[1]) + 1, int(parts[2]) if parts[2:] else 1)
    if len(numbers) > MOST:
        raise UsageError(f"{text!r} has {len(numbers)} values, more than {MOST}", f"./sluice sweep … {text}:STEP")
    return tuple(map(str, numbers))


def spell(of: Sequence[str]) -> str:
    """The text from which `values` makes these values."""
    if len(of) == 1:
        return of[0]
    step = int(of[1]) - int(of[0])
    return f"{of[0]}:{of[-1]}" + (f":{step}" if step > 1 else "")


def figures(cells: Sequence[Cell], swept: Mapping[str, Sequence[str]]) -> list[Figure]:
    """The extremes of every job as a table, and each figure over each knob as curves."""
    several = len({cell.kernel for cell in cells}) > 1
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        where = f"{cell.kernel} " * several + f"{cell.device} {cell.variant}"
        groups.setdefault((where, cell.scheduler), []).append(cell)
    rows = tuple(row for place, group in groups.items() for row in _rows(place, group, swept))
    text = f"Each row has a figure's extremes over {len(cells)} cells; cells.csv has every cell."
    at = f"at {','.join(swept)}"
    columns = ("where", "scheduler", "job", "figure", "lowest", at, "median", "highest", at)
    shown = Table(f"{len(rows[:ROWS])} of {len(rows)} rows", columns, rows[:ROWS], 4)
    found = [Figure("extremes", "What the knobs change", text, (shown,), terminal=True)]
    if len(rows) > ROWS:
        found.append(Figure("rest", "The rest of the rows", "", (Table("", columns, rows[ROWS:], 4),)))
    return [*found, *(_curves(knob, groups) for knob, of in swept.items() if len(of) > 1 and all(map(str.isdigit, of)))]


def _rows(place: tuple[str, ...], group: Sequence[Cell], swept: Iterable[str]) -> list[tuple[str, ...]]:
    """Two rows a job: its IOPS and its p99."""
    rows = []
    for name in (job.name for job in group[0].jobs):
        for what, figure in FIGURES.items():
            ordered = sorted(group, key=lambda cell: figure(cell.job(name)))
            low, high = (figure(ordered[end].job(name)) for end in (0, -1))
            middle = median(figure(cell.job(name)) for cell in group)
            at = [",".join(ordered[end].tunables.get(knob, "–") for knob in swept) for end in (0, -1)]
            rows.append((*place, name, what, number(low), at[0], number(middle), number(high), at[1]))
    return rows


def _curves(knob: str, groups: Mapping[tuple[str, ...], Sequence[Cell]]) -> Figure:
    """A drawing of each group and figure, a line for each job."""
    panels = tuple(
        Lines(f"{' '.join(place)}: {what}", knob, "", _lines(knob, group, figure))
        for place, group in groups.items()
        if knob in group[0].tunables
        for what, figure in FIGURES.items()
    )
    text = "Where other knobs vary too, a point is the median over their settings."
    return Figure(f"over-{knob}", f"Over {knob}", text, panels)


def _lines(knob: str, group: Sequence[Cell], figure: Callable[[Job], float]) -> tuple[Line, ...]:
    settings = sorted({int(cell.tunables[knob]) for cell in group})
    at = {value: [cell for cell in group if int(cell.tunables[knob]) == value] for value in settings}
    return tuple(
        Line(name, tuple((float(value), median(figure(cell.job(name)) for cell in at[value])) for value in settings))
        for name in (job.name for job in group[0].jobs)
    )
