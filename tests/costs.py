# SPDX-License-Identifier: GPL-2.0-only
"""The cost of each test: measured, kept in the cache, printed at the end. It decides their order.

The longest tests go first. Those marked `late` follow, the longest last: one of them takes longer than all others.
Those marked `alone` are the last.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from lab import cache, job, passes

# Seconds; tests that take less stay in the order of their files, whose fixtures they share.
SHORT_S = 5.0
SHOWN = 10
PR_SET_CHILD_SUBREAPER = 36
REAPED_IN_S = 2.0
# Children that existed at the end of a test.
_lasting: set[int] = set()


@dataclass(frozen=True)
class Cost:
    """Seconds of real time, seconds of processor time with all child processes, and whether a kept pass was used."""

    wall_s: float
    cpu_s: float
    kept: bool


def cpu_s() -> float:
    """Seconds of processor time of this process and of all descendants that have ended.

    bubblewrap ends before the process that it started, which thereby becomes an orphan: its time counts for the
    process that reaps it. That may take a moment. A child that outlives the moment, as a helper of Dask's does, is not
    waited for again.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    end = time.monotonic() + REAPED_IN_S
    while (left := _children() - _lasting) and time.monotonic() < end:
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    _lasting.update(left)
    return sum(os.times()[:4])


def _children() -> set[int]:
    """The child processes of all threads; a thread may end meanwhile."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, path.read_text(encoding="ascii").split()))
    return found


def place() -> Path:
    """The file with the durations of the tests in their last run, by name."""
    return cache.root() / "costs.json"


def read() -> dict[str, float]:
    """Seconds of real time by test; none before the first run."""
    return dict(json.loads(place().read_text(encoding="utf-8"))) if place().exists() else {}


def write(costs: dict[str, Cost]) -> None:
    """Keep the durations of the tests; a test that used a kept pass has none."""
    place().parent.mkdir(parents=True, exist_ok=True)
    part = place().with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps({**read(), **{name: cost.wall_s for name, cost in costs.items() if not cost.kept}}))
    part.rename(place())


def expected(item: pytest.Item, before: dict[str, float]) -> float:
    """Seconds that a test will take: its last duration, else the limit of its guest."""
    limit = item.get_closest_marker("limit")
    unknown = limit.args[0] if limit else job.CPU_LIMIT_S if "lab" in getattr(item, "fixturenames", ()) else 0.0
    return before.get(item.nodeid, float(unknown))


def table(costs: dict[str, Cost]) -> list[str]:
    """Lines with the slowest tests and the sums."""
    slowest = sorted(costs.items(), key=lambda each: -each[1].wall_s)[:SHOWN]
    kept = sum(cost.kept for cost in costs.values())
    total = sum(cost.cpu_s for cost in costs.values())
    return [
        *(f"{cost.wall_s:7.1f} s  {cost.cpu_s:7.1f} CPU s  {name}" for name, cost in slowest),
        f"{total:.0f} s of processor time in {len(costs)} tests, of which {kept} are kept passes of the same inputs",
    ]


class Costs:
    """The plugin: pytest calls these in each process; the one without workerinput has all reports."""

    def __init__(self, config: pytest.Config) -> None:
        workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
        self.main = workerinput is None
        # All processes must order alike, so only one reads.
        self.before: dict[str, float] = read() if workerinput is None else workerinput["costs"]
        self.costs: dict[str, Cost] = {}
        self.start = self.start_cpu = 0.0
        self.ran = self.failed = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a worker the durations that were read."""
        node.workerinput["costs"] = self.before

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the longest first, the late ones after all others, and last those that run alone."""

        def place(item: pytest.Item) -> tuple[bool, bool, float]:
            took = expected(item, self.before)
            late, alone = (item.get_closest_marker(name) is not None for name in ("late", "alone"))
            return alone, late, took if late or alone else -took if took > SHORT_S else 0.0

        items.sort(key=place)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Begin to measure a test."""
        self.start, self.start_cpu = time.monotonic(), cpu_s()
        self.ran = self.failed = False
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """At a test's end settle its runs, and add its cost to its report."""
        if call.when == "teardown":
            kept = passes.settle(not self.failed and call.excinfo is None)
            cost = (time.monotonic() - self.start, cpu_s() - self.start_cpu, kept)
            item.user_properties += [("cost", cost)] * self.ran
        report = yield
        self.ran |= call.when == "call"
        self.failed |= report.failed
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the costs of tests."""
        for _, (wall_s, used_cpu_s, kept) in cast(list[tuple[str, tuple[float, float, bool]]], report.user_properties):
            self.costs[report.nodeid] = Cost(wall_s, used_cpu_s, kept)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, and keep it."""
        if self.main:
            write(self.costs)
            terminalreporter.section("slowest tests, and all")
            for line in table(self.costs):
                terminalreporter.line(line)
