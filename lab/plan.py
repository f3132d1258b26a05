# SPDX-License-Identifier: GPL-2.0-only
"""Plans: the cells that an experiment asks for, and the job that each of their runs is.

A cell is one kernel, device, scheduler, set of tunables and variant.  A run is a cell with
a seed, and a pure function of its inputs.
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from lab import durations, kernels, shape
from lab.description import Experiment, Variant, known
from lab.devices import DEVICES, DISKS, NULL, STACKS
from lab.durations import Like
from lab.errors import UsageError
from lab.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from lab.job import Job

LATE_MS = 200
"""How much later a job with fio's startdelay=100ms begins; its run is shorter by this, to end with the others."""
SETTLE_MS = 1000
"""How long a job with ramp_time=1s runs before it counts; its run is shorter by this, to end with the others."""
ROUGH_CPU_PER_SECOND = 4
"""CPU seconds of a slow host for a virtual second, as a mean over the experiments prio-mix and afq."""
REAL = "./sluice run prio-mix --device /dev/DISK   and others: ./sluice list experiments"
# What is done only in a guest: parameters of simulated disks, cgroups at the hierarchy's root, settings of the kernel.
GUEST = re.compile(r"simdisk|^weights$|/sys/fs/cgroup|sysctl|/proc/sys/", re.MULTILINE)
CPU_PER_SECOND = 30
"""CPU seconds of the host that a virtual second may take before a guest counts as hung."""


@dataclass(frozen=True)
class Point:
    """A cell before it is measured; kernel is a series."""

    kernel: str
    device: str
    scheduler: str
    tunables: tuple[tuple[str, str], ...]
    variant: Variant
    stack: str = ""


@dataclass(frozen=True)
class Choice:
    """The selection on the command line; an empty tuple means the experiment's own.

    sweep has the values of each knob that is varied. It runs only schedulers with such a knob, unless schedulers are
    named.
    """

    devices: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    tunables: tuple[tuple[str, str], ...] = ()
    iolat: bool = False
    variants: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    sweep: tuple[tuple[str, tuple[str, ...]], ...] = ()
    stack: str = ""


def check(choice: Choice) -> None:
    """UsageError, with the list of valid names, for an unknown name."""
    known("device", choice.devices, DEVICES)
    known("scheduler", choice.schedulers, list(SCHEDULERS))
    known("kernel", choice.kernels, kernels.names())
    known("stack", [choice.stack] if choice.stack else [], STACKS)
    offered = [SCHEDULERS[name] for name in choice.schedulers or SCHEDULERS]
    for name, _ in (*choice.tunables, *choice.sweep):
        if not any(name in scheduler.tunables for scheduler in offered):
            there = sorted({knob for scheduler in offered for knob in scheduler.tunables})
            raise UsageError(
                shape.unknown(f"tunable of {', '.join(scheduler.name for scheduler in offered)}", name, there),
                "./sluice list schedulers",
            )


def points(experiment: Experiment, choice: Choice) -> list[Point]:
    """The cells to measure, in the order of the report; UsageError if there is none."""
    found: list[Point] = []
    for kernel, variant in product(choice.kernels or experiment.kernels, _variants(experiment, choice)):
        for device in _devices(experiment, variant, choice):
            own = experiment.device.get(device, {}).get("schedulers", experiment.schedulers)
            for scheduler in choice.schedulers or _schedulers(own, choice):
                if not variant.schedulers or scheduler in variant.schedulers:
                    found += [
                        Point(kernel, device, scheduler, tunables, variant, _stack(device, variant, choice))
                        for tunables in _tunables(experiment, scheduler, choice)
                    ]
    if not found:
        knobs = " ".join(name for name, _ in choice.sweep)
        raise UsageError(
            f"no cell of {experiment.name} fits all that is asked for{f', with {knobs} swept' if knobs else ''}",
            f"./sluice list schedulers   or experiments/{experiment.name}/experiment.toml",
        )
    return found


def on_real(experiment: Experiment, found: Sequence[Point], profile: str) -> list[Point]:
    """The cells that a real disk can take the place of a profile in; UsageError if there is none."""
    if experiment.iolat is not None:
        raise UsageError(f"{experiment.name} needs iolat beside each run, and that is for guests", REAL)
    wanted = [point for point in found if point.device == profile and not point.stack]
    loads = {point.variant.load: experiment.files[point.variant.load].decode() for point in wanted}
    guests = [name for name, text in loads.items() if GUEST.search(text)]
    if guests or not wanted:
        why = f"{guests[0]} needs a guest" if guests else f"it has no cell for {profile}"
        raise UsageError(f"{experiment.name} can't run on this disk: {why}", REAL)
    return wanted


def only_reads(experiment: Experiment, found: Sequence[Point]) -> bool:
    """Whether no run of these cells writes to the disk: a script may always do so."""
    return all(_reads(experiment, point) for point in found)


def _reads(experiment: Experiment, point: Point) -> bool:
    name = point.variant.load
    text = string.Template(experiment.files[name].decode()).safe_substitute(point.variant.env)
    kinds = re.findall(r"^\s*(?:rw|readwrite)\s*=\s*(.*?)\s*$", text, re.MULTILINE)
    others = re.search(r"^\s*(exec_|read_iolog|include)", text, re.MULTILINE)
    return name.endswith(".fio") and not others and {*kinds} <= {"read", "randread"} and "filename=${DEVICE}" in text


def _variants(experiment: Experiment, choice: Choice) -> list[Variant]:
    """The variants asked for, with the seeds asked for; UsageError for one that the experiment doesn't have."""
    there = {variant.name: variant for variant in experiment.variants}
    for name in choice.variants:
        if name not in there:
            raise UsageError(
                f"{experiment.name} has no variant called {name!r}; there are {', '.join(there)}",
                f"./sluice sweep {experiment.name} --variant {next(iter(there))} …",
            )
    wanted = [there[name] for name in choice.variants or there]
    return [replace(variant, seeds=choice.seeds or variant.seeds) for variant in wanted]


def _schedulers(names: Sequence[str], choice: Choice) -> list[str]:
    """These schedulers; in a sweep only those that have one of its knobs."""
    knobs = {name for name, _ in choice.sweep}
    return [name for name in names if not knobs or knobs & {*SCHEDULERS[name].tunables}]


def _devices(experiment: Experiment, variant: Variant, choice: Choice) -> tuple[str, ...]:
    """The devices of a variant: its own, or those asked for, as far as experiment and variant allow them."""
    if variant.device:
        return (variant.device,)
    return tuple(
        device
        for device in choice.devices or experiment.devices
        if (not variant.only or device in variant.only)
        and variant.name in experiment.device.get(device, {}).get("variants", [variant.name])
    )


def _stack(device: str, variant: Variant, choice: Choice) -> str:
    """The stack on a device; the device that costs nothing has none."""
    return "" if device == NULL else variant.stack or choice.stack


def _tunables(experiment: Experiment, scheduler: str, choice: Choice) -> list[tuple[tuple[str, str], ...]]:
    """The sets of tunables to try: those asked for, times the sweep, where the scheduler has them."""
    has = SCHEDULERS[scheduler].tunables
    fixed = tuple((name, value) for name, value in choice.tunables if name in has)
    taken = {name for name, _ in fixed}
    swept = [
        [(name, value) for value in values]
        for name, values in {**experiment.sweep, **dict(choice.sweep)}.items()
        if name in has and name not in taken
    ]
    return [fixed + extra for extra in product(*swept)]


def seconds(experiment: Experiment, point: Point) -> int:
    """Virtual seconds that a run of the cell takes: the device's figure precedes the variant's."""
    own = experiment.device.get(point.device, {}).get("seconds")
    return int(own or point.variant.seconds or experiment.seconds)


def modules(point: Point) -> tuple[str, ...]:
    """The modules that a run of the cell loads; some are the kernel's own."""
    return (*SCHEDULERS[point.scheduler].modules, *["simdisk"] * (point.device != NULL))


def rough_cpu_s(experiment: Experiment) -> float:
    """Estimated CPU seconds of the host for all runs with the seeds that the experiment begins with.

    Where similar runs were done here before, it uses the cost of the last one.
    """
    times = 1 if experiment.iolat is None else 2
    total = 0.0
    for point in points(experiment, Choice()):
        before = durations.kept(Like(experiment.name, point.device, point.scheduler, point.variant.name))
        each = ROUGH_CPU_PER_SECOND * seconds(experiment, point) if before is None else before
        total += times * len(point.variant.seeds) * each
    return total


def make_job(experiment: Experiment, point: Point, seed: int, built: Mapping[str, bytes], watched: bool = False) -> Job:
    """The job of one run, optionally watched by iolat; takes the modules that it uses from built."""
    from lab import contrib, iolat, job, stack

    files = {f"{name}.ko": built[f"{name}.ko"] for name in modules(point) if f"{name}.ko" in built}
    files[point.variant.load] = experiment.files[point.variant.load]
    if watched:
        files |= iolat.build()
    if point.stack:
        files |= stack.files(point.kernel)
    for name in experiment.contrib:
        files |= contrib.build(name)
    limit = 600 + CPU_PER_SECOND * seconds(experiment, point)
    return job.Job(point.kernel, script(experiment, point, seed, watched), files, experiment.cpus, limit)


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


def script(experiment: Experiment, point: Point, seed: int, watched: bool = False, real: str = "") -> str:
    """The script that the guest runs, with iolat beside it or not; or that this host runs on a real disk.

    What an experiment sets for a simulated disk does not hold for a real one, whose modules are loaded already.
    """
    scheduler = SCHEDULERS[point.scheduler]
    own = {} if real else experiment.device.get(point.device, {})
    settings = {
        **own.get("queue", {}),
        **scheduler.settings,
        **{f"iosched/{name}": value for name, value in point.tunables},
    }
    choose = _afresh(scheduler.elevator) if real else f"scheduler {scheduler.elevator}"
    # A scheduler that hooks file systems finds only those that are loaded before it. Loading xfs takes seconds.
    xfs = not real and ("split" in scheduler.needs or point.variant.load.endswith(".sh"))
    length = seconds(experiment, point)
    env = {
        **point.variant.env,
        "SEED": str(seed),
        "RUNTIME": str(length),
        "RUNTIME_LATE": f"{length * 1000 - LATE_MS}ms",
        "RUNTIME_SETTLED": f"{length * 1000 - SETTLE_MS}ms",
    }
    sections = [f"--section={section}" for section in point.variant.sections]
    return SHOW + "\n".join(
        [
            ". ./lib.sh",
            *(_real(real) if real else _disk(point.device, own.get("parameters", {}), DISKS.get(point.stack, 1))),
            *(["modprobe xfs"] if xfs else []),
            *(f"load {name}" for name in scheduler.beside),
            *_each(DISKS.get(point.stack, 1), [choose, *_settings(settings)]),
            'show "$Q" nr_requests max_sectors_kb $(cd "$Q" && echo iosched/*) >/out/settings',
            "uname -r >/out/kernel",
            "sed -n 's/^model name.*: //p' /proc/cpuinfo >/out/cpu",
            *(f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items())),
            *([". ./stack.sh", f"stack {point.stack}"] if point.stack else []),
            'export DEVICE="$DEV"',
            *([f"export WATCH='--json --all {experiment.iolat or ''}'"] if watched else []),
            _load_line(point.variant.load, ["--readonly"] * (bool(real) and _reads(experiment, point)) + sections),
            *(
                [f'grep -qF "[{scheduler.elevator}]" "$Q/scheduler" || fail "its scheduler was changed"']
                if real
                else []
            ),
            "",
        ]
    )


def _load_line(file: str, sections: Sequence[str]) -> str:
    """The line that makes the load: a fio job's, or that of a script of the experiment's own."""
    if file.endswith(".sh"):
        return f". ./{file}"
    return "watched " + shlex.join(["fio", "--output-format=json+", "--output=/out/fio.json", *sections, file])


def _disk(device: str, settings: Mapping[str, str], number: int) -> list[str]:
    """Lines that make a number of disks and print the parameters of the first."""
    wanted = [f"{name}={value}" for name, value in settings.items()]
    if device == NULL:
        module = shlex.join(["modprobe", "null_blk", "nr_devices=1", "queue_mode=2", "irqmode=0", *wanted])
        lines, folder = [module, "DEV=/dev/nullb0 Q=/sys/block/nullb0/queue"], "/sys/module/null_blk/parameters"
    else:
        line, folder = shlex.join(["disk", device, *wanted]), "/sys/kernel/config/simdisk/d0"
        lines = [*(f"DISK=d{other} {line}" for other in range(1, number)), line]
    return [*lines, f"show {folder} $(ls {folder}) >/out/device"]


def _afresh(elevator: str) -> str:
    """The line that gives a disk a scheduler with its defaults, whatever it had: the same one would keep its knobs."""
    other = "mq-deadline" if elevator == "none" else "none"
    return f'{{ echo {other} >"$Q/scheduler"; }} 2>/dev/null || :; echo {elevator} >"$Q/scheduler"'


def _real(path: str) -> list[str]:
    """Lines that name a real disk and print its size."""
    folder = shlex.quote(f"/sys/block/{path.removeprefix('/dev/').replace('/', '!')}")
    return [f"DEV={shlex.quote(path)} Q={folder}/queue", f"show {folder} size >/out/device"]


def _each(number: int, lines: Sequence[str]) -> list[str]:
    """Lines that are done for each of a number of disks, the first of which is the last."""
    if number == 1:
        return [*lines]
    queues = " ".join(f"/sys/block/simdisk-d{disk}/queue" for disk in reversed(range(number)))
    return [f"for Q in {queues}; do", *lines, "done"]


def _settings(settings: Mapping[str, str]) -> list[str]:
    """Lines that set files below queue/."""
    return [
        f'echo {shlex.quote(value)} >"$Q/{name}" || fail '
        + shlex.quote(f"the kernel refuses {name.rsplit('/', 1)[-1]}={value}")
        for name, value in settings.items()
    ]
