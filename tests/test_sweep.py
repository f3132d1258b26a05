# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: the options of the command line, the cells that they select, and the number of cells shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import samples
from msgspec.structs import replace

from lab import cli, description, job, modules, plan, report, result, study, sweep
from lab.errors import UsageError
from lab.plan import Choice


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:3", ("1", "2", "3")),
        ("1:10:4", ("1", "5", "9")),
        ("7:7", ("7",)),
        ("4", ("4",)),
        ("on", ("on",)),
    ],
)
def test_a_range_has_both_ends(text: str, expected: tuple[str, ...]) -> None:
    assert sweep.values(text) == expected
    assert sweep.values(sweep.spell(expected)) == expected


@pytest.mark.parametrize("text", ["5:1", "1:", ":5", "1:x", "1:5:0", "1:5:2:2", "-1:5", "1:99999"])
def test_a_bad_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="next: "):
        sweep.values(text)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--set", "nonsense=1:5"], "'nonsense'"),
        (["--set", "low_share=5:1"], "'5:1' is not a range"),
        (["--set", "low_share=1:5", "--seeds", "x"], "--seeds x"),
        (["--set", "low_share=1:5", "--variant", "nonsense"], "prio-aging has no variant called 'nonsense'; there are"),
        (["--set", "fifo_batch=1:5"], "no cell of prio-aging fits all that is asked for, with fifo_batch swept"),
        (["--set", "low_share=1:5", "--device", "floppy"], "no device called 'floppy'"),
        ([], "--set"),
    ],
)
def test_a_wrong_sweep_is_refused_at_once(
    args: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, before anything is set up."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    try:
        status = cli.main(["sweep", "prio-aging", *args])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_sweep_has_the_product_of_its_knobs() -> None:
    found = description.load("prio-mix")
    swept = (("low_share", ("1", "2", "3")), ("hold_ms", ("5", "10")))
    points = plan.points(found, Choice(("ssd",), variants=("solo",), seeds=(4, 5), sweep=swept))
    assert {point.scheduler for point in points} == {"mq-prio", "sluice"}
    assert {point.variant.seeds for point in points} == {(4, 5)}
    assert len({(point.scheduler, point.tunables) for point in points}) == len(points) == 12
    named = plan.points(found, Choice(("ssd",), ("none",), variants=("solo",), sweep=swept))
    assert [point.tunables for point in named] == [()]


def _result(count: int) -> result.Result:
    """About a thousand cells; the higher the share, the slower the database."""
    cells = [
        replace(
            samples.cell("ssd", "mq-prio", "be-levels"),
            tunables={"low_share": str(share)},
            jobs=(samples.job("database", 9000 - share, 2 + share, 4096), samples.job("backup", share, 50, 131072)),
        )
        for share in range(1, count + 1)
    ]
    return replace(samples.result(), cells=tuple(cells), claims=(), sweep={"low_share": sweep.values(f"1:{count}")})


def test_a_thousand_cells_are_a_few_rows(tmp_path: Path) -> None:
    found = _result(1000)
    drawn = report.figures(found)
    (table,) = report.printed(drawn)
    assert [row[2:] for row in table.rows] == [
        ("database", "IOPS", "8,000", "1000", "8,500", "8,999", "1"),
        ("database", "p99 ms", "3.00", "1", "502", "1,002", "1000"),
        ("backup", "IOPS", "1.00", "1", "500", "1,000", "1000"),
        ("backup", "p99 ms", "50.0", "1", "50.0", "50.0", "1000"),
    ]
    curves = [panel.title for figure in drawn if figure.id == "over-low_share" for panel in figure.panels]
    assert curves == ["ssd be-levels mq-prio: IOPS", "ssd be-levels mq-prio: p99 ms"]
    result.write(found, tmp_path)
    page = report.render(tmp_path)
    assert page.stat().st_size < 500_000
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 2001
    assert result.read(tmp_path) == found


def test_many_groups_are_cut_on_the_terminal_only() -> None:
    one = _result(2)
    cells = [replace(cell, variant=f"variant-{number}") for number in range(30) for cell in one.cells]
    first, rest, *_ = sweep.figures(cells, one.sweep)
    shown = [row for figure in (first, rest) for panel in figure.panels for row in getattr(panel, "rows", ())]
    assert len(shown) == 120
    (table,) = report.printed([first, rest])
    assert len(table.rows) == sweep.ROWS


def test_a_result_without_a_sweep_says_nothing_of_one() -> None:
    assert "sweep" not in samples.result().body()


def test_the_runs_of_a_sweep_share_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand runs hold each module only once."""
    monkeypatch.setattr(modules, "build", lambda *_: {"simdisk.ko": bytes(bytearray(b"disk" * 1000))})
    monkeypatch.setattr(job, "key", lambda one: one.script)
    found = description.load("prio-mix")
    point = plan.points(found, Choice(("ssd",), ("none",)))[0]
    first, second = (study.make_run(found, point, seed).job.files["simdisk.ko"] for seed in (1, 2))
    assert first is second
