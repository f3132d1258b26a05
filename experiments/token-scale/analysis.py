# SPDX-License-Identifier: GPL-2.0-only
"""Fig 15 of the split-level paper: a reader beside 1 to 1024 threads that share a neighbour's rate.

The number of threads that read from the disk must not affect the reader. Threads that use memory affect the paper's
reader, from 128 threads on, and so do threads that spin: the reader then lacks the processor. That depends on the
machine, so it is no claim; a table answers it.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import Figure, Line, Lines, Panel, Table, number
from lab.result import Cell

OURS = "split-token"
DEVICES = ("hdd", "ssd")
THREADS = (1, 8, 64, 128, 256, 512, 1024)
LOADS = ("read-seq", "read-mem", "write-mem", "spin")
RATE = 1e6
"""The threads' rate, in normalised bytes a second."""
MOST = 0.02
"""How far the reader's throughput may be from that beside one thread."""
USED = 0.9
"""The least part of their rate that the threads use: they always have more to read."""
PAPER = 0.017
"""Section 5.3: the most that it varies."""
PAPER_GOAL = 101.7
"""Fig 15: MB/s."""
AS_MUCH = 0.9
"""Threads take only the processor if they leave the reader at least this part of its rate beside threads that spin."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEVICES:
        yield Judgement(
            f"read-seq-{device}",
            f"{OURS} on {device}, beside 8 to 1024 sequential readers that share a rate of 1 MB/s: largest relative "
            "change of another reader's throughput from that beside one of them",
            "≤",
            MOST,
            partial(variation, device=device, scheduler=OURS, load="read-seq"),
            PAPER,
            bound=True,
        )
        yield Judgement(
            f"read-seq-rate-{device}",
            f"{OURS} on {device}, 1 to 1024 sequential readers that share a rate of 1 MB/s: the least part of the "
            "rate that they use",
            "≥",
            USED,
            partial(used, device=device, load="read-seq"),
            bound=True,
        )


def variation(cells: Cells, device: str, scheduler: str, load: str) -> float:
    """The reader's largest distance from its throughput beside one thread; Missing if a number was not measured."""
    one, *more = (_rate(cells, device, scheduler, f"{load}-{threads}") for threads in THREADS)
    return worst(abs(ratio(rate, one) - 1) for rate in more)


def used(cells: Cells, device: str, load: str) -> float:
    """The least part of their rate that the threads use, at any number of them."""
    found = (find(cells, device, OURS, f"{load}-{threads}") for threads in THREADS)
    return worst((cell.readings.get("paid", 0) / RATE for cell in found), min)


def _rate(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """MB/s of the reader."""
    return find(cells, device, scheduler, variant).job("unthrottled").bytes_per_s / 1e6


def figures(cells: Cells) -> list[Figure]:
    """For each device the paper's curves, and whether the threads take more than the processor."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    text = (
        "A reads a large file in sequence; N threads of B share a rate of 1 MB/s normalised, and one processor with A. "
        f"The goal is A's throughput alone less the rate. In the paper, on 32 processors, it is {PAPER_GOAL} MB/s; "
        f"beside readers of the disk A varies by {PAPER:.1%} at most, and beside threads in memory, as beside threads "
        "that spin, A's throughput falls from 128 threads on."
    )
    curves = (*_goal(cells, device), *(Line(load, tuple(_points(cells, device, load))) for load in LOADS))
    plot = Lines("A's throughput (Fig 15)", "log2 of N", "MB/s", curves)
    panels: tuple[Panel, ...] = (_table(cells, device), _answers(cells, device), plot)
    return Figure(f"fig-15-{device}", f"Threads that share a rate on {device} (Fig 15)", text, panels, terminal=True)


def _goal(cells: Cells, device: str) -> Iterator[Line]:
    try:
        rate = _rate(cells, device, OURS, "solo") - RATE / 1e6
    except Missing:
        return
    yield Line("goal", tuple((float(threads.bit_length() - 1), rate) for threads in (THREADS[0], THREADS[-1])))


def _points(cells: Cells, device: str, load: str) -> Iterator[tuple[float, float]]:
    for threads in THREADS:
        try:
            yield float(threads.bit_length() - 1), _rate(cells, device, OURS, f"{load}-{threads}")
        except Missing:
            continue


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (load, scheduler, *(_number(cells, device, scheduler, f"{load}-{threads}") for threads in THREADS))
        for load in LOADS
        for scheduler in dict.fromkeys(cell.scheduler for cell in cells if cell.variant.startswith(load))
    )
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    columns = ("B", "scheduler", *(f"N={threads}" for threads in THREADS))
    return Table(f"A's throughput beside N threads on {device}, MB/s", columns, rows, 2, ours)


def _number(cells: Cells, device: str, scheduler: str, variant: str) -> str:
    try:
        return number(_rate(cells, device, scheduler, variant))
    except Missing:
        return "–"


def _answers(cells: Cells, device: str) -> Table:
    """Whether threads in memory take more from the reader than threads that spin."""
    rows = []
    for threads in THREADS:
        try:
            one, *memory = (
                _rate(cells, device, OURS, f"{load}-{threads}") for load in ("spin", "read-mem", "write-mem")
            )
        except Missing:
            continue
        answers = ("the processor" if rate >= AS_MUCH * one else "more than that" for rate in memory)
        rows.append((str(threads), *(number(ratio(rate, one) * 100) for rate in memory), *answers))
    columns = ("N", "read-mem, % of spin", "write-mem, % of spin", "read-mem takes", "write-mem takes")
    return Table(f"What threads in memory take from A on {device}", columns, tuple(rows), 1)
