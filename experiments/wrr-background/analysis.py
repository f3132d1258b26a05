# SPDX-License-Identifier: GPL-2.0-only
"""Result 3 of the slides on weighted round robin: a foreground's reads beside a background's.

The slides' figure has no numbers. With round robin the foreground declines sharply, 16:1 throttles the background, and
128:1 keeps the foreground's performance.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Bar, Bars, Figure, Panel, Table, number
from lab.result import Cell

DEVICE = "nvme"
NEEDS = {"wrr-16": ("16:1", 0.85), "wrr-128": ("128:1", 0.95)}
"""The least part of its reads alone that the foreground keeps."""
DECLINE = 0.5
"""The most that it keeps if the drive fetches by round robin: otherwise the load is too light."""
WAYS = {
    ("in-turn", "none"): "in turn",
    ("wrr-16", "none"): "weights 16:1",
    ("wrr-128", "none"): "weights 128:1",
    ("io-cost-16", "none"): "io.cost 16:1",
    ("io-cost-128", "none"): "io.cost 128:1",
    ("in-turn", "mq-deadline"): "mq-deadline, by class",
    ("in-turn", "bfq"): "bfq, by class",
    ("in-turn", "mq-prio"): "mq-prio, by class",
}
"""Variant and scheduler, and their names in the tables."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for variant, (weights, least) in NEEDS.items():
        yield Judgement(
            variant,
            f"nvme with weights {weights}, beside a background with twice as many reads in flight: the foreground's "
            "throughput, relative to that alone",
            "≥",
            least,
            partial(kept, variant=variant, scheduler="none"),
        )
    yield Judgement(
        "in-turn",
        "nvme that fetches in turn, beside a background with twice as many reads in flight: the foreground's "
        "throughput, relative to that alone",
        "≤",
        DECLINE,
        partial(kept, variant="in-turn", scheduler="none"),
    )


def kept(cells: Cells, variant: str, scheduler: str) -> float:
    """The part of its reads alone that the foreground keeps; Missing if a number was not measured."""
    alone = _rate(cells, "alone", "none", "foreground")
    return ratio(_rate(cells, variant, scheduler, "foreground"), alone)


def _rate(cells: Cells, variant: str, scheduler: str, name: str) -> float:
    """Bytes a second."""
    return find(cells, DEVICE, scheduler, variant).readings.get(name, 0)


def figures(cells: Cells) -> list[Figure]:
    """A table of all ways, and the part that the foreground keeps."""
    found = [way for way in WAYS if _has(cells, way)]
    if not found:
        return []
    text = (
        "A foreground application of 4 jobs, best-effort 0, reads 4 KiB at random beside a background one, idle, with "
        "twice as much in flight. The slides say, without numbers, that the foreground declines sharply in turn, and "
        "keeps its performance at 128:1."
    )
    rows = tuple(_row(cells, way) for way in found)
    ours = frozenset(index for index, way in enumerate(found) if way[0] in NEEDS)
    bars = tuple(Bar(WAYS[way], 100 * kept(cells, *way), ours=way[0] in NEEDS) for way in found)
    panels: tuple[Panel, ...] = (
        Table("Reads a second", ("by", "foreground", "background", "kept, %"), rows, 1, ours),
        Bars("What the foreground keeps", "% of its reads alone", bars),
    )
    return [Figure("background", "A foreground beside a background (Result 3)", text, panels, terminal=True)]


def _has(cells: Cells, way: tuple[str, str]) -> bool:
    try:
        kept(cells, *way)
    except Missing:
        return False
    return True


def _row(cells: Cells, way: tuple[str, str]) -> tuple[str, ...]:
    rates = (_rate(cells, *way, name) / 4096 for name in ("foreground", "background"))
    return (WAYS[way], *(number(rate) for rate in rates), number(100 * kept(cells, *way)))
