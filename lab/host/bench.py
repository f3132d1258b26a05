# SPDX-License-Identifier: GPL-2.0-only
"""`sluice bench`: what a scheduler does for a database beside a copy, on a disk of this host, in files that it removes.

It is a real disk and a real clock: the runs are repeated in random order, and the table has their spread.
Imports only Python's standard library, so that it runs on any host; fio does the I/O.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from lab.errors import LabError, UsageError
from lab.host import disk as disks
from lab.host import status, system, use
from lab.host.disk import Disk

SCHEMA = 1
REPEATS = 3
# Before each run the disk gets rid of what the last one left.
SETTLE_S = 1.0
# The file that is read, the log and the copy: each has at most so much, or this part of what is free.
MOST_BYTES, PART = 1 << 30, 8
LEAST_BYTES = 16 << 20
# A log that a database appends to and makes durable, and its reads; both best effort 0 (experiments/copy).
FIO = """
fio --output-format=json --prioclass=2 --prio=0 --time_based --runtime={ms}ms --directory={folder}
 --name=log --filename=log --rw=write --bs=8k --fdatasync=1 --ioengine=psync --fallocate=none --size={size}
 --name=reads --filename=data --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=4 --size={size}
"""
# A copy of the idle class. It asks the kernel to write back what it has written, as backup programs do, so that the
# memory of the host doesn't decide when the disk gets it. Prints its bytes a second.
COPY = """
import os, sys, time
folder, seconds, most = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
block, total, start = os.urandom(1 << 20), 0, time.monotonic()
while time.monotonic() < start + seconds:
    copy = os.open(folder + "/copy", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    at = 0
    while at < most and time.monotonic() < start + seconds:
        at += os.write(copy, block)
        if at % (8 << 20) == 0:
            os.posix_fadvise(copy, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(copy)
    total += at
print(total / (time.monotonic() - start))
"""
FIGURES = ("commits", "commit_p99_ms", "reads", "read_p99_ms", "copy_mb_s")


@dataclass(frozen=True)
class Plan:
    """What is measured: a disk, the schedulers, a folder on it, seconds for each run, bytes for each file."""

    disk: Disk
    schedulers: Sequence[str]
    folder: Path
    seconds: float
    size: int


@dataclass(frozen=True)
class Run:
    """One run: its scheduler, whether the copy ran beside it, and the figures."""

    scheduler: str
    beside: bool
    figures: Mapping[str, float]


def plan(device: str, scheduler: str, folder: str, seconds: float) -> Plan:
    """What to measure: a scheduler and the disk's own one. UsageError or LabError where that can't be done."""
    name = disks.find(device, command="bench")
    if os.geteuid():
        raise LabError("a disk's scheduler is changed by root", f"sudo ./sluice bench {device}")
    if not shutil.which("fio"):
        raise LabError("fio, which does the I/O, isn't here", "apt-get install fio")
    disk = disks.read(name)
    place = _place(disk, folder)
    size = min(MOST_BYTES, shutil.disk_usage(place).free // PART) >> 20 << 20
    if size < LEAST_BYTES:
        raise LabError(f"{place} has too little room: {PART * LEAST_BYTES >> 20} MiB are needed", f"df -h {place}")
    before = disk.scheduler if disk.scheduler != scheduler else use.default(disk, Path("/"))
    if before == scheduler:
        raise UsageError(f"{scheduler} is {name}'s scheduler and its default", f"./sluice bench {name} --scheduler …")
    return Plan(disk, (before, scheduler), place, seconds, size)


def _place(disk: Disk, folder: str) -> Path:
    """The folder that is asked for, or the root of the file system with the most room; on this disk."""
    places = {one.disk.name: {there.mount for there in one.uses} for one in status.statuses()}
    shared = set().union(*(found for name, found in places.items() if name != disk.name))
    mounts = [Path(place) for place in places[disk.name] - shared if os.access(place, os.W_OK)]
    if not mounts:
        what = f"no file system that is on {disk.name} alone is mounted for writing"
        raise LabError(what, f"lsblk -f /dev/{disk.name}")
    if not folder:
        return max(mounts, key=lambda place: shutil.disk_usage(place).free)
    if not Path(folder).is_dir() or _mount(Path(folder).resolve()) not in mounts:
        known = " ".join(map(str, mounts))
        raise UsageError(f"{folder} is not a folder on {disk.name}", f"--dir with a folder below one of: {known}")
    return Path(folder).resolve()


def _mount(folder: Path) -> Path:
    """The mount point of a folder's file system."""
    return next(place for place in (folder, *folder.parents) if place.is_mount())


def measure(one: Plan, say: Callable[[str], None]) -> list[Run]:
    """All runs, in random order; at the end the disk has the scheduler and the knobs that it had."""
    order = [(scheduler, beside) for scheduler in one.schedulers for beside in (False, True)] * REPEATS
    random.shuffle(order)
    found = []
    with _folder(one.folder) as folder, _restored(one.disk):
        _fill(folder / "data", one.size)
        for number, (scheduler, beside) in enumerate(order, 1):
            say(f"run {number} of {len(order)}: {scheduler}{' beside the copy' if beside else ''}")
            _choose(one.disk, scheduler)
            os.sync()
            time.sleep(SETTLE_S)
            found.append(Run(scheduler, beside, _run(one, folder, beside)))
    return found


@contextmanager
def _folder(place: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sluice-bench-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _restored(disk: Disk) -> Iterator[None]:
    try:
        yield
    finally:
        use.restore(disk, Path("/"))


def _choose(disk: Disk, scheduler: str) -> None:
    """The disk's own scheduler has its own knobs; others have their defaults."""
    if scheduler == disk.scheduler:
        use.restore(disk, Path("/"))
    else:
        use.choose(use.Choice(scheduler, [disk.name]))


def _fill(path: Path, size: int) -> None:
    """A file with data, so that reads of it reach the disk."""
    with path.open("wb") as handle:
        for _ in range(size >> 20):
            handle.write(os.urandom(1 << 20))
        os.fsync(handle.fileno())


def _run(one: Plan, folder: Path, beside: bool) -> dict[str, float]:
    """One run of the database, with or without the copy."""
    # In fio's names of folders a colon separates two of them.
    place = str(folder).replace(":", "\\:")
    line = [word.format(ms=round(1000 * one.seconds), folder=place, size=one.size) for word in FIO.split()]
    idle = ["ionice", "-c", "3", sys.executable, "-PS", "-c", COPY, str(folder), str(one.seconds), str(one.size)]
    with _started(idle if beside else ["echo", "0"]) as copy, _started(line) as fio:
        printed, said = fio.communicate()
        if fio.returncode:
            raise LabError(f"fio failed: {said.strip() or printed.strip()}", " ".join(line))
        copied, said = copy.communicate()
        if copy.returncode:
            raise LabError(f"the copy failed: {said.strip()}", f"df -h {folder}")
    for name in ("log", "copy"):
        (folder / name).unlink(missing_ok=True)
    return figures(printed) | {"copy_mb_s": float(copied) / 1e6}


@contextmanager
def _started(line: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended with the block. fio then ends its children, which are in sessions of their own."""
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def figures(printed: str) -> dict[str, float]:
    """Commits and reads a second, and their p99 in ms, from fio's JSON."""
    jobs = {job["jobname"]: job for job in json.loads(printed[printed.index("{") :])["jobs"]}
    log, reads = jobs["log"], jobs["reads"]
    return {
        "commits": log["write"]["iops"],
        "commit_p99_ms": log["sync"]["lat_ns"].get("percentile", {}).get("99.000000", 0) / 1e6,
        "reads": reads["read"]["iops"],
        "read_p99_ms": reads["read"]["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1e6,
    }


def summary(one: Plan, found: Sequence[Run]) -> list[tuple[str, bool, dict[str, tuple[float, float, float]]]]:
    """For each scheduler, alone and beside the copy: the median, least and largest value of each figure."""
    rows = []
    for scheduler in one.schedulers:
        for beside in (False, True):
            runs = [run.figures for run in found if run.scheduler == scheduler and run.beside == beside]
            values = {name: [figures[name] for figures in runs] for name in FIGURES}
            spread = {name: (median(all_), min(all_), max(all_)) for name, all_ in values.items()}
            rows.append((scheduler, beside, spread))
    return rows


def text(one: Plan, found: Sequence[Run]) -> str:
    """The table for people, and what each scheduler keeps of the database's commits and reads."""
    rows: list[tuple[str, ...]] = [("scheduler", "", "commits/s", "p99 ms", "reads/s", "p99 ms", "copy MB/s")]
    kept = []
    alone: dict[str, tuple[float, float, float]] = {}
    for scheduler, beside, spread in summary(one, found):
        cells = [_cell(*spread[name]) for name in FIGURES]
        rows.append((scheduler, "beside" if beside else "alone", *cells[:4], cells[4] if beside else "–"))
        if beside:
            share = [100 * spread[name][0] / max(alone[name][0], 1e-9) for name in ("commits", "reads")]
            commits, reads = map(_number, share)
            kept.append(f"beside the copy {scheduler} keeps {commits} % of the commits and {reads} % of the reads")
        alone = spread
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        [
            f"{one.disk.name}, Linux {system.release(Path('/'))}, real clock",
            "a database's log and reads, best effort 0; a copy of the idle class",
            f"medians of {REPEATS} runs (least–largest)",
            "",
            *("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows),
            "",
            *kept,
        ]
    )


def _cell(middle: float, least: float, largest: float) -> str:
    return f"{_number(middle)} ({_number(least)}–{_number(largest)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def data(one: Plan, found: Sequence[Run]) -> str:
    """All runs, for programs."""
    rows = [{"scheduler": run.scheduler, "beside": run.beside, **run.figures} for run in found]
    about = {"schema": SCHEMA, "disk": one.disk.name, "kernel": system.release(Path("/")), "clock": "real"}
    return json.dumps({**about, "seconds": one.seconds, "runs": rows}, indent=1)


def run(device: str, scheduler: str, folder: str, seconds: float, as_json: bool) -> int:
    """Measure, and print the table; LabError if that can't be done."""
    one = plan(device, scheduler, folder, seconds)
    runs = 2 * len(one.schedulers) * REPEATS
    say = _quiet if as_json else _say
    say(f"sluice: {runs} runs of {seconds:g} s in a folder of {one.folder}, of at most {3 * one.size >> 20} MiB")
    try:
        found = measure(one, say)
    except OSError as error:
        raise LabError(
            f"the files in {one.folder} can't be written: {error.strerror}", f"df -h {one.folder}"
        ) from error
    print((data if as_json else text)(one, found))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quiet(_line: str) -> None:
    pass
