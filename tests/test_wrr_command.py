# SPDX-License-Identifier: GPL-2.0-only
"""`sluice wrr` without a controller: what it makes of figures and of arguments. tests/guest/wrr-command.sh has one."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from lab import wrr
from lab.errors import LabError, UsageError
from lab.wrr import Controller, Trial

NAMES = ("high", "medium", "low")
ONE = Controller("0000:01:00.0", Path("/none"), wrr.OURS, "nvme0")
OTHER = Controller("0000:02:00.0", Path("/none"), wrr.STOCK, "nvme1")


def trials(*shares: tuple[float, float, float]) -> list[Trial]:
    """A drive that gave these shares in each of the probe's trials."""
    return [
        Trial(weights, dict(zip(NAMES, parts, strict=True)), 1000.0)
        for weights, parts in zip(wrr.TRIALS, shares, strict=True)
    ]


THIRD = (1 / 3, 1 / 3, 1 / 3)


def test_a_drive_that_honours_its_weights() -> None:
    found = wrr.verdict(trials(THIRD, (0.61, 0.31, 0.08), (0.08, 0.31, 0.61)))
    assert found == "honours its weights: shares are at most 4% off"


def test_a_drive_that_ignores_its_weights() -> None:
    found = wrr.verdict(trials((0.34, 0.33, 0.33), (0.35, 0.33, 0.32), (0.34, 0.32, 0.34)))
    assert found.startswith("does not act on its weights: they change shares by at most 3%")


def test_a_drive_that_does_half_of_it() -> None:
    found = wrr.verdict(trials(THIRD, (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)))
    assert found == "acts on its weights in part: shares are up to 160% off, and move by up to 50%"


def test_only_levels_that_have_a_class_count() -> None:
    two = [Trial(weights, {"high": 64 / 72, "low": 8 / 72}, 1.0) for weights in [(64, 32, 8)]]
    equal = Trial((1, 1, 1), {"high": 0.5, "low": 0.5}, 1.0)
    assert wrr.verdict([equal, *two]) == "honours its weights: shares are at most 0% off"


def test_the_controller_is_the_only_one_or_named() -> None:
    assert wrr.choose(None, [ONE]) == ONE
    assert wrr.choose("nvme1", [ONE, OTHER]) == OTHER
    assert wrr.choose("/dev/nvme1", [ONE, OTHER]) == OTHER
    assert wrr.choose("0000:01:00.0", [ONE, OTHER]) == ONE
    with pytest.raises(UsageError, match="there are several controllers: nvme0, nvme1"):
        wrr.choose(None, [ONE, OTHER])
    with pytest.raises(UsageError, match="no NVMe controller nvme2; there are nvme0, nvme1"):
        wrr.choose("nvme2", [ONE, OTHER])
    with pytest.raises(LabError, match="no NVMe controller on PCI"):
        wrr.choose(None, [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("weights 0 1 1", "'0' is no weight from 1 to 256"),
        ("weights 1 257 1", "'257' is no weight from 1 to 256"),
        ("weights 1 1 x", "'x' is no weight from 1 to 256"),
        ("probe --seconds 0", "'0' is no number of seconds from 0.5 to 600"),
        ("probe --seconds nan", "'nan' is no number of seconds from 0.5 to 600"),
        ("probe --depth 1025", "'1025' is no depth from 1 to 1024"),
        ("frobnicate", "invalid choice: 'frobnicate'"),
    ],
)
def test_bad_arguments_are_refused(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser("sluice wrr")
    wrr.arguments(parser)
    with pytest.raises(SystemExit) as end:
        parser.parse_args(line.split())
    assert end.value.code == 2
    assert said in capsys.readouterr().err
