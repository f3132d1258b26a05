# SPDX-License-Identifier: GPL-2.0-only
"""The schedulers that disks get at each boot: the udev rules that `sluice use --persist` writes.

Imports only Python's standard library, so that it runs on any host.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, UsageError
from lab.host import disk as disks
from lab.host.disk import Disk, content
from lab.host.doctor import SPLIT_LEVEL
from lab.host.system import OWN_RULES

RULES = f"etc/udev/rules.d/{OWN_RULES}"
"""After 60-persistent-storage.rules, which finds out the properties below. Rules of a distribution come before too."""
HEAD = """\
# Written by "sluice use --persist". Back to the kernel's default: sluice use --default
"""
# Only when a disk appears: a later choice by hand stays, whatever other events come.
LINE = (
    'ACTION=="add", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", {match}=="{value}", '
    'ATTR{{queue/scheduler}}="{scheduler}"'
)
# The split-level schedulers know XFS only if it was loaded before. At a boot it may not be mounted yet.
XFS = 'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", IMPORT{builtin}="kmod load xfs"'
KNOB = ', ATTR{{queue/iosched/{knob}}}="{value}"'
PARSE = re.compile(
    r'.*ENV\{DEVTYPE\}=="disk", (?P<match>ENV\{\w+\}|KERNEL)=="(?P<value>[^"]*)", '
    r'ATTR\{queue/scheduler\}="(?P<scheduler>[^"]+)"(?P<knobs>.*)'
)
# udev's properties that tell one disk from all others, the best first: the drive's own number, its maker's, its place.
# ID_WWN has only the first half of some numbers, which all volumes of a disk array may share.
IDENTITIES = ("ID_WWN_WITH_EXTENSION", "ID_WWN", "ID_SERIAL", "ID_PATH")


@dataclass(frozen=True)
class Rule:
    """A line of the file: what a disk is known by (a property of udev's, or KERNEL), and what it gets."""

    match: str
    value: str
    scheduler: str
    knobs: Mapping[str, str]

    def __str__(self) -> str:
        line = LINE.format(match=self.match, value=self.value, scheduler=self.scheduler)
        return line + "".join(KNOB.format(knob=knob, value=value) for knob, value in self.knobs.items())


def rules(root: Path = Path("/")) -> list[Rule]:
    """The rules of the file, none if there is no file; LabError for a line that isn't ours."""
    found = []
    for line in (content(root / RULES) or "").splitlines():
        if line.startswith("#") or line in ("", XFS):
            continue
        rule = _parse(line)
        if str(rule) != line:
            next_step = f"mv /{RULES} /etc/udev/rules.d/71-own.rules   which keeps it, and repeat this command"
            raise LabError(f"/{RULES} has a line that sluice didn't write: {line}", next_step)
        found += [rule] if rule else []
    return found


def _parse(line: str) -> Rule | None:
    parsed = PARSE.fullmatch(line)
    if not parsed:
        return None
    knobs = dict(re.findall(r'ATTR\{queue/iosched/(\w+)\}="([^"]*)"', parsed["knobs"]))
    return Rule(parsed["match"], parsed["value"], parsed["scheduler"], knobs)


@contextmanager
def locked(root: Path = Path("/")) -> Iterator[None]:
    """No other process changes the rules meanwhile."""
    try:
        handle = os.open(root / "sys/block", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LabError(f"/sys/block can't be opened: {error.strerror}", "mount -t sysfs sysfs /sys") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write(new: Sequence[Rule], root: Path = Path("/")) -> None:
    """Replace the file, or remove an empty one, and have udev read it; a crash leaves the old file or the new one."""
    path = root / RULES
    part = path.with_suffix(".part")
    has_xfs = "xfs" in (content(root / "proc/filesystems") or "").split() or XFS in (content(path) or "").splitlines()
    first = [XFS] if has_xfs and any(rule.scheduler in SPLIT_LEVEL for rule in new) else []
    try:
        if new:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("w", encoding="utf-8") as handle:
                os.fchmod(handle.fileno(), 0o644)
                handle.write(HEAD + "".join(f"{line}\n" for line in (*first, *new)))
                handle.flush()
                os.fsync(handle.fileno())
            part.replace(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise LabError(f"{path} can't be written: {error.strerror}", f"df {path.parent}   and ls -ld it") from error
    if root == Path("/"):
        with suppress(FileNotFoundError):
            subprocess.run(["udevadm", "control", "--reload"], capture_output=True, check=False)


def identity(disk: Disk, root: Path = Path("/")) -> tuple[str, str]:
    """What a rule knows a disk by, and its value: a property that no other disk has, else the kernel's name.

    UsageError for a disk that udev doesn't announce once it has a queue, so that no rule gives it a scheduler.
    """
    if not disk.number or (root / disk.folder.lstrip("/") / "dm").exists():
        raise UsageError(f"udev can't give {disk.name} a scheduler at boot", "the same without --persist, by a unit")
    mine = _properties(disk.number, root)
    others = [_properties(content(folder / "dev") or "", root) for folder in disks.folders(root)]
    for name in IDENTITIES:
        value = _pattern(mine.get(name, ""))
        if value and [_pattern(other.get(name, "")) for other in others].count(value) == 1:
            return f"ENV{{{name}}}", value
    return "KERNEL", disk.name


def of(disk: Disk, found: Sequence[Rule], root: Path = Path("/")) -> Rule | None:
    """The last rule that a disk gets its scheduler from; None if there is none."""
    mine = {f"ENV{{{name}}}": _pattern(value) for name, value in _properties(disk.number, root).items()}
    mine["KERNEL"] = disk.name
    return next((rule for rule in reversed(found) if mine.get(rule.match) == rule.value), None)


def _properties(number: str, root: Path) -> dict[str, str]:
    """What udev knows of a device: its database has a line E:NAME=VALUE for each property."""
    text = content(root / f"run/udev/data/b{number}") or ""
    return dict(re.findall(r"^E:(\w+)=(.*)$", text, re.MULTILINE))


def _pattern(value: str) -> str:
    """A value as a rule matches it: what a rule would read in another way is any character."""
    return re.sub(r"[^\w.:+-]", "?", value)


def phrase(rule: Rule | None) -> str:
    """The scheduler and the knobs at the next boot, in words."""
    if not rule:
        return "the kernel's default"
    return rule.scheduler + "".join(f", {knob} {value}" for knob, value in rule.knobs.items())
