# SPDX-License-Identifier: GPL-2.0-only
"""Experiments as data, and how their runs are planned, kept, judged and published; no guest is started."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import samples
from msgspec import structs

from lab import analysis, cache, description, experiment, job, machine, modules, plan, result, study
from lab.description import Experiment
from lab.errors import LabError, UsageError
from lab.image import GUEST
from lab.job import Job, Outcome
from lab.plan import Choice, Point
from lab.result import Claim

GOLDEN = Path(__file__).parent / "golden"
MIX = json.loads((GOLDEN / "fio/mix.json").read_text())
LOAD = json.loads((GOLDEN / "fio/load.json").read_text())
MODULES = {"mq-prio.ko": b"elevator", "simdisk.ko": b"disk"}
SMALL = {"devices": ["ssd"], "schedulers": ["none", "mq-prio"], "parallel": 1}


def answer(one: Job) -> Outcome:
    """The outcome of a fake guest, from the golden run: the sections asked for and no more."""
    source = MIX if "mix.fio" in one.files else LOAD
    first = source["jobs"][0]
    jobs = [found for found in source["jobs"] if f"--section={found['jobname']}" in one.script]
    jobs += [{**first, "jobname": "trickle"}] * ("--section=trickle" in one.script)
    text = json.dumps({**source, "jobs": jobs}).encode()
    return Outcome(
        0,
        {
            "fio.json": text,
            "kernel": b"6.12.1\n",
            "device": b"profile ssd\n",
            "settings": b"iosched/low_share 8\n",
            "cpu": b"QEMU TCG CPU\n",
        },
        "",
        "",
    )


class Guests:
    """Stands in for lab.job: counts the jobs and answers them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.answer: Callable[[Job], Outcome] = answer

    def run_many(self, jobs: Sequence[Job], parallel: int, done: Callable[[int, Outcome], None]) -> None:
        for number, one in enumerate(jobs):
            self.jobs.append(one)
            done(number, self.answer(one))


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Guests:
    fake = Guests()
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job, "run_many", fake.run_many)
    monkeypatch.setattr(job, "key", lambda one: cache.key(one.kernel, job.pack(one)))
    monkeypatch.setattr(modules, "build", lambda kernel, *wanted: MODULES)
    monkeypatch.setattr(study, "emulator", lambda: "QEMU 10")
    monkeypatch.setattr(study, "versions", lambda kernels, cpus: dict.fromkeys(kernels, str(cpus)))
    return fake


def test_every_experiment_can_be_read() -> None:
    assert {"prio-mix", "prio-devices", "prio-aging"} <= set(description.names())
    for name in description.names():
        found = description.load(name)
        assert found.question
        for point in plan.points(found, Choice()):
            text = plan.make_job(found, point, 1, MODULES).files[point.variant.load].decode()
            assert all(f"[{section}]" in text for section in point.variant.sections)


def wanted(point: Point, text: str) -> set[str]:
    """Variables that a load reads.

    fio reads ${NAME} in the chosen sections, a script its names in capitals that have no default.
    """
    if point.variant.load.endswith(".sh"):
        return set(re.findall(r"\$\{?([A-Z][A-Z0-9_]*)\b(?![-+:])", text)) - {"NF"}
    sections = re.findall(r"^\[(.+)\]$([^\[]*)", text, re.MULTILINE)
    return {
        name
        for title, body in sections
        if title in ("global", *point.variant.sections)
        for name in re.findall(r"\$\{(\w+)\}", body)
    }


def unset(found: Experiment, point: Point) -> set[str]:
    """Variables that a run's load reads and that neither the run's script, the load itself nor lib.sh sets."""
    load = found.files[point.variant.load].decode()
    sets = r"^\s*(?:export |read -r )?([A-Z][A-Z0-9_]*)(?:=|$)"
    there = [plan.script(found, point, 1)]
    if point.variant.load.endswith(".sh"):
        there += [load, (GUEST / "lib.sh").read_text(encoding="utf-8")]
    return wanted(point, load) - {name for text in there for name in re.findall(sets, text, re.MULTILINE)}


@pytest.mark.parametrize("name", description.names())
def test_every_variable_of_a_load_is_set(name: str) -> None:
    found = description.load(name)
    for point in plan.points(found, Choice()):
        assert wanted(point, found.files[point.variant.load].decode()), f"{point.variant.load} reads nothing"
        assert not unset(found, point), point.variant.name


@pytest.mark.parametrize(("name", "variable"), [("prio-mix", "HIGH_CLASS"), ("fsync-isolation", "BIG")])
def test_a_variable_that_nothing_sets_is_found(name: str, variable: str) -> None:
    found = description.load(name)
    point = plan.points(found, Choice())[0]
    env = {key: value for key, value in point.variant.env.items() if key != variable}
    assert unset(found, replace(point, variant=replace(point.variant, env=env))) == {variable}


def test_the_contract_names() -> None:
    variants = {variant.name for variant in description.load("prio-mix").variants}
    assert variants >= {
        "solo", "be-levels", "classes", "be-levels-write", "classes-write", "classes-deep", "equal", "cpu-1", "cpu-16"
    }  # fmt: skip
    points = plan.points(description.load("prio-devices"), Choice())
    assert {point.device for point in points} == {"ssd", "hdd", "emmc"}


def test_a_sweep_sets_only_what_a_scheduler_has() -> None:
    found = description.load("prio-aging")
    swept = plan.points(found, Choice(schedulers=("none", "mq-prio")))
    assert {point.tunables for point in swept if point.scheduler == "none"} == {()}
    assert len({point.tunables for point in swept if point.scheduler == "mq-prio"}) == len(found.sweep["low_share"])
    fixed = plan.points(found, Choice(tunables=(("low_share", "7"),)))
    assert {point.tunables for point in fixed} == {(("low_share", "7"),)}


def test_the_script_of_a_run() -> None:
    found = description.load("prio-mix")
    (point,) = [
        point
        for point in plan.points(found, Choice(schedulers=("mq-prio",), tunables=(("low_share", "7"),)))
        if point.variant.name == "classes"
    ]
    assert plan.script(found, point, 2) == (GOLDEN / "script.sh").read_text()


def test_a_run_carries_the_modules_that_it_uses() -> None:
    found = description.load("prio-mix")
    for point in plan.points(found, Choice()):
        carried = {name for name in plan.make_job(found, point, 1, MODULES).files if name.endswith(".ko")}
        assert ("mq-prio.ko" in carried) == (point.scheduler == "mq-prio")
        assert ("simdisk.ko" in carried) == (point.device != "null")


def test_several_fios_of_a_run_make_one_cell() -> None:
    found = description.load("prio-mix")
    point = plan.points(found, Choice(schedulers=("none",)))[0]
    (database, backup), rest = MIX["jobs"], {key: value for key, value in MIX.items() if key != "jobs"}
    files = {
        "fio-web.json": json.dumps({**rest, "jobs": [{**backup, "jobname": "web"}]}),
        "fio-database.json": json.dumps({**rest, "jobs": [database]}),
        "kernel": "6.12.1",
        "device": "",
        "settings": "",
    }
    assert [job.name for job in study.cell(found, point, [("key", files)]).jobs] == ["database", "web"]


@pytest.mark.parametrize(
    ("names", "options", "told"),
    [
        (["prio-mx"], {}, "no experiment called 'prio-mx'; there are afq, async-priority, bench, bench-copy"),
        (["../prio-mix"], {}, "no experiment called"),
        (["prio-mix"], {"devices": ["floppy"]}, "no device called 'floppy'; there are ssd, hdd, emmc, nvme"),
        (["prio-mix"], {"schedulers": ["cfq"]}, "no scheduler called 'cfq'; there are none, mq-deadline"),
        (["prio-mix"], {"kernels": ["2.6"]}, "no kernel called '2.6'; there are 6.1, 6.12"),
        (["prio-mix"], {"tunables": [("nonsense", "1")]}, "called 'nonsense'; there are"),
        (["prio-mix"], {"schedulers": ["none"], "tunables": [("low_share", "1")]}, "there are none"),
        ([], {}, "no experiment named; there are"),
    ],
)
def test_what_does_not_exist_is_refused(
    guests: Guests, names: list[str], options: dict[str, list[str]], told: str
) -> None:
    with pytest.raises(UsageError, match="./sluice list") as caught:
        experiment.run(names, **options)  # type: ignore[arg-type]
    assert told in str(caught.value)
    assert not guests.jobs


def run(*names: str, **options: object) -> int:
    return experiment.run(names, **{**SMALL, **options})  # type: ignore[arg-type]


def runs(name: str) -> int:
    """The number of runs that SMALL asks for before a claim needs another seed.

    Each claim needs two seeds, and all runs are alike.
    """
    points = plan.points(description.load(name), Choice(("ssd",), ("none", "mq-prio")))
    return sum(len(point.variant.seeds) for point in points)


def test_each_claim_has_two_seeds_and_no_more_when_they_agree(guests: Guests, tmp_path: Path) -> None:
    run("prio-mix", out=tmp_path)
    found = result.read(tmp_path)
    bounds = {judgement.id for judgement in analysis.load_of("prio-mix").judgements() if judgement.bound}
    means = [claim for claim in found.claims if claim.id not in bounds]
    assert {len(claim.values) for claim in means if claim.state in ("holds", "fails")} == {2}
    assert max(len(cell.inputs) for cell in found.cells) == 2
    assert not any(claim.state == "undecided" for claim in found.claims)


def test_seeds_are_added_until_a_claim_is_decided_or_there_are_enough(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The database's IOPS over the backup's are below 3 with one seed and above with the next."""

    def swinging(one: Job) -> Outcome:
        outcome = answer(one)
        data = json.loads(outcome.files["fio.json"])
        (seed,) = (int(line.split("=")[1]) for line in one.script.splitlines() if line.startswith("export SEED="))
        for found in data["jobs"]:
            if found["jobname"] == "database":
                found["read"]["total_ios"] = int(found["read"]["total_ios"] * (1 + seed % 2 / 4))
        return replace(outcome, files={**outcome.files, "fio.json": json.dumps(data).encode()})

    guests.answer = swinging
    assert run("prio-mix", out=tmp_path) == 1
    (claim,) = (claim for claim in result.read(tmp_path).claims if claim.id == "high-low-ratio")
    assert (claim.state, len(claim.values)) == ("undecided", description.load("prio-mix").most_seeds)
    assert claim.interval
    assert claim.interval[0] < 3 < claim.interval[1]
    assert capsys.readouterr().out.count("be-levels on ssd") == 2  # of the first two seeds, and of all


def test_a_table_is_printed_once_if_no_seed_changes_it(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("prio-mix", out=tmp_path) == 1
    assert guests.jobs
    assert capsys.readouterr().out.count("be-levels on ssd") == 1


def test_a_claim_that_was_not_judged_is_listed_with_the_command(guests: Guests, tmp_path: Path) -> None:
    run("prio-mix", out=tmp_path)
    left = [claim for claim in result.read(tmp_path).claims if claim.state == "not judged"]
    assert {claim.id for claim in left} >= {"high-iops", "p99-below-bfq"}
    assert {claim.command for claim in left} == {"./sluice run prio-mix"}
    assert not any(claim.id.startswith(("hdd-", "emmc-")) for claim in left)


def test_a_whole_run_with_a_claim_that_is_not_judged_fails() -> None:
    claims = (Claim("a", "b", None, "not judged"), Claim("c", "d", 1.0, "holds"))
    found = structs.replace(samples.result(), claims=claims)
    assert (experiment.judge(found, whole=True), experiment.judge(found, whole=False)) == (1, 0)


def test_a_run_writes_results_and_a_second_one_starts_no_guest(guests: Guests, tmp_path: Path) -> None:
    status = run("prio-mix", out=tmp_path / "one")
    count = len(guests.jobs)
    assert count > runs("prio-mix")
    assert run("prio-mix", out=tmp_path / "two") == status
    assert len(guests.jobs) == count
    first, second = result.read(tmp_path / "one"), result.read(tmp_path / "two")
    assert first.digest == second.digest
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"results.json", "report.html", "cells.csv"}
    assert run("prio-mix", fresh=True) == status
    assert len(guests.jobs) == 2 * count
    assert result.read(tmp_path / "results/prio-mix").digest == first.digest


def test_experiments_share_their_runs(guests: Guests, tmp_path: Path) -> None:
    run("prio-mix", out=tmp_path / "one")
    count = len(guests.jobs)
    run("prio-mix", "prio-devices", out=tmp_path / "both")
    assert len(guests.jobs) == len({job.key(one) for one in guests.jobs}) == count
    assert result.read(tmp_path / "both/prio-devices").experiment == "prio-devices"


def test_cells_hold_what_the_guest_said(guests: Guests, tmp_path: Path) -> None:
    run("prio-mix", out=tmp_path)
    found = result.read(tmp_path)
    cell = next(cell for cell in found.cells if (cell.scheduler, cell.variant) == ("mq-prio", "be-levels"))
    assert (cell.kernel, cell.device, len(cell.inputs)) == ("6.12.1", "ssd", 2)
    assert [job.name for job in cell.jobs] == ["database", "backup"]
    cpu = next(cell for cell in found.cells if cell.variant == "cpu-16")
    assert cpu.instructions_per_io == pytest.approx(1e9 / cpu.job("load").iops)
    assert found.command == "./sluice run prio-mix --device ssd --scheduler none,mq-prio"


def test_the_machine_is_described(guests: Guests, tmp_path: Path) -> None:
    run("prio-mix", out=tmp_path)
    described = result.read(tmp_path).machine
    assert described["kernel"] == "Debian's Linux 6.12 (6.12.1), unmodified"
    assert described["CPU"] == "1 × QEMU TCG CPU"
    assert described["clock"].startswith("virtual")
    assert described["fio"] == "fio-3.39"
    assert result.read(tmp_path).versions == {"6.12": "1"}


def test_the_versions_of_several_kernels_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    class Saved:
        def __init__(self, kernel: str, cpus: int) -> None:
            self.kernel = kernel

        def described(self) -> dict[str, str]:
            return {"kernel": f"{self.kernel}.7", "qemu": "10"}

    monkeypatch.setattr(machine, "get", Saved)
    assert study.versions(["6.12"], 1) == {"kernel": "6.12.7", "qemu": "10"}
    assert study.versions(["6.1", "6.12"], 1) == {
        "kernel for 6.1": "6.1.7",
        "qemu for 6.1": "10",
        "kernel for 6.12": "6.12.7",
        "qemu for 6.12": "10",
    }


def test_a_failing_claim_gives_status_1(guests: Guests, tmp_path: Path) -> None:
    assert run("prio-mix", out=tmp_path) == 1
    assert any(not claim.holds for claim in result.read(tmp_path).claims)


def test_json_is_the_file(guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("prio-mix", out=tmp_path, json_output=True)
    assert capsys.readouterr().out == (tmp_path / "results.json").read_text()


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (Outcome(1, {"stderr": b"FAIL: the kernel refuses low_share=999\n"}, "", ""), "refuses low_share=999"),
        (Outcome(0, {"fio.json": b"{}"}, "[ 1.0] WARNING: CPU: 0 at mq-prio.c:1", ""), "WARNING: CPU: 0"),
        (Outcome(0, {}, "", ""), "wrote no results"),
        (Outcome(0, {"fio.json": b"fio: died"}, "", ""), "fio wrote no JSON but: fio: died"),
        (Outcome(0, {"fio.json": json.dumps(MIX).encode(), "iolat.json": b"{"}, "", ""), "iolat printed something"),
        (Outcome(0, {"sysbench.txt": b"Killed"}, "", ""), "sysbench's output lacks"),
    ],
)
def test_a_failed_run_is_told_and_not_kept(guests: Guests, bad: Outcome, told: str) -> None:
    guests.answer = lambda one: bad
    with pytest.raises(LabError, match="next: ./sluice shell --job [0-9a-f]{16}$") as caught:
        run("prio-mix")
    assert told in str(caught.value)
    assert job.failed(caught.value.next_step.split()[-1]) == guests.jobs[0]
    assert isinstance(caught.value, UsageError) == ("refuses" in told)
    assert not list((cache.root() / "results").glob("*/fio.json"))


def test_what_finished_before_an_interrupt_is_kept(guests: Guests) -> None:
    def interrupted(one: Job) -> Outcome:
        if len(guests.jobs) == 4:
            raise KeyboardInterrupt
        return answer(one)

    guests.answer = interrupted
    with pytest.raises(KeyboardInterrupt):
        run("prio-mix")
    guests.answer = answer
    run("prio-mix")
    assert len(guests.jobs) == len({job.key(one) for one in guests.jobs}) + 1


def test_a_stack_lies_between_the_disks_and_the_load() -> None:
    found = description.load("prio-mix")
    points = plan.points(found, Choice(("ssd",), ("mq-deadline-tuned",), stack="raid10"))
    assert {point.stack for point in points if point.device == "ssd"} == {"raid10"}
    assert {point.stack for point in points if point.device == "null"} == {""}
    lines = plan.script(found, points[0], 1).splitlines()
    disks = [line for line in lines if re.match(r"(DISK=d\d )?disk ssd", line)]
    assert [line.split()[0] for line in disks] == ["DISK=d1", "DISK=d2", "DISK=d3", "disk"]
    each = lines.index(next(line for line in lines if line.startswith("for Q in ")))
    assert lines[each + 1] == "scheduler mq-deadline"
    assert "nr_requests" in "".join(lines[each : lines.index("done")])
    assert lines.index("done") < lines.index("stack raid10") < lines.index('export DEVICE="$DEV"')


def test_a_variants_own_stack_comes_before_that_asked_for() -> None:
    found = description.load("stacked")
    points = plan.points(found, Choice(stack="lvm"))
    assert {point.variant.name: point.stack for point in points}["reads-crypt"] == "crypt"
    assert {point.variant.name: point.stack for point in points}["reads"] == "lvm"


def test_a_scheduler_brings_the_module_beside_it() -> None:
    found = description.load("stacked")
    for point in plan.points(found, Choice()):
        carries = point.scheduler == "mq-deadline-carry"
        assert ("load sluice-carry" in plan.script(found, point, 1).splitlines()) == carries
        assert ("sluice-carry" in plan.modules(point)) == carries
