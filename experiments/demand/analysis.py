# SPDX-License-Identifier: GPL-2.0-only
"""Processes of equal rank: what one that asks for little waits, and what that costs one that asks for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell, Job

OURS = "sluice"
DEVICES = ("ssd", "hdd", "emmc", "nvme")
BESIDE = {
    "deep-light": "a reader at depth 1",
    "deep-thinking": "a reader with a think time of 5 ms",
    "deep-logging": "a process that dirties a page each 10 ms",
}
"""What is beside the reader at depth 32, by variant."""


def slower(cells: Sequence[Cell], device: str, job: str) -> float:
    """The p99 of a light job's reads beside the deep reader, relative to that alone under the same scheduler."""
    beside = find(cells, device, OURS, f"deep-{job}").job(job).lat.p99
    return ratio(beside, find(cells, device, OURS, job).job(job).lat.p99)


def kept(cells: Sequence[Cell], device: str, variant: str) -> float:
    """The deep reader's IOPS in a variant, relative to those alone under the same scheduler."""
    beside = find(cells, device, OURS, variant).job("deep").iops
    return ratio(beside, find(cells, device, OURS, "deep").job("deep").iops)


def both(cells: Sequence[Cell], device: str) -> float:
    """The IOPS of the deep and the light reader together, relative to those of both without a scheduler."""
    ours, theirs = (find(cells, device, name, "deep-light") for name in (OURS, "none"))
    return ratio(sum(job.iops for job in ours.jobs), sum(job.iops for job in theirs.jobs))


def judgements() -> Sequence[Judgement]:
    """What must hold on each device."""
    return [claim for device in DEVICES for claim in _of(device)]


def _of(device: str) -> Iterator[Judgement]:
    said = f"{OURS} on {device}, beside a reader at depth 32 of the same rank"
    for job in ("light", "thinking"):
        yield Judgement(
            f"{device}-{job}",
            f"{said}: the p99 of {BESIDE[f'deep-{job}']}, relative to that alone",
            "≤",
            3,
            partial(slower, device=device, job=job),
        )
    for job in ("thinking", "logging"):
        yield Judgement(
            f"{device}-deep-{job}",
            f"{OURS} on {device}, a reader at depth 32 beside {BESIDE[f'deep-{job}']}: its IOPS, relative to alone",
            "≥",
            0.9,
            partial(kept, device=device, variant=f"deep-{job}"),
        )
    yield Judgement(
        f"{device}-both",
        f"{OURS} on {device}, readers at depths 32 and 1: the IOPS of both, relative to those without a scheduler",
        "≥",
        0.95,
        partial(both, device=device),
    )


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """A table for each device."""
    text = (
        "Random direct reads of 4 KiB, all of one rank. Beside the reader at depth 32: a reader at depth 1; one that "
        "waits 5 ms between two reads; a process that dirties a page of a file each 10 ms. Latency in ms."
    )
    devices = dict.fromkeys(cell.device for cell in cells)
    tables = tuple(Table(f"Equal ranks on {device}", COLUMNS, tuple(_rows(cells, device))) for device in devices)
    return [Figure("demand", "Processes of equal rank", text, tables, terminal=True)]


COLUMNS = (
    *("scheduler", "light alone, p99", "beside deep", "thinking alone, p99", "beside deep"),
    *("deep alone, IOPS", "beside light", "beside thinking", "beside logging"),
)


def _rows(cells: Sequence[Cell], device: str) -> Iterator[tuple[str, ...]]:
    for scheduler in dict.fromkeys(cell.scheduler for cell in cells if cell.device == device):
        variants = [(f"{beside}{job}", job) for job in ("light", "thinking") for beside in ("", "deep-")]
        latencies = (_of_job(cells, device, scheduler, *place, lambda job: job.lat.p99 / 1e6) for place in variants)
        throughputs = (
            _of_job(cells, device, scheduler, variant, "deep", lambda job: job.iops) for variant in ("deep", *BESIDE)
        )
        yield (scheduler, *latencies, *throughputs)


def _of_job(
    cells: Sequence[Cell], device: str, scheduler: str, variant: str, job: str, value: Callable[[Job], float]
) -> str:
    try:
        return number(value(find(cells, device, scheduler, variant).job(job)))
    except Missing:
        return "–"
