# SPDX-License-Identifier: GPL-2.0-only
"""Figs 6, 13 and 16 of the split-level paper: a reader's throughput beside different loads of a throttled neighbour.

If the rate is kept, it is the neighbour's cost for the reader, and all 14 workloads leave the reader the same
throughput. The neighbour's use of its rate is what the scheduler charged it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean, pstdev

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import Figure, Line, Lines, Panel, Table, number
from lab.result import Cell

OURS, RIVAL = "split-token", "scs-token"
LIMITS = {"io.max": "-io-max", "io.cost": "-io-cost"}
"""mq-deadline with the kernel's own limits: the suffixes of its variants."""
DEVICES = ("hdd", "ssd")
SIZES = {"4k": 4, "16k": 16, "64k": 64, "256k": 256, "1m": 1024, "4m": 4096, "16m": 16384}
"""KiB that the neighbour reads or writes in sequence before it moves to another place."""
WORKLOADS = tuple(f"{operation}-{size}" for operation in ("read", "write") for size in SIZES)
SYSTEMS = {"": "ext4", "-xfs": "XFS"}
MOST = {"": 0.035, "-xfs": 0.05}
"""The reader's standard deviation over the workloads, as a part of its throughput alone."""
USED = 0.9
"""The least part of its rate that the neighbour uses: it always has more to do."""
RATE = 1e7
"""The neighbour's rate, in normalised bytes a second."""
LEAST = 4.0
"""The least ratio of the rival's deviation to ours."""
SOLO = 138.0
"""Section 5.3: MB/s of the paper's reader alone."""
PAPER = {(RIVAL, ""): 41.0, (OURS, ""): 7.0, (OURS, "-xfs"): 12.8}
"""Sections 2.3.3, 5.3 and 6: standard deviation in MB/s."""

Cells = Sequence[Cell]


def judgements() -> Iterator[Judgement]:
    """What must hold."""
    for device in DEVICES:
        for system, text in SYSTEMS.items():
            yield Judgement(
                f"{text.lower()}-{device}",
                f"{OURS} on {device}, {text}, beside 14 workloads of a neighbour with a rate of 10 MB/s: standard "
                "deviation of a reader's throughput over the workloads, relative to its throughput alone",
                "≤",
                MOST[system],
                partial(deviation, device=device, scheduler=OURS, system=system),
                round(PAPER[OURS, system] / SOLO, 3),
            )
            yield Judgement(
                f"{text.lower()}-rate-{device}",
                f"{OURS} on {device}, {text}, 14 workloads of a neighbour with a rate of 10 MB/s: the least part of "
                "its rate that it uses",
                "≥",
                USED,
                partial(used, device=device, system=system),
                bound=True,
            )
        yield Judgement(
            f"{RIVAL}-{device}",
            f"{RIVAL} on {device}, ext4, beside 14 workloads of a neighbour with a rate of 10 MB/s: standard "
            f"deviation of a reader's throughput over the workloads, relative to {OURS}",
            "≥",
            LEAST,
            partial(_times, device=device),
            round(PAPER[RIVAL, ""] / PAPER[OURS, ""], 1),
        )


def readers(cells: Cells, device: str, scheduler: str, system: str) -> list[float]:
    """The reader's bytes a second beside each of the workloads; Missing if one was not measured."""
    return [_beside(cells, device, scheduler, name + system).job("unthrottled").bytes_per_s for name in WORKLOADS]


def deviation(cells: Cells, device: str, scheduler: str, system: str) -> float:
    """The standard deviation of the reader's throughput, as a part of that alone."""
    return ratio(pstdev(readers(cells, device, scheduler, system)), _alone(cells, device, scheduler, system))


def used(cells: Cells, device: str, system: str) -> float:
    """The least part of its rate that the neighbour uses in any workload, by the scheduler's account."""
    found = (find(cells, device, OURS, name + system) for name in WORKLOADS)
    return worst((cell.readings.get("paid", 0) / RATE for cell in found), min)


def _times(cells: Cells, device: str) -> float:
    return ratio(*(pstdev(readers(cells, device, scheduler, "")) for scheduler in (RIVAL, OURS)))


def _beside(cells: Cells, device: str, scheduler: str, variant: str) -> Cell:
    if scheduler in LIMITS:
        return find(cells, device, "mq-deadline", variant + LIMITS[scheduler])
    return find(cells, device, scheduler, variant)


def _alone(cells: Cells, device: str, scheduler: str, system: str) -> float:
    name = "mq-deadline" if scheduler in LIMITS else scheduler
    return find(cells, device, name, f"solo{system}").job("unthrottled").bytes_per_s


def figures(cells: Cells) -> list[Figure]:
    """For each device the spread of the workloads, and the paper's curves for each scheduler."""
    return [
        _device(device, [cell for cell in cells if cell.device == device])
        for device in DEVICES
        if any(cell.device == device for cell in cells)
    ]


def _device(device: str, cells: Cells) -> Figure:
    text = (
        "A reads a large file in sequence; B, at a rate of 10 MB/s normalised, reads or writes in runs of 4 KiB to 16 "
        "MiB and then goes elsewhere. mq-deadline has no rate: B is not limited; io.max is the kernel's own limit "
        "with mq-deadline, 10 MB/s of any kind, io.cost its shares, of which B has that part."
    )
    kinds = [(name, system) for system in SYSTEMS for name in _schedulers(cells) if _measured(cells, name, system)]
    plots = tuple(_plot(cells, device, *kind) for kind in kinds)
    jobs = {"unthrottled": "A (the reader)", "throttled": "B (the neighbour)"}
    tables = tuple(_table(cells, device, kinds, job, text) for job, text in jobs.items())
    panels: tuple[Panel, ...] = (_spread(cells, device, kinds), *tables, *plots)
    return Figure(f"fig-13-{device}", f"Isolation on {device} (Figs 6, 13, 16)", text, panels, terminal=True)


def _schedulers(cells: Cells) -> list[str]:
    names = list(dict.fromkeys(cell.scheduler for cell in cells))
    return [*names, *(name for name, end in LIMITS.items() if any(cell.variant.endswith(end) for cell in cells))]


def _measured(cells: Cells, scheduler: str, system: str) -> bool:
    device = cells[0].device
    return any(_rate(cells, device, scheduler, name + system, "unthrottled") is not None for name in WORKLOADS)


def _rate(cells: Cells, device: str, scheduler: str, variant: str, job: str) -> float | None:
    """MB/s of a job; None if it was not measured."""
    try:
        return _beside(cells, device, scheduler, variant).job(job).bytes_per_s / 1e6
    except Missing:
        return None


def _spread(cells: Cells, device: str, kinds: Sequence[tuple[str, str]]) -> Table:
    rows = []
    for scheduler, system in kinds:
        try:
            rates = [rate / 1e6 for rate in readers(cells, device, scheduler, system)]
            alone = _alone(cells, device, scheduler, system) / 1e6
        except Missing:
            continue
        values = (alone, fmean(rates), min(rates), max(rates), pstdev(rates), ratio(pstdev(rates), alone) * 100)
        rows.append((SYSTEMS[system], scheduler, *map(number, values)))
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    for (scheduler, system), value in PAPER.items():
        # Section 2.3.3 gives the limits of the reader's throughput with SCS-Token.
        ends = ("25", "125") if scheduler == RIVAL else ("–", "–")
        part = number(value / SOLO * 100)
        rows.append((SYSTEMS[system], f"paper: {scheduler}", number(SOLO), "–", *ends, number(value), part))
    columns = ("file system", "scheduler", "alone MB/s", "mean", "lowest", "highest", "std dev", "% of alone")
    return Table(f"A's throughput over 14 workloads of B on {device}", columns, tuple(rows), 2, ours)


def _table(cells: Cells, device: str, kinds: Sequence[tuple[str, str]], job: str, text: str) -> Table:
    rows = []
    for scheduler, system in kinds:
        for operation in ("read", "write"):
            rates = [_rate(cells, device, scheduler, f"{operation}-{size}{system}", job) for size in SIZES]
            rows.append((SYSTEMS[system], scheduler, f"{operation}s", *map(_number, rates)))
    ours = frozenset(index for index, row in enumerate(rows) if row[1] == OURS)
    return Table(f"{text} on {device}, MB/s", ("file system", "scheduler", "B", *SIZES), tuple(rows), 3, ours)


def _number(value: float | None) -> str:
    return "–" if value is None else number(value)


def _plot(cells: Cells, device: str, scheduler: str, system: str) -> Lines:
    curves = []
    for operation in ("read", "write"):
        names = {f"{operation}-{size}{system}": kib for size, kib in SIZES.items()}
        rates = {kib: _rate(cells, device, scheduler, name, "unthrottled") for name, kib in names.items()}
        points = tuple((float(kib.bit_length() - 1), rate) for kib, rate in rates.items() if rate is not None)
        curves.append(Line(f"B {operation}s", points))
    return Lines(
        f"A beside B, {scheduler}, {SYSTEMS[system]}", "log2 of a run's KiB", "MB/s", tuple(curves), bounds=(0.0, 140.0)
    )
