# SPDX-License-Identifier: GPL-2.0-only
"""What decides whether this host's disks keep their schedulers: installed kernels, Secure Boot, TuneD, udev.

Reads files alone. Imports only Python's standard library, so that it runs on any host.
"""

from __future__ import annotations

import configparser
import lzma
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.host.disk import content
from lab.host.doctor import SPLIT_LEVEL

OURS = (*SPLIT_LEVEL, "scs-token", "mq-prio", "cpq", "wrr")
"""The schedulers of Sluice."""
# The schedulers whose module has another name.
MODULES = {"scs-token": "split-token"}
# What the package installs to build modules, and where that leaves why a kernel has none.
PACKAGED = "usr/lib/sluice/modules"
REASON = "var/lib/sluice/{kernel}/reason"
MOK = "var/lib/dkms/mok.pub"
ENROL = f"mokutil --import /{MOK}   then restart, choose Enroll MOK, and give the password"
EFI = "sys/firmware/efi/efivars"
SECURE_BOOT = f"{EFI}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
ENROLLED = f"{EFI}/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
SIGNED = b"~Module signature appended~\n"
# The folders of udev's rules, each before those that replace its files.
UDEV = ("usr/lib/udev/rules.d", "run/udev/rules.d", "etc/udev/rules.d")
# An assignment, not a comparison.
RIVAL = re.compile(r"ATTR\{queue/scheduler\}\s*=[^=]")
OWN_RULES = "70-sluice.rules"
TUNED = ("etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned")


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the line to type."""

    what: str
    type: str


def release(root: Path) -> str:
    """The running kernel's release."""
    return content(root / "proc/sys/kernel/osrelease") or "unknown"


def kernels(root: Path) -> list[str]:
    """The releases of the kernels that are installed; a folder that a removed one has left is none."""
    return sorted(path.parent.name for path in (root / "lib/modules").glob("*/kernel"))


def module(scheduler: str, kernel: str, root: Path) -> Path | None:
    """The file of a scheduler's module for a kernel, as depmod found it; None if there is none."""
    name = MODULES.get(scheduler, scheduler)
    listed = content(root / "lib/modules" / kernel / "modules.dep") or ""
    found = re.search(rf"^(?P<path>\S*/)?(?P<file>{re.escape(name)}\.ko(\.\w+)?):", listed, re.MULTILINE)
    return root / "lib/modules" / kernel / f"{found['path'] or ''}{found['file']}" if found else None


def reason(kernel: str, root: Path) -> str | None:
    """Why the package built no module for a kernel, or not each; None if it did, or another way was taken."""
    return content(root / REASON.format(kernel=kernel)) or None


def build_line(kernel: str, root: Path) -> str:
    """The line that builds our modules for a kernel."""
    if (root / PACKAGED).exists():
        return f"/{PACKAGED} {kernel}"
    return f"make -C kernel install K={kernel}   in the sources of Sluice"


def problems(wanted: Iterable[str], root: Path) -> Iterator[Problem]:
    """What keeps disks from getting these schedulers at the next boot."""
    ours = [name for name in dict.fromkeys(wanted) if name in OURS]
    for kernel in kernels(root):
        missing = [name for name in ours if not module(name, kernel, root)]
        if missing:
            why = f": {noted}" if (noted := reason(kernel, root)) else ""
            yield Problem(f"kernel {kernel} has no module for {', '.join(missing)}{why}", build_line(kernel, root))
    yield from secure_boot(ours, root)
    yield from _tuned(ours, root)
    yield from _other_rules(ours, root)


def _other_rules(ours: Sequence[str], root: Path) -> Iterator[Problem]:
    """Rules of another hand that set a scheduler, perhaps at each event of a disk; those in /etc replace namesakes."""
    names: dict[str, Path] = {}
    for place in UDEV:
        names |= {path.name: path for path in (root / place).glob("*.rules")}
    for name, path in sorted(names.items()):
        lines = (content(path) or "").splitlines()
        if ours and name != OWN_RULES and any(RIVAL.search(line) for line in lines if not line.startswith("#")):
            yield Problem(
                f"/{path.relative_to(root)} sets schedulers too, perhaps of the same disks",
                f"grep queue/scheduler /{path.relative_to(root)}",
            )


def secure_boot(ours: Sequence[str], root: Path) -> Iterator[Problem]:
    """Modules that Secure Boot refuses: unsigned ones, and those that are signed with a key that isn't enrolled."""
    # The first four bytes are the variable's attributes.
    if _bytes(root / SECURE_BOOT)[4:] != b"\1":
        return
    files = [path for name in ours if (path := module(name, release(root), root))]
    unsigned = [path.name for path in files if not _plain(path).endswith(SIGNED)]
    key = _bytes(root / MOK)
    if unsigned:
        yield Problem(
            f"Secure Boot refuses modules that aren't signed: {', '.join(unsigned)}",
            "kmodsign sha512 KEY CERTIFICATE MODULE   with a key that the machine knows (mokutil --import)",
        )
    elif files and key and key not in _bytes(root / ENROLLED):
        yield Problem("Secure Boot refuses our modules: the key that signs them isn't enrolled", ENROL)


def _bytes(path: Path) -> bytes:
    with suppress(OSError):
        return path.read_bytes()
    return b""


def _plain(path: Path) -> bytes:
    """A module's file, decompressed if it is with xz, as DKMS does it."""
    with suppress(lzma.LZMAError):
        return lzma.decompress(_bytes(path)) if path.suffix == ".xz" else _bytes(path)
    return b""


def _tuned(ours: Sequence[str], root: Path) -> Iterator[Problem]:
    """TuneD sets a scheduler after udev did, if its profile has one."""
    profile = content(root / "etc/tuned/active_profile")
    if not ours or not profile or not (root / "run/tuned/tuned.pid").exists():
        return
    units: dict[str, tuple[str, Path]] = {}
    for name in profile.split():
        _merge(units, name, root)
    rivals = {unit: found for unit, found in units.items() if found[0] not in ours}
    if rivals:
        chosen, path = next(iter(rivals.values()))
        edit = f"editor /{path.relative_to(root)}   to change the line elevator={chosen}"
        drops = set(rivals) == {"disk"} and (root / TUNED[2] / "sluice/tuned.conf").exists()
        yield Problem(
            f"TuneD is at work, and its profile {profile} gives disks the scheduler {chosen} after udev did",
            f"tuned-adm profile {profile} sluice" if drops else f"{edit}, and tuned-adm profile {profile}",
        )


def _merge(units: dict[str, tuple[str, Path]], profile: str, root: Path, depth: int = 8) -> None:
    """Add the schedulers that a TuneD profile gives disks, each with its file, to those of profiles before, by unit.

    As TuneD merges them: included profiles come first, and a unit drops or replaces what one of its name had.
    """
    path = next((path for place in TUNED if (path := root / place / profile / "tuned.conf").exists()), None)
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    with suppress(configparser.Error):
        parser.read_string(content(path) or "" if path else "")
    included = parser.get("main", "include", fallback="") or ""
    for name in re.split(r"[\s,;]+", included) if depth else []:
        if name:
            _merge(units, name, root, depth - 1)
    for name in parser.sections():
        unit = parser[name]
        if "elevator" in re.split(r"\s*[,;]\s*", unit.get("drop") or "") or unit.get("replace") in ("1", "true"):
            units.pop(name, None)
        if unit.get("type", name).startswith("disk") and unit.get("elevator"):
            units[name] = (unit["elevator"], path or Path())
