# SPDX-License-Identifier: GPL-2.0-only
"""results.json: what is written can be read, and its digest covers all of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import result
from lab.result import Cell, Claim, Job, Latency, Result, Spread, Window


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
        0.0,
        {"nr_requests": "64"},
        10,
        ("k1", "k2"),
        readings={"most-bytes": 12.5},
    )
    return Result(
        "prio-mix", "Does it?", {"CPUs": "1"}, "./sluice run prio-mix", (cell,), (Claim("a", "b", 0.1, True, 0.5),)
    )


def test_a_result_reads_as_written(tmp_path: Path) -> None:
    result.write(sample(), tmp_path)
    assert result.read(tmp_path) == sample()
    assert result.read(tmp_path / result.FILE_NAME) == sample()


def test_the_contract_holds() -> None:
    data = sample().to_json()
    assert data["schema"] == 1
    (cell,) = data["cells"]
    assert cell["cpu"] == {"instructions_per_io": 0.0}
    assert set(cell["jobs"][0]["clat_ns"]) == {"mean", "p50", "p95", "p99", "p99.9", "max", "histogram"}
    assert set(data["claims"][0]) >= {"id", "text", "paper", "measured", "holds"}
    assert data["digest"].startswith("sha256:")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key in value for leaf in leaves(value[key], (*path, key))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [path]


def test_the_digest_covers_every_leaf() -> None:
    digests = set()
    body = sample().body()
    paths = [path for path in leaves(body) if path != ("schema",)]
    for path in paths:
        changed = json.loads(json.dumps(body))
        target = changed
        for step in path[:-1]:
            target = target[step]
        old = target[path[-1]]
        target[path[-1]] = old + "x" if isinstance(old, str) else (not old) if isinstance(old, bool) else old + 1
        digests.add(result.from_json(changed).digest)
    assert len(digests) == len(paths)
    assert sample().digest not in digests


def test_the_same_inputs_give_the_same_digest() -> None:
    assert sample().digest == sample().digest
    assert sample().digest == "sha256:b13d96f68dd92c51fa85edcbe9e70314cb37740e919138b07bdcab83962cd818"


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = result.write(sample(), tmp_path)
    path.write_text(path.read_text().replace('"measured":0.1', '"measured":0.2'))
    with pytest.raises(result.ResultError, match="digest"):
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
    bad = replace(sample(), claims=(Claim("a", "b", float("nan"), True),))
    with pytest.raises(ValueError, match="not JSON compliant"):
        result.dumps(bad)
