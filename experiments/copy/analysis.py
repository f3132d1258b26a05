# SPDX-License-Identifier: GPL-2.0-only
"""A database's commits and reads beside a neighbour that works through the page cache.

A commit waits for the neighbour's dirty pages, for its part of the transaction and for its data in the device's cache.
A scheduler that orders requests can't tell which process caused these; `sluice` can. Its claims are beside a copy,
beside the neighbour, on ext4 or XFS, that is worst for the claim, and for etcd beside an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import CUT, Column, Figure, Overview, Table, number
from lab.result import Cell, Job

OURS = "sluice"
RIVAL = "mq-deadline"
DEVICES = ("ssd", "hdd")
COPY = "idle-copy"
DOES = {
    "idle-copy": "copies a file, idle class",
    "be7-copy": "copies a file, best effort 7",
    "tar": "unpacks small files, idle class",
    "rm": "removes a tree, idle class",
    "mapped": "stores to a mapped file, idle class",
    "update": "updates the operating system, idle class",
}
"""The neighbour's work, by variant; on ext4, or on XFS if the variant's name ends in that."""
FILES = ("tar", "rm", "update")
"""Neighbours whose progress is counted in files, and not in bytes."""
XFS = "-xfs"
ALONE = {"idle-copy": "copying", "be7-copy": "copying", "tar": "unpacking"}
"""The neighbour alone, by the variant in which it is beside the database."""
LEAST = {"ssd": 0.85, "hdd": 0.9}
"""The part of its commits that the log keeps beside every neighbour, by device."""
COLUMNS = ("scheduler", "commits/s", "of alone", "p99 ms", "p99.9", "reads/s", "of alone", "p99 ms")


def kept(cells: Sequence[Cell], device: str, job: str) -> float:
    """A job's IOPS beside the copy, relative to those alone."""
    beside = find(cells, device, OURS, COPY).job(job)
    return ratio(beside.iops, find(cells, device, OURS, _alone(COPY)).job(job).iops)


def slower(cells: Sequence[Cell], device: str) -> float:
    """The p99 of a commit beside the copy, relative to that alone."""
    beside = find(cells, device, OURS, COPY).job("log").sync.p99
    return ratio(beside, find(cells, device, OURS, _alone(COPY)).job("log").sync.p99)


def share(cells: Sequence[Cell], device: str) -> float:
    """A neighbour's progress beside the database as a part of that alone, relative to its stated share; the worst."""
    names = [(name + system, ALONE[name] + system) for system in ("", XFS) for name in ALONE]
    pairs = [tuple(find(cells, device, OURS, variant) for variant in pair) for pair in names]
    shares = [int(beside.settings["iosched/low_share"]) / 100 for beside, _ in pairs]
    return worst((_gained(*pair) / part for pair, part in zip(pairs, shares, strict=True)), min)


def than_rival(cells: Sequence[Cell], device: str) -> float:
    """The copy's progress, relative to that under the rival, which stops it to keep the log's commits; the worst."""
    pairs = [tuple(find(cells, device, name, COPY + system) for name in (OURS, RIVAL)) for system in ("", XFS)]
    return worst((_gained(*pair) for pair in pairs), min)


def _gained(cell: Cell, other: Cell) -> float:
    """The neighbour's progress in a cell, relative to that in another."""
    return ratio(cell.readings["neighbour"], other.readings["neighbour"])


def update_p99(cells: Sequence[Cell]) -> float:
    """The p99 of etcd's fdatasync beside the update, relative to that alone."""
    beside, alone = (find(cells, "nvme", OURS, variant) for variant in ("update", "solo-update"))
    return ratio(beside.job("log").sync.p99, alone.job("log").sync.p99)


def update_time(cells: Sequence[Cell]) -> float:
    """The time that an object of the update takes, relative to that without a scheduler."""
    return _gained(*(find(cells, "nvme", name, "update") for name in ("none", OURS)))


def _worst(
    cells: Sequence[Cell],
    device: str,
    job: str,
    value: Callable[[Job], float],
    of: Callable[[Iterable[float]], float],
) -> float:
    """The worst of a job's values beside each neighbour, relative to those alone."""
    variants = (name + system for system in ("", XFS) for name in DOES if name != "update")
    beside = ((find(cells, device, OURS, name), find(cells, device, OURS, _alone(name))) for name in variants)
    return worst((ratio(value(cell.job(job)), value(alone.job(job))) for cell, alone in beside), of)


def judgements() -> Iterator[Judgement]:
    """What must hold on each device, beside a copy of the idle class, and beside any neighbour."""
    for device in DEVICES:
        said = f"{OURS} on {device}, a database beside the neighbour that is worst for it"
        for name, what, sense, limit, job, value in (
            ("commits", "commits a second", "≥", LEAST[device], "log", lambda job: job.iops),
            ("commit-p99", "the p99 of a commit", "≤", 1.5, "log", lambda job: job.sync.p99),
            ("commit-p999", "the p99.9 of a commit", "≤", 3, "log", lambda job: job.sync.p999),
            ("reads", "reads a second", "≥", 0.85, "reads", lambda job: job.iops),
            ("read-p99", "the p99 of a read", "≤", 1.5, "reads", lambda job: job.lat.p99),
        ):
            measure = partial(_worst, device=device, of=min if sense == "≥" else max, value=value, job=job)
            text = f"{said}: {what}, relative to that alone"
            yield Judgement(f"{device}-any-{name}", text, sense, limit, measure)
        yield Judgement(
            f"{device}-any-share",
            f"{OURS} on {device}, the copy or tar for which this is worst: its progress beside the database, relative "
            "to the stated share (low_share) of that alone",
            "≥",
            1,
            partial(share, device=device),
        )
        yield Judgement(
            f"{device}-copy-{RIVAL}",
            f"{OURS} on {device}, a copy of the idle class on ext4 or XFS, whichever is worse: its progress beside the "
            f"database, relative to that under {RIVAL}",
            "≥",
            1,
            partial(than_rival, device=device),
        )
    for device in DEVICES:
        said = f"{OURS} on {device}, a database beside a copy of the idle class through the page cache"
        for job, what, limit in (("log", "commits", 0.9), ("reads", "reads", 0.85)):
            text = f"{said}: {what} a second, relative to those alone"
            yield Judgement(f"{device}-{what}", text, "≥", limit, partial(kept, device=device, job=job))
        text = f"{said}: the p99 of a commit, relative to that alone"
        yield Judgement(f"{device}-commit-p99", text, "≤", 1.5, partial(slower, device=device))
    said = f"{OURS} on nvme, etcd beside an update of the operating system of the idle class"
    yield Judgement("update-p99", f"{said}: the p99 of its fdatasync, relative to that alone", "≤", 2, update_p99)
    text = f"{said}: the time that the update takes, relative to none"
    yield Judgement("update-time", text, "≤", 1.3, update_time)


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """The copy on the first device in short, and for each device a table of each neighbour."""
    devices = dict.fromkeys(cell.device for cell in cells)
    kept = (_kept(cells, device) for device in devices)
    return [*_opening(cells), *(_neighbours(cells, device) for device in devices), *(one for one in kept if one)]


def _opening(cells: Sequence[Cell]) -> Iterator[Figure]:
    """What the database keeps beside the first neighbour, and that one's progress, where `sluice` was measured."""
    first = next((cell for cell in cells if _neighbour(cell.variant)[0] in DOES), None)
    shown = [cell for cell in cells if first and (cell.device, cell.variant) == (first.device, first.variant)]
    try:
        name, unit, scale = _neighbour(shown[0].variant)
        alone, ours = (find(cells, shown[0].device, OURS, of(shown[0].variant)) for of in (_alone, str))
    except (IndexError, Missing):
        return
    measures = (
        _measured("Commits a second", "more is better", shown, alone, lambda cell: cell.job("log").iops),
        _measured("Their p99, ms", "less is better", shown, alone, lambda cell: cell.job("log").sync.p99 / 1e6),
        _measured("Reads a second", "above alone: commits wait", shown, alone, lambda cell: cell.job("reads").iops),
        Column(
            f"The neighbour, {unit}/s",
            "what it still does",
            tuple(cell.readings["neighbour"] / scale for cell in shown),
        ),
    )
    commits, reads = (number(ratio(ours.job(job).iops, alone.job(job).iops) * 100) for job in ("log", "reads"))
    title = f"A database on {ours.device} beside a neighbour that {DOES[name]}"
    yield Figure(
        "opening",
        f"{title}: under {OURS} it keeps {commits} % of its commits and {reads} % of its reads",
        "Each row is a scheduler. The database appends 8 KiB to its log and calls fdatasync, again and again, and "
        "reads 4 KiB at random, both with best effort 0. The neighbour goes through the page cache. The dashed line is "
        f"the database alone under {OURS}. A bar with a gap is cut at {CUT} times the dashed line.",
        (Overview(title, tuple(cell.scheduler for cell in shown), measures, "alone", _marked(shown)),),
        opening=True,
    )


def _measured(title: str, hint: str, shown: Sequence[Cell], alone: Cell, value: Callable[[Cell], float]) -> Column:
    return Column(title, hint, tuple(map(value, shown)), value(alone))


def _neighbours(cells: Sequence[Cell], device: str) -> Figure:
    return Figure(
        f"copy-{device}",
        f"Beside a neighbour on {device}",
        "The log appends 8 KiB and calls fdatasync after each; the reads are 4 KiB at random, direct, four at a time. "
        "Both have best effort 0. Alone is the same scheduler without the neighbour.",
        tuple(_tables(cells, device)),
        terminal=True,
    )


def _kept(cells: Sequence[Cell], device: str) -> Figure | None:
    """What the database keeps under `sluice`, a row for each neighbour; None without one."""
    rows = []
    for variant in (name + system for name in DOES for system in ("", XFS)):
        try:
            cell, alone = (find(cells, device, OURS, of(variant)) for of in (str, _alone))
        except Missing:
            continue
        name, unit, scale = _neighbour(variant)
        log, reads = (ratio(cell.job(job).iops, alone.job(job).iops) for job in ("log", "reads"))
        gained = f"{number(cell.readings['neighbour'] / scale)} {unit}/s"
        times = (cell.job("log").sync.p99, cell.job("log").sync.p999, cell.job("reads").lat.p99)
        p99, p999, read = (number(value / 1e6) for value in times)
        does = DOES[name].removesuffix(", idle class")
        rows.append((does, _system(variant), number(log), p99, p999, number(reads), read, gained))
    if not rows:
        return None
    columns = ("neighbour", "on", "commits", "p99 ms", "p99.9", "reads", "p99 ms", "progress")
    return Figure(
        f"copy-{device}-kept",
        f"What {OURS} keeps on {device}",
        "Commits and reads a second are relative to those alone. The last column is the neighbour's progress. The "
        "neighbour has the idle class, if nothing else is said.",
        (Table(f"{device}: commits and reads kept under {OURS}", columns, tuple(rows), 2),),
    )


def _tables(cells: Sequence[Cell], device: str) -> Iterator[Table]:
    for variant in (name + system for system in ("", XFS) for name in DOES):
        shown = [cell for cell in cells if (cell.device, cell.variant) == (device, variant)]
        if shown:
            name, unit, _ = _neighbour(variant)
            columns = (*COLUMNS, f"neighbour, {unit}/s")
            title = f"{device}, {_system(variant)}: the neighbour {DOES[name]}"
            yield Table(title, columns, tuple(_row(cells, cell) for cell in shown), 1, _marked(shown))


def _neighbour(variant: str) -> tuple[str, str, float]:
    """Its name, and the unit of its progress: that in words and in numbers."""
    name = variant.removesuffix(XFS)
    return (name, "files", 1.0) if name in FILES else (name, "MB", 1e6)


def _system(variant: str) -> str:
    return "XFS" if variant.endswith(XFS) or variant == "update" else "ext4"


def _marked(cells: Sequence[Cell]) -> frozenset[int]:
    return frozenset(index for index, cell in enumerate(cells) if cell.scheduler == OURS)


def _alone(variant: str) -> str:
    """The variant without the neighbour."""
    if variant == "update":
        return "solo-update"
    return f"solo{XFS}" if variant.endswith(XFS) else "solo"


def _row(cells: Sequence[Cell], cell: Cell) -> tuple[str, ...]:
    log, reads = cell.job("log"), cell.job("reads")
    _, _, scale = _neighbour(cell.variant)
    try:
        alone = find(cells, cell.device, cell.scheduler, _alone(cell.variant))
        parts = [number(ratio(job.iops, alone.job(job.name).iops)) for job in (log, reads)]
    except Missing:
        parts = ["–", "–"]
    return (
        *(cell.scheduler, number(log.iops), parts[0], number(log.sync.p99 / 1e6), number(log.sync.p999 / 1e6)),
        *(number(reads.iops), parts[1], number(reads.lat.p99 / 1e6), number(cell.readings["neighbour"] / scale)),
    )
