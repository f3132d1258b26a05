# SPDX-License-Identifier: GPL-2.0-only
"""Judges and draws the cost of the lower ranks' share for the highest rank, and its gain for the others."""

from collections.abc import Callable, Sequence

from lab.analysis import Judgement, Missing, ratio, worst
from lab.figure import Figure, Line, Lines, Table, number
from lab.result import Cell

OURS, DEVICE, KNOB = "mq-prio", "ssd", "low_share"
SETTINGS = (1, 2, 4, 8, 16, 32)
"""The experiment's settings, in %."""
MIXES = {"be-levels": "best effort 1 beside best effort 7", "classes": "real time beside idle"}

Cells = Sequence[Cell]


def judgements() -> Sequence[Judgement]:
    """What must hold at every setting of the knob."""
    text = (
        f"{OURS} on {DEVICE} with {KNOB} from {SETTINGS[0]} to {SETTINGS[-1]} %, a backup beside a more urgent "
        "database: its least IOPS, relative to the stated share of its IOPS alone"
    )
    return [Judgement("low-share", text, "≥", 1, _least_share, bound=True)]


def _swept(cells: Cells, variant: str) -> list[Cell]:
    """The cells of a variant in the order of the knob; Missing if there are none."""
    place = DEVICE, OURS, variant
    found = [cell for cell in cells if (cell.device, cell.scheduler, cell.variant) == place and KNOB in cell.tunables]
    if not found:
        raise Missing(*place)
    return sorted(found, key=_setting)


def _whole(cells: Cells, variant: str) -> list[Cell]:
    """The same; Missing if one of the experiment's settings was not measured."""
    found = _swept(cells, variant)
    if not {_setting(cell) for cell in found} >= set(SETTINGS):
        raise Missing(DEVICE, OURS, variant)
    return found


def _setting(cell: Cell) -> int:
    return int(cell.tunables[KNOB])


def _alone(cells: Cells, job: str, variant: str) -> float:
    """IOPS of a job that runs alone, the best at any setting."""
    return worst(cell.job(job).iops for cell in _swept(cells, variant))


def _least_share(cells: Cells) -> float:
    alone = worst(cell.job("backup").iops for cell in _whole(cells, "solo-backup"))
    mixes = [cell for mix in MIXES for cell in _whole(cells, mix)]
    return worst((ratio(cell.job("backup").iops, alone * _setting(cell) / 100) for cell in mixes), min)


def figures(cells: Cells) -> list[Figure]:
    """A table of the sweep, and its curves."""
    try:
        return [_table(cells), _curves(cells)]
    except Missing:
        return []


def _table(cells: Cells) -> Figure:
    high, low = _alone(cells, "database", "solo"), _alone(cells, "backup", "solo-backup")
    panels = tuple(
        Table(f"{mix}: {text}", COLUMNS, tuple(_row(cell, high, low) for cell in _swept(cells, mix)))
        for mix, text in MIXES.items()
    )
    text = f"Percent are of what each job gets alone: {number(high)} and {number(low)} IOPS. Latencies are in ms."
    return Figure("sweep", "What a share costs and gives", text, panels, terminal=True)


COLUMNS = (f"{KNOB} %", "database IOPS", "% of alone", "its p99", "backup IOPS", "% of alone", "its p99", "its oldest")


def _row(cell: Cell, high: float, low: float) -> tuple[str, ...]:
    database, backup = cell.job("database"), cell.job("backup")
    return (
        cell.tunables[KNOB],
        number(database.iops),
        number(ratio(database.iops, high) * 100),
        number(database.lat.p99 / 1e6),
        number(backup.iops),
        number(ratio(backup.iops, low) * 100),
        number(backup.lat.p99 / 1e6),
        number(backup.lat.max / 1e6),
    )


def _curves(cells: Cells) -> Figure:
    high, low = _alone(cells, "database", "solo"), _alone(cells, "backup", "solo-backup")

    def curve(title: str, value: Callable[[Cell], float]) -> Lines:
        lines = tuple(
            Line(mix, tuple((float(_setting(cell)), value(cell)) for cell in _swept(cells, mix))) for mix in MIXES
        )
        return Lines(title, f"{KNOB}, %", "", lines)

    panels = (
        curve("database, % of its IOPS alone", lambda cell: ratio(cell.job("database").iops, high) * 100),
        curve("backup, % of its IOPS alone", lambda cell: ratio(cell.job("backup").iops, low) * 100),
        curve("database, p99 in ms", lambda cell: cell.job("database").lat.p99 / 1e6),
        curve("backup, p99 in ms", lambda cell: cell.job("backup").lat.p99 / 1e6),
    )
    return Figure("curves", "The same as curves", "Each point is a cell of the table.", panels)
