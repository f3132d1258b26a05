# SPDX-License-Identifier: GPL-2.0-only
"""The guide that adds an elevator: its files, as they are on the page, are built, tested and measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_guest import complaints

from lab import job, kernels, modules
from lab.job import Job

TOP = Path(__file__).parent.parent
GUIDE = TOP / "docs/guide-elevator.md"
# A block of four spaces below the line that names its file, and the block of changes to files that are there.
FILE = re.compile(r"^`([\w/.-]+)`[^\n`]*:\n\n((?:    .*\n|\n)+)", re.MULTILINE)
CHANGES = re.compile(r"(?:^    (?:---|\+\+\+|@@|[-+ ]).*\n)+", re.MULTILINE)
NAME = "reverse"


def text(block: str) -> str:
    """A block without its indent."""
    return re.sub(r"^    ", "", block.strip("\n") + "\n", flags=re.MULTILINE)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with what the page adds."""
    folder, page = tmp_path_factory.mktemp("guide"), GUIDE.read_text(encoding="utf-8")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((TOP / name).read_bytes())
        (folder / name).chmod((TOP / name).stat().st_mode)
    changes = next(text(found[0]) for found in CHANGES.finditer(page) if found[0].startswith("    --- a/"))
    subprocess.run(["patch", "-p1"], cwd=folder, input=changes, text=True, check=True, capture_output=True)
    for path, block in FILE.findall(page):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text(block), encoding="utf-8")
    return folder


def test_the_page_has_all_files(tree: Path) -> None:
    there = ["kernel/elevator/reverse.c", "tests/guest/reverse-order.sh"]
    there += [f"experiments/youngest/{name}" for name in ("experiment.toml", "reads.fio", "analysis.py")]
    assert [name for name in there if not (tree / name).is_file()] == []
    listed = subprocess.run([tree / "sluice", "list"], capture_output=True, text=True, check=True).stdout
    assert {"youngest", NAME} <= {line.split(" ")[0] for line in listed.splitlines()}


@pytest.mark.full
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", kernels.names())
def test_its_test_passes(tree: Path, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "SOURCES", tree / "kernel")
    monkeypatch.setattr(modules, "OBJECTS", {**modules.OBJECTS, NAME: f"{NAME}.o"})
    script = (tree / "tests/guest/reverse-order.sh").read_text(encoding="utf-8")
    outcome = job.run(Job(kernel, script, modules.build(kernel, NAME, "simdisk")))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert complaints(outcome.dmesg) == []


@pytest.mark.full
@pytest.mark.usefixtures("lab")
def test_its_experiment_runs_and_its_claim_holds(tree: Path) -> None:
    line = [sys.executable, "-P", "-m", "lab.cli", "run", "youngest", "--out", str(tree / "results")]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(line, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 claims hold" in done.stdout
