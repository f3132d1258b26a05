# SPDX-License-Identifier: GPL-2.0-only
"""The presentations of a result: the page, the table on the terminal, the CSV, a comparison."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import jinja2
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lab import analysis, result, sweep
from lab.figure import CUT, Column, Figure, Overview, Table, number
from lab.iolat import STAGES
from lab.result import FAILS, HOLDS, NOT_JUDGED, UNDECIDED, Cell, Claim, Job, Result

PAGE = "report.html"
CSV = "cells.csv"
WIDTH = 100
"""Columns of the terminal table if the output is no terminal."""

COLUMNS = (
    "kernel",
    "device",
    "scheduler",
    "tunables",
    "variant",
    "job",
    "ioclass",
    "level",
    "ios",
    "iops",
    "iops_lowest",
    "iops_highest",
    "bytes_per_s",
    "mean_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "p99.9_ns",
    "max_ns",
    "p99_lowest_ns",
    "p99_highest_ns",
    *(f"sync_{what}" for what in ("mean_ns", "p50_ns", "p99_ns", "p99.9_ns", "max_ns", "count")),
    "cpu_percent",
    "instructions_per_io",
    "seconds",
    "runs",
    *(f"{stage}_{share}_ns" for stage in STAGES for share in ("p50", "p99")),
)

LIMITS = (
    """One virtual CPU executes one instruction per nanosecond, in order, without caches. Lock contention between CPUs
    and real cache misses don't show.""",
    """The disks are models; their parameters are above. The schedulers' own time constants were made for real disks
    and are not scaled where a model is slower than its disk.""",
    """No noise is not no error: a repeat gives the same figures, so the runs of a cell differ in their seed and start
    offset on purpose.""",
)


def render(directory: Path) -> Path:
    """Write the page and the CSV beside directory/results.json; returns the page's path.

    ResultError if there are no results or they were changed.
    """
    found = result.read(directory)
    folder = directory if directory.is_dir() else directory.parent
    (folder / CSV).write_text(table_csv(found.cells))
    page = folder / PAGE
    page.write_text(html(found, figures(found)))
    return page


def figures(found: Result) -> list[Figure]:
    """The figures that the experiment's analysis draws of the cells, and iolat's stages; a sweep has its own."""
    if found.sweep:
        return sweep.figures(found.cells, found.sweep)
    return [
        *analysis.figures(analysis.load_of(found.experiment), found.cells),
        *syncs(found.cells),
        *stages(found.cells),
    ]


def syncs(cells: Iterable[Cell]) -> list[Figure]:
    """A table of the latency of fsync and fdatasync calls; nothing if no job made any."""
    rows = tuple(
        (
            *(*_place(cell)[1:], job.name, str(_count(job))),
            *(number(value / 1e6) for value in (sync.mean, sync.p50, sync.p99, sync.p999, sync.max)),
        )
        for cell in cells
        for job in cell.jobs
        for sync in [job.sync]
        if sync.histogram
    )
    heads = ("where", "scheduler", "job", "calls", "mean", "p50", "p99", "p99.9", "max")
    table = Table("fsync and fdatasync, in ms", heads, rows, 3)
    return [Figure("syncs", "Latency of fsync", "From the call to its return.", (table,))] if rows else []


STAGE_COLUMNS = (("q2g", "p99"), ("g2i", "p99"), *((stage, share) for stage in STAGES[2:] for share in ("p50", "p99")))
"""The columns of the table of stages: stage and percentile."""


def stages(cells: Iterable[Cell]) -> list[Figure]:
    """A table of iolat's stages, and of the cost of watching for the jobs; nothing if iolat did not watch."""
    watched = [cell for cell in cells if cell.stages]
    if not watched:
        return []
    rows = [
        (*_place(cell)[1:], kind, *(number(getattr(of[stage], share) / 1e3) for stage, share in STAGE_COLUMNS))
        for cell in watched
        for kind, of in {"all": cell.stages, **cell.stages_by}.items()
        if kind == "all" or "/" in kind
    ]
    heads = tuple(f"{stage} {share}" for stage, share in STAGE_COLUMNS)
    table = Table("Stages, in µs", ("where", "scheduler", "of", *heads), tuple(rows), 3)
    changes = [(abs(part - 1), part, cell, job) for cell in watched for job, part in cell.watched.items()]
    median = sorted(part for _, part, _, _ in changes)[len(changes) // 2]
    _, part, cell, job = max(changes, key=lambda change: change[0])
    text = (
        "Of the same runs once more with iolat watching: q2g waiting for a tag, g2i until the insertion, i2d in the "
        "scheduler, q2d all before the device, d2c in the device, q2c all. The other figures are of the runs without "
        f"iolat. Watching changed a job's IOPS by {number((median - 1) * 100)} % in the median, and by "
        f"{number((part - 1) * 100)} % where it changed them most ({' '.join(_place(cell)[1:])}, {job}): a short "
        "run moves with its start as it does with its seed."
    )
    return [Figure("stages", "Where the time goes", text, (table,))]


def margins(claims: Iterable[Claim]) -> list[Figure]:
    """A drawing of how many times each claim keeps its limit, for a page without another opening.

    Claims without a figure, or whose figure or limit is 0, are left out; nothing if that leaves none.
    """
    rows = []
    for claim in claims:
        sense, _, limit = claim.limit.partition(" ")
        if claim.measured and float(limit or 0):
            part = claim.measured / float(limit)
            rows.append((claim, part if sense in (">", "≥") else 1 / part))
    if not rows:
        return []
    names, values = tuple(claim.id for claim, _ in rows), tuple(value for _, value in rows)
    failing = frozenset(row for row, (claim, _) in enumerate(rows) if claim.state == FAILS)
    column = Column("Times its limit", "more is better", values, 1.0)
    title = "How far the claims are from their limits"
    text = (
        "A bar that ends before the dashed line is a claim whose figure is beyond its limit; those that fail are "
        f"marked. A bar with a gap goes on, beyond {CUT} times the limit."
    )
    return [Figure("opening", title, text, (Overview(title, names, (column,), "limit", failing),), opening=True)]


def html(found: Result, drawn: Sequence[Figure]) -> str:
    """The self-contained page: without scripts, and without links to anything that it needs."""
    from lab import chart  # matplotlib, which takes half a second to load

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["svg"] = chart.svg
    environment.filters["measured"] = measured
    environment.filters["between"] = between
    return environment.get_template("report.html.j2").render(
        result=found,
        openings=[figure for figure in drawn if figure.opening] or margins(found.claims),
        figures=[figure for figure in drawn if not figure.opening],
        devices=devices(found.cells),
        settings=settings(found.cells),
        limits=LIMITS,
        spread=widest_spread(found.cells),
        standing=standing(found.claims),
        failed=[claim for claim in found.claims if claim.state in (FAILS, UNDECIDED)],
    )


def devices(cells: Iterable[Cell]) -> dict[str, Mapping[str, str]]:
    """The parameters of each device that the cells used."""
    return {cell.device: cell.device_parameters for cell in cells if cell.device_parameters}


def settings(cells: Iterable[Cell]) -> dict[tuple[str, str], str]:
    """The settings in force in the queue, by device and scheduler; of a swept setting the last value."""
    return {
        (cell.device, cell.scheduler): ", ".join(f"{name} {value}" for name, value in cell.settings.items())
        for cell in cells
    }


def widest_spread(cells: Sequence[Cell]) -> str:
    """A sentence about the runs that a cell pools and how far they differ."""
    runs = sorted({len(cell.inputs) for cell in cells})
    spans = [
        ((high - low) / low * 100, cell, job)
        for cell in cells
        for job in cell.jobs
        for low, high in [job.spread.p99_ns]
        if low
    ]
    if not spans or runs == [1]:
        return "Each cell is one run; its spread is not known."
    widest, cell, job = max(spans, key=lambda span: span[0])
    middle = sorted(span[0] for span in spans)[len(spans) // 2]
    return (
        f"A cell pools {' or '.join(map(str, runs))} runs. Between its runs the p99 of a job differs by "
        f"{number(middle)} % in the median cell and by {number(widest)} % at most "
        f"({cell.device}, {cell.scheduler}, {cell.variant}, {job.name})."
    )


def table_csv(cells: Iterable[Cell]) -> str:
    """All cells, one line a job."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell in cells:
        for job in cell.jobs:
            writer.writerow(_csv_row(cell, job))
    return out.getvalue()


def _csv_row(cell: Cell, job: Job) -> list[object]:
    lat, spread = job.lat, job.spread
    return [
        cell.kernel,
        cell.device,
        cell.scheduler,
        tunables(cell),
        cell.variant,
        job.name,
        job.ioclass,
        job.level,
        job.ios,
        job.iops,
        *spread.iops,
        job.bytes_per_s,
        lat.mean,
        lat.p50,
        lat.p95,
        lat.p99,
        lat.p999,
        lat.max,
        *spread.p99_ns,
        *(job.sync.mean, job.sync.p50, job.sync.p99, job.sync.p999, job.sync.max, _count(job)),
        job.cpu_percent,
        cell.instructions_per_io,
        cell.seconds,
        len(cell.inputs),
        *_csv_stages(cell, job),
    ]


def _count(job: Job) -> int:
    """How many fsync and fdatasync calls a job made."""
    return sum(count for _, count in job.sync.histogram)


def _csv_stages(cell: Cell, job: Job) -> list[object]:
    """The figures of all I/O of the job's class and level, which other jobs may share; empty if iolat did not watch."""
    seen = cell.stages_by.get(f"{job.ioclass}/{job.level}", {})
    return [value for stage in STAGES for value in ((seen[stage].p50, seen[stage].p99) if seen else ("", ""))]


def tunables(cell: Cell) -> str:
    """The tunables that were set, as name=value."""
    return " ".join(f"{name}={value}" for name, value in sorted(cell.tunables.items()))


def printed(drawn: Iterable[Figure]) -> list[Table]:
    """The tables that are printed after a run."""
    return [panel for figure in drawn if figure.terminal for panel in figure.panels if isinstance(panel, Table)]


def show_tables(tables: Iterable[Table], console: Console | None = None) -> None:
    """Print tables."""
    for table in tables:
        (console or _console()).print(_rich(table))


def show_claims(found: Result, console: Console | None = None) -> None:
    """Print the claims, and the commands that judge the claims that were not judged."""
    console = console or _console()
    if found.claims:
        console.print(_claims(found.claims))
    for command in dict.fromkeys(claim.command for claim in found.claims if claim.command):
        names = ", ".join(claim.id for claim in found.claims if claim.command == command)
        console.print(Text(f"Not judged, as cells are missing: {names}\n   next: {command}"))


STATES = {HOLDS: "green", FAILS: "bold red", UNDECIDED: "yellow", NOT_JUDGED: "dim"}


def standing(claims: Sequence[Claim]) -> str:
    """How many claims are in which state: 11 of 13 claims hold, 1 failing, 1 not judged."""
    counts = {state: sum(claim.state == state for claim in claims) for state in STATES}
    others = [f"{counts[state]} {state}" for state in (FAILS, UNDECIDED, NOT_JUDGED) if counts[state]]
    return ", ".join([f"{counts[HOLDS]} of {len(claims)} claims hold", *others]).replace(FAILS, "failing")


def between(claim: Claim) -> str:
    """The interval in which the measured figure lies."""
    return f"{number(claim.interval[0])} to {number(claim.interval[1])}" if claim.interval else ""


def measured(claim: Claim) -> str:
    """The measured figure."""
    return "–" if claim.measured is None else number(claim.measured)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def _rich(panel: Table) -> RichTable:
    table = RichTable(
        title=Text(panel.title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 1)
    )
    for index, column in enumerate(panel.columns):
        table.add_column(Text(column), justify="left" if index < panel.names else "right", no_wrap=index < panel.names)
    for index, row in enumerate(panel.rows):
        table.add_row(*map(Text, row), style="bold" if index in panel.ours else "")
    return table


def _claims(claims: Sequence[Claim]) -> RichTable:
    table = RichTable(
        title=Text(standing(claims)), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 1)
    )
    for name in ("", "measured", "interval", "needs", "paper"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_column("claim")
    for claim in claims:
        if claim.state != NOT_JUDGED:
            table.add_row(
                Text("FAILS" if claim.state == FAILS else claim.state, STATES[claim.state]),
                measured(claim),
                between(claim),
                claim.limit,
                "" if claim.paper is None else number(claim.paper),
                Text(f"{claim.text} ").append(f"({claim.id})", "dim"),
            )
    return table


def compare(first: Path, second: Path) -> int:
    """Print the differences of two results; 1 if a claim held in the first and fails in the second, otherwise 0.

    ResultError if one can't be read.
    """
    before, after = result.read(first), result.read(second)
    console = _console()
    if before.digest == after.digest:
        console.print(Text(f"the same inputs and figures: {before.digest}"))
        return 0
    for name in sorted({**before.versions, **after.versions}):
        was, now = (one.versions.get(name, "unknown") for one in (before, after))
        if was != now:
            console.print(Text(f"another machine: {name} {was} → {now}", "bold"))
    console.print(_rich(_differences(before.cells, after.cells)))
    lost = [
        claim.id
        for claim in after.claims
        if not claim.holds and any(old.id == claim.id and old.holds for old in before.claims)
    ]
    for name in lost:
        console.print(Text(f"no longer holds: {name}", "bold red"))
    return 1 if lost else 0


def _differences(before: Sequence[Cell], after: Sequence[Cell]) -> Table:
    old = {_identity(cell): cell for cell in before}
    rows = [row for cell in after if _identity(cell) in old for row in _compare_cell(old.pop(_identity(cell)), cell)]
    only = [(*_place(cell), "only in the first", "", "", "") for cell in old.values()]
    only += [
        (*_place(cell), "only in the second", "", "", "")
        for cell in after
        if _identity(cell) not in {_identity(other) for other in before}
    ]
    return Table(
        f"{len(rows)} jobs differ, {len(only)} cells are in one result only",
        ("where", "scheduler", "job", "IOPS before", "after", "p99 ms before", "after"),
        tuple(rows + [(f"{kernel} {where}", *rest) for kernel, where, *rest in only]),
        3,
    )


def _identity(cell: Cell) -> tuple[str, ...]:
    return cell.kernel, cell.device, cell.scheduler, tunables(cell), cell.variant


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.kernel, f"{cell.device} {cell.variant}", f"{cell.scheduler} {tunables(cell)}".strip()


def _compare_cell(old: Cell, new: Cell) -> list[tuple[str, ...]]:
    kernel, where, scheduler = _place(new)
    return [
        (
            f"{kernel} {where}",
            scheduler,
            job.name,
            number(was.iops),
            number(job.iops),
            number(was.lat.p99 / 1e6),
            number(job.lat.p99 / 1e6),
        )
        for was, job in zip(old.jobs, new.jobs, strict=False)
        if (was.iops, was.lat) != (job.iops, job.lat)
    ]
