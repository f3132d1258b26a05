# SPDX-License-Identifier: GPL-2.0-only
"""The remaining time of a command: the forecast from similar runs, and its display."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lab import durations, progress
from lab.durations import Forecast, Like

DATABASE = Like("prio-mix", "ssd", "mq-prio", "be-levels")
SIBLING = Like("prio-mix", "ssd", "bfq", "be-levels")
DISK = Like("prio-mix", "hdd", "bfq", "be-levels")


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))


def test_nothing_is_forecast_before_anything_is_known() -> None:
    assert Forecast([DATABASE, DISK], 2).left_s is None


def test_what_like_runs_took_before_is_known() -> None:
    durations.keep(DATABASE, 40.0, 80.0)
    assert Forecast([DATABASE, DATABASE], 2).left_s == 40.0
    assert Forecast([DATABASE], 2).left_s == 40.0


def test_a_run_takes_as_long_as_the_nearest_one() -> None:
    durations.keep(DATABASE, 40.0, 40.0)
    durations.keep(DISK, 6.0, 6.0)
    assert Forecast([DATABASE, SIBLING, DISK], 1).left_s == 40 + 40 + 6


def test_a_busy_host_makes_what_is_left_longer() -> None:
    forecast = Forecast([DATABASE, SIBLING, SIBLING], 1)
    forecast.ended(DATABASE, 10.0, 30.0)
    assert forecast.left_s == 60.0
    forecast.ended(SIBLING, 20.0, 60.0)
    assert forecast.left_s == 60.0
    assert durations.kept(SIBLING) == 20.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "about 10 s left"), (41, "about 50 s left"), (90, "about 90 s left"), (121, "about 3 min left")],
)
def test_what_is_left_in_words(seconds: float, words: str) -> None:
    assert progress.time_left(seconds) == words


def test_a_long_step_is_never_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "SAY_EVERY_S", 0.01)
    with progress.step("Runs") as step:
        said = ""
        step.note("1 of 4 runs", 150)
        end = time.monotonic() + 10
        while "1 of 4 runs, about 3 min left" not in said and time.monotonic() < end:
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert "1 of 4 runs, about 3 min left" in said
    progress.say("end")
    assert "Runs: 0 s\nend" in capsys.readouterr().err
