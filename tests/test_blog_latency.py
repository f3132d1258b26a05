# SPDX-License-Identifier: GPL-2.0-only
"""sysbench's output is read, modes are found at the right places, and the blog's claims fail when they should."""

from __future__ import annotations

from pathlib import Path

import pytest
import samples
from msgspec.structs import replace
from samples import judged

from lab import analysis, fio, sysbench
from lab.errors import LabError
from lab.result import Cell, Histogram, Latency

GOLDEN = (Path(__file__).parent / "golden" / "sysbench.txt").read_text()
BLOG = analysis.load_of("blog-latency")


def test_sysbench_is_read() -> None:
    job = sysbench.parse(GOLDEN)
    assert (job.name, job.ios, round(job.iops, 1)) == ("sysbench", 4054, 675.2)
    assert (job.lat.p50, job.lat.p99, job.lat.max) == (2_032_000, 4_652_000, 11_390_000)
    assert sum(count for _, count in job.lat.histogram) > 2000
    assert job.bytes_per_s == pytest.approx(4.68 * (1 << 20))


@pytest.mark.parametrize("lost", ["total time:", "read, MiB/s:", "max:"])
def test_half_of_sysbench_is_refused(lost: str) -> None:
    with pytest.raises(LabError, match="lacks"):
        sysbench.parse(GOLDEN.replace(lost, ""))


def latency(*histogram: tuple[int, int]) -> Latency:
    return fio.latency(histogram, 0.0, histogram[-1][0])


def seen(scheduler: str, variant: str, reads: Histogram, writes: Histogram, wait: int) -> Cell:
    stages = {name: {"d2c": latency(*found)} for name, found in (("read", reads), ("write", writes))}
    stages["be/0"] = {"q2d": latency((wait, 100)), "d2c": latency(*reads)}
    stages["files"] = {"read": latency((wait, 100))}
    return replace(samples.cell("ssd", scheduler, variant), stages_by=stages, jobs=(sysbench.parse(GOLDEN),))


READS, WRITES, LATE = ((55_000, 900),), ((63_000, 300),), ((40_000_000, 300),)


def cells(slow: int = 55_000, writes: Histogram = WRITES, left: Histogram = LATE, wait: int = 500_000) -> list[Cell]:
    """All schedulers in the three variants; bfq may differ, and in the last one the other schedulers do."""
    others = [name for name in BLOG.SCHEDULERS if name != "bfq"]  # type: ignore[attr-defined]
    return [
        seen("bfq", "fsync", ((slow, 900),), writes, 1000),
        seen("bfq", "no-fsync", READS, left, 1000),
        seen("bfq", "contended", READS, WRITES, 100_000),
        *(seen(name, "fsync", READS, WRITES, 1000) for name in others),
        *(seen(name, "no-fsync", READS, LATE, 1000) for name in others),
        *(seen(name, "contended", READS, WRITES, wait) for name in others),
    ]


def failing(found: list[Cell]) -> set[str]:
    return {claim.id for claim in judged(BLOG, found) if not claim.holds}


def test_claims_hold_where_the_blog_s_finding_is() -> None:
    assert len(judged(BLOG, cells())) == 6
    assert failing(cells()) == set()


def test_claims_fail_where_it_is_not() -> None:
    assert failing(cells(slow=53_000)) == {"d2c-same"}
    gone = {"two-modes", "second-mode-is-writes", "second-mode-goes"}
    assert failing(cells(writes=((55_000, 300),))) == gone
    assert failing(cells(left=WRITES)) == {"second-mode-goes"}
    assert failing(cells(wait=150_000)) == {"contended-q2d", "contended-files"}


def test_a_second_mode_of_reads_is_no_buffer() -> None:
    found = cells()
    found[0] = seen("bfq", "fsync", ((55_000, 900), (63_000, 300)), ((40_000, 1),), 1000)
    assert failing(found) == {"second-mode-is-writes"}


def test_where_iolat_saw_nothing_the_claims_fail() -> None:
    found = [replace(one, stages_by={}) if one.scheduler == "kyber" else one for one in cells()]
    assert len(failing(found)) == 6


def test_the_figures_have_the_blog_s_beside_ours() -> None:
    device, scheduler = BLOG.figures(cells())
    rows = device.panels[0].rows  # type: ignore[union-attr]
    assert rows[0][:3] == ("blog", "cfq", "55.9")
    assert ("fsync", "none", "55.0", "63.0", "63.0", "63.0", "55.0, 63.0") in rows
    assert ("none", "500", "500") in [row[:3] for row in scheduler.panels[0].rows]  # type: ignore[union-attr]
