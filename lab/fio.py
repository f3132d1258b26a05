# SPDX-License-Identifier: GPL-2.0-only
"""Reads fio's json+ output and histogram logs as figures of named jobs.

Nothing here runs fio. Percentiles are taken from histograms, by the same rule as fio's: percentiles of several runs
can't be averaged, but their histograms can be added.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from lab.errors import LabError
from lab.result import Histogram, Job, Latency, Spread, Window

CLASSES = {"0": "none", "1": "rt", "2": "be", "3": "idle"}
BITS = 6
"""fio's FIO_IO_U_PLAT_BITS: each power of two is divided into 2^6 bins."""
DIGITS = 6
"""Decimals kept of a computed figure; more would be noise of the floating point."""


class FioError(LabError):
    """fio's output can't be read, or says that a job failed."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "./sluice run EXPERIMENT --fresh")


def percentile(histogram: Histogram, percent: float) -> int:
    """The value below or at which percent of the samples lie; 0 if there are none."""
    total = sum(count for _, count in histogram)
    wanted = math.ceil(round(total * percent / 100, 6))
    seen = 0
    for value, count in histogram:
        seen += count
        if seen >= wanted:
            return value
    return 0


def latency(histogram: Histogram, mean: float, maximum: int) -> Latency:
    """A Latency whose percentiles are the histogram's, none above the maximum."""

    def at(percent: float) -> int:
        return min(percentile(histogram, percent), maximum)

    return Latency(round(mean, DIGITS), at(50), at(95), at(99), at(99.9), maximum, histogram)


def parse(text: str, logs: Mapping[str, str] | None = None) -> tuple[Job, ...]:
    """The jobs in fio's json+ output, in its order.

    logs holds histogram logs by file name (NAME_clat_hist.N.log); the logs of one job's processes are added up to its
    series. FioError if a job failed or the text is damaged.
    """
    data = _load(text)
    try:
        return tuple(_job(job, logs or {}) for job in data["jobs"])
    except (KeyError, TypeError, ValueError) as error:
        raise FioError(f"fio's output lacks or garbles {error}; is its format json+?") from error


def _load(text: str) -> dict[str, Any]:
    start = text.find("{")
    try:
        data = json.loads(text[start:]) if start >= 0 else None
    except ValueError as error:
        raise FioError(f"fio's output is damaged: {error}") from error
    if not isinstance(data, dict):
        raise FioError(f"fio wrote no JSON but: {text.strip()[:200] or 'nothing'}")
    return data


def outputs(files: Mapping[str, str]) -> list[str]:
    """The outputs of a run's fios: fio.json, or fio-NAME.json where there are several, in the order of their names."""
    return [text for name, text in sorted(files.items()) if is_output(name)]


def is_output(name: str) -> bool:
    """Whether a file of that name is an output of fio."""
    return name.startswith("fio") and name.endswith(".json")


def version(text: str) -> str:
    """The version of the fio that wrote this output."""
    return str(_load(text).get("fio version", "unknown"))


def _job(data: Mapping[str, Any], logs: Mapping[str, str]) -> Job:
    name = data["jobname"]
    if data.get("error"):
        raise FioError(f"fio's job {name} failed with error {data['error']}")
    options = data.get("job options", {})
    directions = [data[way] for way in ("read", "write") if data[way]["total_ios"]]
    ios = sum(way["total_ios"] for way in directions)
    seconds = max((way["runtime"] for way in directions), default=0) / 1000
    total = sum(way["io_bytes"] for way in directions)
    return Job(
        name,
        CLASSES[str(options.get("prioclass", "0"))],
        int(options.get("prio", 0)),
        ios,
        round(ios / seconds, DIGITS) if seconds else 0.0,
        round(total / seconds, DIGITS) if seconds else 0.0,
        _latency([way["clat_ns"] for way in directions]),
        _latency([way["lat_ns"] for way in directions]),
        series([text for file, text in sorted(logs.items()) if file.startswith(f"{name}_clat_hist.")]),
        round(data["usr_cpu"] + data["sys_cpu"], DIGITS),
        sync=_latency([data["sync"]["lat_ns"]] if data["sync"].get("lat_ns", {}).get("N") else []),
    )


def _latency(ways: Sequence[Mapping[str, Any]]) -> Latency:
    histogram = add([tuple((int(value), count) for value, count in way["bins"].items()) for way in ways])
    samples = sum(way["N"] for way in ways)
    mean = sum(way["mean"] * way["N"] for way in ways) / samples if samples else 0.0
    return latency(histogram, mean, max((way["max"] for way in ways), default=0))


def add(histograms: Iterable[Histogram]) -> Histogram:
    """Several histograms as one."""
    total: Counter[int] = Counter()
    for histogram in histograms:
        for value, count in histogram:
            total[value] += count
    return tuple(sorted((value, count) for value, count in total.items() if count))


def bin_value(index: int) -> int:
    """The nanoseconds that stand for fio's bin of that index: the middle of its range."""
    if index < 2 << BITS:
        return index
    shift = (index >> BITS) - 1
    base = 1 << (shift + BITS)
    return base + ((index % (1 << BITS)) << shift) + (1 << shift) // 2


def series(logs: Sequence[str], window_s: float = 0.5) -> tuple[Window, ...]:
    """Latency over time from the histogram logs of one job's processes.

    The fields of a line: time in ms at the end of its stretch, direction, block size, a count for each bin.
    """
    windows: dict[int, list[Histogram]] = {}
    for log in logs:
        for line in log.splitlines():
            end_ms, _, _, *counts = line.replace(" ", "").split(",")
            stride = _stride(len(counts))
            histogram = tuple(
                (bin_value(index * stride + stride // 2), int(count))
                for index, count in enumerate(counts)
                if count != "0"
            )
            windows.setdefault(max(1, round(int(end_ms) / 1000 / window_s)), []).append(histogram)
    return tuple(_window((end - 1) * window_s, add(parts)) for end, parts in sorted(windows.items()))


def _stride(columns: int) -> int:
    """How many of fio's bins share a column; its log_hist_coarseness halves the columns."""
    full = 29 << BITS
    if not columns or full % columns:
        raise ValueError(f"a histogram log of {columns} columns")
    return full // columns


def _window(start: float, histogram: Histogram) -> Window:
    ios = sum(count for _, count in histogram)
    mean = sum(value * count for value, count in histogram) / ios if ios else 0.0
    return Window(start, ios, round(mean, DIGITS), percentile(histogram, 99))


def pool(runs: Sequence[tuple[Job, ...]]) -> tuple[Job, ...]:
    """The jobs of several runs that differ in their seed, as one.

    Histograms are added, rates averaged, the spread kept. The series is the first run's.
    """
    return tuple(_pool_job(list(same)) for same in zip(*runs, strict=True))


def _pool_job(same: Sequence[Job]) -> Job:
    def average(values: Iterable[float]) -> float:
        return round(sum(values) / len(same), DIGITS)

    return replace(
        same[0],
        ios=sum(job.ios for job in same),
        iops=average(job.iops for job in same),
        bytes_per_s=average(job.bytes_per_s for job in same),
        clat=_pool_latency([job.clat for job in same]),
        lat=_pool_latency([job.lat for job in same]),
        sync=_pool_latency([job.sync for job in same]),
        cpu_percent=average(job.cpu_percent for job in same),
        spread=Spread(
            _span(job.iops for job in same), _span(job.lat.mean for job in same), _span(job.lat.p99 for job in same)
        ),
    )


def _pool_latency(same: Sequence[Latency]) -> Latency:
    samples = [sum(count for _, count in one.histogram) for one in same]
    mean = sum(one.mean * count for one, count in zip(same, samples, strict=True)) / (sum(samples) or 1)
    return latency(add(one.histogram for one in same), mean, max(one.max for one in same))


def _span(values: Iterable[float]) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)
