# SPDX-License-Identifier: GPL-2.0-only
"""Progress of long steps, on stderr: a live line each on a terminal, one line at start and end elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_lock = threading.Lock()
_live: Progress | None = None
_users = 0


class Step:
    """One long step; `note` says what it does at the moment."""

    def __init__(self, title: str, bar: Progress | None) -> None:
        self.title = title
        self._bar = bar
        self._task = bar.add_task(title, note="", total=None) if bar else None

    def note(self, text: str) -> None:
        """Show a few words beside the title (terminal only)."""
        if self._bar and self._task is not None:
            self._bar.update(self._task, note=text[:60])

    def count(self, done: int, total: int) -> None:
        """Show how many parts are done."""
        if self._bar and self._task is not None:
            self._bar.update(self._task, note=f"{done}/{total}", completed=done, total=total)

    def close(self) -> None:
        """Take the line away."""
        if self._bar and self._task is not None:
            self._bar.remove_task(self._task)


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Show that a step runs and, when it ends, how many seconds it took."""
    start = time.monotonic()
    bar = _acquire()
    if bar is None:
        say(f"{title} …")
    line = Step(title, bar)
    try:
        yield line
        say(f"{title}: {time.monotonic() - start:.0f} s")
    finally:
        line.close()
        _release()


def say(text: str) -> None:
    """Print a line on stderr without disturbing the live ones."""
    if _live is not None:
        _live.console.print(text, markup=False, highlight=False)
    else:
        print(text, file=sys.stderr, flush=True)


def _acquire() -> Progress | None:
    """The terminal's live display, started by its first user; None where stderr is no terminal."""
    global _live, _users
    if not sys.stderr.isatty():
        return None
    with _lock:
        if _live is None:
            _live = _display()
            _live.start()
        _users += 1
        return _live


def _release() -> None:
    global _live, _users
    with _lock:
        _users = max(0, _users - 1)
        if _users == 0 and _live is not None:
            _live.stop()
            _live = None


def stop() -> None:
    """Take the live display away, whoever uses it."""
    global _live
    with _lock:
        if _live is not None:
            _live.stop()
            _live = None


def _display() -> Progress:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
