# SPDX-License-Identifier: GPL-2.0-only
"""Sluice's Debian packages, built in a root of the oldest Debian that they are for, and read by lintian there."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab import cache, kernels, progress, toolbox

SUITE = "bookworm"
ROOT = (
    *("build-essential", "debhelper", "lintian", "python3-shtab"),
    *("bpftool", "clang", "libbpf-dev", "libelf-dev", "zlib1g-dev"),
)
"""What builds the packages and reads them."""
TOP = Path(__file__).parent.parent
BUILD = """\
cp -a /tmp/in /tmp/sluice
cd /tmp/sluice
cp -a packaging/debian debian
dpkg-buildpackage -us -uc -b 2>&1
lintian --fail-on error,warning --tag-display-limit 0 ../*.changes 2>&1
cp ../*.deb /tmp/out
"""


def build(out: Path) -> list[Path]:
    """Build the packages into a folder; their paths. SetupFailed, with the last lines, also if lintian objects."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("sluice*.deb"):
        old.unlink()
    with progress.step("Debian packages"), cache.scratch() as work:
        for name in ("kernel", "bpf", "man", "packaging", "lab/__init__.py", "lab/errors.py", "lab/host", "COPYING"):
            copy(TOP / name, work / "in" / name)
        ro = {"/tmp/in": work / "in", "/tmp/kernel": kernels.get(kernels.DEFAULT).root}
        box = toolbox.Sandbox(ro=ro, rw={"/tmp/out": out.resolve()}, root=root())
        toolbox.run(["sh", "-euc", BUILD], box, env={"BTF": "/tmp/kernel/vmlinux"})
    return sorted(out.glob("sluice*.deb"))


def root() -> Path:
    """The root that builds packages, made on first use."""
    return toolbox.make(ROOT, "Debian 12 with debhelper and lintian", SUITE)


def copy(source: Path, target: Path) -> None:
    """A file or a folder, without what Python has compiled."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
