# SPDX-License-Identifier: GPL-2.0-only
"""Durations: the cost of past runs, kept in the cache, from which the remaining time is forecast.

They depend on the host and are no part of a result.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from lab import cache


@dataclass(frozen=True)
class Like:
    """The properties shared by runs that take about the same time."""

    experiment: str
    device: str
    scheduler: str
    variant: str


class Forecast:
    """The expected duration of a list of runs, from the cost of similar runs in this session and before."""

    def __init__(self, runs: Sequence[Like], parallel: int) -> None:
        self._left = list(runs)
        self._parallel = min(parallel, len(runs))
        self._costs = {like: cost for like in runs if (cost := kept(like)) is not None}
        self._cpu_s = self._wall_s = 0.0

    def ended(self, like: Like, cpu_s: float, wall_s: float) -> None:
        """A run has ended: record its cost, unless a worker of a cluster had kept it."""
        self._left.remove(like)
        if cpu_s:
            self._costs[like] = cpu_s
            self._cpu_s += cpu_s
            self._wall_s += wall_s
            keep(like, cpu_s, wall_s)

    def spread(self, parallel: int) -> None:
        """From now on `parallel` runs are done side by side."""
        self._parallel = max(1, parallel)

    @property
    def left_s(self) -> float | None:
        """Seconds that the remaining runs take, at the pace of those that have ended; None before anything is known."""
        if not self._costs:
            return None
        pace = self._wall_s / self._cpu_s if self._cpu_s else 1.0
        return pace * sum(map(self._cost, self._left)) / self._parallel

    def _cost(self, wanted: Like) -> float:
        """Processor seconds of a run: those of similar runs, else the mean of the least different ones."""
        nearness = {like: _nearness(like, wanted) for like in self._costs}
        nearest = max(nearness.values())
        return fmean(cost for like, cost in self._costs.items() if nearness[like] == nearest)


def _nearness(one: Like, other: Like) -> tuple[bool, ...]:
    return one == other, one.device == other.device, one.variant == other.variant


def keep(like: Like, cpu_s: float, wall_s: float) -> None:
    """Keep what a run cost, in seconds."""
    place = _place(like)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(f".{os.getpid()}.part")
    part.write_text(f"{cpu_s:.2f} {wall_s:.2f}\n", encoding="ascii")
    part.replace(place)


def kept(like: Like) -> float | None:
    """Processor seconds of the last similar run; None if there is none."""
    place = _place(like)
    return float(place.read_text(encoding="ascii").split()[0]) if place.exists() else None


def _place(like: Like) -> Path:
    return cache.root() / "durations" / cache.key(like.experiment, like.device, like.scheduler, like.variant)
