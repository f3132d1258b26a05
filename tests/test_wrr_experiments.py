# SPDX-License-Identifier: GPL-2.0-only
"""The claims of the experiments on weighted round robin hold and fail where they should; all figures are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from samples import judged

from lab import analysis, description, plan
from lab.figure import Bars, Table
from lab.plan import Choice
from lab.result import Cell

SHARE = analysis.load_of("wrr-share")
BACKGROUND = analysis.load_of("wrr-background")
COMPUTE = analysis.load_of("wrr-compute")
RIVALS = (
    ("in-turn", "none"),
    ("in-turn", "mq-deadline"),
    ("in-turn", "bfq"),
    ("in-turn", "mq-prio"),
    ("io-cost", "none"),
    ("bfq-weights", "bfq"),
)


def cell(variant: str, scheduler: str = "none", **rates: float) -> Cell:
    """A cell in which each application read at this rate in bytes a second."""
    known = {"profile": "nvme"}
    return Cell("6.12.1", "nvme", known, scheduler, {}, variant, (), seconds=3, inputs=("a",), readings=rates)


def failing(about: analysis.Analysis, cells: Sequence[Cell]) -> set[str]:
    return {claim.id for claim in judged(about, cells) if not claim.holds}


def table(about: analysis.Analysis, cells: Sequence[Cell]) -> Table:
    (figure,) = about.figures(cells)
    (found,) = [panel for panel in figure.panels if isinstance(panel, Table)]
    return found


# wrr-share, wrr-bandwidth


def shared(low: float = 8e5) -> list[Cell]:
    return [
        cell("wrr", high=64e5, medium=32e5, low=low),
        *(cell(variant, scheduler, high=30e5, medium=30e5, low=30e5) for variant, scheduler in RIVALS),
    ]


def test_shares_are_the_weights_but_for_three_per_cent() -> None:
    (claim,) = judged(SHARE, shared())
    assert (claim.id, claim.measured, claim.holds) == ("shares", 0.0, True)
    assert not failing(SHARE, shared(8.2e5))
    assert failing(SHARE, shared(8.3e5)) == {"shares"}
    assert failing(SHARE, shared(7.7e5)) == {"shares"}


def test_an_application_that_got_nothing_has_no_share() -> None:
    assert failing(SHARE, shared(0)) == {"shares"}


def test_shares_need_the_drives_weights_alone() -> None:
    assert judged(SHARE, shared()[1:]) == []
    assert [claim.holds for claim in judged(SHARE, shared()[:1])] == [True]


def test_the_shares_of_all_ways_are_drawn() -> None:
    found = table(SHARE, shared())
    assert [row[0] for row in found.rows] == [
        "the drive's weights",
        "in turn",
        "mq-deadline, by class",
        "bfq, by class and level",
        "mq-prio, by class",
        "io.cost",
        "bfq, cgroups' weights",
    ]
    assert found.rows[0] == ("the drive's weights", "6.40", "3.20", "0.800", "10.4", "0")
    assert found.ours == {0}
    (figure,) = SHARE.figures(shared())
    bars = [panel for panel in figure.panels if isinstance(panel, Bars)]
    assert [round(bar.value, 1) for bar in bars[0].bars] == [61.5, 30.8, 7.7]
    assert SHARE.figures([]) == []


# wrr-background


def beside(turn: float = 0.33, sixteen: float = 0.94, most: float = 0.99) -> list[Cell]:
    """The parts of its reads alone that the foreground keeps."""
    ways = {"in-turn": turn, "wrr-16": sixteen, "wrr-128": most, "io-cost-16": sixteen, "io-cost-128": most}
    return [
        cell("alone", foreground=4096e3),
        *(cell(variant, foreground=4096e3 * part, background=4096e3 * (1 - part)) for variant, part in ways.items()),
        *(cell("in-turn", name, foreground=4096e3, background=0) for name in ("mq-deadline", "bfq", "mq-prio")),
    ]


def test_the_foreground_keeps_what_its_weight_says() -> None:
    claims = {claim.id: claim for claim in judged(BACKGROUND, beside())}
    assert {name: claim.measured for name, claim in claims.items()} == pytest.approx(
        {"wrr-16": 0.94, "wrr-128": 0.99, "in-turn": 0.33}
    )
    assert not failing(BACKGROUND, beside())
    assert failing(BACKGROUND, beside(sixteen=0.84)) == {"wrr-16"}
    assert failing(BACKGROUND, beside(most=0.94)) == {"wrr-128"}


def test_a_load_that_harms_nobody_shows_nothing() -> None:
    assert failing(BACKGROUND, beside(turn=0.51)) == {"in-turn"}


def test_what_is_kept_needs_who_is_alone() -> None:
    assert judged(BACKGROUND, beside()[1:]) == []
    assert BACKGROUND.figures(beside()[1:]) == []


def test_the_background_is_drawn_beside() -> None:
    found = table(BACKGROUND, beside())
    assert found.rows[0] == ("in turn", "330", "670", "33.0")
    assert found.rows[1] == ("weights 16:1", "940", "60.0", "94.0")
    assert [row[0] for row in found.rows][-3:] == ["mq-deadline, by class", "bfq, by class", "mq-prio, by class"]
    assert found.ours == {1, 2}


# wrr-compute


def computing(everywhere: float = 1.9, low: float = 8e5) -> list[Cell]:
    return [
        cell("everywhere", high=64e5, low=low, compute=everywhere),
        cell("affinity", high=64e5, low=8e5, compute=1.0),
    ]


def test_who_is_confined_computes_less() -> None:
    assert {claim.id: claim.measured for claim in judged(COMPUTE, computing())} == {"compute": 1.9, "shares": 0.0}
    assert failing(COMPUTE, computing(1.79)) == {"compute"}
    assert failing(COMPUTE, computing(low=8.3e5)) == {"shares"}
    assert [claim.id for claim in judged(COMPUTE, computing()[:1])] == ["shares"]


def test_what_is_computed_is_drawn() -> None:
    found = table(COMPUTE, computing())
    assert found.rows[0] == ("all cores", "1,562", "195", "0", "1.90")
    assert found.ours == {0}
    assert COMPUTE.figures(computing()[:1]) == []


@pytest.mark.parametrize("name", ["wrr-share", "wrr-bandwidth", "wrr-background", "wrr-compute"])
def test_what_the_analysis_asks_for_is_measured(name: str) -> None:
    about = analysis.load_of(name)
    wanted = {(variant, scheduler) for variant, scheduler in about.WAYS}  # type: ignore[attr-defined]
    loaded = description.load(name)
    points = plan.points(loaded, Choice())
    assert wanted <= {(point.variant.name, point.scheduler) for point in points}
