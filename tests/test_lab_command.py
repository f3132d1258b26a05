# SPDX-License-Identifier: GPL-2.0-only
"""The command line and its launcher: what they refuse, what they say, what they install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab import cli

TOP = Path(__file__).parent.parent
NEEDED = (
    "bash",
    "cat",
    "cut",
    "dirname",
    "env",
    "flock",
    "id",
    "mkdir",
    "readlink",
    "rm",
    "sha256sum",
    "tail",
    "touch",
)


def _cli(*args: str) -> int:
    try:
        return cli.main(args)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["frobnicate"], "invalid choice"),
        (["run"], "EXPERIMENT"),
        (["run", "nonsense"], "prio-mix"),
        (["run", "prio-mix", "--device", "floppy"], "hdd"),
        (["run", "prio-mix", "--scheduler", "cfq"], "kyber"),
        (["run", "prio-mix", "--kernel", "2.4"], "6.12"),
        (["run", "prio-mix", "--set", "x"], "TUNABLE=VALUE"),
        (["run", "prio-mix", "-j", "0"], "positive"),
        (["report", "/nowhere"], "results.json"),
        (["compare", "/nowhere", "/nowhere"], "results.json"),
        (["shell", "--kernel", "2.4"], "6.12"),
        (["shell", "--device", "floppy"], "hdd"),
    ],
)
def test_a_wrong_command_is_refused_at_once(
    args: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, before anything is set up."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    assert _cli(*args) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_list_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli("list") == 0
    assert "prio-mix" in capsys.readouterr().out
    assert _cli("list", "kernels") == 0
    assert capsys.readouterr().out == "kernels: 6.1 6.12\n"


def _host(folder: Path, *programs: str) -> dict[str, str]:
    """A host that has nothing but `programs`, and an apt-get that fails and tells what it was asked."""
    (folder / "python3").symlink_to(Path(sys.base_prefix) / "bin/python3")
    for name in programs:
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    apt = folder / "apt-get"
    apt.write_text('#!/bin/sh\necho "no network: $*"\nexit 1\n', encoding="utf-8")
    apt.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder), "SLUICE_CACHE": str(folder / "cache")}


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's launcher asks sudo")
def test_the_launcher_says_what_it_installs_and_why_it_cannot(tmp_path: Path) -> None:
    env = _host(tmp_path, *NEEDED)
    done = subprocess.run([TOP / "sluice", "list"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    first, *rest = done.stderr.splitlines()
    assert first.startswith("sluice: installs on this host with apt-get:")
    assert "mmdebstrap" in first
    assert "bubblewrap" in first
    assert rest[0].startswith("sluice: apt-get failed: no network:")
    assert rest[1].startswith("   try: apt-get install ")


def test_the_doctor_runs_where_there_is_nothing_but_python(tmp_path: Path) -> None:
    """No package, no Python environment, no cache, no byte code beside the sources."""
    tree = tmp_path / "tree"
    (tree / "lab").mkdir(parents=True)
    shutil.copy(TOP / "sluice", tree)
    for source in (TOP / "lab").glob("*.py"):
        shutil.copy(source, tree / "lab")
    there = set(tree.rglob("*"))
    env = _host(tmp_path, "bash", "env", "dirname", "readlink")
    done = subprocess.run([tree / "sluice", "doctor", "nonsense"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("sluice: nonsense is no disk or partition\n   try: ")
    assert not (tmp_path / "cache").exists()
    assert set(tree.rglob("*")) == there


def test_with_runs_where_there_is_no_python(tmp_path: Path) -> None:
    """What it does in cgroups is for tests/guest/with.sh to see."""
    command: list[str | Path] = [TOP / "sluice", "with", "--rate", "10MB", "--", "true"]
    env = _host(tmp_path, "bash", "env", "dirname", "readlink", "awk", "grep")
    (tmp_path / "python3").unlink()
    # A service of root's may have none of these.
    for name in ("HOME", "XDG_CACHE_HOME", "SLUICE_CACHE"):
        env.pop(name, None)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "sluice: --rate 10MB: no rate from 1KiB/s to 8GiB/s\n   try: --rate 10MB/s\n"


def test_the_doctor_refuses_a_python_that_is_too_old(tmp_path: Path) -> None:
    env = _host(tmp_path, "bash", "env", "dirname", "readlink")
    (tmp_path / "python3").unlink()
    command: list[str | Path] = [TOP / "sluice", "doctor", "sda"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "sluice: python3 is not installed\n   try: apt-get install python3\n"
    (tmp_path / "python3").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n', encoding="utf-8"
    )
    (tmp_path / "python3").chmod(0o755)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "needs Python 3.11 or later, this is Python 3.9.2" in done.stderr
