# SPDX-License-Identifier: GPL-2.0-only
"""A real disk of this host on which experiments run: whether it may be used, and one run, in namespaces of its own.

Imports only Python's standard library, so that it runs on any host; fio does the I/O.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, UsageError
from lab.host import disk as disks
from lab.host import use
from lab.host.disk import Disk, content
from lab.host.doctor import SPLIT_LEVEL

# The programs that a run needs, each with its package in Debian.
PROGRAMS = {"fio": "fio", "modprobe": "kmod", "python3": "python3", "unshare": "util-linux", "wipefs": "util-linux"}
# The script sees the host's files, with /job, /out and /tmp of its own. What it mounts and starts ends with it.
BOX = r"""
mount -t tmpfs -o mode=755 sluice "$1"
for top in /*; do
	if [ -L "$top" ]; then
		cp -P "$top" "$1"
	elif [ -d "$top" ]; then
		mkdir "$1$top"
		case $top in /tmp | /proc | /job | /out) ;; *) mount --rbind "$top" "$1$top" ;; esac
	fi
done
mount -t proc proc "$1/proc"
chmod 1777 "$1/tmp"
mkdir -p "$1/job" "$1/out"
mount --bind "$2" "$1/job"
mount --bind "$3" "$1/out"
exec chroot "$1" sh -c 'cd /job && exec sh -eu ./script >/out/stdout 2>/out/stderr </dev/null'
"""
SPACES = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True)
class Target:
    """A disk to measure: what it was when it was chosen, and what it is in words."""

    disk: Disk
    about: str

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
    name = disks.find(device, command="run EXPERIMENT --device", loops=True)
    found = Target(disks.read(name), _about(name))
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
        _refuse_use(path)
        held = "" if destroy else _content(path)
        if held:
            raise UsageError(f"{path} holds something ({held}), which would be lost", f"--destroy {path}   to lose it")
    return found


def _about(name: str) -> str:
    """A disk's model and size."""
    folder = Path("/sys/block") / name
    size = int(content(folder / "size") or 0) * 512 / 1e9
    return f"/dev/{name}, {content(folder / 'device/model') or 'no model name'}, {size:.3g} GB"


def _refuse_use(path: str) -> None:
    """LabError for a disk that a file system, swap, LVM or a RAID has: the kernel gives it to one at a time."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        raise LabError(f"{path} can't be written: {error.strerror}", f"lsblk {path}   shows what uses it") from error


def _content(path: str) -> str:
    """The kinds of signatures on a disk: partition tables, file systems, members of something."""
    line = ["wipefs", "--no-act", "--noheadings", "--output", "TYPE", path]
    found = subprocess.run(line, capture_output=True, text=True, check=False)
    if found.returncode:
        raise LabError(f"{path} can't be read: {found.stderr.strip()}", f"wipefs --no-act {path}")
    return ", ".join(dict.fromkeys(found.stdout.split()))


def load(one: Target, scheduler: str) -> None:
    """Have the kernel load a scheduler that the disk's list lacks; LabError or UsageError says why it can't.

    Those that know file systems know XFS only if it is loaded before.
    """
    if scheduler in SPLIT_LEVEL:
        subprocess.run(["modprobe", "-q", "xfs"], check=False)
    if scheduler not in disks.listed_in(content(Path(one.disk.folder) / "queue/scheduler") or ""):
        use.load(scheduler, Path("/"))


@contextmanager
def restored(one: Target) -> Iterator[None]:
    """At the end the disk has the scheduler, the knobs and nr_requests that it had."""
    try:
        yield
    finally:
        use.restore(one.disk, Path("/"))


def run(title: str, script: str, files: Mapping[str, bytes]) -> tuple[int, dict[str, bytes], str]:
    """Run a script in /job with its files: its exit status, its files below /out, the kernel's messages meanwhile."""
    with tempfile.TemporaryDirectory(prefix="sluice-run-") as folder:
        root, job, out = (Path(folder) / name for name in ("root", "job", "out"))
        for place in (root, job, out):
            place.mkdir()
        for name, data in {**files, "script": script.encode()}.items():
            (job / name).write_bytes(data)
        mark = f"sluice: {title}, {os.getpid()} {os.urandom(4).hex()}"
        Path("/dev/kmsg").write_text(f"<6>{mark}\n", encoding="utf-8")
        line = [*SPACES, "sh", "-euc", BOX, "sh", str(root), str(job), str(out)]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        said = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False).stdout
        found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        # What went wrong before the script's own output existed.
        found["stderr"] = done.stderr + found.get("stderr", b"")
        return done.returncode, found, said.rpartition(mark)[2].partition("\n")[2]
