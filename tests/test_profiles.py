# SPDX-License-Identifier: GPL-2.0-only
"""Each simulated drive against published figures of the real one: `pytest tests/test_profiles.py -s` prints the table.

The models run in user space (tests/units/measure), at the real drive's speed, in its own time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import description, toolbox
from lab.devices import DEVICES

TOP = Path(__file__).parent.parent
KIB = 1024

X25M = "Intel X25-M 80 GB (34 nm) datasheet"
EMMC = "Samsung eMMC 5.1 64 GB, announcement of 2015"
AAKX = "WD5000AAKX datasheet"
CLASS = "7200 rpm disks, published reviews"
SAMSUNG = "Samsung 970 PRO 1 TB datasheet"
FSYNC = "published fsync latencies of the class"


@dataclass(frozen=True)
class Figures:
    """The result of a load: rates per second, and latency in microseconds."""

    iops: float
    mean_us: float
    median_us: float
    p99_us: float


@dataclass(frozen=True)
class Published:
    """A published figure of a load, from `low` to `high`, which are equal if one number is given.

    `tolerance` is the accepted deviation beyond them in per cent, for what the model is known not to reach.
    """

    load: str
    profile: str
    arguments: str
    unit: str
    low: float
    high: float
    source: str
    tolerance: float = 3.0


UNITS: dict[str, Callable[[Figures, int], float]] = {
    "IOPS": lambda got, size: got.iops,
    "MB/s": lambda got, size: got.iops * size / 1e6,
    "us": lambda got, size: got.mean_us,
}

PUBLISHED = (
    Published("random read, QD32", "ssd", "read random 4096 32 40000", "IOPS", 35_000, 35_000, X25M),
    Published("random read, QD1", "ssd", "read random 4096 1 20000", "us", 65, 85, X25M),
    Published("random write, QD32", "ssd", "write random 4096 32 40000", "IOPS", 6_600, 6_600, X25M),
    Published("sequential write, QD1, 4 KiB", "ssd", "write sequential 4096 1 20000", "us", 115, 115, X25M),
    Published("sequential read, QD32", "ssd", "read sequential 131072 32 10000", "MB/s", 250, 250, X25M, 5),
    Published("sequential write, QD32", "ssd", "write sequential 131072 32 10000", "MB/s", 70, 70, X25M),
    Published("write and flush", "ssd", "flush random 4096 1 1000", "us", 3_000, 4_000, FSYNC),
    Published("random read, QD32", "emmc", "read random 4096 32 40000", "IOPS", 11_000, 11_000, EMMC),
    Published("random write, QD32", "emmc", "write random 4096 32 40000", "IOPS", 13_000, 13_000, EMMC),
    Published("sequential read, QD32", "emmc", "read sequential 524288 32 4000", "MB/s", 250, 250, EMMC),
    Published("sequential write, QD32", "emmc", "write sequential 524288 32 4000", "MB/s", 125, 125, EMMC),
    Published("write and flush", "emmc", "flush random 4096 1 1000", "us", 1_000, 5_000, FSYNC),
    Published("random read, QD1", "hdd", "read random 4096 1 4000", "us", 13_070, 13_070, AAKX),
    Published("random read, QD32", "hdd", "read random 4096 32 4000", "IOPS", 94, 200, CLASS),
    Published("sequential read, QD1", "hdd", "read sequential 131072 1 4000", "MB/s", 126, 126, AAKX),
    Published("sequential write, QD1", "hdd", "write sequential 131072 1 4000", "MB/s", 126, 126, AAKX),
    Published("write and flush", "hdd", "flush random 4096 1 500", "us", 12_000, 35_000, FSYNC),
    Published("random read, QD128", "nvme", "read random 4096 128 80000", "IOPS", 500_000, 500_000, SAMSUNG, 8),
    Published("random write, QD128", "nvme", "write random 4096 128 80000", "IOPS", 500_000, 500_000, SAMSUNG),
    Published("random read, QD1", "nvme", "read random 4096 1 20000", "IOPS", 15_000, 15_000, SAMSUNG, 5),
    Published("random write, QD1", "nvme", "write random 4096 1 20000", "IOPS", 55_000, 55_000, SAMSUNG),
    Published("sequential read, QD32", "nvme", "read sequential 131072 32 20000", "MB/s", 3_500, 3_500, SAMSUNG),
    Published("sequential write, QD32", "nvme", "write sequential 131072 32 20000", "MB/s", 2_700, 2_700, SAMSUNG, 6),
)


def deviation(measured: float, published: Published) -> float:
    """Per cent beyond the published range; 0 within it."""
    if measured < published.low:
        return (measured / published.low - 1) * 100
    return max((measured / published.high - 1) * 100, 0.0)


def build(out: Path, models: Path = TOP / "kernel/simdisk") -> toolbox.Sandbox:
    """Build `measure` from these models into `out`; returns the sandbox that sees it as /tmp/out/measure."""
    box = toolbox.Sandbox(ro={"/tmp/units": TOP / "tests/units", "/tmp/models": models}, rw={"/tmp/out": out})
    arguments = ["O=/tmp/out", "MODELS=/tmp/models", "CC=gcc-14", "CFLAGS=-O2", "/tmp/out/measure"]
    toolbox.run(["make", "-s", "-C", "/tmp/units", *arguments], box)
    return box


def measure(box: toolbox.Sandbox, published: Published) -> float:
    """The model's figure under the load, in the published figure's unit."""
    printed = toolbox.run(["/tmp/out/measure", published.profile, *published.arguments.split()], box).split()
    iops, mean, median, p99 = (float(number) for number in printed)
    got = Figures(iops, mean / 1e3, median / 1e3, p99 / 1e3)
    return UNITS[published.unit](got, int(published.arguments.split()[2]))


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[toolbox.Sandbox]:
    """The built program."""
    print(f"\n{'drive':6} {'load':30} {'simulated':>12} {'published':>18}  deviation  source")
    yield build(tmp_path_factory.mktemp("units"))


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda p: f"{p.profile}-{p.load}")
def test_profile(box: toolbox.Sandbox, published: Published) -> None:
    """The simulated drive is as fast as the real one, within the stated deviation."""
    got = measure(box, published)
    off = deviation(got, published)
    span = f"{published.low:g}" if published.low == published.high else f"{published.low:g}-{published.high:g}"
    row = f"{published.profile:6} {published.load:30} {got:12.5g} {span:>13} {published.unit:4}"
    print(f"{row} {off:+9.1f} %  {published.source}")
    assert abs(off) <= published.tolerance


@pytest.mark.parametrize(
    ("profile", "line", "planted"),
    [
        ("ssd", ".read_cmd_ns = 28500", ".read_cmd_ns = 30000"),
        ("emmc", ".link_mbps = 250", ".link_mbps = 300"),
        ("hdd", ".seek_full_ns = 15800000", ".seek_full_ns = 17800000"),
        ("nvme", ".write_latency_ns = 17000", ".write_latency_ns = 12000"),
    ],
)
def test_a_wrong_number_is_noticed(tmp_path: Path, profile: str, line: str, planted: str) -> None:
    """A wrong parameter makes at least one comparison fail."""
    models = tmp_path / "models"
    models.mkdir()
    for source in (TOP / "kernel/simdisk").glob("*.[ch]"):
        (models / source.name).write_bytes(source.read_bytes())
    text = (models / "profile.c").read_text(encoding="utf-8")
    start = text.index(f'.name = "{profile}"')
    assert line in text[start:]
    (models / "profile.c").write_text(text[:start] + text[start:].replace(line, planted, 1), encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()
    built = build(out, models)
    ours = [published for published in PUBLISHED if published.profile == profile]
    assert any(abs(deviation(measure(built, figure), figure)) > figure.tolerance for figure in ours)


def test_limits_md_names_every_slowdown() -> None:
    """The slowdowns of the profiles, and those that experiments set instead."""
    source = (TOP / "kernel/simdisk/profile.c").read_text()
    found = dict(re.findall(r'\.name = "(\w+)".*?\.slowdown = (\d+),', source, re.DOTALL))
    wanted = {(device, number): {"its profile"} for device, number in found.items()}
    for name in description.names():
        for device, own in description.load(name).device.items():
            if "slowdown" in own.get("parameters", {}):
                wanted.setdefault((device, own["parameters"]["slowdown"]), set()).add(f"`{name}`")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (.*) \|$", (TOP / "docs/limits.md").read_text(), re.M)
    assert {(device, number): set(where.split(", ")) for device, number, where in rows} == wanted
    assert set(found) == set(DEVICES)
