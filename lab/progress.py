# SPDX-License-Identifier: GPL-2.0-only
"""Progress of long steps, on stderr: a live line each on a terminal; elsewhere a line at start, end and each 30 s."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

SAY_EVERY_S = 30.0
LIVE_EVERY_S = 1.0

_lock = threading.Lock()
_live: Progress | None = None
_steps: list[Step] = []
_ended = threading.Event()


class Step:
    """One long step; `note` shows what it does at the moment."""

    def __init__(self, title: str, bar: Progress | None) -> None:
        self.title = title
        self._start = time.monotonic()
        self._words = ""
        self._end: float | None = None
        self._bar = bar
        self._task = bar.add_task(title, note="", total=None) if bar else None

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._start

    def note(self, words: str, left_s: float | None = None) -> None:
        """Show in a few words what the step does, and how many seconds are left, if that is known."""
        self._words = words[:60]
        self._end = None if left_s is None else time.monotonic() + left_s
        if self._bar:
            self.show()

    def show(self) -> None:
        """Show the words and the time that is left: in the live line, or in a line of its own."""
        left = [] if self._end is None else [time_left(self._end - time.monotonic())]
        words = ", ".join([*([self._words] if self._words else []), *left])
        if self._bar and self._task is not None:
            self._bar.update(self._task, note=words)
        else:
            say(f"  {self.title}: {words or f'{self.seconds:.0f} s so far'}")

    def close(self) -> None:
        """Remove the line."""
        if self._bar and self._task is not None:
            self._bar.remove_task(self._task)


def time_left(seconds: float) -> str:
    """A number of seconds in words, only as exact as an estimate can be: about 40 s left, about 3 min left."""
    if seconds > 90:
        return f"about {math.ceil(seconds / 60)} min left"
    return f"about {max(1, math.ceil(seconds / 10)) * 10} s left"


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Show that a step runs and, when it ends, how many seconds it took."""
    line = _open(title)
    try:
        yield line
        say(f"{title}: {line.seconds:.0f} s")
    finally:
        _close(line)


def say(text: str) -> None:
    """Print a line on stderr without disturbing the live ones."""
    live = _live
    if live is not None:
        live.console.print(text, markup=False, highlight=False)
    else:
        print(text, file=sys.stderr, flush=True)


def _open(title: str) -> Step:
    """A step; the first one starts the terminal's live display, and the timer that repeats the steps' words."""
    global _live, _ended
    with _lock:
        if not _steps:
            if sys.stderr.isatty():
                _live = _display()
                _live.start()
            _ended = threading.Event()
            threading.Thread(target=_repeat, args=(_ended,), daemon=True).start()
        if _live is None:
            say(f"{title} …")
        _steps.append(line := Step(title, _live))
        return line


def _repeat(ended: threading.Event) -> None:
    while not ended.wait(LIVE_EVERY_S if _live else SAY_EVERY_S):
        for line in list(_steps):
            line.show()


def _close(line: Step) -> None:
    with _lock:
        line.close()
        _steps.remove(line)
        if not _steps:
            _stop()


def stop() -> None:
    """Remove the live display, whatever uses it."""
    with _lock:
        _stop()


def _stop() -> None:
    global _live
    _ended.set()
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
