# SPDX-License-Identifier: GPL-2.0-only
"""experiment.toml with every kind of error: the message has the file, the line and the nearest name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lab import analysis, cli, description, shape
from lab.errors import UsageError
from lab.host.cli import USAGE

GOOD = """\
question = "Does it?"
kernels = ["6.12"]
devices = ["ssd", "hdd"]
schedulers = ["none", "mq-prio"]
load = "mix.fio"
seeds = [1, 2]
seconds = 6

[env]
DEPTH = "16"

[device.ssd]
queue = { max_sectors_kb = "32" }
variants = ["classes", "solo"]

[family.alone]
sections = ["database"]
seconds = 1

[variant.solo]
family = "alone"

[variant.classes]
sections = ["database", "backup"]
schedulers = ["mq-prio"]
env = { DEPTH = "1" }

[variant.script]
load = "load.sh"
sections = []
device = "null"

[sweep]
low_share = ["2", "8"]
"""
BASED = """\
question = "And then?"
like = "good"
variants = ["solo"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Experiments of our own: `good`, and `based`, which is like it."""
    monkeypatch.setattr(description, "FOLDER", tmp_path / "experiments")
    monkeypatch.setattr(shape, "TOP", tmp_path)
    for name, text in (("good", GOOD), ("based", BASED)):
        (tmp_path / "experiments" / name).mkdir(parents=True)
        (tmp_path / "experiments" / name / "experiment.toml").write_text(text)
    (tmp_path / "experiments/good/mix.fio").write_text("[global]\n[database]\nbs=4k\n[backup]\n")
    (tmp_path / "experiments/good/load.sh").write_text("true\n")
    return tmp_path / "experiments"


def test_what_is_good_is_read(folder: Path) -> None:
    solo, classes, script = description.load("good").variants
    assert (solo.seconds, solo.sections, solo.env) == (1, ("database",), {"DEPTH": "16"})
    assert (classes.env, classes.schedulers, classes.seeds) == ({"DEPTH": "1"}, ("mq-prio",), (1, 2))
    assert (script.load, script.device) == ("load.sh", "null")
    assert [variant.name for variant in description.load("based").variants] == ["solo"]


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        # not TOML
        ("seconds = 6", "seconds 6", 7, "it is not TOML: Expected '=' after a key"),
        ("seeds = [1, 2]", "seeds = [1, 2", 7, "it is not TOML: Unclosed array"),
        ("[sweep]\nlow_share = [", 'load = "a"\n[env', 33, "it is not TOML"),
        ('low_share = ["2", "8"]', 'low_share = """8', 34, "it is not TOML"),
        # keys, at each level
        ("schedulers = [", "schedulrs = [", 4, "no key called 'schedulrs'; there are question, like, kernels"),
        ("[sweep]", "[swep]", 33, "the nearest is 'sweep'"),
        ("[device.ssd]\nqueue", "[device.ssd]\nqueu", 13, "the nearest is 'queue'"),
        ("seconds = 1\n", "second = 1\n", 18, "no key called 'second'; there are load, sections, env"),
        ('family = "alone"', 'famly = "alone"', 21, "the nearest is 'family'"),
        ("env = { DEPTH", "evn = { DEPTH", 26, "no key called 'evn'"),
        ("[family.alone]", "[famly.alone]", 16, "the nearest is 'family'"),
        ("[family.alone]\n", '[family.alone]\nfamily = "x"\n', 17, "no key called 'family'"),
        # types
        ("seconds = 6", 'seconds = "six"', 7, "seconds has 'six', which is not a whole number"),
        ("seconds = 6", "seconds = true", 7, "seconds has True, which is not a whole number"),
        ("seconds = 6", "seconds = 0", 7, "seconds has 0; it must be 1 or more"),
        ("seconds = 1\n", "seconds = 1.5\n", 18, "seconds has 1.5"),
        ("seeds = [1, 2]", "seeds = 1", 6, "seeds has 1, which is not a list"),
        ("seeds = [1, 2]", "seeds = []", 6, "seeds is empty"),
        ("seeds = [1, 2]", 'seeds = [1, "2"]', 6, "seeds has '2', which is not a whole number"),
        ('DEPTH = "16"', "DEPTH = 16", 10, "DEPTH has 16, which is not a string"),
        ('max_sectors_kb = "32"', "max_sectors_kb = 32", 13, "max_sectors_kb has 32, which is not a string"),
        ('env = { DEPTH = "1" }', 'env = "DEPTH=1"', 26, "env has 'DEPTH=1', which is not a table"),
        ('sections = ["database"]', 'sections = "database"', 17, "sections has 'database', which is not a list"),
        ('["2", "8"]', "[2, 8]", 34, "low_share has 2, which is not a string"),
        ("[variant.solo]", "[variant]\nodd = 3\n[variant.solo]", 21, "odd has 3, which is not a table"),
        # names
        ('kernels = ["6.12"]', 'kernels = ["6.13"]', 2, "no kernel called '6.13'; there are 6.1, 6.12"),
        ('"hdd"]', '"hhd"]', 3, "no device called 'hhd'; there are ssd, hdd, emmc, nvme, null; the nearest is 'hdd'"),
        ('"none", "mq-prio"', '"none", "mq-pro"', 4, "the nearest is 'mq-prio'"),
        ("[device.ssd]", "[device.sdd]", 12, "no device called 'sdd'; there are ssd"),
        ('variants = ["classes", "solo"]', 'variants = ["clases"]', 14, "the nearest is 'classes'"),
        (
            'family = "alone"',
            'family = "alnoe"',
            21,
            "no family called 'alnoe'; there are alone; the nearest is 'alone'",
        ),
        ('"database", "backup"', '"database", "bakup"', 24, "no section of mix.fio called 'bakup'"),
        ('sections = ["database"]', 'sections = ["backp"]', 17, "the nearest is 'backup'"),
        ("sections = []", 'sections = ["database"]', 30, "no section of load.sh called 'database'; there are none"),
        ('schedulers = ["mq-prio"]', 'schedulers = ["mq"]', 25, "no scheduler called 'mq'"),
        ('load = "mix.fio"', 'load = "mx.fio"', 5, "the nearest is 'mix.fio'"),
        ('load = "load.sh"', 'load = "lod.sh"', 29, "the nearest is 'load.sh'"),
        ('device = "null"', 'device = "nul"', 31, "no device called 'nul'"),
        ('family = "alone"\n', "", 20, "no key of the variant or its family called 'sections'"),
        ("low_share =", "low_shar =", 34, "no knob called 'low_shar'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(folder: Path, old: str, new: str, line: int, told: str) -> None:
    path = folder / "good/experiment.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        description.load("good")
    assert str(caught.value).startswith(f"sluice: experiments/good/experiment.toml:{line}: ")
    assert told in str(caught.value)
    assert f"next: ${{EDITOR:-vi}} +{line} experiments/good/experiment.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        (BASED.replace("good", "god"), "based/experiment.toml:2: ", "no other experiment called 'god'"),
        (BASED.replace("good", "based"), "based/experiment.toml:2: ", "no other experiment called 'based'"),
        (BASED.replace('"solo"', '"sole"'), "based/experiment.toml:3: ", "no variant called 'sole'"),
        (BASED.replace('like = "good"', ""), "based/experiment.toml: ", "it has no 'kernels'"),
        (
            BASED.replace("variants", "#") + '[variant.own]\nfamily = "alon"\n',
            "based/experiment.toml:5: ",
            "the nearest is 'alone'",
        ),
        ("\0", "based/experiment.toml:1: ", "it is not TOML"),
    ],
)
def test_what_is_wrong_beside_another_experiment_is_told(folder: Path, text: str, where: str, told: str) -> None:
    (folder / "based/experiment.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        description.load("based")
    assert where in str(caught.value)
    assert told in str(caught.value)


def test_an_error_of_the_other_experiment_is_in_its_file(folder: Path) -> None:
    (folder / "good/experiment.toml").write_text(GOOD.replace("seconds = 6", "secnds = 6"))
    with pytest.raises(UsageError, match=r"experiments/good/experiment.toml:7: no key called 'secnds'"):
        description.load("based")


def test_two_that_are_like_each_other_are_refused(folder: Path) -> None:
    (folder / "good/experiment.toml").write_text(f'like = "based"\n{GOOD}')
    with pytest.raises(UsageError, match="based/experiment.toml:2: no other experiment called 'good'; there are none"):
        description.load("good")


def test_bytes_that_are_no_text_are_refused(folder: Path) -> None:
    (folder / "good/experiment.toml").write_bytes(b"question = '\xff'")
    with pytest.raises(UsageError, match="experiments/good/experiment.toml: it can't be read"):
        description.load("good")


@pytest.mark.parametrize("command", [["list"], ["run", "good"], ["run", "based"]])
def test_every_command_ends_with_a_sentence(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good/experiment.toml").write_text(GOOD.replace('"alone"', '"alnoe"'))
    assert cli.main(command) == USAGE
    assert re.match(r"sluice: experiments/good/experiment.toml:21: no family", capsys.readouterr().err)


def test_an_analysis_is_that_of_the_experiment_or_of_the_other_one(folder: Path) -> None:
    (folder / "good/analysis.py").write_text("judgements = 'of good'\n")
    assert str(analysis.load_of("based").judgements) == "of good"
    shutil.rmtree(folder / "good")
    with pytest.raises(UsageError, match="experiments/good/experiment.toml: it can't be read"):
        analysis.load_of("based")
