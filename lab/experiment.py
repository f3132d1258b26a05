# SPDX-License-Identifier: GPL-2.0-only
"""Experiments: their studies run in guests until the claims are decided, then the figures are printed and written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lab import description, plan, progress, report, result, runs
from lab.errors import UsageError
from lab.plan import Choice
from lab.result import NOT_JUDGED, Result
from lab.runs import Run
from lab.study import Study

RESULTS = Path("results")


def run(
    names: Sequence[str],
    devices: Sequence[str] = (),
    schedulers: Sequence[str] = (),
    kernels: Sequence[str] = (),
    tunables: Sequence[tuple[str, str]] = (),
    out: Path | None = None,
    json_output: bool = False,
    fresh: bool = False,
    parallel: int = 2,
    watch: bool = False,
    cluster: str | None = None,
    stack: str = "",
) -> int:
    """Run experiments, here or in the cluster at an address; print tables and claims, write results.json and the page.

    0 if all claims hold, otherwise 1; a claim that is not judged counts only if no cell was left out. UsageError and
    other LabErrors are raised.
    """
    choice = Choice(tuple(devices), tuple(schedulers), tuple(kernels), tuple(tunables), watch, stack=stack)
    plan.check(choice)
    studies = _studies(names, choice)
    _measure(studies, fresh, parallel, cluster, quiet=json_output)
    status = 0
    for study in studies:
        folder = out or RESULTS / "-".join(filter(None, (study.experiment.name, stack)))
        found = study.result()
        _publish(found, folder / study.experiment.name if out and len(studies) > 1 else folder, study, json_output)
        status = max(status, judge(found, study.whole))
    return status


def sweep(
    name: str, choice: Choice, out: Path | None, json_output: bool, fresh: bool, parallel: int, cluster: str | None
) -> int:
    """Run an experiment at every setting of a sweep; no claims are judged. 0, or LabErrors are raised."""
    plan.check(choice)
    study = Study.of(description.load(name), choice)
    runs.measure(study.runs(), fresh, parallel, address=cluster)
    folder = "-".join(filter(None, (name, choice.stack, "sweep")))
    _publish(study.result(), out or RESULTS / folder, study, json_output)
    return 0


def judge(found: Result, whole: bool) -> int:
    """The exit status that a result deserves."""
    wanted = [claim for claim in found.claims if whole or claim.state != NOT_JUDGED]
    return int(not all(claim.holds for claim in wanted))


def _studies(names: Sequence[str], choice: Choice) -> list[Study]:
    if not names:
        there = ", ".join(description.names())
        raise UsageError(f"no experiment named; there are {there}", "./sluice list experiments")
    return [Study.of(description.load(name), choice) for name in dict.fromkeys(names)]


def _measure(studies: Sequence[Study], fresh: bool, parallel: int, cluster: str | None, quiet: bool) -> None:
    """Do all runs, and those of the seeds that undecided claims need; print each table when its cells are there."""

    def ended(one: Run) -> None:
        for study in studies:
            study.ended.add(one.key)
            if not quiet:
                report.show_tables(study.news())

    wanted = list(studies)
    while wanted:
        missing = [one for study in wanted for one in study.runs() if one.key not in study.ended]
        runs.measure(missing, fresh, parallel, ended, cluster)
        wanted = [study for study in studies if study.add_seeds()]


def _publish(found: Result, folder: Path, study: Study, json_output: bool) -> None:
    result.write(found, folder)
    page = report.render(folder)
    if json_output:
        sys.stdout.write(result.dumps(found))
    else:
        tables = report.printed(report.figures(found))
        first = [table for table in study.first() if table not in tables]
        report.show_tables(table for table in (*first, *tables) if study.told.get(table.title) != table)
        report.show_claims(found)
    progress.say(f"{found.digest}\nThe report: {page}")
