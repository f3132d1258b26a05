# SPDX-License-Identifier: GPL-2.0-only
"""A whole machine: a stock Debian with systemd, udev and GRUB, on a virtio disk that keeps what is written to it.

A job is a script with its files, on a second disk. A unit of systemd runs it after each boot, and reboots, which ends
QEMU. The clock is the host's.
"""

from __future__ import annotations

import asyncio
import io
import re
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from lab import cache, image, machine, progress, qemu, toolbox
from lab.errors import SetupFailed

CPUS = 2
LIMIT_CPU_S = 3600
DISK_MIB = 8192
FIRST_MIB = 1
PACKAGES = (
    *("linux-image-amd64", "linux-headers-amd64", "initramfs-tools", "e2fsprogs", "grub-pc"),
    *("systemd-sysv", "udev", "dbus"),
)
# Make the partition and its file system.
TOOLS = ("fdisk", "e2fsprogs", "libarchive13t64")
UNIT = """\
[Unit]
Description=The job on the second disk
After=multi-user.target
[Service]
Type=idle
ExecStart=/bin/sh -c 'mkdir -p /srv/job; cd /srv/job; tar -xf /dev/vdb; exec >/dev/ttyS1 2>&1; stty -onlcr <&1; \\
    sh -eu ./run; echo "status: $?"; rm -r /srv/job; systemctl reboot'
[Install]
WantedBy=multi-user.target
"""
ETC = {
    "fstab": "/dev/vda1 / ext4 errors=remount-ro 0 1\n",
    "hostname": "whole\n",
    "default/grub": f'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX="console=ttyS0 {machine.PATIENT}"\nGRUB_TERMINAL=serial\n',
    "systemd/system/job.service": UNIT,
}
ENABLE = '--customize-hook=systemctl --root="$1" enable job.service'
GRUB = "grub-install /dev/vda; update-grub"


@dataclass(frozen=True)
class Whole(qemu.Guest):
    """A machine whose folder `run` has its disk, its job and what that says; it boots by GRUB, or as `boot` says."""

    boot: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """The arguments that are its own."""
        drive = "if=virtio,format=raw,cache=unsafe,file=/tmp/run"
        return [
            *qemu.hardware(self.cpus, self.accel),
            *("-object", f"memory-backend-ram,id=ram,size={qemu.RAM_MIB}M"),
            *("-drive", f"{drive}/disk", "-drive", f"{drive}/job,readonly=on", *self.boot),
            *("-serial", "file:/tmp/run/console", "-serial", "file:/tmp/run/said"),
        ]

    def box(self) -> toolbox.Sandbox:
        """The parts of the host that QEMU sees."""
        box = super().box()
        return replace(box, ro={"/tmp/lock": box.ro["/tmp/lock"]}, rw={"/tmp/run": self.run})


def disk(suite: str, packages: Sequence[str]) -> Path:
    """The disk of a machine with these packages of a suite; it boots by GRUB (3 minutes on first use)."""
    wanted = (*PACKAGES, *packages)
    name = f"whole-{suite}-{cache.key(suite, *wanted, *ETC.values(), GRUB)}.disk"
    return cache.once(cache.root() / name, lambda part: _make(suite, wanted, part))


def _make(suite: str, packages: Sequence[str], part: Path) -> None:
    """Make a root and its disk. The first boot has the kernel from outside, and installs GRUB."""
    with cache.scratch() as work:
        _bootstrap(suite, packages, work / "root.tar")
        with progress.step(f"Debian ({suite}) with systemd: its disk and GRUB"):
            _partition(work)
            with tarfile.open(work / "root.tar") as root:
                for name in root.getnames():
                    kind = name.removeprefix("./boot/").partition("-")[0]
                    if kind in ("vmlinuz", "initrd.img"):
                        (work / kind).write_bytes(cast(IO[bytes], root.extractfile(name)).read())
            boot = ("-kernel", "/tmp/run/vmlinuz", "-initrd", "/tmp/run/initrd.img")
            said, status = run(work, GRUB, boot=(*boot, "-append", "root=/dev/vda1 console=ttyS0"))
        if status != 0:
            raise SetupFailed(f"a machine with Debian ({suite}) did not boot", "the same command again", said[-2000:])
        (work / "disk").rename(part)


def _bootstrap(suite: str, packages: Sequence[str], tar: Path) -> None:
    with cache.scratch() as work:
        hooks = []
        for name, text in ETC.items():
            path = work / Path(name).name
            path.write_text(text, encoding="utf-8")
            hooks += [f'--customize-hook=mkdir -p "$1/etc/{Path(name).parent}"']
            hooks += [f"--customize-hook=upload {path} /etc/{name}"]
        title = f"Debian ({suite}) with systemd, a kernel and GRUB"
        toolbox.bootstrap(packages, title, tar, "--variant=minbase", *hooks, ENABLE, suite=suite)


def _partition(work: Path) -> None:
    """Make work/disk of work/root.tar: one partition with ext4."""
    with (work / "disk").open("wb") as handle:
        handle.truncate(DISK_MIB * image.MIB)
    box = toolbox.Sandbox(rw={"/tmp/run": work}, root=toolbox.make(TOOLS, "Debian 13 with sfdisk"))
    table = f"label: dos\nstart={FIRST_MIB}MiB, type=83, bootable\n"
    toolbox.run(["sfdisk", "-q", "/tmp/run/disk"], box, table.encode())
    args = ["mkfs.ext4", "-q", "-F", "-d", "/tmp/run/root.tar", "-E", f"offset={FIRST_MIB * image.MIB}"]
    toolbox.run([*args, "/tmp/run/disk", f"{DISK_MIB - FIRST_MIB}M"], box)


def run(
    folder: Path, script: str, files: Mapping[str, bytes] = {}, boot: tuple[str, ...] = (), cut_s: float | None = None
) -> tuple[str, int | None]:
    """Boot the disk of a folder and run a script with files beside it: what it says, and its exit status.

    The status is None if the machine ends before the script does. With `cut_s` the power fails so many seconds after
    the script has said something.
    """
    with tarfile.open(folder / "job", "w") as tar:
        for name, data in {**files, "run": script.encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    (folder / "said").write_bytes(b"")
    asyncio.run(_end(Whole(folder, folder, folder, CPUS, qemu.RACE, boot=boot), cut_s))
    said = (folder / "said").read_text(encoding="utf-8", errors="replace")
    ended = re.search(r"status: (\d+)\s*\Z", said)
    return (said[: ended.start()], int(ended[1])) if ended else (said, None)


async def _end(guest: Whole, cut_s: float | None) -> None:
    async with qemu.start(guest, [], LIMIT_CPU_S) as process:
        end = asyncio.create_task(process.end())
        while cut_s is not None and not end.done() and not (guest.run / "said").stat().st_size:
            await asyncio.sleep(0.1)
        with suppress(TimeoutError):
            await asyncio.wait_for(end, cut_s)
