# SPDX-License-Identifier: GPL-2.0-only
"""A disk that exists only as files: trees like /sys and /proc at two moments, for the doctor to judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.host import disk as disks
from lab.host import doctor, load

START_S, SECONDS = 1000.0, 10.0
KNOBS: Mapping[str, Mapping[str, int]] = {
    "none": {},
    "mq-deadline": {
        "async_depth": 48,
        "fifo_batch": 16,
        "front_merges": 1,
        "prio_aging_expire": 10000,
        "read_expire": 500,
        "write_expire": 5000,
        "writes_starved": 2,
    },
    **{name: {} for name in doctor.SPLIT_LEVEL},
    "kyber": {"read_lat_nsec": 2_000_000, "write_lat_nsec": 10_000_000},
    "bfq": {"low_latency": 1, "slice_idle": 8, "slice_idle_us": 8000, "strict_guarantees": 0},
    "mq-prio": {"hold_ms": 10, "low_share": 10},
    "cpq": {
        "adaptive_expire": 0,
        "async_depth": 96,
        "back_timeout": 125,
        "cpq_log": 0,
        "fifo_batch": 16,
        "fore_timeout": 2000,
        "front_merges": 1,
        "io_threshold": 1000,
        "max_tgroup_io_ratio": 50,
        "prio_aging_expire": 10000,
        "read_expire": 250,
        "slice_idle": 1000,
        "write_expire": 5000,
        "writes_starved": 2,
    },
}


@dataclass(frozen=True)
class Thread:
    """A thread that reads: bytes a second, I/O priority as ioprio_get(2) gives it, nice value and policy."""

    name: str
    ioprio: int = 0
    bytes_s: int = 1 << 20
    nice: int = 0
    policy: int = 0


@dataclass(frozen=True)
class Cgroup:
    """A cgroup's reads a second, of 4 KiB, and its files."""

    ios_s: int = 100
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plant:
    """A disk, its settings and its load: rates a second, sizes in KiB, latencies in ms, shares of the time."""

    rotating: bool = True
    scheduler: str = "mq-deadline"
    hw_queues: int = 1
    hw_tags: int = 32
    at_once: int | None = None
    queue: Mapping[str, int] = field(default_factory=dict)
    knobs: Mapping[str, int] = field(default_factory=dict)
    reads: float = 0
    read_kib: float = 4
    read_ms: float = 0
    writes: float = 0
    write_kib: float = 4
    write_ms: float = 0
    busy: float = 1.0
    stalled: float | None = 1.0
    inside: int = 32
    waiters: int | None = 0
    accounts: str = ""
    full: bool = False
    threads: Sequence[Thread] = ()
    cgroups: Mapping[str, Cgroup] = field(default_factory=dict)
    cost: str = ""
    modules: str = "kernel/block/bfq.ko:\nkernel/block/kyber-iosched.ko:\n"
    other_queue: float = 0.0
    release: str = "6.12.0"
    above: str = ""
    loaded: Sequence[str] = ()

    def write(self, root: Path, after_s: float) -> Path:
        """Write the files as they are `after_s` seconds after the start."""
        put = _putter(root)
        disk = "sys/block/sda"
        put(f"{disk}/dev", "8:0")
        put(f"{disk}/stat", self._stat(after_s))
        put(f"{disk}/inflight", f"{self.inside} 0")
        put(f"{disk}/sda1/partition", "1")
        put("dev/sda", "")
        put("dev/sda1", "")
        if self.at_once is not None:
            put(f"{disk}/device/queue_depth", self.at_once)
        for number in range(self.hw_queues):
            put(f"{disk}/mq/{number}/nr_tags", self.hw_tags)
            if self.waiters is not None and self.scheduler != "none":
                tags = f"nr_tags=64\nbitmap_tags:\nbusy=1\nws_active={self.waiters}\nws={{\n}}"
                put(f"sys/kernel/debug/block/sda/hctx{number}/sched_tags", tags)
        if self.waiters is not None:
            busy = self.hw_tags if self.full else 0
            tags = f"nr_tags={self.hw_tags}\n\nbitmap_tags:\ndepth={self.hw_tags}\nbusy={busy}\nws_active=0\nws={{\n}}"
            put("sys/kernel/debug/block/sda/hctx0/tags", tags)
        if self.accounts:
            put("sys/kernel/debug/block/sda/sched/accounts", self.accounts)
        for name, value in self._queue().items():
            put(f"{disk}/queue/{name}", value)
        for name, number in {**KNOBS[self.scheduler], **self.knobs}.items():
            put(f"{disk}/queue/iosched/{name}", number)
        self._write_system(put, after_s)
        return root

    def _write_system(self, put: Callable[[str, object], None], after_s: float) -> None:
        put("proc/uptime", f"{START_S + after_s:.2f} 0.00")
        put("proc/sys/kernel/osrelease", self.release)
        put(f"lib/modules/{self.release}/modules.dep", self.modules)
        if self.above:
            put("sys/block/sda/sda1/holders/dm-0/dm/uuid", self.above)
            put("sys/block/sda/sda1/holders/dm-0/dm/name", "root")
        for name in self.loaded:
            put(f"sys/module/{name}/refcnt", 0)
        put("sys/block/sdb/dev", "8:16")
        put("sys/block/sdb/mq/0/nr_tags", 32)
        put("sys/block/sdb/stat", f"0 0 0 {int(self.other_queue * 1000 * after_s)} 0 0 0 0 0 0 0")
        if self.stalled is not None:
            put("proc/pressure/io", f"some avg10=0.00 total={int(self.stalled * after_s * 1e6)}\nfull total=0")
        for number, thread in enumerate(self.threads):
            folder = f"proc/{100 + number}/task/{100 + number}"
            done = int(4096 + thread.bytes_s * after_s)
            put(f"{folder}/io", f"rchar: 1\nread_bytes: {done}\nwrite_bytes: 7")
            fields = ["S", *["0"] * 15, str(thread.nice), *["0"] * 21, str(thread.policy), "0"]
            put(f"{folder}/stat", f"{100 + number} ({thread.name}) {' '.join(fields)}")
        for path, group in self.cgroups.items():
            ios = int(group.ios_s * after_s)
            put(f"sys/fs/cgroup{path}/io.stat", f"8:0 rbytes={4096 * ios} wbytes=0 rios={ios} wios=0 dbytes=0 dios=0")
            for name, text in group.files.items():
                put(f"sys/fs/cgroup{path}/{name}", text)
        if self.cost:
            put("sys/fs/cgroup/io.cost.qos", self.cost)

    def _stat(self, after_s: float) -> str:
        reads, writes = self.reads * after_s, self.writes * after_s
        read_ms, write_ms = reads * self.read_ms, writes * self.write_ms
        fields = [reads, 0, reads * self.read_kib * 2, read_ms, writes, 0, writes * self.write_kib * 2, write_ms]
        return " ".join(str(int(value)) for value in [*fields, 0, self.busy * after_s * 1000, read_ms + write_ms, 0, 0])

    def _queue(self) -> dict[str, object]:
        listed = [f"[{name}]" if name == self.scheduler else name for name in {"none", "mq-deadline", self.scheduler}]
        return {
            "iostats": 1,
            "max_hw_sectors_kb": 4096,
            "max_sectors_kb": 1280,
            "nr_requests": self.hw_tags if self.scheduler == "none" else min(256, 2 * self.hw_tags),
            "rotational": int(self.rotating),
            "scheduler": " ".join(sorted(listed)),
            "wbt_lat_usec": 75000 if self.rotating else 2000,
            **self.queue,
        }

    def settings(self) -> tuple[Mapping[str, int], Mapping[str, object], tuple[str, ...]]:
        """The scheduler's knobs, the files of queue/, and the modules that are loaded."""
        return {**KNOBS[self.scheduler], **self.knobs}, self._queue(), tuple(self.loaded)

    def priorities(self) -> Callable[[int], int]:
        """The results of ioprio_get(2) for the threads."""
        return lambda tid: self.threads[tid - 100].ioprio

    def type(self, line: str) -> Plant:
        """The disk after a line of the doctor's advice was typed."""
        if loads := re.fullmatch(r"modprobe (-r )?([\w-]+)", line):
            return replace(self, loaded=() if loads[1] else (loads[2].replace("-", "_"),))
        found = re.fullmatch(r"echo (\S+) > /sys/block/sda/queue/(iosched/)?(\w+)", line)
        assert found, line
        value, folder, name = found.groups()
        if name == "scheduler":
            kept = {name: number for name, number in self.queue.items() if name != "nr_requests"}
            return replace(self, scheduler=value, knobs={}, queue=kept)
        if folder:
            assert name in KNOBS[self.scheduler]
            return replace(self, knobs={**self.knobs, name: int(value)})
        follow = {"async_depth": int(value)} if (name, self.scheduler) == ("nr_requests", "mq-deadline") else {}
        return replace(self, queue={**self.queue, name: int(value)}, knobs={**self.knobs, **follow})


def _putter(root: Path) -> Callable[[str, object], None]:
    def put(path: str, value: object) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{value}\n", encoding="utf-8")

    return put


def examine(name: str, roots: Sequence[Path], ioprio: Callable[[int], int] = lambda _: 0) -> doctor.Case:
    """The doctor's case, from trees of the same machine at several moments."""
    disk = disks.read(name, roots[-1])
    first, last = (disks.sample(disk, root, ioprio) for root in (roots[0], roots[-1]))
    looks = [disks.look(name, root) for root in roots]
    return doctor.Case(disk, load.between(disk, first, last, looks), disks.cost_enabled(disk, roots[-1]))


def judged(plant: Plant, folder: Path) -> list[doctor.Finding]:
    """The doctor's findings for a planted disk."""
    roots = [plant.write(folder / str(after), after) for after in (0.0, SECONDS)]
    return doctor.judge(examine("sda", roots, plant.priorities()))
