# SPDX-License-Identifier: GPL-2.0-only
"""An experiment's analysis: the claims it judges and the figures it draws from the cells.

It lives in experiments/NAME/analysis.py as two functions, claims(cells) and figures(cells),
each of which sees the cells of one kernel.
"""

from __future__ import annotations

import importlib.util
import operator
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

from lab.errors import UsageError
from lab.figure import Figure
from lab.result import Cell, Claim

FOLDER = Path(__file__).resolve().parent.parent / "experiments"


class Analysis(Protocol):
    """What analysis.py has to offer."""

    def claims(self, cells: Sequence[Cell]) -> list[Claim]:
        """The claims that these cells allow to judge."""

    def figures(self, cells: Sequence[Cell]) -> list[Figure]:
        """The figures that these cells allow to draw."""


class Missing(Exception):
    """A cell that a claim or a figure needs was not measured."""


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
    description = FOLDER / experiment / "experiment.toml"
    path = FOLDER / experiment / "analysis.py"
    if not path.is_file() and description.is_file():
        return load_of(str(tomllib.loads(description.read_text()).get("like", "")))
    return load(path)


def find(cells: Iterable[Cell], device: str, scheduler: str, variant: str) -> Cell:
    """The cell of that device, scheduler and variant; Missing if it was not measured."""
    for cell in cells:
        if (cell.device, cell.scheduler, cell.variant) == (device, scheduler, variant):
            return cell
    raise Missing(f"{device}, {scheduler}, {variant}")


HOLDS = {"≥": operator.ge, "≤": operator.le, "<": operator.lt}


@dataclass(frozen=True)
class Judgement:
    """A claim before it is judged: measure gives the figure, sense and limit what it must be (≥ 3)."""

    id: str
    text: str
    sense: str
    limit: float
    measure: Callable[[Sequence[Cell]], float]
    paper: float | None = None

    def judge(self, cells: Sequence[Cell]) -> Claim:
        """The claim judged; Missing if a cell for it was not measured."""
        measured = round(self.measure(cells), 6)
        holds = HOLDS[self.sense](measured, self.limit)
        return Claim(self.id, self.text, measured, holds, self.paper, f"{self.sense} {self.limit:g}")


def judge(judgements: Iterable[Judgement], cells: Sequence[Cell]) -> list[Claim]:
    """The claims that the cells allow to judge; the others are left out."""
    claims = []
    for judgement in judgements:
        try:
            claims.append(judgement.judge(cells))
        except Missing:
            continue
    return claims


def ratio(above: float, below: float) -> float:
    """A quotient that stays a number: nothing over nothing is 1, something over nothing 1e9."""
    if below:
        return above / below
    return 1e9 if above else 1.0


def claims(analysis: Analysis, cells: Sequence[Cell]) -> list[Claim]:
    """All claims, kernel by kernel; with several kernels an id ends in @RELEASE."""
    groups = _by_kernel(cells)
    return [
        claim if len(groups) == 1 else replace(claim, id=f"{claim.id}@{kernel}")
        for kernel, group in groups
        for claim in analysis.claims(group)
    ]


def figures(analysis: Analysis, cells: Sequence[Cell]) -> list[Figure]:
    """All figures, kernel by kernel; with several kernels a title names its own."""
    groups = _by_kernel(cells)
    return [
        figure
        if len(groups) == 1
        else replace(figure, id=f"{figure.id}-{kernel}", title=f"{figure.title} · Linux {kernel}")
        for kernel, group in groups
        for figure in analysis.figures(group)
    ]


def _by_kernel(cells: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    kernels = list(dict.fromkeys(cell.kernel for cell in cells))
    return [(kernel, [cell for cell in cells if cell.kernel == kernel]) for kernel in kernels]
