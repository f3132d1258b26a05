# SPDX-License-Identifier: GPL-2.0-only
"""Fig 17 of the split-level paper: a reader beside a process that makes empty files, each durable, at a rate.

The whole cost of this is metadata and the journal, which kernel threads write. The paper's Split-Token knew their
cause on ext4 and not on XFS, where the reader suffered; ours must know it on both. The paper prints no numbers.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import Figure, Line, Lines, Panel, Table, number
from lab.result import Cell

OURS = "split-token"
DEVICES = ("hdd", "ssd")
SYSTEMS = {"ext4": "ext4", "xfs": "XFS"}
SLEEPS = (0, 1, 10, 100)
"""ms between two files."""
RATE = 1e6
"""The neighbour's rate, in normalised bytes a second."""
MOST = 0.05
"""How far the reader's throughput may be from its target, as a part of that."""
USED = 0.9
"""The least part of its rate that the neighbour uses: a file costs more than the rate gives between two files."""
PLOTS = (("unthrottled", "A's throughput", "MB/s"), ("throttled", "B's files", "files a second"))

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEVICES:
        for system, text in SYSTEMS.items():
            yield Judgement(
                f"{system}-{device}",
                f"{OURS} on {device}, {text}, beside a neighbour at 1 MB/s that makes durable empty files: largest "
                "relative deviation of a reader's throughput from that alone less the rate",
                "≤",
                MOST,
                partial(farthest, device=device, scheduler=OURS, system=system),
                bound=True,
            )
            yield Judgement(
                f"{system}-rate-{device}",
                f"{OURS} on {device}, {text}, a neighbour at 1 MB/s that makes durable empty files: the least part "
                "of its rate that it uses",
                "≥",
                USED,
                partial(used, device=device, system=system),
                bound=True,
            )


def target(cells: Cells, device: str, scheduler: str, system: str) -> float:
    """Bytes a second that the neighbour's rate leaves the reader."""
    return find(cells, device, scheduler, f"{system}-solo").job("unthrottled").bytes_per_s - RATE


def off(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """How far the reader is above its target, as a part of it."""
    goal = target(cells, device, scheduler, variant.partition("-")[0])
    return ratio(find(cells, device, scheduler, variant).job("unthrottled").bytes_per_s, goal) - 1


def farthest(cells: Cells, device: str, scheduler: str, system: str) -> float:
    """The largest such distance; Missing if a sleep was not measured."""
    return worst(abs(off(cells, device, scheduler, f"{system}-{sleep}ms")) for sleep in SLEEPS)


def used(cells: Cells, device: str, system: str) -> float:
    """The least part of its rate that the neighbour uses, at any sleep; none if it makes no files."""
    found = [find(cells, device, OURS, f"{system}-{sleep}ms") for sleep in SLEEPS]
    return min(cell.readings.get("paid", 0) if cell.job("throttled").ios else 0 for cell in found) / RATE


def figures(cells: Cells) -> list[Figure]:
    """For each device the two plots of the paper and the table behind them."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    text = (
        "A reads a large file in sequence; B makes empty files, each with an fsync, and sleeps between two of them. "
        "B's rate is 1 MB/s normalised, as in Fig 14: the paper doesn't say which it took. mq-deadline has none. In "
        "the paper A is isolated on ext4 only; with XFS B is not limited. The paper's figure has no numbers."
    )
    plots = [
        Lines(f"{title} on {SYSTEMS[system]} (Fig 17)", "ms of sleep", unit, tuple(_curves(cells, device, system, job)))
        for job, title, unit in PLOTS
        for system in SYSTEMS
    ]
    panels: tuple[Panel, ...] = (_table(cells, device), *plots)
    return Figure(f"fig-17-{device}", f"Metadata on {device} (Fig 17)", text, panels, terminal=True)


def _curves(cells: Cells, device: str, system: str, job: str) -> Iterator[Line]:
    for scheduler in dict.fromkeys(cell.scheduler for cell in cells):
        yield Line(scheduler, tuple(_points(cells, device, scheduler, system, job)))


def _points(cells: Cells, device: str, scheduler: str, system: str, job: str) -> Iterator[tuple[float, float]]:
    for sleep in SLEEPS:
        try:
            one = find(cells, device, scheduler, f"{system}-{sleep}ms").job(job)
        except Missing:
            continue
        yield float(sleep), one.bytes_per_s / 1e6 if job == "unthrottled" else one.iops


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (SYSTEMS[system], f"{sleep} ms", scheduler, *_figures(cells, device, scheduler, f"{system}-{sleep}ms"))
        for system in SYSTEMS
        for sleep in SLEEPS
        for scheduler in dict.fromkeys(cell.scheduler for cell in cells)
        if any((cell.scheduler, cell.variant) == (scheduler, f"{system}-{sleep}ms") for cell in cells)
    )
    ours = frozenset(index for index, row in enumerate(rows) if row[2] == OURS)
    columns = ("file system", "sleep", "scheduler", "A MB/s", "% from its target", "B, files/s", "a file, p50 ms")
    return Table(f"Metadata on {device}", columns, rows, 3, ours)


def _figures(cells: Cells, device: str, scheduler: str, variant: str) -> tuple[str, ...]:
    cell = find(cells, device, scheduler, variant)
    a, b = cell.job("unthrottled"), cell.job("throttled")
    try:
        from_target = number(off(cells, device, scheduler, variant) * 100)
    except Missing:
        from_target = "–"
    return number(a.bytes_per_s / 1e6), from_target, number(b.iops), number(b.lat.p50 / 1e6)
