# SPDX-License-Identifier: GPL-2.0-only
"""A study: an experiment from its cells to a result, with as many seeds as its claims need."""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache as memo
from itertools import count

import msgspec

from lab import analysis, cache, fio, iolat, job, modules, plan, qemu, report, result, runs, sweep, sysbench, toolbox
from lab import machine as saved
from lab.analysis import Blank, Measured, Verdict
from lab.description import Experiment
from lab.devices import NULL, STACKS
from lab.durations import Like
from lab.figure import Table
from lab.host.real import Target
from lab.image import GUEST
from lab.plan import Choice, Point
from lab.result import NOT_JUDGED, Cell, Claim, Cpu, Result
from lab.runs import Run


@dataclass
class Study:
    """An experiment, the selection from it, and the seeds that each of its cells has been given.

    ended has the keys of the runs whose files are there; told has the tables that were printed, by title.
    """

    experiment: Experiment
    choice: Choice
    points: list[Point]
    seeds: list[tuple[int, ...]]
    ended: set[str] = field(default_factory=set)
    told: dict[str, Table] = field(default_factory=dict)
    real: Target | None = None
    _complete: int = 0
    _cells: dict[tuple[str, ...], Cell] = field(default_factory=dict)
    _runs: dict[tuple[int, int, bool], Run] = field(default_factory=dict)

    @staticmethod
    def of(experiment: Experiment, choice: Choice, real: Target | None = None) -> Study:
        """A study of the cells that were asked for, with the seeds that the experiment begins with."""
        points = plan.points(experiment, choice)
        points = plan.on_real(experiment, points, real.profile) if real else points
        return Study(experiment, choice, points, [point.variant.seeds for point in points], real=real)

    @property
    def whole(self) -> bool:
        """Whether it has every cell of the experiment."""
        return self.points == plan.points(self.experiment, Choice(stack=self.choice.stack))

    def runs(self) -> list[Run]:
        """Every run; within a cell the runs with iolat come after the others."""
        return [run for number in range(len(self.points)) for run in self._all_of(number)]

    def _all_of(self, number: int) -> list[Run]:
        return [run for pair in self._pairs(number) for run in pair]

    def _pairs(self, number: int) -> list[tuple[Run, ...]]:
        """For each seed of a cell its run, followed by the same run with iolat if iolat is to watch."""
        watch = self.choice.iolat or self.experiment.iolat is not None
        ways = (False, True) if watch else (False,)
        return [tuple(self._run(number, seed, watched) for watched in ways) for seed in self.seeds[number]]

    def _run(self, number: int, seed: int, watched: bool) -> Run:
        """The run of a cell with a seed, made once."""
        place = number, seed, watched
        if place not in self._runs:
            self._runs[place] = make_run(self.experiment, self.points[number], seed, watched, self.real)
        return self._runs[place]

    def measured(self, number: int) -> Measured:
        """A cell whose runs have ended, pooled and run by run."""
        pairs = self._pairs(number)
        return Measured(self._cell(number, pairs), tuple(self._cell(number, [pair]) for pair in pairs))

    def _cell(self, number: int, pairs: Sequence[tuple[Run, ...]]) -> Cell:
        keys = tuple(run.key for pair in pairs for run in pair)
        if keys not in self._cells:
            files = [[(run.key, runs.read(run.key)) for run in pair] for pair in pairs]
            watched = [pair[1] for pair in files if len(pair) > 1]
            self._cells[keys] = cell(self.experiment, self.points[number], [pair[0] for pair in files], watched)
        return self._cells[keys]

    def verdicts(self) -> list[Verdict]:
        """The experiment's claims, judged on the measured cells."""
        measured = [self.measured(number) for number in range(len(self.points))]
        return analysis.verdicts(analysis.load_of(self.experiment.name), measured, planned(self.experiment))

    def add_seeds(self) -> bool:
        """Give one more seed to those cells of undecided claims that have the fewest runs; whether there were any."""
        wanting: set[int] = set()
        for verdict in self.verdicts():
            fewest = min((len(self.seeds[number]) for number in verdict.wanting), default=0)
            if 0 < fewest < self.experiment.most_seeds:
                wanting |= {number for number in verdict.wanting if len(self.seeds[number]) == fewest}
        # On a real disk all cells are measured again, in one random order.
        for number in range(len(self.points)) if self.real and wanting else wanting:
            seeds = self.seeds[number]
            self.seeds[number] = (*seeds, next(seed for seed in count(1) if seed not in seeds))
        return bool(wanting)

    def news(self) -> Iterator[Table]:
        """Tables of a single device and variant whose last run has ended; each is given once."""
        complete = [of for of in self._groups() if all(run.key in self.ended for n in of for run in self._all_of(n))]
        if len(complete) == self._complete:
            return
        self._complete = len(complete)
        everything = {table.title: table for table in self._tables([number for of in complete for number in of])}
        for numbers in complete:
            for table in self._tables(numbers):
                if everything.get(table.title) == table and table.title not in self.told:
                    self.told[table.title] = table
                    yield table

    def first(self) -> list[Table]:
        """The tables of the first device and variant alone."""
        return self._tables(self._groups()[0])

    def _groups(self) -> list[list[int]]:
        """The points of each device and variant."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for number, point in enumerate(self.points):
            groups.setdefault((point.kernel, point.device, point.variant.name), []).append(number)
        return list(groups.values())

    def _tables(self, numbers: Sequence[int]) -> list[Table]:
        about = analysis.load_of(self.experiment.name)
        return report.printed(analysis.figures(about, [self.measured(number).cell for number in numbers]))

    def result(self) -> Result:
        """What was found: cells, claims, machine."""
        cells = [self.measured(number).cell for number in range(len(self.points))]
        first = runs.read(self._all_of(0)[0].key)
        kernels = dict.fromkeys(point.kernel for point in self.points)
        about = real_machine(self.real, first) if self.real else machine(kernels, first)
        if self.choice.stack:
            about["stack"] = f"{self.choice.stack}: {STACKS[self.choice.stack]}"
        exact = {} if self.real else versions(kernels, self.experiment.cpus)
        swept = dict(self.choice.sweep)
        claims = () if swept else tuple(self._with_command(verdict.claim) for verdict in self.verdicts())
        question, again = self.experiment.question, command(self)
        return Result(self.experiment.name, question, about, again, tuple(cells), claims, exact, swept)

    def _with_command(self, claim: Claim) -> Claim:
        """A claim; if it was not judged, with the command that judges it, which runs every cell."""
        if claim.state != NOT_JUDGED:
            return claim
        fixed = Choice(kernels=self.choice.kernels, tunables=self.choice.tunables, stack=self.choice.stack)
        return msgspec.structs.replace(claim, command=command(Study.of(self.experiment, fixed)))


def planned(experiment: Experiment) -> list[Cell]:
    """Every cell of an experiment, without figures."""
    return [
        Blank("", point.device, {}, point.scheduler, dict(point.tunables), point.variant.name, (), stack=point.stack)
        for point in plan.points(experiment, Choice())
    ]


def make_run(experiment: Experiment, point: Point, seed: int, watched: bool = False, real: Target | None = None) -> Run:
    """The run of a cell with a seed, with iolat beside it or not; one on a real disk is never kept from before."""
    if real:
        files = {point.variant.load: experiment.files[point.variant.load], "lib.sh": LIB.read_bytes()}
        one = job.Job(point.kernel, plan.script(experiment, point, seed, real=real.path), files)
        title = " ".join([real.path, point.scheduler, point.variant.name])
        like = Like(experiment.name, real.path, point.scheduler, point.variant.name)
        return Run(cache.key(SESSION, one.script, str(seed)), one, f"{title}, seed {seed}", like)
    one = plan.make_job(experiment, point, seed, modules.build(point.kernel, *plan.modules(point)), watched)
    one = replace(one, files={name: _shared(data) for name, data in one.files.items()})
    tuned = [f"{name}={value}" for name, value in point.tunables]
    place = f"{point.device}+{point.stack}" if point.stack else point.device
    title = " ".join([point.kernel, place, point.scheduler, *tuned, point.variant.name])
    like = Like(experiment.name, place, point.scheduler, point.variant.name)
    return Run(job.key(one), one, f"{title}, seed {seed}{', watched' if watched else ''}", like)


@memo
def _shared(data: bytes) -> bytes:
    """The same content as one object: without this the runs of a large sweep hold a gigabyte of modules."""
    return data


def cell(
    experiment: Experiment,
    point: Point,
    bare: Sequence[tuple[str, Mapping[str, str]]],
    watched: Sequence[tuple[str, Mapping[str, str]]] = (),
) -> Cell:
    """The cell of a point from the keys and files of its runs; iolat's stages come from the watched runs."""
    jobs = fio.pool([_jobs(files) for _, files in bare])
    first = bare[0][1]
    total = sum(one.iops for one in jobs)
    by = iolat.seen([files["iolat.json"] for _, files in watched])
    return Cell(
        first["kernel"].strip(),
        point.device,
        lines(first["device"]),
        point.scheduler,
        dict(point.tunables),
        point.variant.name,
        jobs,
        Cpu(round(1e9 / total, fio.DIGITS) if point.device == NULL and total else 0.0),
        lines(first["settings"]),
        plan.seconds(experiment, point),
        tuple(key for key, _ in bare),
        by.pop("all", {}),
        by,
        iolat.cost(jobs, fio.pool([_jobs(files) for _, files in watched])) if watched else {},
        tuple(key for key, _ in watched),
        _readings([lines(files["readings"]) for _, files in bare if "readings" in files]),
        point.stack,
    )


def _readings(runs: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """The figures that a script measured itself, lines of `name value` in /out/readings: the mean of the runs."""
    names = runs[0] if runs else ()
    return {name: round(sum(float(run[name]) for run in runs) / len(runs), fio.DIGITS) for name in names}


def _jobs(files: Mapping[str, str]) -> tuple[result.Job, ...]:
    """The jobs of a run, from what sysbench and fio wrote."""
    own = (sysbench.parse(files["sysbench.txt"]),) if "sysbench.txt" in files else ()
    return (*own, *(one for text in fio.outputs(files) for one in fio.parse(text, files)))


def lines(text: str) -> dict[str, str]:
    """The fields that show() printed in a guest."""
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


@memo
def emulator() -> str:
    """QEMU's version."""
    return toolbox.run(["qemu-system-x86_64", "--version"]).splitlines()[0]


def machine(kernels: Iterable[str], first: Mapping[str, str]) -> dict[str, str]:
    """A description of the machine that the cells were measured on."""
    fios = fio.outputs(first)
    cpus = first["cpu"].splitlines()
    virtual = "TCG" in cpus[0]
    return {
        "kernel": f"Debian's Linux {', '.join(kernels)} ({first['kernel'].strip()}), unmodified",
        "emulator": emulator(),
        "CPU": f"{len(cpus)} × {cpus[0]}",
        "clock": VIRTUAL if virtual else REAL,
        "memory": f"{qemu.RAM_MIB} MiB",
        **({"fio": fio.version(fios[0])} if fios else {}),
    }


def real_machine(real: Target, first: Mapping[str, str]) -> dict[str, str]:
    """A description of this host and its disk."""
    fios = fio.outputs(first)
    cpus = first["cpu"].splitlines()
    return {
        "kernel": f"Linux {first['kernel'].strip()} of this host",
        "host": os.uname().nodename,
        "disk": f"{real.about}; in tables and claims it takes the place of {real.profile}",
        "CPU": f"{len(cpus)} × {cpus[0]}" if cpus else "unknown",
        "clock": "real, on this host's own hardware: figures differ from run to run and from host to host",
        **({"fio": fio.version(fios[0])} if fios else {}),
    }


def versions(kernels: Iterable[str], cpus: int) -> dict[str, str]:
    """The exact parts of the machines that the cells were measured on: kernel, packages, image, saved state."""
    parts = {kernel: saved.get(kernel, cpus).described() for kernel in kernels}
    return {
        f"{name} for {kernel}" if len(parts) > 1 else name: part
        for kernel, of in parts.items()
        for name, part in of.items()
    }


LIB = GUEST / "lib.sh"
# Runs on a real disk belong to the command that did them.
SESSION = uuid.uuid4().hex
VIRTUAL = "virtual: one instruction takes one nanosecond (1 GIPS, in order, no caches), idle time is skipped"
REAL = "real, through KVM: the figures differ from run to run and from host to host"


def command(study: Study) -> str:
    """The command that reproduces this result."""
    choice = study.choice
    options = [
        ("--device", study.real.path if study.real else ",".join(choice.devices)),
        ("--scheduler", ",".join(choice.schedulers)),
        ("--destroy", study.real.path if study.real and study.real.destroy else ""),
        ("--kernel", "" if study.real else ",".join(choice.kernels)),
        ("--variant", ",".join(choice.variants)),
        *(("--set", f"{knob}={value}") for knob, value in choice.tunables),
        *(("--set", f"{knob}={sweep.spell(values)}") for knob, values in choice.sweep),
        ("--seeds", sweep.spell([*map(str, choice.seeds)]) if choice.seeds and not study.real else ""),
        ("--stack", choice.stack),
    ]
    parts = [part for option in options if option[1] for part in option]
    verb = "sweep" if choice.sweep else "run"
    return shlex.join(["./sluice", verb, study.experiment.name, *parts, *["--iolat"] * choice.iolat])
