# SPDX-License-Identifier: GPL-2.0-only
"""Fig 1 of the split-level paper: the cost for a reader of one second of an idle-class process's random writes.

The paper prints the curve without numbers except "over five minutes to recover".
"""

from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Bar, Bars, Figure, Line, Lines, Panel, Table, number
from lab.result import Cell

OURS = "afq"
DEVICES = ("hdd", "ssd")
LEAST = 0.9
BLOCK = 128 << 10
"""Bytes of the reader's I/Os."""
BEGINS = {"before": -5.0, "burst": 0.0, "after": 1.0}
"""When the measurement of a variant's reader begins, in seconds after the beginning of the burst."""
PAPER = "In the paper's Figure 1 the reader beside CFQ, on a hard disk with 16 GB of memory, needs over five minutes."

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEVICES:
        for variant in ("burst", "after"):
            yield Judgement(
                f"{variant}-{device}",
                f"{OURS} on {device}, {_when(variant)} of idle-class writes: a sequential reader's throughput, "
                "relative to that before",
                "≥",
                LEAST,
                partial(kept, device=device, scheduler=OURS, variant=variant),
            )


def _when(variant: str) -> str:
    return "during a one-second burst" if variant == "burst" else "in the half minute after a one-second burst"


def kept(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """The reader's throughput as a part of that alone."""
    alone, beside = (find(cells, device, scheduler, one).job("reader") for one in ("before", variant))
    return ratio(beside.bytes_per_s, alone.bytes_per_s)


def figures(cells: Cells) -> list[Figure]:
    """For each device the paper's figure and the rest of the reader's throughput."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    schedulers = list(dict.fromkeys(cell.scheduler for cell in cells))
    text = (
        "The reader's throughput before, during and after one second of random 4 KiB writes of the idle class. "
        f"The curves are of half seconds of the first run, from -5 s on; the burst is at 0 s. {PAPER}"
    )
    curves = tuple(Line(name, _curve(cells, name)) for name in schedulers)
    bars = [
        Bars(f"{_when(variant)}, % of that alone", "%", tuple(_bars(cells, device, schedulers, variant)))
        for variant in ("burst", "after")
    ]
    table = _table(device, cells, schedulers)
    panels: tuple[Panel, ...] = (table, Lines("The reader's throughput (Fig 1)", "seconds", "MB/s", curves), *bars)
    return Figure(f"fig-1-{device}", f"A burst of writes on {device} (Fig 1)", text, panels, terminal=True)


def _curve(cells: Cells, scheduler: str) -> tuple[tuple[float, float], ...]:
    return tuple(
        (BEGINS[variant] + window.start_s, window.ios * BLOCK / 0.5 / 1e6)
        for variant in BEGINS
        for cell in cells
        if (cell.scheduler, cell.variant) == (scheduler, variant)
        for window in cell.job("reader").series
        if window.start_s < cell.seconds
    )


def _bars(cells: Cells, device: str, schedulers: Sequence[str], variant: str) -> Iterator[Bar]:
    for name in schedulers:
        try:
            alone = find(cells, device, name, "before").job("reader")
            beside = find(cells, device, name, variant).job("reader")
        except Missing:
            continue
        value, low, high = (ratio(rate, alone.iops) * 100 for rate in (beside.iops, *beside.spread.iops))
        yield Bar(name, value, low, high, name == OURS)


def _table(device: str, cells: Cells, schedulers: Sequence[str]) -> Table:
    rows = tuple(_row(device, cells, name) for name in schedulers)
    columns = ("scheduler", "alone MB/s", "burst MB/s", "after MB/s", "runs, after", "% left", "the burst wrote MB")
    ours = frozenset(index for index, name in enumerate(schedulers) if name == OURS)
    return Table(f"The reader on {device}", columns, rows, 1, ours)


def _row(device: str, cells: Cells, scheduler: str) -> tuple[str, ...]:
    try:
        alone, during, after = (find(cells, device, scheduler, variant) for variant in BEGINS)
    except Missing:
        return (scheduler, *["–"] * 6)
    reader, burst = after.job("reader"), after.job("burst")
    low, high = (rate * BLOCK / 1e6 for rate in reader.spread.iops)
    return (
        scheduler,
        *(number(cell.job("reader").bytes_per_s / 1e6) for cell in (alone, during, after)),
        f"{number(low)}–{number(high)}",
        number(kept(cells, device, scheduler, "after") * 100),
        number(burst.ios * 4096 / len(after.inputs) / 1e6),
    )
