# SPDX-License-Identifier: GPL-2.0-only
"""Machines: a guest booted once per kernel, saved when its agent is ready, restored for every job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from lab import cache, image, kernels, progress, qemu, toolbox
from lab.errors import SetupFailed

BOOT_CPU_S = 300
CLOCK = "lpj=4000000 tsc_early_khz=1000000 clocksource=tsc tsc=reliable no_timer_check"
REPEATABLE = "nokaslr norandmaps random.trust_cpu=off random.trust_bootloader=off cryptomgr.notests mitigations=off"
FAIL_FAST = "oops=panic panic=-1 hung_task_panic=1 softlockup_panic=1"
BOOT_LINE = f"{CLOCK} {REPEATABLE} {FAIL_FAST} console=ttyS0 loglevel=5"


@dataclass(frozen=True)
class Machine:
    """A saved guest: everything that a restore needs."""

    kernel: kernels.Unpacked
    root: Path
    folder: Path
    cpus: int

    @property
    def identity(self) -> str:
        """Names the saved state itself: two builds that differ by a nanosecond have different names."""
        return (self.folder / "identity").read_text(encoding="ascii")

    def guest(self, run: Path) -> qemu.Guest:
        """A copy of this machine, with copy-on-write RAM, that works in the folder `run`."""
        return qemu.Guest(self.root, self.folder / "ram", run, self.cpus, private=True)


def get(kernel_name: str, cpus: int = 1) -> Machine:
    """The saved machine of a kernel, booted and saved on first use (about 15 s)."""
    kernel = kernels.get(kernel_name)
    root = image.image(kernel)
    hardware = " ".join(qemu.hardware(cpus, qemu.TCG))
    name = cache.key(toolbox.identity(), root.name, kernel.release, *image.boot_inputs(), hardware, BOOT_LINE)
    machine = Machine(kernel, root, cache.root() / "machines" / f"{kernel.release}-{cpus}-{name}", cpus)
    cache.once(machine.folder, lambda part: _make(machine, part))
    return machine


def boot_arguments(machine: Machine, guest: qemu.Guest) -> tuple[list[str], toolbox.Sandbox]:
    """The arguments that boot the kernel from its start, and the toolbox in which they mean something."""
    (guest.run / "initramfs").write_bytes(image.initramfs(machine.kernel))
    args = ["-kernel", "/tmp/kernel/vmlinux", "-initrd", "/tmp/run/initramfs", "-append", BOOT_LINE]
    box = guest.box()
    return args, replace(box, ro={**box.ro, "/tmp/kernel": machine.kernel.root})


def without_host_clock(state: bytes) -> bytes:
    """A saved state less what the host's clocks left in it: two offsets in QEMU's `timer` section.

    The virtual clock doesn't use them. Its own offset, in `timer/icount`, stays: QEMU may move that clock while it
    stops, and a machine that differs by a nanosecond must have a name of its own.
    """
    at = state.index(b"\x05timer\0\0\0\0\0\0\0\x02") + 14
    return state[:at] + bytes(24) + state[at + 24 :]


def _make(machine: Machine, part: Path) -> None:
    with progress.step(f"Machine with {machine.kernel.release}: boot and save"), cache.scratch() as run:
        part.mkdir()
        guest = qemu.Guest(machine.root, part / "ram", run, machine.cpus)
        asyncio.run(_save(machine, guest))
        state = without_host_clock((part / "state").read_bytes())
        (part / "identity").write_text(cache.key(state, (part / "ram").read_bytes()), encoding="ascii")


async def _save(machine: Machine, guest: qemu.Guest) -> None:
    """Boot a guest, wait until its agent is ready and write RAM and state beside each other."""
    guest.create_exchange()
    boot, box = boot_arguments(machine, guest)
    extra = [*boot, "-serial", "file:/tmp/run/console", "-action", "panic=pause"]
    async with qemu.start(guest, extra, BOOT_CPU_S, box) as process:
        with process.qmp.listener("GUEST_PANICKED") as ready:
            if not await process.event(ready):
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
        status = ""
        while status != "completed":
            event = await changes.get()
            status = str(event["data"]["status"])
            if status == "failed":
                raise SetupFailed("QEMU could not save or restore a machine", "the same command with an empty SLUICE_CACHE")


def _no_boot(machine: Machine, guest: qemu.Guest) -> SetupFailed:
    log = guest.console() + guest.log()
    tail = "\n".join(log.splitlines()[-30:])
    return SetupFailed(f"kernel {machine.kernel.release} did not boot", "./sluice run … --kernel another", tail)
