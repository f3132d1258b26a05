# SPDX-License-Identifier: GPL-2.0-only
"""Every claim of every experiment, judged on made-up cells: none is lost, and none holds where nothing was done."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import pytest
import samples
from msgspec.structs import replace

from lab import analysis, description, fio, plan, study
from lab.analysis import Analysis, Missing
from lab.description import Experiment
from lab.plan import Choice, Point
from lab.result import NOT_JUDGED, Cell, Claim, Cpu, Job, Latency

NAMES = description.names()
NO_CLAIMS = {"fsync-dependency"}
"""It asks how the kernel behaves, and makes no claim."""
JOBS = {
    "levels.sh": tuple(f"p{level}" for level in range(8)),
    "sysbench.sh": ("sysbench",),
    "fairness.sh": ("database", "web", "aggressor"),
    "isolation.sh": ("small", "big"),
    "fsync.sh": ("small", "big"),
    "memory.sh": ("load",),
    "overhead.sh": ("load",),
    "cost.sh": ("load",),
    "token.sh": ("unthrottled", "throttled"),
    "burst.sh": ("reader", "burst"),
    "wrr.sh": (),
    "copy.sh": ("log", "reads"),
    "desktop.sh": ("editor",),
    "demand.sh": ("deep", "light", "thinking", "logging"),
    "sqlite.sh": ("transactions",),
}
READINGS = {
    "memory.sh": ("ram-bytes", "average-bytes", "most-bytes"),
    "overhead.sh": ("writeback-instructions-per-page",),
    "cost.sh": ("tokens", "charged"),
    "token.sh": ("paid",),
    "copy.sh": ("neighbour",),
    "desktop.sh": ("start", "start-worst", "frames", "frame-late", "copied", "built"),
    "sqlite.sh": ("checkpoints", "longest_s", "written"),
    "wrr.sh": ("high", "medium", "low", "foreground", "background", "compute"),
}
DEVICES = ("ssd", "hdd", "emmc", "nvme", "null_blk")


def latency(scale: float) -> Latency:
    """2,000 I/Os; none where the scale is 0."""
    value = round(1e6 * scale)
    return fio.latency(((value, 1900), (2 * value, 100)), 1e6 * scale, 2 * value) if scale else Latency()


def job(name: str, scale: float) -> Job:
    rate, times = 1000.0 * scale, latency(scale)
    made = samples.job(name, rate, 1.0, 4096)
    series = tuple(replace(window, ios=round(10 * scale)) for window in made.series)
    return replace(made, iops=rate, lat=times, clat=times, sync=times, series=series, ios=round(rate))


def _jobs(point: Point) -> tuple[str, ...]:
    """None where the script leaves out what it measures, so that a neighbour is alone."""
    if any(point.variant.env.get(name) == "" for name in ("DATABASE", "DESKTOP")):
        return ()
    return JOBS.get(point.variant.load, point.variant.sections)


def cell(experiment: Experiment, point: Point, scale: float) -> Cell:
    """A cell whose figures have about that scale, if its load has any."""
    load, stage = point.variant.load, latency(scale)
    stages = {name: {"d2c": stage, "q2d": stage, "read": stage} for name in ("read", "write", "be/0", "files")}
    return Cell(
        "6.12.1",
        point.device,
        {},
        point.scheduler,
        dict(point.tunables),
        point.variant.name,
        tuple(job(name, scale) for name in _jobs(point)),
        Cpu(1000.0 * scale),
        {"iosched/low_share": "8"},
        plan.seconds(experiment, point),
        ("key",),
        stages_by=stages if experiment.iolat is not None and scale else {},
        readings={name: 1e6 * (scale or name == "ram-bytes") for name in READINGS.get(load, ())},
    )


def whole(name: str, scale: Mapping[int, float] | float = 1.0) -> tuple[list[Cell], list[Cell]]:
    """Every cell of an experiment, in the order of its plan, and the plan."""
    experiment = description.load(name)
    points = plan.points(experiment, Choice())
    sizes = [scale.get(number, 1.0) if isinstance(scale, Mapping) else scale for number in range(len(points))]
    cells = [cell(experiment, point, size) for point, size in zip(points, sizes, strict=True)]
    return cells, study.planned(experiment)


def judged(about: Analysis, cells: Iterable[Cell], planned: list[Cell]) -> dict[str, Claim]:
    return {claim.id: claim for claim in samples.judged(about, list(cells), planned)}


def unjudged(about: Analysis, cells: list[Cell], planned: list[Cell]) -> set[str]:
    return {name for name, claim in judged(about, cells, planned).items() if claim.state == NOT_JUDGED}


@pytest.mark.parametrize("values", [(math.nan, 1.0), (1.0, math.nan), ()])
def test_the_worst_of_what_is_not_known_is_not_known(values: tuple[float, ...]) -> None:
    """max() and min() return a NaN or not, depending on its place."""
    assert math.isnan(analysis.worst(values))
    assert math.isnan(analysis.worst(values, min))
    assert (analysis.worst([1.0, 2.0]), analysis.worst([1.0, 2.0], min)) == (2.0, 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_run_judges_every_claim(name: str) -> None:
    cells, planned = whole(name)
    claims = judged(analysis.load_of(name), cells, planned)
    assert bool(claims) == (name not in NO_CLAIMS)
    assert unjudged(analysis.load_of(name), cells, planned) == set()


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_of_what_is_there_are_drawn(name: str) -> None:
    """While an experiment runs its tables are printed, of whichever cells are done."""
    cells, _ = whole(name)
    for variant in {cell.variant for cell in cells}:
        analysis.figures(
            analysis.load_of(name), [cell for cell in cells if cell.variant in (cells[0].variant, variant)]
        )
    assert name in NO_CLAIMS or analysis.load_of(name).figures(cells)


def test_every_claim_belongs_to_an_experiment() -> None:
    """A claim about a variant that no experiment has would never be judged."""
    stated: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for name in NAMES:
        about = analysis.load_of(name)
        file = str(about.__file__)  # type: ignore[attr-defined]
        ids = [judgement.id for judgement in about.judgements()]
        assert len(set(ids)) == len(ids)
        stated[file] = set(ids)
        found.setdefault(file, set()).update(judged(about, *whole(name)))
    assert found == stated


@pytest.mark.parametrize("name", NAMES)
def test_no_claim_holds_where_nothing_was_done(name: str) -> None:
    claims = judged(analysis.load_of(name), *whole(name, 0.0))
    assert [claim.id for claim in claims.values() if claim.holds] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_without_one_of_its_cells_is_listed_and_not_judged(name: str) -> None:
    """Whichever cell is missing: a claim is judged on all of its cells or not at all, and never left out."""
    about = analysis.load_of(name)
    cells, planned = whole(name, {number: 1 + number % 97 / 1000 for number in range(1000)})
    everything = judged(about, cells, planned)
    for number in range(len(cells)):
        some = judged(about, cells[:number] + cells[number + 1 :], planned)
        assert some.keys() >= everything.keys()
        for claim in some.values():
            assert claim.state == NOT_JUDGED or claim == everything[claim.id]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_named_with_its_place(name: str) -> None:
    for judgement in analysis.load_of(name).judgements():
        with pytest.raises(Missing) as caught:
            judgement.measure([])
        assert len(caught.value.place) == len(analysis.PLACE)


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_about_a_worst_case_is_a_bound(name: str) -> None:
    worst = re.compile(r"\b(least|longest|most)\b|\blargest\b(?!.* over the smallest)")
    for judgement in analysis.load_of(name).judgements():
        assert judgement.bound == bool(worst.search(judgement.text)), judgement.text


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_can_be_read_alone(name: str) -> None:
    for judgement in analysis.load_of(name).judgements():
        assert any(re.search(rf"\b{device}\b", judgement.text) for device in DEVICES), judgement.text
        assert not re.search(r"\b(who|whoever|whom|he|him|his|somebody|nobody)\b", judgement.text), judgement.text
