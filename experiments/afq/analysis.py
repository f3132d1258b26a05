# SPDX-License-Identifier: GPL-2.0-only
"""Fig 11 of the split-level paper: each level's part of the throughput, against its weight of 8 - level.

The paper gives numbers for two of the four: how far CFQ and AFQ are from the goal with asynchronous and with
synchronous writes. A disk without levels, which serves all alike, is 81.5 % from the goal.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, find, ratio
from lab.figure import Bar, Bars, Figure, Line, Lines, Panel, Table, number
from lab.result import Cell

OURS = "afq"
DEVICES = ("hdd", "ssd")
LEVELS = tuple(f"p{level}" for level in range(8))
WEIGHTS = {name: 8 - level for level, name in enumerate(LEVELS)}
IDEAL = {name: weight / sum(WEIGHTS.values()) for name, weight in WEIGHTS.items()}
MOST = {"read": 0.1, "async-write": 0.1, "sync-write": 0.03}
"""How far from the ideal shares the levels may be, as the mean of their relative deviations."""
LEAST = 0.95
"""The part of a rival's throughput that all levels together must have."""
PANEL = {
    "read": ("a", "sequential reads"),
    "async-write": ("b", "asynchronous sequential writes"),
    "sync-write": ("c", "synchronous random writes"),
    "memory": ("d", "writes over dirty pages in memory"),
}
PAPER = {"async-write": {"cfq": 0.82, "afq": 0.16}, "sync-write": {"cfq": 0.86, "afq": 0.03}}
"""Section 5.1: the mean deviation of CFQ and AFQ from the ideal."""

Cells = Sequence[Cell]


def share(cell: Cell, name: str) -> float:
    """A level's part of all bytes a second."""
    return ratio(cell.job(name).bytes_per_s, total(cell))


def total(cell: Cell) -> float:
    """Bytes a second of all levels."""
    return sum(job.bytes_per_s for job in cell.jobs)


def deviation(cell: Cell) -> float:
    """The mean over levels of |share - ideal| / ideal."""
    return sum(abs(share(cell, name) - ideal) / ideal for name, ideal in IDEAL.items()) / len(IDEAL)


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEVICES:
        for variant, most in MOST.items():
            yield Judgement(
                f"{variant}-{device}",
                f"{OURS} on {device}, {PANEL[variant][1]} by eight levels: mean relative deviation of the levels' "
                "throughput from the shares that their weights give",
                "≤",
                most,
                partial(_deviation, device=device, variant=variant),
                PAPER.get(variant, {}).get(OURS),
            )
        for variant in PANEL:
            rival = "none" if variant == "memory" else "bfq"
            yield Judgement(
                f"{variant}-total-{device}",
                f"{OURS} on {device}, {PANEL[variant][1]} by eight levels: total throughput, relative to {rival}",
                "≥",
                LEAST,
                partial(_over, device=device, variant=variant, rival=rival),
            )


def _deviation(cells: Cells, device: str, variant: str) -> float:
    return deviation(find(cells, device, OURS, variant))


def _over(cells: Cells, device: str, variant: str, rival: str) -> float:
    return ratio(*(total(find(cells, device, scheduler, variant)) for scheduler in (OURS, rival)))


def figures(cells: Cells) -> list[Figure]:
    """The four plots of the paper's figure for each device, and a table of all deviations from the goal."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    text = (
        "What part of the throughput each level gets; the goal is its weight, 8 - level, over the sum of all. "
        "Overwriting memory needs no disk, so that there is no goal. The paper prints the totals in its plots only."
    )
    panels: list[Panel] = [_table(cells, device), *_plots(cells), *_paper_bars()]
    return Figure(f"fig-11-{device}", f"Levels on {device} (Fig 11)", text, tuple(panels), terminal=True)


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (cell.variant, cell.scheduler, _percent(cell), number(total(cell) / 1e6), _runs(cell))
        for variant in PANEL
        for cell in cells
        if cell.variant == variant
    )
    rows += tuple(
        (variant, f"paper: {name}", number(value * 100), "–", "–")
        for variant, those in PAPER.items()
        for name, value in those.items()
    )
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    columns = ("load", "scheduler", "deviation %", "total MB/s", "p0, runs, MB/s")
    return Table(f"Levels on {device}", columns, rows, 2, ours)


def _percent(cell: Cell) -> str:
    return "–" if cell.variant == "memory" else number(deviation(cell) * 100)


def _runs(cell: Cell) -> str:
    """The lowest and highest throughput of the highest level in the runs."""
    job = cell.job("p0")
    size = ratio(job.bytes_per_s, job.iops)
    return "–".join(number(iops * size / 1e6) for iops in job.spread.iops)


def _plots(cells: Cells) -> Iterator[Lines]:
    for variant, (letter, text) in PANEL.items():
        curves = tuple(_curve(cell) for cell in cells if cell.variant == variant)
        goal = () if variant == "memory" else (Line("goal", _points(IDEAL)),)
        if curves:
            yield Lines(f"({letter}) {text}", "level", "% of throughput", (*goal, *curves), bounds=(0.0, 30.0))


def _curve(cell: Cell) -> Line:
    return Line(cell.scheduler, _points({name: share(cell, name) for name in LEVELS}))


def _points(shares: dict[str, float]) -> tuple[tuple[float, float], ...]:
    return tuple((float(level), shares[name] * 100) for level, name in enumerate(LEVELS))


def _paper_bars() -> Iterator[Bars]:
    for variant, those in PAPER.items():
        bars = tuple(Bar(name, value * 100, ours=name == OURS) for name, value in those.items())
        yield Bars(f"The paper: {PANEL[variant][1]}, deviation", "%", bars)
