# SPDX-License-Identifier: GPL-2.0-only
"""results.json: what an experiment measured, as frozen dataclasses.

A Result reads and writes itself as canonical JSON.  Its digest covers every
input and every figure, so that two runs can be compared by one line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import UsageError

SCHEMA = 1
FILE_NAME = "results.json"

Histogram = tuple[tuple[int, int], ...]


AGAIN = "./sluice run EXPERIMENT --out DIR   and use that folder"


class ResultError(UsageError):
    """A results.json that is missing, damaged, changed or of another schema."""


@dataclass(frozen=True)
class Latency:
    """How long I/Os took, in nanoseconds; histogram is (value, count), ascending."""

    mean: float = 0.0
    p50: int = 0
    p95: int = 0
    p99: int = 0
    p999: int = 0
    max: int = 0
    histogram: Histogram = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "p50": self.p50,
            "p95": self.p95,
            "p99": self.p99,
            "p99.9": self.p999,
            "max": self.max,
            "histogram": [list(bin_) for bin_ in self.histogram],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Latency:
        return Latency(
            data["mean"],
            data["p50"],
            data["p95"],
            data["p99"],
            data["p99.9"],
            data["max"],
            tuple((value, count) for value, count in data["histogram"]),
        )


@dataclass(frozen=True)
class Window:
    """One stretch of a job's life: its start in seconds, I/Os completed, latency in ns."""

    start_s: float
    ios: int
    mean_ns: float
    p99_ns: int

    def to_json(self) -> list[float]:
        return [self.start_s, self.ios, self.mean_ns, self.p99_ns]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Window:
        return Window(data[0], data[1], data[2], data[3])


@dataclass(frozen=True)
class Spread:
    """The lowest and the highest figure of a cell's runs, which differ in their seed only."""

    iops: tuple[float, float] = (0.0, 0.0)
    mean_ns: tuple[float, float] = (0.0, 0.0)
    p99_ns: tuple[float, float] = (0.0, 0.0)

    def to_json(self) -> dict[str, Any]:
        return {"iops": list(self.iops), "mean_ns": list(self.mean_ns), "p99_ns": list(self.p99_ns)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Spread:
        def pair(name: str) -> tuple[float, float]:
            return data[name][0], data[name][1]

        return Spread(pair("iops"), pair("mean_ns"), pair("p99_ns"))


@dataclass(frozen=True)
class Job:
    """One named job of a cell, all its processes and runs together.

    clat starts when the kernel has taken the I/O, as fio's does; lat starts when the job submits
    it, so that it has the wait for a tag in it, which is where a low rank can hold up a high one.
    cpu_percent is user plus system time as fio reports it, of one process.  sync is how long each fsync took, where the
    job made some.
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
    spread: Spread = field(default_factory=Spread)
    sync: Latency = field(default_factory=Latency)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ioclass": self.ioclass,
            "level": self.level,
            "ios": self.ios,
            "iops": self.iops,
            "bytes_per_s": self.bytes_per_s,
            "clat_ns": self.clat.to_json(),
            "lat_ns": self.lat.to_json(),
            "series": [window.to_json() for window in self.series],
            "cpu_percent": self.cpu_percent,
            "spread": self.spread.to_json(),
            **({"sync_ns": self.sync.to_json()} if self.sync.histogram else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Job:
        return Job(
            data["name"],
            data["ioclass"],
            data["level"],
            data["ios"],
            data["iops"],
            data["bytes_per_s"],
            Latency.from_json(data["clat_ns"]),
            Latency.from_json(data["lat_ns"]),
            tuple(Window.from_json(window) for window in data["series"]),
            data["cpu_percent"],
            Spread.from_json(data["spread"]),
            Latency.from_json(data["sync_ns"]) if "sync_ns" in data else Latency(),
        )


@dataclass(frozen=True)
class Cell:
    """One kernel, device, scheduler, set of tunables and variant, pooled over its seeds.

    tunables are those that were set; settings are those that were in force, as the queue said.
    instructions_per_io is 0 where the CPU was not what limited the job.  inputs holds
    one key for each run; a key stands for everything that went into that run.  readings is what a script read itself,
    by name: the mean of the runs.

    Where iolat watched the same runs again: stages has the latency of each stage (q2g to q2c), of all I/O under "all",
    by class and level ("be/1") and by operation ("read"), and under "files" that of file systems; watched has each
    job's IOPS then, as a part of those without it; and watched_inputs the keys of those runs.
    """

    kernel: str
    device: str
    device_parameters: Mapping[str, str]
    scheduler: str
    tunables: Mapping[str, str]
    variant: str
    jobs: tuple[Job, ...]
    instructions_per_io: float = 0.0
    settings: Mapping[str, str] = field(default_factory=dict)
    seconds: int = 0
    inputs: tuple[str, ...] = ()
    stages: Mapping[str, Mapping[str, Latency]] = field(default_factory=dict)
    watched: Mapping[str, float] = field(default_factory=dict)
    watched_inputs: tuple[str, ...] = ()
    readings: Mapping[str, float] = field(default_factory=dict)

    def job(self, name: str) -> Job:
        """The job of that name; KeyError if the variant has none."""
        for job in self.jobs:
            if job.name == name:
                return job
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "device": self.device,
            "device_parameters": dict(self.device_parameters),
            "scheduler": self.scheduler,
            "tunables": dict(self.tunables),
            "variant": self.variant,
            "jobs": [job.to_json() for job in self.jobs],
            "cpu": {"instructions_per_io": self.instructions_per_io},
            "settings": dict(self.settings),
            "seconds": self.seconds,
            "inputs": list(self.inputs),
            **({"readings": dict(self.readings)} if self.readings else {}),
            **self._seen(),
        }

    def _seen(self) -> dict[str, Any]:
        if not self.stages:
            return {}
        by = {who: {name: one.to_json() for name, one in of.items()} for who, of in self.stages.items()}
        return {
            "stages": by.pop("all"),
            "stages_by": by,
            "watched": dict(self.watched),
            "watched_inputs": list(self.watched_inputs),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cell:
        return Cell(
            data["kernel"],
            data["device"],
            data["device_parameters"],
            data["scheduler"],
            data["tunables"],
            data["variant"],
            tuple(Job.from_json(job) for job in data["jobs"]),
            data["cpu"]["instructions_per_io"],
            data["settings"],
            data["seconds"],
            tuple(data["inputs"]),
            _stages({"all": data["stages"], **data["stages_by"]}) if "stages" in data else {},
            data.get("watched", {}),
            tuple(data.get("watched_inputs", ())),
            data.get("readings", {}),
        )


def _stages(data: Mapping[str, Any]) -> dict[str, dict[str, Latency]]:
    return {who: {name: Latency.from_json(one) for name, one in of.items()} for who, of in data.items()}


@dataclass(frozen=True)
class Claim:
    """A sentence that the figures must bear out.

    limit says what measured is held against (≥ 3); paper is the paper's figure, if it has one.
    """

    id: str
    text: str
    measured: float
    holds: bool
    paper: float | None = None
    limit: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "text": self.text,
            "paper": self.paper,
            "measured": self.measured,
            "limit": self.limit,
            "holds": self.holds,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Claim:
        return Claim(data["id"], data["text"], data["measured"], data["holds"], data["paper"], data["limit"])


@dataclass(frozen=True)
class Result:
    """Everything that one experiment found, and on which machine."""

    experiment: str
    question: str
    machine: Mapping[str, str]
    command: str
    cells: tuple[Cell, ...]
    claims: tuple[Claim, ...] = ()

    def body(self) -> dict[str, Any]:
        """The content without its digest."""
        return {
            "schema": SCHEMA,
            "experiment": self.experiment,
            "question": self.question,
            "machine": dict(self.machine),
            "command": self.command,
            "cells": [cell.to_json() for cell in self.cells],
            "claims": [claim.to_json() for claim in self.claims],
        }

    @property
    def digest(self) -> str:
        """One line that changes with any input and any figure."""
        return "sha256:" + hashlib.sha256(canonical(self.body()).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {**self.body(), "digest": self.digest}


def canonical(data: Any) -> str:
    """JSON in the one spelling that digests are taken of; NaN and infinity are refused."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(data: Mapping[str, Any]) -> Result:
    """The Result in data; ResultError if it is of another schema or incomplete."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise ResultError(f"not a results.json of schema {SCHEMA}", AGAIN)
    try:
        return Result(
            data["experiment"],
            data["question"],
            data["machine"],
            data["command"],
            tuple(Cell.from_json(cell) for cell in data["cells"]),
            tuple(Claim.from_json(claim) for claim in data["claims"]),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ResultError(f"results.json lacks or garbles {error}", AGAIN) from error


def dumps(result: Result) -> str:
    """results.json as text: one cell a line, so that two files can be compared by diff."""
    data = result.to_json()
    lines = [f"{json.dumps(key)}: {_rows(data[key])}" for key in sorted(data)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(value: Any) -> str:
    if isinstance(value, list) and value:
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
    """The Result in directory (or in the file itself); ResultError if there is none or if it
    was changed after it was written."""
    path = directory / FILE_NAME if directory.is_dir() else directory
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise ResultError(f"{path}: no results there", AGAIN) from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{path}: {error}", AGAIN) from error
    result = from_json(data)
    if result.digest != data.get("digest"):
        raise ResultError(f"{path}: was changed after it was written, its digest doesn't match", AGAIN)
    return result
