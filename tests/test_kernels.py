# SPDX-License-Identifier: GPL-2.0-only
"""Every kernel that Debian offers: the modules are built for it, with its suite's own tools (make check-kernels)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lab import modules, toolbox

SUITES = ("bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid")
FLAVOURS = ("amd64", "cloud-amd64", "rt-amd64")
TOOLS = ("dwarves", "gcc", "kmod", "lz4", "make", "xz-utils", "zstd")
# Without the kernel's source there is no driver that could be changed.
WANTED = modules.OBJECTS.keys() - {"nvme-wrr"}


def root(suite: str) -> Path:
    """A Debian root with all kernels of a suite, their headers and what builds modules."""
    of = f"/{suite}" if suite.endswith(toolbox.BACKPORTS) else ""
    packages = [f"linux-{part}-{flavour}{of}" for flavour in FLAVOURS for part in ("image", "headers")]
    return toolbox.make([*TOOLS, *packages], f"Debian ({suite}) with its kernels", suite)


@pytest.mark.full
@pytest.mark.parametrize("suite", SUITES)
def test_all_modules_are_built_for_each_kernel_of_a_suite(suite: str, tmp_path: Path) -> None:
    box = toolbox.Sandbox(ro={"/tmp/kernel": modules.SOURCES}, rw={"/tmp/out": tmp_path}, root=root(suite))
    releases = sorted(path.name for path in (root(suite) / "usr/lib/modules").iterdir())
    assert len(releases) == len(FLAVOURS)
    for release in releases:
        line = f"make -s -j{os.cpu_count()} -C /tmp/kernel install K={release} O=/tmp/out/{release} DESTDIR=/tmp/out/to"
        said = toolbox.run(["sh", "-c", f"{line} 2>&1"], box)
        built = {path.stem for path in (tmp_path / f"to/lib/modules/{release}").rglob("*.ko")}
        left = dict(re.findall(r"^  LEFT +([\w-]+): (.+)$", said, re.MULTILINE))
        print(f"{release}: {len(built)} modules; left out: {left}")
        assert (built, set(left)) == (set(WANTED), {"nvme-wrr"})
