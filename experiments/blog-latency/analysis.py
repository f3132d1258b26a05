# SPDX-License-Identifier: GPL-2.0-only
"""The blog's table and its question: D to C depends on the device, Q to D on the scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lab import fio
from lab.analysis import Judgement, find, ratio, worst
from lab.figure import Figure, Line, Lines, Table, number
from lab.result import Cell, Histogram, Latency

# The blog's table (ext4 on an SSD of 2011 in VMware, Linux 4.4): median, p95, p99, maximum and modes in us.
BLOG = (
    ("cfq", "55.9", "89", "130", "220", "52, 63"),
    ("deadline", "55.1", "86", "130", "200", "51, 60"),
    ("noop", "54.7", "90", "130", "200", "52, 61"),
)
MEDIANS = (55.9, 55.1, 54.7)
DEVICE, SCHEDULERS = "ssd", ("none", "mq-deadline", "kyber", "bfq", "mq-prio")
SAME = 1.03
OCTAVE_PARTS = 8
"""A mode is located in parts of an octave (9 %), so that neighbouring slots of one peak are one."""
MODE = 0.05
"""The part of all I/Os that a part of an octave must have, more than its two neighbours, to be a mode."""


def data(cell: Cell) -> Latency:
    """D to C of reads and writes; flushes, which carry no data, would be a mode of their own."""
    parts = [cell.stages_by[op]["d2c"] for op in ("read", "write") if op in cell.stages_by]
    histogram = fio.add(part.histogram for part in parts)
    mean = ratio(sum(value * count for value, count in histogram), sum(count for _, count in histogram))
    return fio.latency(histogram, mean, max((part.max for part in parts), default=0))


def part_of(value: int) -> int:
    """The part of an octave that contains a latency of at least 1 ns."""
    octave = value.bit_length() - 1
    return octave * OCTAVE_PARTS + (value * OCTAVE_PARTS >> octave) - OCTAVE_PARTS


def parts_of(histogram: Histogram) -> dict[int, int]:
    """How many I/Os lie in each part of an octave."""
    parts: dict[int, int] = {}
    for value, count in histogram:
        parts[part_of(max(value, 1))] = parts.get(part_of(max(value, 1)), 0) + count
    return parts


def modes(histogram: Histogram) -> list[int]:
    """The most common latency, in ns, of each peak of the histogram, the highest peak first."""
    parts = parts_of(histogram)
    total = sum(parts.values())
    peaks = [
        part
        for part, count in parts.items()
        if count >= MODE * total and count >= parts.get(part - 1, 0) and count > parts.get(part + 1, 0)
    ]
    return [
        max((count, value) for value, count in histogram if part_of(max(value, 1)) == part)[1]
        for part in sorted(peaks, key=lambda part: -parts[part])
    ]


def of(cells: Sequence[Cell], variant: str) -> list[Cell]:
    """A variant's cells of all schedulers; Missing if one was not measured."""
    return [find(cells, DEVICE, scheduler, variant) for scheduler in SCHEDULERS]


def apart(values: Sequence[float]) -> float:
    """The ratio of the largest to the smallest."""
    return ratio(worst(values), worst(values, min))


def p99(cell: Cell, by: str, stage: str) -> float:
    """The 99th percentile of a stage, for one of iolat's groups; NaN if it has nothing there."""
    found = cell.stages_by.get(by, {}).get(stage, Latency())
    return found.p99 if found.histogram else math.nan


def second(cell: Cell) -> int | None:
    """The part of an octave of the second mode; None if there is one mode only."""
    found = modes(data(cell).histogram)
    return part_of(found[1]) if len(found) > 1 else None


def share(histogram: Histogram, part: int) -> float:
    """The part of the I/Os in that part of an octave."""
    parts = parts_of(histogram)
    return ratio(parts.get(part, 0), sum(parts.values()))


def modes_with_fsync(cells: Sequence[Cell]) -> float:
    """The least number of modes that a scheduler shows."""
    return worst((float(len(modes(data(cell).histogram))) for cell in of(cells, "fsync")), min)


def left_without(cells: Sequence[Cell]) -> float:
    """The largest remainder of a scheduler's second mode without fsync; NaN if one has no second mode."""

    def left(cell: Cell, other: Cell) -> float:
        part = second(cell)
        if part is None:
            return math.nan
        return ratio(share(data(other).histogram, part), share(data(cell).histogram, part))

    return worst(left(*pair) for pair in zip(of(cells, "fsync"), of(cells, "no-fsync"), strict=True))


def writes_in_second(cells: Sequence[Cell]) -> float:
    """The smallest part of writes in the second mode's I/Os; NaN if a scheduler has no second mode."""

    def part(cell: Cell) -> float:
        mode = second(cell)
        if mode is None:
            return math.nan
        writes = cell.stages_by.get("write", {}).get("d2c", Latency())
        return ratio(parts_of(writes.histogram).get(mode, 0), parts_of(data(cell).histogram)[mode])

    return worst(map(part, of(cells, "fsync")), min)


SAID = f"sysbench on {DEVICE} under {', '.join(SCHEDULERS[:-1])} and {SCHEDULERS[-1]}"
CLAIMS = (
    Judgement(
        "d2c-same",
        f"{SAID}, with fsync: the largest median from dispatch to completion over the smallest",
        "≤",
        SAME,
        lambda cells: apart([data(cell).p50 for cell in of(cells, "fsync")]),
        max(MEDIANS) / min(MEDIANS),
    ),
    Judgement(
        "two-modes",
        f"{SAID}, with fsync: the least number of modes of the time from dispatch to completion",
        "≥",
        2,
        modes_with_fsync,
        2,
        bound=True,
    ),
    Judgement(
        "second-mode-is-writes",
        f"{SAID}, with fsync: the least part of the second mode's I/Os that are writes, which go into the drive's "
        "buffer",
        "≥",
        0.9,
        writes_in_second,
        bound=True,
    ),
    Judgement(
        "second-mode-goes",
        f"{SAID}: the largest share of I/Os in the second mode without fsync, relative to that with fsync",
        "≤",
        0.25,
        left_without,
        0,
        bound=True,
    ),
    Judgement(
        "contended-q2d",
        f"{SAID}, beside a reader of lower priority: the largest p99 from queue to dispatch of sysbench's I/O over the "
        "smallest",
        "≥",
        2,
        lambda cells: apart([p99(cell, "be/0", "q2d") for cell in of(cells, "contended")]),
    ),
    Judgement(
        "contended-files",
        f"{SAID}, beside a reader of lower priority: the largest p99 of reads in the file system over the smallest",
        "≥",
        2,
        lambda cells: apart([p99(cell, "files", "read") for cell in of(cells, "contended")]),
    ),
)


def judgements() -> Sequence[Judgement]:
    """What must hold."""
    return CLAIMS


def micro(value: float) -> str:
    return number(value / 1e3)


def row(cell: Cell) -> tuple[str, ...]:
    latency = data(cell)
    peaks = ", ".join(micro(value) for value in modes(latency.histogram)[:3])
    figures = (latency.p50, latency.p95, latency.p99, latency.max)
    return (cell.variant, cell.scheduler, *map(micro, figures), peaks)


def contended_row(cell: Cell) -> tuple[str, ...]:
    own, files = cell.stages_by["be/0"], cell.stages_by["files"]["read"]
    figures = (own["q2d"].p50, own["q2d"].p99, own["d2c"].p50, own["d2c"].p99, files.p50, files.p99)
    return (cell.scheduler, *map(micro, figures), number(cell.job("sysbench").iops))


def curve(cell: Cell) -> Line:
    parts = parts_of(data(cell).histogram)
    total = sum(parts.values())
    points = tuple(
        (2 ** (part / OCTAVE_PARTS - 10), parts.get(part, 0) * 100 / total)
        for part in range(min(parts), max(parts) + 1)
        if 2 ** (part / OCTAVE_PARTS) < 1.5e6
    )
    return Line(cell.scheduler, points)


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """The blog's table with its own figures, the two histograms, and what contention shows."""
    seen = [cell for cell in cells if cell.stages_by]
    alone = [cell for cell in seen if cell.variant != "contended"]
    beside = [cell for cell in seen if cell.variant == "contended"]
    drawn = []
    if alone:
        rows = [("blog", *line) for line in BLOG] + [row(cell) for cell in alone]
        columns = ("", "scheduler", "median", "p95", "p99", "max", "modes")
        curves = [
            Lines(
                f"D to C, {variant}", "µs", "% of I/Os", tuple(curve(cell) for cell in alone if cell.variant == variant)
            )
            for variant in dict.fromkeys(cell.variant for cell in alone)
        ]
        text = (
            "Reads and writes, from dispatch to completion, beside the blog's own figures for another drive. "
            "A mode has at least 5 % of the I/Os in an eighth of an octave."
        )
        drawn.append(
            Figure(
                "d2c", "What the device does", text, (Table("D to C, in µs", columns, tuple(rows), 2), *curves), True
            )
        )
    if beside:
        heads = ("scheduler", "q2d p50", "q2d p99", "d2c p50", "d2c p99", "read p50", "read p99", "sysbench/s")
        table = Table("Beside a neighbour, in µs", heads, tuple(contended_row(cell) for cell in beside))
        text = (
            "sysbench at best-effort 0 beside a reader of 64 KiB pieces at best-effort 7, 16 deep: what the blog could "
            "not show. Of sysbench's own I/O the wait before the device and the time in it; of its reads of files, the "
            "time in the file system."
        )
        drawn.append(Figure("contended", "What the scheduler does", text, (table,), True))
    return drawn
