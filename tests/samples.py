# SPDX-License-Identifier: GPL-2.0-only
"""Made-up cells of the priority mix, for the tests of code that works on results."""

from collections.abc import Sequence

from lab import analysis, fio
from lab.analysis import Analysis, Measured
from lab.result import Cell, Claim, Cpu, Job, Latency, Result, Spread, Window

OURS = ("mq-prio", "sluice")
MIXES = ("solo", "be-levels", "classes", "be-levels-write", "classes-write", "classes-deep", "equal")
ALONE = tuple(f"alone-{rank}-{depth}" for rank in ("high", "low") for depth in (1, 8, 32, 128))
CPU = {"cpu-1": 9900.0, "cpu-16": 7900.0, "cpu-mix": 8200.0}
ADDED = {
    "none": 0,
    "mq-deadline": 1700,
    "mq-deadline-tuned": 1720,
    "kyber": 2100,
    "bfq": 4500,
    "bfq-strict": 4400,
    "mq-prio": 1200,
    "sluice": 1600,
}

# Scheduler: the database's IOPS and p99 in ms, the backup's IOPS.
SIDES = {
    "none": (900, 100.0, 448),
    "mq-deadline": (930, 73.0, 400),
    "mq-deadline-tuned": (15176, 2.5, 4),
    "kyber": (477, 70.0, 461),
    "bfq": (15025, 4.75, 5),
    "bfq-strict": (14000, 5.0, 30),
    "mq-prio": (13591, 2.74, 53),
    "sluice": (13400, 2.75, 54),
}


def judged(about: Analysis, cells: Sequence[Cell], planned: Sequence[Cell] = ()) -> list[Claim]:
    """The claims of an analysis, judged on cells each of which had two equal runs."""
    measured = [Measured(cell, (cell, cell)) for cell in cells]
    return [verdict.claim for verdict in analysis.verdicts(about, measured, planned)]


def latency(p99_ms: float) -> Latency:
    """A latency of half the p99 for most I/Os, and of the p99 for two in a hundred."""
    nanoseconds = int(p99_ms * 1e6)
    return fio.latency(((nanoseconds // 2, 9800), (nanoseconds, 200)), nanoseconds / 2, nanoseconds + 1)


def job(name: str, iops: float, p99_ms: float, size: int) -> Job:
    times = latency(p99_ms)
    series = tuple(Window(second / 2, 10, times.mean * (1 + second % 3 / 4), times.p99) for second in range(20))
    spread = Spread((iops * 0.98, iops * 1.02), (times.mean, times.mean), (times.p99 * 0.95, times.p99 * 1.04))
    level = 1 if name == "database" else 7
    return Job(name, "be", level, round(iops * 10), float(iops), float(iops * size), times, times, series, 12.5, spread)


def cell(device: str, scheduler: str, variant: str) -> Cell:
    high, p99, low = SIDES[scheduler]
    jobs: tuple[Job, ...] = (job("database", high, p99, 4096), job("backup", low, p99 * 20, 131072))
    if variant == "solo-backup":
        jobs = (job("backup", 448, 70.0, 131072),)
    elif variant == "solo":
        jobs = (job("database", 15240, 2.5, 4096),)
    elif variant.startswith("alone"):
        jobs = (job("load", 14000, 1.0, 4096),)
    elif variant in CPU:
        jobs = (job("load", 1e9 / (CPU[variant] + ADDED[scheduler]), 0.1, 4096),)
    settings = {"iosched/low_share": "8"} if scheduler in OURS else {}
    cost = CPU[variant] + ADDED[scheduler] if variant in CPU else 0.0
    return Cell(
        "6.12.1",
        device,
        {"profile": device, "channels": "10"},
        scheduler,
        {},
        variant,
        jobs,
        Cpu(cost),
        settings,
        10,
        ("a", "b"),
    )


def cells(device: str = "ssd") -> tuple[Cell, ...]:
    """A whole run of prio-mix."""
    wanted = [(device, scheduler, variant) for variant in MIXES for scheduler in SIDES]
    wanted += [(device, scheduler, "solo-backup") for scheduler in OURS]
    wanted += [("ssd", scheduler, variant) for variant in ALONE for scheduler in ("none", *OURS)]
    wanted += [("null", scheduler, variant) for variant in CPU for scheduler in SIDES]
    return tuple(cell(*one) for one in wanted)


def result() -> Result:
    """The result of such a run, not judged yet."""
    machine = {"kernel": "Linux 6.12.1", "emulator": "QEMU 10", "CPUs": "1"}
    return Result("prio-mix", "Does the database keep its speed?", machine, "./sluice run prio-mix", cells())
