# SPDX-License-Identifier: GPL-2.0-only
"""results.json: what an experiment measured, as frozen structures that msgspec reads and writes.

The digest of a Result is taken of its canonical JSON.  It covers every input and every figure, so that two runs can
be compared by one line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from lab.errors import UsageError

SCHEMA = 1
FILE_NAME = "results.json"

Histogram = tuple[tuple[int, int], ...]


AGAIN = "./sluice run EXPERIMENT --out DIR   and use that folder"


class ResultError(UsageError):
    """A results.json that is missing, damaged, changed or of another schema."""


class Latency(Struct, frozen=True, rename={"p999": "p99.9"}):
    """How long I/Os took, in nanoseconds; histogram is (value, count), ascending."""

    mean: float = 0.0
    p50: int = 0
    p95: int = 0
    p99: int = 0
    p999: int = 0
    max: int = 0
    histogram: Histogram = ()


class Window(Struct, frozen=True, array_like=True):
    """One stretch of a job's life: its start in seconds, I/Os completed, latency in ns."""

    start_s: float
    ios: int
    mean_ns: float
    p99_ns: int


class Spread(Struct, frozen=True):
    """The lowest and the highest figure of a cell's runs, which differ in their seed only."""

    iops: tuple[float, float] = (0.0, 0.0)
    mean_ns: tuple[float, float] = (0.0, 0.0)
    p99_ns: tuple[float, float] = (0.0, 0.0)


class Job(Struct, frozen=True, rename={"clat": "clat_ns", "lat": "lat_ns", "sync": "sync_ns"}):
    """One named job of a cell, all its processes and runs together.

    clat starts when the kernel has taken the I/O, like fio's. lat starts when the job submits the I/O, and so includes
    the wait for a tag, in which a low rank can hold up a high one. cpu_percent is user plus system time of one
    process, as fio reports it. sync is the latency of fsync and fdatasync calls; its histogram is empty if the job
    made none.
    """

    name: str
    ioclass: str
    level: int
    ios: int
    iops: float
    bytes_per_s: float
    clat: Latency
    lat: Latency
    series: tuple[Window, ...] = ()
    cpu_percent: float = 0.0
    spread: Spread = Spread()
    sync: Latency = Latency()


class Cpu(Struct, frozen=True):
    """CPU cost of I/O; instructions_per_io is 0 if the CPU did not limit the job."""

    instructions_per_io: float = 0.0


class Cell(Struct, frozen=True, omit_defaults=True):
    """One kernel, device, scheduler, set of tunables and variant, pooled over its seeds.

    tunables are those that were set; settings are those that were in force, as read from the queue. inputs holds one
    key for each run; a key stands for everything that went into that run. readings are figures that a script measured
    itself, by name: the mean of the runs. stack is what lay between the device and the load, if anything did.

    If iolat watched, the same runs were repeated with it. stages has the latency of each stage (q2g to q2c) of all
    I/O. stages_by has the same by class and level ("be/1") and by operation ("read"), and under "files" that of file
    systems. watched has each job's IOPS with iolat, as a part of those without. watched_inputs has the keys of those
    runs.
    """

    kernel: str
    device: str
    device_parameters: Mapping[str, str]
    scheduler: str
    tunables: Mapping[str, str]
    variant: str
    jobs: tuple[Job, ...]
    cpu: Cpu = msgspec.field(default_factory=Cpu)
    settings: Mapping[str, str] = {}
    seconds: int = 0
    inputs: tuple[str, ...] = ()
    stages: Mapping[str, Latency] = {}
    stages_by: Mapping[str, Mapping[str, Latency]] = {}
    watched: Mapping[str, float] = {}
    watched_inputs: tuple[str, ...] = ()
    readings: Mapping[str, float] = {}
    stack: str = ""

    @property
    def instructions_per_io(self) -> float:
        """Instructions of the guest's CPU for an I/O; 0 if the CPU did not limit the job."""
        return self.cpu.instructions_per_io

    def job(self, name: str) -> Job:
        """The job of that name; KeyError if the variant has none."""
        for job in self.jobs:
            if job.name == name:
                return job
        raise KeyError(name)


HOLDS, FAILS, UNDECIDED, NOT_JUDGED = "holds", "fails", "undecided", "not judged"
"""The states of a claim."""


class Claim(Struct, frozen=True):
    """A sentence that the figures must confirm.

    state is "holds", "fails", "undecided" or "not judged". measured is None if the claim was not judged; values has
    the figure of each seed, and interval the bounds of the figure. limit is the condition for measured (≥ 3); paper is
    the paper's figure, if it has one. command judges the claim if it was not judged.
    """

    id: str
    text: str
    measured: float | None
    state: str
    paper: float | None = None
    limit: str = ""
    interval: tuple[float, float] | None = None
    values: tuple[float, ...] = ()
    command: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figures confirm the claim."""
        return self.state == HOLDS


class Result(Struct, frozen=True):
    """Everything that one experiment found, and on which machine.

    machine describes it in words; versions names its parts exactly, since another kernel or QEMU gives other figures.
    sweep has the values of each knob that a sweep varied; its result has no claims.
    """

    experiment: str
    question: str
    machine: Mapping[str, str]
    command: str
    cells: tuple[Cell, ...]
    claims: tuple[Claim, ...] = ()
    versions: Mapping[str, str] = {}
    sweep: Mapping[str, tuple[str, ...]] = {}

    def body(self) -> dict[str, Any]:
        """The content without its digest, as JSON has it; msgspec.ValidationError if a field has a wrong type."""
        typed = msgspec.convert(msgspec.to_builtins(self), Result)
        data: dict[str, Any] = {"schema": SCHEMA, **msgspec.to_builtins(typed)}
        claims = [{**said, "holds": claim.holds} for said, claim in zip(data["claims"], typed.claims, strict=True)]
        if not self.sweep:
            del data["sweep"]
        return {**data, "claims": claims}

    @property
    def digest(self) -> str:
        """One line that changes with any input and any figure."""
        return digest(self.body())


def digest(body: Mapping[str, Any]) -> str:
    """The digest of a results.json whose content, without its digest, is body."""
    return "sha256:" + hashlib.sha256(canonical(body).encode()).hexdigest()


def canonical(data: Any) -> str:
    """JSON in the canonical form of which digests are taken; NaN and infinity are refused."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(data: Any) -> Result:
    """The Result in data; ResultError if it is of another schema or incomplete."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise ResultError(f"not a results.json of schema {SCHEMA}", AGAIN)
    try:
        return msgspec.convert(data, Result)
    except msgspec.ValidationError as error:
        raise ResultError(f"results.json is damaged: {error}", AGAIN) from error


def dumps(result: Result) -> str:
    """results.json as text: one line for each cell, so that two files can be compared by diff."""
    body = result.body()
    data = {**body, "digest": digest(body)}
    lines = [f"{json.dumps(key)}: {_rows(data[key])}" for key in sorted(data)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        return "[\n" + ",\n".join(canonical(row) for row in value) + "\n]"
    return canonical(value)


def write(result: Result, directory: Path) -> Path:
    """Write directory/results.json, whole or not at all; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE_NAME
    partial = path.with_suffix(".partial")
    partial.write_text(dumps(result))
    partial.replace(path)
    return path


def read(directory: Path) -> Result:
    """The Result in directory (or in the file itself).

    ResultError if there is none or if it was changed after it was written.
    """
    path = directory / FILE_NAME if directory.is_dir() else directory
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise ResultError(f"{path}: no results there", AGAIN) from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{path}: {error}", AGAIN) from error
    result = from_json(data)
    if digest({key: value for key, value in data.items() if key != "digest"}) != data.get("digest"):
        raise ResultError(f"{path}: was changed after it was written, its digest doesn't match", AGAIN)
    if result.digest != data["digest"]:
        raise ResultError(f"{path}: another version of Sluice wrote this file; its fields differ", AGAIN)
    return result
