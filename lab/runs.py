# SPDX-License-Identifier: GPL-2.0-only
"""Runs: done in guests, each once, and kept under a key of all their inputs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from lab import cache, fio, iolat, job, progress, sysbench
from lab.durations import Forecast, Like
from lab.errors import LabError, UsageError
from lab.host import real as host
from lab.host.real import Target
from lab.job import Job, Outcome

TROUBLE = ("BUG: ", "WARNING: ", "Call Trace:", "INFO: task ")
REFUSED = "FAIL: the kernel refuses"


@dataclass(frozen=True)
class Run:
    """One run of a cell: the key under which it is kept, its job, its title, and the runs that take as long."""

    key: str
    job: Job
    title: str
    like: Like


def kept(key: str) -> Path:
    """The folder of a finished run's files, whether it exists or not."""
    return cache.root() / "results" / key


def measure(
    runs: Sequence[Run],
    fresh: bool,
    parallel: int,
    ended: Callable[[Run], None] = lambda run: None,
    address: str | None = None,
    real: Target | None = None,
) -> None:
    """Do the runs that aren't kept, each key once, in guests here, in a cluster or on a disk; keeps each as it ends.

    ended is called for each run when its files are there: for those that were kept, at once.
    """
    every = {run.key: run for run in runs}
    wanted = [run for run in every.values() if fresh or not kept(run.key).exists()]
    missing = {run.key for run in wanted}
    for run in every.values():
        if run.key not in missing:
            ended(run)
    if not wanted:
        return
    where = f"on {real.path}" if real else f"in guests, {len(every) - len(wanted)} kept from before"
    with progress.step(f"{len(wanted)} runs {where}") as step:
        forecast = Forecast([run.like for run in wanted], 1 if real else parallel)
        counts = count(1)

        def done(number: int, outcome: Outcome) -> None:
            keep(wanted[number], outcome, "dmesg | tail   and the same command" if real else "")
            forecast.ended(wanted[number].like, outcome.cpu_s, outcome.wall_s)
            step.note(f"{next(counts)} of {len(wanted)} runs", forecast.left_s)
            ended(wanted[number])

        step.note(f"0 of {len(wanted)} runs", forecast.left_s)
        if address:
            from lab import cluster

            cluster.run_many(address, wanted, fresh, done, forecast.spread)
        elif real:
            _on_disk(real, wanted, done)
        else:
            job.run_many([run.job for run in wanted], parallel, done)


def _on_disk(real: Target, wanted: Sequence[Run], done: Callable[[int, Outcome], None]) -> None:
    """Do runs on a real disk, one after the other and in random order."""
    with host.restored(real):
        for number in random.sample(range(len(wanted)), len(wanted)):
            one, start = wanted[number], time.monotonic()
            status, files, dmesg = host.run(real, one.title, one.job.script, one.job.files)
            took = time.monotonic() - start
            done(number, Outcome(status, files, dmesg, "", took, took))


def keep(run: Run, outcome: Outcome, again: str = "") -> None:
    """Keep a finished run's files; nothing is kept if the run failed or the kernel complained.

    `again` is the next step then, if it isn't to repeat the job in a guest. UsageError if the kernel refused a setting,
    otherwise LabError.
    """
    why = problem(outcome)
    if why:
        output = outcome.files.get("stderr", b"").decode(errors="replace") or outcome.console
        detail = "\n".join(output.splitlines()[-20:])
        kind = UsageError if REFUSED in output else LabError
        again = "./sluice list schedulers" if again and kind is UsageError else again or job.repeat(run.job)
        raise kind(f"the run {run.title}: {why}", again, detail)

    store(run.key, outcome)


def store(key: str, outcome: Outcome) -> None:
    """Keep the files of a sound outcome."""

    def fill(part: Path) -> None:
        part.mkdir()
        for name, data in outcome.files.items():
            (part / Path(name).name).write_bytes(data)

    cache.replace(kept(key), fill)


def problem(outcome: Outcome) -> str | None:
    """Why an outcome can't be used; None if it is sound."""
    complaint = next((line for line in outcome.dmesg.splitlines() if any(mark in line for mark in TROUBLE)), None)
    if outcome.status:
        return f"its script ended with status {outcome.status}"
    if complaint:
        return f"its kernel complained: {complaint}"
    return _unreadable({name: data.decode(errors="replace") for name, data in outcome.files.items()})


def _unreadable(files: Mapping[str, str]) -> str | None:
    """Why the figures in a run's files can't be read; None if they can."""
    outputs = fio.outputs(files)
    try:
        for text in outputs:
            fio.parse(text, files)
        if "sysbench.txt" in files:
            sysbench.parse(files["sysbench.txt"])
        if "iolat.json" in files:
            iolat.seen([files["iolat.json"]])
    except LabError as error:
        return error.what
    return None if outputs or {"sysbench.txt", "readings"} & files.keys() else "it wrote no results"


def read(key: str) -> dict[str, str]:
    """The files of a finished run, by name, read while no other process replaces them."""
    with cache.locked(kept(key)):
        return {path.name: path.read_text(errors="replace") for path in sorted(kept(key).iterdir())}
