# SPDX-License-Identifier: GPL-2.0-only
"""The toolbox: a Debian root with every tool whose version must not depend on the host, entered through bubblewrap.

It has the tools that run guests and build their modules. Tools that only tests, style checks and other kernels need
are in a root of their own, the workshop, which is made on first use.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache as memo
from pathlib import Path

from lab import cache, progress
from lab.errors import LabError, SetupFailed, ToolMissing

SUITE = "trixie"
BUILD = ("gcc-14", "binutils", "libc6-dev", "make", "pahole", "kmod", "patch")
"""The packages that build modules for the default kernel."""
PACKAGES = (
    *BUILD,
    # takes kernels and images apart and puts them together
    *("zstd", "xz-utils", "e2fsprogs", "libarchive13t64", "busybox-static"),
    # runs guests
    *("qemu-system-x86", "util-linux"),
)
WORKSHOP = (
    *BUILD,
    # builds modules for the other kernels, and a kernel
    *("gcc-12", "bc", "perl", "diffutils", "flex", "bison", "libssl-dev", "xz-utils"),
    # builds iolat: BPF programs, their skeleton, a static loader; reads what it writes
    *("clang", "llvm", "bpftool", "libbpf-dev", "libelf-dev", "libzstd-dev", "zlib1g-dev", "jq"),
    # checks style
    *("sparse", "clang-format", "shellcheck", "python3-minimal"),
)
BACKPORTS = "-backports"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Sandbox:
    """The view that a command has of the toolbox.

    `ro` and `rw` map a path inside to the path on the host that appears there. `root`, if set, replaces the toolbox's
    own root.
    """

    ro: Mapping[str, Path] = field(default_factory=dict)
    rw: Mapping[str, Path] = field(default_factory=dict)
    cwd: str = "/"
    devices: tuple[str, ...] = ()
    root: Path | None = None


def path() -> Path:
    """The toolbox's folder, made on first use (about half a minute, 120 MB to download)."""
    return make(PACKAGES, "Toolbox: Debian 13 with gcc and QEMU")


def workshop() -> Path:
    """The workshop's folder, made on first use (about a minute, 300 MB to download)."""
    return make(WORKSHOP, "Workshop: Debian 13 with clang and the checkers of style")


def exists() -> bool:
    """Whether the toolbox has been made."""
    return _place(PACKAGES).exists()


def make(packages: Sequence[str], title: str, suite: str = SUITE) -> Path:
    """The folder of a Debian root with packages, made on first use."""
    return cache.once(_place(packages, suite), lambda part: _make(part, packages, title, suite))


def _place(packages: Sequence[str], suite: str = SUITE) -> Path:
    return cache.root() / f"toolbox-{cache.key(suite, *packages)}"


@memo
def identity(root: Path | None = None) -> str:
    """A name for the exact package versions in the toolbox, or in another root."""
    return hashlib.sha256(status(root).encode()).hexdigest()


def status(root: Path | None = None) -> str:
    """dpkg's list of the packages in the toolbox, or in another root."""
    return ((root or path()) / "var/lib/dpkg/status").read_text(encoding="utf-8")


def version(status: str, package: str) -> str:
    """The version of a package by the text of dpkg's list; KeyError if it isn't there."""
    found = re.search(rf"^Package: {re.escape(package)}\n(?:.+\n)*?Version: (.+)$", status, re.MULTILINE)
    if not found:
        raise KeyError(package)
    return found[1]


def command(args: Sequence[str], box: Sandbox = Sandbox(), env: Mapping[str, str] | None = None) -> list[str]:
    """The command line that runs `args` in the toolbox; its processes die with the caller.

    Nothing of the host's environment gets in, and there is no network.
    """
    root = box.root or path()
    line = [_need("bwrap", "bubblewrap"), "--ro-bind", str(root), "/", "--dev", "/dev", "--proc", "/proc"]
    line += ["--tmpfs", "/tmp", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--die-with-parent", "--clearenv"]
    for name, value in {**ENVIRONMENT, **(env or {})}.items():
        line += ["--setenv", name, value]
    if os.getuid() != 0:
        line += ["--unshare-user", "--uid", "0", "--gid", "0"]
    for device in box.devices:
        line += ["--dev-bind-try", device, device]
    for inside, outside in box.ro.items():
        line += ["--ro-bind", str(outside), _mount_point(root, inside)]
    for inside, outside in box.rw.items():
        line += ["--bind", str(outside), _mount_point(root, inside)]
    return [*line, "--chdir", box.cwd, "--", *args]


def run(args: Sequence[str], box: Sandbox = Sandbox(), stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
    """Run a command in the toolbox and return what it prints; SetupFailed with its last lines if it fails."""
    with _child(command(args, box, env)) as child:
        return _printed(child, args, stdin)


def on_host(args: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Run a program of the host in a folder and return what it prints; SetupFailed with its last lines if it fails."""
    with _child([_need(args[0]), *args[1:]], {**os.environ, **env, "LC_ALL": "C.UTF-8"}, cwd) as child:
        return _printed(child, args)


def _printed(child: subprocess.Popen[bytes], args: Sequence[str], stdin: bytes = b"") -> str:
    stdout, stderr = child.communicate(stdin)
    if child.returncode:
        raise failed(" ".join(args[:3]), stdout + stderr)
    return stdout.decode(errors="replace")


_children: set[subprocess.Popen[bytes]] = set()


@contextmanager
def _child(
    args: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A child process that `stop_all` can end."""
    if cache.stopping.is_set():
        raise KeyboardInterrupt
    pipe = subprocess.PIPE
    with subprocess.Popen(args, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd) as child:
        _children.add(child)
        try:
            yield child
        finally:
            _children.discard(child)


def stop_all() -> None:
    """End every program that this process started in or for the toolbox, and their children."""
    cache.stopping.set()
    for child in list(_children):
        for pid in [*descendants(child.pid), child.pid]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)


def descendants(pid: int) -> list[int]:
    """The descendants of `pid`, youngest first."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text(encoding="ascii").split()):
            found += [*descendants(child), child]
    return found


def failed(
    what: str, output: bytes, next_step: str = "the same command again; it goes on where it stopped"
) -> LabError:
    """The error for a command that failed, with the end of what it printed."""
    text = output.decode(errors="replace")
    if "No space left on device" in text:
        return cache.host_full()
    return SetupFailed(f"{what} failed", next_step, "\n".join(text.splitlines()[-20:]))


@memo
def sources(suite: str = SUITE) -> tuple[str, ...]:
    """apt source lines for a Debian suite, from the mirrors that the host's own apt uses.

    Backports have no suite of updates, and come with the suite that they are for; sid has neither updates nor security.
    """
    main, security = _mirrors()
    signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    if suite.endswith(BACKPORTS):
        return (*sources(suite.removesuffix(BACKPORTS)), f"deb {signed} {main} {suite} main")
    if suite == "sid":
        # A mirror that lags behind has a list whose validity of a week is over; the signature counts all the same.
        return (f"deb {signed.removesuffix(']')} check-valid-until=no] {main} sid main",)
    lines = [f"deb {signed} {main} {suite} main", f"deb {signed} {main} {suite}-updates main"]
    return (*lines, f"deb {signed} {security} {suite}-security main")


def bootstrap(packages: Sequence[str], title: str, target: Path, *options: str, suite: str = SUITE) -> None:
    """Make a Debian root of `packages` as a tar file; needs no root where the host allows user namespaces."""
    args = [_need("mmdebstrap"), "--format=tar", "--dpkgopt=force-unsafe-io", *options]
    args += [f"--include={','.join(packages)}", suite.removesuffix(BACKPORTS), str(target), *sources(suite)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    with progress.step(title) as step, _child(args, env) as child:
        output = _follow(child, step)
        if child.wait():
            raise failed("mmdebstrap", output)


def _follow(child: subprocess.Popen[bytes], step: progress.Step) -> bytes:
    assert child.stderr is not None
    lines = []
    for line in child.stderr:
        lines.append(line)
        step.note(line.decode(errors="replace").strip().removeprefix("I: "))
    return b"".join(lines)


def _make(part: Path, packages: Sequence[str], title: str, suite: str) -> None:
    tar = part.with_name(part.name + ".tar")
    try:
        bootstrap(packages, title, tar, "--variant=essential", suite=suite)
        part.mkdir()
        done = subprocess.run(["tar", "-C", part, "--exclude=./dev/*", "-xf", tar], capture_output=True, check=False)
        if done.returncode:
            raise failed("unpacking the toolbox", done.stderr)
    finally:
        tar.unlink(missing_ok=True)
    part.chmod(0o755)


def _mirrors() -> tuple[str, str]:
    """The main and the security archive that the host's apt knows for its own release."""
    listing = subprocess.run(
        [_need("apt-get"), "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    sites = dict(line.split(" ", 1) for line in listing.splitlines())
    return pick_mirrors(sites, _codename())


def pick_mirrors(sites: Mapping[str, str], codename: str) -> tuple[str, str]:
    """Choose from a map of suite to site; ToolMissing if the host's apt knows no Debian archive."""
    main = sites.get(codename)
    security = sites.get(f"{codename}-security")
    if main is None or security is None:
        raise ToolMissing(
            f"this host's apt knows no main and security archive of Debian ({codename})",
            "apt-get indextargets   on a Debian 12 or 13 host",
        )
    return main, security


def _codename() -> str:
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    return "unknown"


def _need(program: str, package: str = "") -> str:
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(f"{program} is not installed", f"apt-get install {package or program}")
    return found


def _mount_point(root: Path, inside: str) -> str:
    """Make sure that a path inside a root can be mounted on; the root itself is read-only to commands."""
    top = inside.lstrip("/").split("/")[0]
    if top not in ("tmp", "dev", "proc"):
        (root / inside.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return inside
