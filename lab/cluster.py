# SPDX-License-Identifier: GPL-2.0-only
"""Clusters: runs done by the workers of a Dask cluster, and the two programs that make one.

A run's key is its name in the cluster too: two clients that want the same run share one. A worker keeps what it
computed in its own cache and is asked for it before anything is computed again. A worker's lab and machine are a Dask
resource, and a run needs the resource of the same name. So the scheduler gives a run to no worker with another machine
or another lab.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import time
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache as memo
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from distributed import Client, Future, KilledWorker, Reschedule, Scheduler, Worker, WorkerPlugin, get_worker
from distributed.client import ClosedClientError, FutureCancelledError

from lab import cache, description, job, kernels, machine, progress, runs
from lab.errors import GuestCrashed, GuestHung, HostFull, LabError
from lab.job import Job, Outcome
from lab.runs import Run

PATIENCE_S = 120.0
"""Seconds that a sweep waits for a scheduler that went away, or for a suitable worker."""
CONNECT_S = 10.0
"""Seconds that a command waits for a scheduler that it has not reached yet."""
LOOK_S = 5.0
"""Seconds between a sweep's looks at the workers, and that it waits for the result of a run that has ended."""
WORKER_DEATHS = 20
"""Workers that may die with a run before the run is blamed; Dask counts all runs that a dead worker still had."""
LARGE = 16 << 10
"""Bytes from which a file of a job is sent to the cluster once, and not with every run."""

Done = Callable[[int, Outcome], None]


@memo
def lab() -> str:
    """A name for the lab itself: workers must do with a job what its sender would."""
    top = Path(__file__).parent
    files = sorted(path for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    needs = (top.parent / "requirements-cluster.txt").read_bytes()
    return cache.key(needs, *(part for path in files for part in (str(path.relative_to(top)), path.read_bytes())))


def need(kernel: str, cpus: int) -> str:
    """The Dask resource that a run needs and a worker has: lab, machine and the machine's identity."""
    return f"sluice {lab()} {kernel}/{cpus} {machine.get(kernel, cpus).identity}"


def pack(value: object) -> bytes:
    """A value in the form in which it is sent."""
    return zlib.compress(pickle.dumps(value), 1)


def unpack(data: bytes) -> Any:
    """The value that `pack` packed."""
    return pickle.loads(zlib.decompress(data))


# The worker's side.


class Guests(WorkerPlugin):
    """The runs of one worker: ends the guest of a run that no client wants any more."""

    name = "sluice"

    def __init__(self) -> None:
        self.running: dict[str, asyncio.Task[Any] | None] = {}
        self.error: LabError | None = None
        self.closing: asyncio.Task[Any] | None = None

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker starts."""
        self.worker = worker

    def transition(self, key: Any, start: str, finish: str, **_: object) -> None:
        """Called by Dask when a task changes its state; Dask itself would let a cancelled task run to its end."""
        task = self.running.get(key)
        if task and (start, finish) == ("executing", "released"):
            task.cancel()

    async def do(self, name: str, key: str, sent: bytes, fresh: bool) -> bytes:
        """The packed outcome of a run; LabError names this worker."""
        self.running[name] = asyncio.current_task()
        try:
            return await self._outcome(key, sent, fresh)
        except asyncio.CancelledError:
            raise Reschedule from None
        except HostFull as error:
            self.error = error
            self.closing = asyncio.create_task(self.worker.close(reason=error.what))
            raise Reschedule from None
        except LabError as error:
            error.what = f"worker {self.worker.name}: {error.what}"
            raise
        finally:
            del self.running[name]

    async def _outcome(self, key: str, sent: bytes, fresh: bool) -> bytes:
        if not fresh and runs.kept(key).exists():
            return recall(key)
        small, large = unpack(sent)
        one = replace(small, files={**small.files, **{name: await self._file(large[name]) for name in large}})
        outcome = await job.run_on(machine.get(one.kernel, one.cpus), one)
        if runs.problem(outcome) is None:
            runs.store(key, outcome)
        return pack(outcome)

    async def _file(self, digest: str) -> bytes:
        """A file that was sent to the scheduler, fetched from it once."""
        path = cache.root() / "sent" / digest
        if not path.exists():
            data = await self.worker.scheduler.get_metadata(keys=[digest])
            cache.once(path, lambda part: _write(part, zlib.decompress(data)))
        return path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def compute(name: str, key: str, sent: bytes, fresh: bool) -> bytes:
    """The Dask task of a run."""
    return await cast(Guests, get_worker().plugins[Guests.name]).do(name, key, sent, fresh)


def holding(keys: Sequence[str]) -> list[str]:
    """Those of some runs that this worker has kept."""
    return [key for key in keys if runs.kept(key).exists()]


def recall(key: str) -> bytes:
    """The packed outcome of a kept run."""
    return pack(Outcome(0, {path.name: path.read_bytes() for path in runs.kept(key).iterdir()}, "", ""))


def machines() -> list[str]:
    """Make the machines that experiments ask for, and return the resources that runs need."""
    cpus = {description.load(name).cpus for name in description.names()}
    return [need(kernel, number) for kernel in kernels.names() for number in sorted(cpus)]


def work(address: str, parallel: int) -> int:
    """Be a worker with `parallel` guests side by side, until interrupted; HostFull if this host can't go on."""
    _quiet()
    offers = machines()
    asyncio.run(_work(address, parallel, offers))
    return 0


async def _work(address: str, parallel: int, offers: Sequence[str]) -> None:
    name = f"{socket.gethostname()}:{os.getpid()}"
    while True:
        progress.say(f"sluice: worker {name} looks for the scheduler at {address}")
        guests = Guests()
        worker = Worker(
            address,
            nthreads=parallel,
            name=name,
            resources=dict.fromkeys(offers, parallel),
            memory_limit=0,
            dashboard=False,
            plugins=(guests,),
        )
        async with worker:
            progress.say(f"sluice: worker {name} is there, with {parallel} guests side by side")
            await worker.finished()
        if guests.error:
            raise guests.error


# The scheduler's side.


def schedule(address: str) -> int:
    """Be the scheduler at an address until interrupted; LabError if the address can't be had."""
    _quiet()
    asyncio.run(_schedule(urlsplit(address)))
    return 0


async def _schedule(at: SplitResult) -> None:
    protocol = f"{at.scheme}://"
    try:
        scheduler = await Scheduler(
            protocol=protocol, host=at.hostname, port=at.port or 0, dashboard=False, allowed_failures=WORKER_DEATHS
        )
    except OSError as error:
        raise LabError(f"no scheduler can be at {at.netloc}: {error}", "ss -ltn   and another port") from error
    async with scheduler:
        progress.say(f"sluice: scheduler at {scheduler.address}; on each machine: ./sluice worker {scheduler.address}")
        await scheduler.finished()


def _quiet() -> None:
    """Silence Dask's own messages about ends and losses, which are reported in sentences here."""
    logging.disable(logging.CRITICAL)


# The client's side.


class _Lost(Exception):
    """The scheduler, or what it knew of this client, is gone."""


def run_many(
    address: str, wanted: Sequence[Run], fresh: bool, done: Done, spread: Callable[[int], None] = lambda guests: None
) -> None:
    """Have a cluster do runs.

    `done` is called for each run as it ends, with its number in the list, and `spread` with the number of guests that
    run side by side. The first error ends all.

    LabError if no scheduler answers, or no worker fits, for CONNECT_S at first or PATIENCE_S later.
    """
    _quiet()
    left = dict(enumerate(wanted))
    patience = CONNECT_S
    while left:
        client = _connect(address, patience)
        try:
            _Sweep(client, address, left, fresh, done, spread, patience).collect()
        except _Lost:
            patience = PATIENCE_S
            progress.say(f"sluice: the scheduler at {address} is gone; waits for it, {PATIENCE_S:.0f} s at most")
        finally:
            # A client that lost its scheduler may fail in many ways while it disconnects.
            with suppress(Exception):
                client.close(timeout=LOOK_S)


def _connect(address: str, patience: float) -> Client:
    end = time.monotonic() + patience
    while True:
        try:
            return Client(address, timeout=patience, set_as_default=False)
        except OSError as error:
            if time.monotonic() > end:
                raise LabError(
                    f"no scheduler answers at {address} within {patience:.0f} s",
                    f"./sluice scheduler {address}   there, then the same command again: finished results are kept",
                ) from error


class _Sweep:
    """Runs given to one scheduler; `left` are those without an outcome, by their number."""

    def __init__(
        self,
        client: Client,
        address: str,
        left: dict[int, Run],
        fresh: bool,
        done: Done,
        spread: Callable[[int], None],
        patience: float,
    ) -> None:
        self.client = client
        self.address = address
        self.left = left
        self.fresh = fresh
        self.done = done
        self.spread = spread
        self.needs = {name: need(*name) for name in {(run.job.kernel, run.job.cpus) for run in left.values()}}
        self.ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self.tasks: dict[str, tuple[int, Future[Any]]] = {}
        self.sent: set[str] = set()
        self.refused: set[str] = set()
        self.fitting: dict[str, int] | None = None
        self.fitted = time.monotonic()
        self.patience = patience
        self.looked = 0.0

    def collect(self) -> None:
        """Wait for the runs to end; _Lost if the scheduler went away meanwhile."""
        self._look()
        while not self.fitting:
            time.sleep(1)
            self._look()
        if not self.fresh:
            self._recall(list(self.fitting))
        for number, run in self.left.items():
            self._submit(number, run)
        while self.left:
            if time.monotonic() > self.looked + LOOK_S:
                self._look()
            with suppress(Empty):
                self._take(self.ended.get(timeout=LOOK_S))

    def _ask(self, call: Callable[..., Any], *args: object, **options: object) -> Any:
        """The result of a method of the client; _Lost if the scheduler doesn't answer."""
        try:
            return call(*args, **options)
        except (OSError, ClosedClientError, FutureCancelledError) as error:
            raise _Lost from error

    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """What the scheduler knows of each worker, by address; Client.scheduler_info() sometimes lacks the workers."""
        found: Mapping[str, Any] = self._ask(self.client.sync, self.client.scheduler.identity, n_workers=-1)  # type: ignore[union-attr]
        return cast(Mapping[str, Mapping[str, Any]], found["workers"])

    def _look(self) -> None:
        """Look which workers there are and report changes; LabError if none has fitted for too long."""
        there = self.workers()
        self.looked = time.monotonic()
        fitting = {}
        for place, worker in there.items():
            problem = self._misfit(worker["resources"])
            if problem is None:
                fitting[place] = int(worker["nthreads"])
            elif place not in self.refused:
                self.refused.add(place)
                progress.say(f"sluice: worker {worker['name']} gets no runs: {problem}")
        if fitting != self.fitting:
            progress.say(f"sluice: {len(fitting)} workers, {sum(fitting.values())} guests side by side")
            self.spread(sum(fitting.values()))
        self.fitting = fitting
        if fitting:
            self.fitted, self.patience = self.looked, PATIENCE_S
        elif self.looked > self.fitted + self.patience:
            raise self._alone()

    def _misfit(self, resources: Mapping[str, float]) -> str | None:
        """Why a worker can do none of the runs, and what to do about it; None if it can do some."""
        if any(wanted in resources for wanted in self.needs.values()):
            return None
        has = [name.split() for name in resources if name.startswith("sluice ")]
        for _, ours, name, identity in map(str.split, self.needs.values()):
            for _, theirs, other, its in has:
                if theirs != ours:
                    return f"its lab/ is {theirs}, here it is {ours}\n   next: the same commit there and here"
                if other == name:
                    return f"its machine {name} is {its}, here it is {identity}\n   next: {self._same_machine()}"
        return f"it has no machine {' or '.join(f'{kernel}/{cpus}' for kernel, cpus in self.needs)}"

    def _same_machine(self) -> str:
        return f"the same cache there and here: docs/cluster.md, then ./sluice worker {self.address} again"

    def _alone(self) -> LabError:
        refused = f"; {len(self.refused)} refused, see above" if self.refused else ""
        return LabError(
            f"no worker at {self.address} fits{refused}", f"./sluice worker {self.address}   on each machine"
        )

    def _recall(self, places: Sequence[str]) -> None:
        """Fetch the outcomes that workers have kept from before."""
        numbers = {run.key: number for number, run in self.left.items()}
        kept = self._ask(self.client.run, holding, list(numbers), workers=list(places), on_error="ignore")
        for place, keys in kept.items():
            for key in keys:
                if numbers[key] in self.left:
                    data = self._ask(self.client.run, recall, key, workers=[place], on_error="ignore").get(place)
                    if data:
                        self._finish(numbers[key], unpack(data))

    def _submit(self, number: int, run: Run) -> None:
        name = f"sluice-{uuid.uuid4()}" if self.fresh else f"sluice-{run.key}"
        needed = {self.needs[run.job.kernel, run.job.cpus]: 1}
        sent = self._send(run.job)
        future = self.client.submit(compute, name, run.key, sent, self.fresh, key=name, resources=needed, pure=False)
        self.tasks[name] = number, future
        future.add_done_callback(self.ended.put)

    def _send(self, one: Job) -> bytes:
        """A job in the form in which it is sent: without its large files, which the scheduler gets once."""
        large = {name: cache.key(data) for name, data in one.files.items() if len(data) >= LARGE}
        for name, digest in large.items():
            if digest not in self.sent:
                self._ask(self.client.set_metadata, [digest], zlib.compress(one.files[name]))
                self.sent.add(digest)
        return pack((replace(one, files={name: one.files[name] for name in one.files.keys() - large.keys()}), large))

    def _take(self, future: Future[Any]) -> None:
        """Take the outcome of a task that ended; Dask computes a lost result again meanwhile."""
        name = str(future.key)
        number, _ = self.tasks[name]
        if future.status in ("cancelled", "lost"):
            raise _Lost
        if future.status == "error":
            raise _failed(future.exception(), self.left[number])
        try:
            data = future.result(timeout=LOOK_S)
        except TimeoutError:
            future.add_done_callback(self.ended.put)
            return
        except (OSError, FutureCancelledError) as error:
            raise _Lost from error
        del self.tasks[name]
        self._finish(number, unpack(data))

    def _finish(self, number: int, outcome: Outcome) -> None:
        self.done(number, outcome)
        del self.left[number]


def _failed(error: BaseException | None, run: Run) -> LabError:
    if isinstance(error, GuestCrashed | GuestHung):
        error.next_step = job.repeat(run.job)
    if isinstance(error, LabError):
        return error
    if isinstance(error, KilledWorker):
        return LabError(f"{WORKER_DEATHS} workers died with the run {run.title}", "the same command without --cluster")
    return LabError(f"the run {run.title} failed on a worker: {error!r}", "the same command without --cluster")
