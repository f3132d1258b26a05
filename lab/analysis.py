# SPDX-License-Identifier: GPL-2.0-only
"""An experiment's analysis: the claims it judges and the figures it draws from the cells.

It lives in experiments/NAME/analysis.py as two functions, judgements() and figures(cells). Both see the cells of one
kernel at a time.

A claim is judged on an interval. Each seed of a cell is a run of its own and gives a figure of its own. The interval
is that of the mean over the seeds, at 95 % (Student's t). A claim about a bound must hold in every run instead. While
the limit lies inside the interval, the claim is undecided, and the cells that it looked at get one more seed.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Protocol, cast

import msgspec

from lab import description
from lab.errors import UsageError
from lab.figure import Figure
from lab.result import FAILS, HOLDS, NOT_JUDGED, UNDECIDED, Cell, Claim, Job, Latency


class Analysis(Protocol):
    """The functions that an analysis.py must have."""

    def judgements(self) -> Iterable[Judgement]:
        """All claims, whatever was measured."""

    def figures(self, cells: Sequence[Cell]) -> list[Figure]:
        """The figures that can be drawn from these cells."""


class Missing(Exception):
    """A cell that a claim or a figure needs was not measured; place is its device, scheduler and variant.

    A cell that was measured but lacks a needed figure gives NaN instead.
    """

    def __init__(self, *place: str) -> None:
        super().__init__(", ".join(place))
        self.place = place


def load(path: Path) -> Analysis:
    """The analysis in that file; UsageError if there is none."""
    spec = importlib.util.spec_from_file_location(f"analysis_of_{path.parent.name}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{path}: no such analysis", "./sluice list experiments")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Analysis, module)


def load_of(experiment: str) -> Analysis:
    """The analysis of an experiment, or of the one that it is like; UsageError if there is none."""
    path = description.FOLDER / experiment / "analysis.py"
    other = "" if path.is_file() else description.like(experiment)
    return load_of(other) if other else load(path)


def find(cells: Iterable[Cell], device: str, scheduler: str, variant: str) -> Cell:
    """The cell of that device, scheduler and variant; Missing if it was not measured."""
    for cell in cells:
        if (cell.device, cell.scheduler, cell.variant) == (device, scheduler, variant):
            return cell
    raise Missing(device, scheduler, variant)


SENSES = {"≥": operator.ge, "≤": operator.le, "<": operator.lt}
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t for a two-sided interval of 95 %, by degrees of freedom from 1 on; above 9 the last one is used."""
DIGITS = 6
PLACE = ("device", "scheduler", "variant")
"""Where a cell belongs within a kernel."""


@dataclass(frozen=True)
class Measured:
    """A cell, which pools its runs, and each of its runs as a cell by itself."""

    cell: Cell
    runs: tuple[Cell, ...]


@dataclass(frozen=True)
class Verdict:
    """A claim, and the positions of the measured cells that need another seed before it can be decided."""

    claim: Claim
    wanting: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Judgement:
    """A claim before it is judged: measure gives the figure, sense and limit what it must be (≥ 3).

    bound: the figure is a worst case, and must hold in each run by itself. A measure that gives NaN fails.
    """

    id: str
    text: str
    sense: str
    limit: float
    measure: Callable[[Sequence[Cell]], float]
    paper: float | None = None
    bound: bool = False

    def claim(self, state: str, values: Sequence[float] = (), interval: tuple[float, float] | None = None) -> Claim:
        """The claim in that state."""
        finite = all(map(math.isfinite, values))
        return Claim(
            self.id,
            self.text,
            self._figure(values) if values and finite else None,
            state,
            self.paper,
            f"{self.sense} {self.limit:g}",
            interval if finite else None,
            tuple(values) if finite else (),
        )

    def _figure(self, values: Sequence[float]) -> float:
        if self.bound:
            return min(values) if self.sense == "≥" else max(values)
        return round(fmean(values), DIGITS)

    def judge(self, measured: Sequence[Measured]) -> Verdict:
        """The claim judged on the runs of the cells that measure looks at; Missing if one was not measured."""
        looked: set[int] = set()
        self.measure([cast(Cell, _Looked(one.cell, number, looked)) for number, one in enumerate(measured)])
        counts = [len(measured[number].runs) for number in looked]
        count = max(counts) if self.bound else min(counts)
        values = [round(self.measure(_of_run(measured, number)), DIGITS) for number in range(count)]
        if not all(map(math.isfinite, values)):
            return Verdict(self.claim(FAILS, values))
        interval = (min(values), max(values)) if self.bound else interval_of_mean(values)
        state = self._state(interval, len(values))
        return Verdict(self.claim(state, values, interval), frozenset(looked if state == UNDECIDED else ()))

    def _state(self, interval: tuple[float, float] | None, runs: int) -> str:
        """One run can break a bound, but one run is not enough for a claim to hold."""
        holding = [SENSES[self.sense](end, self.limit) for end in interval or ()]
        if self.bound and not all(holding):
            return FAILS
        if runs > 1 and all(holding):
            return HOLDS
        return UNDECIDED if runs == 1 or any(holding) else FAILS


class _Looked:
    """A cell that records that its figures were read, and not only its place."""

    def __init__(self, cell: Cell, number: int, looked: set[int]) -> None:
        self._cell, self._number, self._all = cell, number, looked

    def __getattr__(self, name: str) -> object:
        if name not in ("kernel", "tunables", *PLACE):
            self._all.add(self._number)
        return getattr(self._cell, name)


def _of_run(measured: Sequence[Measured], number: int) -> list[Cell]:
    """The cells as one run saw them; of a cell with fewer runs its last."""
    return [one.runs[min(number, len(one.runs) - 1)] for one in measured]


def interval_of_mean(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of these samples; None for fewer than two."""
    if len(values) < 2:
        return None
    half = T_95[min(len(values) - 1, len(T_95)) - 1] * stdev(values) / math.sqrt(len(values))
    return round(fmean(values) - half, DIGITS), round(fmean(values) + half, DIGITS)


def ratio(above: float, below: float) -> float:
    """A quotient without special cases: x / 0 is 1e9, and 0 / 0 is NaN, with which every claim fails."""
    if below:
        return above / below
    return 1e9 if above else math.nan


def worst(values: Iterable[float], of: Callable[[Iterable[float]], float] = max) -> float:
    """The largest of the values, or with of=min the smallest; NaN if one of them is, or if there are none."""
    found = list(values)
    return of(found) if found and not any(map(math.isnan, found)) else math.nan


class Blank(Cell, frozen=True):
    """A cell of an experiment's plan, without figures: it shows which cells a claim reads."""

    def job(self, name: str) -> Job:
        """A job that did nothing."""
        return Job(name, "none", 0, 0, 0.0, 0.0, Latency(), Latency())


def belongs(judgement: Judgement, planned: Sequence[Cell]) -> bool:
    """Whether an experiment whose cells are these can judge a claim."""
    try:
        judgement.measure(planned)
    except Missing:
        return False
    except (ArithmeticError, LookupError, ValueError):
        pass
    return True


def verdicts(analysis: Analysis, measured: Sequence[Measured], planned: Sequence[Cell]) -> list[Verdict]:
    """All claims, kernel by kernel; with several kernels an id ends in @RELEASE.

    planned has every cell of the experiment. A claim that needs a planned cell which was not measured is "not judged".
    A claim that needs a cell outside the plan belongs to another experiment, and is left out.
    """
    kernels = list(dict.fromkeys(one.cell.kernel for one in measured))
    found = []
    for kernel in kernels:
        numbers = [number for number, one in enumerate(measured) if one.cell.kernel == kernel]
        for judgement in analysis.judgements():
            try:
                verdict = judgement.judge([measured[number] for number in numbers])
            except Missing:
                if not belongs(judgement, planned):
                    continue
                verdict = Verdict(judgement.claim(NOT_JUDGED))
            claim = verdict.claim
            if len(kernels) > 1:
                claim = msgspec.structs.replace(claim, id=f"{judgement.id}@{kernel}")
            found.append(Verdict(claim, frozenset(numbers[number] for number in verdict.wanting)))
    return found


def figures(analysis: Analysis, cells: Sequence[Cell]) -> list[Figure]:
    """All figures, kernel by kernel; with several kernels a title names its own."""
    groups = _by_kernel(cells)
    return [
        figure
        if len(groups) == 1
        else dataclasses.replace(figure, id=f"{figure.id}-{kernel}", title=f"{figure.title} · Linux {kernel}")
        for kernel, group in groups
        for figure in analysis.figures(group)
    ]


def _by_kernel(cells: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    kernels = list(dict.fromkeys(cell.kernel for cell in cells))
    return [(kernel, [cell for cell in cells if cell.kernel == kernel]) for kernel in kernels]
