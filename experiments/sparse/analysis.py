# SPDX-License-Identifier: GPL-2.0-only
"""Judges and draws a sparse reader beside a backup: its latency, and the cost for the backup."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, find, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell, Job

OURS = ("mq-prio", "sluice")
DEVICES = ("ssd", "nvme")


def latency(job: Job, quantile: str) -> float:
    """The job's latency in ns; NaN if it did nothing."""
    return float(getattr(job.lat, quantile)) if job.ios else math.nan


def slower(cells: Sequence[Cell], ours: str, device: str, quantile: str) -> float:
    """The reader's latency beside the backup, relative to its latency alone under the same scheduler."""
    beside = find(cells, device, ours, "both").job("reader")
    return ratio(latency(beside, quantile), latency(find(cells, device, ours, "reader").job("reader"), quantile))


def kept(cells: Sequence[Cell], ours: str, device: str) -> float:
    """The backup's IOPS beside the reader, relative to its IOPS alone without a scheduler."""
    beside = find(cells, device, ours, "both").job("backup")
    return ratio(beside.iops, find(cells, device, "none", "backup").job("backup").iops)


def judgements() -> Sequence[Judgement]:
    """What must hold on each device, the same for both; sluice's claims have its name in front."""
    return [claim for ours in OURS for device in DEVICES for claim in _of(ours, device)]


def _of(ours: str, device: str) -> Iterator[Judgement]:
    name = f"{ours}-" * (ours != OURS[0]) + device
    said = f"{ours} on {device}, a read each 25 ms beside a backup of the idle class"
    for quantile, limit in (("p50", 3), ("p99", 5)):
        yield Judgement(
            f"{name}-{quantile}",
            f"{said}: the reads' {quantile} latency, relative to that alone",
            "≤",
            limit,
            partial(slower, ours=ours, device=device, quantile=quantile),
        )
    yield Judgement(
        f"{name}-backup",
        f"{said}: the backup's throughput, relative to that alone",
        "≥",
        0.8,
        lambda cells: kept(cells, ours, device),
    )


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """A table for each device."""
    devices = dict.fromkeys(cell.device for cell in cells if cell.variant == "both")
    text = (
        "A real-time read of 4 KiB each 25 ms, beside two jobs of the idle class that read 128 KiB at depth 64. "
        "Latency in ms from submission; the backup in MB/s."
    )
    tables = tuple(Table(f"A sparse reader on {device}", COLUMNS, tuple(_rows(cells, device))) for device in devices)
    return [Figure("sparse", "A sparse reader", text, tables, True)]


COLUMNS = ("scheduler", "p50", "p99", "max", "backup MB/s")


def _rows(cells: Sequence[Cell], device: str) -> Iterator[tuple[str, ...]]:
    for cell in cells:
        if cell.device == device and cell.variant != "backup":
            reader = cell.job("reader")
            times = [number(latency(reader, name) / 1e6) for name in ("p50", "p99", "max")]
            backup = number(cell.job("backup").bytes_per_s / 1e6) if cell.variant == "both" else "–"
            yield (f"{cell.scheduler}{' alone' if cell.variant == 'reader' else ''}", *times, backup)
