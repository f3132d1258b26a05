# SPDX-License-Identifier: GPL-2.0-only
"""Sluice's kernel modules, built in the toolbox for a kernel of the lab."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from lab import cache, kernels, progress, toolbox

STRIP = "find /tmp/out -name '*.ko' -exec strip --strip-debug {} +"
SOURCES = Path(__file__).parent.parent / "kernel"


def build(kernel_name: str) -> dict[str, bytes]:
    """Every module of kernel/ by file name (`mq-prio.ko`), built if its sources changed since."""
    return {path.name: path.read_bytes() for path in sorted(folder(kernel_name).rglob("*.ko"))}


def folder(kernel_name: str) -> Path:
    """Where the modules for a kernel are, built if their sources changed since."""
    kernel = kernels.get(kernel_name)

    def make_all(part: Path) -> None:
        with progress.step(f"Modules for {kernel.release}"):
            part.mkdir()
            make(kernel, part, "modules")
            toolbox.run(["sh", "-euc", STRIP], toolbox.Sandbox(rw={"/tmp/out": part}))

    return cache.once(cache.root() / "build" / key(kernel), make_all)


def key(kernel: kernels.Unpacked) -> str:
    """Names what a build is made from: kernel, tools and sources."""
    return f"{kernel.release}-{cache.key(toolbox.identity(), kernel.release, *_sources())}"


def make(kernel: kernels.Unpacked, out: Path, *arguments: str) -> str:
    """Run kernel/'s Makefile for a kernel, with what it builds in `out`; returns all that it printed."""
    box = kernel.box()
    box = replace(box, ro={**box.ro, "/tmp/kernel": SOURCES}, rw={"/tmp/out": out})
    line = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", "/tmp/kernel", f"K={kernel.release}", "O=/tmp/out"]
    line += [f"KDIR=/lib/modules/{kernel.release}/build", "BTF=/tmp/vmlinux/vmlinux", "SOURCE=/tmp/source"]
    return toolbox.run(
        ["sh", "-c", 'exec "$@" 2>&1', "sh", *line, f"CC={kernel.kernel.compiler}", *arguments],
        replace(box, ro={**box.ro, "/tmp/vmlinux": kernel.root, "/tmp/source": kernels.nvme(kernel)}),
    )


def _sources() -> list[bytes]:
    """The names and contents of all files under kernel/."""
    files = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    return [part for path in files for part in (str(path.relative_to(SOURCES)).encode(), path.read_bytes())]
