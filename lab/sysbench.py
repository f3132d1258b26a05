# SPDX-License-Identifier: GPL-2.0-only
"""Reads the output of `sysbench fileio --histogram=on run` as the figures of a job called sysbench."""

from __future__ import annotations

import re

from lab import fio
from lab.errors import LabError
from lab.result import Histogram, Job


def parse(text: str) -> Job:
    """The job, whose I/Os are sysbench's events: reads, writes and fsyncs; LabError if the text is not whole."""
    histogram = _histogram(text)
    seconds, events = _number(text, r"total time: +([\d.]+)s"), _number(text, r"total number of events: +(\d+)")
    rate = sum(_number(text, rf"{way}, MiB/s: +([\d.]+)") for way in ("read", "written"))
    mean, most = (_number(text, rf"{what}: +([\d.]+)") * 1e6 for what in ("avg", "max"))
    latency = fio.latency(histogram, mean, round(most))
    ios = round(events)
    return Job("sysbench", "be", 0, ios, round(ios / seconds, fio.DIGITS), rate * (1 << 20), latency, latency)


def _histogram(text: str) -> Histogram:
    """Lines of a time in ms, a bar and a count, as nanoseconds and counts."""
    lines = re.findall(r"^ +(\d+\.\d+) \|[* ]*(?<=[* ])(\d+)$", text, re.MULTILINE)
    return tuple((round(float(value) * 1e6), int(count)) for value, count in lines)


def _number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    if not found:
        raise LabError(f"sysbench's output lacks {pattern!r}", "./sluice run blog-latency --fresh")
    return float(found[1])
