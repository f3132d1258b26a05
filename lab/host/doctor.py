# SPDX-License-Identifier: GPL-2.0-only
"""What slows a disk down: judges its settings by its counters, and prints the line that corrects them.

Starts from the bottleneck identification of the CPQ paper (Algorithm 2, section 10); docs/doctor.md has the reasons.
Imports only Python's standard library, so that it runs on any host.
"""

from __future__ import annotations

import json
import random
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.host import disk as disks
from lab.host import load as loads
from lab.host.disk import Disk, Group, Look, Sample
from lab.host.load import USES_IOS, Load

SCHEMA = 1
LOOKS_PER_S = 20
# Algorithm 2's thresholds: per cent of the tags, ms, requests.
FAIR_RATIO, FAIR_EXPIRE_MS, FAIR_BATCH = 50, 100, 8
# A queue is full when its mean length is this share of it: a queue that is empty at times has a mean below its limit.
FULL = 0.9
# A queue of the device counts as full if it is full in this share of the looks.
CROWDED = 0.5
# NVMe drives have thousands of tags, and data sheets give their highest rates with 128 to 512 requests. From this many
# on, requests wait for each other inside the device, whatever number it takes.
DEEP = 256
# Requests at a time, below which there is nothing to order.
CONTENDED = 2.0
# Tasks waited longer than the disk was busy, by at least this share of the time: the last fifth, as in Algorithm 2.
UNEXPLAINED = 0.2
# The device counts as idle if it was empty in this share of the looks.
EMPTY = 0.2
# No arm reaches more places in a second: 7200 rpm are 120 turns, and a queue of 32 gives some 200.
SEEKS_PER_S = 500
# The kernel's own figure for BFQ on the smallest machine of its documentation (Documentation/block/bfq-iosched.rst).
BFQ_IOPS = 80_000
# The kernel compares the quickest read of a window with its target, but only the mean is known: four times is well
# above.
MISSED = 4
# Tasks count as kept back if they wait for their part of the tags in this share of the looks.
HELD = 0.5
# Mean number of reads in flight, from which most of the time there is a read that can miss a target.
READING = 0.5
# The kernel's defaults: ms, ms, requests, batches, ns, ms, µs, µs, KiB.
READ_EXPIRE_MS = {"mq-deadline": 500, "cpq": 250}
AGING_MS, BATCH, WRITES_STARVED = 10_000, 16, 2
KYBER_READ_NS, KYBER_WRITE_NS = 2_000_000, 10_000_000
IDLE_US = {"bfq": 8000, "cpq": 1000}
WBT_US = {True: 75_000, False: 2000}
MAX_SECTORS_KB = 1280
# cpq counts async_depth in this many parts of the tags, mq-deadline in tags.
CPQ_ASYNC_WHOLE = 128
# With a scheduler the kernel allots twice the device's depth, up to the most. For a device that takes one or two
# requests that leaves nothing to order: the least that makes sense is what a SATA disk gets.
LEAST_TAGS, MOST_TAGS = 64, 256
# The smallest nr_requests that the kernel accepts.
LEAST_REQUESTS = 4
# In KiB: smaller requests cost throughput on a drive that takes a fixed time for each (docs/doctor.md).
LEAST_SECTORS_KB = 64

# These sort by place and treat classes differently.
ORDERING = ("mq-deadline", "bfq", "cpq", "mq-prio")
# These know I/O priorities, hold low ones back and leave tags to urgent ones; the first does so for writeback too.
RANKED = ("sluice", "mq-prio")
KNOWS_LEVELS = (*RANKED, "bfq")
# Schedulers that do more than order requests; any other scheduler would take that away.
SPLIT_LEVEL = ("sluice", "afq", "split-deadline", "split-token")


@dataclass(frozen=True)
class Finding:
    """A cause of slowness: its name, the figures, a sentence, the lines to type and those that undo them."""

    id: str
    seen: str
    why: str
    type: tuple[str, ...]
    undo: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """The input of a rule; `cost`: the kernel's cost model shares the disk by weight (None: there is none)."""

    disk: Disk
    load: Load
    cost: bool | None = None

    @property
    def full(self) -> bool:
        """Whether more requests come than the device takes at once: only then can most schedulers order anything."""
        crowded = (self.load.crowded or 0.0) >= CROWDED
        return crowded or self.load.queue >= max(CONTENDED, FULL * self.disk.depth)

    @property
    def contended(self) -> bool:
        """Whether requests wait for each other: outside the device, or inside one that takes more than it can do."""
        return self.full or self.load.queue >= DEEP

    @property
    def fast(self) -> bool:
        """Whether the device is flash with several queues that does more IOPS than bfq can."""
        return not self.disk.rotating and self.disk.hw_queues > 1 and self.load.iops >= BFQ_IOPS

    @property
    def arm(self) -> bool:
        """Whether an arm has to travel to the waiting requests; a hypervisor's disk claims to rotate but has no arm."""
        return self.disk.rotating and self.full and self.load.iops < SEEKS_PER_S

    @property
    def tags_gone(self) -> bool:
        """Whether tasks wait for a tag: seen in looks, or all tags are taken on average."""
        return (self.load.starved or 0.0) >= 0.5 or self.load.queue >= FULL * self.disk.tags

    def set(self, id: str, file: str, value: object, seen: str, why: str) -> Finding:
        """The finding that a file below queue/ should have another value."""
        path = f"{self.disk.folder}/queue/{file}"
        return Finding(id, seen, why, (echo(value, path),), self._undo(file) if file != "scheduler" else self.restore())

    def _undo(self, file: str) -> tuple[str, ...]:
        folder, _, name = file.rpartition("/")
        old = (self.disk.knobs if folder else self.disk.queue)[name]
        lines = (echo(old, f"{self.disk.folder}/queue/{file}"),)
        # mq-deadline's async_depth follows nr_requests.
        follows = file == "nr_requests" and "async_depth" in self.disk.knobs
        return (*lines, *self._undo("iosched/async_depth")) if follows else lines

    def restore(self) -> tuple[str, ...]:
        """The lines that set the disk's scheduler again, with nr_requests and the knobs, which the kernel forgets.

        The knobs come last: some follow nr_requests.
        """
        queue = f"{self.disk.folder}/queue"
        lines = [echo(self.disk.scheduler, f"{queue}/scheduler")]
        if (old := self.disk.setting("nr_requests") or 0) >= LEAST_REQUESTS:
            lines.append(echo(old, f"{queue}/nr_requests"))
        return (*lines, *(echo(old, f"{queue}/iosched/{name}") for name, old in sorted(self.disk.knobs.items())))

    def better(self) -> str:
        """The scheduler that suits the disk and its present users."""
        ranked = len(self.load.readers) > 1
        levels = ranked and len(self.load.classes) == 1
        wanted = [*RANKED, "bfq"] if levels or not self.full else [*RANKED] if ranked else []
        # Of a device that takes all requests at once only these keep requests back.
        usual = ["mq-deadline", "bfq"] if self.full else []
        offered = [name for name in self.disk.offered if name != "bfq" or not self.fast]
        return next((name for name in (*wanted, *usual) if name in offered), "none")


def echo(value: object, path: str) -> str:
    """The shell line that writes a value to a file, quoted for any name and value."""
    return f"echo {shlex.quote(str(value))} > {shlex.quote(path)}"


def unsorted(case: Case) -> Finding | None:
    """none and kyber on a rotating disk: its arm follows the order of arrival."""
    disk = case.disk
    better = case.better()
    if not case.arm or disk.scheduler in ORDERING or better not in ORDERING:
        return None
    return case.set(
        "rotating-unsorted",
        "scheduler",
        better,
        f"a rotating disk with {disk.scheduler}: {case.load.queue:.1f} requests on average for a device that takes "
        f"{disk.depth}, {case.load.iops:.0f} a second",
        f"{disk.scheduler} neither sorts what waits by place nor keeps reads from waiting behind writes",
    )


def heavy(case: Case) -> Finding | None:
    """bfq on a device with several queues that is faster than bfq."""
    disk = case.disk
    if disk.scheduler != "bfq" or not case.fast:
        return None
    return case.set(
        "bfq-on-fast-flash",
        "scheduler",
        "none",
        f"bfq on flash with {disk.hw_queues} queues: {case.load.iops:,.0f} requests a second",
        "bfq has one lock for all queues and much work for each request: at such rates it is the limit, not the device",
    )


def ignored_priorities(case: Case) -> Finding | None:
    """Readers with different I/O priorities under a scheduler that ignores them."""
    disk, readers = case.disk, case.load.readers
    told = set(readers) if disk.scheduler in KNOWS_LEVELS else case.load.classes
    deep = not case.full and disk.scheduler == "mq-deadline"
    if disk.scheduler not in ORDERING or deep:
        told = set()
    better = case.better()
    if len(readers) < 2 or len(told) > 1 or not case.load.alone or better in (disk.scheduler, "none"):
        return None
    if not case.contended:
        return None
    if better not in KNOWS_LEVELS and len(case.load.classes) == 1:
        return None
    why = "knows classes but no levels" if disk.scheduler in ORDERING else "ignores priorities"
    if deep:
        why = f"orders what the device has no tag for, and this one has {disk.depth}"
    return case.set(
        "priorities-ignored",
        "scheduler",
        better,
        f"these read with different I/O priorities: {_named(readers)}; {case.load.queue:.1f} requests on average",
        f"{disk.scheduler} {why}: all of these wait alike",
    )


def lost_priorities(case: Case) -> Finding | None:
    """Readers with different I/O priorities above LUKS, on a kernel whose dm-crypt writes without a priority."""
    disk, readers = case.disk, case.load.readers
    told = set(readers) if disk.scheduler in KNOWS_LEVELS else case.load.classes
    if not disk.loses or disk.scheduler not in ORDERING or len(told) < 2 or case.load.writes < USES_IOS:
        return None
    return Finding(
        "priorities-lost",
        f"{disk.loses} is encrypted, and these read with different I/O priorities: {_named(readers)}; there are "
        f"{case.load.writes:.0f} writes a second",
        f"dm-crypt of this kernel drops the I/O priority of writes, so {disk.scheduler} treats all of them the same",
        ("modprobe sluice-carry",),
        ("modprobe -r sluice-carry",),
    )


def _named(readers: Mapping[tuple[str, int], str]) -> str:
    """Readers, each with its priority."""
    return ", ".join(f"{name} {_rank(rank)}" for rank, name in readers.items())


def _rank(rank: tuple[str, int]) -> str:
    ioclass, level = rank
    return "idle" if ioclass == "idle" else f"{ioclass}/{level}"


def ignored_weights(case: Case) -> Finding | None:
    """Sibling cgroups with different weights use the disk, but nothing shares it by weight."""
    disk, groups = case.disk, case.load.groups
    pair = next(_unequal(groups), ())
    sharer = "cpq" if disk.scheduler == "cpq" else "bfq"
    file = disks.WEIGHT_FILES[sharer]
    meant = {path: min(groups[path].weight, disks.MOST_WEIGHT) for path in pair}
    unheard = [path for path in pair if meant[path] != groups[path].heard[sharer]]
    if not pair or case.cost or not case.contended or (disk.scheduler == sharer and not unheard):
        return None
    seen = ", ".join(f"{path} has weight {groups[path].weight}" for path in pair)
    if disk.scheduler == sharer:
        why = f"{sharer} knows {file} and no other weight"
    else:
        why = f"{disk.scheduler} ignores weights, and the kernel's cost model (io.cost.qos) is off for this disk"
    if sharer in disk.offered and not case.fast:
        change = [(meant[path], _told(sharer, groups[path]), f"/sys/fs/cgroup{path}/{file}") for path in unheard]
        lines = [echo(new, where) for new, _, where in change]
        undo = [echo(old, where) for _, old, where in change]
        if disk.scheduler != sharer:
            lines.insert(0, echo(sharer, f"{disk.folder}/queue/scheduler"))
            undo += case.restore()
        return Finding("weights-ignored", seen, why, tuple(lines), tuple(undo))
    if case.cost is None:
        return None
    on, off = (echo(f"{disk.number} enable={value}", "/sys/fs/cgroup/io.cost.qos") for value in (1, 0))
    return Finding("weights-ignored", seen, why, (on,), (off,))


def _told(sharer: str, group: Group) -> str:
    """The content of a cgroup's own file; cpq's default is a word, since 100 is a weight like any other."""
    weight = group.heard[sharer]
    return "default" if sharer == "cpq" and weight == disks.DEFAULT_WEIGHT else str(weight)


def _unequal(groups: Mapping[str, Group]) -> Iterator[tuple[str, str]]:
    """Pairs of busy siblings whose weights differ."""
    busy = [path for path, group in groups.items() if path and group.ios >= USES_IOS]
    for one in busy:
        for other in busy:
            if Path(one).parent == Path(other).parent and groups[one].weight > groups[other].weight:
                yield one, other


def limited(case: Case) -> Finding | None:
    """Tasks wait while the disk has nothing to do, and a cgroup's io.max keeps it from more (Algorithm 2, line 14)."""
    waits = case.load
    if waits.stalled is None or waits.stalled - waits.busy < UNEXPLAINED or not waits.alone:
        return None
    path, reached = next(
        ((path, found) for path, group in waits.groups.items() if (found := _reached(group))), ("", [])
    )
    if not reached:
        return None
    file, old = f"/sys/fs/cgroup{path}/io.max", waits.groups[path].limits
    return Finding(
        "not-saturated",
        f"tasks waited for I/O {waits.stalled:.0%} of the time, the disk was busy {waits.busy:.0%} of it; "
        f"{path} has reached {' '.join(reached)}",
        "the cgroup's limit, not the device, makes them wait",
        (echo(f"{case.disk.number} {' '.join(limit.split('=')[0] + '=max' for limit in reached)}", file),),
        (echo(f"{case.disk.number} {old}", file),),
    )


def _reached(group: Group) -> list[str]:
    """The limits that a cgroup has used up."""
    limits = [limit.split("=") for limit in group.limits.split()]
    return [
        f"{name}={most}"
        for name, most in limits
        if most != "max" and group.used[disks.LIMITS[name]] >= FULL * int(most)
    ]


def short_deadline(case: Case) -> Finding | None:
    """Algorithm 2, line 6: reads that are all overdue are served by age, not by place; that matters only to an arm."""
    expire = case.disk.knob("read_expire")
    if expire is None or expire >= FAIR_EXPIRE_MS or not case.arm or case.load.read_ms <= expire:
        return None
    return case.set(
        "deadline-short",
        "iosched/read_expire",
        READ_EXPIRE_MS[case.disk.scheduler],
        f"read_expire is {expire} ms; reads take {case.load.read_ms:.0f} ms on average",
        "most reads are overdue when their turn comes, so that they go by age and the arm crosses the disk for each",
    )


def long_deadline(case: Case) -> Finding | None:
    """Section 10.1.1: reads wait longer than the default deadline, because the deadline was raised."""
    expire = case.disk.knob("read_expire")
    if expire is None or not case.full or not case.load.mixed:
        return None
    usual = READ_EXPIRE_MS[case.disk.scheduler]
    if expire <= usual or case.load.read_ms <= usual:
        return None
    return case.set(
        "deadline-long",
        "iosched/read_expire",
        usual,
        f"read_expire is {expire} ms; reads take {case.load.read_ms:.0f} ms on average beside writes",
        f"with the default, {usual} ms, these reads would go first when a batch ends",
    )


def small_batch(case: Case) -> Finding | None:
    """Algorithm 2, line 10: turns between reads and writes, or across a rotating disk, after only a few requests."""
    batch = case.disk.knob("fifo_batch")
    if batch is None or batch >= FAIR_BATCH or not (case.arm or (case.full and case.load.mixed)):
        return None
    return case.set(
        "batch-small",
        "iosched/fifo_batch",
        BATCH,
        f"fifo_batch is {batch}; {case.load.queue:.1f} requests on average, {case.load.reads:.0f} reads and "
        f"{case.load.writes:.0f} writes a second",
        "the scheduler leaves its order, and turns from reads to writes, after so few requests that turning costs more "
        "than it gives",
    )


def large_batch(case: Case) -> Finding | None:
    """Section 10.1.1: a batch that alone takes longer than the deadline of the requests that wait for its end."""
    batch, expire = case.disk.knob("fifo_batch"), case.disk.knob("read_expire")
    if batch is None or expire is None or batch <= BATCH or not case.full or not case.load.mixed:
        return None
    batch_ms = batch / case.load.iops * 1000
    if batch_ms <= expire or case.load.read_ms <= expire:
        return None
    return case.set(
        "batch-large",
        "iosched/fifo_batch",
        BATCH,
        f"fifo_batch is {batch}: {batch_ms:.0f} ms at {case.load.iops:.0f} requests a second; reads take "
        f"{case.load.read_ms:.0f} ms on average, and read_expire is {expire} ms",
        "deadlines are checked only between batches, and a batch takes longer than read_expire",
    )


def starved_writes(case: Case) -> Finding | None:
    """Writes that wait past their deadline because reads may pass them too often."""
    passes, expire = case.disk.knob("writes_starved"), case.disk.knob("write_expire")
    if passes is None or expire is None or passes <= WRITES_STARVED or not case.full:
        return None
    if case.load.write_ms <= expire:
        return None
    return case.set(
        "writes-starved",
        "iosched/writes_starved",
        WRITES_STARVED,
        f"writes_starved is {passes}; writes take {case.load.write_ms:.0f} ms on average, write_expire is {expire} ms",
        "so many batches of reads pass a write that it is overdue when it goes",
    )


def short_aging(case: Case) -> Finding | None:
    """Aging so short that the lower classes overtake the higher ones."""
    aging = case.disk.knob("prio_aging_expire")
    if not aging or aging >= AGING_MS or len(case.load.classes) < 2 or not case.load.alone or not case.full:
        return None
    if max(case.load.read_ms, case.load.write_ms) <= aging:
        return None
    return case.set(
        "aging-short",
        "iosched/prio_aging_expire",
        AGING_MS,
        f"prio_aging_expire is {aging} ms; requests take {case.load.read_ms:.0f} ms on average, and these classes "
        f"read: {', '.join(sorted(case.load.classes))}",
        "a request that is older goes before any class, and most are older: I/O classes have no effect",
    )


def tight_fairness(case: Case) -> Finding | None:
    """Algorithm 2, line 2: cpq's parts are so small that accounts wait while tags are free; a single one never does."""
    ratio, held = case.disk.knob("max_tgroup_io_ratio"), case.load.held or 0.0
    if ratio is None or ratio >= FAIR_RATIO or held < HELD:
        return None
    return case.set(
        "fairness-tight",
        "iosched/max_tgroup_io_ratio",
        FAIR_RATIO,
        f"max_tgroup_io_ratio is {ratio}: {case.disk.tags * ratio / 100:.0f} of {case.disk.tags} requests for each of "
        f"two; tasks waited in {held:.0%} of the looks while a tenth or more was free",
        "each thread group or cgroup is limited to its share of the tags, and these shares leave tags unused",
    )


def long_idling(case: Case) -> Finding | None:
    """A device kept idle for a process that may send more, longer than by default, while other processes wait."""
    usual = IDLE_US.get(case.disk.scheduler)
    name = "slice_idle_us" if case.disk.scheduler == "bfq" else "slice_idle"
    idle = case.disk.knob(name)
    if usual is None or idle is None or idle <= usual:
        return None
    if case.load.queue < CONTENDED or case.load.empty < EMPTY:
        return None
    return case.set(
        "idling-long",
        f"iosched/{name}",
        usual,
        f"{name} is {idle} µs; the device was empty in {case.load.empty:.0%} of the looks, with {case.load.queue:.1f} "
        "requests waiting on average",
        "the scheduler keeps the device idle for the next request of one process while those of others wait",
    )


def one_at_a_time(case: Case) -> Finding | None:
    """bfq's strict guarantees: the device gets one request at a time, whatever it could do at once."""
    if case.disk.knob("strict_guarantees") != 1 or case.disk.depth < CONTENDED or case.load.queue < CONTENDED:
        return None
    return case.set(
        "one-at-a-time",
        "iosched/strict_guarantees",
        0,
        f"strict_guarantees is 1; {case.load.queue:.1f} requests on average for a device that takes {case.disk.depth}",
        "bfq gives the device one request at a time and idles between processes",
    )


def tight_targets(case: Case) -> Finding | None:
    """kyber's targets, below its defaults and below the device's latency, throttle the other kind in vain."""
    for kind, usual, took, other in (
        ("read", KYBER_READ_NS, case.load.read_ms, case.load.writes),
        ("write", KYBER_WRITE_NS, case.load.write_ms, case.load.reads),
    ):
        target = case.disk.knob(f"{kind}_lat_nsec")
        if target is None or case.disk.rotating or target >= usual or took * 1e6 <= target:
            continue
        if case.load.queue >= CONTENDED and case.load.mixed:
            return case.set(
                "target-short",
                f"iosched/{kind}_lat_nsec",
                usual,
                f"{kind}_lat_nsec is {target:,}; {kind}s take {took:.2f} ms on average, beside {other:.0f} others a "
                "second",
                f"kyber lowers the depth of everything else until {kind}s meet a target that the device misses",
            )
    return None


def few_tags(case: Case) -> Finding | None:
    """nr_requests is too small to order anything, and all requests are taken."""
    disk, now = case.disk, case.disk.setting("nr_requests")
    usual = disk.hw_tags if disk.scheduler == "none" else min(max(2 * disk.hw_tags, LEAST_TAGS), MOST_TAGS)
    if now is None or now >= usual or not case.tags_gone or case.load.queue < 1:
        return None
    return case.set(
        "nr-requests-small",
        "nr_requests",
        usual,
        f"nr_requests is {now}, and {case.load.queue:.1f} requests exist on average{_starved(case)}; the device takes "
        f"{disk.hw_tags}",
        "an I/O without a free request waits before the scheduler sees it, and is not sorted, merged or preferred",
    )


def _starved(case: Case) -> str:
    return f", tasks waited for one in {case.load.starved:.0%} of the looks" if case.load.starved else ""


def inverted_tags(case: Case) -> Finding | None:
    """Requests of low classes hold all tags, so that the scheduler does not see the more urgent requests."""
    disk, now = case.disk, case.disk.setting("nr_requests") or 0
    known = len(case.load.classes) > 1 and case.load.alone
    if disk.scheduler != "mq-deadline" or not known or not case.tags_gone or now >= MOST_TAGS or few_tags(case):
        return None
    seen = (
        f"all {disk.tags} requests are taken ({case.load.queue:.1f} on average{_starved(case)}); these classes read: "
        f"{', '.join(sorted(case.load.classes))}"
    )
    why = "a request of a high class waits for a free one while lower classes hold them all: the order is inverted"
    for name in RANKED:
        if name in disk.offered:
            return case.set("tag-starvation", "scheduler", name, seen, why)
    return case.set("tag-starvation", "nr_requests", MOST_TAGS, seen, why)


def shallow_async(case: Case) -> Finding | None:
    """Writes are limited to fewer tags than by default, and all of those are in use."""
    depth, tags = case.disk.knob("async_depth"), case.disk.setting("nr_requests")
    whole = CPQ_ASYNC_WHOLE if case.disk.scheduler == "cpq" else tags
    if not depth or tags is None or whole is None or depth >= whole // 2:
        return None
    limit = tags * depth // whole
    if case.load.write_queue < FULL * limit * case.disk.hw_queues or case.load.queue >= FULL * case.disk.tags:
        return None
    return case.set(
        "async-depth-small",
        "iosched/async_depth",
        max(1, whole * 3 // 4),
        f"async_depth is {depth}: {limit} of {tags} requests, and writes have {case.load.write_queue:.1f} on average",
        "asynchronous writes wait for the few requests that they may have, while others are free",
    )


def small_transfers(case: Case) -> Finding | None:
    """Large I/O is split into the smallest pieces, while no other request gains from that."""
    now, most = case.disk.setting("max_sectors_kb"), case.disk.setting("max_hw_sectors_kb")
    if now is None or most is None or now >= min(most, LEAST_SECTORS_KB) or case.load.iops < USES_IOS:
        return None
    size = case.load.kib
    if size < FULL * now or case.load.queue < CONTENDED or len(case.load.readers) > 1:
        return None
    return case.set(
        "max-sectors-small",
        "max_sectors_kb",
        min(most, MAX_SECTORS_KB),
        f"max_sectors_kb is {now}, and requests have {size:.0f} KiB on average, {case.load.iops:.0f} a second",
        "nearly all I/O is larger and is split: several requests for the work of one, and no small one gains by it",
    )


def tight_writeback(case: Case) -> Finding | None:
    """A target of writeback throttling that reads cannot meet."""
    target = case.disk.setting("wbt_lat_usec")
    usual = WBT_US[case.disk.rotating]
    if not target or target >= usual or case.load.read_ms * 1000 <= MISSED * target:
        return None
    if case.load.queue - case.load.write_queue < READING or case.load.writes < USES_IOS:
        return None
    return case.set(
        "writeback-throttled",
        "wbt_lat_usec",
        usual,
        f"wbt_lat_usec is {target}; reads take {case.load.read_ms:.2f} ms on average, and there are "
        f"{case.load.writes:.0f} writes a second",
        "the kernel holds writeback back for as long as reads miss a target that this disk cannot meet",
    )


RULES = (
    unsorted,
    heavy,
    ignored_priorities,
    lost_priorities,
    ignored_weights,
    limited,
    tight_fairness,
    short_deadline,
    long_deadline,
    small_batch,
    large_batch,
    starved_writes,
    short_aging,
    long_idling,
    one_at_a_time,
    tight_targets,
    few_tags,
    inverted_tags,
    shallow_async,
    small_transfers,
    tight_writeback,
)


def judge(case: Case) -> list[Finding]:
    """The findings, the most significant first; of those with the same lines to type only the first."""
    found: dict[tuple[str, ...], Finding] = {}
    kept = case.disk.scheduler in SPLIT_LEVEL
    for rule in RULES:
        finding = rule(case)
        if finding and not (kept and any(line.endswith("/queue/scheduler") for line in finding.type)):
            found.setdefault(finding.type, finding)
    return list(found.values())


def unseen(case: Case, last: Sample) -> list[str]:
    """What could not be read or distinguished, and so was not judged."""
    waits, idle = case.load, case.load.iops == 0
    said = {
        f"{case.disk.folder}/queue/iostats is 0: the disk counts nothing": idle and case.disk.setting("iostats") == 0,
        "the disk had no requests: ask while it is slow": idle and case.disk.setting("iostats") != 0,
        "how long tasks wait for I/O: the kernel has no /proc/pressure/io": waits.stalled is None,
        "tasks waiting for a tag: /sys/kernel/debug/block can't be read (root can, with debugfs mounted)": waits.starved
        is None
        and case.disk.scheduler != "none",
        f"which processes read: the counters of {last.hidden} threads can't be read (root can)": last.hidden > 0,
        "whose I/O this was: other disks are busy too, and threads are not counted by disk": not idle
        and not waits.alone,
    }
    return [text for text, applies in said.items() if applies]


def text(case: Case, findings: Sequence[Finding], notes: Sequence[str]) -> str:
    """The report for people."""
    lines = [_headline(case), _figures(case.load)]
    for finding in findings:
        lines += ["", f"{finding.id}: {finding.seen}", f"    why:  {finding.why}"]
        lines += [f"    {'next: ' if not n else '      '}{line}" for n, line in enumerate(finding.type)]
        lines += [f"    {'undo: ' if not n else '      '}{line}" for n, line in enumerate(finding.undo)]
    lines += [] if findings else ["", "nothing to advise"]
    lines += ["", *(f"not seen: {note}" for note in notes)] if notes else []
    return "\n".join(lines)


def _headline(case: Case) -> str:
    disk = case.disk
    kind = "rotating disk" if disk.rotating else "flash"
    return (
        f"{disk.name}: {kind}, queue depth {disk.depth}, {disk.hw_queues} hardware queue{'s' * (disk.hw_queues > 1)}; "
        f"{disk.scheduler}, nr_requests {disk.tags}"
    )


def _figures(load: Load) -> str:
    waited = "" if load.stalled is None else f", tasks waited for I/O {load.stalled:.0%}"
    return (
        f"{load.seconds:.1f} s: {_rate('reads', load.reads, load.read_kib, load.read_ms)}; "
        f"{_rate('writes', load.writes, load.write_kib, load.write_ms)}; "
        f"{load.queue:.1f} requests at a time, busy {load.busy:.0%}{waited}"
    )


def _rate(what: str, per_s: float, kib: float, ms: float) -> str:
    return f"{per_s:,.0f} {what}/s, {kib:.0f} KiB each, mean latency {ms:.2f} ms"


def data(case: Case, findings: Sequence[Finding], notes: Sequence[str]) -> str:
    """The report for programs."""
    disk, load = case.disk, case.load
    figures = {name: value for name, value in asdict(load).items() if name not in ("readers", "groups")}
    return json.dumps(
        {
            "schema": SCHEMA,
            "disk": disk.name,
            "scheduler": disk.scheduler,
            "rotating": disk.rotating,
            "depth": disk.depth,
            "figures": figures,
            "readers": [{"ioclass": c, "level": n, "name": name} for (c, n), name in load.readers.items()],
            "findings": [asdict(finding) for finding in findings],
            "unseen": list(notes),
        },
        indent=1,
    )


def run(device: str, seconds: float, as_json: bool, root: Path = Path("/")) -> int:
    """Watch a disk and print what to change; 1 if there is a finding, 0 if not. LabError if it can't be read."""
    name = disks.find(device, root)
    disk = disks.read(name, root)
    print(f"sluice: watches {name} for {seconds:g} s", file=sys.stderr)
    first = disks.sample(disk, root)
    looks = list(_looks(name, seconds, root))
    last = disks.sample(disk, root)
    case = Case(disk, loads.between(disk, first, last, looks), disks.cost_enabled(disk, root))
    findings, notes = judge(case), unseen(case, last)
    print((data if as_json else text)(case, findings, notes))
    return int(bool(findings))


def _looks(name: str, seconds: float, root: Path) -> Iterator[Look]:
    """Take looks for some seconds, at uneven distances: a periodic load is then seen in all of its phases."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        yield disks.look(name, root)
        time.sleep(min(left, random.uniform(0.5, 1.5) / LOOKS_PER_S))
