# SPDX-License-Identifier: GPL-2.0-only
"""The schedulers that can be compared: an elevator, its settings, and its knobs' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scheduler:
    """A name in tables, the kernel's elevator, files below queue/ to set, knobs in iosched/, modules that it needs.

    What is beside it is a module that is loaded too, without which the elevator works as well.
    """

    name: str
    elevator: str
    settings: Mapping[str, str] = field(default_factory=dict)
    tunables: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that make this scheduler, Sluice's or the kernel's own, each after those that it needs."""
        return (*self.needs, *self.beside, self.elevator)


DEADLINE_KNOBS = (
    "async_depth",
    "fifo_batch",
    "front_merges",
    "prio_aging_expire",
    "read_expire",
    "write_expire",
    "writes_starved",
)
BFQ_KNOBS = (
    "back_seek_max",
    "back_seek_penalty",
    "fifo_expire_async",
    "fifo_expire_sync",
    "low_latency",
    "max_budget",
    "slice_idle",
    "slice_idle_us",
    "strict_guarantees",
    "timeout_sync",
)
CPQ_KNOBS = (
    "adaptive_expire",
    "async_depth",
    "back_timeout",
    "background",
    "cpq_log",
    "fifo_batch",
    "fore_timeout",
    "front_merges",
    "io_threshold",
    "max_tgroup_io_ratio",
    "prio_aging_expire",
    "read_expire",
    "slice_idle",
    "write_expire",
    "writes_beside_reads",
    "writes_starved",
)

SPLIT_DEADLINE_KNOBS = ("fsync_deadline", "own_writeback", "read_deadline")

CAUSE = ("sluice-cause",)
RANKS = ("sluice-ranks",)
SPLIT = ("sluice-cause", "split")

SCHEDULERS = {
    scheduler.name: scheduler
    for scheduler in (
        Scheduler("none", "none"),
        Scheduler("mq-deadline", "mq-deadline", {}, DEADLINE_KNOBS),
        # More tags than low priorities can fill: the remedy that kernel developers recommend.
        Scheduler("mq-deadline-tuned", "mq-deadline", {"nr_requests": "256"}, DEADLINE_KNOBS),
        Scheduler("mq-deadline-carry", "mq-deadline", {}, DEADLINE_KNOBS, beside=("sluice-carry",)),
        Scheduler("kyber", "kyber", {}, ("read_lat_nsec", "write_lat_nsec")),
        Scheduler("bfq", "bfq", {}, BFQ_KNOBS),
        Scheduler("bfq-strict", "bfq", {"iosched/low_latency": "0"}, BFQ_KNOBS),
        Scheduler("mq-prio", "mq-prio", {}, ("hold_ms", "low_share"), RANKS),
        Scheduler("cpq", "cpq", {}, CPQ_KNOBS, CAUSE),
        Scheduler("sluice", "sluice", {}, ("burst_ms", "hold_ms", "low_share"), (*SPLIT, *RANKS)),
        Scheduler("afq", "afq", {}, ("burst_ms", "max_lag_kib", "quantum", "starvation_ms", "think_time_us"), SPLIT),
        Scheduler("split-token", "split-token", {}, ("burst_ms",), SPLIT),
        Scheduler("split-deadline", "split-deadline", {}, SPLIT_DEADLINE_KNOBS, SPLIT),
        Scheduler("split-pdflush", "split-deadline", {"iosched/own_writeback": "0"}, SPLIT_DEADLINE_KNOBS, SPLIT),
        # The paper's rival, which works at system calls alone.
        Scheduler("scs-token", "scs-token", {}, ("burst_ms",), (*SPLIT, "split-token")),
        # Measures the cost of the split framework by itself; its knobs are for tests.
        Scheduler("split-noop", "split-noop", {}, (), SPLIT),
        # The same elevator without the framework.
        Scheduler("split-fifo", "split-fifo", {}, (), (*SPLIT, "split-noop")),
    )
}

PHRASES = {
    "none": "the driver's order",
    "mq-deadline": "the kernel's: sorted, with deadlines and priority classes",
    "mq-deadline-tuned": "mq-deadline with nr_requests 256",
    "mq-deadline-carry": "mq-deadline with sluice-carry: priorities through device-mapper and md",
    "kyber": "the kernel's: latency targets for reads and writes",
    "bfq": "the kernel's: proportional shares, with idle waits",
    "bfq-strict": "bfq with low_latency 0",
    "mq-prio": "keeps I/O priorities, with a share for the low ones",
    "cpq": "classes, groups, deadlines and a sweep",
    "sluice": "I/O priorities of processes, through the page cache and the journal",
    "afq": "shares a disk by cost, writes included",
    "split-token": "keeps cgroups at rates",
    "split-deadline": "deadlines for fsync and reads",
    "split-pdflush": "split-deadline with own_writeback 0: the kernel's own writeback",
    "scs-token": "keeps rates at system calls alone, the rival in the paper",
    "split-noop": "the split framework without a policy",
    "split-fifo": "the elevator of split-noop without the framework",
}
"""The description of each in `sluice list schedulers`."""
