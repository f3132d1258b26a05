# SPDX-License-Identifier: GPL-2.0-only
"""Tables 4 and 5 of the CPQ paper: latency alone and beside background writes, and the cost of a scheduler.

The paper's latencies are those of its app1; for app2, beside background writes, it gives none.
"""

import math
from collections.abc import Callable, Iterator, Sequence

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Bar, Bars, Figure, Table, number
from lab.result import Cell, Latency

OURS = "cpq"
RIVAL = "mq-deadline"
DEVICE = "emmc"
"""The paper's device, on which the claims are judged."""
LEAST_GAIN = 6.5
"""Per cent by which the tail must be shorter beside background writes: the paper's gain without them."""
TESTS = {
    "app1": "one application alone",
    "app2": "one application beside background writes",
    "app1-text": "one application alone, reading in sequence",
    "app2-text": "8 threads beside background writes",
}
CPU = {"cpu-app1": "app1", "cpu-standard": "Standard", "cpu-mixed": "Mixed"}

# Scheduler: average, p50, p95, p99, p99.9 in us (Table 4).
PAPER = {RIVAL: (319, 310, 457, 506, 635), OURS: (315, 306, 441, 502, 594)}
# System time in % under mq-deadline and CPQ (Table 5).
PAPER_CPU = {"cpu-app1": (9.51, 9.87), "cpu-standard": (13.70, 13.88), "cpu-mixed": (14.27, 14.24)}

Cells = Sequence[Cell]


def judgements() -> Sequence[Judgement]:
    """What must hold on the paper's device, and for the CPU."""
    return [*_tails(), *_medians(), *_costs()]


def reader(cells: Cells, device: str, scheduler: str, variant: str) -> Latency:
    """The latency that the application sees, from submission; Missing if it was not measured."""
    return find(cells, device, scheduler, variant).job(variant.partition("-")[0]).lat


def _against(variant: str, figure: Callable[[Latency], float]) -> Callable[[Cells], float]:
    """Our figure over mq-deadline's."""
    return lambda cells: ratio(
        figure(reader(cells, DEVICE, OURS, variant)), figure(reader(cells, DEVICE, RIVAL, variant))
    )


def _tails() -> Iterator[Judgement]:
    paper = round(PAPER[OURS][4] / PAPER[RIVAL][4], 4)
    yield Judgement(
        "p999-alone",
        f"{OURS} on {DEVICE}, {TESTS['app1']}: p99.9 latency, relative to {RIVAL}",
        "≤",
        1,
        _against("app1", lambda lat: lat.p999),
        paper,
    )
    yield Judgement(
        "p999-beside-writes",
        f"{OURS} on {DEVICE}, {TESTS['app2']}: p99.9 latency, relative to {RIVAL}",
        "≤",
        1 - LEAST_GAIN / 100,
        _against("app2", lambda lat: lat.p999),
        paper,
    )


def _medians() -> Iterator[Judgement]:
    paper = round(PAPER[OURS][1] / PAPER[RIVAL][1], 4)
    for variant, name in (("app1", "alone"), ("app2", "beside-writes")):
        measure = _against(variant, lambda lat: lat.p50)
        text = f"{OURS} on {DEVICE}, {TESTS[variant]}: median latency, relative to {RIVAL}"
        yield Judgement(f"p50-{name}", text, "≤", 1, measure, paper)


def added(cells: Cells, scheduler: str, variant: str) -> float:
    """Instructions per I/O that a scheduler adds to none; NaN if there was none."""
    with_it, without = (find(cells, "null", name, variant).instructions_per_io for name in (scheduler, "none"))
    return with_it - without if with_it and without else math.nan


def _costs() -> Iterator[Judgement]:
    for variant, title in CPU.items():
        yield Judgement(
            variant,
            f"{OURS} on null_blk, the {title} workload: instructions that it adds to an I/O, relative to {RIVAL}",
            "≤",
            1,
            _cost(variant),
        )


def _cost(variant: str) -> Callable[[Cells], float]:
    return lambda cells: ratio(added(cells, OURS, variant), added(cells, RIVAL, variant))


def figures(cells: Cells) -> list[Figure]:
    """Table 4 and its bars for each device, and Table 5."""
    drawn = []
    for device in dict.fromkeys(cell.device for cell in cells if cell.variant in TESTS):
        here = [cell for cell in cells if cell.device == device]
        drawn += [_latencies(device, here), _tail_bars(device, here)]
    return [*drawn, *_cpu(cells)]


def _latencies(device: str, cells: Cells) -> Figure:
    columns = ("scheduler", "average", "p50", "p95", "p99", "p99.9", "max", "IOPS")
    tables = []
    for variant, text in TESTS.items():
        shown = [cell for cell in cells if cell.variant == variant]
        paper = [
            (f"paper: {name}", *map(number, values), "–", "–") for name, values in PAPER.items() if variant == "app1"
        ]
        rows = (*map(_row, shown), *paper)
        if shown:
            tables.append(Table(f"{variant} on {device}, µs: {text}", columns, rows, 1, _marked(shown)))
    text = "Of the reading application, from submission. The paper's figures are for another drive."
    return Figure(f"table-4-{device}", f"Latency on {device} (Table 4)", text, tuple(tables), terminal=True)


def _row(cell: Cell) -> tuple[str, ...]:
    job = cell.job(cell.variant.partition("-")[0])
    lat = job.lat
    micro = (number(value / 1e3) for value in (lat.mean, lat.p50, lat.p95, lat.p99, lat.p999, lat.max))
    return (cell.scheduler, *micro, number(job.iops))


def _marked(cells: Cells) -> frozenset[int]:
    return frozenset(index for index, cell in enumerate(cells) if cell.scheduler == OURS)


def _tail_bars(device: str, cells: Cells) -> Figure:
    panels = tuple(
        Bars(
            f"{variant}: p99.9, µs",
            "µs",
            tuple(
                Bar(
                    cell.scheduler,
                    reader(cells, device, cell.scheduler, variant).p999 / 1e3,
                    ours=cell.scheduler == OURS,
                )
                for cell in cells
                if cell.variant == variant
            ),
        )
        for variant in TESTS
        if any(cell.variant == variant for cell in cells)
    )
    return Figure(f"tail-{device}", f"The tail on {device}", "The 99.9th percentile of each test.", panels)


def _cpu(cells: Cells) -> Iterator[Figure]:
    shown = [cell for cell in cells if cell.variant == next(iter(CPU))]
    try:
        rows = tuple((cell.scheduler, *_cost_columns(cells, cell.scheduler)) for cell in shown)
    except Missing:
        return
    if not shown:
        return
    paper = {
        f"paper: {name}": tuple(text for values in PAPER_CPU.values() for text in ("–", f"{values[index]} %"))
        for index, name in enumerate(PAPER)
    }
    columns = ("scheduler", *(column for title in CPU.values() for column in (title, "added")))
    rows = (*rows, *((name, *values) for name, values in paper.items()))
    yield Figure(
        "table-5",
        "CPU (Table 5)",
        "Guest instructions per I/O on null_blk, where the CPU alone is the limit, fio's own and the block layer's "
        "included; what a scheduler adds is the difference to none. The paper gives system time, in %.",
        (Table("Instructions per I/O", columns, rows, 1, _marked(shown)),),
        terminal=True,
    )


def _cost_columns(cells: Cells, scheduler: str) -> Iterator[str]:
    for variant in CPU:
        yield number(find(cells, "null", scheduler, variant).instructions_per_io)
        yield number(added(cells, scheduler, variant))
