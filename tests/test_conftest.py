# SPDX-License-Identifier: GPL-2.0-only
"""Which tests run without --full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = """
import pytest

def test_short() -> None: ...

@pytest.mark.full
def test_long() -> None: ...
"""


def test_only_what_is_marked_is_skipped(tmp_path: Path) -> None:
    """Even if the checkout's folder has the marker's name."""
    folder = tmp_path / "full"
    folder.mkdir()
    for name in ("conftest.py", "costs.py"):
        shutil.copy(HERE / name, folder)
    (folder / "test_some.py").write_text(TESTS, encoding="utf-8")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}"]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "SLUICE_CACHE": str(tmp_path / "cache")}
    told = subprocess.run([*line, str(folder)], capture_output=True, text=True, check=False, env=env, cwd=tmp_path)
    assert "1 passed, 1 skipped" in told.stdout, told.stdout + told.stderr
