# SPDX-License-Identifier: GPL-2.0-only
"""What contrib/ has for other programs, built in a root with their headers."""

from __future__ import annotations

from pathlib import Path

from lab import cache, progress, toolbox

TOP = Path(__file__).parent.parent
SOURCES = TOP / "contrib"
NEEDS = {"sqlite": ("libsqlite3-dev",)}
"""The folders of contrib/, each with the packages that it needs besides a compiler."""
SHARED = "kernel/elevator/cause-ioctl.h"
"""The interface of /dev/sluice."""


def build(name: str) -> dict[str, bytes]:
    """The libraries of a folder by their file names, built if its sources changed since."""
    root = toolbox.make(("gcc-14", "libc6-dev", "make", *NEEDS[name]), f"Debian 13 with {' '.join(NEEDS[name])}")

    def make(part: Path) -> None:
        with progress.step(f"contrib/{name}"):
            part.mkdir()
            ro = {f"/tmp/src/contrib/{name}": SOURCES / name, f"/tmp/src/{SHARED}": TOP / SHARED}
            box = toolbox.Sandbox(ro=ro, rw={"/tmp/out": part}, root=root)
            line = ["make", "-s", "-C", f"/tmp/src/contrib/{name}", "O=/tmp/out", "CC=gcc-14", "CFLAGS=-O2 -Werror"]
            toolbox.run(["sh", "-c", 'exec "$@" 2>&1', "sh", *line], box)

    key = cache.key(toolbox.identity(root), *inputs(name))
    folder = cache.once(cache.root() / "build" / f"{name}-{key}", make)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def inputs(name: str) -> list[bytes]:
    """The names and contents of a folder's sources."""
    folder = SOURCES / name
    paths = (folder / "Makefile", *sorted(folder.glob("*.[ch]")), TOP / SHARED)
    return [part for path in paths for part in (path.name.encode(), path.read_bytes())]
