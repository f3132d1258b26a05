# SPDX-License-Identifier: GPL-2.0-only
"""iolat's results in runs of the lab: read, pooled, kept in results.json, shown; incomplete ones are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import samples
from msgspec.structs import replace

from lab import description, iolat, plan, report, result
from lab.errors import LabError
from lab.figure import Table
from lab.plan import Choice


def stage(*values: int) -> dict[str, Any]:
    return {
        "count": len(values),
        "sum": sum(values),
        "max": max(values),
        "histogram": [[value, values.count(value)] for value in sorted(set(values))],
    }


def printed(*rows: tuple[str, int, tuple[int, ...]], lost: int = 0, schema: int = iolat.SCHEMA) -> str:
    """iolat's output for I/Os of some class and level with these durations of each stage."""
    found = [
        {"ioclass": ioclass, "level": level, "op": "read", "stages": {name: stage(*values) for name in iolat.STAGES}}
        for ioclass, level, values in rows
    ]
    return json.dumps(
        {
            "schema": schema,
            "lost": {"lost_ios": lost, "lost_events": 0},
            "rows": found,
            "files": [{"layer": "file-system", "op": "read", **stage(7)}],
        }
    )


def test_runs_are_pooled_in_all_and_by_priority() -> None:
    seen = iolat.seen([printed(("be", 1, (10, 20)), ("be", 7, (100,))), printed(("be", 1, (30, 30)))])
    assert set(seen) == {"all", "be/1", "be/7", "read", "files"}
    assert seen["files"]["read"].histogram == ((7, 2),)
    assert seen["be/1"]["d2c"].histogram == ((10, 1), (20, 1), (30, 2))
    assert (seen["all"]["q2c"].max, seen["all"]["q2c"].mean) == (100, 38.0)
    assert seen["be/1"]["q2d"].p50 == 20


def test_no_runs_and_no_io_are_nothing_seen() -> None:
    assert iolat.seen([]) == {}
    assert iolat.seen([printed()]) == {}


@pytest.mark.parametrize("text", ["", "{}", "iolat: no", printed(schema=2)])
def test_what_is_no_output_of_iolat_is_refused(text: str) -> None:
    with pytest.raises(LabError, match="unexpected"):
        iolat.seen([text])


def test_lost_io_is_an_error() -> None:
    with pytest.raises(LabError, match="lost_ios"):
        iolat.seen([printed(("be", 1, (1,)), lost=3)])


def test_the_cost_is_what_is_left_of_the_iops() -> None:
    cell = samples.cell("ssd", "mq-prio", "be-levels")
    slower = [replace(job, iops=job.iops * 0.99) for job in cell.jobs]
    assert iolat.cost(cell.jobs, slower) == {"database": 0.99, "backup": 0.99}


def watched() -> result.Result:
    found = samples.result()
    seen = iolat.seen([printed(("be", 1, (1000, 3000)), ("be", 7, (90000,)))])
    found_in = {"stages": seen.pop("all"), "stages_by": seen}
    cells = tuple(replace(cell, **found_in, watched={"database": 0.97, "backup": 1.01}) for cell in found.cells[:2])
    return replace(found, cells=cells)


def test_results_keep_the_stages_and_change_nothing_without() -> None:
    found = watched()
    again = result.from_json(json.loads(result.dumps(found)))
    assert again == found and again.digest == found.digest
    assert set(found.body()["cells"][0]["stages"]) == set(iolat.STAGES)
    assert "stages" not in samples.result().body()["cells"][0]


def test_the_report_shows_stages_and_what_watching_cost() -> None:
    (figure,) = report.stages(watched().cells)
    (table,) = figure.panels
    assert isinstance(table, Table)
    assert ("ssd solo", "none", "be/7", *["90.0"] * 10) in table.rows
    assert [row[2] for row in table.rows] == ["all", "be/1", "be/7"] * 2
    assert "-3.00 %" in figure.text and "database" in figure.text
    assert report.stages(samples.cells()) == []
    line = report.table_csv(watched().cells).splitlines()[1].split(",")
    assert line[report.COLUMNS.index("d2c_p99_ns")] == "3000"


def test_each_run_is_done_again_with_iolat_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iolat, "build", lambda: {"iolat": b"program"})
    found = description.load("prio-mix")
    point = plan.points(found, Choice(schedulers=("none",)))[0]
    alone, seen = (plan.make_job(found, point, 1, {}, watched) for watched in (False, True))
    assert "iolat" not in alone.files and "WATCH" not in alone.script
    assert "iolat" in seen.files and "export WATCH='--json --all" in seen.script
