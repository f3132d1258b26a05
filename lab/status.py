# SPDX-License-Identifier: GPL-2.0-only
"""This host's disks: the scheduler of each, what is above it, and what gets through from there.

Reads /sys and /proc, changes nothing. Imports only Python's standard library, so that it runs on any host.
docs/stacks.md says what gets through which driver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import disk as disks
from lab.disk import Disk, content
from lab.doctor import ORDERING, SPLIT_LEVEL, echo

SCHEMA = 1
# A dm device's uuid begins with the name of what made it.
MAKERS = {"LVM": "LVM", "CRYPT": "LUKS"}
# A split-level scheduler can't tell which process caused what these write; docs/stacks.md, "Causes through a stack".
HIDES = ("raid4", "raid5", "raid6")


@dataclass(frozen=True)
class Layer:
    """A device above a disk: its name, what it is ("LUKS", "raid1", "partition") and its name for people."""

    name: str
    kind: str
    title: str


@dataclass(frozen=True)
class Use:
    """A file system on a disk: the layers below it, the uppermost first, its mount point and its type."""

    layers: tuple[Layer, ...]
    mount: str
    system: str

    def __str__(self) -> str:
        path = " on ".join(f"{layer.title} ({layer.kind})" for layer in self.layers)
        return f"{self.mount} ({self.system})" + (f" on {path}" if path else "")


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the line to type."""

    what: str
    type: str


@dataclass(frozen=True)
class Status:
    """A disk, the file systems on it, and what is wrong."""

    disk: Disk
    uses: tuple[Use, ...]
    problems: tuple[Problem, ...]


def statuses(root: Path = Path("/")) -> list[Status]:
    """All disks whose own queue orders their I/O."""
    mounted = mounts(root)
    found = []
    for folder in disks.folders(root):
        disk, uses = disks.read(folder.name, root), tuple(_uses(folder, (), mounted, root))
        found.append(Status(disk, uses, tuple(_problems(disk, uses, folder, root))))
    return found


def mounts(root: Path) -> dict[str, list[tuple[str, str]]]:
    """The mount points and types of the file systems on each device, by its number."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (content(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        found.setdefault(before.split()[2], []).append((place, after.split()[0]))
    return found


def _uses(
    folder: Path, below: tuple[Layer, ...], mounted: Mapping[str, Sequence[tuple[str, str]]], root: Path
) -> Iterator[Use]:
    """The file systems on a device, and on what is above it; each once, at its first mount point."""
    for place, system in mounted.get(content(folder / "dev") or "", ())[:1]:
        yield Use(below, place, system)
        for loop in _loops(place, mounted, root):
            yield from _uses(loop, (Layer(loop.name, "loop", loop.name), *below), mounted, root)
    for part in sorted(folder.glob("*/partition")):
        yield from _uses(part.parent, (Layer(part.parent.name, "partition", part.parent.name), *below), mounted, root)
    for holder in sorted(folder.glob("holders/*")):
        above = root / "sys/block" / holder.name
        yield from _uses(above, (_layer(above), *below), mounted, root)


def _layer(folder: Path) -> Layer:
    """A device of device-mapper or md, or another one that is on a disk."""
    maker = (content(folder / "dm/uuid") or "").partition("-")[0]
    kind = content(folder / "md/level") or MAKERS.get(maker, "device-mapper" if (folder / "dm").exists() else "device")
    return Layer(folder.name, kind, content(folder / "dm/name") or folder.name)


def _loops(place: str, mounted: Mapping[str, Sequence[tuple[str, str]]], root: Path) -> Iterator[Path]:
    """The loop devices with a file below a mount point, and below no other one."""
    places = [Path(other) for found in mounted.values() for other, _ in found]
    for backing in sorted((root / "sys/block").glob("loop*/loop/backing_file")):
        file = Path(content(backing) or "/")
        on = [other for other in places if file.is_relative_to(other)]
        if file != Path("/") and max(on, key=lambda other: len(other.parts), default=None) == Path(place):
            yield backing.parents[1]


def _problems(disk: Disk, uses: Sequence[Use], folder: Path, root: Path) -> Iterator[Problem]:
    """What keeps the disk's scheduler from doing its work for what is above."""
    split = disk.scheduler in SPLIT_LEVEL
    layers = {layer.name: layer for use in uses for layer in use.layers}
    if disk.loses and disk.scheduler in ORDERING:
        yield Problem(
            f"dm-crypt of this kernel writes without a priority, so that {disk.scheduler} takes all writes of "
            f"{disk.loses} as alike",
            "modprobe sluice-carry",
        )
    for layer in layers.values():
        if split and layer.kind in HIDES:
            yield Problem(
                f"{disk.scheduler} can't tell which process caused a write to {layer.title} ({layer.kind})",
                echo("mq-prio", f"{disk.folder}/queue/scheduler"),
            )
        if split and layer.kind == "loop":
            yield Problem(
                f"{disk.scheduler} doesn't hold calls on the files of {layer.title}, and charges them to its thread",
                f"losetup --list /dev/{layer.name}   and keep such files on a volume instead",
            )
    stacked = any(layer.kind not in ("partition", "loop") for layer in layers.values())
    if split and stacked and disks.cost_enabled(disk, root):
        yield Problem(
            f"io.cost is on for this disk, and {disk.scheduler} needs the same field of a bio below a stack",
            echo(f"{disk.number} enable=0", "/sys/fs/cgroup/io.cost.qos"),
        )
    yield from _unlike(disk, layers.values(), folder, root)


def _unlike(disk: Disk, layers: Iterable[Layer], folder: Path, root: Path) -> Iterator[Problem]:
    """RAIDs whose disks have several schedulers; said of each disk that differs from the first one."""
    for layer in layers:
        if not layer.kind.startswith("raid"):
            continue
        others = sorted({disks.whole(path.name, root) for path in (root / "sys/block" / layer.name).glob("slaves/*")})
        chosen = {name: disks.scheduler(root / "sys/block" / name) for name in others}
        first = chosen.get(others[0]) if others else None
        if first and folder.name != others[0] and disk.scheduler != first:
            yield Problem(
                f"{layer.title} is on {', '.join(f'{name} ({chosen[name]})' for name in others)}: one scheduler for "
                "all of them is usual",
                echo(first, f"{disk.folder}/queue/scheduler"),
            )


def text(found: Sequence[Status]) -> str:
    """The report for people."""
    lines = []
    for one in found:
        disk = one.disk
        kind = "rotating disk" if disk.rotating else "flash"
        lines.append(f"{disk.name}: {kind}, takes {disk.depth} requests, scheduler {disk.scheduler}")
        lines += [f"    {use}" for use in one.uses]
        for problem in one.problems:
            lines += [f"    problem: {problem.what}", f"       type: {problem.type}"]
    return "\n".join(lines) if lines else "no disk here has a queue that a scheduler orders"


def data(found: Sequence[Status]) -> str:
    """The report for programs."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "disks": [
                {
                    "disk": one.disk.name,
                    "rotating": one.disk.rotating,
                    "depth": one.disk.depth,
                    "scheduler": one.disk.scheduler,
                    "offered": one.disk.offered,
                    "knobs": one.disk.knobs,
                    "uses": [asdict(use) for use in one.uses],
                    "problems": [asdict(problem) for problem in one.problems],
                }
                for one in found
            ],
        },
        indent=1,
    )


def run(as_json: bool, root: Path = Path("/")) -> int:
    """Print this host's disks; 1 if one has a problem, 0 if not. LabError if one can't be read."""
    found = statuses(root)
    print((data if as_json else text)(found))
    return int(any(one.problems for one in found))
