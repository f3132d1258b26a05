# SPDX-License-Identifier: GPL-2.0-only
"""results.json: written results can be read, and the digest covers all of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lab import result
from lab.result import Cell, Claim, Cpu, Job, Latency, Result, Spread, Window


def sample() -> Result:
    histogram = ((100, 3), (2500, 1))
    latency = Latency(700.0, 100, 2500, 2500, 2500, 2600, histogram)
    job = Job(
        *("database", "be", 1, 4, 2.5, 10240.0, latency, latency, (Window(0.0, 4, 700.0, 2500),), 1.5),
        spread=Spread((2.0, 3.0)),
        sync=Latency(900.0, 900, 900, 900, 900, 900, ((900, 1),)),
    )
    cell = Cell(
        "6.12.1",
        "ssd",
        {"profile": "ssd"},
        "mq-prio",
        {"low_share": "5"},
        "classes",
        (job,),
        Cpu(0.0),
        {"nr_requests": "64"},
        10,
        ("k1", "k2"),
        stages={"q2c": latency},
        stages_by={"be/1": {"q2c": latency}},
        watched={"database": 0.99},
        watched_inputs=("k3",),
        readings={"most-bytes": 12.5},
    )
    claims = (
        Claim("a", "b", 0.1, "holds", 0.5, "≥ 0.05", (0.07, 0.2), (0.1, 0.12)),
        Claim("c", "d", None, "not judged", command="./sluice run prio-mix"),
    )
    return Result("prio-mix", "Does it?", {"CPUs": "1"}, "./sluice run prio-mix", (cell,), claims, {"qemu": "10.0.13"})


def test_a_result_reads_as_written(tmp_path: Path) -> None:
    result.write(sample(), tmp_path)
    assert result.read(tmp_path) == sample()
    assert result.read(tmp_path / result.FILE_NAME) == sample()


def test_the_contract_holds() -> None:
    data = json.loads(result.dumps(sample()))
    assert data["schema"] == 1
    (cell,) = data["cells"]
    assert cell["cpu"] == {"instructions_per_io": 0.0}
    times = {"mean", "p50", "p95", "p99", "p99.9", "max", "histogram"}
    (job,) = cell["jobs"]
    assert set(job["clat_ns"]) == set(job["lat_ns"]) == set(job["sync_ns"]) == set(cell["stages"]["q2c"]) == times
    assert job["series"] == [[0.0, 4, 700.0, 2500]]
    assert data["claims"] == [
        {
            "id": "a",
            "text": "b",
            "paper": 0.5,
            "measured": 0.1,
            "interval": [0.07, 0.2],
            "values": [0.1, 0.12],
            "state": "holds",
            "limit": "≥ 0.05",
            "holds": True,
            "command": "",
        },
        {
            "id": "c",
            "text": "d",
            "paper": None,
            "measured": None,
            "interval": None,
            "values": [],
            "state": "not judged",
            "limit": "",
            "holds": False,
            "command": "./sluice run prio-mix",
        },
    ]
    assert data["digest"].startswith("sha256:")


def test_a_job_without_fsyncs_has_their_latency_too() -> None:
    (cell,) = sample().cells
    silent = replace(cell, jobs=(replace(cell.jobs[0], sync=Latency()),))
    (written,) = replace(sample(), cells=(silent,)).body()["cells"]
    assert written["jobs"][0]["sync_ns"]["histogram"] == ()


def test_what_only_some_cells_have_is_left_out() -> None:
    (cell,) = sample().cells
    bare = replace(cell, stages={}, stages_by={}, watched={}, watched_inputs=(), readings={})
    (written,) = replace(sample(), cells=(bare,)).body()["cells"]
    assert {"stages", "stages_by", "watched", "watched_inputs", "readings"}.isdisjoint(written)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key in value for leaf in leaves(value[key], (*path, key))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [path]


def changed(body: Any, path: tuple[Any, ...]) -> Any:
    """A copy with another value at one leaf, of the same type."""
    copy = json.loads(json.dumps(body))
    target = copy
    for step in path[:-1]:
        target = target[step]
    old = target[path[-1]]
    if old is None:
        target[path[-1]] = [1.0, 2.0] if path[-1] == "interval" else 1.0
    else:
        target[path[-1]] = old + "x" if isinstance(old, str) else (not old) if isinstance(old, bool) else old + 1
    return copy


def test_the_digest_covers_every_leaf() -> None:
    body = json.loads(result.dumps(sample()))
    digests = [result.digest(changed(body, path)) for path in leaves(body)]
    assert len(set(digests)) == len(digests) > 60
    assert sample().digest not in digests


def test_the_same_inputs_give_the_same_digest() -> None:
    assert sample().digest == sample().digest
    assert sample().digest == "sha256:04ce9c997d626027e194eed356eac3cacf290a039eb11f304fb9a44e64fcdd6e"


def test_an_integer_where_a_float_belongs_is_the_same_result(tmp_path: Path) -> None:
    """Python's arithmetic gives either, and JSON writes them differently."""
    whole = replace(sample(), claims=(Claim("a", "b", 2, "holds"),))
    assert whole.digest == replace(sample(), claims=(Claim("a", "b", 2.0, "holds"),)).digest
    result.write(whole, tmp_path)
    assert result.read(tmp_path) == whole


def test_a_changed_file_is_refused_whatever_was_changed(tmp_path: Path) -> None:
    path = result.write(sample(), tmp_path)
    whole = json.loads(path.read_text())
    for leaf in leaves(whole):
        path.write_text(json.dumps(changed(whole, leaf)))
        with pytest.raises(result.ResultError, match="digest|schema"):
            result.read(tmp_path)
    path.write_text(json.dumps({**whole, "remark": "mine"}))
    with pytest.raises(result.ResultError, match="digest"):
        result.read(tmp_path)


def test_a_file_of_another_version_is_no_changed_file(tmp_path: Path) -> None:
    body = {**sample().body(), "from the future": 1}
    (tmp_path / result.FILE_NAME).write_text(json.dumps({**body, "digest": result.digest(body)}))
    with pytest.raises(result.ResultError, match="another version of Sluice wrote this file"):
        result.read(tmp_path)


def test_a_field_of_a_wrong_type_is_named(tmp_path: Path) -> None:
    body = {**sample().body(), "cells": {}}
    (tmp_path / result.FILE_NAME).write_text(json.dumps({**body, "digest": result.digest(body)}))
    with pytest.raises(result.ResultError, match=r"Expected `array`, got `object` - at `\$.cells`"):
        result.read(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1}', "{", "null"])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / result.FILE_NAME).write_text(text)
    with pytest.raises(result.ResultError) as caught:
        result.read(tmp_path)
    assert "./sluice run" in str(caught.value)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(result.ResultError, match="no results"):
        result.read(tmp_path / "nowhere")


def test_nothing_that_is_no_number_is_written() -> None:
    bad = replace(sample(), claims=(Claim("a", "b", float("nan"), "holds"),))
    with pytest.raises(ValueError, match="not JSON compliant"):
        result.dumps(bad)
