# SPDX-License-Identifier: GPL-2.0-only
"""Every script of tests/guest in a guest: it passes, and the kernel has no complaints.

The head of a script may have these lines:

`# modules: cpq`: Sluice's modules that it loads, besides simdisk and their dependencies
`# contrib: sqlite`: what is built in these folders of contrib
`# kernels: 6.12`: only on these kernels
`# each`: on each kernel also in make check, else only on the default one
`# schedulers: mq-prio cpq`: with each of them, as $SCHEDULER
`# cpus: 2`
`# limit: 3600`: CPU seconds
`# full`: long
`# full: afq`: long with these schedulers, whose code for it is shared with others
`# dmesg: PATTERN`: complaints that the test provokes
`# debug`: a deadlock is possible, so also on the debug kernel, which is long
`# nvme: wrr=on`: with a controller of these properties, on a QEMU that is built for it; long
`# race: too`: also off the virtual clock, with $RACE, on RACE_CPUS CPUs that really race; on the debug kernel only so
`# race: only`: only so; both are long. A script races on the kernel that reports data races and on one stock kernel,
the next script on the next one. Where it has several schedulers, each of them races on one of all these kernels.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab import cache, contrib, iolat, job, kernels, modules, passes, stack
from lab.image import GUEST

# CPU seconds that a guest needs with a kernel built here, for one with another kernel.
DEBUG_SLOWER = 6
# CPUs of a guest off the virtual clock: each is a thread, and uses CPU seconds also while it waits for another.
RACE_CPUS = 4
LAB = GUEST.parent
WITH = LAB / "host/with.sh"
# The commands for a host's disks, as a guest runs them: python3 -m lab.host.cli
HOST = {
    f"lab/{path.relative_to(LAB)}": path.read_bytes()
    for path in (LAB / "__init__.py", LAB / "errors.py", *sorted((LAB / "host").glob("*.py")))
}
SCRIPTS = sorted((Path(__file__).parent / "guest").glob("*.sh"))
# A data race in KCSAN's report, from its title to the line below it. A stack's first line is the access, with its
# module at the end.
DATA_RACE = re.compile(r"^.*BUG: KCSAN: .*\n(?:.*\n)*?(?:.*={60}$|\Z)", re.MULTILINE)
# A script on that kernel doesn't see the races: complaints() judges.
UNSEEN = 'dmesg() { command dmesg "$@" | grep -v "BUG: KCSAN"; }'
# Since 6.9 a task that is scheduled out takes one flag (PF_BLOCK_TS) from its own: that is no race.
OWN_FLAGS = r"(?s:.*)race at unknown origin(?s:.*)value changed: 0x2(\w{7}) -> 0x0\1\n"
OURS = re.compile(
    rf"\A(?!{OWN_FLAGS})(?s:.*?) by (?:task|interrupt).*:\n.* \[({'|'.join(modules.OBJECTS).replace('-', '_')})\]"
)


@dataclass(frozen=True)
class Head:
    """The settings in the head of a script."""

    modules: tuple[str, ...] = ()
    contrib: tuple[str, ...] = ()
    kernels: tuple[str, ...] = kernels.names()
    schedulers: tuple[str, ...] = ()
    cpus: int = 1
    limit: float = job.CPU_LIMIT_S
    each: bool = False
    full: bool = False
    full_with: tuple[str, ...] = ()
    debug: bool = False
    dmesg: str = ""
    nvme: str = ""
    race: str = ""
    stack: bool = False


def head(text: str) -> Head:
    """Read the head of a script."""
    named = "modules|contrib|kernels|schedulers|cpus|limit|full|dmesg|nvme|race"
    said = dict(re.findall(rf"^# ({named}): (.+)$", text, re.MULTILINE))
    words = re.findall(r"^# (each|full|debug|stack)$", text, re.MULTILINE)
    return Head(
        tuple(said.get("modules", "").split()),
        tuple(said.get("contrib", "").split()),
        tuple(said.get("kernels", " ".join(kernels.names())).split()),
        tuple(said.get("schedulers", "").split()),
        int(said.get("cpus", 1)),
        float(said.get("limit", job.CPU_LIMIT_S)),
        "each" in words,
        "full" in words,
        tuple(said.get("full", "").split()),
        "debug" in words,
        said.get("dmesg", ""),
        said.get("nvme", ""),
        said.get("race", ""),
        "stack" in words,
    )


def complaints(dmesg: str, expected: str = "") -> list[str]:
    """Lines of a kernel log that mean trouble, except those that match `expected` and races outside our code."""
    found = re.search(r"^TROUBLE='(.*)'$", (GUEST / "lib.sh").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    judged = DATA_RACE.sub(lambda report: report[0] if OURS.search(report[0]) else "", dmesg)
    trouble = [line for line in judged.splitlines() if re.search(found[1], line)]
    return [line for line in trouble if not (expected and re.search(expected, line))]


def is_long(told: Head, kernel: str, race: bool = False, scheduler: str = "") -> bool:
    """Whether only check-full runs it."""
    if told.full or scheduler in told.full_with or told.nvme or race:
        return True
    return not (kernel == kernels.DEFAULT or (told.each and kernel in kernels.names()))


def settings(told: Head, turn: int = 0) -> list[tuple[str, bool]]:
    """The kernels that a script asks for, each with whether the guest's CPUs race; `turn` chooses where they do."""
    usual = [(kernel, False) for kernel in told.kernels if told.race != "only"]
    debug = [(kernels.DEBUG.name, bool(told.race))] if told.debug else []
    if len(told.schedulers) > 1:
        every = [*told.kernels, kernels.KCSAN.name]
        racing = [every[turn % len(every)]]
    else:
        racing = [told.kernels[turn % len(told.kernels)], kernels.KCSAN.name]
    return [*usual, *debug, *((kernel, True) for kernel in racing if told.race)]


def cases() -> list[object]:
    """Each script with each kernel and scheduler that it asks for, on the virtual clock, off it, or both."""
    marks = {script: head(script.read_text(encoding="utf-8")) for script in SCRIPTS}
    racing = [script for script, told in marks.items() if told.race]
    turns = {
        script: turn
        for several in (False, True)
        for turn, script in enumerate(one for one in racing if several == (len(marks[one].schedulers) > 1))
    }
    return [
        pytest.param(
            script,
            kernel,
            scheduler,
            race,
            id="-".join(filter(None, (script.stem, scheduler, kernel, "race" if race else ""))),
            marks=[
                pytest.mark.limit(told.limit),
                *([pytest.mark.full] if is_long(told, kernel, race, scheduler) else []),
                *([pytest.mark.late] if kernel not in kernels.names() or told.limit > job.CPU_LIMIT_S else []),
                *([pytest.mark.alone] if race else []),
            ],
        )
        for script, told in marks.items()
        for turn, scheduler in enumerate(told.schedulers or ("",), turns.get(script, 0))
        for kernel, race in settings(told, turn)
    ]


def make_job(script: Path, kernel: str, scheduler: str = "", race: bool = False) -> job.Job:
    """A script's job, with the modules and programs that it needs and no others; off the virtual clock, with `race`."""
    text = script.read_text(encoding="utf-8")
    told = head(text)
    files = modules.needed(modules.build(kernel), ["simdisk", *told.modules, *filter(None, [scheduler])])
    if script.name.startswith("iolat-") or told.stack:
        files |= iolat.build()
    if told.stack:
        files |= stack.files(kernel)
    for name in told.contrib:
        files |= contrib.build(name)
    if script.name == "with.sh":
        files["with.sh"] = WITH.read_bytes()
    if told.nvme:
        files |= HOST
    limit = told.limit * (1 if kernel in kernels.names() else DEBUG_SLOWER) * (RACE_CPUS if race else 1)
    unseen = UNSEEN if kernel == kernels.KCSAN.name else ""
    said = (f"SCHEDULER={scheduler}" if scheduler else "", "RACE=1" if race else "", unseen)
    return job.Job(
        kernel, "\n".join([*filter(None, said), text]), files, RACE_CPUS if race else told.cpus, limit, told.nvme, race
    )


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(("script", "kernel", "scheduler", "race"), cases())
def test_guest(script: Path, kernel: str, scheduler: str, race: bool) -> None:
    """Run one script in one guest. Guests whose CPUs race run one at a time: side by side their CPUs mostly spin."""
    told = head(script.read_text(encoding="utf-8"))
    one = make_job(script, kernel, scheduler, race)
    with cache.locked(cache.root() / "race") if race else nullcontext():
        outcome = passes.outcome(one)
    said = {name: outcome.files[name].decode(errors="replace")[-8000:] for name in ("stdout", "stderr")}
    if "skip" in outcome.files:
        pytest.skip(outcome.files["skip"].decode().strip())
    told_all = f"{said['stdout']}\n{said['stderr']}\n{outcome.dmesg[-8000:]}"
    assert outcome.status == 0, f"{told_all}\n   next: {job.repeat(one)}"
    assert not complaints(outcome.dmesg, told.dmesg), f"{told_all}\n   next: {job.repeat(one)}"


def test_head_is_read() -> None:
    text = "#!/bin/sh\n# modules: afq wrr\n# contrib: sqlite\n# kernels: 6.1\n# schedulers: bfq cpq\n# cpus: 2\n"
    text += "# limit: 3600\n# each\n# full\n# full: cpq\n# debug\n# dmesg: I/O error\n# nvme: wrr=on\n# race: too\n"
    lists = ("afq", "wrr"), ("sqlite",), ("6.1",), ("bfq", "cpq")
    wanted = Head(*lists, 2, 3600.0, True, True, ("cpq",), True, "I/O error", "wrr=on", "too")
    assert head(text) == wanted
    assert head("echo") == Head()


def test_other_kernels_are_long_but_for_what_is_for_each() -> None:
    debug = kernels.DEBUG.name
    assert [is_long(Head(), name) for name in ("6.1", "6.12", debug)] == [True, False, True]
    assert [is_long(Head(each=True, debug=True), name) for name in ("6.1", "6.12", debug)] == [False, False, True]
    assert is_long(Head(full=True, each=True), "6.12")
    assert is_long(Head(nvme="wrr=on"), "6.12")
    assert [is_long(Head(full_with=("cpq",)), "6.12", scheduler=name) for name in ("bfq", "cpq")] == [False, True]


def test_what_races_is_long() -> None:
    assert [is_long(Head(race="too"), "6.12", race) for race in (False, True)] == [False, True]


def test_complaints_are_found_and_excused() -> None:
    log = "[1.0] WARNING: CPU: 0 at x.c:1\n[1.1] all well\n[1.2] I/O error, dev simdisk-d0, sector 0\n"
    assert len(complaints(log)) == 2
    assert complaints(log, "I/O error") == ["[1.0] WARNING: CPU: 0 at x.c:1"]


def test_a_data_race_counts_where_the_access_is_ours() -> None:
    line = f"[1.0] {'=' * 66}\n"
    log = f"{line}[1.0] BUG: KCSAN: data-race in a / b\n\n[1.0] write to 0xff of 8 bytes by task 1 on cpu 0:\n"
    log += "[1.0]  a+0x1/0x2%s\n[1.0]  c+0x1/0x2 [simdisk]\n\n[1.0] read to 0xff of 8 bytes by interrupt on cpu 1:\n"
    log += f"[1.0]  b+0x1/0x2\n{line}"
    assert complaints(log % "") == []
    assert complaints(log % " [mq_prio]") == ["[1.0] BUG: KCSAN: data-race in a / b"]


def test_a_task_does_not_race_with_itself_for_its_flags() -> None:
    line = f"[1.0] {'=' * 66}\n"
    log = f"{line}[1.0] BUG: KCSAN: data-race in a [simdisk]\n\n[1.0] race at unknown origin, with read to 0xff of 4"
    log += " bytes by task 1 on cpu 0:\n[1.0]  a [simdisk]\n\n[1.0] value changed: 0x%s0000040 -> 0x00000040\n\n" + line
    assert complaints(log % "2") == []
    assert complaints(log % "6") == ["[1.0] BUG: KCSAN: data-race in a [simdisk]"]


def test_a_script_that_races_does_so_where_data_races_are_reported() -> None:
    told = Head(kernels=("6.12",), race="too", debug=True)
    debug, kcsan = kernels.DEBUG.name, kernels.KCSAN.name
    assert settings(told) == [("6.12", False), (debug, True), ("6.12", True), (kcsan, True)]
    stock = replace(told, kernels=("6.1", "6.12"), race="only", debug=False)
    assert [settings(stock, turn)[0] for turn in (0, 1, 2)] == [("6.1", True), ("6.12", True), ("6.1", True)]
    assert settings(stock, 1)[1:] == [(kcsan, True)]
    several = replace(told, kernels=("6.1", "6.12"), schedulers=("cpq", "wrr"), debug=False)
    assert settings(several, 1) == [("6.1", False), ("6.12", False), ("6.12", True)]
    assert settings(replace(several, race="only"), 2) == [(kcsan, True)]
    assert settings(Head(kernels=("6.12",), debug=True)) == [("6.12", False), (debug, False)]


def test_every_script_races_and_every_scheduler_on_every_kernel() -> None:
    racing = {(p.values[0], p.values[1], p.values[2]) for p in cases() if p.values[3]}  # type: ignore[attr-defined]
    for script in SCRIPTS:
        told = head(script.read_text(encoding="utf-8"))
        if told.race:
            assert {kernel for name, kernel, _ in racing if name == script} >= {kernels.KCSAN.name}
            assert {kernel for name, kernel, _ in racing if name == script} & {*told.kernels}
            assert {scheduler for name, _, scheduler in racing if name == script} == set(told.schedulers or ("",))
    every = {*kernels.names(), kernels.KCSAN.name}
    single = [kernel for name, kernel, scheduler in racing if not scheduler]
    assert {*single} >= every
    for scheduler in {scheduler for _, _, scheduler in racing if scheduler}:
        assert {kernel for _, kernel, name in racing if name == scheduler} >= every


def test_the_storm_has_every_scheduler() -> None:
    heads = [head(script.read_text(encoding="utf-8")) for script in SCRIPTS if script.name.startswith("elevator-")]
    storm = (SCRIPTS[0].parent / "elevator-storm.sh").read_text(encoding="utf-8")
    ours = re.search(r'^OURS="(.*)"$', storm, re.MULTILINE)
    assert ours
    assert set(head(storm).modules) == set(ours[1].split()) >= {name for told in heads for name in told.schedulers}
