# SPDX-License-Identifier: GPL-2.0-only
"""The unit tests in C (tests/units): built with the toolbox's compiler and run there."""

from __future__ import annotations

from pathlib import Path

from lab import toolbox

TOP = Path(__file__).parent.parent


def test_units(tmp_path: Path) -> None:
    """`make check` of tests/units passes: drives, costs, and their fuzzers."""
    box = toolbox.Sandbox(ro={"/tmp/top": TOP}, rw={"/tmp/out": tmp_path})
    toolbox.run(["make", "-C", "/tmp/top/tests/units", "O=/tmp/out", "CC=gcc-14", "check"], box)
