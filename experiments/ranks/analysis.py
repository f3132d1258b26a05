# SPDX-License-Identifier: GPL-2.0-only
"""Judges and draws three ranks on one drive: each rank's IOPS beside the others, relative to those alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.analysis import Judgement, find, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell

OURS, DEVICE = ("mq-prio", "sluice"), "emmc"
RANKS = {"top": "best effort 0", "middle": "best effort 4", "bottom": "idle"}


def share(cells: Sequence[Cell], scheduler: str, rank: str) -> float:
    """A rank's IOPS beside the others, relative to its IOPS alone: its part of the drive's time."""
    beside = find(cells, DEVICE, scheduler, "all").job(rank).iops
    return ratio(beside, find(cells, DEVICE, scheduler, rank).job(rank).iops)


def judgements() -> Iterator[Judgement]:
    """What must hold, the same for both; sluice's claims have its name in front."""
    for ours in OURS:
        yield from _of(ours, f"{ours}-" * (ours != OURS[0]))


def _of(ours: str, prefix: str) -> Iterator[Judgement]:
    said = f"{ours} on {DEVICE}, best effort 0, best effort 4 and idle side by side"
    yield Judgement(
        f"{prefix}top-keeps",
        f"{said}: the IOPS of best effort 0, relative to its IOPS alone",
        "≥",
        0.88,
        lambda cells: share(cells, ours, "top"),
    )
    yield Judgement(
        f"{prefix}middle-before-bottom",
        f"{said}: the device time of best effort 4 over that of idle",
        "≥",
        5,
        lambda cells: ratio(share(cells, ours, "middle"), share(cells, ours, "bottom")),
    )
    yield Judgement(
        f"{prefix}bottom-moves",
        f"{said}: the IOPS of idle, relative to its IOPS alone",
        "≥",
        0.002,
        lambda cells: share(cells, ours, "bottom"),
    )


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """A table of each rank's part, for the schedulers with all cells."""
    there = {(cell.scheduler, cell.variant) for cell in cells}
    schedulers = [
        name for name, variant in sorted(there) if variant == "all" and all((name, rank) in there for rank in RANKS)
    ]
    rows = []
    for scheduler in schedulers:
        beside = find(cells, DEVICE, scheduler, "all")
        top, *lower = (beside.job(rank) for rank in RANKS)
        rates = [number(job.bytes_per_s / 1e6) for job in lower]
        parts = [number(100 * share(cells, scheduler, rank)) for rank in RANKS]
        rows.append((scheduler, number(top.iops), number(top.lat.p99 / 1e6), *rates, *parts))
    if not rows:
        return []
    columns = ("scheduler", "be 0 IOPS", "its p99", "be 4 MB/s", "idle MB/s", *(f"{name} %" for name in RANKS.values()))
    text = (
        "4 KiB reads at depth 4 of best effort 0, 16 KiB random reads and writes at depth 16 of best effort 4 and "
        "128 KiB reads at depth 32 of the idle class. p99 in ms; per cent of what the rank does alone."
    )
    return [Figure("ranks", "Three ranks", text, (Table("Three ranks side by side", columns, tuple(rows)),), True)]
