# SPDX-License-Identifier: GPL-2.0-only
"""A desktop beside a copy or a build, when nothing has a priority: each part of it in its worst case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import Figure, Table, number
from lab.result import Cell

OURS = "sluice"
RIVAL = "bfq"
DEVICES = ("ssd", "hdd", "emmc", "nvme")
ALONE = "alone"
BESIDE = {"beside-copy": "copying", "beside-build": "building"}
"""The neighbour alone, by the variant in which it is beside the desktop."""
MOVED = {"beside-copy": "copied", "beside-build": "built"}
COLUMNS = ("scheduler", "start, s", "worst", "of alone", "frame late, ms", "fsync p99, ms", "of alone", "neighbour")


def start(cell: Cell) -> float:
    """The mean time of a program's start, in s."""
    return cell.readings["start"]


def save(cell: Cell) -> float:
    """The p99 of the editor's fsync, in ns."""
    return cell.job("editor").sync.p99


def slower(cells: Sequence[Cell], device: str, value: Callable[[Cell], float]) -> float:
    """A time beside the neighbour that is worst for it, relative to that alone."""
    alone = value(find(cells, device, OURS, ALONE))
    return worst(ratio(value(find(cells, device, OURS, variant)), alone) for variant in BESIDE)


def than_rival(cells: Sequence[Cell], device: str) -> float:
    """The time of a start beside the neighbour that is worst for it, relative to that under the rival."""
    pairs = (tuple(start(find(cells, device, name, variant)) for name in (OURS, RIVAL)) for variant in BESIDE)
    return worst(ratio(ours, theirs) for ours, theirs in pairs)


def late(cells: Sequence[Cell], device: str) -> float:
    """By how much the latest frame of the video was late beside any neighbour, in ms."""
    shown = [find(cells, device, OURS, variant).readings for variant in BESIDE]
    return worst(one["frame-late"] * 1e3 if one["frames"] else math.nan for one in shown)


def kept(cells: Sequence[Cell], device: str) -> float:
    """The copy's throughput beside the desktop, relative to that alone."""
    beside = find(cells, device, OURS, "beside-copy").readings["copied"]
    return ratio(beside, find(cells, device, OURS, "copying").readings["copied"])


def judgements() -> Iterator[Judgement]:
    """What must hold on each device."""
    for device in DEVICES:
        said = f"{OURS} on {device}, a desktop beside a copy or a build, all of one priority"
        text = f"{said}: the longest delay of a video's frame, in ms"
        yield Judgement(f"{device}-frames", text, "≤", 100, partial(late, device=device), bound=True)
        for name, what, sense, limit, measure in (
            ("start", "a program's start, relative to that alone", "≤", 2, partial(slower, value=start)),
            ("start-bfq", f"a program's start, relative to that under {RIVAL}", "≤", 1, than_rival),
            ("fsync", "the p99 of an editor's fsync, relative to that alone", "≤", 3, partial(slower, value=save)),
            ("copy", "the copy's throughput, relative to that alone", "≥", 0.7, kept),
        ):
            yield Judgement(f"{device}-{name}", f"{said}: {what}", sense, limit, partial(measure, device=device))


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """A table for each device and neighbour."""
    text = (
        "Nothing has a priority. A program starts again and again, an editor saves 64 KiB each second, a video reads "
        "2 MB/s. The neighbour copies a file of 5 GB, or four compilers read and write small files. Alone is the same "
        "scheduler without the neighbour."
    )
    places = dict.fromkeys((cell.device, variant) for cell in cells for variant in (ALONE, *BESIDE))
    tables = tuple(Table(_title(*place), COLUMNS, tuple(_rows(cells, *place))) for place in places)
    return [Figure("desktop", "A desktop and its neighbours", text, tables, terminal=True)]


def _title(device: str, variant: str) -> str:
    unit = {"copied": "MB/s", "built": "files/s"}.get(MOVED.get(variant, ""))
    return f"Desktop on {device}, {variant.replace('-', ' a ')}" + (f" (in {unit}, and of alone)" if unit else "")


def _rows(cells: Sequence[Cell], device: str, variant: str) -> Iterator[tuple[str, ...]]:
    for cell in cells:
        if (cell.device, cell.variant) == (device, variant):
            yield (
                *(cell.scheduler, number(start(cell)), number(cell.readings["start-worst"])),
                _part(cells, cell, ALONE, start),
                number(cell.readings["frame-late"] * 1e3),
                *(number(save(cell) / 1e6), _part(cells, cell, ALONE, save)),
                _moved(cells, cell),
            )


def _moved(cells: Sequence[Cell], cell: Cell) -> str:
    """How far the neighbour came in a second, and how much that is of what it does alone."""
    if cell.variant not in BESIDE:
        return ""
    name = MOVED[cell.variant]
    unit = 1e6 if name == "copied" else 1.0
    part = _part(cells, cell, BESIDE[cell.variant], lambda one: one.readings[name])
    return f"{number(cell.readings[name] / unit)} {part}"


def _part(cells: Sequence[Cell], cell: Cell, variant: str, value: Callable[[Cell], float]) -> str:
    """A value, relative to that in another variant under the same scheduler."""
    try:
        return number(ratio(value(cell), value(find(cells, cell.device, cell.scheduler, variant))))
    except Missing:
        return "–"
