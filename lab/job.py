# SPDX-License-Identifier: GPL-2.0-only
"""Jobs: one run of a script in a guest, a pure function of its inputs."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from lab import cache, image, machine, nvme, progress, qemu
from lab.errors import GuestCrashed, GuestHung, GuestOutOfMemory, LabError, UsageError
from lab.machine import Machine

# The values that the agent writes to the exit port, as QEMU turns them into an exit status.
FINISHED = 0x10 << 1 | 1
TOO_LARGE = 0x11 << 1 | 1
FAILED_KEPT = 20
"""Number of failed jobs that are kept, to be repeated by hand."""
# CPU seconds after which a guest counts as hung. The limit is wide, as one host may be several times slower than
# another.
CPU_LIMIT_S = 900.0
# Real time, times qemu.WALL_PER_CPU, in which a guest must boot to show that KVM works.
KVM_TRIAL_S = 2.0


@dataclass(frozen=True)
class Job:
    """A script with its files, for one kernel.

    `script` is run with `sh -eu` in /job, where `files` lie; its files below /out come back. `cpu_limit_s` is in CPU
    seconds of the host: past them the guest counts as hung. `nvme` has the properties of an NVMe controller for the
    guest (lab.nvme). With `race` the guest runs off the virtual clock, on CPUs that race: the only kind of job that
    isn't a pure function.
    """

    kernel: str
    script: str
    files: Mapping[str, bytes]
    cpus: int = 1
    cpu_limit_s: float = CPU_LIMIT_S
    nvme: str = ""
    race: bool = False

    @property
    def machine(self) -> Machine:
        """The machine that it runs on."""
        return machine.get(self.kernel, self.cpus, qemu.RACE if self.race else qemu.TCG)


@dataclass(frozen=True)
class Outcome:
    """The result of a job: the script's exit status, its files below /out, the kernel's messages since the start.

    `cpu_s` and `wall_s` are the cost on the host, in seconds.
    """

    status: int
    files: Mapping[str, bytes]
    dmesg: str
    console: str
    cpu_s: float = field(default=0.0, compare=False)
    wall_s: float = field(default=0.0, compare=False)


def key(job: Job) -> str:
    """A key of everything that determines a job's outcome, the saved machine included."""
    hardware = [*_accel, *([job.nvme, nvme.emulator().name] if job.nvme else [])]
    return cache.key(job.machine.identity, " ".join(hardware), pack(job))


def repeat(job: Job) -> str:
    """Keep a job that failed; returns the command that repeats it by hand."""
    path = cache.failed() / key(job)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with cache.host_space():
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(msgspec.msgpack.encode(job))
        part.rename(path)
    for old in sorted(path.parent.iterdir(), key=_age)[:-FAILED_KEPT]:
        old.unlink(missing_ok=True)
    return f"./sluice shell --job {path.name}{' --accel kvm' if _accel == qemu.KVM else ''}"


def _age(path: Path) -> float:
    """When a file was written; 0 if another process has removed it."""
    return path.stat().st_mtime if path.exists() else 0.0


def failed(name: str) -> Job:
    """The failed job that is kept under a key; UsageError if it is gone, or if another version of Sluice kept it."""
    path = cache.failed() / name
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Job)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}", "the command that failed, again") from error


_accel: tuple[str, ...] = qemu.TCG


def try_kvm(kernel: str) -> bool:
    """Use KVM from now on, in real time, if a guest really boots with it; else say in a line why not."""
    global _accel
    _accel = qemu.KVM
    try:
        run(Job(kernel, "true", {}, cpu_limit_s=KVM_TRIAL_S))
    except LabError as error:
        _accel = qemu.TCG
        progress.say(f"sluice: KVM boots no guest here ({error.what}); going on with TCG, on the virtual clock")
    return _accel == qemu.KVM


def run(job: Job) -> Outcome:
    """Run one job; raises GuestCrashed, GuestHung, GuestOutOfMemory or another LabError."""
    return run_many([job])[0]


def run_many(
    jobs: Sequence[Job], parallel: int = 2, done: Callable[[int, Outcome], None] | None = None
) -> list[Outcome]:
    """Run jobs side by side, in the order of the list; `done` is called for each as it ends.

    The first error ends all.
    """
    machines = {(job.kernel, job.cpus, job.race): job.machine for job in jobs}

    async def all_jobs() -> list[Outcome]:
        slots = asyncio.Semaphore(parallel)

        async def one(number: int, job: Job) -> Outcome:
            async with slots:
                outcome = await run_on(machines[job.kernel, job.cpus, job.race], job)
            if done:
                done(number, outcome)
            return outcome

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number, job)) for number, job in enumerate(jobs)]
        return [task.result() for task in tasks]

    try:
        return asyncio.run(all_jobs())
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def run_on(saved: Machine, job: Job) -> Outcome:
    """Run one job on its machine; a cancelled one leaves no guest."""
    start = time.monotonic()
    with cache.scratch() as run_folder:
        guest = prepare(saved, job, run_folder)
        try:
            async with machine.running(saved, guest, job.cpu_limit_s) as process:
                status = await process.end()
            return replace(read_outcome(guest, status), cpu_s=guest.cpu_seconds(), wall_s=time.monotonic() - start)
        except GuestHung as error:
            error.detail = "\n".join(guest.console().splitlines()[-20:])
            error.next_step = repeat(job)
            raise
        except GuestCrashed as error:
            error.next_step = repeat(job)
            raise


def pack(job: Job) -> bytes:
    """The tar that a guest unpacks in /job."""
    libraries = ("lib.sh", *(["nvme.sh"] if job.nvme else []))
    files = {name: (image.GUEST / name).read_bytes() for name in libraries}
    files |= {**job.files, "script": job.script.encode()}
    return _tar(files)


def _tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def prepare(saved: Machine, job: Job, run_folder: Path) -> qemu.Guest:
    """A guest that will find the job's files when it goes on."""
    guest = saved.guest(run_folder, _accel == qemu.KVM, job.nvme)
    guest.create_exchange()
    data = pack(job)
    if len(data) > qemu.EXCHANGE_BYTES:
        raise LabError(f"the job's files are larger than {qemu.EXCHANGE_BYTES >> 20} MiB", "fewer or smaller files")
    with (guest.run / "job").open("r+b") as handle:
        handle.write(data)
    return guest


def read_outcome(guest: qemu.Guest, status: int) -> Outcome:
    """The files that a guest left behind, or the error that explains why there are none."""
    console = guest.console()
    if status == TOO_LARGE:
        raise LabError(f"the job's results are larger than {qemu.EXCHANGE_BYTES >> 20} MiB", "a shorter run")
    if status != FINISHED:
        raise crash(console, guest.log())
    return outcome({**unpack(guest.run / "out"), ".console": console.encode()})


def outcome(files: dict[str, bytes]) -> Outcome:
    """The outcome, from all files that came back."""
    dmesg, console = (files.pop(name, b"").decode(errors="replace") for name in (".dmesg", ".console"))
    return Outcome(int(files.pop(".status", b"255")), files, dmesg, console)


def save(found: Outcome, path: Path) -> None:
    """Write an outcome to a file for load()."""
    special = {".status": str(found.status), ".dmesg": found.dmesg, ".console": found.console}
    path.write_bytes(_tar({**found.files, **{name: text.encode() for name, text in special.items()}}))


def load(path: Path) -> Outcome:
    """The outcome that save() wrote."""
    return outcome(unpack(path))


def unpack(path: Path) -> dict[str, bytes]:
    """The files of a tar, by their name without a leading ./"""
    with tarfile.open(path, "r:") as tar:
        members = [(info, tar.extractfile(info)) for info in tar if info.isfile()]
        return {info.name.removeprefix("./"): handle.read() for info, handle in members if handle}


# Before the panic the kernel prints the stack of each task that is stuck.
HUNG = " blocked for more than "


def crash(console: str, log: str) -> LabError:
    """The error for a guest that ended by itself, from its console and QEMU's own messages."""
    lines = console.splitlines()
    first = next((n for n, text in enumerate(lines) if _is_crash(text) or HUNG in text), max(0, len(lines) - 20))
    detail = "\n".join([*lines[first : first + 200], log]).rstrip()
    if "Out of memory" in console:
        return GuestOutOfMemory("the guest ran out of memory", "a smaller job: less data, fewer processes", detail)
    what = next((text for text in lines[first:] if _is_crash(text)), "it ended without a word")
    return GuestCrashed(
        f"the guest crashed: {what.split('] ', 1)[-1]}", "./sluice shell   and the same by hand", detail
    )


def _is_crash(text: str) -> bool:
    return any(mark in text for mark in ("BUG: ", "Oops", "Kernel panic", "general protection", "kernel BUG at"))
