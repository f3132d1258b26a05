# SPDX-License-Identifier: GPL-2.0-only
"""Clusters: whatever fails, a sweep ends complete, and with the digest that it has without a cluster.

Scheduler and workers are processes. A fake worker makes up the outcome of a run, as its script says, and writes a line
for each action to $LOG.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_experiment import LOAD, MODULES, answer

from lab import cache, cluster, experiment, job, machine, modules, result, runs, study
from lab.durations import Like
from lab.errors import GuestCrashed, HostFull, LabError
from lab.job import Job, Outcome
from lab.machine import Machine
from lab.plan import Choice
from lab.runs import Run

TOP = Path(__file__).parent.parent
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["test_cluster", "lab.cli"])
LONG = 60
"""Seconds within which each expected event has happened, however busy the host is."""
CHOICE = Choice(
    ("ssd",), ("mq-prio",), variants=("be-levels", "solo"), seeds=(1, 2, 3), sweep=(("low_share", ("5", "10")),)
)


def fake_need(kernel: str, cpus: int) -> str:
    return f"sluice {os.environ.get('LAB', 'lab')} {kernel}/{cpus} {os.environ.get('IDENTITY', 'same')}"


async def fake_run_on(_saved: Machine, one: Job) -> Outcome:
    """The outcome of a fake guest, after the script's first word was done: sleep S, crash, full, bad or any other."""
    verb, *rest = one.script.split()
    note(f"begin {one.script.splitlines()[0]}")
    try:
        await asyncio.sleep(float(rest[0]) if verb == "sleep" else float(os.environ.get("PACE", "0")))
    except asyncio.CancelledError:
        note("cancelled")
        raise
    if verb == "crash":
        raise GuestCrashed("the guest crashed: on purpose", "./sluice shell   to repeat it by hand", "its last words")
    if verb == "full" and "FULL" in os.environ:
        raise HostFull("the disk is full", "df -h")
    if verb == "bad":
        return Outcome(1, {"fio.json": b"{}"}, "", "")
    if "mix.fio" in one.files:
        return answer(one)
    sizes = "".join(f"{name} {cache.key(data)}\n" for name, data in sorted(one.files.items()))
    load = json.dumps(LOAD).encode()
    return Outcome(0, {"fio.json": load, "script": one.script.encode(), "files": sizes.encode()}, "", "")


def note(text: str) -> None:
    with Path(os.environ["LOG"]).open("a", encoding="utf-8") as log:
        log.write(f"{os.getpid()} {text}\n")


def fake(what: str, address: str, env: dict[str, str], output: str) -> None:
    """Be a scheduler or a worker, like ./sluice, but without machines and guests."""
    from lab import cli

    os.environ.update(env)
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 2)
    patch: Any = setattr
    patch(cluster, "need", fake_need)
    patch(cluster, "machines", lambda: [fake_need("6.12", 1)])
    patch(machine, "get", lambda *_: None)
    patch(job, "run_on", fake_run_on)
    sys.exit(cli.main([what, address, *(["-j", "2"] if what == "worker" else [])]))


@dataclass
class Programs:
    """The scheduler and the workers of a test, each with a cache of its own."""

    folder: Path
    address: str
    started: list[Any] = field(default_factory=list)

    def start(self, what: str, **env: str) -> Any:
        """Start one and wait until it is there; it is forked from a process that has imported all it needs."""
        number = len(self.started)
        env |= {"SLUICE_CACHE": str(self.folder / f"cache-{number}"), "LOG": str(self.log)}
        output = self.folder / f"output-{number}"
        program = FORKS.Process(target=fake, args=(what, self.address, env, str(output)))
        self.started.append(program)
        program.start()
        sign = "scheduler at" if what == "scheduler" else "is there"
        until(lambda: (output.exists() and sign in output.read_text()) or not program.is_alive())
        return program

    @property
    def log(self) -> Path:
        """The log of the fake workers."""
        return self.folder / "log"

    def lines(self, mark: str) -> list[str]:
        """Lines of the log with a mark."""
        return [line for line in (self.log.read_text() if self.log.exists() else "").splitlines() if mark in line]

    def said(self, program: Any) -> str:
        """The output of a program."""
        return (self.folder / f"output-{self.started.index(program)}").read_text()

    def stop(self) -> None:
        """End all."""
        for program in self.started:
            program.kill()
            program.join()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {LONG} s"
        time.sleep(0.05)


def after(condition: Callable[[], object], action: Callable[[], object]) -> threading.Thread:
    """A thread that does something once a condition holds."""

    def act() -> None:
        until(condition)
        action()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """A scheduler without workers; the test itself is a client with a cache of its own."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "client"))
    monkeypatch.setattr(cluster, "need", fake_need)
    monkeypatch.setattr(cluster, "LOOK_S", 0.5)
    monkeypatch.setattr(job, "repeat", lambda _: "./sluice shell --job again")
    there = Programs(tmp_path, free_address())
    there.start("scheduler")
    yield there
    there.stop()


def some(scripts: Sequence[str], files: dict[str, bytes] | None = None) -> list[Run]:
    return [
        Run(f"{number:x}-{script.split()[0]}", Job("6.12", script, files or {}), script, Like("", "", "", ""))
        for number, script in enumerate(scripts)
    ]


def collect(there: Programs, wanted: Sequence[Run], fresh: bool = False) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}

    def done(number: int, outcome: Outcome) -> None:
        assert number not in found
        found[number] = outcome

    cluster.run_many(there.address, wanted, fresh, done)
    assert sorted(found) == list(range(len(wanted)))
    return found


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str | None], str]:
    """A function that does a small sweep, here or in a cluster, and returns its digest."""
    monkeypatch.setattr(job, "key", lambda one: cache.key(one.kernel, job.pack(one)))
    monkeypatch.setattr(modules, "build", lambda *_: MODULES)
    monkeypatch.setattr(study, "emulator", lambda: "QEMU 10")
    monkeypatch.setattr(study, "versions", lambda *_: {})

    def here(jobs: Sequence[Job], _parallel: int, done: Callable[[int, Outcome], None]) -> None:
        for number, one in enumerate(jobs):
            done(number, answer(one))

    monkeypatch.setattr(job, "run_many", here)

    def sweep(name: str, address: str | None) -> str:
        monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / name))
        experiment.sweep("prio-mix", CHOICE, tmp_path / f"{name}-out", False, False, 1, address)
        return result.read(tmp_path / f"{name}-out").digest

    return sweep


def test_a_killed_worker_changes_no_digest(programs: Programs, swept: Callable[[str, str | None], str]) -> None:
    """Two workers, and a third that is killed in the middle of its runs."""
    for _ in range(2):
        programs.start("worker", PACE="0.2")
    third = programs.start("worker", PACE="30")
    killer = after(lambda: programs.lines(f"{third.pid} begin"), third.kill)
    assert swept("cluster", programs.address) == swept("local", None)
    killer.join()


def test_nothing_is_computed_twice(programs: Programs) -> None:
    """Neither by two clients at the same time, nor by one that comes later."""
    for _ in range(2):
        programs.start("worker", PACE="0.1")
    wanted = some([f"run {number}" for number in range(30)])
    other = threading.Thread(target=collect, args=(programs, wanted))
    other.start()
    first = collect(programs, wanted)
    other.join()
    assert len(programs.lines("begin")) == 30
    later = collect(programs, wanted)
    assert len(programs.lines("begin")) == 30
    assert {number: outcome.files for number, outcome in later.items()} == {n: o.files for n, o in first.items()}
    collect(programs, wanted, fresh=True)
    assert len(programs.lines("begin")) == 60


def test_a_worker_with_another_machine_is_refused_by_name(
    programs: Programs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = programs.start("worker", IDENTITY="another")
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with pytest.raises(LabError, match="no worker .* fits; 1 refused"):
        collect(programs, some(["run"]))
    capsys.readouterr()
    fitting = programs.start("worker")
    collect(programs, some([f"run {number}" for number in range(20)]))
    said = capsys.readouterr().err
    assert (
        f"worker {socket.gethostname()}:{other.pid} gets no runs: its machine 6.12/1 is another, here it is same"
        in said
    )
    assert "\n   next: the same cache" in said
    assert "1 workers, 2 guests side by side" in said
    assert len(programs.lines(f"{fitting.pid} begin")) == 20


def test_a_worker_with_another_lab_is_refused(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    programs.start("worker", LAB="older")
    programs.start("worker")
    collect(programs, some(["run"]))
    assert "its lab/ is older, here it is lab\n   next: the same commit" in capsys.readouterr().err


def test_a_restarted_scheduler(programs: Programs, swept: Callable[[str, str | None], str]) -> None:
    for _ in range(2):
        programs.start("worker", PACE="0.5")

    def restart() -> None:
        programs.started[0].kill()
        programs.started[0].join()
        programs.start("scheduler")

    thread = after(lambda: len(programs.lines("begin")) > 6, restart)
    digest = swept("cluster", programs.address)
    thread.join()
    assert digest == swept("local", None)


def test_a_scheduler_that_stays_away(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    programs.start("worker")
    killer = after(lambda: programs.lines("begin"), programs.started[0].kill)
    with pytest.raises(LabError, match="no scheduler answers at tcp://127.0.0.1:.* within 1 s"):
        collect(programs, some(["sleep 600"]))
    killer.join()
    until(lambda: programs.lines("cancelled"))


def test_no_scheduler_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with pytest.raises(LabError, match="no scheduler answers"):
        cluster.run_many("tcp://127.0.0.1:1", some(["run"]), False, lambda number, outcome: None)


def test_a_lost_result_is_computed_again(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker dies between the end of a run and the fetch of its result."""
    for _ in range(2):
        programs.start("worker", PACE="2")
    take = cluster._Sweep._take
    killed: list[int] = []

    def lose(self: cluster._Sweep, future: Any) -> None:
        if not killed:
            place = next(place for places in self.client.who_has([future]).values() for place in places)
            name = self.workers()[place]["name"]
            killed.append(int(name.split(":")[1]))
            os.kill(killed[0], signal.SIGKILL)
            until(lambda: place not in self.workers())
        take(self, future)

    monkeypatch.setattr(cluster._Sweep, "_take", lose)
    found = collect(programs, some(["run 0"]))
    assert found[0].files["script"] == b"run 0"
    assert len({line.split()[0] for line in programs.lines("begin")}) == 2


def test_the_end_of_a_client_ends_its_runs(programs: Programs) -> None:
    """The first run that fails ends all; runs in other guests are ended too."""
    worker = programs.start("worker")
    with pytest.raises(GuestCrashed) as caught:
        collect(programs, some(["sleep 600", "crash"]))
    name = f"{socket.gethostname()}:{worker.pid}"
    assert str(caught.value).startswith(
        f"its last words\nsluice: worker {name}: the guest crashed: on purpose\n   next:"
    )
    until(lambda: programs.lines("cancelled"))
    collect(programs, some(["run"]))


def test_a_run_that_failed_is_kept_nowhere(programs: Programs) -> None:
    programs.start("worker")
    for number in (1, 2):
        with pytest.raises(LabError, match="its script ended with status 1"):
            runs.measure(some(["bad"]), False, 1, address=programs.address)
        assert len(programs.lines("begin")) == number


def test_a_worker_whose_disk_is_full_ends(programs: Programs) -> None:
    full = programs.start("worker", FULL="1")
    starter = after(lambda: programs.lines("begin"), lambda: programs.start("worker"))
    assert len(collect(programs, some(["full"]))) == 1
    starter.join()
    full.join(LONG)
    assert full.exitcode == 3
    assert "sluice: the disk is full\n   next: df -h" in programs.said(full)


def test_a_large_file_travels_once(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.start("worker")
    data = {"module.ko": os.urandom(200_000), "small": b"few"}
    sizes: list[int] = []
    send = cluster._Sweep._send

    def weigh(self: cluster._Sweep, one: Job) -> bytes:
        sizes.append(len(sent := send(self, one)))
        return sent

    monkeypatch.setattr(cluster._Sweep, "_send", weigh)
    found = collect(programs, some([f"run {number}" for number in range(20)], data))
    expected = "".join(f"{name} {cache.key(content)}\n" for name, content in sorted(data.items()))
    assert {outcome.files["files"] for outcome in found.values()} == {expected.encode()}
    assert max(sizes) < 1000


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_run_costs_less_than_20_ms(programs: Programs, count: int) -> None:
    """The processor time of client, scheduler and workers together, with runs that do nothing."""
    for _ in range(2):
        programs.start("worker")
    wanted = some([f"run {number}" for number in range(count)])
    there = [os.getpid(), *(program.pid for program in programs.started)]

    def spent() -> float:
        times = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13] for pid in there]
        return sum(int(ticks) for pair in times for ticks in pair) / os.sysconf("SC_CLK_TCK")

    start = spent()
    collect(programs, wanted)
    assert (spent() - start) / count < 0.020


def guests(pid: int) -> list[Path]:
    """The guests of a worker: processes that work in a run folder of process `pid`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if f"/run/{pid}-".encode() in line:
            found.append(path)
    return found


@pytest.mark.full
@pytest.mark.usefixtures("lab")
def test_real_guests_give_one_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers with caches of their own, a third that is killed with its guests, a client that is interrupted."""
    address = free_address()
    cluster.machines()  # so that no worker boots one
    source = cache.root()
    choice = Choice(
        ("ssd",), ("mq-prio",), variants=("alone-low-8",), seeds=(1, 2, 3), sweep=(("low_share", ("5", "10")),)
    )
    parts = [path for path in source.iterdir() if path.name not in ("run", "results") and path.suffix != ".lock"]

    def own(name: str) -> dict[str, str]:
        """An environment with a cache of its own."""
        (tmp_path / name).mkdir()
        subprocess.run(["cp", "-al", *parts, tmp_path / name], check=True)
        return {**os.environ, "SLUICE_CACHE": str(tmp_path / name), "PYTHONPATH": str(TOP)}

    with ExitStack() as stack:

        def start(name: str, *line: str) -> subprocess.Popen[bytes]:
            program = stack.enter_context(subprocess.Popen([sys.executable, "-m", "lab.cli", *line], env=own(name)))
            stack.callback(program.kill)
            return program

        def sweep(name: str, cluster: str | None) -> str:
            monkeypatch.setenv("SLUICE_CACHE", own(name)["SLUICE_CACHE"])
            experiment.sweep("prio-mix", choice, tmp_path / f"{name}-out", False, False, 2, cluster)
            return result.read(tmp_path / f"{name}-out").digest

        def killed() -> None:
            third.kill()
            until(lambda: not guests(third.pid))
            for name in ("first", "second"):
                start(name, "worker", address)

        monkeypatch.setattr(sys.modules[__name__], "LONG", 600)
        monkeypatch.setattr(cluster, "CONNECT_S", 600)
        start("scheduler", "scheduler", address)
        third = start("third", "worker", address)
        client = start("client", "sweep", "prio-mix", "--set", "low_share=5", "--cluster", address)
        until(lambda: guests(third.pid))
        client.terminate()
        assert client.wait(LONG) == 130
        until(lambda: not guests(third.pid))
        thread = after(lambda: guests(third.pid), killed)
        digest = sweep("cluster", address)
        thread.join()
        assert digest == sweep("local", None)
