# SPDX-License-Identifier: GPL-2.0-only
"""`sluice use`: gives disks of this host a scheduler, now and at each boot. Either all of it is done, or nothing.

Imports only Python's standard library, so that it runs on any host.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.errors import LabError, UsageError
from lab.host import boot, system
from lab.host import disk as disks
from lab.host.disk import Disk, content

SCHEMA = 1
# What modprobe says of a module that Secure Boot refuses.
REFUSED = ("Key was rejected", "Required key not available", "Operation not permitted")


@dataclass(frozen=True)
class Choice:
    """A scheduler for some disks: "" is the kernel's default for each. `persist`: at each boot too."""

    scheduler: str
    disks: Sequence[str]
    knobs: Mapping[str, str] = field(default_factory=dict)
    persist: bool = False


@dataclass(frozen=True)
class Done:
    """A disk's schedulers before and after, and what it gets at the next boot (None: the kernel's default)."""

    disk: str
    before: str
    scheduler: str
    knobs: Mapping[str, str]
    next_boot: boot.Rule | None


def choose(choice: Choice, root: Path = Path("/")) -> list[Done]:
    """Do what a choice says; on any error everything is as before."""
    if root == Path("/") and os.geteuid():
        raise LabError("a disk's scheduler is chosen by root", "sudo ./sluice use …")
    names = list(
        dict.fromkeys(disks.find(name, root, f"use {choice.scheduler or '--default'}") for name in choice.disks)
    )
    with boot.locked(root):
        return _choose(choice, [disks.read(name, root) for name in names], root)


def _choose(choice: Choice, before: Sequence[Disk], root: Path) -> list[Done]:
    rules = boot.rules(root)
    new = _rules_after(choice, before, rules, root)
    changed: list[Disk] = []
    try:
        for disk in before:
            wanted = choice.scheduler or default(disk, root)
            if wanted not in disks.listed_in(disk.queue["scheduler"]):
                load(wanted, root)
            changed.append(disk)
            _set(disk, wanted, choice.knobs, root)
        if new != rules:
            boot.write(new, root)
    except BaseException:
        for disk in changed:
            restore(disk, root)
        if boot.rules(root) != rules:
            boot.write(rules, root)
        raise
    return [_done(disk, choice, new, root) for disk in before]


def _rules_after(choice: Choice, before: Sequence[Disk], rules: Sequence[boot.Rule], root: Path) -> list[boot.Rule]:
    """The udev rules when all is done. A disk whose scheduler changes for now alone keeps its rule."""
    if choice.scheduler and not choice.persist:
        return list(rules)
    kept = [rule for rule in rules if not any(boot.of(disk, [rule], root) for disk in before)]
    if not choice.scheduler:
        return kept
    return kept + [_rule(disk, choice, boot.of(disk, rules, root), root) for disk in before]


def _rule(disk: Disk, choice: Choice, old: boot.Rule | None, root: Path) -> boot.Rule:
    """A disk's rule, with the knobs that the old one has for the same scheduler."""
    knobs = old.knobs if old and old.scheduler == choice.scheduler else {}
    return boot.Rule(*boot.identity(disk, root), choice.scheduler, {**knobs, **choice.knobs})


def default(disk: Disk, root: Path) -> str:
    """The scheduler that the kernel gives a new disk: mq-deadline to one with a single queue of tags, else none."""
    flags = content(root / f"sys/kernel/debug/block/{disk.name}/hctx0/flags") or ""
    single = disk.hw_queues == 1 or "TAG_HCTX_SHARED" in flags
    return "mq-deadline" if single and "NO_SCHED" not in flags else "none"


def load(name: str, root: Path) -> None:
    """Have the kernel load a scheduler's module; LabError says why it can't."""
    # A shell of "su" has no folder in PATH that has modprobe.
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    line = ["env", f"PATH={path}", "LC_ALL=C", "modprobe", f"{name}-iosched"]
    found = subprocess.run(line, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return
    said = found.stderr.strip().removeprefix("modprobe: ").partition("\n")[0]
    if any(text in said for text in REFUSED):
        for why in system.secure_boot([name], root):
            raise LabError(why.what, why.type)
    if "not found" not in said:
        raise LabError(f"the module of {name} can't be loaded: {said}", "dmesg | tail")
    kernel = system.release(root)
    if name in system.OURS:
        raise LabError(f"{name} is not built for the running kernel, {kernel}", system.build_line(kernel, root))
    raise UsageError(f"there is no scheduler {name} in kernel {kernel}", "./sluice status   lists those of each disk")


def _set(disk: Disk, scheduler: str, knobs: Mapping[str, str], root: Path) -> None:
    """Give a disk a scheduler and knobs of it."""
    queue = root / disk.folder.lstrip("/") / "queue"
    if scheduler != disk.scheduler:
        _write(queue / "scheduler", scheduler, f"{disk.name} can't have the scheduler {scheduler}", "dmesg | tail")
        if disks.scheduler(queue.parent) != scheduler:
            raise LabError(f"{disk.name} doesn't take the scheduler {scheduler}", f"cat {queue}/scheduler")
    for knob, value in knobs.items():
        there = sorted(path.name for path in (queue / "iosched").glob("*"))
        if knob not in there:
            known = f"{scheduler} has: {', '.join(there)}" if there else f"{scheduler} has none"
            raise UsageError(f"{scheduler} has no knob {knob}", known)
        about = f"{disk.name}: {scheduler} refuses {knob}={value}"
        _write(queue / "iosched" / knob, value, about, f"cat {queue}/iosched/{knob}   and man 7 {scheduler}")


def _write(path: Path, text: str, about: str, next_step: str) -> None:
    """Write a file of sysfs in one call, as the kernel wants it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise LabError(f"{about}: {error.strerror}", next_step) from error


def restore(disk: Disk, root: Path) -> None:
    """Give a disk the scheduler and the knobs that it had. A change of the scheduler also resets nr_requests."""
    queue = root / disk.folder.lstrip("/") / "queue"
    files = {"scheduler": disk.scheduler, "nr_requests": disk.queue.get("nr_requests", "")}
    files |= {f"iosched/{knob}": value for knob, value in disk.knobs.items()}
    for name, value in files.items():
        if content(queue / name) not in (None, value):
            with suppress(LabError):
                _write(queue / name, value, "", "")


def _done(before: Disk, choice: Choice, rules: Sequence[boot.Rule], root: Path) -> Done:
    now, rule = disks.read(before.name, root), boot.of(before, rules, root)
    knobs = {knob: now.knobs[knob] for knob in choice.knobs}
    return Done(now.name, before.scheduler, now.scheduler, knobs, rule)


def text(found: Sequence[Done]) -> str:
    """What was done, for people."""
    lines = []
    for one in found:
        knobs = "".join(f", {knob} {value}" for knob, value in one.knobs.items())
        was = f" (was {one.before})" if one.before != one.scheduler else ""
        lines.append(f"{one.disk}: {one.scheduler}{knobs}{was}; at the next boot {boot.phrase(one.next_boot)}")
    return "\n".join(lines) if lines else "no disk here has a scheduler of Sluice's, now or at the next boot"


def data(found: Sequence[Done]) -> str:
    """The same for programs."""
    rows = [
        {
            "disk": one.disk,
            "before": one.before,
            "scheduler": one.scheduler,
            "knobs": one.knobs,
            "next_boot": asdict(one.next_boot) if one.next_boot else None,
        }
        for one in found
    ]
    return json.dumps({"schema": SCHEMA, "disks": rows}, indent=1)


def changed_disks(root: Path = Path("/")) -> list[str]:
    """The disks that have a scheduler of ours, now or at the next boot."""
    rules = boot.rules(root)
    found = [disks.read(folder.name, root) for folder in disks.folders(root)]
    return [disk.name for disk in found if disk.scheduler in system.OURS or boot.of(disk, rules, root)]


def run(choice: Choice, as_json: bool, root: Path = Path("/")) -> int:
    """Choose, and print what was done; LabError if it couldn't be."""
    if not (choice.disks or choice.scheduler):
        choice = Choice("", changed_disks(root))
    found = choose(choice, root)
    print((data if as_json else text)(found))
    return 0
