# SPDX-License-Identifier: GPL-2.0-only
"""Fig 10 of the split-level paper: the framework's memory, as a part of the machine's."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, find, ratio
from lab.figure import Bar, Bars, Figure, Line, Lines, Table, number
from lab.result import Cell

SCHEDULERS = ("split-noop", "afq")
DEVICE = "hdd"
RATIOS = (10, 20, 30, 40, 50)
DEFAULT = 20
"""The kernel's own vm.dirty_ratio."""
AVERAGE, MOST = "average-bytes", "most-bytes"
LIMITS = ((DEFAULT, AVERAGE, 0.002, "on average"), (50, MOST, 0.006, "at most"))
PAPER = {(DEFAULT, AVERAGE): 14.5e6, (DEFAULT, MOST): 23.3e6, (50, MOST): 52.2e6}
"""Section 4.3: bytes, of 8 GB of memory."""
PAPER_RAM = 8e9

Cells = Sequence[Cell]


def part(cell: Cell, reading: str) -> float:
    """The part of the memory that the framework uses; NaN if it uses none, as then there is no framework."""
    kept = cell.readings.get(reading, 0)
    return ratio(kept, cell.readings.get("ram-bytes", 0)) if kept else math.nan


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for scheduler in SCHEDULERS:
        for percent, reading, limit, text in LIMITS:
            yield Judgement(
                f"{scheduler}-{percent}",
                f"{scheduler} on {DEVICE}, vm.dirty_ratio {percent}: part of the machine's memory that the framework "
                f"keeps {text}",
                "≤",
                limit,
                partial(_part, scheduler=scheduler, percent=percent, reading=reading),
                round(PAPER[percent, reading] / PAPER_RAM, 4),
                bound=reading == MOST,
            )


def _part(cells: Cells, scheduler: str, percent: int, reading: str) -> float:
    return part(find(cells, DEVICE, scheduler, f"dirty-{percent}"), reading)


def figures(cells: Cells) -> list[Figure]:
    """The paper's figure, as parts of the memory so that machines can be compared."""
    schedulers = list(dict.fromkeys(cell.scheduler for cell in cells))
    text = (
        "Eight writers of 64 MiB files; vm.dirty_background_ratio is half of vm.dirty_ratio. The paper's "
        "machine, a worker of HDFS, has 8 GB and kept 14.5 MB on average and 23.3 MB at most by default, 52.2 MB at a "
        "ratio of 50."
    )
    curves = tuple(
        Line(f"{name}, {kind}", _points(cells, name, reading))
        for name in schedulers
        for reading, kind in ((AVERAGE, "avg"), (MOST, "max"))
    )
    theirs = tuple(
        Bar(f"{percent} %, {'avg' if reading == AVERAGE else 'max'}", value / PAPER_RAM * 100)
        for (percent, reading), value in PAPER.items()
    )
    panels = (
        _table(cells),
        Lines("Memory kept (Fig 10)", "dirty ratio, %", "% of memory", curves),
        Bars("The paper: memory kept", "% of memory", theirs),
    )
    return [Figure("fig-10", "What the framework keeps in memory (Fig 10)", text, panels, terminal=True)]


def _points(cells: Cells, scheduler: str, reading: str) -> tuple[tuple[float, float], ...]:
    return tuple(
        (float(percent), part(cell, reading) * 100)
        for percent in RATIOS
        for cell in cells
        if (cell.scheduler, cell.variant) == (scheduler, f"dirty-{percent}")
    )


def _table(cells: Cells) -> Table:
    rows = tuple(
        (
            cell.scheduler,
            cell.variant.removeprefix("dirty-"),
            *(number(cell.readings[reading] / 1e6) for reading in (AVERAGE, MOST)),
            *(number(part(cell, reading) * 100) for reading in (AVERAGE, MOST)),
            number(cell.job("load").bytes_per_s / 1e6),
        )
        for cell in cells
    )
    columns = ("scheduler", "dirty ratio", "avg MB", "max MB", "avg %", "max %", "written MB/s")
    return Table("Memory kept", columns, rows, 2)
