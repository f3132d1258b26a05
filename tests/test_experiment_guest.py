# SPDX-License-Identifier: GPL-2.0-only
"""Determinism, in real guests: the same run gives the same bytes, alone and beside others."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab import experiment, fio, job, modules
from lab.experiment import Choice, Point
from lab.job import Job

KERNEL = "6.12"


def runs(scheduler: str, *variants: str) -> list[tuple[Point, Job]]:
    """Short runs of the priority mix."""
    found = experiment.load("prio-mix")
    built = modules.build(KERNEL)
    points = experiment.points(found, Choice(schedulers=(scheduler,)))
    return [(point, experiment.make_job(found, point, 1, built)) for point in points if point.variant.name in variants]


@contextmanager
def busy_host() -> Iterator[None]:
    """One process more than the host has processors, each of them at work all the time, until this one ends."""
    with ExitStack() as stack:
        for _ in range((os.cpu_count() or 1) + 1):
            child = stack.enter_context(subprocess.Popen(["sh", "-c", "while kill -0 $PPID; do :; done"]))
            stack.callback(child.kill)
        yield


@pytest.mark.usefixtures("lab")
def test_a_run_repeats_to_the_byte_alone_and_beside_others() -> None:
    ((_, one),) = runs("mq-prio", "alone-low-8")
    alone = job.run(one)
    assert alone.status == 0, alone.files["stderr"].decode()
    with busy_host():
        others = job.run_many([one] * 4, parallel=3)
    for beside in others:
        assert beside.files == alone.files
        assert beside.dmesg == alone.dmesg


@pytest.mark.usefixtures("lab")
def test_another_seed_is_another_run() -> None:
    found = experiment.load("prio-mix")
    ((point, one),) = runs("mq-prio", "alone-low-8")
    other = experiment.make_job(found, point, 2, modules.build(KERNEL))
    first, second = (outcome.files["fio.json"].decode() for outcome in job.run_many([one, other]))
    assert fio.parse(first) != fio.parse(second)
    assert job.key(one) != job.key(other)


@pytest.mark.usefixtures("lab")
def test_the_guest_says_what_the_cell_needs() -> None:
    found = experiment.load("prio-mix")
    ((point, one),) = runs("mq-prio", "alone-low-8")
    files = {name: data.decode() for name, data in job.run(one).files.items()}
    cell = experiment.cell(found, point, [("key", files)])
    assert cell.kernel.startswith("6.12.")
    assert cell.device_parameters["profile"] == "ssd"
    assert "stats" not in cell.device_parameters
    assert int(cell.settings["iosched/low_share"]) > 0
    assert cell.settings["max_sectors_kb"] == "32"
    assert files["cpu"].startswith("QEMU TCG")
    assert cell.job("load").ios > 100
