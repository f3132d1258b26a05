# SPDX-License-Identifier: GPL-2.0-only
"""Table 3 of the CPQ paper: six workloads against mq-deadline, in the appendix's version and in the text's.

The paper's figures are those of its kernel 6.1 on a 32 GB eMMC of an RK3588. It states a mean of +1.86 %, but its
table gives +1.7 %; the claim is held against the larger figure.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.analysis import Judgement, Missing, find, ratio
from lab.figure import Bar, Bars, Figure, Table, number
from lab.result import Cell

OURS = "cpq"
RIVAL = "mq-deadline"
DEVICE = "emmc"
"""The paper's device, on which the claims are judged."""
TEXT = "-text"
LEAST_ALONE = 0.995
"""If an application runs alone, no elevator can gain more than its own CPU cost."""
LEAST_CONTENDED = 1.04
LEAST_MEAN = 1.86
"""Per cent."""


@dataclass(frozen=True)
class Workload:
    """A test of the paper: its title, the fio job that is counted, and IOPS under CPQ and mq-deadline.

    The last two fields say whether it is contended in the appendix's version and in the text's.
    """

    title: str
    job: str
    paper: tuple[int, int]
    contended: tuple[bool, bool]


WORKLOADS = {
    "standard": Workload("Standard", "standard", (2868, 2816), (False, True)),
    "ionice-low": Workload("IoNice Low", "idle", (2899, 2830), (False, False)),
    "ionice-high": Workload("IoNice High", "rt", (2820, 2867), (False, False)),
    "mixed": Workload("Mixed/Async", "mixed", (2883, 2772), (False, True)),
    "app1": Workload("App1", "app1", (3103, 3058), (False, False)),
    "app2": Workload("App2", "app2", (2643, 2590), (True, True)),
}

Cells = Sequence[Cell]


def iops(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """IOPS of the job that the paper counts; Missing if it was not measured."""
    return find(cells, device, scheduler, variant).job(WORKLOADS[variant.removesuffix(TEXT)].job).iops


def against(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """IOPS as a ratio to those under mq-deadline."""
    return ratio(iops(cells, device, scheduler, variant), iops(cells, device, RIVAL, variant))


def mean(cells: Cells, device: str, scheduler: str, suffix: str) -> float:
    """The mean of the six differences to mq-deadline, in per cent."""
    return sum(against(cells, device, scheduler, name + suffix) - 1 for name in WORKLOADS) * 100 / len(WORKLOADS)


def judgements() -> Sequence[Judgement]:
    """What must hold on the paper's device."""
    return [*_tests(), *_means()]


def _tests() -> Iterator[Judgement]:
    for as_text, suffix in enumerate(("", TEXT)):
        for name, workload in WORKLOADS.items():
            contended = workload.contended[as_text]
            yield Judgement(
                name + suffix,
                f"{OURS} on {DEVICE}, {workload.title} as the paper's {'text' if as_text else 'appendix'} has it, "
                f"{'contended' if contended else 'not contended'}: IOPS of the {workload.job} job, relative to {RIVAL}",
                "≥",
                LEAST_CONTENDED if contended else LEAST_ALONE,
                _against(name + suffix),
                round(workload.paper[0] / workload.paper[1], 4),
            )


def _against(variant: str) -> Callable[[Cells], float]:
    return lambda cells: against(cells, DEVICE, OURS, variant)


def _means() -> Iterator[Judgement]:
    for suffix, source in (("", "appendix"), (TEXT, "text")):
        yield Judgement(
            f"mean{suffix}",
            f"{OURS} on {DEVICE}, six workloads as the paper's {source} has them: mean gain in IOPS over {RIVAL}, in %",
            "≥",
            LEAST_MEAN,
            _mean(suffix),
            LEAST_MEAN,
        )


def _mean(suffix: str) -> Callable[[Cells], float]:
    return lambda cells: mean(cells, DEVICE, OURS, suffix)


def figures(cells: Cells) -> list[Figure]:
    """For each device Table 3, the background's throughput in the contended tests, and bars."""
    drawn = []
    for device in dict.fromkeys(cell.device for cell in cells):
        here = [cell for cell in cells if cell.device == device]
        drawn += [_table(device, here), *_beside(device, here), _bars(device, here)]
    return drawn


def _schedulers(cells: Cells) -> list[str]:
    return list(dict.fromkeys(cell.scheduler for cell in cells))


def _table(device: str, cells: Cells) -> Figure:
    others = [name for name in _schedulers(cells) if name != RIVAL]
    rows = []
    for suffix in ("", TEXT):
        measured = [name for name in WORKLOADS if any(cell.variant == name + suffix for cell in cells)]
        for name in measured:
            ours, theirs = WORKLOADS[name].paper
            variant = name + suffix
            rows.append(
                (
                    variant,
                    number(theirs),
                    _percent(ours / theirs * 100 - 100),
                    _or_dash(_rivals(cells, device, variant)),
                    *(_or_dash(_difference(cells, device, other, variant)) for other in others),
                )
            )
        if len(measured) == len(WORKLOADS):
            means = (_or_dash(_mean_text(cells, device, other, suffix)) for other in others)
            rows.append((f"mean{suffix}", "", _percent(LEAST_MEAN), "", *means))
    columns = ("test", "paper's", "its CPQ", RIVAL, *others)
    text = (
        f"IOPS of the test's job under {RIVAL}, and how far the others' differ, in %; the paper's two first. The drive "
        "takes a command in a fixed time: where its queue is never empty, as in mixed, no scheduler differs."
    )
    return Figure(
        f"table-3-{device}",
        f"The six workloads on {device} (Table 3)",
        text,
        (Table(f"IOPS on {device}, and % against {RIVAL}", columns, tuple(rows)),),
        terminal=True,
    )


def _rivals(cells: Cells, device: str, variant: str) -> Callable[[], str]:
    return lambda: number(iops(cells, device, RIVAL, variant))


def _difference(cells: Cells, device: str, scheduler: str, variant: str) -> Callable[[], str]:
    return lambda: _percent(against(cells, device, scheduler, variant) * 100 - 100)


def _mean_text(cells: Cells, device: str, scheduler: str, suffix: str) -> Callable[[], str]:
    return lambda: _percent(mean(cells, device, scheduler, suffix))


def _percent(value: float) -> str:
    return f"{value:+,.2f}"


def _or_dash(text: Callable[[], str]) -> str:
    try:
        return text()
    except Missing:
        return "–"


def _beside(device: str, cells: Cells) -> Iterator[Figure]:
    """The throughput of the jobs beside the counted ones, in MB/s: the price of the gains."""
    pairs = {cell.variant: cell.jobs[1].name for cell in cells if len(cell.jobs) > 1}
    if not pairs:
        return
    rows = tuple(
        (
            scheduler,
            *(_or_dash(_written(cells, device, scheduler, variant, name)) for variant, name in pairs.items()),
        )
        for scheduler in _schedulers(cells)
    )
    columns = ("scheduler", *(f"{variant}: {name}" for variant, name in pairs.items()))
    ours = frozenset(index for index, row in enumerate(rows) if row[0] == OURS)
    yield Figure(
        f"beside-{device}",
        f"What wrote beside them on {device}",
        "What the writers got while the tests read: the price of what these gain.",
        (Table(f"Writers on {device}, MB/s", columns, rows, 1, ours),),
        terminal=True,
    )


def _written(cells: Cells, device: str, scheduler: str, variant: str, name: str) -> Callable[[], str]:
    return lambda: number(find(cells, device, scheduler, variant).job(name).bytes_per_s / 1e6)


def _bars(device: str, cells: Cells) -> Figure:
    panels = []
    for variant in dict.fromkeys(cell.variant for cell in cells):
        workload = WORKLOADS[variant.removesuffix(TEXT)]
        jobs = [(cell, cell.job(workload.job)) for cell in cells if cell.variant == variant]
        bars = [Bar(cell.scheduler, job.iops, *job.spread.iops, ours=cell.scheduler == OURS) for cell, job in jobs]
        paper = [Bar(f"paper: {name}", float(value)) for name, value in zip((OURS, RIVAL), workload.paper, strict=True)]
        panels.append(Bars(f"{variant}, IOPS", "IOPS", (*bars, *paper)))
    text = "Each test's IOPS, beside the paper's on its own drive. A whisker is the spread of the runs."
    return Figure(f"iops-{device}", f"IOPS on {device}", text, tuple(panels))
