# SPDX-License-Identifier: GPL-2.0-only
"""A disk of a running system: its settings, counters and users, read from /sys and /proc below any root.

It only reads, and needs no module of ours. The root is / or a folder with copies of the same files from another host.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, UsageError

CLASSES = ("none", "rt", "be", "idle")
# ioprio_get(2) has no wrapper in the C library.
IOPRIO_GET = {"x86_64": 252, "aarch64": 31, "riscv64": 31, "ppc64le": 274, "s390x": 283}
SCHED_FIFO, SCHED_RR, SCHED_IDLE = 1, 2, 5
SECTOR_KIB = 0.5
DEFAULT_WEIGHT = 100
# The schedulers that share by weight, each with its own file. Both take weights of 1 to 1000, io.weight up to 10000.
WEIGHT_FILES = {"bfq": "io.bfq.weight", "cpq": "io.sluice.weight"}
MOST_WEIGHT = 1000
# A share of the tags that counts as all of them: even where tags are short, some are free for a moment.
USED_UP = 0.9
# From this kernel on dm-crypt keeps the priorities of what it writes.
KEEPS = (6, 9)
# The schedulers that the doctor advises, beside those that each kernel has.
LOADABLE = ("kyber", "bfq", "sluice", "mq-prio", "cpq")
# The counters of io.stat, by the names of their limits in io.max.
LIMITS = {"rbps": "rbytes", "wbps": "wbytes", "riops": "rios", "wiops": "wios"}


@dataclass(frozen=True)
class Disk:
    """A whole disk and its settings.

    `depth` is how many requests the device takes at once, `hw_tags` how many tags each of its queues has. `queue` and
    `knobs` are the files of queue/ and queue/iosched/ with their content. `folder` is the disk's folder in sysfs as a
    user types it. `loses` names a LUKS device above that loses the priorities of writes, and is "" if none does.
    """

    name: str
    number: str
    folder: str
    rotating: bool
    scheduler: str
    offered: tuple[str, ...]
    hw_queues: int
    hw_tags: int
    depth: int
    queue: Mapping[str, str]
    knobs: Mapping[str, str]
    loses: str = ""

    def knob(self, name: str) -> int | None:
        """A number from queue/iosched/; None if the scheduler has no such knob."""
        return _number(self.knobs.get(name))

    def setting(self, name: str) -> int | None:
        """A number from queue/; None if the kernel has no such file."""
        return _number(self.queue.get(name))

    @property
    def tags(self) -> int:
        """The number of requests that may exist at once: nr_requests for each hardware queue."""
        return (self.setting("nr_requests") or self.depth) * self.hw_queues


@dataclass(frozen=True)
class Counters:
    """/sys/block/DISK/stat: requests, sectors of 512 bytes and milliseconds since the disk appeared."""

    reads: int
    read_sectors: int
    read_ms: int
    writes: int
    write_sectors: int
    write_ms: int
    busy_ms: int


@dataclass(frozen=True)
class Task:
    """A thread: its name, the bytes that it has read from disks, its I/O priority as a class and a level."""

    name: str
    read_bytes: int
    ioclass: str
    level: int


@dataclass(frozen=True)
class Group:
    """A cgroup: its use of the disk, including the cgroups below it, its weights, and its limits in io.max.

    `used` and `limits` are as in io.stat and io.max: rbytes, wbytes, rios, wios; rbps, wbps, riops, wiops. `weight` is
    the first one that is set in io.weight, io.bfq.weight and io.sluice.weight. `heard` has the weight for each
    scheduler that reads only a file of its own.
    """

    used: Mapping[str, float]
    weight: int
    heard: Mapping[str, int]
    limits: str

    @property
    def ios(self) -> float:
        """Requests."""
        return self.used["rios"] + self.used["wios"]


@dataclass(frozen=True)
class Look:
    """What can be observed at one moment (None: not readable).

    The fields are the requests inside the device, and whether tasks wait for a tag. Then whether tasks wait for their
    part of cpq's tags while others are free, and whether one of the device's queues is full.
    """

    inside: int
    starved: bool | None
    held: bool | None
    full: bool | None


@dataclass(frozen=True)
class Sample:
    """The counters at one moment.

    `seconds` is the time since the start of the system. `stalled_us` is how long some task has waited for I/O since
    then (None: the kernel doesn't say). `disks` has all whole disks. `hidden` counts threads that may not be read.
    """

    seconds: float
    stalled_us: int | None
    disks: Mapping[str, Counters]
    tasks: Mapping[int, Task]
    groups: Mapping[str, Group]
    hidden: int


def find(device: str, root: Path = Path("/"), command: str = "doctor", loops: bool = False) -> str:
    """The name in /sys/block of the disk that `device` (sda, /dev/sda, a partition, a link to one) is or is on.

    UsageError for a device without a request queue of its own, and for a loop device unless `loops`.
    """
    name = _kernel_name(device, root, command)
    block = root / "sys/block"
    if name not in (path.name for path in block.glob("*")):
        parents = [path.parent.parent.name for path in block.glob("*/*/partition") if path.parent.name == name]
        if not parents:
            raise UsageError(f"{device} is not a disk or partition", f"./sluice {command} {_some_disk(root)}")
        name = parents[0]
    _refuse_stacked(block / name, root, command, loops)
    return name


def _kernel_name(device: str, root: Path, command: str) -> str:
    """The kernel's name of a device that is given by name or path; a slash in a name is a ! in sysfs."""
    if "/" not in device:
        return device
    path = root / device.lstrip("/") if root != Path("/") else Path(device)
    if not path.exists():
        raise UsageError(f"there is no {device}", f"./sluice {command} {_some_disk(root)}")
    if root == Path("/") and not path.is_block_device():
        raise UsageError(f"{device} is not a block device", f"./sluice {command} {_some_disk(root)}")
    return str(path.resolve()).removeprefix(f"{(root / 'dev').resolve()}/").replace("/", "!")


def _refuse_stacked(folder: Path, root: Path, command: str, loops: bool) -> None:
    """UsageError for a device that passes its I/O on to other disks, or takes it without a queue."""
    below = sorted({whole(path.name, root) for path in folder.glob("slaves/*")})
    above = _requests_from(folder)
    if above:
        raise UsageError(
            f"{folder.name} gets its requests from {above}, where a scheduler orders them",
            f"./sluice {command} {above}",
        )
    if below and not (folder / "mq").is_dir():
        raise UsageError(
            f"{folder.name} passes its I/O on to {', '.join(below)}, where a scheduler orders it",
            f"./sluice {command} {below[0]}",
        )
    if _is_loop(folder) and not loops:
        file = content(folder / "loop/backing_file")
        raise UsageError(
            f"{folder.name} is a loop device: what counts is the disk that holds its file ({file or 'it has none'})",
            f"findmnt -no SOURCE --target {shlex.quote(file)}   and ./sluice {command} that" if file else "lsblk",
        )
    if not (folder / "mq").is_dir():
        raise UsageError(
            f"{folder.name} takes I/O without a queue that a scheduler could order",
            f"./sluice {command} {_some_disk(root)}",
        )


def whole(name: str, root: Path) -> str:
    """The disk of a partition; any other name as it is."""
    return next((path.parent.parent.name for path in (root / "sys/block").glob(f"*/{name}/partition")), name)


def _some_disk(root: Path) -> str:
    """A disk that the user may have meant: the first with a queue."""
    there = [folder.name for folder in folders(root)]
    return there[0] if there else "DISK   with a name that lsblk shows"


def folders(root: Path) -> Iterator[Path]:
    """The folders of all disks whose own queue orders their I/O."""
    for folder in sorted((root / "sys/block").glob("*")):
        if (folder / "mq").is_dir() and not _is_loop(folder) and not _requests_from(folder):
            yield folder


def _requests_from(folder: Path) -> str:
    """The device that sends requests rather than bios to a disk (dm-multipath), "" if there is none.

    The schedulers of its paths see nothing. Other stacked devices have no queue.
    """
    above = (folder.parent / path.name for path in folder.glob("holders/*"))
    return next((one.name for one in above if (one / "mq").is_dir() and not _is_loop(one)), "")


def _at_once(folder: Path, root: Path) -> int | None:
    """How many requests a device takes at once, if it says so; a stacked one takes as many as the devices below it."""
    paths = [root / "sys/block" / whole(path.name, root) for path in folder.glob("slaves/*")] or [folder]
    depths = [_number(content(path / "device/queue_depth")) for path in paths]
    return sum(depth or 0 for depth in depths) if all(depths) else None


def _is_loop(folder: Path) -> bool:
    return (content(folder / "dev") or "").startswith("7:")


def read(name: str, root: Path = Path("/")) -> Disk:
    """The settings of a disk that `find` has found; LabError where they can't be read."""
    folder = root / "sys/block" / name
    queue = _files(folder / "queue")
    chosen = scheduler(folder)
    if not chosen or "rotational" not in queue:
        raise LabError(f"{folder}/queue can't be read", f"ls -l {folder}/queue   and mount sysfs, or ask as root")
    tags = [_number(content(path)) or 1 for path in folder.glob("mq/*/nr_tags")]
    at_once = _at_once(folder, root) or sum(tags) or 1
    return Disk(
        name=name,
        number=content(folder / "dev") or "",
        folder=f"/sys/block/{name}",
        rotating=queue["rotational"] == "1",
        scheduler=chosen,
        offered=_offered(queue["scheduler"], root),
        hw_queues=max(1, len(tags)),
        hw_tags=min(at_once, max(tags, default=1)),
        depth=min(at_once, sum(tags) or 1),
        queue=queue,
        knobs=_files(folder / "queue/iosched"),
        loses=_loses(folder, root),
    )


def scheduler(folder: Path) -> str:
    """The scheduler of the disk with this folder in /sys/block; "" if that can't be read."""
    found = re.search(r"\[(.+?)\]", content(folder / "queue/scheduler") or "")
    return found[1] if found else ""


def listed_in(text: str) -> list[str]:
    """The schedulers in queue/scheduler, which has the chosen one in brackets."""
    return text.replace("[", "").replace("]", "").split()


def _offered(listed: str, root: Path) -> tuple[str, ...]:
    """Schedulers that the disk takes: those in its list, and those whose module the kernel would load."""
    names = listed_in(listed)
    release = content(root / "proc/sys/kernel/osrelease") or "unknown"
    modules = content(root / "lib/modules" / release / "modules.dep") or ""
    loaded = [name for name in LOADABLE if name not in names and re.search(rf"/{name}(-iosched)?\.ko", modules)]
    return (*names, *loaded)


def _loses(folder: Path, root: Path) -> str:
    """The name of a LUKS device above a disk that loses the priorities of writes, which sluice-carry would keep."""
    release = content(root / "proc/sys/kernel/osrelease") or ""
    version = tuple(map(int, re.findall(r"\d+", release)[:2]))
    there = re.search(r"/sluice-carry\.ko", content(root / "lib/modules" / release / "modules.dep") or "")
    if version >= KEEPS or not there or (root / "sys/module/sluice_carry").exists():
        return ""
    above = [*folder.glob("holders/*"), *folder.glob("*/holders/*")]
    return next((content(one / "dm/name") or one.name for one in above if _is_luks(one)), "")


def _is_luks(holder: Path) -> bool:
    return (content(holder / "dm/uuid") or "").startswith("CRYPT-")


def look(name: str, root: Path = Path("/")) -> Look:
    """The state at this moment."""
    inflight = (content(root / "sys/block" / name / "inflight") or "0 0").split()
    waiting = [found["ws_active"] for found in _tags(name, "sched_tags", root) if "ws_active" in found]
    full = [
        found["busy"] >= USED_UP * found["depth"] or found["ws_active"] > 0
        for found in _tags(name, "tags", root)
        if {"busy", "depth", "ws_active"} <= found.keys()
    ]
    return Look(
        sum(map(int, inflight)), any(waiting) if waiting else None, _held(name, root), any(full) if full else None
    )


def _tags(name: str, file: str, root: Path) -> Iterator[dict[str, int]]:
    """The numbers in a debugfs file about the tags in use, for each of the disk's queues."""
    for path in (root / "sys/kernel/debug/block" / name).glob(f"hctx*/{file}"):
        yield {key: int(value) for key, value in re.findall(r"^(\w+)=(\d+)$", content(path) or "", re.MULTILINE)}


def _held(name: str, root: Path) -> bool | None:
    """Whether cpq's fairness makes tasks wait while a tenth of the tags is free; None without cpq, and unless root."""
    text = content(root / "sys/kernel/debug/block" / name / "sched/accounts") or ""
    found = re.match(r"tags=(\d+) used=(\d+) waiting=(\d+)$", text, re.MULTILINE)
    if not found:
        return None
    tags, used, waiting = map(int, found.groups())
    return waiting > 0 and used < USED_UP * tags


def sample(disk: Disk, root: Path = Path("/"), ioprio: Callable[[int], int] | None = None) -> Sample:
    """All counters at this moment; `ioprio` returns a thread's I/O priority (None: ask ioprio_get(2))."""
    uptime = content(root / "proc/uptime")
    counters = {folder.name: found for folder in folders(root) if (found := _counters(folder / "stat"))}
    if uptime is None or disk.name not in counters:
        raise LabError(f"the counters of {disk.name} can't be read", f"cat {disk.folder}/stat /proc/uptime")
    pressure = re.search(r"^some .*total=(\d+)$", content(root / "proc/pressure/io") or "", re.MULTILINE)
    tasks, hidden = _tasks(root, ioprio or _ioprio_get)
    return Sample(
        seconds=float(uptime.split()[0]),
        stalled_us=int(pressure[1]) if pressure else None,
        disks=counters,
        tasks=tasks,
        groups=_groups(disk, root),
        hidden=hidden,
    )


def _counters(path: Path) -> Counters | None:
    fields = [int(field) for field in (content(path) or "").split()]
    if len(fields) < 11:
        return None
    return Counters(fields[0], fields[2], fields[3], fields[4], fields[6], fields[7], fields[9])


def _tasks(root: Path, ioprio: Callable[[int], int]) -> tuple[dict[int, Task], int]:
    """Threads that have read from disks, and the number of threads whose counters this user may not read."""
    found, hidden = {}, 0
    for folder in (root / "proc").glob("[0-9]*/task/[0-9]*"):
        text = content(folder / "io")
        if text is None:
            hidden += 1
            continue
        done = re.search(r"^read_bytes: (\d+)$", text, re.MULTILINE)
        stat = content(folder / "stat")
        if done and done[1] != "0" and stat:
            found[int(folder.name)] = _task(int(folder.name), stat, int(done[1]), ioprio)
    return found, hidden


def _task(tid: int, stat: str, read_bytes: int, ioprio: Callable[[int], int]) -> Task:
    """A thread from its /proc/TID/stat, whose second field is a name in brackets that may hold anything."""
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    fields = stat[stat.rindex(")") + 2 :].split()
    raw = ioprio(tid)
    ioclass, level = CLASSES[raw >> 13 & 3], raw & 7
    if ioclass == "none":
        ioclass, level = by_nice(nice=int(fields[16]), policy=int(fields[38]))
    return Task(name, read_bytes, ioclass, 0 if ioclass == "idle" else level)


def by_nice(nice: int, policy: int) -> tuple[str, int]:
    """The I/O priority that the kernel derives for a thread that never set one."""
    if policy == SCHED_IDLE:
        return "idle", 0
    if policy in (SCHED_FIFO, SCHED_RR):
        return "rt", 4
    return "be", (nice + 20) // 5


def _ioprio_get(tid: int) -> int:
    """The result of ioprio_get(2) for a thread; 0, which is no priority, if it fails."""
    number = IOPRIO_GET.get(platform.machine())
    return max(0, ctypes.CDLL(None).syscall(number, 1, tid)) if number else 0


def _groups(disk: Disk, root: Path) -> dict[str, Group]:
    """The cgroups (v2) that have used the disk, by path; the root's is empty."""
    top = root / "sys/fs/cgroup"
    found = {}
    for folder, _, files in os.walk(top):
        line = _of_disk(Path(folder, "io.stat"), disk) if "io.stat" in files else None
        if line is not None:
            path = Path(folder)
            heard = {name: _weight(path / file, disk) for name, file in WEIGHT_FILES.items()}
            weights = (_weight(path / "io.weight", disk), *heard.values())
            found["" if path == top else f"/{path.relative_to(top)}"] = Group(
                used={
                    **dict.fromkeys(LIMITS.values(), 0),
                    **{key: int(n) for key, n in re.findall(r"\b(\w+)=(\d+)", line)},
                },
                weight=next((weight for weight in weights if weight != DEFAULT_WEIGHT), DEFAULT_WEIGHT),
                heard=heard,
                limits=_of_disk(path / "io.max", disk) or "",
            )
    return found


def _weight(path: Path, disk: Disk) -> int:
    """A cgroup's weight for a disk, else for all."""
    text = content(path) or str(DEFAULT_WEIGHT)
    number = (_of_disk_in(text, disk) or text.splitlines()[0]).split()[-1]
    return DEFAULT_WEIGHT if number == "default" else int(number)


def cost_enabled(disk: Disk, root: Path = Path("/")) -> bool | None:
    """Whether the kernel's cost model shares the disk by io.weight under any scheduler; None if the kernel has none."""
    if not (root / "sys/fs/cgroup/io.cost.qos").exists():
        return None
    return "enable=1" in (_of_disk(root / "sys/fs/cgroup/io.cost.qos", disk) or "")


def _of_disk(path: Path, disk: Disk) -> str | None:
    text = content(path)
    return None if text is None else _of_disk_in(text, disk)


def _of_disk_in(text: str, disk: Disk) -> str | None:
    """The line of a cgroup's file for one disk, without the disk's number."""
    return next((line.split(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{disk.number} ")), None)


def _files(folder: Path) -> dict[str, str]:
    """The files of a folder that can be read, with their content."""
    found = {}
    with suppress(OSError):
        for path in folder.iterdir():
            text = content(path) if path.is_file() else None
            if text is not None:
                found[path.name] = text
    return found


def content(path: Path) -> str | None:
    """A file's content without the line's end; None where it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None
