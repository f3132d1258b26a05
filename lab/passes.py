# SPDX-License-Identifier: GPL-2.0-only
"""Passes: a check that has passed is kept under a key of all its inputs, and not repeated until the key changes.

A failure is never kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from lab import cache, job, toolbox
from lab.job import Job, Outcome

TOP = Path(__file__).parent.parent
# Whether every check is repeated.
fresh = False
# Since the last settle(): passes that were taken from the cache, and passes that may be stored there.
_used: list[Path] = []
_new: dict[Path, Outcome] = {}


def once(check: Callable[[], object], *inputs: str | bytes) -> None:
    """Do a check that depends only on these inputs and the toolbox, unless it has passed with them before."""
    place = cache.root() / "passes" / cache.key(toolbox.identity(), *inputs)
    if fresh:
        cache.remove(place)
    elif place.exists():
        _used.append(place)

    def build(part: Path) -> None:
        check()
        part.touch()

    cache.once(place, build)


def outcome(one: Job) -> Outcome:
    """A job's outcome: kept from an earlier pass of a test with the same job, else from a run now.

    The job's key names all that it depends on. A job's limit is not part of it: a pass is a pass, however long it
    took.
    """
    place = cache.root() / "outcomes" / job.key(one)
    if place.exists() and not fresh:
        _used.append(place)
        return job.load(place)
    _new[place] = found = job.run(one)
    return found


def settle(passed: bool) -> bool:
    """End a test: keep its runs if it passed, else forget the passes it used; returns whether it used any."""
    used = bool(_used)
    for place, found in _new.items() if passed else ():
        cache.replace(place, partial(job.save, found))
    for place in [] if passed else _used:
        cache.remove(place)
    _used.clear()
    _new.clear()
    return used


def contents(*paths: Path) -> list[bytes]:
    """Names and contents of files of the tree, and of all files in its folders: inputs of a check."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    sources = [file for file in files if file.is_file() and "__pycache__" not in file.parts]
    return [part for file in sources for part in (str(file.relative_to(TOP)).encode(), file.read_bytes())]
