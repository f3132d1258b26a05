# SPDX-License-Identifier: GPL-2.0-only
"""How a claim is judged: on an interval over seeds, or in every run; without figures it never holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pytest
import samples
from msgspec.structs import replace

from lab import analysis
from lab.analysis import Judgement, Measured, find, ratio
from lab.figure import Figure
from lab.result import Cell, Claim

PLACE = ("ssd", "mq-prio", "solo")
PLANNED = samples.cell(*PLACE)


@dataclass(frozen=True)
class One:
    """An analysis with one claim."""

    judgement: Judgement

    def judgements(self) -> Iterable[Judgement]:
        return [self.judgement]

    def figures(self, cells: Sequence[Cell]) -> list[Figure]:
        return []


def reading(cells: Sequence[Cell]) -> float:
    return find(cells, *PLACE).readings["figure"]


def measured(*figures: float, scheduler: str = "mq-prio") -> Measured:
    """A cell with a run for each figure."""
    runs = [replace(samples.cell("ssd", scheduler, "solo"), readings={"figure": figure}) for figure in figures]
    return Measured(runs[0], tuple(runs))


def judged(
    figures: Sequence[float], sense: str = "≥", limit: float = 3, bound: bool = False,
    measure: Callable[[Sequence[Cell]], float] = reading,
) -> Claim:  # fmt: skip
    about = One(Judgement("x", "A sentence.", sense, limit, measure, bound=bound))
    (verdict,) = analysis.verdicts(about, [measured(*figures)], [PLANNED])
    return verdict.claim


@pytest.mark.parametrize(
    ("figures", "sense", "bound", "state"),
    [
        ((4.0, 4.1), "≥", False, "holds"),
        ((2.0, 2.1), "≥", False, "fails"),
        ((3.1, 2.9), "≥", False, "undecided"),
        # One figure is above and one below, and yet the mean is known well enough.
        ((3.001, 3.5, 3.5, 3.5, 3.5, 2.99), "≥", False, "holds"),
        ((2.9, 3.1), "≤", False, "undecided"),
        ((3.0, 3.0), "<", False, "fails"),
        ((3.0, 3.0), "≤", False, "holds"),
        ((100.0,), "≥", False, "undecided"),
        ((3.1, 2.9), "≥", True, "fails"),
        ((3.1, 9.0), "≥", True, "holds"),
        ((9.0,), "≥", True, "undecided"),
        ((2.0,), "≥", True, "fails"),
        ((2.0, 3.1), "≤", True, "fails"),
    ],
)
def test_the_state_follows_from_the_interval(figures: Sequence[float], sense: str, bound: bool, state: str) -> None:
    assert judged(figures, sense, bound=bound).state == state


def test_the_interval_is_student_s() -> None:
    """Of 10 and 12: 11 ± 12.706 · √2 / √2."""
    assert analysis.interval_of_mean([10, 12]) == pytest.approx((11 - 12.706, 11 + 12.706))
    assert analysis.interval_of_mean([5, 5, 5]) == (5, 5)
    assert analysis.interval_of_mean([5]) is None
    low, high = analysis.interval_of_mean([1.0, 2.0] * 10) or (0, 0)
    assert 1.2 < low < 1.5 < high < 1.8


def test_a_bound_shows_its_worst_run_and_its_extremes() -> None:
    claim = judged((4.0, 5.0, 3.5), bound=True)
    assert (claim.measured, claim.interval, claim.values) == (3.5, (3.5, 5.0), (4.0, 5.0, 3.5))


def test_nothing_over_nothing_fails() -> None:
    assert math.isnan(ratio(0, 0))
    assert ratio(1, 0) > 1e6
    for sense in ("≥", "≤", "<"):
        claim = judged((0.0, 0.0), sense, measure=lambda cells: ratio(reading(cells), 0))
        assert (claim.state, claim.measured, claim.interval) == ("fails", None, None)


def test_an_undecided_claim_wants_the_cells_that_it_looked_at() -> None:
    about = One(Judgement("x", "A sentence.", "≥", 3, reading))
    cells = [measured(3.1, 2.9, scheduler="bfq"), measured(3.1, 2.9)]
    (verdict,) = analysis.verdicts(about, cells, [PLANNED])
    assert verdict.wanting == {1}
    (verdict,) = analysis.verdicts(about, [cells[0], measured(5, 5)], [PLANNED])
    assert not verdict.wanting


def test_a_claim_has_as_many_figures_as_its_cell_with_fewest_runs() -> None:
    def both(cells: Sequence[Cell]) -> float:
        return reading(cells) + find(cells, "ssd", "bfq", "solo").readings["figure"]

    about = One(Judgement("x", "A sentence.", "≥", 3, both))
    (verdict,) = analysis.verdicts(about, [measured(1, 2, 3), measured(10, 20, scheduler="bfq")], [])
    assert verdict.claim.values == (11, 22)


def test_a_bound_is_judged_in_every_run_of_every_cell() -> None:
    def least(cells: Sequence[Cell]) -> float:
        return min(reading(cells), find(cells, "ssd", "bfq", "solo").readings["figure"])

    about = One(Judgement("x", "A sentence.", "≥", 3, least, bound=True))
    (verdict,) = analysis.verdicts(about, [measured(9, 9, 1), measured(10, scheduler="bfq")], [])
    assert (verdict.claim.state, verdict.claim.values) == ("fails", (9, 9, 1))


def test_a_missing_cell_of_the_experiment_is_listed_and_another_experiment_s_is_not() -> None:
    about = One(Judgement("x", "A sentence.", "≥", 3, reading))
    others = [measured(1, 1, scheduler="bfq")]
    assert [verdict.claim.state for verdict in analysis.verdicts(about, others, [PLANNED])] == ["not judged"]
    assert analysis.verdicts(about, others, []) == []


def test_each_kernel_has_its_own_verdict() -> None:
    about = One(Judgement("x", "A sentence.", "≥", 3, reading))
    new = measured(5, 5)
    old = Measured(*(replace(new.cell, kernel="6.1"),), tuple(replace(run, kernel="6.1") for run in new.runs))
    assert [verdict.claim.id for verdict in analysis.verdicts(about, [new, old], [])] == ["x@6.12.1", "x@6.1"]
