# SPDX-License-Identifier: GPL-2.0-only
"""Fig 18 of the split-level paper: how long SQLite's transactions take beside its checkpoints.

The paper's figure has no numbers but "a 4× improvement for 1K buffers".
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from lab import fio
from lab.analysis import Judgement, find, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell, Latency

OURS, RIVAL, OTHER = "split-deadline", "mq-deadline", "bfq"
DEVICES = ("hdd", "ssd")
LEAST_BEYOND = 10
"""The least number of transactions of a run beyond a percentile, if the percentile is to mean something."""
DEADLINE_S = {"hdd": 10, "ssd": 0.1}
"""The deadline of the fsync that ends a checkpoint."""
BUFFERS = {"256": "256", "1k": "1K", "4k": "4K", "16k": "16K"}
"""The thresholds, by variant."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    yield Judgement(
        "hdd-1k",
        f"{RIVAL} on hdd, a checkpoint each 1K buffers: p99.9 of transactions, relative to {OURS}",
        "≥",
        4,
        partial(slower, device="hdd", variant="1k", scheduler=RIVAL, than=OURS),
        4.0,
    )
    for device in DEVICES:
        yield Judgement(
            f"{device}-throughput",
            f"{OURS} on {device}, a checkpoint each 1K buffers: transactions a second, relative to {RIVAL}",
            "≥",
            0.95,
            partial(_throughput, device=device),
        )
        yield Judgement(
            f"{device}-checkpoint",
            f"{OURS} on {device}, a checkpoint each 1K buffers: the longest one, relative to the deadline of its fsync "
            f"of {DEADLINE_S[device]:g} s",
            "≤",
            1,
            partial(_longest, device=device),
            bound=True,
        )
        yield Judgement(
            f"{device}-written",
            f"{OURS} on {device}, a checkpoint each 1K buffers: part of the log that was written to the database, "
            f"relative to {RIVAL}",
            "≥",
            0.9,
            partial(_written, device=device),
        )
        for variant, buffers in BUFFERS.items():
            yield Judgement(
                f"{device}-{variant}-{OTHER}",
                f"{OURS} on {device}, a checkpoint each {buffers} buffers: p99.9 of transactions, relative to {OTHER}",
                "≤",
                1,
                partial(slower, device=device, variant=variant, scheduler=OURS, than=OTHER),
            )


def _transactions(cells: Cells, device: str, scheduler: str, variant: str) -> Latency:
    return find(cells, device, scheduler, variant).job("transactions").sync


def slower(cells: Cells, device: str, variant: str, scheduler: str, than: str) -> float:
    """The p99.9 of transactions under a scheduler, relative to that under another one; NaN if too few lie beyond it."""
    both = [_transactions(cells, device, name, variant) for name in (scheduler, than)]
    enough = all(sum(count for _, count in one.histogram) >= 1000 * LEAST_BEYOND for one in both)
    return ratio(both[0].p999, both[1].p999) if enough else math.nan


def _throughput(cells: Cells, device: str) -> float:
    return ratio(*(find(cells, device, name, "1k").job("transactions").iops for name in (OURS, RIVAL)))


def _longest(cells: Cells, device: str) -> float:
    readings = find(cells, device, OURS, "1k").readings
    return ratio(readings["longest_s"], DEADLINE_S[device]) if readings["checkpoints"] else math.nan


def _written(cells: Cells, device: str) -> float:
    return ratio(*(find(cells, device, name, "1k").readings["written"] for name in (OURS, RIVAL)))


def figures(cells: Cells) -> list[Figure]:
    """A table for each device."""
    text = (
        "A process updates four random rows of a table of 128 MiB in each transaction. When so many pages have "
        "changed, another process writes them from the log to the database and makes them durable, while "
        "transactions go on. Under split-deadline the log's fsync has 100 ms on the hard disk and 3 ms on flash, the "
        "database's 10 s and 100 ms. Under sluice the checkpoints have best effort 7. The last column is the part of "
        "the log that ended checkpoints have written."
    )
    devices = dict.fromkeys(cell.device for cell in cells)
    return [
        Figure(f"fig-18-{device}", f"SQLite on {device} (Fig 18)", text, (_table(cells, device),), terminal=True)
        for device in devices
    ]


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (BUFFERS.get(cell.variant, "none"), cell.scheduler, *_row(cell)) for cell in cells if cell.device == device
    )
    columns = (
        *("checkpoint at", "scheduler", "a second", "p50 ms", "p99", "p99.9", "longest"),
        *("checkpoints", "longest s", "written"),
    )
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    return Table(f"Transactions on {device}", columns, rows, 2, ours)


def _row(cell: Cell) -> tuple[str, ...]:
    job = cell.job("transactions")
    times = (fio.percentile(job.sync.histogram, 50), job.sync.p99, job.sync.p999, job.sync.max)
    readings = cell.readings
    checkpoints = f"{readings['checkpoints']:g}", number(readings["longest_s"]), number(readings["written"])
    return number(job.iops), *(number(value / 1e6) for value in times), *checkpoints
