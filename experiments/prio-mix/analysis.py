# SPDX-License-Identifier: GPL-2.0-only
"""Judges and draws the database-beside-backup mix, for all devices on which it was run.

The paper's figures are those of "Implement and Evaluate a Custom Disk Scheduler", Tables III and IV: a virtual machine
with Linux 6.5, an unknown disk, fio 3.28, one run of 15 seconds.
"""

import math
from collections.abc import Callable, Iterator, Sequence

from lab.analysis import Judgement, Missing, find, ratio, worst
from lab.figure import CUT, Bar, Bars, Column, Figure, Line, Lines, Overview, Table, number
from lab.result import Cell, Job

OURS = ("mq-prio", "sluice")
"""What must hold is the same for both. sluice's claims have its name in front."""
BLIND = ("none", "mq-deadline", "mq-deadline-tuned", "kyber")
"""Baselines that ignore the eight levels of a class."""
MIXES = {
    "be-levels": "best effort 1 beside best effort 7",
    "classes": "real time beside idle",
    "be-levels-write": "best effort 1 beside best effort 7 that writes",
    "classes-write": "real time beside idle that writes",
    "classes-deep": "real time beside idle at depth 64 a job",
    "equal": "both best effort 4",
    "solo": "the database alone",
}
READING = ("be-levels", "classes")
BACKUPS_IN_FLIGHT = 32
LONGEST_PERIOD_S = 1
"""Both open a turn at least this often, however slow the device."""
DEPTHS = ("1", "8", "32", "128")
MOST_CPU = {"mq-prio": 0.8, "sluice": 1}
"""Of what mq-deadline adds. sluice also looks up and charges an I/O's causes."""
CPU = {"cpu-1": "depth 1", "cpu-16": "depth 16", "cpu-mix": "two ranks active"}

# Scheduler: job, IOPS, mean ms, p99 ms, CPU % (Table IV).
PAPER_RAW = {
    "none": (("database", 52950.1, 0.603, 1.319, 8.00), ("backup", 45893.9, 0.691, 1.286, 15.33)),
    "mq-deadline": (("database", 53309.2, 0.595, 1.843, 13.29), ("backup", 44693.6, 0.703, 1.499, 17.69)),
    "mq-prio": (("database", 59568.4, 0.532, 2.343, 13.81), ("backup", 42221.2, 0.746, 1.892, 16.85)),
}
# Scheduler: IOPS ratio, latency ratio, average CPU % (Table III).
PAPER_DERIVED = {"none": (1.15, 1.15, 11.66), "mq-deadline": (1.19, 1.18, 15.49), "mq-prio": (1.41, 1.40, 15.33)}

Cells = Sequence[Cell]
Measure = Callable[[Cells], float]


def judgements() -> Sequence[Judgement]:
    """What must hold on each device."""
    return [one for ours in OURS for one in (*_flash(ours, "ssd"), *_flash(ours, "emmc"), *_disk(ours), *_cost(ours))]


def _prefix(ours: str, device: str = "ssd") -> str:
    """What a claim's name begins with."""
    return f"{ours}-" * (ours != OURS[0]) + f"{device}-" * (device != "ssd")


def _p99(cells: Cells, device: str, scheduler: str, variant: str) -> float:
    """The database's p99; NaN if it did nothing."""
    job = find(cells, device, scheduler, variant).job("database")
    return job.lat.p99 if job.ios else math.nan


def _iops(cells: Cells, device: str, scheduler: str, variant: str, name: str = "database") -> float:
    return find(cells, device, scheduler, variant).job(name).iops


def _separation(ours: str, device: str) -> Measure:
    return lambda cells: ratio(
        _iops(cells, device, ours, "be-levels"), _iops(cells, device, ours, "be-levels", "backup")
    )


def _against(ours: str, device: str, variant: str, rivals: Sequence[str]) -> Measure:
    """Our p99, relative to that of the best rival."""
    return lambda cells: ratio(
        _p99(cells, device, ours, variant), worst((_p99(cells, device, rival, variant) for rival in rivals), min)
    )


def _low_against(ours: str, device: str, variant: str, rival: str) -> Measure:
    return lambda cells: ratio(
        _iops(cells, device, ours, variant, "backup"), _iops(cells, device, rival, variant, "backup")
    )


def _against_solo(ours: str, device: str, variant: str) -> Measure:
    """Our p99, relative to the database's lower one alone, under no scheduler or under ours."""
    return lambda cells: ratio(
        _p99(cells, device, ours, variant), worst((_p99(cells, device, name, "solo") for name in ("none", ours)), min)
    )


def _stated(cells: Cells, ours: str, device: str) -> float:
    """The backup's stated share in IOPS: low_share per cent of its IOPS alone."""
    alone = find(cells, device, ours, "solo-backup")
    return alone.job("backup").iops * float(alone.settings.get("iosched/low_share", "nan")) / 100


def _share(ours: str, device: str) -> Measure:
    """The backup's least IOPS, relative to its stated share."""
    return lambda cells: worst(
        (ratio(_iops(cells, device, ours, mix, "backup"), _stated(cells, ours, device)) for mix in READING), min
    )


def _oldest(ours: str, device: str) -> Measure:
    """The longest duration of a backup request, relative to its bound.

    The bound is the time of the requests before it at the stated rate, and a period.
    """

    def measure(cells: Cells) -> float:
        bound = ratio(BACKUPS_IN_FLIGHT, _stated(cells, ours, device)) + LONGEST_PERIOD_S
        jobs = [find(cells, device, ours, mix).job("backup") for mix in READING]
        return worst(job.lat.max / 1e9 / bound if job.ios else math.nan for job in jobs)

    return measure


def _flash(ours: str, device: str) -> Iterator[Judgement]:
    tuned, prefix, place = "mq-deadline-tuned", _prefix(ours, device), f"{ours} on {device}"
    levels = f"{place}, a database at best effort 1 beside a backup at best effort 7"
    yield Judgement(
        f"{prefix}high-low-ratio",
        f"{levels}: the database's IOPS over the backup's",
        "≥",
        3,
        _separation(ours, device),
        1.41,
    )
    yield Judgement(
        f"{prefix}high-iops",
        f"{levels}: the database's IOPS, relative to mq-deadline",
        "≥",
        1.25,
        lambda cells: ratio(_iops(cells, device, ours, "be-levels"), _iops(cells, device, "mq-deadline", "be-levels")),
        1.117,
    )
    yield Judgement(
        f"{prefix}p99-beats-every-baseline",
        f"{levels}: the database's p99 latency, relative to the best of {', '.join(BLIND)}",
        "≤",
        0.25,
        _against(ours, device, "be-levels", BLIND),
        1.776,
    )
    yield Judgement(
        f"{prefix}p99-below-bfq",
        f"{levels}: the database's p99 latency, relative to the better of bfq and bfq-strict",
        "<",
        1,
        _against(ours, device, "be-levels", ("bfq", "bfq-strict")),
    )
    backup = f"{place}, a backup at best effort 7 or idle beside a more urgent database"
    yield Judgement(
        f"{prefix}low-share",
        f"{backup}: its least IOPS, relative to the stated share (low_share) of its IOPS alone",
        "≥",
        1,
        _share(ours, device),
        bound=True,
    )
    yield Judgement(
        f"{prefix}low-oldest",
        f"{backup}: the longest that a request of it took, relative to the stated bound",
        "≤",
        1,
        _oldest(ours, device),
        bound=True,
    )
    for variant, writes, limit in (("classes", "", 1.15), ("classes-write", " that writes", 1.4)):
        mix = f"{place}, a real-time database beside an idle backup{writes}"
        p99, low = _against(ours, device, variant, (tuned,)), _low_against(ours, device, variant, tuned)
        text = f"{mix}: the database's p99 latency, relative to {tuned}"
        yield Judgement(f"{prefix}{variant}-p99", text, "≤", limit, p99)
        yield Judgement(f"{prefix}{variant}-low", f"{mix}: the backup's throughput, relative to {tuned}", "≥", 10, low)
    yield Judgement(
        f"{prefix}deep-p99",
        f"{place}, a real-time database beside an idle backup with 128 requests in flight: the database's p99 latency, "
        "relative to that alone",
        "≤",
        1.25,
        _against_solo(ours, device, "classes-deep"),
    )


def _disk(ours: str) -> Iterator[Judgement]:
    prefix = _prefix(ours, "hdd")
    classes, tuned = f"{ours} on hdd, a real-time database beside an idle backup", "mq-deadline-tuned"
    p99, low = _against_solo(ours, "hdd", "classes"), _low_against(ours, "hdd", "classes", tuned)
    yield Judgement(f"{prefix}p99", f"{classes}: the database's p99 latency, relative to that alone", "≤", 1.1, p99)
    yield Judgement(f"{prefix}low", f"{classes}: the backup's throughput, relative to {tuned}", "≥", 4, low)
    yield Judgement(
        f"{prefix}high-low-ratio",
        f"{ours} on hdd, a database at best effort 1 beside a backup at best effort 7: the database's IOPS over the "
        "backup's",
        "≥",
        3,
        _separation(ours, "hdd"),
        1.41,
    )
    yield Judgement(
        f"{prefix}equal",
        f"{ours} on hdd, a database and a backup that are both best effort 4: their total throughput, relative to "
        "mq-deadline",
        "≥",
        0.9,
        lambda cells: ratio(_total(cells, ours), _total(cells, "mq-deadline")),
    )


def _total(cells: Cells, scheduler: str) -> float:
    return sum(job.bytes_per_s for job in find(cells, "hdd", scheduler, "equal").jobs)


def _cost(ours: str) -> Iterator[Judgement]:
    yield Judgement(
        f"{_prefix(ours)}uncontended",
        f"{ours} on ssd, one job alone at depths 1 to 128, real time or idle: its least IOPS, relative to none",
        "≥",
        0.98,
        lambda cells: _uncontended(cells, ours),
        bound=True,
    )
    yield Judgement(
        f"{_prefix(ours)}cpu",
        f"{ours} on null_blk, at depth 1, at depth 16 and with two ranks active: the most instructions that it adds "
        "to an I/O, relative to mq-deadline",
        "≤",
        MOST_CPU[ours],
        lambda cells: worst(ratio(_added(cells, ours, name), _added(cells, "mq-deadline", name)) for name in CPU),
        bound=True,
    )


def _uncontended(cells: Cells, ours: str) -> float:
    pairs = [[_iops(cells, "ssd", name, variant, "load") for name in (ours, "none")] for variant in _alone()]
    return worst((ratio(*pair) for pair in pairs), min)


def _alone() -> list[str]:
    return [f"alone-{rank}-{depth}" for rank in ("high", "low") for depth in DEPTHS]


def _added(cells: Cells, scheduler: str, variant: str) -> float:
    """Instructions that a scheduler adds to each I/O; NaN if there was none."""
    with_it, without = (find(cells, "null", name, variant).instructions_per_io for name in (scheduler, "none"))
    return with_it - without if with_it and without else math.nan


def figures(cells: Cells) -> list[Figure]:
    """The paper's figures and tables with ours beside them, for each device measured."""
    devices = list(dict.fromkeys(cell.device for cell in cells if cell.variant in MIXES))
    drawn = [*_opening(devices, cells), *([_across(devices, cells)] if len(devices) > 1 else [])]
    for device in devices:
        here = [cell for cell in cells if cell.device == device]
        drawn += [_tables(device, here, len(devices) == 1), _tail(device, here), *_paper_figures(device, here)]
    return drawn + [figure for figure in (_cpu_figure(cells), _alone_figure(cells)) if figure.panels]


def _opening(devices: Sequence[str], cells: Cells) -> Iterator[Figure]:
    """The paper's mix on the first device, in short: what the database keeps, and the backup's progress."""
    device = next((name for name in devices if _having(_on(name, cells), "be-levels", "backup")), "")
    shown = [cell for cell in _on(device, cells) if cell.variant == "be-levels"]
    if not shown:
        return
    high, low = [cell.job("database") for cell in shown], [cell.job("backup") for cell in shown]
    alone = next((job for _, job in _having(_on(device, cells), "solo", "database")), None)
    measures = (
        Column(
            "The database's reads a second",
            "more is better",
            tuple(job.iops for job in high),
            alone.iops if alone else None,
        ),
        Column(
            "Its p99 latency, ms",
            "less is better",
            tuple(job.lat.p99 / 1e6 for job in high),
            alone.lat.p99 / 1e6 if alone else None,
        ),
        Column("The backup, MB/s", "what it still moves", tuple(job.bytes_per_s / 1e6 for job in low)),
    )
    title = f"A database beside a backup on {device}"
    kept = [_kept(cell, alone) for cell in shown if alone and _label(cell) == OURS[0]]
    yield Figure(
        "opening",
        "".join(kept) or title,
        "Each row is a scheduler. The database reads 4 KiB at random with best effort 1. The backup reads 128 KiB in "
        "sequence with best effort 7. The dashed line is the database without the backup. 99 of 100 reads take no "
        f"longer than the p99. A bar with a gap is cut at {CUT} times the dashed line.",
        (Overview(title, tuple(map(_label, shown)), measures, "alone", _marked(shown)),),
        opening=True,
    )


def _on(device: str, cells: Cells) -> list[Cell]:
    return [cell for cell in cells if cell.device == device]


def _kept(cell: Cell, alone: Job) -> str:
    """The part that the database keeps under a scheduler, in a sentence."""
    job = cell.job("database")
    speed, tail = number(ratio(job.iops, alone.iops) * 100), number(ratio(job.lat.p99, alone.lat.p99))
    return (
        f"Beside a backup on {cell.device}, a database under {cell.scheduler} keeps {speed} % of its speed, and "
        f"its p99 is {tail} times that alone"
    )


def _across(devices: Sequence[str], cells: Cells) -> Figure:
    """Each scheduler on every device, relative to the database alone there."""
    schedulers = list(dict.fromkeys(cell.scheduler for cell in cells if cell.variant in MIXES))
    columns = ("scheduler", *(f"{device} {column}" for device in devices for column in ("IOPS %", "p99 ×", "backup")))
    panels = tuple(
        Table(
            f"{mix}: {MIXES[mix]}",
            columns,
            tuple(
                (name, *(value for device in devices for value in _against_alone(cells, device, name, mix)))
                for name in schedulers
            ),
            1,
            frozenset(index for index, name in enumerate(schedulers) if name in OURS),
        )
        for mix in READING
        if len({cell.device for cell in cells if cell.variant == mix}) > 1
    )
    return Figure(
        "devices",
        "Across devices",
        "The database's IOPS in per cent of, and its p99 in times, what it gets alone on that device under none; "
        "the backup in MB/s.",
        panels,
        terminal=True,
    )


def _against_alone(cells: Cells, device: str, scheduler: str, mix: str) -> tuple[str, str, str]:
    try:
        alone = find(cells, device, "none", "solo").job("database")
        cell = find(cells, device, scheduler, mix)
    except Missing:
        return ("–",) * 3
    high, low = cell.job("database"), cell.job("backup")
    return (
        number(ratio(high.iops, alone.iops) * 100),
        number(ratio(high.lat.p99, alone.lat.p99)),
        number(low.bytes_per_s / 1e6),
    )


def _label(cell: Cell) -> str:
    """The scheduler, with its tunables if they were set."""
    return " ".join([cell.scheduler, *(f"{name}={value}" for name, value in sorted(cell.tunables.items()))])


def _having(cells: Cells, variant: str, name: str) -> list[tuple[Cell, Job]]:
    return [(cell, job) for cell in cells if cell.variant == variant for job in cell.jobs if job.name == name]


def _ms(nanoseconds: float) -> str:
    return number(nanoseconds / 1e6)


def _tables(device: str, cells: Cells, terminal: bool) -> Figure:
    panels = []
    for variant, text in MIXES.items():
        here = [cell for cell in cells if cell.variant == variant]
        if here:
            panels.append(_table(f"{variant} on {device}: {text}", here))
    return Figure(
        f"tables-{device}",
        f"Every mix on {device}",
        "Milliseconds from submission to completion, the wait for a tag included. MB are 10^6 bytes. "
        "The oldest is the longest that any request of the backup took.",
        tuple(panels),
        terminal=terminal,
    )


def _table(title: str, cells: Cells) -> Table:
    both = any(len(cell.jobs) > 1 for cell in cells)
    columns = ("scheduler", "IOPS", "mean", "p99", "p99.9") + (
        ("backup IOPS", "its MB/s", "its p99", "its oldest", "IOPS ratio") if both else ()
    )
    return Table(
        title,
        columns,
        tuple(_row(cell) for cell in cells),
        1,
        frozenset(index for index, cell in enumerate(cells) if cell.scheduler in OURS),
    )


def _row(cell: Cell) -> tuple[str, ...]:
    high = cell.job("database")
    row = (_label(cell), number(high.iops), _ms(high.lat.mean), _ms(high.lat.p99), _ms(high.lat.p999))
    if len(cell.jobs) == 1:
        return row
    low = cell.job("backup")
    return (
        *row,
        number(low.iops),
        number(low.bytes_per_s / 1e6),
        _ms(low.lat.p99),
        _ms(low.lat.max),
        number(ratio(high.iops, low.iops)),
    )


def _bars(
    title: str,
    unit: str,
    cells: Sequence[tuple[Cell, Job]],
    value: Callable[[Job], float],
    span: Callable[[Job], tuple[float, float]] | None,
    scale: float = 1,
) -> Bars:
    def bar(cell: Cell, job: Job) -> Bar:
        low, high = span(job) if span else (0.0, 0.0)
        return Bar(_label(cell), value(job) / scale, low / scale, high / scale, cell.scheduler in OURS)

    return Bars(f"{title}, {unit}", unit, tuple(bar(cell, job) for cell, job in cells))


def _tail(device: str, cells: Cells) -> Figure:
    panels = [
        _bars(
            f"{variant}: {text}",
            "ms",
            _having(cells, variant, "database"),
            lambda job: job.lat.p99,
            lambda job: job.spread.p99_ns,
            1e6,
        )
        for variant, text in MIXES.items()
        if _having(cells, variant, "database")
    ]
    return Figure(
        f"tail-{device}",
        f"The database's p99 in every mix on {device}",
        "The paper's high class has the worst p99 of its three schedulers (2.343 ms against 1.843 and 1.319). "
        "A whisker is the spread of the runs.",
        tuple(panels),
    )


def _paper_bars(title: str, unit: str, name: str, column: int) -> Bars:
    return Bars(
        f"The paper: {title}, {unit}",
        unit,
        tuple(
            Bar(scheduler, float(job[column]), ours=scheduler in OURS)
            for scheduler, jobs in PAPER_RAW.items()
            for job in jobs
            if job[0] == name
        ),
    )


def _paper_figures(device: str, cells: Cells) -> Iterator[Figure]:
    sides = {name: _having(cells, "be-levels", name) for name in ("database", "backup")}
    if not sides["database"]:
        return
    yield Figure(
        f"fig-2-{device}",
        f"IOPS on {device} (Fig 2)",
        "Levels 1 and 7 of best effort, the paper's own mix. The backup's requests are 32 times as large as the "
        "database's. The paper's disk is another, so that shapes compare, not heights.",
        tuple(
            panel
            for name, jobs in sides.items()
            for panel in (
                _bars(name, "IOPS", jobs, lambda job: job.iops, lambda job: job.spread.iops),
                _paper_bars(name, "IOPS", name, 1),
            )
        ),
    )
    yield Figure(
        f"fig-3-{device}",
        f"Mean completion latency on {device} (Fig 3)",
        "The same runs. As in the paper, fio's completion latency, "
        "which starts when the kernel has taken the request: the wait for a tag is not in it.",
        tuple(
            panel
            for name, jobs in sides.items()
            for panel in (
                _bars(name, "ms", jobs, lambda job: job.clat.mean, None, 1e6),
                _paper_bars(name, "ms", name, 2),
            )
        ),
    )
    yield _over_time(device, [cell for cell in cells if cell.variant == "be-levels"])
    yield _table_3(device, [cell for cell in cells if cell.variant == "be-levels"])
    yield _table_4(device, [cell for cell in cells if cell.variant == "be-levels"])


def _over_time(device: str, cells: Cells) -> Figure:
    means = [window.mean_ns / 1e6 for cell in cells for job in cell.jobs for window in job.series if window.mean_ns]
    bounds = (min(means), max(means)) if means else None
    panels = tuple(
        Lines(
            f"{_label(cell)}, mean ms",
            "seconds",
            "ms",
            tuple(
                Line(job.name, tuple((window.start_s, window.mean_ns / 1e6) for window in job.series))
                for job in cell.jobs
            ),
            log=True,
            bounds=bounds,
        )
        for cell in cells
    )
    return Figure(
        f"fig-4-{device}",
        f"Completion latency over time on {device} (Fig 4)",
        "The mean of every half second of the first run, all on one logarithmic scale. "
        "The paper prints this figure without numbers.",
        panels,
    )


def _table_3(device: str, cells: Cells) -> Figure:
    rows: list[tuple[str, ...]] = []
    for cell in cells:
        high, low = cell.job("database"), cell.job("backup")
        paper = [number(value) for value in PAPER_DERIVED.get(cell.scheduler, ())] or ["–"] * 3
        ours = [
            number(ratio(high.iops, low.iops)),
            number(ratio(low.clat.mean, high.clat.mean)),
            number((high.cpu_percent + low.cpu_percent) / 2),
        ]
        rows.append((_label(cell), *(value for pair in zip(ours, paper, strict=True) for value in pair)))
    columns = ("scheduler", "IOPS ratio", "paper", "latency ratio", "paper", "average CPU %", "paper")
    return Figure(
        f"table-3-{device}",
        f"Priority separation on {device} (Table III)",
        "High over low IOPS, low over high mean latency. CPU: user plus system time of one process, as fio reports it.",
        (Table("levels 1 and 7", columns, tuple(rows), 1, _marked(cells)),),
    )


def _marked(cells: Cells) -> frozenset[int]:
    return frozenset(index for index, cell in enumerate(cells) if cell.scheduler in OURS)


def _table_4(device: str, cells: Cells) -> Figure:
    rows: list[tuple[str, ...]] = []
    marked = set()
    for cell in cells:
        paper = {job[0]: job[1:] for job in PAPER_RAW.get(cell.scheduler, ())}
        for job in cell.jobs:
            if cell.scheduler in OURS:
                marked.add(len(rows))
            theirs = [number(value) for value in paper.get(job.name, ())] or ["–"] * 4
            ours = [number(job.iops), _ms(job.clat.mean), _ms(job.clat.p99), number(job.cpu_percent)]
            rows.append((_label(cell), job.name, *(value for pair in zip(ours, theirs, strict=True) for value in pair)))
    columns = ("scheduler", "job", "IOPS", "paper", "mean ms", "paper", "p99 ms", "paper", "CPU %", "paper")
    return Figure(
        f"table-4-{device}",
        f"What fio says on {device} (Table IV)",
        "Levels 1 and 7 of best effort.",
        (Table("levels 1 and 7", columns, tuple(rows), 2, frozenset(marked)),),
    )


def _cpu_figure(cells: Cells) -> Figure:
    """Fig 5 and its table; without panels if the cost was not measured."""
    here = {variant: [cell for cell in cells if cell.variant == variant] for variant in CPU}
    text = (
        "Guest instructions per 4 KiB read on null_blk, which completes inside the submission: the CPU alone is the "
        "limit, and one instruction takes one nanosecond. fio's own and the block layer's are included; what a "
        "scheduler adds is the difference to none."
    )
    if not all(here.values()):
        return Figure("fig-5", "CPU (Fig 5)", text, ())
    bars = [
        Bars(
            f"{CPU[variant]}, instructions per I/O",
            "instructions",
            tuple(Bar(_label(cell), cell.instructions_per_io, ours=cell.scheduler in OURS) for cell in group),
        )
        for variant, group in here.items()
    ]
    theirs = [_paper_bars(f"{name}, CPU", "%", name, 4) for name in ("database", "backup")]
    return Figure("fig-5", "CPU (Fig 5)", text, (*_cpu_table(cells, here["cpu-1"]), *bars, *theirs), terminal=True)


def _cpu_table(cells: Cells, shown: Cells) -> Iterator[Table]:
    try:
        rows = tuple(
            (
                _label(cell),
                *(
                    number(value)
                    for variant in CPU
                    for value in (
                        find(cells, "null", cell.scheduler, variant).instructions_per_io,
                        _added(cells, cell.scheduler, variant),
                    )
                ),
            )
            for cell in shown
        )
    except Missing:
        return
    columns = ("scheduler", *(column for text in CPU.values() for column in (text, "added")))
    yield Table("Instructions per I/O", columns, rows, 1, _marked(shown))


def _alone_figure(cells: Cells) -> Figure:
    """The loss of a job that runs alone; without panels if it was not measured."""
    shown = [cell for cell in cells if cell.variant == "alone-high-1"]
    try:
        rows = tuple(
            (
                _label(cell),
                *(number(_iops(cells, cell.device, cell.scheduler, variant, "load")) for variant in _alone()),
            )
            for cell in shown
        )
    except Missing:
        rows = ()
    table = Table(
        "A job alone on ssd, IOPS by rank and depth",
        ("scheduler", *(name.removeprefix("alone-") for name in _alone())),
        rows,
        1,
        _marked(shown),
    )
    return Figure(
        "alone",
        "A job alone",
        "4 KiB random reads by one process, real time (high) or idle (low).",
        (table,) if rows else (),
        terminal=True,
    )
