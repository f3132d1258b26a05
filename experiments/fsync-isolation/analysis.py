# SPDX-License-Identifier: GPL-2.0-only
"""Fig 12 of the split-level paper: a small fsync's latency, and a big one's, each beside its deadline.

The paper's Figure 12 has no numbers but the deadlines, which both keep about, and a Block-Deadline that is an order of
magnitude later.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from lab.analysis import Judgement, find, judge, ratio
from lab.figure import Figure, Table, number
from lab.result import Cell, Claim

OURS, PDFLUSH, RIVAL = "split-deadline", "split-pdflush", "mq-deadline"
DEADLINES_MS = {"hdd": (100.0, 6000.0), "ssd": (3.0, 100.0)}
"""The small one's and the big one's: Table 3."""
SYSTEMS = {"ext4": "ext4", "ext4-dioread-lock": "ext4, dioread_lock", "xfs": "XFS"}
WRITEBACK = "ext4-writeback"
BESIDE = {**SYSTEMS, WRITEBACK: "ext4, no fsyncs"}
"""What the small one must be in time beside."""
LATE = 1.2
"""How many times its deadline the small one's 99th percentile may be."""
BEYOND = 1.5
"""How many times what it takes alone, where that is longer than the deadline."""
TIMES = 5.0
"""How many times later the rival is."""
KEEPS = 0.8
"""What part of its throughput under the rival the big one keeps."""

Cells = Sequence[Cell]


def claims(cells: Cells) -> list[Claim]:
    """What must hold."""
    return judge(_judgements(), cells)


def _judgements() -> Iterator[Judgement]:
    for device in DEADLINES_MS:
        for system, text in BESIDE.items():
            yield Judgement(
                f"small-{system}-{device}",
                f"{device}, {text}: the small fsync's p99 over what it may be at most",
                "≤",
                1.0,
                partial(lateness, device=device, system=system),
                None,
            )
        for system, text in SYSTEMS.items():
            yield Judgement(
                f"big-{system}-{device}",
                f"{device}, {text}: the longest big fsync over its deadline",
                "≤",
                1.0,
                partial(_big, device=device, system=system),
                None,
            )
            yield Judgement(
                f"throughput-{system}-{device}",
                f"{device}, {text}: the big one's bytes over those under {RIVAL}",
                "≥",
                KEEPS,
                partial(_kept, device=device, system=system),
                None,
            )
        yield Judgement(
            f"{PDFLUSH}-{device}",
            f"{device}, {BESIDE[WRITEBACK]}: the small fsync's p99 under {PDFLUSH} over what it may be at most",
            "≤",
            1.0,
            partial(lateness, device=device, system=WRITEBACK, scheduler=PDFLUSH),
            None,
        )
        yield Judgement(
            f"{RIVAL}-{device}",
            f"{device}, ext4: the small fsync's p99 under {RIVAL} over that under {OURS}",
            "≥",
            TIMES,
            partial(_times, device=device),
            10.0,
        )


def p99_ms(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """The 99th percentile of the small fsyncs; beside big ones, of those that were there while one of them was."""
    return find(cells, device, scheduler, variant).job("small").sync.p99 / 1e6


def most_ms(cells: Cells, device: str) -> float:
    """What the small one's p99 may be: by its deadline, or by what it takes alone if that is longer."""
    deadline, alone = DEADLINES_MS[device][0], p99_ms(cells, device, OURS, "alone")
    return BEYOND * alone if alone > deadline else LATE * deadline


def lateness(cells: Cells, device: str, system: str, scheduler: str = OURS) -> float:
    """The small one's p99, as a part of what it may be."""
    return ratio(p99_ms(cells, device, scheduler, system), most_ms(cells, device))


def _big(cells: Cells, device: str, system: str) -> float:
    return ratio(find(cells, device, OURS, system).job("big").sync.max / 1e6, DEADLINES_MS[device][1])


def _kept(cells: Cells, device: str, system: str) -> float:
    return ratio(*(find(cells, device, scheduler, system).job("big").bytes_per_s for scheduler in (OURS, RIVAL)))


def _times(cells: Cells, device: str) -> float:
    return ratio(*(p99_ms(cells, device, scheduler, "ext4") for scheduler in (RIVAL, OURS)))


def figures(cells: Cells) -> list[Figure]:
    """For each device a table for all file systems and schedulers."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEADLINES_MS
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    small, big = DEADLINES_MS[device]
    text = (
        f"A appends 4 KiB with an fsync after each, within {small:g} ms; B now and then makes 1024 random blocks of a "
        f"file of 2 GiB durable, within {big:g} ms, or leaves them to the kernel's writeback. Where B has fsyncs, A's "
        "are those that were there while one of B's was. Only split-deadline has these deadlines, of the paper's Table "
        "3. In the paper's Figure 12 Split-Deadline keeps both about, and Block-Deadline's A is an order of magnitude "
        "late."
    )
    title = f"Small fsyncs beside big ones on {device} (Fig 12)"
    return Figure(f"fig-12-{device}", title, text, (_table(cells, device),), terminal=True)


def _table(cells: Cells, device: str) -> Table:
    rows = tuple(
        (BESIDE.get(cell.variant, "nobody, ext4"), cell.scheduler, *_small(cell), *_bursts(cell)) for cell in cells
    )
    columns = ("beside", "scheduler", "A: mean ms", "p50", "p99", "longest", "B: mean ms", "longest", "MB/s")
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    return Table(f"fsyncs on {device}", columns, rows, 2, ours)


def _small(cell: Cell) -> tuple[str, ...]:
    sync = cell.job("small").sync
    return tuple(number(value / 1e6) for value in (sync.mean, sync.p50, sync.p99, sync.max))


def _bursts(cell: Cell) -> tuple[str, ...]:
    if cell.variant == "alone":
        return "–", "–", "–"
    big = cell.job("big")
    times = ("–", "–") if cell.variant == WRITEBACK else (number(big.sync.mean / 1e6), number(big.sync.max / 1e6))
    return *times, number(big.bytes_per_s / 1e6)
