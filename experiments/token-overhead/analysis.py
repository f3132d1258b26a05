# SPDX-License-Identifier: GPL-2.0-only
"""The cost of Split-Token for the processor, in instructions, beside a policy that decides nothing.

A cgroup that is never in debt never waits, and should cost little more than the framework. The paper has no figure.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell

OURS, NOOP, BASE = "split-token", "split-noop", "split-fifo"
"""The last one is NOOP's elevator without the framework."""
NULL = "null"
LOADS = {"direct-read": "a 4 KiB direct read", "buffered-write": "a buffered write that makes a page dirty"}
MOST = 1.1

Cells = Sequence[Cell]


def cost(cells: Cells, scheduler: str, load: str) -> float:
    """Instructions per I/O, fio's own among them; NaN if the rate was not used, or was owed at the end."""
    cell = find(cells, NULL, scheduler, load)
    if scheduler == OURS and not (cell.readings.get("charged", 0) > 0 and cell.readings.get("tokens", 0) > 0):
        return math.nan
    return cell.instructions_per_io


def _times(cells: Cells, load: str) -> float:
    return ratio(*(cost(cells, scheduler, load) for scheduler in (OURS, NOOP)))


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for load, text in LOADS.items():
        yield Judgement(
            load,
            f"{OURS} on null_blk, {text} in a cgroup whose rate is never used up: instructions per I/O, relative to "
            f"{NOOP}",
            "≤",
            MOST,
            partial(_times, load=load),
        )


def figures(cells: Cells) -> list[Figure]:
    """Instructions by scheduler, and those that Split-Token adds to a policy that decides nothing."""
    text = (
        "Guest instructions per I/O, fio's own among them, on null_blk, which completes inside the submission: the CPU "
        f"alone is the limit, and one instruction takes one nanosecond. {BASE} is {NOOP}'s elevator without the "
        "framework. The rate is 8 GB/s."
    )
    rows = tuple(_rows(cells))
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    table = Table("Instructions", ("I/O", "scheduler", "instructions", f"over {NOOP}"), rows, 2, ours)
    return [Figure("cost", "What a rate costs the process that keeps to it", text, (table,), terminal=True)]


def _rows(cells: Cells) -> Iterator[tuple[str, ...]]:
    for load, text in LOADS.items():
        for scheduler in dict.fromkeys(cell.scheduler for cell in cells if cell.variant == load):
            try:
                here, noop = (cost(cells, one, load) for one in (scheduler, NOOP))
            except Missing:
                continue
            yield text, scheduler, number(here), number(ratio(here, noop))
