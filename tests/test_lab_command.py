# SPDX-License-Identifier: GPL-2.0-only
"""The command line and its launcher: their refusals, their messages, their installations."""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab import cli, description, plan
from lab.devices import DEVICES, STACKS
from lab.host import cli as host
from lab.schedulers import SCHEDULERS

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
        (["run", "prio-mix", "--set", "x"], "KNOB=VALUE"),
        (["run", "prio-mix", "-j", "0"], "positive"),
        (["run", "prio-mix", "--cluster", "node7"], "'node7' is not an address of a scheduler"),
        (["worker", "tcp://node7:port"], "not an address of a scheduler"),
        (["scheduler", "ftp://node7:8786"], "not an address of a scheduler"),
        (["run", "prio-mix", "--cluster", "tcp://node7", "--accel", "kvm"], "virtual clock only"),
        (["report", "/nowhere"], "results.json"),
        (["compare", "/nowhere", "/nowhere"], "results.json"),
        (["shell", "--kernel", "2.4"], "6.12"),
        (["shell", "--device", "floppy"], "hdd"),
        (["shell", "--job", "feed"], "no failed job called 'feed'; there are none"),
        (["shell", "--job", "feed", "--device", "ssd"], "not allowed with argument"),
        (["list", "exeriments"], "experiments"),
    ],
)
def test_a_wrong_command_is_refused_at_once(
    args: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, before anything is set up."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    assert _cli(*args) == 2
    said = capsys.readouterr().err
    assert told in said
    assert re.search(r"\n   next: (\./sluice |the command that failed)", said)
    assert not list(tmp_path.iterdir())


def test_the_synopsis_of_the_man_page_has_the_labs_commands_with_their_options() -> None:
    hosts = host.commands(host.Parser("sluice")).choices
    every = next(action.choices for action in cli._parser()._actions if isinstance(action, argparse._SubParsersAction))
    labs = {name: parser for name, parser in every.items() if name not in hosts}
    text = (TOP / "man/sluice.1").read_text(encoding="utf-8")
    synopsis = text.partition(".Sh SYNOPSIS\n")[2].partition(".Sh ")[0]
    said = dict(re.findall(r"^\.Cm (\w+)\n(.*?)(?=^\.Nm|\Z)", synopsis, re.MULTILINE | re.DOTALL))
    shown = {name: {f"-{option}" for option in re.findall(r"Fl (-?[\w-]+)", part)} for name, part in said.items()}
    wanted = {
        name: {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
        for name, parser in labs.items()
    }
    assert shown == wanted


def test_list_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """The name is the first word of its line."""
    assert _cli("list") == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == [
        *("experiments:", *description.names()),
        *("devices:", *DEVICES),
        *("stacks:", *STACKS),
        *("schedulers:", *SCHEDULERS),
        *("kernels:", "6.1", "6.12", "next"),
    ]
    assert _cli("list", "kernels") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["6.1", "6.12", "next"]


def test_list_tells_what_an_experiment_asks_and_how_long_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert _cli("list", "experiments") == 0
    (mix,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("prio-mix ")]
    minutes = plan.rough_cpu_s(description.load("prio-mix")) / 60 / 2
    assert re.fullmatch(rf"prio-mix +about +{minutes:.0f} min  Does a database keep its speed .* still moves\?", mix)


def test_watched_runs_count_twice() -> None:
    latency = description.load("blog-latency")
    assert plan.rough_cpu_s(latency) == 2 * plan.rough_cpu_s(replace(latency, iolat=None)) > 0


def _host(folder: Path, *programs: str) -> dict[str, str]:
    """A host that has nothing but `programs`, and an apt-get that fails and logs its arguments."""
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
    done = subprocess.run([TOP / "sluice", "run", "prio-mix"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    first, *rest = done.stderr.splitlines()
    assert first.startswith("sluice: installs on this host with apt-get:")
    assert "mmdebstrap" in first
    assert "bubblewrap" in first
    assert rest[0].startswith("sluice: apt-get failed: no network:")
    assert rest[1].startswith("   next: apt-get install ")


def _tree(folder: Path) -> Path:
    """A clone of the files that the launcher needs, without byte code."""
    tree = folder / "tree"
    for name in ("lab", "experiments"):
        shutil.copytree(TOP / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TOP / "sluice", tree)
    return tree


@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        ("--help", 0, "COMMAND"),
        ("run --help", 0, "EXPERIMENT"),
        ("list", 0, "prio-mix"),
        ("list experiments", 0, "Does a database keep its speed"),
        ("doctor nonsense", 2, "sluice: nonsense is not a disk or partition\n   next: "),
        ("explain nonsense", 2, "sluice: nonsense is not a disk or partition\n   next: ./sluice explain "),
        ("", 2, "COMMAND"),
        ("frobnicate", 2, "invalid choice: 'frobnicate'"),
        ("run prio-mix --frob", 2, "unrecognized arguments: --frob"),
        ("run prio-mix -j none", 2, "'none' is not a positive number"),
        ("run prio-mx", 2, "the nearest is 'prio-mix'"),
        ("run prio-mix --device floppy", 2, "no device called 'floppy'"),
        ("run prio-mix --stack luks", 2, "no stack called 'luks'"),
        ("list stacks", 0, "RAID 1 of md"),
        ("run prio-mix --scheduler bfg", 2, "the nearest is 'bfq'"),
        ("run prio-mix --set low_shar=1", 2, "the nearest is 'low_share'"),
        ("shell --kernel 2.4", 2, "no kernel called '2.4'"),
        ("report /nowhere", 2, "/nowhere holds no results.json"),
    ],
)
def test_where_there_is_nothing_but_python_an_answer_installs_nothing(
    tmp_path: Path, command: str, status: int, told: str
) -> None:
    """No package, no Python environment, no cache, no byte code beside the sources; in less than a second."""
    tree = _tree(tmp_path)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/__init__.py").write_text("raise RuntimeError('a folder of the same name')")
    there = set(tree.rglob("*"))
    env = _host(tmp_path, "bash", "env", "dirname", "readlink")
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    line = [str(tree / "sluice"), *command.split()]
    done = subprocess.run(line, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before < 1
    assert (done.returncode, told in done.stdout + done.stderr) == (status, True), done.stderr
    assert not (tmp_path / "cache").exists()
    assert set(tree.rglob("*")) == there


def test_with_runs_where_there_is_no_python(tmp_path: Path) -> None:
    """tests/guest/with.sh tests its work in cgroups."""
    command: list[str | Path] = [TOP / "sluice", "with", "--rate", "10MB", "--", "true"]
    env = _host(tmp_path, "bash", "env", "dirname", "readlink", "awk", "grep")
    (tmp_path / "python3").unlink()
    # A root service may have none of these variables.
    for name in ("HOME", "XDG_CACHE_HOME", "SLUICE_CACHE"):
        env.pop(name, None)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "sluice: --rate 10MB: not a rate from 1KiB/s to 8GiB/s\n   next: --rate 10MB/s\n"


@pytest.mark.parametrize("command", ["doctor", "list", "run"])
def test_a_python_that_is_too_old_is_refused(tmp_path: Path, command: str) -> None:
    env = _host(tmp_path, "bash", "env", "dirname", "readlink")
    (tmp_path / "python3").unlink()
    (tmp_path / "python3").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n', encoding="utf-8"
    )
    (tmp_path / "python3").chmod(0o755)
    done = subprocess.run([TOP / "sluice", command], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "needs Python 3.11 or later, this is Python 3.9.2" in done.stderr


@pytest.mark.parametrize("command", ["doctor", "list", "--help", "frobnicate"])
def test_without_python_nothing_is_installed_for_what_needs_nothing_else(tmp_path: Path, command: str) -> None:
    env = _host(tmp_path, "bash", "env", "dirname", "readlink")
    (tmp_path / "python3").unlink()
    done = subprocess.run([TOP / "sluice", command], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "sluice: python3 is not installed\n   next: apt-get install python3\n"


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's launcher asks sudo")
def test_without_python_a_run_installs_it(tmp_path: Path) -> None:
    env = _host(tmp_path, *NEEDED)
    (tmp_path / "python3").unlink()
    done = subprocess.run([TOP / "sluice", "run", "prio-mix"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert re.search(r"installs on this host with apt-get: .*\bpython3\b", done.stderr)
