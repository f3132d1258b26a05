# SPDX-License-Identifier: GPL-2.0-only
"""Judges and draws a lower rank's share beside an urgent one, relative to the lower rank alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, find, ratio, worst
from lab.figure import Figure, Table, number
from lab.result import Cell

OURS = "mq-prio"
DEVICES = {
    "nvme": "nvme",
    "ssd": "an ssd ten times as fast",
    "emmc": "emmc with one die",
}
URGENT = {"one": "depth 1", "many": "depth 32"}
LOWER = tuple(f"{kind}-{size}" for kind in ("read", "write") for size in ("4k", "128k"))


def share(cells: Sequence[Cell], device: str, urgent: str, lower: str) -> float:
    """The lower rank's IOPS beside the urgent one as a part of its IOPS alone, relative to low_share."""
    beside = find(cells, device, OURS, f"{urgent}-{lower}")
    alone = find(cells, device, OURS, f"alone-{lower}").job("lower").iops
    return ratio(100 * beside.job("lower").iops, alone * int(beside.settings["iosched/low_share"]))


def _extreme(cells: Sequence[Cell], device: str, of: Callable[[Iterable[float]], float]) -> float:
    return worst((share(cells, device, urgent, lower) for urgent in URGENT for lower in LOWER), of)


def judgements() -> Sequence[Judgement]:
    """What must hold on each device."""
    return [claim for device in DEVICES for claim in _of(device)]


def _of(device: str) -> Iterator[Judgement]:
    said = f"{OURS} on {DEVICES[device]}, a lower rank at depth 32 beside an urgent reader: its"
    for name, of, sense, limit in (("least", min, "≥", 0.8), ("most", max, "≤", 1.5)):
        yield Judgement(
            f"{device}-{name}",
            f"{said} {name} IOPS, relative to low_share of its IOPS alone",
            sense,
            limit,
            partial(_extreme, device=device, of=of),
            bound=True,
        )


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """A table for each device with all cells."""
    there = {(cell.device, cell.variant) for cell in cells}
    wanted = [f"{urgent}-{lower}" for urgent in ("alone", *URGENT) for lower in LOWER]
    tables = []
    for device, title in DEVICES.items():
        if all((device, variant) in there for variant in wanted):
            rows = [(lower, *(number(share(cells, device, urgent, lower)) for urgent in URGENT)) for lower in LOWER]
            tables.append(Table(f"A lower rank's share on {title}", ("lower", *URGENT.values()), tuple(rows)))
    text = (
        "The lower rank's IOPS beside the urgent reader, relative to low_share of its IOPS alone: 1 is the stated "
        "share. A row is what the lower rank does at depth 32, a column the depth of the urgent reads of 4 KiB."
    )
    return [Figure("share", "The lower ranks' share", text, tuple(tables), True)] if tables else []
