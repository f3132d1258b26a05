# SPDX-License-Identifier: GPL-2.0-only
"""The claims of fsync-isolation hold and fail where they should; its table is drawn."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import samples
from msgspec.structs import replace
from samples import judged

from lab import analysis, description, fio
from lab.figure import Table
from lab.result import Cell, Latency
from lab.schedulers import SCHEDULERS

ISOLATION = analysis.load_of("fsync-isolation")
SYSTEMS = ("ext4", "ext4-dioread-lock", "xfs")
BESIDE = (*SYSTEMS, "ext4-writeback")
ALONE = {"hdd": 30.0, "ssd": 16.0}
BEST: Mapping[str, tuple[float, float, float]] = {"hdd": (119.0, 5900.0, 0.42), "ssd": (23.0, 99.0, 1.4)}
"""Latencies in ms of the small and of the big process's fsyncs, and the big one's MB/s."""


def times(milliseconds: float) -> Latency:
    value = round(milliseconds * 1e6)
    return fio.latency(((value, 2000),), value, value)


def cell(scheduler: str, variant: str, small: float, big: float, rate: float, device: str) -> Cell:
    jobs = [replace(samples.job("small", 40, 1.0, 4096), sync=times(small))]
    if big:
        jobs.append(replace(samples.job("big", rate * 1e6 / 4096, 1.0, 4096), sync=times(big)))
    return Cell("6.12.1", device, {"profile": device}, scheduler, {}, variant, tuple(jobs), seconds=20, inputs=("a",))


def isolated(device: str, small: float, big: float, rate: float, rival: float = 5.5) -> list[Cell]:
    """Our figures, and mq-deadline's, whose small fsync takes `rival` times our best latency."""
    best = BEST[device]
    return [
        cell("split-deadline", "alone", ALONE[device], 0, 0, device),
        *(cell("split-deadline", system, small, big, rate, device) for system in BESIDE),
        cell("split-pdflush", "ext4-writeback", small, big, rate, device),
        *(cell("mq-deadline", system, best[0] * rival, best[1] / 2, best[2], device) for system in SYSTEMS),
    ]


def failing(cells: list[Cell]) -> set[str]:
    return {claim.id for claim in judged(ISOLATION, cells) if not claim.holds}


@pytest.mark.parametrize("device", BEST)
def test_both_in_time_holds(device: str) -> None:
    cells = isolated(device, *BEST[device])
    claims = {claim.id: claim for claim in judged(ISOLATION, cells)}
    assert all(claim.holds for claim in claims.values())
    named = {f"{what}-{system}-{device}" for what in ("small", "big", "mq-deadline") for system in SYSTEMS}
    assert set(claims) == named | {f"{name}-{device}" for name in ("small-ext4-writeback", "split-pdflush")}


@pytest.mark.parametrize(
    ("device", "changed", "what"),
    [
        ("hdd", {"small": 121.0}, "small"),
        ("ssd", {"small": 24.5}, "small"),
        ("hdd", {"big": 6001.0}, "big"),
        ("ssd", {"big": 101.0}, "big"),
    ],
)
def test_what_is_late_fails(device: str, changed: Mapping[str, float], what: str) -> None:
    figures = dict(zip(("small", "big", "rate"), BEST[device], strict=True)) | dict(changed)
    late = {f"{what}-{system}-{device}" for system in (BESIDE if what == "small" else SYSTEMS)}
    assert failing(isolated(device, **figures)) == late | ({f"split-pdflush-{device}"} if what == "small" else set())


def test_a_rival_that_is_as_good_fails() -> None:
    assert failing(isolated("hdd", *BEST["hdd"], rival=4.9)) == {f"mq-deadline-{system}-hdd" for system in SYSTEMS}


@pytest.mark.parametrize(("count", "holds"), [(1000, {"small", "mq-deadline"}), (999, {"mq-deadline"}), (99, set())])
def test_a_percentile_that_too_few_fsyncs_lie_beyond_says_nothing(count: int, holds: set[str]) -> None:
    def only(latency: Latency) -> Latency:
        return replace(latency, histogram=((latency.max, count),))

    cells = [
        replace(one, jobs=tuple(replace(job, sync=only(job.sync)) for job in one.jobs))
        for one in isolated("hdd", *BEST["hdd"])
    ]
    assert {"small", "mq-deadline"} - {name.removesuffix("-xfs-hdd") for name in failing(cells)} == holds


def test_a_deadline_that_a_disk_can_keep_alone_is_what_counts() -> None:
    cells = [replace(each, device="ssd") for each in isolated("hdd", 3.5, 90.0, 1.4)]
    cells[0] = cell("split-deadline", "alone", 2.0, 0, 0, "ssd")
    assert "small-ext4-ssd" not in failing(cells)
    cells[1] = cell("split-deadline", "ext4", 3.7, 90.0, 1.4, "ssd")
    assert "small-ext4-ssd" in failing(cells)


def test_the_table_has_all_that_was_measured() -> None:
    (figure,) = ISOLATION.figures(isolated("hdd", *BEST["hdd"]))
    (table,) = (panel for panel in figure.panels if isinstance(panel, Table))
    assert [row[:2] for row in table.rows][:2] == [("no other, ext4", "split-deadline"), ("ext4", "split-deadline")]
    assert table.rows[0][-1] == "–"
    assert [row[7] for row in table.rows if row[0] == "ext4, no fsyncs"] == ["–"] * 2
    assert table.rows[1][2:7] == ("2000", *["119"] * 4)
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_the_experiment_is_whole() -> None:
    found = description.load("fsync-isolation")
    assert {variant.name for variant in found.variants} == {"alone", *BESIDE}
    assert SCHEDULERS["split-deadline"].modules == ("sluice-cause", "split", "split-deadline")
