# SPDX-License-Identifier: GPL-2.0-only
"""Experiments: their studies run in guests until the claims are decided, then the figures are printed and written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab import description, plan, progress, report, result, runs
from lab.errors import UsageError
from lab.host.real import Target
from lab.plan import Choice
from lab.result import NOT_JUDGED, Result
from lab.runs import Run
from lab.study import Study

RESULTS = Path("results")
# On a real disk no claim is judged by one run.
SEEDS = (1, 2, 3)


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
    real: Target | None = None,
) -> int:
    """Run experiments, here or in the cluster at an address; print tables and claims, write results.json and the page.

    On a real disk, if one is given: each run alone, in random order, and each cell at least as often as SEEDS says.

    0 if all claims hold, otherwise 1; a claim that is not judged counts only if no cell was left out. UsageError and
    other LabErrors are raised.
    """
    choice = Choice(tuple(devices), tuple(schedulers), tuple(kernels), tuple(tunables), watch, stack=stack)
    if real:
        choice = replace(choice, devices=(real.profile,), seeds=SEEDS)
        progress.say(f"{real.about}: a real clock, so figures differ from run to run. Tables call it {real.profile}.")
    plan.check(choice)
    studies = _studies(names, choice, real)
    _measure(studies, fresh, parallel, cluster, quiet=json_output)
    status = 0
    for study in studies:
        folder = out or RESULTS / "-".join(filter(None, (study.experiment.name, stack, real.disk.name if real else "")))
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


def _studies(names: Sequence[str], choice: Choice, real: Target | None) -> list[Study]:
    if not names:
        there = ", ".join(description.names())
        raise UsageError(f"no experiment named; there are {there}", "./sluice list experiments")
    return [Study.of(description.load(name), choice, real) for name in dict.fromkeys(names)]


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
        runs.measure(missing, fresh, parallel, ended, cluster, studies[0].real)
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
