# SPDX-License-Identifier: GPL-2.0-only
"""The work of a disk between two samples: rates, sizes, latencies, queue, and its users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from lab.errors import LabError
from lab.host.disk import SECTOR_KIB, Counters, Disk, Group, Look, Sample, Task

# A disk with this share of the work of all disks is the one that tasks wait for.
ALONE = 0.9
# Reads (or writes) count as part of a mix from this share of all requests on.
MIXED = 0.1
# A thread reads, and a cgroup uses the disk, from this many bytes a second on: 16 requests of 4 KiB.
USES_BYTES, USES_IOS = 65536, 16


@dataclass(frozen=True)
class Load:
    """The work of the disk between two samples.

    Rates are per second, sizes in KiB. Times are in ms, and are means of the requests that ended. `queue` is the mean
    number of requests. `busy`, `stalled` (None: unknown), `empty`, `starved`, `held` and `crowded` (None: unknown) are
    shares of the time; `crowded` means that one of the device's queues was full. `alone`: the disk did nearly all the
    work of all disks. `readers` have a row for each I/O priority.
    """

    seconds: float
    reads: float
    writes: float
    read_kib: float
    write_kib: float
    read_ms: float
    write_ms: float
    queue: float
    write_queue: float
    busy: float
    stalled: float | None
    empty: float
    starved: float | None
    held: float | None
    crowded: float | None
    alone: bool
    readers: Mapping[tuple[str, int], str]
    groups: Mapping[str, Group]

    @property
    def iops(self) -> float:
        """Requests a second."""
        return self.reads + self.writes

    @property
    def kib(self) -> float:
        """Mean size of a request."""
        return _mean(self.reads * self.read_kib + self.writes * self.write_kib, self.iops)

    @property
    def mixed(self) -> bool:
        """Whether there are reads and writes."""
        return min(self.reads, self.writes) >= MIXED * self.iops > 0

    @property
    def classes(self) -> set[str]:
        """The classes of the readers."""
        return {ioclass for ioclass, _ in self.readers}


def between(disk: Disk, first: Sample, last: Sample, looks: Sequence[Look]) -> Load:
    """The work between two samples; LabError if no time passed."""
    seconds = last.seconds - first.seconds
    if seconds <= 0:
        raise LabError("no time passed between two looks at the counters", f"./sluice doctor --seconds 5 {disk.name}")
    work = {name: _since(first.disks[name], last.disks[name]) for name in last.disks if name in first.disks}
    own = work[disk.name]
    return Load(
        seconds=seconds,
        reads=own.reads / seconds,
        writes=own.writes / seconds,
        read_kib=_mean(own.read_sectors * SECTOR_KIB, own.reads),
        write_kib=_mean(own.write_sectors * SECTOR_KIB, own.writes),
        read_ms=_mean(own.read_ms, own.reads),
        write_ms=_mean(own.write_ms, own.writes),
        queue=(own.read_ms + own.write_ms) / 1000 / seconds,
        write_queue=own.write_ms / 1000 / seconds,
        busy=min(1.0, own.busy_ms / 1000 / seconds),
        stalled=_stalled(first, last, seconds),
        empty=_mean(sum(one.inside == 0 for one in looks), len(looks)),
        starved=_part(one.starved for one in looks),
        held=_part(one.held for one in looks),
        crowded=_part(one.full for one in looks),
        alone=_waits(own) >= ALONE * sum(map(_waits, work.values())),
        readers=_readers(first, last, seconds),
        groups=_users(first, last, seconds),
    )


def _since(first: Counters, last: Counters) -> Counters:
    before, after = asdict(first), asdict(last)
    return Counters(**{name: after[name] - before[name] for name in after})


def _waits(counters: Counters) -> int:
    return counters.read_ms + counters.write_ms


def _mean(total: float, count: float) -> float:
    return total / count if count else 0.0


def _part(seen: Iterable[bool | None]) -> float | None:
    """The share of the looks in which it was so, of those that could be had."""
    known = [one for one in seen if one is not None]
    return _mean(sum(known), len(known)) if known else None


def _stalled(first: Sample, last: Sample, seconds: float) -> float | None:
    if first.stalled_us is None or last.stalled_us is None:
        return None
    return min(1.0, (last.stalled_us - first.stalled_us) / 1e6 / seconds)


def _readers(first: Sample, last: Sample, seconds: float) -> dict[tuple[str, int], str]:
    """The priorities with which threads have read, each with the name of the thread that read most."""
    read: dict[tuple[str, int], tuple[int, str]] = {}
    for tid, task in last.tasks.items():
        before = first.tasks.get(tid, Task("", 0, "", 0)).read_bytes
        done = task.read_bytes - before
        if done >= USES_BYTES * seconds:
            rank = (task.ioclass, task.level)
            read[rank] = max(read.get(rank, (0, "")), (done, task.name))
    return {rank: name for rank, (_, name) in sorted(read.items())}


def _users(first: Sample, last: Sample, seconds: float) -> dict[str, Group]:
    """The cgroups that have used the disk, with their use of it per second."""
    found = {}
    for path, group in sorted(last.groups.items()):
        before = first.groups[path].used if path in first.groups else {}
        used = {name: (count - before.get(name, 0)) / seconds for name, count in group.used.items()}
        if any(used.values()):
            found[path] = replace(group, used=used)
    return found
