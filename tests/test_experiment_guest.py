# SPDX-License-Identifier: GPL-2.0-only
"""Determinism, in real guests: the same run gives the same bytes, alone and beside others."""

import asyncio
import dataclasses
import filecmp
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import pytest

from lab import cache, description, fio, image, job, kernels, machine, modules, passes, plan, qemu, study, toolbox
from lab.description import Experiment
from lab.job import Job
from lab.plan import Choice, Point

KERNEL = "6.12"
STOP = r"sleep 0.0025; printf '\001' | dd of=/dev/port bs=1 seek=$((0x505)) conv=notrunc status=none"
"""A job that stops the guest like one that is ready to be saved."""


def short_run(seed: int = 1) -> tuple[Experiment, Point, Job]:
    """A run of the priority mix of 2 s, with thousands of reads."""
    found = dataclasses.replace(description.load("prio-mix"), seconds=2)
    points = plan.points(found, Choice(schedulers=("mq-prio",), variants=("alone-low-8",)))
    return found, points[0], plan.make_job(found, points[0], seed, modules.build(KERNEL))


@contextmanager
def busy_host() -> Iterator[None]:
    """As many busy processes as the host has processors: a guest has no processor for itself."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            child = stack.enter_context(subprocess.Popen(["sh", "-c", "while kill -0 $PPID; do :; done"]))
            stack.callback(child.kill)
        yield


@pytest.mark.usefixtures("lab")
def test_a_run_repeats_to_the_byte_alone_and_beside_others() -> None:
    *_, one = short_run()
    alone = job.run(one)
    assert alone.status == 0, alone.files["stderr"].decode()
    with busy_host():
        others = job.run_many([one] * 3, parallel=3)
    for beside in others:
        assert beside.files == alone.files
        assert beside.dmesg == alone.dmesg


def delay(qemu_pid: int, late: str) -> None:
    """Put QEMU's threads on one processor; threads whose name starts with `late` get it only when no other wants it."""
    for pid in toolbox.descendants(qemu_pid):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), [min(os.sched_getaffinity(0))])
            if (task / "comm").read_text(encoding="ascii").startswith(late):
                os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))


async def stopped(saved: machine.Machine, run: Path, late: str) -> bytes:
    """The state of a guest that stopped itself while some of QEMU's threads came late."""
    subprocess.run(["cp", "--sparse=always", saved.folder / "ram", saved.folder / "state", run], check=True)
    guest = dataclasses.replace(job.prepare(saved, Job(KERNEL, STOP, {}), run), ram=run / "ram", private=False)
    extra = ["-S", "-incoming", "defer", *machine.CONSOLE, "-action", "panic=pause"]
    async with qemu.start(guest, extra, 60) as process:
        await machine.migrate(process, "migrate-incoming", "file:/tmp/ram/state")
        delay(process.child.pid, late)
        with process.qmp.listener("GUEST_PANICKED") as panicked:
            await process.execute("cont")
            assert await process.event(panicked) is not None
        await machine.migrate(process, "migrate", "file:/tmp/run/stopped")
    return machine.without_host_clock((run / "stopped").read_bytes())


@pytest.mark.full
@pytest.mark.usefixtures("lab")
def test_a_guest_stops_at_the_same_instruction_whichever_thread_is_late() -> None:
    saved, states = machine.get(KERNEL), set()
    for late in ("ALL CPUs", *["qemu-system"] * 3):
        with cache.scratch() as run:
            states.add(asyncio.run(stopped(saved, run, late)))
    assert len(states) == 1


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("kernel", "cpus", "times"),
    [(KERNEL, 1, 1), *(pytest.param(*one, 3, marks=pytest.mark.full) for one in product(kernels.names(), (1, 2)))],
)
def test_a_machine_built_again_is_the_same(kernel: str, cpus: int, times: int, tmp_path: Path) -> None:
    """Two builds, or four: image, RAM and the part of the saved state that a run can see are equal to the byte."""
    saved = machine.get(kernel, cpus)
    root = tmp_path / "image.ext4"
    image.make(saved.kernel, root)
    assert filecmp.cmp(saved.root, root, shallow=False)

    def again(number: int) -> str:
        built = dataclasses.replace(saved, root=root, folder=tmp_path / str(number))
        machine.make(built, built.folder)
        (built.folder / "ram").unlink()
        return built.identity

    with busy_host(), ThreadPoolExecutor(2) as pool:
        assert set(pool.map(again, range(times))) == {saved.identity}


@pytest.mark.usefixtures("lab")
def test_a_machine_says_what_it_consists_of() -> None:
    saved = machine.get(KERNEL)
    parts = saved.described()
    assert parts["kernel"].startswith(f"{KERNEL}.")
    assert parts["image"] in saved.root.name
    assert parts["machine"] == saved.identity
    assert parts["qemu"] != parts["fio"]
    assert f"fio-{parts['fio'].split('-')[0]}" in job.run(Job(KERNEL, "fio --version", {})).files["stdout"].decode()


@pytest.mark.usefixtures("lab")
def test_another_seed_is_another_run_and_the_guest_says_what_the_cell_needs() -> None:
    (found, point, one), (*_, other) = short_run(1), short_run(2)
    assert job.key(one) != job.key(other)
    files, others = (
        {name: data.decode() for name, data in passes.outcome(each).files.items()} for each in (one, other)
    )
    assert fio.parse(files["fio.json"]) != fio.parse(others["fio.json"])
    cell = study.cell(found, point, [("key", files)])
    assert cell.kernel.startswith("6.12.")
    assert cell.device_parameters["profile"] == "ssd"
    assert "stats" not in cell.device_parameters
    assert int(cell.settings["iosched/low_share"]) > 0
    assert cell.settings["max_sectors_kb"] == "32"
    assert files["cpu"].startswith("QEMU TCG")
    assert cell.job("load").ios > 100
