# SPDX-License-Identifier: GPL-2.0-only
"""The unit tests in C (tests/units): built with the toolbox's compiler and run there."""

from __future__ import annotations

import os
from pathlib import Path

from lab import passes, toolbox

TOP = Path(__file__).parent.parent


def test_units(tmp_path: Path) -> None:
    """`make check` of tests/units passes: drives, costs, and their fuzzers."""
    box = toolbox.Sandbox(ro={"/tmp/top": TOP}, rw={"/tmp/out": tmp_path})
    make = ["make", f"-j{os.cpu_count()}", "-C", "/tmp/top/tests/units", "O=/tmp/out", "CC=gcc-14", "check"]
    inputs = passes.contents(*(TOP / folder for folder in ("tests/units", "kernel/simdisk", "kernel/split")))
    passes.once(lambda: toolbox.run(make, box), *inputs)
