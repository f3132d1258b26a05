# SPDX-License-Identifier: GPL-2.0-only
"""Passes of tests: which are kept, which are repeated, and the printed costs; no guest is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import costs
import pytest
from costs import Cost

from lab import cache, job, modules, passes, toolbox
from lab.job import Job, Outcome


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty cache, and none of the passes that the tests around this one have used."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setattr(toolbox, "identity", lambda: "toolbox")
    monkeypatch.setattr(passes, "fresh", False)
    monkeypatch.setattr(passes, "_used", [])
    monkeypatch.setattr(passes, "_new", {})
    yield


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Callable[[Job], tuple[Outcome, bool]]:
    """Returns a job's outcome and whether a guest was started for it."""
    started: list[Job] = []

    def run(one: Job) -> Outcome:
        started.append(one)
        return Outcome(0, {"stdout": b"\xff", "deep/er": b"2"}, f"[0.1] {len(started)}", "ttyS0\n")

    def outcome(one: Job) -> tuple[Outcome, bool]:
        before = len(started)
        return passes.outcome(one), len(started) > before

    monkeypatch.setattr(job, "run", run)
    monkeypatch.setattr(job, "key", lambda one: cache.key(one.kernel, job.pack(one)))
    return outcome


def test_a_check_that_passed_is_not_done_again_until_its_inputs_change() -> None:
    done: list[str] = []
    for text in ("a", "a", "b"):
        passes.once(partial(done.append, text), "style", text)
    assert done == ["a", "b"]
    passes.fresh = True
    passes.once(lambda: done.append("again"), "style", "a")
    assert done == ["a", "b", "again"]


def test_a_check_that_failed_is_done_again() -> None:
    def fail() -> None:
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            passes.once(fail, "a")


def test_an_outcome_is_kept_when_its_test_has_passed(guest: Callable[[Job], tuple[Outcome, bool]]) -> None:
    one, other = Job("6.12", "true", {"cpq.ko": b"1"}), Job("6.12", "true", {"cpq.ko": b"2"})
    first, _ = guest(one)
    assert not passes.settle(True)
    assert guest(one) == (first, False)
    assert passes.settle(True)
    assert guest(other)[1]
    passes.fresh = True
    assert guest(one)[1]


def test_an_outcome_is_not_kept_when_its_test_has_failed(guest: Callable[[Job], tuple[Outcome, bool]]) -> None:
    one = Job("6.12", "true", {})
    guest(one)
    passes.settle(False)
    assert guest(one)[1]


def test_a_failure_forgets_the_outcome_that_it_used(guest: Callable[[Job], tuple[Outcome, bool]]) -> None:
    one = Job("6.12", "true", {})
    guest(one)
    passes.settle(True)
    assert not guest(one)[1]
    passes.settle(False)
    assert guest(one)[1]


def test_a_folder_is_named_by_what_is_in_it() -> None:
    found = passes.contents(passes.TOP / "kernel/simdisk", passes.TOP / "Makefile")
    assert {b"kernel/simdisk/ssd.c", b"Makefile"} <= set(found)
    assert (passes.TOP / "Makefile").read_bytes() in found


def test_a_module_comes_with_those_that_it_depends_on() -> None:
    def module(*depends: str) -> bytes:
        return b"ELF\0license=GPL\0depends=" + ",".join(depends).encode() + b"\0name=x\0"

    built = {
        "cause.ko": module(),
        "split.ko": module("jbd2", "cause"),
        "afq.ko": module("split"),
        "cpq.ko": module("cause"),
    }
    assert set(modules.needed(built, ["afq"])) == {"afq.ko", "split.ko", "cause.ko"}
    assert modules.needed(built, []) == {}
    with pytest.raises(KeyError):
        modules.needed(built, ["apq"])


def test_what_a_kept_pass_takes_is_not_remembered() -> None:
    costs.write({"a": Cost(9.0, 8.0, False), "b": Cost(5.0, 5.0, False)})
    costs.write({"a": Cost(0.1, 0.0, True), "b": Cost(6.0, 5.0, False)})
    assert costs.read() == {"a": 9.0, "b": 6.0}


def test_the_slowest_and_the_sum_are_printed() -> None:
    lines = costs.table({f"t{n}": Cost(float(n), n / 2, n % 2 == 0) for n in range(12)})
    assert [line.split()[-1] for line in lines[:-1]] == [f"t{n}" for n in range(11, 1, -1)]
    assert lines[-1] == "33 s of processor time in 12 tests, of which 6 are kept passes of the same inputs"
