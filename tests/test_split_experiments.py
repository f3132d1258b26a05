# SPDX-License-Identifier: GPL-2.0-only
"""The claims of split-level scheduling's six experiments hold and fail where they should; all figures are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import samples
from msgspec.structs import replace
from samples import judged

from lab import analysis, description, fio, plan, report, study
from lab.figure import Lines, Table
from lab.plan import Choice
from lab.result import Cell, Cpu, Job, Latency
from lab.schedulers import SCHEDULERS

BURST = analysis.load_of("write-burst")
AFQ = analysis.load_of("afq")
ASYNC = analysis.load_of("async-priority")
FSYNC = analysis.load_of("fsync-dependency")
OVERHEAD = analysis.load_of("overhead")
MEMORY = analysis.load_of("memory-overhead")


def cell(scheduler: str, variant: str, *jobs: Job, device: str = "hdd") -> Cell:
    return Cell("6.12.1", device, {"profile": device}, scheduler, {}, variant, jobs, seconds=20, inputs=("a", "b"))


def failing(about: analysis.Analysis, cells: Sequence[Cell]) -> set[str]:
    return {claim.id for claim in judged(about, cells) if not claim.holds}


def tables(about: analysis.Analysis, cells: Sequence[Cell]) -> dict[str, Table]:
    panels = [panel for figure in about.figures(cells) for panel in figure.panels]
    return {panel.title: panel for panel in panels if isinstance(panel, Table)}


def times(milliseconds: float) -> Latency:
    value = round(milliseconds * 1e6)
    return fio.latency(((value, 100),), value, value)


# write-burst


def burst(during: float = 0.95, after: float = 0.95, device: str = "hdd") -> list[Cell]:
    """The part of its speed alone that afq's reader has; bfq's reader has a quarter afterwards."""
    found = []
    for scheduler, parts in {"bfq": (0.6, 0.25), "afq": (during, after)}.items():
        for variant, part in zip(("before", "burst", "after"), (1.0, *parts), strict=True):
            jobs = [samples.job("reader", 950 * part, 1.0, 131072)]
            if variant != "before":
                jobs.insert(0, samples.job("burst", 4000, 0.1, 4096))
            found.append(cell(scheduler, variant, *jobs, device=device))
    return found


def test_a_reader_that_keeps_its_speed_holds() -> None:
    claims = {claim.id: claim for claim in judged(BURST, burst())}
    assert set(claims) == {"burst-hdd", "after-hdd"}
    assert claims["after-hdd"].measured == pytest.approx(0.95)
    assert failing(BURST, burst()) == set()


@pytest.mark.parametrize("device", ["hdd", "ssd"])
def test_a_reader_that_loses_its_speed_fails(device: str) -> None:
    assert failing(BURST, burst(during=0.89, device=device)) == {f"burst-{device}"}
    assert failing(BURST, burst(after=0.89, device=device)) == {f"after-{device}"}


def test_the_burst_is_drawn_as_one_curve() -> None:
    (figure,) = BURST.figures(burst())
    (plot,) = [panel for panel in figure.panels if isinstance(panel, Lines)]
    assert [line.label for line in plot.lines] == ["bfq", "afq"]
    assert min(x for x, _ in plot.lines[0].points) == -5
    rows = {row[0]: row for row in tables(BURST, burst())["The reader on hdd"].rows}
    assert rows["bfq"][1:] == ("125", "74.7", "31.1", "30.5–31.8", "25.0", "81.9")


# afq and async-priority

EQUAL = (1.0,) * 8
IDEAL = tuple(8.0 - level for level in range(8))
LOADS = ("read", "async-write", "sync-write", "memory")


def levels(scheduler: str, variant: str, shares: Sequence[float], whole: float = 36.0, device: str = "hdd") -> Cell:
    """A cell whose eight levels have these parts of `whole` MB/s."""
    rates = [share / sum(shares) * whole * 1e6 for share in shares]
    jobs = [replace(samples.job(f"p{level}", rate / 4096, 1.0, 4096), level=level) for level, rate in enumerate(rates)]
    return cell(scheduler, variant, *jobs, device=device)


def eight(changed: Mapping[str, Sequence[float]] | None = None, whole: Mapping[str, float] | None = None) -> list[Cell]:
    """none and bfq serve all levels alike; afq has the ideal shares of a total of 36 MB/s, except those changed."""
    found = []
    for variant in LOADS:
        found += [levels(rival, variant, EQUAL) for rival in ("none", "bfq")]
        found.append(levels("afq", variant, (changed or {}).get(variant, IDEAL), (whole or {}).get(variant, 36.0)))
    return found


def off(part: float) -> list[float]:
    """Shares off the ideal ones, half of the levels above and half below.

    Both halves have the same sum: 8, 5, 4 and 1 are as many as 7, 6, 3 and 2.
    """
    return [weight * (1 + part if weight in (8, 5, 4, 1) else 1 - part) for weight in IDEAL]


def test_ideal_shares_hold() -> None:
    claims = {claim.id: claim for claim in judged(AFQ, eight())}
    assert len(claims) == 7
    assert claims["read-hdd"].measured == 0
    assert claims["sync-write-hdd"].paper == 0.03
    assert failing(AFQ, eight()) == set()


@pytest.mark.parametrize(("variant", "most"), [("read", 0.1), ("async-write", 0.1), ("sync-write", 0.03)])
def test_shares_that_are_off_fail(variant: str, most: float) -> None:
    assert failing(AFQ, eight({variant: off(most * 0.99)})) == set()
    assert failing(AFQ, eight({variant: off(most * 1.01)})) == {f"{variant}-hdd"}


@pytest.mark.parametrize("variant", LOADS)
def test_a_loss_of_throughput_fails(variant: str) -> None:
    assert failing(AFQ, eight(whole={variant: 36 * 0.951})) == set()
    assert failing(AFQ, eight(whole={variant: 36 * 0.949})) == {f"{variant}-total-hdd"}


def test_memory_is_compared_with_none() -> None:
    cells = [one for one in eight() if (one.scheduler, one.variant) != ("bfq", "memory")]
    faster = [levels("none", "memory", EQUAL, 40.0) if one.scheduler == "none" else one for one in cells]
    assert failing(AFQ, faster) == {"memory-total-hdd"}


def test_one_who_serves_all_alike_is_where_the_paper_s_cfq_is() -> None:
    rows = {row[:2]: row for row in tables(AFQ, eight())["Levels on hdd"].rows}
    assert rows["async-write", "bfq"][2] == "81.5"
    assert rows["async-write", "paper: cfq"][2] == "82.0"
    assert rows["memory", "bfq"][2] == "–"


def watched(one: Cell, counts: Mapping[str, int]) -> Cell:
    stages = {name: {"d2c": fio.latency(((1000, count),), 1000, 1000)} for name, count in counts.items()}
    return replace(one, stages_by={"read": {"d2c": times(1)}, **stages})


def priorities(ours: Sequence[float] = IDEAL, bfq: Sequence[float] = EQUAL) -> list[Cell]:
    counts = {"be/0": 40, "be/4": 960}
    return [
        watched(levels("bfq", "async-write", bfq), counts),
        watched(levels("afq", "async-write", ours), counts),
    ]


def test_async_priority_claims_what_is_ours() -> None:
    assert {claim.id for claim in judged(ASYNC, priorities())} == {"ours-hdd"}
    assert failing(ASYNC, priorities()) == set()
    assert failing(ASYNC, priorities(ours=EQUAL)) == {"ours-hdd"}


@pytest.mark.parametrize(("bfq", "answer"), [(EQUAL, "no"), (off(0.3), "in part"), (off(0.09), "yes")])
def test_async_priority_answers_whether_levels_count(bfq: Sequence[float], answer: str) -> None:
    rows = tables(ASYNC, priorities(bfq=bfq))["Asynchronous writes on hdd"].rows
    assert [row[2] for row in rows] == [answer, "yes", "no"]


def test_async_priority_shows_the_levels_of_requests() -> None:
    rows = tables(ASYNC, priorities())["Asynchronous writes on hdd"].rows
    assert rows[0] == ("bfq", "81.5", "no", "36.0", "4.00 % be/0, 96.0 % be/4")
    unwatched = [replace(one, stages_by={}) for one in priorities()]
    assert tables(ASYNC, unwatched)["Asynchronous writes on hdd"].rows[0][-1] == "–"


# fsync-dependency


def fsyncs(**largest: float) -> list[Cell]:
    """The mean fsync in ms is 20 beside the smallest writes, and 60 beside the largest unless given."""
    found = [cell("mq-deadline", "alone", replace(samples.job("small", 30, 1, 4096), sync=times(15)))]
    for system in ("", "-dioread-lock", "-nodelalloc", "-xfs"):
        for size, value in (("16k", 20.0), ("4m", largest.get(system.strip("-").replace("-", "_") or "ext4", 60.0))):
            small = replace(samples.job("small", 10, 1, 4096), sync=times(value))
            found.append(cell("mq-deadline", size + system, samples.job("big", 100, 1, 4096), small))
    return found


def test_whether_an_fsync_depends_on_its_neighbour_is_said_of_each_file_system() -> None:
    answers = tables(FSYNC, fsyncs(nodelalloc=39.0, xfs=19.0))["Does an fsync depend on its neighbour, on hdd?"]
    assert answers.rows == (
        ("ext4", "mq-deadline", "3.00", "depends", "yes"),
        ("ext4, dioread_lock", "mq-deadline", "3.00", "depends", "yes"),
        ("ext4, dioread_lock and nodelalloc", "mq-deadline", "1.95", "no longer depends", "yes"),
        ("XFS", "mq-deadline", "0.950", "no longer depends", "no"),
    )
    assert judged(FSYNC, fsyncs()) == []


def test_fsync_s_table_names_the_file_system() -> None:
    rows = tables(FSYNC, fsyncs())["fsync of 4 KiB on hdd"].rows
    assert rows[0] == ("ext4", "alone", "mq-deadline", "15.0", "15.0", "15.0", "30.0", "–")
    assert rows[-1][:4] == ("XFS", "4m", "mq-deadline", "60.0")


# overhead

READING = "writeback-instructions-per-page"


def costs(read: float = 1.0, write: float = 60.0, page: float = 15.0, at: int = 1) -> list[Cell]:
    """split-noop's cost beside `at` processes: reads as parts of split-fifo's, the others as instructions added."""
    found = []
    for count in (1, 10, 100):
        for scheduler in ("split-fifo", "split-noop"):
            ours = scheduler == "split-noop" and count == at
            reads = 14000 * (read if ours else 1.0)
            found.append(replace(cell(scheduler, f"direct-read-{count}", device="null"), cpu=Cpu(reads)))
            value = 7400 + round(write) * ours
            job = replace(samples.job("load", 1e5, 1, 4096), lat=fio.latency(((value, 99), (10**7, 1)), value, 10**7))
            readings = {READING: 8000 + page * ours}
            found.append(replace(cell(scheduler, f"buffered-write-{count}", job, device="null"), readings=readings))
    return found


@pytest.mark.parametrize("at", [1, 10, 100])
def test_a_cheap_framework_holds_and_a_dear_one_fails(at: int) -> None:
    assert len(judged(OVERHEAD, costs(at=at))) == 9
    assert failing(OVERHEAD, costs(1.009, 449, 299, at)) == set()
    assert failing(OVERHEAD, costs(read=1.011, at=at)) == {f"direct-read-{at}"}
    assert failing(OVERHEAD, costs(write=451, at=at)) == {f"buffered-write-{at}"}
    assert failing(OVERHEAD, costs(page=301, at=at)) == {f"writeback-{at}"}


def test_a_slow_path_of_the_framework_counts() -> None:
    """One write in a hundred that takes 100 µs longer adds 1,000 instructions to the mean."""
    cells = costs()
    place = ("split-noop", "buffered-write-10")
    number = next(number for number, one in enumerate(cells) if (one.scheduler, one.variant) == place)
    slow = fio.latency(((7400, 99), (107400, 1)), 8400, 107400)
    job = replace(cells[number].job("load"), lat=slow)
    cells[number] = replace(cells[number], jobs=(job,))
    assert failing(OVERHEAD, cells) == {"buffered-write-10"}


def test_what_was_preempted_costs_nothing() -> None:
    rows = tables(OVERHEAD, costs())["4 KiB buffered writes that make a page dirty, instructions"].rows
    assert rows == (
        ("split-fifo", "7,400", "0", "7,400", "0", "7,400", "0"),
        ("split-noop", "7,460", "60.0", "7,400", "0", "7,400", "0"),
    )


# memory-overhead


def kept(average: float = 0.0005, most: float = 0.001) -> list[Cell]:
    """The parts of the memory that the framework keeps."""
    return [
        replace(
            cell(scheduler, f"dirty-{percent}", samples.job("load", 1000, 1, 65536)),
            readings={"ram-bytes": 1e9, "average-bytes": average * 1e9, "most-bytes": most * 1e9},
        )
        for scheduler in ("split-noop", "afq")
        for percent in (10, 20, 30, 40, 50)
    ]


def test_little_memory_holds_and_much_fails() -> None:
    assert {claim.id for claim in judged(MEMORY, kept())} == {
        "split-noop-20", "split-noop-50", "afq-20", "afq-50"
    }  # fmt: skip
    assert failing(MEMORY, kept(0.0019, 0.0059)) == set()
    assert failing(MEMORY, kept(average=0.0021)) == {"split-noop-20", "afq-20"}
    assert failing(MEMORY, kept(most=0.0061)) == {"split-noop-50", "afq-50"}
    assert judged(MEMORY, kept())[0].paper == 0.0018


# All


@pytest.mark.parametrize(
    ("about", "cells"),
    [
        (BURST, burst()),
        (AFQ, eight()),
        (ASYNC, priorities()),
        (FSYNC, fsyncs()),
        (OVERHEAD, costs()),
        (MEMORY, kept()),
    ],
)
def test_a_page_can_be_made(about: analysis.Analysis, cells: list[Cell]) -> None:
    found = replace(samples.result(), cells=tuple(cells))
    assert report.html(found, about.figures(cells)).count("<svg") >= 1
    assert all(figure.panels for figure in about.figures(cells[:1]))


def test_the_contract_names() -> None:
    names = {name: {variant.name for variant in description.load(name).variants} for name in description.names()}
    assert names["write-burst"] == {"before", "burst", "after"}
    assert names["afq"] == names["async-priority"] == set(LOADS)
    assert names["overhead"] == {f"{load}-{n}" for load in ("direct-read", "buffered-write") for n in (1, 10, 100)}


def test_async_priority_shares_afq_s_runs() -> None:
    """Only iolat's figures are added."""
    first, second = (description.load(name) for name in ("afq", "async-priority"))
    assert plan.points(first, Choice()) == plan.points(second, Choice())
    assert (first.iolat, second.iolat) == (None, "")


def test_a_run_carries_the_modules_that_its_scheduler_needs() -> None:
    built = {
        f"{name}.ko": b""
        for name in ("simdisk", "sluice-cause", "sluice-ranks", "split", "split-noop", "cpq", "mq-prio")
    }
    found = description.load("write-burst")
    needs = {"bfq": set(), "cpq": {"sluice-cause.ko", "cpq.ko"}, "mq-prio": {"sluice-ranks.ko", "mq-prio.ko"}}
    needs |= {"split-noop": {"sluice-cause.ko", "split.ko", "split-noop.ko"}, "afq": {"sluice-cause.ko", "split.ko"}}
    for scheduler, wanted in needs.items():
        point = plan.points(found, Choice(schedulers=(scheduler,)))[0]
        files = plan.make_job(found, point, 1, built).files
        assert {name for name in files if name.endswith(".ko")} == wanted | {"simdisk.ko"}
    assert set(SCHEDULERS["afq"].modules) == {"sluice-cause", "split", "afq"}


def test_readings_are_the_mean_of_the_runs() -> None:
    found = description.load("memory-overhead")
    point = plan.points(found, Choice())[0]
    texts = [{"kernel": "6.12.1", "device": "", "settings": "", "readings": f"average-bytes {n}\n"} for n in (10, 30)]
    runs = [(str(number), text) for number, text in enumerate(texts)]
    assert study.cell(found, point, runs).readings == {"average-bytes": 20.0}
    assert study.cell(found, point, [("a", {**texts[0], "readings": ""})]).readings == {}
