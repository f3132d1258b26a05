# SPDX-License-Identifier: GPL-2.0-only
"""The claims of CPQ's three experiments hold where they should and fail where they should; their figures are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import samples
from msgspec.structs import replace
from samples import judged

from lab import analysis, description, fio, plan, report, result
from lab.figure import Table
from lab.plan import Choice
from lab.result import Cell, Cpu, Job, Window

SIX = analysis.load_of("cpq-six")
LATENCY = analysis.load_of("cpq-latency")
FAIRNESS = analysis.load_of("cpq-fairness")
SCHEDULERS = ("none", "mq-deadline", "cpq")
ALONE = ("standard", "ionice-low", "ionice-high", "mixed", "app1", "ionice-low-text", "ionice-high-text", "app1-text")
CONTENDED = {"app2": "background", "standard-text": "", "mixed-text": "backup", "app2-text": "background"}
COUNTED = {"ionice-low": "idle", "ionice-high": "rt"}
LATER = {"app1": "", "app2": "background", "app1-text": "", "app2-text": "background"}
COSTS = ("cpu-app1", "cpu-standard", "cpu-mixed")


def cell(scheduler: str, variant: str, *jobs: Job, device: str = "emmc", cost: float = 0.0) -> Cell:
    settings = {"iosched/max_tgroup_io_ratio": "50"} if scheduler == "cpq" else {}
    return Cell("6.12.1", device, {"profile": device}, scheduler, {}, variant, jobs, Cpu(cost), settings, 4, ("key",))


def failing(about: analysis.Analysis, cells: Sequence[Cell]) -> set[str]:
    return {claim.id for claim in judged(about, cells) if not claim.holds}


def tables(about: analysis.Analysis, cells: Sequence[Cell]) -> dict[str, Table]:
    panels = [panel for figure in about.figures(cells) for panel in figure.panels]
    return {panel.title: panel for panel in panels if isinstance(panel, Table)}


def named(experiment_name: str, cells: Sequence[Cell]) -> result.Result:
    return replace(samples.result(), experiment=experiment_name, cells=tuple(cells))


# cpq-six


def six(gains: dict[str, float], device: str = "emmc") -> list[Cell]:
    """cpq's IOPS over mq-deadline's by variant; by default the same alone, and 15 % more if contended."""
    found = []
    for variant in (*ALONE, *CONTENDED):
        job = COUNTED.get(variant.removesuffix("-text"), variant.removesuffix("-text"))
        for scheduler in SCHEDULERS:
            gain = gains.get(variant, 1.15 if variant in CONTENDED else 1.0) if scheduler == "cpq" else 1.0
            jobs = [samples.job(job, 7000 * gain, 0.2, 4096)]
            if CONTENDED.get(variant):
                jobs.append(samples.job(CONTENDED[variant], 800, 20.0, 131072))
            found.append(cell(scheduler, variant, *jobs, device=device))
    return found


def test_six_holds_where_nothing_is_lost() -> None:
    claims = {claim.id: claim for claim in judged(SIX, six({}))}
    assert set(claims) == {*ALONE, *CONTENDED, "mean", "mean-text"}
    assert all(claim.holds for claim in claims.values())
    assert claims["ionice-high"].paper == pytest.approx(0.9836)
    assert claims["mean"].measured == pytest.approx(15 / 6)


@pytest.mark.parametrize("variant", ALONE)
def test_six_fails_where_one_alone_loses(variant: str) -> None:
    assert failing(SIX, six({variant: 0.996})) == set()
    assert failing(SIX, six({variant: 0.994})) == {variant}


@pytest.mark.parametrize("variant", CONTENDED)
def test_six_fails_where_contention_gains_little(variant: str) -> None:
    assert variant in failing(SIX, six({variant: 1.039}))
    assert variant not in failing(SIX, six({variant: 1.041}))


def test_six_fails_where_the_mean_is_low() -> None:
    assert failing(SIX, six({"app2": 1.11})) == {"mean"}
    assert failing(SIX, six(dict.fromkeys(("app2-text", "standard-text", "mixed-text"), 1.04))) == set()


def test_six_is_judged_on_the_paper_s_device_only() -> None:
    assert judged(SIX, six({}, "ssd")) == []


def test_six_shows_the_paper_s_figures_and_what_the_writers_got() -> None:
    shown = tables(SIX, [*six({}), *six({}, "hdd")])
    rows = {row[0]: row for row in shown["IOPS on emmc, and % against mq-deadline"].rows}
    assert rows["app2"] == ("app2", "2,590", "+2.05", "7,000", "+0.00", "+15.00")
    assert rows["mean-text"][-1] == "+7.50"
    assert shown["Writers on hdd, MB/s"].rows[-1] == ("cpq", "105", "105", "105")


def test_six_of_a_part_has_no_mean() -> None:
    some = [one for one in six({}) if one.variant in ("app1", "app2")]
    assert {claim.id for claim in judged(SIX, some)} == {"app1", "app2"}
    assert [row[0] for row in tables(SIX, some)["IOPS on emmc, and % against mq-deadline"].rows] == ["app1", "app2"]


# cpq-latency


def latency(alone: float = 1.0, beside: float = 0.9, median: float = 1.0, added: float = 1700.0) -> list[Cell]:
    """cpq's p99.9 over mq-deadline's alone and beside writes, its medians over theirs, its added cost per I/O."""
    found = []
    for variant, beside_it in LATER.items():
        for scheduler in SCHEDULERS:
            tail, middle = ((beside if beside_it else alone), median) if scheduler == "cpq" else (1.0, 1.0)
            times = fio.latency(((int(middle * 120e3), 9950), (int(tail * 9e6), 50)), 2e5, 20_000_000)
            reader = replace(samples.job(variant.removesuffix("-text"), 7000, 0.2, 4096), lat=times)
            writer = [samples.job(beside_it, 800, 20.0, 65536)] if beside_it else []
            found.append(cell(scheduler, variant, reader, *writer))
    costs = {"none": 0.0, "mq-deadline": 1700.0, "cpq": added}
    return found + [
        cell(name, variant, samples.job("app1", 1e5, 0.1, 4096), device="null", cost=9000 + costs[name])
        for variant in COSTS
        for name in SCHEDULERS
    ]


def test_latency_holds_where_the_tail_is_shorter() -> None:
    assert len(judged(LATENCY, latency())) == 7
    assert failing(LATENCY, latency()) == set()


def test_latency_fails_where_it_is_not() -> None:
    assert failing(LATENCY, latency(alone=1.01)) == {"p999-alone"}
    assert failing(LATENCY, latency(beside=0.94)) == {"p999-beside-writes"}
    assert failing(LATENCY, latency(median=1.01)) == {"p50-alone", "p50-beside-writes"}
    assert failing(LATENCY, latency(added=1701.0)) == set(COSTS)


def test_latency_shows_the_paper_s_tables() -> None:
    shown = tables(LATENCY, latency())
    rows = shown["app1 on emmc, µs: one application alone"].rows
    assert rows[2] == ("cpq", "200", "120", "120", "120", "9,000", "20,000", "7,000")
    assert rows[-1] == ("paper: cpq", "315", "306", "441", "502", "594", "–", "–")
    assert shown["Instructions per I/O"].rows[2][:3] == ("cpq", "10,700", "1,700")
    assert shown["Instructions per I/O"].rows[-1][2] == "9.87 %"


def test_latency_needs_no_cpu_to_be_drawn() -> None:
    assert not any(figure.id == "table-5" for figure in LATENCY.figures(latency()[: -len(COSTS) * 3]))


# cpq-fairness


def steady(name: str, iops: float, p99_ms: float, seconds: float = 4) -> Job:
    series = tuple(
        Window(start / 2, round(iops / 2), p99_ms * 5e5, int(p99_ms * 1e6)) for start in range(int(seconds * 2))
    )
    return replace(samples.job(name, iops, p99_ms, 4096), series=series)


def fairness(**changed: tuple[float, float]) -> list[Cell]:
    """Database and web server with the expected figures, except cpq's web server: variant = (IOPS, p99 in ms)."""
    found = []
    for scheduler in SCHEDULERS:
        ours = scheduler == "cpq"
        for variant in ("plain", "hungry", *FAIRNESS.AGGRESSORS):  # type: ignore[attr-defined]
            usual = (5500.0 if variant == "hungry" else 4800.0, 14.0) if ours else (1000.0, 66.0)
            iops, p99 = changed.get(variant.replace("-", "_"), usual) if ours else usual
            jobs = [steady("database", 11000 - iops, 100.0), steady("web", iops, p99, 2)]
            if variant not in ("plain", "hungry"):
                jobs.append(steady("aggressor", 3000.0, 200.0))
            found.append(cell(scheduler, variant, *jobs))
    for variant in ("alone", "alone_unfair"):
        iops, p99 = changed.get(variant, (11000.0, 100.0))
        found.append(cell("cpq", variant.replace("_", "-"), steady("database", iops, p99)))
    return found


def test_fairness_holds_where_the_web_server_has_its_share() -> None:
    claims = {claim.id: claim for claim in judged(FAIRNESS, fairness())}
    assert len(claims) == 12
    assert all(claim.holds for claim in claims.values())
    assert claims["web-share"].measured == pytest.approx(4800 / 11000)
    assert claims["web-share"].paper == pytest.approx(50 / 1050, abs=1e-4)


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({"plain": (4300.0, 14.0)}, {"web-share"}),
        ({"plain": (4800.0, 16.6)}, {"web-p99"}),
        ({"hungry": (4100.0, 14.0)}, {"jain"}),
        ({"fork": (4300.0, 14.0)}, {"fork-service"}),
        ({"fork_thread_groups": (4300.0, 15.5)}, {"fork-thread-groups-service", "fork-thread-groups-p99"}),
        ({"io_uring": (4800.0, 15.5)}, {"io-uring-p99"}),
        ({"page_cache": (4300.0, 15.5)}, {"page-cache-service", "page-cache-p99"}),
        ({"alone": (10880.0, 100.0)}, {"alone"}),
    ],
)
def test_fairness_fails_where_it_has_not(changed: dict[str, tuple[float, float]], fails: set[str]) -> None:
    assert failing(FAIRNESS, fairness(**changed)) == fails


def test_only_the_time_is_counted_in_which_both_wait() -> None:
    cells = fairness()
    plain = next(one for one in cells if one.scheduler == "cpq" and one.variant == "plain")
    database, web = plain.jobs
    alone = tuple(
        replace(window, ios=window.ios * 9) if not 1 <= window.start_s < 3 else window for window in database.series
    )
    changed = replace(plain, jobs=(replace(database, series=alone), web))
    assert failing(FAIRNESS, [changed if one is plain else one for one in cells]) == set()


def test_a_scheduler_that_starves_it_shows() -> None:
    shown = tables(FAIRNESS, fairness())["database and web server"]
    rows = {row[0]: row for row in shown.rows}
    assert rows["mq-deadline"][:3] == ("mq-deadline", "1,000", "9.09")
    assert rows["cpq"][-2:] == ("0.984", "6,200")
    assert shown.ours == frozenset({2})


# All three


@pytest.mark.parametrize(
    ("name", "cells"), [("cpq-six", six({})), ("cpq-latency", latency()), ("cpq-fairness", fairness())]
)
def test_a_page_can_be_made(name: str, cells: list[Cell]) -> None:
    found = named(name, cells)
    text = report.html(found, report.figures(found))
    assert text.count("<svg") >= 4


def test_the_contract_names() -> None:
    six_names = {variant.name for variant in description.load("cpq-six").variants}
    assert six_names == {
        name + kind
        for name in ("standard", "ionice-low", "ionice-high", "mixed", "app1", "app2")
        for kind in ("", "-text")
    }
    assert {variant.name for variant in description.load("cpq-fairness").variants} >= {
        "plain",
        "fork",
        "io-uring",
        "page-cache",
    }
    for name in ("cpq-six", "cpq-latency"):
        assert {point.device for point in plan.points(description.load(name), Choice())} >= {"emmc", "ssd", "hdd"}
