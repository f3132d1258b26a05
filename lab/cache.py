# SPDX-License-Identifier: GPL-2.0-only
"""The cache folder: everything the lab builds or downloads, each thing built once and whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from lab.errors import HostFull

# Set when the command is interrupted: threads that wait or are about to start something end instead.
stopping = threading.Event()


def root() -> Path:
    """The cache folder: $SLUICE_CACHE, else sluice/ in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("SLUICE_CACHE") or f"{home}/sluice")


def failed() -> Path:
    """The folder of the failed jobs: each is a file whose name is the job's key."""
    return root() / "failed"


def key(*parts: str | bytes) -> str:
    """A short name for a list of inputs: the same inputs, the same name."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def once(target: Path, build: Callable[[Path], None]) -> Path:
    """Return `target`, building it first if it is not there.

    `build` fills a path beside the target, which is renamed when complete: an interrupted build leaves nothing that
    looks finished. A second process that wants the same thing waits for the first.
    """
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target), host_space():
            if not target.exists():
                _build(target, build)
    return target


def replace(target: Path, build: Callable[[Path], None]) -> None:
    """Build `target` in place of the present one: like once(), but the old is removed only when the new is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target), host_space():
        _build(target, build)


def _build(target: Path, build: Callable[[Path], None]) -> None:
    part = target.with_name(target.name + ".part")
    remove(part)
    try:
        build(part)
        # A file can be replaced in one step, a folder cannot.
        if part.is_dir() or target.is_dir():
            remove(target)
        part.rename(target)
    finally:
        remove(part)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock that belongs to `target`; the kernel drops it when the process ends."""
    with target.with_name(target.name + ".lock").open("w") as handle:
        while not _try_lock(handle):
            if stopping.wait(0.2):
                raise KeyboardInterrupt
        yield


def _try_lock(handle: TextIO) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def processors() -> Iterator[set[int]]:
    """A processor of the host that no other guest of this cache uses, in any process; all of them when none is left."""
    everyone = os.sched_getaffinity(0)
    root().mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for number in sorted(everyone):
            handle = stack.enter_context((root() / f"processor-{number}.lock").open("w"))
            if _try_lock(handle):
                yield {number}
                return
        yield everyone


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one run, removed afterwards, as are the folders of runs that were killed."""
    base = root() / "run"
    base.mkdir(parents=True, exist_ok=True)
    _sweep(base)
    with host_space():
        path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))
        try:
            yield path
        finally:
            remove(path)


@contextmanager
def host_space() -> Iterator[None]:
    """Turn the host's 'no space left' into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise host_full() from error


def need_space(mib: int) -> None:
    """HostFull unless the cache's disk has that many MiB free."""
    root().mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(root()).free < mib << 20:
        raise host_full(f"has less than {mib} MiB free")


def host_full(how: str = "is full") -> HostFull:
    """The error for a host disk without room."""
    return HostFull(
        f"the disk that holds {root()} {how}",
        f"df -h {root()}   and make room, or put the cache elsewhere: SLUICE_CACHE=/path ./sluice …",
    )


def remove(path: Path) -> None:
    """Remove a file or a tree, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=_force)
    else:
        path.unlink(missing_ok=True)


def _force(function: Callable[[str], object], path: str, why: tuple[type[BaseException], object, object]) -> None:
    """Retry a removal that a read-only folder refused; another process may have removed the path first."""
    if issubclass(why[0], FileNotFoundError):
        return
    os.chmod(os.path.dirname(path), 0o700)
    function(path)


def _sweep(base: Path) -> None:
    for path in base.iterdir():
        pid = path.name.split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            remove(path)
