# SPDX-License-Identifier: GPL-2.0-only
"""This host's disks: the scheduler of each, now and at the next boot, what is above it, what gets through from there.

Reads /sys and /proc, changes nothing. Imports only Python's standard library, so that it runs on any host.
docs/stacks.md says what gets through which driver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import __version__
from lab.host import boot, system
from lab.host import disk as disks
from lab.host.boot import Rule
from lab.host.disk import Disk, content
from lab.host.doctor import ORDERING, SPLIT_LEVEL, echo
from lab.host.system import Problem

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
class Status:
    """A disk, the udev rule that it has at each boot (None: the kernel's default), its file systems, what is wrong."""

    disk: Disk
    rule: Rule | None
    uses: tuple[Use, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Kernel:
    """An installed kernel, our schedulers that have a module for it, and why others have none, if that was noted."""

    release: str
    running: bool
    schedulers: tuple[str, ...]
    reason: str | None


def statuses(root: Path = Path("/")) -> list[Status]:
    """All disks whose own queue orders their I/O."""
    mounted, rules = mounts(root), boot.rules(root)
    found = []
    for folder in disks.folders(root):
        disk, uses = disks.read(folder.name, root), tuple(_uses(folder, (), mounted, root))
        rule, problems = boot.of(disk, rules, root), tuple(_problems(disk, uses, folder, root))
        found.append(Status(disk, rule, uses, problems))
    return found


def kernels(root: Path = Path("/")) -> list[Kernel]:
    """The installed kernels."""
    running = system.release(root)
    return [
        Kernel(
            one,
            one == running,
            tuple(name for name in system.OURS if system.module(name, one, root)),
            system.reason(one, root),
        )
        for one in system.kernels(root)
    ]


def at_boot(root: Path = Path("/")) -> list[Problem]:
    """What keeps disks from the schedulers that their rules name."""
    return list(system.problems([rule.scheduler for rule in boot.rules(root)], root))


def mounts(root: Path) -> dict[str, list[tuple[str, str]]]:
    """The mount points and types of the file systems on each device, by its number."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (content(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        kind, source = after.split()[:2]
        number = before.split()[2]
        # Btrfs has a number of its own for each mount, which is not a disk's.
        number = _number(Path(source).name, root) if number.startswith("0:") and source.startswith("/dev/") else number
        found.setdefault(number, []).append((place, kind))
    return found


def _number(name: str, root: Path) -> str:
    """The number of a device, by its name below /dev or /dev/mapper; "" if there is none."""
    block = root / "sys/block"
    folders = [block / name, *block.glob(f"*/{name}")]
    folders += [path.parents[1] for path in block.glob("dm-*/dm/name") if content(path) == name]
    return next((number for folder in folders if (number := content(folder / "dev"))), "")


def _uses(
    folder: Path, below: tuple[Layer, ...], mounted: Mapping[str, Sequence[tuple[str, str]]], root: Path
) -> Iterator[Use]:
    """The file systems on a device, and on what is above it; each once, at its first mount point."""
    for place, kind in mounted.get(content(folder / "dev") or "", ())[:1]:
        yield Use(below, place, kind)
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
    if disk.knobs.get("stalls", "0") != "0":
        yield Problem(
            f"{disk.scheduler} left {disk.knobs['stalls']} requests of {disk.name} waiting, and is a FIFO now",
            f"dmesg >report   and {echo('mq-deadline', f'{disk.folder}/queue/scheduler')}",
        )
    layers = {layer.name: layer for use in uses for layer in use.layers}
    if disk.loses and disk.scheduler in ORDERING:
        yield Problem(
            f"dm-crypt of this kernel drops the I/O priority of writes, so {disk.scheduler} treats all writes of "
            f"{disk.loses} the same",
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
                f"{layer.title} is on {', '.join(f'{name} ({chosen[name]})' for name in others)}: give all "
                "its disks the same one",
                echo(first, f"{disk.folder}/queue/scheduler"),
            )


def text(found: Sequence[Status], installed: Sequence[Kernel] = (), problems: Sequence[Problem] = ()) -> str:
    """The report for people."""
    lines = []
    for one in found:
        disk = one.disk
        kind = "rotating disk" if disk.rotating else "flash"
        lines.append(f"{disk.name}: {kind}, queue depth {disk.depth}, scheduler {disk.scheduler}")
        if one.rule:
            lines.append(f"    at the next boot: {boot.phrase(one.rule)}")
        lines += [f"    {use}" for use in one.uses]
        lines += [f"    {line}" for problem in one.problems for line in _lines(problem)]
    if not found:
        lines.append("no disk here has a queue that a scheduler orders")
    for kernel in installed:
        modules = ", ".join(kernel.schedulers) or "none"
        why = f" ({kernel.reason})" if kernel.reason else ""
        lines.append(f"kernel {kernel.release}{' (running)' if kernel.running else ''}: our modules: {modules}{why}")
    return "\n".join([*lines, *(line for problem in problems for line in _lines(problem))])


def _lines(problem: Problem) -> list[str]:
    return [f"problem: {problem.what}", f"   next: {problem.type}"]


def data(found: Sequence[Status], installed: Sequence[Kernel] = (), problems: Sequence[Problem] = ()) -> str:
    """The report for programs."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "version": __version__,
            "disks": [
                {
                    "disk": one.disk.name,
                    "rotating": one.disk.rotating,
                    "depth": one.disk.depth,
                    "scheduler": one.disk.scheduler,
                    "offered": one.disk.offered,
                    "knobs": one.disk.knobs,
                    "next_boot": {"scheduler": one.rule.scheduler, "knobs": one.rule.knobs} if one.rule else None,
                    "uses": [asdict(use) for use in one.uses],
                    "problems": [asdict(problem) for problem in one.problems],
                }
                for one in found
            ],
            "kernels": [asdict(kernel) for kernel in installed],
            "problems": [asdict(problem) for problem in problems],
        },
        indent=1,
    )


def run(as_json: bool, root: Path = Path("/")) -> int:
    """Print this host's disks and kernels; 1 if there is a problem, 0 if not. LabError if a disk can't be read."""
    found, installed, problems = statuses(root), kernels(root), at_boot(root)
    print((data if as_json else text)(found, installed, problems))
    return int(any(one.problems for one in found) or bool(problems))
