# SPDX-License-Identifier: GPL-2.0-only
"""The guides that add an elevator and a policy: their files, as the pages have them, are built, tested and measured."""

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
# A block of four spaces below the line that names its file, and the block of changes to files that are there.
FILE = re.compile(r"^`([\w/.-]+)`[^\n`]*:\n\n((?:    .*\n|\n)+)", re.MULTILINE)
CHANGES = re.compile(r"(?:^    (?:---|\+\+\+|@@|[-+ ]).*\n)+", re.MULTILINE)
# Each guide's files.
GUIDES = {
    "elevator": [
        "kernel/elevator/reverse.c",
        "tests/guest/reverse-order.sh",
        *(f"experiments/youngest/{name}" for name in ("experiment.toml", "reads.fio", "analysis.py")),
    ],
    "policy": ["kernel/split/pacer.c", "tests/guest/pacer-creat.sh"],
}


def text(block: str) -> str:
    """A block without its indent."""
    return re.sub(r"^    ", "", block.strip("\n") + "\n", flags=re.MULTILINE)


def grown(guide: str, folder: Path) -> Path:
    """A copy of the tree with what a guide's page adds."""
    page = (TOP / f"docs/guide-{guide}.md").read_text(encoding="utf-8")
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


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tree with what each guide adds."""
    return {guide: grown(guide, tmp_path_factory.mktemp(guide)) for guide in GUIDES}


def module_name(guide: str) -> str:
    """The module that a guide adds."""
    return Path(GUIDES[guide][0]).stem


@pytest.mark.parametrize("guide", GUIDES)
def test_the_page_has_all_files(trees: dict[str, Path], guide: str) -> None:
    assert [name for name in GUIDES[guide] if not (trees[guide] / name).is_file()] == []
    listed = subprocess.run([trees[guide] / "sluice", "list"], capture_output=True, text=True, check=True).stdout
    added = {module_name(guide), *(Path(name).parent.name for name in GUIDES[guide] if name.startswith("experiments"))}
    assert added <= {line.split(" ")[0] for line in listed.splitlines()}


@pytest.mark.full
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.parametrize("kernel", kernels.names())
def test_its_test_passes(trees: dict[str, Path], guide: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module_name(guide)
    monkeypatch.setattr(modules, "SOURCES", trees[guide] / "kernel")
    monkeypatch.setattr(modules, "OBJECTS", {**modules.OBJECTS, name: f"{name}.o"})
    script = (trees[guide] / GUIDES[guide][1]).read_text(encoding="utf-8")
    outcome = job.run(Job(kernel, script, modules.build(kernel, name, "simdisk", "sluice-cause", "split")))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert complaints(outcome.dmesg) == []


@pytest.mark.full
@pytest.mark.usefixtures("lab")
def test_its_experiment_runs_and_its_claim_holds(trees: dict[str, Path]) -> None:
    tree = trees["elevator"]
    line = [sys.executable, "-P", "-m", "lab.cli", "run", "youngest", "--out", str(tree / "results")]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(line, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 claims hold" in done.stdout
