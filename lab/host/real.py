# SPDX-License-Identifier: GPL-2.0-only
"""A real disk of this host on which experiments run: whether it may be used, and one run, in namespaces of its own.

Imports only Python's standard library, so that it runs on any host; fio does the I/O.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, UsageError
from lab.host import disk as disks
from lab.host import use
from lab.host.disk import Disk, content
from lab.host.doctor import SPLIT_LEVEL

# The programs that a run needs, each with its package in Debian.
PROGRAMS = {"fio": "fio", "modprobe": "kmod", "python3": "python3", "setpriv": "util-linux", "wipefs": "util-linux"}
# A shell of "su" has no folder in PATH that has modprobe.
SBIN = ":/usr/sbin:/sbin"
# The script sees the host's files, with /job, /out and /tmp of its own. What it mounts and starts ends with it.
BOX = r"""
mount -t tmpfs -o mode=755 sluice "$1"
mkdir "$1/proc" "$1/tmp" "$1/job" "$1/out"
chmod 1777 "$1/tmp"
mount -t proc proc "$1/proc"
for top in /*; do
	if [ -e "$1$top" ]; then
		continue
	elif [ -L "$top" ]; then
		cp -P "$top" "$1"
	elif [ -d "$top" ]; then
		mkdir "$1$top"
		mount --rbind "$top" "$1$top"
	fi
done
mount --bind "$2" "$1/job"
mount --bind "$3" "$1/out"
exec chroot "$1" sh -c 'cd /job && exec sh -eu ./script >/out/stdout 2>/out/stderr </dev/null'
"""
# All of it ends with this process, also if that is killed.
SPACES = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"),
)


@dataclass(frozen=True)
class Target:
    """A disk to measure: what it was when it was chosen, what it is in words, and whether its content is lost.

    `identity` tells it from another disk that gets its name later.
    """

    disk: Disk
    about: str
    writes: bool = False
    destroy: bool = False
    identity: str = ""

    @property
    def path(self) -> str:
        """Its device."""
        return f"/dev/{self.disk.name.replace('!', '/')}"

    @property
    def profile(self) -> str:
        """The simulated disk whose cells of an experiment it takes the place of."""
        if self.disk.rotating:
            return "hdd"
        return {"nvme": "nvme", "mmcb": "emmc"}.get(self.disk.name[:4], "ssd")


def target(device: str, writes: bool, destroy: str) -> Target:
    """The disk with this path, if it may be measured; with `writes` its content is lost.

    A disk that is in use is never written to; one that holds something, only if `destroy` repeats its path.
    UsageError or LabError says what is in the way.
    """
    if SBIN not in os.environ.get("PATH", ""):
        os.environ["PATH"] = os.environ.get("PATH", "") + SBIN
    try:
        name = disks.find(device, loops=True)
    except UsageError as error:
        raise UsageError(
            error.what, "./sluice run EXPERIMENT --device /dev/DISK   with one that lsblk shows"
        ) from error
    found = Target(disks.read(name), _about(name), writes, bool(destroy), _identity(name))
    path = found.path
    if str(Path(device).resolve()) != path:
        raise UsageError(f"{device} is a partition, and a scheduler has the whole disk", f"--device {path}")
    if destroy and str(Path(destroy).resolve()) != path:
        raise UsageError(f"--destroy {destroy} is another disk than --device {device}", f"--destroy {device}")
    if os.geteuid():
        raise LabError("a disk's scheduler is changed by root", f"sudo ./sluice run … --device {device}")
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if missing:
        raise LabError(f"a run on a disk needs {', '.join(missing)}", f"apt-get install {' '.join(missing)}")
    if writes:
        _refuse_use(name, path)
        held = "" if destroy else _content(path)
        if held:
            raise UsageError(f"{path} holds something ({held}), which would be lost", f"--destroy {path}   to lose it")
    return found


def _about(name: str) -> str:
    """A disk's model and size."""
    folder = Path("/sys/block") / name
    size = int(content(folder / "size") or 0) * 512 / 1e9
    return f"/dev/{name}, {content(folder / 'device/model') or 'no model name'}, {size:.3g} GB"


def _identity(name: str) -> str:
    """What no other disk has until the next boot: the kernel numbers disks as they appear."""
    folder = Path("/sys/block") / name
    return content(folder / "diskseq") or f"{content(folder / 'dev')} {content(folder / 'size')}"


def _refuse_use(name: str, path: str) -> None:
    """LabError for a disk that something uses.

    The kernel gives a disk to one file system, swap, LVM or RAID at a time. Loop devices and processes just open it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        raise LabError(f"{path} can't be written: {error.strerror}", f"lsblk {path}   shows what uses it") from error
    parts = {f"/dev/{part.parent.name}" for part in Path("/sys/block", name).glob("*/partition")}
    files = {path, *parts, content(Path("/sys/block", name, "loop/backing_file")) or path}
    for loop in Path("/sys/block").glob("loop*/loop/backing_file"):
        if loop.parent.parent.name != name and content(loop) in files:
            raise LabError(f"{path} is in use by {loop.parent.parent.name}", "losetup --list")
    for one in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(one) in {path, *parts}:
                raise LabError(f"{path} is open in process {one.parts[2]}", f"ps -p {one.parts[2]}")


def _content(path: str) -> str:
    """The kinds of signatures on a disk: partition tables, file systems, members of something."""
    line = ["wipefs", "--no-act", "--noheadings", "--output", "TYPE", path]
    found = subprocess.run(line, capture_output=True, text=True, check=False)
    if found.returncode:
        raise LabError(f"{path} can't be read: {found.stderr.strip()}", f"wipefs --no-act {path}")
    return ", ".join(dict.fromkeys(found.stdout.split()))


def load(one: Target, scheduler: str, beside: Sequence[str]) -> None:
    """Have the kernel load a scheduler that the disk's list lacks, and the modules that it needs beside it.

    Those that know file systems know XFS only if it is loaded before. LabError or UsageError says why it can't.
    """
    if scheduler in SPLIT_LEVEL:
        subprocess.run(["modprobe", "-q", "xfs"], check=False)
    if scheduler not in disks.listed_in(content(Path(one.disk.folder) / "queue/scheduler") or ""):
        use.load(scheduler, Path("/"))
    for name in beside:
        if subprocess.run(["modprobe", "-q", name], check=False).returncode:
            raise LabError(f"the module {name} can't be loaded", f"modprobe {name}")


@contextmanager
def restored(one: Target) -> Iterator[None]:
    """No other command measures this disk; at the end it has the scheduler, the knobs and nr_requests that it had."""
    handle = os.open(one.disk.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise LabError(f"another command measures {one.path}", "the same command, when that one has ended") from None
    try:
        yield
    finally:
        use.restore(one.disk, Path("/"))
        os.close(handle)


def _log(text: str) -> None:
    """Write a line to the kernel's log, where there is one that takes it."""
    with suppress(OSError):
        log = os.open("/dev/kmsg", os.O_WRONLY)
        try:
            os.write(log, f"<6>{text}\n".encode())
        finally:
            os.close(log)


def run(one: Target, title: str, script: str, files: Mapping[str, bytes]) -> tuple[int, dict[str, bytes], str]:
    """Run a script in /job with its files: its exit status, its files below /out, the kernel's messages meanwhile.

    LabError if the disk is another one than was chosen, or if it is to be written and something uses it by now.
    """
    if _identity(one.disk.name) != one.identity:
        raise LabError(
            f"{one.path} is another disk than before", f"lsblk {one.path}   and the command for the right one"
        )
    if one.writes:
        _refuse_use(one.disk.name, one.path)
    with tempfile.TemporaryDirectory(prefix="sluice-run-") as folder:
        root, job, out = (Path(folder) / name for name in ("root", "job", "out"))
        for place in (root, job, out):
            place.mkdir()
        for name, data in {**files, "script": script.encode()}.items():
            (job / name).write_bytes(data)
        mark = f"sluice: {title}, {os.getpid()} {os.urandom(4).hex()}"
        _log(mark)
        line = [*SPACES, "sh", "-euc", BOX, "sh", str(root), str(job), str(out)]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        said = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False).stdout
        found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        # What went wrong before the script's own output existed.
        found["stderr"] = done.stderr + found.get("stderr", b"")
        since = said.rpartition(mark)
        return done.returncode, found, since[2].partition("\n")[2] if since[1] else ""
