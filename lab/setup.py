# SPDX-License-Identifier: GPL-2.0-only
"""Set-up: everything that a run needs, made beforehand and side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lab import cache, image, machine, modules, progress, toolbox

FIRST_RUN = """\
sluice: first run. It downloads Debian packages into {cache}: a toolbox with gcc and QEMU (110 MB), a guest
        (80 MB), Linux {names} (120 MB each). They take {size} GB there."""
FIRST_RUN_MIB = 4096


def ready(names: Sequence[str], wanted: Sequence[str] = (), machines: bool = True) -> None:
    """Make the toolbox, and for each named kernel its saved machine and the wanted modules, or all.

    It is quick if they exist.
    """
    if not toolbox.exists():
        cache.need_space(FIRST_RUN_MIB)
        progress.say(FIRST_RUN.format(names=", ".join(names), cache=cache.root(), size=1 + len(names)))
    steps: list[Callable[[], object]] = [toolbox.path]
    for name in names:
        steps += [*([partial(_machine, name)] if machines else []), partial(modules.build, name, *wanted)]
    side_by_side(steps)


def _machine(name: str) -> None:
    """A kernel's machine. The guest's root comes first: it needs neither the toolbox nor the kernel."""
    image.rootfs()
    machine.get(name)


def side_by_side(steps: Sequence[Callable[[], object]]) -> None:
    """Run steps three at a time, since one of three mostly downloads; the first error, or Ctrl-C, ends all."""
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(step) for step in steps]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            toolbox.stop_all()
            raise
