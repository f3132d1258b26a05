# SPDX-License-Identifier: GPL-2.0-only
"""Which tests run without --full, with it, and with --planted, and in which order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ORDER = """
import pytest

@pytest.mark.alone
@pytest.mark.limit(5)
def test_race(lab): ...

@pytest.mark.late
@pytest.mark.limit(9)
def test_storm(lab): ...

@pytest.mark.late
@pytest.mark.limit(8)
def test_debug(lab): ...

@pytest.mark.limit(7)
def test_guest(lab): ...

@pytest.mark.limit(600)
def test_long_guest(lab): ...

def test_unit(): ...
"""
TESTS = """
import pytest

def test_short() -> None: ...

@pytest.mark.full
def test_long() -> None: ...

@pytest.mark.planted
def test_of_a_test() -> None: ...
"""


@pytest.mark.parametrize(
    ("option", "wanted"),
    [([], "1 passed, 2 skipped"), (["--full"], "2 passed, 1 skipped"), (["--planted"], "1 passed in")],
    ids=["usual", "full", "planted"],
)
def test_only_what_is_marked_is_skipped(tmp_path: Path, option: list[str], wanted: str) -> None:
    """Even if the checkout's folder has the marker's name."""
    assert wanted in tell(tmp_path, TESTS, *option)


def test_the_longest_guest_is_first_and_a_race_last(tmp_path: Path) -> None:
    found = re.findall(r"::test_(\w+)", tell(tmp_path, ORDER, "--collect-only"))
    assert found == ["long_guest", "guest", "unit", "debug", "storm", "race"]


def tell(tmp_path: Path, tests: str, *option: str) -> str:
    """What pytest prints, with these options, about a file of tests beside our conftest.py."""
    folder = tmp_path / "full"
    folder.mkdir()
    for name in ("conftest.py", "costs.py"):
        shutil.copy(HERE / name, folder)
    (folder / "test_some.py").write_text(tests, encoding="utf-8")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}"]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "SLUICE_CACHE": str(tmp_path / "cache")}
    line += [*option, str(folder)]
    told = subprocess.run(line, capture_output=True, text=True, check=False, env=env, cwd=tmp_path)
    return told.stdout + told.stderr
