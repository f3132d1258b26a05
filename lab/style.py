# SPDX-License-Identifier: GPL-2.0-only
"""Style: every checker over every file it is for, all in one go."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lab import cache, kernels, modules, progress, toolbox
from lab.errors import LabError

TOP = Path(__file__).parent.parent
# checkpatch's answers that a module outside the kernel's tree cannot satisfy.
NOT_HERE = "FILE_PATH_CHANGES,LINUX_VERSION_CODE,CONSTANT_COMPARISON"
# Tracepoints have a layout of their own, which neither checkpatch nor clang-format knows.
TRACE = "*-trace.h"
SOURCES = toolbox.Sandbox(ro={"/tmp/top": TOP}, cwd="/tmp/top")


def run() -> int:
    """Run every checker; prints what they find and returns 1 if they find anything."""
    checkers: tuple[Callable[[], None], ...] = (ruff, mypy, shellcheck, clang_format, checkpatch, sparse)
    failed = [checker.__name__ for checker in checkers if not _passes(checker)]
    if failed:
        print(f"style: {', '.join(failed)} found something", file=sys.stderr)
    return int(bool(failed))


def ruff() -> None:
    """Ruff's lint over all Python."""
    _here("ruff", "check", "--quiet", ".")


def mypy() -> None:
    """Strict types over all Python."""
    _here("mypy", "--no-error-summary")
    for analysis in _files("experiments/*.py"):
        _here("mypy", "--no-error-summary", analysis)


def shellcheck() -> None:
    """shellcheck over every shell script, known by name or first line."""
    _boxed(
        "shellcheck",
        "--external-sources",
        "--source-path=lab/guest",
        "--exclude=SC2119",
        *(name for name in _files() if _is_shell(TOP / name)),
    )


def clang_format() -> None:
    """The kernel's layout, by .clang-format, over C that is ours."""
    _boxed("clang-format", "--dry-run", "-Werror", *_files("*.c", "*.h", f":!{TRACE}"))


def checkpatch() -> None:
    """The kernel's own checkpatch, strict, over the kernel's side."""
    line = ["perl", "/tmp/scripts/checkpatch.pl", "--no-tree", "--strict", "--terse", "--no-summary"]
    box = replace(SOURCES, ro={**SOURCES.ro, "/tmp/scripts": kernels.checkpatch()})
    toolbox.run([*line, "--ignore", NOT_HERE, "-f", *_files("kernel/*.c", "kernel/*.h", f":!{TRACE}")], box)


def sparse() -> None:
    """sparse over the modules; its warnings about the kernel's own headers are not ours."""
    kernel = kernels.get(kernels.DEFAULT)

    def check(part: Path) -> None:
        part.mkdir()
        printed = modules.make(kernel, part, "C=2", "modules")
        found = [line for line in printed.splitlines() if "/tmp/out/" in line and re.search("warning:|error:", line)]
        if found:
            raise LabError("sparse has warnings", "make style   after mending them", "\n".join(found))

    cache.once(cache.root() / "build" / f"sparse-{modules.key(kernel)}", check)


def _passes(checker: Callable[[], None]) -> bool:
    try:
        with progress.step(f"Style: {checker.__name__}"):
            checker()
    except LabError as error:
        print(error.detail, file=sys.stderr)
        return False
    return True


def _here(module: str, *args: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, *args], cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{module} found something", "make style   after mending it", done.stdout + done.stderr)


def _boxed(*args: str) -> None:
    toolbox.run(args, SOURCES)


def _files(*patterns: str) -> Sequence[str]:
    """Files that git knows of, or would."""
    line = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns, ":!tests/golden"]
    return subprocess.run(line, cwd=TOP, capture_output=True, text=True, check=True).stdout.split()


def _is_shell(path: Path) -> bool:
    with path.open("rb") as handle:
        first = handle.readline()
    return path.suffix == ".sh" or (first.startswith(b"#!") and b"sh\n" in first)
