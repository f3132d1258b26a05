# SPDX-License-Identifier: GPL-2.0-only
"""fio's output in a guest (golden/fio), read as figures."""

import json
from pathlib import Path

import pytest

from lab import fio
from lab.result import Histogram, Job, Spread

GOLDEN = Path(__file__).parent / "golden/fio"
MIX = (GOLDEN / "mix.json").read_text()
FSYNC = (GOLDEN / "fsync.json").read_text()
LOGS = {path.name: path.read_text() for path in GOLDEN.glob("*.log")}


def jobs() -> tuple[Job, ...]:
    return fio.parse(MIX, LOGS)


def test_the_jobs_of_a_mix() -> None:
    database, backup = jobs()
    assert (database.name, database.ioclass, database.level) == ("database", "rt", 1)
    assert (backup.name, backup.ioclass, backup.level) == ("backup", "idle", 7)
    assert database.ios == 772
    assert database.iops == pytest.approx(772 / 2.044)
    assert database.bytes_per_s == pytest.approx(database.iops * 4096)
    assert database.lat.mean > database.clat.mean
    assert database.lat.p99 >= database.clat.p99


def test_percentiles_are_those_that_fio_prints_or_the_maximum_if_they_are_above() -> None:
    for raw, job in zip(json.loads(MIX)["jobs"], jobs(), strict=True):
        for name, ours in (("clat_ns", job.clat), ("lat_ns", job.lat)):
            theirs = raw["read"][name]["percentile"]
            assert [ours.p50, ours.p95, ours.p99, ours.p999] == [
                min(theirs[key], ours.max) for key in ("50.000000", "95.000000", "99.000000", "99.900000")
            ]


def test_no_sample_is_lost() -> None:
    for job in jobs():
        assert sum(count for _, count in job.clat.histogram) == job.ios
        assert sum(window.ios for window in job.series) <= job.ios
    assert sum(window.ios for window in jobs()[0].series) > 0.7 * jobs()[0].ios


def test_the_series_agrees_with_the_mean() -> None:
    for job in jobs():
        ios = sum(window.ios for window in job.series)
        mean = sum(window.mean_ns * window.ios for window in job.series) / ios
        assert mean == pytest.approx(job.clat.mean, rel=0.1)
        assert [window.start_s for window in job.series] == [0.0, 0.5, 1.0, 1.5][: len(job.series)]


def test_bins_are_fios() -> None:
    """Every value in fio's own histograms is one that bin_value() gives."""
    values = {fio.bin_value(index) for index in range(29 << fio.BITS)}
    for job in jobs():
        inner = [value for value, _ in job.clat.histogram]
        assert set(inner) <= values
    assert [fio.bin_value(index) for index in (0, 127, 128, 129, 191, 192)] == [0, 127, 129, 131, 255, 258]


@pytest.mark.parametrize(
    ("histogram", "percent", "value"),
    [
        ((), 99, 0),
        (((5, 1),), 50, 5),
        (((1, 50), (2, 50)), 50, 1),
        (((1, 50), (2, 50)), 50.1, 2),
        (((1, 99), (2, 1)), 99, 1),
        (((1, 98), (2, 2)), 99, 2),
        (((1, 999), (2, 1)), 99.9, 1),
        (((1, 1), (9, 1)), 100, 9),
    ],
)
def test_percentile(histogram: Histogram, percent: float, value: int) -> None:
    assert fio.percentile(histogram, percent) == value


def test_runs_are_pooled() -> None:
    one = jobs()
    pooled = fio.pool([one, one])
    assert pooled[0].ios == 2 * one[0].ios
    assert pooled[0].iops == one[0].iops
    assert pooled[0].lat.p99 == one[0].lat.p99
    assert pooled[0].lat.mean == pytest.approx(one[0].lat.mean)
    assert pooled[0].spread == Spread((one[0].iops,) * 2, (one[0].lat.mean,) * 2, (one[0].lat.p99,) * 2)


def test_pooling_moves_a_percentile_as_the_samples_do() -> None:
    slow, fast = fio.latency(((9, 10),), 9.0, 9), fio.latency(((1, 990),), 1.0, 1)
    both = fio._pool_latency([slow, fast])
    assert (both.p50, both.p99, both.p999, both.max) == (1, 1, 9, 9)
    assert both.mean == pytest.approx(1.08)


def test_fsyncs_have_times_of_their_own() -> None:
    """After every fourth of 40 writes, but for the last one."""
    (small,) = fio.parse(FSYNC)
    assert small.ios == 40
    assert sum(count for _, count in small.sync.histogram) == 9
    assert small.sync.max == 24977005
    assert small.sync.mean == pytest.approx(24450192.1)
    assert small.lat.max < small.sync.p50
    assert not jobs()[0].sync.histogram


def test_fdatasyncs_are_fsyncs_too() -> None:
    """fio 3.39 doesn't count an fdatasync in total_ios, but has its latency."""
    data = json.loads(FSYNC)
    data["jobs"][0]["sync"]["total_ios"] = 0
    assert fio.parse(json.dumps(data)) == fio.parse(FSYNC)


def test_fsyncs_of_several_runs_are_pooled() -> None:
    (pooled,) = fio.pool([fio.parse(FSYNC), fio.parse(FSYNC)])
    (small,) = fio.parse(FSYNC)
    assert sum(count for _, count in pooled.sync.histogram) == 18
    assert pooled.sync.mean == pytest.approx(small.sync.mean)


def test_a_starved_job_is_no_error() -> None:
    data = json.loads(MIX)
    for way in ("read", "write"):
        data["jobs"][1][way].update(total_ios=0, runtime=0, io_bytes=0)
    starved = fio.parse(json.dumps(data))[1]
    assert (starved.ios, starved.iops, starved.lat.p99) == (0, 0.0, 0)


@pytest.mark.parametrize(
    "text", ["", "fio: pid=0, err=19/file:filesetup.c", "{", "[]", '{"jobs": [{}]}', '{"jobs": 3}', '{"other": 1}']
)
def test_damaged_output_is_refused(text: str) -> None:
    with pytest.raises(fio.FioError):
        fio.parse(text)


def test_a_failed_job_is_refused() -> None:
    data = json.loads(MIX)
    data["jobs"][0]["error"] = 5
    with pytest.raises(fio.FioError, match="database failed with error 5"):
        fio.parse(json.dumps(data))


def test_a_log_of_other_columns_is_refused() -> None:
    with pytest.raises(fio.FioError, match="columns"):
        fio.parse(MIX, {"database_clat_hist.1.log": "500, 0, 4096, 1, 2, 3\n"})


def test_the_version() -> None:
    assert fio.version(MIX) == "fio-3.39"
