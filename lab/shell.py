# SPDX-License-Identifier: GPL-2.0-only
"""A prompt in a guest: the same machine, modules and disks as a job's, on the terminal."""

from __future__ import annotations

import asyncio
import shlex
import sys
import termios

from lab import cache, job, machine, modules, qemu
from lab.errors import UsageError

GREETING = """\
echo "Sluice on $(uname -r), modules loaded. DEV=$DEV Q=$Q"
echo ". ./lib.sh gives: disk PROFILE, scheduler NAME. exit ends."
PS1='sluice# ' exec bash --norc -i
"""


def run(kernel: str, device: str | None) -> int:
    """Give the terminal to a guest until its shell ends; returns 0."""
    if not sys.stdin.isatty():
        raise UsageError("a shell needs a terminal", "./sluice shell   in a terminal")
    terminal = termios.tcgetattr(sys.stdin)
    try:
        asyncio.run(_run(prompt(kernel, device)))
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal)
    return 0


def prompt(kernel: str, device: str | None) -> job.Job:
    """The job that is a prompt: loads every module, makes the disk."""
    built = modules.build(kernel)
    load = [f"load {shlex.quote(name.removesuffix('.ko'))}" for name in built]
    disk = [f"disk {shlex.quote(device)}"] if device else []
    script = "\n".join(["DEV= Q=", ". ./lib.sh", *load, *disk, "export DEV Q", GREETING])
    return job.Job(kernel, script, {**built, "interactive": b""}, cpu_limit_s=24 * 3600)


async def _run(prompt: job.Job) -> None:
    saved = machine.get(prompt.kernel, prompt.cpus)
    with cache.scratch() as folder:
        guest = qemu.in_real_time(job.prepare(saved, prompt, folder))
        terminal = ("-chardev", "stdio,id=terminal,signal=off", "-serial", "chardev:terminal")
        async with machine.running(saved, guest, prompt.cpu_limit_s, terminal) as process:
            await process.child.wait()
