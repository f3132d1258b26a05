# SPDX-License-Identifier: GPL-2.0-only
"""Fig 9 of the split-level paper: the cost of a policy that decides nothing, in instructions.

It is compared with the same elevator without the framework. The paper shows throughput on an SSD, with "no noticeable
time overhead" at 1 to 100 threads.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Bar, Bars, Figure, Panel, Table, number
from lab.result import Cell, Histogram

OURS = "split-noop"
BASE = "split-fifo"
NULL = "null"
PROCESSES = (1, 10, 100)
READ, WRITE, WRITEBACK = "direct-read", "buffered-write", "writeback"
TEXT = {
    READ: "4 KiB direct reads",
    WRITE: "4 KiB buffered writes that make a page dirty",
    WRITEBACK: "pages written back",
}
WHOLE, KERNELS = "sluice", {READ: "mq-deadline", WRITE: "bfq"}
"""The scheduler that adds no more to an I/O than one of the kernel's. bfq works at a page when it is written back."""
MOST_READ = 1.01
MOST_WRITE = 450
MOST_WRITEBACK = 300
READING = "writeback-instructions-per-page"
SLICE_NS = 500_000
"""A write of this duration was preempted: its process waited for another one's slice, which is at least 0.7 ms."""

Cells = Sequence[Cell]


def cost(cells: Cells, scheduler: str, load: str, processes: int) -> float:
    """Instructions per I/O, or per page; Missing if they were not measured."""
    if load == READ:
        return find(cells, NULL, scheduler, f"{READ}-{processes}").instructions_per_io
    cell = find(cells, NULL, scheduler, f"{WRITE}-{processes}")
    if load == WRITEBACK:
        return cell.readings.get(READING, 0)
    return undisturbed(cell.job("load").lat.histogram)


def undisturbed(histogram: Histogram) -> float:
    """The mean of the writes that were not preempted: the others include other processes' instructions."""
    kept = [(value, count) for value, count in histogram if value < SLICE_NS]
    return ratio(sum(value * count for value, count in kept), sum(count for _, count in kept))


def added(cells: Cells, load: str, processes: int) -> float:
    """The instructions that the framework adds to an I/O; NaN if there was none."""
    ours, base = (cost(cells, scheduler, load, processes) for scheduler in (OURS, BASE))
    return ours - base if ours and base else math.nan


def _times(cells: Cells, processes: int) -> float:
    return ratio(*(cost(cells, scheduler, READ, processes) for scheduler in (OURS, BASE)))


def _whole(cells: Cells, scheduler: str, load: str, processes: int) -> float:
    """What an I/O takes from the system call on, of a page until it is written back."""
    loads = (WRITE, WRITEBACK) if load == WRITE else (load,)
    return sum(cost(cells, scheduler, one, processes) for one in loads)


def _against_kernels(cells: Cells, load: str, processes: int) -> float:
    """What sluice adds to no scheduler, relative to what the kernel's scheduler adds."""
    none, ours, theirs = (_whole(cells, name, load, processes) for name in ("none", WHOLE, KERNELS[load]))
    return ratio(ours - none, theirs - none) if min(none, ours, theirs) else math.nan


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for processes in PROCESSES:
        by = f"{processes} process{'es' * (processes > 1)}"
        yield Judgement(
            f"{READ}-{processes}",
            f"{OURS} on null_blk, {TEXT[READ]} by {by}: instructions per I/O, relative to {BASE}",
            "≤",
            MOST_READ,
            partial(_times, processes=processes),
            1.0,
        )
        for load, most in ((WRITE, MOST_WRITE), (WRITEBACK, MOST_WRITEBACK)):
            yield Judgement(
                f"{load}-{processes}",
                f"{OURS} on null_blk, {TEXT[load]} by {by}: instructions per page added to those with {BASE}",
                "≤",
                most,
                partial(added, load=load, processes=processes),
            )
        for load, text in ((READ, TEXT[READ]), (WRITE, f"{TEXT[WRITE]}, and their writeback")):
            yield Judgement(
                f"{WHOLE}-{load}-{processes}",
                f"{WHOLE} on null_blk, {text} by {by}: instructions added to those with none, relative to "
                f"{KERNELS[load]}",
                "≤",
                1,
                partial(_against_kernels, load=load, processes=processes),
            )


def figures(cells: Cells) -> list[Figure]:
    """Instructions by number of processes, and the addition to those without the framework."""
    text = (
        "Guest instructions per I/O on null_blk, which completes inside the submission: the CPU alone is the limit, "
        "and one instruction takes one nanosecond. A read includes fio's own, a write is the system call, of those "
        "that weren't preempted; what is added is the difference to split-fifo, the same elevator as split-noop "
        "without the framework. The paper's Figure 9 shows throughput on an SSD, the same with and without the "
        "framework at 1 to 100 threads."
    )
    schedulers = list(dict.fromkeys(cell.scheduler for cell in cells))
    panels: list[Panel] = []
    for load in TEXT:
        table = _table(cells, schedulers, load)
        panels += [table, *_bars(cells, schedulers, load)] if table.rows else []
    return [Figure("fig-9", "What the framework costs (Fig 9)", text, tuple(panels), terminal=True)] if panels else []


def _table(cells: Cells, schedulers: Sequence[str], load: str) -> Table:
    rows = []
    for name in schedulers:
        try:
            rows.append((name, *_columns(partial(cost, cells, load=load), name)))
        except Missing:
            continue
    columns = ("scheduler", *(part for count in PROCESSES for part in (f"{count} processes", "added")))
    ours = frozenset(index for index, row in enumerate(rows) if row[0] in (OURS, WHOLE))
    return Table(f"{TEXT[load]}, instructions", columns, tuple(rows), 1, ours)


def _columns(measured: Callable[..., float], name: str) -> Iterator[str]:
    for count in PROCESSES:
        here, without = (measured(scheduler=one, processes=count) for one in (name, BASE))
        yield from (number(here), number(here - without))


def _bars(cells: Cells, schedulers: Sequence[str], load: str) -> Iterator[Bars]:
    for count in PROCESSES:
        bars = []
        for name in schedulers:
            try:
                bars.append(Bar(name, cost(cells, name, load, count), ours=name in (OURS, WHOLE)))
            except Missing:
                continue
        if bars:
            yield Bars(f"{TEXT[load]}, {count} processes", "instructions", tuple(bars))
