# SPDX-License-Identifier: GPL-2.0-only
"""QEMU: the command line of a guest, and the process with its control channel."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from qemu.qmp import EventListener, QMPClient, QMPError

from lab import cache, nvme, toolbox
from lab.errors import GuestHung, SetupFailed

RAM_MIB = 1024
EXCHANGE_BYTES = 64 << 20
# The clock: one instruction is one nanosecond, idle time is skipped. Without ERMS a copy counts words and not bytes,
# about as on a real machine. FSRM is off because Linux 6.1's memmove assumes that it implies ERMS. The buffer of
# translated code, in MiB, would be smaller on a host with less than 8 GiB of memory.
TCG: tuple[str, ...] = (
    *("-accel", "tcg,thread=single,tb-size=1024"),
    *("-icount", "shift=0,sleep=off", "-cpu", "max,-erms,-fsrm"),
)
KVM: tuple[str, ...] = ("-accel", "kvm", "-cpu", "host")
# Off the virtual clock: each CPU is a thread of the host's, and time is the host's. So CPUs really race.
RACE: tuple[str, ...] = ("-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max,-erms,-fsrm")
# Keeps the main thread out while the CPU executes: without it runs on a busy host differ by some nanoseconds. It also
# ends QEMU with the process that controls it. Where each CPU has a thread of its own, it only does the latter.
LOCK = Path(__file__).with_name("qemu-lock.c")
# The exit status for SIGXCPU, as bubblewrap reports it.
CPU_SPENT = 128 + 24
# Wall-clock seconds for each CPU second. A guest that stands still uses no CPU seconds; a busy host makes a guest up
# to 7 times slower.
WALL_PER_CPU = 20
# Wall-clock seconds in which QEMU ends when its control channel does, also if it has yet to start.
END_S = 10


@dataclass(frozen=True)
class Guest:
    """One QEMU process: the root that it reads, the RAM file that it uses and the folder of its run.

    `run` holds job and out (the two NVDIMMs of the exchange) and console. `nvme` has the properties of a controller,
    "" for none; with a controller, QEMU is our build.
    """

    root: Path
    ram: Path
    run: Path
    cpus: int = 1
    accel: tuple[str, ...] = TCG
    private: bool = False
    nvme: str = ""

    def create_exchange(self) -> None:
        """Make the two NVDIMMs. The results' room is allocated, as a full disk would end QEMU by a signal."""
        with (self.run / "job").open("wb") as handle:
            handle.truncate(EXCHANGE_BYTES)
        with (self.run / "out").open("wb") as handle:
            os.posix_fallocate(handle.fileno(), 0, EXCHANGE_BYTES)

    def arguments(self) -> list[str]:
        """The arguments that a machine and its restores share."""
        share = "off" if self.private else "on"
        ram = f"memory-backend-file,id=ram,size={RAM_MIB}M,mem-path=/tmp/ram/{self.ram.name},share={share}"
        return [
            *hardware(self.cpus, self.accel),
            *("-object", ram),
            *_nvdimm(0, f"/tmp/root/{self.root.name}", self.root.stat().st_size, readonly=True),
            *_nvdimm(1, "/tmp/run/job", EXCHANGE_BYTES, readonly=True),
            *_nvdimm(2, "/tmp/run/out", EXCHANGE_BYTES, readonly=False),
            *(nvme.controller(self.nvme) if self.nvme else []),
        ]

    def box(self) -> toolbox.Sandbox:
        """The parts of the host that QEMU sees."""
        emulator = {"/tmp/emulator": nvme.emulator()} if self.nvme else {}
        return toolbox.Sandbox(
            ro={"/tmp/root": self.root.parent, "/tmp/lock": _lock(), **emulator},
            rw={"/tmp/ram": self.ram.parent, "/tmp/run": self.run},
            devices=("/dev/kvm",) if self.accel == KVM else (),
        )

    def console(self) -> str:
        """The output of the guest's kernel on its serial line."""
        return _text(self.run / "console")

    def cpu_seconds(self) -> float:
        """Processor seconds of the host that QEMU used, once it has ended."""
        children = _text(self.run / "times").splitlines()[-1:]
        return sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", "".join(children)))

    def log(self) -> str:
        """The output of QEMU itself."""
        return _text(self.run / "qemu.log")


class Process:
    """A running QEMU and its control channel."""

    def __init__(self, child: asyncio.subprocess.Process, qmp: QMPClient, limit_s: float) -> None:
        self.child = child
        self.qmp = qmp
        self.limit_s = limit_s

    async def execute(self, name: str, **arguments: object) -> object:
        """Send a QMP command and return its answer; SetupFailed if QEMU refuses it or is gone."""
        try:
            return await self.qmp.execute(name, arguments or None)
        except QMPError as error:
            raise SetupFailed(f"QEMU did not {name}: {error}", "./sluice shell   to look at it by hand") from error

    async def event(self, listener: EventListener) -> Mapping[str, Any] | None:
        """Wait for an event and return its data; None when QEMU ended first."""
        event, end = asyncio.create_task(listener.get()), asyncio.create_task(self.end())
        try:
            await asyncio.wait([event, end], return_when=asyncio.FIRST_COMPLETED)
            if not event.done():
                end.result()
                return None
            return cast(Mapping[str, Any], event.result().get("data", {}))
        finally:
            event.cancel()
            end.cancel()

    async def end(self) -> int:
        """Wait until QEMU ends; GuestHung when the guest's CPU seconds are spent or it stands still."""
        try:
            status = await asyncio.wait_for(self.child.wait(), self.limit_s * WALL_PER_CPU)
        except TimeoutError:
            raise hung(f"stood still for {self.limit_s * WALL_PER_CPU:.0f} s") from None
        if status == CPU_SPENT:
            raise hung(f"used up its {self.limit_s:.0f} CPU seconds")
        return status


def in_real_time(guest: Guest) -> Guest:
    """The same guest, with a clock that waits while there is nothing to do: for interactive use."""
    return replace(guest, accel=tuple(part.replace("sleep=off", "sleep=on") for part in guest.accel))


def hung(what: str) -> GuestHung:
    """The error for a guest that doesn't end."""
    return GuestHung(f"the guest {what} and was ended", "./sluice shell   and the same by hand")


def hardware(cpus: int, accel: Sequence[str]) -> list[str]:
    """The arguments that name no file: what the guest's hardware is."""
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-M", "pc,nvdimm=on,memory-backend=ram"),
        *("-name", "debug-threads=on"),
        *(*accel, "-smp", str(cpus), "-seed", "1", "-rtc", "base=2026-01-01,clock=vm"),
        *("-m", f"{RAM_MIB}M,slots=4,maxmem=16G", "-no-reboot"),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-device", "pvpanic"),
    ]


def line(
    guest: Guest, control: int, extra: Sequence[str], limit_s: float, box: toolbox.Sandbox, where: set[int]
) -> list[str]:
    """The whole command line; the kernel sends SIGXCPU after `limit_s` seconds of CPU time.

    On the virtual clock QEMU's threads take turns all the time: on one processor a run takes about half as long as on
    two. QEMU ends when the other end of `control`, the socket that QMP runs on, is closed. bubblewrap asks the kernel
    to end it with its parent, but only after it has started. A parent killed before that would leave a guest that runs
    for ever.
    """
    limit = max(1, int(limit_s))
    script = '"$@"; status=$?; times >/tmp/run/times; exit $status'
    args = ["bash", "-c", script, "qemu", "prlimit", f"--cpu={limit}:{limit + 5}"]
    args += ["--core=0", "taskset", "--cpu-list", ",".join(map(str, where)), "env", "LD_PRELOAD=/tmp/lock/lock.so"]
    args += [f"SLUICE_CONTROL={control}"]
    args += [*(nvme.command() if guest.nvme else ["qemu-system-x86_64"]), *guest.arguments()]
    args += ["-chardev", f"socket,id=qmp,fd={control}", "-mon", "chardev=qmp,mode=control", *extra]
    return toolbox.command(args, box)


@asynccontextmanager
async def start(
    guest: Guest, extra: Sequence[str], limit_s: float, box: toolbox.Sandbox | None = None
) -> AsyncIterator[Process]:
    """Start QEMU with a control channel; it is ended with the block, however the block ends."""
    ours, theirs = socket.socketpair()
    free = guest.accel in (KVM, RACE)
    with nullcontext(os.sched_getaffinity(0)) if free else cache.processors() as where:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *line(guest, theirs.fileno(), extra, limit_s, box or guest.box(), where),
                pass_fds=[theirs.fileno()],
                **_files(guest, extra),
            )
        )
        qmp = QMPClient("guest")
        try:
            child = await asyncio.shield(starting)
            theirs.close()
            await _connect(qmp, ours, guest)
            yield Process(child, qmp, limit_s)
        finally:
            await _end(await starting, ours)
            with suppress(EOFError, OSError, QMPError):
                await qmp.disconnect()


async def _end(child: asyncio.subprocess.Process, ours: socket.socket) -> None:
    """End QEMU by its control channel; by a signal only where that doesn't help.

    bubblewrap, killed at its start, leaves a child that waits for it for ever.
    """
    with suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)
    try:
        await asyncio.wait_for(child.wait(), END_S)
    except TimeoutError:
        child.kill()
        await child.wait()


def _lock() -> Path:
    """The folder of lock.so, compiled if its source changed since."""

    def compile_it(part: Path) -> None:
        part.mkdir()
        line = ["gcc-14", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "/tmp/out/lock.so"]
        toolbox.run([*line, "/tmp/lock.c"], toolbox.Sandbox(ro={"/tmp/lock.c": LOCK}, rw={"/tmp/out": part}))

    return cache.once(cache.root() / "build" / f"lock-{cache.key(toolbox.identity(), LOCK.read_bytes())}", compile_it)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _files(guest: Guest, extra: Sequence[str]) -> dict[str, Any]:
    """The files of QEMU: its messages go to a file, or the terminal is its own if the guest is on it."""
    log = (guest.run / "qemu.log").open("wb")
    if any(argument.startswith("stdio") for argument in extra):
        return {"stderr": log}
    return {"stdin": asyncio.subprocess.DEVNULL, "stdout": log, "stderr": log}


async def _connect(qmp: QMPClient, ours: socket.socket, guest: Guest) -> None:
    try:
        await qmp.connect(ours)
    except (EOFError, OSError, QMPError):
        raise toolbox.failed("QEMU", guest.log().encode()) from None


def _nvdimm(number: int, path: str, size: int, readonly: bool) -> list[str]:
    ro, unarmed = (",readonly=on", ",unarmed=on") if readonly else ("", "")
    return [
        *("-object", f"memory-backend-file,id=m{number},size={size},mem-path={path},share=on{ro}"),
        *("-device", f"nvdimm,id=nv{number},memdev=m{number}{unarmed}"),
    ]
