# SPDX-License-Identifier: GPL-2.0-only
"""Fig 12 of the split-level paper: latencies of a small and of a big process's fsyncs, each beside its deadline.

The paper's Figure 12 has no numbers except the deadlines. Both processes about keep theirs, and Block-Deadline is
later by an order of magnitude.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from lab import fio
from lab.analysis import Judgement, find, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell

OURS, PDFLUSH, RIVAL = "split-deadline", "split-pdflush", "mq-deadline"
DEADLINES_MS = {"hdd": (100.0, 6000.0), "ssd": (3.0, 100.0)}
"""The deadlines of the small and of the big process: Table 3."""
SYSTEMS = {"ext4": "ext4", "ext4-dioread-lock": "ext4, dioread_lock", "xfs": "XFS"}
WRITEBACK = "ext4-writeback"
BESIDE = {**SYSTEMS, WRITEBACK: "ext4, no fsyncs"}
"""The loads beside which the small process must keep its deadline."""
LATE = 1.2
"""The limit for the small process's 99th percentile, as a multiple of its deadline."""
BEYOND = 1.5
"""The limit as a multiple of its duration alone, where that is longer than the deadline."""
TIMES = 5.0
"""How many times later the rival is."""
COMPARED = 90
"""The percentile for the comparison with the rival: a run has 100 to 250 small fsyncs beside big ones."""
LEAST_BEYOND = 10
"""The least number of fsyncs of a run beyond a percentile, if the percentile is to mean something."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEADLINES_MS:
        for scheduler, system in (*((OURS, system) for system in BESIDE), (PDFLUSH, WRITEBACK)):
            yield Judgement(
                f"small-{system}-{device}" if scheduler == OURS else f"{scheduler}-{device}",
                f"{scheduler} on {device}, {_beside(system)}: p99 of small fsyncs, relative to {_most(device)}",
                "≤",
                1.0,
                partial(lateness, device=device, system=system, scheduler=scheduler),
            )
        for system, text in SYSTEMS.items():
            yield Judgement(
                f"big-{system}-{device}",
                f"{OURS} on {device}, beside small fsyncs ({text}): the longest fsync of 1024 random blocks, "
                f"relative to its deadline of {DEADLINES_MS[device][1]:g} ms",
                "≤",
                1.0,
                partial(_big, device=device, system=system),
                bound=True,
            )
            yield Judgement(
                f"{RIVAL}-{system}-{device}",
                f"{RIVAL} on {device}, {_beside(system)}: p{COMPARED} of small fsyncs, relative to {OURS}",
                "≥",
                TIMES,
                partial(_times, device=device, system=system),
                10.0,
            )


def _beside(system: str) -> str:
    if system == WRITEBACK:
        return "beside writeback of 1024 random blocks (ext4)"
    return f"beside fsyncs of 1024 random blocks ({SYSTEMS[system]})"


def _most(device: str) -> str:
    deadline = DEADLINES_MS[device][0]
    return f"{LATE} times their deadline of {deadline:g} ms, or {BEYOND} times a longer p99"


def small_ms(cells: Cells, device: str, scheduler: str, variant: str, percent: int = 99) -> float:
    """A percentile of the small fsyncs, in ms; NaN if too few lie beyond it.

    Beside big fsyncs only those small ones count that were under way while a big one was.
    """
    times = find(cells, device, scheduler, variant).job("small").sync.histogram
    beyond = sum(count for _, count in times) * (100 - percent) / 100
    return fio.percentile(times, percent) / 1e6 if beyond >= LEAST_BEYOND else math.nan


def most_ms(cells: Cells, device: str) -> float:
    """The limit for the small process's p99: by its deadline, or by its duration alone if that is longer."""
    deadline, alone = DEADLINES_MS[device][0], small_ms(cells, device, OURS, "alone")
    return BEYOND * alone if alone > deadline else LATE * deadline


def lateness(cells: Cells, device: str, system: str, scheduler: str = OURS) -> float:
    """The small process's p99, as a part of its limit."""
    return ratio(small_ms(cells, device, scheduler, system), most_ms(cells, device))


def _big(cells: Cells, device: str, system: str) -> float:
    sync = find(cells, device, OURS, system).job("big").sync
    return ratio(sync.max / 1e6, DEADLINES_MS[device][1]) if sync.histogram else math.nan


def _times(cells: Cells, device: str, system: str) -> float:
    return ratio(*(small_ms(cells, device, scheduler, system, COMPARED) for scheduler in (RIVAL, OURS)))


def figures(cells: Cells) -> list[Figure]:
    """For each device a table for all file systems and schedulers."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEADLINES_MS
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    small, big = DEADLINES_MS[device]
    text = (
        f"A appends 4 KiB with an fsync after each, within {small:g} ms; B now and then makes 1024 random blocks of a "
        f"file of 2 GiB durable, within {big:g} ms, or leaves them to the kernel's writeback. Where B has fsyncs, A's "
        "are those that were there while one of B's was. Only split-deadline has these deadlines, of the paper's Table "
        "3. In the paper's Figure 12 Split-Deadline keeps both about, and Block-Deadline's A is an order of magnitude "
        "late."
    )
    title = f"Small fsyncs beside big ones on {device} (Fig 12)"
    return Figure(f"fig-12-{device}", title, text, (_table(cells, device),), terminal=True)


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (BESIDE.get(cell.variant, "no other, ext4"), cell.scheduler, *_small(cell), *_bursts(cell)) for cell in cells
    )
    columns = ("beside", "scheduler", "A: fsyncs", "p50 ms", "p90", "p99", "longest", "B: mean ms", "longest", "MB/s")
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    return Table(f"fsyncs on {device}", columns, rows, 2, ours)


def _small(cell: Cell) -> tuple[str, ...]:
    sync = cell.job("small").sync
    times = (sync.p50, fio.percentile(sync.histogram, COMPARED), sync.p99, sync.max)
    return str(sum(count for _, count in sync.histogram)), *(number(value / 1e6) for value in times)


def _bursts(cell: Cell) -> tuple[str, ...]:
    if cell.variant == "alone":
        return "–", "–", "–"
    big = cell.job("big")
    times = ("–", "–") if cell.variant == WRITEBACK else (number(big.sync.mean / 1e6), number(big.sync.max / 1e6))
    return *times, number(big.bytes_per_s / 1e6)
