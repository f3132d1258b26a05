# SPDX-License-Identifier: GPL-2.0-only
"""Machines: a guest booted once per kernel, saved when its agent is ready, restored for every job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lab import cache, image, kernels, progress, qemu, toolbox
from lab.errors import SetupFailed

BOOT_CPU_S = 300
CLOCK = "lpj=4000000 tsc_early_khz=1000000 clocksource=tsc tsc=reliable no_timer_check"
REPEATABLE = "nokaslr norandmaps random.trust_cpu=off random.trust_bootloader=off cryptomgr.notests mitigations=off"
FAIL_FAST = "oops=panic panic=-1 hung_task_panic=1 softlockup_panic=1"
PLAIN_LINE = f"{REPEATABLE} {FAIL_FAST} console=ttyS0 loglevel=5"
BOOT_LINE = f"{CLOCK} {PLAIN_LINE}"
# Tasks are also preempted in the kernel, where Debian's kernels leave the choice: that provokes more races.
#
# On the host's clock, a CPU of a guest on a busy host may stand still for many seconds, which is no lockup. The
# watchdog of the clock would compare two clocks that are read at different times.
PATIENT = "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 sysctl.kernel.hung_task_timeout_secs=300"
RACE_LINE = f"preempt=full clocksource=tsc tsc=reliable no_timer_check {PATIENT} {PLAIN_LINE}"
CONSOLE = ("-serial", "file:/tmp/run/console")


@dataclass(frozen=True)
class Machine:
    """A saved guest: everything that is needed to restore it."""

    kernel: kernels.Unpacked
    root: Path
    folder: Path
    cpus: int
    accel: tuple[str, ...] = qemu.TCG

    @property
    def identity(self) -> str:
        """A name for all that a run depends on except its own job.

        That is the saved RAM, devices and clock to the nanosecond, the disk's bytes, QEMU and what is loaded into it.
        """
        return (self.folder / "identity").read_text(encoding="ascii")

    def described(self) -> dict[str, str]:
        """The machine by its parts: where two results differ in `machine`, the parts that differ tell the cause."""
        return {
            "kernel": self.kernel.release,
            "qemu": toolbox.version(toolbox.status(), "qemu-system-x86"),
            "fio": toolbox.version(image.status(), "fio"),
            "image": image.identity(self.kernel),
            "machine": self.identity,
        }

    def guest(self, run: Path, kvm: bool = False, nvme: str = "") -> qemu.Guest:
        """A guest that works in the folder `run`: a copy of this machine with copy-on-write RAM, or one to boot."""
        if kvm or nvme:
            return qemu.Guest(self.root, run / "ram", run, self.cpus, qemu.KVM if kvm else self.accel, nvme=nvme)
        return qemu.Guest(self.root, self.folder / "ram", run, self.cpus, self.accel, private=True)


def boot_line(accel: tuple[str, ...]) -> str:
    """The kernel's command line for the clock that the guest has."""
    return {qemu.TCG: BOOT_LINE, qemu.RACE: RACE_LINE}.get(accel, PLAIN_LINE)


def get(kernel_name: str, cpus: int = 1, accel: tuple[str, ...] = qemu.TCG) -> Machine:
    """The saved machine of a kernel, booted and saved on first use (about 15 s)."""
    kernel = kernels.get(kernel_name)
    root = image.image(kernel)
    hardware = " ".join(qemu.hardware(cpus, accel))
    inputs = (*image.boot_inputs(), qemu.LOCK.read_bytes(), hardware, boot_line(accel))
    name = cache.key(toolbox.identity(), root.name, kernel.release, *inputs)
    machine = Machine(kernel, root, cache.root() / "machines" / f"{kernel.release}-{cpus}-{name}", cpus, accel)
    cache.once(machine.folder, lambda part: make(machine, part))
    return machine


@asynccontextmanager
async def running(
    machine: Machine, guest: qemu.Guest, limit_s: float, serial: Sequence[str] = CONSOLE
) -> AsyncIterator[qemu.Process]:
    """A guest that runs its job: restored if possible, else booted, which KVM's clock and a controller require."""
    if guest.accel == qemu.KVM or guest.nvme:
        async with _booting(machine, guest, [*serial, "-action", "panic=none"], limit_s) as process:
            yield process
        return
    extra = ["-S", "-incoming", "defer", *serial, "-action", "panic=exit-failure"]
    async with qemu.start(guest, extra, limit_s) as process:
        await migrate(process, "migrate-incoming", "file:/tmp/ram/state")
        await process.execute("cont")
        yield process


@asynccontextmanager
async def _booting(
    machine: Machine, guest: qemu.Guest, extra: Sequence[str], limit_s: float
) -> AsyncIterator[qemu.Process]:
    """A guest that boots its kernel from the start."""
    line = boot_line(guest.accel)
    (guest.run / "initramfs").write_bytes(image.initramfs(machine.kernel))
    boot = ["-kernel", "/tmp/kernel/vmlinux", "-initrd", "/tmp/run/initramfs", "-append", line]
    box = guest.box()
    box = replace(box, ro={**box.ro, "/tmp/kernel": machine.kernel.root})
    async with qemu.start(guest, [*boot, *extra], limit_s, box) as process:
        yield process


def without_host_clock(state: bytes) -> bytes:
    """A saved state without what the host's clocks left in it: two offsets in QEMU's `timer` section.

    The virtual clock doesn't use them. Its own offset, in `timer/icount`, stays: a machine whose clock differs by a
    nanosecond has another name.
    """
    at = state.index(b"\x05timer\0\0\0\0\0\0\0\x02") + 14
    return state[:at] + bytes(24) + state[at + 24 :]


def make(machine: Machine, part: Path) -> None:
    """Boot a machine and save it in a folder."""
    cache.need_space(qemu.RAM_MIB)
    with progress.step(f"Machine with {machine.kernel.release}: boot and save"), cache.scratch() as run:
        part.mkdir()
        guest = qemu.Guest(machine.root, part / "ram", run, machine.cpus, machine.accel)
        asyncio.run(_save(machine, guest))
        state = (part / "state").read_bytes()
        if machine.accel == qemu.TCG:
            state = without_host_clock(state)
        emulator = toolbox.version(toolbox.status(), "qemu-system-x86")
        inputs = (state, (part / "ram").read_bytes(), image.digest(machine.root), emulator, qemu.LOCK.read_bytes())
        (part / "identity").write_text(cache.key(*inputs), encoding="ascii")


async def _save(machine: Machine, guest: qemu.Guest) -> None:
    """Boot a guest, wait until its agent is ready and write RAM and state beside each other."""
    guest.create_exchange()
    extra = [*CONSOLE, "-action", "panic=pause"]
    async with _booting(machine, guest, extra, BOOT_CPU_S) as process:
        with process.qmp.listener("GUEST_PANICKED") as ready:
            if await process.event(ready) is None:
                raise _no_boot(machine, guest)
        await migrate(process, "migrate", "file:/tmp/ram/state")
        await process.execute("quit")
        await process.end()


async def migrate(process: qemu.Process, verb: str, uri: str) -> None:
    """Write or read a machine's state (all but its RAM) and wait until that is complete."""
    capabilities = [{"capability": name, "state": True} for name in ("x-ignore-shared", "events")]
    await process.execute("migrate-set-capabilities", capabilities=capabilities)
    with process.qmp.listener("MIGRATION") as changes:
        await process.execute(verb, uri=uri)
        while (change := await process.event(changes)) != {"status": "completed"}:
            if change is None or change["status"] == "failed":
                raise SetupFailed(
                    "QEMU could not save or restore a machine", f"rm -r {cache.root()}/machines   and the same command"
                )


def _no_boot(machine: Machine, guest: qemu.Guest) -> SetupFailed:
    log = guest.console() + guest.log()
    tail = "\n".join(log.splitlines()[-30:])
    return SetupFailed(f"kernel {machine.kernel.release} did not boot", "./sluice run … --kernel another", tail)
