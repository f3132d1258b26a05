# SPDX-License-Identifier: GPL-2.0-only
"""Sluice's kernel modules, built in the toolbox for a kernel of the lab."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab import cache, kernels, progress, toolbox

STRIP = "find /tmp/out -name '*.ko' -exec strip --strip-debug {} +"
SOURCES = Path(__file__).parent.parent / "kernel"
OBJECTS = {
    **{name: f"{name}.o" for name in ("sluice-cause", "sluice-ranks", "mq-prio", "cpq", "wrr")},
    **{name: f"{name}.o" for name in ("split", "split-noop", "afq", "split-token", "split-deadline", "sluice")},
    "sluice-carry": "sluice-carry.o",
    "simdisk": "simdisk/",
    "nvme-wrr": "nvme/",
}
"""Every module, and its name in kernel/Kbuild."""


def build(kernel_name: str, *wanted: str) -> dict[str, bytes]:
    """The wanted modules of kernel/ by file name (`mq-prio.ko`), or all; those that aren't there yet are built.

    A module comes with the modules whose symbols it uses. Names of the kernel's own modules are ignored.
    """
    kernel = kernels.get(kernel_name)
    names = [name for name in OBJECTS if name in wanted or not wanted]
    places = {f"{name}.ko": folder(kernel) / f"{name}.ko" for name in names}
    if not all(place.exists() for place in places.values()):
        folder(kernel).mkdir(parents=True, exist_ok=True)
        with cache.locked(folder(kernel)):
            if not all(place.exists() for place in places.values()):
                _build(kernel, names)
    return {name: place.read_bytes() for name, place in places.items()}


def needed(built: Mapping[str, bytes], names: Iterable[str]) -> dict[str, bytes]:
    """The modules with these names, and those that they depend on, by file name; KeyError for an unknown name."""
    found: dict[str, bytes] = {}
    for name in names:
        found[f"{name}.ko"] = data = built[f"{name}.ko"]
        depends = re.search(rb"(?:^|\0)depends=([^\0]*)\0", data)
        others = depends[1].decode().split(",") if depends else []
        # Some of the others are the kernel's own.
        found |= needed(built, [other for other in others if f"{other}.ko" in built])
    return found


def folder(kernel: kernels.Unpacked) -> Path:
    """The folder of a kernel's modules; its name depends on all that they are built from."""
    return cache.root() / "build" / key(kernel)


def key(kernel: kernels.Unpacked) -> str:
    """A key of the inputs of a build: kernel, tools and sources."""
    return f"{kernel.release}-{cache.key(toolbox.identity(_root(kernel)), kernel.release, *_sources())}"


def make(kernel: kernels.Unpacked, out: Path, *arguments: str, root: Path | None = None) -> str:
    """Run kernel/'s Makefile for a kernel, with its results in `out`; returns all that it printed.

    root: use the tools of this root instead of the kernel's usual one.
    """
    box = kernel.box()
    ro = {**box.ro, "/tmp/kernel": SOURCES, "/tmp/vmlinux": kernel.root}
    line = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", "/tmp/kernel", f"K={kernel.release}", "O=/tmp/out"]
    line += [f"KDIR=/lib/modules/{kernel.release}/build", "BTF=/tmp/vmlinux/vmlinux", f"CC={kernel.kernel.compiler}"]
    named = [argument for argument in arguments if argument.startswith("MODULES=")]
    if all(OBJECTS["nvme-wrr"] in argument for argument in named):
        ro["/tmp/source"] = kernels.nvme(kernel)
        line += ["SOURCE=/tmp/source"]
    box = replace(box, ro=ro, rw={"/tmp/out": out}, root=root or _root(kernel))
    return toolbox.run(["sh", "-c", 'exec "$@" 2>&1', "sh", *line, *arguments], box)


def _build(kernel: kernels.Unpacked, names: Sequence[str]) -> None:
    """Build modules and add those to the kernel's folder that it lacks."""
    with progress.step(f"Modules for {kernel.release}: {', '.join(names)}"), cache.scratch() as out:
        make(kernel, out, f"MODULES={' '.join(OBJECTS[name] for name in names)}", "modules")
        toolbox.run(["sh", "-euc", STRIP], toolbox.Sandbox(rw={"/tmp/out": out}))
        for path in out.rglob("*.ko"):
            if not (place := folder(kernel) / path.name).exists():
                path.rename(place)


def _root(kernel: kernels.Unpacked) -> Path:
    """The root in which a kernel's modules are built: the toolbox for the default kernel, the workshop for others."""
    return toolbox.path() if kernel.kernel.name == kernels.DEFAULT else toolbox.workshop()


def _sources() -> list[bytes]:
    """The names and contents of all files under kernel/ but the pages."""
    files = sorted(path for path in SOURCES.rglob("*") if path.is_file() and path.suffix != ".md")
    return [part for path in files for part in (str(path.relative_to(SOURCES)).encode(), path.read_bytes())]
