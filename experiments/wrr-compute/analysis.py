# SPDX-License-Identifier: GPL-2.0-only
"""The processor time that an application has to compute while the drive weights its reads.

It may use all processors, or its priority's only. According to the slides, the method with four queues for each core
does not affect the ability to compute. The method with a core for each priority reduces it. There are no numbers. The
figure here is the time that the kernel gives the application on the guest's processors. These share one stream of
instructions: a real machine would do proportionally more in it.
"""

from collections.abc import Iterator, Sequence

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import Bar, Bars, Figure, Panel, Table, number
from lab.result import Cell

DEVICE = "nvme"
WEIGHTS = {"high": 64, "low": 8}
OFF = 0.03
"""How far a share may be from its weight's."""
MORE = 1.8
"""The least ratio of processor time with two processors: reads take a part of both."""
WAYS = {("everywhere", "none"): "all cores", ("affinity", "none"): "a core each"}
"""Variant and scheduler, and their names in the tables."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    yield Judgement(
        "compute",
        "nvme with weights 64 and 8, two processors: processor time of an application that computes and reads, "
        "relative to that when each application is confined to one processor",
        "≥",
        MORE,
        lambda cells: ratio(*(_readings(cells, variant).get("compute", 0) for variant, _ in WAYS)),
    )
    yield Judgement(
        "shares",
        "nvme with weights 64 and 8, two applications that read at random on two processors: largest relative "
        "deviation of an application's share of the bytes from its weight's",
        "≤",
        OFF,
        _off,
        bound=True,
    )


def _readings(cells: Cells, variant: str) -> dict[str, float]:
    return dict(find(cells, DEVICE, "none", variant).readings)


def _off(cells: Cells, variant: str = "everywhere") -> float:
    found = _readings(cells, variant)
    shares = {name: ratio(found.get(name, 0), sum(found.get(one, 0) for one in WEIGHTS)) for name in WEIGHTS}
    return worst(abs(shares[name] * sum(WEIGHTS.values()) / weight - 1) for name, weight in WEIGHTS.items())


def figures(cells: Cells) -> list[Figure]:
    """A table of both ways, and of the computation."""
    try:
        rows = [(text, _readings(cells, variant), _off(cells, variant)) for (variant, _), text in WAYS.items()]
    except Missing:
        return []
    text = (
        "Two processors. Both applications have 4 jobs that always have more to read than they get; the one of weight "
        "64 computes besides, with two processes. The slides have no numbers."
    )
    panels: tuple[Panel, ...] = (
        Table(
            "By where they may run",
            ("", *(f"{name}, reads/s" for name in WEIGHTS), "farthest from its weight, %", "processors to compute"),
            tuple(
                (text, *(number(found[name] / 4096) for name in WEIGHTS), number(100 * off), number(found["compute"]))
                for text, found, off in rows
            ),
            1,
            frozenset({0}),
        ),
        Bars(
            "What it has to compute",
            "processors",
            tuple(Bar(text, found["compute"], ours=not row) for row, (text, found, _) in enumerate(rows)),
        ),
    )
    return [Figure("compute", "An application that computes and reads", text, panels, terminal=True)]
