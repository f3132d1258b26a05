# SPDX-License-Identifier: GPL-2.0-only
"""The experiment with SQLite: its claims hold and fail where they should, and its table is drawn."""

from __future__ import annotations

import pytest
import samples
from msgspec.structs import replace
from samples import judged

from lab import analysis, description, fio
from lab.figure import Table
from lab.result import Cell

SQLITE = analysis.load_of("sqlite")
BUFFERS = ("256", "1k", "4k", "16k")
BEST = {"mq-deadline": 400.0, "bfq": 100.0, "split-deadline": 100.0, "sluice": 50.0}
"""The p99.9 of transactions in ms."""


def cell(device: str, scheduler: str, variant: str, milliseconds: float, rate: float = 40) -> Cell:
    value = round(milliseconds * 1e6)
    one = replace(samples.job("transactions", rate, 1.0, 16384), sync=fio.latency(((value, 2000),), value, value))
    readings = {"checkpoints": 7.0, "checkpoint_s": 1.5} if variant != "alone" else {"checkpoints": 0.0}
    return Cell("6.12.1", device, {}, scheduler, {}, variant, (one,), readings={"checkpoint_s": 0.0, **readings})


def measured(rate: float = 40, **changed: float) -> list[Cell]:
    """All cells, with other latencies of schedulers or another rate of split-deadline."""
    times = BEST | {name.replace("_", "-"): value for name, value in changed.items()}
    return [
        cell(device, name, variant, value, rate if name == "split-deadline" else 40)
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
        (measured(bfq=98), {f"{device}-{buffers}-bfq" for device in ("hdd", "ssd") for buffers in BUFFERS}),
    ],
)
def test_claims_hold_and_fail(cells: list[Cell], fails: set[str]) -> None:
    claims = judged(SQLITE, cells)
    assert {claim.id for claim in claims if not claim.holds} == fails
    assert len(claims) == 11


def test_the_table_has_all_that_was_measured() -> None:
    figures = SQLITE.figures(measured())
    assert [figure.title for figure in figures] == ["SQLite on hdd (Fig 18)", "SQLite on ssd (Fig 18)"]
    (table,) = (panel for panel in figures[0].panels if isinstance(panel, Table))
    assert table.rows[0] == ("none", "mq-deadline", "40.0", "400", "400", "400", "400", "0", "–")
    assert table.rows[-1] == ("16K", "sluice", "40.0", "50.0", "50.0", "50.0", "50.0", "7", "1.50")


def test_the_experiment_is_whole() -> None:
    found = description.load("sqlite")
    assert {variant.name for variant in found.variants} == {"alone", *BUFFERS}
    assert found.contrib == ("sqlite",)
