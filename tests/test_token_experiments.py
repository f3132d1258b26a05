# SPDX-License-Identifier: GPL-2.0-only
"""The claims of Split-Token's five experiments hold and fail where they should; all figures are drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import samples
from msgspec.structs import replace
from samples import judged

from lab import analysis, description, fio, plan, report
from lab.figure import Bars, Lines, Table
from lab.plan import Choice
from lab.result import Cell, Cpu, Job
from lab.schedulers import SCHEDULERS

ISOLATION = analysis.load_of("token-isolation")
SCS = analysis.load_of("token-scs")
SCALE = analysis.load_of("token-scale")
METADATA = analysis.load_of("metadata")
OVERHEAD = analysis.load_of("token-overhead")
SIZES = ("4k", "16k", "64k", "256k", "1m", "4m", "16m")
OPERATIONS = ("read", "write")
SIX = tuple(f"{operation}-{kind}" for operation in OPERATIONS for kind in ("mem", "seq", "rand"))
THREADS = (1, 8, 64, 128, 256, 512, 1024)
SLEEPS = (0, 1, 10, 100)
SOLO = 125.0
"""MB/s of the reader alone."""


def moves(name: str, rate: float) -> Job:
    """A job of that many MB/s."""
    return samples.job(name, rate * 1e6 / 4096, 1.0, 4096)


def cell(scheduler: str, variant: str, a: float, b: float | None = None, device: str = "hdd") -> Cell:
    """A cell with MB/s of the reader and, unless that is alone, of its neighbour, which pays for as much."""
    jobs = (moves("unthrottled", a), *([] if b is None else [moves("throttled", b)]))
    made = Cell("6.12.1", device, {"profile": device}, scheduler, {}, variant, jobs, seconds=16, inputs=("a",))
    return paying(made, b or 0)


def paying(one: Cell, rate: float) -> Cell:
    """That cell, but with the neighbour paying for this many normalised MB/s."""
    return replace(one, readings={"paid": rate * 1e6})


def unpaid(about: analysis.Analysis, cells: Sequence[Cell], variant: str) -> set[str]:
    """The claims that fail if the neighbour uses 0.89 of its rate in one variant; none fails at 0.91."""

    place = (variant, "split-token")

    def using(part: float) -> list[Cell]:
        return [
            paying(one, part * one.readings["paid"] / 1e6) if (one.variant, one.scheduler) == place else one
            for one in cells
        ]

    assert failing(about, using(0.91)) == set()
    return failing(about, using(0.89))


def failing(about: analysis.Analysis, cells: Sequence[Cell]) -> set[str]:
    return {claim.id for claim in judged(about, cells) if not claim.holds}


def tables(about: analysis.Analysis, cells: Sequence[Cell]) -> dict[str, Table]:
    panels = [panel for figure in about.figures(cells) for panel in figure.panels]
    return {panel.title: panel for panel in panels if isinstance(panel, Table)}


def without(cells: Sequence[Cell], *variants: str) -> list[Cell]:
    return [one for one in cells if one.variant not in variants]


# token-isolation


def fourteen(scheduler: str, off: float, suffix: str = "", device: str = "hdd") -> list[Cell]:
    """Half of the workloads leave the reader `off` MB/s more, half less: that is their standard deviation."""
    names = [f"{operation}-{size}{suffix}" for operation in OPERATIONS for size in SIZES]
    signs = [1 - 2 * (number % 2) for number in range(14)]
    return [cell(scheduler, name, 100 + sign * off, 10, device) for name, sign in zip(names, signs, strict=True)]


def isolated(ext4: float = 0.01, xfs: float = 0.02, rival: float = 0.3, device: str = "hdd") -> list[Cell]:
    """Standard deviations as parts of the reader's throughput alone."""
    return [
        *(cell(scheduler, "solo", SOLO, device=device) for scheduler in ("mq-deadline", "scs-token", "split-token")),
        cell("split-token", "solo-xfs", SOLO, device=device),
        *fourteen("mq-deadline", 50, device=device),
        *fourteen("mq-deadline", 40, "-io-max", device),
        *fourteen("mq-deadline", 20, "-io-cost", device),
        *fourteen("scs-token", rival * SOLO, device=device),
        *fourteen("split-token", ext4 * SOLO, device=device),
        *fourteen("split-token", xfs * SOLO, "-xfs", device),
    ]


@pytest.mark.parametrize("device", ["hdd", "ssd"])
def test_isolation_holds_and_fails_at_its_limits(device: str) -> None:
    claims = {claim.id: claim for claim in judged(ISOLATION, isolated(device=device))}
    assert set(claims) == {f"{name}-{device}" for name in ("ext4", "xfs", "ext4-rate", "xfs-rate", "scs-token")}
    assert claims[f"ext4-{device}"].measured == pytest.approx(0.01)
    assert [claim.paper for claim in claims.values()] == [0.051, None, 0.093, None, 5.9]
    assert failing(ISOLATION, isolated(0.0349, 0.0499, device=device)) == set()
    assert failing(ISOLATION, isolated(ext4=0.0351, device=device)) == {f"ext4-{device}"}
    assert failing(ISOLATION, isolated(xfs=0.0501, device=device)) == {f"xfs-{device}"}


@pytest.mark.parametrize("workload", ["read-4k", "write-16m"])
def test_a_neighbour_that_has_less_than_its_rate_fails(workload: str) -> None:
    assert unpaid(ISOLATION, isolated(), workload) == {"ext4-rate-hdd"}
    assert unpaid(ISOLATION, isolated(), f"{workload}-xfs") == {"xfs-rate-hdd"}
    assert unpaid(SCALE, threads(), "read-seq-64") == {"read-seq-rate-hdd"}
    assert unpaid(METADATA, creates(), "ext4-10ms") == {"ext4-rate-hdd"}


@pytest.mark.parametrize("variant", ["read-seq", "read-rand", "write-seq", "write-rand"])
def test_a_neighbour_that_needs_the_disk_uses_its_rate(variant: str) -> None:
    assert unpaid(SCS, six(), variant) == {f"{variant}-rate-hdd"}


def test_a_rival_must_be_four_times_as_far() -> None:
    assert failing(ISOLATION, isolated(rival=0.0401)) == set()
    assert failing(ISOLATION, isolated(rival=0.0399)) == {"scs-token-hdd"}


def test_isolation_is_judged_by_all_fourteen() -> None:
    assert {claim.id for claim in judged(ISOLATION, without(isolated(), "write-16m"))} == {"xfs-hdd", "xfs-rate-hdd"}


def test_isolation_shows_the_paper_beside_ours() -> None:
    found = tables(ISOLATION, isolated())
    rows = {row[:2]: row[2:] for row in found["A's throughput over 14 workloads of B on hdd"].rows}
    assert rows["ext4", "split-token"] == ("125", "100", "98.8", "101", "1.25", "1.00")
    assert rows["ext4", "io.max"] == ("125", "100", "60.0", "140", "40.0", "32.0")
    assert rows["ext4", "paper: scs-token"] == ("138", "–", "25", "125", "41.0", "29.7")
    assert rows["XFS", "paper: split-token"][-1] == "9.28"
    neighbour = found["B (the neighbour) on hdd, MB/s"].rows
    assert neighbour[0] == ("ext4", "mq-deadline", "reads", *["10.0"] * 7)
    (figure,) = ISOLATION.figures(isolated())
    plots = [panel for panel in figure.panels if isinstance(panel, Lines)]
    assert [plot.title.split(", ", 1)[1] for plot in plots] == [
        "mq-deadline, ext4", "scs-token, ext4", "split-token, ext4", "io.max, ext4", "io.cost, ext4", "split-token, XFS"
    ]  # fmt: skip
    assert [line.label for line in plots[0].lines] == ["B reads", "B writes"]
    assert [x for x, _ in plots[0].lines[0].points] == [2, 4, 6, 8, 10, 12, 14]


def told(rotational: int, slowdown: int, rate: int, folder: Path) -> tuple[dict[str, int], float]:
    """The settings that the script gives io.cost for a drive, and B's part of the weights."""
    text = (description.FOLDER / "token-isolation/token.sh").read_text()
    share = text[text.index("share() {") : text.index("# limit RATE")]
    for file, value in {"queue/rotational": rotational, "dev": "252:0", "drive/slowdown": slowdown}.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(f"{value}\n")
    for group in "ab":
        (folder / group).mkdir()
    places = f"Q={folder}/queue G={folder} DRIVE={folder}/drive"
    subprocess.run(["sh", "-euc", f"{places}\n{share}\nshare {rate}"], check=True)
    model = dict(part.split("=") for part in (folder / "io.cost.model").read_text().split()[3:])
    a, b = (int((folder / group / "io.weight").read_text().split()[1]) for group in "ab")
    return {name: int(value) for name, value in model.items()}, b / (a + b)


@pytest.mark.parametrize(("slowdown", "rbps", "reads"), [(1, 250_000_000, 35_000), (2, 125_000_000, 17_500)])
def test_io_cost_is_told_the_drive_as_it_is(slowdown: int, rbps: int, reads: int, tmp_path: Path) -> None:
    model, part = told(0, slowdown, 10_000_000, tmp_path)
    assert (model["rbps"], model["rrandiops"], model["wrandiops"]) == (rbps, reads, 6600 // slowdown)
    assert part == pytest.approx(1e7 / rbps, abs=1e-4)


def test_io_cost_is_told_of_a_disk_what_it_was(tmp_path: Path) -> None:
    model, part = told(1, 1, 10_000_000, tmp_path)
    assert (model["rbps"], model["rrandiops"]) == (126_000_000, 76)
    assert part == pytest.approx(1e7 / 126e6, abs=1e-4)


# token-scs


def six(
    changed: Mapping[str, float] | None = None, free: Mapping[str, float] | None = None, device: str = "hdd"
) -> list[Cell]:
    """The reader loses 0.8 % unless changed; in memory B has 800 MB/s, and without a rate as many unless given."""
    found = []
    for scheduler in ("mq-deadline", "scs-token", "split-token"):
        found.append(cell(scheduler, "solo", SOLO, device=device))
        for name in SIX:
            lost = (changed or {}).get(name, 0.8) if scheduler == "split-token" else 30.0
            found.append(cell(scheduler, name, SOLO * (1 - lost / 100), 800 if "mem" in name else 1, device))
    for name in ("read-mem", "write-mem"):
        found.append(cell("split-token", f"free-{name}", SOLO, (free or {}).get(name, 800.0), device))
    limited = [f"{name}-{limit}" for limit in ("io-max", "io-cost") for name in SIX]
    return [*found, *(cell("mq-deadline", name, SOLO * 0.6, 1, device) for name in limited)]


@pytest.mark.parametrize("variant", SIX)
def test_a_slowdown_near_its_target_holds_and_one_that_is_off_fails(variant: str) -> None:
    claims = {claim.id: claim.measured for claim in judged(SCS, six())}
    assert len(claims) == 12
    assert claims[f"{variant}-hdd"] == pytest.approx(0)
    for inside, outside in ((2.79, 2.81), (-1.19, -1.21)):
        assert failing(SCS, six({variant: inside})) == set()
        assert failing(SCS, six({variant: outside}, device="ssd")) == {f"{variant}-ssd"}


@pytest.mark.parametrize("variant", ["read-mem", "write-mem"])
def test_memory_without_a_limit_holds_and_with_one_fails(variant: str) -> None:
    assert failing(SCS, six(free={variant: 800 / 0.951})) == set()
    assert failing(SCS, six(free={variant: 800 / 0.949})) == {f"{variant}-free-hdd"}


def test_the_two_plots_and_the_table_of_scs() -> None:
    (figure,) = SCS.figures(six({"read-rand": 1.8}))
    slow, disk, memory = [panel for panel in figure.panels if isinstance(panel, Bars)]
    values = {bar.label: bar.value for bar in slow.bars}
    assert values["target, split"] == pytest.approx(0.8)
    assert values["read-rand, split"] == pytest.approx(1.8)
    assert values["read-rand, scs"] == pytest.approx(30)
    assert (len(slow.bars), len(disk.bars), len(memory.bars)) == (14, 8, 4)
    rows = {row[:2]: row[2:] for row in tables(SCS, six())["A rate of 1 MB/s on hdd"].rows}
    assert rows["write-mem", "split-token"] == ("124", "0.800", "0.800", "800", "100")
    assert rows["read-seq", "io.max"] == ("75.0", "40.0", "0.800", "1.00", "–")
    assert rows["read-seq", "mq-deadline"][2] == "–"


# token-scale


def threads(load: str = "", at: int = 1024, part: float = 1.0, device: str = "hdd") -> list[Cell]:
    """The reader has 124 MB/s, and `part` of it beside `at` threads with that load."""
    found = [cell("split-token", "solo", SOLO, device=device)]
    for name in ("read-seq", "read-mem", "write-mem", "spin"):
        for number in THREADS:
            rate = 124 * (part if (name, number) == (load, at) else 1.0)
            found.append(cell("split-token", f"{name}-{number}", rate, 1, device))
    return found


@pytest.mark.parametrize("at", THREADS[1:])
def test_the_number_of_threads_must_not_be_noticed(at: int) -> None:
    assert {claim.id for claim in judged(SCALE, threads())} == {"read-seq-hdd", "read-seq-rate-hdd"}
    for inside, outside in ((0.9801, 0.9799), (1.0199, 1.0201)):
        assert failing(SCALE, threads("read-seq", at, inside)) == set()
        assert failing(SCALE, threads("read-seq", at, outside, "ssd")) == {"read-seq-ssd"}


def test_no_number_of_threads_may_be_missing() -> None:
    assert judged(SCALE, without(threads(), "read-seq-512")) == []


def test_nothing_is_claimed_of_threads_that_need_no_disk() -> None:
    for load in ("read-mem", "write-mem", "spin"):
        assert failing(SCALE, threads(load, part=0.1)) == set()


@pytest.mark.parametrize(("part", "answer"), [(0.91, "the processor"), (0.89, "more than that")])
def test_memory_is_compared_with_spinning(part: float, answer: str) -> None:
    rows = tables(SCALE, threads("read-mem", 256, part))["What threads in memory take from A on hdd"].rows
    assert rows[4] == ("256", number(part * 100), "100", answer, "the processor")
    assert rows[0][3:] == ("the processor", "the processor")


def number(value: float) -> str:
    return f"{value:.1f}"


def test_the_goal_is_drawn() -> None:
    (figure,) = SCALE.figures(threads())
    (plot,) = [panel for panel in figure.panels if isinstance(panel, Lines)]
    assert [line.label for line in plot.lines] == ["goal", "read-seq", "read-mem", "write-mem", "spin"]
    assert plot.lines[0].points == ((0.0, 124.0), (10.0, 124.0))


# metadata


def creates(off: float = 0.0, at: str = "ext4-10ms", device: str = "hdd") -> list[Cell]:
    """Split-Token's reader is the part `off` above its target of 124 MB/s in one variant, at it in the others."""
    found = []
    for system in ("ext4", "xfs"):
        for scheduler in ("mq-deadline", "split-token"):
            found.append(cell(scheduler, f"{system}-solo", SOLO, device=device))
            for sleep in SLEEPS:
                name = f"{system}-{sleep}ms"
                rate = 124 * (1 + off * (name == at)) if scheduler == "split-token" else 60
                found.append(paying(cell(scheduler, name, rate, 4096 * 3e-6, device), 1))
    return found


@pytest.mark.parametrize("at", [f"{system}-{sleep}ms" for system in ("ext4", "xfs") for sleep in SLEEPS])
def test_a_reader_beside_who_makes_files_is_at_his_target(at: str) -> None:
    named = {f"{name}-hdd" for name in ("ext4", "ext4-rate", "xfs", "xfs-rate")}
    assert {claim.id for claim in judged(METADATA, creates())} == named
    for sign in (1, -1):
        assert failing(METADATA, creates(sign * 0.0499, at)) == set()
        assert failing(METADATA, creates(sign * 0.0501, at, "ssd")) == {f"{at.partition('-')[0]}-ssd"}


def test_no_sleep_may_be_missing() -> None:
    left = judged(METADATA, without(creates(), "xfs-100ms"))
    assert {claim.id for claim in left} == {"ext4-hdd", "ext4-rate-hdd"}


def test_metadata_says_how_many_files_are_made() -> None:
    rows = {row[:3]: row[3:] for row in tables(METADATA, creates(-0.02))["Metadata on hdd"].rows}
    assert rows["ext4", "10 ms", "split-token"] == ("122", "-2.00", "3.00", "0.500")
    assert rows["XFS", "0 ms", "mq-deadline"][1] == "-51.6"


def made(length: int, pause: int, folder: Path) -> dict[str, Any]:
    """The output of the script's own maker of files, on this machine."""
    text = (description.FOLDER / "token-isolation/token.sh").read_text()
    python = text.split("<<-'END'\n")[1].split("\tEND\n")[0]
    for place in ("/tmp/mnt", "/out"):
        python = python.replace(place, str(folder))
    lines = [line.removeprefix("\t\t") for line in python.splitlines()]
    subprocess.run([sys.executable, "-c", "\n".join(lines), str(length), str(pause)], check=True)
    return cast(dict[str, Any], json.loads((folder / "fio-b.json").read_text()))


def test_files_that_are_made_are_counted(tmp_path: Path) -> None:
    left = made(1, 100, tmp_path)
    (found,) = fio.parse(json.dumps(left))
    assert (found.name, found.ios) == ("throttled", len(list((tmp_path / "new").iterdir())))
    assert 1 <= found.ios <= 10
    seconds = left["jobs"][0]["write"]["runtime"] / 1000
    assert seconds >= 1
    assert found.iops == pytest.approx(found.ios / seconds)
    assert sum(count for _, count in found.lat.histogram) == found.ios
    assert found.bytes_per_s == 0


# token-overhead


def rated(times: float = 1.05, charged: float = 5e8, tokens: float = 1e9) -> list[Cell]:
    """Split-Token's I/Os cost `times` a no-op's; `charged` of the rate was used and `tokens` are left."""
    found = []
    for scheduler, cost in {"split-fifo": 9900.0, "split-noop": 10000.0, "split-token": 10000.0 * times}.items():
        readings = {"charged": charged, "tokens": tokens} if scheduler == "split-token" else {}
        for variant in ("direct-read", "buffered-write"):
            one = Cell("6.12.1", "null", {}, scheduler, {}, variant, (moves("load", 100),), seconds=2, inputs=("a",))
            found.append(replace(one, cpu=Cpu(cost), readings=readings))
    return found


def test_a_rate_that_costs_a_tenth_holds_and_more_fails() -> None:
    assert {claim.id for claim in judged(OVERHEAD, rated())} == {"direct-read", "buffered-write"}
    assert failing(OVERHEAD, rated(1.099)) == set()
    assert failing(OVERHEAD, rated(1.101)) == {"direct-read", "buffered-write"}


@pytest.mark.parametrize("wrong", [{"charged": 0.0}, {"tokens": -1.0}])
def test_a_rate_that_was_not_used_or_is_owed_fails(wrong: Mapping[str, float]) -> None:
    assert failing(OVERHEAD, rated(**wrong)) == {"direct-read", "buffered-write"}
    rows = tables(OVERHEAD, rated(**wrong))["Instructions"].rows
    assert {row[2] for row in rows if row[1] == "split-token"} == {"–"}


def test_the_costs_are_in_a_table() -> None:
    rows = {row[:2]: row[2:] for row in tables(OVERHEAD, rated())["Instructions"].rows}
    assert rows["a 4 KiB direct read", "split-token"] == ("10,500", "1.05")
    assert len(rows) == 6


# All


@pytest.mark.parametrize(
    ("about", "cells"), [(ISOLATION, isolated()), (SCS, six()), (SCALE, threads()), (METADATA, creates())]
)
def test_a_page_can_be_made(about: analysis.Analysis, cells: list[Cell]) -> None:
    found = replace(samples.result(), cells=tuple(cells))
    assert report.html(found, about.figures(cells)).count("<svg") >= 1
    assert all(figure.panels for figure in about.figures(cells[:1]))
    assert all(figure.panels for figure in about.figures(cells[-1:]))


def test_the_contract_names() -> None:
    names = {name: {variant.name for variant in description.load(name).variants} for name in description.names()}
    runs = {f"{operation}-{size}" for operation in OPERATIONS for size in SIZES}
    assert names["token-isolation"] >= {"solo", "solo-xfs", *runs, *(f"{run}-xfs" for run in runs)}
    assert names["token-scs"] >= {"solo", *SIX}
    loads = ("read-seq", "read-mem", "write-mem", "spin")
    assert names["token-scale"] >= {f"{load}-{number}" for load in loads for number in THREADS}
    assert names["metadata"] >= {f"{system}-{sleep}ms" for system in ("ext4", "xfs") for sleep in SLEEPS}


@pytest.mark.parametrize("name", ["token-scs", "token-scale", "metadata"])
def test_the_rate_that_is_judged_is_the_rate_that_is_set(name: str) -> None:
    rates = {variant.env["RATE"] for variant in description.load(name).variants} - {"max"}
    assert rates == {f"{analysis.load_of(name).RATE:.0f}"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_run_is_as_long_as_its_name_says(operation: str, size: str) -> None:
    """The name gives the size of the calls together, with the same options for all file systems and limits."""
    variants = {variant.name: variant for variant in description.load("token-isolation").variants}
    kinds = [variants[f"{operation}-{size}{suffix}"].env for suffix in ("", "-xfs", "-io-max", "-io-cost")]
    assert len({env["LOAD"] for env in kinds}) == 1
    how, block = kinds[0]["LOAD"].split()
    way, _, calls = how.removeprefix("--rw=rand").partition(":")
    kib = int(size[:-1]) * (1024 if size.endswith("m") else 1)
    assert (way, int(calls or 1) * int(block.removeprefix("--bs=").removesuffix("k"))) == (operation, kib)
    assert [env["FS"] for env in kinds] == ["ext4", "xfs", "ext4", "ext4"]
    assert [env["LIMIT"] for env in kinds] == ["", "", "io.max", "io.cost"]


def test_the_variants_without_a_rate_are_the_same_but_for_it() -> None:
    variants = {variant.name: variant for variant in description.load("token-scs").variants}
    for name in ("read-mem", "write-mem"):
        own, free = (dict(variants[title].env) for title in (name, f"free-{name}"))
        assert (own.pop("RATE"), free.pop("RATE")) == ("1000000", "max")
        assert own == free


def test_scs_token_comes_with_split_token() -> None:
    built = {f"{name}.ko": b"" for name in ("simdisk", "sluice-cause", "split", "split-token", "split-noop")}
    found = description.load("token-scs")
    for scheduler in ("scs-token", "split-token"):
        point = plan.points(found, Choice(schedulers=(scheduler,)))[0]
        modules = {name for name in plan.make_job(found, point, 1, built).files if name.endswith(".ko")}
        assert modules == {"simdisk.ko", "sluice-cause.ko", "split.ko", "split-token.ko"}
    assert SCHEDULERS["scs-token"].elevator == "scs-token"
