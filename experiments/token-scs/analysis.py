# SPDX-License-Identifier: GPL-2.0-only
"""Fig 14 of the split-level paper: a throttled neighbour's cost for a reader, and its use of the rate.

The reader should lose the rate and no more. The neighbour's I/O in memory costs no disk time and should not be
limited.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Bar, Bars, Figure, Panel, Table, number
from lab.result import Cell

OURS, RIVAL = "split-token", "scs-token"
LIMITS = {"io.max": "-io-max", "io.cost": "-io-cost"}
"""mq-deadline with the kernel's own limits: the suffixes of its variants."""
DEVICES = ("hdd", "ssd")
DISK = ("read-seq", "read-rand", "write-seq", "write-rand")
MEMORY = ("read-mem", "write-mem")
WORKLOADS = {
    "read-mem": "reads cached data",
    "read-seq": "reads in sequence",
    "read-rand": "reads at random",
    "write-mem": "writes over dirty data",
    "write-seq": "writes in sequence",
    "write-rand": "writes at random",
}
RATE = 1e6
"""The neighbour's rate, in normalised bytes a second."""
NEAR = 2.0
"""How many points the reader's slowdown may be from the target."""
USED = 0.9
"""The part of its rate that the neighbour uses where it needs the disk: it always has more to do."""
LEAST = 0.95
"""The part of its throughput without a rate that the neighbour must have in memory."""
PAPER_TARGET, PAPER_MEMORY = 0.7, {"read-mem": 2.3, "write-mem": 837.0}
"""Section 5.3: % of 138 MB/s; the neighbour's throughput relative to that with SCS-Token."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEVICES:
        for variant, does in WORKLOADS.items():
            yield Judgement(
                f"{variant}-{device}",
                f"{OURS} on {device}, beside a neighbour at 1 MB/s that {does}: deviation "
                "of a reader's slowdown from the rate's part of its throughput alone, in points",
                "≤",
                NEAR,
                partial(off, device=device, scheduler=OURS, variant=variant),
            )
        for variant in DISK:
            yield Judgement(
                f"{variant}-rate-{device}",
                f"{OURS} on {device}, a neighbour with a rate of 1 MB/s that {WORKLOADS[variant]}: the part of its "
                "rate that it uses",
                "≥",
                USED,
                partial(used, device=device, variant=variant),
            )
        for variant in MEMORY:
            yield Judgement(
                f"{variant}-free-{device}",
                f"{OURS} on {device}, a neighbour with a rate of 1 MB/s that {WORKLOADS[variant]}: its throughput, "
                "relative to that without a rate",
                "≥",
                LEAST,
                partial(kept, device=device, scheduler=OURS, variant=variant),
            )


def slowdown(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """The part of its throughput alone that the reader loses, in %."""
    beside = _beside(cells, device, scheduler, variant).job("unthrottled")
    return 100 - ratio(beside.bytes_per_s, _alone(cells, device, scheduler)) * 100


def target(cells: Cells, device: str, scheduler: str) -> float:
    """The part that it should lose, in %: the rate."""
    return ratio(RATE, _alone(cells, device, scheduler)) * 100


def off(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """How many points the slowdown is from its target."""
    return abs(slowdown(cells, device, scheduler, variant) - target(cells, device, scheduler))


def kept(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """The neighbour's throughput as a part of that without a rate."""
    own, free = (find(cells, device, scheduler, name).job("throttled") for name in (variant, f"free-{variant}"))
    return ratio(own.bytes_per_s, free.bytes_per_s)


def used(cells: Cells, device: str, variant: str) -> float:
    """The part of its rate that the neighbour uses, by the scheduler's account; NaN if it did nothing.

    The bytes would not do: a sequential read beside another reader's costs a seek.
    """
    cell = find(cells, device, OURS, variant)
    return cell.readings.get("paid", 0) / RATE if cell.job("throttled").ios else math.nan


def _beside(cells: Cells, device: str, scheduler: str, variant: str) -> Cell:
    if scheduler in LIMITS:
        return find(cells, device, "mq-deadline", variant + LIMITS[scheduler])
    return find(cells, device, scheduler, variant)


def _alone(cells: Cells, device: str, scheduler: str) -> float:
    name = "mq-deadline" if scheduler in LIMITS else scheduler
    return find(cells, device, name, "solo").job("unthrottled").bytes_per_s


def figures(cells: Cells) -> list[Figure]:
    """For each device the two plots of the paper and the table behind them."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    times = " and ".join(f"{number(value)} times ({variant})" for variant, value in PAPER_MEMORY.items())
    text = (
        "A reads a large file in sequence; B has a rate of 1 MB/s normalised, and leaves A the processor. mq-deadline "
        "has no rate: B is not limited. io.max is the kernel's own limit with mq-deadline, 1 MB/s of any kind, "
        "io.cost its shares, of which B has that part. What B has of memory without a rate is measured with the same "
        "scheduler. In the paper the target is "
        f"{PAPER_TARGET} %, Split-Token is near it in all six, SCS-Token is far from it in three, and twice by more "
        f"than 50 points; with Split-Token B is {times} as fast in memory as with SCS-Token."
    )
    slow = Bars("A's slowdown (Fig 14, left)", "%", tuple(_slow(cells, device)))
    disk, memory = (
        Bars(f"B's throughput {where} (Fig 14, right)", "MB/s", tuple(_fast(cells, device, variants)))
        for where, variants in (("from the disk", DISK), ("from memory", MEMORY))
    )
    panels: tuple[Panel, ...] = (_table(cells, device), slow, disk, memory)
    return Figure(f"fig-14-{device}", f"A rate of 1 MB/s on {device} (Fig 14)", text, panels, terminal=True)


def _slow(cells: Cells, device: str) -> Iterator[Bar]:
    for scheduler in (OURS, RIVAL):
        try:
            yield Bar(f"target, {_short(scheduler)}", target(cells, device, scheduler))
        except Missing:
            continue
    for variant in WORKLOADS:
        for scheduler in (OURS, RIVAL):
            try:
                value = slowdown(cells, device, scheduler, variant)
            except Missing:
                continue
            yield Bar(f"{variant}, {_short(scheduler)}", value, ours=scheduler == OURS)


def _fast(cells: Cells, device: str, variants: Sequence[str]) -> Iterator[Bar]:
    for variant in variants:
        for scheduler in (OURS, RIVAL):
            try:
                rate = find(cells, device, scheduler, variant).job("throttled").bytes_per_s
            except Missing:
                continue
            yield Bar(f"{variant}, {_short(scheduler)}", rate / 1e6, ours=scheduler == OURS)


def _short(scheduler: str) -> str:
    return scheduler.removesuffix("-token")


def _table(cells: Cells, device: str) -> Table:
    names = [*dict.fromkeys(cell.scheduler for cell in cells), *LIMITS]
    rows = tuple(
        row for variant in WORKLOADS for name in names if (row := _row(cells, device, name, variant)) is not None
    )
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    columns = ("B", "scheduler", "A MB/s", "slowdown %", "target %", "B MB/s", "% of that without a rate")
    return Table(f"A rate of 1 MB/s on {device}", columns, rows, 2, ours)


def _row(cells: Cells, device: str, scheduler: str, variant: str) -> tuple[str, ...] | None:
    try:
        cell = _beside(cells, device, scheduler, variant)
        lost = slowdown(cells, device, scheduler, variant)
        goal = target(cells, device, scheduler)
    except Missing:
        return None
    try:
        part = number(kept(cells, device, scheduler, variant) * 100)
    except Missing:
        part = "–"
    a, b = (number(cell.job(name).bytes_per_s / 1e6) for name in ("unthrottled", "throttled"))
    return (variant, scheduler, a, number(lost), "–" if scheduler == "mq-deadline" else number(goal), b, part)
