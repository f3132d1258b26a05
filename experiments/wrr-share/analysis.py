# SPDX-License-Identifier: GPL-2.0-only
"""Results 1 and 2 of the slides on weighted round robin: shares of three applications, of commands and of bytes.

The slides' figures have no numbers. Ours are compared with schedulers that give shares without the drive's help, by
I/O priority or by a cgroup's weight.
"""

from collections.abc import Iterator, Sequence

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import Bar, Bars, Figure, Panel, Table, number
from lab.result import Cell

DEVICE = "nvme"
WEIGHTS = {"high": 64, "medium": 32, "low": 8}
OFF = 0.03
"""How far a share may be from its weight's."""
OURS = ("wrr", "none")
WAYS = {
    OURS: "the drive's weights",
    ("in-turn", "none"): "in turn",
    ("in-turn", "mq-deadline"): "mq-deadline, by class",
    ("in-turn", "bfq"): "bfq, by class and level",
    ("in-turn", "mq-prio"): "mq-prio, by class",
    ("io-cost", "none"): "io.cost",
    ("bfq-weights", "bfq"): "bfq, cgroups' weights",
}
"""Variant and scheduler, and their names in the tables."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    yield Judgement(
        "shares",
        "nvme with weights 64, 32 and 8, three applications that read at random: largest relative deviation of an "
        "application's share of the bytes from its weight's",
        "≤",
        OFF,
        _ours,
        bound=True,
    )


def _ours(cells: Cells) -> float:
    return off(cells, *OURS)


def off(cells: Cells, variant: str, scheduler: str) -> float:
    """The largest distance of a share from its weight's, as a part of that; Missing if it was not measured."""
    found = find(cells, DEVICE, scheduler, variant).readings
    shares = {name: ratio(found.get(name, 0), sum(found.values())) for name in WEIGHTS}
    return worst(abs(shares[name] * sum(WEIGHTS.values()) / weight - 1) for name, weight in WEIGHTS.items())


def figures(cells: Cells) -> list[Figure]:
    """A table of all ways, and the shares of ours."""
    rows = [(way, find(cells, DEVICE, way[1], way[0])) for way in WAYS if _has(cells, way)]
    if not rows:
        return []
    text = (
        "Three applications, each of 4 jobs that always have more to read than they get; their weights are "
        f"{' : '.join(map(str, WEIGHTS.values()))}. The slides have curves without numbers."
    )
    panels: tuple[Panel, ...] = (
        Table(
            "Shares by what gives them",
            ("by", *(f"{name}, MB/s" for name in WEIGHTS), "all, MB/s", "farthest from its weight, %"),
            tuple(_row(cells, way) for way, _ in rows),
            1,
            frozenset(number for number, (way, _) in enumerate(rows) if way == OURS),
        ),
        *(_bars(way, cell) for way, cell in rows),
    )
    return [Figure("shares", "Shares of three applications (Results 1 and 2)", text, panels, terminal=True)]


def _has(cells: Cells, way: tuple[str, str]) -> bool:
    try:
        return bool(find(cells, DEVICE, way[1], way[0]).readings)
    except Missing:
        return False


def _row(cells: Cells, way: tuple[str, str]) -> tuple[str, ...]:
    found = find(cells, DEVICE, way[1], way[0]).readings
    rates = (*(found[name] for name in WEIGHTS), sum(found.values()))
    return (WAYS[way], *(number(rate / 1e6) for rate in rates), number(100 * off(cells, *way)))


def _bars(way: tuple[str, str], cell: Cell) -> Bars:
    total = sum(cell.readings.values())
    return Bars(
        f"{WAYS[way][0].upper()}{WAYS[way][1:]}",
        "% of all",
        tuple(Bar(name, 100 * cell.readings[name] / total, ours=way == OURS) for name in WEIGHTS),
    )
