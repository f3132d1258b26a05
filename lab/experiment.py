# SPDX-License-Identifier: GPL-2.0-only
"""Experiments: a folder is read, its cells are run in guests, the figures judged and written.

A cell is one kernel, device, scheduler, set of tunables and variant.  A run is a cell with
a seed, and a pure function of its inputs: finished runs are kept under a key of them all.
"""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache as memo
from itertools import product
from pathlib import Path
from typing import Any

from lab import analysis, cache, fio, iolat, job, kernels, modules, progress, qemu, report, result, sysbench, toolbox
from lab.errors import LabError, UsageError
from lab.job import Job, Outcome
from lab.result import Cell, Result
from lab.schedulers import SCHEDULERS

DEVICES = ("ssd", "hdd", "emmc", "nvme")
NULL = "null"
"""The device that costs nothing: null_blk, completing inside the submission."""
RESULTS = Path("results")
TROUBLE = ("BUG: ", "WARNING: ", "Call Trace:", "INFO: task ")
LATE_MS = 200
"""How much later a job with fio's startdelay=100ms begins; it takes that off its run to end with the others."""
SAY_EVERY = 20
LOADS = (".fio", ".sh")
"""What makes a load: fio's files, and scripts of an experiment's own."""
CPU_PER_SECOND = 30
"""CPU seconds of the host that a virtual second may take before a guest counts as hung."""


@dataclass(frozen=True)
class Variant:
    """One way of making the load: the name of a fio file, of which it takes some sections, or of a script.

    device replaces the devices asked for; only, if not empty, restricts them.
    """

    name: str
    load: str
    sections: tuple[str, ...]
    env: Mapping[str, str]
    schedulers: tuple[str, ...]
    seeds: tuple[int, ...]
    seconds: int | None = None
    device: str | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """What experiment.toml says; files are fio's files and the scripts, by name.

    iolat, if not None, has every run done again with iolat beside it, with these options besides those it needs. cpus
    are the guest's processors.
    """

    name: str
    question: str
    kernels: tuple[str, ...]
    devices: tuple[str, ...]
    schedulers: tuple[str, ...]
    variants: tuple[Variant, ...]
    files: Mapping[str, bytes]
    seconds: int
    iolat: str | None = None
    cpus: int = 1
    device: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sweep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """A cell before it is measured; kernel is a series."""

    kernel: str
    device: str
    scheduler: str
    tunables: tuple[tuple[str, str], ...]
    variant: Variant


@dataclass(frozen=True)
class Choice:
    """What the command line asks for; an empty tuple means what the experiment says."""

    devices: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    tunables: tuple[tuple[str, str], ...] = ()
    iolat: bool = False


def names() -> list[str]:
    """The experiments that there are."""
    return sorted(path.parent.name for path in analysis.FOLDER.glob("*/experiment.toml"))


def load(name: str) -> Experiment:
    """Read an experiment's folder; UsageError with the list of experiments if there is none."""
    _known("experiment", [name], names())
    data = _description(name)
    base = {**data, "env": data.get("env", {})}
    wanted = data.get("variants", list(data["variant"]))
    variants = tuple(_variant(title, data["variant"][title], base) for title in wanted)
    folders = [analysis.FOLDER / part for part in (data.get("like"), name) if part]
    files = {
        path.name: path.read_bytes() for folder in folders for path in sorted(folder.iterdir()) if path.suffix in LOADS
    }
    return Experiment(
        name,
        data["question"],
        tuple(data["kernels"]),
        tuple(data["devices"]),
        tuple(data["schedulers"]),
        variants,
        files,
        data["seconds"],
        data.get("iolat"),
        data.get("cpus", 1),
        data.get("device", {}),
        {knob: tuple(values) for knob, values in data.get("sweep", {}).items()},
    )


def _description(name: str) -> dict[str, Any]:
    data = tomllib.loads((analysis.FOLDER / name / "experiment.toml").read_text())
    return {**_description(data["like"]), **data} if "like" in data else data


def _variant(name: str, own: Mapping[str, Any], base: Mapping[str, Any]) -> Variant:
    family = base.get("family", {}).get(own.get("family"), {})
    merged = {**family, **own}
    env = {**base["env"], **family.get("env", {}), **own.get("env", {})}
    return Variant(
        name,
        merged.get("load", base["load"]),
        tuple(merged["sections"]),
        env,
        tuple(merged.get("schedulers", ())),
        tuple(merged.get("seeds", base["seeds"])),
        merged.get("seconds"),
        merged.get("device"),
        tuple(merged.get("only", ())),
    )


def _known(what: str, asked: Iterable[str], there: Sequence[str]) -> None:
    for name in asked:
        if name not in there:
            raise UsageError(f"no {what} called {name!r}; there are {', '.join(there)}", f"./sluice list {what}s")


def check(choice: Choice) -> None:
    """UsageError, with the list of what there is, for a name that isn't known."""
    _known("device", choice.devices, DEVICES)
    _known("scheduler", choice.schedulers, list(SCHEDULERS))
    _known("kernel", choice.kernels, kernels.names())
    offered = [SCHEDULERS[name] for name in choice.schedulers or SCHEDULERS]
    for name, _ in choice.tunables:
        if not any(name in scheduler.tunables for scheduler in offered):
            there = sorted({knob for scheduler in offered for knob in scheduler.tunables})
            raise UsageError(
                f"none of {', '.join(scheduler.name for scheduler in offered)} has a tunable "
                f"called {name!r}; there are {', '.join(there) or 'none'}",
                "./sluice list schedulers",
            )


def points(experiment: Experiment, choice: Choice) -> list[Point]:
    """The cells to measure, in the order of the report."""
    found = []
    for kernel, variant in product(choice.kernels or experiment.kernels, experiment.variants):
        for device in _devices(experiment, variant, choice):
            for scheduler in choice.schedulers or experiment.schedulers:
                if not variant.schedulers or scheduler in variant.schedulers:
                    found += [
                        Point(kernel, device, scheduler, tunables, variant)
                        for tunables in _tunables(experiment, scheduler, choice)
                    ]
    return found


def _devices(experiment: Experiment, variant: Variant, choice: Choice) -> tuple[str, ...]:
    """Where a variant is run: on its own device, or on those asked for as far as both sides allow."""
    if variant.device:
        return (variant.device,)
    return tuple(
        device
        for device in choice.devices or experiment.devices
        if (not variant.only or device in variant.only)
        and variant.name in experiment.device.get(device, {}).get("variants", [variant.name])
    )


def _tunables(experiment: Experiment, scheduler: str, choice: Choice) -> list[tuple[tuple[str, str], ...]]:
    """The sets of tunables to try: those asked for, times the sweep, where the scheduler has them."""
    has = SCHEDULERS[scheduler].tunables
    fixed = tuple((name, value) for name, value in choice.tunables if name in has)
    taken = {name for name, _ in fixed}
    swept = [
        [(name, value) for value in values]
        for name, values in experiment.sweep.items()
        if name in has and name not in taken
    ]
    return [fixed + extra for extra in product(*swept)]


def seconds(experiment: Experiment, point: Point) -> int:
    """Virtual seconds that a run of the cell takes: the device knows better than the variant."""
    own = experiment.device.get(point.device, {}).get("seconds")
    return int(own or point.variant.seconds or experiment.seconds)


def make_job(experiment: Experiment, point: Point, seed: int, built: Mapping[str, bytes], watched: bool = False) -> Job:
    """The job of one run, which iolat may watch; built has the kernel's modules, of which it takes those it uses."""
    used = [*SCHEDULERS[point.scheduler].modules, *["simdisk.ko"] * (point.device != NULL)]
    files = {name: data for name, data in built.items() if name in used}
    files[point.variant.load] = experiment.files[point.variant.load]
    if watched:
        files |= iolat.build()
    limit = 600 + CPU_PER_SECOND * seconds(experiment, point)
    return Job(point.kernel, script(experiment, point, seed, watched), files, experiment.cpus, limit)


SHOW = """\
# show FOLDER FILE...: what parameters and settings say of themselves, a line `name value` each
show() (
	cd "$1"
	shift
	for file; do
		[ ! -f "$file" ] || [ "$file" = stats ] || echo "$file $(cat "$file")"
	done
)
"""


def script(experiment: Experiment, point: Point, seed: int, watched: bool = False) -> str:
    """What the guest does in one run, with iolat beside it or not."""
    scheduler = SCHEDULERS[point.scheduler]
    own = experiment.device.get(point.device, {})
    settings = {
        **own.get("queue", {}),
        **scheduler.settings,
        **{f"iosched/{name}": value for name, value in point.tunables},
    }
    length = seconds(experiment, point)
    late = f"{length * 1000 - LATE_MS}ms"
    env = {**point.variant.env, "SEED": str(seed), "RUNTIME": str(length), "RUNTIME_LATE": late}
    sections = [f"--section={section}" for section in point.variant.sections]
    return SHOW + "\n".join(
        [
            ". ./lib.sh",
            *_disk(point.device, own.get("parameters", {})),
            # A scheduler may hook file systems, and finds those that are there before it.
            "modprobe xfs",
            f"scheduler {scheduler.elevator}",
            *(_setting(name, value) for name, value in settings.items()),
            'show "$Q" nr_requests max_sectors_kb $(cd "$Q" && echo iosched/*) >/out/settings',
            "uname -r >/out/kernel",
            "sed -n 's/^model name.*: //p' /proc/cpuinfo >/out/cpu",
            *(f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items())),
            'export DEVICE="$DEV"',
            *([f"export WATCH='--json --all {experiment.iolat or ''}'"] if watched else []),
            _load_line(point.variant.load, sections),
            "",
        ]
    )


def _load_line(file: str, sections: Sequence[str]) -> str:
    """The line that makes the load: a fio job's, or a script of the experiment's own."""
    if file.endswith(".sh"):
        return f". ./{file}"
    return "watched " + shlex.join(["fio", "--output-format=json+", "--output=/out/fio.json", *sections, file])


def _disk(device: str, settings: Mapping[str, str]) -> list[str]:
    """Lines that make the disk and have it say what it is."""
    wanted = [f"{name}={value}" for name, value in settings.items()]
    if device == NULL:
        module = shlex.join(["modprobe", "null_blk", "nr_devices=1", "queue_mode=2", "irqmode=0", *wanted])
        lines, folder = [module, "DEV=/dev/nullb0 Q=/sys/block/nullb0/queue"], "/sys/module/null_blk/parameters"
    else:
        lines, folder = [shlex.join(["disk", device, *wanted])], "/sys/kernel/config/simdisk/d0"
    return [*lines, f"show {folder} $(ls {folder}) >/out/device"]


def _setting(name: str, value: str) -> str:
    refusal = shlex.quote(f"the kernel refuses {name.rsplit('/', 1)[-1]}={value}")
    return f'echo {shlex.quote(value)} >"$Q/{name}" || fail {refusal}'


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
) -> int:
    """Run experiments, print their tables and claims, write results.json and the page.

    0 if all claims hold, 1 if one fails; UsageError and other LabErrors are raised.
    """
    choice = Choice(tuple(devices), tuple(schedulers), tuple(kernels), tuple(tunables), watch)
    check(choice)
    experiments = _load_all(names)
    plans = [_plan(experiment, choice) for experiment in experiments]
    _measure([one for plan in plans for _, runs, watched in plan for one in (*runs, *watched)], fresh, parallel)
    status = 0
    for experiment, plan in zip(experiments, plans, strict=True):
        folder = out or RESULTS / experiment.name
        folder = folder / experiment.name if out and len(experiments) > 1 else folder
        found = _result(experiment, plan, _command(experiment.name, choice))
        _publish(found, folder, json_output)
        status = max(status, int(any(not claim.holds for claim in found.claims)))
    return status


def _load_all(wanted: Sequence[str]) -> list[Experiment]:
    if not wanted:
        raise UsageError(f"no experiment named; there are {', '.join(names())}", "./sluice list experiments")
    return [load(name) for name in dict.fromkeys(wanted)]


@dataclass(frozen=True)
class Run:
    """One run of a cell: the key under which it is kept, its job, and what to call it."""

    key: str
    job: Job
    title: str


Plan = list[tuple[Point, list[Run], list[Run]]]
"""The runs of each cell, and the same again with iolat watching, if it shall."""


def _plan(experiment: Experiment, choice: Choice) -> Plan:
    wanted = points(experiment, choice)
    built = {kernel: modules.build(kernel) for kernel in dict.fromkeys(point.kernel for point in wanted)}

    def runs(point: Point, watched: bool) -> list[Run]:
        jobs = ((make_job(experiment, point, seed, built[point.kernel], watched), seed) for seed in point.variant.seeds)
        return [_run(one, point, seed, watched) for one, seed in jobs]

    return [
        (point, runs(point, False), runs(point, True) if choice.iolat or experiment.iolat is not None else [])
        for point in wanted
    ]


def _run(one: Job, point: Point, seed: int, watched: bool) -> Run:
    tuned = [f"{name}={value}" for name, value in point.tunables]
    title = " ".join([point.kernel, point.device, point.scheduler, *tuned, point.variant.name])
    return Run(job.key(one), one, f"{title}, seed {seed}{', watched' if watched else ''}")


def kept(key: str) -> Path:
    """The folder of a finished run's files, there or not."""
    return cache.root() / "results" / key


def _measure(runs: Sequence[Run], fresh: bool, parallel: int) -> None:
    """Do the runs that aren't kept, each key once; keeps every one as it ends."""
    every = {run.key: run for run in runs}
    wanted = [run for run in every.values() if fresh or not kept(run.key).exists()]
    if not wanted:
        return
    with progress.step(f"{len(wanted)} runs in guests, {len(every) - len(wanted)} kept from before") as step:
        ended = iter(range(1, len(wanted) + 1))

        def done(number: int, outcome: Outcome) -> None:
            keep(wanted[number], outcome)
            count = next(ended)
            step.count(count, len(wanted))
            if count % SAY_EVERY == 0:
                progress.say(f"  {count} of {len(wanted)} runs done")

        step.count(0, len(wanted))
        job.run_many([run.job for run in wanted], parallel, done)


REFUSED = "FAIL: the kernel refuses"


def keep(run: Run, outcome: Outcome) -> None:
    """Keep a finished run's files; nothing is kept if the run failed or the kernel complained.

    UsageError if the kernel refused a setting, otherwise LabError.
    """
    problem = _problem(outcome)
    if problem:
        output = outcome.files.get("stderr", b"").decode(errors="replace") or outcome.console
        detail = "\n".join(output.splitlines()[-20:])
        kind = UsageError if REFUSED in output else LabError
        raise kind(f"the run {run.title}: {problem}", "./sluice shell   to repeat it by hand", detail)

    def fill(part: Path) -> None:
        part.mkdir()
        for name, data in outcome.files.items():
            (part / Path(name).name).write_bytes(data)

    with cache.host_space():
        cache.remove(kept(run.key))
        cache.once(kept(run.key), fill)


def _problem(outcome: Outcome) -> str | None:
    """Why an outcome is worth nothing; None if it is sound."""
    complaint = next((line for line in outcome.dmesg.splitlines() if any(mark in line for mark in TROUBLE)), None)
    if outcome.status:
        return f"its script ended with status {outcome.status}"
    if complaint:
        return f"its kernel complained: {complaint}"
    wrote = any(fio.is_output(name) or name == "sysbench.txt" for name in outcome.files)
    return None if wrote else "it wrote no results"


def _result(experiment: Experiment, plan: Plan, command: str) -> Result:
    """Judge what the kept runs say."""
    cells = [cell(experiment, point, _files_of(runs), _files_of(watched)) for point, runs, watched in plan]
    claims = analysis.claims(analysis.load_of(experiment.name), cells)
    return Result(experiment.name, experiment.question, machine(plan), command, tuple(cells), tuple(claims))


def _files_of(runs: Sequence[Run]) -> list[tuple[str, Mapping[str, str]]]:
    return [(run.key, _read(run.key)) for run in runs]


def _read(key: str) -> dict[str, str]:
    return {path.name: path.read_text(errors="replace") for path in sorted(kept(key).iterdir())}


def cell(
    experiment: Experiment,
    point: Point,
    runs: Sequence[tuple[str, Mapping[str, str]]],
    watched: Sequence[tuple[str, Mapping[str, str]]] = (),
) -> Cell:
    """The cell of a point from the keys and files of its runs; of those that iolat watched it takes what iolat saw."""
    jobs = fio.pool([_jobs(files) for _, files in runs])
    first = runs[0][1]
    total = sum(one.iops for one in jobs)
    return Cell(
        first["kernel"].strip(),
        point.device,
        lines(first["device"]),
        point.scheduler,
        dict(point.tunables),
        point.variant.name,
        jobs,
        round(1e9 / total, fio.DIGITS) if point.device == NULL and total else 0.0,
        lines(first["settings"]),
        seconds(experiment, point),
        tuple(key for key, _ in runs),
        iolat.seen([files["iolat.json"] for _, files in watched]),
        iolat.cost(jobs, fio.pool([_jobs(files) for _, files in watched])) if watched else {},
        tuple(key for key, _ in watched),
        _readings([lines(files["readings"]) for _, files in runs if "readings" in files]),
    )


def _readings(runs: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """What a script read itself in /out/readings, a line `name value` each: the mean of the runs."""
    names = runs[0] if runs else ()
    return {name: round(sum(float(run[name]) for run in runs) / len(runs), fio.DIGITS) for name in names}


def _jobs(files: Mapping[str, str]) -> tuple[result.Job, ...]:
    """The jobs of a run, from what sysbench and fio wrote."""
    own = (sysbench.parse(files["sysbench.txt"]),) if "sysbench.txt" in files else ()
    return (*own, *(one for text in fio.outputs(files) for one in fio.parse(text, files)))


def lines(text: str) -> dict[str, str]:
    """What show() printed in a guest."""
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


@memo
def emulator() -> str:
    """QEMU's version."""
    return toolbox.run(["qemu-system-x86_64", "--version"]).splitlines()[0]


def machine(plan: Plan) -> dict[str, str]:
    """What the cells were measured on, in words."""
    first = _read(plan[0][1][0].key)
    fios = fio.outputs(first)
    kernel = ", ".join(dict.fromkeys(point.kernel for point, *_ in plan))
    cpus = first["cpu"].splitlines()
    virtual = "TCG" in cpus[0]
    return {
        "kernel": f"Debian's Linux {kernel} ({first['kernel'].strip()}), unmodified",
        "emulator": emulator(),
        "CPU": f"{len(cpus)} × {cpus[0]}",
        "clock": VIRTUAL if virtual else REAL,
        "memory": f"{qemu.RAM_MIB} MiB",
        **({"fio": fio.version(fios[0])} if fios else {}),
    }


VIRTUAL = "virtual: one instruction takes one nanosecond (1 GIPS, in order, no caches), idle time is skipped"
REAL = "real, through KVM: the figures differ from run to run and from host to host"


def _command(name: str, choice: Choice) -> str:
    options = [
        ("--device", ",".join(choice.devices)),
        ("--scheduler", ",".join(choice.schedulers)),
        ("--kernel", ",".join(choice.kernels)),
        *(("--set", f"{knob}={value}") for knob, value in choice.tunables),
    ]
    parts = [part for option in options if option[1] for part in option]
    return shlex.join(["./sluice", "run", name, *parts, *["--iolat"] * choice.iolat])


def _publish(found: Result, folder: Path, json_output: bool) -> None:
    result.write(found, folder)
    page = report.render(folder)
    if json_output:
        sys.stdout.write(result.dumps(found))
    else:
        report.show(found, report.figures(found))
    progress.say(f"{found.digest}\nThe report: {page}")
