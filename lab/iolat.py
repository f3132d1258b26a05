# SPDX-License-Identifier: GPL-2.0-only
"""iolat, built in the workshop: one program for every kernel of the lab; and its results, read from its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab import cache, fio, kernels, progress, toolbox
from lab.errors import LabError
from lab.result import Job, Latency

SOURCES = Path(__file__).parent.parent / "bpf"


def build() -> dict[str, bytes]:
    """The program by its file name, built if the sources changed since."""
    kernel = kernels.get(kernels.DEFAULT)

    def make(part: Path) -> None:
        with progress.step("iolat"):
            part.mkdir()
            ro = {"/tmp/bpf": SOURCES, "/tmp/vmlinux": kernel.root}
            box = toolbox.Sandbox(ro=ro, rw={"/tmp/out": part}, root=toolbox.workshop())
            line = ["make", "-s", "-C", "/tmp/bpf", "O=/tmp/out", "BTF=/tmp/vmlinux/vmlinux", "CC=gcc-14"]
            line += ["LIBS=-l:libbpf.a -lelf -lz"]
            toolbox.run(["sh", "-c", 'exec "$@" 2>&1', "sh", *line], box)
            toolbox.run(["strip", "/tmp/out/iolat"], box)

    inputs = [part for path in sorted(SOURCES.iterdir()) for part in (path.name.encode(), path.read_bytes())]
    name = cache.key(toolbox.identity(toolbox.workshop()), kernel.release, *inputs)
    folder = cache.once(cache.root() / "build" / f"iolat-{name}", make)
    return {"iolat": (folder / "iolat").read_bytes()}


SCHEMA = 1
STAGES = ("q2g", "g2i", "i2d", "q2d", "d2c", "q2c")


def seen(texts: Sequence[str]) -> dict[str, dict[str, Latency]]:
    """The stages in iolat's output of several runs, pooled: under "all", by class and level ("be/1") and by operation.

    Under "files" is the time of reads, writes and fsyncs in file systems, if that was asked for. Empty if there were
    no runs; LabError if iolat lost something or printed something else.
    """
    printed = [_load(text) for text in texts]
    rows = [row for data in printed for row in data["rows"]]
    if not rows:
        return {}
    groups: dict[str, list[Mapping[str, Any]]] = {"all": rows}
    for row in rows:
        for name in (f"{row['ioclass']}/{row['level']}", row["op"]):
            groups.setdefault(name, []).append(row)
    found = {
        name: {stage: _latency([row["stages"][stage] for row in group]) for stage in STAGES}
        for name, group in groups.items()
    }
    files = [file for data in printed for file in data["files"] if file["layer"] == "file-system"]
    ops = dict.fromkeys(file["op"] for file in files)
    return {
        **found,
        **({"files": {op: _latency([file for file in files if file["op"] == op]) for op in ops}} if ops else {}),
    }


def _load(text: str) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        lost = {name: count for name, count in data["lost"].items() if count}
    except (KeyError, ValueError) as error:
        raise LabError(
            f"iolat printed something unexpected: {error}", "./sluice shell   and run ./iolat --json"
        ) from error
    if lost:
        raise LabError(f"iolat could not follow everything: {lost}", "a shorter run, or one with fewer disks")
    return data


def _latency(parts: Sequence[Mapping[str, Any]]) -> Latency:
    histogram = fio.add(tuple((value, count) for value, count in part["histogram"]) for part in parts)
    total = sum(part["count"] for part in parts) or 1
    return fio.latency(histogram, sum(part["sum"] for part in parts) / total, max(part["max"] for part in parts))


def cost(alone: Sequence[Job], watched: Sequence[Job]) -> dict[str, float]:
    """The cost of watching for each job: its IOPS with iolat as a part of those without."""
    return {
        job.name: round(other.iops / job.iops, fio.DIGITS) if job.iops else 0.0
        for job, other in zip(alone, watched, strict=True)
    }
