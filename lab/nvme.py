# SPDX-License-Identifier: GPL-2.0-only
"""A controller with weighted round robin: Debian's QEMU, built with the change in controller/ that adds it.

The arbiter is the simulated disk's. A guest with this controller can't be saved: it is booted for its job.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab import cache, progress, toolbox
from lab.apt import Apt

CHANGE = Path(__file__).with_name("controller")
ARBITER = Path(__file__).parent.parent / "kernel/simdisk"
FILES = (
    *(CHANGE / name for name in ("qemu.patch", "sluice.h", "shim.h")),
    ARBITER / "arbiter.c",
    ARBITER / "arbiter.h",
)
# bzip2 is left out: QEMU uses what it finds, and the toolbox, in which it runs, has no bzip2.
PACKAGES = (
    *("gcc", "libc6-dev", "make", "ninja-build", "meson", "pkgconf", "flex", "bison", "git", "patch", "xz-utils"),
    *("python3", "python3-venv", "python3-pycotap", "libglib2.0-dev", "libpixman-1-dev", "libfdt-dev", "zlib1g-dev"),
)
BUILD_MIB = 4096
BUILD = """\
cd /tmp/work
tar -xJf /tmp/in/qemu_*.orig.tar.xz --strip-components=1
cp /tmp/change/* hw/nvme/
patch -s -p1 -F0 <hw/nvme/qemu.patch
mkdir build
cd build
../configure --target-list=x86_64-softmmu --without-default-features --enable-system --enable-tcg --disable-werror \
    --disable-docs --disable-download --disable-install-blobs
ninja -j"$JOBS" qemu-system-x86_64
strip -o /tmp/out/qemu-system-x86_64 qemu-system-x86_64
"""
FIRMWARE = ("/usr/share/qemu", "/usr/share/seabios", "/usr/lib/ipxe/qemu")
DISK_MIB = 1024


def emulator() -> Path:
    """The folder of qemu-system-x86_64, built on first use (some 40 MB to download, minutes to build)."""
    inputs = [part for path in FILES for part in (path.name, path.read_bytes())]
    return cache.once(cache.root() / "build" / f"qemu-{cache.key(BUILD, *PACKAGES, *inputs)}", _build)


def command() -> list[str]:
    """The emulator's command, where its folder is /tmp/emulator."""
    return ["/tmp/emulator/qemu-system-x86_64", *(part for path in FIRMWARE for part in ("-L", path))]


def controller(properties: str) -> list[str]:
    """QEMU's arguments for the controller, with an empty drive behind it.

    Properties are QEMU's own and ours: wrr=on, and fetch_ns, the time that the controller takes for each command. With
    subsys=shared it is one of several controllers that the drive may have.
    """
    drive = f"null-co,node-name=drive,size={DISK_MIB << 20},read-zeroes=on"
    device = f"nvme,id=nvme,serial=sluice,max_ioqpairs=64,{properties}"
    if "subsys=" in properties:
        devices = ["nvme-subsys,id=shared", device, "nvme-ns,drive=drive"]
    else:
        devices = [f"{device},drive=drive"]
    return ["-blockdev", drive, *(word for one in devices for word in ("-device", one))]


def _build(part: Path) -> None:
    cache.need_space(BUILD_MIB)
    root = toolbox.make(PACKAGES, "What builds QEMU")
    with progress.step("QEMU with weighted round robin: build from Debian's source"), cache.scratch() as work:
        part.mkdir()
        for folder in ("tree", "change", "apt"):
            (work / folder).mkdir()
        for path in FILES:
            (work / "change" / path.name).write_bytes(path.read_bytes())
        Apt(toolbox.SUITE, work / "apt").source("qemu")
        box = toolbox.Sandbox(
            ro={"/tmp/in": work / "apt/debs", "/tmp/change": work / "change"},
            rw={"/tmp/work": work / "tree", "/tmp/out": part},
            root=root,
        )
        toolbox.run(["sh", "-eu"], box, BUILD.encode(), {"JOBS": str(os.cpu_count() or 1)})
