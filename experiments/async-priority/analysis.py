# SPDX-License-Identifier: GPL-2.0-only
"""Fig 3 of the split-level paper: eight levels write through the page cache, and all their requests have one level.

It is level 4, that of the thread that writes back. The claim is that a scheduler that knows the cause of a request
does better. Whether today's block-level schedulers behave like the paper's CFQ is no claim: the table answers it.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, find, ratio
from lab.figure import Bar, Bars, Figure, Line, Lines, Panel, Table, number
from lab.result import Cell

OURS = "afq"
DEVICES = ("hdd", "ssd")
VARIANT = "async-write"
LEVELS = tuple(f"p{level}" for level in range(8))
IDEAL = {name: (8 - level) / 36 for level, name in enumerate(LEVELS)}
EQUAL = sum(abs(1 / 8 - ideal) / ideal for ideal in IDEAL.values()) / len(IDEAL)
"""The deviation from the ideal if all levels are served alike: 81.5 %."""
MOST = 0.1
BLIND = 0.75
"""A scheduler ignores levels if its deviation is at least this part of that of serving all levels alike."""
PAPER = 0.82
"""Section 5.1: CFQ's mean deviation. Fig 3 (right) has all its requests at level 4."""

Cells = Sequence[Cell]


def deviation(cell: Cell) -> float:
    """The mean over levels of |share - ideal| / ideal."""
    whole = sum(job.bytes_per_s for job in cell.jobs)
    return sum(abs(ratio(cell.job(name).bytes_per_s, whole) / ideal - 1) for name, ideal in IDEAL.items()) / len(IDEAL)


def seen(cell: Cell) -> dict[str, float]:
    """The part of the requests that iolat saw at each class and level, as "be/4"; nothing if it saw none."""
    counts = {
        name: sum(count for _, count in of["d2c"].histogram) for name, of in cell.stages_by.items() if "/" in name
    }
    return {name: ratio(count, sum(counts.values())) for name, count in sorted(counts.items())}


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEVICES:
        yield Judgement(
            f"ours-{device}",
            f"{OURS} on {device}, asynchronous sequential writes by eight levels: mean relative deviation of the "
            "levels' throughput from the shares that their weights give",
            "≤",
            MOST,
            partial(_deviation, device=device, scheduler=OURS),
        )


def _deviation(cells: Cells, device: str, scheduler: str) -> float:
    return deviation(find(cells, device, scheduler, VARIANT))


def figures(cells: Cells) -> list[Figure]:
    """The two plots of the paper's figure for each device, and the table behind them."""
    here = [cell for cell in cells if cell.variant == VARIANT]
    return [
        _device(device, [cell for cell in here if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in here)
    ]


def _device(device: str, cells: Cells) -> Figure:
    text = (
        "Eight processes write through the page cache, each to a file of its own. Left: what part of the throughput "
        "each level gets, and should. Right: what part of the requests has which class and level when it reaches the "
        f"scheduler, as iolat sees it. The paper's CFQ deviates by {PAPER:.0%}, and all its requests are of level 4."
    )
    goal = Line("goal", tuple((float(level), ideal * 100) for level, ideal in enumerate(IDEAL.values())))
    lines = Lines(
        "Throughput (Fig 3, left)", "level", "%", (goal, *(_curve(cell) for cell in cells)), bounds=(0.0, 30.0)
    )
    panels: tuple[Panel, ...] = (_table(cells, device), lines, *_bars(cells))
    return Figure(f"fig-3-{device}", f"Asynchronous writes on {device} (Fig 3)", text, panels, terminal=True)


def _curve(cell: Cell) -> Line:
    whole = sum(job.bytes_per_s for job in cell.jobs)
    shares = (ratio(cell.job(name).bytes_per_s, whole) * 100 for name in LEVELS)
    return Line(cell.scheduler, tuple((float(level), share) for level, share in enumerate(shares)))


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (
            cell.scheduler,
            number(deviation(cell) * 100),
            _answer(deviation(cell)),
            number(sum(job.bytes_per_s for job in cell.jobs) / 1e6),
            _levels(cell),
        )
        for cell in cells
    )
    ours = frozenset(index for index, cell in enumerate(cells) if cell.scheduler == OURS)
    rows += (("paper: cfq", number(PAPER * 100), _answer(PAPER), "–", "100 % be/4"),)
    columns = ("scheduler", "deviation %", "levels count", "total MB/s", "requests by class and level")
    return Table(f"Asynchronous writes on {device}", columns, rows, 1, ours)


def _answer(off: float) -> str:
    if off <= MOST:
        return "yes"
    return "no" if off >= BLIND * EQUAL else "in part"


def _levels(cell: Cell) -> str:
    if not cell.stages_by:
        return "–"
    return ", ".join(f"{number(part * 100)} % {name}" for name, part in seen(cell).items())


def _bars(cells: Cells) -> Iterator[Bars]:
    for cell in cells:
        if cell.stages_by:
            bars = tuple(Bar(name, part * 100, ours=cell.scheduler == OURS) for name, part in seen(cell).items())
            yield Bars(f"{cell.scheduler}: requests (Fig 3, right)", "%", bars)
    yield Bars("The paper: CFQ's requests", "%", (Bar("be/4", 100.0),))
