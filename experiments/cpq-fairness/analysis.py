# SPDX-License-Identifier: GPL-2.0-only
"""Section 7.1 of the CPQ paper: 1000 I/Os of a database wait beside 50 of a web server.

The paper has no figures, only the number of I/Os. Without fairness the web server gets 50 of 1050. With 32 of 64 tags
for each group, it gets half.
"""

import math
from collections.abc import Callable, Iterator, Sequence

from lab.analysis import Judgement, find, ratio
from lab.figure import Bar, Bars, Figure, Line, Lines, Table, number
from lab.result import Cell, Job

OURS = "cpq"
RIVAL = "mq-deadline"
DEVICE = "emmc"
VARIANTS = {
    "plain": "database and web server",
    "hungry": "two applications that always want more than their share",
    "fork-thread-groups": "the database forks 100 processes more, without cgroups",
    "fork": "the database forks 100 processes more, in its cgroup",
    "io-uring": "the database adds 1000 I/Os through io_uring",
    "page-cache": "the database writes through the page cache",
}
AGGRESSORS = ("fork-thread-groups", "fork", "io-uring", "page-cache")
LATE_S = 1.0
"""How much later than the others the web server begins, in seconds; the others run on after it as long."""
WINDOW_S = 0.5
MOST_CHANGE = 0.1
UNFAIR_PART = 50 / 1050
"""The web server's part of the waiting requests, which in the paper is its share without fairness."""

Cells = Sequence[Cell]


def judgements() -> Sequence[Judgement]:
    """What must hold."""
    return [*_shares(), *_aggressors(), _alone()]


def rate(cell: Cell, name: str) -> float:
    """I/Os a second of a job while the web server runs."""
    job = cell.job(name)
    if name == "web":
        return job.iops
    end = cell.seconds - LATE_S
    found = [window.ios for window in job.series if LATE_S <= window.start_s < end]
    return sum(found) / (end - LATE_S)


def share(cell: Cell) -> float:
    """The web server's part of all readers' I/Os while both wait."""
    readers = [job.name for job in cell.jobs if job.name == "web" or _reads(cell, job)]
    return ratio(rate(cell, "web"), sum(rate(cell, name) for name in readers))


def _reads(cell: Cell, job: Job) -> bool:
    """Whether each of the job's I/Os is one of the drive's; those of the page cache aren't."""
    return job.name == "database" or cell.variant != "page-cache"


def jain(rates: Sequence[float]) -> float:
    """Jain's index: 1 if all get the same, 1/n if one gets all."""
    return ratio(sum(rates) ** 2, len(rates) * sum(value**2 for value in rates))


def _shares() -> Iterator[Judgement]:
    yield Judgement(
        "web-share",
        f"{OURS} on {DEVICE}, a web server's 50 I/Os beside a database's 1000: the web server's share of the IOPS",
        "≥",
        0.4,
        lambda cells: share(find(cells, DEVICE, OURS, "plain")),
        round(UNFAIR_PART, 4),
    )
    yield Judgement(
        "jain",
        f"{OURS} on {DEVICE}, two applications that always have more I/Os than tags: Jain's index of their IOPS",
        "≥",
        0.95,
        lambda cells: _jain(find(cells, DEVICE, OURS, "hungry")),
    )
    yield Judgement(
        "web-p99",
        f"{OURS} on {DEVICE}, a web server's 50 I/Os beside a database's 1000: the web server's p99 latency, "
        f"relative to {RIVAL}",
        "≤",
        0.25,
        lambda cells: ratio(_p99(cells, OURS, "plain"), _p99(cells, RIVAL, "plain")),
    )


def _jain(cell: Cell) -> float:
    return jain([rate(cell, name) for name in ("database", "web")])


def _p99(cells: Cells, scheduler: str, variant: str) -> float:
    job = find(cells, DEVICE, scheduler, variant).job("web")
    return job.lat.p99 if job.ios else math.nan


def _aggressors() -> Iterator[Judgement]:
    for variant in AGGRESSORS:
        text = f"{OURS} on {DEVICE}, a web server beside a database; {VARIANTS[variant]}: the web server's"
        service, p99 = _over_plain(variant, _iops), _over_plain(variant, _p99)
        yield Judgement(f"{variant}-service", f"{text} IOPS, relative to those before", "≥", 1 - MOST_CHANGE, service)
        yield Judgement(f"{variant}-p99", f"{text} p99 latency, relative to that before", "≤", 1 + MOST_CHANGE, p99)


def _iops(cells: Cells, scheduler: str, variant: str) -> float:
    return find(cells, DEVICE, scheduler, variant).job("web").iops


def _over_plain(variant: str, figure: Callable[[Cells, str, str], float]) -> Callable[[Cells], float]:
    return lambda cells: ratio(figure(cells, OURS, variant), figure(cells, OURS, "plain"))


def _alone() -> Judgement:
    def measure(cells: Cells) -> float:
        fair, unfair = (find(cells, DEVICE, OURS, variant).job("database") for variant in ("alone", "alone-unfair"))
        return ratio(fair.iops, unfair.iops)

    text = f"{OURS} on {DEVICE}, a database alone: IOPS, relative to those with fairness off"
    return Judgement("alone", text, "≥", 0.99, measure)


def figures(cells: Cells) -> list[Figure]:
    """For each variant a table, and the web server's share and p99 over time; and its IOPS in all variants."""
    drawn = [
        _variant(variant, [cell for cell in cells if cell.variant == variant])
        for variant in VARIANTS
        if any(cell.variant == variant for cell in cells)
    ]
    return [*drawn, *_aggressors_figure(cells)]


def _variant(variant: str, cells: Cells) -> Figure:
    text = (
        "I/Os a second and latency from submission while the web server runs; share is its part of the readers' I/Os, "
        "Jain's index that of the readers. What writes through the page cache writes to memory. The curves are of half "
        "seconds."
    )
    panels = (
        _table(variant, cells),
        Lines(
            "The web server's share", "seconds", "%", tuple(Line(cell.scheduler, _share_line(cell)) for cell in cells)
        ),
        Lines("Jain's index", "seconds", "", tuple(Line(cell.scheduler, _jain_line(cell)) for cell in cells)),
        Lines(
            "The web server's p99",
            "seconds",
            "ms",
            tuple(
                Line(
                    cell.scheduler,
                    tuple((LATE_S + window.start_s, window.p99_ns / 1e6) for window in cell.job("web").series),
                )
                for cell in cells
            ),
            log=True,
        ),
    )
    return Figure(variant, f"{variant}: {VARIANTS[variant]}", text, panels, terminal=True)


def _table(variant: str, cells: Cells) -> Table:
    beside = [job.name for job in cells[0].jobs if job.name != "web"]
    columns = ("scheduler", "web IOPS", "share %", "p50 ms", "p99 ms", "max ms", "Jain")
    rows = tuple(
        (
            cell.scheduler,
            number(rate(cell, "web")),
            number(share(cell) * 100),
            *(number(value / 1e6) for value in _quiet(cell.job("web"))),
            number(jain([rate(cell, job.name) for job in cell.jobs if job.name == "web" or _reads(cell, job)])),
            *(number(rate(cell, name)) for name in beside),
        )
        for cell in cells
    )
    ours = frozenset(index for index, cell in enumerate(cells) if cell.scheduler == OURS)
    return Table(VARIANTS[variant], (*columns, *(f"{name} IOPS" for name in beside)), rows, 1, ours)


def _quiet(job: Job) -> tuple[int, int, int]:
    return job.lat.p50, job.lat.p99, job.lat.max


def _windows(cell: Cell) -> Iterator[tuple[float, list[int]]]:
    """For each half second of the web server its time, its I/Os and those of the other readers."""
    others = [job for job in cell.jobs if job.name != "web" and _reads(cell, job)]
    series = [{window.start_s: window.ios for window in job.series} for job in others]
    for window in cell.job("web").series:
        time = LATE_S + window.start_s
        if time < cell.seconds - LATE_S:
            yield time, [window.ios, *(of.get(time, 0) for of in series)]


def _share_line(cell: Cell) -> tuple[tuple[float, float], ...]:
    return tuple((time, ratio(ios[0], sum(ios)) * 100) for time, ios in _windows(cell))


def _jain_line(cell: Cell) -> tuple[tuple[float, float], ...]:
    return tuple((time, jain([float(value) for value in ios])) for time, ios in _windows(cell))


def _aggressors_figure(cells: Cells) -> Iterator[Figure]:
    """What each aggressor takes from the web server, by scheduler; nothing if none was measured."""
    plain = {(cell.device, cell.scheduler): cell.job("web").iops for cell in cells if cell.variant == "plain"}
    panels = []
    for variant in AGGRESSORS:
        bars = tuple(
            Bar(cell.scheduler, ratio(cell.job("web").iops, before) * 100, ours=cell.scheduler == OURS)
            for cell in cells
            if cell.variant == variant and (before := plain.get((cell.device, cell.scheduler)))
        )
        if bars:
            panels.append(Bars(f"{variant}: the web server's IOPS, % of those in plain", "%", bars))
    if panels:
        text = "But for the first, database and aggressor are in one cgroup, and the web server is in another."
        yield Figure("aggressors", "What an aggressor takes", text, tuple(panels))
