# SPDX-License-Identifier: GPL-2.0-only
"""A prompt in a guest: the same machine, modules and disks as a job's, on the terminal."""

from __future__ import annotations

import asyncio
import shlex
import sys
import termios
from dataclasses import replace

from lab import cache, job, machine, modules, qemu
from lab.errors import UsageError
from lab.job import Job

FAILED = "job.sh"
"""The name of a failed job's script in its guest."""
# The clock of a restored guest jumps here, in real time, and its kernel reports a stall: that is not for the user.
CLEAR = r"""printf '\033[H\033[2J'
"""
REPEAT = f"""\
{CLEAR}echo "Sluice on $(uname -r): sh -eux {FAILED}, the script of the job that failed. exit ends."
sh -eux ./{FAILED} </dev/null || echo "{FAILED} ended with status $?; the same command repeats it"
PS1='sluice# ' exec bash --norc -i
"""
GREETING = f"""\
{CLEAR}echo "Sluice on $(uname -r), modules loaded. DEV=$DEV Q=$Q"
echo ". ./lib.sh gives: disk PROFILE, scheduler NAME. exit ends."
PS1='sluice# ' exec bash --norc -i
"""


def run(prompt: Job) -> int:
    """Give the terminal to a guest until its shell ends; returns 0."""
    if not sys.stdin.isatty():
        raise UsageError("a shell needs a terminal", "./sluice shell   in a terminal")
    terminal = termios.tcgetattr(sys.stdin)
    try:
        asyncio.run(_run(prompt))
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal)
    return 0


def prompt(kernel: str, device: str | None) -> Job:
    """The job of a prompt: loads every module, makes the disk."""
    built = modules.build(kernel)
    load = [f"load {shlex.quote(name.removesuffix('.ko'))}" for name in built]
    disk = [f"disk {shlex.quote(device)}"] if device else []
    script = "\n".join(["DEV= Q=", ". ./lib.sh", *load, *disk, "export DEV Q", GREETING])
    return _interactive(Job(kernel, script, built))


def repeat(failed: Job) -> Job:
    """The job that runs the script of another one and then is a prompt."""
    return _interactive(replace(failed, script=REPEAT, files={**failed.files, FAILED: failed.script.encode()}))


def _interactive(one: Job) -> Job:
    return replace(one, files={**one.files, "interactive": b""}, cpu_limit_s=24 * 3600)


async def _run(prompt: Job) -> None:
    saved = prompt.machine
    with cache.scratch() as folder:
        guest = qemu.in_real_time(job.prepare(saved, prompt, folder))
        terminal = ("-chardev", "stdio,id=terminal,signal=off", "-serial", "chardev:terminal")
        async with machine.running(saved, guest, prompt.cpu_limit_s, terminal) as process:
            await process.child.wait()
