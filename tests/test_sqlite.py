# SPDX-License-Identifier: GPL-2.0-only
"""The experiment with SQLite: its claims hold and fail where they should, and its table is drawn."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import samples
from msgspec.structs import replace
from samples import judged

from lab import analysis, description, fio
from lab.figure import Table
from lab.result import Cell

SQLITE = analysis.load_of("sqlite")
Readings = Mapping[str, float] | None
BUFFERS = ("256", "1k", "4k", "16k")
BEST = {"mq-deadline": 400.0, "bfq": 100.0, "split-deadline": 100.0, "sluice": 50.0}
"""The p99.9 of transactions in ms."""
NOT_BETTER = {f"{device}-{buffers}-bfq" for device in ("hdd", "ssd") for buffers in BUFFERS}
UNWRITTEN = {f"{device}-{what}" for device in ("hdd", "ssd") for what in ("checkpoint", "written")}


def cell(
    device: str,
    scheduler: str,
    variant: str,
    milliseconds: float,
    rate: float = 40,
    count: int = 10000,
    other: Readings = None,
) -> Cell:
    value = round(milliseconds * 1e6)
    one = replace(samples.job("transactions", rate, 1.0, 16384), sync=fio.latency(((value, count),), value, value))
    readings = dict.fromkeys(("checkpoints", "longest_s", "written"), 0.0)
    if variant != "alone":
        readings = {"checkpoints": 7.0, "longest_s": 0.1, "written": 0.95, **(other or {})}
    return Cell("6.12.1", device, {}, scheduler, {}, variant, (one,), readings=readings)


def measured(rate: float = 40, count: int = 10000, other: Readings = None, **changed: float) -> list[Cell]:
    """All cells, with other latencies of schedulers, or another rate, count or readings of split-deadline."""
    times = BEST | {name.replace("_", "-"): value for name, value in changed.items()}
    return [
        cell(device, name, variant, value, *((rate, count, other) if name == "split-deadline" else ()))
        for device in ("hdd", "ssd")
        for variant in ("alone", *BUFFERS)
        for name, value in times.items()
    ]


@pytest.mark.parametrize(
    ("cells", "fails"),
    [
        (measured(), set()),
        (measured(rate=38), set()),
        (measured(rate=37), {"hdd-throughput", "ssd-throughput"}),
        (measured(mq_deadline=390), {"hdd-1k"}),
        (measured(other={"longest_s": 0.11}), {"ssd-checkpoint"}),
        (measured(other={"longest_s": 10.1}), {"hdd-checkpoint", "ssd-checkpoint"}),
        (measured(other={"checkpoints": 0.0, "written": 0.85}), UNWRITTEN),
        (measured(count=9999), {"hdd-1k", *NOT_BETTER}),
        (measured(bfq=98), NOT_BETTER),
    ],
)
def test_claims_hold_and_fail(cells: list[Cell], fails: set[str]) -> None:
    claims = judged(SQLITE, cells)
    assert {claim.id for claim in claims if not claim.holds} == fails
    assert len(claims) == 15


def test_the_table_has_all_that_was_measured() -> None:
    figures = SQLITE.figures(measured())
    assert [figure.title for figure in figures] == ["SQLite on hdd (Fig 18)", "SQLite on ssd (Fig 18)"]
    (table,) = (panel for panel in figures[0].panels if isinstance(panel, Table))
    assert table.rows[0] == ("none", "mq-deadline", "40.0", "400", "400", "400", "400", "0", "0", "0")
    assert table.rows[-1] == ("16K", "sluice", "40.0", "50.0", "50.0", "50.0", "50.0", "7", "0.100", "0.950")


def test_the_experiment_is_whole() -> None:
    found = description.load("sqlite")
    assert {variant.name for variant in found.variants} == {"alone", *BUFFERS}
    assert found.contrib == ("sqlite",)
