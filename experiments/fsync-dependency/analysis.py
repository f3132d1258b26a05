# SPDX-License-Identifier: GPL-2.0-only
"""Fig 5 of the split-level paper: the duration of an fsync of one block, by the size of a neighbour's fsync.

The paper shows it with Block-Deadline, all of whose deadlines are 20 ms, and prints no numbers. The experiment asks
whether the problem still exists. That is no claim: the answer is a table. The remedy is Split-Deadline, not AFQ.
"""

from collections.abc import Iterator, Sequence

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Figure, Line, Lines, Table, number
from lab.result import Cell

DEVICES = ("hdd", "ssd")
SIZES = {"alone": 0, "16k": 16, "64k": 64, "256k": 256, "1m": 1024, "4m": 4096}
"""KiB that the neighbour writes before its fsync."""
LEAST, LARGEST = "16k", "4m"
SYSTEMS = {
    "": "ext4",
    "-dioread-lock": "ext4, dioread_lock",
    "-nodelalloc": "ext4, dioread_lock and nodelalloc",
    "-xfs": "XFS",
}
GROWS = 2.0
"""If the fsync takes this many times as long beside the largest writes, it depends on the neighbour."""
DEADLINE_MS = 20.0

Cells = Sequence[Cell]


def fsync_ms(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """The mean of the appender's fsyncs, in ms."""
    return find(cells, device, scheduler, variant).job("small").sync.mean / 1e6


def growth(cells: Cells, device: str, scheduler: str, system: str) -> float:
    """The ratio of the fsync's duration beside the largest writes to that beside the smallest."""
    return ratio(*(fsync_ms(cells, device, scheduler, f"{size}{system}") for size in (LARGEST, LEAST)))


def judgements() -> Sequence[Judgement]:
    """None: the question is how the kernel behaves."""
    return []


def figures(cells: Cells) -> list[Figure]:
    """For each device the paper's curve, and the table for all file systems."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    text = (
        "One appends 4 KiB with an fsync after each; a neighbour writes N bytes to random places of a file and then "
        "calls fsync. mq-deadline's deadlines are the paper's 20 ms for all requests. The paper's Figure 5 shows the "
        "same growth with Block-Deadline, without numbers."
    )
    schedulers = list(dict.fromkeys(cell.scheduler for cell in cells))
    curves = tuple(Line(name, tuple(_points(cells, device, name))) for name in schedulers)
    plot = Lines("Mean fsync of 4 KiB on ext4 (Fig 5)", "log2 of N's KiB", "ms", curves, log=True)
    panels = (_answers(cells, device), _table(cells, device), plot)
    return Figure(f"fig-5-{device}", f"fsync beside fsync on {device} (Fig 5)", text, panels, terminal=True)


def _answers(cells: Cells, device: str) -> Table:
    """The cases in which the problem of 2015 still exists."""
    rows = []
    for system, text in SYSTEMS.items():
        for scheduler in dict.fromkeys(cell.scheduler for cell in cells):
            try:
                times = growth(cells, device, scheduler, system)
                late = fsync_ms(cells, device, scheduler, LARGEST + system) > DEADLINE_MS
            except Missing:
                continue
            answer = "depends" if times >= GROWS else "no longer depends"
            rows.append((text, scheduler, number(times), answer, "yes" if late else "no"))
    columns = ("file system", "scheduler", f"times as long beside {LARGEST}", "on its neighbour", "later than 20 ms")
    return Table(f"Does an fsync depend on its neighbour, on {device}?", columns, tuple(rows), 2)


def _points(cells: Cells, device: str, scheduler: str) -> Iterator[tuple[float, float]]:
    for size, kib in SIZES.items():
        try:
            if kib:
                yield kib.bit_length() - 1, fsync_ms(cells, device, scheduler, size)
        except Missing:
            continue


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (
            SYSTEMS[_system(cell)],
            cell.variant.removesuffix(_system(cell)),
            cell.scheduler,
            *(number(value / 1e6) for value in _figures(cell)),
            number(cell.job("small").iops),
            number(cell.job("big").bytes_per_s / 1e6) if cell.variant != "alone" else "–",
        )
        for cell in cells
    )
    columns = ("file system", "N", "scheduler", "mean ms", "p50 ms", "p99 ms", "fsyncs/s", "neighbour MB/s")
    return Table(f"fsync of 4 KiB on {device}", columns, rows, 3)


def _system(cell: Cell) -> str:
    return next((system for system in SYSTEMS if system and cell.variant.endswith(system)), "")


def _figures(cell: Cell) -> tuple[float, ...]:
    sync = cell.job("small").sync
    return sync.mean, sync.p50, sync.p99
