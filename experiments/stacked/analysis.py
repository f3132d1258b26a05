# SPDX-License-Identifier: GPL-2.0-only
"""Judges and draws priorities below a stack of disks: the urgent job's latency, relative to that on a plain disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell

OURS = "mq-deadline-carry"
DEVICE = "ssd"
URGENT = {
    "reads": "reads of 4 KiB beside writes of the idle class",
    "commits": "fdatasync of 8 KiB beside reads of best effort",
    "writes": "direct writes of 8 KiB beside reads of best effort",
}
"""What is looked at, by family: the first part of a variant's name."""
PLACES = {"": "a plain disk", "-crypt": "LUKS", "-crypt-sync": "LUKS without its write thread"}
"""Where, by the rest of a variant's name."""
JUDGED = ("reads-crypt", "commits-crypt", "writes-crypt-sync")
COLUMNS = ("real-time job", "scheduler", "plain disk", "LUKS", "LUKS, no thread")


def p99(cell: Cell) -> float:
    """The p99 of the urgent job in ns; if it calls fdatasync, of the calls."""
    urgent = cell.jobs[0]
    return float((urgent.sync if urgent.sync.histogram else urgent.lat).p99)


def slower(cells: Sequence[Cell], variant: str) -> float:
    """The urgent job's p99 on a variant's stack, relative to that on a plain disk."""
    below, plain = (find(cells, DEVICE, OURS, name) for name in (variant, variant.partition("-")[0]))
    return ratio(p99(below), p99(plain))


def judgements() -> Iterator[Judgement]:
    """What must hold on each stack."""
    for variant in JUDGED:
        family, dash, place = variant.partition("-")
        yield Judgement(
            variant,
            f"mq-deadline with sluice-carry on {DEVICE} below {PLACES[dash + place]}, real-time {URGENT[family]}: p99, "
            "relative to that on a plain disk",
            "≤",
            1.2,
            partial(slower, variant=variant),
        )


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """A table of the urgent jobs' latency, and one of what the jobs beside them had."""
    text = (
        "A real-time job beside one of another class, on the whole disk or on a stack of it. Without its thread "
        "dm-crypt writes from the process that submits (no_write_workqueue)."
    )
    latency = Table("p99 of the real-time job, ms", COLUMNS, tuple(_rows(cells, p99, 1e6)), 2)
    beside = Table("The job beside it, MB/s", COLUMNS, tuple(_rows(cells, _beside, 1e6)), 2)
    return [Figure("stacked", "Priorities below a stack", text, (latency, beside), True)]


def _beside(cell: Cell) -> float:
    return cell.jobs[1].bytes_per_s


def _rows(cells: Sequence[Cell], value: Callable[[Cell], float], unit: float) -> Iterator[tuple[str, ...]]:
    for family, what in URGENT.items():
        for scheduler in dict.fromkeys(cell.scheduler for cell in cells if cell.variant.startswith(family)):
            yield (what, scheduler, *(_shown(cells, scheduler, family + place, value, unit) for place in PLACES))


def _shown(cells: Sequence[Cell], scheduler: str, variant: str, value: Callable[[Cell], float], unit: float) -> str:
    try:
        return number(value(find(cells, DEVICE, scheduler, variant)) / unit)
    except Missing:
        return "–"
